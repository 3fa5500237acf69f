"""A symmetric matrix that takes in what it loses eight vectors at a time.

A = inverse - sum_b late_b late_b'. A round that takes v v' from A writes v to the next free row of ``late``, and eight
rounds together read and write ``inverse`` once: it is larger than the nearest cache, and most of a round's time is its
way there and back. What is late is part of the state, so that a stream gives the same bits in any batches. Rows of
``late`` that are free are 0, and so is every vector at places that no feature has.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula

#: The rows of ``late``; :func:`take_in` names them all.
LATE = 8


class Late(NamedTuple):
    """The vectors that A has yet to lose, and how many there are."""

    late: NDArray[np.float64]
    waiting: NDArray[np.int64]


def nothing_late(inverse: NDArray[np.float64]) -> Late:
    """What is late where ``inverse``, a matrix or one for each class, is up to date.

    >>> nothing_late(np.eye(3)).late.shape, nothing_late(np.zeros((5, 3, 3))).late.shape
    ((8, 3), (5, 8, 3))
    """
    return Late(np.zeros((*inverse.shape[:-2], LATE, inverse.shape[-1])), np.zeros(1, np.int64))


@formula(fast=True)
def variance(matrix: Any, s: Any) -> float:
    """The diagonal entry of A at place s."""
    found = matrix.inverse[s, s]
    for b in range(LATE):
        found -= matrix.late[b, s] * matrix.late[b, s]
    return float(found)


@formula(fast=True)
def stretch(matrix: Any, s: Any, g: float) -> None:
    """Multiply row s and column s of A by g; their common entry by g^2."""
    for k in range(matrix.size[0]):
        matrix.inverse[s, k] *= g
        matrix.inverse[k, s] *= g
    for b in range(LATE):
        matrix.late[b, s] *= g


@formula(fast=True)
def isolate(matrix: Any, s: Any, own: float) -> None:
    """Make row s and column s of A zeros, but for the diagonal entry ``own``."""
    for k in range(matrix.size[0]):
        matrix.inverse[s, k], matrix.inverse[k, s] = 0.0, 0.0
    matrix.inverse[s, s] = own
    for b in range(LATE):
        matrix.late[b, s] = 0.0


@formula(fast=True)
def lose(matrix: Any, v: Any, root: float) -> None:
    """Take root^2 v v' from A, later: in the free row of ``late``."""
    late = matrix.late[matrix.waiting[0]]
    for k in range(matrix.size[0]):
        late[k] = root * v[k]


@formula(fast=True)
def add_late(matrix: Any, u: Any, au: Any) -> None:
    """Make A u of ``inverse`` times u."""
    n = matrix.size[0]
    for b in range(matrix.waiting[0]):
        late, along = matrix.late[b], 0.0
        for i in range(n):
            along += late[i] * u[i]
        for i in range(n):
            au[i] -= along * late[i]


@formula(fast=True)
def fills(matrix: Any) -> bool:
    """Count a row of ``late``; whether it was the last free one, so that they must be taken in."""
    matrix.waiting[0] = (matrix.waiting[0] + 1) % LATE
    return bool(matrix.waiting[0] == 0)


@formula(fast=True)
def take_in(matrix: Any) -> None:
    """Bring ``inverse`` up to date, and free all rows of ``late``."""
    a, late, n = matrix.inverse, matrix.late, matrix.size[0]
    for k in range(n):
        v0, v1, v2, v3 = late[0, k], late[1, k], late[2, k], late[3, k]
        v4, v5, v6, v7 = late[4, k], late[5, k], late[6, k], late[7, k]
        for i in range(n):  # all eight in one step, so that a[k, i] is read and written once
            first = v0 * late[0, i] + v1 * late[1, i] + v2 * late[2, i] + v3 * late[3, i]
            a[k, i] -= first + (v4 * late[4, i] + v5 * late[5, i] + v6 * late[6, i] + v7 * late[7, i])
    for b in range(LATE):
        for k in range(n):
            late[b, k] = 0.0
