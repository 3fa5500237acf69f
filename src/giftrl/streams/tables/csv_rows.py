"""CSV read row by row with Python's ``csv``: slowly, and with a reason for every row that cannot be read."""

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Rejected
from giftrl.streams.columns import Kind

__all__ = ["BYTES", "LONGEST", "NUMBER", "Dialect", "Rows", "is_blank", "read_rows", "records"]

#: A quoted field of more bytes is taken for one whose closing quote is missing.
LONGEST = 1 << 24
#: How much of a field is shown in a message.
SHOWN = 40
#: The kind of a column whose fields are wanted as bytes.
BYTES = "bytes"

NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(NUMBER)
FINITE = "a finite number"
WEIGHT = "a finite number, 0 or more"


class Dialect(NamedTuple):
    """How to read a table: the delimiter, names and kinds of the columns, and the spellings of a missing number."""

    delimiter: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def trims(self) -> bool:
        """Whether spaces around a field do not count."""
        return self.delimiter != " "


class Rows(NamedTuple):
    """Rows that were read: for each its first line, where it begins and ends, and its values in the used columns."""

    lines: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]  # where its last newline is
    values: dict[int, Any]  # a pyarrow.Array for each column, by its number; null for a missing number
    rejected: list[Rejected]
    size: int  # bytes that were read: fewer than given, if a row goes on behind the end
    line: int  # the line behind them


class _Wrong(Exception):
    """Why a row is rejected: the problem, and what was expected."""


def read_rows(text: bytes, dialect: Dialect, source: str, line: int, whole: bool) -> Rows:
    """Read CSV in which something may be wrong.

    The rules are those of Python's ``csv`` with ``strict=True``. Where a record cannot be read, only its first line is
    given up: its end is not known.

    Args:
        text: whole lines; the last one ends with a newline.
        dialect: how to read them.
        source: the name of the file, for messages.
        line: the number of the first line.
        whole: whether the last row ends with the text; if not, a row whose quote is open at the end is left.

    >>> dialect = Dialect(",", ("n", "c"), (Kind.NUMBER, Kind.CATEGORY), ("NA",))
    >>> found = read_rows(b'1,a\\n\\nNA,"b\\nc"\\nx,d\\n', dialect, "a.csv", 1, True)
    >>> found.lines.tolist(), found.values[0].to_pylist(), str(found.rejected[0])[:43]
    ([1, 3], [1.0, None], "a.csv:5:1: 'x' in the column of numbers 'n'")
    """
    lines = io.BytesIO(text).readlines()
    rows: list[list[str]] = []
    places: list[tuple[int, int, int]] = []  # of each row: its line, and where it begins and ends
    rejected: list[Rejected] = []
    columns = f"{len(dialect.names)} columns"
    begin, at, size = 0, 0, len(text)
    for count, fields in records(lines, dialect.delimiter):
        raw = lines[at] if count == 1 else b"".join(lines[at : at + count])
        if fields is None:
            spot, problem, expected, is_open = _why_unreadable(raw, dialect)
            if is_open and not whole and at + count == len(lines) and len(text) - begin <= LONGEST:
                size = begin
                break
            raw, count = lines[at], 1
            shown = raw.rstrip(b"\r\n")
            column = spot + 1 if spot <= len(shown) else 1
            rejected.append(Rejected(source, line + at, column, problem, expected, shown))
        elif not is_blank(fields, raw):
            if len(fields) == len(dialect.names):
                rows.append(fields)
                places.append((line + at, begin, begin + len(raw) - 1))
            else:
                few = len(fields) < len(dialect.names)
                problem = f"only {len(fields)} of {columns}" if few else f"{len(fields)} columns"
                column = _column(raw, min(len(fields), len(dialect.names)), dialect)
                rejected.append(Rejected(source, line + at, column, problem, columns, raw[:-1].removesuffix(b"\r")))
        begin += len(raw)
        at += count
    values, wrong = _values(rows, dialect)
    for row, (column, why) in wrong.items():
        number, first, end = places[row]
        problem, expected = why.args
        spot = _column(text[first : end + 1], column, dialect)
        rejected.append(Rejected(source, number, spot, problem, expected, text[first:end].removesuffix(b"\r")))
    rejected.sort(key=lambda each: each.line)
    good = [row not in wrong for row in range(len(rows))]
    kept = np.array(places, np.int64).reshape(-1, 3)[good]
    found = {column: array.filter(good) if wrong else array for column, array in values.items()}
    return Rows(kept[:, 0], kept[:, 1], kept[:, 2], found, rejected, size, line + at)


