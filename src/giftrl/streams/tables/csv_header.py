"""What a CSV file looks like: its delimiter, its header, and what kind of values its columns have."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import BadSource
from giftrl.streams.columns import LABELS, Columns, Kind, Schema, decide
from giftrl.streams.sources.lines import BOM, as_block
from giftrl.streams.tables.csv_scan import ABSENT, NUMERIC, OTHER, Scanner

__all__ = ["Layout", "find_delimiter", "layout"]

#: In the order in which they are believed: commas are found inside numbers and text, tabs hardly anywhere.
DELIMITERS = ("\t", ";", ",", "|")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Layout(NamedTuple):
    """How to read a file: its delimiter, what its columns are for, and where its first row begins."""

    delimiter: str
    schema: Schema
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    offset: int
    line: int


def layout(
    head: bytes, source: str, columns: Columns, schema: Schema | None, whole: bool, *, compiled: bool = True
) -> Layout:
    """Look at the beginning of a file.

    Args:
        head: its first bytes.
        source: its name, for messages.
        columns: what the user said.
        schema: what the columns are for, where another file has decided that; otherwise this one does.
        whole: whether the head is the whole file.
        compiled: False to run the loop as plain Python.

    >>> found = layout(b"city;age;label\\nRome;33;1\\n", "a.csv", Columns(), None, True)
    >>> found.delimiter, found.kinds, found.offset, found.line
    (';', ('category', 'number', 'label'), 15, 2)
    """
    if not whole:
        head = head[: head.rfind(b"\n") + 1] or head
    text = head.removeprefix(BOM)
    skipped = len(head) - len(text)
    delimiter = columns.delimiter or find_delimiter(text.decode("utf-8", "replace"))
    first, blank, length, lines, blank_lines = _first_record(text, delimiter)
    if not first:
        raise BadSource(source, "holds no row", "give a file with rows, or leave it out")
    rest = _probe(text[blank + length :], len(first), delimiter, columns, compiled)
    header = columns.header
    if header is None:
        header = _is_header(first, rest, columns, schema)
    if header:
        names = tuple(name or str(at) for at, name in enumerate(first))
        if any("\ud800" <= letter <= "\udfff" for name in names for letter in name):
            raise BadSource(source, "its header is not UTF-8", "convert the file (iconv -t UTF-8)", 1 + blank_lines)
        seen = rest
        offset, line = skipped + blank + length, 1 + blank_lines + lines
    else:
        names = tuple(str(at) for at in range(len(first)))
        seen = _probe(text[blank:], len(first), delimiter, columns, compiled)
        offset, line = skipped + blank, 1 + blank_lines
    if schema is None:
        kinds = [Kind.NUMBER if _are_numbers(*counts) else Kind.CATEGORY for counts in seen.tolist()]
        schema = decide(columns, names, kinds, source)
        return Layout(delimiter, schema, names, schema.kinds, offset, line)
    if not header:
        names = _names_by_count(len(first), schema, source)
    return Layout(delimiter, schema, names, schema.kinds_of(names, source), offset, line)


def find_delimiter(text: str) -> str:
    """The mark that is found equally often in the first lines, outside quotes.

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


def _are_numbers(numbers: int, missing: int, others: int) -> bool:
    """Whether a column is one of numbers: a few fields that are none are mistakes, to be reported; many are codes."""
    return 10 * others <= numbers + others


def _first_record(text: bytes, delimiter: str) -> tuple[list[str], int, int, int, int]:
    """The fields of the first record; the bytes before it, and its own; its lines, and those before it."""
    taken: list[int] = []

    def lines() -> Iterator[str]:
        at = 0
        while at < len(text):
            end = text.find(b"\n", at) + 1 or len(text)
            taken.append(end - at)
            yield text[at:end].decode("utf-8", "surrogateescape")
            at = end

    blank, blank_lines = 0, 0
    source = lines()
    for line in source:
        if line.strip(" \r\n"):
            break
        blank, blank_lines = blank + taken[-1], blank_lines + 1
    else:
        return [], blank, 0, 0, blank_lines
    before = len(taken) - 1
    trims = delimiter != " "
    chained = (each for group in ([line], source) for each in group)
    reader = csv.reader(chained, delimiter=delimiter, skipinitialspace=trims, strict=True)
    try:
        fields = next(reader)
    except csv.Error:
        # Not a header, then; a row that will be rejected.
        fields, taken = line.rstrip("\r\n").split(delimiter), taken[: before + 1]
    if trims:
        fields = [field.strip(" ") for field in fields]
    return fields, blank, sum(taken[before:]), len(taken) - before, blank_lines


def _probe(text: bytes, count: int, delimiter: str, columns: Columns, compiled: bool) -> NDArray[np.int64]:
    """For each column, how many of its fields are numbers, missing, and something else."""
    block = as_block(text)
    scanner = Scanner(delimiter, columns.missing, compiled=compiled)
    records, _, _ = scanner.split(block, count, 1, True)
    _, kinds = scanner.numbers(block, records, np.arange(count))
    return np.stack([(kinds == kind).sum(axis=1) for kind in (NUMERIC, ABSENT, OTHER)], axis=1)


def _is_header(first: Sequence[str], rest: NDArray[np.int64], columns: Columns, schema: Schema | None) -> bool:
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
        for here, field, counts in zip(numbers, first, rest.tolist(), strict=True)
        if counts[0] and _are_numbers(*counts) and field and field not in columns.missing
    ]
    if telling:
        return not any(telling)
    return not any(numbers) and all(first) and len(set(first)) == len(first)


def _references(columns: Columns) -> list[str | int | None]:
    return [columns.label, columns.weight, *columns.ignore, *columns.categorical]


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _names_by_count(count: int, schema: Schema, source: str) -> tuple[str, ...]:
    features = tuple(n for n, kind in zip(schema.names, schema.kinds, strict=True) if kind != Kind.LABEL)
    if count == len(schema.names):
        return schema.names
    if count == len(features):
        return features
    rule = f"has {count} columns and no header, where {len(schema.names)} are known"
    raise BadSource(source, rule, "give it the same columns, or a header")
