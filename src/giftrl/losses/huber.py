"""The Huber loss."""

import math
from typing import NamedTuple

from giftrl.errors import require_positive
from giftrl.ops import validated
from giftrl.ops.scalar import clamp, decay_mean


@validated
class Huber(NamedTuple):
    """Squared near the label and absolute far from it, for real labels.

    With r = p - y: phi(p; y) = r^2 / 2 if abs(r) <= delta, delta (abs(r) - delta / 2) beyond; differentiable.
    phi*(a) = a^2 / 2 + a y for abs(a) <= delta.

    Args:
        delta: the residual at which the loss becomes linear, positive.

    >>> Huber(1.0).value(3.0, 0.0)
    2.5
    >>> Huber(1.0).prox(3.0, 0.0, 1.0)
    1.0
    """

    delta: float = 1.0

    def validate(self) -> None:
        require_positive("delta", self.delta)

    def residual(self) -> bool:
        return True

    def value(self, p: float, y: float) -> float:
        r = abs(p - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def slope(self, p: float, y: float) -> float:
        return clamp(p - y, -self.delta, self.delta)

    def kinked(self) -> bool:
        # The loss may be linear almost everywhere.
        return True

    def infimum(self, y: float) -> float:
        return 0.0

    def smoothness(self) -> float:
        return 1.0

    def curvature(self, p: float, y: float) -> float:
        return 1.0 if abs(p - y) < self.delta else 0.0

    def conjugate(self, a: float, y: float) -> float:
        return a * (0.5 * a + y) if abs(a) <= self.delta else math.inf

    def prox(self, p: float, y: float, c: float) -> float:
        return clamp((p - y) / (1.0 + c), -self.delta, self.delta)

    def flow(self, p: float, y: float, c: float) -> float:
        # The residual falls at the constant rate c delta until it is delta, then decays like exp(-c tau).
        r, delta = abs(p - y), self.delta
        if c == 0.0 or r - delta >= c * delta:
            a = r
        else:
            straight = max(0.0, r - delta)
            left = c - straight / delta
            a = straight / c + min(r, delta) * (left / c) * decay_mean(left)
        return math.copysign(min(a, delta), p - y)
