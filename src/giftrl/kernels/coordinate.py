"""The loop for regularizers with a strength for each coordinate, L_j = strength(lambda_t, q_j).

AdaGrad, centred growth and curvature: psi_{t+1} depends on the round, so the line is that of psi_t (H').

A centred psi grows at x itself, which moves u = theta + tilt by growth times x and leaves x alone: growth of lambda
costs nothing in coordinates that a row does not touch. Where psi is not centred a growing lambda rescales x everywhere;
gamma_t then needs E = sum_j soft(u_j)^2/w_j, L_j = lambda w_j.

As in :mod:`giftrl.kernels.uniform`, a round works on a copy of the row's coordinates (:mod:`giftrl.kernels.row_copy`).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end, longest
from giftrl.kernels.base import Batch, weight
from giftrl.kernels.row_copy import (
    LocalLine,
    Q,
    Step,
    X,
    gather,
    led_divergence,
    measure,
    move_centred,
    move_plain,
    scatter,
)
from giftrl.kernels.scalar_round import (
    ENERGY,
    LAM,
    LONGEST,
    ROUNDING,
    TOTAL,
    Chosen,
    Parts,
    account,
    choose,
    moved_elsewhere,
    next_lambda,
    put_back,
    soft,
    take_out,
)
from giftrl.ops.line import Affine
from giftrl.ops.loss import value
from giftrl.regularizers.contract import centred, l1_strength, strength, uses_curvature
from giftrl.schedules.contract import evidence, uses_gamma


class Example(NamedTuple):
    """An example as a round sees it."""

    y: float
    h: float  # the weight
    c: float  # sum_j s_j^2/L_j
    n2: float  # norm2(s)^2


@formula(fast=True)
def finish(parts: Parts, example: Example, v: Any, w: Any, m: int, steps: Any, chosen: Chosen, state: Any) -> None:
    """What a round leaves behind once b is chosen: the coordinates, lambda_{t+1} and the sums."""
    loss, psi, schedule = parts.loss, parts.psi, parts.schedule
    y, h, c, n2 = example
    a, bend, lam_now = h * chosen.b, h * chosen.bend, state[m, LAM]
    gamma = 0.0
    if centred(psi) and uses_gamma(schedule):
        moved = 0.5 * a * a * c if l1_strength(psi) == 0.0 else led_divergence(psi, v, w, m, lam_now, a)
        gamma = h * (chosen.phi - chosen.phi_led) - moved
    next_lam = next_lambda(schedule, state, m, gamma, a * a * n2)
    step = Step(a, bend, lam_now, next_lam)
    if centred(psi):
        stored = move_centred(psi, v, w, m, steps, step)
    else:
        energy = uses_gamma(schedule)
        stored, moved, p_after, before2, after2 = move_plain(psi, v, w, m, step, energy)
        if energy:
            moved += moved_elsewhere(state, m, next_lam, before2)
            gamma = h * (chosen.phi - value(loss, p_after, y)) - moved
            state[m, ENERGY] += after2 - before2
    state[m, TOTAL] += evidence(schedule, gamma, a * a * n2)
    account(state, m, h, chosen, stored, next_lam)


@formula(fast=True)
def round_coordinate(
    parts: Parts, y: float, h: float, v: Any, w: Any, m: int, steps: Any, state: Any
) -> tuple[float, float]:
    """One round: the prediction and a, z = a s; where a is beyond float64, nothing has changed."""
    psi, lam_now = parts.psi, state[m, LAM]
    p, c, n2 = measure(psi, v, w, m, steps, lam_now)
    # The point to which a leads under psi_t: what a centred psi will keep, and where its curvature is taken.
    arrival = uses_curvature(psi) or (centred(psi) and uses_gamma(parts.schedule))
    if l1_strength(psi) == 0.0:
        chosen = choose(parts, y, h, p, Affine(p, min(h * c, LONGEST)), arrival)
    else:
        chosen = choose(parts, y, h, p, LocalLine(psi, v, w, m, lam_now, h), arrival)
    a = h * chosen.b
    if abs(a) < math.inf:
        finish(parts, Example(y, h, c, n2), v, w, m, steps, chosen, state)
    return p, a


@formula(fast=True)
def learn_coordinate(parts: Parts, batch: Batch, coordinates: Any, state: Any) -> int:
    """One model over a batch: predict, account, learn, row by row; how many rows before one that overflows."""
    rows, labels, weights, predictions = batch
    w = np.empty((1, coordinates.shape[2], longest(rows)), coordinates.dtype)
    steps = np.empty((1, longest(rows)))
    for i in range(len(labels)):
        before = take_out(state, 0)
        gather(parts.psi, rows, i, coordinates, 0, w)
        v = rows.data[begin(rows, i) : end(rows, i)]
        predictions[i], a = round_coordinate(parts, labels[i], weight(weights, i), v, w, 0, steps, state)
        if not (abs(a) < math.inf and state[0, ROUNDING] < math.inf):
            put_back(state, 0, before)
            return i
        scatter(parts.psi, rows, i, coordinates, 0, w)
    return len(labels)


@formula(fast=True)
def predict_coordinate(psi: Any, lam_now: float, rows: Any, coordinates: Any, scores: Any) -> int:
    """Predict without learning: <s, x> with x_j as it is stored if psi is centred, soft(theta_j, l1)/L_j if not."""
    for i in range(len(scores)):
        p = 0.0
        for k in range(begin(rows, i), end(rows, i)):
            j = column(rows, i, k)
            x = np.float64(coordinates[j, 0, X])
            if not centred(psi):
                x = soft(x, l1_strength(psi)) / strength(psi, lam_now, np.float64(coordinates[j, 0, Q]))
            p += np.float64(rows.data[k]) * x
        scores[i] = p
    return len(scores)
