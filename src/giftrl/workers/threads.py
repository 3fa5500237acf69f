"""What workers note of their rows, to be remembered once these are in order."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.rows import Rows, slice_rows
from giftrl.errors import Overflowed, require_whole
from giftrl.kernels.base import RowLearner
from giftrl.workers.merging import first_steps, merge
from giftrl.workers.pieces import Share, put, take, take_all, touched
from giftrl.workers.planner import cut, first_rows, next_round
from giftrl.workers.step_size import Window


class Notes:
    """Stands in for the witnesses of a worker: what is to be remembered of its rows is noted, for the team's own."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def add(self, *call: Any) -> None:
        """Note rows."""
        self.calls.append(call)

    def grow(self, dimension: int) -> None:
        """More features change nothing in what was noted."""


# A team of threads that learns one stream together, round by round (:mod:`giftrl.workers.planner`).
#
# Compiled loops run without the lock of the interpreter, so that threads learn at the same time. What is learnt
# depends on the rows, on how they come in batches and on the number of workers, and never on timing. At the end of a
# batch no round is open unless it is longer than the batch, and such a round ends with a later batch: when no round
# is open, the learner has learnt all rows.

Array = NDArray[np.float64]


#: So many features are counted one by one, and then every second of as many again, every fourth of twice as many...
FEATURES_COUNTED = 1 << 16


def count_features(learner: Any) -> int:
    """About how many features a learner has met, with the same result whatever room it has for more.

    >>> from giftrl.mixtures import MixtureLearner
    >>> learner = MixtureLearner(9, "squared", compiled=False)
    >>> p = learner.learn(np.eye(9)[:3], np.ones(3))
    >>> count_features(learner)
    3
    """
    array = learner.features.x
    total, first, step = np.count_nonzero(array[:FEATURES_COUNTED].any(axis=1)), FEATURES_COUNTED, 2
    while first < len(array):
        total += step * np.count_nonzero(array[first : 2 * first : step].any(axis=1))
        first, step = 2 * first, 2 * step
    return int(total)


class Spent(NamedTuple):
    """How a team has spent its time: merges, and the seconds of merging and of learning in parallel."""

    merges: int = 0
    merging: float = 0.0
    together: float = 0.0


