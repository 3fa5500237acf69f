"""Rows that are kept whole, and sums over those that are not: the arrays that the loops write to."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: The columns of ``Store.record``: H, the sums of h s^2 and of h s over committed rows; then theta.
CURVED, SQUARES, SUMS, THETA = range(4)
#: The entries of ``Store.sums``: the rows so far, those kept and their cost, the budget, the largest key that was
#: dropped, what is missing to go on, and at which row of a batch; then, over committed rows: their number, their
#: weight, h phi*(a), h times the size of its terms, h a^2, h inf phi, h times the residual.
(
    ROWS, KEPT, COST, BUDGET, THRESHOLD, MISSING, NEXT, COMMITTED, WEIGHT, CONJUGATE, SIZE, DUAL_SQUARES, INFIMUM,
    RESIDUAL, ENTRIES,
) = range(15)  # fmt: skip
#: What can be missing: room in the arrays, room in the budget, room for sums by feature.
ROOM, PLACE, RECORD = 1.0, 2.0, 3.0
#: The arrays with an entry for each row; keys are there once rows have been dropped.
PER_ROW = ("labels", "weights", "scores")


class Store(NamedTuple):
    """Rows that are kept, with room for more, and the sums over those that are not."""

    data: NDArray[np.float64]
    indices: NDArray[np.int32]
    ends: NDArray[np.int64]  # one more than rows
    labels: NDArray[Any]
    weights: NDArray[np.float64]
    scores: NDArray[np.float64]  # a row for each
    keys: NDArray[np.float64]  # empty as long as every row is kept
    record: NDArray[np.float64]  # a row for each feature; none as long as nothing is committed
    sums: NDArray[np.float64]
    work: NDArray[np.float64]  # scratch memory: 2 x K numbers


def resized(store: Store, entries: int, rows: int, anew: bool = False) -> Store:
    """The same rows with room for so many entries and rows; ``anew`` in arrays that nobody else has."""
    kept = int(store.sums[KEPT])
    used = {"data": int(store.ends[kept]), "indices": int(store.ends[kept]), "ends": kept + 1}
    sizes = {"data": entries, "indices": entries, "ends": rows + 1} | dict.fromkeys(PER_ROW, rows)
    if store.sums[THRESHOLD] > -np.inf:
        sizes["keys"] = rows
    made: dict[str, NDArray[Any]] = {}
    for name, size in sizes.items():
        old = getattr(store, name)
        if len(old) == size and not anew:
            continue
        made[name] = np.empty((size, *old.shape[1:]), old.dtype)  # the system gives memory when it is written to
        made[name][: used.get(name, kept)] = old[: used.get(name, kept)]
    return store._replace(**made)


def shortened(store: Store, kept: int) -> Store:
    """The rows without the room for more."""
    entries = int(store.ends[kept])
    per_row = {name: getattr(store, name)[:kept] for name in (*PER_ROW, "keys")}
    return store._replace(
        data=store.data[:entries], indices=store.indices[:entries], ends=store.ends[: kept + 1], **per_row
    )


def joined(one: Store, other: Store) -> Store:
    """The rows of two stores, and the sums over the rows that are in neither; the record is that of the first."""
    first, second = (shortened(each, int(each.sums[KEPT])) for each in (one, other))
    names = ("data", "indices", *PER_ROW)
    parts = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in names}
    ends = np.concatenate([first.ends, first.ends[-1] + second.ends[1:]])
    sums = first.sums + second.sums
    sums[THRESHOLD] = max(first.sums[THRESHOLD], second.sums[THRESHOLD])
    return first._replace(ends=ends, keys=np.zeros(0), sums=sums, **parts)


def unsound(own: Store, cost: float, dimension: int, state: Mapping[str, NDArray[Any]]) -> str | None:
    """The name of an array with which witnesses cannot go on, or None."""
    for name, mine in own._asdict().items():
        if name == "work":
            continue
        given = state.get(name)
        if given is None or given.dtype != mine.dtype or given.shape[1:] != mine.shape[1:] or given.ndim != mine.ndim:
            return name
        if name not in ("sums", "record", "keys", "scores") and not np.isfinite(given).all():
            return name
    sums, ends, indices = state["sums"], state["ends"], state["indices"]
    counts = sums[[ROWS, KEPT, COMMITTED, COST]] if len(sums) == ENTRIES else np.full(1, np.nan)
    whole = bool(np.isfinite(counts).all() and (counts >= 0.0).all() and (counts == np.floor(counts)).all())
    if not whole or sums[BUDGET] != own.sums[BUDGET] or sums[WEIGHT] < 0.0 or counts[1] + counts[2] > counts[0]:
        return "sums"
    kept, entries = int(sums[KEPT]), len(state["data"])
    if len(ends) != kept + 1 or ends[0] != 0 or ends[-1] != entries or (np.diff(ends) < 0).any():
        return "ends"
    if any(len(state[name]) != kept for name in PER_ROW) or len(state["keys"]) != (
        kept if sums[THRESHOLD] > -np.inf else 0
    ):
        return "labels"
    if len(indices) != entries or (entries and not 0 <= indices.min() <= indices.max() < dimension):
        return "indices"
    classes = own.labels.dtype.kind == "i" and kept > 0
    if classes and not 0 <= state["labels"].min() <= state["labels"].max() < own.scores.shape[1]:
        return "labels"
    if sums[COST] != entries + kept * cost or not (state["weights"] > 0.0).all():
        return "sums"
    if np.isnan(state["keys"]).any() or len(state["record"]) not in (0, dimension):
        return "record"
    if sums[COMMITTED] > 0.0 and len(state["record"]) == 0:
        return "record"
    return None
