"""The Euclidean ball."""

from dataclasses import dataclass

from giftrl.domains.contract import Domain, Vector, norm
from giftrl.errors import require_positive


@dataclass(frozen=True)
class Ball(Domain):
    """V = {x : norm2(x) <= radius}.

    Args:
        radius: positive.

    >>> import numpy as np
    >>> Ball(1.0).project(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)

    def contains(self, x: Vector, tolerance: float = 1e-9) -> bool:
        return norm(x) <= self.radius * (1.0 + tolerance)

    def project(self, x: Vector) -> Vector:
        size = norm(x)
        return x if size <= self.radius else x / size * self.radius

    def support(self, theta: Vector) -> float:
        return self.radius * norm(theta)
