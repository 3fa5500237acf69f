"""The coordinates of one row, copied: what rounds with a strength for each coordinate read and change.

What is stored of a coordinate, with u = theta + tilt and x = soft(u, l1)/L:

    not centred   u = theta, q
    centred       x, q, theta, and g if l1 > 0        u = L x + g, g in [-l1, l1]
"""

from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.kernels.step import soft
from giftrl.regularizers.contract import accumulate, centred, l1_strength, strength

__all__ = [
    "THETA",
    "Local",
    "LocalLine",
    "Q",
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


class Local(NamedTuple):
    """The features of a row, with a copy of their coordinates in every model; m is the model to work on."""

    v: Any  # the features
    w: Any  # w[m, X, k] is x of the row's k-th coordinate in model m
    steps: Any  # steps[m, k] is s_k/L_k
    m: int


class Moved(NamedTuple):
    """What is known of the coordinates of a row after they have moved."""

    stored: float  # norm2^2 of the theta that is stored
    divergence: float  # from x_t to x_{t+1} in these coordinates
    p_after: float  # the prediction at x_{t+1}
    before2: float  # their part of E before
    after2: float  # and after


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
        for which in range(columns(psi)):
            w[m, which, k - first] = coordinates[j, m, which]


@formula(fast=True)
def scatter(psi: Any, rows: Any, i: int, coordinates: Any, m: int, w: Any) -> None:
    """Write the copy back."""
    first, last = begin(rows, i), end(rows, i)
    for k in range(first, last):
        j = column(rows, i, k)
        for which in range(columns(psi)):
            coordinates[j, m, which] = w[m, which, k - first]


@formula(fast=True)
def read_x(psi: Any, local: Local, k: int, big_l: float) -> float:
    """x of the row's k-th coordinate."""
    if centred(psi):
        return np.float64(local.w[local.m, X, k])
    return soft(np.float64(local.w[local.m, X, k]), l1_strength(psi)) / big_l


@formula(fast=True)
def read_u(psi: Any, local: Local, k: int, big_l: float) -> float:
    """u = theta + tilt of the row's k-th coordinate."""
    if not centred(psi):
        return np.float64(local.w[local.m, X, k])
    u = big_l * np.float64(local.w[local.m, X, k])
    return u + np.float64(local.w[local.m, G, k]) if l1_strength(psi) > 0.0 else u


class LocalLine(NamedTuple):
    """pi(b) = sum_j s_j soft(u_j - h b s_j, l1)/L_j along one row; a walk over the row for each b."""

    psi: Any
    local: Local
    lam: float
    h: float

    def at(self, b: float) -> float:
        p = 0.0
        for k in range(len(self.local.v)):
            v = np.float64(self.local.v[k])
            big_l = strength(self.psi, self.lam, np.float64(self.local.w[self.local.m, Q, k]))
            p += v * soft(read_u(self.psi, self.local, k, big_l) - self.h * b * v, l1_strength(self.psi)) / big_l
        return p

    def energy(self, b: float) -> float:
        total = 0.0
        for k in range(len(self.local.v)):
            big_l = strength(self.psi, self.lam, np.float64(self.local.w[self.local.m, Q, k]))
            u = read_u(self.psi, self.local, k, big_l)
            before = soft(u, l1_strength(self.psi))
            after = soft(u - self.h * b * np.float64(self.local.v[k]), l1_strength(self.psi))
            total += (after - before) * (after + before) / big_l
        return total / (2.0 * self.h)


@formula(fast=True)
def measure(psi: Any, local: Local, lam_now: float) -> tuple[float, float, float]:
    """p, c and norm2(s)^2 of a row, and s_j/L_j into the steps."""
    v, w, steps, m = local
    p, c, n2 = 0.0, 0.0, 0.0
    for k in range(len(v)):
        s = np.float64(v[k])
        big_l = strength(psi, lam_now, np.float64(w[m, Q, k]))
        step = s / big_l
        steps[m, k] = step
        p += s * read_x(psi, local, k, big_l)
        c += s * step
        n2 += s * s
    return p, c, n2


@formula(fast=True)
def led_divergence(psi: Any, local: Local, lam_now: float, a: float) -> float:
    """B_{psi_t} from x_t to the point to which a leads under psi_t, with an L1 term."""
    v, w, _, m = local
    total = 0.0
    for k in range(len(v)):
        big_l = strength(psi, lam_now, np.float64(w[m, Q, k]))
        u = read_u(psi, local, k, big_l) - a * np.float64(v[k])
        move = soft(u, l1_strength(psi)) / big_l - read_x(psi, local, k, big_l)
        total += 0.5 * big_l * move * move
    return total


@formula(fast=True)
def move_centred(psi: Any, local: Local, lam_now: float, a: float, bend: float) -> float:
    """Move the coordinates of a centred psi; norm2^2 of the theta that is stored.

    ``bend`` is h phi'' at the new point.
    """
    v, w, steps, m = local
    l1 = l1_strength(psi)
    stored = 0.0
    for k in range(len(v)):
        s, q = np.float64(v[k]), np.float64(w[m, Q, k])
        if l1 == 0.0:
            w[m, X, k] = np.float64(w[m, X, k]) - a * steps[m, k]
        else:
            big_l = strength(psi, lam_now, q)
            u = read_u(psi, local, k, big_l) - a * s
            x = soft(u, l1) / big_l
            w[m, X, k] = x
            w[m, G, k] = u - big_l * x
        w[m, Q, k] = accumulate(psi, q, a * s, bend * s * s)
        theta = np.float64(w[m, THETA, k]) - a * s
        w[m, THETA, k] = theta
        stored += theta * theta
    return stored


@formula(fast=True)
def move_plain(psi: Any, local: Local, lam_now: float, next_lam: float, a: float, bend: float, energy: bool) -> Moved:
    """Move the coordinates of a psi that is not centred; ``energy`` asks for more than what is stored."""
    v, w, _, m = local
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
    return Moved(stored, moved, p_after, before2, after2)
