"""Rows for loops, sparse or dense, and matrices without duplicate features in a row.

Learners would update a feature that a row names twice from the same old value both times.

The order of the features in a row does not matter to any learner, so a matrix whose rows are not sorted is used as it
is: no copy, no sort.
"""

import copy
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula, operation
from giftrl.errors import Incompatible, InvalidInput, require

#: The size limit of the first table, which fits the cache.
FIRST_TABLE_PLACES = 1 << 16
#: The maximum number of features for a table.
MAX_FEATURES = 1 << 31
#: An attribute of matrices known to have no duplicate features in a row; never set on users' matrices.
MARK = "_each_feature_once"


@formula
def repeating_row(indices: Any, indptr: Any, start: int, table: Any) -> int:
    """The first row from ``start`` with two entries at one place; the number of rows if none.

    Each entry writes the number of its row, from 1, into the place of its feature, so that nothing need be cleared from
    row to row. The table is zeros, and its length a power of two: the place of a feature is its remainder. In a table
    with a place for each feature, two entries of a row have one place just if they have one feature. (Beyond 2^32 rows
    numbers come again, and a row may be returned in vain.) A row whose bounds make no sense is returned, too.
    """
    mask, entries = np.uint64(len(table) - 1), np.uint64(len(indices))
    for i in range(start, len(indptr) - 1):
        first, last, stamp = np.uint64(indptr[i]), np.uint64(indptr[i + 1]), np.uint32(i + 1)
        if last < first or last > entries:
            return i
        for k in range(first, last):
            place = np.uint64(indices[k]) & mask
            if table[place] == stamp:
                return i
            table[place] = stamp
    return len(indptr) - 1


def names_twice(indices: NDArray[Any], indptr: NDArray[Any], features: int, *, compiled: bool = True) -> bool:
    """True if a row of a CSR matrix with so many features, at most :data:`MAX_FEATURES`, names one of them twice.

    A small table is tried first. If features collide in it, the remaining rows are checked with a place for each
    feature, which takes at most twice the memory of the smallest learner.

    >>> indptr = np.array([0, 2, 4])
    >>> [names_twice(np.array(indices), indptr, 3, compiled=False) for indices in ([2, 0, 1, 2], [2, 0, 1, 1])]
    [False, True]
    """
    # Convert to one index type and writable arrays, since loops are compiled for every kind.
    indices = np.require(indices, np.int32, ["C", "W"])
    indptr, row = indptr.astype(np.int64), 0
    enough = 1 << max(0, features - 1).bit_length()
    for places in sorted({min(FIRST_TABLE_PLACES, enough), enough}):
        row = int(ready(repeating_row, compiled)(indices, indptr, row, np.zeros(places, np.uint32)))
        if row == len(indptr) - 1:
            return False
    return True


def each_once(x: Any, *, compiled: bool = True) -> Any:
    """A matrix without duplicate features in a row: x, a view of it, or a copy with duplicates summed."""
    if not hasattr(x, "indptr") or hasattr(x, MARK) or x.has_canonical_format:
        return x
    if x.shape[1] > MAX_FEATURES or names_twice(x.indices, x.indptr, x.shape[1], compiled=compiled):
        x = x.copy()
        x.sum_duplicates()
        return x
    return mark(copy.copy(x))


def mark(x: Any) -> Any:
    """Mark a matrix (never a user's) as free of duplicates."""
    setattr(x, MARK, True)
    return x


# Rows of features, sparse or dense, with a common interface for loops.

#: The number of entries to prefetch ahead.
PREFETCH_DISTANCE = 64


@operation
def begin(rows: Any, i: int) -> int:
    """The first entry of row i in ``rows.data``."""
    raise Incompatible("rows must bring begin(self, i); add that method to their class")


@operation
def end(rows: Any, i: int) -> int:
    """The end of the entries of row i in ``rows.data``."""
    raise Incompatible("rows must bring end(self, i); add that method to their class")


@operation
def column(rows: Any, i: int, k: int) -> int:
    """The feature of entry k, which belongs to row i."""
    raise Incompatible("rows must bring column(self, i, k); add that method to their class")


