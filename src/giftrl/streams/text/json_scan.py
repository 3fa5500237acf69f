"""The loop over JSON lines: it reads plain lines, and leaves the others; see :mod:`giftrl.streams.text.json_lines`."""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.text.numbers import byte, digit, number
from giftrl.streams.text.rows import Names, Rows, add_row, make_arrays
from giftrl.streams.text.scan import COLON, NEWLINE, RETURN, SPACE, TAB, note, skip_line
from giftrl.streams.text.words import NONE, Words, find_word, words

QUOTE, COMMA, MINUS, DOT, ZERO, EQUALS, BACKSLASH, CARET = 34, 44, 45, 46, 48, 61, 92, 94
BRACE, UNBRACE, BRACKET, UNBRACKET = 123, 125, 91, 93

#: How many objects may be nested in each other, and the most bytes of the keys that lead to a value.
DEEPEST, LONGEST = 32, 1 << 12


class Next(IntEnum):
    """What may come next; FIRST_KEY, FIRST_ITEM and COMMA also allow the end of the object or list."""

    VALUE, FIRST_KEY, KEY, COLON, FIRST_ITEM, COMMA, NOTHING = range(7)


class Use(IntEnum):
    """What a value is for; the reserved keys of :class:`Plan` are in this order."""

    FEATURE, LABEL, WEIGHT, TAG, FEATURES = range(5)


class Plan(NamedTuple):
    """What keys mean."""

    inside: bool  # the features are in an object of their own
    reserved: Words  # the keys of label, weight, tag and features
    ignored: Words
    categorical: Words
    special: Words  # keys of dates and texts of many words: their entries get the value NaN
    labels: Words = NONE  # the names of labels, where they have names
    literals: Words = words(["true", "false", "null"])


class Buffers(NamedTuple):
    """What the loop writes: entries, rows, and the lines that are not plain."""

    names: Names
    rows: Rows
    bad: NDArray[np.int64]  # four numbers for each line that is not plain: the first two are its number and its place
    text: NDArray[np.uint8]
    path: NDArray[np.uint8]  # the keys that lead to a value
    levels: NDArray[np.int64]  # for each level of nesting, how many bytes of the path lead to it
    plan: Plan | None = None


def make_buffers(size: int, lines: int) -> Buffers:
    """Buffers for a block of so many bytes and lines; a line with too long names for them is not plain."""
    return Buffers(
        names=make_arrays(Names, size // 2 + 1),
        rows=make_arrays(Rows, lines),
        bad=np.empty(4 * lines, np.int64),
        text=np.empty(16 * size + LONGEST, np.uint8),
        path=np.empty(LONGEST, np.uint8),
        levels=np.empty(DEEPEST + 1, np.int64),
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
                plain = wanted and not listed and depth < DEEPEST and (use == Use.FEATURE or use == Use.FEATURES)
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
                        plain &= length + (end - start) + 1 < LONGEST
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
