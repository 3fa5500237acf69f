"""The hinge loss."""

import math
from typing import NamedTuple

from giftrl.ops.loss import prox
from giftrl.ops.scalar import share


class Hinge(NamedTuple):
    """The loss of support vector machines, for labels -1 and +1.

    phi(p; y) = max(0, 1 - y p), with a kink at y p = 1 where the slope is 0.
    phi*(a) = y a for -y a in [0, 1].

    >>> Hinge().value(0.25, 1.0)
    0.75
    >>> Hinge().prox(0.25, 1.0, 3.0)
    -0.25
    """

    def value(self, p: float, y: float) -> float:
        return max(0.0, 1.0 - y * p)

    def slope(self, p: float, y: float) -> float:
        return -y if y * p < 1.0 else 0.0

    def accepts(self, y: float) -> bool:
        return abs(y) == 1.0

    def labels(self) -> str:
        return "-1 or +1"

    def reach(self) -> float:
        return 1.0

    def infimum(self, y: float) -> float:
        return 0.0

    def curvature(self, p: float, y: float) -> float:
        return 0.0

    def conjugate(self, a: float, y: float) -> float:
        return y * a if 0.0 <= -y * a <= 1.0 else math.inf

    def prox(self, p: float, y: float, c: float) -> float:
        # The margin moves by at most c, and stops at the kink.
        return -y * share(max(0.0, 1.0 - y * p), c)

    def flow(self, p: float, y: float, c: float) -> float:
        # The slope is constant up to the kink, so the flow equals the proximal step.
        return prox(self, p, y, c)
