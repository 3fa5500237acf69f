"""The scalar part of a round: the parts of a model, the numbers it carries, the choice of b, and the sums."""

from typing import Any, NamedTuple

from giftrl.compiled.registry import formula, operation
from giftrl.ops.line import arrive, arrive_near, at, energy
from giftrl.ops.loss import conjugate, curvature, drop, slope, value
from giftrl.schedules.ada_implicit import AdaImplicit
from giftrl.schedules.adagrad_norm import AdaGradNorm
from giftrl.schedules.constant import Constant
from giftrl.schedules.contract import evidence, known_ahead, lam, uses_gamma
from giftrl.schedules.schedule_codes import AnySchedule, ScheduleCode
from giftrl.schedules.square_root import SquareRoot
from giftrl.schedules.temporal_variability import TemporalVariability
from giftrl.updates.contract import minimises, pick


class Parts(NamedTuple):
    """What a model is made of."""

    loss: Any
    psi: Any
    update: Any
    schedule: Any
    ahead: Any  # whether the update uses H, or H'


class ManyParts(NamedTuple):
    """What models side by side are made of: all but the numbers of a built-in schedule is the same for all."""

    loss: Any
    psi: Any
    update: Any
    schedule: Any
    ahead: bool
    side: Any  # how many there are: see giftrl.kernels.lane_counts


class Schedules(NamedTuple):
    """Built-in schedules of one kind. The rows of their parameters are beta, the gradient bound and the floor."""

    code: int
    parameters: Any

    def of_model(self, m: int) -> AnySchedule:
        return AnySchedule(self.code, self.parameters[0, m], self.parameters[1, m], self.parameters[2, m])

    def lams(self, t: int, totals: Any, out: Any) -> None:
        # Branches outside of the loops: these then run several models at a time.
        beta, bound, floor = self.parameters[0], self.parameters[1], self.parameters[2]
        if self.code == ScheduleCode.CONSTANT:
            for m in range(len(out)):
                out[m] = lam(Constant(beta[m]), t, totals[m])
        elif self.code == ScheduleCode.SQUARE_ROOT:
            for m in range(len(out)):
                out[m] = lam(SquareRoot(beta[m]), t, totals[m])
        elif self.code == ScheduleCode.ADAGRAD_NORM:
            for m in range(len(out)):
                out[m] = lam(AdaGradNorm(beta[m], bound[m]), t, totals[m])
        elif self.code == ScheduleCode.TEMPORAL_VARIABILITY:
            for m in range(len(out)):
                out[m] = lam(TemporalVariability(beta[m], bound[m], floor[m]), t, totals[m])
        else:
            for m in range(len(out)):
                out[m] = lam(AdaImplicit(beta[m], bound[m]), t, totals[m])

    def known_ahead(self) -> bool:
        return known_ahead(AnySchedule(self.code, 1.0, 1.0, 0.0))

    def uses_gamma(self) -> bool:
        return uses_gamma(AnySchedule(self.code, 1.0, 1.0, 0.0))


@operation
def lams(schedules: Any, t: int, totals: Any, out: Any) -> None:
    """lambda_t of each model, given the evidence so far."""
    for m in range(len(out)):
        out[m] = lam(schedules, t, totals[m])


@operation
def of_model(schedules: Any, m: int) -> Any:
    """The schedule of model m; one that is not built in is that of every model."""
    return schedules


# The numbers that a model carries from round to round besides its coordinates, as one row of float64.
#
# A loop over the rows of one model takes them out of the array, carries them as :class:`Scalars` and puts them back:
# what is in an array is read and written again in every round, since a compiler does not know that arrays do not
# overlap.

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


# The scalar part of a round, shared by every loop: choose b on a line and account for it.

#: A step length c beyond float64 is replaced by this number, which is as good as infinity, and finite.
LONGEST = 1.7e308


class Chosen(NamedTuple):
    """What a round has chosen, with the weight left out."""

    b: float
    phi: float  # phi(p)
    phi_star: float  # phi*(b)
    delta: float  # (H(g) - H(b)) / h
    phi_led: float  # phi and phi'' at the point to which b leads; 0 where they were not asked for
    bend: float


@formula(fast=True)
def soft(u: float, level: float) -> float:
    """u moved towards 0 by the level, and no further."""
    if level == 0.0 or u == 0.0:
        return u
    if u > level:
        return u - level
    if u < -level:
        return u + level
    return 0.0


@formula(fast=True)
def compared(line: Any, p: float, phi: float, g: float, b: float, phi_star: float) -> tuple[float, float]:
    """phi*(b) and (H(g) - H(b)) / h, given phi*(b) where b is not g."""
    at_g = g * p - phi  # phi*(g), since g is the slope at p
    delta = energy(line, g) + at_g - energy(line, b) - phi_star
    return (at_g, 0.0) if b == g else (phi_star, delta)


