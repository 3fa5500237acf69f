"""The coordinates of one row, copied: what rounds with a strength for each coordinate read and change.

v are the features of the row, and w[m, X, k] is x of its k-th coordinate in model m. These arrays are arguments and not
fields of one tuple, because counting references to arrays in a tuple slows the loops down by 5%.

What is stored of a coordinate, with u = theta + tilt and x = soft(u, l1)/L:

    not centred   u = theta, q
    centred       x, q, theta, and g if l1 > 0        u = L x + g, g in [-l1, l1]
"""

from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.kernels.scalar_round import soft
from giftrl.regularizers.contract import accumulate, centred, l1_strength, strength

__all__ = [
    "THETA",
    "LocalLine",
    "Q",
    "Step",
    "X",
    "columns",
    "gather",
    "led_divergence",
    "measure",
    "move_centred",
    "move_plain",
    "scatter",
]

#: What is stored of a coordinate, in this order; where psi is not centred, theta is in the place of x.
X, Q, THETA, G = 0, 1, 2, 3


class Step(NamedTuple):
    """How the coordinates of a row move."""

    a: float  # z = a s
    bend: float  # h phi'' at the new point
    lam_now: float  # lambda_t
    next_lam: float  # lambda_{t+1}


@formula(fast=True)
def columns(psi: Any) -> int:
    """How many numbers are stored of each coordinate."""
    if not centred(psi):
        return 2
    return 4 if l1_strength(psi) > 0.0 else 3


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
    """Write the copy back."""
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


class LocalLine(NamedTuple):
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
def move_centred(psi: Any, v: Any, w: Any, m: int, steps: Any, step: Step) -> float:
    """Move the coordinates of a centred psi; norm2^2 of the theta that is stored. ``steps`` holds s_j/L_j.

    Where a number is beyond the type in which it is stored, norm2^2 is NaN: that is what 0 times infinity is.
    """
    a, bend, lam_now, _ = step
    l1 = l1_strength(psi)
    stored, beyond = 0.0, 0.0
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
        beyond += 0.0 * (np.float64(w[m, X, k]) + np.float64(w[m, Q, k]) + np.float64(w[m, THETA, k]))
    return stored + beyond


@formula(fast=True)
def move_plain(psi: Any, v: Any, w: Any, m: int, step: Step, energy: bool) -> tuple[float, ...]:
    """Move the coordinates of a psi that is not centred; norm2^2 of the theta that is stored, NaN or infinite where
    a number is beyond the type in which it is stored.

    And, 0 unless ``energy`` asks for them: the divergence from x_t to x_{t+1} in these coordinates, the prediction at
    x_{t+1}, and their part of E before and after.
    """
    a, bend, lam_now, next_lam = step
    l1 = l1_strength(psi)
    stored, beyond, moved, p_after, before2, after2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(len(v)):
        s, q, old = np.float64(v[k]), np.float64(w[m, Q, k]), np.float64(w[m, X, k])
        w[m, X, k] = old - a * s
        w[m, Q, k] = accumulate(psi, q, a * s, bend * s * s)
        new, q_new = np.float64(w[m, X, k]), np.float64(w[m, Q, k])
        stored += new * new
        beyond += 0.0 * q_new
        if energy:
            soft_old, soft_new = soft(old, l1), soft(new, l1)
            big_l = strength(psi, lam_now, q)
            x_new = soft_new / strength(psi, next_lam, q_new)
            move = x_new - soft_old / big_l
            moved += 0.5 * big_l * move * move
            p_after += s * x_new
            before2 += soft_old * soft_old / strength(psi, 1.0, q)
            after2 += soft_new * soft_new / strength(psi, 1.0, q_new)
    return stored + beyond, moved, p_after, before2, after2
