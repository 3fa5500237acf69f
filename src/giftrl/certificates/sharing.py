"""Witnesses of workers who learn different rows at the same time, each beginning from what is remembered so far.

Before a round a worker is sent the sums over committed rows (:func:`shared`), since duals are steered by them, and the
key that a row must exceed to be kept. It remembers its own rows (:func:`begin`), and sends back these and the sums as
they are then (:func:`left_by`). What all workers have added is added up (:func:`gather`), and rows are dropped if they
are too many. Any dual of a committed row gives a valid bound, so that bounds hold however rows were split.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import keeping
from giftrl.certificates import store as at
from giftrl.certificates.steering import Rows
from giftrl.certificates.store import Store, shortened
from giftrl.certificates.summed import FEW, Summed
from giftrl.certificates.witnesses import NONE, REMAINS, Witnesses
from giftrl.compiled.compiler import ready
from giftrl.compiled.rows import CSR

#: Below the key of every row, and not -inf: the rows of a worker have keys by their numbers, whether or not all stay.
LOWEST = -1.5e308
#: The sums that are added up.
ADDED = slice(at.COMMITTED, at.ENTRIES)


class Shared(NamedTuple):
    """Sums over committed rows, those by feature at some features only.

    Attributes:
        features: their numbers, in order.
        record: their rows of the array of the store; none where nothing is committed.
        sums: of the store.
    """

    features: NDArray[np.int64]
    record: NDArray[np.float64]
    sums: NDArray[np.float64]


class Left(NamedTuple):
    """What a worker leaves: its sums, which begin with those it was sent, and the rows that it has kept.

    Attributes:
        shared: the sums.
        rows: the store, with the arrays of rows alone.
        summed: second moments of rows that are neither kept nor committed, or None.
        first: the number of its first row.
    """

    shared: Shared
    rows: Store
    summed: Summed | None
    first: int


class Held(NamedTuple):
    """The features of rows that are kept or summed up at a moment; if rows are dropped later, their sums change."""

    threshold: float
    summed: Summed | None
    features: NDArray[np.int64]

    @classmethod
    def by(cls, witnesses: Witnesses) -> "Held":
        """Those of witnesses as they are now."""
        store, summed = witnesses.store, witnesses.summed
        indices = store.indices[: store.ends[witnesses.kept]].astype(np.int64)
        features = indices if summed is None else np.concatenate([indices, summed.features])
        return cls(float(store.sums[at.THRESHOLD]), summed, features)

    def committed(self, witnesses: Witnesses) -> NDArray[np.int64]:
        """The features if some of these rows have been committed since, and none otherwise."""
        same = witnesses.store.sums[at.THRESHOLD] == self.threshold
        return self.features[:0] if same and (self.summed is None or witnesses.summed is not None) else self.features


def shared(witnesses: Witnesses, features: NDArray[np.int64]) -> Shared:
    """The sums over committed rows, at these features."""
    store = witnesses.store
    record = store.record[features] if len(store.record) else store.record
    return Shared(features, record, store.sums.copy())


def begin(witnesses: Witnesses, given: Shared, first: int) -> None:
    """Let witnesses of a worker begin with these sums, where they differ from its own, and with no row.

    Args:
        witnesses: those of a worker.
        given: the sums.
        first: the number of its first row among those of all workers.
    """
    if len(given.record):
        witnesses._open_record()
    store, sums = witnesses.store, given.sums.copy()
    sums[[at.KEPT, at.COST]], sums[at.ROWS] = 0.0, first
    sums[at.THRESHOLD] = max(sums[at.THRESHOLD], LOWEST)
    witnesses.store = store._replace(sums=sums, keys=np.empty(len(store.labels)))
    if len(given.record):
        store.record[given.features] = given.record
    witnesses.summed = None


def left_by(witnesses: Witnesses, features: NDArray[np.int64], first: int) -> Left:
    """What a worker leaves; ``features`` are at least those of its rows, and ``first`` as for :func:`begin`."""
    rows = shortened(witnesses.store, witnesses.kept)._replace(record=NONE, work=NONE)
    return Left(shared(witnesses, features), rows, witnesses.summed, first)


def gather(witnesses: Witnesses, every: Sequence[Left]) -> NDArray[np.int64]:
    """Take in what all workers leave; returns features whose sums have changed beside those of the workers.

    Args:
        witnesses: as they were when the workers began.
        every: what each worker leaves.
    """
    if any(len(left.shared.record) for left in every):
        witnesses._open_record()
    _add_sums(witnesses, every)
    _add_rows(witnesses, every)
    held, changed = Held.by(witnesses), []
    if witnesses.store.sums[at.COST] > witnesses.budget:
        witnesses._drop(REMAINS * witnesses.budget)
        changed.append(held.committed(witnesses))
    summed = _merged([witnesses.summed, *(left.summed for left in every)], witnesses.constant)
    if summed is not None and (witnesses.store.sums[at.COMMITTED] > 0.0 or len(summed.features) > FEW):
        witnesses._open_record()
        summed.commit(witnesses.store)
        changed.append(summed.features)
        summed = None
    witnesses.summed = summed
    return np.concatenate([np.zeros(0, np.int64), *changed])


def _add_sums(witnesses: Witnesses, every: Sequence[Left]) -> None:
    """Add up what workers have added; a single one has all."""
    store, sums = witnesses.store, [left.shared for left in every]
    rows = store.sums[at.ROWS] + sum(left.shared.sums[at.ROWS] - left.first for left in every)
    if len(sums) == 1:
        features, record, total = sums[0]
    else:
        features = np.unique(np.concatenate([each.features for each in sums]))
        base = shared(witnesses, features)
        record, total = base.record.copy(), base.sums.copy()
        for each in sums:
            where = np.searchsorted(features, each.features)
            if len(each.record):
                record[where] += each.record - base.record[where]
            total[ADDED] += each.sums[ADDED] - base.sums[ADDED]
    if len(record):
        store.record[features] = record
    store.sums[ADDED] = total[ADDED]
    store.sums[at.ROWS] = rows


def _add_rows(witnesses: Witnesses, every: Sequence[Left]) -> None:
    """Add the rows that workers have kept."""
    store, kept = witnesses.store, witnesses.kept
    threshold = max(left.rows.sums[at.THRESHOLD] for left in every)
    all_kept = store.sums[at.THRESHOLD] == -np.inf and threshold <= LOWEST
    if store.sums[at.THRESHOLD] == -np.inf and not all_kept and kept:  # a worker has had too many
        sizes = np.diff(store.ends[: kept + 1])
        rows = CSR(store.data, store.indices, store.ends[: kept + 1].copy(), int(sizes.max()))
        own = Rows(rows, store.labels, store.weights, store.scores, NONE)
        store = store._replace(keys=np.empty(len(store.labels)))
        ready(keeping.give_keys, witnesses.compiled, counted=False)(witnesses.kind, witnesses.loss, store, own, kept)
    parts = [shortened(store, kept), *(left.rows for left in every)]
    names = ("data", "indices", *at.PER_ROW)
    made: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    made["keys"] = np.zeros(0) if all_kept else np.concatenate([part.keys for part in parts])
    sizes = np.concatenate([np.diff(part.ends) for part in parts])
    sums = store.sums
    sums[at.KEPT] = len(sizes)
    sums[at.COST] = sizes.sum() + len(sizes) * witnesses.kind.cost
    sums[at.THRESHOLD] = -np.inf if all_kept else max(sums[at.THRESHOLD], threshold)
    witnesses.store = store._replace(ends=np.append(0, np.cumsum(sizes)), **made)
    witnesses._lent = False  # these arrays are new


def _merged(every: Sequence[Summed | None], constant: int | None) -> Summed | None:
    """The second moments of all rows that have some."""
    there = [each for each in every if each is not None]
    return reduce(lambda one, other: one.merge(other, constant), there) if there else None
