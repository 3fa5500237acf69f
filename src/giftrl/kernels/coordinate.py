"""The loop for regularizers with a strength for each coordinate, L_j = strength(lambda_t, q_j).

AdaGrad, centred growth and curvature: psi_{t+1} depends on the round, so the line is that of psi_t (H'). What is
stored of a coordinate:

    not centred   u = theta, q                        x = soft(u, l1)/L
    centred       x, q, theta, and g if l1 > 0        u = theta + tilt = L x + g, g in [-l1, l1]

A centred psi grows at x itself, which moves u by growth times x and leaves x and g alone: growth of lambda costs
nothing in coordinates that a row does not touch. Where psi is not centred a growing lambda rescales x everywhere;
gamma_t then needs E = sum_j soft(u_j)^2/w_j, L_j = lambda w_j.

As in :mod:`giftrl.kernels.uniform`, a round works on a copy of the row's coordinates, one line for each of the above.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.kernels.choices import AnySchedule, AnyUpdate
from giftrl.kernels.rows import begin, column, end, longest
from giftrl.kernels.scalars import ENERGY, LAM, LOSS, TIME, TOTAL
from giftrl.kernels.step import account, choose, soft
from giftrl.ops.line import Affine, at
from giftrl.ops.loss import curvature, value
from giftrl.ops.registry import formula
from giftrl.regularizers.contract import accumulate, centred, l1_strength, strength, uses_curvature
from giftrl.schedules.contract import evidence, known_ahead, lam, uses_gamma

__all__ = ["COLUMNS", "THETA", "learn_coordinate", "learn_coordinate_many"]

#: What is stored of a coordinate, in this order; U is X where psi is not centred.
X, Q, THETA, G = 0, 1, 2, 3
COLUMNS = {"plain": 2, "centred": 3, "centred with l1": 4}


@formula
def read_x(psi: Any, w: Any, k: int, big_l: float) -> float:
    """x of the row's k-th coordinate."""
    if centred(psi):
        return np.float64(w[X, k])
    return soft(np.float64(w[X, k]), l1_strength(psi)) / big_l


@formula
def read_u(psi: Any, w: Any, k: int, big_l: float) -> float:
    """u = theta + tilt of the row's k-th coordinate."""
    if not centred(psi):
        return np.float64(w[X, k])
    u = big_l * np.float64(w[X, k])
    return u + np.float64(w[G, k]) if l1_strength(psi) > 0.0 else u


class CoordinateLine(NamedTuple):
    """pi(b) = sum_j s_j soft(u_j - h b s_j, l1)/L_j along one row; a walk over the row for each b."""

    psi: Any
    v: Any
    w: Any
    lam: float
    h: float

    def at(self, b: float) -> float:
        p = 0.0
        for k in range(len(self.v)):
            v = np.float64(self.v[k])
            big_l = strength(self.psi, self.lam, np.float64(self.w[Q, k]))
            p += v * soft(read_u(self.psi, self.w, k, big_l) - self.h * b * v, l1_strength(self.psi)) / big_l
        return p

    def energy(self, b: float) -> float:
        total = 0.0
        for k in range(len(self.v)):
            big_l = strength(self.psi, self.lam, np.float64(self.w[Q, k]))
            u = read_u(self.psi, self.w, k, big_l)
            before = soft(u, l1_strength(self.psi))
            after = soft(u - self.h * b * np.float64(self.v[k]), l1_strength(self.psi))
            total += (after - before) * (after + before) / big_l
        return total / (2.0 * self.h)


@formula
def led_divergence(psi: Any, v: Any, w: Any, lam_now: float, a: float) -> float:
    """B_{psi_t} from x_t to the point to which a leads under psi_t, with an L1 term."""
    total = 0.0
    for k in range(len(v)):
        big_l = strength(psi, lam_now, np.float64(w[Q, k]))
        u = read_u(psi, w, k, big_l) - a * np.float64(v[k])
        move = soft(u, l1_strength(psi)) / big_l - read_x(psi, w, k, big_l)
        total += 0.5 * big_l * move * move
    return total


