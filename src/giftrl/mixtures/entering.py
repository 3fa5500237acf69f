"""Rows as learners see them: u_j of each entry, and which of them move (:mod:`giftrl.mixtures.features`)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import prefetch
from giftrl.compiled.registry import compiled_as, formula
from giftrl.compiled.rows import begin, column, coming, end
from giftrl.mixtures.feature_state import CENTRE, DENSE, DENSE_PLACE, NORM, ROWS, SCALE, WIDEST
from giftrl.mixtures.features import enter_missing, enter_value
from giftrl.mixtures.limits import LARGEST_UNSCALED, LARGEST_VALUE, ORDINARY_VALUE
from giftrl.ops.scalar import clamp

ONE = np.uint64(1)
#: A value counts as within its scale up to this factor: 1/m_j and the product are rounded, to float32.
WITHIN = np.float32(1.0000003)


class Entries(NamedTuple):
    """A row as learners see it: which features, and u in the type of weights.

    Few entries of a long row move: ``moved[:many[0]]`` lists those whose growth may differ from 1 or drift from 0, and
    ``growth`` and ``drift`` are in the order of that list. ``many[1]`` is how many values are huge.
    """

    j: NDArray[np.uint64]
    u: NDArray[Any]
    growth: NDArray[np.float64]
    drift: NDArray[np.float64]
    moved: NDArray[np.uint64]
    many: NDArray[np.uint64]


def entries(width: int, dtype: Any) -> Entries:
    """Memory for rows of up to this many entries."""
    return Entries(
        np.empty(width, np.uint64), np.empty(width, dtype), np.ones(width), np.zeros(width),
        np.empty(width, np.uint64), np.zeros(2, np.uint64),
    )  # fmt: skip


@formula
def begin_row(features: Any, how: Any) -> float:
    """Count a row; return how many rows must have a feature for it to be dense now, infinity where none can be."""
    features.counts[ROWS] += 1.0
    # With the extra half, a feature of the first row is dense, and one that is new in the second row is not.
    return 0.5 * features.counts[ROWS] + 0.5 if how.constant >= 0 else np.inf


@formula
def end_row(features: Any, n: Any, squares: float) -> None:
    """Account for a row with n entries of its own, whose norm2(u)^2 is ``squares``."""
    features.counts[WIDEST] = max(features.counts[WIDEST], np.float64(n))
    features.counts[NORM] += (squares - features.counts[NORM]) / features.counts[ROWS]


def round_compiled(x: Any, v: Any) -> Any:
    """:func:`rounded` in compiled loops, where nobody warns."""
    return x.dtype.type(v)


@compiled_as(round_compiled)
def rounded(x: Any, v: Any) -> Any:
    """v in the type of x, infinite where it is too large for that."""
    with np.errstate(over="ignore"):
        return x.dtype.type(v)


@formula
def enter_quickly(columns: Any, x: Any, how: Any, rows: Any, i: int, many: float, row: Any) -> tuple[Any, Any, Any]:
    """Fill in the entries of row i that neither move nor are dense, and list the places of the others as moved.

    Return how many of each there are, and the sum of u^2.
    """
    real, n, others = x.dtype.type, np.uint64(0), np.uint64(0)
    zero, one, within, most, squares = real(0.0), real(1.0), real(WITHIN), real(many), real(0.0)
    for k in range(begin(rows, i), end(rows, i)):
        prefetch(x, coming(rows, i, k), 0)
        v, j = rows.data[k], column(rows, i, k)
        u, count = rounded(x, v) * x[j, columns.per_scale], x[j, columns.count] + one
        if zero < abs(u) <= within and (count < most or np.int64(j) == how.constant):
            x[j, columns.count] = count
            x[j, columns.added] += u
            row.j[n], row.u[n] = j, u
            squares += u * u
            n += ONE
        elif v != 0.0:  # zeros are skipped, so that sparse and dense rows are the same
            row.moved[others] = k
            others += ONE
    return n, others, squares


@formula
def put(row: Any, n: Any, listed: Any, j: int, moved: tuple[float, float, float]) -> Any:
    """Put an entry that moves into the row; return u as it is stored."""
    row.j[n], row.u[n], row.moved[listed] = j, moved[0], n
    row.growth[listed], row.drift[listed] = moved[1], moved[2]
    return row.u[n]


@formula
def enter(features: Any, columns: Any, x: Any, how: Any, rows: Any, i: int, row: Any) -> Any:
    """Update what is known of the features by row i, and fill in its entries; return how many there are.

    Those that move come last. The loop over the others is short, so that what it needs is in registers.
    """
    many, per_row = begin_row(features, how), 1.0 / features.counts[ROWS]
    n, others, squares = enter_quickly(columns, x, how, rows, i, many, row)
    row.many[1] = np.uint64(0)
    for listed in range(others):
        k = row.moved[listed]
        j, v = column(rows, i, k), np.float64(rows.data[k])
        row.many[1] += ONE if abs(v) > ORDINARY_VALUE else np.uint64(0)
        u = put(row, n, listed, j, enter_value(features, columns, x, how, j, v, many, per_row))
        squares += u * u
        n += ONE
    own, place = n, np.uint64(0)
    while place < np.uint64(features.counts[DENSE]):
        j = features.dense[place]
        if features.stamps[place] != features.counts[ROWS]:
            u = put(row, n, others, j, enter_missing(features, columns, x, how, place, per_row))
            squares += u * u
            n += ONE
            others += ONE
        if features.dense[place] == j:
            place += ONE
    row.many[0] = others
    end_row(features, own, np.float64(squares))
    return n


@formula
def value_again(record: Any, j: int, v: float) -> float:
    """u_j of a value, without updating anything."""
    m = record[j, SCALE]
    return clamp((v - record[j, CENTRE]) / m, -LARGEST_UNSCALED, LARGEST_UNSCALED) if m > 0.0 else 0.0


@formula
def enter_again(features: Any, rows: Any, i: int, stamp: float, row: Any) -> Any:
    """Fill in the entries of a row that was met before, without updating anything; return how many there are.

    ``stamp`` tells this row from every other; that of a row which is met for the first time is positive.
    """
    record, stamps, n = features.record, features.stamps, np.uint64(0)
    row.many[0] = np.uint64(0)
    for k in range(begin(rows, i), end(rows, i)):
        v, j = float(rows.data[k]), column(rows, i, k)
        if v != 0.0:
            row.j[n], row.u[n] = j, value_again(record, j, clamp(v, -LARGEST_VALUE, LARGEST_VALUE))
            if record[j, DENSE_PLACE] > 0.0:
                stamps[np.uint64(record[j, DENSE_PLACE]) - ONE] = stamp
            n += ONE
    for place in range(np.uint64(features.counts[DENSE])):
        if stamps[place] != stamp:
            row.j[n], row.u[n] = features.dense[place], value_again(record, features.dense[place], 0.0)
            n += ONE
    return n
