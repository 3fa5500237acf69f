"""The loops for one model or several in parallel, with a common strength or a strength per coordinate.

With one strength, psi_t(x) = (L_t/2) norm2(x)^2, only theta is stored, with a number for each model: x_j = theta_j/L_t,
so that growth of lambda costs nothing. psi_{t+1} is known before z_t is chosen, unless the schedule needs z_t; so the
update can use H or H'. A round is a function of two numbers, <s, theta> and norm2(s)^2.

gamma_t needs norm2(x_{t+1} - x_t)^2 over all coordinates. x_{t+1} - x_t = theta (1/L_{t+1} - 1/L_t) - a s/L_{t+1} gives
it in closed form from norm2(theta)^2. With an L1 term it does not: see :mod:`giftrl.kernels.loop_row_copy`.
"""

import math
from typing import Any

import numpy as np

from giftrl.compiled.lanes import get, lanes, load, narrow, prefetch, put, scratch, store, wide, zeros
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, coming, end
from giftrl.kernels import scalar_round as by
from giftrl.kernels.base import LabeledRows, weight
from giftrl.kernels.loop_row_copy import THETA, Q, X, columns
from giftrl.ops.loss import value
from giftrl.regularizers.contract import accumulate, centred, strength, uses_curvature
from giftrl.schedules.contract import known_ahead, uses_gamma


@formula(fast=True)
def recount_all(side: Any, theta: Any, state: Any, entries: float) -> None:
    """Recompute norm2(theta)^2 of each model when due."""
    state[by.WALKED, 0] += entries
    if by.recount_due(state[by.WALKED, 0], theta.shape[0]):
        state[by.WALKED, 0] = 0.0
        total = zeros(side)
        for j in range(theta.shape[0]):
            one = wide(load(side, theta, j, 0))
            total = total + one * one
        store(state, by.THETA2, 0, total)


@formula(fast=True)
def begin_all(parts: by.Parts, count: int, t: int, h: float, n2: float, state: Any, w: Any) -> None:
    """The predictions, p and c of the lines, and lambda_{t+1} if known ahead."""
    psi = parts.psi
    if known_ahead(parts.schedule):
        by.next_lambdas(count, parts.schedule, t, state, w)
    for m in range(count):
        w[by.P, m] = w[by.MEASURED, m] / strength(psi, state[by.LAM, m], 0.0)
    if parts.ahead:
        for m in range(count):
            per = 1.0 / strength(psi, w[by.NEXT, m], 0.0)
            w[by.START, m], w[by.STEP, m] = w[by.MEASURED, m] * per, min(h * n2 * per, by.LONGEST_STEP)
    else:
        for m in range(count):
            per = 1.0 / strength(psi, state[by.LAM, m], 0.0)
            w[by.START, m], w[by.STEP, m] = w[by.MEASURED, m] * per, min(h * n2 * per, by.LONGEST_STEP)


@formula(fast=True)
def uniform_gammas(parts: by.Parts, count: int, h: float, n2: float, state: Any, w: Any) -> None:
    """gamma_t = h (phi(x_t) - phi(x_{t+1})) - (L_t/2) norm2(x_{t+1} - x_t)^2."""
    psi = parts.psi
    if not parts.ahead:
        for m in range(count):
            after = (w[by.MEASURED, m] - w[by.A, m] * n2) / strength(psi, w[by.NEXT, m], 0.0)
            w[by.LED, m] = value(parts.loss, after, w[by.LABEL, m])
    for m in range(count):
        now = strength(psi, state[by.LAM, m], 0.0)
        per_now, per_after = 1.0 / now, 1.0 / strength(psi, w[by.NEXT, m], 0.0)
        shrink, step = per_after - per_now, w[by.A, m] * per_after
        moved2 = shrink * (shrink * state[by.THETA2, m] - 2.0 * step * w[by.MEASURED, m]) + step * step * n2
        w[by.GAMMA, m] = h * (w[by.PHI, m] - w[by.LED, m]) - 0.5 * now * moved2


