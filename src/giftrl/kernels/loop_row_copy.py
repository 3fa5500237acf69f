"""The loop for one model with any diagonal regularizer, an L1 term included: a round works on a copy of the row.

The other loops handle rows well inside the range of float32, without L1 terms. This one stops exactly before the row
that overflows, with the model unchanged.

v are the features of a row, and w[X, k] is x of its k-th coordinate. Stored numbers of a coordinate, with
u = theta + tilt and x = soft(u, l1)/L:

    uniform       u = theta                           L = strength(lambda)
    not centred   u = theta, q                        L = strength(lambda, q)
    centred       x, q, theta, and g if l1 > 0        u = L x + g, g in [-l1, l1]

A growing lambda rescales x in coordinates that the row does not touch, unless psi is centred. gamma_t then needs
E = sum_j soft(u_j)^2/w_j, L_j = lambda w_j (uniform: w_j = 1, and L a function of lambda alone).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end, longest
from giftrl.kernels import scalar_round as by
from giftrl.kernels.base import LabeledRows, weight
from giftrl.ops.line import Affine
from giftrl.ops.loss import value
from giftrl.regularizers.contract import accumulate, centred, l1_strength, strength, uses_curvature
from giftrl.regularizers.contract import known_ahead as uniform
from giftrl.schedules.contract import evidence, known_ahead, uses_gamma

#: The stored numbers of a coordinate, in this order; if psi is not centred, theta is in the place of x.
X, Q, THETA, G = 0, 1, 2, 3


@formula(fast=True)
def columns(psi: Any) -> int:
    """The number of stored numbers of each coordinate."""
    if not centred(psi):
        return 1 if uniform(psi) else 2
    return 4 if l1_strength(psi) > 0.0 else 3


@formula(fast=True)
def strength_at(psi: Any, w: Any, k: int, lam: float) -> float:
    """L of the row's k-th coordinate."""
    return strength(psi, lam, 0.0 if uniform(psi) else np.float64(w[Q, k]))  # type: ignore[no-any-return]


@formula(fast=True)
def unit_strength(psi: Any, w: Any, k: int) -> float:
    """w_j of E."""
    return 1.0 if uniform(psi) else strength_at(psi, w, k, 1.0)


@formula(fast=True)
def read_x(psi: Any, w: Any, k: int, big_l: float) -> float:
    """x of the row's k-th coordinate."""
    if centred(psi):
        return np.float64(w[X, k])
    return by.soft(np.float64(w[X, k]), l1_strength(psi)) / big_l


@formula(fast=True)
def read_u(psi: Any, w: Any, k: int, big_l: float) -> float:
    """u = theta + tilt of the row's k-th coordinate."""
    if not centred(psi):
        return np.float64(w[X, k])
    u = big_l * np.float64(w[X, k])
    return u + np.float64(w[G, k]) if l1_strength(psi) > 0.0 else u


class LineOfRow(NamedTuple):
    """pi(b) = sum_j s_j soft(u_j - h b s_j, l1)/L_j along one row; a walk over the row for each b."""

    psi: Any
    v: Any
    w: Any
    lam: float
    h: float

    def at(self, b: float) -> float:
        p = 0.0
        for k in range(len(self.v)):
            v, big_l = np.float64(self.v[k]), strength_at(self.psi, self.w, k, self.lam)
            p += v * by.soft(read_u(self.psi, self.w, k, big_l) - self.h * b * v, l1_strength(self.psi)) / big_l
        return p

    def energy(self, b: float) -> float:
        total = 0.0
        for k in range(len(self.v)):
            big_l = strength_at(self.psi, self.w, k, self.lam)
            u = read_u(self.psi, self.w, k, big_l)
            before = by.soft(u, l1_strength(self.psi))
            after = by.soft(u - self.h * b * np.float64(self.v[k]), l1_strength(self.psi))
            total += (after - before) * (after + before) / big_l
        return total / (2.0 * self.h)


class CoordinateStep(NamedTuple):
    """The move of the coordinates of a row."""

    a: float  # z = a s
    bend: float  # h phi'' at the new point
    lam_now: float  # lambda_t
    next_lam: float  # lambda_{t+1}


