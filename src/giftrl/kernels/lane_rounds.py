"""The scalar part of a round for models side by side: :mod:`giftrl.kernels.scalar_round` with a lane for each model.

Numbers that differ between models are rows of two arrays of fixed shape (:func:`giftrl.compiled.lanes.scratch`): ``w``
has those of a round and ``state`` those of :mod:`giftrl.kernels.scalar_round`. Every loop over models is short and
without a branch, so that it runs several models at a time. For one model a compiler keeps both arrays in registers.
"""

import math
from typing import Any

from giftrl.compiled.lanes import load, store
from giftrl.compiled.registry import formula
from giftrl.kernels.lane_counts import lanes
from giftrl.kernels.part_codes import of_model
from giftrl.kernels.scalar_round import (
    CONJUGATE,
    LAM,
    LOSS,
    ROUNDING,
    SIZE,
    TIME,
    TOTAL,
    Parts,
    choose,
)
from giftrl.kernels.scalar_round import DELTA as DELTA_SUM
from giftrl.ops.line import Affine, energy
from giftrl.ops.loss import conjugate, curvature, land, slope, value
from giftrl.schedules.contract import evidence, known_ahead, lam
from giftrl.updates.contract import minimises, pick

# The rows of w. Into choose_all: the labels, the predictions, and p and c of each line. Out: the fields of Chosen.
LABEL, P, START, STEP = 0, 1, 2, 3
SLOPE, PHI, PHI_STAR, DELTA, LED, BEND = 4, 5, 6, 7, 8, 9
_G, _WORK = 10, 11
# The measurement of a walk over the row; a of z = a s and norm2(z)^2; gamma_t, the evidence for the schedule, and
# lambda_{t+1}; norm2^2 of the part of theta that the round stored.
MEASURED, A, Z2, GAMMA, EVIDENCE, NEXT, STORED = 15, 16, 17, 18, 19, 20, 21
# phi* of the b that was picked, and a row for choices between two others: a loop that writes to a row either its old
# number or a new one would become stores with a mask, which are slow on some processors.
_PICKED, KEPT = 22, 23


@formula(fast=True)
def choose_all(parts: Parts, count: int, h: float, w: Any, led: bool, bent: bool) -> None:
    """``choose`` for all models on affine lines; asks for phi (``led``) and phi'' (``bent``) at their ends."""
    loss, update = parts.loss, parts.update
    if lanes(parts.side) == 1:
        line = Affine(w[START, 0], w[STEP, 0])
        chosen = choose(loss, update, w[LABEL, 0], h, w[P, 0], line, led or bent)
        w[SLOPE, 0], w[PHI, 0], w[PHI_STAR, 0], w[DELTA, 0], w[LED, 0], w[BEND, 0] = chosen
        return
    for m in range(count):
        w[PHI, m] = value(loss, w[P, m], w[LABEL, m])
        w[_G, m] = slope(loss, w[P, m], w[LABEL, m])
    if h == 0.0:
        for m in range(count):
            w[SLOPE, m], w[PHI_STAR, m], w[DELTA, m], w[LED, m], w[BEND, m] = 0.0, 0.0, 0.0, w[PHI, m], 0.0
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
    # A loop for each choice: a compiler would make one branch of several, and then run one model at a time.
    for m in range(count):
        w[PHI_STAR, m] = w[_WORK, m] if w[SLOPE, m] == w[_G, m] else w[_PICKED, m]
    for m in range(count):
        w[DELTA, m] = 0.0 if w[SLOPE, m] == w[_G, m] else w[_WORK + 1, m]


@formula(fast=True)
def lane_count(side: Any, states: Any) -> int:
    """The number of lanes: a constant if it is one; otherwise a number, so that short loops are not unrolled."""
    return 1 if lanes(side) == 1 else int(states.shape[0])


@formula(fast=True)
def load_states(count: int, states: Any, state: Any) -> int:
    """Copy the numbers of all models, a row each, to their lanes; return the number of the next round.

    A model that has overflowed stopped at an earlier round, and does not count.
    """
    latest = 1.0
    for m in range(count):
        for k in range(SIZE):
            state[k, m] = states[m, k]
        latest = max(latest, states[m, TIME])
    return int(latest)


@formula(fast=True)
def store_states(count: int, states: Any, state: Any) -> None:
    """Write the numbers back."""
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
    """lambda_{t+1}; a schedule that is not known ahead includes the evidence of this round."""
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
    add_row(side, state, DELTA_SUM, w, DELTA, h)
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
    """Copy a row of w to the state, except for models that have overflowed."""
    for m in range(count):
        before, after = state[into, m], w[row, m]
        w[KEPT, m] = after if state[LOSS, m] < math.inf else before
    for m in range(count):
        state[into, m] = w[KEPT, m]
