"""The whole space."""

import math
from dataclasses import dataclass

from giftrl.domains.contract import Domain, Vector


@dataclass(frozen=True)
class WholeSpace(Domain):
    """V = R^d: no constraint.

    >>> import numpy as np
    >>> WholeSpace().contains(np.array([1e9, -1e9]))
    True
    """

    def contains(self, x: Vector, tolerance: float = 1e-9) -> bool:
        return True

    def project(self, x: Vector) -> Vector:
        return x

    def support(self, theta: Vector) -> float:
        return math.inf if theta.any() else 0.0
