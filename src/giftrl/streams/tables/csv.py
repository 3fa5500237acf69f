"""CSV: one row a record, one column a feature."""

from dataclasses import replace
from typing import Any

from giftrl.streams.batch import Batch, Position
from giftrl.streams.columns import Columns, Kind, Schema
from giftrl.streams.names.features import Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.sources.lines import as_block
from giftrl.streams.tables.csv_blocks import CsvBlocks
from giftrl.streams.tables.csv_header import layout
from giftrl.streams.tables.csv_rows import Dialect
from giftrl.streams.tables.rows import Column, TableRows

__all__ = ["CsvText"]


class CsvText:
    """Reads blocks of CSV.

    A column of numbers is the feature of its name; a column of text has the feature ``column=value``, with value 1, for
    each of its values. A column holds numbers if at least nine out of ten of its fields in the first block do, missing
    ones not counted; any other field in such a column rejects its row, as does a row with too few or too many fields.
    Empty fields and zeros add nothing. Spaces around a field do not count.

    Args:
        features: what turns names into coordinates.
        columns: what the user said of the columns.
        schema: what they are for, if that is known already; else the first file decides.
        interactions: whose groups to note for each entry.
        compiled: False to run the loops as plain Python.

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

    def __init__(
        self,
        features: Features,
        columns: Columns | None = None,
        schema: Schema | None = None,
        interactions: Interactions | None = None,
        *,
        compiled: bool = True,
    ) -> None:
        self.columns = columns or Columns()
        self.schema = schema
        self.unused = 0  # bytes at the end of the last block that belong to a record of the next
        self._rows = TableRows(features, interactions, row_order=True, compiled=compiled)

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
        block = as_block(data)
        found = self._blocks.read(block, start.line, whole)
        self.unused = len(block) - found.size
        names, kinds = self._blocks.dialect.names, self._blocks.dialect.kinds
        columns = [
            Column(at, name, kind, found.table.column(str(at)).combine_chunks())
            for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
            if kind != Kind.IGNORED
        ]
        batch = self._rows.batch(
            columns,
            source,
            found.lines,
            Position(start.source, start.offset + min(found.size, len(data)), found.line),
            lambda row: block[found.begins[row] : found.ends[row]].tobytes().removesuffix(b"\r"),
        )
        rejected = sorted([*found.rejected, *batch.rejected], key=lambda each: each.line)
        return replace(batch, rejected=tuple(rejected))
