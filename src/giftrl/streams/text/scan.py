"""Formulas shared by loops over lines: blanks, ends of lines, tables of words, and records of bad lines."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.batch import Rejected
from giftrl.streams.text.numbers import byte

TAB, NEWLINE, RETURN, SPACE, HASH, COLON = 9, 10, 13, 32, 35, 58


@formula
def blank(c: Any) -> Any:
    """True for a space or a tab."""
    return (c == SPACE) | (c == TAB)


@formula
def skip_blanks(block: Any, at: Any) -> Any:
    """The first place from ``at`` on that holds neither space nor tab."""
    while blank(byte(block, at)):
        at += 1
    return at


@formula
def skip_line(block: Any, at: Any) -> Any:
    """The place at which the next line begins."""
    while byte(block, at) != NEWLINE:
        at += 1
    return at + 1


@formula
def at_end(block: Any, at: Any) -> Any:
    """True at a newline, or at a carriage return before one."""
    c = byte(block, at)
    ends = c == NEWLINE
    if c == RETURN:
        ends = byte(block, at + 1) == NEWLINE
    return ends


@formula
def blame(block: Any, at: Any, start: Any, problem: Any) -> tuple[Any, Any]:
    """The problem, and its place, of a field that is valid from ``start`` up to ``at`` only.

    ``problem`` is the answer unless a NUL or a stray carriage return ended the field.
    """
    c = byte(block, at)
    if c == 0:
        start = at
        problem = Fault.NUL
    elif c == RETURN and not at_end(block, at):
        start = at
        problem = Fault.STRAY_RETURN
    return problem, start


@formula
def note(bad: Any, count: Any, line: Any, begin: Any, spot: Any, problem: Any) -> Any:
    """Record a rejected line; returns how many there are."""
    k = np.uint64(4 * count)
    bad[k] = line
    bad[k + np.uint64(1)] = begin
    bad[k + np.uint64(2)] = spot
    bad[k + np.uint64(3)] = problem
    return count + 1


def mark_broken(block: NDArray[np.uint8], mark: int) -> NDArray[np.uint8]:
    """A block with a mark in place of the first byte of each line that is not UTF-8."""
    if block.max(initial=0) < 0x80:
        return block
    import pyarrow as pa  # which checks 2.4 GB/s of Chinese and 5.9 GB/s of French; Python decodes 0.6 and 2.3

    text = [None, pa.py_buffer(np.array([0, len(block)])), pa.py_buffer(block)]
    try:
        pa.Array.from_buffers(pa.large_string(), 1, text).validate(full=True)
    except pa.ArrowInvalid:
        marked, begin = block.copy(), 0
        for line in block.tobytes().split(b"\n"):
            try:
                line.decode()
            except UnicodeDecodeError as broken:
                marked[begin + broken.start] = mark
            begin += len(line) + 1
        marked.flags.writeable = False
        return marked
    return block


# Problems of a line of text, and their messages.

RAW = 4096  # bytes of a rejected line that are kept
TOKEN = 40  # bytes of what is wrong that a message shows


class Fault(IntEnum):
    """The codes that a compiled loop gives for what is wrong with a line; 0 is nothing."""

    (
        LABEL, LABEL_TOO_LARGE, NO_LABEL, QUERY, INDEX, INDEX_RANGE, NO_COLON, VALUE, VALUE_TOO_LARGE, REPEATED,
        STRAY_RETURN, SUM_TOO_LARGE, NO_BAR, TAB_BEFORE_BAR, MANY_NUMBERS, IMPORTANCE, IMPORTANCE_TOO_LARGE,
        NEGATIVE_IMPORTANCE, BASE, BASE_TOO_LARGE, NAMESPACE, LONG_NAMESPACE, SCALE, SCALE_TOO_LARGE,
        SCALED_TOO_LARGE, NO_NAME, ENCODING, NUL, MANY_NAMES,
        HARD,  # nothing wrong: a number that the loop leaves to Python
    ) = range(1, 31)  # fmt: skip


FINITE = "a finite number"
RANGE = "at most 1.797e308 in magnitude"

#: For each code: the problem, whether the text there is shown, and what was expected.
PROBLEMS: dict[int, tuple[str, bool, str]] = {
    Fault.LABEL: ("a label that is not a number", True, FINITE),
    Fault.LABEL_TOO_LARGE: ("a label too large for float64", True, RANGE),
    Fault.NO_LABEL: ("no label before the first feature", True, "a label at the beginning of the line"),
    Fault.QUERY: ("a qid that is not a whole number", True, "qid:digits"),
    Fault.INDEX: ("an index that is not a whole number", True, "index:value, the index written in digits"),
    Fault.INDEX_RANGE: (
        "an index out of range", True, "an index from 1 to 9223372036854775807; add 1 if a file counts from 0",
    ),
    Fault.NO_COLON: ("a feature without a colon", True, "index:value"),
    Fault.VALUE: ("a value that is not a number", True, FINITE),
    Fault.VALUE_TOO_LARGE: ("a value too large for float64", True, RANGE),
    Fault.REPEATED: ("an index used twice in a row", True, "each index at most once"),
    Fault.STRAY_RETURN: ("a carriage return inside a line", False, "one only before the newline"),
    Fault.SUM_TOO_LARGE: ("values of one feature whose sum is too large for float64", False, RANGE),
    Fault.NO_BAR: ("no bar", True, "label | features, with a bar before the features"),
    Fault.TAB_BEFORE_BAR: ("a tab before the first bar", False, "spaces there"),
    Fault.MANY_NUMBERS: ("a fourth number before the first bar", True, "at most label, importance and base"),
    Fault.IMPORTANCE: ("an importance that is not a number", True, FINITE + ", or a tag that touches the bar"),
    Fault.IMPORTANCE_TOO_LARGE: ("an importance too large for float64", True, RANGE),
    Fault.NEGATIVE_IMPORTANCE: ("an importance below 0", True, "0 or more"),
    Fault.BASE: ("a base that is not a number", True, FINITE + ", or a tag that touches the bar or begins with '"),
    Fault.BASE_TOO_LARGE: ("a base too large for float64", True, RANGE),
    Fault.NAMESPACE: ("a colon where a namespace should be", True, "a namespace, or a space after the bar"),
    Fault.LONG_NAMESPACE: ("a namespace of more than 255 bytes", True, "at most 255"),
    Fault.SCALE: ("a factor of a namespace that is not a number", True, FINITE),
    Fault.SCALE_TOO_LARGE: ("a factor of a namespace too large for float64", True, RANGE),
    Fault.SCALED_TOO_LARGE: ("a value that is too large for float64 times the factor of its namespace", True, RANGE),
    Fault.NO_NAME: ("a feature without a name", True, "feature or feature:value"),
    Fault.ENCODING: ("bytes that are not UTF-8", True, "names and tags in UTF-8"),
    Fault.NUL: ("a NUL byte", False, "text"),
    Fault.MANY_NAMES: ("more features than n-grams can be made of", False, "a shorter row, or shorter n-grams"),
}  # fmt: skip


def rejected(block: NDArray[np.uint8], source: str, line: int, begin: int, spot: int, code: int) -> Rejected:
    """The record of a line that begins at one place of a block and is wrong at another."""
    problem, shown, expected = PROBLEMS[code]
    if shown:
        there = block[spot : spot + TOKEN + 1].tobytes()
        word_table = there.partition(b"\n")[0].split()
        token = word_table[0] if word_table and not there[:1].isspace() else b""
        text = token[:TOKEN].decode(errors="backslashreplace")
        problem += f": {text!r}" + ("..." if len(token) > TOKEN else "")
    raw = block[begin : begin + RAW].tobytes().partition(b"\n")[0]
    return Rejected(source, line, spot - begin + 1, problem, expected, raw.removesuffix(b"\r"))


# Tables of words for compiled loops.

#: Words, one after the other, and where each ends; the first number is 0.
WordTable = tuple[NDArray[np.uint8], NDArray[np.int64]]


def word_table(given: Iterable[str | None]) -> WordTable:
    """Words for compiled loops; None for one that there is not."""
    # A quote is in no key that the loops read, so that this word equals none of them.
    raw = [b'"' if word is None else word.encode("utf-8", "replace") for word in given]
    return np.frombuffer(bytearray(b"".join(raw)), np.uint8), np.cumsum([0, *map(len, raw)], dtype=np.int64)


NO_WORDS = word_table(())


@formula
def find_word(text: Any, start: Any, end: Any, listed: Any) -> Any:
    """The number of the word ``text[start:end]`` in a table; -1 if it is not there."""
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
