"""The Newton stack: a linear model of the experts' predictions, which learns by Newton steps with a full matrix.

f = origin + sum_k v_k z_k with z_k the k-th prediction less the origin. v starts at 1/n and A, the inverse of the
curvature seen so far, at COVARIANCE I. With c = <z, A z> a round takes the proximal slope a of the loss in units of the
temperature, v -= a A z, and then A gains the curvature h of the loss: A -= h/(1 + h c) (A z)(A z)'.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses
from giftrl.compiled.lanes import load, read, store, write, zeros
from giftrl.compiled.registry import formula
from giftrl.errors import require
from giftrl.ops.loss import curvature, prox

#: A before the first row, as a multiple of the identity.
COVARIANCE = 0.1


@formula(fast=True)
def spread_stack(side: Any, inverse: Any, z: Any) -> Any:
    """A z in lanes, for a vector z in memory."""
    even, odd, n = zeros(side), zeros(side), len(inverse)
    for l in range(n // 2):  # noqa: E741
        # A is symmetric: its rows are its columns. Two sums, since each waits for its last term.
        even = even + load(side, inverse, 2 * l, 0) * z[2 * l]
        odd = odd + load(side, inverse, 2 * l + 1, 0) * z[2 * l + 1]
    if n % 2 == 1:
        even = even + load(side, inverse, n - 1, 0) * z[n - 1]
    return even + odd


@formula(fast=True)
def move_stack(side: Any, v: Any, az: Any, a: float) -> None:
    """v -= a A z."""
    write(v, read(side, v) - az * a)


@formula(fast=True)
def bend_stack(side: Any, inverse: Any, az: Any, c: float, h: float) -> None:
    """Add the curvature h z z' to the inverse of A; ``az`` is in memory."""
    along = read(side, az) * (h / (1.0 + h * c))
    for l in range(len(inverse)):  # noqa: E741
        store(inverse, l, 0, load(side, inverse, l, 0) - along * az[l])


class Experts(NamedTuple):
    """Any number of experts, for plain Python."""

    experts: int

    def lanes(self) -> int:
        return self.experts


class NewtonStack:
    """A linear model of experts' predictions that learns as they come, without a learner.

    Args:
        experts: how many.
        loss: a loss of one prediction, or its name.
        origin: predictions are combined as differences from this number.

    >>> stack = NewtonStack(2, "squared")
    >>> for y in [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]:
    ...     f = stack.observe([2.0 * y, -y], y)
    >>> round(stack.predict([2.0, -1.0]), 3)
    0.967
    """

    def __init__(self, experts: int, loss: Any = "squared", origin: float = 0.0) -> None:
        require(experts >= 1, "experts", experts, "must be at least 1", "give the number of predictions")
        self.loss = losses.scalar(loss)
        self.origin = origin
        self.v: NDArray[np.float64] = np.full(experts, 1.0 / experts)
        self.inverse: NDArray[np.float64] = COVARIANCE * np.eye(experts)

    def predict(self, predictions: ArrayLike) -> float:
        """The combined prediction."""
        return self.origin + float(self.v @ (np.asarray(predictions, np.float64) - self.origin))

    def observe(self, predictions: ArrayLike, y: float, temperature: float = 1.0) -> float:
        """Return the combined prediction, then learn from the label; losses are divided by the temperature."""
        f = self.predict(predictions)
        z = np.asarray(predictions, np.float64) - self.origin
        side = Experts(len(z))
        az = spread_stack(side, self.inverse, z)
        c = max(0.0, float(z @ az))
        a = prox(self.loss, f, y, c / temperature) / temperature
        move_stack(side, self.v, az, a)
        bend_stack(side, self.inverse, az, c, curvature(self.loss, f - a * c, y) / temperature)
        return f
