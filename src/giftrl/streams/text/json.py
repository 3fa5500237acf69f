"""JSON lines: one object a line, ``{"label": 1, "features": {"age": 33, "city": "Rome"}}`` or without "features".

A compiled loop, :func:`scan_json`, reads plain lines: those without a mistake, with the layout of the first line,
without a backslash in a text and not nested too deep. It reads 201 MB/s, ``pyarrow.json`` 59 MB/s, and ``orjson`` with
a walk over each object 33 MB/s. :func:`expand` then reads dates and texts of many words. ``orjson`` and
:func:`giftrl.streams.names.objects.walk` read all other lines and give the same features.
"""

import contextlib
import functools
import json
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.errors import Message
from giftrl.streams.batch import LabelNames, Position, Rejected
from giftrl.streams.columns import LABEL_NAMES, Columns, Kind, Schema, infer_from_values, remarks
from giftrl.streams.line_blocks import BOM, count_lines
from giftrl.streams.names.dates import WEEKDAYS, moments_in
from giftrl.streams.names.features import Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.objects import (
    FEATURES_KEY,
    TAG_KEY,
    WEIGHT_KEY,
    BadValue,
    Keys,
    Labelled,
    as_label,
    label_text,
    labelled,
    load_object,
    words_of,
)
from giftrl.streams.names.tables import Sections
from giftrl.streams.text.numbers import byte, digit, number
from giftrl.streams.text.parser import A, Content, TextEntries, TextParser, TextRows, add_row, make_arrays, scan
from giftrl.streams.text.scan import (
    COLON,
    NEWLINE,
    NO_WORDS,
    RETURN,
    SPACE,
    TAB,
    WordTable,
    find_word,
    mark_broken,
    note,
    skip_line,
    word_table,
)

# The loop over JSON lines, which reads plain lines and records the others.

QUOTE, COMMA, MINUS, DOT, ZERO, EQUALS, BACKSLASH, CARET = 34, 44, 45, 46, 48, 61, 92, 94
BRACE, UNBRACE, BRACKET, UNBRACKET = 123, 125, 91, 93

#: How many objects may be nested in each other, and the most bytes of the keys that lead to a value.
MAX_OBJECT_DEPTH, MAX_KEY_BYTES = 32, 1 << 12


class Next(IntEnum):
    """The token expected next; FIRST_KEY, FIRST_ITEM and COMMA also allow the end of the object or list."""

    VALUE, FIRST_KEY, KEY, COLON, FIRST_ITEM, COMMA, NOTHING = range(7)


class Use(IntEnum):
    """The role of a value; the reserved keys of :class:`KeyTable` have this order."""

    FEATURE, LABEL, WEIGHT, TAG, FEATURES = range(5)


class KeyTable(NamedTuple):
    """:class:`Keys` as tables of words; see :func:`key_table`."""

    inside: bool  # the features are in an object of their own
    reserved: WordTable  # the keys of label, weight, tag and features
    ignored: WordTable
    categorical: WordTable
    special: WordTable  # keys of dates and texts of many words: their entries get the value NaN
    labels: WordTable = NO_WORDS  # the names of labels, if they have names
    literals: WordTable = word_table(["true", "false", "null"])


def key_table(keys: Keys, inside: bool, labels: WordTable) -> KeyTable:
    """The roles of keys, for the compiled loop."""
    beside = (WEIGHT_KEY, TAG_KEY) if inside else (None, None)
    reserved = word_table([keys.label, keys.weight or beside[0], beside[1], FEATURES_KEY])
    special = word_table([*keys.dates, *keys.texts])
    return KeyTable(inside, reserved, word_table(keys.ignored), word_table(keys.categorical), special, labels)


class JsonBuffers(NamedTuple):
    """Buffers of the loop: entries, rows, and the lines that are not plain."""

    names: TextEntries
    rows: TextRows
    bad: NDArray[np.int64]  # four numbers for each line that is not plain: the first two are its number and its place
    text: NDArray[np.uint8]
    path: NDArray[np.uint8]  # the keys that lead to a value
    levels: NDArray[np.int64]  # for each level of nesting, how many bytes of the path lead to it
    plan: KeyTable | None = None


