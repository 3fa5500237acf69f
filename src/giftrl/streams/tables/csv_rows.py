"""CSV read row by row with Python's ``csv``: slowly, and with a reason for every row that cannot be read."""

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from giftrl.streams.batch import Rejected
from giftrl.streams.columns import Kind

__all__ = ["LONGEST", "NUMBER", "Dialect", "Rows", "is_blank", "read_rows", "records"]

#: A quoted field of more bytes is taken for one whose closing quote is missing.
LONGEST = 1 << 24
#: How much of a field is shown in a message.
SHOWN = 40

NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
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

    @property
    def used(self) -> list[int]:
        """The numbers of the columns that are not ignored."""
        return [at for at, kind in enumerate(self.kinds) if kind != Kind.IGNORED]


class Rows(NamedTuple):
    """Rows that were read, and those that could not be."""

    lines: list[int]  # the first line of each row
    values: list[dict[int, Any]]  # by the number of the column; None for a missing number
    rejected: list[Rejected]
    size: int  # bytes that were read: fewer than given if a row goes on behind the end
    line: int  # the line behind them


class _Wrong(Exception):
    """Why a row is rejected: the column, counted from 0, the problem, and what was expected."""


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
    >>> found.lines, found.values[1], str(found.rejected[0])[:43]
    ([1, 3], {0: None, 1: 'b\\nc'}, "a.csv:5:1: 'x' in the column of numbers 'n'")
    """
    lines = io.BytesIO(text).readlines()
    numbers: list[int] = []
    values: list[dict[int, Any]] = []
    rejected: list[Rejected] = []
    # A row is rejected for the first thing that is wrong in this order: its label, its weight, its numbers, the rest.
    ranks = {Kind.LABEL: 0, Kind.WEIGHT: 1, Kind.NUMBER: 2}
    order = sorted(dialect.used, key=lambda at: ranks.get(dialect.kinds[at], 3))
    size, at = 0, 0
    for count, fields in records(lines, dialect.delimiter):
        raw = b"".join(lines[at : at + count])
        if fields is None:
            spot, problem, expected, is_open = _why_unreadable(raw, dialect)
            if is_open and not whole and at + count == len(lines) and len(raw) <= LONGEST:
                break
            raw, count = lines[at], 1
            shown = raw.rstrip(b"\r\n")
            rejected.append(
                Rejected(source, line + at, spot + 1 if spot <= len(shown) else 1, problem, expected, shown)
            )
        elif not is_blank(fields, raw):
            try:
                row = _values(fields, order, dialect)
            except _Wrong as why:
                column, problem, expected = why.args
                shown = raw[:-1].removesuffix(b"\r")
                rejected.append(Rejected(source, line + at, _column(raw, column, dialect), problem, expected, shown))
            else:
                numbers.append(line + at)
                values.append(row)
        size += len(raw)
        at += count
    return Rows(numbers, values, rejected, size, line + at)


def is_blank(fields: Sequence[str], raw: bytes) -> bool:
    """Whether a record is an empty line, or one of spaces."""
    return not any(fields) and len(fields) < 2 and b'"' not in raw


def records(lines: Sequence[bytes], delimiter: str) -> Iterator[tuple[int, list[str] | None]]:
    """For each record the number of its lines and its fields; None in place of fields that cannot be read.

    After a record that cannot be read, the next one begins in the line below its first.
    """
    limit = csv.field_size_limit(1 << 30)  # the usual limit is 128 kB, for all of the process
    try:
        at = 0
        while at < len(lines):
            rest = (lines[k].decode("utf-8", "surrogateescape") for k in range(at, len(lines)))
            reader = csv.reader(rest, delimiter=delimiter, skipinitialspace=delimiter != " ", strict=True)
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


def _values(fields: Sequence[str], order: Sequence[int], dialect: Dialect) -> dict[int, Any]:
    """The values of a row in the used columns, which are checked in an order."""
    columns = len(dialect.names)
    if len(fields) != columns:
        few = len(fields) < columns
        problem = f"only {len(fields)} of {columns} columns" if few else f"{len(fields)} columns"
        raise _Wrong(min(len(fields), columns), problem, f"{columns} columns")
    return {at: _value(fields[at], at, dialect) for at in order}


def _value(field: str, column: int, dialect: Dialect) -> Any:
    """The value of a field in a column of numbers or categories."""
    kind, name = dialect.kinds[column], dialect.names[column]
    if kind == Kind.CATEGORY:
        if not field.isascii() and any("\ud800" <= letter <= "\udfff" for letter in field):
            raise _Wrong(column, f"bytes that are not UTF-8 in the column {name!r}", "text in UTF-8")
        return field.strip(" ") if dialect.trims else field
    text = field.strip(" \t")  # PyArrow takes numbers between tabs too
    if text in ("", *dialect.missing):
        if kind == Kind.WEIGHT:
            raise _Wrong(column, "no weight", WEIGHT)
        return None
    number = float(text) if re.fullmatch(NUMBER, text) else math.nan
    if math.isfinite(number) and (number >= 0.0 or kind != Kind.WEIGHT):
        return number
    shown = _shown(field.strip(" ").encode("utf-8", "surrogateescape"))
    if kind == Kind.WEIGHT:
        raise _Wrong(column, f"a weight that is not one: {shown}", WEIGHT)
    if kind == Kind.LABEL:
        problem = "a label too large for float64" if math.isinf(number) else "a label that is not a number"
        raise _Wrong(column, f"{problem}: {shown}", FINITE)
    if math.isinf(number):
        raise _Wrong(column, f"{shown} in the column {name!r}, too large for float64", FINITE)
    codes = f"{FINITE}; if these are codes, name the column in categorical"
    raise _Wrong(column, f"{shown} in the column of numbers {name!r}", codes)


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
