"""The Newton stack: a linear model of the experts' predictions, which learns by Newton steps with a full matrix.

f = origin + sum_k v_k z_k with z_k the k-th prediction less the origin. v starts at 1/n and A, the inverse of the
curvature seen so far, at COVARIANCE I. With c = <z, A z> a round takes the proximal slope a of the loss in units of the
temperature, v -= a A z, and then A gains the curvature h of the loss: A -= h/(1 + h c) (A z)(A z)'.
"""

from typing import Any

from giftrl.compiled.lanes import load, read, store, write, zeros
from giftrl.compiled.registry import formula

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
