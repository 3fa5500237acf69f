"""AdaGrad."""

from typing import Any, NamedTuple

import numpy as np

from giftrl.errors import require_positive
from giftrl.ops import validated


@validated
class AdaGrad(NamedTuple):
    """A strength for each coordinate: L_{t,j} = lambda_t sqrt(G^2 + sum over i < t of z_{i,j}^2).

    With the constant schedule lambda = 1/beta this is AdaGrad. L_{t+1} depends on z_t, so updates use H'.

    Args:
        gradient_bound: G > 0, a guess of the largest abs(z_j); it sets the initial strength of a coordinate.

    >>> AdaGrad(3.0).strength(1.0, 16.0)
    np.float64(5.0)
    """

    gradient_bound: float = 1.0

    def validate(self) -> None:
        require_positive("gradient_bound", self.gradient_bound)

    def accumulate(self, q: Any, z: Any, sigma: Any) -> Any:
        return q + z * z

    def strength(self, lam: float, q: Any) -> Any:
        return lam * np.sqrt(self.gradient_bound * self.gradient_bound + q)
