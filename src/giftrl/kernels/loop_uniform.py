"""The loop for one strength for all coordinates, psi_t(x) = (L_t/2) norm2(x)^2, for one model or several side by side.

Only theta is stored, with a number for each model: x_j = theta_j/L_t, so that growth of lambda costs nothing. psi_{t+1}
is known before z_t is chosen, unless the schedule needs z_t; so the update can use H or H'. A round is a function of
two numbers, <s, theta> and norm2(s)^2.

gamma_t needs norm2(x_{t+1} - x_t)^2 over all coordinates. x_{t+1} - x_t = theta (1/L_{t+1} - 1/L_t) - a s/L_{t+1} gives
it in closed form from norm2(theta)^2. With an L1 term it does not: see :mod:`giftrl.kernels.loop_row_copy`.
"""

import math
from typing import Any

import numpy as np

from giftrl.compiled.lanes import load, narrow, prefetch, scratch, store, wide, zeros
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, coming, end
from giftrl.kernels import lane_rounds as by
from giftrl.kernels.base import LabeledRows, weight
from giftrl.kernels.lane_counts import lanes
from giftrl.kernels.scalar_round import LAM, LONGEST_STEP, LOSS, THETA2, WALKED, Parts, recount_due
from giftrl.ops.loss import value
from giftrl.regularizers.contract import strength
from giftrl.schedules.contract import known_ahead, uses_gamma


@formula(fast=True)
def recount_all(side: Any, theta: Any, state: Any, entries: float) -> None:
    """Sum norm2(theta)^2 of each model anew when it is due."""
    state[WALKED, 0] += entries
    if recount_due(state[WALKED, 0], theta.shape[0]):
        state[WALKED, 0] = 0.0
        total = zeros(side)
        for j in range(theta.shape[0]):
            one = wide(load(side, theta, j, 0))
            total = total + one * one
        store(state, THETA2, 0, total)


@formula(fast=True)
def begin_all(parts: Parts, count: int, t: int, h: float, n2: float, state: Any, w: Any) -> None:
    """The predictions, p and c of the lines, and lambda_{t+1} if it is known already."""
    psi = parts.psi
    if known_ahead(parts.schedule):
        by.next_lambdas(count, parts.schedule, t, state, w)
    for m in range(count):
        w[by.P, m] = w[by.MEASURED, m] / strength(psi, state[LAM, m], 0.0)
    if parts.ahead:
        for m in range(count):
            per = 1.0 / strength(psi, w[by.NEXT, m], 0.0)
            w[by.START, m], w[by.STEP, m] = w[by.MEASURED, m] * per, min(h * n2 * per, LONGEST_STEP)
    else:
        for m in range(count):
            per = 1.0 / strength(psi, state[LAM, m], 0.0)
            w[by.START, m], w[by.STEP, m] = w[by.MEASURED, m] * per, min(h * n2 * per, LONGEST_STEP)


@formula(fast=True)
def gammas(parts: Parts, count: int, h: float, n2: float, state: Any, w: Any) -> None:
    """gamma_t = h (phi(x_t) - phi(x_{t+1})) - (L_t/2) norm2(x_{t+1} - x_t)^2."""
    psi = parts.psi
    if not parts.ahead:
        for m in range(count):
            after = (w[by.MEASURED, m] - w[by.A, m] * n2) / strength(psi, w[by.NEXT, m], 0.0)
            w[by.LED, m] = value(parts.loss, after, w[by.LABEL, m])
    for m in range(count):
        now = strength(psi, state[LAM, m], 0.0)
        per_now, per_after = 1.0 / now, 1.0 / strength(psi, w[by.NEXT, m], 0.0)
        shrink, step = per_after - per_now, w[by.A, m] * per_after
        moved2 = shrink * (shrink * state[THETA2, m] - 2.0 * step * w[by.MEASURED, m]) + step * step * n2
        w[by.GAMMA, m] = h * (w[by.PHI, m] - w[by.LED, m]) - 0.5 * now * moved2


