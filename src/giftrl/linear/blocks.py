"""Matrices block by block: with a constant feature, with rows of norm 1, in another order, and never copied whole.

A block is small enough to stay in the processor's cache, so preparing it costs little beside learning from it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from giftrl.compiled import door
from giftrl.streams.prepare import prepare_rows

__all__ = ["blocks", "canonical", "row_norms", "unit_rows"]

#: How many numbers a block has, about: four megabytes of float32. Smaller ones pay more for the calls than they save.
ENTRIES = 1 << 20


def canonical(x: Any) -> Any:
    """A matrix that the compiled loops take without a copy: dense as it is, sparse with each feature once a row.

    >>> canonical(sparse.csr_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))).data
    array([3.])
    """
    if sparse.issparse(x) and not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    return x


def blocks(
    x: Any,
    *,
    constant: bool = False,
    unit: bool = False,
    order: NDArray[np.int64] | None = None,
    entries: int = ENTRIES,
    dtype: Any = None,
) -> Iterator[tuple[int, int, Any]]:
    """(begin, end, rows) for consecutive blocks of a canonical matrix; the whole, if there is nothing to do.

    Args:
        x: dense or CSR, float32 or float64.
        constant: whether each row gets a last feature 1.
        unit: whether each row is divided by its Euclidean norm first.
        order: in which order to take the rows.
        entries: about how many numbers a block has.
        dtype: what their type becomes; None for the type that they have.

    >>> [block.tolist() for _, _, block in blocks(np.array([[3.0, 4.0], [0.0, 2.0]]), constant=True, unit=True)]
    [[[0.6, 0.8, 1.0], [0.0, 1.0, 1.0]]]
    """
    n = x.shape[0]
    dtype = x.dtype if dtype is None else np.dtype(dtype)
    if not constant and not unit and order is None and x.dtype == dtype and _writeable(x):
        if n > 0:
            yield 0, n, x
        return
    per_row = x.nnz / max(1, n) if sparse.issparse(x) else x.shape[1]
    size = max(1, int(entries / (per_row + 1.0)))
    for begin in range(0, n, size):
        end = min(n, begin + size)
        chosen = slice(begin, end) if order is None else order[begin:end]
        rows = _sparse(x, chosen, constant, unit) if sparse.issparse(x) else _dense(x, chosen, constant, unit)
        yield begin, end, rows.astype(dtype, copy=False)


def _writeable(x: Any) -> bool:
    # A compiled loop takes arrays that cannot be written to for another type, and is compiled once more for them.
    arrays = (x.data, x.indices, x.indptr) if sparse.issparse(x) else (x,)
    return all(array.flags.writeable and array.flags.c_contiguous for array in arrays)


def _dense(x: NDArray[Any], chosen: Any, constant: bool, unit: bool) -> NDArray[Any]:
    rows = x[chosen]
    block = np.empty((rows.shape[0], x.shape[1] + constant), x.dtype)
    features = block[:, : x.shape[1]]
    features[...] = rows
    if unit:
        # By the largest first, so that squares neither overflow nor vanish.
        _divide(features, np.abs(features).max(axis=1, initial=0.0))
        _divide(features, np.sqrt(np.einsum("ij,ij->i", features, features)))
    if constant:
        block[:, -1] = 1.0
    return block


def _divide(rows: NDArray[Any], scales: NDArray[Any]) -> None:
    rows /= np.where(scales > 0.0, scales, 1.0)[:, None].astype(rows.dtype)


def _sparse(x: Any, chosen: Any, constant: bool, unit: bool) -> Any:
    width = x.shape[1] + constant
    small = np.dtype(np.int32 if width < 2**31 else np.int64)
    if isinstance(chosen, slice):
        data, indices, indptr = x.data, x.indices, x.indptr[chosen.start : chosen.stop + 1]
        if not _writeable(x) or indices.dtype != small:
            first, last = int(indptr[0]), int(indptr[-1])
            data, indices, indptr = data[first:last].copy(), indices[first:last].astype(small), indptr - indptr[0]
    else:
        rows = x[chosen]
        data, indices, indptr = rows.data, rows.indices.astype(small, copy=False), rows.indptr
    n = len(indptr) - 1
    total = int(indptr[-1]) - int(indptr[0]) + n * constant
    new_data, new_indices = np.empty(total, data.dtype), np.empty(total, small)
    door.ready(prepare_rows)(
        data, indices, indptr.astype(np.int64), unit, False, x.shape[1] if constant else -1, new_data, new_indices,
    )  # fmt: skip
    new_indptr = (indptr - indptr[0] + np.arange(n + 1) * constant).astype(small)
    block = sparse.csr_array((new_data, new_indices, new_indptr), shape=(n, width))
    block.has_canonical_format = True
    return block


def unit_rows(x: Any) -> Any:
    """A copy of a dense or CSR matrix with each row divided by its Euclidean norm; rows of zeros as they are.

    >>> unit_rows(np.array([[3e200, 4e200], [0.0, 0.0]])).round(9).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    norms = row_norms(x)
    if not sparse.issparse(x):
        return x / norms[:, None]
    return sparse.csr_array((x.data / np.repeat(norms, np.diff(x.indptr)), x.indices, x.indptr), shape=x.shape)


def row_norms(x: Any) -> NDArray[np.float64]:
    """The Euclidean norm of each row, 1 where it is 0; squares neither overflow nor vanish.

    >>> row_norms(np.array([[3e200, 4e200], [0.0, 0.0]]))
    array([5.e+200, 1.e+000])
    """
    if sparse.issparse(x):
        largest = np.asarray(abs(x).max(axis=1).todense(), dtype=float).reshape(-1)
        scale = np.where(largest > 0.0, largest, 1.0)
        scaled = sparse.diags_array(1.0 / scale) @ x
        squares = np.asarray(scaled.multiply(scaled).sum(axis=1)).reshape(-1)
    else:
        largest = np.abs(x).max(axis=1, initial=0.0).astype(float)
        scale = np.where(largest > 0.0, largest, 1.0)
        scaled = x / scale[:, None]
        squares = np.einsum("ij,ij->i", scaled, scaled)
    return np.asarray(np.where(largest > 0.0, scale * np.sqrt(squares), 1.0))
