"""Pieces of text in arrays of bytes: comparing and copying them in compiled loops."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula

__all__ = ["Words", "copy", "find_word", "is_word", "words"]


class Words(NamedTuple):
    """Words, one after the other, and where each ends; the first number is 0."""

    text: NDArray[np.uint8]
    ends: NDArray[np.int64]


def words(given: Iterable[str | None]) -> Words:
    """Words for compiled loops; None for a key that there is not.

    >>> words(["a", "bc"]).ends.tolist()
    [0, 1, 3]
    """
    # A quote is in no key that the loops read, so that this word is never found.
    raw = [b'"' if word is None else word.encode("utf-8", "replace") for word in given]
    return Words(np.frombuffer(bytearray(b"".join(raw)), np.uint8), np.cumsum([0, *map(len, raw)], dtype=np.int64))


@formula
def is_word(text: Any, start: Any, end: Any, other: Any, first: Any, last: Any) -> Any:
    """Whether ``text[start:end]`` equals ``other[first:last]``."""
    same = end - start == last - first
    if same:
        for k in range(last - first):
            same &= text[np.uint64(start + k)] == other[np.uint64(first + k)]
    return same


@formula
def find_word(text: Any, start: Any, end: Any, listed: Any) -> Any:
    """Which of some words a piece of text is, counted from 0; -1 where it is none."""
    place = -1
    for w in range(len(listed.ends) - 1):
        if place < 0 and is_word(text, start, end, listed.text, listed.ends[w], listed.ends[w + 1]):
            place = w
    return place


@formula
def copy(text: Any, start: Any, end: Any, to: Any, at: Any) -> Any:
    """Copy a piece of text; returns where the copy ends."""
    for k in range(start, end):
        to[np.uint64(at)] = text[np.uint64(k)]
        at += 1
    return at
