"""The p-norm."""

from typing import NamedTuple

from giftrl.errors import require
from giftrl.ops import validated
from giftrl.regularizers.contract import Evidence
from giftrl.regularizers.potentials import SquaredPNorm


@validated
class PNorm(NamedTuple):
    """psi_t(x) = (lambda_t/2) norm_p(x)^2 with 1 < p <= 2: between the squared norm (p = 2) and the entropy (p near 1).

    Strongly convex in the p-norm. On the whole space grad psi*_t is the gradient of norm_q(theta)^2 / (2 lambda_t),
    1/p + 1/q = 1.

    Args:
        p: 1 < p <= 2; p = 1 + 1/log(d) makes the regret depend on the dimension d only through log(d).

    >>> import numpy as np
    >>> PNorm(2.0).start(2, 1.0).value(np.array([3.0, 4.0]))
    12.5
    """

    p: float = 1.5

    def validate(self) -> None:
        require(1.0 < self.p <= 2.0, "p", self.p, "must be above 1 and at most 2", "try p=1.5")

    def start(self, dimension: int, lam: float) -> SquaredPNorm:
        return SquaredPNorm(lam, self.p)

    def advance(self, psi: SquaredPNorm, lam: float, seen: Evidence | None) -> SquaredPNorm:
        return SquaredPNorm(lam, self.p)
