"""Tables from names to coordinates, and the compiled loops that look names up.

A name is a piece of text, or a namespace, a caret and a piece of text; loops hold it as four offsets: start and end of
the namespace and of the text. Names of one section share their namespace. If the table is full, a loop stops; the
caller enlarges the table and continues.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula, operation


@formula
def byte(block: Any, at: Any) -> Any:
    """Read a byte through an unsigned index, which avoids the check for negative indices."""
    return np.int64(block[np.uint64(at)])


@formula
def digit(c: Any) -> Any:
    """True for a decimal digit."""
    return np.uint64(c - 48) < np.uint64(10)


@formula
def copy(text: Any, start: Any, end: Any, to: Any, at: Any) -> Any:
    """Copy ``text[start:end]``; returns the end of the copy."""
    for k in range(start, end):
        to[np.uint64(at)] = text[np.uint64(k)]
        at += 1
    return at


# MurmurHash3 of a name: MurmurHash3_x86_32 of Austin Appleby (public domain) with seed 0, equal to
# ``sklearn.utils.murmurhash3_32``. Hashing is incremental, so that the prefix of a namespace is hashed once.

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
    """MurmurHash3's scrambling of a word before mixing."""
    return (rotated((word * C1) & WORD, 15) * C2) & WORD


@formula
def mixed(h: Any, word: Any) -> Any:
    """The state of MurmurHash3 after one more word."""
    return (rotated(h ^ scrambled(word), 13) * FIVE + C3) & WORD


@formula
def begin_name() -> tuple[Any, Any, Any]:
    """The initial state: the hash, the bytes of an incomplete word, and the number of bytes so far."""
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
        # Branch-free read of one to three bytes: first, middle and last, which may coincide.
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


# Loops that look up the coordinates of names.

UNKNOWN = -1
FULL = -2  # the table must be enlarged

CARET = 94
CARET_TEXT = np.frombuffer(b"^", dtype=np.uint8)


class Sections(NamedTuple):
    """Sections of entries that share a namespace: the first entry, and the namespace's place in the text."""

    first: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    @staticmethod
    def none() -> "Sections":
        """One section without a namespace."""
        zero = np.zeros(1, np.int64)
        return Sections(zero, zero, zero)


@operation
def known_name(table: Any, h: Any, text: Any, name: Any, frozen: bool) -> Any:
    """The slot of a known name; else UNKNOWN."""


@operation
def new_name(table: Any, h: Any, text: Any, name: Any, frozen: bool) -> Any:
    """Add a name and return its slot; UNKNOWN if the table is frozen, FULL if it must grow."""


@operation
def sign(table: Any, h: Any) -> Any:
    """The sign of a hash, by which the values of its name are multiplied."""
    return 1.0


@operation
def own_slot(table: Any, n: Any, frozen: bool) -> Any:
    """The slot of a number by the short cut; else UNKNOWN, or FULL."""


@operation
def remember_number(table: Any, n: Any, slot: Any) -> None:
    """Store the slot of a number for the short cut, if it fits."""


@formula
def name_slots(
    table: Any, text: Any, starts: Any, ends: Any, sections: Any, entry: Any, section: Any, frozen: bool, values: Any,
    slots: Any,
) -> Any:  # fmt: skip
    """Fill ``slots`` and sign ``values`` from an entry on; stops if the table is full."""
    firsts, heads, tails = sections
    going = True
    while section < len(firsts) and going:
        head, tail = heads[np.uint64(section)], tails[np.uint64(section)]
        prefix = begin_name()
        if tail > head:
            prefix = add_bytes(CARET_TEXT, 0, 1, add_bytes(text, head, tail, prefix))
        stop = len(starts)
        if section + 1 < len(firsts):
            stop = firsts[np.uint64(section + 1)]
        while entry < stop and going:
            k = np.uint64(entry)
            name = (head, tail, starts[k], ends[k])
            h = end_name(add_bytes(text, starts[k], ends[k], prefix))
            slot = known_name(table, h, text, name, frozen)
            if slot < 0:
                slot = new_name(table, h, text, name, frozen)
            going = slot != FULL
            if going:
                slots[k] = slot
                values[k] *= sign(table, h)
                entry += 1
        section += 1
    return entry


