"""The interface of feasible sets."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Domain(Protocol):
    """A closed convex set V of R^d.

    >>> from giftrl.domains import Ball
    >>> unit = Ball(1.0)
    >>> unit.contains(np.array([0.6, 0.8])), unit.support(np.array([3.0, 4.0]))
    (True, 5.0)
    """

    def contains(self, x: Vector, tolerance: float = 1e-9) -> bool:
        """True if x is in V, up to a tolerance relative to the sizes of V and x."""

    def project(self, x: Vector) -> Vector:
        """The point of V nearest to x in the Euclidean norm."""

    def support(self, theta: Vector) -> float:
        """The supremum of <theta, u> over u in V; may be infinite."""

    def check_dimension(self, dimension: int) -> None:
        """Raise an error if V has another dimension; most sets exist in every dimension."""
        return


def norm(x: Vector, p: float = 2.0) -> float:
    """norm_p(x), without intermediate overflow.

    >>> norm(np.array([3e200, 0.0]))
    3e+200
    """
    largest = float(np.abs(x).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(x / largest, p))


def water_fill(t: Vector, strength: Vector, total: float) -> Vector:
    """Water filling: the parts of t above a level, divided by strengths, with the level such that they sum to the
    total.

    x_j = max(0, t_j - nu) / strength_j with sum_j x_j = total, exactly, by sorting: the solution in every projection
    on a simplex or an L1 ball.

    >>> water_fill(np.array([3.0, 1.0]), np.ones(2), 1.0)
    array([1., 0.])
    """
    order = np.argsort(t)[::-1]
    # Measured from the maximum, so that a total much smaller than t is not lost by rounding.
    below = t[order] - t[order[0]]
    weight = 1.0 / strength[order]
    levels = (np.cumsum(weight * below) - total) / np.cumsum(weight)
    above = np.nonzero(below > levels)[0]
    x = np.zeros_like(t)
    x[order] = np.maximum(0.0, below - levels[above[-1] if len(above) else 0]) * weight
    return np.asarray(x * (total / x.sum()))