def _values(rows: Sequence[Sequence[str]], dialect: Dialect) -> tuple[dict[int, Any], dict[int, tuple[int, _Wrong]]]:
    """The values of the used columns, and for each row in which something is wrong the first column that is."""
    import pyarrow as pa

    by_column = list(zip(*rows, strict=True)) or [()] * len(dialect.names)
    values: dict[int, Any] = {}
    wrong: dict[int, tuple[int, _Wrong]] = {}
    # A row is rejected for the first thing that is wrong in this order: its label, its weight, its numbers, the rest.
    ranks = {Kind.LABEL: 0, Kind.WEIGHT: 1, Kind.NUMBER: 2}
    used = [at for at, kind in enumerate(dialect.kinds) if kind != Kind.IGNORED]
    for at in sorted(used, key=lambda at: ranks.get(dialect.kinds[at], 3)):
        array = _at_once(by_column[at], dialect.kinds[at], dialect)
        if array is None:
            one_by_one: list[Any] = []
            for row, field in enumerate(by_column[at]):
                try:
                    one_by_one.append(_value(field, at, dialect))
                except _Wrong as why:
                    one_by_one.append(None)
                    wrong.setdefault(row, (at, why))
            array = pa.array(one_by_one, pa.string() if dialect.kinds[at] == Kind.CATEGORY else pa.float64())
        values[at] = array
    return {at: values[at] for at in used}, wrong


