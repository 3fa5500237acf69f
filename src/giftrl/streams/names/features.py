"""How the name of a feature becomes a coordinate: by hashing, or by a dictionary.

The name of a feature is ``feature`` in the default namespace and ``namespace^feature`` in any other; the value of a
categorical column is the feature ``column=value``. Names are hashed and compared as UTF-8. The features of a LIBSVM
file are whole numbers.

Each way has one more coordinate, ``constant``, for the feature that is 1 in every row. Not for use by two threads at
once.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.errors import InvalidInput, UnknownName, require
from giftrl.streams.names.base import Arrays, Features, Report
from giftrl.streams.names.tables import (
    ARENA,
    CUT,
    DROPPED,
    KEPT,
    LEVEL,
    NAMES,
    OTHERS,
    SECOND,
    USED,
    ExactTable,
    HashTable,
    enter_all,
    fill_seconds,
    thin_seconds,
)

__all__ = ["Dictionary", "Features", "Hashing", "Report", "restore"]

SHORT_CUT = 2**22  # whole numbers below this have a short cut to their place in a dictionary


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
    >>> slots.tolist(), signs.tolist(), features.name(7), features.report().collided
    ([1, 7, 7], [-1.0, 1.0, 1.0], 'city=Rome', 1)
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
            return raw.decode(errors="ignore") + "…" if size == CUT else raw.decode(errors="replace")
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

    def _restore(self, settings: Mapping[str, Any], given: Mapping[str, NDArray[Any]]) -> None:
        arrays = _checked(
            given, slots=np.int32, prints=np.uint32, begins=np.int64, sizes=np.uint8, names=np.uint8, numbers=np.int32,
            seconds=np.uint64,
        )  # fmt: skip
        slots, prints, begins, sizes = (arrays[name] for name in ("slots", "prints", "begins", "sizes"))
        names, numbers, seconds = arrays["names"], arrays["numbers"], arrays["seconds"]
        level = settings["level"]
        sampled = np.uint64(2**63) | (np.uint64(1) << np.uint64(level if level in range(64) else 0)) - np.uint64(1)
        _sound("slots", len(slots) == len(prints) == len(begins) == len(sizes) and _ascending(slots, self.constant))
        _sound("prints", bool((prints > 0).all()))
        _sound("numbers", _ascending(numbers, self.constant))
        _sound("begins", bool((begins >= -1).all() and (begins + np.minimum(sizes, KEPT) <= len(names)).all()))
        _sound("level", level in range(64))
        _sound("seconds", len(seconds) <= OTHERS // 2 and bool((seconds & sampled == np.uint64(2**63)).all()))
        table = self._hash._replace(arena=_longer(names, len(names) + 1024))
        table.prints[slots], table.begins[slots], table.sizes[slots] = prints, begins, sizes
        bits = np.zeros(len(table.numbered) * 8, np.uint8)
        bits[numbers] = 1
        table.numbered[:] = np.packbits(bits, bitorder="little")
        fill_seconds(table, np.unique(seconds), level)
        table.counts[USED], table.counts[ARENA] = len(np.union1d(slots, numbers)), len(names)
        self._hash = table

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
        return self._exact.arena[begin:end].tobytes().decode(errors="replace")

    def report(self) -> Report:
        names = self.dimension - 1
        return Report(names, names, 0, True, int(self._exact.counts[DROPPED]))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        ends = self._exact.ends[: self.dimension].copy()
        return {"kind": "dictionary"}, {"names": self._exact.arena[: ends[-1]].copy(), "ends": ends}

    def _restore(self, settings: Mapping[str, Any], given: Mapping[str, NDArray[Any]]) -> None:
        arrays = _checked(given, names=np.uint8, ends=np.int64)
        ends, names = arrays["ends"], arrays["names"]
        _sound("ends", len(ends) > 0 and ends[0] == 0 and ends[-1] == len(names) and bool((np.diff(ends) >= 0).all()))
        raw = names.tobytes()
        different = {raw[begin:end] for begin, end in pairwise(ends.tolist())}
        _sound("names", len(different) == len(ends) - 1)
        size = 1024
        while size < 2 * len(ends):
            size *= 2
        table = self._exact._replace(
            cells=np.zeros(size, np.uint64), ends=_longer(ends, size // 2 + 1), arena=_longer(names, len(names) + 8192)
        )
        ready(enter_all, self.compiled)(table.cells, table.arena, table.ends, len(ends) - 1)
        table.counts[NAMES] = len(ends) - 1
        self._exact = table

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
            ready(enter_all, self.compiled)(cells, table.arena, table.ends, names)
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
    if kind not in ("hashing", "dictionary"):
        raise UnknownName("kind", kind, ["dictionary", "hashing"])
    try:
        features = Hashing(settings["bits"], compiled=compiled) if kind == "hashing" else Dictionary(compiled=compiled)
        features._restore(settings, arrays)
    except KeyError as missing:
        raise InvalidInput("state", missing.args[0], "is missing", "the file is damaged; use another copy") from None
    return features


def _checked(arrays: Mapping[str, NDArray[Any]], **kinds: Any) -> Arrays:
    """The arrays of these names, each of its kind."""
    for name, kind in kinds.items():
        _sound(name, arrays[name].ndim == 1 and arrays[name].dtype == kind)
    return {name: arrays[name] for name in kinds}


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    result = np.zeros(size, array.dtype)
    result[: len(array)] = array
    return result


def _ascending(array: NDArray[Any], high: int) -> bool:
    """Whether these are different numbers from 0 to below a bound, in order."""
    return len(array) == 0 or bool((np.diff(array) > 0).all() and array[0] >= 0 and array[-1] < high)


def _sound(name: str, good: bool) -> None:
    require(good, "state", name, "is not as it was saved", "the file is damaged; use another copy")