@formula
def move_centred(psi: Any, v: Any, w: Any, lam_now: float, a: float, bend: float) -> float:
    """Move the coordinates of a centred psi; what norm2(theta)^2 gains. ``bend`` is h phi'' at the new point."""
    l1 = l1_strength(psi)
    gained = 0.0
    for k in range(len(v)):
        s, q = np.float64(v[k]), np.float64(w[Q, k])
        big_l = strength(psi, lam_now, q)
        if l1 == 0.0:
            w[X, k] = np.float64(w[X, k]) - a * s / big_l
        else:
            u = read_u(psi, w, k, big_l) - a * s
            x = soft(u, l1) / big_l
            w[X, k] = x
            w[G, k] = u - big_l * x
        w[Q, k] = accumulate(psi, q, a * s, bend * s * s)
        old = np.float64(w[THETA, k])
        w[THETA, k] = old - a * s
        new = np.float64(w[THETA, k])
        gained += (new - old) * (new + old)
    return gained


@formula
def move_plain(
    psi: Any, v: Any, w: Any, lam_now: float, next_lam: float, a: float, bend: float, energy: bool
) -> tuple[float, float, float, float, float]:
    """Move the coordinates of a psi that is not centred.

    Returns what norm2(theta)^2 gains and, where ``energy`` asks for them, the divergence from x_t to x_{t+1} in these
    coordinates, the prediction at x_{t+1}, and their part of E before and after.
    """
    l1 = l1_strength(psi)
    gained, moved, p_after, before2, after2 = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(len(v)):
        s, q, old = np.float64(v[k]), np.float64(w[Q, k]), np.float64(w[X, k])
        w[X, k] = old - a * s
        w[Q, k] = accumulate(psi, q, a * s, bend * s * s)
        new, q_new = np.float64(w[X, k]), np.float64(w[Q, k])
        gained += (new - old) * (new + old)
        if energy:
            soft_old, soft_new = soft(old, l1), soft(new, l1)
            big_l = strength(psi, lam_now, q)
            x_new = soft_new / strength(psi, next_lam, q_new)
            move = x_new - soft_old / big_l
            moved += 0.5 * big_l * move * move
            p_after += s * x_new
            before2 += soft_old * soft_old / strength(psi, 1.0, q)
            after2 += soft_new * soft_new / strength(psi, 1.0, q_new)
    return gained, moved, p_after, before2, after2


@formula
def round_coordinate(
    loss: Any, psi: Any, update: Any, schedule: Any, y: float, h: float, v: Any, w: Any, state: Any
) -> float:
    """One round of one model on the features v of a row and a copy w of its coordinates; the prediction.

    NaN where the slope is beyond float64: then nothing has changed.
    """
    lam_now = state[LAM]
    l1 = l1_strength(psi)
    p, c, n2 = 0.0, 0.0, 0.0
    for k in range(len(v)):
        s = np.float64(v[k])
        big_l = strength(psi, lam_now, np.float64(w[Q, k]))
        p += s * read_x(psi, w, k, big_l)
        c += s * s / big_l
        n2 += s * s

    if l1 == 0.0:
        b, phi, phi_star, delta = choose(loss, update, y, h, p, Affine(p, min(h * c, 1.7e308)))
        a = h * b
        p_led = p - a * c
    else:
        line = CoordinateLine(psi, v, w, lam_now, h)
        b, phi, phi_star, delta = choose(loss, update, y, h, p, line)
        a = h * b
        p_led = at(line, b)
    if not abs(a) < math.inf:
        return math.nan

    # The point to which a leads under psi_t: what a centred psi will keep, and where its curvature is taken.
    gamma = 0.0
    if centred(psi) and uses_gamma(schedule):
        moved = 0.5 * a * a * c if l1 == 0.0 else led_divergence(psi, v, w, lam_now, a)
        gamma = h * (phi - value(loss, p_led, y)) - moved
    total = state[TOTAL]
    if not known_ahead(schedule):
        total += evidence(schedule, gamma, a * a * n2)
    next_lam = lam(schedule, int(state[TIME]) + 1, total)
    bend = h * curvature(loss, p_led, y) if uses_curvature(psi) and h > 0.0 else 0.0

    if centred(psi):
        gained = move_centred(psi, v, w, lam_now, a, bend)
    else:
        energy = uses_gamma(schedule)
        gained, moved, p_after, before2, after2 = move_plain(psi, v, w, lam_now, next_lam, a, bend, energy)
        if energy:
            shrink = 1.0 - lam_now / next_lam
            moved += 0.5 * shrink * shrink * max(0.0, state[ENERGY] - before2) / lam_now
            gamma = h * (phi - value(loss, p_after, y)) - moved
            state[ENERGY] += after2 - before2
    state[TOTAL] += evidence(schedule, gamma, a * a * n2)
    account(state, h, phi, phi_star, delta, gained, next_lam)
    return p


