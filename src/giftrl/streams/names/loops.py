"""Names to coordinates in compiled loops, over the tables of :mod:`giftrl.streams.names.tables`.

A name is a piece of text, or a namespace, a caret and a piece of text. Names come in sections: those of one section
share their namespace, which is a piece of the same text. Inside the loops a name is four places in the text: where its
namespace begins and ends, and where it begins and ends itself.

A table that is full says so; it is made larger outside the loop, which then goes on.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula, operation
from giftrl.errors import Incompatible
from giftrl.streams.names.murmur import add_bytes, add_caret, begin_name, end_name

UNKNOWN = -1
FULL = -2  # the table has to be made larger

CARET = 94


class Sections(NamedTuple):
    """Which entries share a namespace: the first entry of each section, and where its namespace is in the text."""

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
    """The slot of a name with this hash if there is nothing to note about it; else UNKNOWN."""
    raise Incompatible("a table must bring known_name(self, h, text, name, frozen); add that method to its class")


@operation
def new_name(table: Any, h: Any, text: Any, name: Any, frozen: bool) -> Any:
    """The slot of a name that known_name does not know; UNKNOWN for a frozen table, or FULL."""
    raise Incompatible("a table must bring new_name(self, h, text, name, frozen); add that method to its class")


@operation
def sign(table: Any, h: Any) -> Any:
    """What the values of a name with this hash are multiplied by."""
    return 1.0


@operation
def own_slot(table: Any, n: Any, frozen: bool) -> Any:
    """The slot of a number that the table knows without its digits; else UNKNOWN, or FULL."""
    raise Incompatible("a table must bring own_slot(self, n, frozen); add that method to its class")


@operation
def remember_number(table: Any, n: Any, slot: Any) -> None:
    """Note the slot that a number got by its digits, where that makes a short cut."""


@formula
def name_slots(
    table: Any, text: Any, starts: Any, ends: Any, count: Any, sections: Any, entry: Any, section: Any, frozen: bool,
    values: Any, slots: Any,
) -> Any:  # fmt: skip
    """Fill ``slots`` and put signs on ``values``, from an entry of a section on, up to where the table is full."""
    firsts, heads, tails = sections
    going = True
    while section < len(firsts) and going:
        head, tail = heads[np.uint64(section)], tails[np.uint64(section)]
        prefix = begin_name()
        if tail > head:
            prefix = add_caret(add_bytes(text, head, tail, prefix))
        stop = count
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
    """Fill ``slots`` and put signs on ``values`` for whole numbers, whose names are their decimal digits."""
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
    """Write a positive number at the end of an array; where it begins."""
    at = len(digits)
    ten = np.uint64(10)
    while n > np.uint64(0):
        at -= 1
        digits[np.uint64(at)] = np.uint8(np.uint64(48) + n % ten)
        n = n // ten
    return at


@formula
def write_name(arena: Any, at: Any, text: Any, name: Any, most: Any) -> Any:
    """Write a name, or as much of it as may be; where it ends."""
    head, tail, start, end = name
    last = at + most
    if tail > head:
        for k in range(head, min(tail, head + most)):
            arena[np.uint64(at)] = text[np.uint64(k)]
            at += 1
        if at < last:
            arena[np.uint64(at)] = CARET
            at += 1
    for k in range(start, min(end, start + (last - at))):
        arena[np.uint64(at)] = text[np.uint64(k)]
        at += 1
    return at


@formula
def name_size(name: Any) -> Any:
    """How many bytes a name has."""
    head, tail, start, end = name
    return end - start + (tail - head + 1 if tail > head else 0)
