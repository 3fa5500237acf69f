"""Interactions (products of features of two or more groups) and n-grams (consecutive names as one feature)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.errors import BadSource, InvalidInput, require
from giftrl.streams.batch import Batch, keep_rows, merge, overflowed
from giftrl.streams.names.features import SEPARATOR, Dictionary, Features, Hashing
from giftrl.streams.names.tables import Sections, has_bit, set_bit

ALL = ":"
#: The maximum number of products in a batch (larger batches are split), and in a row.
MAX_PRODUCTS_PER_BATCH, MAX_PRODUCTS_PER_ROW = 1 << 22, 1 << 24
#: The maximum number of cached products that a frozen dictionary lacks.
MAX_UNKNOWN_PRODUCTS = 1 << 22
#: The number of rows whose products are counted at a time.
ROWS_TO_COUNT = 1 << 12
#: The maximum n of n-grams (text grows 2 + 3 + ... + 8 times), and the maximum number in a row.
MAX_NGRAM, MAX_NGRAMS_PER_ROW = 8, 1 << 24
#: The maximum number of combinations of groups for products of three or more factors.
MAX_GROUP_CHOICES = 1 << 16


class Interactions:
    """Groups of features to multiply with each other; a group is a namespace or a column.

    A product has two or more factors, given by their groups. A group given twice means all pairs of its entries,
    squares included; a group given n times means all combinations of n entries with repetition. The order of factors
    does not matter. A name of one letter stands for
    all groups that begin with it, as in Vowpal Wabbit's ``-q ab``; ":" stands for all groups. Duplicate products are
    added once.

    Args:
        products: names of groups, ``("user", "ad")`` or ``("user", "ad", "page")``; or letters, ``"ua"`` or ``"uap"``.

    >>> Interactions(["ua", ("user", "ad", "page")]).products
    (('u', 'a'), ('user', 'ad', 'page'))
    """

    def __init__(self, products: Sequence[str | tuple[str, ...]]) -> None:
        for given in products:
            good = len(given) >= 2 and all(isinstance(term, str) and term for term in given)
            require(good, "products", given, "must be two or more names, or letters", "try ('user', 'ad') or 'ua'")
        self.products = tuple(tuple(given) for given in products)
        self._codes: dict[frozenset[str], int] = {frozenset(): 0}  # the terms that each group matches, and its number
        self._by_name: dict[str, int] = {}
        self._allowed = np.zeros((256, 256), np.uint8)
        self._patterns: set[tuple[int, ...]] = set()

    def code(self, group: str) -> int:
        """The number of a group. Groups that match the same terms share a number; groups in no product have 0.

        >>> interactions = Interactions(["ab"])
        >>> [interactions.code(name) for name in ("age", "city", "birth", "ad")]
        [1, 0, 2, 1]
        """
        known = self._by_name.get(group)
        if known is not None:
            return known
        terms = {term for given in self.products for term in given}
        matched = frozenset(term for term in terms if matches(term, group))
        if matched not in self._codes:
            fits = len(self._codes) < 256
            require(fits, "products", self.products, "must not need more than 255 groups", "use fewer products")
            self._codes[matched] = len(self._codes)
            self._allow(self._codes[matched])
        if len(self._by_name) < 1 << 16:
            self._by_name[group] = self._codes[matched]
        return self._codes[matched]

    def _allow(self, new: int) -> None:
        """Update the tables of allowed products for a new group number."""
        for given in self.products:
            choices = [[number for matched, number in self._codes.items() if term in matched] for term in given]
            if len(given) > 2:
                fits = math.prod(map(len, choices)) <= MAX_GROUP_CHOICES
                rule = f"must not stand for more than {MAX_GROUP_CHOICES} choices of groups"
                require(fits, "products", given, rule, "use fewer or shorter products")
            for numbers in product(*choices):
                if new not in numbers:
                    continue
                if len(given) == 2:
                    self._allowed[numbers] = self._allowed[numbers[::-1]] = 1
                else:
                    self._patterns.add(tuple(sorted(numbers)))

    @property
    def allowed(self) -> NDArray[np.uint8]:
        """A 0/1 matrix over group numbers: 1 if entries of the two groups are multiplied."""
        size = len(self._codes)
        return np.ascontiguousarray(self._allowed[:size, :size])

    @property
    def patterns(self) -> NDArray[np.uint8]:
        """The products of three or more factors: a row each of the sorted numbers of their groups, then zeros."""
        made = np.zeros((len(self._patterns), self.width), np.uint8)
        for row, numbers in enumerate(sorted(self._patterns)):
            made[row, : len(numbers)] = numbers
        return made

    @property
    def width(self) -> int:
        """The largest number of factors."""
        return max(map(len, self.products), default=2)

    @property
    def unmatched(self) -> tuple[tuple[str, ...], ...]:
        """Products with a group that has not occurred yet.

        >>> interactions = Interactions(["ab", "ac"])
        >>> _ = interactions.code("age"), interactions.code("city")
        >>> interactions.unmatched
        (('a', 'b'),)
        """
        there = frozenset().union(*self._codes)
        return tuple(given for given in self.products if not there.issuperset(given))

    def require_all(self, format_: str) -> int:
        """The number of the only group of a format without groups; only ":" matches it."""
        if not self.code(""):
            rule = f"must be made of ':' alone, such as (':', ':'): {format_} has no namespaces"
            raise InvalidInput("products", self.products, rule, "use another format")
        return self.code("")


def matches(term: str, group: str) -> bool:
    """True if a term matches a group by its name, its first letter, or ":" for all."""
    return term == ALL or (group.startswith(term) if len(term) == 1 else group == term)


class Ngrams:
    """n-grams: namespaces whose consecutive names are joined, and the sizes.

    n-grams of 2, 3, ..., n names are added to a namespace. A bigram is named ``the^cat``, or ``text^the^cat`` in the
    namespace ``text``. Its value is always 1, as in Vowpal Wabbit. Names after the same bar are consecutive; features
    of value 0 are ignored. A name of one letter stands for all namespaces
    that begin with it; ":" stands for all namespaces. If several sizes match a namespace, the largest is used.

    Args:
        sizes: pairs of a namespace and n: ``[(":", 2)]`` or ``[("t", 2), ("title", 3)]``.

    >>> ngrams = Ngrams([("t", 2), ("title", 3)])
    >>> [ngrams.size(name) for name in ("text", "title", "user")]
    [2, 3, 1]
    """

    def __init__(self, sizes: Sequence[tuple[str, int]]) -> None:
        for given in sizes:
            named = len(given) == 2 and isinstance(given[0], str) and given[0] != ""
            require(named, "ngrams", given, "must be the name of a namespace and a size", "try (':', 2) for all")
            whole = isinstance(given[1], (int, np.integer)) and 2 <= given[1] <= MAX_NGRAM
            require(whole, "ngram", given[1], f"must be a whole number from 2 to {MAX_NGRAM}", "try 2")
        self.sizes = tuple((name, int(size)) for name, size in sizes)
        self._there: set[str] = set()

    def size(self, namespace: str) -> int:
        """The largest n of a namespace; 1 for none."""
        matched = [(name, size) for name, size in self.sizes if matches(name, namespace)]
        self._there |= {name for name, _ in matched}
        return max((size for _, size in matched), default=1)

    @property
    def most_names(self) -> int:
        """The maximum number of names in a row, to bound memory."""
        return MAX_NGRAMS_PER_ROW // (max((size for _, size in self.sizes), default=2) - 1)

    @property
    def unmatched(self) -> tuple[tuple[str, int], ...]:
        """Sizes for a namespace that has not occurred yet."""
        return tuple((name, size) for name, size in self.sizes if name not in self._there)


def no_order(source: str) -> BadSource:
    """The error for n-grams of a format without ordered names."""
    return BadSource(source, "has no n-grams: only names in VW text have an order", "use VW text, or no n-grams")


# Compiled loops that append products of features to rows.

ZERO = np.uint64(0)
ONE = np.uint64(1)
HALF = np.uint64(32)
# Of the splitmix64 generator (G. Steele, D. Lea, C. Flood: Fast splittable pseudorandom number generators, 2014).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX1 = np.uint64(0xBF58476D1CE4E5B9)
MIX2 = np.uint64(0x94D049BB133111EB)


class GroupedEntries(NamedTuple):
    """Rows, with the group of each entry."""

    data: NDArray[np.float64]
    indices: NDArray[np.int32]
    groups: NDArray[np.uint8]
    indptr: NDArray[np.int64]


class WantedProducts(NamedTuple):
    """The products to add, as arrays of :class:`Interactions`."""

    allowed: NDArray[np.uint8]  # of two factors
    patterns: NDArray[np.uint8]  # of more


class ProductBuffers(NamedTuple):
    """Buffers for rows with their products; factors are sorted coordinates, and short products end with -1."""

    data: NDArray[np.float64]
    indices: NDArray[np.int32]  # -1 for a product in a dictionary
    indptr: NDArray[np.int64]
    factors: NDArray[np.int32]  # the factors of each product, for a dictionary; empty for hashed names
    mask: np.uint64  # number of hashed coordinates - 1; 0 for a dictionary
    seen: NDArray[np.uint8]  # bit set of hashed coordinates with a product; empty if unused
    news: NDArray[np.int32]  # each first product of a coordinate: the coordinate and the factors
    # Scratch memory: for one product, the entries of a row, and its groups.
    chosen: NDArray[np.int32]
    places: NDArray[np.int64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    filled: NDArray[np.int64]


@formula
def spread(key: Any) -> Any:
    """A 64-bit mix (splitmix64)."""
    key = (key + GOLDEN) & np.uint64(2**64 - 1)
    key = (key ^ (key >> np.uint64(30))) * MIX1
    key = (key ^ (key >> np.uint64(27))) * MIX2
    return key ^ (key >> np.uint64(31))


@formula
def product_slot(factors: Any, size: Any, mask: Any) -> Any:
    """The coordinate of the product of hashed features, sorted: 32 mixed bits, modulo a power of two."""
    key = spread((np.uint64(factors[ZERO]) << HALF) | np.uint64(factors[ONE]))
    for i in range(2, size):
        key = spread(key ^ np.uint64(factors[np.uint64(i)]))
    return (key >> HALF) & mask


@formula
def store_product(made: Any, factors: Any, size: Any, value: Any, out: Any, noted: Any) -> Any:
    """Write one product; returns the number of first products noted so far."""
    made.data[out] = value
    if made.mask > ZERO:
        slot = product_slot(factors, size, made.mask)
        made.indices[out] = np.int64(slot)
        if len(made.seen) > 0 and not has_bit(made.seen, slot):
            set_bit(made.seen, slot)
            made.news[noted, ZERO] = np.int64(slot)
            for i in range(made.news.shape[1] - 1):
                made.news[noted, np.uint64(i + 1)] = factors[np.uint64(i)] if i < size else -1
            noted = noted + ONE
    else:
        made.indices[out] = -1
        for i in range(size):
            made.factors[out, np.uint64(i)] = factors[np.uint64(i)]
    return noted


@formula
def cross_rows(entries: Any, wanted: Any, made: Any) -> Any:
    """Copy rows and append their products; returns the number of first products."""
    data, indices, groups, indptr = entries
    allowed, patterns = wanted
    factors = made.chosen
    out, noted = ZERO, ZERO
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
                    factors[ZERO], factors[ONE] = min(indices[k], indices[j]), max(indices[k], indices[j])
                    noted = store_product(made, factors, 2, data[k] * data[j], out, noted)
                    out = out + ONE
        if len(patterns) > 0:
            out, noted = add_longer(entries, first, last, patterns, made, out, noted)
    made.indptr[len(made.indptr) - 1] = np.int64(out)
    return noted


@formula
def add_longer(entries: Any, first: Any, last: Any, patterns: Any, made: Any, out: Any, noted: Any) -> tuple[Any, Any]:
    """Append one row's products of three or more factors; returns the next position and the number of firsts."""
    # Entries are sorted by group, so each factor of a pattern has a range of entries. If two factors share a group, the
    # second starts at the current entry of the first, so that each combination comes once.
    factors, places, order, starts, filled = made.chosen, made.places, made.order, made.starts, made.filled
    for code in range(257):
        starts[code] = 0
    for k in range(first, last):
        starts[np.uint64(entries.groups[k]) + ONE] += 1
    for code in range(256):
        starts[code + 1] += starts[code]
        filled[code] = starts[code]
    for k in range(first, last):
        g = np.uint64(entries.groups[k])
        order[filled[g]] = np.int64(k)
        filled[g] += 1
    for row in range(len(patterns)):
        size, there = 0, True
        for i in range(patterns.shape[1]):
            g = np.uint64(patterns[row, i])
            if g > ZERO:
                size += 1
                places[i] = starts[g]
                there = there and starts[g + ONE] > starts[g]
        while there:
            value = 1.0
            for i in range(size):
                k = order[places[i]]
                value *= entries.data[k]
                at = i
                while at > 0 and factors[at - 1] > entries.indices[k]:
                    factors[at] = factors[at - 1]
                    at -= 1
                factors[at] = entries.indices[k]
            noted = store_product(made, factors, size, value, out, noted)
            out = out + ONE
            # Advance to the next combination, like an odometer.
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


