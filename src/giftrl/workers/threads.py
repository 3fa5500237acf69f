"""A team of threads that learns one stream in rounds (:mod:`giftrl.workers.planner`).

Compiled loops run without the lock of the interpreter, so threads learn at the same time. The model depends on the
rows, on their batches and on the number of workers, but never on timing. A round normally ends within a batch; a round
longer than one batch ends in a later one. Between rounds the learner has the merged state.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates.reservoir import WorkerSums
from giftrl.compiled.rows import Rows, slice_rows
from giftrl.errors import require_whole
from giftrl.kernels.base import RowLearner
from giftrl.workers.merging import MergedLearner, copy_of
from giftrl.workers.pieces import Share, take_all, touched
from giftrl.workers.planner import cut, first_rows, next_round
from giftrl.workers.step_size import Window

Array = NDArray[np.float64]
#: Counting is exact for the first features; then every second feature is sampled, every fourth, and so on.
FEATURES_COUNTED = 1 << 16
#: The distance between the first example numbers of consecutive workers.
NUMBERS_PER_WORKER = 1 << 40


def count_features(learner: Any) -> int:
    """The approximate number of features seen; independent of spare capacity."""
    array = learner.features.x
    total, first, step = np.count_nonzero(array[:FEATURES_COUNTED].any(axis=1)), FEATURES_COUNTED, 2
    while first < len(array):
        total += step * np.count_nonzero(array[first : 2 * first : step].any(axis=1))
        first, step = 2 * first, 2 * step
    return int(total)


@dataclass
class TeamTimes:
    """The number of merges, and the seconds of merging and of learning together."""

    merges: int = 0
    merging: float = 0.0
    together: float = 0.0


class Team(RowLearner):
    """Worker threads that learn a learner's rows in parallel, and merge the results.

    Args:
        learner: a mixture, which may have learned before; it has the merged state after each round.
        workers: the number of threads.
        steps: of an earlier team of the same learner, or None.
        first: the number of rows for one worker before the first round; None: the planner decides.
    """

    def __init__(self, learner: Any, workers: int, *, steps: Array | None = None, first: int | None = None) -> None:
        self.workers = require_whole("workers", workers, 1, "give the number of threads, at most that of cores")
        self._merged = MergedLearner(learner, steps)
        self.learner, self.classes, self.compiled = learner, learner.classes, learner.compiled
        self.times = TeamTimes()
        self._first = first
        self._features = 0  # approximate number of known features at the start of a round
        self._members: list[Any] = []  # the workers' learners; empty if outdated
        self._numbers: list[int] = []  # the first example number of each worker in the open round
        self._to_split = self._window = 0  # remaining rows to split in the open round, and rows of its window
        self._learned = 0  # rows learned in the open round
        self._pool = ThreadPoolExecutor(workers, "giftrl-worker")
        self._merged.share = Share(self._pool, workers if learner.compiled else 1)

    @property
    def steps(self) -> Array | None:
        """The steps of the last merge, for a later team of this learner; None if none were fitted."""
        return self._merged.steps

    @property
    def loss(self) -> Any:
        """The loss, which may contain bases for each batch."""
        return self.learner.loss

    @loss.setter
    def loss(self, loss: Any) -> None:
        self.learner.loss = loss

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return int(self.learner.dimension)

    @property
    def loss_sums(self) -> Array:
        """The progressive loss of all rows so far, including the open round."""
        before = self.learner.loss_sums
        members = [] if self.between_rounds else self._members
        return np.asarray(before + sum((member.loss_sums - before for member in members), start=0.0 * before))

    @property
    def between_rounds(self) -> bool:
        """True if the learner has the state of all rows: no round is open."""
        return self._learned == 0

    def grow(self, dimension: int) -> None:
        """Add features up to this number."""
        self.learner.grow(dimension)
        for member in self._members:
            member.grow(dimension)

    def learn_rows(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """Learn from rows; see :meth:`giftrl.kernels.base.RowLearner.learn_rows`."""
        predictions: list[Array] = []
        n, at = len(y), 0
        while at < n:
            count, learn = self._next(n - at, at > 0)
            predictions.append(learn(slice_rows(rows, at, at + count), y[at : at + count], weights[at : at + count]))
            at += count
        return np.concatenate(predictions) if predictions else self.learner.learn_rows(rows, y, weights)

    def _next(self, rows: int, inside: bool) -> tuple[int, Callable[..., Array]]:
        """The number of next rows of a batch and the method for them; ``inside`` after the batch's first part."""
        if self.between_rounds:
            first = self._first
            if first is None:
                # Known features never become fewer. If the last count already says that one worker learns all these
                # rows, counting again would change nothing.
                if self.learner.rounds + rows > first_rows(self.workers, self._features):
                    self._features = count_features(self.learner)
                first = first_rows(self.workers, self._features)
            alone = first - self.learner.rounds
            if alone > 0:
                return (rows if self._absorbs(first, rows - alone) else alone), self._learn_alone
            self._to_split, self._window = next_round(self.learner.rounds, self.workers, self._features)
            if inside:  # the batch has at least half of the round; see _absorbs
                self._to_split = min(self._to_split, rows)
        if self._to_split > rows:
            return rows, self._learn_split
        if self._to_split > 0:
            window = min(self._window, (rows + 1) // 2)
            done = self.learner.rounds + self._learned + self._to_split + window
            if self._absorbs(done, rows - self._to_split - window):
                self._to_split = rows - window
            self._window = window
        if self._to_split > 0:
            return self._to_split, self._learn_split
        return min(rows, self._window), self._learn_window

    def _absorbs(self, done: int, rows: int) -> bool:
        """True if a round includes the last rows of a batch, since these are less than half of the next round."""
        return 2 * rows < sum(next_round(done, self.workers, self._features))

    def _learn_alone(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        self._members = []
        return np.asarray(self.learner.learn_rows(rows, y, weights))

    def _learn_split(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """Split rows among the workers."""
        begun = time.perf_counter()
        if not self._members:
            self._number_examples()
            self._members = list(self._pool.map(lambda first: copy_of(self.learner, first), self._numbers))
        marks = self._merged.marks

        def learn(member: Any, a: int, b: int) -> Array:
            part = slice_rows(rows, a, b)
            member.loss = self.learner.loss  # which may have bases of its own for each batch
            predictions = np.asarray(member.learn_rows(part, y[a:b], weights[a:b]))
            touched(member, [(part, b - a)], marks)
            return predictions

        edges = zip(self._members, cut(len(y), self.workers), strict=True)
        futures = [self._pool.submit(learn, member, *edge) for member, edge in edges]
        wait(futures)
        try:
            predictions = [future.result() for future in futures]
        except BaseException:
            self._drop_round()
            raise
        self._to_split -= len(y)
        self._learned += len(y)
        self.times.together += time.perf_counter() - begun
        return np.concatenate(predictions)

    def _number_examples(self) -> None:
        first = 0 if self.learner.witnesses is None else self.learner.witnesses.rows
        self._numbers = [first + NUMBERS_PER_WORKER * k for k in range(1, self.workers + 1)]

    def _learn_window(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """Merge with these rows as the window, then learn them."""
        self._merge(Window(rows, y, weights))
        begun = time.perf_counter()
        predictions = self._merged.learn(lambda: self.learner.learn_rows(rows, y, weights), [(rows, len(y))])
        self._number_examples()
        state = self._merged.changes()
        list(self._pool.map(state.begin, self._members, self._numbers))
        self.times.merging += time.perf_counter() - begun
        return np.asarray(predictions)

    def _merge(self, window: Window | None) -> None:
        """Give the learner the merged state."""
        begun = time.perf_counter()
        features = self._merged.changed
        base, *pieces = take_all([self.learner, *self._members], features, self._merged.share)
        sums: list[WorkerSums | None] = []
        if self.learner.witnesses is not None:
            sums = [
                member.witnesses.reply(features, first)
                for member, first in zip(self._members, self._numbers, strict=True)
            ]
        self._merged.merge(base, pieces, sums, window)
        self._to_split = self._learned = 0
        self.times.merges += 1
        self.times.merging += time.perf_counter() - begun

    def finish(self) -> None:
        """Merge the open round with the previous steps, and end the threads."""
        if not self.between_rounds:
            self._merge(None)
        self.close()

    def close(self) -> None:
        """End the threads; the learner keeps the state of the last merge."""
        self._pool.shutdown()
        self._drop_round()

    def _drop_round(self) -> None:
        """Discard the workers' results since the last merge."""
        self._members, self._to_split, self._learned = [], 0, 0

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()
