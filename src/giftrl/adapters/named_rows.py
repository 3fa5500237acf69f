"""Rows of named features for a linear learner that grows: names become coordinates as they are met."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from giftrl.certificates import Certificate
from giftrl.compiled.door import ready
from giftrl.compiled.rows import CSR
from giftrl.errors import InvalidInput, require
from giftrl.kernels.prepare import make_units, unit_rows
from giftrl.recipes import Recipe, freeze, make
from giftrl.recipes.blocks import blocks, canonical
from giftrl.recipes.learners import Experts, OneScore, experts_of
from giftrl.recipes.predictor import range_of

__all__ = ["NamedLearner"]

Array = NDArray[np.float64]
Numbers = NDArray[np.int32]

#: How many coordinates there is room for at first; doubled when they are used up.
FIRST_ROOM = 256


class _Slots(dict[Any, int]):
    """The coordinate of each name, from 1; a name that is new gets the next one. 0 is the constant."""

    def __missing__(self, name: Any) -> int:
        self[name] = slot = len(self) + 1
        return slot


class NamedLearner:
    """A mixture or a single learner whose features have names and need not be known ahead.

    Learning from many rows at once is, bit for bit, learning from them one by one: coordinates are numbered in the
    order in which names appear, and room for them is made at the same rows. Rows of weight 0 are as if they were not
    there.

    Args:
        recipe: which learner.
        normalize: "unit" to divide each row by its Euclidean norm, or None.
        intercept: whether each row has a constant feature 1.

    >>> learner = NamedLearner(Recipe("squared", beta=1.0))
    >>> for _ in range(100):
    ...     learner.learn_one({"size": 1.0, "age": -1.0}, 4.0)
    >>> round(learner.score_one({"size": 1.0, "age": -1.0, "new": 7.0}), 3)
    4.0
    """

    def __init__(self, recipe: Recipe, normalize: str | None = None, intercept: bool = True) -> None:
        self.learner: OneScore = make(recipe, FIRST_ROOM, constant=0 if intercept else None)
        self.unit = normalize == "unit"
        self.intercept = intercept
        self.slots = _Slots()
        self.weight_sum = 0.0
        self._by_number = np.empty(0, np.int32)
        # What a row of one needs, made once.
        self._one: tuple[float, ...] = (1.0,) if intercept else ()
        self._zero: tuple[int, ...] = (0,) if intercept else ()
        self._indptr, self._label, self._weight = np.zeros(2, np.int64), np.zeros(1), np.zeros(1)

    def learn_one(self, x: Mapping[Any, float], y: float, weight: float = 1.0) -> None:
        """Learn from one row."""
        if not 0.0 <= weight < math.inf:
            raise InvalidInput("w", weight, "must be finite and not negative", "w=1.0 is the default")
        values = self._values((x,), len(x))
        if weight == 0.0:
            return
        slots = np.fromiter(chain(map(self.slots.__getitem__, x), self._zero), np.int32, len(values))
        if len(self.slots) >= self.learner.dimension:
            self._grow(len(self.slots) + 1)
        self._label[0], self._weight[0] = y, weight
        self.learner.learn_rows(CSR(values, slots, self._bounds(len(values)), len(values)), self._label, self._weight)
        self.weight_sum += weight

    def learn_rows(self, rows: Sequence[Mapping[Any, float]], y: Array, weights: Array | None = None) -> None:
        """Learn from dictionaries, a row each."""
        weights = self._weights(weights, len(rows), y)
        values = self._values(rows, sum(map(len, rows)))
        if not weights.all():
            kept = np.flatnonzero(weights)
            self.learn_rows([rows[i] for i in kept.tolist()], y[kept], weights[kept])
            return
        getitem = self.slots.__getitem__
        named = chain.from_iterable(chain(map(getitem, x), self._zero) for x in rows)
        indptr = np.cumsum([0, *(len(x) + self.intercept for x in rows)])
        self._run(values, np.fromiter(named, np.int32, len(values)), indptr, y, weights)

    def learn_many(self, x: Any, names: Sequence[Any], y: Array, weights: Array | None = None) -> None:
        """Learn from a matrix, sparse or dense, whose columns have these names."""
        weights = self._weights(weights, x.shape[0], y)
        x = self._matrix(x)
        if not weights.all():
            kept = np.flatnonzero(weights)
            x, y, weights = x[kept], y[kept], weights[kept]
        slots = np.append(self._column_slots(x, names), np.int32(0))  # the constant is the column after the last
        for begin, end, rows in blocks(x, constant=self.intercept):
            if sparse.issparse(rows):
                values, found, indptr = rows.data, slots[rows.indices], rows.indptr.astype(np.int64)
            else:
                values, found = rows.reshape(-1), np.tile(slots[: rows.shape[1]], rows.shape[0])
                indptr = np.arange(rows.shape[0] + 1) * rows.shape[1]
            self._run(self._scaled(values, indptr), found, indptr, y[begin:end], weights[begin:end])

    def score_one(self, x: Mapping[Any, float], *, clip: bool = False) -> float:
        """<s, x_t> of one row, of which names that were never met count for nothing.

        With ``clip`` it stays in the range of the labels seen, where the learner keeps one.
        """
        values = self._values((x,), len(x))
        slots = np.fromiter(chain(map(self.slots.get, x, repeat(-1)), self._zero), np.int32, len(values))
        if len(slots) > 0 and slots.min() < 0:
            values, slots = values[slots >= 0], slots[slots >= 0]
        rows = CSR(values, slots, self._bounds(len(values)), len(values))
        score = float(self.learner.predict_rows(rows, 1)[0])
        if not clip:
            return score
        low, high = range_of(self.learner)
        return min(max(score, low), high)

    def score_many(self, x: Any, names: Sequence[Any], *, clip: bool = False) -> Array:
        """<s, x_t> of the rows of a matrix whose columns have these names; with ``clip``, in the range of labels."""
        x = self._matrix(x)
        model = freeze([self.learner], clip=clip)
        slots = np.array([self.slots.get(name, 0) for name in names], np.int64)
        known = np.where(slots[:, None] > 0, model.weights[slots], 0.0)
        return model._replace(weights=known, constants=model.weights[0]).scores(unit_rows(x) if self.unit else x)[:, 0]

    @property
    def weights(self) -> dict[Any, float]:
        """The weight of each feature by its name."""
        point = self.learner.x
        return {name: float(point[slot]) for name, slot in self.slots.items()}

    @property
    def constant(self) -> float:
        """The weight of the constant feature."""
        return float(self.learner.x[0])

    @property
    def average_loss(self) -> float:
        """The mean weighted loss of predictions made before each row was learnt."""
        return float(self.learner.loss_sums[0]) / self.weight_sum if self.weight_sum > 0.0 else math.nan

    @property
    def experts(self) -> Experts:
        """The experts of a mixture; an AttributeError where there is none."""
        return experts_of(self.learner)

    @property
    def certificate(self) -> Certificate:
        """What the run so far proves about itself; coordinates are the constant, then features as they came."""
        return self.learner.certificate

    def _values(self, rows: Sequence[Mapping[Any, float]], total: int) -> Array:
        """The values of rows, checked, with the constant last in each."""
        given = chain.from_iterable(chain(x.values(), self._one) for x in rows)
        try:
            values = np.fromiter(given, np.float64, total + self.intercept * len(rows))
        except (TypeError, ValueError):
            raise InvalidInput("x", rows[0], "must have numbers as values", "encode text and categories") from None
        # A sum of squares is finite only if its terms are: the quick look first.
        if not math.isfinite(values.dot(values)) and not np.isfinite(values).all():
            raise InvalidInput("x", rows[0], "must have finite values", "remove NaN and infinities")
        if not self.unit:
            return values
        return self._scaled(values, np.cumsum([0, *(len(x) + self.intercept for x in rows)]))

    def _bounds(self, length: int) -> NDArray[np.int64]:
        self._indptr[1] = length
        return self._indptr

    def _scaled(self, values: Array, indptr: NDArray[np.int64]) -> Array:
        """Rows divided by their norms, where that is wanted; the constant of each stays 1."""
        if self.unit:
            values = values.copy()
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
        """A matrix as float64, sparse or dense, checked; rows as dictionaries would have them."""
        x = canonical(x.tocsr()).astype(np.float64, copy=False) if sparse.issparse(x) else np.asarray(x, np.float64)
        data = x.data if sparse.issparse(x) else x
        require(bool(np.isfinite(data).all()), "X", x, "must have finite values", "remove NaN and infinities")
        return x

    def _column_slots(self, x: Any, names: Sequence[Any]) -> Numbers:
        """The coordinate of each column; new ones in the order in which entries are met, row by row."""
        if not sparse.issparse(x):
            return np.fromiter(map(self.slots.__getitem__, names if len(x) > 0 else ()), np.int32)
        slots = self._numbered(len(names)) if isinstance(names, range) else np.full(len(names), -1, np.int32)
        unknown = x.indices[slots[x.indices] < 0]
        # Where each column is met first: of several numbers that are written to one place the last one stays.
        first = np.full(len(names), -1)
        first[unknown[::-1]] = np.arange(len(unknown))[::-1]
        columns = np.flatnonzero(first >= 0)
        columns = columns[np.argsort(first[columns])]
        met = columns.tolist() if isinstance(names, range) else [names[j] for j in columns.tolist()]
        fresh = [name for name in met if name not in self.slots]
        self.slots.update(zip(fresh, range(len(self.slots) + 1, len(self.slots) + len(fresh) + 1), strict=True))
        slots[columns] = np.fromiter(map(self.slots.__getitem__, met), np.int32, len(met))
        return slots[: len(names)]

    def _numbered(self, count: int) -> Numbers:
        """The coordinates of features that are named by numbers from 0, -1 where not known; room for this many."""
        if len(self._by_number) < count:
            more = np.full(count - len(self._by_number), -1, np.int32)
            self._by_number = np.concatenate([self._by_number, more])
        return self._by_number

    def _run(self, values: Array, slots: Numbers, indptr: NDArray[np.int64], y: Array, weights: Array) -> None:
        """Learn from rows, making room for new coordinates when a row needs it."""
        begin, n = 0, len(y)
        while begin < n:
            end = n
            if len(slots) > 0 and int(slots.max()) >= self.learner.dimension:
                beyond = int(np.argmax(slots >= self.learner.dimension))
                end = int(np.searchsorted(indptr, beyond, side="right")) - 1
                if end <= begin:
                    self._grow(int(slots[indptr[begin] : indptr[begin + 1]].max()) + 1)
                    continue
            first, last = indptr[begin], indptr[end]
            bounds = indptr[begin : end + 1] - first
            before = self.learner.rounds
            rows = CSR(values[first:last], slots[first:last], bounds, int(np.diff(bounds).max()))
            try:
                self.learner.learn_rows(rows, y[begin:end], weights[begin:end])
            finally:
                # One after the other, as rows that come one by one are added; where one overflows, those before it.
                learnt = weights[begin : begin + self.learner.rounds - before].tolist()
                self.weight_sum = float(np.cumsum([self.weight_sum, *learnt])[-1])
            begin = end

    def _grow(self, wanted: int) -> None:
        room = self.learner.dimension
        while room < wanted:
            room *= 2
        self.learner.grow(room)
