"""Shards of files, one per worker, which can be read from any position.

Shards are a pure function of the files and of the number of workers. Plain text is cut into blocks of bytes, which go
to the workers in turn: so every worker gets a sample of the whole, even if rows are ordered by time. A line belongs to
the
block of its first byte. Compressed files, Parquet, Arrow and npz, and CSV with newlines inside quotes, are not cut:
whole files go to the workers in turn.
"""

import glob
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from giftrl.errors import BadSource, GiftrlError, InvalidInput, require
from giftrl.streams.batch import Batch, Position
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.names.features import Hashing, News
from giftrl.streams.reader import Prefetch, Reader
from giftrl.streams.source import HEAD_BYTES, STANDARD_INPUT, TEXT_FORMATS, Source, Stream, detect, find_sources, is_url
from giftrl.training.settings import Settings

Named = str | os.PathLike[str]
#: An upper bound on usual compression ratios of text.
MAX_COMPRESSION = 10
#: Loggers silenced, since their errors are reported as our own.
QUIET_LOGGERS = ("fsspec", "gcsfs", "s3fs")
#: The bytes of a block, at most and at least; each worker has this many blocks if that allows it.
MAX_BLOCK_BYTES, MIN_BLOCK_BYTES, BLOCKS_PER_WORKER = 4 << 20, 4 << 10, 16
#: Bytes read at a time after a block, to the end of its last line.
LINE_END_BYTES = 1 << 16


class File(NamedTuple):
    """A file of rows."""

    name: str  # its path or URL
    size: int  # in bytes
    lines: bool = False  # True if it can be cut between any two lines
    header: bytes = b""  # of CSV, the bytes before its first row
    delimiter: str | None = None  # of CSV


def source_of(name: str) -> Source:
    """The whole of a file, as a reader takes it."""
    return Source(name, opener=partial(_open_url, name)) if is_url(name) else Source(name, Path(name))


def _open_url(name: str) -> Any:
    with _errors_of(name):
        return _fsspec(name).open(name, "rb").open()


def find_files(sources: Named | Sequence[Named]) -> tuple[File, ...]:
    """Expand paths, globs, directories and URLs to files, with their sizes."""
    names = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    require(len(names) > 0, "sources", sources, "must name at least one source", "give files or URLs")
    for name in names:
        piped = os.fspath(name) == STANDARD_INPUT
        require(not piped, "sources", name, "cannot be split among workers", "write standard input to a file")
    return tuple(file for name in names for file in (_behind_url(str(name)) if is_url(name) else _on_disk(name)))


def _on_disk(name: Named) -> Iterator[File]:
    for source in find_sources(name):
        assert source.path is not None
        if not source.path.is_file():
            raise BadSource(source.name, "is a pipe or a device, which workers cannot share", "write it to a file")
        # Workers may run in another folder.
        yield File(str(source.path.resolve()), source.path.stat().st_size)


def _behind_url(url: str) -> Iterator[File]:
    with _errors_of(url):
        system, path = _fsspec(url).core.url_to_fs(url)
        if glob.has_magic(path) and not system.exists(path):
            paths = sorted(system.glob(path))
            if not paths:
                raise BadSource(url, "the pattern matches no file", "check it")
        else:
            paths = sorted(system.find(path)) if system.isdir(path) else [path]
        for each in paths:
            size, name = int(system.info(each)["size"]), system.unstrip_protocol(each)
            if size == 0:
                raise BadSource(name, "the file is empty", "leave it out")
            yield File(name, size)


def _fsspec(url: str) -> Any:
    try:
        import fsspec
    except ImportError:
        remedy = 'pip install "giftrl[ray]"'
        raise InvalidInput("sources", url, "needs fsspec, which is not installed", remedy) from None
    for name in QUIET_LOGGERS:
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
    return fsspec


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """Turn errors of file systems into an error that names the file."""
    try:
        yield
    except GiftrlError:
        raise
    except FileNotFoundError:
        raise BadSource(name, "there is no such file", "check the name") from None
    except ImportError as problem:
        raise BadSource(name, f"needs another package ({problem})", "install it on every machine") from None
    except Exception as problem:  # each file system has errors of its own, and not all of them are an OSError
        rule = f"cannot be read ({type(problem).__name__}: {problem})"
        raise BadSource(name, rule, "check the address and the access to it") from None


class About(NamedTuple):
    """An estimate of the number of rows; with ``most``, there may be far fewer, as in compressed files.

    >>> print(About(16_000), About(32_000, most=True), sep=", ")
    about 16,000, at most about 32,000
    """

    rows: int
    most: bool = False

    def __str__(self) -> str:
        return f"{'at most ' if self.most else ''}about {self.rows:,}"


