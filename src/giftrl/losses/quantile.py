"""The quantile loss."""

import math
from typing import NamedTuple

from giftrl.errors import require
from giftrl.ops import validated
from giftrl.ops.loss import prox
from giftrl.ops.scalar import clamp


@validated
class Quantile(NamedTuple):
    """The pinball loss, for real labels; its best constant is the tau-quantile.

    phi(p; y) = tau (y - p) if p < y and (1 - tau) (p - y) if p > y, with a kink at p = y where the slope is 0.
    phi*(a) = a y for a in [-tau, 1 - tau].

    Args:
        tau: the quantile, strictly between 0 and 1.

    >>> Quantile(0.9).value(1.0, 3.0)
    1.8
    >>> Quantile(0.75).prox(1.0, 3.0, 4.0)
    -0.5
    """

    tau: float = 0.5

    def validate(self) -> None:
        require(0.0 < self.tau < 1.0, "tau", self.tau, "must lie strictly between 0 and 1", "tau=0.5 is the median")

    def residual(self) -> bool:
        return True

    def value(self, p: float, y: float) -> float:
        return max(self.tau * (y - p), (1.0 - self.tau) * (p - y))

    def slope(self, p: float, y: float) -> float:
        if p < y:
            return -self.tau
        return 1.0 - self.tau if p > y else 0.0

    def infimum(self, y: float) -> float:
        return 0.0

    def curvature(self, p: float, y: float) -> float:
        return 0.0

    def conjugate(self, a: float, y: float) -> float:
        return a * y if -self.tau <= a <= 1.0 - self.tau else math.inf

    def prox(self, p: float, y: float, c: float) -> float:
        # Slope a moves the prediction by a c: to y, or until a reaches its bound.
        r = p - y
        if c == 0.0 or r == 0.0:
            return -self.tau if r < 0.0 else (1.0 - self.tau if r > 0.0 else 0.0)
        return clamp(r / c, -self.tau, 1.0 - self.tau)

    def flow(self, p: float, y: float, c: float) -> float:
        # The slope is constant up to the kink.
        return prox(self, p, y, c)
