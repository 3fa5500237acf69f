"""One row at a time: memory that is written anew for every row, so that a call takes nothing apart but what is new."""

from collections.abc import Callable
from typing import Any

import numpy as np

from giftrl.compiled.arguments import Held
from giftrl.compiled.rows import CSR, Dense, Rows
from giftrl.kernels.parts import Batch


class OneRow:
    """A row with its label, its weight and its score, as the loops of learners of one score take them.

    Args:
        rows: the memory of the row; a sparse one is still to be :meth:`ended <end>`.
        desk: further memory that the loop of predictions uses.

    >>> row = OneRow(sparse_row(3))
    >>> row.values[:2], row.rows.value.indices[:2] = (0.5, -1.0), (4, 7)
    >>> row.end(2)
    >>> row.width, row.rows.value.indptr.tolist()
    (2, [0, 2])
    """

    def __init__(self, rows: Rows, desk: Any = None) -> None:
        self.values, self.width = rows.data, len(rows.data)
        self.label, self.weight, self.score = np.zeros(1), np.ones(1), np.zeros((1, 1))
        self.rows, self.scores, self.desk = Held(rows), Held(self.score), None if desk is None else Held(desk)
        self.prediction = Held(self.score[0])
        self.bound_to: Any = None  # what the two calls work with
        self.learn: Callable[[], Any] | None = None
        self.predict: Callable[[], Any] | None = None
        self.linear = np.zeros(1)  # the prediction of a mixture before it is clipped
        self.batch = Held(Batch(rows, self.label, self.weight, self.score[0]))
        self.kept_by: Any = None  # the witnesses that it is remembered by
        self.keep: Callable[[], Any] = _nothing

    def bind_to(self, parts: Any) -> None:
        """Say what the learner works with now; calls with anything else are of no use any more."""
        if self.bound_to is not parts:
            self.bound_to, self.learn, self.predict = parts, None, None

    def end(self, width: int) -> None:
        """Say how many entries a sparse row has."""
        self.rows.value.indptr[1] = self.width = width


def _nothing() -> None:
    """What is done about a row that is not remembered."""


def sparse_row(capacity: int) -> CSR:
    """Memory for a row of so many entries at most."""
    return CSR(np.zeros(capacity), np.zeros(capacity, np.int32), np.zeros(2, np.int64), capacity)


def dense_row(dimension: int) -> Dense:
    """Memory for a row of this dimension."""
    return Dense(np.zeros(dimension), dimension)
