"""How numbers of several workers that began from the same state become one."""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.mixtures.state import BY_FEATURE, DENSE, PLACE, FeatureState
from giftrl.workers.planner import cut

Array = NDArray[np.float64]


def added(base: ArrayLike, *workers: ArrayLike) -> Any:
    """What was there before, and what each worker has added; infinite where one of them is.

    >>> float(added(1.0, 3.0, 6.0))
    8.0
    """
    start = np.asarray(base, np.float64)
    total = start.copy()
    with np.errstate(invalid="ignore", over="ignore"):
        for worker in workers:
            total = total + np.where(np.isfinite(start), np.asarray(worker) - start, 0.0)
    return total[()]


def mean(values: list[Any], weights: list[Any]) -> Any:
    """The mean of all rows, from the means of the rows until now: of the state before and of each worker.

    The first value and weight are those of the state before; a worker's are of its rows and those before.

    >>> float(mean([1.0, 2.0, 4.0], [1.0, 2.0, 2.0]))  # rows 1, 3 and 7
    3.6666666666666665
    """
    before = np.asarray(values[0]) * weights[0]
    total = before + sum(
        np.asarray(value) * weight - before for value, weight in zip(values[1:], weights[1:], strict=True)
    )
    weight = weights[0] + sum(each - weights[0] for each in weights[1:])
    return (total / weight if weight > 0.0 else np.asarray(values[0], np.float64))[()]


# Work of a merge that is shared by threads: loops over features, rows or experts, each of which is on its own.

#: Merging so few features takes no longer than handing them to a thread.
FEW = 1024

Task = Callable[[int, int], object]


class Share(Protocol):
    """Runs a task from 0 to a count, in parts or as a whole; a task takes where its part begins and ends."""

    def __call__(self, task: Task, count: int, few: int = FEW) -> None:
        """Run the task; a part of fewer than ``few`` is not worth a thread."""


def in_one_part(task: Task, count: int, few: int = FEW) -> None:
    """Run a task as a whole."""
    task(0, count)


class Shared:
    """Runs a task in as many parts as there are threads, at the same time: the result is that of :func:`in_one_part`.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     seen = []
    ...     Shared(pool, 2)(lambda first, last: seen.append((first, last)), 10, few=1)
    >>> sorted(seen)
    [(0, 5), (5, 10)]
    """

    def __init__(self, pool: Executor, threads: int) -> None:
        self.pool, self.threads = pool, threads

    def __call__(self, task: Task, count: int, few: int = FEW) -> None:
        parts = min(self.threads, count // few)
        if parts < 2:
            in_one_part(task, count)
        else:
            list(self.pool.map(lambda edge: task(*edge), cut(count, parts)))


# The state of a mixture at some features: what a worker sends, and what is written back after a merge.

Arrays = dict[str, NDArray[Any]]


class Piece(NamedTuple):
    """What a mixture knows at some features, and all of the state that is not by feature.

    Attributes:
        features: their numbers, in order; those of :func:`always` are among them.
        record, x, theta: their rows of the arrays of :class:`giftrl.mixtures.state.FeatureState`.
        dense: the list of dense features.
        counts: as there.
        matrix, mixing: copies of these parts of the state.
        merges: how often the state was merged.
    """

    features: NDArray[np.int64]
    record: NDArray[np.float64]
    x: NDArray[Any]
    theta: NDArray[np.float64]
    dense: NDArray[np.uint64]
    counts: NDArray[np.float64]
    matrix: Any
    mixing: Any
    merges: int = 0


def always(learner: Any) -> NDArray[np.int64]:
    """The features that every row may change: those that are dense now, and those of the full matrix."""
    known: FeatureState = learner.features
    dense = known.dense[: int(known.counts[DENSE])].astype(np.int64)
    if int(learner.matrix.size[0]) <= 0:
        return dense
    return np.concatenate([dense, np.flatnonzero(known.record[:, PLACE])])


def take(learner: Any, features: NDArray[np.int64]) -> Piece:
    """A copy of the state of a mixture at these features."""
    return take_all([learner], features)[0]


def take_all(learners: list[Any], features: NDArray[np.int64], share: Share = in_one_part) -> list[Piece]:
    """:func:`take` for several mixtures, whose pieces lie one behind the other in memory (:func:`stacked`)."""
    made = {}
    for name in BY_FEATURE:
        arrays = [getattr(learner.features, name) for learner in learners]
        made[name] = np.empty((len(learners), len(features), arrays[0].shape[1]), arrays[0].dtype)
        _copy(arrays, features, made[name], share)
    found = []
    for k, learner in enumerate(learners):
        known, parts = learner.features, (learner.matrix, learner.mixing)
        matrix, mixing = (type(part)(*(np.array(each) for each in part)) for part in parts)
        dense = known.dense[: int(known.counts[DENSE])].copy()
        rows = made["record"][k], made["x"][k], made["theta"][k]
        found.append(Piece(features, *rows, dense, known.counts.copy(), matrix, mixing, learner.merges))
    return found


def _copy(arrays: list[NDArray[Any]], features: NDArray[np.int64], made: NDArray[Any], share: Share) -> None:
    """Copy rows of arrays."""

    def task(first: int, last: int) -> None:
        for array, out in zip(arrays, made, strict=True):
            # "clip" checks nothing, and is quicker for that.
            np.take(array, features[first:last], axis=0, out=out[first:last], mode="clip")

    share(task, len(features))


def stacked(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Arrays of the same shape as one; without a copy where they are one already."""
    whole = arrays[0].base
    if isinstance(whole, np.ndarray) and len(whole) == len(arrays) and whole.shape[1:] == arrays[0].shape:
        places = [array.ctypes.data - whole.ctypes.data for array in arrays]
        if places == [k * arrays[0].nbytes for k in range(len(arrays))]:
            return whole
    return np.stack(arrays)


def put(learner: Any, piece: Piece, share: Share = in_one_part) -> None:
    """Write a piece into a mixture, whose other features stay as they are."""
    known: FeatureState = learner.features

    def task(first: int, last: int) -> None:
        for name in BY_FEATURE:
            getattr(known, name)[piece.features[first:last]] = getattr(piece, name)[first:last]

    share(task, len(piece.features))
    if len(piece.dense) > len(known.dense):
        dense, stamps = np.zeros(len(piece.dense), np.uint64), np.zeros(len(piece.dense))
        learner.features = known = known._replace(dense=dense, stamps=stamps)
    known.dense[: len(piece.dense)], known.stamps[:] = piece.dense, 0.0
    known.counts[:] = piece.counts
    learner.merges = piece.merges
    for own, given in ((learner.matrix, piece.matrix), (learner.mixing, piece.mixing)):
        for mine, new in zip(own, given, strict=True):
            mine[...] = new
