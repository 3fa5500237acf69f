"""The interface of hashing and dictionaries, and what they share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.errors import InvalidInput, require
from giftrl.streams.names.loops import Sections, name_slots, number_slots

Arrays = dict[str, NDArray[Any]]


class Report(NamedTuple):
    """What became of the names seen so far.

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
        """How many different names were seen."""
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
        """How many coordinates there are now, with that of the constant."""

    @property
    @abstractmethod
    def constant(self) -> int:
        """The coordinate of the constant feature."""

    @abstractmethod
    def name(self, slot: int) -> str | None:
        """The first name seen at a coordinate; None where there was none."""

    def sign(self, slot: int) -> float:
        """What the values of a coordinate's name were multiplied by."""
        return 1.0

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
        """Whether each of these numbers has a coordinate of its own."""

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
            entry = int(
                loop(self._table, text, starts, ends, count, sections, entry, section, self.frozen, values, slots)
            )
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
    """Whether these are different numbers from 0 to below a bound, in order."""
    return len(array) == 0 or bool((np.diff(array) > 0).all() and array[0] >= 0 and array[-1] < high)


def sound(name: str, good: bool) -> None:
    """Raise if part of a saved state is damaged."""
    require(good, "state", name, "is not as it was saved", "the file is damaged; use another copy")
