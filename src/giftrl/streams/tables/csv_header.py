"""What a CSV file looks like: its delimiter, its header, and what kind of values its columns have."""

import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from giftrl.errors import BadSource
from giftrl.streams.columns import LABELS, Columns, Kind, Schema, decide
from giftrl.streams.look import remarks, unasked
from giftrl.streams.names.dates import moment
from giftrl.streams.sources.lines import BOM
from giftrl.streams.tables.csv_blocks import CsvBlocks, Rows, as_numbers
from giftrl.streams.tables.csv_rows import NUMBER, Dialect, is_blank, records
from giftrl.streams.tables.looks import look_at

#: The most credible first: commas also occur inside numbers and text, tabs hardly anywhere.
DELIMITERS = ("\t", ";", ",", "|")
#: How many of the first bytes show the delimiter.
FIRST = 1 << 16
_NUMBER = re.compile(NUMBER)
_QUOTED = re.compile(r'"(?:[^"]|"")*"')

Counts = list[tuple[int, int]]  # for each column: the fields that are numbers, and those neither that nor missing


class Layout(NamedTuple):
    """How to read a file: its delimiter, what its columns are for, and where its first row begins."""

    delimiter: str
    schema: Schema
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    offset: int
    line: int
    size: int  # of the rest of the head
    rows: Rows | None  # of that rest, if they were read to find out what the columns hold
    remarks: tuple[str, ...] = ()  # about its columns, if the schema was found here


def layout(
    head: bytes, source: str, columns: Columns, schema: Schema | None, whole: bool, named_labels: bool = False
) -> Layout:
    """Look at the beginning of a file.

    Args:
        head: its first bytes.
        source: its name, for messages.
        columns: what the user said.
        schema: what the columns are for, where another file has decided that; otherwise this one does.
        whole: whether the head is the whole file.
        named_labels: whether labels are text.

    >>> found = layout(b"city;age;label\\nRome;33;1\\n", "a.csv", Columns(), None, True)
    >>> found.delimiter, found.kinds, found.offset, found.line
    (';', ('category', 'number', 'label'), 15, 2)
    """
    if not whole:
        head = head[: head.rfind(b"\n") + 1] or head
    text = head.removeprefix(BOM)
    mark = len(head) - len(text)
    text += b"" if text.endswith(b"\n") else b"\n"
    delimiter = columns.delimiter or find_delimiter(text[: FIRST + 1].decode("utf-8", "replace"))
    first, before, after = _first_record(text, delimiter)
    if not first:
        raise BadSource(source, "holds no row", "give a file with rows, or leave it out")
    rows = None
    said: tuple[str, ...] = ()
    own = [_count(field, columns.missing) for field in first]
    rest: Counts = []
    if schema is None:
        # A first record with a number is probably a row.
        begin = before if any(numbers for numbers, _ in own) else after
        dialect = Dialect(delimiter, ("",) * len(first), (Kind.CATEGORY,) * len(first), columns.missing)
        rows = CsvBlocks(dialect, source).texts(memoryview(text)[begin:], 1 + text.count(b"\n", 0, begin), whole)
        numbers, rest = _numbers(rows, columns.missing)
        if begin == before:
            rest = [(a - c, b - d) for (a, b), (c, d) in zip(rest, own, strict=True)]
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
    elif schema is None:
        rest = [(a + c, b + d) for (a, b), (c, d) in zip(rest, own, strict=True)]
    else:
        names = _names_by_count(len(first), schema, source)
    if schema is None:
        assert rows is not None
        first_row = int(begin < start)  # behind a header that was read as a row
        looks = [
            look_at(
                name, values[first_row:] if _are_numbers(*counts) else rows.columns[at][first_row:], columns.missing
            )
            for at, (name, values, counts) in enumerate(zip(names, numbers, rest, strict=True))
        ]
        schema = decide(columns, names, [look.kind for look in looks], source)
        said = remarks(unasked(schema, dict(zip(names, looks, strict=True)), columns), source, delimiter)
        texts = (*Kind.WRITTEN, Kind.LABEL) if named_labels else Kind.WRITTEN
        rows.columns.update((at, numbers[at]) for at, kind in enumerate(schema.kinds) if kind not in texts)
        if begin != start or rows.rejected:
            rows = None  # which would give reasons without the names of columns
    kinds = schema.kinds_of(names, source, columns)
    offset = min(mark + start, len(head))
    return Layout(delimiter, schema, names, kinds, offset, line, len(text) - start, rows, said)


