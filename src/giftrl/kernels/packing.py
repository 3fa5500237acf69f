"""Dense rows without their zeros, as sparse ones: a zero costs many models as much as any other number."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from giftrl.compiled import compiler
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import CSR, Rows

#: How many numbers are packed at a time: few enough for the processor's cache.
BLOCK = 1 << 19


@formula(fast=True)
def pack(x: Any, dimension: int, data: Any, indices: Any, indptr: Any) -> int:
    """Write the numbers of rows that are not 0 to ``data``, and where they are; how many the longest row has."""
    at, longest, width = np.uint64(0), 0, np.uint64(dimension)
    for i in range(len(indptr) - 1):
        first = np.uint64(i) * width
        for j in range(width):
            # Without a branch: what is written for a zero is overwritten by the next number.
            number = x[first + np.uint64(j)]
            data[at], indices[at] = number, j
            at += np.uint64(1 if number != 0.0 else 0)
        indptr[i + 1] = at
        longest = max(longest, indptr[i + 1] - indptr[i])
    return int(longest)


def sparse_blocks(rows: Rows, n: int, compiled: bool) -> Iterator[tuple[slice, CSR]]:
    """Rows as blocks of sparse ones, each with the numbers of its rows; sparse rows are one block as they are.

    >>> from giftrl.compiled.rows import Dense
    >>> rows = Dense(np.array([0.0, 5.0, 6.0, 0.0]), 2)
    >>> [(where, block.data.tolist()) for where, block in sparse_blocks(rows, 2, compiled=False)]
    [(slice(0, 2, None), [5.0, 6.0])]
    """
    if isinstance(rows, CSR):
        yield slice(0, n), rows
        return
    d = rows.dimension
    step = max(1, BLOCK // max(1, d))
    data, indices = np.empty(min(step, n) * d + 1, rows.data.dtype), np.empty(min(step, n) * d + 1, np.int32)
    for begin in range(0, n, step):
        end = min(begin + step, n)
        indptr = np.zeros(end - begin + 1, np.int64)
        longest = compiler.ready(pack, compiled, counted=False)(
            rows.data[begin * d : end * d], d, data, indices, indptr
        )
        yield slice(begin, end), CSR(data[: indptr[-1]], indices[: indptr[-1]], indptr, int(longest))