@formula(fast=True)
def finish_all(parts: Parts, count: int, t: int, h: float, n2: float, largest: float, state: Any, w: Any) -> bool:
    """Compute a, lambda_{t+1}, the evidence, and norm2(theta)^2, infinite for a model that overflows.

    A model whose norm2(theta)^2 is above ``largest`` has overflowed: no coordinate can be above its root. False if
    there is but one model, and it has; nothing has changed then.
    """
    schedule = parts.schedule
    for m in range(count):
        w[by.A, m] = h * w[by.SLOPE, m]
        w[by.Z2, m], w[by.GAMMA, m] = w[by.A, m] * w[by.A, m] * n2, 0.0
    if not known_ahead(schedule):
        by.add_evidence(count, schedule, w)
        by.next_lambdas(count, schedule, t, state, w)
    if uses_gamma(schedule):
        gammas(parts, count, h, n2, state, w)
    by.add_evidence(count, schedule, w)
    for m in range(count):
        theta2 = state[THETA2, m] + w[by.A, m] * (w[by.A, m] * n2 - 2.0 * w[by.MEASURED, m])
        good = (abs(w[by.A, m]) < math.inf) & (theta2 <= largest)
        w[by.STORED, m] = theta2 if good else math.inf
    return lanes(parts.side) > 1 or w[by.STORED, 0] + abs(h * w[by.PHI, 0]) < math.inf


@formula(fast=True)
def account_uniform(parts: Parts, count: int, h: float, state: Any, w: Any) -> None:
    """Add the round to the sums; a becomes 0 for models that have overflowed."""
    by.account_all(parts.side, count, h, state, w)
    for m in range(count):
        w[by.KEPT, m] = w[by.A, m] if state[LOSS, m] < math.inf else 0.0
    for m in range(count):
        w[by.A, m] = w[by.KEPT, m]
    by.keep_the_living(count, state, THETA2, w, by.STORED)


@formula(fast=True)
def learn_uniform(parts: Parts, batch: LabeledRows, theta: Any, states: Any, largest: float) -> int:
    """Predict, account, learn, row by row: one walk over a row serves all models. Return how many rows were learned.

    ``batch.labels`` has one column for all models or one for each. One model halts before a row that takes
    norm2(theta)^2 above ``largest``. Of several models, one that overflows stays at its point, and its loss is infinite
    from there on.
    """
    rows, labels, weights, predictions = batch
    side = parts.side
    w, state = scratch(side), scratch(side)
    count, done = by.lane_count(side, states), len(labels)
    t = by.load_states(count, states, state)
    for i in range(len(labels)):
        first, last = begin(rows, i), end(rows, i)
        h, n2, n2_last, ts, ts_last = weight(weights, i), 0.0, 0.0, zeros(side), zeros(side)
        for k in range(first, last):
            if lanes(side) > 1:
                prefetch(theta, coming(rows, i, k), 0)
            s = np.float64(rows.data[k])
            # Two sums that take turns: an addition need not wait for the last one.
            ts, ts_last = ts_last + wide(load(side, theta, column(rows, i, k), 0)) * s, ts
            n2, n2_last = n2_last + s * s, n2
        n2 += n2_last
        store(w, by.MEASURED, 0, ts + ts_last)
        by.read_labels(count, labels, i, w)
        begin_all(parts, count, t, h, n2, state, w)
        by.choose_all(parts, count, h, w, uses_gamma(parts.schedule) and parts.ahead, False)
        if not finish_all(parts, count, t, h, n2, largest, state, w):
            done = i
            break
        account_uniform(parts, count, h, state, w)
        store(predictions, i, 0, load(side, w, by.P, 0))
        a = load(side, w, by.A, 0)
        for k in range(first, last):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            store(theta, j, 0, narrow(theta, wide(load(side, theta, j, 0)) - a * s))
        recount_all(side, theta, state, float(last - first))
        t += 1
    by.store_states(count, states, state)
    return done
