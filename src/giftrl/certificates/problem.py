"""The rows that were kept whole, and a linear term for the others, as a function to minimise."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from giftrl.certificates import loops
from giftrl.certificates.ball import price
from giftrl.certificates.scaled import Scaled
from giftrl.certificates.units import Array
from giftrl.compiled.compiler import ready
from giftrl.ops.loss_scale import kinked


@dataclass(frozen=True)
class Problem:
    """The least F(z) = sum_i h_i phi(<A_i, z>; y_i) - <theta, z> + (ridge/2)|z|^2 over |z| <= radius, and its dual.

    The dual is to maximise D(a) = -sum_i h_i phi*(a_i) - price(|theta - A' (h a)|) over slopes a. D(a) <= F(z) for
    every pair, and the solutions of a smooth problem have a_i = phi'(<A_i, z>).

    A loss with kinks is smoothed by a penalty on its dual: phi*(a) + (eps/2)(a - b)^2, with the slopes b of an earlier
    solution in ``lean``. The slope of the smoothed loss is the proximal slope of phi at p + eps b, which is in the
    domain of phi* for any eps. The penalty is 0 at a = b, so repeating this leads to the solution although eps stays
    away from 0: it is the proximal point method for the dual (Rockafellar 1976).

    Attributes:
        loss: a loss of one prediction or of K scores.
        rows: in the coordinates of some units.
        labels: y.
        weights: h.
        theta: in the same coordinates, with K columns for K scores.
        radius: of the ball, infinity for none.
        ridge: the strength of the penalty.
        floor: a bound that is not above this number is of no use.

    >>> import numpy as np, scipy.sparse as sp
    >>> from giftrl.certificates.units import Units
    >>> from giftrl.losses import Squared
    >>> rows = Scaled(sp.csr_array(np.array([[2.0], [-2.0]])), Units.of_features(np.array([8.0]), 2.0), np.zeros(1))
    >>> problem = Problem(Squared(), rows, np.array([1.0, 0.0]), np.ones(2), np.zeros(1), 2.0)
    >>> z = np.array([0.5])
    >>> problem.primal(z, rows.scores(z)), problem.dual(rows.scores(z), np.array([-0.5, -0.5]))[0]
    (0.25, 0.25)
    """

    loss: Any
    rows: Scaled
    labels: Any
    weights: Array
    theta: Array
    radius: float
    ridge: float = 0.0
    floor: float = -math.inf

    @cached_property
    def smooth(self) -> bool:
        """Whether the loss is curved where it matters, so that Newton's method works without smoothing it."""
        return not kinked(self.loss)

    @property
    def classes(self) -> int | None:
        return self.theta.shape[1] if self.theta.ndim == 2 else None

    def land(self, p: Array, eps: float, lean: Array) -> tuple[Array, float, Array]:
        """The slopes at the scores p, the sum of smoothed losses, and curvatures (K scores: nothing)."""
        return land(self.loss, self.labels, self.weights, p, eps, lean)

    def dual(self, p: Array, a: Array) -> tuple[float, Array]:
        """D(a), and A'(h a); an a outside the domain of phi* is replaced by the slope at p."""
        phi_star = np.empty(len(a))
        ready(loops.conjugates if a.ndim == 1 else loops.conjugate_scores)(self.loss, p, self.labels, a, phi_star)
        gathered = self.rows.gather(self.weighted(a))
        norm = float(np.linalg.norm(self.theta - gathered))
        return -float(self.weights @ phi_star) - price(norm, self.radius, self.ridge), gathered

    def primal(self, z: Array, p: Array) -> float:
        """F(z)."""
        return loss_sum(self.loss, self.labels, self.weights, p) + self.linear(z)

    def linear(self, z: Array) -> float:
        """The part of F that is not the loss of a row."""
        return 0.5 * self.ridge * float(np.vdot(z, z)) - float(np.vdot(self.theta, z))

    def weighted(self, a: Array) -> Array:
        """h_i a_i."""
        out: Array = (a.T * self.weights).T
        return out

    def hessian(self, p: Array, eps: float, lean: Array, bend: Array) -> Array:
        """The second derivatives of the smoothed F without its ridge, as a full matrix."""
        if p.ndim == 1:
            return self.rows.moments(self.weights * bend)
        n, k = p.shape
        block = np.empty((n, k, k))
        ready(loops.blocks)(self.loss, p, self.labels, eps, lean, np.empty((3, k)), block)
        block = 0.5 * self.weights[:, None, None] * (block + block.transpose(0, 2, 1))
        m = len(self.rows.features)
        out = np.empty((m, k, m, k))
        for i in range(k):
            for j in range(i, k):
                out[:, i, :, j] = out[:, j, :, i] = self.rows.moments(np.ascontiguousarray(block[:, i, j]))
        return out.reshape(m * k, m * k)

    def times(self, v: Array, p: Array, eps: float, lean: Array, bend: Array) -> Array:
        """The product of :meth:`hessian` and v."""
        direction = self.rows.scores(v)
        if p.ndim == 1:
            return self.rows.gather(self.weights * bend * direction)
        size = float(np.abs(direction).max(initial=0.0))
        if size == 0.0:
            return np.zeros_like(v)
        step = (loops.STEP * eps if eps > 0.0 else loops.STEP) / size
        high, low = self.land(p + step * direction, eps, lean)[0], self.land(p - step * direction, eps, lean)[0]
        return self.rows.gather(self.weighted((high - low) / (2.0 * step)))


def land(loss: Any, labels: Any, weights: Array, p: Array, eps: float, lean: Array) -> tuple[Array, float, Array]:
    """The slopes at the scores p, the sum of losses that are smoothed by eps, and curvatures (K scores: nothing)."""
    a, phi, bend = np.empty_like(p), np.empty(len(p)), np.empty(len(p) if p.ndim == 1 else 0)
    if p.ndim == 1:
        ready(loops.land)(loss, p, labels, eps, lean, a, phi, bend)
    else:
        ready(loops.land_scores)(loss, p, labels, eps, lean, a, phi, np.empty(p.shape[1]))
    return a, float(weights @ phi), bend


def loss_sum(loss: Any, labels: Any, weights: Array, p: Array) -> float:
    """The sum by weight of the losses at the scores p.

    >>> from giftrl.losses import Squared
    >>> loss_sum(Squared(), np.array([1.0, 0.0]), np.array([1.0, 2.0]), np.array([3.0, 1.0]))
    3.0
    """
    phi = np.empty(len(p))
    ready(loops.values)(loss, p, labels, phi)
    return float(weights @ phi)
