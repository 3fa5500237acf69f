"""Read sources of any format as batches of rows for a learner."""

import base64
import contextlib
import functools
import json
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.rows import prepare_rows
from giftrl.errors import BadRow, Hint, Message, UnknownName, require
from giftrl.files import Output
from giftrl.streams.batch import Batch, LabelNames, Position, Rejected, keep_rows
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.line_blocks import BLOCK_BYTES, MAX_LINE, Block, LineBlocks
from giftrl.streams.names.features import Features, Hashing, News
from giftrl.streams.names.interactions import Crossing, Interactions, Ngrams, no_order
from giftrl.streams.source import FORMATS, HEAD_BYTES, TEXT_FORMATS, Source, Stream, detect, find_sources
from giftrl.system import cores

#: Scaling of rows: none; to Euclidean norm 1 before the constant is added; or before, and once more after.
NORMALIZATIONS = ("none", "unit", "unit_after")
#: Formats with ordered names: VW text, and files converted from it.
WITH_NGRAMS = ("vw", "arrow")
#: Formats without groups, and their names in messages.
WITHOUT_GROUPS = {"libsvm": "LIBSVM text", "npz": "npz"}
#: Formats whose blocks can be parsed in any order.
BY_BLOCK = ("libsvm", "vw")
#: The maximum number of parsing threads; a learner is no faster than a few of them.
MAX_PARSER_THREADS = 4
#: Seconds between checks while a thread waits on a full queue.
POLL_SECONDS = 0.1
#: Seconds to wait for a thread to end; a read of standard input may block longer.
JOIN_SECONDS = 1.0

T = TypeVar("T")
R = TypeVar("R")


class Progress(NamedTuple):
    """The progress of reading sources.

    >>> Progress(50, 200).fraction
    0.25
    """

    consumed: int  # bytes, before decompression
    total: int | None  # None if the size of a source is not known

    @property
    def fraction(self) -> float | None:
        """Between 0 and 1; None if the size of a source is not known."""
        return None if self.total is None else min(1.0, self.consumed / max(1, self.total))


def prepare(batch: Batch, normalize: str = "none", constant: int | None = None, *, compiled: bool = True) -> Batch:
    """Scale the rows of a batch and append the constant feature 1, if its coordinate is given."""
    batch = replace(batch, groups=np.empty(0, np.uint8))
    if normalize == "none" and constant is None:
        return batch
    more = 0 if constant is None else len(batch)
    data, indices = np.empty(len(batch.data) + more), np.empty(len(batch.data) + more, np.int32)
    before, after, added = normalize != "none", normalize == "unit_after", -1 if constant is None else int(constant)
    ready(prepare_rows, compiled)(batch.data, batch.indices, batch.indptr, before, after, added, data, indices)
    indptr = batch.indptr if constant is None else batch.indptr + np.arange(len(batch) + 1)
    return replace(batch, data=data, indices=indices, indptr=indptr)


def rejects_text(rejected: Iterable[Rejected]) -> bytes:
    """Skipped rows as JSON lines; the bytes of a row that is not UTF-8 are under ``raw_base64``."""
    lines = []
    for each in rejected:
        row = each._asdict()
        del row["hints"]
        raw = row.pop("raw")
        try:
            row["raw"] = raw.decode()
        except UnicodeDecodeError:
            row["raw_base64"] = base64.b64encode(raw).decode()
        lines.append(json.dumps(row) + "\n")
    return "".join(lines).encode()


@dataclass(eq=False)
class Parsed:
    """A batch from a parser, and its block of text, if any."""

    batch: Batch
    block: Block | None
    parser: Any
    news: News | None = None  # new feature names, if each thread has a parser

    def position(self, line: int) -> Position:
        """The position at which a line, or row, begins."""
        if self.block is None:
            return Position(self.batch.end.source, line - 1, line)
        start = self.block.start
        return Position(start.source, start.offset + self._begin(self.block, line), line)

    def raw(self, line: int) -> bytes:
        """The bytes of a line; empty if a source has no lines."""
        if self.block is None:
            return b""
        data = self.block.data[self._begin(self.block, line) : self._begin(self.block, line + 1)].tobytes()
        return data.removesuffix(b"\n").removesuffix(b"\r")

    def label_at(self, line: int) -> tuple[str, int]:
        """The label of a line or row as text, and its column, counted from 1."""
        text, column = self.parser.label_at(line, self.raw(line))
        return str(text), int(column)

    def reject(self, line: int, problem: str, expected: str, column: int = 1) -> Rejected:
        """Reject a line or row."""
        return Rejected(self.batch.source, line, column, problem, expected, self.raw(line))

    @functools.cached_property
    def _begins(self) -> NDArray[np.int64]:
        assert self.block is not None
        return np.concatenate([[0], np.flatnonzero(self.block.data == 10) + 1, [len(self.block.data)]])

    def _begin(self, block: Block, line: int) -> int:
        return int(self._begins[min(line - block.start.line, len(self._begins) - 1)])


