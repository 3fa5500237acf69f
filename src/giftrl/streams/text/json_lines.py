"""JSON lines: one object a line, ``{"label": 1, "features": {"age": 33, "city": "Rome"}}`` or without "features".

A compiled loop (:mod:`giftrl.streams.text.json_scan`) reads plain lines: those without a mistake, of the layout that
the first line has, without a backslash in a text and not nested too deep. It reads 201 MB/s, where ``pyarrow.json``
reads 59 MB/s and ``orjson`` with a walk over each object 33 MB/s; logs are JSON, so that this is worth it. All other
lines are read by ``orjson`` and :func:`giftrl.streams.names.walk.walk`, which give the same rows, with one difference:
of a key that an object has twice the loop sums the values, and ``orjson`` keeps the last.
"""

import contextlib
import json
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import LABELS, Columns, Kind, Schema
from giftrl.streams.names.features import Dictionary, Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.labelled import FEATURES, TAG, WEIGHT, Labelled, labelled
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.walk import BadValue
from giftrl.streams.sources.lines import BOM, as_block, count_lines
from giftrl.streams.text.json_scan import DEEPEST, FLOATS, LONGEST, Entries, Plan, scan_json
from giftrl.streams.text.rows import RowsFound, as_batch
from giftrl.streams.text.scan import NEWLINE
from giftrl.streams.text.words import words

__all__ = ["JsonLines"]

#: How many lines of a block are searched for the key of the label.
LOOK = 100


class Left(NamedTuple):
    """A line that orjson read."""

    line: int
    begin: int
    row: Labelled


