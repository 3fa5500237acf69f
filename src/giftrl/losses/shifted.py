"""A loss of predictions that start from a base."""

from typing import Any, NamedTuple

from giftrl.ops.loss import conjugate, curvature, flow, infimum, prox, slope, smoothness, value
from giftrl.ops.units import kinked, spread


class Shifted(NamedTuple):
    """phi where a number is added to every prediction: phi_b(p; y) = phi(p + b; y + d).

    phi_b*(a) = phi*(a) - a b, since sup over p of a p - phi(p + b) is a shift of the same supremum. Slopes, and the
    proximal step, are those of phi at p + b.

    Args:
        loss: a scalar loss.
        base: b, any finite number.
        shift: d, what was subtracted from the labels; 0 where they are as they were.

    >>> from giftrl.losses import Squared
    >>> Shifted(Squared(), 2.0).value(1.0, 5.0), Shifted(Squared(), 2.0).prox(1.0, 5.0, 1.0)
    (2.0, -1.0)
    """

    loss: Any
    base: float
    shift: float = 0.0

    def value(self, p: float, y: float) -> float:
        return value(self.loss, p + self.base, y + self.shift)

    def slope(self, p: float, y: float) -> float:
        return slope(self.loss, p + self.base, y + self.shift)

    def curvature(self, p: float, y: float) -> float:
        return curvature(self.loss, p + self.base, y + self.shift)

    def infimum(self, y: float) -> float:
        return infimum(self.loss, y + self.shift)

    def smoothness(self) -> float:
        return smoothness(self.loss)

    def conjugate(self, a: float, y: float) -> float:
        return conjugate(self.loss, a, y + self.shift) - a * self.base

    def prox(self, p: float, y: float, c: float) -> float:
        return prox(self.loss, p + self.base, y + self.shift, c)

    def flow(self, p: float, y: float, c: float) -> float:
        return flow(self.loss, p + self.base, y + self.shift, c)

    def kinked(self) -> bool:
        return kinked(self.loss)

    def spread(self, y: float, o: float) -> float:
        return spread(self.loss, y + self.shift, o + self.base)
