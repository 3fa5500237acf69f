"""The full-matrix expert for few features: an online Newton step, as in online ridge regression.

A = (N/beta I + sum of h u u')^-1 over the features seen so far, x -= a A u with the proximal scalar a for c = <u, A u>,
and A loses h/(1 + h c) (A u)(A u)'; all in units of kappa, as for the other experts. A feature gets a place in A at its
first update. If there are more features than places, the expert leaves the mixture.

A round costs the square of the number of features. So the expert has a compute budget: it starts with CREDIT
multiplications, gains EARNED per entry of a row, and skips rows beyond the budget. On a short stream it learns from
every row; on a long one it costs no more than the other experts.

With K scores there is a matrix A_m and a column of weights for each class, with shared places and budget. A_m gets
a quarter of the curvature of its class (a rate of 4, as in the grid), and all classes step at one length, the mean of
the <u, A_m u> weighted by the squared slopes.

Rank-one downdates of A are delayed, and applied eight at a time: A = inverse - sum_b late_b late_b'. A round that takes
v v' from A writes v to the next free row of ``late``, and eight rounds together read and write ``inverse`` once: it
exceeds the first-level cache, so its memory traffic dominates. Delayed vectors are part of the state, so that any split
into batches gives the same bits. Free rows of ``late`` are 0, and so are vectors at unused places.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula, operation
from giftrl.mixtures.clip_limits import LARGEST_MATRIX_WEIGHT
from giftrl.mixtures.experts import remove_expert
from giftrl.mixtures.feature_state import PLACE
from giftrl.ops.scalar import clamp

#: The beta of the initial strength N/beta.
BETA = 100.0
#: The rate of the matrices of K classes.
RATE = 4.0
#: The compute budget in multiplications: initial, and gain per entry.
CREDIT, EARNED = 3.2e7, 64.0
#: The matrices of all classes have at most this many numbers: K times the square of the places.
MOST_NUMBERS = 1 << 18
#: The maximum factor by which a row increases the curvature along it, because of rounding.
MAX_CURVATURE_GAIN = 1e8
#: The same for K scores, here and in the stack.
MAX_CURVATURE_GAIN_OF_CLASSES = 1e6
#: Added to c before it divides.
SMALLEST_DIVISOR = 1e-300
#: How many downdates are delayed; :func:`apply_late` names them all.
LATE_ROWS = 8


class Matrix(NamedTuple):
    """The state of the expert; with K scores a matrix, weights and downdates for each class."""

    inverse: NDArray[np.float64]  # A
    x: NDArray[np.float64]  # the weights
    prior: NDArray[np.float64]  # the first diagonal entry of A for each place
    size: NDArray[np.int64]  # number of used places; -1 after the expert has left the mixture
    credit: NDArray[np.float64]
    late: NDArray[np.float64]  # the delayed downdates of A
    waiting: NDArray[np.int64]  # their number


def nothing_late(inverse: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """``late`` and ``waiting`` without delayed downdates of ``inverse``, a matrix or one for each class."""
    return np.zeros((*inverse.shape[:-2], LATE_ROWS, inverse.shape[-1])), np.zeros(1, np.int64)


def new_matrix(places: int, classes: int | None = None) -> Matrix:
    """An initial expert with this many places (0: absent); ``classes`` for K scores.

    Many classes reduce the number of places.

    >>> new_matrix(128).inverse.shape, new_matrix(128, 100).inverse.shape, new_matrix(0).size
    ((128, 128), (100, 51, 51), array([-1]))
    """
    if classes is not None:
        places = min(places, math.isqrt(MOST_NUMBERS // classes))
    inverse = np.zeros((places, places) if classes is None else (classes, places, places))
    weights = (places,) if classes is None else (places, classes)
    size, credit = np.array([0 if places > 0 else -1], np.int64), np.array([CREDIT])
    return Matrix(inverse, np.zeros(weights), np.zeros(places), size, credit, *nothing_late(inverse))


# Delayed downdates of A.


@formula(fast=True)
def variance(matrix: Matrix, s: Any) -> float:
    """The diagonal entry of A at place s."""
    found = matrix.inverse[s, s]
    for b in range(LATE_ROWS):
        found -= matrix.late[b, s] * matrix.late[b, s]
    return float(found)


@formula(fast=True)
def rescale(matrix: Matrix, s: Any, g: float) -> None:
    """Multiply row s and column s of A by g; their common entry by g^2."""
    for k in range(matrix.size[0]):
        matrix.inverse[s, k] *= g
        matrix.inverse[k, s] *= g
    for b in range(LATE_ROWS):
        matrix.late[b, s] *= g


@formula(fast=True)
def isolate(matrix: Matrix, s: Any, own: float) -> None:
    """Set row and column s of A to 0 except the diagonal entry ``own``."""
    for k in range(matrix.size[0]):
        matrix.inverse[s, k], matrix.inverse[k, s] = 0.0, 0.0
    matrix.inverse[s, s] = own
    for b in range(LATE_ROWS):
        matrix.late[b, s] = 0.0


@formula(fast=True)
def advance(matrix: Matrix) -> bool:
    """Count a row of ``late``; returns True if it is full and must be applied."""
    matrix.waiting[0] = (matrix.waiting[0] + 1) % LATE_ROWS
    return bool(matrix.waiting[0] == 0)


@formula(fast=True)
def apply_late(matrix: Matrix) -> None:
    """Apply the delayed downdates to ``inverse``, and free all rows of ``late``."""
    a, late, n = matrix.inverse, matrix.late, matrix.size[0]
    for k in range(n):
        v0, v1, v2, v3 = late[0, k], late[1, k], late[2, k], late[3, k]
        v4, v5, v6, v7 = late[4, k], late[5, k], late[6, k], late[7, k]
        for i in range(n):  # all eight at once, so that a[k, i] is read and written once
            first = v0 * late[0, i] + v1 * late[1, i] + v2 * late[2, i] + v3 * late[3, i]
            a[k, i] -= first + (v4 * late[4, i] + v5 * late[5, i] + v6 * late[6, i] + v7 * late[7, i])
    for b in range(LATE_ROWS):
        for k in range(n):
            late[b, k] = 0.0


# The expert.


@formula(fast=True)
def of_class(matrix: Matrix, m: Any) -> Any:
    """The matrix of class m, as views of the same memory."""
    inverse, x, late = matrix.inverse[m], matrix.x[:, m], matrix.late[m]
    return Matrix(inverse, x, matrix.prior, matrix.size, matrix.credit, late, matrix.waiting)


@formula(fast=True)
def is_in(matrix: Matrix) -> bool:
    """True if the expert is part of the mixture."""
    return bool(matrix.size[0] >= 0)


@formula(fast=True)
def admit_row(matrix: Matrix, state: Any, expert: int, record: Any, row: Any, count: int, norm: float) -> bool:
    """Charge the budget and give new features places; returns True if the expert learns from the row."""
    if not is_in(matrix):
        return False
    credit = min(CREDIT, matrix.credit[0] + EARNED * count)
    cost = np.float64(matrix.size[0] + count) * np.float64(matrix.size[0] + count)
    matrix.credit[0] = credit - cost if credit >= cost else credit
    if credit < cost:
        return False
    for k in range(count):
        j, place = row.j[k], matrix.size[0]
        if row.u[k] != 0.0 and record[j, PLACE] == 0.0:
            if place == len(matrix.x):
                matrix.size[0] = -1
                remove_expert(state, expert)
                return False
            matrix.size[0] = place + 1
            record[j, PLACE] = place + 1
            matrix.prior[place] = BETA / norm
            matrix.inverse[..., place, place] = matrix.prior[place]
    return True


@formula(fast=True)
def grow_matrix(matrix: Matrix, s: Any, factor: float) -> None:
    """Rescale the feature at place s after its scale has grown by 1/factor. Its row and column of A grow by g =
    1/factor, or less, so that its variance does not exceed that of a new feature. The dual is kept, as in the other
    experts.
    """
    known = variance(matrix, s)
    most = np.sqrt(matrix.prior[s] / known) if known > 0.0 else np.inf
    g = max(1.0, min(1.0 / factor, most) if factor > 0.0 else most)
    if g > MAX_CURVATURE_GAIN:  # only rounding error is left
        isolate(matrix, s, matrix.prior[s])
        matrix.x[s] = 0.0
    else:
        rescale(matrix, s, g)
        matrix.x[s] = clamp(matrix.x[s] * factor * g * g, -LARGEST_MATRIX_WEIGHT, LARGEST_MATRIX_WEIGHT)


@operation
def follow_scale(state: Any, matrix: Matrix, s: Any, factor: float) -> None:
    """:func:`grow_matrix`; K scores override this."""
    grow_matrix(matrix, s, factor)


@formula(fast=True)
def measure_matrix(matrix: Matrix, record: Any, row: Any, count: int) -> float:
    """The prediction p."""
    p = 0.0
    for k in range(count):
        s = np.int64(record[row.j[k], PLACE]) - 1
        if s >= 0:
            p += np.float64(row.u[k]) * matrix.x[s]
    return p


@formula(fast=True)
def drift_matrix(matrix: Matrix, record: Any, row: Any) -> float:
    """The shift of the constant due to moved centres."""
    moved = 0.0
    for listed in range(row.many[0]):
        s = np.int64(record[row.j[row.moved[listed]], PLACE]) - 1
        if s >= 0:
            moved += row.drift[listed] * matrix.x[s]
    return moved


@formula(fast=True)
def put_in_places(matrix: Matrix, record: Any, row: Any, count: int, u: Any) -> None:
    """Write a row as a vector ``u`` over the places."""
    for i in range(matrix.size[0]):
        u[i] = 0.0
    for k in range(count):
        s = np.int64(record[row.j[k], PLACE]) - 1
        if s >= 0:
            u[s] += np.float64(row.u[k])


@formula(fast=True)
def multiply(matrix: Matrix, record: Any, row: Any, count: int, u: Any, au: Any) -> tuple[float, float]:
    """Compute A u; returns <u, A u> and an upper bound, since A never exceeds its initial diagonal."""
    n = matrix.size[0]
    for i in range(n):
        au[i] = 0.0
    for k in range(count):
        s = np.int64(record[row.j[k], PLACE]) - 1
        if s >= 0:
            for i in range(n):
                au[i] += np.float64(row.u[k]) * matrix.inverse[s, i]
    for b in range(matrix.waiting[0]):
        late, along = matrix.late[b], 0.0
        for i in range(n):
            along += late[i] * u[i]
        for i in range(n):
            au[i] -= along * late[i]
    c, most = 0.0, 0.0
    for i in range(n):
        c += u[i] * au[i]
        most += matrix.prior[i] * u[i] * u[i]
    return c, most


@formula(fast=True)
def sound_product(matrix: Matrix, record: Any, row: Any, count: int, u: Any, au: Any) -> float:
    """Compute A u and return <u, A u>; a matrix with excessive rounding error is first reset to its prior."""
    c, most = multiply(matrix, record, row, count, u, au)
    if not -1e-6 * most <= c <= 1e3 * most:
        for s in range(matrix.size[0]):
            isolate(matrix, s, matrix.prior[s])
        c, most = multiply(matrix, record, row, count, u, au)
    return max(0.0, c)


@formula(fast=True)
def spread_matrix(matrix: Matrix, record: Any, row: Any, count: int, u: Any, au: Any) -> float:
    """Compute u and A u of a row; returns <u, A u>."""
    put_in_places(matrix, record, row, count, u)
    return sound_product(matrix, record, row, count, u, au)


@formula(fast=True)
def learn_matrix(matrix: Matrix, au: Any, c: float, a: float, h: float) -> None:
    """x -= a A u, and add the curvature h to the inverse of A."""
    part = 1.0 / (1.0 / min(h, MAX_CURVATURE_GAIN / (c + SMALLEST_DIVISOR)) + c) if h > 0.0 else 0.0
    for k in range(matrix.size[0]):
        matrix.x[k] = clamp(matrix.x[k] - a * au[k], -LARGEST_MATRIX_WEIGHT, LARGEST_MATRIX_WEIGHT)
    late, root = matrix.late[matrix.waiting[0]], math.sqrt(part)  # delayed downdate of A by part A u (A u)'
    for k in range(matrix.size[0]):
        late[k] = root * au[k]


@formula(fast=True)
def step_matrix(matrix: Matrix, au: Any, c: float, a: float, h: float) -> None:
    """The round of one score: :func:`learn_matrix`."""
    learn_matrix(matrix, au, c, a, h)
    if advance(matrix):
        apply_late(matrix)


@formula(fast=True)
def grow_classes(matrix: Matrix, s: Any, factor: float) -> None:
    """:func:`grow_matrix` for each class; if rounding has left no variance in A_m, the feature is reset."""
    for m in range(len(matrix.inverse)):
        own = of_class(matrix, m)
        if not variance(own, s) > 0.0:
            isolate(own, s, own.prior[s])
        grow_matrix(own, s, factor)


@formula(fast=True)
def spread_classes(matrix: Matrix, record: Any, row: Any, count: int, g: Any, u: Any, au: Any, c: Any) -> float:
    """Compute A_m u and <u, A_m u> for each class; returns the mean of the latter, weighted by g_m^2."""
    put_in_places(matrix, record, row, count, u)
    total, weight = 0.0, 0.0
    for m in range(len(c)):
        c[m] = sound_product(of_class(matrix, m), record, row, count, u, au[m])
        total += g[m] * g[m] * c[m]
        weight += g[m] * g[m]
    return total / weight if weight > 0.0 else 0.0


@formula(fast=True)
def step_classes(matrix: Matrix, au: Any, c: Any, a: Any, bends: Any, h: float) -> None:
    """:func:`learn_matrix` for each class; the curvatures ``bends`` are bounds, twice the diagonal of the Hessian."""
    for m in range(len(c)):
        bend = min(h * bends[m] / (2.0 * RATE), MAX_CURVATURE_GAIN_OF_CLASSES / (c[m] + SMALLEST_DIVISOR))
        learn_matrix(of_class(matrix, m), au[m], c[m], a[m], bend)
    if advance(matrix):
        for m in range(len(c)):
            apply_late(of_class(matrix, m))