def find_delimiter(text: str) -> str:
    """The mark that occurs equally often in most of the first lines, outside quotes.

    >>> find_delimiter('a;b\\n"x,y";2\\n'), find_delimiter("1,5\\t2\\n3\\t4,5,6")
    (';', '\\t')
    """
    lines = [line for line in _QUOTED.sub("", text[:FIRST]).split("\n")[:100] if line.strip()]
    if len(lines) > 1 and len(text) > FIRST:
        lines.pop()  # which may be cut off
    best, most = ",", 0.0
    for mark in DELIMITERS:
        usual = Counter(line.count(mark) for line in lines).most_common(1)
        if usual and usual[0][0] > 0 and usual[0][1] / len(lines) > most:
            best, most = mark, usual[0][1] / len(lines)
    return best


def _are_numbers(numbers: int, others: int) -> bool:
    """Whether a column holds numbers: if one field in ten at most is something else, those are mistakes to report."""
    return 10 * others <= numbers + others


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _first_record(text: bytes, delimiter: str, size: int = FIRST) -> tuple[list[str], int, int]:
    """The fields of the first record that is not blank, and the bytes before it and to its end.

    It is looked for in the first lines, of a size, and where these are not enough, in all of them.
    """
    lines = io.BytesIO(text).readlines(size)
    at = before = 0
    for count, fields in records(lines, delimiter):
        if fields is None and size < len(text):
            break
        if fields is None:  # not a header, then, but a row that will be rejected
            fields, count = [field.strip() for field in lines[at].decode("utf-8", "replace").split(delimiter)], 1
        raw = b"".join(lines[at : at + count])
        if not is_blank(raw, delimiter):
            return [field.strip(" ") for field in fields] if delimiter != " " else fields, before, before + len(raw)
        at += count
        before += len(raw)
    return _first_record(text, delimiter, len(text)) if size < len(text) else ([], before, before)


def _numbers(rows: Rows, missing: tuple[str, ...]) -> tuple[list[Any], Counts]:
    """The columns as numbers, and how many of their fields are numbers or neither that nor missing."""
    import pyarrow.compute as pc

    columns, counts = [], []
    for at, texts in rows.columns.items():
        numbers, rows.columns[at] = as_numbers(texts, missing)
        finite = pc.sum(pc.is_finite(numbers), min_count=0).as_py()
        columns.append(numbers)
        counts.append((finite, len(numbers) - numbers.null_count - finite))
    return columns, counts


def _count(field: str, missing: tuple[str, ...]) -> tuple[int, int]:
    """1 and 0 for a number, 0 and 1 for what is neither that nor missing."""
    text = field.strip(" \t")
    number = _is_number(text)
    return int(number), int(not number and text not in ("", *missing))


def _is_header(first: Sequence[str], rest: Counts, columns: Columns, schema: Schema | None) -> bool:
    if schema is not None:
        named = not all(name.isdecimal() for name in schema.names)
        known = [name in schema.names for name in first if name]
        return named and (all(known) or (any(known) and not any(map(_is_number, first))))
    references = (columns.label, columns.weight, *columns.ignore, *columns.categorical, *columns.date, *columns.text)
    said = {reference for reference in references if isinstance(reference, str) and not _is_number(reference)}
    if any(field.lower() in LABELS or field in said for field in first):
        return True
    if any(moment(field) is not None for field in first):
        return False
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


def _names_by_count(count: int, schema: Schema, source: str) -> tuple[str, ...]:
    features = tuple(n for n, kind in zip(schema.names, schema.kinds, strict=True) if kind != Kind.LABEL)
    if count == len(schema.names):
        return schema.names
    if count == len(features):
        return features
    rule = f"has {count} columns and no header, where {len(schema.names)} are known"
    raise BadSource(source, rule, "give it the same columns, or a header")
