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
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.errors import BadRow, Hint, Message, UnknownName, require
from giftrl.files import Output
from giftrl.kernels.prepare import prepare_rows
from giftrl.streams.batch import Batch, LabelNames, Position, Rejected, keep_rows
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.line_blocks import BLOCK_BYTES, MAX_LINE, Block, LineBlocks
from giftrl.streams.names.features import Features, News
from giftrl.streams.names.hashing import Hashing
from giftrl.streams.names.interactions import Interactions, Ngrams, no_order
from giftrl.streams.names.products import Crossing
from giftrl.streams.source import FORMATS, HEAD_BYTES, TEXT_FORMATS, Named, Source, Stream, detect, find_sources
from giftrl.system import cores


class Progress(NamedTuple):
    """The part of the sources that has been read.

    >>> Progress(50, 200).fraction
    0.25
    """

    consumed: int  # bytes, before decompression
    total: int | None  # None if the size of a source is not known

    @property
    def fraction(self) -> float | None:
        """Between 0 and 1; None if the size of a source is not known."""
        return None if self.total is None else min(1.0, self.consumed / max(1, self.total))


class RejectsFile(Output):
    """A file of JSON lines with the rows that were skipped: source, line, column, problem, expected, raw.

    A row that is not UTF-8 is under ``raw_base64``, so that nothing of it is lost.
    """

    def add(self, rejected: Iterable[Rejected]) -> None:
        """Write rows."""
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
        if lines:
            self.write("".join(lines).encode())


# The last step: the norm of rows, and the constant feature.

#: What can be done to the length of rows: nothing; the Euclidean norm of each becomes 1 before the constant is added;
#: or before, and once more after.
NORMALIZATIONS = ("none", "unit", "unit_after")


def prepare(batch: Batch, normalize: str = "none", constant: int | None = None, *, compiled: bool = True) -> Batch:
    """A batch whose rows have the length that was asked for and, as their last feature, the constant 1.

    ``constant`` is the coordinate of the constant, which is in no row yet; None to add none.
    """
    batch = replace(batch, groups=np.empty(0, np.uint8))
    if normalize == "none" and constant is None:
        return batch
    more = 0 if constant is None else len(batch)
    data, indices = np.empty(len(batch.data) + more), np.empty(len(batch.data) + more, np.int32)
    ready(prepare_rows, compiled)(
        batch.data, batch.indices, batch.indptr, normalize != "none", normalize == "unit_after",
        -1 if constant is None else int(constant), data, indices,
    )  # fmt: skip
    indptr = batch.indptr if constant is None else batch.indptr + np.arange(len(batch) + 1)
    return replace(batch, data=data, indices=indices, indptr=indptr)


# Parsers of all formats.

#: Formats whose names have an order: VW text, and what it was converted to.
WITH_NGRAMS = ("vw", "arrow")
#: Formats whose blocks can be parsed in any order.
BY_BLOCK = ("libsvm", "vw")
#: How many threads parse at most: a learner takes in no more than a few of them deliver.
MAX_PARSER_THREADS = 4


@dataclass(eq=False)
class Parsed:
    """A batch from its parser, and the text that its rows come from."""

    batch: Batch
    block: Block | None
    parser: Any
    crossed: bool = False  # whether interactions have been added
    news: News | None = None  # what its features have noted, if they are those of one of several parsers

    def position(self, line: int) -> Position:
        """The position at which a line, or row, begins."""
        if self.block is None:
            return Position(self.batch.end.source, line - 1, line)
        start = self.block.start
        return Position(start.source, start.offset + self._begin(line), line)

    def raw(self, line: int) -> bytes:
        """The bytes of a line; empty if a source has no lines."""
        if self.block is None:
            return b""
        data = self.block.data[self._begin(line) : self._begin(line + 1)].tobytes()
        return data.removesuffix(b"\n").removesuffix(b"\r")

    def label_at(self, line: int) -> tuple[str, int]:
        """The label of a line, or row, as it is written, and its column, counted from 1."""
        text, column = self.parser.label_at(line, self.raw(line))
        return str(text), int(column)

    @functools.cached_property
    def _begins(self) -> NDArray[np.int64]:
        assert self.block is not None
        return np.concatenate([[0], np.flatnonzero(self.block.data == 10) + 1, [len(self.block.data)]])

    def _begin(self, line: int) -> int:
        assert self.block is not None
        return int(self._begins[min(line - self.block.start.line, len(self._begins) - 1)])


