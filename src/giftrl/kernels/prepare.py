"""The last step before a learner: rows of Euclidean norm 1, and the constant feature."""

from typing import Any

import numpy as np

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import each_once

ONE = np.uint64(1)


@formula
def make_unit(data: Any, first: Any, last: Any) -> None:
    """Divide the values of one row by their Euclidean norm; a row of zeros stays as it is.

    They are divided by the largest of them first, so that their squares neither overflow nor vanish.
    """
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
    """A copy of a dense or CSR matrix whose rows have Euclidean norm 1; rows of zeros stay as they are.

    >>> unit_rows(np.array([[3e200, 4e200], [0.0, 0.0]]), compiled=False).round(9).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    if hasattr(x, "indptr"):
        x = each_once(x, compiled=compiled)  # a norm is that of the sums
        data, bounds = x.data.copy(), x.indptr.astype(np.int64)
        made = type(x)((data, x.indices, x.indptr), shape=x.shape)
    else:
        made = np.array(x, order="C")
        data, bounds = made.reshape(-1), np.arange(x.shape[0] + 1) * x.shape[1]
    ready(make_units, compiled)(data, bounds[:-1], bounds[1:])
    return made
