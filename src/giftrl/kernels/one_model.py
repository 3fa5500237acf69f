"""One linear model with a fixed beta: :class:`giftrl.Learner`, compiled for batches. :class:`Engine` is the base of all
learners of this package; :class:`OneLearner` is the base of learners with one update, schedule and certificate.
"""

import math
from collections.abc import Mapping
from operator import is_not
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl import losses, regularizers, schedules, updates
from giftrl.certificates import Certificate, Evidence, RowReservoir
from giftrl.compiled.compiler import PackedArgument, ready
from giftrl.compiled.rows import Rows, longest, slice_rows
from giftrl.errors import Overflowed, require, require_whole
from giftrl.kernels.base import Array, LabeledRows, NonzeroRows, OneRow, RowLearner, check_parts, stored_type
from giftrl.kernels.lane_loops import LARGE_SQUARE, learn_coordinate, learn_uniform
from giftrl.kernels.loop_row_copy import THETA, columns, learn_row_copies, predict_rows
from giftrl.kernels.part_codes import encode_schedule, encode_update
from giftrl.kernels.scalar_round import CONJUGATE, DELTA, LAM, LOSS, ROUNDING, SIZE, TIME, Parts
from giftrl.regularizers.contract import bounded, centred, known_ahead, l1_strength, require_diagonal, strength
from giftrl.schedules.contract import lam
from giftrl.system import zeros


