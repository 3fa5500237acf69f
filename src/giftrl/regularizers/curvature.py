"""Curvature, one number a coordinate."""

from typing import Any, NamedTuple


class Curvature(NamedTuple):
    """A second-order regularizer: L_{t+1,j} = L_{t,j} + h phi''(p) s_j^2 at the new prediction p, centred there.

    It starts at L_{1,j} = lambda_1, which is 1/beta for the constant schedule; a growing schedule adds its growth.
    Losses without curvature do not change it. It needs a linear model's loss, and updates use H'.

    >>> Curvature().strength(1.0, Curvature().accumulate(0.0, 0.0, 0.25))
    1.25
    """

    def accumulate(self, q: Any, z: Any, sigma: Any) -> Any:
        return q + sigma

    def strength(self, lam: float, q: Any) -> Any:
        return lam + q

    def bounded(self) -> bool:
        return True

    def centred(self) -> bool:
        return True

    def uses_curvature(self) -> bool:
        return True
