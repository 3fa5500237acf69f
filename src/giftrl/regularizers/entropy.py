"""The entropy."""

from typing import NamedTuple

from giftrl.regularizers.contract import Evidence
from giftrl.regularizers.potentials import NegativeEntropy


class Entropy(NamedTuple):
    """psi_t(x) = lambda_t (sum_j x_j log x_j + log d), for experts, portfolios and mixtures.

    Strongly convex in the L1 norm on the simplex, where grad psi*_t(theta) = softmax(theta / lambda_t).

    >>> import numpy as np
    >>> Entropy().start(2, 1.0).value(np.array([0.5, 0.5]))
    0.0
    """

    def start(self, dimension: int, lam: float) -> NegativeEntropy:
        return NegativeEntropy(lam, dimension)

    def advance(self, psi: NegativeEntropy, lam: float, seen: Evidence | None) -> NegativeEntropy:
        return psi._replace(lam=lam)
