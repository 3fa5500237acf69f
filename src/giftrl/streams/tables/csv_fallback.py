"""CSV record by record, with Python's ``csv``: slowly, and with a reason for every record that cannot be used."""

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from giftrl.streams.columns import Kind
from giftrl.streams.names.dates import EXPECTED_DATE, moment

#: A quoted field of more bytes is taken for one whose closing quote is missing.
MAX_QUOTED_BYTES = 1 << 24
#: How much of a field is shown in a message.
SHOWN_CHARACTERS = 40

NUMBER_PATTERN = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
EXPECTED_NUMBER = "a finite number"
EXPECTED_WEIGHT = "a finite number, 0 or more"
#: A row is rejected for the first thing that is wrong in this order: its label, its weight, its numbers, the rest.
KIND_ORDER = (Kind.LABEL, Kind.WEIGHT, Kind.NUMBER, Kind.DATE, Kind.CATEGORY, Kind.TEXT)


class Dialect(NamedTuple):
    """The dialect of a table: delimiter, names and kinds of columns, spellings of a missing number."""

    delimiter: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def trims(self) -> bool:
        """True if spaces around a field do not count."""
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
    """For each record the number of its lines and its fields; None in place of fields that cannot be read.

    The rules are those of Python's ``csv`` with ``strict=True``. After a record that cannot be read, the next one
    begins in the line below its first, since its end is not known.
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
    """Explain why a record, given with its newline, cannot be used; None if it can."""
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
    """The problem with a field, and the expected text; None for a good one."""
    raw = field.encode("utf-8", "surrogateescape")
    text, shown = field.strip(" \t"), _shown(raw.strip(b" "))  # PyArrow takes numbers between tabs too
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
    """The places at which fields of a record begin, and the end of the last one; -1 for an open quote."""
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
    """The byte, counted from 1, at which a column of a record begins, inside its quotes; the end if it has none."""
    begins, end = _walk(raw, dialect)
    if where >= len(begins):
        return end + 1
    inside = where < len(dialect.names) and raw[begins[where] : begins[where] + 1] == b'"'
    return begins[where] + inside + 1


def why_unreadable(raw: bytes, dialect: Dialect) -> tuple[Reason, bool]:
    """Explain why a record cannot be read; also returns if a quote is open at its end."""
    begins, end = _walk(raw, dialect)
    line = raw.partition(b"\n")[0].rstrip(b"\r")
    at, is_open = end, end < 0
    if is_open or b"\n" in raw[begins[-1] : end]:
        # What closed the quote some lines below was meant to open another one.
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
