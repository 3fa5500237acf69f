"""JSON lines: one object a line, ``{"label": 1, "features": {"age": 33, "city": "Rome"}}`` or without "features".

A compiled loop (:mod:`giftrl.streams.text.json_scan`) reads plain lines: those without a mistake, of the layout that
the first line has, without a backslash in a text and not nested too deep. It reads 201 MB/s, where ``pyarrow.json``
reads 59 MB/s and ``orjson`` with a walk over each object 33 MB/s; logs are JSON, so that this is worth it. Dates, and
texts of many words, are left to :mod:`giftrl.streams.text.json_values`. All other lines are read by ``orjson`` and
:func:`giftrl.streams.names.walk.walk`, which give the same rows, with one difference: of a key that an object has twice
the loop sums the values, and ``orjson`` keeps the last.
"""

import contextlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.streams.batch import Position, Rejected
from giftrl.streams.columns import LABELS, Columns, Kind, Schema
from giftrl.streams.label_names import LabelNames
from giftrl.streams.look import look_at_values, remarks
from giftrl.streams.names.features import Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.walk import FEATURES, TAG, WEIGHT, BadValue, Keys, Labelled, as_label, label_text, labelled
from giftrl.streams.sources.lines import BOM, count_lines
from giftrl.streams.text.json_scan import Plan, make_buffers, scan_json
from giftrl.streams.text.json_values import expand
from giftrl.streams.text.rows import A, Content, Names, Rows, TextParser, scan
from giftrl.streams.text.scan import mark_broken
from giftrl.streams.text.words import words

LOOK = 100  # how many lines of a block are searched for the key of the label

Other = tuple[int, int, Labelled]  # a line that orjson read: its number, where it begins, and what it says