def count_products(entries: GroupedEntries, wanted: WantedProducts) -> NDArray[np.int64]:
    """The number of products of each row, exact up to 2^53: of m entries n are chosen in C(m + n - 1, n) ways."""
    rows, groups, allowed = len(entries.indptr) - 1, len(wanted.allowed), wanted.allowed.astype(np.float64)
    counts = []
    for first in range(0, rows, ROWS_TO_COUNT):
        indptr = entries.indptr[first : first + ROWS_TO_COUNT + 1]
        some = len(indptr) - 1
        cells = np.repeat(np.arange(some) * groups, np.diff(indptr)) + entries.groups[indptr[0] : indptr[-1]]
        members = np.bincount(cells, minlength=some * groups).reshape(some, groups).astype(np.float64)
        total = (((members @ allowed) * members).sum(axis=1) + members @ np.diag(allowed)) / 2.0
        for pattern in wanted.patterns.tolist():
            ways, run = np.ones(some), 0
            for i, group in enumerate(filter(None, pattern)):
                run = run + 1 if i > 0 and group == pattern[i - 1] else 1
                ways = ways * (members[:, group] + (run - 1)) / run
            total += ways
        counts.append(np.minimum(total, 2.0**62).astype(np.int64))
    return np.concatenate([np.empty(0, np.int64), *counts])


