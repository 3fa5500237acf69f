"""Products of features, in compiled loops."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.streams.batch import Batch
from giftrl.streams.names.features import Dictionary, Features, Hashing
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.merge import keep_rows, merge, overflowed

#: Between the names of two features, in the name of their product.
SEPARATOR = " \u00d7 "
#: How many products a batch may have; larger ones are cut into several.
PIECE = 1 << 22
#: How many products a row may have.
MOST = 1 << 24
#: How many pairs are remembered as unknown to a frozen dictionary.
FORGET = 1 << 22

ZERO = np.uint64(0)
ONE = np.uint64(1)
HALF = np.uint64(32)
LOW = np.uint64(2**32 - 1)
# Of the splitmix64 generator (G. Steele, D. Lea, C. Flood: Fast splittable pseudorandom number generators, 2014).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX1 = np.uint64(0xBF58476D1CE4E5B9)
MIX2 = np.uint64(0x94D049BB133111EB)


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
def pair_slot(a: Any, b: Any, mask: Any) -> Any:
    """The coordinate of the product of two hashed features: 32 mixed bits, modulo a power of two."""
    return (spread(pair_key(a, b)) >> HALF) & mask


@formula
def count_products(groups: Any, indptr: Any, allowed: Any, counts: Any) -> None:
    """Count the products of each row, from how many entries each group has in it."""
    members = np.zeros(256, np.int64)
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        total = 0
        for k in range(first, last):
            g = np.uint64(groups[k])
            members[g] += 1
            # With itself, and with those that came before.
            for other in range(len(allowed)):
                if allowed[g, np.uint64(other)]:
                    total += members[np.uint64(other)]
        for k in range(first, last):
            members[np.uint64(groups[k])] = 0
        counts[np.uint64(i)] = total


@formula
def cross_rows(
    data: Any, indices: Any, groups: Any, indptr: Any, allowed: Any, mask: Any,
    new_data: Any, new_indices: Any, new_indptr: Any, keys: Any,
) -> None:  # fmt: skip
    """Copy rows and append their products, with their coordinates; where the mask is 0, with keys and index -1."""
    out = ZERO
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        new_indptr[np.uint64(i)] = np.int64(out)
        for k in range(first, last):
            new_data[out] = data[k]
            new_indices[out] = indices[k]
            out = out + ONE
        for k in range(first, last):
            g = np.uint64(groups[k])
            if g == ZERO:
                continue
            for j in range(first, k + ONE):
                if allowed[g, np.uint64(groups[j])]:
                    new_data[out] = data[k] * data[j]
                    if mask > ZERO:
                        new_indices[out] = np.int64(pair_slot(indices[k], indices[j], mask))
                    else:
                        new_indices[out] = -1
                        keys[out] = pair_key(indices[k], indices[j])
                    out = out + ONE
    new_indptr[len(new_indptr) - 1] = np.int64(out)


class _Pairs:
    """The coordinates of pairs in a dictionary, which saves making the name of a product that came before."""

    def __init__(self, features: Features, compiled: bool) -> None:
        self.features = features
        self.compiled = compiled
        self._clear()

    def _clear(self) -> None:
        self._places = Dictionary(compiled=self.compiled)  # its names are the eight bytes of keys
        self._slots = np.zeros(1, np.int32)  # by those places
        self._frozen = self.features.frozen

    def slots(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The coordinates of pairs, by the keys of :func:`pair_key`."""
        if self.features.frozen != self._frozen or (self._frozen and len(self._slots) > FORGET):
            self._clear()
        starts = np.arange(0, 8 * len(keys), 8)
        ones = np.ones(len(keys))
        places = self._places.name_slots(keys.view(np.uint8), starts, starts + 8, Sections.none(), ones)
        new = [self._name(key) for key in self._places.news().text.view(np.uint64).tolist()]
        self._slots = np.append(self._slots, self.features.slots(new)[0])  # the signs of a dictionary are all 1
        return np.asarray(self._slots[places])

    def _name(self, key: int) -> str:
        return f"{self.features.name(key >> 32)}{SEPARATOR}{self.features.name(key & 0xFFFFFFFF)}"


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
        self._pairs = None if isinstance(features, Hashing) else _Pairs(features, compiled)

    def cross(self, batch: Batch, piece: int = PIECE, most: int = MOST) -> Iterator[Crossed]:
        """The rows of a batch with their products, in pieces that fit into memory; all have the batch's ``end``."""
        count = ready(count_products, self.compiled)
        allowed = self.interactions.allowed
        counts = np.empty(len(batch), np.int64)
        count(batch.groups, batch.indptr, allowed, counts)
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
            yield Crossed(*self._piece(batch, first, last, counts, allowed, here), following)
            first, bad = last, bad[len(here) :]

    def _piece(
        self, batch: Batch, first: int, last: int, counts: NDArray[np.int64], allowed: NDArray[np.uint8],
        bad: list[tuple[int, str, str]],
    ) -> tuple[Batch, list[tuple[int, str, str]]]:  # fmt: skip
        begin, end = batch.indptr[first], batch.indptr[last]
        size = int(end - begin + counts[first:last].sum())
        data, indices = np.empty(size), np.empty(size, np.int32)
        indptr = np.empty(last - first + 1, np.int64)
        hashed = self._pairs is None
        mask = np.uint64(self.features.constant - 1 if hashed else 0)
        keys = np.zeros(0 if hashed else size, np.uint64)
        ready(cross_rows, self.compiled)(
            batch.data[begin:end], batch.indices[begin:end], batch.groups[begin:end],
            batch.indptr[first : last + 1] - begin, allowed, mask, data, indices, indptr, keys,
        )  # fmt: skip
        if self._pairs is not None:
            products = keys > 0
            indices[products] = self._pairs.slots(keys[products])
        data, indices, _, indptr = merge(data, indices, np.empty(0, np.uint8), indptr, compiled=self.compiled)
        made = replace(
            batch, data=data, indices=indices, indptr=indptr, labels=batch.labels[first:last],
            weights=batch.weights[first:last], lines=batch.lines[first:last], groups=np.empty(0, np.uint8),
            tags=batch.tags[first:last], rejected=(),
        )  # fmt: skip
        wrong = overflowed(data, indptr)
        if len(wrong):
            lines = [int(line) for line in made.lines[wrong]]
            bad = sorted(bad + [(line, "a product of features that is too large", "a finite number") for line in lines])
            made = keep_rows(made, ~np.isin(np.arange(len(made)), wrong))
        return made, bad