class JsonLines(TextParser):
    """Reads blocks of JSON lines.

    :func:`giftrl.streams.names.walk.labelled` says which keys of an object are features, and
    :func:`giftrl.streams.names.walk.walk` what they are called. A feature of value 0 is left out.

    Args:
        columns: the keys of label and weight (at the top), what to ignore, and which numbers are categories. A key of
            the label that is not given is searched for in the first 100 lines of a block. Keys whose texts are ISO
            dates in the first 100 lines of all are dates.
        schema: the keys of the label and of categories, from an earlier reader.
        interactions: the groups to multiply; a group is a key at the top of the features.
        labels: the names of labels; None where labels are numbers.

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
        self, features: Features, columns: Columns | None = None, schema: Schema | None = None,
        interactions: Interactions | None = None, *, labels: LabelNames | None = None, compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(features, interactions, labels=labels, compiled=compiled)
        columns = columns or Columns()
        kinds = dict(zip(schema.names, schema.kinds, strict=True)) if schema is not None else {}

        def named(given: Iterable[str | int], *of_kind: str) -> list[str]:
            return [*map(str, given), *(name for name, kind in kinds.items() if kind in of_kind)]

        self.label = next(iter(named([] if columns.label is None else [columns.label], Kind.LABEL)), None)
        self._weight = None if columns.weight is None else str(columns.weight)
        self._keys = Keys(
            set(named(columns.ignore, Kind.IGNORED)),
            set(named(columns.categorical, Kind.CATEGORY, Kind.CATEGORIES)),
            set(named(columns.date, Kind.DATE)),
            set(named(columns.text, Kind.TEXT)),
        )
        asked = (*columns.ignore, *columns.categorical, *columns.date, *columns.text)
        self._asked = [str(each) for each in (columns.label, columns.weight, *asked) if each is not None]
        self._looked = schema is not None
        self.remarks: tuple[str, ...] = ()  # about the keys of the first lines

    @property
    def schema(self) -> Schema | None:
        """What must be the same for all sources: the keys of the label, and those with a meaning of their own."""
        if self.label is None:
            return None
        of_kind = zip((Kind.IGNORED, Kind.CATEGORY, Kind.DATE, Kind.TEXT), self._keys, strict=True)
        pairs = [(self.label, Kind.LABEL), *((name, kind) for kind, names in of_kind for name in sorted(names))]
        return Schema(*zip(*pairs, strict=True))

    @property
    def special(self) -> frozenset[str]:
        """The keys with a meaning of their own, but for that of the label."""
        weight = [] if self._weight is None else [self._weight]
        return frozenset({FEATURES, *weight}.union(*self._keys))

    def label_of(self, value: Any) -> float:
        """The label that a value under the key of the label is; NaN where it is none, else a :class:`BadValue`."""
        return as_label(value, str(self.label), self.labels)

    def _read(self, block: NDArray[np.uint8], source: str, start: Position) -> Content:
        plan = self._plan(block, source)
        line, rows, names, text, records = self._scan(block, start, plan)
        rows, names, text, bad = expand(rows, names, text, self._keys)
        tags = rows.tags(block)
        others, rejected = self._others(block, sorted([*records, *bad]), source)
        if others:
            rows, tags, names, text = _join(rows, tags, names, text, others)
        values = names.values.copy()
        slots = self.features.name_slots(text, names.starts, names.ends, Sections.none(), values)
        groups = np.empty(0, np.uint8)
        if self._codes is not None:
            groups = self._codes.of(text, names.starts, names.starts + names.group_sizes)
        return Content(line, rows, tags, values, slots, groups, rejected=tuple(rejected))

    def _scan(
        self, block: NDArray[np.uint8], start: Position, plan: Plan
    ) -> tuple[int, Rows, Names, NDArray[np.uint8], list[Any]]:
        """The line after the block; plain rows, their entries and names, which the next call overwrites; others."""
        buffers = self._large_enough(make_buffers, len(block), count_lines(block))
        loop = ready(scan_json, self.compiled, counted=False)
        (line, count, entries, written), records = scan(loop, mark_broken(block, 0), start, buffers._replace(plan=plan))
        names = Names._make(array[:entries] for array in buffers.names)
        return line, buffers.rows.first(count), names, buffers.text[:written], records

    def _plan(self, block: NDArray[np.uint8], source: str) -> Plan:
        """What keys mean: by the layout of the first object, and by the keys of label and dates in the first lines."""
        inside = None
        tops = []
        for line in block.tobytes().removeprefix(BOM).split(b"\n", LOOK)[:LOOK]:
            with contextlib.suppress(orjson.JSONDecodeError):
                top = orjson.loads(line)
                if type(top) is dict:
                    tops.append(top)
                    inside = type(top.get(FEATURES)) is dict if inside is None else inside
                    if self.label is None:
                        self.label = next((name for name in LABELS if name in top), None)
            if inside is not None and self.label is not None and self._looked:
                break
        if not self._looked and tops:
            rows = [top[FEATURES] if type(top.get(FEATURES)) is dict else top for top in tops]
            self._look(rows, {key for top in tops for key in top}, source)
        reserved = [self.label, self._weight or (WEIGHT if inside else None), TAG if inside else None, FEATURES]
        special = words([*self._keys.dates, *self._keys.texts])
        ignored, categorical = words(self._keys.ignored), words(self._keys.categorical)
        return Plan(bool(inside), words(reserved), ignored, categorical, special, self._label_words)

    def _look(self, rows: list[dict[str, Any]], tops: set[str], source: str) -> None:
        """Find out which keys hold dates, once; ``tops`` are the keys at the top."""
        self._looked = True
        known = {self.label, self._weight}.union(*self._keys)
        seen = {name: look_at_values(name, values) for name, values in _by_name(rows).items() if name not in known}
        for name, look in seen.items():
            if look.kind == Kind.DATE:
                self._keys = self._keys._replace(dates=self._keys.dates | {name})
            if look.kind == Kind.IGNORED:
                self._keys = self._keys._replace(ignored=self._keys.ignored | {name})
        keys = {*_by_name(rows), *tops}
        absent = [f"no key is called {name} in the first lines of {source}" for name in self._asked if name not in keys]
        self.remarks = (*remarks(seen, source), *absent)

    def _others(self, block: NDArray[np.uint8], records: list[Any], source: str) -> tuple[list[Other], list[Rejected]]:
        """The rows of lines that are not plain, and those of them that break a rule."""
        others, rejected = [], []
        whole = block.tobytes() if records else b""
        for line, begin in ((int(line), int(begin)) for line, begin, _, _ in records):
            raw = whole[begin : whole.find(b"\n", begin)]
            try:
                if not raw.isspace():
                    others.append((line, begin, self.row(raw)))
            except BadValue as problem:
                rejected.append(_rejected(source, line, raw, problem))
        return others, rejected

    def row(self, raw: bytes) -> Labelled:
        """What one line says, read by ``orjson``; a :class:`BadValue` where it breaks a rule."""
        try:
            top = orjson.loads(raw)
        except orjson.JSONDecodeError as problem:
            try:
                at = len(raw.decode()[: problem.pos].encode())
            except UnicodeDecodeError as broken:
                raise BadValue("bytes that are not UTF-8", "JSON in UTF-8", broken.start) from None
            raise BadValue(f"unreadable JSON ({problem.msg})", "one object a line", at) from None
        return labelled(top, self.label, self._weight, self._keys, self.labels)

    def label_at(self, line: int, raw: bytes) -> tuple[str, int]:
        try:
            top = orjson.loads(raw)
            return label_text(top[self.label]), _place(raw, str(self.label)) + 1
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return "", 1


def _by_name(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values under each name that are neither lists nor null, those of nested objects included."""
    found: dict[str, list[Any]] = {}
    waiting = [(key, value) for row in reversed(rows) for key, value in row.items()]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend((f"{name}^{key}", inner) for key, inner in value.items())
        elif value is not None and not isinstance(value, list):
            found.setdefault(name, []).append(value)
    return found


