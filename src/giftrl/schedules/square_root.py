"""The square-root schedule."""

import math
from typing import NamedTuple

from giftrl.ops import validated
from giftrl.schedules.contract import check_scale

__all__ = ["SquareRoot"]


@validated
class SquareRoot(NamedTuple):
    """lambda_t = sqrt(t)/beta: regret of order sqrt(T) for bounded gradients.

    Args:
        beta: the scale, positive; larger learns faster.

    >>> SquareRoot(beta=2.0).lam(9, 0.0)
    1.5
    """

    beta: float = 1.0

    def validate(self) -> None:
        check_scale("beta", self.beta)

    def lam(self, t: int, total: float) -> float:
        return math.sqrt(t) / self.beta
