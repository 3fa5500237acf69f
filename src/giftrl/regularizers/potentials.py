"""Potentials: forms of psi_t, with values, gradients and divergences. :mod:`giftrl.mirror` minimises them."""

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Potential(Protocol):
    """A convex function psi on R^d.

    >>> import numpy as np
    >>> from giftrl import Learner
    >>> psi = Learner(2, schedule="constant").trace.psi
    >>> psi.value(np.array([3.0, 4.0])), psi.dual_norm(np.array([3.0, 4.0]))
    (12.5, 5.0)
    """

    def value(self, x: Vector) -> float:
        """psi(x)."""

    def gradient(self, x: Vector) -> Vector:
        """grad psi(x), of the differentiable part."""

    def divergence(self, x: Vector, y: Vector) -> float:
        """B(x; y), the Bregman divergence of the differentiable part."""

    def dual_norm(self, z: Vector) -> float:
        """The dual of the norm in which psi is strongly convex."""


class Diagonal(NamedTuple):
    """psi(x) = sum_j strength_j x_j^2 / 2 - <tilt, x> + offset + l1 norm1(x).

    A sum of quadratics with different centres is again of this form: a gain sigma centred at v adds sigma to the
    strength, sigma v to the tilt and sigma v^2 / 2 to the offset. ``memory`` has the accumulators q_j.
    """

    strength: Vector
    tilt: Vector
    offset: float
    l1: float
    memory: Vector

    def value(self, x: Vector) -> float:
        square = 0.5 * float(self.strength @ (x * x)) - float(self.tilt @ x) + self.offset
        return square + self.l1 * float(np.abs(x).sum())

    def gradient(self, x: Vector) -> Vector:
        return self.strength * x - self.tilt

    def divergence(self, x: Vector, y: Vector) -> float:
        return 0.5 * float(self.strength @ ((x - y) * (x - y)))

    def dual_norm(self, z: Vector) -> float:
        return float(np.linalg.norm(z))

    def inverse_form(self, s: Vector) -> float:
        """<s, D s>, D the inverse Hessian."""
        return float((s * s) @ (1.0 / self.strength))


class FullQuadratic(NamedTuple):
    """psi(x) = <x, matrix x> / 2 - <tilt, x> + offset, stored with the inverse of the matrix."""

    matrix: NDArray[np.float64]
    inverse: NDArray[np.float64]
    tilt: Vector
    offset: float
    lam: float
    age: int

    def value(self, x: Vector) -> float:
        return 0.5 * float(x @ self.matrix @ x) - float(self.tilt @ x) + self.offset

    def gradient(self, x: Vector) -> Vector:
        return self.matrix @ x - self.tilt

    def divergence(self, x: Vector, y: Vector) -> float:
        return 0.5 * float((x - y) @ self.matrix @ (x - y))

    def dual_norm(self, z: Vector) -> float:
        return float(np.linalg.norm(z))

    def inverse_form(self, s: Vector) -> float:
        """<s, D s>, D the inverse Hessian."""
        return float(s @ self.inverse @ s)


class NegativeEntropy(NamedTuple):
    """psi(x) = lam (sum_j x_j log x_j + log d) on x >= 0.

    The constant makes psi the divergence from the uniform distribution on the simplex of total 1: not negative, growing
    with lam, and lam-strongly convex there in the L1 norm.
    """

    lam: float
    dimension: int

    def value(self, x: Vector) -> float:
        positive = x[x > 0]
        return self.lam * (float(positive @ np.log(positive)) + math.log(self.dimension))

    def gradient(self, x: Vector) -> Vector:
        # A coordinate that underflowed to 0 stays 0; the log of the smallest number replaces -infinity.
        return self.lam * (1.0 + np.log(np.maximum(x, np.finfo(float).tiny)))

    def divergence(self, x: Vector, y: Vector) -> float:
        safe = np.maximum(y, np.finfo(float).tiny)
        both = x > 0
        return self.lam * max(0.0, float(x[both] @ np.log(x[both] / safe[both]) - x.sum() + y.sum()))

    def dual_norm(self, z: Vector) -> float:
        return float(np.abs(z).max())


class SquaredPNorm(NamedTuple):
    """psi(x) = (lam/2) norm_p(x)^2, 1 < p <= 2; lam (p - 1)-strongly convex in the p-norm."""

    lam: float
    p: float

    def value(self, x: Vector) -> float:
        return 0.5 * self.lam * float(np.linalg.norm(x, self.p)) ** 2

    def gradient(self, x: Vector) -> Vector:
        return self.lam * power_link(x, self.p)

    def divergence(self, x: Vector, y: Vector) -> float:
        return max(0.0, self.value(x) - self.value(y) - float(self.gradient(y) @ (x - y)))

    def dual_norm(self, z: Vector) -> float:
        return float(np.linalg.norm(z, self.p / (self.p - 1.0)))


def power_link(v: Vector, p: float) -> Vector:
    """The gradient of norm_p(v)^2 / 2: sign(v_j) abs(v_j)^(p-1) norm_p(v)^(2-p).

    Homogeneous of degree 1, so v is first divided by its largest entry to avoid overflow.
    """
    scale = float(np.abs(v).max(initial=0.0))
    if scale == 0.0:
        return np.zeros_like(v)
    w = np.abs(v) / scale
    return np.asarray(np.copysign(scale * w ** (p - 1.0) * float(np.linalg.norm(w, p)) ** (2.0 - p), v))