@formula
def learn_coordinate(
    loss: Any, psi: Any, update: Any, ahead: bool, schedule: Any, rows: Any, labels: Any, weights: Any,
    coordinates: Any, state: Any, predictions: Any,
) -> int:  # fmt: skip
    """One model over a batch: predict, account, learn, row by row; how many rows before one that overflows."""
    l1 = l1_strength(psi)
    buffer = np.empty((coordinates.shape[1], longest(rows)), coordinates.dtype)
    for i in range(len(labels)):
        first, last = begin(rows, i), end(rows, i)
        for k in range(first, last):
            j = column(rows, i, k)
            buffer[X, k - first] = coordinates[j, X]
            buffer[Q, k - first] = coordinates[j, Q]
            if centred(psi):
                buffer[THETA, k - first] = coordinates[j, THETA]
                if l1 > 0.0:
                    buffer[G, k - first] = coordinates[j, G]
        h = weights[i] if len(weights) > 0 else 1.0
        predictions[i] = round_coordinate(
            loss, psi, update, schedule, labels[i], h, rows.data[first:last], buffer, state
        )
        if math.isnan(predictions[i]):
            return i
        for k in range(first, last):
            j = column(rows, i, k)
            coordinates[j, X] = buffer[X, k - first]
            coordinates[j, Q] = buffer[Q, k - first]
            if centred(psi):
                coordinates[j, THETA] = buffer[THETA, k - first]
                if l1 > 0.0:
                    coordinates[j, G] = buffer[G, k - first]
    return len(labels)


@formula
def learn_coordinate_many(
    loss: Any, psi: Any, codes: Any, aheads: Any, schedules: Any, rows: Any, labels: Any, weights: Any,
    coordinates: Any, states: Any, predictions: Any,
) -> int:  # fmt: skip
    """Many models over a batch, side by side: one walk over a row serves all of them.

    A model that overflows stays where it is, and its loss is infinite from there on.
    """
    models, columns = coordinates.shape[1], coordinates.shape[2]
    buffer = np.empty((models, columns, longest(rows)), coordinates.dtype)
    for i in range(labels.shape[0]):
        first, last = begin(rows, i), end(rows, i)
        for k in range(first, last):
            j = column(rows, i, k)
            for m in range(models):
                for q in range(columns):
                    buffer[m, q, k - first] = coordinates[j, m, q]
        h = weights[i] if len(weights) > 0 else 1.0
        for m in range(models):
            y = labels[i, m] if labels.shape[1] > 1 else labels[i, 0]
            schedule = AnySchedule(int(schedules[m, 0]), schedules[m, 1], schedules[m, 2], schedules[m, 3])
            predictions[i, m] = round_coordinate(
                loss, psi, AnyUpdate(codes[m]), schedule, y, h,
                rows.data[first:last], buffer[m], states[m],
            )  # fmt: skip
            if math.isnan(predictions[i, m]):
                states[m, LOSS] = math.inf
        for k in range(first, last):
            j = column(rows, i, k)
            for m in range(models):
                for q in range(columns):
                    coordinates[j, m, q] = buffer[m, q, k - first]
    return len(labels)
