"""Coordinates by a dictionary: one for every name, and as many as there are names."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.errors import require
from giftrl.streams.names.base import Arrays, Features, News, Report, checked, longer, sound
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.tables import DROPPED, NAMES, ExactTable, enter_all

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