class Moved(NamedTuple):
    """Sums over the moved coordinates of a row; all but the first are for a psi that is not centred."""

    stored: float  # norm2^2 of the stored theta; NaN on overflow
    grown: float  # the change of norm2(theta)^2
    divergence: float  # from x_t to x_{t+1}
    p_after: float  # the prediction at x_{t+1}
    energy_before: float  # the part of E
    energy_after: float


@formula(fast=True)
def measure(psi: Any, v: Any, w: Any, lam_now: float) -> tuple[float, float, float]:
    """p, c and norm2(s)^2 of a row."""
    p, c, n2 = 0.0, 0.0, 0.0
    for k in range(len(v)):
        s, big_l = np.float64(v[k]), strength_at(psi, w, k, lam_now)
        p += s * read_x(psi, w, k, big_l)
        c += s * (s / big_l)
        n2 += s * s
    return p, c, n2


@formula(fast=True)
def led_divergence(psi: Any, v: Any, w: Any, lam_now: float, a: float) -> float:
    """B_{psi_t} from x_t to the point after step a under psi_t."""
    total = 0.0
    for k in range(len(v)):
        big_l = strength_at(psi, w, k, lam_now)
        u = read_u(psi, w, k, big_l) - a * np.float64(v[k])
        move = by.soft(u, l1_strength(psi)) / big_l - read_x(psi, w, k, big_l)
        total += 0.5 * big_l * move * move
    return total


@formula(fast=True)
def move_centred(psi: Any, v: Any, w: Any, step: CoordinateStep) -> Moved:
    """Move the coordinates of a centred psi."""
    a, l1 = step.a, l1_strength(psi)
    stored, beyond = 0.0, 0.0
    for k in range(len(v)):
        s, q = np.float64(v[k]), np.float64(w[Q, k])
        big_l = strength(psi, step.lam_now, q)
        if l1 == 0.0:
            w[X, k] = np.float64(w[X, k]) - a * (s / big_l)
        else:
            u = read_u(psi, w, k, big_l) - a * s
            x = by.soft(u, l1) / big_l
            w[X, k] = x
            w[G, k] = u - big_l * x
        w[Q, k] = accumulate(psi, q, a * s, step.bend * s * s)
        w[THETA, k] = np.float64(w[THETA, k]) - a * s
        theta = np.float64(w[THETA, k])
        stored += theta * theta
        beyond += 0.0 * (np.float64(w[X, k]) + np.float64(w[Q, k]) + theta)
    return Moved(stored + beyond, 0.0, 0.0, 0.0, 0.0, 0.0)


@formula(fast=True)
def move_plain(psi: Any, v: Any, w: Any, step: CoordinateStep, gamma: bool) -> Moved:
    """Move the coordinates of a psi that is not centred; ``gamma`` requests the sums for gamma_t."""
    a, l1 = step.a, l1_strength(psi)
    stored, grown, beyond, divergence, p_after, before2, after2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(len(v)):
        s, old = np.float64(v[k]), np.float64(w[X, k])
        big_l, unit = strength_at(psi, w, k, step.lam_now), unit_strength(psi, w, k)
        w[X, k] = old - a * s
        if not uniform(psi):
            w[Q, k] = accumulate(psi, np.float64(w[Q, k]), a * s, step.bend * s * s)
            beyond += 0.0 * np.float64(w[Q, k])
        new = np.float64(w[X, k])
        stored += new * new
        grown += (new - old) * (new + old)
        if gamma:
            soft_old, soft_new = by.soft(old, l1), by.soft(new, l1)
            x_new = soft_new / strength_at(psi, w, k, step.next_lam)
            move = x_new - soft_old / big_l
            divergence += 0.5 * big_l * move * move
            p_after += s * x_new
            before2 += soft_old * soft_old / unit
            after2 += soft_new * soft_new / unit_strength(psi, w, k)
    return Moved(stored + beyond, grown, divergence, p_after, before2, after2)


