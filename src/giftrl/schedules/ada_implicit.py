"""The schedule of AdaImplicit."""

from typing import NamedTuple

from giftrl.errors import require_positive
from giftrl.ops import validated


@validated
class AdaImplicit(NamedTuple):
    """lambda_{t+1} = lambda_t + [l_t(x_t) - l_t(x_{t+1}) - lambda_t B(x_{t+1}; x_t)] / beta^2, from lambda_1 = G/beta.

    The step sizes of AdaImplicit (Campolongo and Orabona, 2020). lambda_{t+1} depends on x_{t+1}, which must
    therefore not depend on lambda_{t+1}: it goes with mirror descent and with centred regularizers. The bracket is
    not negative for implicit updates; it is clipped at 0 for the others.

    Args:
        beta: the scale, positive; larger learns faster.
        gradient_bound: G > 0, a guess of the largest norm of a gradient.

    >>> AdaImplicit(beta=2.0).lam(5, 4.0)
    1.5
    """

    beta: float = 1.0
    gradient_bound: float = 1.0

    def validate(self) -> None:
        require_positive("beta", self.beta)
        require_positive("gradient_bound", self.gradient_bound)

    def lam(self, t: int, total: float) -> float:
        return self.gradient_bound / self.beta + total * (1.0 / self.beta) * (1.0 / self.beta)

    def evidence(self, gamma: float, z_norm_squared: float) -> float:
        return max(gamma, 0.0)

    def known_ahead(self) -> bool:
        return False

    def uses_gamma(self) -> bool:
        return True