class Look(NamedTuple):
    """Files with the facts of their first bytes, their format, and the kinds of the columns of tables."""

    files: tuple[File, ...]
    format: str
    schema: Schema | None
    about: About | None  # the number of rows of text files, by the first lines of the first; None for other files


def look_at_files(
    files: Sequence[File],
    format: str | None = None,  # noqa: A002
    columns: Columns | None = None,
    schema: Schema | None = None,
) -> Look:
    """Determine which files can be split between lines, where CSV rows begin, and the approximate number of rows.

    The arguments are those of :class:`giftrl.streams.Reader`.
    """
    looked, formats, row_bytes, text_bytes, compressed = [], dict[str, str](), 0.0, 0, False
    for file in files:
        with Stream(source_of(file.name)) as stream:
            head = stream.peek(HEAD_BYTES)
            stream.check_end(1)
            kind = detect(head, file.name, format)
            formats.setdefault(kind, file.name)
            plain = stream.compression is None
        row_bytes = row_bytes or len(head) / max(head.count(b"\n"), 1)
        # Compressed files are estimated by the maximum compression ratio.
        text_bytes += file.size * (1 if plain else MAX_COMPRESSION)
        compressed |= not plain
        if kind == "csv":
            from giftrl.streams.tables.csv import CsvText

            table = CsvText(Hashing(1), columns or Columns(), schema)
            begin = table.open(head[:HEAD_BYTES], file.name, len(head) < HEAD_BYTES)
            file, schema = file._replace(header=head[: begin.offset], delimiter=table.delimiter), table.schema
        # A record of CSV with a newline inside quotes has a line with an odd number of quotes.
        long_records = kind == "csv" and any(line.count(b'"') % 2 for line in head.split(b"\n")[:-1])
        looked.append(file._replace(lines=plain and kind in TEXT_FORMATS and not long_records))
    if len(formats) > 1:
        (one, first), (other, second), *_ = formats.items()
        rule = f"must have one format, and the first is {one} and the second {other}"
        remedy = "convert one of them (giftrl convert), or train in two runs"
        raise InvalidInput("sources", [first, second], rule, remedy)
    about = About(max(1, round(text_bytes / row_bytes)), compressed) if next(iter(formats)) in TEXT_FORMATS else None
    return Look(tuple(looked), next(iter(formats)), schema, about)


class Cut(NamedTuple):
    """A part of a file: the lines that begin in a byte range; the whole file for formats without lines."""

    file: int  # its number
    begin: int
    end: int


