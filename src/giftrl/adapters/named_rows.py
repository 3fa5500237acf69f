"""Examples with named features for a learner whose number of features grows as new names appear."""

import math
import struct
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from giftrl.compiled.compiler import ready
from giftrl.compiled.rows import CSR, all_finite, blocks, each_once, make_units, unit_rows
from giftrl.config import Recipe, freeze, make
from giftrl.config.predictor import range_of
from giftrl.config.recipe import OneScore
from giftrl.errors import InvalidInput, require
from giftrl.kernels.base import sparse_row

Array = NDArray[np.float64]
Numbers = NDArray[np.int32]

#: Rule and remedy of the error for values that are not finite numbers.
NOT_FINITE = "must have finite numbers as values", "encode text, and remove NaN"
#: Exceptions of ``struct.pack`` for values that are not numbers.
NO_NUMBERS = (struct.error, OverflowError, TypeError, ValueError)
#: Initial capacity for coordinates; doubled when exhausted.
FIRST_CAPACITY = 256


class NamedLearner:
    """A mixture or a single learner for named features that need not be known in advance.

    Learning from a batch equals learning from its examples one by one, bit for bit. Coordinates are numbered from 1 in
    the order in which names appear; coordinate 0 is the constant. Examples of weight 0 are ignored. With
    ``normalize="unit"`` each example is divided by its Euclidean norm.

    >>> learner = NamedLearner(Recipe("squared", beta=1.0))
    >>> for _ in range(100):
    ...     learner.learn_one({"size": 1.0, "age": -1.0}, 4.0)
    >>> round(learner.score_one({"size": 1.0, "age": -1.0, "new": 7.0}), 3)
    4.0
    """

    def __init__(self, recipe: Recipe, normalize: str | None = None, intercept: bool = True) -> None:
        self.learner: OneScore = make(recipe, FIRST_CAPACITY, constant=0 if intercept else None)
        self.unit = normalize == "unit"
        self.intercept = intercept
        self.slots: dict[Any, int] = {}  # the coordinate of each name, from 1
        self.weight_sum = 0.0
        self._by_number = np.empty(0, np.int32)
        self._writers: list[RowWriter] = []  # idle writers, for the next thread that needs one

    def learn_one(self, x: Mapping[Any, float], y: float, weight: float = 1.0) -> None:
        """Learn from one example."""
        if not 0.0 <= weight < math.inf:
            raise InvalidInput("w", weight, "must be finite and not negative", "w=1.0 is the default")
        writer = self._written(x)
        if weight > 0.0:
            if not writer.name(x, self.slots):
                self._entered(x)
                self._grow(len(self.slots) + 1)
                writer.name(x, self.slots)
            writer.row.label[0], writer.row.weight[0] = y, weight
            self.learner.learn_row(writer.row)
            self.weight_sum += weight
        self._writers.append(writer)

    def learn_rows(self, rows: Sequence[Mapping[Any, float]], y: Array, weights: Array | None = None) -> None:
        """Learn from dictionaries, one for each example."""
        weights = self._weights(weights, len(rows), y)
        every, constant = [self._values(row) for row in rows], (0,) if self.intercept else ()
        kept = np.flatnonzero(weights)
        values = [np.empty(0), *(every[i] for i in kept.tolist())]
        slots = [np.empty(0, np.int32), *(self._entered(rows[i], *constant) for i in kept.tolist())]
        indptr = np.cumsum([len(each) for each in values], dtype=np.int64)
        row_values = self._scaled(np.concatenate(values), indptr)
        self._run(row_values, np.concatenate(slots), indptr, y[kept], weights[kept])

    def learn_many(self, x: Any, names: Sequence[Any], y: Array, weights: Array | None = None) -> None:
        """Learn from a sparse or dense matrix with these column names."""
        weights = self._weights(weights, x.shape[0], y)
        x = self._matrix(x)
        if not weights.all():
            kept = np.flatnonzero(weights)
            x, y, weights = x[kept], y[kept], weights[kept]
        slots = np.append(self._column_slots(x, names), np.int32(0))  # the constant is the column after the last
        for begin, end, rows in blocks(x, constant=self.intercept, unit=self.unit):
            if isinstance(rows, CSR):
                columns, indptr = slots[rows.indices], rows.indptr
            else:
                columns = np.tile(slots[: rows.dimension], end - begin)
                indptr = np.arange(end - begin + 1) * rows.dimension
            self._run(rows.data, columns, indptr, y[begin:end], weights[begin:end])

    def score_one(self, x: Mapping[Any, float], *, clip: bool = False) -> float:
        """Return <s, x_t> of one example. Unknown names are ignored.

        With ``clip`` it is clipped to the range of the labels seen, if the learner tracks one.
        """
        writer = self._written(x)
        if not writer.name(x, self.slots):
            writer.leave_out()
        score = self.learner.score_row(writer.row)
        self._writers.append(writer)
        if not clip:
            return score
        low, high = range_of(self.learner)
        return min(max(score, low), high)

    def score_many(self, x: Any, names: Sequence[Any], *, clip: bool = False) -> Array:
        """Return <s, x_t> of the rows of a matrix with these column names; ``clip`` as for :meth:`score_one`."""
        x = self._matrix(x)
        model = freeze([self.learner], clip=clip)
        slots = np.array([self.slots.get(name, 0) for name in names], np.int64)
        weights = np.where(slots[:, None] > 0, model.weights[slots], 0.0)
        model = model._replace(weights=weights, constants=model.weights[0])
        return model.scores(unit_rows(x) if self.unit else x)[:, 0]

    def _values(self, x: Mapping[Any, float]) -> Array:
        """Return the values of an example, and 1 for the constant."""
        ones = (1.0,) if self.intercept else ()
        try:
            values = np.frombuffer(struct.pack(f"{len(x) + len(ones)}d", *x.values(), *ones))
        except NO_NUMBERS:
            values = np.array([math.inf])
        if not all_finite(values):
            raise InvalidInput("x", x, *NOT_FINITE)
        return values

    def _entered(self, names: Collection[Any], *constant: int) -> Numbers:
        """Return the coordinates of names and of the constant. New names get the next free coordinates."""
        size = len(names) + len(constant)
        try:
            return np.fromiter(chain(map(self.slots.__getitem__, names), constant), np.int32, size)
        except KeyError:
            for name in names:
                self.slots.setdefault(name, len(self.slots) + 1)
            return self._entered(names, *constant)

    def _written(self, x: Mapping[Any, float]) -> "RowWriter":
        """Return a buffer with the values of an example; its coordinates are not set yet."""
        size = len(x) + self.intercept
        try:
            writer = self._writers.pop()
        except IndexError:
            writer = RowWriter(self.learner, size, self.intercept)
        if writer.capacity < size:
            writer = RowWriter(self.learner, 2 * size, self.intercept)
        if not writer.put(x):
            raise InvalidInput("x", x, *NOT_FINITE)
        if self.unit:
            self._scaled(writer.row.values, writer.row.rows.value.indptr)
        return writer

    def _scaled(self, values: Array, indptr: NDArray[np.int64]) -> Array:
        """Divide each example by its norm, in place, for ``normalize="unit"``; its constant stays 1."""
        if self.unit:
            ready(make_units)(values, indptr[:-1], indptr[1:] - self.intercept)
        return values

    def _weights(self, weights: Array | None, n: int, y: Array) -> Array:
        require(y.shape == (n,), "y", y.shape, f"must have a label for each of the {n} rows", "check both")
        if weights is None:
            return np.ones(n)
        good = bool(weights.shape == (n,) and np.isfinite(weights).all() and (weights >= 0.0).all())
        require(good, "w", weights, f"must be {n} finite numbers, none of them negative", "w=1.0 is the default")
        return weights

    def _matrix(self, x: Any) -> Any:
        """Return a validated float64 matrix in which each row names a feature at most once."""
        x = each_once(x.tocsr()).astype(np.float64, copy=False) if sparse.issparse(x) else np.asarray(x, np.float64)
        data = x.data if sparse.issparse(x) else x
        require(bool(np.isfinite(data).all()), "X", x, "must have finite values", "remove NaN and infinities")
        return x

    def _column_slots(self, x: Any, names: Sequence[Any]) -> Numbers:
        """Return the coordinate of each column. New names are numbered in the order of entries, row by row."""
        if not sparse.issparse(x):
            return self._entered(names if len(x) > 0 else ())
        slots = np.full(len(names), -1, np.int32)
        if isinstance(names, range):  # names that are numbers have a table of their own, -1 for those not known yet
            slots[: len(self._by_number)] = self._by_number[: len(names)]
            self._by_number = slots = np.append(slots, self._by_number[len(names) :])
        columns, first = np.unique(x.indices[slots[x.indices] < 0], return_index=True)
        columns = columns[np.argsort(first)]
        slots[columns] = self._entered([names[j] for j in columns.tolist()])
        return slots[: len(names)]

    def _run(self, values: Array, slots: Numbers, indptr: NDArray[np.int64], y: Array, weights: Array) -> None:
        """Learn from examples whose names have coordinates."""
        if len(y) == 0:
            return
        self._grow(int(slots.max(initial=0)) + 1)
        before = self.learner.rounds
        try:
            self.learner.learn_rows(CSR(values, slots, indptr, int(np.diff(indptr).max(initial=0))), y, weights)
        finally:
            # Added one by one, as learn_one does; after an overflow, only the examples before it count.
            learnt = weights[: self.learner.rounds - before].tolist()
            self.weight_sum = float(np.cumsum([self.weight_sum, *learnt])[-1])

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_writers": []}

    def _grow(self, wanted: int) -> None:
        """Double the capacity until it suffices."""
        capacity = self.learner.dimension
        while capacity < wanted:
            capacity *= 2
        if capacity > self.learner.dimension:
            self.learner.grow(capacity)


