"""One more expert where features are few: a full matrix of curvature, the Newton step of online ridge regression.

A = (N/beta I + sum of h u u')^-1 over the features seen so far, x -= a A u with the proximal scalar a for
c = <u, A u>, and A loses h/(1 + h c) (A u)(A u)'; all in units of kappa, as for the other experts. A feature takes its
place when it is first learnt from. When more come than there is room for, the expert leaves the mixture.

A round costs the square of the number of features. So the expert learns on credit: it begins with CREDIT
multiplications, earns EARNED for each entry of a row, and passes over rows that it cannot pay for. On a short stream it
learns from every row; on a long one it costs no more than the other experts.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.mixtures.layout import PLACE
from giftrl.ops.scalar import clamp

__all__ = [
    "Matrix",
    "admit",
    "affords",
    "grow_matrix",
    "is_in",
    "measure_matrix",
    "no_matrix",
    "spread_matrix",
    "step_matrix",
]

#: beta of its first strength N/beta.
BETA = 100.0
#: Multiplications: 2,000 rounds of 128 features, and about what the other experts do with an entry.
CREDIT, EARNED = 3.2e7, 64.0
#: Weights are clipped here.
LARGEST = 1e100
#: A row does not teach a direction more than this many times what is known of it: rounding would undo the rest.
SUREST, TINY = 1e8, 1e-300


class Matrix(NamedTuple):
    """The inverse A, the weights, the first entry of A for each place, how many are taken, and the credit.

    -1 places are taken once it has left the mixture.
    """

    inverse: NDArray[np.float64]
    x: NDArray[np.float64]
    prior: NDArray[np.float64]
    size: NDArray[np.int64]
    credit: NDArray[np.float64]


def no_matrix(places: int) -> Matrix:
    """An expert with room for this many features, or with none of them the absence of one."""
    start = 0 if places > 0 else -1
    size, credit = np.array([start], np.int64), np.array([CREDIT])
    return Matrix(np.zeros((places, places)), np.zeros(places), np.zeros(places), size, credit)


@formula(fast=True)
def is_in(matrix: Any) -> bool:
    """Whether the expert is part of the mixture."""
    return bool(matrix.size[0] >= 0)


@formula(fast=True)
def affords(matrix: Any, count: int) -> bool:
    """Whether the expert can pay for a round on a row of this many entries; if so, it has paid."""
    matrix.credit[0] = min(CREDIT, matrix.credit[0] + EARNED * count)
    cost = np.float64(matrix.size[0] + count) * np.float64(matrix.size[0] + count)
    if matrix.credit[0] < cost:
        return False
    matrix.credit[0] -= cost
    return True


@formula(fast=True)
def admit(matrix: Any, x: Any, row: Any, count: int, norm: float) -> None:
    """Give the new features of a row their places; leave where there is no room."""
    for k in range(count):
        j = row.j[k]
        if row.u[k] != 0.0 and x[j, PLACE] == 0.0 and is_in(matrix):
            place = matrix.size[0]
            if place == len(matrix.x):
                matrix.size[0] = -1
            else:
                matrix.size[0] = place + 1
                x[j, PLACE] = place + 1
                matrix.prior[place] = BETA / norm
                matrix.inverse[place, place] = matrix.prior[place]


@formula(fast=True)
def grow_matrix(matrix: Any, x: Any, j: int, factor: float) -> None:
    """Follow a scale m_j that has grown by 1/factor.

    What was learnt of the feature is worth less in the new units: its row and column of A grow by 1/factor, but its
    variance not beyond that of a new feature. With g that growth, the dual is kept as in the other experts.
    """
    s = np.int64(x[j, PLACE]) - 1
    if s >= 0:
        a = matrix.inverse
        most = np.sqrt(matrix.prior[s] / a[s, s]) if a[s, s] > 0.0 else np.inf
        g = max(1.0, min(1.0 / factor, most) if factor > 0.0 else most)
        if g > SUREST:  # what is left of it is rounding: as a new feature
            for k in range(matrix.size[0]):
                a[s, k], a[k, s] = 0.0, 0.0
            a[s, s] = matrix.prior[s]
            matrix.x[s] = 0.0
        else:
            for k in range(matrix.size[0]):
                a[s, k] *= g
                a[k, s] *= g
            matrix.x[s] = clamp(matrix.x[s] * factor * g * g, -LARGEST, LARGEST)


@formula(fast=True)
def measure_matrix(matrix: Any, x: Any, row: Any, count: int) -> tuple[float, float]:
    """p and the drift of the constant."""
    p, moved = 0.0, 0.0
    for k in range(count):
        s = np.int64(x[row.j[k], PLACE]) - 1
        if s >= 0:
            p += row.u[k] * matrix.x[s]
            moved += row.drift[k] * matrix.x[s]
    return p, moved


@formula(fast=True)
def multiply(matrix: Any, x: Any, row: Any, count: int, au: Any) -> tuple[float, float]:
    """A u into ``au``; <u, A u>, and the most that it can be, since A is not above its first diagonal."""
    n = matrix.size[0]
    for i in range(n):
        au[i] = 0.0
    most = 0.0
    for k in range(count):
        s = np.int64(x[row.j[k], PLACE]) - 1
        if s >= 0:
            u = row.u[k]
            most += matrix.prior[s] * u * u
            for i in range(n):
                au[i] += u * matrix.inverse[s, i]
    c = 0.0
    for k in range(count):
        s = np.int64(x[row.j[k], PLACE]) - 1
        if s >= 0:
            c += row.u[k] * au[s]
    return c, most


@formula(fast=True)
def spread_matrix(matrix: Any, x: Any, row: Any, count: int, au: Any) -> float:
    """A u into ``au``; <u, A u>. A matrix that rounding has spoilt begins anew."""
    c, most = multiply(matrix, x, row, count, au)
    if not -1e-6 * most <= c <= 1e3 * most:
        n = matrix.size[0]
        for s in range(n):
            for i in range(n):
                matrix.inverse[s, i] = 0.0
            matrix.inverse[s, s] = matrix.prior[s]
        c, most = multiply(matrix, x, row, count, au)
    return max(0.0, c)


@formula(fast=True)
def step_matrix(matrix: Any, au: Any, c: float, a: float, h: float) -> None:
    """x -= a A u, and the curvature h into A."""
    n = matrix.size[0]
    part = 1.0 / (1.0 / min(h, SUREST / (c + TINY)) + c) if h > 0.0 else 0.0
    for k in range(n):
        matrix.x[k] = clamp(matrix.x[k] - a * au[k], -LARGEST, LARGEST)
        lost = part * au[k]
        for i in range(n):
            matrix.inverse[k, i] -= lost * au[i]
