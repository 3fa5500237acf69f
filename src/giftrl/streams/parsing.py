"""From a source of any format to batches."""

import functools
import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Batch, Position
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.formats import HEAD, TEXT, detect
from giftrl.streams.label_names import LabelNames
from giftrl.streams.names.features import Features, Hashing, News
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.ngrams import Ngrams, no_order
from giftrl.streams.sources.in_turn import in_turn
from giftrl.streams.sources.lines import BLOCK, MAX_LINE, Block, Lines
from giftrl.streams.sources.source import Source, Stream
from giftrl.system import cores

#: The module and the class that parse each format.
PARSERS = {
    "libsvm": ("text.libsvm", "LibsvmText"), "vw": ("text.vw", "VwText"), "json": ("text.json_lines", "JsonLines"),
    "csv": ("tables.csv", "CsvText"), "arrow": ("tables.arrow", "ArrowTable"),
}  # fmt: skip
#: Formats whose names have an order: VW text, and what it was converted to.
WITH_NGRAMS = ("vw", "arrow")
#: Formats whose blocks can be parsed in any order.
BY_BLOCK = ("libsvm", "vw")
#: How many threads parse at most: a learner takes in no more than a few of them deliver.
MOST_THREADS = 4


@dataclass(eq=False)
class Parsed:
    """A batch from its parser, and the text that its rows come from."""

    batch: Batch
    block: Block | None
    parser: Any
    crossed: bool = False  # whether interactions have been added
    news: News | None = None  # what its features have noted, where they are those of one of several parsers

    def position(self, line: int) -> Position:
        """Where a line, or row, begins."""
        if self.block is None:
            return Position(self.batch.end.source, line - 1, line)
        start = self.block.start
        return Position(start.source, start.offset + self._begin(line), line)

    def raw(self, line: int) -> bytes:
        """The bytes of a line; empty where a source has no lines."""
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
    format: str | None = None  # one of :data:`giftrl.streams.formats.FORMATS`; None to find it for each source
    columns: Columns = field(default_factory=Columns)  # what the user said about tables
    schema: Schema | None = None  # what columns are for, where that is known
    interactions: Interactions | None = None  # the groups to multiply; entries are marked with their groups
    ngrams: Ngrams | None = None  # which n-grams to add
    labels: LabelNames | None = None  # the names of labels; None where labels are numbers
    compiled: bool = True
    block: int = BLOCK  # the bytes of text to read at a time
    max_line: int = MAX_LINE  # the most bytes that a line may have
    opened: dict[str, Stream] = field(default_factory=dict)  # sources that were looked at and cannot be opened again
    threads: int | None = 1  # how many parse blocks of text at the same time; None for one a core, and a few at most
    formats: dict[str, str] = field(default_factory=dict, init=False)  # of the sources so far, by name
    consumed: int = field(default=0, init=False)  # bytes of the current source, before decompression; about right
    remarks: list[str] = field(default_factory=list, init=False)  # about the columns of the first table
    _parsers: dict[str, Any] = field(default_factory=dict, init=False)
    _by_block: dict[str, list[Any]] = field(default_factory=dict, init=False)  # a parser for each thread

    def use(self, features: Features) -> None:
        """Have names numbered by other features from now on."""
        if features is not self.features:
            self.features = features
            self._parsers, self._by_block = {}, {}

    @property
    def has_tables(self) -> bool:
        """Whether a table has been read, or JSON, whose keys are columns."""
        return bool({"csv", "json", "arrow"} & self._parsers.keys())

    def read(self, source: Source, start: Position) -> Iterator[Parsed]:
        """The batches of a source."""
        self.consumed = 0
        with self.opened.pop(source.name, None) or Stream(source) as stream:
            head = stream.peek(HEAD)
            if stream.broken and b"\n" not in head:
                stream.check_end(1)
            format_ = self.formats[source.name] = detect(head, source.name, self.format)
            if self.ngrams is not None and format_ not in WITH_NGRAMS:
                raise no_order(source.name)
            read = self._lines if format_ in TEXT else self._rows
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
        """A parser for each thread, where blocks can be parsed in any order; none where one parser is to parse all.

        A hash does not depend on what came before, as a number in a dictionary does. Each parser notes names in a copy
        of the features; these learn from all of them in the order of the blocks, and keep the first name of each
        coordinate. A stream that is no file may be slow, and its blocks are not to wait for later ones.
        """
        plain = self.interactions is None and self.ngrams is None and isinstance(self.features, Hashing)
        threads = min(cores(), MOST_THREADS) if self.threads is None else self.threads
        if threads == 1 or format_ not in BY_BLOCK or not plain or stream.total is None:
            return []
        if format_ not in self._by_block:
            self._by_block[format_] = [self._make(format_, self.features.ahead()) for _ in range(threads)]
        return self._by_block[format_]

    def _lines(self, stream: Stream, start: Position, format_: str) -> Iterator[Parsed]:
        parser, name = self.parser(format_), stream.source.name
        if format_ == "csv":
            size = max(self.block, HEAD)
            head = stream.peek(size)
            whole = len(head) < size and not stream.broken
            start = max(start, parser.open(head[:size], name, whole, start.source))
            self._found(parser)
        lines = Lines(stream, start, self.block, self.max_line)
        if several := self._several(stream, format_):
            for parsed in in_turn(lines, [functools.partial(_parsed, each, name) for each in several]):
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
    """What one of several parsers makes of a block."""
    batch = _no_rows(source, block) if block.rejected else parser.parse(block.data, source, block.start)
    return Parsed(batch, block, parser, news=parser.features.news())


def _parser_of(format_: str) -> Any:
    """The class that parses a format, imported when there is a source of that format."""
    module, name = PARSERS[format_]
    return getattr(importlib.import_module(f"giftrl.streams.{module}"), name)


def _no_rows(source: str, block: Block) -> Batch:
    none, lines = np.empty(0), np.empty(0, np.int64)
    rows = none, np.empty(0, np.int32), np.zeros(1, np.int64), none, none, lines, np.empty(0, np.uint8)
    return Batch(source, *rows, block.end, block.rejected)