def make_buffers(size: int, lines: int) -> JsonBuffers:
    """Buffers for a block of so many bytes and lines; a line with too long names for them is not plain."""
    return JsonBuffers(
        names=make_arrays(TextEntries, size // 2 + 1),
        rows=make_arrays(TextRows, lines),
        bad=np.empty(4 * lines, np.int64),
        text=np.empty(16 * size + MAX_KEY_BYTES, np.uint8),
        path=np.empty(MAX_KEY_BYTES, np.uint8),
        levels=np.empty(MAX_OBJECT_DEPTH + 1, np.int64),
    )


@formula
def copy(text: Any, start: Any, end: Any, to: Any, at: Any) -> Any:
    """Copy ``text[start:end]``; returns where the copy ends."""
    for k in range(start, end):
        to[np.uint64(at)] = text[np.uint64(k)]
        at += 1
    return at


@formula
def write_place(place: Any, to: Any, at: Any) -> Any:
    """Write a caret and a whole number; returns where it ends."""
    to[np.uint64(at)] = CARET
    size = 1
    while place >= 10**size:
        size += 1
    for k in range(size):
        to[np.uint64(at + size - k)] = ZERO + place % 10
        place = place // 10
    return at + size + 1


@formula
def read_literal(block: Any, at: Any, literals: Any) -> tuple[Any, Any, Any, Any]:
    """Read a number, true, false or null: the value, whether it is null, the place after it, and whether it is one.

    A number must be written as JSON has it: no leading zero, and a digit before and after the dot.
    """
    c = byte(block, at)
    if c == MINUS or digit(c):
        first = at + (1 if c == MINUS else 0)
        good = digit(byte(block, first)) and not (byte(block, first) == ZERO and digit(byte(block, first + 1)))
        value, after, wrong = number(block, at)
        while first < after and byte(block, first) != DOT:
            first += 1
        good &= wrong == 0 and (first == after or digit(byte(block, first + 1)))
        return value, False, after, good
    after = at
    while 97 <= byte(block, after) <= 122:
        after += 1
    word = find_word(block, at, after, literals)
    return 1.0 if word == 0 else 0.0, word == 2, after, word >= 0


@formula
def scan_json(block: Any, at: Any, line: Any, buffers: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Read the plain lines of a block, which ends with a newline, from a place and its line on.

    Returns the line after the last, and how many rows, entries, bytes of names and other lines there are.
    """
    names, rows, others, text, path, levels, plan = buffers
    inside, reserved, ignored, categorical, special, labels, literals = plan
    named = len(labels[1]) > 1
    row, out, written, left = 0, 0, 0, 0
    while at < len(block):
        begin, first_out, first_written = at, out, written
        label, weight, tag = np.nan, 1.0, (np.int64(0), np.int64(0))
        seen: Any = 0  # a bit for each use of a value
        use = np.int64(Use.FEATURE)
        depth, length, stem, muted = 0, 0, 0, 0  # bytes of the path to the object, and to the value in it
        hidden, category, marked, listed, plain = False, False, False, False, True
        group, place, listed_kind = 0, 0, 0
        following = Next.VALUE
        c = byte(block, at)
        while plain and c != NEWLINE:
            wanted = following == Next.VALUE or following == Next.FIRST_ITEM
            at += 1
            if c in (COLON, COMMA):
                plain = following == (Next.COLON if c == COLON else Next.COMMA)
                following = Next.VALUE if listed or c == COLON else Next.KEY
            elif c in (UNBRACE, UNBRACKET):
                # An object or a list ends behind a value, or right where it began.
                empty = following == (Next.FIRST_ITEM if listed else Next.FIRST_KEY)
                plain = depth > 0 and (empty or following == Next.COMMA) and listed == (c == UNBRACKET)
                if plain and not listed:
                    depth -= 1
                    length = levels[np.uint64(depth)]
                    muted = 0 if muted > depth else muted
                listed = False
                following = Next.COMMA if depth > 0 else Next.NOTHING
            elif c == BRACE:
                plain = (
                    wanted and not listed and depth < MAX_OBJECT_DEPTH and (use == Use.FEATURE or use == Use.FEATURES)
                )
                levels[np.uint64(depth)] = length
                depth += 1
                if depth > 1 and use == Use.FEATURE:
                    path[np.uint64(stem)] = CARET
                    length = stem + 1
                    muted = depth if hidden and muted == 0 else muted
                following = Next.FIRST_KEY
            elif c not in (SPACE, TAB, RETURN):
                start, end, is_text = at, at, c == QUOTE
                if is_text:
                    while byte(block, end) != QUOTE and byte(block, end) != BACKSLASH and byte(block, end) >= SPACE:
                        end += 1
                    plain = byte(block, end) == QUOTE
                    at = end + (1 if plain else 0)
                if is_text and (following == Next.KEY or following == Next.FIRST_KEY):
                    following = Next.COLON
                    use = np.int64(1 + find_word(block, start, end, reserved)) if depth == 1 else np.int64(Use.FEATURE)
                    if use == Use.FEATURE:
                        plain &= length + (end - start) + 1 < MAX_KEY_BYTES
                        if plain:
                            stem = copy(block, start, end, path, length)
                        if depth == (2 if inside else 1):
                            group = end - start
                        hidden = muted > 0 or find_word(path, 0, stem, ignored) >= 0
                        category = find_word(path, 0, stem, categorical) >= 0
                        marked = find_word(path, 0, stem, special) >= 0
                        # Beside an object of features, other keys are a mistake.
                        plain &= not inside or depth > 1 or hidden
                    else:
                        plain &= (seen >> use) & 1 == 0 and (inside or use != Use.FEATURES)
                        seen |= 1 << use
                else:
                    plain &= wanted and depth > 0 and use != Use.FEATURES
                    value, null = 0.0, c == BRACKET
                    following = Next.COMMA
                    if c == BRACKET:
                        plain &= not listed and use == Use.FEATURE
                        listed, place, listed_kind = True, -1, 0
                        following = Next.FIRST_ITEM
                    elif not is_text:
                        value, null, at, good = read_literal(block, at - 1, literals)
                        plain &= good
                    if null:
                        plain &= use != Use.WEIGHT and use != Use.TAG
                    elif use == Use.LABEL:
                        if named:
                            label = np.float64(find_word(block, start, end, labels) if is_text else -1)
                            plain &= bool(label >= 0.0)
                        else:
                            plain &= not is_text
                            label = value
                    elif use == Use.WEIGHT:
                        plain &= not is_text and value >= 0.0
                        weight = value
                    elif use == Use.TAG:
                        plain &= is_text
                        tag = (np.int64(start), np.int64(end))
                    else:
                        if listed:
                            plain &= listed_kind == 0 or (listed_kind == 1) == is_text
                            listed_kind = 1 if is_text else 2
                        plain &= is_text or not (category or marked)
                        plain &= not (listed and marked)
                        plain &= written + stem + (end - start) + 32 <= len(text)
                        if plain and not hidden and (value != 0.0 or (is_text and end > start)):
                            k = np.uint64(out)
                            names.values[k] = np.nan if marked else 1.0 if is_text else value
                            names.starts[k] = written
                            names.group_sizes[k] = group
                            written = copy(path, 0, stem, text, written)
                            if is_text:
                                text[np.uint64(written)] = EQUALS
                                written = copy(block, start, end, text, written + 1)
                            elif listed:
                                written = write_place(place, text, written)
                            names.ends[k] = written
                            out += 1
                    place += 1
            c = byte(block, at)
        after = skip_line(block, at)
        blank = plain and depth == 0 and following == Next.VALUE
        plain &= following == Next.NOTHING and not (inside and (seen >> Use.FEATURES) & 1 == 0)
        if plain:
            row = add_row(rows, row, label, weight, tag, line, begin, out)
        else:
            out, written = first_out, first_written
            if not blank:
                left = note(others, left, line, begin, begin, 0)
        at = after
        line += 1
    return line, row, out, written, left


# Dates and texts of many words: the loop marks these entries, and features take their place.

Text = NDArray[np.uint8]
Places = NDArray[np.int64]


class Expanded(NamedTuple):
    """Rows with features in the place of marked entries; their entries, the text of names, and bad rows."""

    rows: TextRows
    names: TextEntries
    text: Text
    bad: list[list[int]]  # rows with something else than a date, as the loop records lines that are not plain


class _Features(NamedTuple):
    """Features: the place of the entry that each comes from, its value, and its name, by number."""

    places: Places
    values: NDArray[np.float64]
    numbers: Places
    names: list[bytes]


def expand(rows: TextRows, names: TextEntries, text: Text, keys: Keys) -> Expanded:
    """Put features in the place of entries whose value is NaN, which are called ``key=value``."""
    marked = np.flatnonzero(np.isnan(names.values))
    if not len(marked):
        return Expanded(rows, names, text, [])
    found: list[_Features] = []
    wrong = []
    for key, places in _by_key(text, names.starts, marked, sorted((*keys.dates, *keys.texts), key=len, reverse=True)):
        starts, ends = names.starts[places] + len(key.encode()) + 1, names.ends[places]
        if key in keys.texts:
            found.append(_words(key, places, text, starts, ends))
            continue
        dates = moments_in(_texts(text, starts, ends))
        wrong.append(places[np.isnan(dates.years)])
        found.append(_parts(key, places, dates.years, [dates.weekday, dates.month - 1, dates.hour]))
    # Behind the entries of the loop come the new ones, and all of them in the order of what they come from.
    plain = np.flatnonzero(~np.isnan(names.values))
    spans, made = list[tuple[Places, Places]](), text
    for each in found:
        stops = len(made) + np.cumsum([0, *map(len, each.names)])
        spans.append((stops[each.numbers], stops[each.numbers + 1]))
        made = np.append(made, np.frombuffer(b"".join(each.names), np.uint8))
    places = np.concatenate([plain, *(each.places for each in found)])
    both = TextEntries(
        np.concatenate([names.values[plain], *(each.values for each in found)]),
        np.concatenate([names.starts[plain], *(start for start, _ in spans)]),
        np.concatenate([names.ends[plain], *(end for _, end in spans)]),
        names.group_sizes[places],
    )
    owners = np.repeat(np.arange(len(rows.ends)), np.diff(rows.ends, prepend=0))
    good = np.ones(len(rows.ends), np.bool_)
    good[owners[np.concatenate([marked[:0], *wrong])]] = False
    order = np.argsort(places, kind="stable")
    order = order[good[owners[places[order]]] & (both.values[order] != 0.0)]
    counts = np.bincount(owners[places[order]], minlength=len(good))
    return Expanded(
        TextRows._make(array[good] for array in rows._replace(ends=np.cumsum(counts))),
        TextEntries._make(array[order] for array in both),
        made,
        [[line, begin, 0, 0] for line, begin in zip(rows.lines[~good], rows.begins[~good], strict=True)],
    )


def _texts(text: Text, starts: Places, ends: Places) -> Any:
    """The pieces of a text, in its order, as an Arrow array."""
    import pyarrow as pa

    bounds = np.column_stack([starts, ends]).ravel()  # between two pieces there is one that is not wanted
    every = pa.Array.from_buffers(pa.large_string(), len(bounds) - 1, [None, *map(pa.py_buffer, (bounds, text))])
    even = np.arange(0, len(bounds), 2)
    return every.take(pa.Array.from_buffers(pa.int64(), len(even), [None, pa.py_buffer(even)]))


def _by_key(text: Text, starts: Places, marked: Places, keys: list[str]) -> Iterator[tuple[str, Places]]:
    """The marked entries of each key."""
    for key in keys:
        same = np.ones(len(marked), np.bool_)
        for at, letter in enumerate(f"{key}=".encode()):
            places = starts[marked] + at
            same &= text[np.minimum(places, len(text) - 1)] == letter
        yield key, marked[same]
        marked = marked[~same]


def _parts(key: str, places: Places, years: NDArray[np.float64], parts: list[Places]) -> _Features:
    """The features of dates: the years, and the weekday, month and hour where there are these."""
    names = [key, *(f"{key}^weekday={day}" for day in WEEKDAYS)]
    names += [*(f"{key}^month={month}" for month in range(1, 13)), *(f"{key}^hour={hour}" for hour in range(24))]
    numbers = np.stack([np.zeros(len(places), np.int64), parts[0] + 1, parts[1] + 8, parts[2] + 20], axis=1)
    values = np.ones(numbers.shape)
    values[:, 0] = years
    there = np.stack([np.ones(len(places), np.bool_), *(part >= 0 for part in parts)], axis=1)
    rows = np.broadcast_to(places[:, None], there.shape)
    return _Features(rows[there], values[there], numbers[there], [name.encode() for name in names])


def _words(key: str, places: Places, text: Text, starts: Places, ends: Places) -> _Features:
    """The features of texts: their words, each once."""
    raw = text.tobytes()
    known: dict[str, int] = {}
    owners, numbers = [], []
    for place, start, end in zip(places.tolist(), starts.tolist(), ends.tolist(), strict=True):
        for word in dict.fromkeys(words_of(raw[start:end].decode())):
            owners.append(place)
            numbers.append(known.setdefault(word, len(known)))
    named = [f"{key}={word}".encode() for word in known]
    return _Features(np.array(owners, np.int64), np.ones(len(owners)), np.array(numbers, np.int64), named)


LOOKAHEAD_LINES = 100  # how many lines of a block are searched for the key of the label

Other = tuple[int, int, Labelled]  # a line that orjson read: its number, where it begins, and what it says


class JsonLines(TextParser):
    """Reads blocks of JSON lines.

    :func:`giftrl.streams.names.objects.labelled` says which keys of an object are features, and
    :func:`giftrl.streams.names.objects.walk` what they are called. A feature of value 0 is left out.

    Args:
        columns: the keys of label and weight (at the top), what to ignore, and which numbers are categories. A key of
            the label that is not given is searched for in the first 100 lines of a block. Keys whose texts are ISO
            dates in the first 100 lines of all are dates.
        schema: the keys of the label and of categories, from an earlier reader.
        interactions: the groups to multiply; a group is a key at the top of the features.
        labels: the names of labels; None if labels are numbers.

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

        self._keys = Keys(
            set(named(columns.ignore, Kind.IGNORED)),
            set(named(columns.categorical, Kind.CATEGORY, Kind.CATEGORIES)),
            set(named(columns.date, Kind.DATE)),
            set(named(columns.text, Kind.TEXT)),
            label=next(iter(named([] if columns.label is None else [columns.label], Kind.LABEL)), None),
            weight=None if columns.weight is None else str(columns.weight),
        )
        asked = (*columns.ignore, *columns.categorical, *columns.date, *columns.text)
        self._asked = [str(each) for each in (columns.label, columns.weight, *asked) if each is not None]
        self._looked = schema is not None
        self.first_keys: tuple[str, ...] = ()  # of the first object
        self.remarks: tuple[Message, ...] = ()  # about the keys of the first lines

    @property
    def label(self) -> str | None:
        """The key of the label, once it is known."""
        return self._keys.label

    @property
    def schema(self) -> Schema | None:
        """The roles of keys, which are the same for all sources."""
        if self.label is None:
            return None
        of_kind = zip((Kind.IGNORED, Kind.CATEGORY, Kind.DATE, Kind.TEXT), self._keys[:4], strict=True)
        pairs = [(self.label, Kind.LABEL), *((name, kind) for kind, names in of_kind for name in sorted(names))]
        return Schema(*zip(*pairs, strict=True))

    @property
    def special(self) -> frozenset[str]:
        """The keys with a meaning of their own, but for that of the label."""
        weight = [] if self._keys.weight is None else [self._keys.weight]
        return frozenset({FEATURES_KEY, *weight}.union(*self._keys[:4]))

    def label_of(self, value: Any) -> float:
        """The label that a value under the key of the label is; NaN if it is none, else a :class:`BadValue`."""
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
        self, block: NDArray[np.uint8], start: Position, plan: KeyTable
    ) -> tuple[int, TextRows, TextEntries, NDArray[np.uint8], list[Any]]:
        """The line after the block; plain rows, their entries and names, which the next call overwrites; others."""
        buffers = self._large_enough(make_buffers, len(block), count_lines(block))
        loop = ready(scan_json, self.compiled, counted=False)
        (line, count, entries, written), records = scan(loop, mark_broken(block, 0), start, buffers._replace(plan=plan))
        names = TextEntries._make(array[:entries] for array in buffers.names)
        return line, buffers.rows.first(count), names, buffers.text[:written], records

    def _plan(self, block: NDArray[np.uint8], source: str) -> KeyTable:
        """The roles of keys, by the layout of the first object and the keys of the first lines."""
        inside = None
        tops = []
        for line in block.tobytes().removeprefix(BOM).split(b"\n", LOOKAHEAD_LINES)[:LOOKAHEAD_LINES]:
            with contextlib.suppress(orjson.JSONDecodeError):
                top = orjson.loads(line)
                if type(top) is dict:
                    self.first_keys = self.first_keys or tuple(top)
                    tops.append(top)
                    inside = type(top.get(FEATURES_KEY)) is dict if inside is None else inside
                    if self.label is None:
                        self._keys = self._keys._replace(label=next((k for k in LABEL_NAMES if k in top), None))
            if inside is not None and self.label is not None and self._looked:
                break
        if not self._looked and tops:
            rows = [top[FEATURES_KEY] if type(top.get(FEATURES_KEY)) is dict else top for top in tops]
            self._look(rows, {key for top in tops for key in top}, source)
        return key_table(self._keys, bool(inside), self._label_words)

    def _look(self, rows: list[dict[str, Any]], tops: set[str], source: str) -> None:
        """Find out which keys hold dates, once; ``tops`` are the keys at the top."""
        self._looked = True
        known = {self.label, self._keys.weight}.union(*self._keys[:4])
        seen = {name: infer_from_values(name, values) for name, values in _by_name(rows).items() if name not in known}
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
        """Read one line with ``orjson``; raises :class:`BadValue` if it breaks a rule."""
        try:
            top = load_object(raw)
        except orjson.JSONDecodeError as problem:
            try:
                at = len(raw.decode()[: problem.pos].encode())
            except UnicodeDecodeError as broken:
                raise BadValue("bytes that are not UTF-8", "JSON in UTF-8", broken.start) from None
            raise BadValue(f"unreadable JSON ({problem.msg})", "one object a line", at) from None
        if self.labels_only and isinstance(top, dict):
            return Labelled(self.label_of(top.get(self.label)), 1.0, "", [])
        return labelled(top, self._keys, self.labels)

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
    rows: TextRows, tags: tuple[str, ...], names: TextEntries, text: NDArray[np.uint8], others: list[Other]
) -> tuple[TextRows, tuple[str, ...], TextEntries, NDArray[np.uint8]]:
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
        TextRows._make(array[order] for array in rows)._replace(ends=np.cumsum(sizes[order])),
        tuple(all_tags[k] for k in order.tolist()) if any(all_tags) else (),
        TextEntries._make(array[by_line] for array in names),
        np.append(text, np.frombuffer(b"".join(raw), np.uint8)),
    )


def _appended(arrays: A, more: Iterable[Any]) -> A:
    return type(arrays)(*(np.append(old, np.array(new, old.dtype)) for old, new in zip(arrays, more, strict=True)))


def _rejected(source: str, line: int, raw: bytes, bad: BadValue) -> Rejected:
    """The record of a bad line; the place of a bad feature is where the last key of its name is first written."""
    at = bad.name
    if isinstance(at, str):
        at = _place(raw, at.rpartition("^")[2])
    return Rejected(source, line, at + 1, bad.problem, bad.expected, raw.removesuffix(b"\r"))


def _place(raw: bytes, key: str) -> int:
    """The first place of a key in a line; 0 if it is not there."""
    return max(0, raw.find(_written(key)))


@functools.lru_cache(64)
def _written(key: str) -> bytes:
    return json.dumps(key, ensure_ascii=False).encode("utf-8", "replace")
