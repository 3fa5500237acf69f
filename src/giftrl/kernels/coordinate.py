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

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end, longest
from giftrl.kernels import side_by_side as side
from giftrl.kernels.choices import AnySchedule, AnyUpdate
from giftrl.kernels.scalars import ENERGY, LAM, LOSS, TIME, TOTAL
from giftrl.kernels.step import account, choose, soft
from giftrl.ops.line import Affine
from giftrl.ops.loss import value
from giftrl.regularizers.contract import accumulate, centred, l1_strength, strength, uses_curvature
from giftrl.schedules.contract import evidence, known_ahead, lam, uses_gamma

__all__ = ["COLUMNS", "THETA", "learn_coordinate", "learn_coordinate_many"]

#: What is stored of a coordinate, in this order; U is X where psi is not centred.
X, Q, THETA, G = 0, 1, 2, 3
COLUMNS = {"plain": 2, "centred": 3, "centred with l1": 4}


@formula(fast=True)
def read_x(psi: Any, w: Any, m: int, k: int, big_l: float) -> float:
    """x of the row's k-th coordinate."""
    if centred(psi):
        return np.float64(w[m, X, k])
    return soft(np.float64(w[m, X, k]), l1_strength(psi)) / big_l


@formula(fast=True)
def read_u(psi: Any, w: Any, m: int, k: int, big_l: float) -> float:
    """u = theta + tilt of the row's k-th coordinate."""
    if not centred(psi):
        return np.float64(w[m, X, k])
    u = big_l * np.float64(w[m, X, k])
    return u + np.float64(w[m, G, k]) if l1_strength(psi) > 0.0 else u


class CoordinateLine(NamedTuple):
    """pi(b) = sum_j s_j soft(u_j - h b s_j, l1)/L_j along one row; a walk over the row for each b."""

    psi: Any
    v: Any
    w: Any
    m: int
    lam: float
    h: float

    def at(self, b: float) -> float:
        p = 0.0
        for k in range(len(self.v)):
            v = np.float64(self.v[k])
            big_l = strength(self.psi, self.lam, np.float64(self.w[self.m, Q, k]))
            p += v * soft(read_u(self.psi, self.w, self.m, k, big_l) - self.h * b * v, l1_strength(self.psi)) / big_l
        return p

    def energy(self, b: float) -> float:
        total = 0.0
        for k in range(len(self.v)):
            big_l = strength(self.psi, self.lam, np.float64(self.w[self.m, Q, k]))
            u = read_u(self.psi, self.w, self.m, k, big_l)
            before = soft(u, l1_strength(self.psi))
            after = soft(u - self.h * b * np.float64(self.v[k]), l1_strength(self.psi))
            total += (after - before) * (after + before) / big_l
        return total / (2.0 * self.h)


@formula(fast=True)
def led_divergence(psi: Any, v: Any, w: Any, m: int, lam_now: float, a: float) -> float:
    """B_{psi_t} from x_t to the point to which a leads under psi_t, with an L1 term."""
    total = 0.0
    for k in range(len(v)):
        big_l = strength(psi, lam_now, np.float64(w[m, Q, k]))
        u = read_u(psi, w, m, k, big_l) - a * np.float64(v[k])
        move = soft(u, l1_strength(psi)) / big_l - read_x(psi, w, m, k, big_l)
        total += 0.5 * big_l * move * move
    return total


@formula(fast=True)
def move_centred(psi: Any, v: Any, w: Any, m: int, steps: Any, lam_now: float, a: float, bend: float) -> float:
    """Move the coordinates of a centred psi; norm2^2 of the theta that is stored.

    ``steps`` holds s_j/L_j, and ``bend`` is h phi'' at the new point.
    """
    l1 = l1_strength(psi)
    stored = 0.0
    for k in range(len(v)):
        s, q = np.float64(v[k]), np.float64(w[m, Q, k])
        if l1 == 0.0:
            w[m, X, k] = np.float64(w[m, X, k]) - a * steps[m, k]
        else:
            big_l = strength(psi, lam_now, q)
            u = read_u(psi, w, m, k, big_l) - a * s
            x = soft(u, l1) / big_l
            w[m, X, k] = x
            w[m, G, k] = u - big_l * x
        w[m, Q, k] = accumulate(psi, q, a * s, bend * s * s)
        theta = np.float64(w[m, THETA, k]) - a * s
        w[m, THETA, k] = theta
        stored += theta * theta
    return stored


