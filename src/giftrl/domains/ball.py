"""The Euclidean ball."""

from dataclasses import dataclass

import numpy as np

from giftrl.domains.base import Vector, check_positive

__all__ = ["Ball"]


@dataclass(frozen=True)
class Ball:
    """V = {x : norm2(x) <= radius}.

    Args:
        radius: positive.

    >>> Ball(1.0).project(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        check_positive("radius", self.radius)

    def contains(self, x: Vector, tolerance: float = 1e-9) -> bool:
        return bool(np.linalg.norm(x) <= self.radius * (1.0 + tolerance))

    def project(self, x: Vector) -> Vector:
        norm = float(np.linalg.norm(x))
        return x if norm <= self.radius else x * (self.radius / norm)

    def support(self, theta: Vector) -> float:
        return self.radius * float(np.linalg.norm(theta))

    def check_dimension(self, dimension: int) -> None:
        pass
