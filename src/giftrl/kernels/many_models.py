"""Many linear models in one pass; models of one kind are interleaved in memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses, schedules, updates
from giftrl.certificates import Certificate, Evidence, RowReservoir
from giftrl.certificates.reservoir import as_budget
from giftrl.compiled.compiler import ready
from giftrl.compiled.lanes import EVERY
from giftrl.compiled.rows import Rows, as_rows, longest
from giftrl.errors import require
from giftrl.kernels.base import Array, LabeledRows, aligned_zeros, as_labels, as_weights, check_parts
from giftrl.kernels.lane_loops import learn_coordinate, learn_uniform
from giftrl.kernels.loop_row_copy import columns
from giftrl.kernels.one_model import Engine, dual, learn_one_model, point, predict_one_model
from giftrl.kernels.part_codes import AnySchedule, Schedules, encode_schedule, encode_update
from giftrl.kernels.scalar_round import LAM, LOSS, Parts
from giftrl.regularizers.contract import l1_strength

#: With features below this number and strengths above its inverse, float32 can hold s_j/L_j: it is at most 1e16, and
#: numbers that float32 rounds to 0 move a prediction by less than 1e-13.
LARGEST_FEATURE = 1e8


class Group:
    """Models that differ only in the parameters of a built-in schedule, a lane each; or a single model. Unused lanes
    repeat the first model. ``models`` has the indices among all models.
    """

    def __init__(self, models: Sequence[int], parts: Parts, compiled: bool) -> None:
        self.models, self.parts, self.compiled = list(models), parts, compiled
        self.lanes = parts.side.lanes()
        self.quantities = columns(parts.psi)
        self.every = [*self.models, *[self.models[0]] * (self.lanes - len(self.models))]
        first, last = self.models[0], self.models[-1] + 1
        # As a slice, columns are written ten times faster.
        self.columns = slice(first, last) if last - first == len(self.models) else self.models

    def allocate(self, dimension: int, dtype: Any, beside: int = 0) -> None:
        """Enlarge the cache-aligned arrays for more features."""
        old = getattr(self, "coordinates", None)
        self.coordinates = aligned_zeros(dimension, self.quantities * self.lanes, dtype, beside)
        if old is not None:
            self.coordinates[: len(old)] = old

    def read(self, features: Any) -> NDArray[Any]:
        """Read the stored numbers of some features, models and quantities."""
        stored = self.coordinates[features].reshape(-1, self.quantities, self.lanes)
        read: NDArray[Any] = stored.transpose(0, 2, 1)[:, : len(self.models)]
        return read

    def write(self, stored: NDArray[Any]) -> None:
        """The inverse of :meth:`read`, for all features."""
        lanes = self.coordinates.reshape(-1, self.quantities, self.lanes).transpose(0, 2, 1)
        lanes[:, : len(self.models)] = stored
        lanes[:, len(self.models) :] = stored[:, :1]

    def learn(self, rows: Rows, labels: Array, weights: Array, states: Array, predictions: Array) -> None:
        """Learn from a batch; ``labels`` has a column for all models or one for each."""
        if self.lanes == 1:
            self._learn_alone(rows, labels, weights, states, predictions)
            return
        by_lane = labels if labels.shape[1] == 1 else np.take(labels, self.every, axis=1)
        all_models = predictions.shape[1] == self.lanes == len(self.models)  # a single model without unused lanes
        scores = predictions if all_models else np.empty((len(labels), self.lanes))
        batch, lane_states = LabeledRows(rows, by_lane, weights, scores), states[self.every]
        if self.quantities == 1:
            largest = float(np.finfo(self.coordinates.dtype).max)
            limit = min(largest * largest, np.finfo(np.float64).max)
            ready(learn_uniform, self.compiled, counted=False)(self.parts, batch, self.coordinates, lane_states, limit)
        else:
            steps = np.empty((longest(rows), self.lanes), self._arithmetic(rows, lane_states))
            ready(learn_coordinate, self.compiled, counted=False)(
                self.parts, batch, self.coordinates, lane_states, steps
            )
        states[self.models] = lane_states[: len(self.models)]
        if not all_models:
            predictions[:, self.columns] = scores[:, : len(self.models)]

    def _arithmetic(self, rows: Rows, states: Array) -> Any:
        """The type of s_j/L_j: the type of the coordinates, or float64 if float32 might overflow."""
        if self.coordinates.dtype == np.float64 or rows.data.size == 0:
            return self.coordinates.dtype
        ordinary = (
            rows.data.min() >= -LARGEST_FEATURE
            and rows.data.max() <= LARGEST_FEATURE
            and states[:, LAM].min() >= 1.0 / LARGEST_FEATURE
        )
        return np.float32 if ordinary else np.float64

    def _learn_alone(self, rows: Rows, labels: Array, weights: Array, states: Array, predictions: Array) -> None:
        """Learn a model without another of its kind."""
        m, psi = self.models[0], self.parts.psi
        state, scores = states[[m]], np.empty((len(labels), 1))
        y = np.ascontiguousarray(labels[:, [m if labels.shape[1] > 1 else 0]])
        learned = -1  # a model that has overflowed no longer learns
        if state[0, LOSS] < np.inf:
            batch = LabeledRows(rows, y, weights, scores)
            learned = learn_one_model(self.parts, batch, self.coordinates, state, self.compiled)
        if learned < len(y):
            state[0, LOSS], rest = np.inf, np.empty(len(y))
            predict_one_model(psi, state[0, LAM], rows, self.coordinates, rest, self.compiled)
            scores[learned + 1 :, 0] = rest[learned + 1 :]
        states[m], predictions[:, m] = state[0], scores[:, 0]


class LinearLearners(Engine):
    """Many linear models in one pass: a grid of updates and schedules, or one model for each class.

    The models share the loss and the regularizer; up to 16 that differ in the parameters of a built-in schedule alone
    are side by side in memory, and one walk over a row serves them all. Each is the
    :class:`giftrl.kernels.LinearLearner` with the same parts.

    Args:
        dimension: the number of features.
        settings: (update, schedule) for each model, as members or names.
        loss, regularizer, dtype, compiled: as for :class:`giftrl.kernels.LinearLearner`.

    >>> from giftrl import schedules
    >>> grid = [("proximal", schedules.TemporalVariability(beta)) for beta in (0.1, 1.0, 10.0)]
    >>> learners = LinearLearners(2, grid, "logistic", compiled=False)
    >>> _ = learners.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, -1.0, 1.0])
    >>> [round(c.loss_sum, 3) for c in learners.certificates]
    [2.079, 2.083, 2.097]
    """

    def __init__(
        self, dimension: int, settings: list[tuple[Any, Any]], loss: Any = "logistic",
        regularizer: Any = "squared_norm", *, dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dimension, losses.scalar(loss), regularizer, dtype, compiled)
        rule = "must name at least one model"
        require(len(settings) > 0, "settings", settings, rule, "give (update, schedule) pairs")
        self.settings = [
            (updates.BY_NAME.member(update, "pick"), schedules.BY_NAME.member(schedule, "lam"))
            for update, schedule in settings
        ]
        for setting in self.settings:
            check_parts(self.loss, self.regularizer, *setting)
        self.witnesses: list[RowReservoir] = []
        self._make_groups()
        self._allocate()
        self.states = self._start([schedule for _, schedule in self.settings])

    def _make_groups(self) -> None:
        """Group models with the same update and schedule up to the parameters of a built-in schedule."""
        kinds: dict[Any, list[int]] = {}
        encoded = [(encode_update(update), encode_schedule(schedule)) for update, schedule in self.settings]
        for m, (update, schedule) in enumerate(encoded):
            kind = schedule.code if isinstance(schedule, AnySchedule) else own_key(schedule)
            ahead = check_parts(self.loss, self.regularizer, *self.settings[m])
            kinds.setdefault((own_key(update), kind, ahead), []).append(m)
        self.groups: list[Group] = []
        for (_, _, ahead), members in kinds.items():
            update, schedule = encoded[members[0]]
            if len(members) == 1 or l1_strength(self.regularizer) > 0.0:
                for m in members:
                    parts = Parts(self.loss, self.regularizer, update, encoded[m][1], ahead)
                    self.groups.append(Group([m], parts, self.compiled))
                continue
            for models, side in split(members):
                numbers = [encoded[m][1] for m in models]
                if isinstance(numbers[0], AnySchedule):
                    numbers += numbers[:1] * (side.lanes() - len(models))
                    schedule = Schedules(numbers[0].code, np.array([each.numbers for each in numbers]).T.copy())
                parts = Parts(self.loss, self.regularizer, update, schedule, ahead, side)
                self.groups.append(Group(models, parts, self.compiled))

    def _allocate(self) -> None:
        for group in self.groups:
            group.allocate(self.dimension, self.dtype, self._beside(len(self.settings)))

    def _stored(self, features: Any) -> NDArray[Any]:
        """The stored numbers of some features: a row for each, and one or several numbers for each model."""
        parts = [group.read(features) for group in self.groups]
        stored = np.empty((len(parts[0]), len(self.settings), parts[0].shape[2]), self.dtype)
        for group, part in zip(self.groups, parts, strict=True):
            stored[:, group.models] = part
        return stored[:, :, 0] if self.uniform else stored

    @property
    def coordinates(self) -> NDArray[Any]:
        """A copy of the stored numbers, with a row for each feature."""
        return self._stored(slice(None))

    @coordinates.setter
    def coordinates(self, stored: NDArray[Any]) -> None:
        self.dimension = len(stored)
        self._make_groups()
        self._allocate()
        for group in self.groups:
            chosen = stored[:, group.models]
            group.write(chosen[:, :, None] if self.uniform else chosen)

    def grow(self, dimension: int) -> None:
        if dimension > self.dimension:
            self.dimension = dimension
            self._allocate()
            for each in self._reservoirs():
                each.grow(dimension)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "groups"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in state.items() if name != "coordinates"})
        self.coordinates = state["coordinates"].array()

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Learn from a batch, row by row, and return the predictions of every model, a column each.

        Args:
            x: a SciPy sparse matrix or array, or a matrix of numbers, one example a row.
            y: a label for each row, or a column of labels for each model (one class against the rest).
            weights: the importance of each example, 1 by default.
        """
        rows, n = as_rows(x, self.dimension, compiled=self.compiled)
        shape = (n, len(self.settings)) if np.ndim(y) == 2 else (n,)
        return self.learn_rows(rows, as_labels(self.loss, y, shape), as_weights(weights, n))

    def learn_rows(self, rows: Rows, y: Array, weights: Array) -> Array:
        """:meth:`learn` without checks."""
        labels, predictions = y.reshape(len(y), -1), np.empty((len(y), len(self.settings)))
        for group in self.groups:
            group.learn(rows, labels, weights, self.states, predictions)
        for m, each in enumerate(self._reservoirs()):
            own = np.ascontiguousarray(labels[:, min(m, labels.shape[1] - 1)])
            each.add(rows, own, weights, np.ascontiguousarray(predictions[:, m]))
        return predictions

    def keep_witnesses(self, nonzeros: int | None, constant: int | None = None) -> None:
        """Store examples for each model, as :meth:`LinearLearner.keep_witnesses`, with a shared budget."""
        require(self.rounds == 0, "nonzeros", nonzeros, "can be set before the first row only", "make a new learner")
        models = len(self.settings)
        self.witnesses = []
        each = 0 if nonzeros is None else as_budget(nonzeros) // models
        if each > 0:
            settings = (self.loss, self.dimension, each)
            self.witnesses = [RowReservoir(*settings, constant=constant, compiled=self.compiled) for _ in range(models)]

    def state(self) -> dict[str, NDArray[Any]]:
        every = enumerate(self._reservoirs())
        kept = {f"witnesses.{m}.{name}": array for m, each in every for name, array in each.state().items()}
        return self.own_state() | kept

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        for m, each in enumerate(self._reservoirs()):
            each.dimension, prefix = self.dimension, f"witnesses.{m}."
            each.restore({k.removeprefix(prefix): array for k, array in state.items() if k.startswith(prefix)})

    def _reservoirs(self) -> list[RowReservoir]:
        return self.witnesses

    def weights_of(self, features: Any) -> Array:
        chosen, lams = self._stored(features), self.states[:, LAM].tolist()
        return np.column_stack([point(self.regularizer, self.uniform, chosen[:, m], lam) for m, lam in enumerate(lams)])

    @property
    def certificates(self) -> list[Certificate]:
        """The certificate of each model."""
        evidence: list[Evidence | None] = [None] * len(self.states)
        stored = self.coordinates
        for m, each in enumerate(self._reservoirs()):
            evidence[m] = each.evidence(float(self.states[m, LOSS]), self.x[:, m])
        return [
            self._certificate(state, dual(self.regularizer, self.uniform, stored[:, m]), given)
            for m, (state, given) in enumerate(zip(self.states, evidence, strict=True))
        ]


def own_key(part: Any) -> Any:
    """A key of an update or schedule, including its type, since tuples of different types can be equal."""
    try:
        hash(part)
    except TypeError:
        return id(part)  # with an array: compared by identity
    return type(part), part


def split(models: list[int]) -> list[tuple[list[int], Any]]:
    """Split models into groups, each with the smallest sufficient number of lanes.

    >>> [(len(group), side) for group, side in split(list(range(21)))]
    [(16, Lanes16()), (5, Lanes8())]
    """
    groups = [models[k : k + 16] for k in range(0, len(models), 16)]
    return [(group, EVERY[next(lanes for lanes in (4, 8, 16) if lanes >= len(group))]) for group in groups]
