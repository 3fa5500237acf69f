"""One linear model at the speed of memory: :class:`giftrl.Learner` for linear models, compiled, batch by batch."""

from typing import Any

import numpy as np

from giftrl import losses
from giftrl.compiled import door
from giftrl.compiled.kinds import Held
from giftrl.compiled.rows import Rows
from giftrl.kernels.coordinate import learn_coordinate, predict_coordinate
from giftrl.kernels.engine import Array, OneLearner, dual, point
from giftrl.kernels.one_row import OneRow
from giftrl.kernels.uniform import learn_uniform, predict_uniform


class LinearLearner(OneLearner):
    """Generalized implicit FTRL for a linear model, compiled: :class:`giftrl.Learner` on batches, O(nonzeros) a row.

    The points, losses and certificate are those of ``Learner`` with the same parts on the whole space. Predictions,
    sums and all scalars are float64 whatever the coordinates are stored in.

    Args:
        dimension: the number of features.
        loss: a member of :mod:`giftrl.losses`, its name, or a NamedTuple of your own with value and slope.
        regularizer: a diagonal member of :mod:`giftrl.regularizers` or its name.
        update: a member of :mod:`giftrl.updates` or its name.
        schedule: a member of :mod:`giftrl.schedules` or its name.
        dtype: float32 or float64, how coordinates are stored.
        compiled: False runs the same functions as plain Python.

    >>> import numpy as np
    >>> learner = LinearLearner(2, "logistic", compiled=False)
    >>> learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, -1.0, 1.0]).round(6)
    array([ 0.      ,  0.      , -0.006558])
    >>> round(learner.certificate.loss_sum, 6)
    2.082726
    """

    _loops = (learn_uniform, learn_coordinate)

    def __init__(
        self, dimension: int, loss: Any = "logistic", regularizer: Any = "squared_norm", update: Any = "proximal",
        schedule: Any = "temporal", *, dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dimension, losses.scalar(loss), regularizer, update, schedule, dtype, compiled)
        self.coordinates = self._empty(1)

    def predict_rows(self, rows: Rows, n: int) -> Array:
        """<s, x_t> for each of n rows at O(nonzeros), where x_t as a whole is not wanted; no check of the arguments."""
        scores = np.empty(n)
        self._predict(rows, scores)
        return scores

    def _predict(self, rows: Rows | Held, scores: Array | Held) -> None:
        loop = predict_uniform if self.uniform else predict_coordinate
        door.ready(loop, self.compiled)(self.regularizer, self.lam, rows, self.coordinates, scores)

    def one_row(self, rows: Rows) -> OneRow:
        """One row in this memory, for :meth:`learn_row` and :meth:`score_row`."""
        return OneRow(rows)

    def score_row(self, row: OneRow) -> float:
        """<s, x_t> of one row."""
        self._predict(row.rows, row.prediction)
        return row.score.item()

    def predict(self, x: Any) -> Array:
        """<s, x_t> for each row."""
        return np.asarray((x if hasattr(x, "tocsr") else np.asarray(x, dtype=float)) @ self.x)

    def weights_of(self, features: Any) -> Array:
        return point(self.regularizer, self.uniform, self.coordinates[features, 0], self.lam)

    @property
    def theta(self) -> Array:
        """theta_t, minus the sum of the z so far."""
        return dual(self.regularizer, self.uniform, self.coordinates[:, 0])
