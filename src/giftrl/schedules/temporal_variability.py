"""The temporal-variability schedule."""

import math
from typing import NamedTuple

from giftrl.errors import require, require_positive
from giftrl.ops import validated


@validated
class TemporalVariability(NamedTuple):
    """The schedule of Corollary 4.3: lambda grows only as fast as the losses change.

    lambda_t = max(G/beta, floor) + sum over i <= t-2 of max(gamma_i, 0) / beta^2, with
    gamma_t = l_t(x_t) - l_t(x_{t+1}) - B_{psi_t}(x_{t+1}; x_t).

    The lag of two rounds makes lambda_{t+1} known when z_t is chosen, so H can be used. gamma is clipped at 0 because a
    negative value would decrease lambda, against the assumption of Lemma 4.1.

    Args:
        beta: the scale, positive; larger learns faster.
        gradient_bound: G > 0, a guess of the largest norm of a gradient.
        floor: the minimum of lambda_1; the published two-step curves need the largest norm(s)^2 here.

    >>> TemporalVariability(beta=2.0, gradient_bound=1.0).lam(1, 0.0)
    0.5
    >>> TemporalVariability(beta=2.0, gradient_bound=1.0).lam(5, 4.0)
    1.5
    """

    beta: float = 1.0
    gradient_bound: float = 1.0
    floor: float = 0.0

    def validate(self) -> None:
        require_positive("beta", self.beta)
        require_positive("gradient_bound", self.gradient_bound)
        fits = 0.0 <= self.floor < math.inf
        require(fits, "floor", self.floor, "must be finite and not negative", "floor=0.0 is none")

    def lam(self, t: int, total: float) -> float:
        return max(self.gradient_bound / self.beta, self.floor) + total * (1.0 / self.beta) * (1.0 / self.beta)

    def evidence(self, gamma: float, z_norm_squared: float) -> float:
        return max(gamma, 0.0)

    def uses_gamma(self) -> bool:
        return True
