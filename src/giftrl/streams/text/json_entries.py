"""JSON lines, second loop: the features, label, weight and tag that the tokens of each line mean."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.text.json_tokens import MINUS, Token, is_word
from giftrl.streams.text.numbers import byte, digit, number
from giftrl.streams.text.scan import NEWLINE, broken_utf8

__all__ = ["LONGEST", "Entries", "Plan", "find_entries", "words"]

EQUALS, CARET, DOT, ZERO = 61, 94, 46, 48
#: The most bytes that the keys which lead to a value may have together.
LONGEST = 1 << 12


class Use(IntEnum):
    """What a value is for: a feature, or one of the reserved keys of :class:`Plan`, in their order."""

    FEATURE, LABEL, WEIGHT, TAG, FEATURES = range(5)


class Words(NamedTuple):
    """Words, one after the other, and where each ends; the first number is 0."""

    text: NDArray[np.uint8]
    ends: NDArray[np.int64]


class Plan(NamedTuple):
    """What keys mean."""

    inside: bool  # the features are in an object of their own
    reserved: Words  # the keys of label, weight, tag and features
    ignored: Words
    categorical: Words


class Entries(NamedTuple):
    """What plain lines mean: entries, whose names are in the text and whose groups are in the block; and rows."""

    values: NDArray[np.float64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    group_starts: NDArray[np.int64]
    group_ends: NDArray[np.int64]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    tag_starts: NDArray[np.int64]
    tag_ends: NDArray[np.int64]
    lines: NDArray[np.int64]
    row_ends: NDArray[np.int64]  # how many entries there are up to the end of the row
    text: NDArray[np.uint8]


def words(given: Iterable[str | None]) -> Words:
    """Words for :class:`Plan`; None for a key that there is not.

    >>> words(["a", "bc"]).ends.tolist()
    [0, 1, 3]
    """
    # No key of a plain line has a quote, so that this one is never found.
    raw = [b'"' if word is None else word.encode("utf-8", "replace") for word in given]
    return Words(np.frombuffer(bytearray(b"".join(raw)), np.uint8), np.cumsum([0, *map(len, raw)], dtype=np.int64))


@formula
def find_word(text: Any, start: Any, end: Any, listed: Any) -> Any:
    """Which of some words a piece of text is, counted from 0; -1 where it is none."""
    place = -1
    for w in range(len(listed.ends) - 1):
        if place < 0 and is_word(text, start, end, listed.text, listed.ends[w], listed.ends[w + 1]):
            place = w
    return place


@formula
def read_number(block: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """A number as JSON writes it, and whether it is one that the loop can read."""
    at = start + (1 if byte(block, start) == MINUS else 0)
    good = digit(byte(block, at)) and not (byte(block, at) == ZERO and digit(byte(block, at + 1)))
    while digit(byte(block, at)):
        at += 1
    if byte(block, at) == DOT and not digit(byte(block, at + 1)):
        good = False
    value, after, wrong = number(block, start)
    return value, good and wrong == 0 and after == end


@formula
def copy(text: Any, start: Any, end: Any, to: Any, at: Any) -> Any:
    """Copy a piece of text; returns where the copy ends."""
    for k in range(start, end):
        to[np.uint64(at)] = text[np.uint64(k)]
        at += 1
    return at


@formula
def find_entries(
    block: Any, tokens: Any, count: Any, used: Any, plan: Any, entries: Any, ascii_: bool, path: Any, levels: Any
) -> tuple[Any, Any, Any]:
    """Turn the tokens of plain lines into rows, and mark other lines as not plain.

    Args:
        block: lines.
        tokens: their tokens.
        count: how many lines there are.
        used: how many tokens there are.
        plan: what keys mean.
        entries: what the loop writes.
        ascii_: whether all bytes are ASCII.
        path: LONGEST bytes, for the keys that lead to a value.
        levels: for each level of nesting, how many bytes of the path lead to it.

    Returns:
        how many rows, entries and bytes of names there are; -1 rows where the names did not fit.
    """
    kinds, starts, ends, lines, begins, firsts, plains = tokens
    (
        values, name_starts, name_ends, group_starts, group_ends, labels, weights, tag_starts, tag_ends, rows, row_ends,
        text,
    ) = entries  # fmt: skip
    inside, reserved, ignored, categorical = plan
    row, out, written, full = 0, 0, 0, False
    for i in range(count):
        first_out, first_written = out, written
        last = firsts[np.uint64(i + 1)] if i + 1 < count else used
        plain = plains[np.uint64(i)]
        label, weight, tag_start, tag_end = np.nan, 1.0, 0, 0
        seen: Any = 0  # a bit for each use of a value
        use = np.int64(Use.FEATURE)
        depth, length, stem, muted = 0, 0, 0, 0  # bytes of the path to the object, and to the value in it
        hidden, category = False, False
        listed, place, listed_kind = False, 0, 0
        group_start, group_end = 0, 0
        t = firsts[np.uint64(i)]
        while plain and t < last:
            kind, start, end = kinds[np.uint64(t)], starts[np.uint64(t)], ends[np.uint64(t)]
            t += 1
            if kind == Token.KEY:
                use = np.int64(Use.FEATURE)
                if depth == 1:
                    use = np.int64(1 + find_word(block, start, end, reserved))
                    if use == Use.FEATURES:
                        if kinds[np.uint64(t)] == Token.OPEN:
                            plain = inside
                        else:
                            use = np.int64(Use.FEATURE)
                if use != Use.FEATURE:
                    plain &= (seen >> use) & 1 == 0
                    seen |= 1 << use
                elif length + (end - start) + 1 >= LONGEST:
                    plain = False
                else:
                    if depth == (2 if inside else 1):
                        group_start, group_end = start, end
                    stem = copy(block, start, end, path, length)
                    hidden = muted > 0 or find_word(path, 0, stem, ignored) >= 0
                    category = find_word(path, 0, stem, categorical) >= 0
                    if inside and depth == 1 and not hidden:
                        plain = False  # a key that should not be there
            elif kind == Token.OPEN:
                plain = not listed and (depth == 0 or use == Use.FEATURE or use == Use.FEATURES)
                levels[np.uint64(depth)] = length
                depth += 1
                if depth > 1 and use == Use.FEATURE:
                    path[np.uint64(stem)] = CARET
                    length = stem + 1
                    if hidden and muted == 0:
                        muted = depth
            elif kind == Token.CLOSE:
                depth -= 1
                length = levels[np.uint64(depth)]
                if muted > depth:
                    muted = 0
            elif kind == Token.LIST:
                plain = not listed and use == Use.FEATURE
                listed, place, listed_kind = True, 0, 0
            elif kind == Token.UNLIST:
                listed = False
            else:
                value, is_text = 0.0, kind == Token.TEXT
                if kind == Token.NUMBER:
                    value, plain = read_number(block, start, end)
                elif kind == Token.TRUE:
                    value = 1.0
                if kind == Token.NULL:
                    plain = use != Use.WEIGHT and use != Use.TAG
                elif use == Use.LABEL:
                    plain &= not is_text
                    label = value
                elif use == Use.WEIGHT:
                    plain &= not is_text and value >= 0.0
                    weight = value
                elif use == Use.TAG:
                    plain &= is_text
                    tag_start, tag_end = start, end
                else:
                    if listed:
                        plain &= listed_kind == 0 or (listed_kind == 1) == is_text
                        listed_kind = 1 if is_text else 2
                    if category and not is_text:
                        plain = False
                    elif written + stem + (end - start if is_text else 0) + 32 > len(text):
                        full = True
                        plain = False
                    elif plain and not hidden and (value != 0.0 or (is_text and end > start)):
                        k = np.uint64(out)
                        values[k] = 1.0 if is_text else value
                        name_starts[k] = written
                        written = copy(path, 0, stem, text, written)
                        if is_text:
                            text[np.uint64(written)] = EQUALS
                            written = copy(block, start, end, text, written + 1)
                        elif listed:
                            text[np.uint64(written)] = CARET
                            written += 1
                            size = 1
                            while place >= 10**size:
                                size += 1
                            for b in range(size):
                                text[np.uint64(written)] = ZERO + place // 10 ** (size - 1 - b) % 10
                                written += 1
                        name_ends[k] = written
                        group_starts[k], group_ends[k] = group_start, group_end
                        out += 1
                place += 1
        if inside and (seen >> Use.FEATURES) & 1 == 0:
            plain = False
        if plain and not ascii_:
            end = begins[np.uint64(i)]
            while block[np.uint64(end)] != NEWLINE:
                end += 1
            plain = broken_utf8(block, begins[np.uint64(i)], end) < 0
        if not full:
            plains[np.uint64(i)] = plain
        if plain:
            k = np.uint64(row)
            labels[k], weights[k] = label, weight
            tag_starts[k], tag_ends[k] = tag_start, tag_end
            rows[k], row_ends[k] = lines[np.uint64(i)], out
            row += 1
        else:
            out, written = first_out, first_written
    if full:
        row = -1
    return row, out, written
