"""The AdaGrad-norm schedule."""

import math
from typing import NamedTuple

from giftrl.errors import require_positive
from giftrl.ops import validated


@validated
class AdaGradNorm(NamedTuple):
    """lambda_t = sqrt(G^2 + sum over i < t of norm(z_i)^2) / beta, in the dual norm of the regularizer.

    lambda_{t+1} depends on z_t, so updates use H'.

    Args:
        beta: the scale, positive; larger learns faster.
        gradient_bound: G > 0, a guess of the largest norm(z).

    >>> AdaGradNorm(beta=1.0, gradient_bound=3.0).lam(2, 16.0)
    5.0
    """

    beta: float = 1.0
    gradient_bound: float = 1.0

    def validate(self) -> None:
        require_positive("beta", self.beta)
        require_positive("gradient_bound", self.gradient_bound)

    def lam(self, t: int, total: float) -> float:
        return math.sqrt(self.gradient_bound * self.gradient_bound + total) / self.beta

    def evidence(self, gamma: float, z_norm_squared: float) -> float:
        return z_norm_squared

    def known_ahead(self) -> bool:
        return False
