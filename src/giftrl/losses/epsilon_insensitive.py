"""The epsilon-insensitive loss."""

import math
from typing import NamedTuple

from giftrl.errors import require
from giftrl.ops import validated
from giftrl.ops.loss import prox
from giftrl.ops.scalar import share, sign


@validated
class EpsilonInsensitive(NamedTuple):
    """The absolute error beyond a tolerated distance, for real labels (support vector regression).

    phi(p; y) = max(0, abs(p - y) - epsilon), with kinks at abs(p - y) = epsilon where the slope is 0.
    phi*(a) = a y + epsilon abs(a) for abs(a) <= 1.

    Args:
        epsilon: the tolerated error, not negative.

    >>> EpsilonInsensitive(0.5).value(3.0, 1.0)
    1.5
    >>> EpsilonInsensitive(0.5).prox(3.0, 1.0, 3.0)
    0.5
    """

    epsilon: float = 0.1

    def validate(self) -> None:
        good = 0.0 <= self.epsilon < math.inf
        require(good, "epsilon", self.epsilon, "must be finite and not negative", "try epsilon=0.1")

    def residual(self) -> bool:
        return True

    def value(self, p: float, y: float) -> float:
        return max(0.0, abs(p - y) - self.epsilon)

    def slope(self, p: float, y: float) -> float:
        return sign(p - y) if abs(p - y) > self.epsilon else 0.0

    def infimum(self, y: float) -> float:
        return 0.0

    def curvature(self, p: float, y: float) -> float:
        return 0.0

    def conjugate(self, a: float, y: float) -> float:
        return a * y + self.epsilon * abs(a) if abs(a) <= 1.0 else math.inf

    def prox(self, p: float, y: float, c: float) -> float:
        return sign(p - y) * share(max(0.0, abs(p - y) - self.epsilon), c)

    def flow(self, p: float, y: float, c: float) -> float:
        # The slope is constant up to the kink.
        return prox(self, p, y, c)
