"""Runs for the bound on the best loss: random rows for any loss, and the least loss within a ball by other means."""

import warnings
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from mpmath import mp, mpf

from giftrl import losses
from giftrl.certificates import Evidence, Units
from giftrl.ops.loss import slope, value
from giftrl.ops.vector_loss import multiclass
from giftrl.ops.vector_loss import slope as slopes
from tests.members import VARIANTS, label_for
from tests.oracles import formulas

EVERY = [cls() for cls in losses.EVERY.values()] + VARIANTS["loss"]


@dataclass
class Case:
    """Rows, labels and weights, all of them stored."""

    loss: Any
    x: Any
    y: Any
    h: Any
    evidence: Evidence
    rng: Any

    @property
    def classes(self):
        return self.evidence.theta.shape[1] if self.evidence.theta.ndim == 2 else None

    def zero(self):
        return np.zeros_like(self.evidence.theta)

    def total(self, u):
        """The loss of a model."""
        p = self.x @ u
        return float(sum(h * value(self.loss, q, y) for h, q, y in zip(self.h, p, self.y, strict=True)))

    def exact(self, u, units, radius):
        """The loss, in exact arithmetic up to 60 digits, of a model that is pulled into the ball if it is outside."""
        exactly = np.vectorize(mpf, otypes=[object])
        with mp.workdps(60):
            u = exactly(u)
            if units.relative:
                u = u - u.sum(axis=1, keepdims=True) / u.shape[1]
            z = (u.T * exactly(units.scale)).T
            if units.constant is not None:
                z[units.constant] = u[units.constant] + exactly(units.shift) @ u
            norm = mp.sqrt(mp.fsum(v * v for v in z.ravel()))
            if norm > mpf(radius):
                u = u * (mpf(radius) / norm)
            p = exactly(self.x) @ u
            rows = zip(self.h, p, self.y, strict=True)
            return mp.fsum(mpf(float(h)) * exact_value(self.loss, q, y) for h, q, y in rows)

    def slopes_at(self, u):
        """Valid duals of every row: slopes at the scores of a model."""
        p = self.x @ u
        out = np.empty_like(p)
        for i, y in enumerate(self.y):
            if self.classes is None:
                out[i] = slope(self.loss, float(p[i]), float(y))
            else:
                slopes(self.loss, p[i], int(y), out[i])
        return out

    def best(self, units, radius):
        """The least loss within the ball, by CVXPY, and a model of the ball that nearly has it."""
        d = self.x.shape[1]
        a = self.x @ units.model(np.eye(d))
        z = cp.Variable((d, self.classes) if self.classes else d)
        objective = cp.sum(cp.multiply(self.h, convex(self.loss, a @ z, self.y)))
        constraint = cp.norm(cp.vec(z, order="C")) <= radius
        problem = cp.Problem(cp.Minimize(objective), [constraint])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a solution may be inaccurate
            try:
                problem.solve(solver=cp.CLARABEL)
            except cp.SolverError:
                problem.solve(solver=cp.SCS, eps=1e-10, max_iters=100_000)
        found = np.asarray(z.value)
        norm = np.linalg.norm(found)
        found = found * min(1.0, radius / norm) if norm > 0.0 else found
        return self.total(units.model(found)), units.model(found)


def exact_value(loss, p, y):
    """phi(p; y) in mpmath. What is made of straight and square pieces needs no other formula than the loss's own."""
    if isinstance(loss, losses.Logistic):
        return mp.log1p(mp.exp(-mpf(float(y)) * p))
    if isinstance(loss, losses.Poisson):
        return mp.exp(p) - mpf(float(y)) * p
    if isinstance(loss, losses.Softmax):
        return mp.log(mp.fsum(mp.exp(v - p[y]) for v in p))
    if isinstance(loss, losses.MulticlassHinge):
        return max(mpf(0), *(1 + v - p[y] for k, v in enumerate(p) if k != y))
    return loss.value(p, mpf(float(y)))


def convex(loss, p, y):
    """The losses of all rows in CVXPY."""
    if not multiclass(loss):
        return formulas(loss).convex(loss, p, y)
    own = np.eye(p.shape[1])[y]
    mine = cp.sum(cp.multiply(p, own), axis=1)
    if isinstance(loss, losses.Softmax):
        return cp.log_sum_exp(p, axis=1) - mine
    return cp.max(p + 1.0 - own, axis=1) - mine


def make(loss, seed, n=12, d=3, constant=True, orders=0.0):
    """Random rows; features, labels and weights of up to so many orders of magnitude."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) + rng.normal(size=d)
    x[rng.random((n, d)) < 0.3] = 0.0
    y = x @ rng.normal(size=d) + rng.normal(size=n)
    x *= 10.0 ** rng.uniform(-orders, orders, d)
    if constant:
        x = np.hstack([x, np.ones((n, 1))])
    h = rng.uniform(0.2, 3.0, n) * 10.0 ** (0.25 * orders * rng.uniform(-1.0, 1.0, n))
    classes = None
    if multiclass(loss):
        classes = int(rng.integers(2, 5))
        y = np.digitize(y, np.quantile(y, np.linspace(0.0, 1.0, classes + 1)[1:-1]))
    else:
        if orders > 0.0 and not isinstance(loss, losses.Poisson):
            y = y * 10.0 ** rng.uniform(-orders, orders)
        y = np.array([label_for(loss, t) for t in y])
    c = x.shape[1] - 1 if constant else None
    return Case(loss, x, y, h, Evidence.of_rows(loss, x, y, h, loss_sum=1.0, classes=classes, constant=c), rng)


def any_model(case: Case, units: Units, radius: float):
    """A model at the edge of the ball."""
    u = case.rng.normal(size=case.evidence.theta.shape)
    z = units.coordinates(units.compared(u))
    return units.model(z * (radius / np.linalg.norm(z)))