@operation
def longest(rows: Any) -> int:
    """The number of entries in the longest row."""
    raise Incompatible("rows must bring longest(self); add that method to their class")


@operation
def coming(rows: Any, i: int, k: int) -> int:
    """The feature to prefetch at entry k: a later one, or k's own if prefetching is useless."""
    return column(rows, i, k)


class CSR(NamedTuple):
    """Sparse rows: the entries of row i are ``data[indptr[i]:indptr[i + 1]]``, their features ``indices`` likewise."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    width: int  # the number of entries in the longest row

    # Indices are unsigned, so that compiled code does not check their sign.
    def longest(self) -> int:
        return self.width

    def begin(self, i: int) -> int:
        return np.uint64(self.indptr[i])  # type: ignore[return-value]

    def end(self, i: int) -> int:
        return np.uint64(self.indptr[i + 1])  # type: ignore[return-value]

    def column(self, i: int, k: int) -> int:
        return np.uint64(self.indices[k])  # type: ignore[return-value]

    def coming(self, i: int, k: int) -> int:
        later = min(k + np.uint64(PREFETCH_DISTANCE), np.uint64(len(self.indices) - 1))
        return np.uint64(self.indices[later])  # type: ignore[return-value]


class Dense(NamedTuple):
    """Dense rows, one after the other in a flat array."""

    data: NDArray[Any]
    dimension: int

    def longest(self) -> int:
        return self.dimension

    def begin(self, i: int) -> int:
        return np.uint64(i * self.dimension)  # type: ignore[return-value]

    def end(self, i: int) -> int:
        return np.uint64((i + 1) * self.dimension)  # type: ignore[return-value]

    def column(self, i: int, k: int) -> int:
        return np.uint64(k) - np.uint64(i * self.dimension)  # type: ignore[return-value]


Rows = CSR | Dense

#: The number types that loops support directly.
REAL = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
#: Up to this many numbers, Python's sum is faster than NumPy's.
MAX_NUMBERS_TO_SUM_IN_PYTHON = 64


def slice_rows(rows: Rows, first: int, last: int) -> Rows:
    """Rows ``first`` to ``last - 1``, in the same memory."""
    if isinstance(rows, CSR):
        return rows._replace(indptr=rows.indptr[first : last + 1])
    return rows._replace(data=rows.data[first * rows.dimension : last * rows.dimension])


def all_finite(numbers: NDArray[Any]) -> bool:
    """True if no number is NaN or infinite.

    If the sum is finite, so is every number, and adding is faster than testing. For a few numbers, Python's sum is
    faster than NumPy's.

    >>> all_finite(np.array([1e200, 1.0])), all_finite(np.array([math.nan, 1.0]))
    (True, False)
    """
    if numbers.size <= MAX_NUMBERS_TO_SUM_IN_PYTHON:
        total = sum(numbers.tolist())
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            total = numbers.sum()
    return math.isfinite(total) or bool(np.isfinite(numbers).all())


def as_rows(x: Any, dimension: int, *, compiled: bool = True) -> tuple[Rows, int]:
    """Convert a SciPy sparse matrix or array, or anything like a NumPy matrix, to rows; also returns their number.

    float32 and float64 are used as they are; other numbers become float64. Values must be finite. Entries of one row
    and feature are added.

    >>> rows, n = as_rows([[1.0, 2.0], [3.0, 4.0]], 2)
    >>> n, int(column(rows, 1, 3)), float(rows.data[3])
    (2, 1, 4.0)
    """
    sparse = not isinstance(x, np.ndarray) and hasattr(x, "tocsr")
    if sparse:
        x = x.tocsr()
    else:
        x = np.asarray(x)
        if x.ndim != 2:
            raise InvalidInput("x", x, "must be a matrix, one example a row", f"it has shape {x.shape}")
    if x.shape[1] != dimension:
        rule = f"must have {dimension} columns, one for each feature of the learner"
        raise InvalidInput("x", x.shape, rule, f"it has {x.shape[1]}")
    if sparse:
        x = each_once(x, compiled=compiled)
    data = x.data if sparse else x.ravel()
    if data.dtype not in REAL:
        try:
            data = data.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("x", x, "must be numbers", "encode text and categories first") from None
    if not all_finite(data):
        bad = int(np.flatnonzero(~np.isfinite(data))[0])
        row = int(np.searchsorted(x.indptr, bad, side="right") - 1) if sparse else bad // dimension
        raise InvalidInput("x", data[bad], f"must be finite, and row {row} is not", "remove NaN and infinities")
    if sparse:
        indptr = x.indptr.astype(np.int64)  # one type, whichever SciPy chose: loops are compiled for every type
        return CSR(data, x.indices, indptr, _longest_row(data, x.indices, indptr, dimension)), int(x.shape[0])
    return Dense(data, dimension), int(x.shape[0])


def _longest_row(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[np.int64], dimension: int) -> int:
    """The number of entries in the longest row. Refuses invalid indices, like SciPy's ``check_format``."""
    sizes = indptr[1:] - indptr[:-1]
    inside = indptr[0] >= 0 and indptr[-1] <= min(len(data), len(indices)) and (len(sizes) == 0 or sizes.min() >= 0)
    remedy = "x.check_format() of SciPy says more"
    require(bool(inside), "x.indptr", indptr, "must not decrease, and end with the entries", remedy)
    if len(indices) > 0:
        unsigned = indices.view(f"u{indices.itemsize}")  # as unsigned numbers, negative ones are large
        rule = f"must be from 0 to {dimension - 1}, the numbers of the columns"
        if unsigned.max() >= dimension:
            raise InvalidInput("x.indices", int(indices[unsigned.argmax()]), rule, remedy)
    return int(sizes.max()) if len(sizes) > 0 else 0


