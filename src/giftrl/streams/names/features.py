"""Coordinates of feature names: the interface of both methods, and the dictionary.

The name of a feature is ``feature`` in the default namespace and ``namespace^feature`` in any other; the value of a
categorical column is the feature ``column=value``. Names are hashed and compared as UTF-8. The features of a LIBSVM
file are whole numbers.

Both have one more coordinate, ``constant``, for the feature that is 1 in every row. Neither is for use by two threads
at once: a thread that reads ahead works on a copy (:meth:`Features.ahead`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.errors import InvalidInput, require
from giftrl.streams.names.tables import DROPPED, NAMES, ExactTable, Sections, enter_all, name_slots, number_slots

Arrays = dict[str, NDArray[Any]]


class Report(NamedTuple):
    """Statistics of the names seen so far.

    >>> Report(slots=8, used=3, collided=1, exact=True, dropped=0).names
    4
    """

    slots: int  # coordinates for names
    used: int  # coordinates that a name was seen for
    #: Different names that share a coordinate with an earlier one. For hashed names it is estimated by linear counting:
    #: n names leave m exp(-n / m) of m coordinates empty. (K.-Y. Whang, B. Vander-Zanden, H. Taylor: A linear-time
    #: probabilistic counting algorithm, 1990.) Where no coordinate is empty, there may be many more names.
    collided: int
    exact: bool  # whether that is a count
    dropped: int  # occurrences of names that a frozen dictionary does not have

    @property
    def names(self) -> int:
        """The number of different names seen."""
        return self.used + self.collided


class News(NamedTuple):
    """The names that came to :meth:`Features.ahead` and not to the features that it was made from."""

    first: int  # the dimension before them
    slots: NDArray[np.int32]  # of hashed names: the log of :class:`HashTable`
    ends: NDArray[np.int64]  # where each name ends in the text; the first number is 0
    text: NDArray[np.uint8]
    dropped: int  # occurrences of names that a frozen dictionary does not have
    products: NDArray[np.int32] = np.empty((0, 1), np.int32)  # of hashed names: the rows of :class:`KeptProducts`


class Features(ABC):
    """Gives names coordinates: :class:`Hashing` or :class:`Dictionary`.

    >>> from giftrl.streams import Hashing
    >>> hashing = Hashing(18)
    >>> hashing.dimension, hashing.constant
    (262145, 262144)
    """

    frozen: bool
    compiled: bool
    _table: Any  # :class:`HashTable` or :class:`ExactTable`

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of coordinates now, that of the constant included."""

    @property
    @abstractmethod
    def constant(self) -> int:
        """The coordinate of the constant feature."""

    @abstractmethod
    def name(self, slot: int) -> str | None:
        """The first name seen at a coordinate, or None."""

    def sign(self, slot: int) -> float:
        """The sign by which the values of a coordinate's name were multiplied."""
        return 1.0

    @abstractmethod
    def report(self) -> Report:
        """Statistics of the names seen so far."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Settings (for JSON) and arrays from which :func:`restore` makes an equal object."""

    @abstractmethod
    def _restore(self, settings: Mapping[str, Any], given: Mapping[str, NDArray[Any]]) -> None:
        """Take over a state."""

    @abstractmethod
    def ahead(self) -> "Features":
        """A copy for a thread that reads ahead: it gives names the coordinates that they will have here.

        The thread takes :meth:`news` of the copy with each batch; :meth:`learn` enters them here when it is consumed.
        """

    @abstractmethod
    def news(self) -> News:
        """The names that came since the last call, or since :meth:`ahead`."""

    @abstractmethod
    def learn(self, news: News) -> None:
        """Enter the news of a copy, all in the order in which they came."""

    @abstractmethod
    def _grow(self, size: int) -> None:
        """Enlarge the table for one more name, of a size in bytes, and for as many again as there are."""

    @abstractmethod
    def _distinct(self, numbers: NDArray[np.uint64], slots: NDArray[np.int32]) -> bool:
        """True if each of these numbers has a coordinate of its own."""

    def _expect(self, largest: int) -> None:  # noqa: B027 - nothing to prepare, unless a subclass has something
        """Prepare for whole numbers up to this one."""

    def _noted(self) -> None:  # noqa: B027
        """Called after names were entered."""

    def freeze(self) -> None:
        """Learn no more names."""
        self.frozen = True

    def thaw(self) -> None:
        """Learn names again."""
        self.frozen = False

    def slots(self, names: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The coordinates of names, and the signs by which their values are multiplied.

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
        signs = np.ones(len(raw))
        return self.name_slots(text, ends[:-1], ends[1:], Sections.none(), signs), signs

    def name_slots(
        self,
        text: NDArray[np.uint8],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        sections: Sections,
        values: NDArray[np.float64],
    ) -> NDArray[np.int32]:
        """The coordinates of names, given by their places in a text; the values are multiplied by their signs."""
        count = len(starts)
        slots = np.empty(count, np.int32)
        text = text.view()
        text.flags.writeable = False
        loop = ready(name_slots, self.compiled, counted=False)
        entry, section = 0, 0
        while True:
            entry = int(loop(self._table, text, starts, ends, sections, entry, section, self.frozen, values, slots))
            if entry == count:
                self._noted()
                return slots
            section = int(np.searchsorted(sections.first, entry, side="right")) - 1
            head = int(sections.end[section] - sections.start[section])
            self._grow(int(ends[entry] - starts[entry]) + head + 1)

    def number_slots(self, numbers: NDArray[np.uint64], values: NDArray[np.float64]) -> tuple[NDArray[np.int32], bool]:
        """The coordinates of whole numbers; the values are multiplied by their signs.

        Returns:
            the coordinates, and whether each number is known and has a coordinate of its own.
        """
        count = len(numbers)
        slots = np.empty(count, np.int32)
        digits = np.empty(20, np.uint8)
        loop = ready(number_slots, self.compiled, counted=False)
        self._expect(int(numbers.max(initial=0)))
        entry = 0
        while True:
            entry = int(loop(self._table, numbers, count, entry, self.frozen, digits, values, slots))
            if entry == count:
                self._noted()
                return slots, self._distinct(numbers, slots)
            self._grow(len(digits))


def checked(arrays: Mapping[str, NDArray[Any]], **kinds: Any) -> Arrays:
    """The arrays of these names, after a look at their types."""
    for name, kind in kinds.items():
        sound(name, arrays[name].ndim == 1 and arrays[name].dtype == kind)
    return {name: arrays[name] for name in kinds}


def longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A copy with zeros appended."""
    result = np.zeros(size, array.dtype)
    result[: len(array)] = array
    return result


def ascending(array: NDArray[Any], high: int) -> bool:
    """True if these are ascending numbers from 0 to below a bound."""
    return len(array) == 0 or bool((np.diff(array) > 0).all() and array[0] >= 0 and array[-1] < high)


def sound(name: str, good: bool) -> None:
    """Raise if part of a saved state is damaged."""
    require(good, "state", name, "is not as it was saved", "the file is damaged; use another copy")


# Coordinates by a dictionary: one for every name.

SHORT_CUT = 2**22  # whole numbers below this have a short cut to their place in a dictionary


class Dictionary(Features):
    """A coordinate for every name, in the order of first sight: exact, and growing with the names.

    The constant is coordinate 0 and names count from 1. A whole number is the name that its decimal digits are. Once
    frozen, names not seen before are dropped, and counted in the report.

    Args:
        compiled: False to run the loops as plain Python.

    >>> features = Dictionary()
    >>> features.slots(["red", "green", "red"])[0].tolist(), features.dimension
    ([1, 2, 1], 3)
    >>> features.freeze()
    >>> features.slots(["blue", "green"])[0].tolist(), features.report().dropped
    ([-1, 2], 1)
    """

    def __init__(self, *, compiled: bool = True) -> None:
        self.compiled = compiled
        self.frozen = False
        self._table: ExactTable = ExactTable(
            cells=np.zeros(1024, np.uint64),
            ends=np.zeros(513, np.int64),
            arena=np.zeros(8192, np.uint8),
            by_number=np.zeros(1024, np.int32),
            counts=np.zeros(2, np.int64),
        )
        self._told = 1, 0  # the dimension and the occurrences dropped, when news were last asked for

    @property
    def dimension(self) -> int:
        return int(self._table.counts[NAMES]) + 1

    @property
    def constant(self) -> int:
        return 0

    def name(self, slot: int) -> str | None:
        good = 0 <= slot < self.dimension
        require(good, "slot", slot, f"must be a coordinate, from 0 to {self.dimension - 1}", "see dimension")
        if slot == 0:
            return "(constant)"
        begin, end = self._table.ends[slot - 1 : slot + 1]
        return self._table.arena[begin:end].tobytes().decode(errors="replace")

    def report(self) -> Report:
        names = self.dimension - 1
        return Report(names, names, 0, True, int(self._table.counts[DROPPED]))

    def ahead(self) -> "Dictionary":
        copy = type(self)(compiled=self.compiled)
        table = self._table
        # A frozen table is only read, but for the short cut and the counts.
        arrays: list[Any] = [array if self.frozen else array.copy() for array in table]
        copy._table = ExactTable(*arrays)._replace(by_number=table.by_number.copy(), counts=table.counts.copy())
        copy.frozen = self.frozen
        copy._told = copy.dimension, int(table.counts[DROPPED])
        return copy

    def news(self) -> News:
        (first, before), (last, dropped) = self._told, (self.dimension, int(self._table.counts[DROPPED]))
        self._told = last, dropped
        ends = self._table.ends[first - 1 : last].copy()
        text = self._table.arena[ends[0] : ends[-1]].copy()
        return News(first, np.empty(0, np.int32), ends - ends[0], text, dropped - before)

    def learn(self, news: News) -> None:
        self._table.counts[DROPPED] += news.dropped
        if len(news.ends) > 1:
            rule = "must be read by one reader at a time, and get its names from that reader alone"
            require(news.first == self.dimension, "features", self, rule, "read the sources one after the other")
            ones = np.ones(len(news.ends) - 1)
            self.name_slots(news.text, news.ends[:-1], news.ends[1:], Sections.none(), ones)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        ends = self._table.ends[: self.dimension].copy()
        return {"kind": "dictionary"}, {"names": self._table.arena[: ends[-1]].copy(), "ends": ends}

    def _restore(self, settings: Mapping[str, Any], given: Mapping[str, NDArray[Any]]) -> None:
        arrays = checked(given, names=np.uint8, ends=np.int64)
        ends, names = arrays["ends"], arrays["names"]
        sound("ends", len(ends) > 0 and ends[0] == 0 and ends[-1] == len(names) and bool((np.diff(ends) >= 0).all()))
        self.name_slots(names, ends[:-1], ends[1:], Sections.none(), np.ones(len(ends) - 1))
        sound("names", self.dimension == len(ends))  # one that is there twice has one coordinate

    def _distinct(self, numbers: NDArray[np.uint64], slots: NDArray[np.int32]) -> bool:
        return not self.frozen or bool(slots.min(initial=1) >= 0)

    def _expect(self, largest: int) -> None:
        size = min(SHORT_CUT, 1 << largest.bit_length())
        if size > len(self._table.by_number):
            self._table = self._table._replace(by_number=longer(self._table.by_number, size))

    def _grow(self, size: int) -> None:
        table = self._table
        names = int(table.counts[NAMES])
        filled = int(table.ends[names])
        if filled + size > len(table.arena):
            table = table._replace(arena=longer(table.arena, 2 * (filled + size)))
        if 2 * (names + 1) > len(table.cells):
            require(names < 2**30, "names", names, "must be at most 2**30", "use Hashing")
            cells = np.zeros(2 * len(table.cells), np.uint64)
            ready(enter_all, self.compiled, counted=False)(cells, table.arena, table.ends, names)
            table = table._replace(cells=cells, ends=longer(table.ends, len(cells) // 2 + 1))
        self._table = table
