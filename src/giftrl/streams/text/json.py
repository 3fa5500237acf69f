"""JSON lines: one object a line, ``{"label": 1, "features": {"age": 33, "city": "Rome"}}`` or without "features".

A compiled loop, :func:`scan_json`, reads plain lines: valid, with the layout of the first line, without backslashes and
not nested too deep. It reads 201 MB/s, ``pyarrow.json`` 59 MB/s, and ``orjson`` with
a walk over each object 33 MB/s. ``orjson`` and :func:`giftrl.streams.names.objects.walk` read all other lines and give
the same features.
"""

import contextlib
import functools
import json
from collections.abc import Iterable
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
from giftrl.streams.names.dates import DATE_PARTS, FIRST_HOUR, FIRST_MONTH, read_date
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
)
from giftrl.streams.names.tables import CARET, Sections, byte, copy, digit
from giftrl.streams.text.numbers import number
from giftrl.streams.text.parser import (
    COLON,
    NEWLINE,
    NO_WORDS,
    RETURN,
    SPACE,
    TAB,
    A,
    Content,
    TextEntries,
    TextParser,
    TextRows,
    WordTable,
    add_row,
    find_word,
    make_arrays,
    mark_broken,
    note,
    scan,
    skip_line,
    word_table,
)

# The loop over plain JSON lines; other lines are recorded.

QUOTE, COMMA, MINUS, DOT, ZERO, EQUALS, BACKSLASH = 34, 44, 45, 46, 48, 61, 92
BRACE, UNBRACE, BRACKET, UNBRACKET = 123, 125, 91, 93

#: The maximum nesting, and the maximum length of a path of keys in bytes.
MAX_OBJECT_DEPTH, MAX_KEY_BYTES = 32, 1 << 12
#: Words are deduplicated in quadratic time. Python handles texts with more words or rare letters.
MAX_DIFFERENT_WORDS = 256
DATE_TEXT, DATE_ENDS = word_table(DATE_PARTS)


class Next(IntEnum):
    """The token expected next; FIRST_KEY, FIRST_ITEM and COMMA also allow the end of the object or list."""

    VALUE, FIRST_KEY, KEY, COLON, FIRST_ITEM, COMMA, NOTHING = range(7)


class Use(IntEnum):
    """The role of a value, in the order of the reserved keys of :class:`KeyTable`."""

    FEATURE, LABEL, WEIGHT, TAG, FEATURES = range(5)


class Role(IntEnum):
    """The role of the key of a feature; ALL_ELSE stands for numbers and categories."""

    ALL_ELSE, IGNORED, CATEGORY, DATE, TEXT = range(5)


class KeyTable(NamedTuple):
    """:class:`Keys` as arrays for the compiled loop; see :func:`key_table`."""

    inside: bool  # True if the features are under the key "features"
    reserved: WordTable  # the keys of label, weight, tag and features
    special: WordTable  # the keys of features with a role
    roles: NDArray[np.int64]  # their roles
    letters: NDArray[np.uint16]  # :func:`lower_letters`, if there are keys of texts
    labels: WordTable = NO_WORDS  # the names of labels, if any
    literals: WordTable = word_table(["true", "false", "null"])


@functools.cache
def lower_letters() -> NDArray[np.uint16]:
    """The lower case of each letter or digit below code point 65,536; 0 for other characters, which separate words."""
    lower = [chr(code).lower()[0] for code in range(1 << 16)]
    return np.array([ord(letter) if letter.isalnum() else 0 for letter in lower], np.uint16)


def key_table(keys: Keys, inside: bool, labels: WordTable) -> KeyTable:
    """The roles of keys, for the compiled loop."""
    beside = (WEIGHT_KEY, TAG_KEY) if inside else (None, None)
    reserved = [keys.label, keys.weight or beside[0], beside[1], FEATURES_KEY]
    letters = lower_letters() if keys.texts else np.empty(0, np.uint16)
    # If a key has several roles, the precedence is as in the Python walk.
    sets = (
        (keys.categorical, Role.CATEGORY),
        (keys.texts, Role.TEXT),
        (keys.dates, Role.DATE),
        (keys.ignored, Role.IGNORED),
    )
    roles = {key: role for some, role in sets for key in some}
    return KeyTable(
        inside, word_table(reserved), word_table(roles), np.array([*roles.values()], np.int64), letters, labels
    )