@formula(fast=True)
def move_plain(
    psi: Any, v: Any, w: Any, m: int, lam_now: float, next_lam: float, a: float, bend: float, energy: bool
) -> tuple[float, float, float, float, float]:
    """Move the coordinates of a psi that is not centred.

    Returns norm2^2 of the theta that is stored and, where ``energy`` asks, the divergence from x_t to x_{t+1} in these
    coordinates, the prediction at x_{t+1}, and their part of E before and after.
    """
    l1 = l1_strength(psi)
    stored, moved, p_after, before2, after2 = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(len(v)):
        s, q, old = np.float64(v[k]), np.float64(w[m, Q, k]), np.float64(w[m, X, k])
        w[m, X, k] = old - a * s
        w[m, Q, k] = accumulate(psi, q, a * s, bend * s * s)
        new, q_new = np.float64(w[m, X, k]), np.float64(w[m, Q, k])
        stored += new * new
        if energy:
            soft_old, soft_new = soft(old, l1), soft(new, l1)
            big_l = strength(psi, lam_now, q)
            x_new = soft_new / strength(psi, next_lam, q_new)
            move = x_new - soft_old / big_l
            moved += 0.5 * big_l * move * move
            p_after += s * x_new
            before2 += soft_old * soft_old / strength(psi, 1.0, q)
            after2 += soft_new * soft_new / strength(psi, 1.0, q_new)
    return stored, moved, p_after, before2, after2


@formula(fast=True)
def measure(psi: Any, v: Any, w: Any, m: int, steps: Any, lam_now: float) -> tuple[float, float, float]:
    """p, c and norm2(s)^2 of a row, and s_j/L_j into ``steps``."""
    p, c, n2 = 0.0, 0.0, 0.0
    for k in range(len(v)):
        s = np.float64(v[k])
        big_l = strength(psi, lam_now, np.float64(w[m, Q, k]))
        step = s / big_l
        steps[m, k] = step
        p += s * read_x(psi, w, m, k, big_l)
        c += s * step
        n2 += s * s
    return p, c, n2


@formula(fast=True)
def finish(
    loss: Any, psi: Any, schedule: Any, y: float, h: float, v: Any, w: Any, m: int, steps: Any, c: float, n2: float,
    a: float, phi: float, phi_star: float, delta: float, phi_led: float, bend: float, state: Any,
) -> None:  # fmt: skip
    """What a round leaves behind once a = h b is chosen: the coordinates, lambda_{t+1} and the sums."""
    lam_now = state[m, LAM]
    gamma = 0.0
    if centred(psi) and uses_gamma(schedule):
        moved = 0.5 * a * a * c if l1_strength(psi) == 0.0 else led_divergence(psi, v, w, m, lam_now, a)
        gamma = h * (phi - phi_led) - moved
    total = state[m, TOTAL]
    if not known_ahead(schedule):
        total += evidence(schedule, gamma, a * a * n2)
    next_lam = lam(schedule, int(state[m, TIME]) + 1, total)

    if centred(psi):
        stored = move_centred(psi, v, w, m, steps, lam_now, a, h * bend)
    else:
        energy = uses_gamma(schedule)
        stored, moved, p_after, before2, after2 = move_plain(psi, v, w, m, lam_now, next_lam, a, h * bend, energy)
        if energy:
            shrink = 1.0 - lam_now / next_lam
            moved += 0.5 * shrink * shrink * max(0.0, state[m, ENERGY] - before2) / lam_now
            gamma = h * (phi - value(loss, p_after, y)) - moved
            state[m, ENERGY] += after2 - before2
    state[m, TOTAL] += evidence(schedule, gamma, a * a * n2)
    account(state, m, h, phi, phi_star, delta, stored, next_lam)


@formula(fast=True)
def round_coordinate(
    loss: Any, psi: Any, update: Any, schedule: Any, y: float, h: float, v: Any, w: Any, m: int, steps: Any, state: Any
) -> tuple[float, float]:
    """One round of model m on the features v of a row and a copy w of its coordinates: the prediction and a.

    a is not finite where it is beyond float64: then nothing has changed.
    """
    lam_now = state[m, LAM]
    p, c, n2 = measure(psi, v, w, m, steps, lam_now)
    # The point to which a leads under psi_t: what a centred psi will keep, and where its curvature is taken.
    arrival = uses_curvature(psi) or (centred(psi) and uses_gamma(schedule))
    if l1_strength(psi) == 0.0:
        line = Affine(p, min(h * c, 1.7e308))
        b, phi, phi_star, delta, phi_led, bend = choose(loss, update, y, h, p, line, arrival)
    else:
        walk = CoordinateLine(psi, v, w, m, lam_now, h)
        b, phi, phi_star, delta, phi_led, bend = choose(loss, update, y, h, p, walk, arrival)
    a = h * b
    if abs(a) < math.inf:
        finish(
            loss, psi, schedule, y, h, v, w, m, steps, c, n2, a, phi, phi_star, delta, phi_led, bend, state
        )  # fmt: skip
    return p, a


