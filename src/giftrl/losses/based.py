"""A loss with a base for each prediction."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.ops.loss import conjugate, curvature, flow, infimum, kinked, prox, slope, smoothness, spread, value


class Based(NamedTuple):
    """phi with a base added to each prediction: phi_b(p; i) = phi(p + b_i; y_i).

    The label of row i is i, so that loops need no special case for bases. phi_b*(a) =
    phi*(a) - a b, since sup over p of a p - phi(p + b) is a shift of the same supremum. Slopes, and the proximal step,
    are those of phi at p + b.

    Args:
        loss: a scalar loss.
        labels: y.
        bases: b.

    >>> from giftrl.losses import Squared
    >>> loss = Based(Squared(), np.array([7.0, 5.0]), np.array([0.0, 2.0]))
    >>> float(loss.value(1.0, 1.0)), float(loss.prox(1.0, 1.0, 1.0))
    (2.0, -1.0)
    """

    loss: Any
    labels: NDArray[np.float64]
    bases: NDArray[np.float64]

    def value(self, p: float, y: float) -> float:
        return value(self.loss, p + self.bases[np.uint64(y)], self.labels[np.uint64(y)])

    def slope(self, p: float, y: float) -> float:
        return slope(self.loss, p + self.bases[np.uint64(y)], self.labels[np.uint64(y)])

    def curvature(self, p: float, y: float) -> float:
        return curvature(self.loss, p + self.bases[np.uint64(y)], self.labels[np.uint64(y)])

    def infimum(self, y: float) -> float:
        return infimum(self.loss, self.labels[np.uint64(y)])

    def smoothness(self) -> float:
        return smoothness(self.loss)

    def conjugate(self, a: float, y: float) -> float:
        return float(conjugate(self.loss, a, self.labels[np.uint64(y)]) - a * self.bases[np.uint64(y)])

    def prox(self, p: float, y: float, c: float) -> float:
        return prox(self.loss, p + self.bases[np.uint64(y)], self.labels[np.uint64(y)], c)

    def flow(self, p: float, y: float, c: float) -> float:
        return flow(self.loss, p + self.bases[np.uint64(y)], self.labels[np.uint64(y)], c)

    def kinked(self) -> bool:
        return kinked(self.loss)

    def spread(self, y: float, o: float) -> float:
        return spread(self.loss, self.labels[np.uint64(y)], o + self.bases[np.uint64(y)])