class JsonBuffers(NamedTuple):
    """Buffers of the loop: entries, rows, and lines left to Python."""

    names: TextEntries
    rows: TextRows
    bad: NDArray[np.int64]  # for each line left to Python, four numbers: its number, its place, and two unused
    text: NDArray[np.uint8]
    path: NDArray[np.uint8]  # the keys that lead to a value
    levels: NDArray[np.int64]  # the length of the path at each level of nesting
    plan: KeyTable | None = None


def make_buffers(size: int, lines: int) -> JsonBuffers:
    """Buffers for a block of a size; a line whose names overflow them is left to Python."""
    return JsonBuffers(
        names=make_arrays(TextEntries, size // 2 + 1),
        rows=make_arrays(TextRows, lines),
        bad=np.empty(4 * lines, np.int64),
        text=np.empty(16 * size + MAX_KEY_BYTES, np.uint8),
        path=np.empty(MAX_KEY_BYTES, np.uint8),
        levels=np.empty(MAX_OBJECT_DEPTH + 1, np.int64),
    )


@formula
def write_byte(c: Any, to: Any, at: Any) -> Any:
    """Write a byte; returns the place after it."""
    to[np.uint64(at)] = c
    return at + 1


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
    """Read a number, true, false or null; returns the value, a null flag, the end, and whether it is valid."""
    c = byte(block, at)
    if c == MINUS or digit(c):
        first = at + (1 if c == MINUS else 0)  # JSON: no leading zero, digits on both sides of the dot
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
def begin_entry(names: Any, text: Any, key: Any, out: Any, written: Any, value: Any) -> Any:
    """Write an entry named by a key; returns the end of the name, to which more can be appended."""
    path, stem, group = key
    k = np.uint64(out)
    names.values[k] = value
    names.starts[k] = written
    names.group_sizes[k] = group
    names.ends[k] = copy(path, 0, stem, text, written)
    return names.ends[k]


@formula
def add_date(
    block: Any, start: Any, end: Any, names: Any, text: Any, key: Any, out: Any, written: Any
) -> tuple[Any, Any, Any]:
    """Add the features of a date; returns the numbers of entries and bytes, and whether the date is valid."""
    years, weekday, month, hour = read_date(block, start, end)
    if years == years and years != 0.0:
        written = begin_entry(names, text, key, out, written, years)
        out += 1
    for part in (weekday, FIRST_MONTH + month, FIRST_HOUR + hour):
        if month > 0 and (hour >= 0 or part < FIRST_HOUR - 1):
            written = begin_entry(names, text, key, out, written, 1.0)
            written = copy(DATE_TEXT, DATE_ENDS[part], DATE_ENDS[part + 1], text, written)
            names.ends[np.uint64(out)] = written
            out += 1
    return out, written, month > 0


@formula
def add_words(
    block: Any, at: Any, end: Any, letters: Any, names: Any, text: Any, key: Any, out: Any, written: Any
) -> tuple[Any, Any, Any]:
    """Add the distinct words of a text; returns the numbers of entries and bytes, and False to leave it to Python."""
    first, begin, good, inside = out, written, True, False
    while at <= end and good:
        code = byte(block, at)
        size = 1 if code < 0xC0 else 2 if code < 0xE0 else 3
        good = code < 0xF0 and written + len(key[0]) <= len(text) and out - first < MAX_DIFFERENT_WORDS
        code = code if size == 1 else code & (63 >> (size - 1))
        for k in range(1, size):
            code = code << 6 | byte(block, at + k) & 63
        at += size
        letter = np.int64(letters[np.uint64(code)])  # 0 for the closing quote
        if letter > 0 and good:
            if not inside:
                written = begin_entry(names, text, key, out, written, 1.0)
                begin = written = write_byte(EQUALS, text, written)
            inside = True
            size = 1 if letter < 0x80 else 2 if letter < 0x800 else 3
            written = write_byte((0, 0xC0, 0xE0)[size - 1] | letter >> 6 * (size - 1), text, written)
            for k in range(size - 2, -1, -1):
                written = write_byte(0x80 | letter >> 6 * k & 63, text, written)
        elif inside:
            inside = False
            names.ends[np.uint64(out)] = written
            new, size = True, written - begin
            for k in range(first, out):
                other = names.ends[np.uint64(k)] - size
                if new and other - names.starts[np.uint64(k)] == begin - names.starts[np.uint64(out)]:
                    same = 0
                    while same < size and text[np.uint64(other + same)] == text[np.uint64(begin + same)]:
                        same += 1
                    new = same < size
            written = written if new else names.starts[np.uint64(out)]
            out += 1 if new else 0
    return out, written, good


@formula
def scan_json(block: Any, at: Any, line: Any, buffers: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Read the plain lines of a block, which ends with a newline, from a place on.

    Returns the line after the last, and the numbers of rows, entries, bytes of names and other lines.
    """
    names, rows, others, text, path, levels, plan = buffers
    inside, reserved, special, roles, letters, labels, literals = plan
    named = len(labels[1]) > 1
    row, out, written, left = 0, 0, 0, 0
    while at < len(block):
        begin, first_out, first_written = at, out, written
        label, weight, tag = np.nan, 1.0, (np.int64(0), np.int64(0))
        seen: Any = 0  # a bit for each use of a value
        use, role = np.int64(Use.FEATURE), np.int64(Role.ALL_ELSE)
        depth, length, stem, muted = 0, 0, 0, 0  # bytes of the path to the object, and to the value in it
        hidden, listed, plain = False, False, True
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
                # An object or a list ends after a value, or is empty.
                empty = following == (Next.FIRST_ITEM if listed else Next.FIRST_KEY)
                plain = depth > 0 and (empty or following == Next.COMMA) and listed == (c == UNBRACKET)
                if plain and not listed:
                    depth -= 1
                    length = levels[np.uint64(depth)]
                    muted = 0 if muted > depth else muted
                listed = False
                following = Next.COMMA if depth > 0 else Next.NOTHING
            elif c == BRACE:
                plain = wanted and not listed and depth < MAX_OBJECT_DEPTH and use in (Use.FEATURE, Use.FEATURES)
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
                        found = find_word(path, 0, stem, special)
                        role = roles[np.uint64(found)] if found >= 0 else np.int64(Role.ALL_ELSE)
                        hidden = muted > 0 or role == Role.IGNORED
                        # Other keys beside "features" are an error.
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
                        plain &= bool(is_text == named)
                        label = np.float64(find_word(block, start, end, labels)) if named else value
                        plain &= bool(not named or label >= 0.0)
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
                        plain &= bool(role <= Role.IGNORED) or (is_text and bool(role == Role.CATEGORY or not listed))
                        plain &= written + 4 * stem + (end - start) + 64 <= len(text)
                        if plain and not hidden and (value != 0.0 or (is_text and end > start)):
                            key = (path, stem, group)
                            if role == Role.DATE:
                                out, written, plain = add_date(block, start, end, names, text, key, out, written)
                            elif role == Role.TEXT:
                                out, written, plain = add_words(
                                    block, start, end, letters, names, text, key, out, written
                                )
                            else:
                                written = begin_entry(names, text, key, out, written, 1.0 if is_text else value)
                                if is_text:
                                    written = copy(block, start, end, text, write_byte(EQUALS, text, written))
                                elif listed:
                                    written = write_place(place, text, written)
                                names.ends[np.uint64(out)] = written
                                out += 1
                    place += 1
            c = byte(block, at)
        at = skip_line(block, at)
        if plain and following == Next.NOTHING and (not inside or (seen >> Use.FEATURES) & 1 == 1):
            row = add_row(rows, row, label, weight, tag, line, begin, out)
        else:
            out, written = first_out, first_written
            if not (plain and depth == 0 and following == Next.VALUE):  # not blank
                left = note(others, left, line, begin, begin, 0)
        line += 1
    return line, row, out, written, left


LOOKAHEAD_LINES = 100  # the number of lines searched for the label key
Other = tuple[int, int, Labelled]  # a line that orjson read: its number, its place and its content


class JsonLines(TextParser):
    """Reads blocks of JSON lines; :mod:`giftrl.streams.names.objects` has the rules for one object.

    ``columns`` are keys. By default, the label key is searched in the first 100 lines of each block, and date keys in
    the first 100 lines of the data. An interaction group is a top-level key of the features.

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
        known = [] if schema is None else list(zip(schema.names, schema.kinds, strict=True))
        label, weight = (None if key is None else str(key) for key in (columns.label, columns.weight))

        def named(given: Iterable[str | int], *kinds: str) -> set[str]:
            return {*map(str, given), *(name for name, kind in known if kind in kinds)}

        self._keys = Keys(
            named(columns.ignore, Kind.IGNORED),
            named(columns.categorical, Kind.CATEGORY, Kind.CATEGORIES),
            named(columns.date, Kind.DATE),
            named(columns.text, Kind.TEXT),
            label or next((name for name, kind in known if kind == Kind.LABEL), None),
            weight,
        )
        given = (columns.ignore, columns.categorical, columns.date, columns.text)
        self._asked = [*filter(None, (label, weight)), *(str(key) for some in given for key in some)]
        self._looked = schema is not None
        self.first_keys: tuple[str, ...] = ()  # of the first object
        self.remarks: tuple[Message, ...] = ()  # remarks about the keys of the first lines

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
        """The reserved keys except the label's."""
        weight = [] if self._keys.weight is None else [self._keys.weight]
        return frozenset({FEATURES_KEY, *weight}.union(*self._keys[:4]))

    def label_of(self, value: Any) -> float:
        """Convert the value of the label key; NaN if missing, :class:`BadValue` if invalid."""
        return as_label(value, str(self.label), self.labels)

    def _read(self, block: NDArray[np.uint8], source: str, start: Position) -> Content:
        line, rows, names, text, records = self._scan(block, start, self._plan(block, source))
        tags = rows.tags(block)
        others, rejected = self._others(block, records, source)
        if others:
            rows, tags, names, text = _joined(rows, tags, names, text, others)
        values = names.values.copy()
        slots = self.features.name_slots(text, names.starts, names.ends, Sections.none(), values)
        groups = np.empty(0, np.uint8)
        if self._codes is not None:
            groups = self._codes.of(text, names.starts, names.starts + names.group_sizes)
        return Content(line, rows, tags, values, slots, groups, rejected=rejected)

    def _scan(
        self, block: NDArray[np.uint8], start: Position, plan: KeyTable
    ) -> tuple[int, TextRows, TextEntries, NDArray[np.uint8], list[Any]]:
        """Run the loop; returns the next line, the plain rows (overwritten by the next call) and other lines."""
        buffers = self._large_enough(make_buffers, len(block), count_lines(block))
        loop = ready(scan_json, self.compiled, counted=False)
        (line, count, entries, written), records = scan(loop, mark_broken(block, 0), start, buffers._replace(plan=plan))
        names = TextEntries._make(array[:entries] for array in buffers.names)
        return line, buffers.rows.first(count), names, buffers.text[:written], records

    def _plan(self, block: NDArray[np.uint8], source: str) -> KeyTable:
        """The roles of keys, by the layout of the first object and the keys of the first lines."""
        tops: list[dict[str, Any]] = []
        for line in block.tobytes().removeprefix(BOM).split(b"\n", LOOKAHEAD_LINES)[:LOOKAHEAD_LINES]:
            with contextlib.suppress(orjson.JSONDecodeError):
                top = orjson.loads(line)
                tops += [top] if type(top) is dict else []
            if tops and self.label is None:
                self._keys = self._keys._replace(label=next((key for key in LABEL_NAMES if key in tops[-1]), None))
            if tops and self.label is not None and self._looked:
                break
        self.first_keys = self.first_keys or tuple(*tops[:1])
        if not self._looked and tops:
            self._look(tops, source)
        return key_table(self._keys, bool(tops) and type(tops[0].get(FEATURES_KEY)) is dict, self._label_words)

    def _look(self, tops: list[dict[str, Any]], source: str) -> None:
        """Detect, once, which keys of the first objects hold dates."""
        self._looked = True
        rows = [top[FEATURES_KEY] if type(top.get(FEATURES_KEY)) is dict else top for top in tops]
        keys, values = self._keys, _by_name(rows)
        known = {keys.label, keys.weight}.union(*keys[:4])
        seen = {name: infer_from_values(name, some) for name, some in values.items() if name not in known}
        dates, ignored = ({name for name in seen if seen[name].kind == kind} for kind in (Kind.DATE, Kind.IGNORED))
        self._keys = keys._replace(dates=keys.dates | dates, ignored=keys.ignored | ignored)
        there = set(values).union(*tops)
        absent = [
            f"no key is called {name} in the first lines of {source}" for name in self._asked if name not in there
        ]
        self.remarks = (*remarks(seen, source), *absent)

    def _others(self, block: NDArray[np.uint8], records: list[Any], source: str) -> tuple[list[Other], list[Rejected]]:
        """Read the remaining lines with Python: their rows, and rejected rows."""
        others, rejected = [], []
        whole = block.tobytes() if records else b""
        for line, begin, _, _ in records:
            raw = whole[begin : whole.find(b"\n", begin)]
            try:
                if not raw.isspace():
                    others.append((line, begin, self.row(raw)))
            except BadValue as bad:
                # A feature's place is the first occurrence of the last key in its name.
                at = _place(raw, bad.name.rpartition("^")[2]) if isinstance(bad.name, str) else bad.name
                rejected.append(Rejected(source, line, at + 1, bad.problem, bad.expected, raw.removesuffix(b"\r")))
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
    """The values of each name, nested objects included, without lists and nulls."""
    found: dict[str, list[Any]] = {}
    waiting = [(key, value) for row in reversed(rows) for key, value in row.items()]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend((f"{name}^{key}", inner) for key, inner in value.items())
        elif value is not None and not isinstance(value, list):
            found.setdefault(name, []).append(value)
    return found


def _joined(
    rows: TextRows, tags: tuple[str, ...], names: TextEntries, text: NDArray[np.uint8], others: list[Other]
) -> tuple[TextRows, tuple[str, ...], TextEntries, NDArray[np.uint8]]:
    """Merge the rows of the loop and of Python in the order of lines; their tags, entries and names."""

    def appended(arrays: A, more: Iterable[Any]) -> A:
        pairs = zip(arrays, more, strict=True)
        return type(arrays)(*(np.append(old, np.array(new, old.dtype)) for old, new in pairs))

    features = [each for _, _, row in others for each in row.features]
    raw = [each.name.encode() for each in features]
    stops = len(text) + np.cumsum([0, *map(len, raw)])
    groups = [len(each.group.encode()) for each in features]
    names = appended(names, ([each.value for each in features], stops[:-1], stops[1:], groups))
    sizes = np.append(np.diff(rows.ends, prepend=0), [len(row.features) for _, _, row in others])
    heads = ((row.label, row.weight, 0, 0, line, begin, 0) for line, begin, row in others)
    rows = appended(rows, zip(*heads, strict=True))
    order, by_line = np.argsort(rows.lines), np.argsort(np.repeat(rows.lines, sizes), kind="stable")
    all_tags = [*(tags or [""] * (len(order) - len(others))), *(row.tag for _, _, row in others)]
    return (
        TextRows._make(array[order] for array in rows)._replace(ends=np.cumsum(sizes[order])),
        tuple(all_tags[k] for k in order.tolist()) if any(all_tags) else (),
        TextEntries._make(array[by_line] for array in names),
        np.append(text, np.frombuffer(b"".join(raw), np.uint8)),
    )


def _place(raw: bytes, key: str) -> int:
    """The first place of a key in a line; 0 if it is not there."""
    return max(0, raw.find(json.dumps(key, ensure_ascii=False).encode("utf-8", "replace")))
