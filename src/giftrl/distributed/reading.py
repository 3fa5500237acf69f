"""The rows of a shard, from any place on: the same rows for every worker that reads from there."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from giftrl.distributed.files import File
from giftrl.distributed.shards import Cut, source_of_cut
from giftrl.streams.batch import Batch, Position
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.names.features import News
from giftrl.streams.names.hashing import Hashing
from giftrl.streams.reader import Reader
from giftrl.streams.sources.prefetch import Ahead
from giftrl.training.settings import Settings


class Place(NamedTuple):
    """Where the next row of a shard is: so many rows behind a position in one of its cuts."""

    cut: int = 0
    offset: int = 0
    line: int = 1
    rows: int = 0


class Reading(NamedTuple):
    """What workers need to know to read any shard.

    Attributes:
        settings: of the model.
        files: that the cuts are of.
        shards: the cuts of each worker.
        format, columns, schema, on_error: as for :class:`giftrl.streams.Reader`.
    """

    settings: Settings
    files: tuple[File, ...]
    shards: tuple[tuple[Cut, ...], ...]
    format: str
    columns: Columns
    schema: Schema | None
    on_error: str = "stop"


class Portion(NamedTuple):
    """Consecutive rows of a shard, and how many rows between them and the row before could not be used."""

    batch: Batch
    rejected: int


class ShardRows:
    """Hands out the rows of a shard, in order, and remembers its place.

    Args:
        reading: of all shards.
        shard: its number.
        place: where to begin.
        background: whether a thread reads and parses ahead.

    Attributes:
        place: where the next row is.
        done: whether there is none.
        news: names that were not met before, of all batches so far.
    """

    def __init__(self, reading: Reading, shard: int, place: Place, *, background: bool = False) -> None:
        assert reading.settings.bits is not None
        self.shard, self.place = shard, place
        self.done = False
        self.news: list[News] = []
        self._reading, self._cuts = reading, reading.shards[shard]
        self._names = Hashing(reading.settings.bits).ahead()
        self._batch: Batch | None = None
        self._used = 0  # rows of the batch that were handed out
        self._begin = place  # where the batch begins
        items: Any = self._items(place)
        self._ahead = Ahead(items) if background else None
        self._iterator = iter(items if self._ahead is None else self._ahead)
        self._skip = place.rows

    def close(self) -> None:
        """End the thread."""
        if self._ahead is not None:
            self._ahead.close()

    def _items(self, place: Place) -> Iterator[tuple[Place, Batch, News]]:
        for number in range(place.cut, len(self._cuts)):
            begin = Place(number, place.offset, place.line) if number == place.cut else Place(number)
            for batch in self._read(number, Position(0, begin.offset, begin.line)):
                yield begin, batch, self._names.news()
                begin = Place(number, batch.end.offset, batch.end.line)

    def _read(self, number: int, start: Position) -> Iterator[Batch]:
        reading, settings, cut = self._reading, self._reading.settings, self._cuts[number]
        file = reading.files[cut.file]
        source = source_of_cut(file, cut)
        if file.lines:
            with source.again as lines:
                if len(lines.getbuffer()) == len(file.header):  # no line begins in this block
                    return
        columns = reading.columns if file.delimiter is None else reading.columns._replace(delimiter=file.delimiter)
        yield from Reader(
            [source], self._names, format=reading.format, columns=columns, schema=reading.schema,
            interactions=settings.interactions, ngrams=settings.ngrams, normalize=settings.normalize,
            constant=settings.constant, on_error=reading.on_error, labels=settings.label_names,
            accepts=settings.accepts, expected=settings.expected, no_base=settings.no_base, start=start,
            background=False,
        )  # fmt: skip

    def _advance(self) -> bool:
        """Go on to the next batch; False if there is none."""
        found = next(self._iterator, None)
        if found is None:
            self.done, self._batch = True, None
            self.place = Place(len(self._cuts))
            return False
        self._begin, self._batch, news = found
        self.news.append(news)
        self._used = min(self._skip, len(self._batch))
        self._skip -= self._used
        return True

    def take(self, rows: int) -> Iterator[Portion]:
        """The next rows, so many of them or all that there are, in portions of one source each.

        A row that cannot be used counts with the rows before the next one: what a portion counts depends on its rows,
        and not on where batches end.
        """
        while not self.done:
            if self._batch is None and not self._advance():
                return
            batch = self._batch
            assert batch is not None
            first, last = self._used, min(self._used + rows, len(batch))
            if rows == 0 and first < len(batch):
                return
            low = batch.lines[min(first, len(batch) - 1)] if first else -1  # an earlier portion has counted up to here
            high = batch.lines[last] if last < len(batch) else np.iinfo(np.int64).max
            rejected = sum(bool(low < each.line < high) for each in batch.rejected) if self._skip == 0 else 0
            self._used = last
            rows -= last - first
            whole = replace(batch, rejected=())
            chosen = np.zeros(len(batch), np.bool_)
            chosen[first:last] = True
            ended = last == len(batch)
            if ended:
                end = batch.end
                self._batch, self.place = None, Place(self._begin.cut, end.offset, end.line)
            else:
                self.place = self._begin._replace(rows=self._begin.rows + last)
            if last > first or rejected:
                yield Portion(whole if last - first == len(batch) else whole.only(chosen), rejected)
