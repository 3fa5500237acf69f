"""The L1 ball."""

from dataclasses import dataclass

import numpy as np

from giftrl.domains.contract import Domain, Vector, water_fill
from giftrl.errors import require_positive


@dataclass(frozen=True)
class L1Ball(Domain):
    """V = {x : norm1(x) <= radius}.

    Args:
        radius: positive.

    >>> L1Ball(1.0).project(np.array([3.0, -1.0]))
    array([ 1., -0.])
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)

    def contains(self, x: Vector, tolerance: float = 1e-9) -> bool:
        return bool(np.abs(x).sum() <= self.radius * (1.0 + tolerance))

    def project(self, x: Vector) -> Vector:
        size = np.abs(x)
        if size.sum() <= self.radius:
            return x
        return np.copysign(water_fill(size, np.ones_like(x), self.radius), x)

    def support(self, theta: Vector) -> float:
        return self.radius * float(np.abs(theta).max())
