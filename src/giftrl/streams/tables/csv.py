"""CSV: one row a record, one column a feature."""

import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import BadSource
from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import LABEL_NAMES, Columns, Kind, Schema, decide
from giftrl.streams.line_blocks import BOM, as_block
from giftrl.streams.names.dates import moment
from giftrl.streams.tables.csv_fallback import (
    MAX_QUOTED_BYTES,
    NUMBER_PATTERN,
    Dialect,
    Reason,
    column_at,
    is_blank,
    is_utf8,
    records,
    why_unreadable,
    why_unusable,
)
from giftrl.streams.tables.table_rows import Column, TableRows, as_texts, infer_column

# Blocks of CSV as columns of numbers and text, read by PyArrow, or by Python's ``csv`` if quotes are out of place.

NEWLINE, RETURN, QUOTE = 10, 13, 34
#: PyArrow's block size in bytes, small enough for the cache.
ARROW_BLOCK_BYTES = 1 << 19
SCAN_BYTES = 1 << 16


class CsvRows(NamedTuple):
    """The rows of a block: its records with the right number of fields."""

    lines: NDArray[np.int64]  # the first line of each
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]  # the end of its last newline
    size: int  # bytes used; fewer than given if a record continues in the next block
    line: int  # the line after the rows
    columns: dict[int, Any]  # by number: Arrow arrays of text or numbers
    rejected: list[Rejected]


class CsvBlocks:
    """Reads blocks of CSV.

    PyArrow reads a block if quotes surround whole fields and carriage returns precede newlines, so that Python's
    ``csv`` would find the same records. If a numeric column contains other text, all columns are read as text. A block
    that is not UTF-8 is read by ``csv``.
    """

    def __init__(self, dialect: Dialect, source: str) -> None:
        self.dialect, self.source = dialect, source
        self.doubtful = False  # True to read all columns as text, because bad values have occurred

    def read(self, text: Any, line: int, whole: bool) -> CsvRows:
        """Read a block of whole lines; ``line`` is the number of the first.

        Unless ``whole``, an incomplete last row is left to the next block.
        """
        rows = None if self.doubtful else self._by_pyarrow(text, line, whole, False)
        return self.typed(rows or self.texts(text, line, whole))

    def texts(self, text: Any, line: int, whole: bool) -> CsvRows:
        """The rows of a block, with all columns as text."""
        return self._by_pyarrow(text, line, whole, True) or self._by_csv(bytes(text), line, whole)

    def typed(self, rows: CsvRows) -> CsvRows:
        """Rows with typed columns: numbers, or dictionary-encoded text, stripped of spaces."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = {}
        for at in self.dialect.used:
            array = rows.columns[at]
            if self.dialect.kinds[at] not in Kind.WRITTEN:
                columns[at] = array if array.type == pa.float64() else as_numbers(array, self.dialect.missing)[0]
                continue
            array = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
            words = pc.ascii_trim(array.dictionary, " " if self.dialect.trims else "")
            columns[at] = pa.DictionaryArray.from_arrays(array.indices, words)
        return rows._replace(columns=columns)

    def _places(self, text: Any, line: int, whole: bool) -> CsvRows | None:
        """Split a block into rows; None if this needs Python's ``csv``."""
        block = np.frombuffer(text, np.uint8)
        # In pieces that fit the cache.
        firsts = range(0, len(block) + 1, SCAN_BYTES)
        low = np.concatenate([first + np.flatnonzero(block[first : first + SCAN_BYTES] <= QUOTE) for first in firsts])
        marks = block[low]
        newlines, quotes, returns = low[marks == NEWLINE], low[marks == QUOTE], low[marks == RETURN]
        lone_returns = (block[returns + 1] != NEWLINE).any()
        if lone_returns or block[:3].tobytes() == BOM or len(self.dialect.names) < 2:
            return None
        stops = np.arange(len(newlines))  # the newlines that end a record
        if len(quotes):
            # Quotes alternately open and close; a doubled quote inside a field closes and reopens it.
            around = (ord(self.dialect.delimiter), NEWLINE, QUOTE)
            before, after = block[quotes[::2] - 1], block[quotes[1::2] + 1]
            before[quotes[::2] == 0] = NEWLINE
            if not (np.isin(before, around).all() and np.isin(after, (*around, RETURN)).all()):
                return None
            stops = np.flatnonzero(np.searchsorted(quotes, newlines) % 2 == 0)
        ends = newlines[stops] + 1
        size = int(ends.max(initial=0))
        if len(quotes) % 2 and (whole or len(text) - size > MAX_QUOTED_BYTES):
            return None
        begins = np.concatenate([[0], ends])[:-1]
        lines = line + np.concatenate([[0], stops + 1])
        filled = (block[begins] != NEWLINE) & ((block[begins] != RETURN) | (ends - begins > 2))
        return CsvRows(lines[:-1][filled], begins[filled], ends[filled], size, int(lines[-1]), {}, [])

    def _by_pyarrow(self, text: Any, line: int, whole: bool, as_text: bool) -> CsvRows | None:
        """Read the used columns with PyArrow; None if it rejects something."""
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
        size = max(ARROW_BLOCK_BYTES, int((rows.ends - rows.begins).max()))  # PyArrow's maximum record length
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
        return CsvRows(lines, begins, ends, rows.size, rows.line, columns, rejected)

    def rejected(self, raw: bytes, line: int, why: Reason) -> Rejected:
        """Reject a record."""
        return Rejected(self.source, line, *why, raw[:-1].removesuffix(b"\r"))

    def _by_csv(self, text: bytes, line: int, whole: bool) -> CsvRows:
        import pyarrow as pa

        lines = io.BytesIO(text).readlines()
        begins = np.cumsum([0, *map(len, lines)])
        rows: list[list[str]] = []
        stops: list[tuple[int, int]] = []  # the first line of each row, and the line after it
        rejected: list[Rejected] = []
        at = 0
        for count, fields in records(lines, self.dialect.delimiter):
            raw = text[begins[at] : begins[at + count]]
            if fields is None:
                why, is_open = why_unreadable(raw, self.dialect)
                if is_open and not whole and at + count == len(lines) and len(raw) <= MAX_QUOTED_BYTES:
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
        return CsvRows(line + firsts, begins[firsts], begins[ends], int(begins[at]), line + at, columns, rejected)


