"""The elastic net."""

import math
from typing import Any, NamedTuple

from giftrl.errors import require
from giftrl.ops import validated
from giftrl.regularizers import contract
from giftrl.regularizers.squared_norm import SquaredNorm


@validated
class ElasticNet(NamedTuple):
    """psi_t(x) = base psi_t(x) + l1 norm1(x) + (l2/2) norm2(x)^2, for a diagonal base.

    The L1 term sets small coordinates of x to exactly 0. With ``base=Centred(AdaGrad())`` this is FTRL-Proximal, with
    the strength sqrt(G^2 + sum z^2)/beta, except that a gradient affects the strength one round later than in the
    original.

    Args:
        l1: the factor of norm1(x), not negative.
        l2: the factor of norm2(x)^2 / 2, not negative.
        base: the diagonal regularizer that it is added to.

    >>> ElasticNet(l1=0.5, l2=2.0).strength(1.0, 0.0)
    3.0
    """

    l1: float = 1.0
    l2: float = 0.0
    base: Any = SquaredNorm()

    def validate(self) -> None:
        for argument, value in (("l1", self.l1), ("l2", self.l2)):
            require(0.0 <= value < math.inf, argument, value, "must be finite and not negative", f"try {argument}=1.0")
        contract.require_diagonal("base", self.base)

    def accumulate(self, q: Any, z: Any, sigma: Any) -> Any:
        return contract.accumulate(self.base, q, z, sigma)

    def strength(self, lam: float, q: Any) -> Any:
        return self.l2 + contract.strength(self.base, lam, q)

    def l1_strength(self) -> float:
        return self.l1 + contract.l1_strength(self.base)

    def centred(self) -> bool:
        return contract.centred(self.base)

    def uses_curvature(self) -> bool:
        return contract.uses_curvature(self.base)

    def known_ahead(self) -> bool:
        return contract.known_ahead(self.base)
