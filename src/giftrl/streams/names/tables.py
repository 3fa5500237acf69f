"""The tables behind :mod:`giftrl.streams.names.features`: one that hashes names, and one that knows them exactly.

:mod:`giftrl.streams.names.loops` says what their methods mean.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.names.loops import CARET, FULL, UNKNOWN, name_size, write_name
from giftrl.streams.names.murmur import add_bytes, begin_name, end_name

CUT = 255  # bytes of a name that a hash table logs at most; a name of that size may be longer
NAMELESS = 2**30  # in the log, added to a slot whose name is not kept

NEWS = 0  # the count of a hash table
NAMES, DROPPED = range(2)  # the counts of an exact one


class HashTable(NamedTuple):
    """A slot for every name: abs(MurmurHash3) modulo their number, a power of two; the sign of the hash its sign.

    Two bits for each slot tell whether a name, and whether its own number, came to it. What comes to a slot first is
    logged: the slot with the name, or the complement of the slot where it is the slot's own number.
    """

    named: NDArray[np.uint8]
    numbered: NDArray[np.uint8]
    news: NDArray[np.int32]
    ends: NDArray[np.int64]  # where the name of each news ends in the arena; the first number is 0
    arena: NDArray[np.uint8]
    counts: NDArray[np.int64]
    mask: np.uint64  # the last slot

    def known_name(self, h: Any, text: Any, name: Any, frozen: bool) -> Any:
        slot = hash_slot(h, self.mask)
        return np.int64(slot) if frozen | has_bit(self.named, slot) else np.int64(UNKNOWN)

    def new_name(self, h: Any, text: Any, name: Any, frozen: bool) -> Any:
        slot = hash_slot(h, self.mask)
        k = self.counts[NEWS]
        if k == len(self.news) or self.ends[k] + CUT > len(self.arena):
            return FULL
        set_bit(self.named, slot)
        self.news[k] = slot
        self.ends[k + 1] = self.ends[k]
        if has_bit(self.numbered, slot):
            self.news[k] = NAMELESS + np.int64(slot)
        else:
            self.ends[k + 1] = write_name(self.arena, self.ends[k], text, name, CUT)
        self.counts[NEWS] = k + 1
        return np.int64(slot)

    def sign(self, h: Any) -> Any:
        return -1.0 if h >> np.uint64(31) else 1.0

    def own_slot(self, n: Any, frozen: bool) -> Any:
        if n > self.mask:
            return np.int64(UNKNOWN)
        if not (frozen | has_bit(self.numbered, n)):
            k = self.counts[NEWS]
            if k == len(self.news):
                return np.int64(FULL)
            set_bit(self.numbered, n)
            self.news[k] = ~np.int64(n)
            self.ends[k + 1] = self.ends[k]
            self.counts[NEWS] = k + 1
        return np.int64(n)


@formula
def hash_slot(h: Any, mask: Any) -> Any:
    """The magnitude of a hash, read as a signed number of 32 bits, modulo a power of two."""
    signed = np.int64(h)
    return np.uint64(2**32 - signed if signed >= 2**31 else signed) & mask


@formula
def has_bit(bits: Any, slot: Any) -> Any:
    """Whether the bit of a slot is set."""
    return (np.int64(bits[slot >> np.uint64(3)]) >> np.int64(slot & np.uint64(7))) & 1 == 1


@formula
def set_bit(bits: Any, slot: Any) -> None:
    """Set the bit of a slot."""
    k = slot >> np.uint64(3)
    bits[k] = bits[k] | np.uint8(1 << np.int64(slot & np.uint64(7)))


class ExactTable(NamedTuple):
    """Every name has a number of its own, from 1 on, in the order of first sight: a hash table with open addressing."""

    cells: NDArray[np.uint64]  # the hash in the upper half and the number in the lower; 0 where empty
    ends: NDArray[np.int64]  # name i is arena[ends[i - 1]:ends[i]]
    arena: NDArray[np.uint8]
    by_number: NDArray[np.int32]  # the number of the name of a small whole number, or 0: a short cut
    counts: NDArray[np.int64]

    def known_name(self, h: Any, text: Any, name: Any, frozen: bool) -> Any:
        last = np.uint64(len(self.cells) - 1)
        at = h & last
        cell = self.cells[at]
        number = np.int64(UNKNOWN)
        while (cell != np.uint64(0)) & (number < 0):
            i = cell & np.uint64(2**32 - 1)
            if cell >> np.uint64(32) == h:
                same = same_name(self.arena, self.ends[i - np.uint64(1)], self.ends[i], text, name)
                number = np.int64(i) if same else np.int64(UNKNOWN)
            at = (at + np.uint64(1)) & last
            cell = self.cells[at]
        return number

    def new_name(self, h: Any, text: Any, name: Any, frozen: bool) -> Any:
        if frozen:
            self.counts[DROPPED] += 1
            return UNKNOWN
        i = self.counts[NAMES] + 1
        begin = self.ends[i - 1]
        size = name_size(name)
        if 2 * i > len(self.cells) or i >= len(self.ends) or begin + size > len(self.arena):
            return FULL
        self.ends[i] = write_name(self.arena, begin, text, name, size)
        self.counts[NAMES] = i
        enter(self.cells, h, i)
        return i

    def own_slot(self, n: Any, frozen: bool) -> Any:
        small = n < np.uint64(len(self.by_number))
        i = np.int64(self.by_number[n if small else np.uint64(0)])  # no number is 0: its place stays empty
        return i if i > 0 else np.int64(UNKNOWN)

    def remember_number(self, n: Any, slot: Any) -> None:
        if n < np.uint64(len(self.by_number)) and slot > 0:
            self.by_number[n] = slot


@formula
def same_name(arena: Any, at: Any, end: Any, text: Any, name: Any) -> Any:
    """Whether ``arena[at:end]`` is a name."""
    head, tail, start, stop = name
    same = end - at == name_size(name)
    if tail > head:
        k = head
        while (k < tail) & same:
            same = arena[np.uint64(at)] == text[np.uint64(k)]
            at += 1
            k += 1
        if same:
            same = arena[np.uint64(at)] == CARET
        at += 1
    k = start
    while (k < stop) & same:
        same = arena[np.uint64(at)] == text[np.uint64(k)]
        at += 1
        k += 1
    return same


@formula
def enter(cells: Any, h: Any, i: Any) -> None:
    """Write a name into the first empty cell from its hash on."""
    last = np.uint64(len(cells) - 1)
    at = h & last
    while cells[at] != np.uint64(0):
        at = (at + np.uint64(1)) & last
    cells[at] = (h << np.uint64(32)) | np.uint64(i)


@formula
def enter_all(cells: Any, arena: Any, ends: Any, count: Any) -> None:
    """Write names 1 to count, which are known to differ, into empty cells."""
    for i in range(1, count + 1):
        h = end_name(add_bytes(arena, ends[i - 1], ends[i], begin_name()))
        enter(cells, h, i)