@formula(fast=True)
def gather(psi: Any, rows: Any, i: int, coordinates: Any, m: int, w: Any) -> None:
    """Copy the coordinates of a row."""
    first, last = begin(rows, i), end(rows, i)
    for k in range(first, last):
        j = column(rows, i, k)
        w[m, X, k - first] = coordinates[j, m, X]
        w[m, Q, k - first] = coordinates[j, m, Q]
        if centred(psi):
            w[m, THETA, k - first] = coordinates[j, m, THETA]
            if l1_strength(psi) > 0.0:
                w[m, G, k - first] = coordinates[j, m, G]


@formula(fast=True)
def scatter(psi: Any, rows: Any, i: int, coordinates: Any, m: int, w: Any) -> None:
    """Put them back."""
    first, last = begin(rows, i), end(rows, i)
    for k in range(first, last):
        j = column(rows, i, k)
        coordinates[j, m, X] = w[m, X, k - first]
        coordinates[j, m, Q] = w[m, Q, k - first]
        if centred(psi):
            coordinates[j, m, THETA] = w[m, THETA, k - first]
            if l1_strength(psi) > 0.0:
                coordinates[j, m, G] = w[m, G, k - first]


@formula(fast=True)
def learn_coordinate(
    loss: Any, psi: Any, update: Any, ahead: bool, schedule: Any, rows: Any, labels: Any, weights: Any,
    coordinates: Any, state: Any, predictions: Any,
) -> int:  # fmt: skip
    """One model over a batch: predict, account, learn, row by row; how many rows before one that overflows."""
    w = np.empty((1, coordinates.shape[2], longest(rows)), coordinates.dtype)
    steps = np.empty((1, longest(rows)))
    for i in range(len(labels)):
        gather(psi, rows, i, coordinates, 0, w)
        h = weights[i] if len(weights) > 0 else 1.0
        v = rows.data[begin(rows, i) : end(rows, i)]
        predictions[i], a = round_coordinate(loss, psi, update, schedule, labels[i], h, v, w, 0, steps, state)
        if not abs(a) < math.inf:
            return i
        scatter(psi, rows, i, coordinates, 0, w)
    return len(labels)


@formula(fast=True)
def learn_coordinate_many(
    loss: Any, psi: Any, codes: Any, aheads: Any, schedules: Any, rows: Any, labels: Any, weights: Any,
    coordinates: Any, states: Any, predictions: Any,
) -> int:  # fmt: skip
    """Many models over a batch, side by side: one walk over a row serves all of them.

    A model that overflows stays where it is, and its loss is infinite from there on.
    """
    models = len(codes)
    w = np.empty((models, coordinates.shape[2], longest(rows)), coordinates.dtype)
    steps = np.empty((models, longest(rows)))
    c, n2 = np.empty(models), 0.0
    r = side.room()
    for i in range(labels.shape[0]):
        h = weights[i] if len(weights) > 0 else 1.0
        v = rows.data[begin(rows, i) : end(rows, i)]
        for m in range(models):
            gather(psi, rows, i, coordinates, m, w)
        low = 0
        while low < models:
            high = side.same_update(codes, low)
            for m in range(low, high):
                k = m - low
                r[side.Y, k] = labels[i, m] if labels.shape[1] > 1 else labels[i, 0]
                if l1_strength(psi) == 0.0:
                    r[side.P, k], c[m], n2 = measure(psi, v, w, m, steps, states[m, LAM])
                    r[side.START, k], r[side.STEP, k] = r[side.P, k], min(h * c[m], 1.7e308)
            if l1_strength(psi) == 0.0:
                side.choose_all(loss, codes[low], h, r, high - low, True)
            for m in range(low, high):
                k = m - low
                schedule = AnySchedule(int(schedules[m, 0]), schedules[m, 1], schedules[m, 2], schedules[m, 3])
                if l1_strength(psi) == 0.0:
                    predictions[i, m], a = r[side.P, k], h * r[side.SLOPE, k]
                    if abs(a) < math.inf:
                        finish(
                            loss, psi, schedule, r[side.Y, k], h, v, w, m, steps, c[m], n2, a, r[side.PHI, k],
                            r[side.PHI_STAR, k], r[side.DELTA, k], r[side.LED, k], r[side.BEND, k], states,
                        )  # fmt: skip
                else:
                    predictions[i, m], a = round_coordinate(
                        loss, psi, AnyUpdate(codes[m]), schedule, r[side.Y, k], h, v, w, m, steps, states
                    )
                if not abs(a) < math.inf:
                    states[m, LOSS] = math.inf
            low = high
        for m in range(models):
            scatter(psi, rows, i, coordinates, m, w)
    return len(labels)
