"""JSON lines, first loop: the tokens of each line, and whether they follow each other as they should."""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.text.numbers import byte, digit
from giftrl.streams.text.scan import COLON, NEWLINE, RETURN, SPACE, TAB

__all__ = ["DEEPEST", "Token", "Tokens", "find_tokens", "is_word", "make_tokens"]

QUOTE, BACKSLASH, COMMA, PLUS, MINUS = 34, 92, 44, 43, 45
BRACE, UNBRACE, BRACKET, UNBRACKET = 123, 125, 91, 93
WORDS = np.frombuffer(b"truefalsenull", np.uint8)

#: How many objects and lists may be nested in each other.
DEEPEST = 32


class Token(IntEnum):
    """The parts of a line."""

    OPEN, CLOSE, LIST, UNLIST, KEY, TEXT, NUMBER, TRUE, FALSE, NULL = range(10)


class Next(IntEnum):
    """What may come next; the names with FIRST and COMMA allow the end of an object or list as well."""

    VALUE, FIRST_KEY, KEY, COLON, FIRST_ITEM, COMMA, NOTHING = range(7)


class Tokens(NamedTuple):
    """The tokens of a block; and its lines that are not blank."""

    kinds: NDArray[np.uint8]
    starts: NDArray[np.int32]  # of a text: without its quotes
    ends: NDArray[np.int32]
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]  # where each line begins in the block
    firsts: NDArray[np.int64]  # its first token
    plain: NDArray[np.bool_]  # whether the loops can read it


def make_tokens(size: int) -> Tokens:
    """Buffers for all tokens that a block of this size can have; pages that are not written to take no memory."""
    types: list[Any] = [np.uint8, np.int32, np.int32, np.int64, np.int64, np.int64, np.bool_]
    return Tokens(*(np.empty(size + 1, type_) for type_ in types))


@formula
def is_word(block: Any, start: Any, end: Any, words: Any, first: Any, last: Any) -> Any:
    """Whether ``block[start:end]`` equals ``words[first:last]``."""
    same = end - start == last - first
    if same:
        for k in range(last - first):
            same &= block[np.uint64(start + k)] == words[np.uint64(first + k)]
    return same


@formula
def find_tokens(block: Any, line: Any, tokens: Any) -> tuple[Any, Any, Any]:
    """Find the tokens of a block, which ends with a newline: how many lines and tokens, and the line after the last.

    A line whose tokens do not follow each other as they should is marked as not plain, and has no tokens.
    """
    kinds, starts, ends, lines, begins, firsts, plains = tokens
    at, count, used = 0, 0, 0
    size = len(block)
    while at < size:
        begin, first = at, used
        objects, depth = np.uint64(0), 0  # a bit for each level: whether it is an object
        following = Next.VALUE
        plain = True
        c = byte(block, at)
        while plain and c != NEWLINE:
            if c in (SPACE, TAB, RETURN):
                at += 1
            elif c == COLON:
                plain = following == Next.COLON
                following = Next.VALUE
                at += 1
            elif c == COMMA:
                plain = following == Next.COMMA and depth > 0
                following = Next.KEY if objects & np.uint64(1) else Next.VALUE
                at += 1
            elif c in (UNBRACE, UNBRACKET):
                # An object or a list ends behind a value, or right where it began.
                in_object = objects & np.uint64(1) == np.uint64(1)
                empty = following == (Next.FIRST_KEY if in_object else Next.FIRST_ITEM)
                plain = depth > 0 and (empty or following == Next.COMMA) and in_object == (c == UNBRACE)
                kinds[np.uint64(used)] = Token.CLOSE if in_object else Token.UNLIST
                used += 1
                at += 1
                depth -= 1
                objects = objects >> np.uint64(1)
                following = Next.COMMA if depth > 0 else Next.NOTHING
            else:
                start, kind = at, Token.NULL
                plain = following == Next.VALUE or following == Next.FIRST_ITEM
                if c == QUOTE:
                    key = following == Next.KEY or following == Next.FIRST_KEY
                    kind = Token.KEY if key else Token.TEXT
                    start += 1
                    at += 1
                    c = byte(block, at)
                    while c != QUOTE and c != BACKSLASH and c >= SPACE:
                        at += 1
                        c = byte(block, at)
                    plain = (key or plain) and c == QUOTE
                    ends[np.uint64(used)] = at
                    at += 1 if c == QUOTE else 0  # never beyond the line
                    following = Next.COLON if key else Next.COMMA
                elif c in (BRACE, BRACKET):
                    plain &= depth < DEEPEST
                    kind = Token.OPEN if c == BRACE else Token.LIST
                    objects = (objects << np.uint64(1)) | np.uint64(c == BRACE)
                    depth += 1
                    at += 1
                    following = Next.FIRST_KEY if c == BRACE else Next.FIRST_ITEM
                elif c == MINUS or digit(c):
                    kind = Token.NUMBER
                    while (c > COMMA and c != COLON and c != UNBRACKET and c != UNBRACE) or c == PLUS:
                        at += 1
                        c = byte(block, at)
                    ends[np.uint64(used)] = at
                    following = Next.COMMA
                else:
                    following = Next.COMMA
                    if at + 5 < size and is_word(block, at, at + 4, WORDS, 0, 4):
                        kind = Token.TRUE
                        at += 4
                    elif at + 5 < size and is_word(block, at, at + 5, WORDS, 4, 9):
                        kind = Token.FALSE
                        at += 5
                    elif at + 5 < size and is_word(block, at, at + 4, WORDS, 9, 13):
                        at += 4
                    else:
                        plain = False
                if depth == 0 and following == Next.COMMA:
                    plain = False  # no object
                kinds[np.uint64(used)] = kind
                starts[np.uint64(used)] = start
                used += 1
            c = byte(block, at)
        if not plain:
            used = first
        if used > first or not plain:
            k = np.uint64(count)
            lines[k], begins[k], firsts[k] = line, begin, first
            plains[k] = plain and following == Next.NOTHING and kinds[np.uint64(first)] == Token.OPEN
            count += 1
        while block[np.uint64(at)] != NEWLINE:
            at += 1
        at += 1
        line += 1
    return count, used, line
