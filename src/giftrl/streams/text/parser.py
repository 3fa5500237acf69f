"""The base of parsers of lines: arrays that their loops write rows to, and batches made from them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from operator import gt
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.batch import Batch, LabelNames, Position, Rejected, keep_rows, merge, overflowed
from giftrl.streams.line_blocks import BOM, as_block
from giftrl.streams.names.features import Dictionary, Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.tables import Sections
from giftrl.streams.text.numbers import shorten
from giftrl.streams.text.scan import NO_WORDS, Fault, rejected, word_table

#: How many names of groups are known before they are forgotten.
MAX_KNOWN_GROUPS = 1 << 16


class TextRows(NamedTuple):
    """The rows of a block, in the order of their lines."""

    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    tag_starts: NDArray[np.int64]
    tag_ends: NDArray[np.int64]
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]  # where the line begins in the block
    ends: NDArray[np.int64]  # how many entries there are up to the end of the row

    def first(self, count: int) -> "TextRows":
        """Copies of the first rows."""
        return TextRows._make(array[:count].copy() for array in self)

    def tags(self, block: NDArray[np.uint8]) -> tuple[str, ...]:
        """The tag of each row, or nothing if no row has one."""
        if not (self.tag_ends > self.tag_starts).any():
            return ()
        pairs = zip(self.tag_starts.tolist(), self.tag_ends.tolist(), strict=True)
        return tuple(block[start:end].tobytes().decode() for start, end in pairs)


class TextEntries(NamedTuple):
    """Entries: their values, where their names are in a text, and how many bytes of a name are its group, in JSON."""

    values: NDArray[np.float64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    group_sizes: NDArray[np.int64]


@formula
def add_row(rows: Any, k: Any, label: Any, weight: Any, tag: Any, line: Any, begin: Any, end: Any) -> Any:
    """Write row k; returns how many there are then."""
    at = np.uint64(k)
    rows.labels[at] = label
    rows.weights[at] = weight
    rows.tag_starts[at], rows.tag_ends[at] = tag
    rows.lines[at] = line
    rows.begins[at] = begin
    rows.ends[at] = end
    return k + 1


A = TypeVar("A", bound=tuple[Any, ...])


def make_arrays(kind: Callable[..., A], size: int) -> A:
    """A NamedTuple of arrays of one size; pages of memory that are not written to cost nothing."""
    floats = ("values", "labels", "weights")
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return kind(*(np.empty(size, np.float64 if name in floats else np.int64) for name in names))


class Content(NamedTuple):
    """The rows of a block, before equal features are summed."""

    line: int  # the one after the last
    rows: TextRows
    tags: tuple[str, ...]
    values: NDArray[np.float64]
    slots: NDArray[np.int32]
    groups: NDArray[np.uint8]
    distinct: bool = False  # whether no row has a feature twice, or an unknown one (-1)
    bad: tuple[tuple[int, int, int, int], ...] = ()  # for each rejected line the arguments of :func:`rejected`
    rejected: tuple[Rejected, ...] = ()
    bases: NDArray[np.float64] = np.empty(0)  # of the rows; empty if all are 0


def scan(
    loop: Callable[..., Any], block: NDArray[np.uint8], start: Position, buffers: Any
) -> tuple[list[int], list[Any]]:
    """Run a loop over the lines of a block; returns its counts, and the four numbers of each rejected line.

    The last count of the loop is that of rejected lines, which are in ``buffers.bad``. A byte order mark at the
    beginning of a file is skipped.
    """
    at = 3 if start.offset == 0 and block[:3].tobytes() == BOM else 0
    text = block
    while True:
        *counts, bad = loop(text, at, start.line, buffers)
        records = buffers.bad[: 4 * bad].reshape(-1, 4).tolist()
        hard = [(begin, spot) for _, begin, spot, problem in records if problem == Fault.HARD]
        if not hard:
            return counts, records
        # Each round writes at least one more number of these lines shorter, and few can stand outside of a value.
        text = text.copy()
        for begin, spot in hard:
            end = spot + text[spot:].tobytes().index(b"\n")
            text[begin:end] = np.frombuffer(shorten(text[begin:end].tobytes(), spot - begin), np.uint8)
        text.flags.writeable = False


class GroupCodes:
    """Numbers of groups, each of which is asked for once.

    Args:
        code: the number of a group, from 0 to 255.
        compiled: False to run loops as plain Python.
    """

    def __init__(self, code: Callable[[str], int], compiled: bool) -> None:
        self.code = code
        self.compiled = compiled
        self._clear()

    def _clear(self) -> None:
        self._groups = Dictionary(compiled=self.compiled)
        self._known = np.zeros(1, np.uint8)

    def of(self, text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The numbers of groups, given by where their names are in a text."""
        if self._groups.dimension > MAX_KNOWN_GROUPS:
            self._clear()
        places = self._groups.name_slots(text, starts, ends, Sections.none(), np.ones(len(starts)))
        new = [str(self._groups.name(k)) for k in range(len(self._known), self._groups.dimension)]
        self._known = np.append(self._known, np.array([self.code(name) for name in new], np.uint8))
        return np.asarray(self._known[places])