def _join(
    rows: Rows, tags: tuple[str, ...], names: Names, text: NDArray[np.uint8], others: list[Other]
) -> tuple[Rows, tuple[str, ...], Names, NDArray[np.uint8]]:
    """The rows of the loop and of other lines, in the order of lines; their tags, entries and the text of names."""
    features = [each for _, _, row in others for each in row.features]
    raw = [each.name.encode() for each in features]
    stops = len(text) + np.cumsum([0, *map(len, raw)])
    entries = [each.value for each in features], stops[:-1], stops[1:], [len(each.group.encode()) for each in features]
    heads = zip(*((row.label, row.weight, 0, 0, line, begin, 0) for line, begin, row in others), strict=True)
    sizes = np.append(np.diff(rows.ends, prepend=0), [len(row.features) for _, _, row in others])
    names, rows = _appended(names, entries), _appended(rows, heads)
    order, by_line = np.argsort(rows.lines), np.argsort(np.repeat(rows.lines, sizes), kind="stable")
    all_tags = [*(tags or [""] * (len(order) - len(others))), *(row.tag for _, _, row in others)]
    return (
        Rows._make(array[order] for array in rows)._replace(ends=np.cumsum(sizes[order])),
        tuple(all_tags[k] for k in order.tolist()) if any(all_tags) else (),
        Names._make(array[by_line] for array in names),
        np.append(text, np.frombuffer(b"".join(raw), np.uint8)),
    )


def _appended(arrays: A, more: Iterable[Any]) -> A:
    return type(arrays)(*(np.append(old, np.array(new, old.dtype)) for old, new in zip(arrays, more, strict=True)))


def _rejected(source: str, line: int, raw: bytes, bad: BadValue) -> Rejected:
    """The record of a bad line; a problem of a feature is where the last key of its name is first written."""
    at = bad.name
    if isinstance(at, str):
        at = _place(raw, at.rpartition("^")[2])
    return Rejected(source, line, at + 1, bad.problem, bad.expected, raw.removesuffix(b"\r"))


def _place(raw: bytes, key: str) -> int:
    """Where a key is first written in a line; 0 where it is not."""
    return max(0, raw.find(json.dumps(key, ensure_ascii=False).encode("utf-8", "replace")))
