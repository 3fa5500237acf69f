"""The loop for regularizers with one strength for all coordinates, psi_t(x) = (L_t/2) norm2(x)^2 + l1 norm1(x).

Only u = theta is stored: x_j = soft(u_j, l1)/L_t, so that growth of lambda is free. psi_{t+1} is known before z_t is
chosen, unless the schedule needs z_t; look-ahead is therefore a choice.

gamma_t needs norm2(x_{t+1} - x_t)^2 over all coordinates. Those that a row does not touch are only rescaled, which
the sum E of soft(u_j)^2 over all coordinates accounts for; without an L1 term E is norm2(theta)^2 and there is a
closed form.

A round works on a copy of the row's coordinates that lies in one piece, so that its sums run at full width; gathering
and scattering are the only walks over memory at large, and one of each serves many models side by side.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.kernels.choices import AnySchedule, AnyUpdate
from giftrl.kernels.rows import begin, column, end, longest
from giftrl.kernels.scalars import ENERGY, LAM, THETA2, TIME, TOTAL
from giftrl.kernels.step import account, choose, soft
from giftrl.ops.line import Affine
from giftrl.ops.loss import value
from giftrl.ops.registry import formula
from giftrl.regularizers.contract import l1_strength, strength
from giftrl.schedules.contract import evidence, known_ahead, lam, uses_gamma

__all__ = ["learn_uniform", "learn_uniform_many"]


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


@formula
def decide_uniform(
    loss: Any, psi: Any, update: Any, ahead: bool, schedule: Any, y: float, h: float, ts: float, n2: float,
    v: Any, u: Any, state: Any,
) -> tuple[float, float, float, float, float, float, float]:  # fmt: skip
    """The slope a = h b, 1/L_t, 1/L_{t+1}, lambda_{t+1}, phi(p), phi*(b) and delta/h of a round.

    ts is <s, soft(u)> and n2 norm2(s)^2. Nothing is changed yet.
    """
    now = strength(psi, state[LAM], 0.0)
    next_lam = state[LAM]
    if known_ahead(schedule):
        next_lam = lam(schedule, int(state[TIME]) + 1, state[TOTAL])
    after = strength(psi, next_lam, 0.0)
    used = after if ahead else now
    per_now, per_used = 1.0 / now, 1.0 / used
    p = ts * per_now
    if l1_strength(psi) == 0.0:
        line = Affine(ts * per_used, min(h * n2 * per_used, 1.7e308))
        b, phi, phi_star, delta = choose(loss, update, y, h, p, line)
    else:
        b, phi, phi_star, delta = choose(loss, update, y, h, p, UniformLine(v, u, used, l1_strength(psi), h))
    a = h * b
    if not known_ahead(schedule):
        next_lam = lam(schedule, int(state[TIME]) + 1, state[TOTAL] + evidence(schedule, 0.0, a * a * n2))
        after = strength(psi, next_lam, 0.0)
    return a, per_now, 1.0 / after, next_lam, phi, phi_star, delta


@formula
def moved_squared(a: float, ts: float, n2: float, per_now: float, per_after: float, theta2: float) -> float:
    """norm2(x_{t+1} - x_t)^2 without an L1 term: x_{t+1} - x_t = theta (1/L_{t+1} - 1/L_t) - a s/L_{t+1}."""
    shrink, step = per_after - per_now, a * per_after
    return shrink * (shrink * theta2 - 2.0 * step * ts) + step * step * n2


@formula
def advance_schedule(
    loss: Any, schedule: Any, y: float, h: float, a: float, phi: float, p_after: float, n2: float, per_now: float,
    moved2: float, state: Any,
) -> None:  # fmt: skip
    """Give the schedule its evidence: p_after is the prediction at x_{t+1}, moved2 norm2(x_{t+1} - x_t)^2."""
    gamma = h * (phi - value(loss, p_after, y)) - 0.5 * moved2 / per_now if uses_gamma(schedule) else 0.0
    state[TOTAL] += evidence(schedule, gamma, a * a * n2)


@formula
def round_uniform(
    loss: Any, psi: Any, update: Any, ahead: bool, schedule: Any, y: float, h: float, v: Any, u: Any, state: Any
) -> float:
    """One round of one model on the features v of a row and a copy u of its coordinates; the prediction.

    NaN where the slope is beyond float64: then nothing has changed.
    """
    l1 = l1_strength(psi)
    ts, n2 = 0.0, 0.0
    for k in range(len(v)):
        s = np.float64(v[k])
        ts += s * soft(np.float64(u[k]), l1)
        n2 += s * s
    a, per_now, per_after, next_lam, phi, phi_star, delta = decide_uniform(
        loss, psi, update, ahead, schedule, y, h, ts, n2, v, u, state
    )
    if not abs(a) < math.inf:
        return math.nan
    gained = 0.0
    if l1 == 0.0:
        ts_after = ts - a * n2
        moved2 = moved_squared(a, ts, n2, per_now, per_after, state[THETA2])
        for k in range(len(v)):
            old = np.float64(u[k])
            u[k] = old - a * np.float64(v[k])
            new = np.float64(u[k])  # as it is stored, so that norm2(theta)^2 is that of what is stored
            gained += (new - old) * (new + old)
    else:
        # Touched coordinates are compared one by one, the others through E.
        ts_after, moved2, before2, after2 = 0.0, 0.0, 0.0, 0.0
        for k in range(len(v)):
            s, old = np.float64(v[k]), np.float64(u[k])
            u[k] = old - a * s
            new = np.float64(u[k])
            soft_old, soft_new = soft(old, l1), soft(new, l1)
            ts_after += s * soft_new
            move = soft_new * per_after - soft_old * per_now
            moved2 += move * move
            before2 += soft_old * soft_old
            after2 += soft_new * soft_new
            gained += (new - old) * (new + old)
        shrink = per_after - per_now
        moved2 += shrink * shrink * max(0.0, state[ENERGY] - before2)
        state[ENERGY] += after2 - before2
    advance_schedule(loss, schedule, y, h, a, phi, ts_after * per_after, n2, per_now, moved2, state)
    account(state, h, phi, phi_star, delta, gained, next_lam)
    return ts * per_now


@formula
def learn_uniform(
    loss: Any, psi: Any, update: Any, ahead: bool, schedule: Any, rows: Any, labels: Any, weights: Any,
    theta: Any, state: Any, predictions: Any,
) -> int:  # fmt: skip
    """One model over a batch: predict, account, learn, row by row; how many rows before one that overflows."""
    buffer = np.empty(longest(rows), theta.dtype)
    for i in range(len(labels)):
        first, last = begin(rows, i), end(rows, i)
        for k in range(first, last):
            buffer[k - first] = theta[column(rows, i, k)]
        h = weights[i] if len(weights) > 0 else 1.0
        predictions[i] = round_uniform(
            loss, psi, update, ahead, schedule, labels[i], h, rows.data[first:last], buffer, state
        )
        if math.isnan(predictions[i]):
            return i
        for k in range(first, last):
            theta[column(rows, i, k)] = buffer[k - first]
    return len(labels)


@formula
def learn_uniform_many(
    loss: Any, psi: Any, codes: Any, aheads: Any, schedules: Any, rows: Any, labels: Any, weights: Any,
    theta: Any, states: Any, predictions: Any,
) -> int:  # fmt: skip
    """Many models over a batch, side by side: one walk over a row serves all of them. Without an L1 term.

    ``codes``, ``aheads`` and ``schedules`` say what each model does; ``labels`` has one column for all models or one
    for each. A model that overflows stays where it is, and its loss is infinite from there on.
    """
    models = np.uint64(theta.shape[1])
    ts, a, gained = np.empty(models), np.empty(models), np.empty(models)
    per_now, per_after, next_lam = np.empty(models), np.empty(models), np.empty(models)
    phi, phi_star, delta = np.empty(models), np.empty(models), np.empty(models)
    nothing = rows.data[:0]
    for i in range(labels.shape[0]):
        first, last = begin(rows, i), end(rows, i)
        h = weights[i] if len(weights) > 0 else 1.0
        n2 = 0.0
        for m in range(models):
            ts[m], gained[m] = 0.0, 0.0
        for k in range(first, last):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            n2 += s * s
            for m in range(models):
                ts[m] += s * np.float64(theta[j, m])
        for m in range(models):
            y = labels[i, m] if labels.shape[1] > 1 else labels[i, 0]
            schedule = AnySchedule(int(schedules[m, 0]), schedules[m, 1], schedules[m, 2], schedules[m, 3])
            a[m], per_now[m], per_after[m], next_lam[m], phi[m], phi_star[m], delta[m] = decide_uniform(
                loss, psi, AnyUpdate(codes[m]), aheads[m], schedule, y, h, ts[m], n2, nothing, nothing, states[m]
            )
            if not abs(a[m]) < math.inf:
                a[m], phi[m], phi_star[m], delta[m], next_lam[m] = 0.0, math.inf, 0.0, 0.0, states[m, LAM]
        for k in range(first, last):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            for m in range(models):
                old = np.float64(theta[j, m])
                theta[j, m] = old - a[m] * s
                new = np.float64(theta[j, m])
                gained[m] += (new - old) * (new + old)
        for m in range(models):
            y = labels[i, m] if labels.shape[1] > 1 else labels[i, 0]
            schedule = AnySchedule(int(schedules[m, 0]), schedules[m, 1], schedules[m, 2], schedules[m, 3])
            moved2 = moved_squared(a[m], ts[m], n2, per_now[m], per_after[m], states[m, THETA2])
            p_after = (ts[m] - a[m] * n2) * per_after[m]
            predictions[i, m] = ts[m] * per_now[m]
            if phi[m] < math.inf:
                advance_schedule(loss, schedule, y, h, a[m], phi[m], p_after, n2, per_now[m], moved2, states[m])
            account(states[m], h, phi[m], phi_star[m], delta[m], gained[m], next_lam[m])
    return len(labels)
