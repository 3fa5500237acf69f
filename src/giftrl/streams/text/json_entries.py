"""JSON lines, second loop: what the tokens of each line mean."""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.text.json_tokens import MINUS, Token, is_word
from giftrl.streams.text.numbers import digit, number, pin
from giftrl.streams.text.scan import NEWLINE, broken_utf8

__all__ = ["LONGEST", "Entries", "Plan", "find_entries"]

EQUALS, CARET = 61, 94
#: Bytes of the keys that lead to a value, that the loop follows.
LONGEST = 1 << 12


class Use(IntEnum):
    """What a value is for."""

    FEATURE, LABEL, WEIGHT, TAG, FEATURES = range(5)


class Entries(NamedTuple):
    """What plain lines mean: the entries, with their names in the text and their groups in the block; and the rows."""

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


class Plan(NamedTuple):
    """What the keys mean; names in a list come one after the other."""

    inside: bool  # the features are in an object of their own
    label: NDArray[np.uint8]
    weight: NDArray[np.uint8]
    tag: NDArray[np.uint8]
    features: NDArray[np.uint8]
    ignored: NDArray[np.uint8]
    ignored_ends: NDArray[np.int64]
    categorical: NDArray[np.uint8]
    categorical_ends: NDArray[np.int64]


@formula
def is_listed(text: Any, end: Any, words: Any, word_ends: Any) -> Any:
    """Whether the first bytes are one of some words."""
    found = False
    for w in range(len(word_ends) - 1):
        if not found:
            found = is_word(text, 0, end, words, word_ends[np.uint64(w)], word_ends[np.uint64(w + 1)])
    return pin(word_ends, pin(words, pin(text, found)))


@formula
def read_number(block: Any, start: Any, end: Any, limbs: Any) -> tuple[Any, Any]:
    """A number as JSON writes it, and whether it is one."""
    at = start
    if block[np.uint64(at)] == MINUS:
        at += 1
    good = digit(np.int64(block[np.uint64(at)]))
    if block[np.uint64(at)] == 48 and digit(np.int64(block[np.uint64(at + 1)])):
        good = False
    while digit(np.int64(block[np.uint64(at)])):
        at += 1
    # A digit must follow the dot.
    if block[np.uint64(at)] == 46 and not digit(np.int64(block[np.uint64(at + 1)])):
        good = False
    value, after, wrong = number(block, start, limbs)
    good &= wrong == 0 and after == end
    return pin(limbs, pin(block, value)), good


@formula
def find_entries(
    block: Any, tokens: Any, count: Any, used: Any, plan: Any, entries: Any, ascii_: bool, limbs: Any, path: Any,
    levels: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Turn the tokens of plain lines into rows, and mark other lines as not plain.

    Returns:
        how many rows and entries there are, and the bytes of their names; -1 rows where these did not fit.
    """
    kinds, starts, ends, lines, begins, firsts, plains = tokens
    (
        values,
        name_starts,
        name_ends,
        group_starts,
        group_ends,
        labels,
        weights,
        tag_starts,
        tag_ends,
        rows,
        row_ends,
        text,
    ) = entries
    inside, label_key, weight_key, tag_key, features_key, ignored, ignored_ends, categorical, categorical_ends = plan
    some_ignored, some_categorical = len(ignored_ends) > 1, len(categorical_ends) > 1
    row, out, written, full = 0, 0, 0, False
    for i in range(count):
        first_out, first_written = out, written
        last = used
        if i + 1 < count:
            last = firsts[np.uint64(i + 1)]
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
                    if is_word(block, start, end, label_key, 0, len(label_key)):
                        use = np.int64(Use.LABEL)
                    elif is_word(block, start, end, weight_key, 0, len(weight_key)):
                        use = np.int64(Use.WEIGHT)
                    elif inside and is_word(block, start, end, tag_key, 0, len(tag_key)):
                        use = np.int64(Use.TAG)
                    elif kinds[np.uint64(t)] == Token.OPEN and is_word(
                        block, start, end, features_key, 0, len(features_key)
                    ):
                        use = np.int64(Use.FEATURES)
                        plain = inside
                if use != Use.FEATURE:
                    plain &= (seen >> use) & 1 == 0
                    seen |= 1 << use
                elif length + (end - start) + 1 >= LONGEST:
                    plain = False
                else:
                    if depth == (2 if inside else 1):
                        group_start, group_end = start, end
                    stem = length
                    for b in range(start, end):
                        path[np.uint64(stem)] = block[np.uint64(b)]
                        stem += 1
                    hidden = muted > 0
                    if some_ignored and not hidden:
                        hidden = is_listed(path, stem, ignored, ignored_ends)
                    if some_categorical:
                        category = is_listed(path, stem, categorical, categorical_ends)
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
                    value, plain = read_number(block, start, end, limbs)
                elif kind == Token.TRUE:
                    value = 1.0
                if kind != Token.NULL:
                    if listed:
                        plain &= listed_kind == 0 or (listed_kind == 1) == is_text
                        listed_kind = 1 if is_text else 2
                    if use == Use.LABEL:
                        plain &= not is_text
                        label = value
                    elif use == Use.WEIGHT:
                        plain &= not is_text and value >= 0.0
                        weight = value
                    elif use == Use.TAG:
                        plain &= is_text
                        tag_start, tag_end = start, end
                    elif category and not is_text:
                        plain = False
                    elif written + stem + (end - start if is_text else 0) + 32 > len(text):
                        full = True
                        plain = False
                    elif plain and not hidden and (value != 0.0 or (is_text and end > start)):
                        k = np.uint64(out)
                        values[k] = 1.0 if is_text else value
                        name_starts[k] = written
                        for b in range(stem):
                            text[np.uint64(written)] = path[np.uint64(b)]
                            written += 1
                        if is_text:
                            text[np.uint64(written)] = EQUALS
                            written += 1
                            for b in range(start, end):
                                text[np.uint64(written)] = block[np.uint64(b)]
                                written += 1
                        elif listed:
                            text[np.uint64(written)] = CARET
                            written += 1
                            size = 1
                            while place >= 10**size:
                                size += 1
                            for b in range(size):
                                text[np.uint64(written)] = 48 + place // 10 ** (size - 1 - b) % 10
                                written += 1
                        name_ends[k] = written
                        group_starts[k], group_ends[k] = group_start, group_end
                        out += 1
                elif use == Use.WEIGHT or use == Use.TAG:
                    plain = False
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