@formula
def number_slots(
    table: Any, numbers: Any, count: Any, entry: Any, frozen: bool, digits: Any, values: Any, slots: Any
) -> Any:
    """Fill ``slots`` and sign ``values`` for whole numbers, named by their decimal digits."""
    going = True
    while entry < count and going:
        k = np.uint64(entry)
        slot = own_slot(table, numbers[k], frozen)
        if slot == UNKNOWN:
            start = write_digits(numbers[k], digits)
            name = (np.int64(0), np.int64(0), np.int64(start), np.int64(len(digits)))
            h = end_name(add_bytes(digits, start, len(digits), begin_name()))
            slot = known_name(table, h, digits, name, frozen)
            if slot < 0:
                slot = new_name(table, h, digits, name, frozen)
            if slot != FULL:
                values[k] *= sign(table, h)
                remember_number(table, numbers[k], slot)
        going = slot != FULL
        if going:
            slots[k] = slot
            entry += 1
    return entry


@formula
def write_digits(n: Any, digits: Any) -> Any:
    """Write a positive number at the end of an array; returns its start."""
    at = len(digits)
    ten = np.uint64(10)
    while n > np.uint64(0):
        at -= 1
        digits[np.uint64(at)] = np.uint8(np.uint64(48) + n % ten)
        n = n // ten
    return at


@formula
def write_name(arena: Any, at: Any, text: Any, name: Any, most: Any) -> Any:
    """Write a name, or its first ``most`` bytes; returns where it ends."""
    head, tail, start, end = name
    last = at + most
    if tail > head:
        at = copy(text, head, min(tail, head + most), arena, at)
        if at < last:
            at = copy(CARET_TEXT, 0, 1, arena, at)
    return copy(text, start, min(end, start + (last - at)), arena, at)


@formula
def name_size(name: Any) -> Any:
    """The number of bytes of a name."""
    head, tail, start, end = name
    return end - start + (tail - head + 1 if tail > head else 0)


# The tables: one by hashing, one exact.

MAX_LOGGED_BYTES = 255  # a hash table logs at most this many bytes of a name
NAMELESS = 2**30  # added to a logged slot whose name is not stored

NEW_NAMES = 0  # the count of a hash table
NAMES, DROPPED = range(2)  # the counts of an exact one


class HashTable(NamedTuple):
    """Hashing: slot abs(MurmurHash3) modulo a power of two, with the sign of the hash.

    Two bits for each slot record whether a name and whether the slot's own number occurred. The first of them is
    logged: the slot for a name, its complement for the number.
    """

    named: NDArray[np.uint8]
    numbered: NDArray[np.uint8]
    news: NDArray[np.int32]
    ends: NDArray[np.int64]  # the ends of logged names in the arena, beginning with 0
    arena: NDArray[np.uint8]
    counts: NDArray[np.int64]
    mask: np.uint64  # the last slot

    def known_name(self, h: Any, text: Any, name: Any, frozen: bool) -> Any:
        slot = hash_slot(h, self.mask)
        return np.int64(slot) if frozen | has_bit(self.named, slot) else np.int64(UNKNOWN)

    def new_name(self, h: Any, text: Any, name: Any, frozen: bool) -> Any:
        slot = hash_slot(h, self.mask)
        k = self.counts[NEW_NAMES]
        if k == len(self.news) or self.ends[k] + MAX_LOGGED_BYTES > len(self.arena):
            return FULL
        set_bit(self.named, slot)
        self.news[k] = slot
        self.ends[k + 1] = self.ends[k]
        if has_bit(self.numbered, slot):
            self.news[k] = NAMELESS + np.int64(slot)
        else:
            self.ends[k + 1] = write_name(self.arena, self.ends[k], text, name, MAX_LOGGED_BYTES)
        self.counts[NEW_NAMES] = k + 1
        return np.int64(slot)

    def sign(self, h: Any) -> Any:
        return -1.0 if h >> np.uint64(31) else 1.0

    def own_slot(self, n: Any, frozen: bool) -> Any:
        if n > self.mask:
            return np.int64(UNKNOWN)
        if not (frozen | has_bit(self.numbered, n)):
            k = self.counts[NEW_NAMES]
            if k == len(self.news):
                return np.int64(FULL)
            set_bit(self.numbered, n)
            self.news[k] = ~np.int64(n)
            self.ends[k + 1] = self.ends[k]
            self.counts[NEW_NAMES] = k + 1
        return np.int64(n)