@formula(fast=True)
def choose(parts: Parts, y: float, h: float, p: float, line: Any, arrival: bool) -> Chosen:
    """Choose b for an example of weight h predicted as p; ``arrival`` asks for phi and phi'' where b leads."""
    loss, update = parts.loss, parts.update
    phi = value(loss, p, y)
    if h == 0.0:
        return Chosen(0.0, phi, 0.0, 0.0, phi, 0.0)
    g = slope(loss, p, y)
    phi_led, bend = 0.0, 0.0
    if minimises(update):
        b, phi_star, phi_led, bend = arrive(line, loss, y)
    else:
        b = pick(update, loss, y, p, line)
        phi_star = 0.0 if b == g else conjugate(loss, b, y)
        if arrival:
            q = at(line, b)
            phi_led, bend = value(loss, q, y), curvature(loss, q, y)
    phi_star, delta = compared(line, p, phi, g, b, phi_star)
    return Chosen(b, phi, phi_star, delta, phi_led, bend)


class Decided(NamedTuple):
    """What coordinates and schedules wait for, with the weight left out; the rest of :class:`Chosen` can come later."""

    b: float
    bend: float  # phi'' at the point to which b leads
    fall: float  # phi(p) less phi at that point; 0 where it was not asked for
    phi_star: float  # phi*(b) where the update minimises H, 0 elsewhere


@formula(fast=True)
def decide(parts: Parts, y: float, h: float, p: float, line: Any, asked: bool) -> Decided:
    """Choose b for an example of weight h predicted as p; whether the fall is ``asked`` for."""
    loss, fall = parts.loss, 0.0
    if h == 0.0:
        return Decided(0.0, 0.0, 0.0, 0.0)
    if minimises(parts.update):
        b, phi_star, phi_led, bend = arrive_near(line, loss, y, p)
        if asked:
            fall = value(loss, p, y) - phi_led
        return Decided(b, bend, fall, phi_star)
    b = pick(parts.update, loss, y, p, line)
    q = at(line, b)
    if asked:
        fall = drop(loss, p, q, y)
    return Decided(b, curvature(loss, q, y), fall, 0.0)


@formula(fast=True)
def lambda_after(schedule: Any, now: Scalars, gamma: float, z_norm_squared: float) -> float:
    """lambda_{t+1}; gamma_t and z_t count only for schedules that need them."""
    total = now.total
    if not known_ahead(schedule):
        total += evidence(schedule, gamma, z_norm_squared)
    return lam(schedule, int(now.time) + 1, total)


@formula(fast=True)
def next_lambda(schedule: Any, state: Any, m: int, gamma: float, z_norm_squared: float) -> float:
    """:func:`lambda_after` for model m of an array."""
    return lambda_after(schedule, take_out(state, m), gamma, z_norm_squared)


@formula(fast=True)
def elsewhere(now: Scalars, next_lam: float, before2: float) -> float:
    """The divergence from x_t to x_{t+1} in coordinates that a row does not touch, which a growing lambda rescales.

    ``before2`` is the part of E (:data:`giftrl.kernels.scalar_round.ENERGY`) in the coordinates that the row touches.
    """
    shrink = 1.0 - now.lam / next_lam
    return 0.5 * shrink * shrink * max(0.0, now.energy - before2) / now.lam


@formula(fast=True)
def moved_elsewhere(state: Any, m: int, next_lam: float, before2: float) -> float:
    """:func:`elsewhere` for model m of an array."""
    return elsewhere(take_out(state, m), next_lam, before2)


class Change(NamedTuple):
    """What a round changes besides the sums of the certificate."""

    lam: float  # lambda_{t+1}
    evidence: float  # for the schedule
    theta2: float  # the change of norm2(theta)^2
    energy: float  # the change of E
    stored: float  # norm2^2 of the part of theta that is stored


@formula(fast=True)
def changed(now: Scalars, change: Change) -> Scalars:
    """The scalars after a round, but for the sums of the certificate."""
    return Scalars(
        now.time + 1.0, change.lam, now.total + change.evidence, now.theta2 + change.theta2, now.energy + change.energy,
        now.loss, now.conjugate, now.delta, now.rounding + change.stored, now.walked,
    )  # fmt: skip


@formula(fast=True)
def counted(now: Scalars, loss: float, conjugate: float, delta: float) -> Scalars:
    """The scalars with a round added to the sums of the certificate."""
    return with_sums(now, now.loss + loss, now.conjugate + conjugate, now.delta + delta)


@formula(fast=True)
def account(state: Any, m: int, h: float, chosen: Any, stored: float, next_lam: float) -> None:
    """Add a round to the sums of model m of an array; ``stored`` is norm2^2 of the part of theta that it stored."""
    now = changed(take_out(state, m), Change(next_lam, 0.0, 0.0, 0.0, stored))
    put_back(state, m, counted(now, h * chosen.phi, h * chosen.phi_star, h * chosen.delta))


@formula(fast=True)
def enough(walked: float, dimension: int) -> bool:
    """Whether to sum norm2(theta)^2 again: theta is rounded when it is stored, so a running sum drifts.

    True after 64 entries for each coordinate, so that it costs next to nothing and does not depend on how rows are
    batched.
    """
    return walked >= 64.0 * dimension


@formula(fast=True)
def time_to_recount(state: Any, entries: float, dimension: int) -> bool:
    """:func:`enough` for what the models of an array have walked together."""
    state[0, WALKED] += entries
    if not enough(state[0, WALKED], dimension):
        return False
    state[0, WALKED] = 0.0
    return True
