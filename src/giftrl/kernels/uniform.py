"""The loop for regularizers with one strength for all coordinates, psi_t(x) = (L_t/2) norm2(x)^2 + l1 norm1(x).

Only u = theta is stored: x_j = soft(u_j, l1)/L_t, so that growth of lambda costs nothing. psi_{t+1} is known before z_t
is chosen, unless the schedule needs z_t; so the update can use H or H'.

gamma_t needs norm2(x_{t+1} - x_t)^2 over all coordinates. Those that a row does not touch are only rescaled, which
the sum E of soft(u_j)^2 over all coordinates accounts for; without an L1 term E is norm2(theta)^2 and there is a
closed form.

Without an L1 term a round is a function of two numbers, <s, theta> and norm2(s)^2. It works on a contiguous copy of the
row's coordinates, so that sums are vectorized; only copying them in and out touches memory at random, once for all of
many models side by side.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end, longest
from giftrl.kernels.parts import Batch, Parts, weight
from giftrl.kernels.scalars import ENERGY, LAM, ROUNDING, THETA2, TOTAL
from giftrl.kernels.step import LONGEST, Chosen, account, choose, next_lambda, soft, time_to_recount
from giftrl.ops.line import Affine
from giftrl.ops.loss import value
from giftrl.regularizers.contract import l1_strength, strength
from giftrl.schedules.contract import evidence, known_ahead, uses_gamma

#: The column of a single model; unsigned, so that compiled code does not check its sign.
ONLY = np.uint64(0)


class Example(NamedTuple):
    """An example as a round without an L1 term sees it."""

    y: float
    h: float  # the weight
    ts: float  # <s, theta>
    n2: float  # norm2(s)^2


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
def begin_affine(parts: Parts, example: Example, state: Any, m: int) -> tuple[float, float, float, float]:
    """The prediction, p and c of the line, and lambda_{t+1} if it is known already."""
    _, h, ts, n2 = example
    now = strength(parts.psi, state[m, LAM], 0.0)
    next_lam = next_lambda(parts.schedule, state, m, 0.0, 0.0) if known_ahead(parts.schedule) else state[m, LAM]
    per_now = 1.0 / now
    per_used = 1.0 / strength(parts.psi, next_lam, 0.0) if parts.ahead else per_now
    return ts * per_now, ts * per_used, min(h * n2 * per_used, LONGEST), next_lam


@formula(fast=True)
def finish_affine(parts: Parts, example: Example, chosen: Chosen, next_lam: float, state: Any, m: int) -> None:
    """What a round without an L1 term leaves behind, once b is chosen: lambda_{t+1} and the sums."""
    psi, schedule = parts.psi, parts.schedule
    y, h, ts, n2 = example
    a = h * chosen.b
    now = strength(psi, state[m, LAM], 0.0)
    if not known_ahead(schedule):
        next_lam = next_lambda(schedule, state, m, 0.0, a * a * n2)
    gamma = 0.0
    if uses_gamma(schedule):
        # x_{t+1} - x_t = theta (1/L_{t+1} - 1/L_t) - a s/L_{t+1}. With H, b leads to x_{t+1} itself.
        per_now, per_after = 1.0 / now, 1.0 / strength(psi, next_lam, 0.0)
        shrink, step = per_after - per_now, a * per_after
        moved2 = shrink * (shrink * state[m, THETA2] - 2.0 * step * ts) + step * step * n2
        phi_led = chosen.phi_led if parts.ahead else value(parts.loss, (ts - a * n2) * per_after, y)
        gamma = h * (chosen.phi - phi_led) - 0.5 * now * moved2
    state[m, TOTAL] += evidence(schedule, gamma, a * a * n2)
    state[m, THETA2] += a * (a * n2 - 2.0 * ts)
    account(state, m, h, chosen, state[m, THETA2], next_lam)


@formula(fast=True)
def round_affine(parts: Parts, example: Example, state: Any, m: int) -> tuple[float, float]:
    """One round without an L1 term: the prediction and a, z = a s; where a is beyond float64, nothing has changed."""
    p, start, step, next_lam = begin_affine(parts, example, state, m)
    arrival = uses_gamma(parts.schedule) and parts.ahead
    chosen = choose(parts, example.y, example.h, p, Affine(start, step), arrival)
    a = example.h * chosen.b
    if abs(a) < math.inf:
        finish_affine(parts, example, chosen, next_lam, state, m)
    return p, a


@formula(fast=True)
def round_sparse(parts: Parts, y: float, h: float, v: Any, u: Any, state: Any, m: int) -> tuple[float, float]:
    """One round with an L1 term, on the features v of a row and a copy u of its coordinates; as :func:`round_affine`.

    Coordinates that the row touches are compared one by one, the others through E.
    """
    psi, schedule, l1 = parts.psi, parts.schedule, l1_strength(parts.psi)
    ts, n2 = 0.0, 0.0
    for k in range(len(v)):
        s = np.float64(v[k])
        ts += s * soft(np.float64(u[k]), l1)
        n2 += s * s
    now, next_lam = strength(psi, state[m, LAM], 0.0), state[m, LAM]
    if known_ahead(schedule):
        next_lam = next_lambda(schedule, state, m, 0.0, 0.0)
    p = ts / now
    line = UniformLine(v, u, strength(psi, next_lam, 0.0) if parts.ahead else now, l1, h)
    chosen = choose(parts, y, h, p, line, False)
    a = h * chosen.b
    if not abs(a) < math.inf:
        return p, a
    if not known_ahead(schedule):
        next_lam = next_lambda(schedule, state, m, 0.0, a * a * n2)
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
    gamma = h * (chosen.phi - value(parts.loss, p_after, y)) - 0.5 * now * moved2 if uses_gamma(schedule) else 0.0
    state[m, ENERGY] += after2 - before2
    state[m, TOTAL] += evidence(schedule, gamma, a * a * n2)
    account(state, m, h, chosen, stored, next_lam)
    return p, a


@formula(fast=True)
def recount(theta: Any, state: Any, entries: float) -> None:
    """Sum norm2(theta)^2 of each model again when it is time to."""
    if time_to_recount(state, entries, theta.shape[0]):
        for m in range(theta.shape[1]):
            total = 0.0
            for j in range(theta.shape[0]):
                total += np.float64(theta[j, m]) * np.float64(theta[j, m])
            state[m, THETA2] = total


@formula(fast=True)
def learn_uniform(parts: Parts, batch: Batch, theta: Any, state: Any) -> int:
    """One model over a batch: predict, account, learn, row by row; how many rows before one that overflows."""
    rows, labels, weights, predictions = batch
    buffer = np.empty(longest(rows), theta.dtype)
    for i in range(len(labels)):
        first, last = begin(rows, i), end(rows, i)
        v = rows.data[first:last]
        for k in range(first, last):
            buffer[k - first] = theta[column(rows, i, k), ONLY]
        y, h, beyond = labels[i], weight(weights, i), 0.0
        if l1_strength(parts.psi) == 0.0:
            ts, n2 = 0.0, 0.0
            for k in range(len(v)):
                s = np.float64(v[k])
                ts += s * np.float64(buffer[k])
                n2 += s * s
            predictions[i], a = round_affine(parts, Example(y, h, ts, n2), state, 0)
            for k in range(len(v)):
                buffer[k] = np.float64(buffer[k]) - a * np.float64(v[k])
                beyond += 0.0 * np.float64(buffer[k])  # NaN where theta is beyond the type in which it is stored
        else:
            predictions[i], a = round_sparse(parts, y, h, v, buffer, state, 0)
        if not (abs(a) < math.inf and state[0, ROUNDING] + beyond < math.inf):
            return i
        for k in range(first, last):
            theta[column(rows, i, k), ONLY] = buffer[k - first]
        if l1_strength(parts.psi) == 0.0:
            recount(theta, state, float(len(v)))
    return len(labels)


@formula(fast=True)
def predict_uniform(psi: Any, lam_now: float, rows: Any, theta: Any, scores: Any) -> int:
    """Predict without learning: <s, x> with x_j = soft(theta_j, l1)/L."""
    per = 1.0 / strength(psi, lam_now, 0.0)
    for i in range(len(scores)):
        p = 0.0
        for k in range(begin(rows, i), end(rows, i)):
            p += np.float64(rows.data[k]) * soft(np.float64(theta[column(rows, i, k), 0]), l1_strength(psi))
        scores[i] = p * per
    return len(scores)
