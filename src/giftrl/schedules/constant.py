"""The constant schedule."""

from typing import NamedTuple

from giftrl.errors import require_positive
from giftrl.ops import validated


@validated
class Constant(NamedTuple):
    """lambda_t = 1/beta.

    Args:
        beta: the scale, positive; larger learns faster.

    >>> Constant(beta=2.0).lam(7, 0.0)
    0.5
    """

    beta: float = 1.0

    def validate(self) -> None:
        require_positive("beta", self.beta)

    def lam(self, t: int, total: float) -> float:
        return 1.0 / self.beta
