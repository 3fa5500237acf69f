"""One linear model at the speed of memory: :class:`giftrl.Learner` for linear models, compiled, batch by batch."""

from typing import Any

import numpy as np

from giftrl import losses
from giftrl.compiled.arguments import PackedArgument
from giftrl.compiled.compiler import ready
from giftrl.compiled.rows import Rows, longest, slice_rows
from giftrl.kernels.base import LabeledRows, OneRow
from giftrl.kernels.engine import Array, OneLearner, dual, point
from giftrl.kernels.loop_coordinate import LARGE_SQUARE, learn_coordinate
from giftrl.kernels.loop_row_copy import learn_row_copies, predict_rows
from giftrl.kernels.loop_uniform import learn_uniform
from giftrl.regularizers.contract import bounded, centred, known_ahead, l1_strength


def learn_one_model(parts: Any, batch: Any, coordinates: Any, states: Array, compiled: bool) -> int:
    """Learn from a batch; return how many rows there are before one that leaves the range of the numbers.

    Most rows are far inside the range, and go through a loop that knows this from a few bounds. The exact loop goes on
    from the first row that might not be.

    Args:
        parts, batch: the parts of the model and the rows, or both :class:`giftrl.compiled.arguments.PackedArgument`.
        coordinates: a row for each feature.
        states: the row of its numbers (:mod:`giftrl.kernels.scalar_round`).
        compiled: False runs the loops as plain Python.
    """
    psi, given = _value(parts).psi, _value(batch)
    x, n, learned = coordinates.reshape(len(coordinates), -1), len(given.labels), 0
    if l1_strength(psi) == 0.0 and known_ahead(psi):
        learned = int(ready(learn_uniform, compiled, counted=False)(parts, batch, x, states, LARGE_SQUARE))
    elif l1_strength(psi) == 0.0 and centred(psi) and bounded(psi):
        steps = np.empty((longest(given.rows), 1), x.dtype)
        learned = int(ready(learn_coordinate, compiled, counted=False)(parts, batch, x, states, steps))
    if learned == n:
        return n
    if learned > 0:
        rows, weights = slice_rows(given.rows, learned, n), given.weights[learned:]
        batch = LabeledRows(rows, given.labels[learned:], weights, given.predictions[learned:])
    return learned + int(ready(learn_row_copies, compiled)(parts, batch, x, states))


def predict_one_model(psi: Any, lam: float, rows: Any, coordinates: Any, scores: Any, compiled: bool) -> None:
    """<s, x_t> of each row, into ``scores``."""
    ready(predict_rows, compiled)(psi, lam, rows, coordinates.reshape(len(coordinates), -1), scores)


def _value(given: Any) -> Any:
    return given.value if isinstance(given, PackedArgument) else given


class LinearLearner(OneLearner):
    """Generalized implicit FTRL for a linear model, compiled: :class:`giftrl.Learner` on batches, O(nonzeros) a row.

    The points, losses and certificate are those of ``Learner`` with the same parts on the whole space. Predictions,
    sums and all scalars are float64 in either type of the coordinates.

    Args:
        dimension: the number of features.
        loss: a member of :mod:`giftrl.losses`, its name, or a NamedTuple of your own with value and slope.
        regularizer: a diagonal member of :mod:`giftrl.regularizers` or its name.
        update: a member of :mod:`giftrl.updates` or its name.
        schedule: a member of :mod:`giftrl.schedules` or its name.
        dtype: float32 or float64, the type in which coordinates are stored.
        compiled: False runs the same functions as plain Python.

    >>> import numpy as np
    >>> learner = LinearLearner(2, "logistic", compiled=False)
    >>> learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, -1.0, 1.0]).round(6)
    array([ 0.      ,  0.      , -0.006558])
    >>> round(learner.certificate.loss_sum, 6)
    2.082726
    """

    def __init__(
        self, dimension: int, loss: Any = "logistic", regularizer: Any = "squared_norm", update: Any = "proximal",
        schedule: Any = "temporal", *, dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dimension, losses.scalar(loss), regularizer, update, schedule, dtype, compiled)
        self.coordinates = self._empty(1)

    def _run(self, parts: Any, batch: Any) -> int:
        return learn_one_model(parts, batch, self.coordinates, self.states, self.compiled)

    def predict_rows(self, rows: Rows, n: int) -> Array:
        """<s, x_t> for each of n rows at O(nonzeros), without computing x_t as a whole; no check of the arguments."""
        scores = np.empty(n)
        predict_one_model(self.regularizer, self.lam, rows, self.coordinates, scores, self.compiled)
        return scores

    def one_row(self, rows: Rows) -> OneRow:
        """One row in this memory, for :meth:`learn_row` and :meth:`score_row`."""
        return OneRow(rows)

    def score_row(self, row: OneRow) -> float:
        """<s, x_t> of one row."""
        predict_one_model(self.regularizer, self.lam, row.rows, self.coordinates, row.prediction, self.compiled)
        return row.score.item()

    def predict(self, x: Any) -> Array:
        """<s, x_t> for each row."""
        return np.asarray((x if hasattr(x, "tocsr") else np.asarray(x, dtype=float)) @ self.x)

    def weights_of(self, features: Any) -> Array:
        return point(self.regularizer, self.uniform, self.coordinates[features, 0], self.lam)

    @property
    def theta(self) -> Array:
        """theta_t, minus the sum of the z so far."""
        theta = dual(self.regularizer, self.uniform, self.coordinates[:, 0])
        return theta if self.ahead is None else theta + self.ahead[:, 0]
