"""A worker: learns rows of a shard from a given state, and sends back what has changed."""

import time
from typing import Any, NamedTuple

import numpy as np

from giftrl.certificates.worker_sums import WorkerSums, begin_round
from giftrl.distributed.reading import Place, Portion, Reading, ShardRows
from giftrl.merging import put, take, touched
from giftrl.streams.batch import Batch
from giftrl.streams.names.features import News
from giftrl.training.model import LinearModel, as_rows


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