class Team(RowLearner):
    """Workers that learn the rows of a learner in parallel, and merge what they have learnt.

    Args:
        learner: has learnt nothing yet, or any number of rows; it has the merged state after each round.
        workers: how many threads.
        steps: those of an earlier team of the same learner, if there was one.
        first: how many rows one worker learns, however many features there are; None for what the schedule says.

    Rows that overflow end the round that is open: the learner keeps the state of the last merge.

    >>> import numpy as np
    >>> from giftrl.mixtures import MixtureLearner
    >>> from giftrl.compiled.rows import as_rows
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(40, 2))
    >>> learner = MixtureLearner(2, "squared", compiled=False)
    >>> team = Team(learner, 2, first=8)
    >>> p = team.learn_rows(as_rows(x, 2)[0], x @ [1.0, 2.0], np.empty(0))
    >>> team.finish()
    >>> learner.rounds, team.spent.merges
    (40, 1)
    """

    def __init__(self, learner: Any, workers: int, *, steps: Array | None = None, first: int | None = None) -> None:
        self.workers = require_whole("workers", workers, 1, "give the number of threads, at most that of cores")
        first_ones = first_steps(learner)
        self.steps, self.fitted = first_ones if steps is None else steps, steps is not None
        self.learner = learner
        self.classes, self.compiled = learner.classes, learner.compiled
        self.spent = Spent()
        self._first = first
        self._features = 0  # those that are known when a round begins
        self._members: list[Any] = []
        self._left = 0  # rows that are still to be split in the round that is open
        self._window = 0  # rows of its window
        self._parted = 0  # rows learnt in it
        self._noted: list[tuple[Any, ...]] = []  # what is to be remembered of them
        self._before: Any = None  # the witnesses without them, once some are remembered
        self._marks = np.zeros((workers + 1, 0), np.bool_)
        self._pool = ThreadPoolExecutor(workers, "giftrl-worker")
        self._share = Share(self._pool, workers if learner.compiled else 1)

    @property
    def loss(self) -> Any:
        """The loss, which may be given bases of its own for each batch."""
        return self.learner.loss

    @loss.setter
    def loss(self, loss: Any) -> None:
        self.learner.loss = loss

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The number of features."""
        return int(self.learner.dimension)

    @property
    def loss_sums(self) -> Array:
        """The progressive loss of all rows so far, those of the open round included."""
        before = self.learner.loss_sums
        return np.asarray(before + sum((member.loss_sums - before for member in self._open), start=0.0 * before))

    @property
    def _open(self) -> list[Any]:
        """The members while a round is open."""
        return [] if self.whole else self._members

    @property
    def whole(self) -> bool:
        """Whether the learner has the state of all rows: a round is over, and the next one has not begun."""
        return self._parted == 0

    def grow(self, dimension: int) -> None:
        """Add features up to this number."""
        self.learner.grow(dimension)
        for member in self._members:
            member.grow(dimension)

    def learn_rows(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """Learn from rows; see :meth:`giftrl.kernels.base.RowLearner.learn_rows`."""
        made: list[Array] = []
        n, at = len(y), 0
        while at < n:
            count, learn = self._next(n - at, at > 0)
            given = slice_rows(rows, at, at + count), y[at : at + count], weights[at : at + count]
            try:
                made.append(learn(*given))
            except Overflowed as problem:
                raise _at(at, problem) from None
            at += count
        return np.concatenate(made) if made else self.learner.learn_rows(rows, y, weights)

    def _next(self, rows: int, inside: bool) -> tuple[int, Callable[..., Array]]:
        """How many of the next rows of a batch to learn, and how; ``inside`` says that these are not its first ones."""
        if self.whole:
            first = self._first
            if first is None:
                # Known features never become fewer. If the last count already says that one worker learns all these
                # rows, counting again would change nothing.
                if self.learner.rounds + rows > first_rows(self.workers, self._features):
                    self._features = count_features(self.learner)
                first = first_rows(self.workers, self._features)
            alone = first - self.learner.rounds
            if alone > 0:
                return (rows if self._ends_with(first, rows - alone) else alone), self.learner.learn_rows
            self._left, self._window = next_round(self.learner.rounds, self.workers, self._features)
            if inside:  # at least half of the round is here: see _ends_with
                self._left = min(self._left, rows)
        if self._left > rows:
            return rows, self._part
        if self._left > 0:
            window = min(self._window, (rows + 1) // 2)
            done = self.learner.rounds + self._parted + self._left + window
            if self._ends_with(done, rows - self._left - window):
                self._left = rows - window
            self._window = window
        if self._left > 0:
            return self._left, self._part
        return min(rows, self._window), self._merge

    def _ends_with(self, done: int, rows: int) -> bool:
        """Whether a round takes in the last rows of a batch: they are less than half of the next one."""
        return 2 * rows < sum(next_round(done, self.workers, self._features))

    def _part(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """Let every worker learn its part of the rows."""
        begun = time.perf_counter()
        self._gather()
        edges = cut(len(y), self.workers)
        parts = [
            (member, slice_rows(rows, a, b), y[a:b], weights[a:b])
            for member, (a, b) in zip(self._members, edges, strict=True)
        ]
        marks = self._marks_of_all()
        futures = [self._pool.submit(_learn, own, *part) for own, part in zip(marks[1:], parts, strict=True)]
        self._remember()  # the part before, while this one is learnt
        problems = [future.exception() for future in futures]
        for problem, (a, _) in zip(problems, edges, strict=True):
            if problem is not None:
                self._disband()
                raise _at(a, problem) if isinstance(problem, Overflowed) else problem
        self._left -= len(y)
        self._parted += len(y)
        self.spent = self.spent._replace(together=self.spent.together + time.perf_counter() - begun)
        for member in self._members:
            if member.witnesses is not None:
                self._noted += member.witnesses.calls
                member.witnesses.calls = []
        return np.concatenate([future.result() for future in futures])

    def _gather(self) -> None:
        """Have as many workers as there should be, all with the state of the learner."""
        if not self._members:
            state = self.learner.own_state()
            self._members = list(self._pool.map(lambda _: self._member(state), range(self.workers)))
        for member in self._members:
            member.loss = self.learner.loss  # which may have bases of its own for each batch

    def _member(self, state: dict[str, NDArray[Any]]) -> Any:
        """A learner with this state."""
        member = copy(self.learner)
        member.witnesses = None
        member.restore(state)
        member.merges = self.learner.merges
        member.witnesses = None if self.learner.witnesses is None else Notes()
        return member

    def _marks_of_all(self) -> NDArray[np.bool_]:
        """The features that were touched in the round, a row for the learner and one for each worker."""
        missing = self.learner.dimension - self._marks.shape[1]
        if missing > 0:
            self._marks = np.concatenate([self._marks, np.zeros((len(self._marks), missing), np.bool_)], axis=1)
        return self._marks

    def _touched(self, window: Window | None) -> NDArray[np.int64]:
        """The features that were touched in the round, those of a window included."""
        marks = self._marks_of_all()
        touched(self.learner, [] if window is None else [(window.rows, len(window.labels))], marks[0])
        return np.flatnonzero(marks.any(axis=0))

    def _remember(self) -> None:
        """Hand what workers have noted to the witnesses of the learner, in the order of the rows."""
        if self._noted and self._before is None:
            self._before = deepcopy(self.learner.witnesses)
        for call in self._noted:
            self.learner.witnesses.add(*call)
        self._noted = []

    def _merge(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """Merge, with these rows as the window, and let the learner learn them."""
        self._unite(Window(rows, y, weights))
        begun = time.perf_counter()
        made = self.learner.learn_rows(rows, y, weights)
        features = self._touched(None)
        piece = take(self.learner, features)
        list(self._pool.map(lambda member: put(member, piece), self._members))
        self._marks[:] = False
        self.spent = self.spent._replace(merging=self.spent.merging + time.perf_counter() - begun)
        return np.asarray(made)

    def _unite(self, window: Window | None) -> None:
        """Give the learner the merged state."""
        begun = time.perf_counter()
        self._remember()
        features = self._touched(window)
        base, *pieces = take_all([self.learner, *self._members], features, self._share)
        # Without a window, and where none has been before, the average is safe; the sum need not be.
        steps = self.steps if window is not None or self.fitted else np.zeros_like(self.steps)
        merged, fitted = merge(self.learner, base, pieces, window, steps, self._share)
        if window is not None:
            self.steps, self.fitted = fitted, True
        put(self.learner, merged, self._share)
        self._parted = self._left = 0
        self._before = None
        merging = self.spent.merging + time.perf_counter() - begun
        self.spent = self.spent._replace(merges=self.spent.merges + 1, merging=merging)

    def finish(self) -> None:
        """Merge what is left, with the steps of the merge before if there was one, and end the threads."""
        if not self.whole:
            self._unite(None)
        self.close()

    def close(self) -> None:
        """End the threads; the learner keeps the state of the last merge."""
        self._pool.shutdown()
        self._disband()

    def _disband(self) -> None:
        """Let go of what the workers have learnt since the last merge, and of what is remembered of these rows."""
        if self._before is not None:
            self.learner.witnesses = self._before
        self._members, self._parted, self._left = [], 0, 0
        self._noted, self._before = [], None
        self._marks[:] = False

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def _learn(marks: NDArray[np.bool_], member: Any, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
    """Let a worker learn its rows, of which there may be none, and mark the features that it has touched."""
    made: Array = member.learn_rows(rows, y, weights)
    touched(member, [(rows, len(y))], marks)
    return made


def _at(first: int, problem: Overflowed) -> Overflowed:
    """The problem of rows that begin at ``first``, as one of all rows."""
    if problem.row is None:
        return problem
    row = first + problem.row
    rule = "scale the features or the weights, use a smaller beta, or an implicit update, which does not overshoot"
    return Overflowed(f"row {row} leads to numbers that cannot be stored; {rule}", row)