@formula(fast=True)
def finish_uniform(
    parts: by.Parts, count: int, t: int, h: float, n2: float, largest: float, state: Any, w: Any
) -> bool:
    """Compute a, lambda_{t+1}, evidence and norm2(theta)^2; False, without changes, if a single model overflows."""
    schedule = parts.schedule
    for m in range(count):
        w[by.A, m] = h * w[by.SLOPE, m]
        w[by.Z2, m], w[by.GAMMA, m] = w[by.A, m] * w[by.A, m] * n2, 0.0
    if not known_ahead(schedule):
        by.add_evidence(count, schedule, w)
        by.next_lambdas(count, schedule, t, state, w)
    if uses_gamma(schedule):
        uniform_gammas(parts, count, h, n2, state, w)
    by.add_evidence(count, schedule, w)
    for m in range(count):
        theta2 = state[by.THETA2, m] + w[by.A, m] * (w[by.A, m] * n2 - 2.0 * w[by.MEASURED, m])
        good = (abs(w[by.A, m]) < math.inf) & (theta2 <= largest)
        w[by.STORED, m] = theta2 if good else math.inf
    return lanes(parts.side) > 1 or w[by.STORED, 0] + abs(h * w[by.PHI, 0]) < math.inf


@formula(fast=True)
def account_uniform(parts: by.Parts, count: int, h: float, state: Any, w: Any) -> None:
    """Add the round to the sums; a becomes 0 for models that have overflowed."""
    by.account_all(parts.side, count, h, state, w)
    for m in range(count):
        w[by.KEPT, m] = w[by.A, m] if state[by.LOSS, m] < math.inf else 0.0
    for m in range(count):
        w[by.A, m] = w[by.KEPT, m]
    by.keep_the_living(count, state, by.THETA2, w, by.STORED)


