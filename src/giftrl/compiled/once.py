"""Whether a row names a feature twice: learners would update it twice from the same old value.

The order of the features in a row does not matter to any learner, so a matrix whose rows are not sorted is used as it
is: no copy, no sort.
"""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula

__all__ = ["each_once", "mark", "names_twice"]

#: How many places the first table has at most: it is made in microseconds, and stays in the processor's cache.
SMALL = 1 << 16
#: The most features for which there is a table; beyond, there is hardly memory for a learner.
MOST = 1 << 31
#: The attribute of matrices that are known to name each feature once a row. Users' own matrices never have it.
MARK = "_each_feature_once"


@formula
def repeating_row(indices: Any, indptr: Any, start: int, table: Any) -> int:
    """The first row, from ``start`` on, in which two entries have one place; the number of rows if there is none.

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
    """Whether a row of a CSR matrix with so many features, at most :data:`MOST`, names one of them twice.

    A small table comes first. Where features share places in it, the rows from the first that needs it on are looked at
    with a place for each feature, which takes at most twice the memory of the smallest learner of these features.

    >>> indptr = np.array([0, 2, 4])
    >>> [names_twice(np.array(indices), indptr, 3, compiled=False) for indices in ([2, 0, 1, 2], [2, 0, 1, 1])]
    [False, True]
    """
    # One type, whichever SciPy chose, and arrays that can be written to: loops are compiled for every kind.
    indices = np.require(indices, np.int32, ["C", "W"])
    indptr, row = indptr.astype(np.int64), 0
    enough = 1 << max(0, features - 1).bit_length()
    for places in sorted({min(SMALL, enough), enough}):
        row = int(ready(repeating_row, compiled)(indices, indptr, row, np.zeros(places, np.uint32)))
        if row == len(indptr) - 1:
            return False
    return True


def each_once(x: Any, *, compiled: bool = True) -> Any:
    """A matrix that names each feature once a row: x or, with the same arrays, its like; or a copy with sums.

    A dense matrix, or a CSR matrix which SciPy knows to be sorted and without duplicates, is returned as it is. SciPy
    keeps what it finds out about that; nothing else of x is changed.
    """
    if not hasattr(x, "indptr") or hasattr(x, MARK) or x.has_canonical_format:
        return x
    if x.shape[1] > MOST or names_twice(x.indices, x.indptr, x.shape[1], compiled=compiled):
        x = x.copy()
        x.sum_duplicates()
        return x
    return mark(copy.copy(x))


def mark(x: Any) -> Any:
    """Say of a matrix, which must not be a user's, that it names each feature once a row: nobody looks again."""
    setattr(x, MARK, True)
    return x
