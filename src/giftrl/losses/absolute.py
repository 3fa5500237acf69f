"""The absolute loss."""

import math
from typing import NamedTuple

from giftrl.ops.loss import prox
from giftrl.ops.scalar import share, sign


class Absolute(NamedTuple):
    """The absolute error, for real labels; its best constant is the median.

    phi(p; y) = abs(p - y), with a kink at p = y where the slope is 0.
    phi*(a) = a y for abs(a) <= 1.

    >>> Absolute().value(3.0, 1.0)
    2.0
    >>> Absolute().prox(3.0, 1.0, 4.0)
    0.5
    """

    def residual(self) -> bool:
        return True

    def value(self, p: float, y: float) -> float:
        return abs(p - y)

    def slope(self, p: float, y: float) -> float:
        return sign(p - y)

    def infimum(self, y: float) -> float:
        return 0.0

    def curvature(self, p: float, y: float) -> float:
        return 0.0

    def conjugate(self, a: float, y: float) -> float:
        return a * y if abs(a) <= 1.0 else math.inf

    def prox(self, p: float, y: float, c: float) -> float:
        return sign(p - y) * share(abs(p - y), c)

    def flow(self, p: float, y: float, c: float) -> float:
        # The slope is constant up to the kink.
        return prox(self, p, y, c)