class JsonLines:
    """Reads blocks of JSON lines.

    The object under "features" holds the features; without one, all keys but those of label and weight do. A number is
    the feature of its key, true and false are 1 and 0, text is the feature ``key=text`` with value 1; null, empty text
    and 0 add nothing. Keys of objects inside others are joined: ``{"user": {"age": 3}}`` is ``user^age``. A list of
    texts is several categories; in a list of numbers, item i is ``key^i``. Beside "features" there may be the label,
    "weight" and "tag".

    Args:
        features: what turns names into coordinates.
        columns: the keys of label and weight (at the top), what to ignore, and which numbers are categories. A key of
            the label that is not given is searched for in the first 100 lines of a block.
        schema: the keys of the label and of categories, where an earlier reader found them.
        interactions: the pairs of groups to multiply; a group is a key at the top of the features.
        compiled: False to run the loops as plain Python.

    >>> from giftrl.streams.names.features import Dictionary
    >>> features = Dictionary()
    >>> text = b'{"label": 1, "age": 33, "tags": ["a", "b"]}\\n{"label": -1, "age": [}\\n'
    >>> batch = JsonLines(features).parse(text, "a.json", Position())
    >>> [features.name(slot) for slot in batch.indices], batch.data.tolist(), batch.labels.tolist()
    (['age', 'tags=a', 'tags=b'], [33.0, 1.0, 1.0], [1.0])
    >>> print(batch.rejected[0])
    a.json:2:23: unreadable JSON (unexpected character, expected a JSON value), expected one object a line
    """

    def __init__(
        self,
        features: Features,
        columns: Columns | None = None,
        schema: Schema | None = None,
        interactions: Interactions | None = None,
        *,
        compiled: bool = True,
    ) -> None:
        self.features = features
        self.columns = columns or Columns()
        self.interactions = interactions
        self.compiled = compiled
        kinds = dict(zip(schema.names, schema.kinds, strict=True)) if schema is not None else {}
        known = [name for name, kind in kinds.items() if kind == Kind.LABEL]
        said = self.columns.label
        self.label: str | None = str(said) if said is not None else known[0] if known else None
        self._weight = None if self.columns.weight is None else str(self.columns.weight)
        self._ignored = {str(name) for name in self.columns.ignore}
        self._ignored |= {name for name, kind in kinds.items() if kind == Kind.IGNORED}
        self._categorical = {str(name) for name in self.columns.categorical}
        self._categorical |= {name for name, kind in kinds.items() if kind in (Kind.CATEGORY, Kind.CATEGORIES)}
        self._groups = Dictionary(compiled=compiled)
        self._group_codes = np.zeros(1, np.uint8)
        self._entries = _make_entries(0, 0, 0)

    @property
    def schema(self) -> Schema | None:
        """What was found out and must be the same for all sources: the key of the label."""
        if self.label is None:
            return None
        names = [self.label, *sorted(self._ignored), *sorted(self._categorical)]
        kinds = [Kind.LABEL, *[Kind.IGNORED] * len(self._ignored), *[Kind.CATEGORY] * len(self._categorical)]
        return Schema(tuple(names), tuple(kinds))

    def parse(self, data: Any, source: str, start: Position) -> Batch:
        """The rows of a block of whole lines.

        Args:
            data: the bytes; the last line may lack its newline.
            source: the name of the source, for messages.
            start: the position of the first byte.
        """
        block = as_block(data)
        found, others, after = self._scan(block, start.line, self._plan(block))
        left, rejected = self._read_others(block, others, source, start)
        extra = [each for line in left for each in line.row.features]
        raw = [each.name.encode() for each in extra]
        stops = len(found.text) + np.cumsum([0, *map(len, raw)], dtype=np.int64)
        lines = np.append(found.lines, np.array([each.line for each in left], np.int64))
        sizes = np.append(
            np.diff(found.row_ends, prepend=0), np.array([len(each.row.features) for each in left], np.int64)
        )
        order = np.argsort(lines)
        ends = np.cumsum(sizes[order])
        # From an entry, by lines, to its place among those of the loop and then those of the other lines.
        places: Any = slice(None)
        if left:
            firsts = (np.cumsum(sizes) - sizes)[order] - (ends - sizes[order])
            places = np.repeat(firsts, sizes[order]) + np.arange(sizes.sum())
        values = np.append(found.values, [each.value for each in extra])[places]
        slots = self.features.name_slots(
            np.append(found.text, np.frombuffer(b"".join(raw), np.uint8)),
            np.append(found.starts, stops[:-1])[places],
            np.append(found.ends, stops[1:])[places],
            Sections.none(),
            values,
        )
        codes = np.empty(0, np.uint8)
        if self.interactions is not None:
            codes = self._codes(block, found, [each.group for each in extra])[places]
        rows = RowsFound(
            labels=np.append(found.labels, [each.row.label for each in left])[order],
            lines=lines[order],
            begins=np.append(found.begins, np.array([each.begin for each in left], np.int64))[order],
            ends=ends,
            bad=np.empty(0, np.int64),
        )
        batch = as_batch(
            block, source, Position(start.source, start.offset + len(data), after), rows,
            np.append(found.weights, [each.row.weight for each in left])[order], _tags(block, found, left, order),
            values, slots, codes, compiled=self.compiled,
        )  # fmt: skip
        rejected = sorted([*rejected, *batch.rejected], key=lambda each: each.line)
        return replace(batch, rejected=tuple(rejected))

    def _plan(self, block: NDArray[np.uint8]) -> Plan:
        """What keys mean: by the layout of the first object, and the key of the label in the first lines."""
        at, inside = 0, None
        for _ in range(LOOK):
            stop = at + int(np.argmax(block[at:] == NEWLINE)) if at < len(block) else at
            if at == stop == len(block) or (inside is not None and self.label is not None):
                break
            with contextlib.suppress(orjson.JSONDecodeError):
                top = orjson.loads(block[at:stop].tobytes().removeprefix(BOM))
                if type(top) is dict:
                    inside = type(top.get(FEATURES)) is dict if inside is None else inside
                    if self.label is None:
                        self.label = next((name for name in LABELS if name in top), None)
            at = stop + 1
        reserved = [self.label, self._weight or (WEIGHT if inside else None), TAG if inside else None, FEATURES]
        return Plan(bool(inside), words(reserved), words(self._ignored), words(self._categorical))

    def _scan(self, block: NDArray[np.uint8], line: int, plan: Plan) -> tuple[Entries, NDArray[np.int64], int]:
        """What plain lines mean; the number and the place of each other line; and the line that follows.

        The next call overwrites the arrays.
        """
        lines = count_lines(block)
        if len(self._entries.values) <= len(block) // 2 or len(self._entries.labels) < lines:
            self._entries = _make_entries(len(block) // 2 + 1, lines, max(len(self._entries.text), 2 * len(block)))
        others = np.empty(2 * lines, np.int64)
        scratch = np.empty(LONGEST, np.uint8), np.empty(DEEPEST + 1, np.int64)
        ascii_ = len(block) == 0 or int(block.max()) < 0x80
        loop = ready(scan_json, self.compiled, counted=False)
        while True:
            rows, size, written, left, after = loop(block, line, plan, self._entries, others, ascii_, *scratch)
            if rows >= 0:
                break
            self._entries = self._entries._replace(text=np.empty(2 * len(self._entries.text), np.uint8))
        sizes = [size] * 5 + [rows] * 7 + [written]
        arrays: list[Any] = list(self._entries)
        found = Entries._make([array[:size] for array, size in zip(arrays, sizes, strict=True)])
        return found, others[: 2 * left].reshape(-1, 2), after

    def _read_others(
        self, block: NDArray[np.uint8], others: NDArray[np.int64], source: str, start: Position
    ) -> tuple[list[Left], list[Rejected]]:
        """The rows of lines that are not plain, and those of them that break a rule."""
        left, rejected = [], []
        whole = block.tobytes() if len(others) else b""
        for line, begin in others.tolist():
            raw = whole[begin : whole.find(b"\n", begin)]
            text = raw.removeprefix(BOM) if begin == start.offset == 0 else raw
            if text.isspace():
                continue
            try:
                left.append(Left(line, begin, self._row(text)))
            except BadValue as problem:
                rejected.append(_rejected(source, line, raw, problem))
        return left, rejected

    def _row(self, raw: bytes) -> Labelled:
        """What orjson makes of a line."""
        try:
            top = orjson.loads(raw)
        except orjson.JSONDecodeError as problem:
            try:
                at = len(raw.decode()[: problem.pos].encode())
            except UnicodeDecodeError as broken:
                raise BadValue("bytes that are not UTF-8", "JSON in UTF-8", broken.start) from None
            raise BadValue(f"unreadable JSON ({problem.msg})", "one object a line", at) from None
        return labelled(top, self.label, self._weight, ignored=self._ignored, categorical=self._categorical)

    def _codes(self, block: NDArray[np.uint8], found: Entries, others: list[str]) -> NDArray[np.uint8]:
        """The group of each entry: first those that the loops found, then others."""
        assert self.interactions is not None
        ones = np.ones(len(found.values))
        places = self._groups.name_slots(block, found.group_starts, found.group_ends, Sections.none(), ones)
        more, _ = self._groups.slots(others)
        names = [str(self._groups.name(k)) for k in range(len(self._group_codes), self._groups.dimension)]
        codes = np.array([self.interactions.code(name) for name in names], np.uint8)
        self._group_codes = np.concatenate([self._group_codes, codes])
        return np.asarray(self._group_codes[np.concatenate([places, more])])


def _make_entries(size: int, lines: int, names: int) -> Entries:
    """Buffers for so many entries, lines, and bytes of names; pages that are not written to take no memory."""
    sizes = [size] * 5 + [lines] * 7
    arrays: list[Any] = [
        np.empty(size, np.float64 if name in FLOATS else np.int64)
        for name, size in zip(Entries._fields, sizes, strict=False)
    ]
    return Entries._make([*arrays, np.empty(names + LONGEST, np.uint8)])


def _tags(block: NDArray[np.uint8], found: Entries, left: list[Left], order: NDArray[np.int64]) -> tuple[str, ...]:
    """The tags of all rows, if there is one."""
    if not (found.tag_ends > found.tag_starts).any() and not any(each.row.tag for each in left):
        return ()
    pairs = zip(found.tag_starts.tolist(), found.tag_ends.tolist(), strict=True)
    tags = [block[start:end].tobytes().decode() for start, end in pairs] + [each.row.tag for each in left]
    return tuple(tags[k] for k in order.tolist())


def _rejected(source: str, line: int, raw: bytes, bad: BadValue) -> Rejected:
    """The record of a bad line; a problem of a feature is where the last key of its name is first written."""
    at = bad.name
    if isinstance(at, str):
        key = at.rpartition("^")[2]
        at = max(0, raw.find(json.dumps(key, ensure_ascii=False).encode("utf-8", "replace")))
    return Rejected(source, line, at + 1, bad.problem, bad.expected, raw.removesuffix(b"\r"))