@formula(fast=True)
def learn_uniform(parts: by.Parts, batch: LabeledRows, theta: Any, states: Any, largest: float) -> int:
    """Predict and learn, row by row, in one traversal of a row for all models. Returns the number of rows learned.

    ``batch.labels`` has one column for all models or one for each. A single model stops before a row that takes
    norm2(theta)^2 above ``largest``. With several models, one that overflows stays at its point, and its loss becomes
    infinite.
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
            # Two alternating sums, so that additions need not wait for each other.
            ts, ts_last = ts_last + wide(load(side, theta, column(rows, i, k), 0)) * s, ts
            n2, n2_last = n2_last + s * s, n2
        n2 += n2_last
        store(w, by.MEASURED, 0, ts + ts_last)
        by.read_labels(count, labels, i, w)
        begin_all(parts, count, t, h, n2, state, w)
        by.choose_all(parts, count, h, w, uses_gamma(parts.schedule) and parts.ahead, False)
        if not finish_uniform(parts, count, t, h, n2, largest, state, w):
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


# The loop for a strength of each coordinate, L_j = strength(lambda_t, q_j).
#
# AdaGrad, centred growth and curvature: psi_{t+1} depends on the round, so the line is that of psi_t (H'). If psi is
# centred, its growth is centred at x: coordinates that are not in the row do not change. With another psi a
# growing lambda rescales x everywhere; gamma_t then needs E = sum_j theta_j^2/w_j, L_j = lambda w_j.
#
# Row j of the coordinates has x of all models (theta if psi is not centred), then q of all models, and then, if psi is
# centred, theta of all models; each is read and written as one vector. An L1 term needs more:
# :mod:`giftrl.kernels.loop_row_copy`.
#
# s_j/L_j is computed in the type of ``steps``. In float32 its error is a few times 2^-24 of itself, as that of x_j and
# q_j, which are stored so; theta, p and all sums are computed in float64.


#: A cache line of 64 bytes has this many float32.
FLOATS_PER_LINE = 16
#: A single model stops at a row that might exceed these limits, which are well inside float32 (up to 3e38). A step
#: whose square is below the first is half of the last place of 1e38 at most.
LARGE_SQUARE, LARGE, SMALL = 1e60, 1e30, 1e-30


@formula(fast=True)
def at(side: Any, quantity: int) -> int:
    """The column from which a quantity of a coordinate is stored, in the order of :mod:`giftrl.kernels.row_copy`."""
    return np.uint64(quantity * lanes(side))  # type: ignore[return-value]


@formula(fast=True)
def strengths(side: Any, psi: Any, lam: Any, q: Any) -> Any:
    """L_j of all models, from vectors of one type."""
    out = q
    for r in range(lanes(side)):
        out = put(out, r, strength(psi, get(lam, r), get(q, r)))
    return out


@formula(fast=True)
def accumulated(side: Any, psi: Any, q: Any, z: Any, sigma: Any) -> Any:
    """q_j of all models after a round, from vectors of one type."""
    out = q
    for r in range(lanes(side)):
        out = put(out, r, accumulate(psi, get(q, r), get(z, r), get(sigma, r)))
    return out


@formula(fast=True)
def measure_all(parts: by.Parts, rows: Any, i: int, x: Any, steps: Any, state: Any, w: Any) -> float:
    """p and c of all models, and s_j/L_j into ``steps``; norm2(s)^2."""
    side, psi, first = parts.side, parts.psi, begin(rows, i)
    lam = narrow(steps, load(side, state, by.LAM, 0))
    p, c, n2 = zeros(side), zeros(side), 0.0
    for k in range(first, end(rows, i)):
        j, later, s = column(rows, i, k), coming(rows, i, k), np.float64(rows.data[k])
        if lanes(side) > 1:
            for line in range(0, columns(psi) * lanes(side), FLOATS_PER_LINE):
                prefetch(x, later, line)
        along = steps.dtype.type(s) / strengths(side, psi, lam, narrow(steps, load(side, x, j, at(side, Q))))
        store(steps, k - first, 0, along)
        if centred(psi):
            p = p + wide(load(side, x, j, at(side, X))) * s
        else:
            p = p + wide(load(side, x, j, at(side, X))) * wide(along)
        c = c + wide(along) * s
        n2 += s * s
    store(w, by.P, 0, p)
    store(w, by.MEASURED, 0, c)
    return n2


@formula(fast=True)
def move_all(parts: by.Parts, rows: Any, i: int, x: Any, steps: Any, w: Any) -> None:
    """Move the coordinates; norm2^2 of the stored theta; with several models, NaN on overflow."""
    side, psi, first = parts.side, parts.psi, begin(rows, i)
    a, bend = load(side, w, by.A, 0), narrow(steps, load(side, w, by.BEND, 0))
    a_narrow, nothing = narrow(steps, a), x.dtype.type(0.0)
    stored, beyond = zeros(side), narrow(x, zeros(side))
    for k in range(first, end(rows, i)):
        j, s, s_narrow = column(rows, i, k), np.float64(rows.data[k]), steps.dtype.type(rows.data[k])
        z = a * s
        q = narrow(steps, load(side, x, j, at(side, Q)))
        q_new = narrow(x, accumulated(side, psi, q, narrow(steps, z), bend * s_narrow * s_narrow))
        store(x, j, at(side, Q), q_new)
        if lanes(side) > 1:
            beyond = beyond + q_new * nothing
        if centred(psi):
            moved = narrow(steps, load(side, x, j, at(side, X))) - a_narrow * load(side, steps, k - first, 0)
            x_new = narrow(x, moved)
            store(x, j, at(side, X), x_new)
            if lanes(side) > 1:
                beyond = beyond + x_new * nothing
            theta = wide(load(side, x, j, at(side, THETA))) - z
            theta_new = narrow(x, theta)
            store(x, j, at(side, THETA), theta_new)
        else:
            theta = wide(load(side, x, j, at(side, X))) - z
            theta_new = narrow(x, theta)
            store(x, j, at(side, X), theta_new)
        if lanes(side) > 1:
            beyond = beyond + theta_new * nothing
        stored = stored + theta * theta
    store(w, by.STORED, 0, stored + wide(beyond))


@formula(fast=True)
def coordinate_gammas(parts: by.Parts, h: float, rows: Any, i: int, x: Any, state: Any, w: Any) -> None:
    """gamma_t of a psi that is not centred, and the change of E."""
    side, psi = parts.side, parts.psi
    a, bend = load(side, w, by.A, 0), load(side, w, by.BEND, 0)
    now, after, one = load(side, state, by.LAM, 0), load(side, w, by.NEXT, 0), zeros(side) + 1.0
    moved, p_after, before2, after2 = zeros(side), zeros(side), zeros(side), zeros(side)
    for k in range(begin(rows, i), end(rows, i)):
        j, s = column(rows, i, k), np.float64(rows.data[k])
        q, old = wide(load(side, x, j, at(side, Q))), wide(load(side, x, j, at(side, X)))
        new, q_new = old - a * s, accumulated(side, psi, q, a * s, bend * s * s)
        new, q_new = wide(narrow(x, new)), wide(narrow(x, q_new))
        big_l = strengths(side, psi, now, q)
        x_new = new / strengths(side, psi, after, q_new)
        move = x_new - old / big_l
        moved = moved + big_l * move * move * 0.5
        p_after = p_after + x_new * s
        before2 = before2 + old * old / strengths(side, psi, one, q)
        after2 = after2 + new * new / strengths(side, psi, one, q_new)
    for m in range(lanes(side)):
        further = get(moved, m) + by.moved_elsewhere(
            state[by.LAM, m], w[by.NEXT, m], state[by.ENERGY, m] - get(before2, m)
        )
        w[by.GAMMA, m] = h * (w[by.PHI, m] - value(parts.loss, get(p_after, m), w[by.LABEL, m])) - further
        state[by.ENERGY, m] += get(after2, m) - get(before2, m)


@formula(fast=True)
def finish_coordinates(parts: by.Parts, count: int, t: int, h: float, n2: float, state: Any, w: Any) -> None:
    """Compute a and lambda_{t+1}; models that have overflowed get a = 0 and an infinite loss."""
    psi, schedule = parts.psi, parts.schedule
    for m in range(count):
        a, phi = h * w[by.SLOPE, m], w[by.PHI, m]
        w[by.KEPT, m] = phi if (abs(a) < math.inf) & (state[by.LOSS, m] < math.inf) else math.inf
    for m in range(count):
        w[by.PHI, m] = w[by.KEPT, m]
    for m in range(count):
        a = h * w[by.SLOPE, m]
        w[by.A, m] = a if w[by.PHI, m] < math.inf else 0.0
    for m in range(count):
        bend = h * w[by.BEND, m]
        w[by.BEND, m] = bend if w[by.PHI, m] < math.inf else 0.0
    for m in range(count):
        w[by.Z2, m] = w[by.A, m] * w[by.A, m] * n2
        w[by.GAMMA, m] = 0.0
    if centred(psi) and uses_gamma(schedule):
        for m in range(count):
            moved = 0.5 * w[by.A, m] * w[by.A, m] * w[by.MEASURED, m]
            w[by.GAMMA, m] = h * (w[by.PHI, m] - w[by.LED, m]) - moved
    by.add_evidence(count, schedule, w)
    by.next_lambdas(count, schedule, t, state, w)


@formula(fast=True)
def ordinary(n2: float, state: Any, w: Any) -> bool:
    """True if the row takes the single model nowhere near overflow or underflow of float32.

    abs(s_j/L_j) is at most norm2(s)/lambda; q grows by at most h phi'' s_j^2.
    """
    a2, lam_now = w[by.A, 0] * w[by.A, 0], state[by.LAM, 0]
    sizes = lam_now > SMALL and (n2 == 0.0 or n2 > SMALL) and n2 < LARGE
    steps = a2 < LARGE_SQUARE and a2 * n2 < LARGE_SQUARE and a2 * n2 < LARGE_SQUARE * (lam_now * lam_now)
    return sizes and steps and w[by.BEND, 0] * n2 < LARGE and w[by.PHI, 0] + state[by.ROUNDING, 0] < math.inf


@formula(fast=True)
def learn_coordinate(parts: by.Parts, batch: LabeledRows, x: Any, states: Any, steps: Any) -> int:
    """Predict and learn, row by row, in one traversal of a row for all models. Returns the number of rows learned.

    ``steps`` is a buffer with a row for each entry of the longest row. A single model stops before a row that might
    come near the limits of float32; its regularizer must be ``bounded``. With several models, one that overflows has an
    infinite loss, and its coordinates need not be finite.
    """
    rows, labels, weights, predictions = batch
    side, psi, schedule = parts.side, parts.psi, parts.schedule
    led, bent = centred(psi) and uses_gamma(schedule), uses_curvature(psi)
    w, state = scratch(side), scratch(side)
    count, done = by.lane_count(side, states), len(labels)
    t = by.load_states(count, states, state)
    for i in range(len(labels)):
        h = weight(weights, i)
        n2 = measure_all(parts, rows, i, x, steps, state, w)
        by.read_labels(count, labels, i, w)
        for m in range(count):
            w[by.START, m], w[by.STEP, m] = w[by.P, m], min(h * w[by.MEASURED, m], by.LONGEST_STEP)
        by.choose_all(parts, count, h, w, led, bent)
        finish_coordinates(parts, count, t, h, n2, state, w)
        if lanes(side) == 1 and not ordinary(n2, state, w):
            done = i
            break
        store(predictions, i, 0, load(side, w, by.P, 0))
        if uses_gamma(schedule) and not centred(psi):
            coordinate_gammas(parts, h, rows, i, x, state, w)
            by.add_evidence(count, schedule, w)
        move_all(parts, rows, i, x, steps, w)
        by.account_all(parts.side, count, h, state, w)
        t += 1
    by.store_states(count, states, state)
    return done
