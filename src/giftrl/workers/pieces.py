"""Pieces: the state of a mixture at some features, copied from and to learners; helpers for merging."""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Rows, begin, column, end
from giftrl.mixtures.feature_state import BY_FEATURE, DENSE, PLACE
from giftrl.workers.planner import cut

#: The minimum number of features per thread in a merge.
MIN_FEATURES_PER_THREAD = 1024


class Share(NamedTuple):
    """Runs a task of (begin, end) over a range, split among threads."""

    pool: Executor | None = None
    threads: int = 1

    def __call__(self, task: Callable[[int, int], object], count: int, least: int = MIN_FEATURES_PER_THREAD) -> None:
        """Run the task, in parts of at least ``least``."""
        parts = min(self.threads, count // least)
        if parts < 2 or self.pool is None:
            task(0, count)
        else:
            list(self.pool.map(lambda edge: task(*edge), cut(count, parts)))


ONE_THREAD = Share()


def added(base: ArrayLike, *workers: ArrayLike) -> Any:
    """The base plus each worker's change; infinite if any is infinite.

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
    """The mean over all rows, from the base's mean (first) and the workers' means, which include the base's rows.

    >>> float(mean([1.0, 2.0, 4.0], [1.0, 2.0, 2.0]))  # rows 1, 3 and 7
    3.6666666666666665
    """
    before = np.asarray(values[0]) * weights[0]
    sums = (np.asarray(value) * weight - before for value, weight in zip(values[1:], weights[1:], strict=True))
    total = before + sum(sums)
    weight = weights[0] + sum(weight - weights[0] for weight in weights[1:])
    return (total / weight if weight > 0.0 else np.asarray(values[0], np.float64))[()]


class Piece(NamedTuple):
    """The state of a mixture at some features, and all state other than features."""

    features: NDArray[np.int64]  # ascending; includes the features of :meth:`always`
    record: NDArray[np.float64]  # this and the next two: rows of the arrays of FeatureState
    x: NDArray[Any]
    theta: NDArray[np.float64]
    dense: NDArray[np.uint64]  # the list of dense features
    counts: NDArray[np.float64]
    matrix: Any
    mixing: Any
    merges: int = 0  # before


def always(learner: Any) -> NDArray[np.int64]:
    """Features that any row may change: dense features, and features in the full matrix."""
    state = learner.features
    dense: NDArray[np.int64] = state.dense[: int(state.counts[DENSE])].astype(np.int64)
    if int(learner.matrix.size[0]) <= 0:
        return dense
    return np.concatenate([dense, np.flatnonzero(state.record[:, PLACE])])


@formula
def mark(rows: Any, count: int, marks: Any) -> None:
    """Mark the features of rows."""
    for i in range(count):
        for k in range(begin(rows, i), end(rows, i)):
            marks[column(rows, i, k)] = True


def touched(learner: Any, parts: list[tuple[Rows, int]], marks: NDArray[np.bool_]) -> None:
    """Mark the features changed by learning rows; each part is rows and their number."""
    loop = ready(mark, learner.compiled)
    for rows, count in parts:
        loop(rows, count, marks)
    marks[always(learner)] = True


def take(learner: Any, features: NDArray[np.int64]) -> Piece:
    """A copy of the state of a mixture at these features."""
    return take_all([learner], features)[0]


def take_all(learners: list[Any], features: NDArray[np.int64], share: Share = ONE_THREAD) -> list[Piece]:
    """:func:`take` for several mixtures; the pieces are contiguous in memory (:func:`stacked`)."""
    copies = {}
    for name in BY_FEATURE:
        array = getattr(learners[0].features, name)
        copies[name] = np.empty((len(learners), len(features), array.shape[1]), array.dtype)

    def task(first: int, last: int) -> None:
        for name, out in copies.items():
            for k, learner in enumerate(learners):
                # "clip" skips the bounds check, which is faster.
                array = getattr(learner.features, name)
                np.take(array, features[first:last], axis=0, out=out[k, first:last], mode="clip")

    share(task, len(features))
    pieces = []
    for k, learner in enumerate(learners):
        state, parts = learner.features, (learner.matrix, learner.mixing)
        matrix, mixing = (type(part)(*(np.array(array) for array in part)) for part in parts)
        dense = state.dense[: int(state.counts[DENSE])].copy()
        record, x, theta = (copies[name][k] for name in ("record", "x", "theta"))
        pieces.append(Piece(features, record, x, theta, dense, state.counts.copy(), matrix, mixing, learner.merges))
    return pieces


def stacked(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Stack arrays of the same shape; without a copy if contiguous."""
    whole = arrays[0].base
    if isinstance(whole, np.ndarray) and len(whole) == len(arrays) and whole.shape[1:] == arrays[0].shape:
        places = [array.ctypes.data - whole.ctypes.data for array in arrays]
        if places == [k * arrays[0].nbytes for k in range(len(arrays))]:
            return whole
    return np.stack(arrays)


def put(learner: Any, piece: Piece, share: Share = ONE_THREAD) -> None:
    """Write a piece into a mixture; other features are unchanged."""
    state = learner.features

    def task(first: int, last: int) -> None:
        for name in BY_FEATURE:
            getattr(state, name)[piece.features[first:last]] = getattr(piece, name)[first:last]

    share(task, len(piece.features))
    if len(piece.dense) > len(state.dense):
        dense, stamps = np.zeros(len(piece.dense), np.uint64), np.zeros(len(piece.dense))
        learner.features = state = state._replace(dense=dense, stamps=stamps)
    state.dense[: len(piece.dense)], state.stamps[:] = piece.dense, 0.0
    state.counts[:] = piece.counts
    learner.merges = piece.merges
    for part, given in ((learner.matrix, piece.matrix), (learner.mixing, piece.mixing)):
        for array, new in zip(part, given, strict=True):
            array[...] = new