# Rows of Euclidean norm 1, and the constant feature.


ONE = np.uint64(1)


@formula
def make_unit(data: Any, first: Any, last: Any) -> None:
    """Divide the values of one row by their Euclidean norm; a row of zeros is unchanged."""
    largest = 0.0  # scale first, so that squares neither overflow nor underflow
    for k in range(first, last):
        largest = max(largest, abs(data[k]))
    if largest > 0.0:
        squares = 0.0
        for k in range(first, last):
            data[k] /= largest
            squares += data[k] * data[k]
        norm = np.sqrt(squares)
        for k in range(first, last):
            data[k] /= norm


@formula
def make_units(data: Any, begins: Any, ends: Any) -> None:
    """Give each row Euclidean norm 1, in place; row i is ``data[begins[i]:ends[i]]``."""
    for i in range(len(begins)):
        make_unit(data, np.uint64(begins[i]), np.uint64(ends[i]))


@formula
def prepare_rows(
    data: Any, indices: Any, indptr: Any, before: bool, after: bool, constant: Any, new_data: Any, new_indices: Any
) -> None:
    """Copy rows, add the constant 1 unless its coordinate is negative, and give rows norm 1 before or after that."""
    out = np.uint64(0)
    for i in range(len(indptr) - 1):
        begin = out
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            new_data[out] = data[k]
            new_indices[out] = indices[k]
            out = out + ONE
        if before:
            make_unit(new_data, begin, out)
        if constant >= 0:
            new_data[out] = 1.0
            new_indices[out] = constant
            out = out + ONE
        if after:
            make_unit(new_data, begin, out)


