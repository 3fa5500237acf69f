"""JSON lines: one object a line, ``{"label": 1, "features": {"age": 33, "city": "Rome"}}`` or without "features".

Compiled loops (:mod:`giftrl.streams.text.json_tokens`, :mod:`giftrl.streams.text.json_entries`) read plain lines: those
without a mistake, of the layout that the first line has, without a backslash in a text and not nested too deep. They
read 201 MB/s, where ``pyarrow.json`` reads 59 MB/s and ``orjson`` with a walk over each object 33 MB/s; logs are JSON,
so that this is worth having. All other lines are read by ``orjson`` and :func:`giftrl.streams.names.walk.walk`, which
give the same rows, with one difference: of a key that an object has twice the loops sum the values, and ``orjson``
keeps the last.
"""

import contextlib
import json
import math
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
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.merge import keep_rows, merge, overflowed
from giftrl.streams.names.walk import FINITE, BadValue, Named, shown, walk
from giftrl.streams.sources.lines import BOM, as_block
from giftrl.streams.text.json_entries import LONGEST, Entries, Plan, find_entries, words
from giftrl.streams.text.json_tokens import DEEPEST, find_tokens, make_tokens
from giftrl.streams.text.scan import NEWLINE

__all__ = ["JsonLines"]

FEATURES, WEIGHT, TAG = "features", "weight", "tag"
#: How many lines of a block are searched for the key of the label.
LOOK = 100


