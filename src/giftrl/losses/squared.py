"""The squared loss."""

from typing import NamedTuple

from giftrl.ops.scalar import decay_mean


class Squared(NamedTuple):
    """Half the squared error, for real labels.

    phi(p; y) = (p - y)^2 / 2, differentiable.
    phi*(a) = a^2 / 2 + a y.

    >>> Squared().value(3.0, 1.0)
    2.0
    >>> Squared().prox(3.0, 1.0, 1.0)
    1.0
    """

    def residual(self) -> bool:
        return True

    def value(self, p: float, y: float) -> float:
        return 0.5 * (p - y) * (p - y)

    def slope(self, p: float, y: float) -> float:
        return p - y

    def infimum(self, y: float) -> float:
        return 0.0

    def smoothness(self) -> float:
        return 1.0

    def curvature(self, p: float, y: float) -> float:
        return 1.0

    def conjugate(self, a: float, y: float) -> float:
        return a * (0.5 * a + y)

    def prox(self, p: float, y: float, c: float) -> float:
        return (p - y) / (1.0 + c)

    def flow(self, p: float, y: float, c: float) -> float:
        # The residual decays like exp(-c tau).
        return (p - y) * decay_mean(c)
