"""CSV record by record with Python's ``csv``: slow, with a reason for every rejected record."""

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from giftrl.streams.columns import Kind
from giftrl.streams.names.dates import EXPECTED_DATE, moment

#: A longer quoted field counts as one without a closing quote.
MAX_QUOTED_BYTES = 1 << 24
#: Characters of a field shown in a message.
SHOWN_CHARACTERS = 40

NUMBER_PATTERN = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
EXPECTED_NUMBER = "a finite number"
EXPECTED_WEIGHT = "a finite number, 0 or more"
#: A row is rejected for its first fault in this order: label, weight, numbers, others.
KIND_ORDER = (Kind.LABEL, Kind.WEIGHT, Kind.NUMBER, Kind.DATE, Kind.CATEGORY, Kind.TEXT)


class Dialect(NamedTuple):
    """The dialect of a table: delimiter, names and kinds of columns, spellings of a missing number."""

    delimiter: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def trims(self) -> bool:
        """True if spaces around a field are ignored."""
        return self.delimiter != " "

    @property
    def used(self) -> list[int]:
        """The numbers of the columns that are not ignored."""
        return [at for at, kind in enumerate(self.kinds) if kind != Kind.IGNORED]


class Reason(NamedTuple):
    """The reason why a record cannot be used."""

    column: int  # the byte, counted from 1
    problem: str
    expected: str


def records(lines: Sequence[bytes], delimiter: str) -> Iterator[tuple[int, list[str] | None]]:
    """For each record, its number of lines and its fields; None instead of unreadable fields.

    The rules are those of Python's ``csv`` with ``strict=True``. After an unreadable record, reading resumes at the
    second line of that record.
    """
    limit = csv.field_size_limit(1 << 30)  # the default limit is 128 kB for the whole process
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


def is_blank(raw: bytes, delimiter: str) -> bool:
    """True for an empty line, or one of spaces."""
    return not raw.strip(b"\r\n" if delimiter == " " else b" \r\n")


def is_utf8(raw: Any) -> bool:
    """True if bytes are UTF-8."""
    try:
        str(raw, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def why_unusable(raw: bytes, dialect: Dialect) -> Reason | None:
    """The reason to reject a record, given with its newline; None if it is valid."""
    _, fields = next(records(io.BytesIO(raw).readlines(), dialect.delimiter))
    assert fields is not None
    columns = len(dialect.names)
    if len(fields) != columns:
        few = len(fields) < columns
        problem = f"only {len(fields)} of {columns} columns" if few else f"{len(fields)} columns"
        return Reason(column_at(raw, min(len(fields), columns), dialect), problem, f"{columns} columns")
    for at in sorted(dialect.used, key=lambda at: KIND_ORDER.index(dialect.kinds[at])):
        why = _why_bad(fields[at], dialect.kinds[at], dialect.names[at], dialect.missing)
        if why is not None:
            return Reason(column_at(raw, at, dialect), *why)
    return None


def _why_bad(field: str, kind: str, name: str, missing: tuple[str, ...]) -> tuple[str, str] | None:
    """The problem of a field, and what was expected; None for a valid field."""
    raw = field.encode("utf-8", "surrogateescape")
    text, shown = field.strip(" \t"), _shown(raw.strip(b" "))  # PyArrow accepts tabs around numbers too
    if kind in Kind.WRITTEN and not is_utf8(raw):
        return f"bytes that are not UTF-8 in the column {name!r}", "text in UTF-8"
    if kind in (Kind.CATEGORY, Kind.TEXT):
        return None
    if text in ("", *missing):
        return ("no weight", EXPECTED_WEIGHT) if kind == Kind.WEIGHT else None
    if kind == Kind.DATE:
        return None if moment(text) is not None else (f"{shown} in the column of dates {name!r}", EXPECTED_DATE)
    number = float(text) if re.fullmatch(NUMBER_PATTERN, text) else math.nan
    if math.isfinite(number) and (number >= 0.0 or kind != Kind.WEIGHT):
        return None
    if kind == Kind.WEIGHT:
        return f"a weight that is not one: {shown}", EXPECTED_WEIGHT
    if kind == Kind.LABEL:
        wrong = "too large for float64" if math.isinf(number) else "that is not a number"
        return f"a label {wrong}: {shown}", EXPECTED_NUMBER
    if math.isinf(number):
        return f"{shown} in the column {name!r}, too large for float64", EXPECTED_NUMBER
    codes = f"{EXPECTED_NUMBER}; if these are codes, --categorical {name} reads them as such"
    return f"{shown} in the column of numbers {name!r}", codes


def _walk(raw: bytes, dialect: Dialect) -> tuple[list[int], int]:
    """The start of each field of a record, and the end of the last; -1 for an open quote."""
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


def column_at(raw: bytes, where: int, dialect: Dialect) -> int:
    """The byte (from 1) at which a column of a record begins, inside quotes; the end if it is absent."""
    begins, end = _walk(raw, dialect)
    if where >= len(begins):
        return end + 1
    inside = where < len(dialect.names) and raw[begins[where] : begins[where] + 1] == b'"'
    return begins[where] + inside + 1


def why_unreadable(raw: bytes, dialect: Dialect) -> tuple[Reason, bool]:
    """The reason why a record is unreadable, and True if a quote is open at its end."""
    begins, end = _walk(raw, dialect)
    line = raw.partition(b"\n")[0].rstrip(b"\r")
    at, is_open = end, end < 0
    if is_open or b"\n" in raw[begins[-1] : end]:
        # The quote that closed it, lines below, was meant as an opening one.
        at = begins[-1]
        shown = raw[at:].partition(b"\n")[0]
        problem, expected = f"a quote that is not closed: {_shown(shown)}", f"its end within {MAX_QUOTED_BYTES} bytes"
    elif raw[end : end + 1] == b"\r":
        problem, expected = "a carriage return inside a line", "one before the newline, or in quotes"
    else:
        shown = raw[end:].partition(b"\n")[0].partition(dialect.delimiter.encode())[0]
        problem, expected = f"text after a closing quote: {_shown(shown)}", "the delimiter or the end of the line"
    return Reason(at + 1 if at <= len(line) else 1, problem, expected), is_open


def _shown(raw: bytes) -> str:
    return repr(raw[:SHOWN_CHARACTERS].decode("utf-8", "backslashreplace").rstrip("\r"))
