"""Blocks of CSV as Arrow tables: by PyArrow where nothing is wrong, row by row where something is."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Rejected
from giftrl.streams.columns import Kind
from giftrl.streams.sources.lines import BOM
from giftrl.streams.tables.csv_rows import BYTES, LONGEST, Dialect, read_rows

__all__ = ["CsvBlocks", "Found"]

NEWLINE, RETURN, QUOTE = 10, 13, 34
#: A block in which something is wrong is read again in pieces of so many rows.
PIECE = 256


class Found(NamedTuple):
    """The rows of a block."""

    table: Any  # a pyarrow.Table with the used columns, by number
    lines: NDArray[np.int64]  # the first line of each row
    begins: NDArray[np.int64]  # where it begins in the block
    ends: NDArray[np.int64]  # and where its last newline is
    rejected: list[Rejected]
    size: int  # bytes that were read: fewer than given, if a row goes on in the next block
    line: int  # the line behind them


class _Records(NamedTuple):
    """The records of a block whose quotes are all in their places."""

    lines: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    size: int
    line: int


class CsvBlocks:
    """Reads blocks of CSV.

    PyArrow reads a block if Python's ``csv`` would find the same rows in it: its quotes must surround whole fields and
    its carriage returns precede newlines. If PyArrow then finds something wrong, or a number is not finite, it reads
    the block again in pieces, and ``csv`` reads the pieces in which something is wrong, row by row. Both trim spaces
    around fields, in quotes or not, unless the delimiter is a space.

    Args:
        dialect: how to read the table.
        source: the name of the file, for messages.

    >>> dialect = Dialect(",", ("n", "c"), (Kind.NUMBER, Kind.CATEGORY), ("NA",))
    >>> found = CsvBlocks(dialect, "a.csv").read(np.frombuffer(b'1, a\\nNA,"b\\nc"\\nx,d\\n', np.uint8), 1, True)
    >>> found.table.to_pylist(), found.lines.tolist(), found.rejected[0].line
    ([{'0': 1.0, '1': 'a'}, {'0': None, '1': 'b\\nc'}], [1, 2], 4)
    """

    def __init__(self, dialect: Dialect, source: str) -> None:
        import pyarrow as pa
        from pyarrow import csv

        self.dialect, self.source = dialect, source
        types = {Kind.CATEGORY: pa.dictionary(pa.int32(), pa.string()), BYTES: pa.dictionary(pa.int32(), pa.binary())}
        self._used = [at for at, kind in enumerate(dialect.kinds) if kind != Kind.IGNORED]
        self._types = {str(at): types.get(dialect.kinds[at], pa.float64()) for at in self._used}
        spellings = ("", *dialect.missing)
        self._parse = csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True)
        self._convert = csv.ConvertOptions(
            column_types=self._types,
            include_columns=list(self._types),
            null_values=[*spellings, *(f" {each}" for each in spellings)] if dialect.trims else list(spellings),
        )

    def read(self, block: NDArray[np.uint8], line: int, whole: bool) -> Found:
        """The rows of a block.

        Args:
            block: whole lines; the last one ends with a newline.
            line: the number of the first line.
            whole: whether the last row ends with the block; if not, a row that goes on is left to the next block.
        """
        records = self._records(block, line, whole)
        if records is None:
            return self._row_by_row(block, 0, line, whole)
        count = len(records.lines)
        table = self._by_pyarrow(block[: records.size], count)
        if table is not None:
            return Found(table, *records[:3], [], *records[3:])
        pieces = []
        for first in range(0, count, PIECE):
            last = min(first + PIECE, count) - 1
            begin, end = int(records.begins[first]), int(records.ends[last]) + 1
            table = self._by_pyarrow(block[begin:end], last - first + 1)
            if table is None:
                pieces.append(self._row_by_row(block[begin:end], begin, int(records.lines[first]), True))
            else:
                rows = slice(first, last + 1)
                pieces.append(Found(table, records.lines[rows], records.begins[rows], records.ends[rows], [], 0, 0))
        return self._joined(pieces)._replace(size=records.size, line=records.line)

    def _records(self, block: NDArray[np.uint8], line: int, whole: bool) -> _Records | None:
        """Where the records of a block are; None where Python's ``csv`` must find that out."""
        returns = np.flatnonzero(block == RETURN)
        if (block[returns + 1] != NEWLINE).any() or block[:3].tobytes() == BOM or len(self.dialect.names) == 1:
            return None
        newlines = np.flatnonzero(block == NEWLINE)
        stops = np.arange(len(newlines))
        quotes = np.flatnonzero(block == QUOTE)
        if len(quotes):
            # Quotes open and close in turn; one that is written twice, inside a field, closes and opens it again.
            around = (ord(self.dialect.delimiter), NEWLINE, QUOTE)
            before, after = block[quotes[::2] - 1], block[quotes[1::2] + 1]
            before[quotes[::2] == 0] = NEWLINE
            if not (np.isin(before, around).all() and np.isin(after, (*around, RETURN)).all()):
                return None
            stops = np.flatnonzero(np.searchsorted(quotes, newlines) % 2 == 0)
        ends = newlines[stops]
        size = int(ends[-1]) + 1 if len(ends) else 0
        if len(quotes) % 2 and (whole or len(block) - size > LONGEST):
            return None
        begins = np.concatenate([[0], ends[:-1] + 1])[: len(ends)]
        lines = line + np.concatenate([[0], stops[:-1] + 1])[: len(ends)]
        lengths = ends - begins
        filled = (lengths > 1) | ((lengths == 1) & (block[begins] != RETURN))
        after_last = line + int(stops[-1]) + 1 if len(stops) else line
        return _Records(lines[filled], begins[filled], ends[filled], size, after_last)

    def _by_pyarrow(self, data: NDArray[np.uint8], rows: int) -> Any:
        """A table with so many rows; None where PyArrow finds another number, or something wrong."""
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import csv

        names = [str(at) for at in range(len(self.dialect.names))]
        if not rows:
            return pa.schema(self._types).empty_table()
        options = csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names)
        try:
            table = csv.read_csv(pa.py_buffer(data), options, self._parse, self._convert)
        except pa.ArrowInvalid:
            return None
        if table.num_rows != rows:
            return None
        for at in self._used:
            kind, column = self.dialect.kinds[at], table.column(str(at))
            if kind == Kind.CATEGORY:
                table = self._trimmed(table, at)
            elif kind != BYTES:
                if not np.isfinite(pc.sum(column, min_count=0).as_py()) and not pc.all(pc.is_finite(column)).as_py():
                    return None
                if kind == Kind.WEIGHT and (column.null_count or pc.min(column).as_py() < 0.0):
                    return None
        return table

    def _trimmed(self, table: Any, at: int) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = table.column(str(at)).combine_chunks()
        trimmed = pc.utf8_trim(column.dictionary, " ") if self.dialect.trims else column.dictionary
        place = table.schema.get_field_index(str(at))
        return table.set_column(place, str(at), pa.DictionaryArray.from_arrays(column.indices, trimmed))

    def _row_by_row(self, block: NDArray[np.uint8], begin: int, line: int, whole: bool) -> Found:
        rows = read_rows(block.tobytes(), self.dialect, self.source, line, whole)
        table = self._table(rows.values)
        return Found(table, rows.lines, begin + rows.begins, begin + rows.ends, rows.rejected, rows.size, rows.line)

    def _table(self, values: dict[int, Any]) -> Any:
        import pyarrow as pa

        return pa.table({str(at): array.cast(self._types[str(at)]) for at, array in values.items()})

    @staticmethod
    def _joined(pieces: list[Found]) -> Found:
        import pyarrow as pa

        table = pa.concat_tables([piece.table for piece in pieces]).unify_dictionaries().combine_chunks()
        lines, begins, ends = (np.concatenate([piece[at] for piece in pieces]) for at in (1, 2, 3))
        return Found(table, lines, begins, ends, [each for piece in pieces for each in piece.rejected], 0, 0)
