"""The loop for regularizers with one strength for all coordinates, psi_t(x) = (L_t/2) norm2(x)^2 + l1 norm1(x).

Only u = theta is stored: x_j = soft(u_j, l1)/L_t, so that growth of lambda costs nothing. psi_{t+1} is known before z_t
is chosen, unless the schedule needs z_t; so the update can use H or H'.

gamma_t needs norm2(x_{t+1} - x_t)^2 over all coordinates. Those that a row does not touch are only rescaled, which
the sum E of soft(u_j)^2 over all coordinates accounts for; without an L1 term E is norm2(theta)^2 and there is a
closed form.

Without an L1 term a round is a function of two numbers, <s, theta> and norm2(s)^2; its loops are in
:mod:`giftrl.kernels.one_uniform` and :mod:`giftrl.kernels.many_uniform`.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end, longest
from giftrl.kernels.base import Batch, weight
from giftrl.kernels.scalar_round import (
    LONGEST,
    Change,
    Parts,
    Scalars,
    changed,
    choose,
    counted,
    lambda_after,
    put_back,
    soft,
    take_out,
)
from giftrl.ops.line import Affine, at
from giftrl.ops.loss import value
from giftrl.regularizers.contract import l1_strength, strength
from giftrl.schedules.contract import evidence, known_ahead, uses_gamma

#: The column of a single model; unsigned, so that compiled code does not check its sign.
ONLY = np.uint64(0)


class Example(NamedTuple):
    """An example as a round without an L1 term sees it."""

    y: float
    h: float  # the weight
    ts: float  # <s, theta>
    n2: float  # norm2(s)^2


class UniformLine(NamedTuple):
    """pi(b) = sum_j s_j soft(u_j - h b s_j, l1)/L along one row; a walk over the row for each b."""

    v: Any
    u: Any
    big_l: float
    l1: float
    h: float

    def at(self, b: float) -> float:
        p = 0.0
        for k in range(len(self.v)):
            v = np.float64(self.v[k])
            p += v * soft(np.float64(self.u[k]) - self.h * b * v, self.l1)
        return p / self.big_l

    def energy(self, b: float) -> float:
        total = 0.0
        for k in range(len(self.v)):
            u = np.float64(self.u[k])
            after, before = soft(u - self.h * b * np.float64(self.v[k]), self.l1), soft(u, self.l1)
            total += (after - before) * (after + before)
        return total / (2.0 * self.big_l * self.h)


@formula(fast=True)
def begin_round(parts: Parts, example: Example, now: Scalars) -> tuple[float, float, float, float]:
    """The prediction, p and c of the line, and lambda_{t+1} if it is known already."""
    _, h, ts, n2 = example
    next_lam = lambda_after(parts.schedule, now, 0.0, 0.0) if known_ahead(parts.schedule) else now.lam
    per_now = 1.0 / strength(parts.psi, now.lam, 0.0)
    per_used = 1.0 / strength(parts.psi, next_lam, 0.0) if parts.ahead else per_now
    return ts * per_now, ts * per_used, min(h * n2 * per_used, LONGEST), next_lam


@formula(fast=True)
def finish_round(parts: Parts, example: Example, a: float, fall: float, next_lam: float, now: Scalars) -> Scalars:
    """The scalars after a round without an L1 term, but for the sums of the certificate; z = a s.

    ``fall`` is phi(x_t) - phi(x_{t+1}), where the schedule uses gamma.
    """
    psi, schedule = parts.psi, parts.schedule
    _, h, ts, n2 = example
    if not known_ahead(schedule):
        next_lam = lambda_after(schedule, now, 0.0, a * a * n2)
    gamma = 0.0
    if uses_gamma(schedule):
        # x_{t+1} - x_t = theta (1/L_{t+1} - 1/L_t) - a s/L_{t+1}
        before = strength(psi, now.lam, 0.0)
        per_after = 1.0 / strength(psi, next_lam, 0.0)
        shrink, step = per_after - 1.0 / before, a * per_after
        moved2 = shrink * (shrink * now.theta2 - 2.0 * step * ts) + step * step * n2
        gamma = h * fall - 0.5 * before * moved2
    grown = a * (a * n2 - 2.0 * ts)
    return changed(now, Change(next_lam, evidence(schedule, gamma, a * a * n2), grown, 0.0, now.theta2 + grown))


@formula(fast=True)
def led(parts: Parts, example: Example, line: Affine, b: float, next_lam: float) -> float:
    """The prediction at x_{t+1}. With H, b leads there."""
    if parts.ahead:
        return at(line, b)
    return (example.ts - example.h * b * example.n2) / strength(parts.psi, next_lam, 0.0)  # type: ignore[no-any-return]


@formula(fast=True)
def round_sparse(parts: Parts, y: float, h: float, v: Any, u: Any, now: Scalars) -> tuple[float, float, Scalars]:
    """One round with an L1 term, on the features v of a row and a copy u of its coordinates: p, a with z = a s, and
    the scalars after it.

    Coordinates that the row touches are compared one by one, the others through E.
    """
    psi, schedule, l1 = parts.psi, parts.schedule, l1_strength(parts.psi)
    ts, n2 = 0.0, 0.0
    for k in range(len(v)):
        s = np.float64(v[k])
        ts += s * soft(np.float64(u[k]), l1)
        n2 += s * s
    before, next_lam = strength(psi, now.lam, 0.0), now.lam
    if known_ahead(schedule):
        next_lam = lambda_after(schedule, now, 0.0, 0.0)
    p = ts / before
    line = UniformLine(v, u, strength(psi, next_lam, 0.0) if parts.ahead else before, l1, h)
    chosen = choose(parts, y, h, p, line, False)
    a = h * chosen.b
    if not known_ahead(schedule):
        next_lam = lambda_after(schedule, now, 0.0, a * a * n2)
    after = strength(psi, next_lam, 0.0)
    p_after, moved2, before2, after2, stored = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(len(v)):
        s, old = np.float64(v[k]), np.float64(u[k])
        u[k] = old - a * s
        new = np.float64(u[k])  # as it is stored, so that E is that of what is stored
        soft_old, soft_new = soft(old, l1), soft(new, l1)
        p_after += s * soft_new / after
        move = soft_new / after - soft_old / before
        moved2 += move * move
        before2 += soft_old * soft_old
        after2 += soft_new * soft_new
        stored += new * new
    shrink = 1.0 / after - 1.0 / before
    moved2 += shrink * shrink * max(0.0, now.energy - before2)
    gamma = h * (chosen.phi - value(parts.loss, p_after, y)) - 0.5 * before * moved2 if uses_gamma(schedule) else 0.0
    change = Change(next_lam, evidence(schedule, gamma, a * a * n2), 0.0, after2 - before2, stored)
    return p, a, counted(changed(now, change), h * chosen.phi, h * chosen.phi_star, h * chosen.delta)


@formula(fast=True)
def norm_squared(theta: Any, m: int) -> float:
    """norm2^2 of a column."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += np.float64(theta[j, m]) * np.float64(theta[j, m])
    return total


