"""The loop for a strength of each coordinate, L_j = strength(lambda_t, q_j), for one model or several side by side.

AdaGrad, centred growth and curvature: psi_{t+1} depends on the round, so the line is that of psi_t (H'). A centred psi
grows at x itself: growth of lambda costs nothing in coordinates that are not in the row. With another psi a growing
lambda rescales x everywhere; gamma_t then needs E = sum_j theta_j^2/w_j, L_j = lambda w_j.

Row j of the coordinates has x of all models (theta if psi is not centred), then q of all models, and then, if psi is
centred, theta of all models; each is read and written as one vector. An L1 term needs more:
:mod:`giftrl.kernels.loop_row_copy`.

s_j/L_j is computed in the type of ``steps``. In float32 its error is a few times 2^-24 of itself, as that of x_j and
q_j, which are stored so; theta, p and all sums are computed in float64.
"""

import math
from typing import Any

import numpy as np

from giftrl.compiled.lanes import get, load, narrow, prefetch, put, scratch, store, wide, zeros
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, coming, end
from giftrl.kernels import lane_rounds as by
from giftrl.kernels.base import LabeledRows, weight
from giftrl.kernels.lane_counts import lanes
from giftrl.kernels.loop_row_copy import THETA, Q, X, columns
from giftrl.kernels.scalar_round import ENERGY, LAM, LONGEST_STEP, LOSS, ROUNDING, Parts, moved_elsewhere
from giftrl.ops.loss import value
from giftrl.regularizers.contract import accumulate, centred, strength, uses_curvature
from giftrl.schedules.contract import uses_gamma

#: A cache line of 64 bytes has this many float32.
FLOATS_PER_LINE = 16
#: One model halts at a row that might lead beyond these numbers, far inside of float32: its largest is 3e38. A step
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
def measure_all(parts: Parts, rows: Any, i: int, x: Any, steps: Any, state: Any, w: Any) -> float:
    """p and c of all models, and s_j/L_j into ``steps``; norm2(s)^2."""
    side, psi, first = parts.side, parts.psi, begin(rows, i)
    lam = narrow(steps, load(side, state, LAM, 0))
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
def move_all(parts: Parts, rows: Any, i: int, x: Any, steps: Any, w: Any) -> None:
    """Move the coordinates; norm2^2 of the stored theta; for several models NaN if a number is beyond its type."""
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
def gammas(parts: Parts, h: float, rows: Any, i: int, x: Any, state: Any, w: Any) -> None:
    """gamma_t of a psi that is not centred, and the change of E."""
    side, psi = parts.side, parts.psi
    a, bend = load(side, w, by.A, 0), load(side, w, by.BEND, 0)
    now, after, one = load(side, state, LAM, 0), load(side, w, by.NEXT, 0), zeros(side) + 1.0
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
        further = get(moved, m) + moved_elsewhere(state[LAM, m], w[by.NEXT, m], state[ENERGY, m] - get(before2, m))
        w[by.GAMMA, m] = h * (w[by.PHI, m] - value(parts.loss, get(p_after, m), w[by.LABEL, m])) - further
        state[ENERGY, m] += get(after2, m) - get(before2, m)


@formula(fast=True)
def finish_all(parts: Parts, count: int, t: int, h: float, n2: float, state: Any, w: Any) -> None:
    """Compute a and lambda_{t+1}; a is 0 for models that have overflowed, and their loss is infinite."""
    psi, schedule = parts.psi, parts.schedule
    for m in range(count):
        a, phi = h * w[by.SLOPE, m], w[by.PHI, m]
        w[by.KEPT, m] = phi if (abs(a) < math.inf) & (state[LOSS, m] < math.inf) else math.inf
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
    """True if the row leads the one model nowhere near the ends of float32, and no step vanishes.

    abs(s_j/L_j) is at most norm2(s)/lambda; q grows by at most h phi'' s_j^2.
    """
    a2, lam_now = w[by.A, 0] * w[by.A, 0], state[LAM, 0]
    sizes = lam_now > SMALL and (n2 == 0.0 or n2 > SMALL) and n2 < LARGE
    steps = a2 < LARGE_SQUARE and a2 * n2 < LARGE_SQUARE and a2 * n2 < LARGE_SQUARE * (lam_now * lam_now)
    return sizes and steps and w[by.BEND, 0] * n2 < LARGE and w[by.PHI, 0] + state[ROUNDING, 0] < math.inf


@formula(fast=True)
def learn_coordinate(parts: Parts, batch: LabeledRows, x: Any, states: Any, steps: Any) -> int:
    """Predict, account, learn, row by row: one walk over a row serves all models. Return how many rows were learned.

    ``steps`` is a buffer with a row for each entry of the longest row. One model halts before a row that might lead
    near the ends of float32; its regularizer must be ``bounded``. Of several models, one that overflows has an infinite
    loss from there on; its coordinates need not be finite.
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
            w[by.START, m], w[by.STEP, m] = w[by.P, m], min(h * w[by.MEASURED, m], LONGEST_STEP)
        by.choose_all(parts, count, h, w, led, bent)
        finish_all(parts, count, t, h, n2, state, w)
        if lanes(side) == 1 and not ordinary(n2, state, w):
            done = i
            break
        store(predictions, i, 0, load(side, w, by.P, 0))
        if uses_gamma(schedule) and not centred(psi):
            gammas(parts, h, rows, i, x, state, w)
            by.add_evidence(count, schedule, w)
        move_all(parts, rows, i, x, steps, w)
        by.account_all(parts.side, count, h, state, w)
        t += 1
    by.store_states(count, states, state)
    return done