def _parsed(parser: Any, source: str, threaded: bool, block: Block) -> Parsed:
    """Parse a block; a block with a too long line has no rows."""
    if block.rejected:
        none, lines = np.empty(0), np.empty(0, np.int64)
        rows = none, np.empty(0, np.int32), np.zeros(1, np.int64), none, none, lines, np.empty(0, np.uint8)
        batch = Batch(source, *rows, block.end, block.rejected)
    else:
        batch = parser.parse(block.data, source, block.start, *([block.last] if hasattr(parser, "unused") else ()))
    return Parsed(batch, block, parser, parser.features.news() if threaded else None)


@dataclass(eq=False)
class Reader:
    """Iterates over batches of rows, ready for a learner, in the order of the sources.

    A thread reads and parses ahead of the loop over the batches. It adds new names to a copy of the features; the
    features get these when their batch is consumed. Memory does not grow with the data, except that a
    :class:`Dictionary` and its copy grow with the names. Wrong arguments and unreadable sources raise exceptions. A bad
    row either ends the loop with :class:`BadRow`, after all rows before it, or is skipped, counted and written to a
    file.

    Args:
        sources: files, globs, directories, "-" for standard input, or a :class:`Source`; see :func:`find_sources`.
        features: how the names of features become coordinates: :class:`Hashing` or :class:`Dictionary`.
        format: libsvm, vw, csv, json, parquet, arrow or npz; Default: detected for each source.
        columns: the roles of columns that the user gives.
        schema: the roles of all columns, from an earlier reader (its ``schema``); a model must be used with the one
            that it was trained with.
        interactions: groups to multiply, or :class:`Interactions`.
        ngrams: pairs of a namespace of VW text and a size, or :class:`Ngrams`.
        normalize: "none"; "unit", each row gets Euclidean norm 1 before the constant is added; "unit_after", once more
            after that.
        constant: add the constant feature 1 to every row.
        on_error: "stop" at a bad row, or "skip" it.
        rejects: a file for skipped rows, as JSON lines; it replaces an earlier one at the end of the loop. If ``start``
        is given, the file of the interrupted run is continued.
        checkpoint: the checkpoint of a run that can be resumed, for which ``rejects`` is kept; or None.
        labels: the names of labels; None if labels are numbers.
        accepts: a function from an array of labels to a mask of valid ones; None if labels do not matter.
        expected: a description of the valid labels, for messages.
        hints: a function from an invalid label to a remedy, or "".
        no_base: the reason to reject rows with a base; None if bases are allowed.
        start: the place to begin: the ``end`` of a batch of an earlier reader of the same sources.
        opened: open, unread streams by name, of sources that can be read once.
        background: False to read without a background thread.
        threads: the number of parsing threads, which does not affect the batches; None: one per core, at most 4.
        compiled: False to run loops as plain Python.
        block: the bytes of text to read at a time.
        max_line: the maximum length of a line in bytes.

    >>> import pathlib, tempfile
    >>> from giftrl.streams.names.features import Dictionary
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "a.csv")
    >>> _ = path.write_text("age,city,label\\n33,Rome,1\\n8,Oslo,-1\\n")
    >>> reader = Reader(path, Dictionary(), normalize="unit")
    >>> for batch in reader:
    ...     print(batch.labels.tolist(), batch.indices.tolist(), batch.data.round(3).tolist())
    [1.0, -1.0] [1, 2, 0, 1, 3, 0] [1.0, 0.03, 1.0, 0.992, 0.124, 1.0]
    >>> reader.rows, reader.rejected, reader.schema.kinds
    (2, 0, ('number', 'category', 'label'))
    >>> folder.cleanup()
    """

    sources: Any  # as an attribute: a tuple of Source
    features: Features
    _: KW_ONLY
    format: str | None = None
    columns: Columns | None = None
    schema: Schema | None = None  # as an attribute: set after the first table is opened
    interactions: Interactions | Sequence[str | tuple[str, ...]] | None = None
    ngrams: Ngrams | Sequence[tuple[str, int]] | None = None
    normalize: str = "none"
    constant: bool = True
    on_error: str = "stop"
    rejects: str | os.PathLike[str] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    labels: LabelNames | None = None
    accepts: Callable[[NDArray[np.float64]], NDArray[np.bool_]] | None = None
    expected: str = "a label that can be used"
    hints: Callable[[str], Sequence[Hint]] | None = None
    no_base: str | None = None
    start: Position | None = None
    opened: dict[str, Stream] | None = None
    background: bool = True
    threads: int | None = None
    compiled: bool = True
    block: int = BLOCK_BYTES
    max_line: int = MAX_LINE

    rows: int = field(default=0, init=False)  # delivered so far
    rejected: int = field(default=0, init=False)  # rows skipped so far
    formats: dict[str, str] = field(default_factory=dict, init=False)  # formats of the sources opened so far, by name
    remarks: list[Message] = field(default_factory=list, init=False)  # about the first table's columns
    consumed: int = field(default=0, init=False)  # approximate bytes read of the current source, before decompression
    labels_only: bool = field(default=False, init=False)  # True to read only the label column of a table

    def __post_init__(self) -> None:
        for argument, value, known in (
            ("format", self.format, (None, *FORMATS)),
            ("normalize", self.normalize, NORMALIZATIONS),
            ("on_error", self.on_error, ("stop", "skip")),
        ):
            if value not in known:
                raise UnknownName(argument, value, [str(each) for each in known if each is not None])
        writes = self.on_error == "skip" or self.rejects is None
        require(writes, "rejects", self.rejects, 'needs on_error="skip"', "add that, or leave it out")
        start = self.start or Position()
        self.over(self.sources, self.format)
        inside = 0 <= start.source <= len(self.sources)
        require(inside, "start", start, f"must be in one of {len(self.sources)} sources", "give the same sources")
        self._start, self._source = start, start.source
        products, sizes = self.interactions, self.ngrams
        products = products if isinstance(products, Interactions) else Interactions(products) if products else None
        sizes = sizes if isinstance(sizes, Ngrams) else Ngrams(sizes) if sizes else None
        self._interactions = products if products is not None and products.products else None
        self._ngrams = sizes if sizes is not None and sizes.sizes else None
        self._crossing: Crossing | None = None
        self._use(self.features)

    def over(self, sources: Any, format: str | None = None) -> "Reader":  # noqa: A002
        """Switch to other sources; parsers and schema stay."""
        self.sources, self.format = find_sources(sources), format
        sizes = [source.size for source in self.sources]
        self._sizes = [size or 0 for size in sizes]
        self._total = None if None in sizes else sum(self._sizes)
        self._start, self._source = Position(), 0  # the number of the source that is being read
        return self

    @property
    def progress(self) -> Progress:
        """Progress of reading, slightly ahead of the batches."""
        return Progress(sum(self._sizes[: self._source]) + self.consumed, self._total)

    @property
    def unmatched(self) -> list[str]:
        """Descriptions of options that matched nothing; for use after the loop."""
        nothing = []
        tables = {"csv", "json", "arrow"} & self._parsers.keys()
        if not tables:
            given, usual = (self.columns or Columns())._asdict(), Columns()._asdict()
            nothing += [f"{name}: the data has no columns" for name in given if given[name] != usual[name]]
            nothing += [] if self.schema is None else ["a table with columns is expected, and the data has none"]
        if self._interactions is not None:
            named = (":".join(given) for given in self._interactions.unmatched)
            nothing += [f"interactions {each}: nothing is called that" for each in named]
        if self._ngrams is not None and not tables:
            nothing += [f"ngram {name}:{size}: nothing is called that" for name, size in self._ngrams.unmatched]
        return nothing

    def __iter__(self) -> Iterator[Batch]:
        with contextlib.ExitStack() as opened:
            file = None
            if self.rejects is not None:
                append = self._start != Position()
                file = Output(self.rejects, "rejects", checkpoint=self.checkpoint, append=append).open_in(opened)
            for batch, news in self._items(opened):
                if news is not None:
                    self.features.learn(news)
                bad = batch.rejected
                if bad and self.on_error == "stop":
                    self.rows += len(batch)
                    if len(batch):
                        yield replace(batch, rejected=())
                    raise BadRow(bad[0].source, str(bad[0]), bad[0], bad[0].hints)
                if file is not None and bad:
                    file.write(rejects_text(bad))
                self.rejected += len(bad)
                self.rows += len(batch)
                if len(batch) or bad:
                    yield batch

    def _items(self, opened: contextlib.ExitStack) -> Iterator[tuple[Batch, News | None]]:
        """Batches, each with new names to add to the features when it is consumed."""
        # The background thread works on a copy of the features.
        features = self.features.ahead() if self.background else self.features
        if features is not self._numbering:
            self._use(features)
        if self._interactions is not None:
            self._crossing = Crossing(self._interactions, features, compiled=self.compiled)
        if not self.background:
            return ((batch, None) for batch, _ in self._batches())
        ahead = Prefetch((batch, features.news() if news is None else news) for batch, news in self._batches())
        opened.callback(ahead.close)
        return iter(ahead)

    def _batches(self) -> Iterator[tuple[Batch, News | None]]:
        for number in range(self._start.source, len(self.sources)):
            self._source = number
            start = self._start if number == self._start.source else Position(number)
            for parsed in self.parse(self.sources[number], start):
                for batch in self._finished(parsed):
                    yield batch, parsed.news
                    if batch.rejected and self.on_error == "stop":
                        return
            self.consumed = self._sizes[number]

    # Parsers of all formats, created on demand.

    def _use(self, features: Features) -> None:
        """Use another :class:`Features` object from now on."""
        self._numbering = features
        self._parsers: dict[str, Any] = {}
        self._by_block: dict[str, list[Any]] = {}  # a parser for each thread

    def parser(self, format: str) -> Any:  # noqa: A002
        """The parser of a format, created on first use."""
        name = "arrow" if format == "parquet" else format
        if name not in self._parsers:
            self._parsers[name] = self._make(name, self._numbering)
        parser = self._parsers[name]
        if name in ("csv", "arrow") and self.schema is not None:
            parser.schema = self.schema
        return parser

    def _make(self, format_: str, features: Features) -> Any:
        """Create a parser; its class is imported on demand."""
        more: dict[str, Any] = {"interactions": self._interactions, "labels": self.labels, "compiled": self.compiled}
        table: dict[str, Any] = {"columns": self.columns or Columns(), "schema": self.schema}
        if format_ == "libsvm":
            from giftrl.streams.text.libsvm import LibsvmText

            return LibsvmText(features, **more)
        if format_ == "vw":
            from giftrl.streams.text.vw import VwText

            return VwText(features, ngrams=self._ngrams, **more)
        parser: Any
        if format_ == "json":
            from giftrl.streams.text.json import JsonLines

            parser = JsonLines(features, **table, **more)
        elif format_ == "csv":
            from giftrl.streams.tables.csv import CsvText

            parser = CsvText(features, **table, **more)
        elif format_ == "npz":
            from giftrl.streams.tables.npz import NpzMatrix

            parser = NpzMatrix(features, **table, **more)
        else:
            from giftrl.streams.tables.arrow import ArrowTable

            parser = ArrowTable(features, ngrams=self._ngrams, **table, **more)
        parser.labels_only = self.labels_only
        return parser

    def _several(self, stream: Stream, format_: str) -> list[Any]:
        """A parser for each thread, if blocks can be parsed in any order; else an empty list.

        This needs hashing: dictionary numbers depend on order. Each parser records names in a copy of the features;
        these are merged in the order of the blocks. Streams other than files may be slow, so their blocks must not wait
        for later ones.
        """
        plain = self._interactions is None and self._ngrams is None and isinstance(self._numbering, Hashing)
        threads = min(cores(), MAX_PARSER_THREADS) if self.threads is None else self.threads
        if threads == 1 or not self.background or format_ not in BY_BLOCK or not plain or stream.total is None:
            return []
        if format_ not in self._by_block:
            self._by_block[format_] = [self._make(format_, self._numbering.ahead()) for _ in range(threads)]
        return self._by_block[format_]

    def parse(self, source: Source, start: Position) -> Generator[Parsed, None, None]:
        """Parse a source from a position: its batches before post-processing."""
        self.consumed = 0
        with (self.opened or {}).pop(source.name, None) or Stream(source) as stream:
            head = stream.peek(HEAD_BYTES)
            if stream.broken and b"\n" not in head:
                stream.check_end(1)
            format_ = self.formats[source.name] = detect(head, source.name, self.format)
            if self._ngrams is not None and format_ not in WITH_NGRAMS:
                raise no_order(source.name)
            for parsed in (self._lines if format_ in TEXT_FORMATS else self._table)(stream, start, format_):
                self._keep_schema(parsed.parser)
                if self._interactions is not None and format_ in WITHOUT_GROUPS:
                    group = self._interactions.require_all(WITHOUT_GROUPS[format_])
                    groups = np.full(len(parsed.batch.data), group, np.uint8)
                    parsed.batch = replace(parsed.batch, groups=groups)
                yield parsed

    def _lines(self, stream: Stream, start: Position, format_: str) -> Iterator[Parsed]:
        parser, name = self.parser(format_), stream.source.name
        if format_ == "csv":
            size = max(self.block, HEAD_BYTES)
            head = stream.peek(size)
            whole = len(head) < size and not stream.broken
            start = max(start, parser.open(head[:size], name, whole, start.source))
            self._keep_schema(parser)
        lines = LineBlocks(stream, start, self.block, self.max_line)
        several = self._several(stream, format_)
        workers = [functools.partial(_parsed, each, name, bool(several)) for each in several or [parser]]
        for parsed in ordered_map(lines, workers) if several else map(workers[0], lines):
            if format_ == "csv" and parsed.block is not None and not parsed.block.rejected:
                lines.give_back(parser.unused)
            self.consumed = stream.consumed
            yield parsed

    def _table(self, stream: Stream, start: Position, format_: str) -> Iterator[Parsed]:
        table = self.parser(format_)
        for batch in table.read(stream, format_, start):
            self.consumed = int((stream.total or 0) * table.fraction)
            yield Parsed(batch, None, table)

    def _keep_schema(self, parser: Any) -> None:
        """Store the schema and remarks of the first table."""
        self.schema = self.schema or getattr(parser, "schema", None)
        self.remarks = self.remarks or list(getattr(parser, "remarks", ()))

    # From parsed rows to rows for a learner.

    def _finished(self, parsed: Parsed) -> Iterator[Batch]:
        """Check labels, add products and scale rows; a batch with many products is split."""
        parsed.batch = self._checked(parsed)
        batch = self._cut(parsed, parsed.batch)
        # A converted file contains its interactions already.
        if self._crossing is None or getattr(parsed.parser, "converted", False) or not len(batch):
            yield self._prepared(batch)
            return
        rejected = list(batch.rejected)
        for piece in self._crossing.cross(batch):
            bad = [parsed.reject(*each) for each in piece.bad]
            end = batch.end if piece.following is None else parsed.position(piece.following)
            here = [each for each in rejected if piece.following is None or each.line < piece.following]
            rejected = rejected[len(here) :]
            made = replace(piece.batch, end=end, rejected=tuple(sorted(here + bad, key=lambda each: each.line)))
            yield self._prepared(self._cut(parsed, made))

    def _checked(self, parsed: Parsed) -> Batch:
        """Reject rows with an invalid base or label."""
        batch = parsed.batch
        if self.no_base is not None and batch.bases.any():
            based = batch.bases != 0.0
            pairs = zip(batch.lines[based].tolist(), batch.bases[based].tolist(), strict=True)
            bad = [parsed.reject(line, f"the base {base:g}", f"0: {self.no_base}") for line, base in pairs]
            batch = _without(batch, based, bad)
        if self.accepts is None or not len(batch):
            return batch
        there = ~np.isnan(batch.labels)
        good = np.zeros(len(batch), np.bool_)
        good[there] = self.accepts(batch.labels[there])
        bad = []
        for line, label in zip(batch.lines[~good].tolist(), batch.labels[~good].tolist(), strict=True):
            text, column = parsed.label_at(line)
            missing = bool(np.isnan(label))
            shown = f"{label:.12g}" if self.labels is None else text
            problem = "no label" if missing else f"the label {shown if self.labels is None else repr(shown)}"
            rejected = parsed.reject(line, problem, self.expected, column)
            if self.hints is not None:
                rejected = rejected._replace(hints=tuple(self.hints("" if missing else shown)))
            bad.append(rejected)
        return _without(batch, ~good, bad) if bad else batch

    def _cut(self, parsed: Parsed, batch: Batch) -> Batch:
        """If the reader stops at errors: cut the batch after its first bad row."""
        if self.on_error == "skip" or not batch.rejected:
            return batch
        first = batch.rejected[0]
        cut = keep_rows(batch, batch.lines < first.line)
        return replace(cut, end=parsed.position(first.line), rejected=(first,))

    def _prepared(self, batch: Batch) -> Batch:
        constant = self.features.constant if self.constant else None
        made = prepare(batch, self.normalize, constant, compiled=self.compiled)
        # Batches must own writable arrays; those of a converted file are views of the file.
        own: dict[str, Any] = {
            name: array.copy()
            for name in ("data", "indices", "indptr", "labels", "weights")
            if not (array := getattr(made, name)).flags.writeable
        }
        return replace(made, **own) if own else made


