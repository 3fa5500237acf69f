"""Merging the records of workers who learn different examples at the same time.

Before a round the driver sends workers the sums over committed examples, because duals are steered by them, and the key
that an example must exceed to be stored. A worker stores and commits its own examples (:func:`begin_round`), and sends
them back with its sums. The driver adds up what workers have added (:func:`gather`), and drops examples if there are
too many. Any dual of a committed example gives a valid bound, so bounds hold for any split of the examples.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import row_record as at
from giftrl.certificates.moments import MAX_FEATURES, Moments
from giftrl.certificates.reservoir import NO_NUMBERS, REMAINING_SHARE, RowReservoir
from giftrl.certificates.row_record import PER_EXAMPLE, RowRecord

#: Below the key of every example, and not -inf: the examples of a worker have keys, whether or not all are stored.
LOWEST_THRESHOLD = -1.5e308
#: The sums that are added up.
ADDED_SUMS = slice(at.COMMITTED_COUNT, at.SUMS_LENGTH)


class WorkerSums(NamedTuple):
    """Sums over committed examples, at some features; from a worker, also its stored examples.

    The sums of a worker include those that it began with.

    Attributes:
        features: their numbers, in order.
        by_feature, sums: of the record; ``by_feature`` is empty if nothing is committed.
        first: the number of the worker's first example.
        stored: the record with stored examples alone, or None.
        moments: second moments of examples neither stored nor committed, or None.
    """

    features: NDArray[np.int64]
    by_feature: NDArray[np.float64]
    sums: NDArray[np.float64]
    first: int = 0
    stored: RowRecord | None = None
    moments: Moments | None = None

    @classmethod
    def of(cls, reservoir: RowReservoir, features: NDArray[np.int64]) -> "WorkerSums":
        """The sums at these features, for workers to begin with."""
        by_feature = reservoir.record.by_feature
        return cls(features, by_feature[features] if len(by_feature) else by_feature, reservoir.record.sums.copy())

    @classmethod
    def of_worker(cls, reservoir: RowReservoir, features: NDArray[np.int64], first: int) -> "WorkerSums":
        """The reply of a worker; ``features`` include the features of its examples."""
        stored = reservoir.record.trimmed()._replace(by_feature=NO_NUMBERS, work=NO_NUMBERS)
        return cls.of(reservoir, features)._replace(first=first, stored=stored, moments=reservoir.moments)


def begin_round(reservoir: RowReservoir, given: WorkerSums, first: int) -> None:
    """Start a worker's reservoir with these sums, and without examples.

    Args:
        reservoir: of a worker.
        given: the sums, at the features at which they differ from the worker's.
        first: the number of its first example among those of all workers.
    """
    if len(given.by_feature):
        reservoir.open_sums()
        reservoir.record.by_feature[given.features] = given.by_feature
    sums = given.sums.copy()
    sums[[at.STORED_COUNT, at.STORED_COST]], sums[at.EXAMPLE_COUNT] = 0.0, first
    sums[at.KEY_THRESHOLD] = max(sums[at.KEY_THRESHOLD], LOWEST_THRESHOLD)
    reservoir.record = reservoir.record._replace(sums=sums, keys=np.empty(len(reservoir.record.labels)))
    reservoir.moments = None


def gather(reservoir: RowReservoir, replies: Sequence[WorkerSums]) -> NDArray[np.int64]:
    """Add the examples and sums of all workers; return features whose sums changed beyond those of the replies.

    Args:
        reservoir: as it was when the workers began.
        replies: one of each worker.
    """
    if any(len(reply.by_feature) for reply in replies):
        reservoir.open_sums()
    _add_sums(reservoir, replies)
    _add_examples(reservoir, replies)
    changes, changed = watch_changes(reservoir), []
    if reservoir.record.sums[at.STORED_COST] > reservoir.budget:
        reservoir.drop(REMAINING_SHARE * reservoir.budget)
        changed.append(changes())
    parts = [part for part in (reservoir.moments, *(reply.moments for reply in replies)) if part is not None]
    moments = reduce(lambda one, other: one.merge(other), parts) if parts else None
    reservoir.moments = moments
    if moments is not None and (
        reservoir.record.sums[at.COMMITTED_COUNT] > 0.0 or len(moments.features) > MAX_FEATURES
    ):
        reservoir.commit_moments()
        changed.append(moments.features)
    return np.concatenate([np.zeros(0, np.int64), *changed])


def watch_changes(reservoir: RowReservoir) -> Callable[[], NDArray[np.int64]]:
    """A function that returns features whose sums have changed since because stored examples were committed."""
    before, moments = reservoir.record.sums[at.KEY_THRESHOLD], reservoir.moments
    features = reservoir.record.examples.indices.astype(np.int64)
    if moments is not None:
        features = np.concatenate([features, moments.features])

    def changes() -> NDArray[np.int64]:
        same = reservoir.record.sums[at.KEY_THRESHOLD] == before
        return features[:0] if same and (moments is None or reservoir.moments is not None) else features

    return changes


def _add_sums(reservoir: RowReservoir, replies: Sequence[WorkerSums]) -> None:
    """Add what workers have added; the sums of a single worker are the result."""
    record = reservoir.record
    examples = record.sums[at.EXAMPLE_COUNT] + sum(reply.sums[at.EXAMPLE_COUNT] - reply.first for reply in replies)
    if len(replies) == 1:
        features, by_feature, total = replies[0][:3]
    else:
        features = np.unique(np.concatenate([reply.features for reply in replies]))
        _, base, sums, *_ = WorkerSums.of(reservoir, features)
        by_feature, total = base.copy(), sums.copy()
        for reply in replies:
            where = np.searchsorted(features, reply.features)
            if len(reply.by_feature):
                by_feature[where] += reply.by_feature - base[where]
            total[ADDED_SUMS] += reply.sums[ADDED_SUMS] - sums[ADDED_SUMS]
    if len(by_feature):
        record.by_feature[features] = by_feature
    record.sums[ADDED_SUMS], record.sums[at.EXAMPLE_COUNT] = total[ADDED_SUMS], examples


def _add_examples(reservoir: RowReservoir, replies: Sequence[WorkerSums]) -> None:
    """Add the examples that workers have stored."""
    stored = [reply.stored for reply in replies if reply.stored is not None]
    threshold = max(part.sums[at.KEY_THRESHOLD] for part in stored)
    all_stored = not reservoir.record.sampled and threshold <= LOWEST_THRESHOLD
    if not (reservoir.record.sampled or all_stored) and reservoir.stored:  # a worker has had too many
        reservoir.assign_keys(reservoir.stored_rows())
    parts = [reservoir.record.trimmed(), *stored]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices", *PER_EXAMPLE)
    }
    arrays["keys"] = NO_NUMBERS if all_stored else np.concatenate([part.keys for part in parts])
    sizes = np.concatenate([np.diff(part.ends) for part in parts])
    sums = reservoir.record.sums
    sums[at.STORED_COUNT], sums[at.STORED_COST] = len(sizes), sizes.sum() + len(sizes) * reservoir.kind.cost
    sums[at.KEY_THRESHOLD] = -np.inf if all_stored else max(sums[at.KEY_THRESHOLD], threshold)
    reservoir.replace_arrays(reservoir.record._replace(ends=np.append(0, np.cumsum(sizes)), **arrays))
