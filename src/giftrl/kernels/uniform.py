"""The loop for regularizers with one strength for all coordinates, psi_t(x) = (L_t/2) norm2(x)^2 + l1 norm1(x).

Only u = theta is stored: x_j = soft(u_j, l1)/L_t, so that growth of lambda is free. psi_{t+1} is known before z_t is
chosen, unless the schedule needs z_t; look-ahead is therefore a choice.

gamma_t needs norm2(x_{t+1} - x_t)^2 over all coordinates. Those that a row does not touch are only rescaled, which
the sum E of soft(u_j)^2 over all coordinates accounts for; without an L1 term E is norm2(theta)^2 and there is a
closed form.

Without an L1 term a round is a function of two numbers, <s, theta> and norm2(s)^2. It works on a copy of the row's
coordinates that lies in one piece, so that sums run at full width; gathering and scattering are the only walks over
memory at large, and one of each serves many models side by side.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end, longest
from giftrl.kernels import side_by_side as side
from giftrl.kernels.choices import AnySchedule
from giftrl.kernels.scalars import ENERGY, LAM, LOSS, THETA2, TIME, TOTAL, WALKED
from giftrl.kernels.step import account, choose, soft
from giftrl.ops.line import Affine
from giftrl.ops.loss import value
from giftrl.regularizers.contract import l1_strength, strength
from giftrl.schedules.contract import evidence, known_ahead, lam, uses_gamma

__all__ = ["learn_uniform", "learn_uniform_many"]

#: The column of a single model; unsigned, so that a compiled index needs no look at its sign.
ONLY = np.uint64(0)


class UniformLine(NamedTuple):
    """pi(b) = sum_j s_j soft(u_j - h b s_j, l1)/L along one row; a walk over the row for each b."""

    v: Any
    u: Any
    big_l: float
    l1: float
    h: float

    def at(self, b: float) -> float:
        p = 0.0
        for k in range(len(self.v)):
            v = np.float64(self.v[k])
            p += v * soft(np.float64(self.u[k]) - self.h * b * v, self.l1)
        return p / self.big_l

    def energy(self, b: float) -> float:
        total = 0.0
        for k in range(len(self.v)):
            u = np.float64(self.u[k])
            after, before = soft(u - self.h * b * np.float64(self.v[k]), self.l1), soft(u, self.l1)
            total += (after - before) * (after + before)
        return total / (2.0 * self.big_l * self.h)


@formula(fast=True)
def next_lambda(schedule: Any, state: Any, m: int, z_norm_squared: float) -> float:
    """lambda_{t+1}; z_t counts only for schedules that need it."""
    total = state[m, TOTAL]
    if not known_ahead(schedule):
        total += evidence(schedule, 0.0, z_norm_squared)
    return lam(schedule, int(state[m, TIME]) + 1, total)


@formula(fast=True)
def finish_affine(
    loss: Any, psi: Any, ahead: bool, schedule: Any, y: float, h: float, ts: float, n2: float, next_lam: float,
    a: float, phi: float, phi_star: float, delta: float, phi_led: float, state: Any, m: int,
) -> None:  # fmt: skip
    """What a round without an L1 term leaves behind, once a = h b is chosen: lambda_{t+1} and the sums."""
    now = strength(psi, state[m, LAM], 0.0)
    if not known_ahead(schedule):
        next_lam = next_lambda(schedule, state, m, a * a * n2)
    gamma = 0.0
    if uses_gamma(schedule):
        # x_{t+1} - x_t = theta (1/L_{t+1} - 1/L_t) - a s/L_{t+1}. With H, b leads to x_{t+1} itself.
        per_now, per_after = 1.0 / now, 1.0 / strength(psi, next_lam, 0.0)
        shrink, step = per_after - per_now, a * per_after
        moved2 = shrink * (shrink * state[m, THETA2] - 2.0 * step * ts) + step * step * n2
        if not ahead:
            phi_led = value(loss, (ts - a * n2) * per_after, y)
        gamma = h * (phi - phi_led) - 0.5 * now * moved2
    state[m, TOTAL] += evidence(schedule, gamma, a * a * n2)
    state[m, THETA2] += a * (a * n2 - 2.0 * ts)
    account(state, m, h, phi, phi_star, delta, state[m, THETA2], next_lam)


@formula(fast=True)
def begin_affine(
    psi: Any, ahead: bool, schedule: Any, h: float, ts: float, n2: float, state: Any, m: int
) -> tuple[float, float, float, float]:
    """The prediction, p and c of the line, and lambda_{t+1} if it is known already."""
    now = strength(psi, state[m, LAM], 0.0)
    next_lam = next_lambda(schedule, state, m, 0.0) if known_ahead(schedule) else state[m, LAM]
    per_now = 1.0 / now
    per_used = 1.0 / strength(psi, next_lam, 0.0) if ahead else per_now
    return ts * per_now, ts * per_used, min(h * n2 * per_used, 1.7e308), next_lam


@formula(fast=True)
def round_affine(
    loss: Any, psi: Any, update: Any, ahead: bool, schedule: Any, y: float, h: float, ts: float, n2: float,
    state: Any, m: int,
) -> tuple[float, float]:  # fmt: skip
    """One round without an L1 term, from ts = <s, theta> and n2 = norm2(s)^2: the prediction and a, z = a s.

    a is not finite where it is beyond float64: then nothing has changed.
    """
    p, start, step, next_lam = begin_affine(psi, ahead, schedule, h, ts, n2, state, m)
    arrival = uses_gamma(schedule) and ahead
    b, phi, phi_star, delta, phi_led, _ = choose(loss, update, y, h, p, Affine(start, step), arrival)
    a = h * b
    if abs(a) < math.inf:
        finish_affine(
            loss, psi, ahead, schedule, y, h, ts, n2, next_lam, a, phi, phi_star, delta, phi_led, state, m
        )  # fmt: skip
    return p, a


@formula(fast=True)
def round_sparse(
    loss: Any, psi: Any, update: Any, ahead: bool, schedule: Any, y: float, h: float, v: Any, u: Any,
    state: Any, m: int,
) -> tuple[float, float]:  # fmt: skip
    """One round with an L1 term, on the features v of a row and a copy u of its coordinates; as :func:`round_affine`.

    Touched coordinates are compared one by one, the others through E.
    """
    l1 = l1_strength(psi)
    ts, n2 = 0.0, 0.0
    for k in range(len(v)):
        s = np.float64(v[k])
        ts += s * soft(np.float64(u[k]), l1)
        n2 += s * s
    now, next_lam = strength(psi, state[m, LAM], 0.0), state[m, LAM]
    if known_ahead(schedule):
        next_lam = next_lambda(schedule, state, m, 0.0)
    p = ts / now
    line = UniformLine(v, u, strength(psi, next_lam, 0.0) if ahead else now, l1, h)
    b, phi, phi_star, delta, _, _ = choose(loss, update, y, h, p, line, False)
    a = h * b
    if not abs(a) < math.inf:
        return p, a
    if not known_ahead(schedule):
        next_lam = next_lambda(schedule, state, m, a * a * n2)
    after = strength(psi, next_lam, 0.0)
    p_after, moved2, before2, after2, stored = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(len(v)):
        s, old = np.float64(v[k]), np.float64(u[k])
        u[k] = old - a * s
        new = np.float64(u[k])  # as it is stored, so that E is that of what is stored
        soft_old, soft_new = soft(old, l1), soft(new, l1)
        p_after += s * soft_new / after
        move = soft_new / after - soft_old / now
        moved2 += move * move
        before2 += soft_old * soft_old
        after2 += soft_new * soft_new
        stored += new * new
    shrink = 1.0 / after - 1.0 / now
    moved2 += shrink * shrink * max(0.0, state[m, ENERGY] - before2)
    gamma = h * (phi - value(loss, p_after, y)) - 0.5 * now * moved2 if uses_gamma(schedule) else 0.0
    state[m, ENERGY] += after2 - before2
    state[m, TOTAL] += evidence(schedule, gamma, a * a * n2)
    account(state, m, h, phi, phi_star, delta, stored, next_lam)
    return p, a


@formula(fast=True)
def count_anew(theta: Any, state: Any, entries: float) -> None:
    """Count norm2(theta)^2 anew once in a while: what is stored is rounded, and what is added up drifts.

    After 64 entries for each coordinate, so that it costs next to nothing and does not depend on how rows are batched.
    """
    state[0, WALKED] += entries
    if state[0, WALKED] >= 64.0 * theta.shape[0]:
        for m in range(theta.shape[1]):
            total = 0.0
            for j in range(theta.shape[0]):
                total += np.float64(theta[j, m]) * np.float64(theta[j, m])
            state[m, THETA2] = total
        state[0, WALKED] = 0.0


@formula(fast=True)
def learn_uniform(
    loss: Any, psi: Any, update: Any, ahead: bool, schedule: Any, rows: Any, labels: Any, weights: Any,
    theta: Any, state: Any, predictions: Any,
) -> int:  # fmt: skip
    """One model over a batch: predict, account, learn, row by row; how many rows before one that overflows."""
    buffer = np.empty(longest(rows), theta.dtype)
    for i in range(len(labels)):
        first, last = begin(rows, i), end(rows, i)
        v = rows.data[first:last]
        for k in range(first, last):
            buffer[k - first] = theta[column(rows, i, k), ONLY]
        h = weights[i] if len(weights) > 0 else 1.0
        if l1_strength(psi) == 0.0:
            ts, n2 = 0.0, 0.0
            for k in range(len(v)):
                s = np.float64(v[k])
                ts += s * np.float64(buffer[k])
                n2 += s * s
            predictions[i], a = round_affine(loss, psi, update, ahead, schedule, labels[i], h, ts, n2, state, 0)
            for k in range(len(v)):
                buffer[k] = np.float64(buffer[k]) - a * np.float64(v[k])
        else:
            predictions[i], a = round_sparse(loss, psi, update, ahead, schedule, labels[i], h, v, buffer, state, 0)
        if not abs(a) < math.inf:
            return i
        for k in range(first, last):
            theta[column(rows, i, k), ONLY] = buffer[k - first]
        if l1_strength(psi) == 0.0:
            count_anew(theta, state, float(len(v)))
    return len(labels)


@formula(fast=True)
def learn_uniform_many(
    loss: Any, psi: Any, codes: Any, aheads: Any, schedules: Any, rows: Any, labels: Any, weights: Any,
    theta: Any, states: Any, predictions: Any,
) -> int:  # fmt: skip
    """Many models over a batch, side by side: one walk over a row serves all of them. Without an L1 term.

    ``codes``, ``aheads`` and ``schedules`` say what each model does; ``labels`` has one column for all models or one
    for each. A model that overflows stays where it is, and its loss is infinite from there on.
    """
    models = np.uint64(theta.shape[1])
    ts, a, next_lam = np.empty(models), np.empty(models), np.empty(models)
    w = side.room()
    for i in range(labels.shape[0]):
        first, last = begin(rows, i), end(rows, i)
        h = weights[i] if len(weights) > 0 else 1.0
        n2 = 0.0
        for m in range(models):
            ts[m] = 0.0
        for k in range(first, last):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            n2 += s * s
            for m in range(models):
                ts[m] += s * np.float64(theta[j, m])
        low = 0
        while low < len(codes):
            high = side.same_update(codes, low)
            for m in range(low, high):
                schedule = AnySchedule(int(schedules[m, 0]), schedules[m, 1], schedules[m, 2], schedules[m, 3])
                w[side.Y, m - low] = labels[i, m] if labels.shape[1] > 1 else labels[i, 0]
                w[side.P, m - low], w[side.START, m - low], w[side.STEP, m - low], next_lam[m] = begin_affine(
                    psi, aheads[m], schedule, h, ts[m], n2, states, m
                )
            side.choose_all(loss, codes[low], h, w, high - low, True)
            for m in range(low, high):
                k = m - low
                predictions[i, m], a[m] = w[side.P, k], h * w[side.SLOPE, k]
                if not abs(a[m]) < math.inf:
                    a[m], states[m, LOSS] = 0.0, math.inf
                    continue
                schedule = AnySchedule(int(schedules[m, 0]), schedules[m, 1], schedules[m, 2], schedules[m, 3])
                finish_affine(
                    loss, psi, aheads[m], schedule, w[side.Y, k], h, ts[m], n2, next_lam[m],
                    a[m], w[side.PHI, k], w[side.PHI_STAR, k], w[side.DELTA, k], w[side.LED, k], states, m,
                )  # fmt: skip
            low = high
        for k in range(first, last):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            for m in range(models):
                theta[j, m] = np.float64(theta[j, m]) - a[m] * s
        count_anew(theta, states, float(last - first))
    return len(labels)