def as_numbers(texts: Any, missing: tuple[str, ...]) -> tuple[Any, Any]:
    """Parse a text column as numbers; also returns the column, possibly dictionary-encoded. Missing numbers become
    null; text that is not a number becomes infinite or NaN.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(texts.type):
        try:
            texts[:64].cast(pa.float64())  # many failed conversions would be slow
            return texts.cast(pa.float64()), texts
        except pa.ArrowInvalid:
            texts = texts.dictionary_encode()
    words = pc.ascii_trim(texts.dictionary, " \t")
    none, nan = pa.nulls(1, words.type)[0], as_texts(["nan"]).cast(words.type)[0]
    words = pc.if_else(pc.is_in(words, as_texts(["", *missing]).cast(words.type)), none, words)
    words = pc.if_else(pc.match_substring_regex(words, f"^(?:{NUMBER_PATTERN})$"), words, nan)
    return words.cast(pa.float64()).take(texts.indices), texts


# Detection of the delimiter, the header and the kinds of columns.

#: In order of preference: commas also occur inside numbers and text, tabs hardly ever.
DELIMITERS = ("\t", ";", ",", "|")
#: The number of bytes examined to detect the delimiter.
DELIMITER_BYTES = 1 << 16
_NUMBER = re.compile(NUMBER_PATTERN)
_QUOTED = re.compile(r'"(?:[^"]|"")*"')

Counts = list[tuple[int, int]]  # for each column: the counts of numbers and of other present fields


def find_delimiter(text: str) -> str:
    """Detect the delimiter: it occurs equally often in most of the first lines, outside quotes."""
    lines = [line for line in _QUOTED.sub("", text[:DELIMITER_BYTES]).split("\n")[:100] if line.strip()]
    if len(lines) > 1 and len(text) > DELIMITER_BYTES:
        lines.pop()  # which may be cut off
    best, most = ",", 0.0
    for mark in DELIMITERS:
        usual = Counter(line.count(mark) for line in lines).most_common(1)
        if usual and usual[0][0] > 0 and usual[0][1] / len(lines) > most:
            best, most = mark, usual[0][1] / len(lines)
    return best


def _are_numbers(numbers: int, others: int) -> bool:
    """True if at least nine out of ten present fields are numbers."""
    return 10 * others <= numbers + others


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _first_record(text: bytes, delimiter: str, size: int = DELIMITER_BYTES) -> tuple[list[str], int, int]:
    """The fields of the first record that is not blank, and the bytes before it and to its end.

    Searches the first bytes, then the whole block.
    """
    lines = io.BytesIO(text).readlines(size)
    at = before = 0
    for count, fields in records(lines, delimiter):
        if fields is None and size < len(text):
            break
        if fields is None:  # no header: a row that will be rejected
            fields, count = [field.strip() for field in lines[at].decode("utf-8", "replace").split(delimiter)], 1
        raw = b"".join(lines[at : at + count])
        if not is_blank(raw, delimiter):
            return [field.strip(" ") for field in fields] if delimiter != " " else fields, before, before + len(raw)
        at += count
        before += len(raw)
    return _first_record(text, delimiter, len(text)) if size < len(text) else ([], before, before)


def _numbers(rows: CsvRows, missing: tuple[str, ...]) -> tuple[list[Any], Counts]:
    """The columns as numbers, with counts of numbers and of other present fields."""
    import pyarrow.compute as pc

    columns, counts = [], []
    for at, texts in rows.columns.items():
        numbers, rows.columns[at] = as_numbers(texts, missing)
        finite = pc.sum(pc.is_finite(numbers), min_count=0).as_py()
        columns.append(numbers)
        counts.append((finite, len(numbers) - numbers.null_count - finite))
    return columns, counts


def _count(field: str, missing: tuple[str, ...]) -> tuple[int, int]:
    """(1, 0) for a number, (0, 1) for other text, (0, 0) if missing."""
    text = field.strip(" \t")
    number = _is_number(text)
    return int(number), int(not number and text not in ("", *missing))


def _is_known_header(first: Sequence[str], schema: Schema) -> bool:
    """True if the first record has the names of the columns that are known."""
    named = not all(name.isdecimal() for name in schema.names)
    known = [name in schema.names for name in first if name]
    return named and (all(known) or (any(known) and not any(map(_is_number, first))))


def _is_header(first: Sequence[str], rest: Counts, columns: Columns) -> bool:
    """True if the first record seems to have the names of columns, by itself and the fields below."""
    references = (columns.label, columns.weight, *columns.ignore, *columns.categorical, *columns.date, *columns.text)
    said = {reference for reference in references if isinstance(reference, str) and not _is_number(reference)}
    if any(field.lower() in LABEL_NAMES or field in said for field in first):
        return True
    if any(moment(field) is not None for field in first):
        return False
    numbers = [_is_number(field) for field in first]
    # A header: text above numbers.
    telling = [
        here
        for here, field, counts in zip(numbers, first, rest, strict=True)
        if counts[0] and _are_numbers(*counts) and field and field not in columns.missing
    ]
    if telling:
        return not any(telling)
    return not any(numbers) and all(first) and len(set(first)) == len(first)


def _names_by_count(count: int, schema: Schema, source: str) -> tuple[str, ...]:
    features = tuple(n for n, kind in zip(schema.names, schema.kinds, strict=True) if kind != Kind.LABEL)
    if count == len(schema.names):
        return schema.names
    if count == len(features):
        return features
    rule = f"has {count} columns and no header, where {len(schema.names)} are known"
    raise BadSource(source, rule, "give the same columns, or a header")


class CsvText(TableRows):
    """Reads blocks of CSV.

    A column of numbers is the feature of its name; a column of text has the feature ``column=value``, with value 1, for
    each of its values. A column is numeric, or holds ISO dates, if at least nine out of ten of its present fields in
    the first block do. Any other field in such a column rejects its row, as does a wrong number of fields. A missing
    number or date is the feature ``column=missing``; an empty field of text and a zero add
    nothing. Spaces around a field are ignored. The arguments are those of :class:`TableRows`.
    """

    row_order = True
    unused = 0  # bytes at the end of the last block that belong to the next one
    _known: CsvRows | None = None  # the rows of the first block
    _raw: Callable[[int], bytes]  # the record of the last block by its first line

    def open(self, head: bytes, source: str, whole: bool, number: int = 0) -> Position:
        """Examine the first bytes of a file; returns the start of its first row.

        ``whole`` means that these are all bytes of the file. If no schema is known, it is inferred.
        """
        if not whole:
            head = head[: head.rfind(b"\n") + 1] or head
        text = head.removeprefix(BOM)
        mark = len(head) - len(text)
        text += b"" if text.endswith(b"\n") else b"\n"
        columns, missing = self.columns, self.columns.missing
        delimiter = columns.delimiter or find_delimiter(text[: DELIMITER_BYTES + 1].decode("utf-8", "replace"))
        first, before, after = _first_record(text, delimiter)
        if not first:
            raise BadSource(source, "holds no row", "give a file with rows, or leave it out")

        def line_at(place: int) -> int:
            return 1 + text.count(b"\n", 0, place)

        rows: CsvRows | None = None
        rest: Counts = []
        own = [_count(field, missing) for field in first]
        # A first record with a number is probably a row.
        begin = before if any(count for count, _ in own) else after
        header = columns.header
        if self.schema is None:
            dialect = Dialect(delimiter, ("",) * len(first), (Kind.CATEGORY,) * len(first), missing)
            rows = CsvBlocks(dialect, source).texts(memoryview(text)[begin:], line_at(begin), whole)
            numbers, rest = _numbers(rows, missing)
            if begin == before:
                rest = [(a - c, b - d) for (a, b), (c, d) in zip(rest, own, strict=True)]
            header = _is_header(first, rest, columns) if header is None else header
        elif header is None:
            header = _is_known_header(first, self.schema)
        start = after if header else before
        names = tuple(map(str, range(len(first))))
        if header:
            names = tuple(name or str(at) for at, name in enumerate(first))
            if any("\ud800" <= letter <= "\udfff" for name in names for letter in name):
                raise BadSource(source, "its header is not UTF-8", "convert the file (iconv -t UTF-8)", line_at(before))
        elif self.schema is not None:
            names = _names_by_count(len(first), self.schema, source)
        else:
            rest = [(a + c, b + d) for (a, b), (c, d) in zip(rest, own, strict=True)]
        if rows is not None:
            first_row = int(begin < start)  # after a header that was read as a row
            looks = []
            for at, name in enumerate(names):
                values = numbers[at] if _are_numbers(*rest[at]) else rows.columns[at]
                looks.append(infer_column(name, values[first_row:], missing))
            self.schema, said = decide(columns, names, looks, source, delimiter)
            self.remarks += said
            texts = Kind.WRITTEN if self.labels is None else (*Kind.WRITTEN, Kind.LABEL)
            rows.columns.update((at, numbers[at]) for at, kind in enumerate(self.schema.kinds) if kind not in texts)
            if begin != start or rows.rejected:
                rows = None  # whose messages would lack column names
        assert self.schema is not None
        # A schema from another format may have list columns, which CSV does not have.
        text_kinds = {Kind.NUMBERS: Kind.NUMBER, Kind.CATEGORIES: Kind.CATEGORY}
        self._kinds = tuple(text_kinds.get(kind, kind) for kind in self.schema.kinds_of(names, source, columns))
        if self.labels_only:
            self._kinds = tuple(kind if kind == Kind.LABEL else Kind.IGNORED for kind in self._kinds)
        as_text = Kind.LABEL if self.labels is None else Kind.CATEGORY
        kinds = tuple(as_text if kind == Kind.LABEL else kind for kind in self._kinds)
        self._blocks = CsvBlocks(Dialect(delimiter, names, kinds, missing), source)
        self.delimiter, self.missing_labels = delimiter, missing
        position = Position(number, min(mark + start, len(head)), line_at(start))
        self._known, self._first = rows, (position.offset, len(text) - start, whole)
        return position

    def parse(self, data: Any, source: str, start: Position, whole: bool = True) -> Batch:
        """Parse a block of whole lines; the last line may lack its newline. Unless ``whole``, ``unused`` is set to the
        bytes of an incomplete last record, with which the next block must begin.
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
        """A row rejected for a number, with the text of that field."""
        why = why_unusable(rejected.raw + b"\n", self._blocks.dialect)
        return rejected if why is None else rejected._replace(**why._asdict())
