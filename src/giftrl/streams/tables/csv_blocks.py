"""Blocks of CSV as columns of numbers and text: by PyArrow, or by Python's ``csv`` where quotes are out of place."""

import io
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Rejected
from giftrl.streams.columns import Kind
from giftrl.streams.sources.lines import BOM
from giftrl.streams.tables.csv_rows import (
    LONGEST,
    NUMBER,
    Dialect,
    Reason,
    is_blank,
    is_utf8,
    records,
    why_unreadable,
    why_unusable,
)  # fmt: skip

NEWLINE, RETURN, QUOTE = 10, 13, 34
#: How many bytes PyArrow takes at a time: more of them leave the cache.
CHUNK = 1 << 19
PIECE = 1 << 16


class Rows(NamedTuple):
    """The rows of a block: its records with the right number of fields."""

    lines: NDArray[np.int64]  # the first line of each
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]  # behind its last newline
    size: int  # bytes that were read: fewer than given if a record goes on in the next block
    line: int  # the line behind them
    columns: dict[int, Any]  # by number: Arrow arrays of text or numbers
    rejected: list[Rejected]


class CsvBlocks:
    """Reads blocks of CSV.

    PyArrow reads a block if Python's ``csv`` would find the same records in it: its quotes must surround whole fields
    and its carriage returns precede newlines. Where a column of numbers holds something else, it reads all columns as
    text; a block that is not UTF-8 is read by ``csv``.

    Args:
        dialect: how to read the table.
        source: the name of the file, for messages.

    >>> dialect = Dialect(",", ("n", "c"), (Kind.NUMBER, Kind.CATEGORY), ("NA",))
    >>> rows = CsvBlocks(dialect, "a.csv").read(b'1,a\\nNA,"b\\nc"\\n2\\n', 1, True)
    >>> rows.columns[0].to_pylist(), rows.columns[1].to_pylist(), rows.lines.tolist(), rows.rejected[0].line
    ([1.0, None], ['a', 'b\\nc'], [1, 2], 4)
    """

    def __init__(self, dialect: Dialect, source: str) -> None:
        self.dialect, self.source = dialect, source
        self.doubtful = False  # whether to read all columns as text: there are probably bad values

    def read(self, text: Any, line: int, whole: bool) -> Rows:
        """The rows of a block.

        Args:
            text: the bytes of whole lines; the last one ends with a newline.
            line: the number of the first line.
            whole: whether the last row ends with the block; if not, a row that goes on is left to the next block.
        """
        rows = None if self.doubtful else self._by_pyarrow(text, line, whole, False)
        return self.typed(rows or self.texts(text, line, whole))

    def texts(self, text: Any, line: int, whole: bool) -> Rows:
        """The rows of a block, with all columns as text."""
        return self._by_pyarrow(text, line, whole, True) or self._by_csv(bytes(text), line, whole)

    def typed(self, rows: Rows) -> Rows:
        """Rows with all columns as their kinds require: numbers, or text in a dictionary without spaces around it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = {}
        for at, array in rows.columns.items():
            if self.dialect.kinds[at] not in Kind.WRITTEN:
                columns[at] = array if array.type == pa.float64() else as_numbers(array, self.dialect.missing)[0]
                continue
            array = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
            words = pc.ascii_trim(array.dictionary, " " if self.dialect.trims else "")
            columns[at] = pa.DictionaryArray.from_arrays(array.indices, words)
        return rows._replace(columns=columns)

    def _places(self, text: Any, line: int, whole: bool) -> Rows | None:
        """Where the rows of a block are, without columns yet; None where Python's ``csv`` must find that out."""
        block = np.frombuffer(text, np.uint8)
        # In pieces that stay in the cache.
        firsts = range(0, len(block) + 1, PIECE)
        low = np.concatenate([first + np.flatnonzero(block[first : first + PIECE] <= QUOTE) for first in firsts])
        marks = block[low]
        newlines, quotes, returns = low[marks == NEWLINE], low[marks == QUOTE], low[marks == RETURN]
        lone_returns = (block[returns + 1] != NEWLINE).any()
        if lone_returns or block[:3].tobytes() == BOM or len(self.dialect.names) < 2:
            return None
        stops = np.arange(len(newlines))  # the newlines that end a record
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
        return Rows(lines[:-1][filled], begins[filled], ends[filled], size, int(lines[-1]), {}, [])

    def _by_pyarrow(self, text: Any, line: int, whole: bool, as_text: bool) -> Rows | None:
        """The rows, with the used columns; None where there is something that PyArrow does not take."""
        import pyarrow as pa
        from pyarrow import csv

        rows = self._places(text, line, whole)
        if rows is None or (as_text and not is_utf8(text)):
            return None
        wrong: list[int] = []  # rows with too few or too many fields

        def skip(row: Any) -> str:
            wrong.append(row.number - 1)
            return "skip"

        types = {
            str(at): pa.large_string() if as_text or self.dialect.kinds[at] in Kind.WRITTEN else pa.float64()
            for at in self.dialect.used
        }
        if not len(rows.lines):
            return rows._replace(columns={int(name): pa.array([], type_) for name, type_ in types.items()})
        names = [str(at) for at in range(len(self.dialect.names))]
        parse = csv.ParseOptions(delimiter=self.dialect.delimiter, newlines_in_values=True)
        if as_text:  # PyArrow's handler needs UTF-8
            parse.invalid_row_handler = skip
        size = max(CHUNK, int((rows.ends - rows.begins).max()))  # no record may be longer
        missing = ["", *self.dialect.missing, *(f" {each}" for each in self.dialect.missing)]
        try:
            table = csv.read_csv(
                pa.py_buffer(text)[: rows.size],
                csv.ReadOptions(use_threads=False, block_size=size, column_names=names),
                parse,
                csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=missing),
            )
        except pa.ArrowInvalid:
            return None
        lines, begins, ends = (np.delete(each, wrong) for each in rows[:3])
        if table.num_rows != len(lines):
            return None
        rejected = []
        for at in wrong:
            raw = bytes(text[rows.begins[at] : rows.ends[at]])
            why = None if is_blank(raw, self.dialect.delimiter) else why_unusable(raw, self.dialect)
            if why is not None:
                rejected.append(self.rejected(raw, int(rows.lines[at]), why))
        columns = {int(name): table.column(name).combine_chunks() for name in types}
        return Rows(lines, begins, ends, rows.size, rows.line, columns, rejected)

    def rejected(self, raw: bytes, line: int, why: Reason) -> Rejected:
        """A record as one that cannot be used."""
        return Rejected(self.source, line, *why, raw[:-1].removesuffix(b"\r"))

    def _by_csv(self, text: bytes, line: int, whole: bool) -> Rows:
        import pyarrow as pa

        lines = io.BytesIO(text).readlines()
        begins = np.cumsum([0, *map(len, lines)])
        rows: list[list[str]] = []
        stops: list[tuple[int, int]] = []  # the first line of each row, and the one behind it
        rejected: list[Rejected] = []
        at = 0
        for count, fields in records(lines, self.dialect.delimiter):
            raw = text[begins[at] : begins[at + count]]
            if fields is None:
                why, is_open = why_unreadable(raw, self.dialect)
                if is_open and not whole and at + count == len(lines) and len(raw) <= LONGEST:
                    break
                count = 1
                rejected.append(self.rejected(lines[at], line + at, why))
            elif not is_blank(raw, self.dialect.delimiter):
                clean = len(fields) == len(self.dialect.names) and is_utf8(raw)
                unusable = None if clean else why_unusable(raw, self.dialect)
                if unusable is None:
                    rows.append(fields)
                    stops.append((at, at + count))
                else:
                    rejected.append(self.rejected(raw, line + at, unusable))
            at += count
        spans = np.array(stops, np.int64).reshape(-1, 2)
        columns = {each: pa.array([row[each] for row in rows], pa.large_string()) for each in self.dialect.used}
        firsts, ends = spans.T
        return Rows(line + firsts, begins[firsts], begins[ends], int(begins[at]), line + at, columns, rejected)


def as_numbers(texts: Any, missing: tuple[str, ...]) -> tuple[Any, Any]:
    """The numbers that a column of text holds; and the column, encoded as a dictionary if that was needed.

    A missing number is null; in place of what is no number, one stands that is not finite.

    >>> import pyarrow as pa
    >>> as_numbers(pa.array([" 1", "NA", "x", "+2e1"]), ("NA",))[0].to_pylist()
    [1.0, None, nan, 20.0]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(texts.type):
        try:
            texts[:64].cast(pa.float64())  # each of many failures would cost more than all the rest
            return texts.cast(pa.float64()), texts
        except pa.ArrowInvalid:
            texts = texts.dictionary_encode()
    words = pc.ascii_trim(texts.dictionary, " \t")
    words = pc.if_else(pc.is_in(words, pa.array(["", *missing], words.type)), None, words)
    words = pc.if_else(pc.match_substring_regex(words, f"^(?:{NUMBER})$"), words, "nan")
    return words.cast(pa.float64()).take(texts.indices), texts
