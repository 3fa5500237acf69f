"""Labels of the first rows, from which a loss is chosen."""

import contextlib
from typing import Any, NamedTuple

from giftrl.errors import BadSource, GiftrlError
from giftrl.files import is_stream
from giftrl.streams.batch import CollectedLabels, Position, Rejected
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.names.hashing import Hashing
from giftrl.streams.reader import Reader
from giftrl.streams.source import HEAD_BYTES, TEXT_FORMATS, Source, Stream, detect, find_sources

#: How many rows and how many bytes to read at most, and how many bytes of text at a time.
MAX_ROWS, MAX_BYTES = 10_000, 1 << 26
BLOCK_BYTES = 1 << 17


class FirstLabels(NamedTuple):
    """The labels of the first rows, as they are written, and what else reading these rows has shown."""

    labels: list[str]  # of rows that have one
    opened: dict[str, Stream]  # sources that cannot be opened again, by name; nothing has been consumed
    names: tuple[str, ...] = ()  # of the columns of the first table, or of the keys of the first JSON object
    rows: int = 0  # with a label or without
    rejected: Rejected | None = None  # the first row that could not be read


class _FirstRows(NamedTuple):
    """The first rows of one source: their labels (None for a row without one), the bytes read and the first bad row."""

    labels: list[str | None]
    names: tuple[str, ...] = ()
    size: int = 0
    rejected: Rejected | None = None


def first_labels(
    named: Any,
    *,
    format: str | None = None,  # noqa: A002
    columns: Columns | None = None,
    schema: Schema | None = None,
) -> FirstLabels:
    """Read the labels of the first 10,000 rows, or of those in the first 64 MiB if these are fewer.

    The arguments are those of :class:`giftrl.streams.Reader`. Rows that cannot be read are skipped, and so are sources
    after the first that cannot be opened: the reader will name them.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.csv")
    ...     _ = path.write_text("age,churn\\n33,no\\n8,yes\\n,\\n")
    ...     first_labels(path).labels
    ['no', 'yes']
    """
    seen = _FirstRows([])
    opened: dict[str, Stream] = {}
    for number, source in enumerate(find_sources(named)):
        piped = source.is_input or (source.path is not None and is_stream(source.name))
        # Do not wait for a pipe before its turn.
        if len(seen.labels) >= MAX_ROWS or seen.size >= MAX_BYTES or (piped and number > 0):
            break
        try:
            stream = Stream(source)
            if piped:
                opened[source.name] = stream
            with contextlib.nullcontext() if piped else stream:
                new = _first_rows(stream, format, columns or Columns(), schema, piped)
        except GiftrlError:
            if number == 0:
                raise
            break
        names, rejected = seen.names or new.names, seen.rejected or new.rejected
        seen = _FirstRows([*seen.labels, *new.labels], names, seen.size + new.size, rejected)
    labels = seen.labels[:MAX_ROWS]
    return FirstLabels([label for label in labels if label], opened, seen.names, len(labels), seen.rejected)


class _Peeked:
    """The first bytes of a stream as a file of its own; the stream keeps them."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.at, self.whole = stream, 0, True

    def read(self, size: int) -> bytes:
        end = min(self.at + size, MAX_BYTES)
        self.whole = end < MAX_BYTES
        data = self.stream.peek(max(end, 2 * self.at))[self.at : end]  # twice as far, as peeking copies what it has
        self.at += len(data)
        return data

    def readinto(self, buffer: memoryview) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Leave the stream open."""

    def seekable(self) -> bool:
        return False


def _first_rows(stream: Stream, asked: str | None, columns: Columns, schema: Schema | None, piped: bool) -> _FirstRows:
    """The first rows of a source, read by its parser."""
    source = stream.source
    format_ = detect(stream.peek(HEAD_BYTES), source.name, asked)
    peeked = _Peeked(stream)
    if format_ in TEXT_FORMATS or piped or stream.compression is not None:
        source = Source(source.name, opener=lambda: peeked)
    if format_ == "arrow":
        from giftrl.streams.tables.arrow import RecordBatches, first_converted_labels, is_converted

        with Stream(source) as beginning:
            stored = RecordBatches(beginning, format_)
            if is_converted(stored.schema):
                return _FirstRows(first_converted_labels(stored, MAX_ROWS))
        peeked.at = 0
    known = CollectedLabels()
    reader = Reader(
        source, Hashing(1), format=format_, columns=columns, schema=schema, labels=known, block=BLOCK_BYTES, threads=1
    )
    reader.labels_only = True
    labels: list[str | None] = []
    rejected: list[Rejected] = []
    last = 0  # the line of the last row
    try:
        with contextlib.closing(reader.parse(source, Position())) as batches:
            for parsed in batches:
                for line, code in zip(parsed.batch.lines.tolist(), parsed.batch.labels.tolist(), strict=True):
                    labels.append(None if code != code else known.text(code) or parsed.label_at(line)[0])
                    last = line
                rejected += parsed.batch.rejected
                if len(labels) >= MAX_ROWS or reader.consumed >= MAX_BYTES:
                    break
    except BadSource:
        if peeked.whole:
            raise
    names = reader.schema.names if reader.schema is not None else ()
    if format_ == "json":
        names = reader.parser(format_).first_keys
    # The last record may be cut.
    sound = [row for row in rejected if peeked.whole or not labels or row.line < last]
    return _FirstRows(labels, names, reader.consumed, sound[0] if sound else None)
