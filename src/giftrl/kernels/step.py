"""The scalar part of a round, shared by every loop: choose b on a line and account for it."""

from typing import Any, NamedTuple

from giftrl.compiled.registry import formula
from giftrl.kernels.parts import Parts
from giftrl.kernels.scalars import WALKED, Scalars, put_back, take_out, with_sums
from giftrl.ops.line import arrive, arrive_near, at, energy
from giftrl.ops.loss import conjugate, curvature, drop, slope, value
from giftrl.schedules.contract import evidence, known_ahead, lam
from giftrl.updates.contract import minimises, pick

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

    ``before2`` is the part of E (:data:`giftrl.kernels.scalars.ENERGY`) in the coordinates that the row touches.
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
