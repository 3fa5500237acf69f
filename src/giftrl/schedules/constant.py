"""The constant schedule."""

from typing import NamedTuple

from giftrl.ops import validated
from giftrl.schedules.contract import check_scale

__all__ = ["Constant"]


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
        check_scale("beta", self.beta)

    def lam(self, t: int, total: float) -> float:
        return 1.0 / self.beta