class Engine:
    """The base of all learners with a fixed beta: parts, stored numbers, and validation."""

    coordinates: NDArray[Any]  # a row for each feature
    states: Array  # a row for each model: see :mod:`giftrl.kernels.scalar_round`

    def __init__(self, dimension: int, loss: Any, regularizer: Any, dtype: Any, compiled: bool) -> None:
        self.dimension = require_whole("dimension", dimension, 1, "give the number of features")
        self.loss = loss
        self.regularizer = regularizers.BY_NAME.member(regularizer, "strength", "start")
        require_diagonal("regularizer", self.regularizer)
        self.dtype = stored_type(dtype)
        self.compiled = compiled
        #: True for a common strength, where only theta is stored; False for a strength per coordinate.
        self.uniform = known_ahead(self.regularizer)

    def _beside(self, scores: int) -> int:
        """The temporary bytes per feature that computing weights takes."""
        plain = not centred(self.regularizer) and (not self.uniform or l1_strength(self.regularizer) > 0.0)
        return 8 * scores * (5 if plain else 3)

    def _start(self, schedules: list[Any]) -> Array:
        """The initial scalars of the models, a row each."""
        states = np.zeros((len(schedules), SIZE))
        states[:, TIME] = 1.0
        states[:, LAM] = [lam(schedule, 1, 0.0) for schedule in schedules]
        return states

    def grow(self, dimension: int) -> None:
        """Add unseen features.

        >>> from giftrl.kernels import LinearLearner
        >>> learner = LinearLearner(1, "squared", compiled=False)
        >>> _ = learner.learn([[1.0]], [1.0])
        >>> learner.grow(3)
        >>> learner.x
        array([0.5, 0. , 0. ])
        """
        if dimension > self.dimension:
            old = self.coordinates
            self.coordinates = zeros((dimension, *old.shape[1:]), self.dtype, beside=old[:1].nbytes)
            self.coordinates[: len(old)] = old
            self.dimension = dimension
            for reservoir in self._reservoirs():
                reservoir.grow(dimension)

    def _reservoirs(self) -> list[RowReservoir]:
        """The reservoirs of stored examples, one per model that stores any."""
        return []

    def own_state(self) -> dict[str, NDArray[Any]]:
        """The arrays of the state without those of stored examples."""
        return {"coordinates": self.coordinates, "scalars": self.states}

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays from which :meth:`restore` continues, bit for bit."""
        return self.own_state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of a learner with the same parts."""
        coordinates, states = state["coordinates"], state["scalars"]
        mine = self.coordinates
        fits = coordinates.dtype == mine.dtype and coordinates.shape[1:] == mine.shape[1:]
        fits = fits and len(coordinates) > 0 and states.dtype == np.float64 and states.shape == self.states.shape
        fits = fits and bool(np.isfinite(coordinates).all() and np.isfinite(states).all())
        require(fits, "state", coordinates.shape, f"must be that of {self!r}", "use the parts that it was made with")
        self.dimension = len(coordinates)
        self.coordinates, self.states = coordinates.copy(), states.copy()

    def __getstate__(self) -> dict[str, Any]:
        """A pickle keeps the features that were seen."""
        kept = {name: value for name, value in self.__dict__.items() if not isinstance(value, PackedArgument)}
        return kept | {"coordinates": NonzeroRows.of(self.coordinates)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.coordinates = state["coordinates"].array()

    def weights_of(self, features: Any) -> Array:
        """Entries of x for some features, given by numbers or a slice."""
        raise NotImplementedError

    @property
    def x(self) -> Array:
        """The point x_t, with a column for each of several models or classes."""
        return self.weights_of(slice(None))

    @property
    def sound(self) -> bool:
        """True if every number is finite, so that the state can be restored."""
        return all(bool(np.isfinite(array).all()) for array in self.own_state().values())

    @property
    def rounds(self) -> int:
        """The number of rows learned; the minimum, if models have overflowed."""
        return int(self.states[:, TIME].min()) - 1

    @property
    def loss_sums(self) -> Array:
        """The progressive loss of each model; infinite for one that has overflowed."""
        return self.states[:, LOSS].copy()

    def _certificate(self, state: Array, theta: Array, evidence: Evidence | None, merged: bool = False) -> Certificate:
        # Storing theta in float32 changes each coordinate by at most 2^-24 of itself in each round; by Cauchy and
        # Schwarz the sum over rounds of norm2(theta) is at most sqrt(T sum of norm2(theta)^2).
        rounds = state[TIME] - 1.0
        unit = 2.0**-24 if self.dtype == np.float32 else 0.0
        return Certificate(
            loss_sum=float(state[LOSS]),
            conjugate_sum=float(state[CONJUGATE]),
            delta_sum=float(state[DELTA]),
            theta=theta,
            theta_error=unit * math.sqrt(rounds * float(state[ROUNDING])),
            evidence=evidence,
            merged=merged,
        )


class OneLearner(RowLearner, Engine):
    """The base of learners of one model and of K classes: one update, one schedule, one certificate."""

    _held: PackedArgument | None = None
    _made_of: tuple[Any, ...] = ()

    def __init__(
        self, dimension: int, loss: Any, regularizer: Any, update: Any, schedule: Any, dtype: Any, compiled: bool
    ) -> None:
        super().__init__(dimension, loss, regularizer, dtype, compiled)
        self.update = updates.BY_NAME.member(update, "pick")
        self.schedule = schedules.BY_NAME.member(schedule, "lam")
        self.lookahead = check_parts(loss, self.regularizer, self.update, self.schedule)
        self.states = self._start([self.schedule])

    def _parts(self) -> PackedArgument:
        """The parts, packed for compiled loops once."""
        made_of = self.loss, self.regularizer, self.update, self.schedule
        if self._held is None or any(map(is_not, self._made_of, made_of)):
            update, schedule = encode_update(self.update), encode_schedule(self.schedule)
            held = PackedArgument(Parts(self.loss, self.regularizer, update, schedule, self.lookahead))
            self._held, self._made_of = held, made_of
        return self._held

    def learn_rows(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        predictions = np.empty((len(y), *self._scores))
        labels, n = self._typed(y), len(y)
        try:
            self._learn_batch(
                LabeledRows(rows, labels.reshape(n, 1), weights, predictions.reshape(n, -1 if n else 1)), n
            )
        except Overflowed as problem:
            first = problem.row or 0
            self._remember(slice_rows(rows, 0, first), labels[:first], weights[:first], predictions[:first])
            raise
        self._remember(rows, labels, weights, predictions)
        return predictions

    def _remember(self, rows: Rows, y: NDArray[Any], weights: Array, predictions: Array) -> None:
        if self.witnesses is not None:
            self.witnesses.add(rows, y, weights, predictions, self.loss)

    def learn_row(self, row: OneRow) -> None:
        """Learn from one row."""
        self._learn_batch(row.batch, 1)
        self._remember_row(row, row.score)

    def _reservoirs(self) -> list[RowReservoir]:
        return [] if self.witnesses is None else [self.witnesses]

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        rule = "must be that of one run: learners with a number for beta are not merged"
        require("ahead" not in state, "state", "ahead", rule, "train again, with --beta auto for several workers")
        super().restore(state)
        self._restore_beside(state)

    def _run(self, parts: Any, batch: Any) -> int:
        """Learn from a batch; return the number of rows before one that overflows."""
        raise NotImplementedError

    def _learn_batch(self, batch: LabeledRows | PackedArgument, n: int) -> None:
        """Learn from n rows."""
        learned = self._run(self._parts(), batch)
        if learned == n > 0 and not np.isfinite(self.states).all():
            learned -= 1  # the loop checks this at the next row only
        if learned < n:
            raise Overflowed(
                f"row {learned} leaves the range of {self.dtype.name}; the rows before it have been learned. Scale the "
                "features or the weights, use a smaller beta, or an implicit update, which does not overshoot",
                learned,
            )

    @property
    def lam(self) -> float:
        """lambda_t."""
        return float(self.states[0, LAM])

    @property
    def certificate(self) -> Certificate:
        """The certificate of the run so far; for K classes a comparator is a matrix like x, flattened by rows."""
        return self._certificate(self.states[0], self.theta.reshape(-1), self._evidence(), self.merges > 0)


def point(psi: Any, uniform: bool, coordinates: NDArray[Any], lam_now: float) -> Array:
    """x from the stored coordinates of a model."""
    if not uniform and centred(psi):
        return coordinates[:, 0].astype(np.float64)
    u = (coordinates if uniform else coordinates[:, 0]).astype(np.float64)
    if l1_strength(psi) > 0.0:
        u = np.sign(u) * np.maximum(0.0, np.abs(u) - l1_strength(psi))
    u /= strength(psi, lam_now, 0.0 if uniform else coordinates[:, 1].astype(np.float64))
    return np.asarray(u)


def dual(psi: Any, uniform: bool, coordinates: NDArray[Any]) -> Array:
    """theta from the stored coordinates of a model."""
    if uniform:
        return coordinates.astype(np.float64)
    return coordinates[:, THETA if centred(psi) else 0].astype(np.float64)


def learn_one_model(parts: Any, batch: Any, coordinates: Any, states: Array, compiled: bool) -> int:
    """Learn from a batch; return the number of rows before one that leaves the range of the numbers.

    A fast loop learns rows that are safely inside the range by simple bounds. The exact loop takes over at the first
    row that might not be. ``parts`` and ``batch`` may be packed.
    """
    psi, given = getattr(parts, "value", parts).psi, getattr(batch, "value", batch)
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


class LinearLearner(OneLearner):
    """Generalized implicit FTRL for a linear model, compiled: :class:`giftrl.Learner` on batches, O(nonzeros) a row.

    Points, losses and certificate equal those of ``Learner`` with the same parts on the whole space. Predictions,
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
        shape = (self.dimension, 1) if self.uniform else (self.dimension, 1, columns(self.regularizer))
        self.coordinates = zeros(shape, self.dtype, beside=self._beside(1))

    def _run(self, parts: Any, batch: Any) -> int:
        return learn_one_model(parts, batch, self.coordinates, self.states, self.compiled)

    def predict_rows(self, rows: Rows, n: int) -> Array:
        """<s, x_t> for each of n rows in O(nonzeros), without computing all of x_t and without validation."""
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
        return dual(self.regularizer, self.uniform, self.coordinates[:, 0])
