"""MurmurHash3 of a name, as scikit-learn computes it.

MurmurHash3_x86_32 is Austin Appleby's (public domain), with seed 0; ``sklearn.utils.murmurhash3_32`` gives the same
numbers. A name can come in pieces: the state after a piece is carried on to the next, so that the names of a namespace
share the work of their prefix.
"""

from typing import Any

import numpy as np

from giftrl.compiled.registry import formula

WORD = np.uint64(2**32 - 1)
C1 = np.uint64(0xCC9E2D51)
C2 = np.uint64(0x1B873593)
C3 = np.uint64(0xE6546B64)
F1 = np.uint64(0x85EBCA6B)
F2 = np.uint64(0xC2B2AE35)
FIVE = np.uint64(5)
ZERO = np.uint64(0)


@formula
def rotated(x: Any, by: int) -> Any:
    """A word of 32 bits, rotated to the left."""
    return ((x << np.uint64(by)) | (x >> np.uint64(32 - by))) & WORD


@formula
def scrambled(word: Any) -> Any:
    """What MurmurHash3 makes of a word before it is mixed in."""
    return (rotated((word * C1) & WORD, 15) * C2) & WORD


@formula
def mixed(h: Any, word: Any) -> Any:
    """The state of MurmurHash3 after one more word."""
    return (rotated(h ^ scrambled(word), 13) * FIVE + C3) & WORD


@formula
def begin_name() -> tuple[Any, Any, Any]:
    """The state before the first byte: the hash, the bytes that do not fill a word yet, and how many bytes came."""
    return ZERO, ZERO, 0


@formula
def add_bytes(text: Any, start: Any, end: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """The state after some more bytes."""
    h, rest, length = state
    shift = np.uint64(8 * (length & 3))
    at = start
    while at + 4 <= end:
        word = (
            np.uint64(text[np.uint64(at)])
            | (np.uint64(text[np.uint64(at + 1)]) << np.uint64(8))
            | (np.uint64(text[np.uint64(at + 2)]) << np.uint64(16))
            | (np.uint64(text[np.uint64(at + 3)]) << np.uint64(24))
        )
        rest = rest | (word << shift)
        h = mixed(h, rest & WORD)
        rest = rest >> np.uint64(32)
        at += 4
    left = end - at
    if left > 0:
        # One to three bytes without a branch on how many: the first, the middle and the last, which may be the same.
        middle, last = left >> 1, left - 1
        word = (
            np.uint64(text[np.uint64(at)])
            | (np.uint64(text[np.uint64(at + middle)]) << np.uint64(8 * middle))
            | (np.uint64(text[np.uint64(at + last)]) << np.uint64(8 * last))
        )
        rest = rest | (word << shift)
        if shift + np.uint64(8 * left) >= np.uint64(32):
            h = mixed(h, rest & WORD)
            rest = rest >> np.uint64(32)
    return h, rest, length + (end - start)


CARET = np.frombuffer(b"^", dtype=np.uint8)


@formula
def add_caret(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """The state after the sign between a namespace and a feature."""
    return add_bytes(CARET, 0, 1, state)


@formula
def end_name(state: tuple[Any, Any, Any]) -> Any:
    """The hash of the whole name."""
    h, rest, length = state
    if length & 3:
        h = h ^ scrambled(rest)
    h = h ^ (np.uint64(length) & WORD)
    h = ((h ^ (h >> np.uint64(16))) * F1) & WORD
    h = ((h ^ (h >> np.uint64(13))) * F2) & WORD
    return h ^ (h >> np.uint64(16))
