"""The squared hinge loss."""

import math
from typing import NamedTuple

from giftrl.ops.scalar import decay_mean


class SquaredHinge(NamedTuple):
    """The hinge loss squared, for labels -1 and +1 (no factor 1/2, as in scikit-learn and LIBLINEAR).

    phi(p; y) = max(0, 1 - y p)^2, differentiable.
    phi*(a) = y a + a^2 / 4 for -y a >= 0.

    >>> SquaredHinge().value(-1.0, 1.0)
    4.0
    >>> SquaredHinge().prox(0.0, 1.0, 0.5)
    -1.0
    """

    def value(self, p: float, y: float) -> float:
        gap = max(0.0, 1.0 - y * p)
        return gap * gap

    def slope(self, p: float, y: float) -> float:
        return -2.0 * y * max(0.0, 1.0 - y * p)

    def accepts(self, y: float) -> bool:
        return abs(y) == 1.0

    def labels(self) -> str:
        return "-1 or +1"

    def reach(self) -> float:
        return 1.0

    def infimum(self, y: float) -> float:
        return 0.0

    def smoothness(self) -> float:
        return 2.0

    def curvature(self, p: float, y: float) -> float:
        return 2.0 if y * p < 1.0 else 0.0

    def conjugate(self, a: float, y: float) -> float:
        return a * (y + 0.25 * a) if -y * a >= 0.0 else math.inf

    def prox(self, p: float, y: float, c: float) -> float:
        # The gap shrinks from e to e / (1 + 2 c).
        return -2.0 * y * max(0.0, 1.0 - y * p) / (1.0 + 2.0 * c)

    def flow(self, p: float, y: float, c: float) -> float:
        # The gap decays like exp(-2 c tau).
        return -2.0 * y * max(0.0, 1.0 - y * p) * decay_mean(2.0 * c)
