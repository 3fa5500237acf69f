"""Products of features, batch by batch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.streams.batch import Batch, keep_rows, merge, overflowed
from giftrl.streams.names.features import Dictionary, Features
from giftrl.streams.names.hashing import Hashing
from giftrl.streams.names.interactions import SEPARATOR, Interactions
from giftrl.streams.names.tables import Sections, has_bit, set_bit

# Compiled loops that append products of features to rows.

ZERO = np.uint64(0)
ONE = np.uint64(1)
HALF = np.uint64(32)
# Of the splitmix64 generator (G. Steele, D. Lea, C. Flood: Fast splittable pseudorandom number generators, 2014).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX1 = np.uint64(0xBF58476D1CE4E5B9)
MIX2 = np.uint64(0x94D049BB133111EB)


class GroupedEntries(NamedTuple):
    """Rows and the groups of their entries."""

    data: NDArray[np.float64]
    indices: NDArray[np.int32]
    groups: NDArray[np.uint8]
    indptr: NDArray[np.int64]


class WantedProducts(NamedTuple):
    """The products to add, as arrays of :class:`giftrl.streams.names.interactions.Interactions`."""

    allowed: NDArray[np.uint8]  # of two factors
    patterns: NDArray[np.uint8]  # of more


class ProductBuffers(NamedTuple):
    """Buffers for rows with their products.

    A factor is given by its coordinate. The factors of a product are sorted; -1 stands behind those of a short one.
    """

    data: NDArray[np.float64]
    indices: NDArray[np.int32]  # -1 for a product in a dictionary
    indptr: NDArray[np.int64]
    factors: NDArray[np.int32]  # of each product, for a dictionary; no rows for hashed names
    mask: np.uint64  # the last coordinate of hashed names; 0 for a dictionary
    seen: NDArray[np.uint8]  # a bit for each hashed coordinate that has a product; empty if it does not matter
    news: NDArray[np.int32]  # the coordinate and the factors of each product that is the first at its coordinate


@formula
def spread(key: Any) -> Any:
    """Sixty-four well mixed bits."""
    key = (key + GOLDEN) & np.uint64(2**64 - 1)
    key = (key ^ (key >> np.uint64(30))) * MIX1
    key = (key ^ (key >> np.uint64(27))) * MIX2
    return key ^ (key >> np.uint64(31))


@formula
def pair_key(a: Any, b: Any) -> Any:
    """One number for two coordinates, in whatever order they come."""
    u, v = np.uint64(a), np.uint64(b)
    return (min(u, v) << HALF) | max(u, v)


@formula
def product_slot(factors: Any, size: Any, mask: Any) -> Any:
    """The coordinate of the product of hashed features, sorted: 32 mixed bits, modulo a power of two."""
    key = spread(pair_key(factors[ZERO], factors[ONE]))
    for i in range(2, size):
        key = spread(key ^ np.uint64(factors[np.uint64(i)]))
    return (key >> HALF) & mask


@formula
def count_products(entries: Any, wanted: Any, counts: Any) -> None:
    """Count the products of each row, from how many entries each group has in it."""
    groups, indptr, allowed = entries.groups, entries.indptr, wanted.allowed
    members = np.zeros(256, np.int64)
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        total = np.int64(0)
        for k in range(first, last):
            g = np.uint64(groups[k])
            members[g] += 1
            # With itself, and with those that came before.
            for other in range(len(allowed)):
                if allowed[g, np.uint64(other)]:
                    total += members[np.uint64(other)]
        if len(wanted.patterns) > 0:
            total += np.int64(min(count_longer(members, wanted.patterns), 2.0**62))
        for k in range(first, last):
            members[np.uint64(groups[k])] = 0
        counts[np.uint64(i)] = total


@formula
def count_longer(members: Any, patterns: Any) -> Any:
    """Count products of three or more factors: n of m entries, with repetition, in C(m + n - 1, n) ways.

    Exact up to 2^53.
    """
    total = 0.0
    for row in range(len(patterns)):
        pattern = patterns[row]
        ways, run = 1.0, 0
        for i in range(len(pattern)):
            run = run + 1 if i > 0 and pattern[i] == pattern[i - 1] else 1
            if pattern[i] > 0:
                ways = ways * (members[np.uint64(pattern[i])] + run - 1) / run
        total += ways
    return total


@formula
def cross_rows(entries: Any, wanted: Any, made: Any) -> Any:
    """Copy rows and append their products; returns how many of these are news."""
    data, indices, groups, indptr = entries
    allowed, patterns = wanted
    hashed = made.mask > ZERO
    noting = len(made.seen) > 0
    out, noted = ZERO, ZERO
    factors = np.empty(max(2, patterns.shape[1]), np.int32)
    longest = 0
    for i in range(len(indptr) - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    order = np.empty(longest if len(patterns) > 0 else 0, np.int64)
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        made.indptr[np.uint64(i)] = np.int64(out)
        for k in range(first, last):
            made.data[out] = data[k]
            made.indices[out] = indices[k]
            out = out + ONE
        for k in range(first, last):
            g = np.uint64(groups[k])
            if g == ZERO:
                continue
            for j in range(first, k + ONE):
                if allowed[g, np.uint64(groups[j])]:
                    made.data[out] = data[k] * data[j]
                    if hashed:
                        slot = (spread(pair_key(indices[k], indices[j])) >> HALF) & made.mask
                        made.indices[out] = np.int64(slot)
                        if noting and not has_bit(made.seen, slot):
                            factors[ZERO], factors[ONE] = min(indices[k], indices[j]), max(indices[k], indices[j])
                            noted = note_product(made, slot, factors, 2, noted)
                    else:
                        made.indices[out] = -1
                        made.factors[out, ZERO] = min(indices[k], indices[j])
                        made.factors[out, ONE] = max(indices[k], indices[j])
                    out = out + ONE
        if len(patterns) > 0:
            out, noted = add_longer(entries, first, last, patterns, order, factors, made, out, noted)
    made.indptr[len(made.indptr) - 1] = np.int64(out)
    return noted


@formula
def note_product(made: Any, slot: Any, factors: Any, size: Any, noted: Any) -> Any:
    """Note the first product at a coordinate; returns how many are noted."""
    set_bit(made.seen, slot)
    made.news[noted, ZERO] = np.int64(slot)
    for i in range(made.news.shape[1] - 1):
        made.news[noted, np.uint64(i + 1)] = factors[np.uint64(i)] if i < size else -1
    return noted + ONE


@formula
def add_longer(
    entries: Any, first: Any, last: Any, patterns: Any, order: Any, factors: Any, made: Any, out: Any, noted: Any
) -> tuple[Any, Any]:
    """Append the products of three or more factors of one row; where the next goes, and how many are news.

    Entries are sorted by their groups. Each factor of a pattern then has a range of entries to go through; a factor of
    the same group as the one before it starts where that one stands, so that each choice of entries comes once.
    """
    starts = np.zeros(257, np.int64)
    for k in range(first, last):
        starts[np.uint64(entries.groups[k]) + ONE] += 1
    for code in range(256):
        starts[code + 1] += starts[code]
    filled = starts.copy()
    for k in range(first, last):
        g = np.uint64(entries.groups[k])
        order[filled[g]] = np.int64(k)
        filled[g] += 1
    places = np.zeros(len(factors), np.int64)
    for row in range(len(patterns)):
        size, there = 0, True
        for i in range(patterns.shape[1]):
            g = np.uint64(patterns[row, i])
            if g > ZERO:
                size += 1
                places[i] = starts[g]
                there = there and starts[g + ONE] > starts[g]
        while there:
            out, noted = add_product(entries, order, places, size, factors, made, out, noted)
            # On to the next choice, as an odometer goes on.
            i = size - 1
            while i >= 0 and places[i] == starts[np.uint64(patterns[row, i]) + ONE] - 1:
                i -= 1
            there = i >= 0
            if there:
                places[i] += 1
                for later in range(i + 1, size):
                    g = np.uint64(patterns[row, later])
                    same = patterns[row, later] == patterns[row, later - 1]
                    places[later] = places[later - 1] if same else starts[g]
    return out, noted


@formula
def add_product(
    entries: Any, order: Any, places: Any, size: Any, factors: Any, made: Any, out: Any, noted: Any
) -> tuple[Any, Any]:
    """Append the product of the entries at some places; where the next goes, and how many are news."""
    value = 1.0
    for i in range(size):
        k = order[places[i]]
        value *= entries.data[k]
        at = i
        while at > 0 and factors[at - 1] > entries.indices[k]:
            factors[at] = factors[at - 1]
            at -= 1
        factors[at] = entries.indices[k]
    made.data[out] = value
    if made.mask > ZERO:
        slot = product_slot(factors, size, made.mask)
        made.indices[out] = np.int64(slot)
        if len(made.seen) > 0 and not has_bit(made.seen, slot):
            noted = note_product(made, slot, factors, size, noted)
    else:
        made.indices[out] = -1
        for i in range(size):
            made.factors[out, np.uint64(i)] = factors[i]
    return out + ONE, noted


#: How many products a batch may have; larger ones are cut into several.
MAX_PRODUCTS_PER_BATCH = 1 << 22
#: How many products a row may have.
MAX_PRODUCTS_PER_ROW = 1 << 24
#: How many products are remembered as unknown to a frozen dictionary.
MAX_UNKNOWN_PRODUCTS = 1 << 22


class _Products:
    """The coordinates of products in a dictionary, which saves making the name of one that came before."""

    def __init__(self, features: Features, compiled: bool) -> None:
        self.features = features
        self.compiled = compiled
        self._clear()

    def _clear(self) -> None:
        self._places = Dictionary(compiled=self.compiled)  # its names are the bytes of the factors
        self._slots = np.zeros(1, np.int32)  # by those places
        self._frozen = self.features.frozen

    def slots(self, factors: NDArray[np.int32]) -> NDArray[np.int32]:
        """The coordinates of products, by their factors as :class:`ProductBuffers` has them."""
        if self.features.frozen != self._frozen or (self._frozen and len(self._slots) > MAX_UNKNOWN_PRODUCTS):
            self._clear()
        count, width = factors.shape
        starts = np.arange(0, 4 * width * count, 4 * width)
        text = np.ascontiguousarray(factors).view(np.uint8).reshape(-1)
        places = self._places.name_slots(text, starts, starts + 4 * width, Sections.none(), np.ones(count))
        new = self._places.news().text.view(np.int32).reshape(-1, width)
        made = self.features.slots(self._names(new))[0]  # the signs of a dictionary are all 1
        self._slots = np.append(self._slots, made)
        return np.asarray(self._slots[places])

    def _names(self, factors: NDArray[np.int32]) -> list[str]:
        known = {slot: str(self.features.name(slot)) for slot in np.unique(factors).tolist() if slot >= 0}
        return [SEPARATOR.join([known[slot] for slot in row if slot >= 0]) for row in factors.tolist()]


class Crossed(NamedTuple):
    """Rows with their products, and the lines of rows with too many products or too large ones."""

    batch: Batch
    bad: list[tuple[int, str, str]]  # the line, what is wrong, what was expected
    following: int | None  # the line where the next piece begins; None after the last


class Crossing:
    """Interactions for one way of numbering features."""

    def __init__(self, interactions: Interactions, features: Features, *, compiled: bool = True) -> None:
        self.interactions = interactions
        self.features = features
        self.compiled = compiled
        self._named = None if isinstance(features, Hashing) else _Products(features, compiled)

    def cross(
        self, batch: Batch, piece: int = MAX_PRODUCTS_PER_BATCH, most: int = MAX_PRODUCTS_PER_ROW
    ) -> Iterator[Crossed]:
        """The rows of a batch with their products, in pieces that fit into memory; all have the batch's ``end``."""
        wanted = WantedProducts(self.interactions.allowed, self.interactions.patterns)
        counts = np.empty(len(batch), np.int64)
        entries = GroupedEntries(batch.data, batch.indices, batch.groups, batch.indptr)
        ready(count_products, self.compiled)(entries, wanted, counts)
        bad = [
            (int(batch.lines[row]), f"a row with {counts[row]} products of features", f"at most {most}")
            for row in np.flatnonzero(counts > most)
        ]
        if bad:
            batch, counts = keep_rows(batch, counts <= most), counts[counts <= most]
        totals = np.cumsum(counts + np.diff(batch.indptr))
        first = 0
        while first < len(batch) or bad:
            before = totals[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(totals, before + piece, side="right")))
            last = min(last, len(batch))
            following = int(batch.lines[last]) if last < len(batch) else None
            here = [each for each in bad if following is None or each[0] < following]
            yield Crossed(*self._piece(batch, first, last, counts, wanted, here), following)
            first, bad = last, bad[len(here) :]

    def _piece(
        self, batch: Batch, first: int, last: int, counts: NDArray[np.int64], wanted: WantedProducts,
        bad: list[tuple[int, str, str]],
    ) -> tuple[Batch, list[tuple[int, str, str]]]:  # fmt: skip
        begin, end = batch.indptr[first], batch.indptr[last]
        rows = batch.data[begin:end], batch.indices[begin:end], batch.groups[begin:end]
        entries = GroupedEntries(*rows, batch.indptr[first : last + 1] - begin)
        data, indices, indptr = self._crossed(entries, wanted, int(end - begin + counts[first:last].sum()))
        data, indices, _, indptr = merge(data, indices, np.empty(0, np.uint8), indptr, compiled=self.compiled)
        made = replace(
            batch, data=data, indices=indices, indptr=indptr, labels=batch.labels[first:last],
            weights=batch.weights[first:last], lines=batch.lines[first:last], groups=np.empty(0, np.uint8),
            tags=batch.tags[first:last], bases=batch.bases[first:last], rejected=(),
        )  # fmt: skip
        wrong = overflowed(data, indptr)
        if len(wrong):
            lines = [int(line) for line in made.lines[wrong]]
            bad = sorted(bad + [(line, "a product of features that is too large", "a finite number") for line in lines])
            made = keep_rows(made, ~np.isin(np.arange(len(made)), wrong))
        return made, bad

    def _crossed(
        self, entries: GroupedEntries, wanted: WantedProducts, size: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]:
        """Rows with their products, which are so many entries in all."""
        features, width = self.features, self.interactions.width
        nothing, none = np.empty(0, np.uint8), np.empty((0, width), np.int32)
        made = ProductBuffers(
            np.empty(size), np.empty(size, np.int32), np.empty(len(entries.indptr), np.int64), none, np.uint64(0),
            nothing, np.empty((0, width + 1), np.int32),
        )  # fmt: skip
        if isinstance(features, Hashing):
            made = made._replace(mask=np.uint64(features.constant - 1))
            if not features.frozen:
                news = np.empty((min(size, features.constant), width + 1), np.int32)
                made = made._replace(seen=features.crossed, news=news)
        else:
            made = made._replace(factors=np.full((size, width), -1, np.int32))
        noted = int(ready(cross_rows, self.compiled)(entries, wanted, made))
        if isinstance(features, Hashing):
            features.note_products(made.news[:noted])
        elif self._named is not None:
            products = made.indices < 0
            made.indices[products] = self._named.slots(made.factors[products])
        return made.data, made.indices, made.indptr