class _Products:
    """A cache of the coordinates of products in a dictionary."""

    def __init__(self, features: Features, compiled: bool) -> None:
        self.features = features
        self.compiled = compiled
        self._clear()

    def _clear(self) -> None:
        self._places = Dictionary(compiled=self.compiled)  # keyed by the bytes of the factors
        self._slots = np.zeros(1, np.int32)  # coordinates by place in the cache
        self._frozen = self.features.frozen

    def slots(self, factors: NDArray[np.int32]) -> NDArray[np.int32]:
        """The coordinates of products, given by their factors."""
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
    """Rows with their products, and rejected rows."""

    batch: Batch
    bad: list[tuple[int, str, str]]  # the line, the problem and what was expected
    following: int | None  # the first line of the next piece; None after the last


class Crossing:
    """Interactions with one :class:`Features` object."""

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
        counts = count_products(GroupedEntries(batch.data, batch.indices, batch.groups, batch.indptr), wanted)
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
        """Rows with their products; the total number of entries is given."""
        features, width = self.features, self.interactions.width
        nothing, none = np.empty(0, np.uint8), np.empty((0, width), np.int32)
        longest = int(np.diff(entries.indptr).max(initial=0))
        made = ProductBuffers(
            np.empty(size), np.empty(size, np.int32), np.empty(len(entries.indptr), np.int64), none, np.uint64(0),
            nothing, np.empty((0, width + 1), np.int32), np.empty(width, np.int32),
            *(np.empty(each, np.int64) for each in (width, longest, 257, 257)),
        )  # fmt: skip
        if isinstance(features, Hashing):
            made = made._replace(mask=np.uint64(features.constant - 1))
            if not features.frozen:
                news = np.empty((min(size, features.constant), width + 1), np.int32)
                made = made._replace(seen=features.crossed, news=news)
        else:
            made = made._replace(factors=np.full((size, width), -1, np.int32))
        noted = int(ready(cross_rows, self.compiled, counted=False)(entries, wanted, made))
        if isinstance(features, Hashing):
            features.note_products(made.news[:noted])
        elif self._named is not None:
            products = made.indices < 0
            made.indices[products] = self._named.slots(made.factors[products])
        return made.data, made.indices, made.indptr
