"""A worker: learns rows of a shard from a given state, and sends back what has changed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates.worker_sums import WorkerSums, begin_round, gather, watch_changes
from giftrl.distributed.shards import Place, Portion, Reading, ShardRows
from giftrl.errors import Overflowed
from giftrl.kernels.base import NonzeroRows
from giftrl.streams.batch import Batch
from giftrl.streams.names.features import News
from giftrl.streams.names.hashing import Hashing
from giftrl.training.model import LinearModel, as_rows
from giftrl.training.multi_pass import joined
from giftrl.workers import Window, cut, first_rows, first_steps, merge, next_round, put, take, touched


class Order(NamedTuple):
    """What a worker is to do in a round.

    Attributes:
        version: of the state that the round begins with: how many merges there were before.
        shard, place: where its rows begin.
        rows: how many it learns.
        window: how many rows behind them it sends back without learning them.
        number: of its first row among all rows so far, for what is kept of them.
    """

    version: int
    shard: int
    place: Place
    rows: int
    window: int
    number: int = 0


class State(NamedTuple):
    """The state of a run at some features: that of the learner, and the sums of its certificate, if it has some."""

    piece: Any
    sums: WorkerSums | None


class Counts(NamedTuple):
    """Of rows that were learnt, and of rows that could not be used, those of the window included."""

    examples: int = 0
    nonzeros: int = 0
    weight: float = 0.0
    rejected: int = 0


class Reply(NamedTuple):
    """What a worker sends back.

    Attributes:
        shard: as in the order.
        place: where the next row of the shard is.
        done: whether there is none.
        piece: the state at the features that have changed.
        left: what is remembered of its rows, if anything is.
        window: rows that it has not learnt.
        counts: of its rows.
        news: names of features that it had not met before.
        seconds: that it took, reading included.
    """

    shard: int
    place: Place
    done: bool
    piece: Any
    left: WorkerSums | None
    window: tuple[Batch, ...]
    counts: Counts
    news: tuple[News, ...]
    seconds: float


class Worker:
    """A copy of the learner that is told before each round what has changed.

    A reply is a function of the state, the place and the numbers of rows: whoever repeats a round, with the state as a
    whole, sends the same bits.

    Args:
        reading: of all shards.
        background: whether a thread reads and parses ahead.
    """

    def __init__(self, reading: Reading, background: bool = False) -> None:
        self.reading = reading
        self.version = -1  # of the state that the model had at the beginning of its last round; -1 before the first
        self.model = LinearModel(reading.settings)
        self._background = background
        self._rows: ShardRows | None = None

    def round(self, order: Order, state: State, whole: bool) -> Reply | None:
        """Carry out an order; None if only the state as a whole will do, as it does for a worker that is new.

        Args:
            order: what to do.
            state: at the features that have changed since the version before; or at all that were seen.
            whole: whether it is at all that were seen.
        """
        begun = time.perf_counter()
        if whole:
            self.model = LinearModel(self.reading.settings)
        elif self.version != order.version - 1:
            return None
        put(self.model.learner, state.piece)
        witnesses = self.model.learner.witnesses
        if witnesses is not None and state.sums is not None:
            begin_round(witnesses, state.sums, order.number)
        self.version = order.version
        rows = self._at(order)
        learner = self.model.learner
        marks = np.zeros(learner.dimension, np.bool_)
        touched(learner, [], marks)  # what is dense now may not be in the end
        counts = Counts()
        for portion in rows.take(order.rows):
            for _ in self.model.learn(portion.batch):
                pass
            touched(learner, [(as_rows(portion.batch), len(portion.batch))], marks)
            counts = added(counts, portion)
        window = []
        for portion in rows.take(order.window):
            window.append(portion.batch)
            counts = counts._replace(rejected=counts.rejected + portion.rejected)
        touched(learner, [], marks)
        features = np.flatnonzero(marks)
        found = take(learner, features)
        left = None if witnesses is None else WorkerSums.of_worker(witnesses, features, order.number)
        news, rows.news = tuple(rows.news), []
        seconds = time.perf_counter() - begun
        return Reply(order.shard, rows.place, rows.done, found, left, tuple(window), counts, news, seconds)

    def _at(self, order: Order) -> ShardRows:
        """The rows of the order, gone on with where the last round ended, if that was there."""
        rows = self._rows
        if rows is None or (rows.shard, rows.place) != (order.shard, order.place):
            if rows is not None:
                rows.close()
            rows = self._rows = ShardRows(self.reading, order.shard, order.place, background=self._background)
        return rows

    def close(self) -> None:
        """End the thread that reads ahead."""
        if self._rows is not None:
            self._rows.close()


def added(counts: Counts, portion: Portion) -> Counts:
    """Counts with those of rows that were learnt; weights are added one by one, wherever portions begin and end."""
    batch = portion.batch
    return Counts(
        counts.examples + len(batch),
        counts.nonzeros + batch.nonzeros,
        float(np.add.accumulate(np.append(counts.weight, batch.weights))[-1]),
        counts.rejected + portion.rejected,
    )


# Workers in this process, one after the other: the results of many machines without any.


class LocalCrew:
    """Carries out the orders of a round in turn.

    Args:
        reading: of all shards.
        workers: how many.
    """

    name = "this process, one worker after the other"

    def __init__(self, reading: Reading, workers: int) -> None:
        self.reading = reading
        self.workers = [Worker(reading) for _ in range(workers)]
        self.repeated = 0  # orders that were carried out once more

    def round(self, orders: Sequence[Order], state: State, whole: Callable[[], State]) -> list[Reply]:
        """The replies to orders, in their order.

        Args:
            orders: at most one for each worker; that of a shard goes to the worker of its number.
            state: at the features that have changed since the version before.
            whole: gives the state at all features that were seen.
        """
        return [self.one(order, state, whole) for order in orders]

    def one(self, order: Order, state: State, whole: Callable[[], State]) -> Reply:
        """The reply to an order."""
        worker = self.workers[order.shard]
        reply = worker.round(order, state, False) or worker.round(order, whole(), True)
        assert reply is not None
        return reply

    def close(self) -> None:
        """Let the workers go."""
        for worker in self.workers:
            worker.close()


# The driver of a run: gives out rounds, merges what comes back, and learns the rows of the window.


class Crew(Protocol):
    """Workers, wherever they are; see :class:`giftrl.distributed.driver.LocalCrew`."""

    repeated: int

    def round(self, orders: Sequence[Order], state: State, whole: Callable[[], State]) -> list[Reply]:
        """The replies to orders, in their order."""

    def close(self) -> None:
        """Let the workers go."""


@dataclass
class Costs:
    """What a run has cost so far.

    >>> Costs(seconds_working=2.0, rows_by_workers=1000).rows_a_second
    500.0
    """

    rounds: int = 0
    seconds: float = 0.0  # all in all
    seconds_merging: float = 0.0  # in which workers wait for the driver
    seconds_working: float = 0.0  # of all workers together
    rows_by_workers: int = 0
    bytes_moved: int = 0  # pieces and rows from workers, and the merged piece to each worker
    repeated: int = 0  # orders that were carried out once more

    @property
    def rows_a_second(self) -> float:
        """What one worker learns in a second in which it works."""
        return self.rows_by_workers / max(self.seconds_working, 1e-9)


@dataclass
class Progress:
    """Where a run is, besides its model: what a checkpoint keeps."""

    places: list[Place]
    done: list[bool]
    version: int = 0
    steps: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    seen: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))  # features, at any time


class Driver:
    """Learns all rows of all shards, each once, in rounds.

    Args:
        model: a new one, one to go on from, or that of a checkpoint.
        reading: of all shards.
        crew: the workers.
        progress: that of a checkpoint; None at the beginning.

    >>> import pathlib, tempfile
    >>> from giftrl import distributed
    >>> from giftrl.training import Settings
    >>> folder = tempfile.TemporaryDirectory()
    >>> data = pathlib.Path(folder.name, "rows.svm")
    >>> _ = data.write_text("1 1:1\\n-1 2:1\\n" * 50)
    >>> settings = Settings(loss="logistic", beta=1.0, bits=4)
    >>> distributed.train(settings, data, workers=2, cluster="simulation").examples  # which runs a driver
    100
    >>> folder.cleanup()
    """

    def __init__(self, model: LinearModel, reading: Reading, crew: Crew, progress: Progress | None = None) -> None:
        self.model, self.reading, self.crew = model, reading, crew
        self.costs = Costs()
        learner, shards = model.learner, reading.shards
        self.progress = progress or Progress(
            [Place() for _ in shards], [not shard for shard in shards], 0, first_steps(learner),
            np.zeros(learner.dimension, np.bool_),
        )  # fmt: skip
        if progress is None and model.examples:
            self.progress.seen[known_features(model)] = True
        self._state: State | None = None  # at what changed in the last round; None where nobody knows the state before

    def run(self, after: Callable[["Driver"], None] | None = None) -> LinearModel:
        """Learn to the end; ``after`` is called after each merge."""
        begun = time.perf_counter()
        while not all(self.progress.done):
            self.round()
            self.costs.seconds = time.perf_counter() - begun
            self.costs.repeated = self.crew.repeated
            if after is not None:
                after(self)
        return self.model

    def orders(self) -> list[Order]:
        """The orders of the next round: one worker learns the first rows, and then all of them learn."""
        now, rows = self.progress, self.model.examples
        active = [k for k, done in enumerate(now.done) if not done]
        features = int(np.count_nonzero(now.seen))
        first = first_rows(len(now.places), features) - rows
        if first > 0:
            first = min(first, max(first_rows(len(now.places)), rows))  # a lost order is repeated as a whole
            return [Order(now.version, active[0], now.places[active[0]], first, 0, rows)]
        size = next_round(rows, len(active), features)
        parts, windows = cut(size.parted, len(active)), cut(size.window, len(active))
        return [
            Order(now.version, k, now.places[k], part[1] - part[0], window[1] - window[0], rows + part[0])
            for k, part, window in zip(active, parts, windows, strict=True)
        ]

    def round(self) -> None:
        """One round."""
        now, orders = self.progress, self.orders()
        whole: list[State] = []

        def state() -> State:
            if not whole:
                whole.append(self._at(np.flatnonzero(now.seen)))
            return whole[0]

        replies = self.crew.round(orders, self._state if self._state is not None else state(), state)
        begun = time.perf_counter()
        for reply in replies:
            now.places[reply.shard], now.done[reply.shard] = reply.place, reply.done
            self._count(reply)
        marks = self._merge([reply for reply in replies if reply.counts.examples], replies)
        now.seen |= marks
        now.version += 1
        self._state = self._at(np.flatnonzero(marks))
        self.costs.rounds += 1
        self.costs.bytes_moved += size_of(self._state) * len(replies)
        self.costs.seconds_merging += time.perf_counter() - begun

    def _at(self, features: NDArray[np.int64]) -> State:
        """The state at these features."""
        witnesses = self.model.learner.witnesses
        return State(
            take(self.model.learner, features), None if witnesses is None else WorkerSums.of(witnesses, features)
        )

    def _merge(self, learnt: list[Reply], replies: list[Reply]) -> NDArray[np.bool_]:
        """Merge what was learnt, and learn the rows of the window; returns which features have changed."""
        learner, now = self.model.learner, self.progress
        pieces = [reply.piece for reply in learnt]
        marks = np.zeros(learner.dimension, np.bool_)
        touched(learner, [], marks)
        for piece in pieces:
            marks[piece.features] = True
        window = [batch for reply in replies for batch in reply.window]
        if len(pieces) == 1:
            put(learner, pieces[0])
        elif pieces:
            features = np.flatnonzero(marks)
            base = take(learner, features)
            merged, now.steps = merge(learner, base, self._alike(base, pieces), self._window(window), now.steps)
            put(learner, merged)
        witnesses = learner.witnesses
        if witnesses is not None and learnt:
            marks[gather(witnesses, [reply.left for reply in learnt if reply.left is not None])] = True
        changes = None if witnesses is None else watch_changes(witnesses)
        for batch in window:
            for _ in self.model.learn(batch):
                pass
            touched(learner, [(as_rows(batch), len(batch))], marks)
        touched(learner, [], marks)
        if changes is not None:
            marks[changes()] = True
        return marks

    def _alike(self, base: Any, pieces: list[Any]) -> list[Any]:
        """The pieces of workers at the features of the base: what a worker has not sent is as it was."""
        learner, alike = self.model.learner, []
        for piece in pieces:
            put(learner, piece)
            alike.append(take(learner, base.features))
            put(learner, base)
        return alike

    def _window(self, batches: list[Batch]) -> Window | None:
        """The rows to which a merge is fitted: those whose predictions do not start from a base."""
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
        costs.bytes_moved += size_of((reply.piece, reply.left, reply.window, reply.news))


def known_features(model: LinearModel) -> NDArray[np.int64]:
    """The features that a model has a state for.

    >>> from giftrl.training import Settings
    >>> known_features(LinearModel(Settings(loss="squared", bits=4))).tolist()
    []
    """
    learner: Any = model.learner
    known = NonzeroRows.of(learner.features.x).where
    return known if learner.witnesses is None else np.union1d(known, learner.witnesses.committed_features)


def size_of(parts: Any) -> int:
    """How many bytes the arrays in tuples and batches have.

    >>> size_of((np.zeros(3), ([np.zeros(1)], 7)))
    32
    """
    if isinstance(parts, np.ndarray):
        return parts.nbytes
    if isinstance(parts, Batch):
        return size_of((parts.data, parts.indices, parts.indptr, parts.labels, parts.weights, parts.lines))
    return sum(map(size_of, parts)) if isinstance(parts, (tuple, list)) else 0
