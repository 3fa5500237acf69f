"""CSV: one row a record, one column a feature."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import Kind
from giftrl.streams.sources.lines import as_block
from giftrl.streams.tables.csv_blocks import CsvBlocks, Rows
from giftrl.streams.tables.csv_header import layout
from giftrl.streams.tables.csv_rows import Dialect, column_at, why_unusable
from giftrl.streams.tables.rows import Column, TableRows


class CsvText(TableRows):
    """Reads blocks of CSV.

    A column of numbers is the feature of its name; a column of text has the feature ``column=value``, with value 1, for
    each of its values. A column holds numbers, or ISO dates, if at least nine out of ten of its fields in the first
    block do, missing ones not counted; any other field in such a column rejects its row, as does a row with too few or
    too many fields. A missing number or date is the feature ``column=missing``; an empty field of text and a zero add
    nothing. Spaces around a field do not count. The arguments are those of :class:`TableRows`.

    >>> from giftrl.streams.names.features import Dictionary
    >>> features = Dictionary()
    >>> text = b"label,age,city\\n1,33,Rome\\n0,,Oslo\\nx,5,Rome\\n"
    >>> table = CsvText(features)
    >>> start = table.open(text, "a.csv", True)
    >>> batch = table.parse(text[start.offset :], "a.csv", start)
    >>> batch.labels.tolist(), [features.name(slot) for slot in batch.indices], batch.data.tolist()
    ([1.0, 0.0], ['age', 'city=Rome', 'age=missing', 'city=Oslo'], [33.0, 1.0, 1.0, 1.0])
    >>> print(batch.rejected[0])
    a.csv:4:1: a label that is not a number: 'x', expected a finite number
    """

    row_order = True
    unused = 0  # bytes at the end of the last block that belong to a record of the next
    _known: Rows | None = None  # the rows of the first block
    _raw: Callable[[int], bytes]  # the record of the last block that begins in a line

    def open(self, head: bytes, source: str, whole: bool, number: int = 0) -> Position:
        """Look at the beginning of a file, before its blocks are parsed; returns where its first row begins.

        Args:
            head: the first bytes.
            source: the name of the file, for messages.
            whole: whether the head is the whole file.
            number: of the source, for the position.
        """
        found = layout(head, source, self.columns, self.schema, whole, self.labels is not None)
        self.schema = found.schema
        self.remarks += found.remarks
        # A table of another format may have taught that a column holds lists: text does not.
        text = {Kind.NUMBERS: Kind.NUMBER, Kind.CATEGORIES: Kind.CATEGORY}
        self._kinds = tuple(text.get(kind, kind) for kind in found.kinds)
        self.missing_labels = self.columns.missing
        as_text = Kind.LABEL if self.labels is None else Kind.CATEGORY
        kinds = tuple(as_text if kind == Kind.LABEL else kind for kind in self._kinds)
        self._blocks = CsvBlocks(Dialect(found.delimiter, found.names, kinds, self.columns.missing), source)
        self._known, self._first = found.rows, (found.offset, found.size, whole)
        return Position(number, found.offset, found.line)

    def parse(self, data: Any, source: str, start: Position, whole: bool = True) -> Batch:
        """The rows of a block of whole lines.

        Args:
            data: the bytes; the last line may lack its newline.
            source: the name of the source, for messages.
            start: the position of the first byte.
            whole: whether the block ends with a record. If not, ``unused`` is set to the bytes of the record that has
                begun, and the next block must begin with them.
        """
        text = as_block(data).data
        dialect = self._blocks.dialect
        known, self._known = self._known, None
        if known is not None and (start.offset, len(text), whole) == self._first:
            rows = self._blocks.typed(known)
        else:
            rows = self._blocks.read(text, start.line, whole)
        self.unused = len(text) - rows.size
        columns = [Column(at, dialect.names[at], self._kinds[at], rows.columns[at]) for at in dialect.used]

        def raw(row: int) -> bytes:
            return bytes(text[rows.begins[row] : rows.ends[row] - 1]).removesuffix(b"\r")

        self._raw = lambda line: raw(int(np.searchsorted(rows.lines, line)))
        end = Position(start.source, start.offset + min(rows.size, len(data)), rows.line)
        batch = self.batch(columns, source, rows.lines, end, raw)
        rejected = [*rows.rejected, *(self._explained(each) for each in batch.rejected)]
        self._blocks.doubtful = bool(rejected)
        return replace(batch, rejected=tuple(sorted(rejected, key=lambda each: each.line)))

    def label_at(self, line: int, raw: bytes) -> tuple[str, int]:
        text, column = super().label_at(line, raw)
        return text, column_at(self._raw(line) + b"\n", column - 1, self._blocks.dialect)

    def _explained(self, rejected: Rejected) -> Rejected:
        """A row that was rejected for one of its numbers, with what the file holds in its place."""
        why = why_unusable(rejected.raw + b"\n", self._blocks.dialect)
        return rejected if why is None else rejected._replace(**why._asdict())