def block_size(total: int, workers: int) -> int:
    """The bytes of a block: a 16th of a worker's part, but at least 4 KiB and at most 4 MiB."""
    return min(max(total // (BLOCKS_PER_WORKER * workers), MIN_BLOCK_BYTES), MAX_BLOCK_BYTES)


def deal(files: Sequence[File], workers: int) -> tuple[tuple[Cut, ...], ...]:
    """The shards of the workers. The header of CSV is in no block.

    >>> deal([File("a.svm", 10_000, lines=True), File("b.gz", 7)], 2)
    ((Cut(file=0, begin=0, end=4096), Cut(file=0, begin=8192, end=10000), Cut(file=1, begin=0, end=7)),
     (Cut(file=0, begin=4096, end=8192),))
    """
    size = block_size(sum(file.size for file in files if file.lines), workers)
    shards: list[list[Cut]] = [[] for _ in range(workers)]
    blocks = whole = 0
    for number, file in enumerate(files):
        if not file.lines:
            shards[whole % workers].append(Cut(number, 0, file.size))
            whole += 1
            continue
        for begin in range(len(file.header), file.size, size):
            shards[blocks % workers].append(Cut(number, begin, min(begin + size, file.size)))
            blocks += 1
    return tuple(map(tuple, shards))


def lines_of_cut(file: File, cut: Cut) -> bytes:
    """The lines of a block, preceded by the header of its file."""
    source = source_of(file.name)
    with _errors_of(file.name), source.path.open("rb") if source.path is not None else source.again as raw:
        return file.header + whole_lines(raw, cut.begin, cut.end, cut.begin == len(file.header))


def whole_lines(raw: Any, begin: int, end: int, first: bool = False) -> bytes:
    """The lines of an open file that begin in [begin, end). ``first`` means that a line begins at ``begin``.

    >>> import io
    >>> file = io.BytesIO(b"one\\ntwo\\nthree")
    >>> [whole_lines(file, k, k + 4, k == 0) for k in (0, 4, 8, 12)]
    [b'one\\n', b'two\\n', b'three', b'']
    """
    before = 0 if first else 1  # a line begins at ``begin`` if the byte before it ends one
    raw.seek(begin - before)
    data = bytearray(raw.read(end - begin + before))
    start = 0 if first else data.find(b"\n") + 1
    if before and (start == 0 or start == len(data)):  # no line begins here
        return b""
    while not data.endswith(b"\n") and (more := raw.read(LINE_END_BYTES)):
        rest = more.find(b"\n") + 1
        data += more[:rest] if rest else more
        if rest:
            break
    return bytes(data[start:])


class ShardPlace(NamedTuple):
    """The position of the next row of a shard: a number of rows after a position in a cut."""

    cut: int = 0
    offset: int = 0
    line: int = 1
    rows: int = 0


class ShardReading(NamedTuple):
    """Everything that workers need to read any shard."""

    settings: Settings  # of the model
    files: tuple[File, ...]  # that the cuts are of
    shards: tuple[tuple[Cut, ...], ...]  # the cuts of each worker
    format: str  # this and the next three: as for giftrl.streams.Reader
    columns: Columns
    schema: Schema | None
    on_error: str = "stop"


class Portion(NamedTuple):
    """Consecutive rows of a shard, and the number of rejected rows just before them."""

    batch: Batch
    rejected: int


class ShardRows:
    """Reads the rows of a shard in order, and tracks the position; deterministic.

    Args:
        reading: of all shards.
        shard: its number.
        place: where to begin.
        background: True to read and parse ahead in a thread.

    Attributes:
        place: of the next row.
        done: True if there is none.
        news: new feature names in all batches so far.
    """

    def __init__(self, reading: ShardReading, shard: int, place: ShardPlace, *, background: bool = False) -> None:
        assert reading.settings.bits is not None
        self.shard, self.place = shard, place
        self.done = False
        self.news: list[News] = []
        self._reading, self._cuts = reading, reading.shards[shard]
        self._names = Hashing(reading.settings.bits).ahead()
        self._batch: Batch | None = None
        self._used = 0  # rows of the batch already returned
        self._begin = place  # of the batch
        self._skip = place.rows
        items: Any = self._items(place)
        self._ahead = Prefetch(items) if background else None
        self._iterator = iter(items if self._ahead is None else self._ahead)

    def close(self) -> None:
        """End the thread."""
        if self._ahead is not None:
            self._ahead.close()

    def _items(self, place: ShardPlace) -> Iterator[tuple[ShardPlace, Batch, News]]:
        for number in range(place.cut, len(self._cuts)):
            begin = ShardPlace(number, place.offset, place.line) if number == place.cut else ShardPlace(number)
            for batch in self._read(self._cuts[number], Position(0, begin.offset, begin.line)):
                yield begin, batch, self._names.news()
                begin = ShardPlace(number, batch.end.offset, batch.end.line)

    def _read(self, cut: Cut, start: Position) -> Iterator[Batch]:
        reading = self._reading
        file = reading.files[cut.file]
        source, columns = source_of(file.name), reading.columns
        if file.lines:
            data = lines_of_cut(file, cut)
            if len(data) == len(file.header):  # no line begins in this block
                return
            source = Source(f"{file.name} from byte {cut.begin}", data=data)
        if file.delimiter is not None:
            columns = columns._replace(delimiter=file.delimiter)
        yield from Reader(
            [source], self._names, format=reading.format, columns=columns, schema=reading.schema,
            on_error=reading.on_error, start=start, background=False, **reading.settings.reader_options(learn=True),
        )  # fmt: skip

    def _advance(self) -> bool:
        """Move to the next batch; False if there is none."""
        item = next(self._iterator, None)
        if item is None:
            self.done, self._batch = True, None
            self.place = ShardPlace(len(self._cuts))
            return False
        self._begin, self._batch, news = item
        self.news.append(news)
        self._used = min(self._skip, len(self._batch))
        self._skip -= self._used
        return True

    def take(self, rows: int) -> Iterator[Portion]:
        """The next rows, up to a number, in portions of one source each. A rejected row is counted in the portion of
        the next valid row, so that counts do not depend on batches.
        """
        while self._batch is not None or (not self.done and self._advance()):
            batch = self._batch
            assert batch is not None
            first, last = self._used, min(self._used + rows, len(batch))
            if rows == 0 and first < len(batch):
                return
            low = batch.lines[min(first, len(batch) - 1)] if first else -1  # counted in an earlier portion
            high = batch.lines[last] if last < len(batch) else np.iinfo(np.int64).max
            rejected = sum(bool(low < row.line < high) for row in batch.rejected) if self._skip == 0 else 0
            self._used = last
            rows -= last - first
            if last == len(batch):
                self._batch, self.place = None, ShardPlace(self._begin.cut, batch.end.offset, batch.end.line)
            else:
                self.place = self._begin._replace(rows=self._begin.rows + last)
            if last > first or rejected:
                chosen = np.zeros(len(batch), np.bool_)
                chosen[first:last] = True
                yield Portion(replace(batch, rejected=()) if chosen.all() else batch.only(chosen), rejected)
