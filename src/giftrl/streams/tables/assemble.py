"""From a matrix of columns to sparse rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula

__all__ = ["assemble"]


@formula
def by_rows(values: Any, slots: Any, codes: Any, data: Any, indices: Any, groups: Any, indptr: Any) -> None:
    """Copy the entries that are not 0, row by row, from columns."""
    columns, rows = values.shape
    grouped = len(groups) > 0
    out = np.uint64(0)
    for i in range(rows):
        row = np.uint64(i)
        for c in range(columns):
            column = np.uint64(c)
            value = values[column, row]
            if value != 0.0:
                data[out] = value
                indices[out] = slots[column, row]
                if grouped:
                    groups[out] = codes[column]
                out = out + np.uint64(1)
        indptr[row + np.uint64(1)] = np.int64(out)


def assemble(
    values: NDArray[np.float64], slots: NDArray[np.int32], codes: NDArray[np.uint8] | None, *, compiled: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.uint8], NDArray[np.int64]]:
    """The entries of rows, from columns: data, indices, groups and where each row begins.

    Args:
        values: one row for each column; 0 where there is no entry.
        slots: the coordinate of each.
        codes: the group of each column, where groups are wanted.
        compiled: False to run the loop as plain Python.

    >>> values, slots = np.array([[1.0, 0.0], [2.0, 3.0]]), np.array([[7, 7], [8, 9]], np.int32)
    >>> [part.tolist() for part in assemble(values, slots, None)]
    [[1.0, 2.0, 3.0], [7, 8, 9], [], [0, 2, 3]]
    """
    size = int(np.count_nonzero(values))
    data, indices = np.empty(size), np.empty(size, np.int32)
    groups = np.empty(0 if codes is None else size, np.uint8)
    indptr = np.zeros(values.shape[1] + 1, np.int64)
    codes = np.zeros(len(values), np.uint8) if codes is None else codes
    ready(by_rows, compiled)(values, slots, codes, data, indices, groups, indptr)
    return data, indices, groups, indptr
