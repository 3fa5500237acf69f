"""The scalar part of a round: parts and state of models, the choice of b, and the sums.

First for one model, then for several models in lanes. Two arrays of fixed shape (:func:`giftrl.compiled.lanes.scratch`)
have a column per model: ``w`` for the numbers of a round, ``state`` for the persistent state. Loops over models are
short and branch-free, so that they are vectorised. For one model the compiler keeps both arrays in registers.
"""

import math
from typing import Any, NamedTuple

from giftrl.compiled.lanes import ONE_LANE, lanes, load, store
from giftrl.compiled.registry import formula
from giftrl.kernels.part_codes import of_model
from giftrl.ops.line import Affine, arrive, at, energy
from giftrl.ops.loss import conjugate, curvature, land, slope, value
from giftrl.schedules.contract import evidence, known_ahead, lam
from giftrl.updates.contract import minimises, pick

# The persistent scalars of a model: a row of float64 for each model, in this order, also in model files.
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

#: A finite replacement for an infinite step length c.
LONGEST_STEP = 1.7e308


class Parts(NamedTuple):
    """The parts of a model, or of models that differ only in the parameters of a built-in schedule."""

    loss: Any
    psi: Any
    update: Any
    schedule: Any
    ahead: bool  # True if the update uses H, False for H'
    side: Any = ONE_LANE  # the number of models, a constant of the compiled loop


class Chosen(NamedTuple):
    """The choice of a round, per unit of weight."""

    b: float
    phi: float  # phi(p)
    phi_star: float  # phi*(b)
    delta: float  # (H(g) - H(b)) / h
    phi_led: float  # phi and phi'' at the point after step b; 0 unless requested
    bend: float


@formula(fast=True)
def choose(loss: Any, update: Any, y: float, h: float, p: float, line: Any, arrival: bool) -> Chosen:
    """Choose b for an example of weight h predicted as p; ``arrival`` requests phi and phi'' after the step."""
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
    """Soft thresholding."""
    if level == 0.0 or u == 0.0:
        return u
    if u > level:
        return u - level
    if u < -level:
        return u + level
    return 0.0


@formula(fast=True)
def next_lambda(schedule: Any, state: Any, gamma: float, z2: float) -> float:
    """lambda_{t+1} of a single model; gamma_t and norm2(z_t)^2 are used only by schedules that need them."""
    total = state[0, TOTAL]
    if not known_ahead(schedule):
        total += evidence(schedule, gamma, z2)
    return lam(schedule, int(state[0, TIME]) + 1, total)


@formula(fast=True)
def moved_elsewhere(lam_now: float, next_lam: float, energy_elsewhere: float) -> float:
    """The divergence from x_t to x_{t+1} in coordinates that are not in the row, from their part of ENERGY."""
    shrink = 1.0 - lam_now / next_lam
    return 0.5 * shrink * shrink * max(0.0, energy_elsewhere) / lam_now


@formula(fast=True)
def account(state: Any, h: float, chosen: Any, stored: float, next_lam: float) -> None:
    """Add a round to the sums of a single model; ``stored`` is norm2^2 of the stored theta."""
    state[0, TIME] += 1.0
    state[0, LAM] = next_lam
    state[0, LOSS] += h * chosen.phi
    state[0, CONJUGATE] += h * chosen.phi_star
    state[0, DELTA] += h * chosen.delta
    state[0, ROUNDING] += stored


@formula(fast=True)
def recount_due(walked: float, dimension: int) -> bool:
    """True when norm2(theta)^2 must be recomputed, since rounding of theta makes the running sum drift."""
    # After 64 entries per coordinate, which is cheap. Counts below 4,096 coordinates are ignored, because the capacity
    # for a growing dictionary depends on batches.
    return walked >= 64.0 * max(dimension, 4_096)


# Several models in lanes.

# The rows of w. Into choose_all: the labels, the predictions, and p and c of each line. Out: the fields of Chosen.
LABEL, P, START, STEP = 0, 1, 2, 3
SLOPE, PHI, PHI_STAR, GAIN, LED, BEND = 4, 5, 6, 7, 8, 9
_G, _WORK = 10, 11
# The measurement of a walk over the row; a of z = a s and norm2(z)^2; gamma_t, the evidence for the schedule, and
# lambda_{t+1}; norm2^2 of the part of theta that the round stored.
MEASURED, A, Z2, GAMMA, EVIDENCE, NEXT, STORED = 15, 16, 17, 18, 19, 20, 21
# phi* of the chosen b, and a row for selections, because masked stores are slow on some processors.
_PICKED, KEPT = 22, 23


