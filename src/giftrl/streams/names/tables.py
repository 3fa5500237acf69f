"""The tables behind :mod:`giftrl.streams.names.features`: one that hashes names, and one that knows them exactly.

What their methods mean is in :mod:`giftrl.streams.names.loops`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.names.loops import CARET, FULL, UNKNOWN, name_size, write_name
from giftrl.streams.names.murmur import GOLDEN, add_bytes, begin_name, end_name
from giftrl.streams.text.numbers import pin

__all__ = ["ExactTable", "HashTable", "enter_all", "fill_seconds", "thin_seconds"]

KEPT = 254  # bytes of a name that a hash table keeps
CUT = 255  # stands for the size of a name that was longer
OTHERS = 2**16  # cells for the names that came second to their slot
FOUND = np.uint64(2**63)  # a hash in the set has this bit, so that it is never 0, which marks an empty cell

USED, ARENA, SECOND, LEVEL = range(4)  # the counts of a hash table
NAMES, DROPPED = range(2)  # the counts of an exact one


class HashTable(NamedTuple):
    """A slot for every name: abs(MurmurHash3) modulo their number, a power of two; the sign of the hash its sign."""

    prints: NDArray[np.uint32]  # bits of the second hash of a slot's name, never 0; 0 where it has no name
    begins: NDArray[np.int64]  # where that name is in the arena; -1 where a number came to the slot before
    sizes: NDArray[np.uint8]  # how long it is, or CUT
    numbered: NDArray[np.uint8]  # for each slot, a bit: its own number was used
    arena: NDArray[np.uint8]
    others: NDArray[np.uint64]  # a set of second hashes: the names that came second to their slot
    counts: NDArray[np.int64]

    def known_name(self, h: Any, f: Any, text: Any, name: Any, frozen: bool) -> Any:
        slot = hash_slot(h, len(self.prints))
        known = frozen | (self.prints[slot] == key(f))
        if (not known) & (self.prints[slot] != 0):
            known = was_second(self.others, self.counts[LEVEL], f)
        return pin(self, np.int64(slot) if known else np.int64(UNKNOWN))

    def new_name(self, h: Any, f: Any, text: Any, name: Any, frozen: bool) -> Any:
        slot = hash_slot(h, len(self.prints))
        if self.counts[ARENA] + KEPT > len(self.arena) or 2 * self.counts[SECOND] >= len(self.others):
            return FULL
        if self.prints[slot] != 0:
            note_second(self.others, self.counts, f)
        elif has_number(self.numbered, slot):
            self.prints[slot] = key(f)
            self.begins[slot] = -1
            note_second(self.others, self.counts, f)
        else:
            size = name_size(name)
            self.prints[slot] = key(f)
            self.begins[slot] = self.counts[ARENA]
            self.sizes[slot] = size if size <= KEPT else CUT
            self.counts[ARENA] = write_name(self.arena, self.counts[ARENA], text, name, KEPT)
            self.counts[USED] += 1
        return np.int64(slot)

    def sign(self, h: Any) -> Any:
        return -1.0 if h >> np.uint64(31) else 1.0

    def known_number(self, n: Any, frozen: bool) -> Any:
        slot = n & np.uint64(len(self.prints) - 1)
        return np.int64(n) if (slot == n) & (frozen | has_number(self.numbered, slot)) else np.int64(UNKNOWN)

    def has_own_slot(self, n: Any) -> Any:
        return n < np.uint64(len(self.prints))

    def new_number(self, n: Any) -> Any:
        if 2 * self.counts[SECOND] >= len(self.others):
            return FULL
        k = n >> np.uint64(3)
        self.numbered[k] = self.numbered[k] | np.uint8(1 << np.int64(n & np.uint64(7)))
        if self.prints[n] == 0:
            self.counts[USED] += 1
        else:
            f = (n + np.uint64(1)) * GOLDEN
            note_second(self.others, self.counts, f ^ (f >> np.uint64(32)))
        return np.int64(n)

    def remember_number(self, n: Any, slot: Any) -> None:
        pass


@formula
def hash_slot(h: Any, size: Any) -> Any:
    """The magnitude of a hash, read as a signed number of 32 bits, modulo a power of two."""
    signed = np.int64(h)
    return np.uint64(2**32 - signed if signed >= 2**31 else signed) & np.uint64(size - 1)


@formula
def key(f: Any) -> Any:
    """The bits of the second hash that are kept for a slot; never 0."""
    return np.uint32(f >> np.uint64(32)) | np.uint32(1)


@formula
def has_number(numbered: Any, slot: Any) -> Any:
    """Whether the bit of a slot is set."""
    return (np.int64(numbered[slot >> np.uint64(3)]) >> np.int64(slot & np.uint64(7))) & 1 == 1


@formula
def cell_of_second(others: Any, f: Any) -> Any:
    """Where the hash of a name that came second to its slot is in the set, or the empty cell where it would be."""
    last = np.uint64(len(others) - 1)
    at = (f >> np.uint64(40)) & last
    while (others[at] != np.uint64(0)) & (others[at] != f):
        at = (at + np.uint64(1)) & last
    return pin(others, at)


@formula
def was_second(others: Any, level: Any, f: Any) -> Any:
    """Whether a name that came second to its slot needs no count: it has been counted, or is not in the sample."""
    f = f | FOUND
    known = f & ((np.uint64(1) << np.uint64(level)) - np.uint64(1)) != np.uint64(0)
    if not known:
        known = others[cell_of_second(others, f)] == f
    return pin(others, known)


@formula
def note_second(others: Any, counts: Any, f: Any) -> None:
    """Count a name that came second to its slot."""
    if not was_second(others, counts[LEVEL], f):
        others[cell_of_second(others, f | FOUND)] = f | FOUND
        counts[SECOND] += 1


def thin_seconds(table: HashTable) -> None:
    """Make room in the set of names that came second: only hashes that end in one more zero bit are kept.

    Adaptive sampling (Wegman; analysed by P. Flajolet, On adaptive sampling, 1990): each hash that is kept stands for
    2^LEVEL names.
    """
    level = int(table.counts[LEVEL]) + 1
    kept = table.others[table.others > 0]
    fill_seconds(table, kept[kept & np.uint64(2**level - 1) == 0], level)


def fill_seconds(table: HashTable, keys: NDArray[np.uint64], level: int) -> None:
    """Replace the set of names that came second."""
    table.others[:] = 0
    table.counts[SECOND], table.counts[LEVEL] = len(keys), level
    for found in keys.tolist():
        at = found >> 40 & len(table.others) - 1
        while table.others[at]:
            at = at + 1 & len(table.others) - 1
        table.others[at] = found


class ExactTable(NamedTuple):
    """Every name has a number of its own, from 1 on in the order of first sight: open addressing, names compared."""

    cells: NDArray[np.uint64]  # the hash in the upper half and the number in the lower; 0 where empty
    ends: NDArray[np.int64]  # name i is arena[ends[i - 1]:ends[i]]
    arena: NDArray[np.uint8]
    by_number: NDArray[np.int32]  # the number of the name of a small whole number, or 0: a short cut
    counts: NDArray[np.int64]

    def known_name(self, h: Any, f: Any, text: Any, name: Any, frozen: bool) -> Any:
        last = np.uint64(len(self.cells) - 1)
        at = h & last
        cell = self.cells[at]
        found = np.int64(UNKNOWN)
        while (cell != np.uint64(0)) & (found < 0):
            i = cell & np.uint64(2**32 - 1)
            if cell >> np.uint64(32) == h:
                same = same_name(self.arena, self.ends[i - np.uint64(1)], self.ends[i], text, name)
                found = np.int64(i) if same else np.int64(UNKNOWN)
            at = (at + np.uint64(1)) & last
            cell = self.cells[at]
        return pin(self, pin(text, found))

    def new_name(self, h: Any, f: Any, text: Any, name: Any, frozen: bool) -> Any:
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

    def sign(self, h: Any) -> Any:
        return 1.0

    def known_number(self, n: Any, frozen: bool) -> Any:
        small = n < np.uint64(len(self.by_number))
        i = np.int64(self.by_number[n if small else np.uint64(0)])  # no number is 0: its place stays empty
        return i if i > 0 else np.int64(UNKNOWN)

    def has_own_slot(self, n: Any) -> Any:
        return False

    def new_number(self, n: Any) -> Any:
        return np.int64(UNKNOWN)

    def remember_number(self, n: Any, slot: Any) -> None:
        if n < np.uint64(len(self.by_number)) and slot > 0:
            self.by_number[n] = slot


@formula
def same_name(arena: Any, at: Any, end: Any, text: Any, name: Any) -> Any:
    """Whether the bytes between two places of the arena are a name."""
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
    return pin(arena, pin(text, same))


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
        h, _ = end_name(add_bytes(arena, ends[i - 1], ends[i], begin_name()))
        enter(cells, h, i)
