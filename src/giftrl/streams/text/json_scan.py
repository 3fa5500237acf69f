"""JSON lines in compiled loops: they read what is plain, and leave every other line to the slow reader.

Plain is a line without a mistake, of the layout that is expected, without a backslash in a string, and with objects not
too deep inside each other. What such a line means is the same for both readers.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.streams.text.json_entries import LONGEST, Entries, Plan, find_entries
from giftrl.streams.text.json_tokens import (
    DEEPEST,
    DONE,
    LINE,
    LINES,
    MORE_LINES,
    MORE_TOKENS,
    TOKENS,
    Tokens,
    find_tokens,
)
from giftrl.streams.text.numbers import long_numbers

__all__ = ["JsonScanner"]


class JsonScanner:
    """Runs the loops over blocks; the arrays that they write to are kept from block to block.

    Args:
        compiled: False to run the loops as plain Python.

    >>> scanner = JsonScanner()
    >>> plan = scanner.plan(False, "label", None, (), ())
    >>> block = np.frombuffer(b'{"label": 1, "a": {"b": 2}}\\n{"a": "x\\\\n"}\\n', np.uint8)
    >>> entries, others, line = scanner.scan(block, 1, plan)
    >>> entries.labels.tolist(), entries.text.tobytes(), others.tolist(), line
    ([1.0], b'a^b', [[2, 28]], 3)
    """

    def __init__(self, *, compiled: bool = True) -> None:
        self._compiled = compiled
        self._limbs = long_numbers()
        self._scratch = np.empty(LONGEST, np.uint8), np.empty(DEEPEST + 2, np.int64)
        self._tokens = _tokens(16, 64)
        self._text = np.empty(0, np.uint8)

    @staticmethod
    def plan(
        inside: bool, label: str | None, weight: str | None, ignored: Iterable[str], categorical: Iterable[str]
    ) -> Plan:
        """What the keys mean; None for a key that there is not."""
        # A quote is in no key, so that this one is never found.
        none = '"'
        keys = [_bytes([word])[0] for word in (label or none, weight or none, "tag", "features")]
        return Plan(inside, keys[0], keys[1], keys[2], keys[3], *_bytes(ignored), *_bytes(categorical))

    def scan(self, block: NDArray[np.uint8], line: int, plan: Plan) -> tuple[Entries, NDArray[np.int64], int]:
        """What plain lines mean; for each line that is not plain, its number and its place; the line that follows.

        The arrays are written over by the next call.
        """
        tokens = self._tokens
        state = np.array([0, line, 0, 0], np.int64)
        loop = ready(find_tokens, self._compiled)
        while (why := int(loop(block, state, tokens))) != DONE:
            lines, size = len(tokens.lines), len(tokens.kinds)
            more = _tokens(2 * lines if why == MORE_LINES else lines, 2 * size if why == MORE_TOKENS else size)
            for name in Tokens._fields:
                getattr(more, name)[: len(getattr(tokens, name))] = getattr(tokens, name)
            tokens = more
        self._tokens = tokens
        count, used = int(state[LINES]), int(state[TOKENS])
        entries = self._entries(block, tokens, count, used, plan)
        others = ~tokens.plain[:count]
        found = np.stack([tokens.lines[:count][others], tokens.begins[:count][others]], axis=1)
        return entries, found, int(state[LINE])

    def _entries(self, block: NDArray[np.uint8], tokens: Tokens, count: int, used: int, plan: Plan) -> Entries:
        ascii_ = len(block) == 0 or int(block.max()) < 0x80
        loop = ready(find_entries, self._compiled)
        if len(self._text) < 2 * len(block):
            self._text = np.empty(2 * len(block) + LONGEST, np.uint8)
        sizes = [used] * 5 + [count] * 6
        types = [np.float64 if name in ("values", "labels", "weights") else np.int64 for name in Entries._fields[:11]]
        arrays: list[Any] = [np.empty(size, type_) for size, type_ in zip(sizes, types, strict=True)]
        room = Entries._make([*arrays, self._text])
        while True:
            found, size, written = loop(block, tokens, count, used, plan, room, ascii_, self._limbs, *self._scratch)
            if found >= 0:
                break
            self._text = np.empty(2 * len(self._text), np.uint8)
            room = room._replace(text=self._text)
        sizes = [size] * 5 + [found] * 6 + [written]
        cut: list[Any] = [getattr(room, name)[:size] for name, size in zip(Entries._fields, sizes, strict=True)]
        return Entries._make(cut)


def _tokens(lines: int, size: int) -> Tokens:
    return Tokens(
        kinds=np.empty(size, np.uint8),
        starts=np.empty(size, np.int64),
        ends=np.empty(size, np.int64),
        lines=np.empty(lines, np.int64),
        begins=np.empty(lines, np.int64),
        firsts=np.empty(lines, np.int64),
        plain=np.empty(lines, np.bool_),
    )


def _bytes(words: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Words, one after the other, and where each ends."""
    raw = [word.encode("utf-8", "replace") for word in words]
    return np.frombuffer(bytearray(b"".join(raw)), np.uint8), np.cumsum([0, *map(len, raw)], dtype=np.int64)
