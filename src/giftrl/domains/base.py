"""What a feasible set is."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require

__all__ = ["Domain", "Vector", "check_positive", "water_level"]

Vector = NDArray[np.float64]


class Domain(Protocol):
    """A closed convex set V of R^d."""

    def contains(self, x: Vector, tolerance: float = 1e-9) -> bool:
        """Whether x is in V, up to a tolerance relative to the size of V and of x."""
        ...

    def project(self, x: Vector) -> Vector:
        """The point of V nearest to x in the Euclidean norm."""
        ...

    def support(self, theta: Vector) -> float:
        """The largest <theta, u> over u in V; infinity where there is none."""
        ...

    def check_dimension(self, dimension: int) -> None:
        """Raise unless V lives in R^dimension."""
        ...


def check_positive(argument: str, value: float) -> None:
    """Raise unless the size of a domain is positive and finite."""
    require(0.0 < value < np.inf, argument, value, "must be positive and finite", f"try {argument}=1.0")


def water_level(t: Vector, strength: Vector, total: float) -> float:
    """The level nu at which the parts of t above it, each divided by its strength, sum to the total.

    sum_j max(0, t_j - nu) / strength_j = total, exactly, by sorting: the threshold in every projection on a simplex or
    an L1 ball.

    >>> water_level(np.array([3.0, 1.0]), np.ones(2), 1.0)
    2.0
    """
    order = np.argsort(t)[::-1]
    weight = 1.0 / strength[order]
    levels = (np.cumsum(weight * t[order]) - total) / np.cumsum(weight)
    return float(levels[np.nonzero(t[order] > levels)[0][-1]])
