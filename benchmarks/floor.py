"""The floors: the least work of a pass of a linear model, a dot product and an update for each row.

A floor has no loss, no schedule and no checks, and records nothing. There are three of them, because a ratio to the
slowest one alone would flatter us:

- the loop as most people would write it for Numba. Its indices are signed, so the compiled code checks for each index
  whether it is negative, as Python's indexing requires; this costs more than the arithmetic;
- the same loop with unsigned indices, which need no check;
- the unsigned loop with a float32 sum for each row: the fastest loop that we know, but not accurate enough for
  predictions, which giftrl computes in float64.
"""

from typing import Any

import numba
import numpy as np

__all__ = ["dense", "dense_unsigned", "sparse", "sparse_unsigned"]

#: Sums may be reordered, and fused with multiplications, as in giftrl's own loops.
FAST = {"reassoc", "contract", "nsz"}

STEP = 0.001


def _sparse(indptr: Any, indices: Any, data: Any, y: Any, w: Any) -> float:
    total = 0.0
    for i in range(len(y)):
        p = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            p += data[k] * w[indices[k]]
        a = np.float32(STEP * (p - y[i]))
        for k in range(indptr[i], indptr[i + 1]):
            w[indices[k]] -= a * data[k]
        total += p
    return total


def _sparse_unsigned(indptr: Any, indices: Any, data: Any, y: Any, w: Any, zero: Any) -> float:
    total = 0.0
    for i in range(len(y)):
        p = zero
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            p += data[k] * w[np.uint64(indices[k])]
        a = np.float32(STEP * (p - y[i]))
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            w[np.uint64(indices[k])] -= a * data[k]
        total += p
    return total


def _dense(x: Any, y: Any, w: Any) -> float:
    total = 0.0
    for i in range(len(y)):
        p = 0.0
        for j in range(x.shape[1]):
            p += x[i, j] * w[j]
        a = np.float32(STEP * (p - y[i]))
        for j in range(x.shape[1]):
            w[j] -= a * x[i, j]
        total += p
    return total


def _dense_unsigned(x: Any, y: Any, w: Any, zero: Any) -> float:
    total = 0.0
    for i in range(np.uint64(len(y))):
        p = zero
        for j in range(np.uint64(x.shape[1])):
            p += x[i, j] * w[j]
        a = np.float32(STEP * (p - y[i]))
        for j in range(np.uint64(x.shape[1])):
            w[j] -= a * x[i, j]
        total += p
    return total


def _compiled(loop: Any) -> Any:
    return numba.njit(cache=True, fastmath=FAST)(loop)


sparse: Any = _compiled(_sparse)
dense: Any = _compiled(_dense)
#: Unsigned loops take the number that the sum of a row begins with: its type is the type of the sum.
sparse_unsigned: Any = _compiled(_sparse_unsigned)
dense_unsigned: Any = _compiled(_dense_unsigned)