def unit_rows(x: Any, *, compiled: bool = True) -> Any:
    """A copy of a dense or CSR matrix with rows scaled to Euclidean norm 1; rows of zeros are unchanged.

    >>> unit_rows(np.array([[3e200, 4e200], [0.0, 0.0]]), compiled=False).round(9).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    if hasattr(x, "indptr"):
        x = each_once(x, compiled=compiled)  # duplicates are summed before the norm
        data, bounds = x.data.copy(), x.indptr.astype(np.int64)
        made = type(x)((data, x.indices, x.indptr), shape=x.shape)
    else:
        made = np.array(x, order="C")
        data, bounds = made.reshape(-1), np.arange(x.shape[0] + 1) * x.shape[1]
    ready(make_units, compiled)(data, bounds[:-1], bounds[1:])
    return made


# Matrices block by block: small enough for the cache, so that preparing a block costs little beside learning from it.

#: The approximate number of entries in a block: four megabytes of float32. Smaller blocks have more overhead.
BLOCK_ENTRIES = 1 << 20


def blocks(
    x: Any, *, constant: bool = False, unit: bool = False, order: NDArray[np.int64] | None = None,
    entries: int = BLOCK_ENTRIES, dtype: Any = None,
) -> Iterator[tuple[int, int, Rows]]:  # fmt: skip
    """Yield (begin, end, rows) for consecutive blocks of a matrix; one block if no change is needed.

    Args:
        x: dense or CSR, float32 or float64, with each feature once a row.
        constant: whether each row gets a last feature 1.
        unit: whether each row is divided by its Euclidean norm first.
        order: the order in which to take the rows.
        entries: the approximate number of entries in a block.
        dtype: the type of numbers in a block; None to keep it.

    >>> [rows.data.tolist() for _, _, rows in blocks(np.array([[3.0, 4.0], [0.0, 2.0]]), constant=True, unit=True)]
    [[0.6, 0.8, 1.0, 0.0, 1.0, 1.0]]
    """
    n = x.shape[0]
    dtype = x.dtype if dtype is None else np.dtype(dtype)
    if not constant and not unit and order is None and x.dtype == dtype and _writeable(x):
        if n > 0:
            yield 0, n, as_rows(x, x.shape[1])[0]
        return
    per_row = x.nnz / max(1, n) if hasattr(x, "indptr") else x.shape[1]
    size = max(1, int(entries / (per_row + 1.0)))
    prepare = _sparse_block if hasattr(x, "indptr") else _dense_block
    for begin in range(0, n, size):
        end = min(n, begin + size)
        rows = prepare(x, slice(begin, end) if order is None else order[begin:end], constant, unit)
        yield begin, end, rows._replace(data=rows.data.astype(dtype, copy=False))


def _writeable(x: Any) -> bool:
    # Numba would compile a loop again for read-only arrays.
    arrays = (x.data, x.indices, x.indptr) if hasattr(x, "indptr") else (x,)
    return all(array.flags.writeable and array.flags.c_contiguous for array in arrays)


def _dense_block(x: NDArray[Any], chosen: Any, constant: bool, unit: bool) -> Dense:
    rows, features = x[chosen], x.shape[1]
    block = np.empty((rows.shape[0], features + constant), x.dtype)
    block[:, :features] = rows
    block[:, features:] = 1.0
    if unit:
        begins = np.arange(len(block)) * block.shape[1]
        ready(make_units)(block.reshape(-1), begins, begins + features)
    return Dense(block.reshape(-1), block.shape[1])


def _sparse_block(x: Any, chosen: Any, constant: bool, unit: bool) -> CSR:
    width = x.shape[1] + constant
    small = np.dtype(np.int32 if width < 2**31 else np.int64)
    if isinstance(chosen, slice):  # in the memory of x: SciPy would copy it
        data, indices, indptr = x.data, x.indices, x.indptr[chosen.start : chosen.stop + 1]
        if not _writeable(x) or indices.dtype != small:
            first, last = int(indptr[0]), int(indptr[-1])
            data, indices, indptr = data[first:last].copy(), indices[first:last].astype(small), indptr - indptr[0]
    else:
        rows = x[chosen]
        data, indices, indptr = rows.data, rows.indices.astype(small, copy=False), rows.indptr
    indptr = indptr.astype(np.int64)
    ends = indptr - indptr[0] + np.arange(len(indptr)) * constant
    new = CSR(np.empty(ends[-1], data.dtype), np.empty(ends[-1], small), ends, int(np.diff(ends).max(initial=0)))
    ready(prepare_rows)(data, indices, indptr, unit, False, x.shape[1] if constant else -1, new.data, new.indices)
    return new
