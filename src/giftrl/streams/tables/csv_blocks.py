"""Blocks of CSV as Arrow tables: by PyArrow where nothing is wrong, row by row where something is."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Rejected
from giftrl.streams.columns import Kind
from giftrl.streams.sources.lines import BOM
from giftrl.streams.tables.csv_rows import LONGEST, Dialect, read_rows

__all__ = ["CsvBlocks", "Found", "joined"]

NEWLINE, RETURN, QUOTE = 10, 13, 34
#: A block in which something is wrong is read again in pieces of so many rows.
PIECE = 256
#: How many bytes PyArrow takes at a time: more of them leave the cache.
CHUNK = 1 << 20


class Found(NamedTuple):
    """The rows of a block."""

    table: Any  # a pyarrow.Table with the used columns, by number
    lines: NDArray[np.int64]  # the first line of each row
    rejected: list[Rejected]
    size: int  # bytes that were read: fewer than given if a row goes on in the next block
    line: int  # the line behind them


class _Records(NamedTuple):
    """The records of a block whose quotes are all in their places; empty lines are none."""

    lines: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]  # behind the last newline of each
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
    >>> found = CsvBlocks(dialect, "a.csv").read(b'1, a\\nNA,"b\\nc"\\nx,d\\n', 1, True)
    >>> found.table.to_pylist(), found.lines.tolist(), found.rejected[0].line
    ([{'0': 1.0, '1': 'a'}, {'0': None, '1': 'b\\nc'}], [1, 2], 4)
    """

    def __init__(self, dialect: Dialect, source: str) -> None:
        import pyarrow as pa
        from pyarrow import csv

        self.dialect, self.source = dialect, source
        text = pa.dictionary(pa.int32(), pa.string())
        self._types = {str(at): text if dialect.kinds[at] == Kind.CATEGORY else pa.float64() for at in dialect.used}
        spellings = ["", *dialect.missing]
        if dialect.trims:
            spellings += [f" {each}" for each in spellings]
        self._parse = csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True)
        self._convert = csv.ConvertOptions(
            column_types=self._types, include_columns=list(self._types), null_values=spellings
        )

    def read(self, text: bytes, line: int, whole: bool) -> Found:
        """The rows of a block.

        Args:
            text: whole lines; the last one ends with a newline.
            line: the number of the first line.
            whole: whether the last row ends with the block; if not, a row that goes on is left to the next block.
        """
        lines = text.count(b"\n")
        plain = b'"' not in text
        table = self._by_pyarrow(text, lines) if plain else None
        if table is not None and table.num_rows == lines:
            return Found(table, np.arange(line, line + lines), [], len(text), line + lines)
        records = self._records(text, line, whole)
        if records is None:
            return self._row_by_row(text, line, whole)
        count = len(records.lines)
        if not plain or not count:
            table = self._by_pyarrow(text[: records.size], count)
        if table is not None and table.num_rows == count:
            return Found(table, records.lines, [], records.size, records.line)
        pieces = []
        for first in range(0, count, PIECE):
            numbers = records.lines[first : first + PIECE]
            piece = text[records.begins[first] : records.ends[first + len(numbers) - 1]]
            table = self._by_pyarrow(piece, len(numbers))
            if table is None or table.num_rows != len(numbers):
                pieces.append(self._row_by_row(piece, int(numbers[0]), True))
            else:
                pieces.append(Found(table, numbers, [], 0, 0))
        return joined(pieces)._replace(size=records.size, line=records.line)

    def _records(self, text: bytes, line: int, whole: bool) -> _Records | None:
        """Where the records of a block are; None where Python's ``csv`` must find that out."""
        block = np.frombuffer(text, np.uint8)
        if not self._is_plain(text):
            return None
        newlines = np.flatnonzero(block == NEWLINE)
        stops = np.arange(len(newlines))  # the newlines that end a record
        quotes = np.flatnonzero(block == QUOTE)
        if len(quotes):
            # Quotes open and close in turn; one that is written twice, inside a field, closes and opens it again.
            around = (ord(self.dialect.delimiter), NEWLINE, QUOTE)
            before, after = block[quotes[::2] - 1], block[quotes[1::2] + 1]
            before[quotes[::2] == 0] = NEWLINE
            if not (np.isin(before, around).all() and np.isin(after, (*around, RETURN)).all()):
                return None
            stops = np.flatnonzero(np.searchsorted(quotes, newlines) % 2 == 0)
        ends = newlines[stops] + 1
        size = int(ends.max(initial=0))
        if len(quotes) % 2 and (whole or len(text) - size > LONGEST):
            return None
        begins = np.concatenate([[0], ends])[:-1]
        lines = line + np.concatenate([[0], stops + 1])
        filled = (block[begins] != NEWLINE) & ((block[begins] != RETURN) | (ends - begins > 2))
        return _Records(lines[:-1][filled], begins[filled], ends[filled], size, int(lines[-1]))

    def _is_plain(self, text: bytes) -> bool:
        """Whether carriage returns, a byte order mark and empty fields mean the same to PyArrow and to ``csv``."""
        returns = text.count(b"\r\n") == text.count(b"\r") if b"\r" in text else True
        return returns and not text.startswith(BOM) and len(self.dialect.names) > 1

    def _by_pyarrow(self, text: bytes, rows: int) -> Any:
        """The table that PyArrow reads, probably with so many rows; None where it finds something wrong."""
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import csv

        if not rows:
            return pa.schema(self._types).empty_table()
        if not self._is_plain(text):
            return None
        names = [str(at) for at in range(len(self.dialect.names))]
        # No row may be longer than a chunk.
        size = max(CHUNK, 100 * len(text) // rows)
        options = csv.ReadOptions(use_threads=False, block_size=size, column_names=names)
        try:
            table = csv.read_csv(pa.py_buffer(text), options, self._parse, self._convert)
        except pa.ArrowInvalid:
            return None
        columns = []
        for at, column in zip(self.dialect.used, table.itercolumns(), strict=True):
            kind = self.dialect.kinds[at]
            if kind == Kind.CATEGORY:
                columns.append(self._trimmed(column))
                continue
            columns.append(column)
            if not np.isfinite(pc.sum(column, min_count=0).as_py()) and not pc.all(pc.is_finite(column)).as_py():
                return None
            if kind == Kind.WEIGHT and (column.null_count or pc.min(column).as_py() < 0.0):
                return None
        return pa.table(columns, table.schema)

    def _trimmed(self, column: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        array = column.unify_dictionaries().combine_chunks()
        texts = pc.utf8_trim(array.dictionary, " ") if self.dialect.trims else array.dictionary
        return pa.DictionaryArray.from_arrays(array.indices, texts)

    def select(self, table: Any, kinds: tuple[str, ...]) -> Any:
        """The used columns of a table that was read with other kinds; None where it must be read again."""
        numbers = (Kind.NUMBER, Kind.LABEL)
        for at in self.dialect.used:
            if kinds[at] != self.dialect.kinds[at] and not (kinds[at] in numbers and self.dialect.kinds[at] in numbers):
                return None
        return table.select(list(self._types))

    def _row_by_row(self, text: bytes, line: int, whole: bool) -> Found:
        import pyarrow as pa

        rows = read_rows(text, self.dialect, self.source, line, whole)
        columns = {
            name: pa.array([row[int(name)] for row in rows.values], type_) for name, type_ in self._types.items()
        }
        return Found(pa.table(columns), np.array(rows.lines, np.int64), *rows[2:])


def joined(pieces: list[Found]) -> Found:
    """The rows of pieces of a block, one after the other; size and line are those of the last."""
    import pyarrow as pa

    table = pa.concat_tables([piece.table for piece in pieces]).unify_dictionaries().combine_chunks()
    rejected = [each for piece in pieces for each in piece.rejected]
    return Found(table, np.concatenate([piece.lines for piece in pieces]), rejected, *pieces[-1][3:])
