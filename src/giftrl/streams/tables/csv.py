"""CSV: one row a record, one column a feature."""

from dataclasses import replace
from typing import Any

from giftrl.streams.batch import Batch, Position
from giftrl.streams.columns import Kind
from giftrl.streams.sources.lines import as_block
from giftrl.streams.tables.csv_blocks import CsvBlocks, Found, joined
from giftrl.streams.tables.csv_header import Head, layout
from giftrl.streams.tables.csv_rows import Dialect, records
from giftrl.streams.tables.rows import Column, TableRows

__all__ = ["CsvText"]


class CsvText(TableRows):
    """Reads blocks of CSV.

    A column of numbers is the feature of its name; a column of text has the feature ``column=value``, with value 1, for
    each of its values. A column holds numbers if at least nine out of ten of its fields in the first block do, missing
    ones not counted; any other field in such a column rejects its row, as does a row with too few or too many fields.
    Empty fields and zeros add nothing. Spaces around a field do not count. The arguments are those of
    :class:`TableRows`.

    >>> from giftrl.streams.names.features import Dictionary
    >>> features = Dictionary()
    >>> text = b"label,age,city\\n1,33,Rome\\n0,,Oslo\\nx,5,Rome\\n"
    >>> table = CsvText(features)
    >>> start = table.open(text, "a.csv", True)
    >>> batch = table.parse(text[start.offset :], "a.csv", start)
    >>> batch.labels.tolist(), [features.name(slot) for slot in batch.indices], batch.data.tolist()
    ([1.0, 0.0], ['age', 'city=Rome', 'city=Oslo'], [33.0, 1.0, 1.0])
    >>> print(batch.rejected[0])
    a.csv:4:1: a label that is not a number: 'x', expected a finite number
    """

    row_order = True
    unused = 0  # bytes at the end of the last block that belong to a record of the next
    _head: Head | None = None  # rows that were read to find out what the columns hold

    def open(self, head: bytes, source: str, whole: bool, number: int = 0) -> Position:
        """Look at the beginning of a file, before its blocks are parsed; returns where its first row begins.

        Args:
            head: the first bytes.
            source: the name of the file, for messages.
            whole: whether the head is the whole file.
            number: of the source, for the position.
        """
        found = layout(head, source, self.columns, self.schema, whole)
        self.schema = found.schema
        # A table of another format may have taught that a column holds lists: text does not.
        text = {Kind.NUMBERS: Kind.NUMBER, Kind.CATEGORIES: Kind.CATEGORY}
        kinds = tuple(text.get(kind, kind) for kind in found.kinds)
        self._blocks = CsvBlocks(Dialect(found.delimiter, found.names, kinds, self.columns.missing), source)
        self._head = found.head
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
        text = as_block(data).tobytes()
        dialect = self._blocks.dialect
        found = self._read(text, start, whole)
        self.unused = len(text) - found.size
        columns = [
            Column(at, dialect.names[at], dialect.kinds[at], found.table.column(str(at)).combine_chunks())
            for at in dialect.used
        ]

        def raw(row: int) -> bytes:
            lines = text.split(b"\n")[found.lines[row] - start.line :]
            count, _ = next(records([line + b"\n" for line in lines], dialect.delimiter))
            return b"\n".join(lines[:count]).removesuffix(b"\r")

        end = Position(start.source, start.offset + min(found.size, len(data)), found.line)
        batch = self.batch(columns, source, found.lines, end, raw)
        rejected = sorted([*found.rejected, *batch.rejected], key=lambda each: each.line)
        return replace(batch, rejected=tuple(rejected))

    def _read(self, text: bytes, start: Position, whole: bool) -> Found:
        """The rows of a block; those that were read when the file was opened are not read again."""
        head, self._head = self._head, None
        if head is not None:
            begin = head.offset - start.offset
            end = begin + head.found.size
            known = self._blocks.select(head.found.table, head.kinds) if 0 <= begin <= end <= len(text) else None
            if known is not None:
                before = self._blocks.read(text[:begin], start.line, True)
                after = self._blocks.read(text[end:], head.found.line, whole)
                return joined([before, head.found._replace(table=known), after])._replace(size=end + after.size)
        return self._blocks.read(text, start.line, whole)
