"""One row at a time through a mixture of one score: what stays from row to row is not taken apart again."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.arguments import Held
from giftrl.compiled.rows import Rows
from giftrl.kernels.base import OneRow, dense_row
from giftrl.mixtures.feature_state import FeatureState, with_capacity
from giftrl.mixtures.parts import Calls, MixtureBatch
from giftrl.mixtures.weights import desk

Array = NDArray[np.float64]


class SingleRows:
    """The part of a mixture that learns and scores single rows."""

    dimension: int
    features: FeatureState
    _prepared: Callable[..., Calls]
    _remember_row: Callable[[OneRow, Array], None]
    _again: bool
    _row: OneRow | None = None  # for dense rows, once there was one

    def _learn_dense_row(self, values: Array, y: NDArray[Any]) -> Array:
        """Learn from one row by way of memory that is kept, which is quicker than to hand over its own."""
        row = self._row
        if row is None or row.width != len(values):
            row = self._row = self.one_row(dense_row(len(values)))
        row.values[:], row.label[:] = values, y
        self.learn_row(row)
        return np.array(row.score[0])

    def learn_row(self, row: OneRow) -> None:
        """Learn from one row that has weight."""
        self.features = with_capacity(self.features, self.dimension, row.width)
        calls = self._prepared(row.width)
        row.bind_to(calls)
        if row.learn is None:
            row.learn = calls.learn.bind(calls.parts, row.batch)
        row.learn()
        if not self._again:
            self._remember_row(row, row.linear)

    def score_row(self, row: OneRow) -> float:
        """<s, x> of one row."""
        calls = self._prepared()
        row.bind_to(calls)
        if row.predict is None:
            row.predict = calls.predict.bind(calls.weights, row.desk, row.rows, row.scores)
        row.predict()
        return row.score.item()

    def one_row(self, rows: Rows) -> OneRow:
        """One row in this memory, for :meth:`learn_row` and :meth:`score_row`."""
        row = OneRow(rows, desk(self._prepared().weights.value))
        row.batch = Held(MixtureBatch(rows, row.label, row.weight, row.score[0], row.linear))
        return row
