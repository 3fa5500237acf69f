"""The numbers that a model carries from round to round besides its coordinates, as one row of float64.

A loop over the rows of one model takes them out of the array, carries them as :class:`Scalars` and puts them back: what
is in an array is read and written again in every round, since a compiler does not know that arrays do not overlap.
"""

from typing import Any, NamedTuple

from giftrl.compiled.registry import formula

TIME = 0  # t, the number of the next round
LAM = 1  # lambda_t
TOTAL = 2  # the evidence of the schedule
THETA2 = 3  # norm2(theta)^2, where rounds need it; counted anew from time to time
ENERGY = 4  # sum_j soft(u_j)^2 / w_j with L_j = lambda w_j: what a growing lambda moves in the coordinates not touched
LOSS = 5  # sum of l_t(x_t)
CONJUGATE = 6  # sum of l*_t(z_t)
DELTA = 7  # sum of H(g_t) - H(z_t)
ROUNDING = 8  # sum of norm2(theta_t)^2 over what a round stores: bounds what storing theta in fewer bits can do
WALKED = 9  # the entries seen since THETA2 was last counted
SIZE = 10


class Scalars(NamedTuple):
    """One row of the array, in the same order."""

    time: float
    lam: float
    total: float
    theta2: float
    energy: float
    loss: float
    conjugate: float
    delta: float
    rounding: float
    walked: float


@formula(fast=True)
def take_out(state: Any, m: int) -> Scalars:
    """The scalars of model m."""
    return Scalars(
        state[m, TIME], state[m, LAM], state[m, TOTAL], state[m, THETA2], state[m, ENERGY],
        state[m, LOSS], state[m, CONJUGATE], state[m, DELTA], state[m, ROUNDING], state[m, WALKED],
    )  # fmt: skip


@formula(fast=True)
def put_back(state: Any, m: int, now: Scalars) -> None:
    """Write the scalars of model m."""
    state[m, TIME], state[m, LAM], state[m, TOTAL], state[m, THETA2] = now.time, now.lam, now.total, now.theta2
    state[m, ENERGY], state[m, LOSS], state[m, CONJUGATE] = now.energy, now.loss, now.conjugate
    state[m, DELTA], state[m, ROUNDING], state[m, WALKED] = now.delta, now.rounding, now.walked


@formula(fast=True)
def with_norm(now: Scalars, theta2: float, walked: float) -> Scalars:
    """The scalars with another norm2(theta)^2, and the entries seen since it was counted."""
    return Scalars(
        now.time, now.lam, now.total, theta2, now.energy,
        now.loss, now.conjugate, now.delta, now.rounding, walked,
    )  # fmt: skip


@formula(fast=True)
def with_rounding(now: Scalars, rounding: float) -> Scalars:
    """The scalars with another bound of what storing theta can do."""
    return Scalars(
        now.time, now.lam, now.total, now.theta2, now.energy,
        now.loss, now.conjugate, now.delta, rounding, now.walked,
    )  # fmt: skip


@formula(fast=True)
def with_sums(now: Scalars, loss: float, conjugate: float, delta: float) -> Scalars:
    """The scalars with other sums of the certificate."""
    return Scalars(
        now.time, now.lam, now.total, now.theta2, now.energy,
        loss, conjugate, delta, now.rounding, now.walked,
    )  # fmt: skip


@formula  # not fast: 0 times a number that is not finite is NaN
def finite(now: Scalars) -> bool:
    """Whether the scalars are."""
    first = now.time + now.lam + now.total + now.theta2 + now.energy
    return 0.0 * (first + now.loss + now.conjugate + now.delta + now.rounding) == 0.0
