"""The floors: the least work of a pass of a linear model, a dot product and an update for each row.

A floor has no loss, no schedule and no checks, and records nothing. There are two of them: the loop as most people
would write it for Numba, whose compiled code checks for each index whether it is negative, as Python's indexing
requires, which costs more than the arithmetic; and the same loop with unsigned indices, which need no check.
"""

import time
from typing import Any

import numba
import numpy as np

from benchmarks.datasets import Data
from benchmarks.solvers.contract import Timing

#: Sums may be reordered, and fused with multiplications, as in giftrl's own loops.
FAST = {"reassoc", "contract", "nsz"}

STEP = 0.001

compiled: Any = numba.njit(cache=True, fastmath=FAST)


@compiled
def sparse(indptr: Any, indices: Any, data: Any, y: Any, w: Any) -> float:
    """A pass over sparse rows."""
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


@compiled
def sparse_unsigned(indptr: Any, indices: Any, data: Any, y: Any, w: Any) -> float:
    """A pass over sparse rows, with unsigned indices."""
    total = 0.0
    for i in range(len(y)):
        p = 0.0
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            p += data[k] * w[np.uint64(indices[k])]
        a = np.float32(STEP * (p - y[i]))
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            w[np.uint64(indices[k])] -= a * data[k]
        total += p
    return total


@compiled
def dense(x: Any, y: Any, w: Any) -> float:
    """A pass over dense rows."""
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


@compiled
def dense_unsigned(x: Any, y: Any, w: Any) -> float:
    """A pass over dense rows, with unsigned indices."""
    total = 0.0
    for i in range(np.uint64(len(y))):
        p = 0.0
        for j in range(np.uint64(x.shape[1])):
            p += x[i, j] * w[j]
        a = np.float32(STEP * (p - y[i]))
        for j in range(np.uint64(x.shape[1])):
            w[j] -= a * x[i, j]
        total += p
    return total


class Floor:
    """A bare loop that makes a dot product and an update for each row, with signed or unsigned indices."""

    def __init__(self, unsigned: bool) -> None:
        self.unsigned = unsigned
        self.key, self.name = ("floor-unsigned", "floor, unsigned indices") if unsigned else ("floor", "floor")

    def unavailable(self, data: Data) -> str | None:
        return None

    def prepare(self, data: Data) -> None:
        self.data = data
        layout = "dense" if data.dense else "sparse"
        self.loop: Any = globals()[f"{layout}_unsigned" if self.unsigned else layout]
        self.arrays = (data.x,) if data.dense else (data.x.indptr, data.x.indices, data.x.data)

    def once(self) -> Timing:
        w = np.zeros(self.data.dimension, np.float32)
        begin = time.perf_counter()
        self.loop(*self.arrays, self.data.y, w)
        seconds = time.perf_counter() - begin
        return Timing(seconds, seconds)

    def predictions(self) -> None:
        return None
