"""One linear model at the speed of memory: :class:`giftrl.Learner` for linear models, compiled, batch by batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from giftrl import losses
from giftrl.compiled import compiler
from giftrl.compiled.arguments import Held
from giftrl.compiled.rows import REAL, Dense, Rows, slice_rows
from giftrl.kernels.base import Batch, OneRow, as_labels, as_weights
from giftrl.kernels.certificate_terms import new_desk
from giftrl.kernels.coordinate import learn_coordinate, predict_coordinate
from giftrl.kernels.engine import Array, OneLearner, dual, point
from giftrl.kernels.one_coordinate import learn_dense_coordinate, learn_one_coordinate
from giftrl.kernels.one_uniform import learn_dense_uniform, learn_one_uniform
from giftrl.kernels.uniform import learn_uniform, predict_uniform
from giftrl.regularizers.contract import centred, l1_strength, side_by_side

#: Loops that take rows of this many features or more, and learn all rows of a batch or none.
DENSE, BLOCK = (learn_dense_uniform, learn_dense_coordinate), 8


def fastest(psi: Any, uniform: bool, blocks: bool) -> Callable[..., int] | None:
    """The fastest loop for rows with or without blocks of eight; None where only that of the base class takes psi."""
    if l1_strength(psi) > 0.0:
        return None
    if uniform:
        return learn_dense_uniform if blocks else learn_one_uniform
    if centred(psi) and side_by_side(psi):
        return learn_dense_coordinate if blocks else learn_one_coordinate
    return None


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
    _desk: Held | None = None
    _suits: tuple[Any, ...] = ()  # the rows for which the desk is

    def __init__(
        self, dimension: int, loss: Any = "logistic", regularizer: Any = "squared_norm", update: Any = "proximal",
        schedule: Any = "temporal", *, dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dimension, losses.scalar(loss), regularizer, update, schedule, dtype, compiled)
        self.coordinates = self._empty(1)

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        # A loop for dense rows halts at a number that is not finite, and then has learnt nothing. So it is tried before
        # every number is looked at, which would take a quarter of the time.
        if type(x) is np.ndarray and x.ndim == 2 and x.shape[1] == self.dimension and x.dtype in REAL:
            rows = Dense(x.ravel(), self.dimension)
            if fastest(self.regularizer, self.uniform, self._blocks(rows)) in DENSE:
                labels, given = as_labels(self.loss, y, x.shape[:1]), as_weights(weights, len(x))
                predictions = np.empty(len(x))
                if self._try(Batch(rows, labels, given, predictions), rows) == len(x):
                    self._remember(rows, labels, given, predictions)
                    return predictions
        return super().learn(x, y, weights)

    def _blocks(self, rows: Rows) -> bool:
        """Whether rows are dense and have a block of eight features."""
        return isinstance(rows, Dense) and self.dimension >= BLOCK

    def _try(self, batch: Batch | Held, rows: Rows) -> int:
        """Run the fastest loop; how many rows it says that it has learnt."""
        dense = isinstance(rows, Dense)
        suits = self._suits == (dense, rows.data.dtype, self.dimension)
        if self._desk is None or not suits or (not dense and self._desk.value.steps.shape[1] < rows.longest()):
            self._desk = Held(new_desk(rows, self.dimension, self.dtype))
            self._suits = dense, rows.data.dtype, self.dimension
        loop = fastest(self.regularizer, self.uniform, self._blocks(rows))
        assert loop is not None
        return int(
            compiler.ready(loop, self.compiled, counted=False)(
                self._parts(), batch, self.coordinates, self.states, self._desk
            )
        )

    def _run(self, batch: Batch | Held, n: int) -> int:
        given: Batch = batch.value if isinstance(batch, Held) else batch
        rows, loop = given.rows, fastest(self.regularizer, self.uniform, self._blocks(given.rows))
        if loop is None:
            return super()._run(batch, n)
        learnt = self._try(batch, rows)
        if learnt == n or loop is learn_one_uniform:
            return learnt
        # A number is near the ends of its type: only the loops that move coordinates in float64 go there.
        first = 0 if loop in DENSE else learnt
        rows = slice_rows(rows, first, n)
        left = Batch(rows, given.labels[first:], given.weights[first:], given.predictions[first:])
        if self.uniform:
            last = compiler.ready(learn_one_uniform, self.compiled, counted=False)
            return int(last(self._parts(), left, self.coordinates, self.states, self._desk))
        return first + super()._run(left, n - first)

    def predict_rows(self, rows: Rows, n: int) -> Array:
        """<s, x_t> for each of n rows at O(nonzeros), where x_t as a whole is not wanted; no check of the arguments."""
        scores = np.empty(n)
        self._predict(rows, scores)
        return scores

    def _predict(self, rows: Rows | Held, scores: Array | Held) -> None:
        loop = predict_uniform if self.uniform else predict_coordinate
        compiler.ready(loop, self.compiled)(self.regularizer, self.lam, rows, self.coordinates, scores)

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
        theta = dual(self.regularizer, self.uniform, self.coordinates[:, 0])
        return theta if self.ahead is None else theta + self.ahead[:, 0]
