"""Words for compiled loops, and how they are found in a text."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula

#: Words, one after the other, and where each ends; the first number is 0.
Words = tuple[NDArray[np.uint8], NDArray[np.int64]]


def words(given: Iterable[str | None]) -> Words:
    """Words for compiled loops; None for one that there is not."""
    # A quote is in no key that the loops read, so that this word equals none of them.
    raw = [b'"' if word is None else word.encode("utf-8", "replace") for word in given]
    return np.frombuffer(bytearray(b"".join(raw)), np.uint8), np.cumsum([0, *map(len, raw)], dtype=np.int64)


NONE = words(())


@formula
def find_word(text: Any, start: Any, end: Any, listed: Any) -> Any:
    """Which of some words ``text[start:end]`` is, counted from 0; -1 where it is none."""
    letters, ends = listed
    for w in range(len(ends) - 1):
        first = ends[w]
        same = end - start == ends[w + 1] - first
        if same:
            for k in range(end - start):
                same &= text[np.uint64(start + k)] == letters[np.uint64(first + k)]
        if same:
            return w
    return -1