def _at_once(fields: Sequence[str], kind: str, dialect: Dialect) -> Any:
    """The fields of a column as an array; None where one of them may be wrong."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == BYTES:
        return pa.array([field.encode("utf-8", "surrogateescape") for field in fields], pa.binary())
    try:
        array = pa.array(fields, pa.string())
        if kind == Kind.CATEGORY:
            return pc.utf8_trim(array, " ") if dialect.trims else array
        array = pc.utf8_trim(array, " \t")
        numbers = pc.if_else(pc.is_in(array, pa.array(["", *dialect.missing])), None, array).cast(pa.float64())
    except (UnicodeEncodeError, pa.ArrowInvalid):
        return None
    sound = pc.all(pc.is_finite(numbers), min_count=0).as_py()
    if kind == Kind.WEIGHT:
        sound = sound and not numbers.null_count and pc.all(pc.greater_equal(numbers, 0.0), min_count=0).as_py()
    return numbers if sound else None


def is_blank(fields: Sequence[str], raw: bytes) -> bool:
    """Whether a record is an empty line, or one of spaces."""
    return not any(fields) and len(fields) < 2 and b'"' not in raw


def records(lines: Sequence[bytes], delimiter: str) -> Iterator[tuple[int, list[str] | None]]:
    """For each record the number of its lines and its fields; None in place of fields that cannot be read.

    After a record that cannot be read, the next one begins in the line below its first.
    """
    trims = delimiter != " "
    limit = csv.field_size_limit(1 << 30)  # the usual limit is 128 kB, for all of the process
    try:
        at = 0
        while at < len(lines):
            rest = (lines[k].decode("utf-8", "surrogateescape") for k in range(at, len(lines)))
            reader = csv.reader(rest, delimiter=delimiter, skipinitialspace=trims, strict=True)
            before = 0
            try:
                for fields in reader:
                    count, before = reader.line_num - before, reader.line_num
                    at += count
                    yield count, fields
            except csv.Error:
                at += 1
                yield reader.line_num - before, None
    finally:
        csv.field_size_limit(limit)


def _value(field: str, column: int, dialect: Dialect) -> Any:
    """The value of a field in a column of numbers or categories."""
    kind, name = dialect.kinds[column], dialect.names[column]
    if kind == Kind.CATEGORY:
        if not field.isascii() and any("\ud800" <= letter <= "\udfff" for letter in field):
            raise _Wrong(f"bytes that are not UTF-8 in the column {name!r}", "text in UTF-8")
        return field.strip(" ") if dialect.trims else field
    text = field.strip(" \t")  # PyArrow takes numbers between tabs too
    if text in ("", *dialect.missing):
        if kind == Kind.WEIGHT:
            raise _Wrong("no weight", WEIGHT)
        return None
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if math.isfinite(number) and (number >= 0.0 or kind != Kind.WEIGHT):
        return number
    shown = _shown(field.strip(" ").encode("utf-8", "surrogateescape"))
    if kind == Kind.WEIGHT:
        raise _Wrong(f"a weight that is not one: {shown}", WEIGHT)
    if kind == Kind.LABEL:
        problem = "a label too large for float64" if math.isinf(number) else "a label that is not a number"
        raise _Wrong(f"{problem}: {shown}", FINITE)
    if math.isinf(number):
        raise _Wrong(f"{shown} in the column {name!r}, too large for float64", FINITE)
    codes = f"{FINITE}; if these are codes, name the column in categorical"
    raise _Wrong(f"{shown} in the column of numbers {name!r}", codes)


def _walk(raw: bytes, dialect: Dialect) -> tuple[list[int], int]:
    """Where the fields of a record begin, and where the last one ends; -1 where it has an open quote."""
    spaces = b" *+" if dialect.trims else b""
    mark = re.escape(dialect.delimiter).encode()
    field = re.compile(b'%b(?:()"[^"]*+(?:""[^"]*+)*+"|()(?!")[^%b\r\n]*+)' % (spaces, mark))
    begins, at = [], 0
    while match := field.match(raw, at):
        begins.append(max(match.span(1)[0], match.span(2)[0]))
        at = match.end()
        if raw[at : at + 1] != dialect.delimiter.encode():
            return begins, at
        at += 1
    return [*begins, raw.index(b'"', at)], -1


def _column(raw: bytes, where: int, dialect: Dialect) -> int:
    """The byte, counted from 1, at which a column of a record begins, inside its quotes; the end where it has none."""
    begins, end = _walk(raw, dialect)
    if where >= len(begins):
        return end + 1
    inside = where < len(dialect.names) and raw[begins[where] : begins[where] + 1] == b'"'
    return begins[where] + inside + 1


def _why_unreadable(raw: bytes, dialect: Dialect) -> tuple[int, str, str, bool]:
    """Where a record cannot be read, the problem, what was expected, and whether a quote is open at its end."""
    begins, end = _walk(raw, dialect)
    if end < 0 or b"\n" in raw[begins[-1] : end]:
        # What closed the quote some lines below was meant to open another one.
        shown = raw[begins[-1] :].partition(b"\n")[0]
        what, expected = "a quote that is not closed", f"its end within {LONGEST} bytes"
        return begins[-1], f"{what}: {_shown(shown)}", expected, end < 0
    if raw[end : end + 1] == b"\r":
        return end, "a carriage return inside a line", "one before the newline, or in quotes", False
    shown = raw[end:].partition(b"\n")[0].partition(dialect.delimiter.encode())[0]
    return end, f"text after a closing quote: {_shown(shown)}", "the delimiter or the end of the line", False


def _shown(raw: bytes) -> str:
    return repr(raw[:SHOWN].decode("utf-8", "backslashreplace").rstrip("\r"))