@formula(fast=True)
def learn_uniform(parts: Parts, batch: Batch, theta: Any, state: Any) -> int:
    """One model with an L1 term: predict, account, learn, row by row; how many rows before one that overflows."""
    rows, labels, weights, predictions = batch
    buffer = np.empty(longest(rows), theta.dtype)
    now, done = take_out(state, 0), len(labels)
    for i in range(len(labels)):
        first, last = begin(rows, i), end(rows, i)
        for k in range(first, last):
            buffer[k - first] = theta[column(rows, i, k), ONLY]
        v = rows.data[first:last]
        predictions[i], a, after = round_sparse(parts, labels[i], weight(weights, i), v, buffer, now)
        if not (abs(a) < math.inf and after.rounding < math.inf):
            done = i
            break
        for k in range(first, last):
            theta[column(rows, i, k), ONLY] = buffer[k - first]
        now = after
    put_back(state, 0, now)
    return done


@formula(fast=True)
def predict_uniform(psi: Any, lam_now: float, rows: Any, theta: Any, scores: Any) -> int:
    """Predict without learning: <s, x> with x_j = soft(theta_j, l1)/L."""
    per = 1.0 / strength(psi, lam_now, 0.0)
    for i in range(len(scores)):
        p = 0.0
        for k in range(begin(rows, i), end(rows, i)):
            p += np.float64(rows.data[k]) * soft(np.float64(theta[column(rows, i, k), 0]), l1_strength(psi))
        scores[i] = p * per
    return len(scores)
