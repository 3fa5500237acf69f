"""How the name of a feature becomes a coordinate: by hashing, or by a dictionary.

The name of a feature is ``feature`` in the default namespace and ``namespace^feature`` in any other; the value of a
categorical column is the feature ``column=value``. Names are hashed and compared as UTF-8. The features of a LIBSVM
file are whole numbers.

Each way has one more coordinate, ``constant``, for the feature that is 1 in every row. Not for use by two threads at
once.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import InvalidInput, UnknownName, require
from giftrl.kernels.compiler import ready
from giftrl.streams.numbers import ROOMS
from giftrl.streams.text_names import (
    ARENA, CUT, DROPPED, KEPT, LEVEL, NAMES, OTHERS, SECOND, USED, ExactTable, HashTable, Sections, enter_all,
    fill_seconds, name_slots, number_slots, thin_seconds,
)  # fmt: skip

__all__ = ["Dictionary", "Features", "Hashing", "Report", "restore"]

Arrays = dict[str, NDArray[Any]]

SHORT_CUT = 2**22  # whole numbers below this have a short cut to their place in a dictionary


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
        loop = ready(name_slots, (), self.compiled, ROOMS)
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
        loop = ready(number_slots, (), self.compiled, ROOMS)
        self._expect(int(numbers.max(initial=0)))
        entry = 0
        while True:
            entry = int(loop(self._table(), numbers, count, entry, self.frozen, digits, values, slots))
            if entry == count:
                return slots, self._distinct(numbers, slots)
            self._grow(len(digits))


class Hashing(Features):
    """A fixed number of coordinates; names are spread over them by MurmurHash3.

    With ``h`` the signed 32-bit hash of a name (seed 0), its coordinate is ``abs(h) % 2**bits`` and its values are
    multiplied by the sign of ``h``: what scikit-learn's ``FeatureHasher(n_features=2**bits)`` does. Two names on one
    coordinate are summed. A whole number below 2**bits is its own coordinate, with sign +; a larger one is hashed by
    its decimal digits. The constant is coordinate 2**bits.

    For the report, the first name of each coordinate is kept, up to 254 bytes of it.

    Args:
        bits: from 1 to 30; 2**bits coordinates.
        compiled: False to run the loops as plain Python.

    >>> features = Hashing(4)
    >>> slots, signs = features.slots(["city=Paris", "city=Rome", "height"])
    >>> slots.tolist(), signs.tolist(), features.name(13)
    ([13, 6, 13], [-1.0, -1.0, -1.0], 'city=Paris')
    """

    def __init__(self, bits: int = 18, *, compiled: bool = True) -> None:
        good = isinstance(bits, (int, np.integer)) and 1 <= bits <= 30
        require(good, "bits", bits, "must be a whole number from 1 to 30", "18 is a good start")
        self.bits = int(bits)
        self.compiled = compiled
        self.frozen = False
        size = 1 << self.bits
        # Zeros that nothing is written to take no memory.
        self._hash = HashTable(
            prints=np.zeros(size, np.uint32),
            begins=np.zeros(size, np.int64),
            sizes=np.zeros(size, np.uint8),
            numbered=np.zeros(size // 8 + 1, np.uint8),
            arena=np.zeros(1024, np.uint8),
            others=np.zeros(OTHERS, np.uint64),
            counts=np.zeros(4, np.int64),
        )

    @property
    def dimension(self) -> int:
        return (1 << self.bits) + 1

    @property
    def constant(self) -> int:
        return 1 << self.bits

    def name(self, slot: int) -> str | None:
        good = 0 <= slot <= self.constant
        require(good, "slot", slot, f"must be a coordinate, from 0 to {self.constant}", "see dimension")
        if slot == self.constant:
            return "(constant)"
        table = self._hash
        begin = int(table.begins[slot])
        if table.prints[slot] and begin >= 0:
            size = int(table.sizes[slot])
            raw = table.arena[begin : begin + min(size, KEPT)].tobytes()
            return raw.decode(errors="ignore") + "…" if size == CUT else raw.decode()
        return str(slot) if table.numbered[slot >> 3] >> (slot & 7) & 1 else None

    def report(self) -> Report:
        counts = self._hash.counts
        collided = int(counts[SECOND]) << int(counts[LEVEL])
        return Report(1 << self.bits, int(counts[USED]), collided, bool(counts[LEVEL] == 0), 0)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        table = self._hash
        slots = np.flatnonzero(table.prints).astype(np.int32)
        seconds = np.sort(table.others[table.others > 0])
        settings = {"kind": "hashing", "bits": self.bits, "level": int(table.counts[LEVEL])}
        return settings, {
            "slots": slots,
            "prints": table.prints[slots],
            "begins": table.begins[slots],
            "sizes": table.sizes[slots],
            "names": table.arena[: table.counts[ARENA]].copy(),
            "numbers": np.flatnonzero(np.unpackbits(table.numbered, bitorder="little")).astype(np.int32),
            "seconds": seconds,
        }

    def _restore(self, level: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        table = self._hash
        slots, numbers, seconds = arrays["slots"], arrays["numbers"], arrays["seconds"]
        same = len(slots) == len(arrays["prints"]) == len(arrays["begins"]) == len(arrays["sizes"])
        begins, sizes = arrays["begins"], np.minimum(arrays["sizes"].astype(np.int64), KEPT)
        _sound("slots", same and _ascending(slots, 0, 1 << self.bits))
        _sound("prints", bool((arrays["prints"] > 0).all()))
        _sound("numbers", _ascending(numbers, 0, 1 << self.bits))
        _sound("names", bool((begins >= -1).all() and (begins + sizes <= len(arrays["names"])).all()))
        _sound("seconds", 0 <= level < 64 and len(seconds) <= OTHERS // 2 and bool((seconds > 0).all()))
        table.prints[slots] = arrays["prints"]
        table.begins[slots] = begins
        table.sizes[slots] = arrays["sizes"]
        bits = np.zeros(len(table.numbered) * 8, np.uint8)
        bits[numbers] = 1
        table.numbered[:] = np.packbits(bits, bitorder="little")
        fill_seconds(table, seconds, level)
        table.counts[USED], table.counts[ARENA] = len(np.union1d(slots, numbers)), len(arrays["names"])
        self._hash = table._replace(arena=_longer(arrays["names"], len(arrays["names"]) + 1024))

    def _distinct(self, numbers: NDArray[np.uint64], slots: NDArray[np.int32]) -> bool:
        return bool(numbers.max(initial=0) < self.constant)

    def _table(self) -> HashTable:
        return self._hash

    def _grow(self, size: int) -> None:
        table = self._hash
        if 2 * table.counts[SECOND] >= len(table.others):
            thin_seconds(table)
        if table.counts[ARENA] + KEPT > len(table.arena):
            self._hash = table._replace(arena=_longer(table.arena, 2 * len(table.arena)))


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
        self._exact = ExactTable(
            cells=np.zeros(1024, np.uint64),
            ends=np.zeros(513, np.int64),
            arena=np.zeros(8192, np.uint8),
            by_number=np.zeros(1024, np.int32),
            counts=np.zeros(2, np.int64),
        )

    @property
    def dimension(self) -> int:
        return int(self._exact.counts[NAMES]) + 1

    @property
    def constant(self) -> int:
        return 0

    def name(self, slot: int) -> str | None:
        good = 0 <= slot < self.dimension
        require(good, "slot", slot, f"must be a coordinate, from 0 to {self.dimension - 1}", "see dimension")
        if slot == 0:
            return "(constant)"
        begin, end = self._exact.ends[slot - 1 : slot + 1]
        return self._exact.arena[begin:end].tobytes().decode()

    def report(self) -> Report:
        names = self.dimension - 1
        return Report(names, names, 0, True, int(self._exact.counts[DROPPED]))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        ends = self._exact.ends[: self.dimension].copy()
        return {"kind": "dictionary"}, {"names": self._exact.arena[: ends[-1]].copy(), "ends": ends}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        ends, names = arrays["ends"], arrays["names"]
        good = len(ends) > 0 and ends[0] == 0 and ends[-1] == len(names) and bool((np.diff(ends) >= 0).all())
        _sound("ends", good)
        raw = names.tobytes()
        different = {raw[begin:end] for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)}
        _sound("names", len(different) == len(ends) - 1)
        size = 1024
        while size < 2 * len(ends):
            size *= 2
        cells = np.zeros(size, np.uint64)
        arena = np.array(names, dtype=np.uint8)
        longer = _longer(ends.astype(np.int64), max(len(ends), size // 2 + 1))
        ready(enter_all, (), self.compiled, ROOMS)(cells, arena, longer, len(ends) - 1)
        self._exact = self._exact._replace(cells=cells, ends=longer, arena=arena)
        self._exact.counts[NAMES] = len(ends) - 1

    def _distinct(self, numbers: NDArray[np.uint64], slots: NDArray[np.int32]) -> bool:
        return not self.frozen or bool(slots.min(initial=1) >= 0)

    def _expect(self, largest: int) -> None:
        size = min(SHORT_CUT, 1 << largest.bit_length())
        if size > len(self._exact.by_number):
            self._exact = self._exact._replace(by_number=_longer(self._exact.by_number, size))

    def _table(self) -> ExactTable:
        return self._exact

    def _grow(self, size: int) -> None:
        table = self._exact
        names = int(table.counts[NAMES])
        filled = int(table.ends[names])
        if filled + size > len(table.arena):
            table = table._replace(arena=_longer(table.arena, 2 * (filled + size)))
        if 2 * (names + 1) > len(table.cells):
            require(names < 2**30, "names", names, "must be at most 2**30", "use Hashing")
            cells = np.zeros(2 * len(table.cells), np.uint64)
            ready(enter_all, (), self.compiled, ROOMS)(cells, table.arena, table.ends, names)
            table = table._replace(cells=cells, ends=_longer(table.ends, len(cells) // 2 + 1))
        self._exact = table


def restore(settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, compiled: bool = True) -> Features:
    """What :meth:`Features.state` was taken from, as it was then and not frozen.

    >>> features = Dictionary()
    >>> _ = features.slots(["red", "green"])
    >>> restore(*features.state()).name(2)
    'green'
    """
    kind = settings.get("kind")
    try:
        if kind == "hashing":
            hashing = Hashing(settings["bits"], compiled=compiled)
            hashing._restore(settings["level"], arrays)
            return hashing
        if kind == "dictionary":
            dictionary = Dictionary(compiled=compiled)
            dictionary._restore(arrays)
            return dictionary
    except KeyError as missing:
        raise InvalidInput("state", missing.args[0], "is missing", "the file is damaged; use another copy") from None
    raise UnknownName("kind", kind, ["dictionary", "hashing"])


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    result = np.zeros(size, array.dtype)
    result[: len(array)] = array
    return result


def _ascending(array: NDArray[Any], low: int, high: int) -> bool:
    return bool((np.diff(array) > 0).all() and (not len(array) or (array[0] >= low and array[-1] < high)))


def _sound(name: str, good: bool) -> None:
    require(good, "state", name, "does not fit the other arrays", "the file is damaged; use another copy")
