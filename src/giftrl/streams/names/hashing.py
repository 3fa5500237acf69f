"""Coordinates by hashing: a fixed number of them, for any number of names."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.errors import InvalidInput, UnknownName, require
from giftrl.streams.names.features import Arrays, Dictionary, Features, News, Report, ascending, checked, longer, sound
from giftrl.streams.names.interactions import SEPARATOR
from giftrl.streams.names.tables import MAX_LOGGED_BYTES, NAMELESS, NEW_NAMES, HashTable

EULER = 0.5772156649015329


class Hashing(Features):
    """A fixed number of coordinates; names are spread over them by MurmurHash3.

    With ``h`` the signed 32-bit hash of a name (seed 0), its coordinate is ``abs(h) % 2**bits`` and its values are
    multiplied by the sign of ``h``: what scikit-learn's ``FeatureHasher(n_features=2**bits)`` does. Two names on one
    coordinate are summed. A whole number below 2**bits is its own coordinate, with sign +; a larger one is hashed by
    its decimal digits. The constant is coordinate 2**bits.

    The first name of each coordinate is kept, up to 254 bytes of it, and the factors of the first product. How many
    names share a coordinate is estimated from how many coordinates are in use (:class:`Report`).

    Args:
        bits: from 1 to 30; 2**bits coordinates.
        compiled: False to run the loops as plain Python.

    >>> features = Hashing(4)
    >>> slots, signs = features.slots(["city=Paris", "city=Rome", "height"])
    >>> slots.tolist(), signs.tolist(), features.name(7), features.report().used
    ([1, 7, 7], [-1.0, 1.0, 1.0], 'city=Rome', 2)
    """

    def __init__(self, bits: int = 18, *, compiled: bool = True) -> None:
        good = isinstance(bits, (int, np.integer)) and 1 <= bits <= 30
        require(good, "bits", bits, "must be a whole number from 1 to 30", "18 is a good start")
        self.bits = int(bits)
        self.compiled = compiled
        self.frozen = False
        octets = (1 << self.bits) // 8 + 1
        # Zeros that nothing is written to take no memory.
        self._table: HashTable = HashTable(
            named=np.zeros(octets, np.uint8),
            numbered=np.zeros(octets, np.uint8),
            news=np.zeros(64, np.int32),
            ends=np.zeros(65, np.int64),
            arena=np.zeros(4096, np.uint8),
            counts=np.zeros(1, np.int64),
            mask=np.uint64((1 << self.bits) - 1),
        )
        self._kept: KeptNames | None = KeptNames([], [], [], [])  # None in a copy that reads ahead
        self._crossed = np.zeros(octets, np.uint8)
        self._unmarked: list[NDArray[np.int32]] = []  # coordinates of products whose bits are not set yet
        self._products = KeptProducts(no_products())
        self._new_products: list[NDArray[np.int32]] = []  # in a copy that reads ahead

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
        name = self._own_name(slot)
        if name is None and (factors := self._products.factors(slot)):
            return SEPARATOR.join(self._own_name(factor) or f"#{factor}" for factor in factors)
        return name

    def _own_name(self, slot: int) -> str | None:
        """The first name or number at a coordinate, whether there is a product too or not."""
        name = None if self._kept is None else self._kept.name(slot)
        return str(slot) if name is None and _has_bits(self._table.numbered, np.array([slot]))[0] else name

    def sign(self, slot: int) -> float:
        if slot == self.constant or self._own_name(slot) is not None:
            return self._own_sign(slot)
        return math.prod(self._own_sign(factor) for factor in self._products.factors(slot))

    def _own_sign(self, slot: int) -> float:
        name = None if self._kept is None else self._kept.name(slot)
        if name is None:
            return 1.0
        before, self.frozen = self.frozen, True  # a name that was cut is another name, which must not be kept
        slots, signs = self.slots([name])
        self.frozen = before
        return float(signs[0]) if slots[0] == slot else 1.0

    @property
    def crossed(self) -> NDArray[np.uint8]:
        """A bit for each coordinate that has a product."""
        while self._unmarked:
            _set_bits(self._crossed, self._unmarked.pop())
        return self._crossed

    def note_products(self, rows: NDArray[np.int32]) -> None:
        """Keep the factors of products, which are the first at their coordinates; see :class:`KeptProducts`."""
        if self._kept is None:
            self._new_products.append(rows.copy())
        else:
            self._products.add(rows.copy())

    def report(self) -> Report:
        size = 1 << self.bits
        named, numbers = _ones(self._table.named), _ones(self._table.numbered)
        used = _ones(self._table.named | self._table.numbered)
        # The last coordinate is filled after size (log(size) + 0.577) names, on average.
        names = size * (math.log(size / (size - named)) if named < size else math.log(size) + EULER)
        return Report(size, used, max(0, round(names) + numbers - used), named == 0, 0)

    def ahead(self) -> "Hashing":
        copy = Hashing(self.bits, compiled=self.compiled)
        copy._table.named[:], copy._table.numbered[:] = self._table.named, self._table.numbered
        copy._crossed[:] = self.crossed
        copy._kept, copy.frozen = None, self.frozen
        return copy

    def news(self) -> News:
        table = self._table
        count = int(table.counts[NEW_NAMES])
        ends = table.ends[: count + 1].copy()
        table.counts[NEW_NAMES] = 0
        products, self._new_products = joined(self._new_products), []
        return News(self.dimension, table.news[:count].copy(), ends, table.arena[: ends[-1]].copy(), 0, products)

    def learn(self, news: News) -> None:
        names = news.slots >= 0
        slots = np.where(names, news.slots % NAMELESS, 0)
        known = _has_bits(self._table.named, slots) | (_has_bits(self._table.numbered, slots) & (news.slots < NAMELESS))
        if (known & names).any():  # a copy did not know what others had met
            self.learn(self.unknown(news))
            return
        self._keep(news, names)
        _set_bits(self._table.named, slots[names])
        _set_bits(self._table.numbered, ~news.slots[news.slots < 0])
        self._products.add(news.products)
        self._unmarked.append(news.products[:, 0])

    def unknown(self, news: News) -> News:
        """News without the names and products of coordinates that have one; those of other processes may be known.

        >>> ours, theirs = Hashing(4), Hashing(4).ahead()
        >>> _ = ours.slots(["a"]), theirs.slots(["a", "b"])
        >>> bytes(ours.unknown(theirs.news()).text)
        b'b'
        """
        named = news.slots >= 0
        places = np.where(named, news.slots % NAMELESS, 0)
        kept = ~(named & _has_bits(self._table.named, places))
        # A name that comes after the coordinate's own number is not kept, as if one copy had met both.
        nameless = named & (_has_bits(self._table.numbered, places) | (news.slots >= NAMELESS))
        sizes = np.diff(news.ends)
        text = news.text[np.repeat(kept & ~nameless, sizes)]
        slots, sizes = np.where(nameless, places + NAMELESS, news.slots)[kept], np.where(nameless, 0, sizes)[kept]
        crossed = _has_bits(self.crossed, news.products[:, 0])
        return news._replace(
            slots=slots.astype(np.int32), ends=np.concatenate([[0], np.cumsum(sizes)]), text=text,
            products=news.products[~crossed],
        )  # fmt: skip

    def _keep(self, news: News, which: NDArray[np.bool_]) -> None:
        """Keep some of the names."""
        if self._kept is not None and which.any():
            self._kept.add(news.slots[which], news.ends[:-1][which], news.ends[1:][which], news.text)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        slots, begins, sizes, names = (self._kept or KeptNames([], [], [], [])).arrays()
        numbers = np.flatnonzero(np.unpackbits(self._table.numbered, bitorder="little")).astype(np.int32)
        arrays: Arrays = {"slots": slots, "begins": begins, "sizes": sizes, "names": names, "numbers": numbers}
        settings = {"kind": "hashing", "bits": self.bits}
        if len(products := self._products.rows()):
            settings["factors"] = products.shape[1] - 1
            arrays["products"] = products.ravel()
        return settings, arrays

    def _restore(self, settings: Mapping[str, Any], given: Mapping[str, NDArray[Any]]) -> None:
        arrays = checked(given, slots=np.int32, begins=np.int64, sizes=np.uint8, names=np.uint8, numbers=np.int32)
        slots, begins, sizes, names, numbers = arrays.values()
        sound("slots", len(slots) == len(begins) == len(sizes) and ascending(slots, self.constant))
        sound("numbers", ascending(numbers, self.constant))
        sound(
            "begins", bool((begins >= -1).all() and (begins + np.minimum(sizes, SHOWN_NAME_BYTES) <= len(names)).all())
        )
        _set_bits(self._table.named, slots)
        _set_bits(self._table.numbered, numbers)
        self._kept = KeptNames(slots, begins, sizes, names)
        if "factors" in settings:
            size = settings["factors"] + 1
            products = checked(given, products=np.int32)["products"]
            sound("factors", isinstance(size, int) and size > 2 and len(products) % size == 0)
            products = products.reshape(-1, size)
            inside = products.min(initial=0) >= -1 and products.max(initial=0) < self.constant
            sound("products", ascending(products[:, 0], self.constant) and bool(inside))
            self._unmarked.append(products[:, 0])
            self._products = KeptProducts(products)

    def _distinct(self, numbers: NDArray[np.uint64], slots: NDArray[np.int32]) -> bool:
        return bool(numbers.max(initial=0) < self.constant)

    def _noted(self) -> None:
        if self._kept is not None and self._table.counts[NEW_NAMES]:
            news = self.news()
            self._keep(news, news.slots >= 0)

    def _grow(self, size: int) -> None:
        table = self._table
        count = 2 * len(table.news)
        self._table = table._replace(
            news=longer(table.news, count), ends=longer(table.ends, count + 1), arena=longer(table.arena, 64 * count)
        )


def _ones(bits: NDArray[np.uint8]) -> int:
    return int.from_bytes(bits.tobytes(), "little").bit_count()


def _has_bits(bits: NDArray[np.uint8], slots: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((bits[slots >> 3] >> (slots & 7).astype(np.uint8)) & 1 == 1)


def _set_bits(bits: NDArray[np.uint8], slots: NDArray[Any]) -> None:
    np.bitwise_or.at(bits, slots >> 3, np.left_shift(1, slots & 7).astype(np.uint8))


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


# Names and products kept by hashing, so that weights can be shown by name.

SHOWN_NAME_BYTES = MAX_LOGGED_BYTES - 1  # bytes of a name that are shown; a name of CUT bytes is longer


class KeptNames:
    """Names by coordinate; new ones are appended, and sorted in when a name is asked for.

    Args:
        slots: coordinates that have a name.
        begins: where each name begins in the text; -1 for a name that is not kept.
        sizes: how many bytes it has, CUT where it is longer.
        text: the names.
    """

    def __init__(self, slots: ArrayLike, begins: ArrayLike, sizes: ArrayLike, text: ArrayLike) -> None:
        texts = np.asarray(text, np.uint8)
        self._size = len(texts)
        self._parts = [(np.asarray(slots, np.int32), np.asarray(begins, np.int64), np.asarray(sizes, np.uint8), texts)]

    def add(
        self, slots: NDArray[np.int32], begins: NDArray[np.int64], ends: NDArray[np.int64], text: NDArray[np.uint8]
    ) -> None:
        """Add the names of coordinates that have none; NAMELESS is added to a coordinate whose name is not kept."""
        places = np.where(slots < NAMELESS, self._size + begins, -1)
        self._parts.append((slots % NAMELESS, places, (ends - begins).astype(np.uint8), text))
        self._size += len(text)

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8]]:
        """The arguments that make these names again, sorted by coordinate."""
        if len(self._parts) > 1:
            slots, begins, sizes, text = (np.concatenate(each) for each in zip(*self._parts, strict=True))
            order = np.argsort(slots)
            self._parts = [(slots[order].astype(np.int32), begins[order], sizes[order], text)]
        return self._parts[0]

    def name(self, slot: int) -> str | None:
        """The name of a coordinate; None if it has none, or it is not kept."""
        slots, begins, sizes, text = self.arrays()
        at = int(np.searchsorted(slots, slot))
        if at == len(slots) or slots[at] != slot or begins[at] < 0:
            return None
        raw = text[begins[at] : begins[at] + min(int(sizes[at]), SHOWN_NAME_BYTES)].tobytes()
        return raw.decode(errors="ignore") + "…" if sizes[at] == MAX_LOGGED_BYTES else raw.decode(errors="replace")


class KeptProducts:
    """The factors of the first product at each coordinate; new ones are appended, and sorted in when they are wanted.

    Args:
        rows: of each product its coordinate and those of its factors; -1 stands behind the factors of a short product.
    """

    def __init__(self, rows: NDArray[np.int32]) -> None:
        self._parts = [rows]
        self._sorted = True

    def add(self, rows: NDArray[np.int32]) -> None:
        """Add products; if a coordinate has one, that one stays."""
        if len(rows):
            self._parts.append(rows)
            self._sorted = False

    def rows(self) -> NDArray[np.int32]:
        """All products, sorted by coordinate."""
        if not self._sorted:
            whole = joined(self._parts)
            whole = whole[np.argsort(whole[:, 0], kind="stable")]
            first = np.diff(whole[:, 0], prepend=-1) > 0  # two readers may have brought a product to one coordinate
            self._parts, self._sorted = [whole[first]], True
        return self._parts[0]

    def factors(self, slot: int) -> list[int]:
        """The factors of the product of a coordinate; none if it has no product."""
        rows = self.rows()
        at = int(np.searchsorted(rows[:, 0], slot))
        if at == len(rows) or rows[at, 0] != slot:
            return []
        return [factor for factor in rows[at, 1:].tolist() if factor >= 0]


def no_products() -> NDArray[np.int32]:
    """The rows of :class:`KeptProducts` where there are none."""
    return np.empty((0, 1), np.int32)


def joined(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Rows of products of different lengths in one array."""
    width = max((part.shape[1] for part in parts if len(part)), default=1)
    longer = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1) for part in parts if len(part)]
    return np.concatenate(longer) if longer else no_products()
