"""What hashing and dictionaries (:mod:`giftrl.streams.names.features`) have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.errors import InvalidInput, require
from giftrl.streams.names.loops import Sections, name_slots, number_slots
from giftrl.streams.names.tables import ExactTable, HashTable

__all__ = ["Arrays", "Features", "Report"]

Arrays = dict[str, NDArray[Any]]


class Report(NamedTuple):
    """What became of the names seen so far.

    >>> Report(slots=8, used=3, collided=1, exact=True, dropped=0).names
    4
    """

    slots: int  # coordinates for names
    used: int  # coordinates that a name was seen for
    #: Different names that came to a coordinate which another name had come to before. Two names are told apart by 31
    #: bits of a second hash. Up to 32,768 the number is a count; beyond, it is estimated from a sample of at least
    #: 16,384 of these names, with a relative standard error of about 1 %.
    collided: int
    exact: bool  # whether that is a count
    dropped: int  # occurrences of names that a frozen dictionary does not have

    @property
    def names(self) -> int:
        """How many different names were seen."""
        return self.used + self.collided


class Features(ABC):
    """What both ways have in common; use :class:`Hashing` or :class:`Dictionary`."""

    frozen: bool
    compiled: bool

    @property
    @abstractmethod
    def dimension(self) -> int:
        """How many coordinates there are now, with that of the constant."""

    @property
    @abstractmethod
    def constant(self) -> int:
        """The coordinate of the constant feature."""

    @abstractmethod
    def name(self, slot: int) -> str | None:
        """The first name seen at a coordinate; None where there was none."""

    @abstractmethod
    def report(self) -> Report:
        """What became of the names seen so far."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Settings (for JSON) and arrays from which :func:`restore` makes an equal object."""

    @abstractmethod
    def _restore(self, settings: Mapping[str, Any], given: Mapping[str, NDArray[Any]]) -> None:
        """Take over a state."""

    @abstractmethod
    def _table(self) -> HashTable | ExactTable:
        """The arrays behind it."""

    @abstractmethod
    def _grow(self, size: int) -> None:
        """Make room for one more name, of a size in bytes, and for as many again as there are."""

    @abstractmethod
    def _distinct(self, numbers: NDArray[np.uint64], slots: NDArray[np.int32]) -> bool:
        """Whether each of these numbers has a coordinate of its own."""

    def _expect(self, largest: int) -> None:  # noqa: B027 - nothing to prepare, unless a subclass has something
        """Prepare for whole numbers up to this one."""

    def freeze(self) -> None:
        """Learn no more names."""
        self.frozen = True

    def thaw(self) -> None:
        """Learn names again."""
        self.frozen = False

    def slots(self, names: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The coordinates of names, and what their values are to be multiplied by.

        A name that a frozen dictionary does not have gets -1.
        """
        require(not isinstance(names, str), "names", names, "must be a list of names", "put it into a list")
        raw = []
        for name in names:
            try:
                raw.append(name.encode())
            except (AttributeError, UnicodeEncodeError) as problem:
                raise InvalidInput("names", name, "must be text that UTF-8 can write", str(problem)) from None
        ends = np.cumsum([0, *map(len, raw)], dtype=np.int64)
        text = np.frombuffer(b"".join(raw), dtype=np.uint8)
        none = np.zeros(1, np.int64)
        signs = np.ones(len(raw))
        return self.name_slots(text, ends[:-1], ends[1:], Sections(none, none, none), signs), signs

    def name_slots(
        self,
        text: NDArray[np.uint8],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        sections: Sections,
        values: NDArray[np.float64],
    ) -> NDArray[np.int32]:
        """The coordinates of the names at these places of a text, with their signs put on the values."""
        count = len(starts)
        slots = np.empty(count, np.int32)
        text = text.view()
        text.flags.writeable = False
        loop = ready(name_slots, self.compiled)
        entry = 0
        while True:
            section = max(0, int(np.searchsorted(sections.first, entry, side="right")) - 1)
            entry = int(
                loop(self._table(), text, starts, ends, count, sections, entry, section, self.frozen, values, slots)
            )
            if entry == count:
                return slots
            section = int(np.searchsorted(sections.first, entry, side="right")) - 1
            head = int(sections.end[section] - sections.start[section])
            self._grow(int(ends[entry] - starts[entry]) + head + 1)

    def number_slots(self, numbers: NDArray[np.uint64], values: NDArray[np.float64]) -> tuple[NDArray[np.int32], bool]:
        """The coordinates of whole numbers, with their signs put on the values.

        Returns:
            also, whether each number is known and has a coordinate that no other number has.
        """
        count = len(numbers)
        slots = np.empty(count, np.int32)
        digits = np.empty(20, np.uint8)
        loop = ready(number_slots, self.compiled)
        self._expect(int(numbers.max(initial=0)))
        entry = 0
        while True:
            entry = int(loop(self._table(), numbers, count, entry, self.frozen, digits, values, slots))
            if entry == count:
                return slots, self._distinct(numbers, slots)
            self._grow(len(digits))
