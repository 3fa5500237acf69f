"""Matrices block by block: with a constant feature, with rows of norm 1, in another order, and never copied whole.

A block is small enough to stay in the processor's cache, so preparing it costs little beside learning from it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from giftrl.compiled.compiler import ready
from giftrl.compiled.rows import CSR, Dense, Rows, as_rows, make_units, prepare_rows

#: About how many numbers a block has: four megabytes of float32. Smaller blocks pay more for calls than they save.
BLOCK_ENTRIES = 1 << 20


def blocks(
    x: Any, *, constant: bool = False, unit: bool = False, order: NDArray[np.int64] | None = None,
    entries: int = BLOCK_ENTRIES, dtype: Any = None,
) -> Iterator[tuple[int, int, Rows]]:  # fmt: skip
    """(begin, end, rows) for consecutive blocks of a matrix; the whole, if there is nothing to do.

    Args:
        x: dense or CSR, float32 or float64, with each feature once a row.
        constant: whether each row gets a last feature 1.
        unit: whether each row is divided by its Euclidean norm first.
        order: the order in which to take the rows.
        entries: about how many numbers a block has.
        dtype: the type of numbers in a block; None for the type that they have.

    >>> [rows.data.tolist() for _, _, rows in blocks(np.array([[3.0, 4.0], [0.0, 2.0]]), constant=True, unit=True)]
    [[0.6, 0.8, 1.0, 0.0, 1.0, 1.0]]
    """
    n = x.shape[0]
    dtype = x.dtype if dtype is None else np.dtype(dtype)
    if not constant and not unit and order is None and x.dtype == dtype and _writeable(x):
        if n > 0:
            yield 0, n, as_rows(x, x.shape[1])[0]
        return
    per_row = x.nnz / max(1, n) if sparse.issparse(x) else x.shape[1]
    size = max(1, int(entries / (per_row + 1.0)))
    prepare = _sparse if sparse.issparse(x) else _dense
    for begin in range(0, n, size):
        end = min(n, begin + size)
        rows = prepare(x, slice(begin, end) if order is None else order[begin:end], constant, unit)
        yield begin, end, rows._replace(data=rows.data.astype(dtype, copy=False))


def _writeable(x: Any) -> bool:
    # A compiled loop takes arrays that cannot be written to for another type, and is compiled once more for them.
    arrays = (x.data, x.indices, x.indptr) if sparse.issparse(x) else (x,)
    return all(array.flags.writeable and array.flags.c_contiguous for array in arrays)


def _dense(x: NDArray[Any], chosen: Any, constant: bool, unit: bool) -> Dense:
    rows, features = x[chosen], x.shape[1]
    block = np.empty((rows.shape[0], features + constant), x.dtype)
    block[:, :features] = rows
    block[:, features:] = 1.0
    if unit:
        begins = np.arange(len(block)) * block.shape[1]
        ready(make_units)(block.reshape(-1), begins, begins + features)
    return Dense(block.reshape(-1), block.shape[1])


def _sparse(x: Any, chosen: Any, constant: bool, unit: bool) -> CSR:
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