@formula(fast=True)
def choose_all(parts: Parts, count: int, h: float, w: Any, led: bool, bent: bool) -> None:
    """``choose`` for all models on affine lines; asks for phi (``led``) and phi'' (``bent``) at their ends."""
    loss, update = parts.loss, parts.update
    if lanes(parts.side) == 1:
        line = Affine(w[START, 0], w[STEP, 0])
        chosen = choose(loss, update, w[LABEL, 0], h, w[P, 0], line, led or bent)
        w[SLOPE, 0], w[PHI, 0], w[PHI_STAR, 0], w[GAIN, 0], w[LED, 0], w[BEND, 0] = chosen
        return
    for m in range(count):
        w[PHI, m] = value(loss, w[P, m], w[LABEL, m])
        w[_G, m] = slope(loss, w[P, m], w[LABEL, m])
    if h == 0.0:
        for m in range(count):
            w[SLOPE, m], w[PHI_STAR, m], w[GAIN, m], w[LED, m], w[BEND, m] = 0.0, 0.0, 0.0, w[PHI, m], 0.0
        return
    if minimises(update):
        for m in range(count):
            landed = land(loss, w[START, m], w[LABEL, m], w[STEP, m], w[P, m])
            w[SLOPE, m], w[_PICKED, m], w[LED, m], w[BEND, m] = landed
    else:
        for m in range(count):
            w[SLOPE, m] = pick(update, loss, w[LABEL, m], w[P, m], Affine(w[START, m], w[STEP, m]))
        linear = 0
        for m in range(count):
            linear += 1 if w[SLOPE, m] == w[_G, m] else 0
        if linear < count:
            for m in range(count):
                w[_PICKED, m] = conjugate(loss, w[SLOPE, m], w[LABEL, m])
        if led:
            for m in range(count):
                w[LED, m] = value(loss, w[START, m] - w[SLOPE, m] * w[STEP, m], w[LABEL, m])
        if bent:
            for m in range(count):
                w[BEND, m] = curvature(loss, w[START, m] - w[SLOPE, m] * w[STEP, m], w[LABEL, m])
    for m in range(count):
        at_g = w[_G, m] * w[P, m] - w[PHI, m]  # phi*(g), since g is the slope at p
        line = Affine(w[START, m], w[STEP, m])
        w[_WORK, m] = at_g
        w[_WORK + 1, m] = energy(line, w[_G, m]) + at_g - energy(line, w[SLOPE, m]) - w[_PICKED, m]
    # One loop per choice, or the compiler would merge branches and not vectorise.
    for m in range(count):
        w[PHI_STAR, m] = w[_WORK, m] if w[SLOPE, m] == w[_G, m] else w[_PICKED, m]
    for m in range(count):
        w[GAIN, m] = 0.0 if w[SLOPE, m] == w[_G, m] else w[_WORK + 1, m]


@formula(fast=True)
def lane_count(side: Any, states: Any) -> int:
    """The number of lanes: a constant if it is 1, else a variable, so that short loops are not unrolled."""
    return 1 if lanes(side) == 1 else int(states.shape[0])


@formula(fast=True)
def load_states(count: int, states: Any, state: Any) -> int:
    """Load the state of all models into lanes; returns the next round's number."""
    latest = 1.0
    for m in range(count):
        for k in range(SIZE):
            state[k, m] = states[m, k]
        latest = max(latest, states[m, TIME])
    return int(latest)


@formula(fast=True)
def store_states(count: int, states: Any, state: Any) -> None:
    """Store the state of all models."""
    for m in range(count):
        for k in range(SIZE):
            states[m, k] = state[k, m]


@formula(fast=True)
def read_labels(count: int, labels: Any, i: int, w: Any) -> None:
    """The labels of row i: one for all models, or one for each."""
    if labels.shape[1] > 1:
        for m in range(count):
            w[LABEL, m] = labels[i, m]
    else:
        for m in range(count):
            w[LABEL, m] = labels[i, 0]


@formula(fast=True)
def next_lambdas(count: int, schedule: Any, t: int, state: Any, w: Any) -> None:
    """Compute lambda_{t+1}; schedules that are not known ahead use the evidence of this round."""
    part = 0.0 if known_ahead(schedule) else 1.0
    for m in range(count):
        w[NEXT, m] = lam(of_model(schedule, m), t + 1, state[TOTAL, m] + part * w[EVIDENCE, m])


@formula(fast=True)
def add_evidence(count: int, schedule: Any, w: Any) -> None:
    """The evidence of the round for each schedule, from gamma_t and norm2(z_t)^2."""
    for m in range(count):
        w[EVIDENCE, m] = evidence(of_model(schedule, m), w[GAMMA, m], w[Z2, m])


@formula(fast=True)
def add_row(side: Any, state: Any, into: int, w: Any, row: int, h: float) -> None:
    """Add h times a row of w to a row of the state."""
    store(state, into, 0, load(side, state, into, 0) + load(side, w, row, 0) * h)


@formula(fast=True)
def account_all(side: Any, count: int, h: float, state: Any, w: Any) -> None:
    """``account`` for all models; one that overflows keeps its lambda and time, and its loss becomes infinite."""
    add_row(side, state, CONJUGATE, w, PHI_STAR, h)
    add_row(side, state, DELTA, w, GAIN, h)
    add_row(side, state, TOTAL, w, EVIDENCE, 1.0)
    add_row(side, state, ROUNDING, w, STORED, 1.0)
    for m in range(count):
        loss = state[LOSS, m] + h * w[PHI, m]
        state[LOSS, m] = loss if (loss < math.inf) & (state[ROUNDING, m] < math.inf) else math.inf
    keep_the_living(count, state, LAM, w, NEXT)
    for m in range(count):
        w[_WORK, m] = state[TIME, m] + 1.0
    keep_the_living(count, state, TIME, w, _WORK)


@formula(fast=True)
def keep_the_living(count: int, state: Any, into: int, w: Any, row: int) -> None:
    """Copy a row of w to the state, except for overflowed models."""
    for m in range(count):
        before, after = state[into, m], w[row, m]
        w[KEPT, m] = after if state[LOSS, m] < math.inf else before
    for m in range(count):
        state[into, m] = w[KEPT, m]
