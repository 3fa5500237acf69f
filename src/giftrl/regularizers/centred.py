"""Centred growth."""

from typing import Any, NamedTuple

from giftrl.ops import validated
from giftrl.regularizers import contract
from giftrl.regularizers.squared_norm import SquaredNorm


@validated
class Centred(NamedTuple):
    """A diagonal regularizer whose increments are centred at the new point, as in FTRL-Proximal.

    psi_{t+1}(x) = psi_t(x) + sum_j (L_{t+1,j} - L_{t,j}) (x_j - x_{t+1,j})^2 / 2, so the minimiser stays at x_{t+1}
    and nothing shrinks towards 0. psi_{t+1} depends on x_{t+1}, so updates use H'; psi_{t+1} >= psi_t, so its theorem
    holds.

    Args:
        base: a diagonal regularizer, which says how the strengths L_{t,j} grow.

    >>> from giftrl.regularizers import AdaGrad
    >>> Centred(AdaGrad())
    Centred(base=AdaGrad(gradient_bound=1.0))
    """

    base: Any = SquaredNorm()

    def validate(self) -> None:
        contract.require_diagonal("base", self.base)

    def accumulate(self, q: Any, z: Any, sigma: Any) -> Any:
        return contract.accumulate(self.base, q, z, sigma)

    def strength(self, lam: float, q: Any) -> Any:
        return contract.strength(self.base, lam, q)

    def l1_strength(self) -> float:
        return contract.l1_strength(self.base)

    def centred(self) -> bool:
        return True

    def uses_curvature(self) -> bool:
        return contract.uses_curvature(self.base)
