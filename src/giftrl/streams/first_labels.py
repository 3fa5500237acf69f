"""Labels of the first rows, from which a loss is chosen."""

import contextlib
from typing import Any, NamedTuple

from giftrl.errors import BadSource, GiftrlError
from giftrl.files import is_stream
from giftrl.streams.batch import CollectedLabels, Position, Rejected
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.names.features import Hashing
from giftrl.streams.reader import Reader
from giftrl.streams.source import Source, Stream, find_sources

#: Limits: rows, bytes, and bytes of text per block.
MAX_ROWS, MAX_BYTES = 10_000, 1 << 26
BLOCK_BYTES = 1 << 17


class FirstLabels(NamedTuple):
    """The labels of the first rows as text, and other findings from reading them."""

    labels: list[str]  # labels of labelled rows
    opened: dict[str, Stream]  # open streams of sources that can be read once, by name, rewound
    names: tuple[str, ...] = ()  # the schema of the first table or JSON object
    rows: int = 0  # rows read, labelled or not
    rejected: Rejected | None = None  # the first rejected row


class _Peeked:
    """The first bytes of a pipe as a file; the stream still returns them later."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.at, self.whole = stream, 0, True

    def open(self) -> "_Peeked":
        return self

    def read(self, size: int) -> bytes:
        end = min(self.at + size, MAX_BYTES)
        self.whole = end < MAX_BYTES
        data = self.stream.peek(max(end, 2 * self.at))[self.at : end]  # doubling, since peeking copies all bytes so far
        self.at += len(data)
        return data

    def readinto(self, buffer: memoryview) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Do nothing: the stream stays open."""

    def seekable(self) -> bool:
        return False


def first_labels(
    named: Any,
    *,
    format: str | None = None,  # noqa: A002
    columns: Columns | None = None,
    schema: Schema | None = None,
) -> FirstLabels:
    """Read the labels of the first 10,000 rows, at most 64 MiB.

    The arguments are those of :class:`giftrl.streams.Reader`. Bad rows are skipped. So are later sources that cannot be
    opened, since the reader reports these.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.csv")
    ...     _ = path.write_text("age,churn\\n33,no\\n8,yes\\n,\\n")
    ...     first_labels(path).labels
    ['no', 'yes']
    """
    labels: list[str | None] = []
    names: tuple[str, ...] = ()
    rejected: list[Rejected] = []
    opened: dict[str, Stream] = {}
    size = 0
    for number, source in enumerate(find_sources(named)):
        piped = source.is_input or (source.path is not None and is_stream(source.name))
        # Do not wait for a pipe before its turn.
        if len(labels) >= MAX_ROWS or size >= MAX_BYTES or (piped and number > 0):
            break
        try:
            peeked = None
            if piped:
                opened[source.name] = Stream(source)
                peeked = _Peeked(opened[source.name])
                source = Source(source.name, opener=peeked.open)
            reader = Reader(
                source, Hashing(1), format=format, columns=columns, schema=schema, labels=CollectedLabels(),
                background=False, block=BLOCK_BYTES,
            )  # fmt: skip
            new, bad, read = _first_rows(reader, peeked)
        except GiftrlError:
            if number == 0:
                raise
            break
        labels, rejected, size = labels + new, rejected + bad, size + read
        if not names and "json" in reader.formats.values():
            names = reader.parser("json").first_keys
        elif not names and reader.schema is not None:
            names = reader.schema.names
    labels = labels[:MAX_ROWS]
    return FirstLabels([each for each in labels if each], opened, names, len(labels), next(iter(rejected), None))


def _first_rows(reader: Reader, peeked: _Peeked | None) -> tuple[list[str | None], list[Rejected], int]:
    """The first labels of a source (None for an unlabelled row), the rejected rows, and the bytes read."""
    labels: list[str | None] = []
    rejected: list[Rejected] = []
    known = reader.labels
    assert isinstance(known, CollectedLabels)
    reader.labels_only = True
    parser: Any = None
    last = size = 0  # the line of the last row, and the bytes up to the end of its batch
    try:
        with contextlib.closing(reader.parse(reader.sources[0], Position())) as batches:
            for parsed in batches:
                parser, lines = parsed.parser, parsed.batch.lines.tolist()
                for line, text in zip(lines, known.texts(parsed.batch.labels), strict=True):
                    labels.append(parsed.label_at(line)[0] if text == "" else text)
                    last = line
                rejected += parsed.batch.rejected
                size = reader.consumed if parsed.block is None else parsed.batch.end.offset
                if len(labels) >= MAX_ROWS or size >= MAX_BYTES:
                    break
        # Names of labels that a converted file has further down.
        there = set(labels)
        labels[:0] = [name for name in getattr(parser, "label_names", None) or () if name not in there]
    except BadSource:
        if peeked is None or peeked.whole:
            raise
    cut = peeked is not None and not peeked.whole and labels  # the last record may be cut
    return labels, [row for row in rejected if not cut or row.line < last], size