def _without(batch: Batch, wrong: NDArray[np.bool_], bad: list[Rejected]) -> Batch:
    """A batch without these rejected rows."""
    rejected = sorted([*batch.rejected, *bad], key=lambda row: row.line)
    return replace(keep_rows(batch, ~wrong), rejected=tuple(rejected))


# Background threads.


class Prefetch:
    """Runs an iterator in a thread, ``depth`` items ahead. Its exceptions are raised in the consuming loop.

    Leaving the loop ends the thread.
    """

    def __init__(self, items: Iterator[T], depth: int = 2) -> None:
        self._items = items
        self._queue: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(depth)
        self._unwanted = threading.Event()
        self._begun, self._ended = False, threading.Event()

    def _put(self, item: Any, problem: BaseException | None) -> None:
        while not self._unwanted.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put((item, problem), timeout=POLL_SECONDS)
                return

    def _work(self) -> None:
        try:
            while not self._unwanted.is_set():
                self._put(next(self._items), None)
        except BaseException as problem:  # StopIteration included; raised in the consuming loop
            self._put(None, problem)
        finally:
            if isinstance(self._items, Generator):
                self._items.close()
            self._ended.set()

    def __iter__(self) -> Iterator[Any]:
        self._begun = True
        threading.Thread(target=self._work, name="giftrl-reader", daemon=True).start()
        try:
            while True:
                item, problem = self._queue.get()
                if isinstance(problem, StopIteration):
                    return
                if problem is not None:
                    raise problem
                yield item
        finally:
            self.close()

    def close(self) -> None:
        """End the thread."""
        self._unwanted.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()
        if self._begun:
            # A signal during the start of a thread can leave a thread that cannot be joined.
            self._ended.wait(JOIN_SECONDS)


def ordered_map(items: Iterable[T], workers: Sequence[Callable[[T], R]]) -> Iterator[R]:
    """Map items in order; item k goes to worker k modulo their number, each in a thread.

    Each worker gets its items in order. An error of ``items`` is raised after the results of all earlier items.

    >>> list(ordered_map(range(5), [lambda k: ("even", k), lambda k: ("odd", k)]))
    [('even', 0), ('odd', 1), ('even', 2), ('odd', 3), ('even', 4)]
    """
    waiting: deque[Future[R]] = deque()
    problem: Exception | None = None
    source = iter(items)
    with contextlib.ExitStack() as opened:
        pools = [ThreadPoolExecutor(1, "giftrl-parser") for _ in workers]
        for pool in pools:
            opened.callback(pool.shutdown, cancel_futures=True)
        for k in range(1 << 62):
            try:
                item = next(source)
            except StopIteration:
                break
            except Exception as found:
                problem = found
                break
            waiting.append(pools[k % len(pools)].submit(workers[k % len(pools)], item))
            if len(waiting) > len(pools):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    if problem is not None:
        raise problem
