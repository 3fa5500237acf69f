"""The scalar part of a round, shared by every loop: choose b on a line and account for it."""

from typing import Any, NamedTuple

from giftrl.compiled.registry import formula
from giftrl.kernels.parts import Parts
from giftrl.kernels.scalars import CONJUGATE, DELTA, ENERGY, LAM, LOSS, ROUNDING, TIME, TOTAL, WALKED
from giftrl.ops.line import arrive, at, energy
from giftrl.ops.loss import conjugate, curvature, slope, value
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
def choose(parts: Parts, y: float, h: float, p: float, line: Any, arrival: bool) -> Chosen:
    """Choose b for an example of weight h predicted as p; ``arrival`` asks for phi and phi'' where b leads."""
    loss, update = parts.loss, parts.update
    phi = value(loss, p, y)
    if h == 0.0:
        return Chosen(0.0, phi, 0.0, 0.0, phi, 0.0)
    g = slope(loss, p, y)
    phi_star_g = g * p - phi  # phi*(g), since g is the slope at p
    phi_led, bend = 0.0, 0.0
    if minimises(update):
        b, phi_star, phi_led, bend = arrive(line, loss, y)
    else:
        b = pick(update, loss, y, p, line)
        phi_star = phi_star_g if b == g else conjugate(loss, b, y)
        if arrival:
            q = at(line, b)
            phi_led, bend = value(loss, q, y), curvature(loss, q, y)
    if b == g:
        return Chosen(b, phi, phi_star_g, 0.0, phi_led, bend)
    return Chosen(b, phi, phi_star, energy(line, g) + phi_star_g - energy(line, b) - phi_star, phi_led, bend)


@formula(fast=True)
def next_lambda(schedule: Any, state: Any, m: int, gamma: float, z_norm_squared: float) -> float:
    """lambda_{t+1}; gamma_t and z_t count only for schedules that need them."""
    total = state[m, TOTAL]
    if not known_ahead(schedule):
        total += evidence(schedule, gamma, z_norm_squared)
    return lam(schedule, int(state[m, TIME]) + 1, total)


@formula(fast=True)
def moved_elsewhere(state: Any, m: int, next_lam: float, before2: float) -> float:
    """The divergence from x_t to x_{t+1} in coordinates that a row does not touch, which a growing lambda rescales.

    ``before2`` is the part of E (:data:`giftrl.kernels.scalars.ENERGY`) in the coordinates that the row touches.
    """
    shrink = 1.0 - state[m, LAM] / next_lam
    return 0.5 * shrink * shrink * max(0.0, state[m, ENERGY] - before2) / state[m, LAM]  # type: ignore[no-any-return]


@formula(fast=True)
def account(state: Any, m: int, h: float, chosen: Any, stored: float, next_lam: float) -> None:
    """Add a round to the sums of model m; ``stored`` is norm2^2 of the part of theta that it stored."""
    state[m, LOSS] += h * chosen.phi
    state[m, CONJUGATE] += h * chosen.phi_star
    state[m, DELTA] += h * chosen.delta
    state[m, ROUNDING] += stored
    state[m, LAM] = next_lam
    state[m, TIME] += 1.0


@formula(fast=True)
def time_to_recount(state: Any, entries: float, dimension: int) -> bool:
    """Whether to sum norm2(theta)^2 again: theta is rounded when it is stored, so a running sum drifts.

    True after 64 entries for each coordinate, so that it costs next to nothing and does not depend on how rows are
    batched.
    """
    state[0, WALKED] += entries
    if state[0, WALKED] < 64.0 * dimension:
        return False
    state[0, WALKED] = 0.0
    return True
