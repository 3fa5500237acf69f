"""The squared norm."""

from typing import Any, NamedTuple


class SquaredNorm(NamedTuple):
    """psi_t(x) = (lambda_t/2) norm2(x)^2, the regularizer of the paper's experiments.

    Strongly convex in the Euclidean norm. On the whole space grad psi*_t(theta) = theta / lambda_t.

    >>> SquaredNorm().strength(3.0, 0.0)
    3.0
    """

    def strength(self, lam: float, q: Any) -> Any:
        return lam
