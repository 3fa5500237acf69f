"""The square-root schedule."""

import math
from typing import NamedTuple

from giftrl.errors import require_positive
from giftrl.ops import validated


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
        require_positive("beta", self.beta)

    def lam(self, t: int, total: float) -> float:
        return math.sqrt(t) / self.beta
