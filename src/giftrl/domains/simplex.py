"""The simplex."""

from dataclasses import dataclass

import numpy as np

from giftrl.domains.contract import Domain, Vector, water_fill
from giftrl.errors import require_positive


@dataclass(frozen=True)
class Simplex(Domain):
    """V = {x : x_j >= 0, sum_j x_j = total}: probabilities, portfolios, mixtures.

    Args:
        total: positive.

    >>> Simplex().project(np.array([3.0, 1.0]))
    array([1., 0.])
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        require_positive("total", self.total)

    def contains(self, x: Vector, tolerance: float = 1e-9) -> bool:
        slack = tolerance * self.total
        return bool((x >= -slack).all() and abs(float(x.sum()) - self.total) <= slack)

    def project(self, x: Vector) -> Vector:
        return water_fill(x, np.ones_like(x), self.total)

    def support(self, theta: Vector) -> float:
        return self.total * float(theta.max())
