"""A random sample of examples within a budget of nonzeros, and sums over the others.

Examples are stored within the budget. Beyond it each one has a key log(U) / (h phi''), with U a random number from
(0, 1), and the examples with the largest keys stay: a random sample in which an example's chance grows with its
curvature (Efraimidis and Spirakis 2006). U is a function of the example's number, so any split into batches leads to
the same sample.

Workers learn different examples at the same time. Before a round the driver sends them its sums over committed
examples, because duals are steered by them, and the key that an example must exceed to be stored. A worker stores and
commits its own examples, and sends them back with its sums (:class:`WorkerSums`). The driver adds up what workers have
added, and drops examples if there are too many. Any dual of a committed example gives a valid bound, so bounds hold for
any split of the examples.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import row_record as at
from giftrl.certificates.dual_choice import ScalarDuals, VectorDuals, commit, curvature
from giftrl.certificates.evidence import Evidence, positive_squares
from giftrl.certificates.moments import MAX_FEATURES, Moments
from giftrl.certificates.row_record import PER_EXAMPLE, RowRecord, ScoredRows
from giftrl.compiled.compiler import Loop, ready
from giftrl.compiled.rows import CSR, begin, column, end
from giftrl.errors import require
from giftrl.losses.based import Based
from giftrl.ops import formula
from giftrl.system import zeros

Arrays = dict[str, NDArray[Any]]
NO_NUMBERS = np.zeros(0)
#: The default budget in nonzeros: about 12 megabytes.
DEFAULT_BUDGET = 1_000_000
#: The share of the budget still used after a drop; many examples are dropped at once, so that drops are rare.
REMAINING_SHARE = 0.6
#: The key of an example without curvature: below all other keys, above NO_THRESHOLD.
KEY_WITHOUT_CURVATURE = -1e308
#: The threshold while every example is stored: below every key, but not -inf, since workers always compute keys.
LOWEST_THRESHOLD = -1.5e308
#: The sums over committed examples that are additive over workers.
ADDED_SUMS = slice(at.COMMITTED_COUNT, at.SUMS_LENGTH)
LOW_BITS = 0xFFFFFFFF


class WorkerSums(NamedTuple):
    """Sums over committed examples, at some features; from a worker, also its stored examples.

    The sums of a worker include its initial sums.
    """

    features: NDArray[np.int64]  # feature numbers, ascending
    by_feature: NDArray[np.float64]  # of the record; empty if nothing is committed
    sums: NDArray[np.float64]  # of the record
    first: int = 0  # the number of the worker's first example
    stored: RowRecord | None = None  # the record with stored examples alone
    moments: Moments | None = None  # of examples neither stored nor committed


class RowReservoir:
    """Examples stored within a budget, and sums over the others.

    Any split into batches leads to the same state, bit by bit.

    Args:
        loss: of one prediction or of K scores.
        dimension: the number of features.
        budget: the most nonzeros to store; an example costs one more, and its K scores K.
        classes: K, or None for one prediction.
        constant: the feature that is 1 in every example, or None.
        compiled: False runs the loops as plain Python.

    >>> from giftrl.losses import Squared
    >>> from giftrl.compiled.rows import as_rows
    >>> reservoir = RowReservoir(Squared(), 1, 10, compiled=False)
    >>> rows, _ = as_rows([[1.0], [2.0], [0.0], [1.0]], 1)
    >>> reservoir.add(rows, np.array([1.0, 2.0, 0.0, 1.0]), NO_NUMBERS, np.zeros(4))
    >>> reservoir.rows, reservoir.stored
    (4, 4)
    """

    def __init__(
        self, loss: Any, dimension: int, budget: int = DEFAULT_BUDGET, *, classes: int | None = None,
        constant: int | None = None, compiled: bool = True,
    ) -> None:  # fmt: skip
        self.loss, self.dimension, self.budget = loss, dimension, as_budget(budget)
        self.classes, self.constant, self.compiled = classes, constant, compiled
        self.kind: Any = ScalarDuals() if classes is None else VectorDuals(float(classes))
        self.record = RowRecord.empty(self.budget, classes)
        self.moments: Moments | None = None  # of examples neither stored nor committed
        self._lent = False  # True if evidence refers to the arrays of the record

    @property
    def rows(self) -> int:
        """The number of examples of positive weight."""
        return int(self.record.sums[at.EXAMPLE_COUNT])

    @property
    def stored(self) -> int:
        """The number of stored examples."""
        return self.record.stored

    @property
    def committed_features(self) -> NDArray[np.int64]:
        """The features of committed examples, in order."""
        return np.flatnonzero(self.record.by_feature.any(axis=1))

    def add(
        self, rows: Any, labels: NDArray[Any], weights: NDArray[Any], scores: NDArray[Any], loss: Any = None
    ) -> None:
        """Add examples and the linear predictions for them; ``loss`` is given if it has offsets."""
        n, bases = len(labels), NO_NUMBERS
        if isinstance(loss, Based):
            labels, bases = loss.labels[:n], loss.bases[:n]
        given = ScoredRows(rows, labels, weights, scores.reshape(n, self.record.scores.shape[1]), bases)
        loop = self._loop
        loop(self.kind, self.loss, self.record, given, 0)
        while self.record.sums[at.LOOP_NEEDS]:
            first = int(self.record.sums[at.NEXT_ROW])
            self._provide(given, first)
            loop(self.kind, self.loss, self.record, given, first)

    def bind(self, rows: Any, label: Any, weight: Any, score: Any) -> Callable[[], None]:
        """A function that adds one example at a time, from memory that is overwritten for each."""
        given = ScoredRows(rows, label, weight, score.reshape(1, -1), NO_NUMBERS)
        add: Any = None
        bound_to: RowRecord | None = None

        def call() -> None:
            nonlocal add, bound_to
            while True:
                if bound_to is not self.record:
                    bound_to = self.record
                    add = self._loop.bind(self.kind, self.loss, bound_to, given, 0)
                add()
                if not bound_to.sums.item(at.LOOP_NEEDS):
                    return
                self._provide(given, 0)

        return call

    @property
    def _loop(self) -> Loop:
        return ready(add_rows, self.compiled, counted=False)

    def _provide(self, given: Any, i: int) -> None:
        """Handle the request with which the loop stopped at row i."""
        record, needs, size = self.record, self.record.sums[at.LOOP_NEEDS], count_entries(given.rows, i)
        if needs == at.NEEDS_LONGER_ARRAYS:
            needed, entries, examples = int(record.ends[self.stored]) + size, len(record.data), len(record.labels)
            if needed > entries:
                entries = max(needed, min(max(8 * entries, 1024), self.budget))
            if self.stored >= examples:
                examples = min(max(64, 4 * examples), self.budget)
            self.record = record.resized(entries, examples)
        elif needs == at.NEEDS_BUDGET:
            self.drop(min(REMAINING_SHARE * self.budget, self.budget - self.kind.cost - size))
        else:
            self.open_sums()

    def open_sums(self) -> None:
        """Allocate the sums by feature, which the first committed example needs."""
        if len(self.record.by_feature) == 0:
            columns = self.record.by_feature.shape[1]
            self.record = self.record._replace(by_feature=zeros((self.dimension, columns)))

    def drop(self, remaining: float) -> None:
        """Commit examples until the rest costs at most this; or replace all by equivalent second moments."""
        if self._lent:
            self.record = self.record.resized(len(self.record.data), len(self.record.labels), copy=True)
            self._lent = False
        if self.record.sums[at.COMMITTED_COUNT] == 0.0:
            moments = Moments.of(self.loss, self.record.examples, self.constant, self.moments)
            if moments is not None:
                self.moments = moments
                self.record.sums[[at.STORED_COUNT, at.STORED_COST]] = 0.0
                return
        self.commit_moments()
        self.open_sums()
        sizes, stored = np.diff(self.record.ends[: self.stored + 1]), self.stored_rows()
        if not self.record.sampled:
            self.assign_keys(stored)
        record, count = self.record, self.stored
        keys, costs, stay = record.keys[:count], sizes + self.kind.cost, np.ones(count, bool)
        share = min(1.0, remaining / costs.sum())
        while costs[stay].sum() > remaining:  # once, if examples have about the same size
            place = count - int(share * count)
            record.sums[at.KEY_THRESHOLD] = np.partition(keys, place - 1)[place - 1]
            stay, share = keys > record.sums[at.KEY_THRESHOLD], 0.95 * share
        ready(commit_rows, self.compiled, counted=False)(self.kind, self.loss, record, stored, stay)
        entries = np.repeat(stay, sizes)
        arrays = dict.fromkeys(("data", "indices"), entries) | dict.fromkeys((*PER_EXAMPLE, "keys"), stay)
        for name, chosen in arrays.items():
            values = getattr(record, name)[: len(chosen)][chosen]
            getattr(record, name)[: len(values)] = values
        ends = np.append(0, np.cumsum(sizes[stay]))
        record.ends[: len(ends)] = ends
        record.sums[[at.STORED_COUNT, at.STORED_COST]] = len(ends) - 1, costs[stay].sum()

    def stored_rows(self) -> ScoredRows:
        """The stored examples as rows of a batch."""
        record, ends = self.record, self.record.ends[: self.stored + 1].copy()
        rows = CSR(record.data, record.indices, ends, int(np.diff(ends).max()))
        return ScoredRows(rows, record.labels, record.weights, record.scores, NO_NUMBERS)

    def assign_keys(self, stored: ScoredRows) -> None:
        """Compute the keys of the stored examples, which the first dropped example needs."""
        self.record = self.record._replace(keys=np.empty(len(self.record.labels)))
        ready(fill_keys, self.compiled, counted=False)(self.kind, self.loss, self.record, stored, self.stored)

    def commit_moments(self) -> None:
        """Commit examples that are stored as second moments."""
        if self.moments is not None:
            self.open_sums()
            add_moments(self.record.by_feature, self.record.sums, self.moments, self.moments.features)
            self.moments = None

    def grow(self, dimension: int) -> None:
        """Add features up to this number."""
        old, self.dimension = self.record.by_feature, max(self.dimension, dimension)
        if dimension > len(old) > 0:
            larger = zeros((dimension, old.shape[1]))
            larger[: len(old)] = old
            self.record = self.record._replace(by_feature=larger)

    @np.errstate(all="ignore")
    def evidence(self, loss_sum: float, model: NDArray[Any], merged: bool = False) -> Evidence:
        """A snapshot of the evidence.

        Args:
            loss_sum, model: the loss of the run, and its weights.
            merged: True if sums of workers were added up.
        """
        self._lent = True
        examples, sums, moments = self.record.examples, self.record.sums.copy(), self.moments
        if moments is not None and sums[at.COMMITTED_COUNT] == 0.0:
            exact = Moments.of(self.loss, examples, self.constant, moments)
            if exact is not None:
                return Evidence.of_moments(self.loss, exact, model, loss_sum)
        committed, seen = self.committed_features, np.zeros(self.dimension, bool)
        parts: list[Any] = [examples.indices, committed, [] if self.constant is None else self.constant]
        for numbers in [*parts, moments.features] if moments else parts:
            seen[numbers] = True
        features = np.flatnonzero(seen)
        by_feature = np.zeros((len(features), self.record.by_feature.shape[1]))
        by_feature[np.searchsorted(features, committed)] = self.record.by_feature[committed]
        if merged:
            # A sum over n examples is rounded n times, and twice per worker and round. A contributing worker has
            # committed at least one example, so there are at most 3 n roundings: the rounding allowances triple.
            sums[at.DUAL_SQUARES] *= 9.0
            sums[at.CONJUGATE_SIZE] *= 3.0
        if moments is not None:
            add_moments(by_feature, sums, moments, np.searchsorted(features, moments.features))
        places = np.zeros(self.dimension, np.int32)
        places[features] = np.arange(len(features), dtype=np.int32)
        examples = examples._replace(indices=places[examples.indices])
        h = np.repeat(examples.weights, np.diff(examples.indptr))
        count, (indices, data) = len(features), (examples.indices, examples.data)
        squares = np.bincount(indices, h * data * data, count) + by_feature[:, at.SQUARES_COLUMN]
        weight = float(examples.weights.sum() + sums[at.COMMITTED_WEIGHT])
        return Evidence(
            self.loss, examples, features, model,
            theta=by_feature[:, at.THETA_COLUMN:].reshape(count, *model.shape[1:]),
            squares=positive_squares(squares, weight),
            sums=np.bincount(indices, h * data, count) + by_feature[:, at.SUMS_COLUMN],
            weight=weight, loss_sum=loss_sum, conjugate=float(sums[at.CONJUGATE_SUM]),
            conjugate_size=float(sums[at.CONJUGATE_SIZE]), dual_squares=float(sums[at.DUAL_SQUARES]),
            infimum=float(sums[at.INFIMUM_SUM]), committed=int(sums[at.COMMITTED_COUNT]),
            constant=None if self.constant is None else int(np.searchsorted(features, self.constant)),
        )  # fmt: skip

    def sums_at(self, features: NDArray[np.int64]) -> WorkerSums:
        """The sums at these features, the initial sums of workers."""
        by_feature = self.record.by_feature
        return WorkerSums(features, by_feature[features] if len(by_feature) else by_feature, self.record.sums.copy())

    def worker(self, first: int) -> "RowReservoir":
        """A reservoir with these sums for a worker; ``first`` is the number of its first example."""
        settings: dict[str, Any] = {"classes": self.classes, "constant": self.constant, "compiled": self.compiled}
        made = RowReservoir(self.loss, self.dimension, self.budget, **settings)
        made.begin_round(self.sums_at(self.committed_features), first)
        return made

    def begin_round(self, given: WorkerSums, first: int) -> None:
        """Start a worker's round: no examples, and updated sums at changed features."""
        if len(given.by_feature):
            self.open_sums()
            self.record.by_feature[given.features] = given.by_feature
        sums = given.sums.copy()
        sums[[at.STORED_COUNT, at.STORED_COST]], sums[at.EXAMPLE_COUNT] = 0.0, first
        sums[at.KEY_THRESHOLD] = max(sums[at.KEY_THRESHOLD], LOWEST_THRESHOLD)
        self.record = self.record._replace(sums=sums, keys=np.empty(len(self.record.labels)))
        self.moments = None

    def reply(self, features: NDArray[np.int64], first: int) -> WorkerSums:
        """A worker's sums and examples; ``features`` include the features of its examples."""
        stored = self.record.trimmed()._replace(by_feature=NO_NUMBERS, work=NO_NUMBERS)
        return self.sums_at(features)._replace(first=first, stored=stored, moments=self.moments)

    def gather(self, replies: Sequence[WorkerSums]) -> NDArray[np.int64]:
        """Add the examples and sums of all workers; return further features whose sums changed."""
        if any(len(reply.by_feature) for reply in replies):
            self.open_sums()
        self._add_sums(replies)
        self._add_examples([reply.stored for reply in replies if reply.stored is not None])
        changes, changed = self.watch_changes(), [np.zeros(0, np.int64)]
        if self.record.sums[at.STORED_COST] > self.budget:
            self.drop(REMAINING_SHARE * self.budget)
            changed.append(changes())
        parts = [part for part in (self.moments, *(reply.moments for reply in replies)) if part is not None]
        self.moments = moments = reduce(Moments.merge, parts) if parts else None
        if moments and (self.record.sums[at.COMMITTED_COUNT] > 0.0 or len(moments.features) > MAX_FEATURES):
            self.commit_moments()
            changed.append(moments.features)
        return np.concatenate(changed)

    def watch_changes(self) -> Callable[[], NDArray[np.int64]]:
        """Start tracking; returns a function that gives the features whose sums have changed since then."""
        before, moments = self.record.sums[at.KEY_THRESHOLD], self.moments
        features = self.record.examples.indices.astype(np.int64)
        if moments is not None:
            features = np.concatenate([features, moments.features])

        def changes() -> NDArray[np.int64]:
            same = self.record.sums[at.KEY_THRESHOLD] == before
            return features[:0] if same and (moments is None or self.moments is not None) else features

        return changes

    def _add_sums(self, replies: Sequence[WorkerSums]) -> None:
        """Add the sums of workers; the sums of a single worker are copied."""
        record = self.record
        examples = record.sums[at.EXAMPLE_COUNT] + sum(reply.sums[at.EXAMPLE_COUNT] - reply.first for reply in replies)
        features, by_feature, total = replies[0][:3]
        if len(replies) > 1:
            features = np.unique(np.concatenate([reply.features for reply in replies]))
            _, base, sums, *_ = self.sums_at(features)
            by_feature, total = base.copy(), sums.copy()
            for reply in replies:
                if len(reply.by_feature):
                    where = np.searchsorted(features, reply.features)
                    by_feature[where] += reply.by_feature - base[where]
                total[ADDED_SUMS] += reply.sums[ADDED_SUMS] - sums[ADDED_SUMS]
        if len(by_feature):
            record.by_feature[features] = by_feature
        record.sums[ADDED_SUMS], record.sums[at.EXAMPLE_COUNT] = total[ADDED_SUMS], examples

    def _add_examples(self, stored: list[RowRecord]) -> None:
        """Add the examples that workers have stored."""
        threshold = max(part.sums[at.KEY_THRESHOLD] for part in stored)
        all_stored = not self.record.sampled and threshold <= LOWEST_THRESHOLD
        if not (self.record.sampled or all_stored) and self.stored:  # a worker exceeded the budget
            self.assign_keys(self.stored_rows())
        parts = [self.record.trimmed(), *stored]
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices", *PER_EXAMPLE)
        }
        arrays["keys"] = NO_NUMBERS if all_stored else np.concatenate([part.keys for part in parts])
        sizes = np.concatenate([np.diff(part.ends) for part in parts])
        sums = self.record.sums
        sums[at.STORED_COUNT], sums[at.STORED_COST] = len(sizes), sizes.sum() + len(sizes) * self.kind.cost
        sums[at.KEY_THRESHOLD] = -np.inf if all_stored else max(sums[at.KEY_THRESHOLD], threshold)
        self.record, self._lent = self.record._replace(ends=np.append(0, np.cumsum(sizes)), **arrays), False

    def state(self) -> Arrays:
        """The arrays for :meth:`restore`, which continues bit by bit."""
        return self.record.state() | ({} if self.moments is None else self.moments.state())

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of a reservoir of the same learner."""
        record = self.record.restored(state, self.kind.cost, self.dimension)
        self.record, self.moments = record, Moments.restore(state, self.dimension, self.constant)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without spare capacity, and with sums of committed features only."""
        record, seen = self.record.trimmed(), self.committed_features
        record = record._replace(by_feature=record.by_feature[seen])
        return self.__dict__ | {"record": record, "seen": (seen, len(self.record.by_feature))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        seen, length = state.pop("seen")
        self.__dict__.update(state)
        by_feature = np.zeros((length, self.record.by_feature.shape[1]))
        by_feature[seen] = self.record.by_feature
        self.record = self.record._replace(by_feature=by_feature)


def as_budget(budget: Any) -> int:
    """A budget of nonzeros, checked."""
    whole = isinstance(budget, (int, np.integer)) and not isinstance(budget, bool) and 0 <= int(budget) < 2**40
    rule = "must be a whole number of nonzeros, not negative, or None for no certificate of the best loss"
    require(whole, "witness_nonzeros", budget, rule, f"try {DEFAULT_BUDGET}")
    return int(budget)


def add_moments(by_feature: NDArray[Any], sums: NDArray[Any], moments: Moments, places: NDArray[np.int64]) -> None:
    """Commit examples given by their second moments; ``places`` are the rows of their features in ``by_feature``."""
    theta, *added = moments.committed().values()
    # The columns H, sums of h s^2 and of h s, and theta.
    by_feature[places] += np.column_stack([moments.squares, moments.squares, moments.sums, theta])
    committed = [at.COMMITTED_COUNT, at.COMMITTED_WEIGHT, at.CONJUGATE_SUM, at.CONJUGATE_SIZE, at.DUAL_SQUARES]
    sums[committed] += [moments.rows, moments.weight, *added]


# -- loops --


@formula
def chance(number: int) -> float:
    """U in (0, 1) for the example with this number: a hash of its bits."""
    x = (number & LOW_BITS) ^ ((number >> 32) * 0x7FEB352D & LOW_BITS)
    for _ in range(2):
        x = (x + 0x1E3779B9) & LOW_BITS
        x = ((x ^ (x >> 16)) * 0x7FEB352D) & LOW_BITS
        x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & LOW_BITS
        x = x ^ (x >> 16)
    return (x + 0.5) / 4294967296.0


@formula
def count_entries(rows: Any, i: int) -> int:
    """The number of nonzero entries of row i."""
    count = 0
    for k in range(begin(rows, i), end(rows, i)):
        count += 1 if rows.data[k] != 0.0 else 0
    return count


@formula
def store_row(record: Any, given: Any, i: int, y: Any, h: float) -> int:
    """Store row i, and return the number of its entries."""
    slot = int(record.sums[at.STORED_COUNT])
    first = record.ends[slot]
    place = first
    for k in range(begin(given.rows, i), end(given.rows, i)):
        s = np.float64(given.rows.data[k])
        if s != 0.0:
            record.data[place], record.indices[place] = s, column(given.rows, i, k)
            place += 1
    record.ends[slot + 1], record.labels[slot], record.weights[slot] = place, y, h
    for m in range(record.scores.shape[1]):
        record.scores[slot, m] = given.scores[i, m]
    return int(place - first)


@formula
def key_of(number: int, bent: float) -> float:
    """The key of an example with this number and this product of weight and curvature."""
    return max(KEY_WITHOUT_CURVATURE, math.log(chance(number)) / bent) if bent > 0.0 else KEY_WITHOUT_CURVATURE


@formula
def add_rows(kind: Any, loss: Any, record: Any, given: Any, first: int) -> None:
    """Store or commit rows from ``first`` on; if the loop stops early, ``sums`` hold what it needs, and the next row.

    As long as every example is stored, none needs a key.
    """
    sums, every = record.sums, record.sums[at.KEY_THRESHOLD] == -math.inf
    sums[at.LOOP_NEEDS], sums[at.NEXT_ROW] = 0.0, 0.0
    for i in range(first, len(given.labels)):
        h = given.weights[i] if len(given.weights) > 0 else 1.0
        if not h > 0.0:
            continue
        y, slot, bent, key = given.labels[i], int(sums[at.STORED_COUNT]), 0.0, 0.0
        stays = not (len(given.bases) > 0 and given.bases[i] != 0.0)  # rows with offsets are never stored
        if stays and not every:
            bent = curvature(kind, loss, record, given, i, y)
            key = key_of(int(sums[at.EXAMPLE_COUNT]), h * bent)
            stays = key > sums[at.KEY_THRESHOLD]
        if stays:
            size, room = end(given.rows, i) - begin(given.rows, i), len(record.data) - record.ends[slot]
            used, budget = sums[at.STORED_COST] + kind.cost, sums[at.COST_BUDGET]
            if used + size > budget or size > room:
                size = count_entries(given.rows, i)  # zeros do not count; usually there are none
            stays = size + kind.cost <= budget
            if stays and used + size > budget:
                sums[at.LOOP_NEEDS], sums[at.NEXT_ROW] = at.NEEDS_BUDGET, i
                return
            if stays and (size > room or slot == len(record.labels)):
                sums[at.LOOP_NEEDS], sums[at.NEXT_ROW] = at.NEEDS_LONGER_ARRAYS, i
                return
        if stays:
            size = store_row(record, given, i, y, h)
            if not every:
                record.keys[slot] = key
            sums[at.STORED_COUNT] += 1.0
            sums[at.STORED_COST] += size + kind.cost
        else:
            if len(record.by_feature) == 0:
                sums[at.LOOP_NEEDS], sums[at.NEXT_ROW] = at.NEEDS_FEATURE_SUMS, i
                return
            commit(kind, loss, record, given, i, y, h, curvature(kind, loss, record, given, i, y))
        sums[at.EXAMPLE_COUNT] += 1.0


@formula
def fill_keys(kind: Any, loss: Any, record: Any, stored: Any, count: int) -> None:
    """Compute the keys of stored examples."""
    for i in range(count):
        bent = stored.weights[i] * curvature(kind, loss, record, stored, i, stored.labels[i])
        record.keys[i] = key_of(i, bent)


@formula
def commit_rows(kind: Any, loss: Any, record: Any, stored: Any, stay: Any) -> None:
    """Commit stored examples that were not kept."""
    for i in range(len(stay)):
        if not stay[i]:
            y = stored.labels[i]
            commit(kind, loss, record, stored, i, y, stored.weights[i], curvature(kind, loss, record, stored, i, y))
