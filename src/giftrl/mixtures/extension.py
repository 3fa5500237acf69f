"""A loss that is continued linearly beyond a range of predictions."""

import math
from typing import Any, NamedTuple

from giftrl.ops.loss import approach_all, curvature, prox, slope, value
from giftrl.ops.scalar import clamp


class Extended(NamedTuple):
    """phi between low and high, and its tangents beyond: a prediction far outside does not cost its squared distance.

    phi(p; y) for p in [low, high]; phi(high) + phi'(high) (p - high) above; the mirror image below. Its slopes are
    those of phi between phi'(low) and phi'(high), and so is its proximal step.

    Args:
        loss: a scalar loss whose minimiser lies in the range.
        low, high: the range; may be infinite.

    >>> from giftrl.losses import Squared
    >>> Extended(Squared(), 0.0, 2.0).value(5.0, 1.0), Extended(Squared(), 0.0, 2.0).slope(5.0, 1.0)
    (3.5, 1.0)
    >>> Extended(Squared(), 0.0, 2.0).prox(5.0, 1.0, 1.0)
    1.0
    """

    loss: Any
    low: float
    high: float

    def value(self, p: float, y: float) -> float:
        q = clamp(p, self.low, self.high)
        phi = value(self.loss, q, y)
        return phi if p == q else phi + slope(self.loss, q, y) * (p - q)

    def slope(self, p: float, y: float) -> float:
        return slope(self.loss, clamp(p, self.low, self.high), y)

    def curvature(self, p: float, y: float) -> float:
        return curvature(self.loss, p, y) if self.low <= p <= self.high else 0.0

    def prox(self, p: float, y: float, c: float) -> float:
        return clamp(prox(self.loss, p, y, c), slope(self.loss, self.low, y), slope(self.loss, self.high, y))

    def approach_all(self, side: Any, p: Any, y: float, c: Any, g: Any, a: Any) -> None:
        if self.low == -math.inf and self.high == math.inf:
            approach_all(self.loss, side, p, y, c, g, a)
            return
        for k in range(len(p)):
            a[k] = g[k] if self.low <= p[k] <= self.high else slope(self.loss, p[k], y)
        approach_all(self.loss, side, p, y, c, a, a)
        least, most = slope(self.loss, self.low, y), slope(self.loss, self.high, y)
        for k in range(len(p)):
            a[k] = clamp(a[k], least, most)
