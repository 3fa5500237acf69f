"""Walks over dense rows, eight features at a time.

They read a copy of the coordinates in which the numbers of one kind lie together, in blocks of eight. If the number of
features is not a multiple of eight, the last block of a row is its last eight numbers, of which those that belong to
the block before are multiplied by zero; the last block of the copy is filled likewise, from its end.
"""

from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.lanes import load, narrow, store, wide, zeros
from giftrl.compiled.registry import formula
from giftrl.kernels.lane_counts import Eight
from giftrl.regularizers.contract import accumulate, strength

__all__ = ["Eight", "Row", "dense_row", "dot", "fill", "measure", "move", "padded", "pour", "shift"]

EIGHT = np.uint64(8)
ZERO = np.uint64(0)
#: The rows of the copies of coordinates.
X, Q, THETA = 0, 1, 2


class Row(NamedTuple):
    """Where a row lies among the others."""

    first: Any
    full: Any  # the entries in whole blocks
    more: Any  # whether there are others
    last: Any  # where the last block begins


@formula(fast=True)
def padded(entries: int) -> int:
    """The least multiple of eight that is not smaller."""
    return (entries + 7) // 8 * 8


@formula(fast=True)
def dense_row(i: int, dimension: int) -> Row:
    """Row i of at least eight numbers each."""
    first, length = np.uint64(i) * np.uint64(dimension), np.uint64(dimension)
    full = length // EIGHT * EIGHT
    return Row(first, full, full < length, first + length - EIGHT)


@formula(fast=True)
def fill(copy: Any, r: int, column: Any) -> None:
    """Fill row r of the copy with the numbers of a column, as the blocks of a dense row are."""
    length = len(column)
    full, shift = length // 8 * 8, padded(length) - length
    for j in range(length):
        copy[r, j if j < full else j + shift] = column[j]
    for j in range(shift):  # a batch that overflowed may have left something there
        copy[r, full + j] = 0.0


@formula(fast=True)
def pour(copy: Any, r: int, column: Any) -> None:
    """Write row r of the copy back."""
    length = len(column)
    full, shift = length // 8 * 8, padded(length) - length
    for j in range(length):
        column[j] = copy[r, j if j < full else j + shift]


@formula  # in this order: the sum is what a round waits for, and three additions are quicker than seven
def total(sums: Any, v: Any) -> float:
    """The sum of eight numbers side by side."""
    store(sums, 0, 0, wide(v))
    low = (sums[0, 0] + sums[0, 4]) + (sums[0, 2] + sums[0, 6])
    return low + ((sums[0, 1] + sums[0, 5]) + (sums[0, 3] + sums[0, 7]))  # type: ignore[no-any-return]


@formula(fast=True)
def rest(row: Row, x: Any, mask: Any) -> Any:
    """The last block of a row, filled with zeros."""
    side = Eight()
    return load(side, x, 0, row.last) * load(side, mask, 0, 0)


@formula(fast=True)
def dot(row: Row, x: Any, mask: Any, copy: Any, sums: Any) -> tuple[float, float]:
    """<s, theta> and norm2(s)^2."""
    side = Eight()
    ts, n2 = zeros(side), zeros(side)
    for block in range(ZERO, row.full, EIGHT):
        at: Any = np.uint64(block)
        s = wide(load(side, x, 0, row.first + at))
        ts = ts + s * wide(load(side, copy, 0, at))
        n2 = n2 + s * s
    if row.more:
        s = wide(rest(row, x, mask))
        ts = ts + s * wide(load(side, copy, 0, row.full))
        n2 = n2 + s * s
    return total(sums, ts), total(sums, n2)


@formula(fast=True)
def move(row: Row, x: Any, mask: Any, copy: Any, a: float) -> None:
    """theta - a s, in the type in which theta is stored."""
    side, step = Eight(), copy.dtype.type(a)
    for block in range(ZERO, row.full, EIGHT):
        at: Any = np.uint64(block)
        store(copy, 0, at, load(side, copy, 0, at) - narrow(copy, load(side, x, 0, row.first + at)) * step)
    if row.more:
        store(copy, 0, row.full, load(side, copy, 0, row.full) - narrow(copy, rest(row, x, mask)) * step)


class Sums(NamedTuple):
    """Sums over the blocks of a row so far, each of eight numbers."""

    p: Any  # <s, x>
    c: Any  # of s_j^2/L_j
    n2: Any  # norm2(s)^2


@formula(fast=True)
def measure_block(psi: Any, lam: Any, given: Any, at: Any, copy: Any, steps: Any, sums: Sums) -> Sums:
    """The sums with one block more."""
    side, s = Eight(), narrow(copy, given)
    step = s / strength(psi, lam, load(side, copy, Q, at))
    store(steps, 0, at, step)
    exact = wide(given)
    return Sums(sums.p + exact * wide(load(side, copy, X, at)), sums.c + s * step, sums.n2 + exact * exact)


@formula(fast=True)
def measure(
    psi: Any, row: Row, x: Any, mask: Any, copy: Any, steps: Any, lam_now: float, eight: Any
) -> tuple[float, float, float]:
    """p, c and norm2(s)^2 of a row, and s_j/L_j into ``steps``; psi is centred."""
    side, lam = Eight(), copy.dtype.type(lam_now)
    sums = Sums(zeros(side), narrow(copy, zeros(side)), zeros(side))
    for block in range(ZERO, row.full, EIGHT):
        at: Any = np.uint64(block)
        sums = measure_block(psi, lam, load(side, x, 0, row.first + at), at, copy, steps, sums)
    if row.more:
        sums = measure_block(psi, lam, rest(row, x, mask), row.full, copy, steps, sums)
    return total(eight, sums.p), total(eight, sums.c), total(eight, sums.n2)


@formula(fast=True)
def shift_block(psi: Any, a: Any, bend: Any, given: Any, at: Any, copy: Any, steps: Any, squares: Any) -> Any:
    """Move the coordinates of one block, and add the squares of theta to eight numbers."""
    side, s = Eight(), narrow(copy, given)
    store(copy, X, at, load(side, copy, X, at) - load(side, steps, 0, at) * a)
    store(copy, Q, at, accumulate(psi, load(side, copy, Q, at), s * a, (s * s) * bend))
    theta = load(side, copy, THETA, at) - s * a
    store(copy, THETA, at, theta)
    return squares + wide(theta) * wide(theta)


@formula(fast=True)
def shift(psi: Any, row: Row, x: Any, mask: Any, copy: Any, steps: Any, a: float, bend: float, eight: Any) -> float:
    """Move the coordinates of a row in the type in which they are stored; norm2(theta)^2."""
    side, slope, curve = Eight(), copy.dtype.type(a), copy.dtype.type(bend)
    squares = zeros(side)
    for block in range(ZERO, row.full, EIGHT):
        at: Any = np.uint64(block)
        squares = shift_block(psi, slope, curve, load(side, x, 0, row.first + at), at, copy, steps, squares)
    if row.more:
        squares = shift_block(psi, slope, curve, rest(row, x, mask), row.full, copy, steps, squares)
    return total(eight, squares)
