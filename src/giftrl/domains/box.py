"""The box."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from giftrl.domains.contract import Vector
from giftrl.errors import require


@dataclass(frozen=True, eq=False)
class Box:
    """V = {x : lower_j <= x_j <= upper_j}.

    Args:
        lower, upper: a number for all coordinates or one number each; infinite ones leave a side open.

    >>> Box(0.0, [1.0, 2.0]).project(np.array([-3.0, 4.0]))
    array([0., 2.])
    """

    lower: ArrayLike = -1.0
    upper: ArrayLike = 1.0

    def __post_init__(self) -> None:
        low, high = self.bounds
        require(not np.isnan(low).any(), "lower", self.lower, "must not be NaN", "use -inf for an open side")
        require(not np.isnan(high).any(), "upper", self.upper, "must not be NaN", "use inf for an open side")
        require(bool((low < np.inf).all()), "lower", self.lower, "must not be inf", "use -inf for an open side")
        require(bool((high > -np.inf).all()), "upper", self.upper, "must not be -inf", "use inf for an open side")
        fits = low.shape == high.shape or () in (low.shape, high.shape)
        require(fits, "upper", self.upper, f"must be a number or have the shape of lower, {low.shape}", "check both")
        require(bool((low <= high).all()), "lower", self.lower, "must not exceed upper", f"upper={self.upper!r}")

    @property
    def bounds(self) -> tuple[Vector, Vector]:
        """lower and upper as arrays."""
        return np.asarray(self.lower, dtype=float), np.asarray(self.upper, dtype=float)

    def contains(self, x: Vector, tolerance: float = 1e-9) -> bool:
        low, high = self.bounds
        slack = tolerance * np.maximum(1.0, np.abs(x))
        return bool((x >= low - slack).all() and (x <= high + slack).all())

    def project(self, x: Vector) -> Vector:
        return np.clip(x, *self.bounds)

    def support(self, theta: Vector) -> float:
        low, high = self.bounds
        corner = np.where(theta > 0, high, low)
        # 0 times an open side is 0.
        return float(np.sum(np.multiply(theta, corner, where=theta != 0, out=np.zeros_like(theta))))

    def check_dimension(self, dimension: int) -> None:
        for argument, bound in zip(("lower", "upper"), self.bounds, strict=True):
            fits = bound.shape in ((), (dimension,))
            rule = f"must be a number or have one entry for each of the {dimension} coordinates"
            require(fits, argument, getattr(self, argument), rule, f"it has shape {bound.shape}")
