"""JSON lines, first loop: the tokens of each line, if they follow each other as they should."""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.text.numbers import digit, pin
from giftrl.streams.text.scan import NEWLINE, RETURN, SPACE, TAB

__all__ = ["DEEPEST", "Token", "Tokens", "find_tokens", "is_word"]

QUOTE, BACKSLASH, COMMA, COLON, MINUS = 34, 92, 44, 58, 45
BRACE, UNBRACE, BRACKET, UNBRACKET = 123, 125, 91, 93
WORDS = np.frombuffer(b"truefalsenull", np.uint8)

#: Objects and lists inside each other that the loops follow.
DEEPEST = 32


class Token(IntEnum):
    """The parts of a line."""

    OPEN, CLOSE, LIST, UNLIST, KEY, TEXT, NUMBER, TRUE, FALSE, NULL = range(10)


class Next(IntEnum):
    """What may come next: anything; a key or the end; a key; a colon; an item or the end; a comma or the end."""

    VALUE, FIRST_KEY, KEY, COLON, FIRST_ITEM, COMMA, NOTHING = range(7)


#: What the loops carry from call to call, and why they stopped.
AT, LINE, LINES, TOKENS = range(4)
DONE, MORE_LINES, MORE_TOKENS = range(3)


class Tokens(NamedTuple):
    """The parts of all lines that are not blank."""

    kinds: NDArray[np.uint8]
    starts: NDArray[np.int64]  # of texts, without their quotes
    ends: NDArray[np.int64]
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]  # where the line begins in the block
    firsts: NDArray[np.int64]  # its first token
    plain: NDArray[np.bool_]


@formula
def is_word(block: Any, start: Any, end: Any, words: Any, first: Any, last: Any) -> Any:
    """Whether the bytes between two places are a word, which is between two places of another array."""
    same = end - start == last - first
    if same:
        for k in range(last - first):
            same &= block[np.uint64(start + k)] == words[np.uint64(first + k)]
    return pin(words, pin(block, same))


@formula
def find_tokens(block: Any, state: Any, tokens: Any) -> Any:
    """Find the tokens of a block, which ends with a newline, from where the state is; why it stopped.

    A line whose tokens do not follow each other as they should is marked as not plain.
    """
    kinds, starts, ends, lines, begins, firsts, plains = tokens
    at, line, count, used = state[AT], state[LINE], state[LINES], state[TOKENS]
    size = len(block)
    why = DONE
    while at < size and why == DONE:
        begin, first = at, used
        objects, depth = np.uint64(0), 0  # a bit for each level: whether it is an object
        following = Next.VALUE
        plain = True
        c = np.int64(block[np.uint64(at)])
        while plain and c != NEWLINE:
            if c in (SPACE, TAB, RETURN):
                at += 1
            elif used + 1 >= len(kinds) or count + 1 >= len(lines):
                why = MORE_LINES if count + 1 >= len(lines) else MORE_TOKENS
                plain = False
            elif c == COLON:
                plain = following == Next.COLON
                following = Next.VALUE
                at += 1
            elif c == COMMA:
                plain = following == Next.COMMA and depth > 0
                following = Next.KEY if objects & np.uint64(1) else Next.VALUE
                at += 1
            elif c in (UNBRACE, UNBRACKET):
                # An object ends behind a value or at once, and so does a list.
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
                value = following == Next.VALUE or following == Next.FIRST_ITEM
                if c == QUOTE:
                    key = following == Next.KEY or following == Next.FIRST_KEY
                    plain = key or value
                    kind = Token.KEY if key else Token.TEXT
                    start += 1
                    at += 1
                    c = np.int64(block[np.uint64(at)])
                    while c != QUOTE and c != BACKSLASH and c >= SPACE:
                        at += 1
                        c = np.int64(block[np.uint64(at)])
                    plain &= c == QUOTE
                    ends[np.uint64(used)] = at
                    at += 1 if c == QUOTE else 0  # never beyond the line
                    following = Next.COLON if key else Next.COMMA
                elif c in (BRACE, BRACKET):
                    plain = value and depth < DEEPEST
                    kind = Token.OPEN if c == BRACE else Token.LIST
                    objects = (objects << np.uint64(1)) | np.uint64(c == BRACE)
                    depth += 1
                    at += 1
                    following = Next.FIRST_KEY if c == BRACE else Next.FIRST_ITEM
                elif c == MINUS or digit(c):
                    plain = value
                    kind = Token.NUMBER
                    while c > COMMA and c != COLON and c != UNBRACKET and c != UNBRACE:
                        at += 1
                        c = np.int64(block[np.uint64(at)])
                        if c == 43:  # the sign of an exponent; the only byte of a number below the comma
                            at += 1
                            c = np.int64(block[np.uint64(at)])
                    ends[np.uint64(used)] = at
                    following = Next.COMMA
                else:
                    plain = value
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
            c = np.int64(block[np.uint64(at)])
        if why == DONE:
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
        else:
            at, used = begin, first
    state[AT], state[LINE], state[LINES], state[TOKENS] = at, line, count, used
    return why
