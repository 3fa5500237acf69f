"""The scalar part of a round: the parts of models, the numbers that they carry, the choice of b, and the sums."""

from typing import Any, NamedTuple

from giftrl.compiled.registry import formula
from giftrl.kernels.lane_counts import ONE_LANE
from giftrl.ops.line import arrive, at, energy
from giftrl.ops.loss import conjugate, curvature, slope, value
from giftrl.schedules.contract import evidence, known_ahead, lam
from giftrl.updates.contract import minimises, pick

# The numbers that a model carries from round to round besides its coordinates: one row of float64 for each model, in
# this order, which is also their order in model files.
TIME = 0  # t, the number of the next round
LAM = 1  # lambda_t
TOTAL = 2  # the evidence of the schedule
THETA2 = 3  # norm2(theta)^2 for loops that need it; summed anew from time to time
ENERGY = 4  # sum_j soft(u_j)^2 / w_j with L_j = lambda w_j: a growing lambda moves this in coordinates not in the row
LOSS = 5  # sum of l_t(x_t)
CONJUGATE = 6  # sum of l*_t(z_t)
DELTA = 7  # sum of H(g_t) - H(z_t)
ROUNDING = 8  # sum of norm2(theta_t)^2 over the stored part of theta: bounds the error of storing it in fewer bits
WALKED = 9  # the entries seen since THETA2 was last summed
SIZE = 10

#: A step length c beyond float64 is replaced by this number, which is as good as infinity, and finite.
LONGEST_STEP = 1.7e308


class Parts(NamedTuple):
    """The parts of a model, or of models side by side that differ in the numbers of a built-in schedule alone."""

    loss: Any
    psi: Any
    update: Any
    schedule: Any
    ahead: bool  # True if the update uses H, False for H'
    side: Any = ONE_LANE  # the number of models, a constant of the compiled loop


class Chosen(NamedTuple):
    """The choice of a round, with the weight left out."""

    b: float
    phi: float  # phi(p)
    phi_star: float  # phi*(b)
    delta: float  # (H(g) - H(b)) / h
    phi_led: float  # phi and phi'' at the point to which b leads; 0 unless they were asked for
    bend: float


@formula(fast=True)
def choose(loss: Any, update: Any, y: float, h: float, p: float, line: Any, arrival: bool) -> Chosen:
    """Choose b for an example of weight h predicted as p; ``arrival`` asks for phi and phi'' where b leads."""
    phi = value(loss, p, y)
    if h == 0.0:
        return Chosen(0.0, phi, 0.0, 0.0, phi, 0.0)
    g = slope(loss, p, y)
    phi_led, bend = 0.0, 0.0
    if minimises(update):
        b, phi_star, phi_led, bend = arrive(line, loss, y, p)
    else:
        b = pick(update, loss, y, p, line)
        phi_star = 0.0 if b == g else conjugate(loss, b, y)
        if arrival:
            q = at(line, b)
            phi_led, bend = value(loss, q, y), curvature(loss, q, y)
    at_g = g * p - phi  # phi*(g), since g is the slope at p
    if b == g:
        return Chosen(b, phi, at_g, 0.0, phi_led, bend)
    return Chosen(b, phi, phi_star, energy(line, g) + at_g - energy(line, b) - phi_star, phi_led, bend)


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
def next_lambda(schedule: Any, state: Any, gamma: float, z2: float) -> float:
    """lambda_{t+1} of the one model in the array; gamma_t and norm2(z_t)^2 count only for schedules that need them."""
    total = state[0, TOTAL]
    if not known_ahead(schedule):
        total += evidence(schedule, gamma, z2)
    return lam(schedule, int(state[0, TIME]) + 1, total)


@formula(fast=True)
def moved_elsewhere(lam_now: float, next_lam: float, energy_elsewhere: float) -> float:
    """The divergence from x_t to x_{t+1} in the coordinates that are not in the row: a growing lambda rescales them.

    ``energy_elsewhere`` is their part of :data:`ENERGY`.
    """
    shrink = 1.0 - lam_now / next_lam
    return 0.5 * shrink * shrink * max(0.0, energy_elsewhere) / lam_now


@formula(fast=True)
def account(state: Any, h: float, chosen: Any, stored: float, next_lam: float) -> None:
    """Add a round to the sums of the one model in the array; ``stored`` is norm2^2 of the theta that it stored."""
    state[0, TIME] += 1.0
    state[0, LAM] = next_lam
    state[0, LOSS] += h * chosen.phi
    state[0, CONJUGATE] += h * chosen.phi_star
    state[0, DELTA] += h * chosen.delta
    state[0, ROUNDING] += stored


@formula(fast=True)
def recount_due(walked: float, dimension: int) -> bool:
    """True when norm2(theta)^2 must be summed anew: theta is rounded when it is stored, so a running sum drifts.

    That is after 64 entries for each coordinate, which costs next to nothing and does not depend on batches. Below
    4,096 coordinates it does not depend on their number either, because the capacity for a growing dictionary does
    depend on batches.
    """
    return walked >= 64.0 * max(dimension, 4_096)
