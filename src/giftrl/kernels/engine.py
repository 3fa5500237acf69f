"""The base of learners with a fixed beta: parts that go together, stored coordinates, certificates."""

import math
from collections.abc import Mapping
from operator import is_not
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl import regularizers, schedules, updates
from giftrl.certificates import Certificate, Evidence, RowReservoir
from giftrl.compiled.arguments import PackedArgument
from giftrl.compiled.rows import Rows, slice_rows
from giftrl.errors import Overflowed, require, require_whole
from giftrl.kernels.base import LabeledRows, NonzeroRows, OneRow, RowLearner, check_parts, stored_type
from giftrl.kernels.loop_row_copy import THETA, columns
from giftrl.kernels.part_codes import encode_schedule, encode_update
from giftrl.kernels.scalar_round import CONJUGATE, DELTA, LAM, LOSS, ROUNDING, SIZE, TIME, Parts
from giftrl.regularizers.contract import centred, l1_strength, require_diagonal, strength
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.schedules.contract import lam
from giftrl.system import zeros

Array = NDArray[np.float64]


class Engine:
    """The base of learners of one model, of many, and of K classes: their parts, stored numbers, and checks.

    ``coordinates`` has a row for each feature, and ``states`` one for each model (:mod:`giftrl.kernels.scalar_round`).
    """

    coordinates: NDArray[Any]
    states: Array

    def __init__(self, dimension: int, loss: Any, regularizer: Any, dtype: Any, compiled: bool) -> None:
        self.dimension = require_whole("dimension", dimension, 1, "give the number of features")
        self.loss = loss
        self.regularizer = regularizers.BY_NAME.member(regularizer, "strength", "start")
        require_diagonal("regularizer", self.regularizer)
        self.dtype = stored_type(dtype)
        self.compiled = compiled
        #: True for one strength for all coordinates, where only theta is stored; False for a strength for each.
        self.uniform = psi_known_ahead(self.regularizer)

    def _empty(self, models: int) -> NDArray[Any]:
        """The coordinates of the models before their first round, those of one feature side by side."""
        shape = (self.dimension, models) if self.uniform else (self.dimension, models, columns(self.regularizer))
        return zeros(shape, self.dtype, beside=self._beside(models))

    def _beside(self, scores: int) -> int:
        """The bytes for each feature that weights take while they are computed from what is stored."""
        plain = not centred(self.regularizer) and (not self.uniform or l1_strength(self.regularizer) > 0.0)
        return 8 * scores * (5 if plain else 3)

    def _start(self, schedules: list[Any]) -> Array:
        """The scalars of the models before their first round, a row each."""
        states = np.zeros((len(schedules), SIZE))
        states[:, TIME] = 1.0
        states[:, LAM] = [lam(schedule, 1, 0.0) for schedule in schedules]
        return states

    def grow(self, dimension: int) -> None:
        """Add features that have not been seen yet; nothing else changes.

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
            for each in self._every_witnesses():
                each.grow(dimension)

    def _every_witnesses(self) -> "list[RowReservoir]":
        """The witnesses of each model that has some."""
        return []

    def own_state(self) -> dict[str, NDArray[Any]]:
        """The arrays of the state without those of witnesses."""
        return {"coordinates": self.coordinates, "scalars": self.states}

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays from which :meth:`restore` goes on, bit for bit."""
        return self.own_state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from the state of a learner with the same parts."""
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
        """The entries of x for some features, by their numbers or as a slice."""
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
        """The number of rows learned. A model that has overflowed learns no more, and the smallest number counts."""
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

    #: What theta of the certificate has more than the stored theta, a column for each score; None where it is 0. After
    #: a merge of learners whose psi is not centred, the stored theta is that of the new point, not minus the sum of z.
    ahead: Array | None = None
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

    def _every_witnesses(self) -> list[RowReservoir]:
        return [] if self.witnesses is None else [self.witnesses]

    def grow(self, dimension: int) -> None:
        super().grow(dimension)
        if self.ahead is not None and len(self.ahead) < self.dimension:
            self.ahead = NonzeroRows.of(self.ahead)._replace(length=self.dimension).array()

    def own_state(self) -> dict[str, NDArray[Any]]:
        return super().own_state() | ({} if self.ahead is None else {"ahead": self.ahead})

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        ahead, scores = state.get("ahead"), self.classes or 1
        fits = ahead is None or (
            ahead.dtype == np.float64
            and ahead.shape == (len(state["coordinates"]), scores)
            and np.isfinite(ahead).all()
        )
        require(bool(fits), "state", "ahead", f"must be that of {self!r}", "use the parts that it was made with")
        super().restore(state)
        self.ahead = None if ahead is None else ahead.copy()
        self._restore_beside(state)

    def __getstate__(self) -> dict[str, Any]:
        ahead = None if self.ahead is None else NonzeroRows.of(self.ahead)
        return super().__getstate__() | {"ahead": ahead}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if isinstance(self.ahead, NonzeroRows):
            self.ahead = self.ahead.array()

    def _run(self, parts: Any, batch: Any) -> int:
        """Learn from a batch; return how many rows there are before one that overflows."""
        raise NotImplementedError

    def _learn_batch(self, batch: LabeledRows | PackedArgument, n: int) -> None:
        """Learn from n rows."""
        learnt = self._run(self._parts(), batch)
        if learnt == n > 0 and not np.isfinite(self.states).all():
            learnt -= 1  # the loop would have noticed at the next row
        if learnt < n:
            raise Overflowed(
                f"row {learnt} leaves the range of {self.dtype.name}; the rows before it have been learnt. Scale the "
                "features or the weights, use a smaller beta, or an implicit update, which does not overshoot",
                learnt,
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
