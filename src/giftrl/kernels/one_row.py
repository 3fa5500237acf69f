"""One row at a time: memory that is written anew for every row, so that a call takes nothing apart but what is new."""

from collections.abc import Callable
from typing import Any

import numpy as np

from giftrl.compiled.kinds import Held
from giftrl.compiled.rows import CSR
from giftrl.kernels.parts import Batch


class OneRow:
    """A row with its label, its weight and its score, as the loops of learners of one score take them.

    Args:
        capacity: the most entries that it can have.
        desk: further memory that the loop of predictions uses.

    >>> row = OneRow(3)
    >>> row.values[:2], row.features[:2] = (0.5, -1.0), (4, 7)
    >>> row.end(2)
    >>> row.width, row.rows.value.indptr.tolist()
    (2, [0, 2])
    """

    def __init__(self, capacity: int, desk: Any = None) -> None:
        self.values, self.features = np.zeros(capacity), np.zeros(capacity, np.int32)
        self.indptr, self.width = np.zeros(2, np.int64), 0
        self.label, self.weight, self.score = np.zeros(1), np.ones(1), np.zeros((1, 1))
        rows = CSR(self.values, self.features, self.indptr, capacity)
        self.rows, self.scores, self.desk = Held(rows), Held(self.score), None if desk is None else Held(desk)
        self.prediction = Held(self.score[0])
        self.bound_to: Any = None  # what the two calls work with
        self.learn: Callable[[], Any] | None = None
        self.predict: Callable[[], Any] | None = None
        self.batch = Held(Batch(rows, self.label, self.weight, self.score[0]))

    def bind_to(self, parts: Any) -> None:
        """Say what the learner works with now; calls with anything else are of no use any more."""
        if self.bound_to is not parts:
            self.bound_to, self.learn, self.predict = parts, None, None

    def end(self, width: int) -> None:
        """Say how many entries the row has."""
        self.indptr[1] = self.width = width