@dataclass(eq=False)
class Parsing:
    """The parsers of all formats, made when they are needed, and the schema of tables."""

    features: Features  # what turns names into coordinates
    format: str | None = None  # one of :data:`giftrl.streams.source.FORMATS`; None to find it for each source
    columns: Columns = field(default_factory=Columns)  # what the user said about tables
    schema: Schema | None = None  # what columns are for, if that is known
    interactions: Interactions | None = None  # the groups to multiply; entries are marked with their groups
    ngrams: Ngrams | None = None  # which n-grams to add
    labels: LabelNames | None = None  # the names of labels; None if labels are numbers
    compiled: bool = True
    block: int = BLOCK_BYTES  # the bytes of text to read at a time
    max_line: int = MAX_LINE  # the most bytes that a line may have
    opened: dict[str, Stream] = field(default_factory=dict)  # sources that were looked at and cannot be opened again
    threads: int | None = 1  # how many parse blocks of text at the same time; None for one a core, and a few at most
    formats: dict[str, str] = field(default_factory=dict, init=False)  # of the sources so far, by name
    consumed: int = field(default=0, init=False)  # bytes of the current source, before decompression; about right
    remarks: list[Message] = field(default_factory=list, init=False)  # about the columns of the first table
    _parsers: dict[str, Any] = field(default_factory=dict, init=False)
    _by_block: dict[str, list[Any]] = field(default_factory=dict, init=False)  # a parser for each thread

    def use(self, features: Features) -> None:
        """Have names numbered by other features from now on."""
        if features is not self.features:
            self.features = features
            self._parsers, self._by_block = {}, {}

    @property
    def has_tables(self) -> bool:
        """True if a table has been read, or JSON, whose keys are columns."""
        return bool({"csv", "json", "arrow"} & self._parsers.keys())

    def read(self, source: Source, start: Position) -> Generator[Parsed, None, None]:
        """The batches of a source."""
        self.consumed = 0
        with self.opened.pop(source.name, None) or Stream(source) as stream:
            head = stream.peek(HEAD_BYTES)
            if stream.broken and b"\n" not in head:
                stream.check_end(1)
            format_ = self.formats[source.name] = detect(head, source.name, self.format)
            if self.ngrams is not None and format_ not in WITH_NGRAMS:
                raise no_order(source.name)
            read = self._lines if format_ in TEXT_FORMATS else self._rows
            yield from read(stream, start, format_)

    def parser(self, format_: str) -> Any:
        """The parser of a format, made when it is first asked for."""
        if format_ not in self._parsers:
            self._parsers[format_] = self._make(format_, self.features)
        parser = self._parsers[format_]
        if format_ in ("csv", "arrow") and self.schema is not None:
            parser.schema = self.schema
        return parser

    def _make(self, format_: str, features: Features) -> Any:
        """A new parser."""
        tabular = format_ in ("csv", "json", "arrow")
        settings = (self.columns, self.schema, self.interactions) if tabular else (self.interactions,)
        more: dict[str, Any] = {"ngrams": self.ngrams} if format_ in WITH_NGRAMS else {}
        more |= {"labels": self.labels, "compiled": self.compiled}
        return _parser_of(format_)(features, *settings, **more)

    def _several(self, stream: Stream, format_: str) -> list[Any]:
        """A parser for each thread, if blocks can be parsed in any order; none if one parser is to parse all.

        A hash does not depend on what came before, as a number in a dictionary does. Each parser notes names in a copy
        of the features; these learn from all of them in the order of the blocks, and keep the first name of each
        coordinate. A stream that is no file may be slow, and its blocks are not to wait for later ones.
        """
        plain = self.interactions is None and self.ngrams is None and isinstance(self.features, Hashing)
        threads = min(cores(), MAX_PARSER_THREADS) if self.threads is None else self.threads
        if threads == 1 or format_ not in BY_BLOCK or not plain or stream.total is None:
            return []
        if format_ not in self._by_block:
            self._by_block[format_] = [self._make(format_, self.features.ahead()) for _ in range(threads)]
        return self._by_block[format_]

    def _lines(self, stream: Stream, start: Position, format_: str) -> Iterator[Parsed]:
        parser, name = self.parser(format_), stream.source.name
        if format_ == "csv":
            size = max(self.block, HEAD_BYTES)
            head = stream.peek(size)
            whole = len(head) < size and not stream.broken
            start = max(start, parser.open(head[:size], name, whole, start.source))
            self._found(parser)
        lines = LineBlocks(stream, start, self.block, self.max_line)
        if several := self._several(stream, format_):
            for parsed in ordered_map(lines, [functools.partial(_parsed, each, name) for each in several]):
                self.consumed = stream.consumed
                yield parsed
            return
        for block in lines:
            if block.rejected:
                batch = _no_rows(name, block)
            elif format_ == "csv":
                batch = parser.parse(block.data, name, block.start, block.last)
                lines.give_back(parser.unused)
            else:
                batch = parser.parse(block.data, name, block.start)
                if format_ == "libsvm":
                    batch = self._in_one_group(batch, "LIBSVM text")
                if format_ == "json":
                    self._found(parser)
            self.consumed = stream.consumed
            yield Parsed(batch, block, parser)

    def _rows(self, stream: Stream, start: Position, format_: str) -> Iterator[Parsed]:
        total = stream.total or 0
        if format_ == "npz":
            from giftrl.streams.tables.npz import NpzMatrix

            matrix = NpzMatrix(self.features, labels=self.labels, compiled=self.compiled)
            for batch in matrix.read(stream, start):
                self.consumed = int(total * matrix.fraction)
                yield Parsed(self._in_one_group(batch, "npz"), None, matrix)
            return
        table = self.parser("arrow")
        for batch in table.read(stream, format_, start):
            self._found(table)
            self.consumed = int(total * table.fraction)
            yield Parsed(batch, None, table, table.converted)

    def _found(self, parser: Any) -> None:
        """Keep what a parser has found out about columns, if that was not known."""
        if self.schema is None:
            self.schema = parser.schema
        if not self.remarks:
            self.remarks = list(parser.remarks)

    def _in_one_group(self, batch: Batch, format_: str) -> Batch:
        if self.interactions is None:
            return batch
        return replace(batch, groups=np.full(len(batch.data), self.interactions.require_all(format_), np.uint8))


