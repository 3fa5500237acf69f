"""The driver of a run on many machines, and its workers.

The driver sends the orders of a round, merges the replies, and learns the examples of the window. A worker learns
examples of its shard from a given state, and replies with the state of changed features.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from giftrl.distributed.shards import ShardPlace, ShardReading, ShardRows
from giftrl.errors import Overflowed
from giftrl.kernels.base import NonzeroRows
from giftrl.streams.batch import Batch
from giftrl.streams.names.features import Hashing, News
from giftrl.training.model import LinearModel, as_rows
from giftrl.training.multi_pass import joined
from giftrl.workers.merging import MergedLearner, SharedState
from giftrl.workers.pieces import Piece, put, take, touched
from giftrl.workers.planner import cut, first_rows, next_round
from giftrl.workers.step_size import Window


class Order(NamedTuple):
    """An order: the task of a worker in a round."""

    version: int  # the number of merges before the round
    shard: int
    place: ShardPlace  # where its rows begin
    rows: int  # the number of rows to learn
    window: int  # the number of rows after them to return without learning
    number: int = 0  # the number of its first row among all rows, for stored examples


class Counts(NamedTuple):
    """Counts of learned and of rejected rows, including the window."""

    examples: int
    nonzeros: int
    weight: float
    rejected: int


class Reply(NamedTuple):
    """The reply of a worker."""

    shard: int  # as in the order
    place: ShardPlace  # the next row of the shard
    done: bool  # True if there is none
    state: SharedState  # at the features that have changed
    window: tuple[Batch, ...]  # rows not learned
    counts: Counts
    news: tuple[News, ...]  # names of features new to the worker
    seconds: float  # reading included


class Worker:
    """A worker: a copy of the learner that receives the changed state before each round.

    A reply is a pure function of the state and the order, so another worker with the whole state can repeat the order
    with the same bits.

    Args:
        reading: of all shards.
        background: True to read and parse ahead in a thread.
    """

    def __init__(self, reading: ShardReading, background: bool = False) -> None:
        self.reading = reading
        self.version = -1  # the version of the state in its last round; -1 before the first
        self.model = LinearModel(reading.settings)
        self._background = background
        self._rows: ShardRows | None = None

    def round(self, order: Order, state: SharedState, whole: bool) -> Reply | None:
        """Carry out an order; returns None if the worker needs the whole state first.

        Args:
            order: the task.
            state: the state at features changed since the last version, or at all features seen.
            whole: True for all features.
        """
        begun = time.perf_counter()
        if whole:
            self.model = LinearModel(self.reading.settings)
        elif self.version != order.version - 1:
            return None
        model, learner = self.model, self.model.learner
        state.begin(learner, order.number)
        self.version = order.version
        rows = self._rows_of(order)
        marks = np.zeros(learner.dimension, np.bool_)
        touched(learner, [], marks)  # features that are dense now may not be dense in the end
        examples, nonzeros, model.weight, model.rejected = model.examples, model.nonzeros, 0.0, 0
        for batch, rejected in rows.take(order.rows):
            for _ in model.learn(batch):
                pass
            touched(learner, [(as_rows(batch), len(batch))], marks)
            model.rejected += rejected
        window = []
        for batch, rejected in rows.take(order.window):
            window.append(batch)
            model.rejected += rejected
        touched(learner, [], marks)
        changed = SharedState.of_worker(learner, np.flatnonzero(marks), order.number)
        news, rows.news = tuple(rows.news), []
        counts = Counts(model.examples - examples, model.nonzeros - nonzeros, model.weight, model.rejected)
        seconds = time.perf_counter() - begun
        return Reply(order.shard, rows.place, rows.done, changed, tuple(window), counts, news, seconds)

    def _rows_of(self, order: Order) -> ShardRows:
        """The rows of the order; continues reading if the last round ended there."""
        rows = self._rows
        if rows is None or (rows.shard, rows.place) != (order.shard, order.place):
            self.close()
            rows = self._rows = ShardRows(self.reading, order.shard, order.place, background=self._background)
        return rows

    def close(self) -> None:
        """End the thread that reads ahead."""
        if self._rows is not None:
            self._rows.close()


class Crew(Protocol):
    """The interface of a group of workers, in this process or on other machines."""

    repeated: int  # repeated orders

    def round(self, orders: Sequence[Order], state: SharedState, whole: Callable[[], SharedState]) -> list[Reply]:
        """Run orders; returns the replies in the same order.

        Args:
            orders: at most one for each worker; the order of a shard goes to the worker of its number.
            state: at the features that have changed since the version before.
            whole: returns the state at all features seen so far.
        """

    def close(self) -> None:
        """Release the workers."""


class LocalCrew:
    """Workers in this process, which run one after the other."""

    def __init__(self, reading: ShardReading, workers: int) -> None:
        self.reading = reading
        self.workers = [Worker(reading) for _ in range(workers)]
        self.repeated = 0

    def round(self, orders: Sequence[Order], state: SharedState, whole: Callable[[], SharedState]) -> list[Reply]:
        """The replies to orders, in their order; see :meth:`Crew.round`."""
        return [self.one(order, state, whole) for order in orders]

    def one(self, order: Order, state: SharedState, whole: Callable[[], SharedState]) -> Reply:
        """The reply to an order."""
        worker = self.workers[order.shard]
        reply = worker.round(order, state, False) or worker.round(order, whole(), True)
        assert reply is not None
        return reply

    def close(self) -> None:
        """Release the workers."""
        for worker in self.workers:
            worker.close()


@dataclass
class Costs:
    """The costs of a run so far.

    >>> Costs(seconds_working=2.0, rows_by_workers=1000).rows_a_second
    500.0
    """

    rounds: int = 0
    seconds: float = 0.0  # total seconds
    seconds_merging: float = 0.0  # seconds in which workers wait for the driver
    seconds_working: float = 0.0  # seconds of work, summed over workers
    rows_by_workers: int = 0
    bytes_moved: int = 0  # pieces and rows from workers, and the merged piece to each worker
    repeated: int = 0  # repeated orders

    @property
    def rows_a_second(self) -> float:
        """The number of rows that one worker learns in a second of work."""
        return self.rows_by_workers / max(self.seconds_working, 1e-9)


@dataclass
class RunProgress:
    """Progress of a run: the checkpoint without the model."""

    places: list[ShardPlace]
    done: list[bool]
    version: int = 0
    steps: NDArray[np.float64] | None = None  # of the last merge
    seen: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))  # features, at any time


class Driver:
    """Learns all rows of all shards, each once, in rounds; :func:`giftrl.distributed.train` runs one.

    Args:
        model: a new one, one to continue, or the model of a checkpoint.
        reading: of all shards.
        crew: the workers.
        progress: of a checkpoint; None at the beginning.

    >>> import pathlib, tempfile
    >>> from giftrl import distributed
    >>> from giftrl.training import Settings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = pathlib.Path(folder, "rows.svm")
    ...     _ = data.write_text("1 1:1\\n-1 2:1\\n" * 50)
    ...     settings = Settings(loss="logistic", bits=4)
    ...     distributed.train(settings, data, workers=2, cluster="simulation").examples  # which runs a driver
    100
    """

    def __init__(
        self, model: LinearModel, reading: ShardReading, crew: Crew, progress: RunProgress | None = None
    ) -> None:
        self.model, self.reading, self.crew = model, reading, crew
        self.costs = Costs()
        learner: Any = model.learner
        if progress is None:
            progress = RunProgress([ShardPlace() for _ in reading.shards], [not shard for shard in reading.shards])
            progress.seen = np.zeros(learner.dimension, np.bool_)
            if model.examples:
                progress.seen[NonzeroRows.of(learner.features.x).where] = True
                if learner.witnesses is not None:
                    progress.seen[learner.witnesses.committed_features] = True
        self.progress = progress
        self._merged = MergedLearner(learner, progress.steps)
        self._state: SharedState | None = None  # at features changed in the last round; None: send the whole state

    def run(self, after: Callable[["Driver"], None] | None = None) -> LinearModel:
        """Train to the end; ``after`` is called after each merge."""
        begun = time.perf_counter()
        while not all(self.progress.done):
            self.round()
            self.costs.seconds = time.perf_counter() - begun
            self.costs.repeated = self.crew.repeated
            if after is not None:
                after(self)
        return self.model

    def orders(self) -> list[Order]:
        """The orders of the next round; a single worker learns the first rows."""
        now, rows = self.progress, self.model.examples
        active = [k for k, done in enumerate(now.done) if not done]
        features = int(np.count_nonzero(now.seen))
        alone = first_rows(len(now.places), features) - rows
        if alone > 0:
            alone = min(alone, max(first_rows(len(now.places)), rows))  # a lost order is repeated as a whole
            return [Order(now.version, active[0], now.places[active[0]], alone, 0, rows)]
        size = next_round(rows, len(active), features)
        parts, windows = cut(size.split, len(active)), cut(size.window, len(active))
        return [
            Order(now.version, k, now.places[k], part[1] - part[0], window[1] - window[0], rows + part[0])
            for k, part, window in zip(active, parts, windows, strict=True)
        ]

    def round(self) -> None:
        """One round."""
        now, costs = self.progress, self.costs
        whole = cache(lambda: SharedState.of(self.model.learner, np.flatnonzero(now.seen)))
        replies = self.crew.round(self.orders(), self._state or whole(), whole)
        begun = time.perf_counter()
        for reply in replies:
            now.places[reply.shard], now.done[reply.shard] = reply.place, reply.done
            self._count(reply)
        self._merge(replies)
        self._state = self._merged.changes()
        now.seen[self._state.piece.features] = True
        now.version += 1
        now.steps = self._merged.steps
        costs.rounds += 1
        costs.bytes_moved += size_of(self._state) * len(replies)
        costs.seconds_merging += time.perf_counter() - begun

    def _merge(self, replies: list[Reply]) -> None:
        """Merge the replies, and learn the rows of the window."""
        merged, states = self._merged, [reply.state for reply in replies if reply.counts.examples]
        window = [batch for reply in replies for batch in reply.window]
        for state in states:
            merged.marks[state.piece.features] = True
        if states:
            base = take(merged.learner, merged.changed)
            pieces = [self._aligned(base, state.piece) for state in states]
            merged.merge(base, pieces, [state.sums for state in states], self._window(window))

        def learn() -> None:
            for batch in window:
                for _ in self.model.learn(batch):
                    pass

        merged.learn(learn, [(as_rows(batch), len(batch)) for batch in window])

    def _aligned(self, base: Piece, piece: Piece) -> Piece:
        """Extend a worker's piece to the features of the base; missing features are unchanged."""
        put(self.model.learner, piece)
        aligned = take(self.model.learner, base.features)
        put(self.model.learner, base)
        return aligned

    def _window(self, batches: list[Batch]) -> Window | None:
        """The rows to fit a merge to: rows without a base."""
        batches = [batch.only(batch.bases == 0.0) if len(batch.bases) else batch for batch in batches]
        batches = [batch for batch in batches if len(batch)]
        if not batches:
            return None
        whole = joined(batches)
        return Window(as_rows(whole), self.model.settings.mapped(whole.labels), whole.weights)

    def _count(self, reply: Reply) -> None:
        model, counts, costs = self.model, reply.counts, self.costs
        model.examples += counts.examples
        model.nonzeros += counts.nonzeros
        model.weight += counts.weight
        model.rejected += counts.rejected
        if not np.isfinite(model.weight):
            raise Overflowed("the sum of the weights leaves the range of float64; scale them")
        for news in reply.news:
            assert isinstance(model.features, Hashing)
            model.features.learn(model.features.unknown(news))
        costs.seconds_working += reply.seconds
        costs.rows_by_workers += counts.examples
        costs.bytes_moved += size_of((reply.state, reply.window, reply.news))


def size_of(parts: Any) -> int:
    """The number of bytes of the arrays in tuples and batches."""
    if isinstance(parts, np.ndarray):
        return parts.nbytes
    if isinstance(parts, Batch):
        return size_of((parts.data, parts.indices, parts.indptr, parts.labels, parts.weights, parts.lines))
    return sum(map(size_of, parts)) if isinstance(parts, (tuple, list)) else 0