@formula
def hash_slot(h: Any, mask: Any) -> Any:
    """The absolute value of a signed 32-bit hash, modulo a power of two."""
    signed = np.int64(h)
    return np.uint64(2**32 - signed if signed >= 2**31 else signed) & mask


@formula
def has_bit(bits: Any, slot: Any) -> Any:
    """True if the bit of a slot is set."""
    return (np.int64(bits[slot >> np.uint64(3)]) >> np.int64(slot & np.uint64(7))) & 1 == 1


@formula
def set_bit(bits: Any, slot: Any) -> None:
    """Set the bit of a slot."""
    k = slot >> np.uint64(3)
    bits[k] = bits[k] | np.uint8(1 << np.int64(slot & np.uint64(7)))


class ExactTable(NamedTuple):
    """Names numbered from 1 in order of appearance, in a hash table with open addressing."""

    cells: NDArray[np.uint64]  # hash in the upper half, number in the lower; 0 if empty
    ends: NDArray[np.int64]  # name i is arena[ends[i - 1]:ends[i]]
    arena: NDArray[np.uint8]
    by_number: NDArray[np.int32]  # short cut: the name's number for each small whole number, or 0
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
        i = np.int64(self.by_number[n if small else np.uint64(0)])  # number 0 is unused
        return i if i > 0 else np.int64(UNKNOWN)

    def remember_number(self, n: Any, slot: Any) -> None:
        if n < np.uint64(len(self.by_number)) and slot > 0:
            self.by_number[n] = slot


@formula
def starts_with(arena: Any, at: Any, text: Any, start: Any, end: Any) -> Any:
    """True if ``text[start:end]`` equals the arena at a place."""
    same = True
    k = start
    while (k < end) & same:
        same = arena[np.uint64(at)] == text[np.uint64(k)]
        at += 1
        k += 1
    return same


@formula
def same_name(arena: Any, at: Any, end: Any, text: Any, name: Any) -> Any:
    """True if ``arena[at:end]`` is a name."""
    head, tail, start, stop = name
    same = end - at == name_size(name)
    if same and tail > head:
        same = starts_with(arena, at, text, head, tail) and arena[np.uint64(at + (tail - head))] == CARET
        at += tail - head + 1
    return same and starts_with(arena, at, text, start, stop)


@formula
def enter(cells: Any, h: Any, i: Any) -> None:
    """Insert a name into the first empty cell after its hash."""
    last = np.uint64(len(cells) - 1)
    at = h & last
    while cells[at] != np.uint64(0):
        at = (at + np.uint64(1)) & last
    cells[at] = (h << np.uint64(32)) | np.uint64(i)


@formula
def enter_all(cells: Any, arena: Any, ends: Any, count: Any) -> None:
    """Insert distinct names 1 to count."""
    for i in range(1, count + 1):
        h = end_name(add_bytes(arena, ends[i - 1], ends[i], begin_name()))
        enter(cells, h, i)
