"""Coordinates of feature names, by hashing or by a dictionary.

The name of a feature is ``feature`` in the default namespace and ``namespace^feature`` in any other; the value of a
categorical column is the feature ``column=value``. Names are hashed and compared as UTF-8. The features of a LIBSVM
file are whole numbers.

Both have one more coordinate, ``constant``, for the feature that is 1 in every row. They are not thread-safe: a thread
that reads ahead works on a copy (:meth:`Features.ahead`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.errors import InvalidInput, UnknownName, require
from giftrl.streams.names.tables import (
    DROPPED,
    MAX_LOGGED_BYTES,
    NAMELESS,
    NAMES,
    NEW_NAMES,
    ExactTable,
    HashTable,
    Sections,
    enter_all,
    name_slots,
    number_slots,
)

Arrays = dict[str, NDArray[Any]]
Places = NDArray[np.int64]
NO_PRODUCTS = np.empty((0, 1), np.int32)
#: The separator of feature names in the name of an interaction.
SEPARATOR = " \u00d7 "
#: Bytes of a hashed name that are shown.
MAX_SHOWN_BYTES = MAX_LOGGED_BYTES - 1
#: Whole numbers below this are looked up in an array instead of the dictionary.
MAX_SHORT_CUTS = 2**22


class Report(NamedTuple):
    """Statistics of the names seen so far.

    >>> Report(slots=8, used=3, collided=1, exact=True, dropped=0).names
    4
    """

    slots: int  # coordinates for names
    used: int  # coordinates with at least one name
    #: Hash collisions: names that share a coordinate with an earlier one. For hashed names it is an estimate: n names
    #: leave m exp(-n / m) of m coordinates empty. (K.-Y. Whang, B. Vander-Zanden, H. Taylor: A linear-time
    #: probabilistic counting algorithm, 1990.) If no coordinate is empty, there may be many more names.
    collided: int
    exact: bool  # True if collisions are counted, False if estimated
    dropped: int  # occurrences of names that a frozen dictionary does not have

    @property
    def names(self) -> int:
        """The number of different names seen."""
        return self.used + self.collided


class News(NamedTuple):
    """Names that a copy made by :meth:`Features.ahead` added since its last :meth:`Features.news`."""

    first: int  # the dimension before them
    slots: NDArray[np.int32]  # of hashed names: the log of :class:`giftrl.streams.names.tables.HashTable`
    ends: NDArray[np.int64]  # where each name ends in the text; the first number is 0
    text: NDArray[np.uint8]
    dropped: int  # occurrences of names that a frozen dictionary does not have
    #: Of products of hashed names: the coordinate of each, and those of its factors; short ones end with -1.
    products: NDArray[np.int32] = NO_PRODUCTS


class Features(ABC):
    """The coordinates of names: :class:`Hashing` or :class:`Dictionary`.

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
        """The number of coordinates, including the constant."""

    @property
    @abstractmethod
    def constant(self) -> int:
        """The coordinate of the constant feature."""

    def name(self, slot: int) -> str | None:
        """The first name seen at a coordinate, or None."""
        good = 0 <= slot < self.dimension
        require(good, "slot", slot, f"must be a coordinate, from 0 to {self.dimension - 1}", "see dimension")
        return "(constant)" if slot == self.constant else self._name(slot)

    @abstractmethod
    def _name(self, slot: int) -> str | None:
        """The first name seen at a coordinate other than the constant."""

    def sign(self, slot: int) -> float:
        """The sign that values of a coordinate are multiplied by."""
        return 1.0

    @abstractmethod
    def report(self) -> Report:
        """Statistics of the names seen so far."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Settings (for JSON) and arrays for :func:`restore`."""

    @abstractmethod
    def _restore(self, settings: Mapping[str, Any], given: Mapping[str, NDArray[Any]]) -> None:
        """Load a state."""

    @abstractmethod
    def ahead(self) -> "Features":
        """A copy for a thread that reads ahead; pass the copy's :meth:`news` to :meth:`learn`."""

    @abstractmethod
    def news(self) -> News:
        """The names added since the last call, or since :meth:`ahead`."""

    @abstractmethod
    def learn(self, news: News) -> None:
        """Add the names from a copy's :meth:`news`, in order."""

    @abstractmethod
    def _grow(self, size: int) -> None:
        """Double the table, with space for at least one more name of a size in bytes."""

    @abstractmethod
    def _distinct(self, numbers: NDArray[np.uint64], slots: NDArray[np.int32]) -> bool:
        """True if these whole numbers have different coordinates."""

    def _noted(self) -> None:  # noqa: B027
        """Update statistics after names were added."""

    def freeze(self) -> None:
        """Stop adding names."""
        self.frozen = True

    def thaw(self) -> None:
        """Allow new names again."""
        self.frozen = False

    def slots(self, names: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The coordinates of names (-1 if a frozen dictionary lacks one), and the signs of their values."""
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
        self, text: NDArray[np.uint8], starts: Places, ends: Places, sections: Sections, values: NDArray[np.float64]
    ) -> NDArray[np.int32]:
        """The coordinates of names in a text; values are multiplied by the signs."""
        count, text = len(starts), text.view()
        slots = np.empty(count, np.int32)
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
        """The coordinates of whole numbers, and True if all are known and distinct; values get the signs."""
        count = len(numbers)
        slots, digits = np.empty(count, np.int32), np.empty(20, np.uint8)
        loop = ready(number_slots, self.compiled, counted=False)
        entry = 0
        while True:
            entry = int(loop(self._table, numbers, count, entry, self.frozen, digits, values, slots))
            if entry == count:
                self._noted()
                return slots, self._distinct(numbers, slots)
            self._grow(len(digits))


def checked(arrays: Mapping[str, NDArray[Any]], **kinds: Any) -> Arrays:
    """The arrays with these names, after a check of their types."""
    for name, kind in kinds.items():
        sound(name, arrays[name].ndim == 1 and arrays[name].dtype == kind)
    return {name: arrays[name] for name in kinds}


def longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A copy with zeros appended."""
    result = np.zeros(size, array.dtype)
    result[: len(array)] = array
    return result


def ascending(array: NDArray[Any], high: int) -> bool:
    """True if the numbers ascend and are in [0, bound)."""
    return bool((np.diff(array, prepend=-1, append=high) > 0).all())


def sound(name: str, good: bool) -> None:
    """Raise an error unless a saved state is valid."""
    require(good, "state", name, "does not match what was saved", "the file is damaged; use another copy")


class Kept:
    """Entries by coordinate, sorted lazily; the first entry of a coordinate wins."""

    def __init__(self, *arrays: NDArray[Any]) -> None:
        self._parts = [arrays]

    def add(self, *arrays: NDArray[Any]) -> None:
        """Add entries."""
        if len(arrays[0]):
            self._parts.append(arrays)

    def arrays(self) -> Sequence[NDArray[Any]]:
        """All entries, sorted by coordinate."""
        if len(self._parts) > 1:
            whole = [joined(each) for each in zip(*self._parts, strict=True)]
            first = np.unique(whole[0], return_index=True)[1]
            self._parts = [tuple(array[first] for array in whole)]
        return self._parts[0]

    def entry(self, slot: int) -> list[Any] | None:
        """The entry of a coordinate, without the coordinate itself; None if absent."""
        slots, *others = self.arrays()
        at = int(np.searchsorted(slots, slot))
        return [array[at].tolist() for array in others] if at < len(slots) and slots[at] == slot else None


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays; shorter rows are padded with -1."""
    if parts[0].ndim == 2:
        width = max(part.shape[1] for part in parts)
        parts = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1) for part in parts]
    return np.concatenate(parts)


class Hashing(Features):
    """A fixed number of coordinates; names are spread over them by MurmurHash3.

    With ``h`` the signed 32-bit hash of a name (seed 0), its coordinate is ``abs(h) % 2**bits`` and its values are
    multiplied by the sign of ``h``: what scikit-learn's ``FeatureHasher(n_features=2**bits)`` does. Two names on one
    coordinate are summed. A whole number below 2**bits is its own coordinate, with sign +; a larger one is hashed by
    its decimal digits. The constant is coordinate 2**bits.

    The first name of each coordinate is kept, up to 254 bytes of it, and the factors of the first product.

    Args:
        bits: from 1 to 30; 2**bits coordinates.
        compiled: False to run the loops as plain Python.

    >>> features = Hashing(4)
    >>> slots, signs = features.slots(["city=Paris", "city=Rome", "height"])
    >>> slots.tolist(), signs.tolist(), features.name(7), features.report().used
    ([1, 7, 7], [-1.0, 1.0, 1.0], 'city=Rome', 2)
    """

    crossed: NDArray[np.uint8] = np.empty(0, np.uint8)  # bit set of coordinates with an interaction

    def __init__(self, bits: int = 18, *, compiled: bool = True) -> None:
        good = isinstance(bits, (int, np.integer)) and 1 <= bits <= 30
        require(good, "bits", bits, "must be a whole number from 1 to 30", "18 is a good start")
        self.bits, self.compiled, self.frozen = int(bits), compiled, False
        octets = (1 << self.bits) // 8 + 1
        # Pages of zeros take no memory until written.
        self._table: HashTable = HashTable(
            named=np.zeros(octets, np.uint8),
            numbered=np.zeros(octets, np.uint8),
            news=np.zeros(64, np.int32),
            ends=np.zeros(65, np.int64),
            arena=np.zeros(4096, np.uint8),
            counts=np.zeros(1, np.int64),
            mask=np.uint64((1 << self.bits) - 1),
        )
        #: The first name of each coordinate: its start in the text (-1 if not stored) and its size.
        self._names = Kept(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint8))
        self._text = bytearray()
        self._products = Kept(np.empty(0, np.int32), np.empty((0, 0), np.int32))  # and the factors of each
        self.crossed = np.zeros(octets, np.uint8)
        self._is_copy = False  # True for a copy that reads ahead, which stores no names
        self._new_products = [NO_PRODUCTS]  # for :meth:`news` of a copy

    @property
    def dimension(self) -> int:
        return (1 << self.bits) + 1

    @property
    def constant(self) -> int:
        return 1 << self.bits

    def _name(self, slot: int) -> str | None:
        name = self._own_name(slot)
        if name is None and (factors := self._factors(slot)):
            return SEPARATOR.join(self._own_name(factor) or f"#{factor}" for factor in factors)
        return name

    def _factors(self, slot: int) -> list[int]:
        """The factors of the interaction at a coordinate; empty if none."""
        entry = self._products.entry(slot)
        return [] if entry is None else [factor for factor in entry[0] if factor >= 0]

    def _kept_name(self, slot: int) -> str | None:
        """The stored first name of a coordinate, or None."""
        entry = self._names.entry(slot)
        if entry is None or entry[0] < 0:
            return None
        begin, size = entry
        raw = bytes(self._text[begin : begin + min(size, MAX_SHOWN_BYTES)])
        return raw.decode(errors="ignore") + "…" if size == MAX_LOGGED_BYTES else raw.decode(errors="replace")

    def _own_name(self, slot: int) -> str | None:
        """The first name or number at a coordinate, without interactions."""
        name = self._kept_name(slot)
        return str(slot) if name is None and _has_bits(self._table.numbered, np.array([slot]))[0] else name

    def sign(self, slot: int) -> float:
        if slot == self.constant or self._own_name(slot) is not None:
            return self._own_sign(slot)
        return math.prod(self._own_sign(factor) for factor in self._factors(slot))

    def _own_sign(self, slot: int) -> float:
        name = self._kept_name(slot)
        if name is None:
            return 1.0
        before, self.frozen = self.frozen, True  # a truncated name would be a different name
        slots, signs = self.slots([name])
        self.frozen = before
        return float(signs[0]) if slots[0] == slot else 1.0

    def note_products(self, rows: NDArray[np.int32]) -> None:
        """Store the factors of interactions that are the first at their coordinates."""
        if self._is_copy:
            self._new_products.append(rows.copy())
        else:
            self._products.add(rows[:, 0].copy(), rows[:, 1:].copy())

    def report(self) -> Report:
        size = 1 << self.bits
        named, numbers = _ones(self._table.named), _ones(self._table.numbered)
        used = _ones(self._table.named | self._table.numbered)
        # The last coordinate is filled after size (log(size) + 0.577) names, on average.
        names = size * (math.log(size / (size - named)) if named < size else math.log(size) + np.euler_gamma)
        return Report(size, used, max(0, round(names) + numbers - used), named == 0, 0)

    def ahead(self) -> "Hashing":
        copy = Hashing(self.bits, compiled=self.compiled)
        copy._table.named[:], copy._table.numbered[:] = self._table.named, self._table.numbered
        copy.crossed[:] = self.crossed
        copy._is_copy, copy.frozen = True, self.frozen
        return copy

    def news(self) -> News:
        table, count = self._table, int(self._table.counts[NEW_NAMES])
        ends = table.ends[: count + 1].copy()
        table.counts[NEW_NAMES] = 0
        products, self._new_products = joined(self._new_products), [NO_PRODUCTS]
        return News(self.dimension, table.news[:count].copy(), ends, table.arena[: ends[-1]].copy(), 0, products)

    def learn(self, news: News) -> None:
        news = self.unknown(news)  # a copy lacks the names that others have added
        self._keep(news)
        _set_bits(self._table.named, news.slots[news.slots >= 0] % NAMELESS)
        _set_bits(self._table.numbered, ~news.slots[news.slots < 0])
        _set_bits(self.crossed, news.products[:, 0])
        self._products.add(news.products[:, 0], news.products[:, 1:])

    def unknown(self, news: News) -> News:
        """Drop news about coordinates that already have a name; other processes may have sent them.

        >>> ours, theirs = Hashing(4), Hashing(4).ahead()
        >>> _ = ours.slots(["a"]), theirs.slots(["a", "b"])
        >>> bytes(ours.unknown(theirs.news()).text)
        b'b'
        """
        named = news.slots >= 0
        places = np.where(named, news.slots % NAMELESS, 0)
        kept = ~(named & _has_bits(self._table.named, places))
        # A name after the coordinate's own number is not stored, as in a single process.
        nameless = named & (_has_bits(self._table.numbered, places) | (news.slots >= NAMELESS))
        sizes = np.diff(news.ends)
        text = news.text[np.repeat(kept & ~nameless, sizes)]
        slots, sizes = np.where(nameless, places + NAMELESS, news.slots)[kept], np.where(nameless, 0, sizes)[kept]
        crossed = _has_bits(self.crossed, news.products[:, 0])
        return news._replace(
            slots=slots.astype(np.int32), ends=np.concatenate([[0], np.cumsum(sizes)]), text=text,
            products=news.products[~crossed],
        )  # fmt: skip

    def _keep(self, news: News) -> None:
        """Store the first names of coordinates."""
        named = news.slots >= 0
        if not self._is_copy and named.any():
            slots, sizes = news.slots[named], np.diff(news.ends)[named].astype(np.uint8)
            begins = np.where(slots < NAMELESS, len(self._text) + news.ends[:-1][named], -1)
            self._names.add(slots % NAMELESS, begins, sizes)
            self._text += news.text.tobytes()

    def state(self) -> tuple[dict[str, Any], Arrays]:
        slots, begins, sizes = self._names.arrays()
        names = np.frombuffer(bytes(self._text), np.uint8)
        numbers = np.flatnonzero(np.unpackbits(self._table.numbered, bitorder="little")).astype(np.int32)
        arrays: Arrays = {"slots": slots, "begins": begins, "sizes": sizes, "names": names, "numbers": numbers}
        settings = {"kind": "hashing", "bits": self.bits}
        products = np.column_stack(self._products.arrays())
        if len(products):
            settings["factors"] = products.shape[1] - 1
            arrays["products"] = products.ravel()
        return settings, arrays

    def _restore(self, settings: Mapping[str, Any], given: Mapping[str, NDArray[Any]]) -> None:
        arrays = checked(given, slots=np.int32, begins=np.int64, sizes=np.uint8, names=np.uint8, numbers=np.int32)
        slots, begins, sizes, names, numbers = arrays.values()
        sound("slots", len(slots) == len(begins) == len(sizes) and ascending(slots, self.constant))
        sound("numbers", ascending(numbers, self.constant))
        ends = begins + np.minimum(sizes, MAX_SHOWN_BYTES)
        sound("begins", bool((begins >= -1).all() and (ends <= len(names)).all()))
        _set_bits(self._table.named, slots)
        _set_bits(self._table.numbered, numbers)
        self._names, self._text = Kept(slots, begins, sizes), bytearray(names.tobytes())
        if "factors" in settings:
            size = settings["factors"] + 1
            products = checked(given, products=np.int32)["products"]
            sound("factors", isinstance(size, int) and size > 2 and len(products) % size == 0)
            products = products.reshape(-1, size)
            inside = products.min(initial=0) >= -1 and products.max(initial=0) < self.constant
            sound("products", ascending(products[:, 0], self.constant) and bool(inside))
            _set_bits(self.crossed, products[:, 0])
            self._products = Kept(products[:, 0], products[:, 1:])

    def _distinct(self, numbers: NDArray[np.uint64], slots: NDArray[np.int32]) -> bool:
        return bool(numbers.max(initial=0) < self.constant)

    def _noted(self) -> None:
        if not self._is_copy and self._table.counts[NEW_NAMES]:
            self._keep(self.news())

    def _grow(self, size: int) -> None:
        table, count = self._table, 2 * len(self._table.news)
        self._table = table._replace(
            news=longer(table.news, count), ends=longer(table.ends, count + 1), arena=longer(table.arena, 64 * count)
        )


def _ones(bits: NDArray[np.uint8]) -> int:
    return int.from_bytes(bits.tobytes(), "little").bit_count()


def _has_bits(bits: NDArray[np.uint8], slots: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((bits[slots >> 3] >> (slots & 7).astype(np.uint8)) & 1 == 1)


def _set_bits(bits: NDArray[np.uint8], slots: NDArray[Any]) -> None:
    np.bitwise_or.at(bits, slots >> 3, np.left_shift(1, slots & 7).astype(np.uint8))


class Dictionary(Features):
    """A coordinate for every name, in order of appearance: no collisions, growing memory.

    The constant is coordinate 0 and names count from 1. A whole number is named by its decimal digits. A frozen
    dictionary drops new names and counts them in the report.

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
        self.compiled, self.frozen = compiled, False
        self._table: ExactTable = ExactTable(
            cells=np.zeros(1024, np.uint64),
            ends=np.zeros(513, np.int64),
            arena=np.zeros(8192, np.uint8),
            by_number=np.zeros(1024, np.int32),
            counts=np.zeros(2, np.int64),
        )
        self._told = 1, 0  # the dimension and dropped occurrences at the last call of news

    @property
    def dimension(self) -> int:
        return int(self._table.counts[NAMES]) + 1

    @property
    def constant(self) -> int:
        return 0

    def _name(self, slot: int) -> str:
        begin, end = self._table.ends[slot - 1 : slot + 1]
        return self._table.arena[begin:end].tobytes().decode(errors="replace")

    def report(self) -> Report:
        names = self.dimension - 1
        return Report(names, names, 0, True, int(self._table.counts[DROPPED]))

    def ahead(self) -> "Dictionary":
        copy, table = type(self)(compiled=self.compiled), self._table
        # A frozen table changes only in the short cut and the counts.
        arrays: list[Any] = [array if self.frozen else array.copy() for array in table]
        copy._table = ExactTable(*arrays)._replace(by_number=table.by_number.copy(), counts=table.counts.copy())
        copy.frozen, copy._told = self.frozen, (copy.dimension, int(table.counts[DROPPED]))
        return copy

    def news(self) -> News:
        (first, before), self._told = self._told, (self.dimension, int(self._table.counts[DROPPED]))
        last, dropped = self._told
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
        sound("names", self.dimension == len(ends))  # duplicates share a coordinate

    def _distinct(self, numbers: NDArray[np.uint64], slots: NDArray[np.int32]) -> bool:
        return not self.frozen or bool(slots.min(initial=1) >= 0)

    def number_slots(self, numbers: NDArray[np.uint64], values: NDArray[np.float64]) -> tuple[NDArray[np.int32], bool]:
        size = min(MAX_SHORT_CUTS, 1 << int(numbers.max(initial=0)).bit_length())
        if size > len(self._table.by_number):
            self._table = self._table._replace(by_number=longer(self._table.by_number, size))
        return super().number_slots(numbers, values)

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


def restore(settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, compiled: bool = True) -> Features:
    """Restore features from :meth:`Features.state`; they are not frozen.

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