class Row(NamedTuple):
    """A line that orjson read."""

    line: int
    label: float
    weight: float
    tag: str
    features: list[Named]


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
        self._tokens, self._text = make_tokens(0), np.empty(0, np.uint8)

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
        found, others, line = self._scan(block, start.line, self._plan(block))
        left, rejected = self._read_others(block, others, source, start)
        extra = [each for row in left for each in row.features]
        raw = [each.name.encode() for each in extra]
        ends = len(found.text) + np.cumsum([0, *map(len, raw)], dtype=np.int64)
        lines = np.concatenate([found.lines, np.array([row.line for row in left], np.int64)])
        order = np.argsort(lines)
        sizes = np.concatenate([np.diff(found.row_ends, prepend=0), [len(row.features) for row in left]])
        sizes = sizes.astype(np.int64)
        indptr = np.concatenate([[0], np.cumsum(sizes[order])]).astype(np.int64)
        # From an entry, by lines, to its place among those of the loops and then those of the other lines.
        places = np.repeat((np.cumsum(sizes) - sizes)[order] - indptr[:-1], sizes[order]) + np.arange(indptr[-1])
        text = np.concatenate([found.text, np.frombuffer(b"".join(raw), np.uint8)])
        starts = np.concatenate([found.starts, ends[:-1]])[places]
        stops = np.concatenate([found.ends, ends[1:]])[places]
        values = np.concatenate([found.values, [each.value for each in extra]])[places]
        slots = self.features.name_slots(text, starts, stops, Sections.none(), values)
        codes = np.empty(0, np.uint8)
        if self.interactions is not None:
            codes = self._codes(block, found, [each.group for each in extra])[places]
        data_, indices, groups, indptr = merge(values, slots, codes, indptr, compiled=self.compiled)
        batch = Batch(
            source=source,
            data=data_,
            indices=indices,
            indptr=indptr,
            labels=np.concatenate([found.labels, [row.label for row in left]])[order],
            weights=np.concatenate([found.weights, [row.weight for row in left]])[order],
            lines=lines[order],
            groups=groups,
            end=Position(start.source, start.offset + len(data), line),
            tags=_tags(block, found, left, order),
        )
        lost = overflowed(batch.data, batch.indptr)
        if len(lost):
            bad = BadValue("values of one feature whose sum is too large for float64", FINITE, "")
            begins = np.concatenate([[0], np.flatnonzero(block == NEWLINE) + 1])
            for at in batch.lines[lost].tolist():
                row = block[begins[at - start.line] : begins[at - start.line + 1] - 1].tobytes()
                rejected.append(_rejected(source, at, row, bad))
            rejected.sort(key=lambda each: each.line)
            batch = keep_rows(batch, ~np.isin(np.arange(len(batch)), lost))
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
        if len(self._tokens.kinds) <= len(block):
            self._tokens, self._text = make_tokens(len(block)), np.empty(2 * len(block) + LONGEST, np.uint8)
        tokens = self._tokens
        count, used, line = ready(find_tokens, self.compiled, counted=False)(block, line, tokens)
        ascii_ = len(block) == 0 or int(block.max()) < 0x80
        loop = ready(find_entries, self.compiled, counted=False)
        floats = ("values", "labels", "weights")
        sizes = [used] * 5 + [count] * 6
        arrays: list[Any] = [
            np.empty(size, np.float64 if name in floats else np.int64)
            for name, size in zip(Entries._fields, sizes, strict=False)
        ]
        scratch = np.empty(LONGEST, np.uint8), np.empty(DEEPEST + 2, np.int64)
        while True:
            entries = Entries._make([*arrays, self._text])
            rows, size, written = loop(block, tokens, count, used, plan, entries, ascii_, *scratch)
            if rows >= 0:
                break
            self._text = np.empty(2 * len(self._text), np.uint8)
        sizes = [size] * 5 + [rows] * 6 + [written]
        found = Entries._make([array[:size] for array, size in zip([*arrays, self._text], sizes, strict=True)])
        others = ~tokens.plain[:count]
        return found, np.stack([tokens.lines[:count][others], tokens.begins[:count][others]], axis=1), line

    def _read_others(
        self, block: NDArray[np.uint8], others: NDArray[np.int64], source: str, start: Position
    ) -> tuple[list[Row], list[Rejected]]:
        """The rows of lines that are not plain, and those of them that break a rule."""
        rows, rejected = [], []
        whole = block.tobytes() if len(others) else b""
        for line, begin in others.tolist():
            raw = whole[begin : whole.find(b"\n", begin)]
            text = raw.removeprefix(BOM) if begin == start.offset == 0 else raw
            if text.isspace():
                continue
            try:
                rows.append(self._row(line, text))
            except BadValue as problem:
                rejected.append(_rejected(source, line, raw, problem))
        return rows, rejected

    def _row(self, line: int, raw: bytes) -> Row:
        """What orjson makes of a line."""
        try:
            top = orjson.loads(raw)
        except orjson.JSONDecodeError as problem:
            try:
                at = len(raw.decode()[: problem.pos].encode())
            except UnicodeDecodeError as broken:
                raise BadValue("bytes that are not UTF-8", "JSON in UTF-8", broken.start) from None
            raise BadValue(f"unreadable JSON ({problem.msg})", "one object a line", at) from None
        if type(top) is not dict:
            raise BadValue("no object", "one object a line", 0)
        label, weight, tag = math.nan, 1.0, ""
        if top.get(self.label) is not None:
            label = _number(top[self.label], "label", self.label)
        top.pop(self.label, None)
        features = top.get(FEATURES)
        inside = type(features) is dict
        weight_key = self._weight or (WEIGHT if inside else None)
        if weight_key in top:
            weight = _number(top.pop(weight_key), "weight", weight_key)
            if weight < 0.0:
                raise BadValue("a weight below 0", "a finite number, 0 or more", str(weight_key))
        if inside:
            del top[FEATURES]
            tag = top.pop(TAG, "")
            beside = next((key for key in top if key not in self._ignored), None)
            if beside is not None:
                expected = f'features inside "{FEATURES}", or the key among those to ignore'
                raise BadValue(f"the key {beside!r} beside {FEATURES!r}", expected, beside)
            top = features
        named = [each for each in walk(top, ignored=self._ignored, categorical=self._categorical) if each.value]
        return Row(line, label, weight, tag if type(tag) is str else json.dumps(tag), named)

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


def _number(value: Any, what: str, key: str | None) -> float:
    if type(value) not in (int, float, bool):
        raise BadValue(f"a {what} that is not a number: {shown(value)}", FINITE, str(key))
    return float(value)


def _tags(block: NDArray[np.uint8], found: Entries, left: list[Row], order: NDArray[np.int64]) -> tuple[str, ...]:
    """The tags of all rows, if there is one."""
    if not (found.tag_ends > found.tag_starts).any() and not any(row.tag for row in left):
        return ()
    pairs = zip(found.tag_starts.tolist(), found.tag_ends.tolist(), strict=True)
    tags = [block[start:end].tobytes().decode() for start, end in pairs] + [row.tag for row in left]
    return tuple(tags[k] for k in order.tolist())


def _rejected(source: str, line: int, raw: bytes, bad: BadValue) -> Rejected:
    """The record of a bad line; a problem of a feature is where the last key of its name is first written."""
    at = bad.name
    if isinstance(at, str):
        key = at.rpartition("^")[2]
        at = max(0, raw.find(json.dumps(key, ensure_ascii=False).encode("utf-8", "replace")))
    return Rejected(source, line, at + 1, bad.problem, bad.expected, raw.removesuffix(b"\r"))
