"""What the loops over lines share: blanks, ends of lines, UTF-8, and notes of bad lines."""

from typing import Any

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.streams.text.numbers import byte
from giftrl.streams.text.problems import Problem

__all__ = ["at_end", "blame", "blank", "broken_utf8", "note", "skip_blanks", "skip_line"]

TAB, NEWLINE, RETURN, SPACE, HASH, COLON = 9, 10, 13, 32, 35, 58


@formula
def blank(c: Any) -> Any:
    """Whether a byte is a space or a tab."""
    return (c == SPACE) | (c == TAB)


@formula
def skip_blanks(block: Any, at: Any) -> Any:
    """The first place from ``at`` on that holds neither space nor tab."""
    while blank(byte(block, at)):
        at += 1
    return at


@formula
def skip_line(block: Any, at: Any) -> Any:
    """Where the line after the one at ``at`` begins."""
    while byte(block, at) != NEWLINE:
        at += 1
    return at + 1


@formula
def at_end(block: Any, at: Any) -> Any:
    """Whether a line ends here: a newline, or a carriage return and a newline."""
    c = byte(block, at)
    ends = c == NEWLINE
    if c == RETURN:
        ends = byte(block, at + 1) == NEWLINE
    return ends


@formula
def blame(block: Any, at: Any, start: Any, problem: Any) -> tuple[Any, Any]:
    """What is wrong, and where, with a field that is valid from ``start`` up to ``at`` only.

    ``problem`` is the answer unless a NUL or a stray carriage return ended the field.
    """
    c = byte(block, at)
    if c == 0:
        start = at
        problem = Problem.NUL
    elif c == RETURN and not at_end(block, at):
        start = at
        problem = Problem.STRAY_RETURN
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


@formula
def broken_utf8(block: Any, start: Any, end: Any) -> Any:
    """The first place from ``start`` to ``end`` at which the bytes are not UTF-8; -1 where all are.

    The well-formed sequences are those of table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing
    above U+10FFFF.
    """
    broken = -1
    at = start
    while at < end and broken < 0:
        c = byte(block, at)
        size = 1
        if c >= 0x80:
            # How long the character is, and what its second byte may be; the others are from 0x80 to 0xBF.
            low, high = 0x80, 0xBF
            if 0xC2 <= c <= 0xDF:
                size = 2
            elif 0xE0 <= c <= 0xEF:
                size = 3
                low = 0xA0 if c == 0xE0 else 0x80
                high = 0x9F if c == 0xED else 0xBF
            elif 0xF0 <= c <= 0xF4:
                size = 4
                low = 0x90 if c == 0xF0 else 0x80
                high = 0x8F if c == 0xF4 else 0xBF
            if size == 1 or at + size > end or byte(block, at + 1) < low or byte(block, at + 1) > high:
                broken = at
            else:
                for k in range(2, size):
                    if byte(block, at + k) < 0x80 or byte(block, at + k) > 0xBF:
                        broken = at
        at += size
    return broken
