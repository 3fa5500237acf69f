"""What a CSV file looks like: its delimiter, its header, and what kind of values its columns have."""

import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from giftrl.errors import BadSource
from giftrl.streams.columns import LABELS, Columns, Kind, Schema, decide
from giftrl.streams.sources.lines import BOM, as_block
from giftrl.streams.tables.csv_blocks import CsvBlocks
from giftrl.streams.tables.csv_rows import BYTES, NUMBER, Dialect, is_blank, records

__all__ = ["Layout", "find_delimiter", "layout"]

#: The most credible first: commas also occur inside numbers and text, tabs hardly anywhere.
DELIMITERS = ("\t", ";", ",", "|")
#: The bytes of the first rows, from which the kinds of columns are guessed before they are counted.
FEW = 1 << 16
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


class Layout(NamedTuple):
    """How to read a file: its delimiter, what its columns are for, and where its first row begins."""

    delimiter: str
    schema: Schema
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    offset: int
    line: int


def layout(head: bytes, source: str, columns: Columns, schema: Schema | None, whole: bool) -> Layout:
    """Look at the beginning of a file.

    Args:
        head: its first bytes.
        source: its name, for messages.
        columns: what the user said.
        schema: what the columns are for, where another file has decided that; otherwise this one does.
        whole: whether the head is the whole file.

    >>> found = layout(b"city;age;label\\nRome;33;1\\n", "a.csv", Columns(), None, True)
    >>> found.delimiter, found.kinds, found.offset, found.line
    (';', ('category', 'number', 'label'), 15, 2)
    """
    if not whole:
        head = head[: head.rfind(b"\n") + 1] or head
    text = head.removeprefix(BOM)
    delimiter = columns.delimiter or find_delimiter(text.decode("utf-8", "replace"))
    first, before, after = _first_record(text, delimiter)
    if not first:
        raise BadSource(source, "holds no row", "give a file with rows, or leave it out")
    rest = _probe(text[after:], len(first), delimiter, columns.missing)
    header = columns.header
    if header is None:
        header = _is_header(first, rest, columns, schema)
    start = after if header else before
    line = 1 + text.count(b"\n", 0, start)
    names = tuple(str(at) for at in range(len(first)))
    if header:
        names = tuple(name or str(at) for at, name in enumerate(first))
        if any("\ud800" <= letter <= "\udfff" for name in names for letter in name):
            line = 1 + text.count(b"\n", 0, before)
            raise BadSource(source, "its header is not UTF-8", "convert the file (iconv -t UTF-8)", line)
    offset = len(head) - len(text) + start
    if schema is None:
        seen = rest if header else _probe(text[before:], len(first), delimiter, columns.missing)
        kinds = [Kind.NUMBER if _are_numbers(*counts) else Kind.CATEGORY for counts in seen]
        schema = decide(columns, names, kinds, source)
        return Layout(delimiter, schema, names, schema.kinds, offset, line)
    if not header:
        names = _names_by_count(len(first), schema, source)
    return Layout(delimiter, schema, names, schema.kinds_of(names, source), offset, line)


def find_delimiter(text: str) -> str:
    """The mark that occurs equally often in most of the first lines, outside quotes.

    >>> find_delimiter('a;b\\n"x,y";2\\n'), find_delimiter("1,5\\t2\\n3\\t4,5,6")
    (';', '\\t')
    """
    lines = [line for line in _QUOTED.sub("", text[: 1 << 16]).split("\n")[:100] if line.strip()]
    if len(lines) > 1:
        lines = lines[: max(1, len(lines) - 1)] if len(text) > 1 << 16 else lines
    best, most = ",", 0.0
    for mark in DELIMITERS:
        usual = Counter(line.count(mark) for line in lines).most_common(1)
        if usual and usual[0][0] > 0 and usual[0][1] / len(lines) > most:
            best, most = mark, usual[0][1] / len(lines)
    return best


def _are_numbers(numbers: int, others: int) -> bool:
    """Whether a column holds numbers: if one field in ten at most is something else, those are mistakes to report."""
    return 10 * others <= numbers + others


