"""JSON lines: one object a line, ``{"label": 1, "features": {"age": 33, "city": "Rome"}}`` or without "features"."""

import contextlib
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import LABELS, Columns, Kind, Schema
from giftrl.streams.names.features import Dictionary, Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.merge import keep_rows, merge, overflowed
from giftrl.streams.text.json_entries import Entries, Plan
from giftrl.streams.text.json_scan import JsonScanner
from giftrl.streams.text.json_slow import FEATURES, FINITE, WEIGHT, BadLine, SlowReader, decode
from giftrl.streams.text.json_slow import rejected as reject
from giftrl.streams.text.rows import BOM, as_block
from giftrl.streams.text.scan import NEWLINE

__all__ = ["JsonLines"]

#: How many lines of a block are looked at for the key of the label.
LOOK = 100


class _Rows(NamedTuple):
    """What both readers found, all rows of the one before those of the other, and rows in the order of lines."""

    values: NDArray[np.float64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    order: NDArray[np.int64]  # of the rows
    indptr: NDArray[np.int64]  # these, and those below, by lines
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    lines: NDArray[np.int64]


def _in_order(found: Entries, slow: SlowReader) -> tuple[_Rows, NDArray[np.int64]]:
    """The rows of both readers, and the order of the entries."""
    sizes = np.array([len(name.encode()) for name in slow.names], np.int64)
    ends = len(found.text) + np.cumsum(sizes)
    counts = np.concatenate([np.diff(found.row_ends, prepend=0), np.diff(slow.ends)]).astype(np.int64)
    lines = np.concatenate([found.lines, np.array([row[0] for row in slow.rows], np.int64)])
    order = np.argsort(lines)
    firsts = (np.cumsum(counts) - counts)[order]
    indptr = np.concatenate([[0], np.cumsum(counts[order])]).astype(np.int64)
    rows = _Rows(
        values=np.concatenate([found.values, np.array(slow.values, np.float64)]),
        starts=np.concatenate([found.starts, ends - sizes]),
        ends=np.concatenate([found.ends, ends]),
        order=order,
        indptr=indptr,
        labels=np.concatenate([found.labels, np.array([row[1] for row in slow.rows], np.float64)])[order],
        weights=np.concatenate([found.weights, np.array([row[2] for row in slow.rows], np.float64)])[order],
        lines=lines[order],
    )
    return rows, np.repeat(firsts - indptr[:-1], counts[order]) + np.arange(indptr[-1])


def _tags(block: NDArray[np.uint8], found: Entries, slow: SlowReader, order: NDArray[np.int64]) -> tuple[str, ...]:
    """The tags of all rows, if there is one."""
    tagged = found.tag_ends > found.tag_starts
    if not tagged.any() and not any(tag for _, _, _, tag in slow.rows):
        return ()
    whole = block.tobytes()
    tags = [whole[a:b].decode() for a, b in zip(found.tag_starts.tolist(), found.tag_ends.tolist(), strict=True)]
    tags += [tag for _, _, _, tag in slow.rows]
    return tuple(tags[k] for k in order.tolist())


class JsonLines:
    """Reads blocks of JSON lines.

    The object under "features" holds the features; without one, all keys but those of label and weight do. A number is
    the feature of its key, true and false are 1 and 0, text is the feature ``key=text`` with value 1; null, empty text
    and 0 add nothing. Keys of objects inside others are joined: ``{"user": {"age": 3}}`` is ``user^age``. A list of
    texts is several categories; in a list of numbers, item i is ``key^i``. Beside "features" there may be the label,
    "weight" and "tag".

    Args:
        features: what turns names into coordinates.
        columns: the keys of label and weight (at the top), what to ignore, and which numbers are categories. Where the
            key of the label is not given, it is looked for in the first 100 lines of a block.
        schema: where the key of the label, and of categories, is known from before.
        interactions: whose groups to note for each entry; a group is a key at the top of the features.
        compiled: False to run the loops as plain Python.

    >>> from giftrl.streams.names.features import Dictionary
    >>> features = Dictionary()
    >>> text = b'{"label": 1, "age": 33, "tags": ["a", "b"]}\\n{"label": -1, "age": [}\\n'
    >>> batch = JsonLines(features).parse(text, "a.json", Position())
    >>> [features.name(slot) for slot in batch.indices], batch.data.tolist(), batch.labels.tolist()
    (['age', 'tags=a', 'tags=b'], [33.0, 1.0, 1.0], [1.0])
    >>> print(batch.rejected[0])
    a.json:2:23: not JSON (Expecting value), expected one object a line
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
        self._scanner = JsonScanner(compiled=compiled)
        self._groups = Dictionary(compiled=compiled)
        self._group_codes = np.zeros(1, np.uint8)
        self._weight = None if self.columns.weight is None else str(self.columns.weight)
        self._ignored = {str(name) for name in self.columns.ignore}
        self._ignored |= {name for name, kind in kinds.items() if kind == Kind.IGNORED}
        self._categorical = {str(name) for name in self.columns.categorical}
        self._categorical |= {name for name, kind in kinds.items() if kind in (Kind.CATEGORY, Kind.CATEGORIES)}

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
        plan = self._look(block)
        found, others, line = self._scanner.scan(block, start.line, plan)
        slow = SlowReader(self.label, self._weight, self._ignored, self._categorical)
        rejected = self._read_slowly(block, others, source, start, slow)
        rows, order = _in_order(found, slow)
        text = np.concatenate([found.text, np.frombuffer("".join(slow.names).encode(), np.uint8)])
        values = rows.values[order]
        none = np.zeros(1, np.int64)
        slots = self.features.name_slots(text, rows.starts[order], rows.ends[order], Sections(none, none, none), values)
        codes = np.empty(0, np.uint8)
        if self.interactions is not None:
            codes = np.concatenate([self._codes(block, found), self._codes_by_name(slow.groups)])[order]
        merged = merge(values, slots, codes, rows.indptr, compiled=self.compiled)
        batch = Batch(
            source=source,
            data=merged[0],
            indices=merged[1],
            indptr=merged[3],
            labels=rows.labels,
            weights=rows.weights,
            lines=rows.lines,
            groups=merged[2],
            end=Position(start.source, start.offset + len(data), line),
            tags=_tags(block, found, slow, rows.order),
        )
        lost = overflowed(batch.data, batch.indptr)
        if len(lost):
            bad = BadLine("values of one feature whose sum is too large for float64", FINITE)
            begins = np.concatenate([[0], np.flatnonzero(block == NEWLINE) + 1])
            for at in rows.lines[lost].tolist():
                raw = block[begins[at - start.line] : begins[at - start.line + 1] - 1].tobytes()
                rejected.append(reject(source, at, raw, bad))
            rejected.sort(key=lambda each: each.line)
            batch = keep_rows(batch, ~np.isin(np.arange(len(batch)), lost))
        return replace(batch, rejected=tuple(rejected))

    def _look(self, block: NDArray[np.uint8]) -> Plan:
        """Look at the first object for its layout, and at the first lines for the key of the label."""
        at, inside = 0, None
        for _ in range(LOOK):
            stop = at + int(np.argmax(block[at:] == NEWLINE)) if at < len(block) else at
            if at == stop == len(block) or (inside is not None and self.label is not None):
                break
            with contextlib.suppress(BadLine, ValueError, RecursionError):
                found = decode(block[at:stop].tobytes().removeprefix(BOM).decode())
                if type(found) is tuple:
                    top = dict(found)
                    inside = type(top.get(FEATURES)) is tuple if inside is None else inside
                    if self.label is None:
                        self.label = next((name for name in LABELS if name in top), None)
            at = stop + 1
        weight = self._weight or (WEIGHT if inside else None)
        return self._scanner.plan(bool(inside), self.label, weight, self._ignored, self._categorical)

    def _read_slowly(
        self, block: NDArray[np.uint8], others: NDArray[np.int64], source: str, start: Position, slow: SlowReader
    ) -> list[Rejected]:
        """Read the lines that are not plain; those that break a rule."""
        rejected = []
        whole = block.tobytes() if len(others) else b""
        for line, begin in others.tolist():
            raw = whole[begin : whole.find(b"\n", begin)]
            text = raw.removeprefix(BOM) if begin == start.offset == 0 else raw
            if text.isspace():
                continue
            try:
                slow.read(line, text)
            except BadLine as problem:
                rejected.append(reject(source, line, raw, problem))
        return rejected

    def _codes(self, block: NDArray[np.uint8], found: Entries) -> NDArray[np.uint8]:
        """The groups of entries, by the places of their names."""
        none = np.zeros(1, np.int64)
        ones = np.ones(len(found.values))
        places = self._groups.name_slots(block, found.group_starts, found.group_ends, Sections(none, none, none), ones)
        return self._code_table()[places]

    def _codes_by_name(self, groups: list[str]) -> NDArray[np.uint8]:
        places, _ = self._groups.slots(groups)
        return self._code_table()[places]

    def _code_table(self) -> NDArray[np.uint8]:
        assert self.interactions is not None
        known = len(self._group_codes)
        more = [self.interactions.code(str(self._groups.name(k))) for k in range(known, self._groups.dimension)]
        self._group_codes = np.concatenate([self._group_codes, np.array(more, np.uint8)])
        return self._group_codes
