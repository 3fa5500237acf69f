"""The scalar part of a round for models side by side: :mod:`giftrl.kernels.step` with a lane for each model.

What differs between models lies in rows of two arrays of fixed shape (:func:`giftrl.compiled.lanes.scratch`): ``w`` has
the numbers of a round and ``state`` those of :mod:`giftrl.kernels.scalars`. Every loop over models is short and without
a branch, so that it runs several models at a time.
"""

import math
from typing import Any

from giftrl.compiled.registry import formula
from giftrl.kernels.parts import of_model
from giftrl.kernels.scalars import CONJUGATE, LAM, LOSS, ROUNDING, SIZE, TIME, TOTAL
from giftrl.kernels.scalars import DELTA as DELTA_SUM
from giftrl.kernels.sides import lanes
from giftrl.ops.line import Affine, energy
from giftrl.ops.loss import conjugate, curvature, land_all, slope, value
from giftrl.schedules.contract import evidence, known_ahead, lam
from giftrl.updates.contract import Lines, minimises, pick_all

__all__ = [
    "BEND", "GAMMA", "LABEL", "LED", "MEASURED", "NEXT", "PHI", "SLOPE", "START", "STEP", "STORED", "Z2", "A", "P",
    "account_all", "add_evidence", "choose_all", "load_states", "next_lambdas", "read_labels", "store_states",
]  # fmt: skip

# The rows of w. Into choose_all: the labels, the predictions, and p and c of each line. Out: the fields of Chosen.
LABEL, P, START, STEP = 0, 1, 2, 3
SLOPE, PHI, PHI_STAR, DELTA, LED, BEND = 4, 5, 6, 7, 8, 9
_G, _WORK = 10, 11
# What a walk over the row has measured; a of z = a s and norm2(z)^2; gamma_t, what the schedule learns from them, and
# lambda_{t+1}; norm2^2 of the part of theta that the round stored.
MEASURED, A, Z2, GAMMA, EVIDENCE, NEXT, STORED = 15, 16, 17, 18, 19, 20, 21


@formula(fast=True)
def choose_all(side: Any, loss: Any, update: Any, h: float, w: Any, led: bool, bent: bool) -> None:
    """``choose`` for all models on affine lines; asks for phi (``led``) and phi'' (``bent``) where b leads."""
    for m in range(lanes(side)):
        w[PHI, m] = value(loss, w[P, m], w[LABEL, m])
        w[_G, m] = slope(loss, w[P, m], w[LABEL, m])
    if h == 0.0:
        for m in range(lanes(side)):
            w[SLOPE, m], w[PHI_STAR, m], w[DELTA, m], w[LED, m], w[BEND, m] = 0.0, 0.0, 0.0, w[PHI, m], 0.0
        return
    if minimises(update):
        land_all(loss, w[START], w[LABEL], w[STEP], w[SLOPE], w[PHI_STAR], w[LED], w[BEND], w[_WORK : _WORK + 4])
    else:
        pick_all(update, loss, Lines(w[LABEL], w[P], w[_G], w[START], w[STEP]), w[SLOPE])
        linear = 0
        for m in range(lanes(side)):
            linear += 1 if w[SLOPE, m] == w[_G, m] else 0
        if linear < lanes(side):
            for m in range(lanes(side)):
                w[PHI_STAR, m] = conjugate(loss, w[SLOPE, m], w[LABEL, m])
        if led:
            for m in range(lanes(side)):
                w[LED, m] = value(loss, w[START, m] - w[SLOPE, m] * w[STEP, m], w[LABEL, m])
        if bent:
            for m in range(lanes(side)):
                w[BEND, m] = curvature(loss, w[START, m] - w[SLOPE, m] * w[STEP, m], w[LABEL, m])
    for m in range(lanes(side)):
        at_g = w[_G, m] * w[P, m] - w[PHI, m]  # phi*(g), since g is the slope at p
        line = Affine(w[START, m], w[STEP, m])
        same = w[SLOPE, m] == w[_G, m]
        delta = energy(line, w[_G, m]) + at_g - energy(line, w[SLOPE, m]) - w[PHI_STAR, m]
        w[PHI_STAR, m] = at_g if same else w[PHI_STAR, m]
        w[DELTA, m] = 0.0 if same else delta


@formula(fast=True)
def load_states(side: Any, states: Any, state: Any) -> int:
    """Copy the scalars of all models, a row each, to their lanes; the number of the next round.

    A model that has overflowed is behind, and does not count.
    """
    latest = 1.0
    for m in range(lanes(side)):
        for k in range(SIZE):
            state[k, m] = states[m, k]
        latest = max(latest, states[m, TIME])
    return int(latest)


@formula(fast=True)
def store_states(side: Any, states: Any, state: Any) -> None:
    """Write the scalars back."""
    for m in range(lanes(side)):
        for k in range(SIZE):
            states[m, k] = state[k, m]


@formula(fast=True)
def read_labels(side: Any, labels: Any, i: int, w: Any) -> None:
    """The labels of row i: one for all models, or one for each."""
    if labels.shape[1] > 1:
        for m in range(lanes(side)):
            w[LABEL, m] = labels[i, m]
    else:
        for m in range(lanes(side)):
            w[LABEL, m] = labels[i, 0]


@formula(fast=True)
def next_lambdas(side: Any, schedule: Any, t: int, state: Any, w: Any) -> None:
    """lambda_{t+1}, from what :func:`add_evidence` gathered where the schedule is not known ahead."""
    if known_ahead(schedule):
        for m in range(lanes(side)):
            w[NEXT, m] = lam(of_model(schedule, m), t + 1, state[TOTAL, m])
    else:
        for m in range(lanes(side)):
            w[NEXT, m] = lam(of_model(schedule, m), t + 1, state[TOTAL, m] + w[EVIDENCE, m])


@formula(fast=True)
def add_evidence(side: Any, schedule: Any, w: Any) -> None:
    """What the schedules learn from gamma_t and norm2(z_t)^2."""
    for m in range(lanes(side)):
        w[EVIDENCE, m] = evidence(of_model(schedule, m), w[GAMMA, m], w[Z2, m])


@formula(fast=True)
def account_all(side: Any, h: float, state: Any, w: Any) -> None:
    """``account`` for all models; the loss of one that overflows is infinite, and its other numbers stay."""
    for m in range(lanes(side)):
        loss, rounding = state[LOSS, m] + h * w[PHI, m], state[ROUNDING, m] + w[STORED, m]
        good = loss < math.inf and rounding < math.inf
        state[LOSS, m] = loss if good else math.inf
        state[CONJUGATE, m] += h * w[PHI_STAR, m] if good else 0.0
        state[DELTA_SUM, m] += h * w[DELTA, m] if good else 0.0
        state[TOTAL, m] += w[EVIDENCE, m] if good else 0.0
        state[ROUNDING, m] = rounding if good else state[ROUNDING, m]
        state[LAM, m] = w[NEXT, m] if good else state[LAM, m]
        state[TIME, m] += 1.0 if good else 0.0