def _first_record(text: bytes, delimiter: str) -> tuple[list[str], int, int]:
    """The fields of the first record that is not blank, and the bytes before it and to its end."""
    lines = io.BytesIO(text).readlines()
    at = before = 0
    for count, fields in records(lines, delimiter):
        if fields is None:  # not a header, then, but a row that will be rejected
            fields, count = [field.strip() for field in lines[at].decode("utf-8", "replace").split(delimiter)], 1
        raw = b"".join(lines[at : at + count])
        if not is_blank(fields, raw):
            return [field.strip(" ") for field in fields] if delimiter != " " else fields, before, before + len(raw)
        at += count
        before += len(raw)
    return [], before, before


def _probe(text: bytes, count: int, delimiter: str, missing: tuple[str, ...]) -> list[tuple[int, int]]:
    """For each column, how many of its fields are numbers, and how many are neither that nor missing."""
    names, fields = ("",) * count, (BYTES,) * count
    few = text[: text.find(b"\n", FEW) + 1] if len(text) > FEW else text
    counts = _counts(few, Dialect(delimiter, names, fields, missing))
    if counts is not None and len(few) < len(text):
        # What is a number in the first rows is probably one in all of them, which is quicker to see.
        kinds = tuple(Kind.NUMBER if numbers and not others else BYTES for numbers, others in counts)
        counts = _counts(text, Dialect(delimiter, names, kinds, missing))
    return counts or _counts(text, Dialect(delimiter, names, fields, missing)) or []


def _counts(text: bytes, dialect: Dialect) -> list[tuple[int, int]] | None:
    """What :func:`_probe` counts; None where a column that was taken for one of numbers has something else in it."""
    import pyarrow.compute as pc

    found = CsvBlocks(dialect, "").read(as_block(text), 1, True)
    if Kind.NUMBER in dialect.kinds and found.rejected:
        return None
    missing = "|".join(map(re.escape, dialect.missing))
    counts = []
    for kind, column in zip(dialect.kinds, found.table.columns, strict=True):
        if kind == Kind.NUMBER:
            counts.append((len(column) - column.null_count, 0))
            continue
        array = column.combine_chunks()
        times = np.bincount(array.indices.to_numpy(), minlength=len(array.dictionary))
        numbers, absent = (
            int(times[pc.match_substring_regex(array.dictionary, rf"^[ \t]*(?:{each})[ \t]*$")].sum())
            for each in (NUMBER, f"{missing}|")
        )
        counts.append((numbers, len(array) - numbers - absent))
    return counts


def _is_header(first: Sequence[str], rest: Sequence[tuple[int, int]], columns: Columns, schema: Schema | None) -> bool:
    if schema is not None:
        named = not all(name.isdecimal() for name in schema.names)
        return named and all(name in schema.names for name in first if name)
    said = {reference for reference in _references(columns) if isinstance(reference, str) and not _is_number(reference)}
    if any(field.lower() in LABELS or field in said for field in first):
        return True
    numbers = [_is_number(field) for field in first]
    # Numbers below, and none here.
    telling = [
        here
        for here, field, counts in zip(numbers, first, rest, strict=True)
        if counts[0] and _are_numbers(*counts) and field and field not in columns.missing
    ]
    if telling:
        return not any(telling)
    return not any(numbers) and all(first) and len(set(first)) == len(first)


def _references(columns: Columns) -> list[str | int | None]:
    return [columns.label, columns.weight, *columns.ignore, *columns.categorical]


def _is_number(text: str) -> bool:
    return re.fullmatch(NUMBER, text) is not None


def _names_by_count(count: int, schema: Schema, source: str) -> tuple[str, ...]:
    features = tuple(n for n, kind in zip(schema.names, schema.kinds, strict=True) if kind != Kind.LABEL)
    if count == len(schema.names):
        return schema.names
    if count == len(features):
        return features
    rule = f"has {count} columns and no header, where {len(schema.names)} are known"
    raise BadSource(source, rule, "give it the same columns, or a header")
