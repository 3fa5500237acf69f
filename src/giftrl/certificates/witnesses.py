"""What a learner remembers of its rows, so that its certificate can say what no model goes below."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import keeping
from giftrl.certificates import store as at
from giftrl.certificates.evidence import Evidence
from giftrl.certificates.steering import OneScore, Rows, Scores
from giftrl.certificates.store import Store, resized, shortened, unsound
from giftrl.certificates.summed import Summed
from giftrl.compiled.compiler import Loop, ready
from giftrl.compiled.rows import CSR
from giftrl.errors import InvalidInput, require
from giftrl.losses.based import Based
from giftrl.system import zeros

Arrays = dict[str, NDArray[Any]]
NONE = np.zeros(0)
#: The budget of learners that are made from a recipe, in nonzeros: about 12 megabytes.
BUDGET = 1_000_000
#: The part of the budget that is left in use when rows are dropped; as they are dropped by the thousand, that is rare.
REMAINS = 0.6


class Witnesses:
    """Rows that are kept whole within a budget, and sums over the others.

    Rows are taken one by one: batches in any split lead to the same state, bit by bit.

    Args:
        loss: of one prediction or of K scores.
        dimension: the number of features.
        budget: how many nonzeros may be kept; a row counts as one more, and its K scores as K.
        classes: K, or None for one prediction.
        constant: the feature that is 1 in every row, or None.
        compiled: False runs the loops as plain Python.

    >>> from giftrl.losses import Squared
    >>> from giftrl.compiled.rows import as_rows
    >>> witnesses = Witnesses(Squared(), 1, 10, compiled=False)
    >>> rows, _ = as_rows([[1.0], [2.0], [0.0], [1.0]], 1)
    >>> witnesses.add(rows, np.array([1.0, 2.0, 0.0, 1.0]), NONE, np.zeros(4))
    >>> witnesses.rows, witnesses.kept
    (4, 4)
    """

    def __init__(
        self, loss: Any, dimension: int, budget: int = BUDGET, *, classes: int | None = None,
        constant: int | None = None, compiled: bool = True,
    ) -> None:  # fmt: skip
        self.loss, self.dimension, self.budget = loss, dimension, as_budget(budget)
        self.classes, self.constant, self.compiled = classes, constant, compiled
        self.summed: Summed | None = None  # second moments of rows that are gone
        self._lent = False  # whether evidence refers to the arrays of the store
        scores = classes or 1
        sums = np.zeros(at.ENTRIES)
        sums[at.BUDGET], sums[at.THRESHOLD] = self.budget, -np.inf
        self.store = Store(
            np.zeros(0), np.zeros(0, np.int32), np.zeros(1, np.int64),
            np.zeros(0, np.float64 if classes is None else np.int64), np.zeros(0), np.zeros((0, scores)), np.zeros(0),
            np.zeros((0, at.THETA + scores)), sums, np.zeros((2, scores)),
        )  # fmt: skip
        self.kind: Any = OneScore() if classes is None else Scores(float(classes))

    @property
    def rows(self) -> int:
        """How many rows with weight there were."""
        return int(self.store.sums[at.ROWS])

    @property
    def kept(self) -> int:
        """How many of them are kept."""
        return int(self.store.sums[at.KEPT])

    def add(
        self, rows: Any, labels: NDArray[Any], weights: NDArray[Any], scores: NDArray[Any], loss: Any = None
    ) -> None:
        """Take rows in, with the predictions that were made for them.

        Args:
            rows, labels, weights: as for ``learn_rows`` of a learner.
            scores: linear predictions, neither clipped nor made bold.
            loss: in place of the witnesses' own: the same with bases.
        """
        n, bases = len(labels), NONE
        if isinstance(loss, Based):
            labels, bases = loss.labels[:n], loss.bases[:n]
        given = Rows(rows, labels, weights, scores.reshape(n, self.store.scores.shape[1]), bases)
        loop, first = self._loop, 0
        loop(self.kind, self.loss, self.store, given, first)
        while self.store.sums[at.MISSING]:
            first = int(self.store.sums[at.NEXT])
            self._make_room(given, first)
            loop(self.kind, self.loss, self.store, given, first)

    def bind(self, rows: Any, label: Any, weight: Any, score: Any) -> Callable[[], None]:
        """A call that takes in one row at a time, from memory that is written anew for each."""
        given = Rows(rows, label, weight, score.reshape(1, -1), NONE)
        remember: Any = None
        bound_to: Store | None = None

        def call() -> None:
            nonlocal remember, bound_to
            while True:
                if bound_to is not self.store:
                    bound_to = self.store
                    remember = self._loop.bind(self.kind, self.loss, bound_to, given, 0)
                remember()
                if not bound_to.sums.item(at.MISSING):
                    return
                self._make_room(given, 0)

        return call

    @property
    def _loop(self) -> Loop:
        return ready(keeping.remember, self.compiled, counted=False)

    def _make_room(self, given: Any, i: int) -> None:
        """Provide what is missing for row i."""
        store, missing = self.store, self.store.sums[at.MISSING]
        if missing == at.ROOM:
            needed = int(store.ends[self.kept]) + keeping.count_entries(given.rows, i)
            entries, rows = len(store.data), len(store.labels)
            if needed > entries:
                entries = max(needed, min(max(8 * entries, 1024), self.budget))
            self.store = resized(store, entries, rows if self.kept < rows else min(max(64, 4 * rows), self.budget))
        elif missing == at.PLACE:
            self._drop(min(REMAINS * self.budget, self.budget - self.kind.cost - keeping.count_entries(given.rows, i)))
        else:
            self._open_record()

    def _open_record(self) -> None:
        if len(self.store.record) == 0:
            columns = self.store.record.shape[1]
            self.store = self.store._replace(record=zeros((self.dimension, columns)))

    def _drop(self, remains: float) -> None:
        """Let go of rows until those left cost no more than this; or of all, where second moments say the same."""
        if self._lent:  # evidence refers to the rows where they are
            self.store = resized(self.store, len(self.store.data), len(self.store.labels), anew=True)
            self._lent = False
        first = self.store.sums[at.COMMITTED] == 0.0
        moments = Summed.of(self.loss, self.store, self.constant, self.summed) if first else None
        if moments is not None:
            self.summed = moments
            self.store.sums[[at.KEPT, at.COST]] = 0.0
            return
        self._open_record()
        if self.summed is not None:  # too many features by now
            self.summed.commit(self.store)
            self.summed = None
        store, kept = self.store, self.kept
        sizes = np.diff(store.ends[: kept + 1])
        rows = CSR(store.data, store.indices, store.ends[: kept + 1].copy(), int(sizes.max()))
        own = Rows(rows, store.labels, store.weights, store.scores, NONE)
        if store.sums[at.THRESHOLD] == -np.inf:
            self.store = store = store._replace(keys=np.empty(len(store.labels)))
            ready(keeping.give_keys, self.compiled, counted=False)(self.kind, self.loss, store, own, kept)
        keys, costs, stay = store.keys[:kept], sizes + self.kind.cost, np.ones(kept, bool)
        part = min(1.0, remains / costs.sum())
        while costs[stay].sum() > remains:  # once, where rows have about the same size
            place = kept - int(part * kept)
            store.sums[at.THRESHOLD] = np.partition(keys, place - 1)[place - 1]
            stay, part = keys > store.sums[at.THRESHOLD], 0.95 * part
        ready(keeping.drop, self.compiled, counted=False)(self.kind, self.loss, store, own, stay)

    def grow(self, dimension: int) -> None:
        """Add features up to this number."""
        record = self.store.record
        if dimension > len(record) > 0:
            larger = zeros((dimension, record.shape[1]))
            larger[: len(record)] = record
            self.store = self.store._replace(record=larger)
        self.dimension = max(self.dimension, dimension)

    def evidence(self, loss_sum: float, model: NDArray[Any], merged: bool = False) -> Evidence:
        """What has been remembered so far, which stays as it is when more rows come.

        Args:
            loss_sum: what the run paid.
            model: its weights.
            merged: whether sums of workers were added up (:mod:`giftrl.certificates.sharing`).
        """
        self._lent = True
        seen = np.flatnonzero(self.store.record.any(axis=1))
        store = self.store._replace(sums=self.store.sums.copy(), record=self.store.record[seen])
        if merged:
            # A sum over n rows is rounded n times, and twice more for each worker and round: once where its part is
            # taken, once where it is added. A worker that has added anything has committed a row, so that is 3 n times
            # at most, and the allowance, which is (n + 4) eps times the root of the one sum or times the other, is
            # three times as large.
            store.sums[at.DUAL_SQUARES] *= 9.0
            store.sums[at.SIZE] *= 3.0
        return Evidence(self.loss, store, seen, self.summed, self.dimension, self.constant, loss_sum, model)

    def state(self) -> Arrays:
        """The arrays from which :meth:`restore` goes on, bit by bit."""
        kept = self.kept
        rows = shortened(self.store, kept)._asdict()
        arrays = {name: array for name, array in rows.items() if name != "work"}
        return arrays | ({} if self.summed is None else self.summed.state())

    def __getstate__(self) -> dict[str, Any]:
        """A pickle keeps the rows without the room for more, and the features that were committed."""
        record = self.store.record
        seen = np.flatnonzero(record.any(axis=1))
        store = shortened(self.store, self.kept)._replace(record=record[seen])
        return self.__dict__ | {"store": store, "seen": (seen, len(record))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        seen, length = state.pop("seen")
        self.__dict__.update(state)
        record = np.zeros((length, self.store.record.shape[1]))
        record[seen] = self.store.record
        self.store = self.store._replace(record=record)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from the state of witnesses of the same learner; compiled loops use its numbers as indices."""
        wrong = unsound(self.store, self.kind.cost, self.dimension, state)
        rule, remedy = "must be that of rows kept by this learner", "use another copy of the file"
        require(wrong is None, "state", wrong, rule, remedy)
        arrays = {name: np.array(state[name]) for name in Store._fields if name != "work"}
        self.store = Store(**arrays, work=self.store.work)
        self.summed = Summed.restore(state, self.dimension, self.constant)


def as_budget(budget: Any) -> int:
    """A number of nonzeros, checked."""
    whole = isinstance(budget, (int, np.integer)) and not isinstance(budget, bool)
    if not whole or not 0 <= budget < 2**40:
        rule = "must be a whole number of nonzeros, not negative, or None for no certificate of the best loss"
        raise InvalidInput("witness_nonzeros", budget, rule, f"try {BUDGET}")
    return int(budget)
