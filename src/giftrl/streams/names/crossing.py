"""Products of features, batch by batch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.streams.batch import Batch
from giftrl.streams.names.features import Dictionary, Features, Hashing
from giftrl.streams.names.interactions import SEPARATOR, Interactions
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.merge import keep_rows, merge, overflowed
from giftrl.streams.names.products import Entries, Made, Wanted, count_products, cross_rows

#: How many products a batch may have; larger ones are cut into several.
PIECE = 1 << 22
#: How many products a row may have.
MOST = 1 << 24
#: How many products are remembered as unknown to a frozen dictionary.
FORGET = 1 << 22


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
        """The coordinates of products, by their factors as :class:`Made` has them."""
        if self.features.frozen != self._frozen or (self._frozen and len(self._slots) > FORGET):
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

    def cross(self, batch: Batch, piece: int = PIECE, most: int = MOST) -> Iterator[Crossed]:
        """The rows of a batch with their products, in pieces that fit into memory; all have the batch's ``end``."""
        wanted = Wanted(self.interactions.allowed, self.interactions.patterns)
        counts = np.empty(len(batch), np.int64)
        entries = Entries(batch.data, batch.indices, batch.groups, batch.indptr)
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
        self, batch: Batch, first: int, last: int, counts: NDArray[np.int64], wanted: Wanted,
        bad: list[tuple[int, str, str]],
    ) -> tuple[Batch, list[tuple[int, str, str]]]:  # fmt: skip
        begin, end = batch.indptr[first], batch.indptr[last]
        rows = batch.data[begin:end], batch.indices[begin:end], batch.groups[begin:end]
        entries = Entries(*rows, batch.indptr[first : last + 1] - begin)
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
        self, entries: Entries, wanted: Wanted, size: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]:
        """Rows with their products, which are so many entries in all."""
        features, width = self.features, self.interactions.width
        nothing, none = np.empty(0, np.uint8), np.empty((0, width), np.int32)
        made = Made(
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