class RowWriter:
    """A buffer for one example at a time; fast when consecutive examples have the same feature names.

    It has room for ``capacity`` entries; with ``constant``, the last one is the constant, whose coordinate is 0.
    """

    def __init__(self, learner: OneScore, capacity: int, constant: bool) -> None:
        self.capacity, self.row = capacity, learner.one_row(sparse_row(capacity))
        self.row.end(0)
        self._constant = (1.0,) if constant else ()
        self._features = self.row.rows.value.indices
        self._names: list[Any] | None = None  # the names whose coordinates are set
        self._form = struct.Struct("0d")

    def put(self, x: Mapping[Any, float]) -> bool:
        """Write the values of an example; return False if one is not a finite number."""
        size, values = len(x) + len(self._constant), cast("Any", self.row.values)
        if size != self.row.width:
            self.row.end(size)
            self._form = struct.Struct(f"{size}d")  # faster than NumPy, which converts numbers one by one
        try:
            self._form.pack_into(values, 0, *x.values(), *self._constant)
        except NO_NUMBERS:
            return False
        # The sum of finite numbers is finite, unless it overflows.
        return math.isfinite(sum(self._form.unpack_from(values))) or all_finite(values[:size])

    def name(self, x: Mapping[Any, float], slots: Mapping[Any, int]) -> bool:
        """Write the coordinates of an example; return False if a name is unknown (its coordinate is then 0)."""
        names = list(x)
        if names != self._names:
            coordinates = [slots.get(name, 0) for name in names]
            self._features[: len(names)] = coordinates
            self._features[len(names) : self.row.width] = 0
            self._names = None if 0 in coordinates else names
        return self._names is not None

    def leave_out(self) -> None:
        """Set the values of unknown names to 0."""
        own = self.row.width - len(self._constant)
        self.row.values[:own][self._features[:own] == 0] = 0.0