class TextParser(ABC):
    """Reads blocks of lines of one format.

    The features give coordinates to names or indices; with interactions, entries are marked with their groups; with
    names of labels, labels are the numbers of these.
    """

    def __init__(
        self, features: Features, interactions: Interactions | None = None, *, labels: LabelNames | None = None,
        compiled: bool = True,
    ) -> None:  # fmt: skip
        self.features = features
        self.interactions = interactions
        self.labels = labels
        self.compiled = compiled
        self._label_words = NO_WORDS if labels is None else word_table(labels.names)
        self._codes = None if interactions is None else GroupCodes(interactions.code, compiled)
        self.labels_only = False
        self._sizes: tuple[int, ...] = ()
        self._buffers: Any = None

    @abstractmethod
    def _read(self, block: NDArray[np.uint8], source: str, start: Position) -> Content:
        """Parse a block."""

    def label_at(self, line: int, raw: bytes) -> tuple[str, int]:
        """The label of a line of the last block as it is written, and the byte, counted from 1, at which it begins."""
        first = raw.split(None, 1)[:1] or [b""]
        return first[0].decode(errors="backslashreplace"), raw.find(first[0]) + 1

    def _large_enough(self, make_buffers: Callable[..., Any], *sizes: int) -> Any:
        """Buffers for these sizes: those of earlier blocks, or new ones."""
        if self._buffers is None or any(map(gt, sizes, self._sizes)):
            self._sizes, self._buffers = sizes, make_buffers(*sizes)
        return self._buffers

    def parse(self, data: Any, source: str, start: Position) -> Batch:
        """The rows of a block of whole lines, from bytes of which the last line may lack its newline.

        Equal features of a row are summed, and unknown ones left out. A row in which a sum is too large is rejected.
        """
        block = as_block(data)
        content = self._read(block, source, start)
        rows, values, slots, groups = content.rows, content.values, content.slots, content.groups
        indptr = np.concatenate([np.zeros(1, np.int64), rows.ends])
        bad, too_large = list(content.bad), np.empty(0, np.int64)
        if not content.distinct:
            values, slots, groups, indptr = merge(values, slots, groups, indptr, compiled=self.compiled)
            too_large = overflowed(values, indptr)
        batch = Batch(
            source=source,
            data=values,
            indices=slots,
            indptr=indptr,
            labels=rows.labels,
            weights=rows.weights,
            lines=rows.lines,
            groups=groups,
            end=Position(start.source, start.offset + len(data), content.line),
            tags=content.tags,
            bases=content.bases,
        )
        if len(too_large):
            for line, begin in zip(rows.lines[too_large].tolist(), rows.begins[too_large].tolist(), strict=True):
                bad.append((line, begin, begin, int(Fault.SUM_TOO_LARGE)))
            batch = keep_rows(batch, ~np.isin(np.arange(len(batch)), too_large))
        records = [*content.rejected, *(rejected(block, source, *record) for record in bad)]
        return replace(batch, rejected=tuple(sorted(records, key=lambda each: each.line))) if records else batch