def _parsed(parser: Any, source: str, block: Block) -> Parsed:
    """Parse a block with one of several parsers."""
    batch = _no_rows(source, block) if block.rejected else parser.parse(block.data, source, block.start)
    return Parsed(batch, block, parser, news=parser.features.news())


def _parser_of(format_: str) -> Any:
    """The class that parses a format, imported when there is a source of that format."""
    if format_ == "libsvm":
        from giftrl.streams.text.libsvm import LibsvmText

        return LibsvmText
    if format_ == "vw":
        from giftrl.streams.text.vw import VwText

        return VwText
    if format_ == "json":
        from giftrl.streams.text.json import JsonLines

        return JsonLines
    if format_ == "csv":
        from giftrl.streams.tables.csv import CsvText

        return CsvText
    from giftrl.streams.tables.arrow import ArrowTable

    return ArrowTable


def _no_rows(source: str, block: Block) -> Batch:
    none, lines = np.empty(0), np.empty(0, np.int64)
    rows = none, np.empty(0, np.int32), np.zeros(1, np.int64), none, none, lines, np.empty(0, np.uint8)
    return Batch(source, *rows, block.end, block.rejected)


class Reader:
    """Iterates over batches of rows, ready for a learner, in the order of the sources.

    A thread reads and parses ahead of the loop over the batches; it numbers new names in a copy of the features, and
    they enter the features when their batch is consumed. Memory does not grow with the data, except that a
    :class:`Dictionary` and its copy grow with the names. Wrong arguments and unreadable sources raise exceptions. A row
    that cannot be used ends the loop with :class:`BadRow`, after all rows before it; or it is skipped, counted and
    written to a file.

    Args:
        sources: files, globs, directories, "-" for standard input, or a :class:`Source`; see :func:`find_sources`.
        features: how the names of features become coordinates: :class:`Hashing` or :class:`Dictionary`.
        format: libsvm, vw, csv, json, parquet, arrow or npz; found for each source if not given.
        columns: which columns of tables are what.
        schema: what columns are for, from an earlier reader (its ``schema``); a model must be used with the one that
            it was trained with.
        interactions: the groups whose products to add, or :class:`Interactions`.
        ngrams: in which namespaces of VW text to join how many consecutive names, or :class:`Ngrams`.
        normalize: "none"; "unit", each row gets Euclidean norm 1 before the constant is added; "unit_after", once more
            after that.
        constant: whether to add the constant feature 1 to every row.
        on_error: "stop" at a row that cannot be used, or "skip" it.
        rejects: a file to write skipped rows to, as JSON lines; it takes the place of an earlier one at the end of the
            loop. If reading does not start at the beginning, what an interrupted run wrote is continued.
        checkpoint: of a run that can be resumed, for which ``rejects`` is kept; None for none.
        labels: the names of labels; None if labels are numbers.
        accepts: which of an array of labels can be used, for those that are there; None if labels do not matter.
        expected: the labels that ``accepts`` accepts, in words.
        hints: what to do about a label that it does not accept, as a function of that label, "" for none.
        no_base: why a row whose prediction starts from a base cannot be used; None if it can.
        start: where to begin: the ``end`` of a batch of an earlier reader of the same sources.
        opened: streams of sources that cannot be opened again, by name, of which nothing has been read.
        background: False to read only when the next batch is asked for.
        threads: how many threads parse, which changes nothing in the batches; None for as many as cores, at most 4.
        compiled: False to run loops as plain Python.
        block: the bytes of text to read at a time.
        max_line: the most bytes that a line may have.

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

    def __init__(
        self, sources: Named | Sequence[Named], features: Features, *, format: str | None = None,  # noqa: A002
        columns: Columns | None = None, schema: Schema | None = None,
        interactions: Interactions | Sequence[str | tuple[str, ...]] | None = None,
        ngrams: Ngrams | Sequence[tuple[str, int]] | None = None, normalize: str = "none", constant: bool = True,
        on_error: str = "stop", rejects: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None, labels: LabelNames | None = None,
        accepts: Callable[[NDArray[np.float64]], NDArray[np.bool_]] | None = None,
        expected: str = "a label that can be used", hints: Callable[[str], Sequence[Hint]] | None = None,
        no_base: str | None = None,
        start: Position | None = None, opened: dict[str, Stream] | None = None, background: bool = True,
        threads: int | None = None, compiled: bool = True, block: int = BLOCK_BYTES, max_line: int = MAX_LINE,
    ) -> None:  # fmt: skip
        for argument, value, known in (
            ("format", format, (None, *FORMATS)), ("normalize", normalize, NORMALIZATIONS),
            ("on_error", on_error, ("stop", "skip")),
        ):  # fmt: skip
            if value not in known:
                raise UnknownName(argument, value, [str(each) for each in known if each is not None])
        writes = on_error == "skip" or rejects is None
        require(writes, "rejects", rejects, 'needs on_error="skip"', "add that, or leave it out")
        self.features = features
        self.sources = find_sources(sources)
        self.start = start or Position()
        inside = 0 <= self.start.source <= len(self.sources)
        require(inside, "start", self.start, f"must be in one of {len(self.sources)} sources", "give the same sources")
        if interactions is not None and not isinstance(interactions, Interactions):
            interactions = Interactions(interactions)
        self.interactions = interactions if interactions is not None and interactions.products else None
        if ngrams is not None and not isinstance(ngrams, Ngrams):
            ngrams = Ngrams(ngrams)
        self.ngrams = ngrams if ngrams is not None and ngrams.sizes else None
        self.normalize, self.constant, self.on_error = normalize, constant, on_error
        self.rejects, self.checkpoint, self.compiled = rejects, checkpoint, compiled
        self.labels, self.accepts, self.expected, self.hints = labels, accepts, expected, hints
        self.no_base = no_base
        self.rows = 0  # delivered so far
        self.rejected = 0  # rows skipped so far
        self._background = background
        self._parsing = Parsing(
            features, format, columns or Columns(), schema, self.interactions, self.ngrams, labels, compiled=compiled,
            block=block, max_line=max_line, opened=opened or {}, threads=threads if background else 1,
        )  # fmt: skip
        self._crossing: Crossing | None = None
        self._measure()

    def _measure(self) -> None:
        """Begin with the first source."""
        sizes = [source.size for source in self.sources]
        self._sizes = [size or 0 for size in sizes]
        self._total = None if None in sizes else sum(self._sizes)
        self._source = self.start.source  # that is being read

    def over(self, sources: Named | Sequence[Named], format: str | None = None) -> "Reader":  # noqa: A002
        """Turn to other sources; parsers and the schema of tables stay.

        >>> from giftrl.streams.names.hashing import Hashing
        >>> from giftrl.streams.source import Source
        >>> reader = Reader(Source("first", data=b"1 3:1\\n"), Hashing(4), background=False)
        >>> [len(batch) for batch in reader], [len(batch) for batch in reader.over(Source("next", data=b"1 |a x\\n"))]
        ([1], [1])
        """
        self.sources, self.start, self._parsing.format = find_sources(sources), Position(), format
        self._measure()
        return self

    @property
    def schema(self) -> Schema | None:
        """The roles of columns, once a table has been opened."""
        return self._parsing.schema

    def parser(self, format: str) -> Any:  # noqa: A002
        """The parser of sources of a format, as it is now."""
        return self._parsing.parser(format)

    @property
    def formats(self) -> dict[str, str]:
        """The formats of the sources that have been opened, by their names."""
        return self._parsing.formats

    @property
    def progress(self) -> Progress:
        """The part that has been read: a little more than the batches so far."""
        return Progress(sum(self._sizes[: self._source]) + self._parsing.consumed, self._total)

    @property
    def remarks(self) -> list[Message]:
        """Remarks for users about the columns of the first table."""
        return list(self._parsing.remarks)

    @property
    def unmatched(self) -> list[str]:
        """Options that matched nothing so far, in words; for use after the loop."""
        nothing = []
        if not self._parsing.has_tables:
            given, usual = self._parsing.columns._asdict(), Columns()._asdict()
            nothing += [f"{name}: the data has no columns" for name in given if given[name] != usual[name]]
            nothing += [] if self.schema is None else ["a table with columns is expected, and the data has none"]
        if self.interactions is not None:
            named = (":".join(given) for given in self.interactions.unmatched)
            nothing += [f"interactions {each}: nothing is called that" for each in named]
        if self.ngrams is not None and not self._parsing.has_tables:
            nothing += [f"ngram {name}:{size}: nothing is called that" for name, size in self.ngrams.unmatched]
        return nothing

    def __iter__(self) -> Iterator[Batch]:
        with contextlib.ExitStack() as opened:
            file = None
            if self.rejects is not None:
                append = self.start != Position()
                file = RejectsFile(self.rejects, "rejects", checkpoint=self.checkpoint, append=append).open_in(opened)
            for batch, news in self._items(opened):
                if news is not None:
                    self.features.learn(news)
                bad = batch.rejected
                if bad and self.on_error == "stop":
                    self.rows += len(batch)
                    if len(batch):
                        yield replace(batch, rejected=())
                    raise BadRow(bad[0].source, str(bad[0]), bad[0], bad[0].hints)
                if file is not None:
                    file.add(bad)
                self.rejected += len(bad)
                self.rows += len(batch)
                if len(batch) or bad:
                    yield batch

    def _items(self, opened: contextlib.ExitStack) -> Iterator[tuple[Batch, News | None]]:
        """Batches, with the names that the features are to learn when the batch is consumed."""
        # A thread that reads ahead changes nothing that the learner sees: it numbers names in a copy.
        features = self.features.ahead() if self._background else self.features
        self._parsing.use(features)
        self._crossing = None
        if self.interactions is not None:
            self._crossing = Crossing(self.interactions, features, compiled=self.compiled)
        if not self._background:
            return ((batch, None) for batch, _ in self._batches())
        ahead = Prefetch((batch, features.news() if news is None else news) for batch, news in self._batches())
        opened.callback(ahead.close)
        return iter(ahead)

    def _batches(self) -> Iterator[tuple[Batch, News | None]]:
        for number in range(self.start.source, len(self.sources)):
            self._source = number
            start = self.start if number == self.start.source else Position(number)
            for parsed in self._parsing.read(self.sources[number], start):
                for batch in self._finished(parsed):
                    yield batch, parsed.news
                    if batch.rejected and self.on_error == "stop":
                        return
            self._parsing.consumed = self._sizes[number]

    def _finished(self, parsed: Parsed) -> Iterator[Batch]:
        """A batch with its labels checked, its products added and its rows scaled; in pieces if products are many."""
        parsed.batch = self._checked(parsed)
        batch = self._cut(parsed, parsed.batch)
        if self._crossing is None or parsed.crossed or not len(batch):
            yield self._prepared(batch)
            return
        rejected = list(batch.rejected)
        for piece in self._crossing.cross(batch):
            bad = [self._reject(parsed, *each) for each in piece.bad]
            end = batch.end if piece.following is None else parsed.position(piece.following)
            here = [each for each in rejected if piece.following is None or each.line < piece.following]
            rejected = rejected[len(here) :]
            made = replace(piece.batch, end=end, rejected=tuple(sorted(here + bad, key=lambda each: each.line)))
            yield self._prepared(self._cut(parsed, made))

    def _reject(self, parsed: Parsed, line: int, problem: str, expected: str, column: int = 1) -> Rejected:
        return Rejected(parsed.batch.source, line, column, problem, expected, parsed.raw(line))

    def _checked(self, parsed: Parsed) -> Batch:
        """The batch without rows whose base or label cannot be used."""
        batch = parsed.batch
        if self.no_base is not None and batch.bases.any():
            based = batch.bases != 0.0
            pairs = zip(batch.lines[based].tolist(), batch.bases[based].tolist(), strict=True)
            bad = [self._reject(parsed, line, f"the base {base:g}", f"0: {self.no_base}") for line, base in pairs]
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
            rejected = self._reject(parsed, line, problem, self.expected, column)
            if self.hints is not None:
                rejected = rejected._replace(hints=tuple(self.hints("" if missing else shown)))
            bad.append(rejected)
        return _without(batch, ~good, bad) if bad else batch

    def _cut(self, parsed: Parsed, batch: Batch) -> Batch:
        """The rows before the first bad one, and that one, if the reader is to stop there."""
        if self.on_error == "skip" or not batch.rejected:
            return batch
        first = batch.rejected[0]
        cut = keep_rows(batch, batch.lines < first.line)
        return replace(cut, end=parsed.position(first.line), rejected=(first,))

    def _prepared(self, batch: Batch) -> Batch:
        constant = self.features.constant if self.constant else None
        made = prepare(batch, self.normalize, constant, compiled=self.compiled)
        # A batch owns its arrays, and its rows may be written to: those of a converted file are views of the file.
        own: dict[str, Any] = {
            name: array.copy()
            for name in ("data", "indices", "indptr", "labels", "weights")
            if not (array := getattr(made, name)).flags.writeable
        }
        return replace(made, **own) if own else made


def _without(batch: Batch, wrong: NDArray[np.bool_], bad: list[Rejected]) -> Batch:
    """A batch without rows that are rejected."""
    rejected = sorted([*batch.rejected, *bad], key=lambda row: row.line)
    return replace(keep_rows(batch, ~wrong), rejected=tuple(rejected))


# Work ahead: a thread makes the next items while the last one is used.

T = TypeVar("T")

#: How often a thread that waits for its items to be taken checks whether it is still wanted, in seconds.
POLL_SECONDS = 0.1
#: How long to wait for a thread to end; one that waits for standard input may not.
JOIN_SECONDS = 1.0


class Prefetch:
    """Runs an iterator in a thread, ``depth`` items ahead, and raises in the loop over the items what it raises.

    Leaving the loop in any way ends the thread.
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
        except BaseException as problem:  # the end, too: whatever it is, it is raised in the loop over the items
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
            # A signal may have come while the thread was being started, and then it cannot be joined.
            self._ended.wait(JOIN_SECONDS)


R = TypeVar("R")


def ordered_map(items: Iterable[T], workers: Sequence[Callable[[T], R]]) -> Iterator[R]:
    """The results of all items, in order; item k is for worker k modulo their number, and each has a thread.

    So a worker gets its items in order, and what it does with them depends on nothing that another one does. What
    ``items`` raises is raised after the results of all items before.

    >>> list(ordered_map(range(5), [lambda k: ("even", k), lambda k: ("odd", k)]))
    [('even', 0), ('odd', 1), ('even', 2), ('odd', 3), ('even', 4)]
    """
    waiting: deque[Future[R]] = deque()
    problem: Exception | None = None
    source = iter(items)
    with ExitStack() as opened:
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
