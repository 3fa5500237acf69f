"""The non-negative orthant."""

import math
from dataclasses import dataclass

import numpy as np

from giftrl.domains.contract import Domain, Vector


@dataclass(frozen=True)
class NonNegative(Domain):
    """V = {x : x_j >= 0}.

    >>> NonNegative().project(np.array([-3.0, 4.0]))
    array([0., 4.])
    """

    def contains(self, x: Vector, tolerance: float = 1e-9) -> bool:
        return bool((x >= -tolerance * max(1.0, float(np.abs(x).max(initial=0.0)))).all())

    def project(self, x: Vector) -> Vector:
        return np.maximum(x, 0.0)

    def support(self, theta: Vector) -> float:
        return math.inf if (theta > 0).any() else 0.0
