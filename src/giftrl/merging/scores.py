"""The scores of a window: at the average of workers, and how each group of features moves them towards the sum."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Dense, Rows, begin, column, end

Array = NDArray[np.float64]


def counts_of(rows: Rows, n: int, dimension: int) -> NDArray[np.int64]:
    """In how many of n rows each feature is not 0.

    >>> counts_of(Dense(np.array([1.0, 0.0, 2.0, 3.0]), 2), 2, 2).tolist()
    [2, 1]
    """
    if isinstance(rows, Dense):
        return np.asarray(np.count_nonzero(rows.data[: n * dimension].reshape(n, dimension), axis=0), np.int64)
    entries = slice(rows.indptr[0], rows.indptr[n])
    present = rows.indices[entries][rows.data[entries] != 0.0]
    return np.bincount(present, minlength=dimension).astype(np.int64)


@formula(fast=True)
def add_scores(rows: Any, where: Any, group: Any, average: Any, moves: Any, p: Any, d: Any) -> None:
    """Add <s, average> of each row to p, and <s, moves> to d, a line for each group, a column for each score."""
    for i in range(len(p)):
        for k in range(begin(rows, i), end(rows, i)):
            s, v = where[column(rows, i, k)], np.float64(rows.data[k])
            if s >= 0:
                for m in range(p.shape[1]):
                    p[i, m] += v * average[s, m]
                    d[group[s], i, m] += v * moves[s, m]


class Scorer:
    """The scores of a window for features that are merged, and for others that its rows have.

    Args:
        rows, n: the window, and how many rows it has.
        features: those that are merged, in order.
        group: of each of these.
        groups: how many groups there are.
        dimension: the number of all features.
        compiled: False runs the loop as plain Python.

    >>> scorer = Scorer(Dense(np.array([1.0, 2.0]), 2), 1, np.array([1]), np.array([0]), 1, 2, False)
    >>> scorer.other.tolist()
    [0]
    >>> p, d = scorer(np.array([[5.0]]), np.array([[1.0]]), np.array([[7.0]]))
    >>> p.tolist(), d.tolist()
    ([[17.0]], [[[2.0]]])
    """

    def __init__(
        self, rows: Rows, n: int, features: NDArray[np.int64], group: NDArray[np.int64], groups: int, dimension: int,
        compiled: bool,
    ) -> None:  # fmt: skip
        self.rows, self.n, self.groups, self.compiled = rows, n, groups, compiled
        #: The features of the window that are not merged.
        self.other = np.setdiff1d(np.flatnonzero(counts_of(rows, n, dimension)), features, assume_unique=True)
        self._where = np.full(dimension, -1, np.int64)
        self._where[np.concatenate([features, self.other])] = np.arange(len(features) + len(self.other))
        self._group = np.concatenate([group, np.zeros(len(self.other), np.int64)])

    def __call__(self, average: Array, moves: Array, rest: Array) -> tuple[Array, Array]:
        """Scores at weights of merged features and of the others, and what the moves of each group add to them."""
        p, d = np.zeros((self.n, average.shape[1])), np.zeros((self.groups, self.n, average.shape[1]))
        both = np.concatenate([average, rest]), np.concatenate([moves, np.zeros_like(rest)])
        ready(add_scores, self.compiled)(self.rows, self._where, self._group, *both, p, d)
        return p, d