@formula(fast=True)
def learn_row(parts: by.Parts, y: float, h: float, v: Any, w: Any, state: Any) -> tuple[float, bool]:
    """One round: returns the prediction, and False, with the state unchanged, on overflow."""
    psi, loss, schedule, lam_now = parts.psi, parts.loss, parts.schedule, state[0, by.LAM]
    next_lam = by.next_lambda(schedule, state, 0.0, 0.0) if known_ahead(schedule) else lam_now
    p, c, n2 = measure(psi, v, w, lam_now)
    used_lam, start = lam_now, p
    if parts.ahead:  # psi is uniform then
        used_lam, shrink = next_lam, strength(psi, lam_now, 0.0) / strength(psi, next_lam, 0.0)
        start, c = p * shrink, c * shrink
    # The point to which a leads under psi_t: a centred psi keeps it, and takes its curvature there.
    arrival = uses_curvature(psi) or (centred(psi) and uses_gamma(schedule))
    if l1_strength(psi) == 0.0:
        line = Affine(start, min(h * c, by.LONGEST_STEP))
        chosen = by.choose(loss, parts.update, y, h, p, line, arrival)
    else:
        chosen = by.choose(loss, parts.update, y, h, p, LineOfRow(psi, v, w, used_lam, h), arrival)
    a, gamma = h * chosen.b, 0.0
    if not abs(a) + abs(h * chosen.phi) < math.inf:
        return p, False
    if centred(psi) and uses_gamma(schedule):
        gamma = h * (chosen.phi - chosen.phi_led) - led_divergence(psi, v, w, lam_now, a)
    if not known_ahead(schedule):
        next_lam = by.next_lambda(schedule, state, gamma, a * a * n2)
    step = CoordinateStep(a, h * chosen.bend, lam_now, next_lam)
    moved = move_centred(psi, v, w, step) if centred(psi) else move_plain(psi, v, w, step, uses_gamma(schedule))
    if not state[0, by.ROUNDING] + moved.stored < math.inf:
        return p, False
    if uses_gamma(schedule) and not centred(psi):
        before, after = lam_now, next_lam
        if uniform(psi):
            before, after = strength(psi, lam_now, 0.0), strength(psi, next_lam, 0.0)
        elsewhere = by.moved_elsewhere(before, after, state[0, by.ENERGY] - moved.energy_before)
        gamma = h * (chosen.phi - value(loss, moved.p_after, y)) - moved.divergence - elsewhere
        state[0, by.ENERGY] += moved.energy_after - moved.energy_before
    state[0, by.TOTAL] += evidence(schedule, gamma, a * a * n2)
    state[0, by.THETA2] += moved.grown
    by.account(state, h, chosen, moved.stored, next_lam)
    return p, True


@formula(fast=True)
def learn_row_copies(parts: by.Parts, batch: LabeledRows, x: Any, state: Any) -> int:
    """Predict, update sums and learn, row by row. Returns the number of rows before an overflow."""
    rows, labels, weights, predictions = batch
    w = np.empty((columns(parts.psi), longest(rows)), x.dtype)
    for i in range(len(labels)):
        first, last = begin(rows, i), end(rows, i)
        for k in range(first, last):
            for quantity in range(columns(parts.psi)):
                w[quantity, k - first] = x[column(rows, i, k), quantity]
        v = rows.data[first:last]
        predictions[i, 0], good = learn_row(parts, labels[i, 0], weight(weights, i), v, w, state)
        if not good:
            return i
        for k in range(first, last):
            for quantity in range(columns(parts.psi)):
                x[column(rows, i, k), quantity] = w[quantity, k - first]
    return len(labels)


@formula(fast=True)
def predict_rows(psi: Any, lam_now: float, rows: Any, x: Any, scores: Any) -> int:
    """<s, x_t> of each row."""
    scale = 1.0 / strength(psi, lam_now, 0.0) if uniform(psi) else 1.0
    for i in range(len(scores)):
        p = 0.0
        for k in range(begin(rows, i), end(rows, i)):
            j = column(rows, i, k)
            number: Any = np.float64(x[j, X])
            if not centred(psi):
                number = by.soft(number, l1_strength(psi))
                if not uniform(psi):
                    number = number / strength(psi, lam_now, np.float64(x[j, Q]))
            p += np.float64(rows.data[k]) * number
        scores[i] = p * scale
    return len(scores)
