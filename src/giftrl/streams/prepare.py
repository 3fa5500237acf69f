"""The last step before a learner: the length of rows, and the constant feature."""

from dataclasses import replace
from typing import Any

import numpy as np

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.errors import UnknownName
from giftrl.streams.batch import Batch

__all__ = ["NORMALIZATIONS", "prepare"]

#: What can be done to the length of rows: nothing; the Euclidean norm of each becomes 1 before the constant is added;
#: or before, and once more after.
NORMALIZATIONS = ("none", "unit", "unit_after")

ONE = np.uint64(1)


@formula
def make_unit(data: Any, first: Any, last: Any) -> None:
    """Divide by the Euclidean norm; zeros stay. By the largest first: squares neither overflow nor vanish."""
    largest = 0.0
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
def prepare_rows(
    data: Any, indices: Any, indptr: Any, before: bool, after: bool, constant: Any, new_data: Any, new_indices: Any
) -> None:
    """Copy rows, make them units, and add the constant unless its coordinate is negative."""
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


def prepare(batch: Batch, normalize: str = "none", constant: int | None = None, *, compiled: bool = True) -> Batch:
    """A batch with rows of the length that was asked for and, last in each row, the constant feature 1.

    Args:
        batch: as a parser made it.
        normalize: one of :data:`NORMALIZATIONS`.
        constant: the coordinate of the constant, in no row yet; None to add none.
        compiled: False to run the loop as plain Python.

    >>> from giftrl.streams.batch import Position
    >>> one, groups = np.ones(1), np.empty(0, np.uint8)
    >>> rows = np.array([3.0, 4.0]), np.array([0, 1], np.int32), np.array([0, 2])
    >>> batch = Batch("a.svm", *rows, one, one, np.ones(1, np.int64), groups, Position(0, 9, 2))
    >>> prepare(batch, "unit", 2, compiled=False).data.tolist()
    [0.6, 0.8, 1.0]
    """
    if normalize not in NORMALIZATIONS:
        raise UnknownName("normalize", normalize, NORMALIZATIONS)
    batch = replace(batch, groups=np.empty(0, np.uint8))
    if normalize == "none" and constant is None:
        return batch
    more = 0 if constant is None else len(batch)
    data, indices = np.empty(len(batch.data) + more), np.empty(len(batch.data) + more, np.int32)
    ready(prepare_rows, compiled)(
        batch.data, batch.indices, batch.indptr, normalize != "none", normalize == "unit_after",
        -1 if constant is None else int(constant), data, indices,
    )  # fmt: skip
    indptr = batch.indptr if constant is None else batch.indptr + np.arange(len(batch) + 1)
    return replace(batch, data=data, indices=indices, indptr=indptr)
