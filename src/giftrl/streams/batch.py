"""Batches: consecutive rows of one source as sparse arrays, and rejected rows."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.errors import SKIP_HINT, Hint


class Position(NamedTuple):
    """A position in the sources, from which reading can be resumed.

    >>> Position()
    Position(source=0, offset=0, line=1)
    """

    source: int = 0  # the number of the source in the list of sources
    offset: int = 0  # bytes from its beginning, after decompression; rows, for formats without lines
    line: int = 1  # the line there, or the row, counted from 1


class Rejected(NamedTuple):
    """A rejected row: its position, the problem and the expected text.

    >>> print(Rejected("a.svm", 3, 7, "a value that is not a number: 'x'", "a finite number", b"1 2:x"))
    a.svm:3:7: a value that is not a number: 'x', expected a finite number
    """

    source: str
    line: int
    column: int
    problem: str
    expected: str
    raw: bytes
    hints: tuple[Hint, ...] = (SKIP_HINT,)

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}: {self.problem}, expected {self.expected}"


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows of one source, sparse: the entries of row i are ``data[indptr[i]:indptr[i + 1]]``.

    Each row has a feature at most once. All values are finite.

    >>> rows, one = (np.array([2.5]), np.array([7], np.int32), np.array([0, 1])), np.ones(1)
    >>> batch = Batch("a.svm", *rows, one, one, np.ones(1, np.int64), np.empty(0, np.uint8), Position(0, 6, 2))
    >>> len(batch), batch.nonzeros
    (1, 1)
    """

    source: str  # the name of the source
    data: NDArray[np.float64]
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]
    labels: NDArray[np.float64]  # NaN if a row has none
    weights: NDArray[np.float64]
    lines: NDArray[np.int64]  # the line (or row number, from 1) of each row in its source
    groups: NDArray[np.uint8]  # the namespace or column of each entry; empty if nothing asks for it
    end: Position  # where the next row begins
    rejected: tuple[Rejected, ...] = ()
    tags: tuple[str, ...] = ()  # one tag for each row, or an empty list
    bases: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # added to predictions; empty if all are 0

    def __len__(self) -> int:
        return len(self.labels)

    def only(self, chosen: NDArray[np.bool_]) -> "Batch":
        """Select rows by a boolean mask; rejected rows are dropped."""
        return replace(keep_rows(self, chosen), rejected=())

    @property
    def nonzeros(self) -> int:
        """The total number of entries."""
        return len(self.data)


# Clean-up of rows: sum duplicate features, drop unknown ones, reject infinite values.

ONE = np.uint64(1)
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@formula
def merge_rows(data: Any, indices: Any, groups: Any, indptr: Any, rows: Any, places: Any) -> Any:
    """Sum entries of equal index and drop entries of negative index, in place; returns the number left.

    ``rows`` and ``places`` are a hash table that all rows share: a cell is in use if it holds the current row's number.
    """
    out = np.uint64(0)
    first = np.uint64(indptr[0])
    with_groups = len(groups) > 0
    for i in range(len(indptr) - 1):
        last = np.uint64(indptr[i + 1])
        indptr[i] = np.int64(out)
        mask = ONE
        while mask < (last - first) << ONE:
            mask = mask << ONE
        mask = mask - ONE
        for k in range(first, last):
            index = indices[k]
            if index < 0:
                continue
            at = ((np.uint64(index) * HASH_MULTIPLIER) >> np.uint64(32)) & mask
            while rows[at] == i and indices[np.uint64(places[at])] != index:
                at = (at + ONE) & mask
            if rows[at] == i:
                data[np.uint64(places[at])] += data[k]
                continue
            rows[at] = i
            places[at] = np.int64(out)
            data[out] = data[k]
            indices[out] = index
            if with_groups:
                groups[out] = groups[k]
            out = out + ONE
        first = last
    indptr[len(indptr) - 1] = np.int64(out)
    return np.int64(out)


def merge(
    data: NDArray[np.float64],
    indices: NDArray[np.int32],
    groups: NDArray[np.uint8],
    indptr: NDArray[np.int64],
    *,
    compiled: bool = True,
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.uint8], NDArray[np.int64]]:
    """Sum equal features of each row and drop unknown ones, which have index -1; the arrays are overwritten."""
    longest = int(np.diff(indptr).max(initial=1))
    size = 1 << (2 * longest - 1).bit_length()  # a power of two, at least twice the length of the longest row
    rows, places = np.full(size, -1, np.int64), np.empty(size, np.int64)
    count = ready(merge_rows, compiled)(data, indices, groups, indptr, rows, places)
    return data[:count], indices[:count], groups[: count if len(groups) else 0], indptr


def overflowed(data: NDArray[np.float64], indptr: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows with a value that is not finite."""
    # If the sum is finite, so is every value; the sum is faster to check.
    with np.errstate(all="ignore"):
        if np.isfinite(data.sum()):
            return np.empty(0, np.int64)
    bad = np.flatnonzero(~np.isfinite(data))
    return np.unique(np.searchsorted(indptr, bad, side="right") - 1)


def keep_rows(batch: Batch, keep: NDArray[np.bool_]) -> Batch:
    """Select rows by a boolean mask."""
    if keep.all():
        return batch
    counts = np.diff(batch.indptr)
    entries = np.repeat(keep, counts)
    return replace(
        batch,
        data=batch.data[entries],
        indices=batch.indices[entries],
        indptr=np.concatenate([[0], np.cumsum(counts[keep])]).astype(np.int64),
        labels=batch.labels[keep],
        weights=batch.weights[keep],
        bases=batch.bases[keep] if len(batch.bases) else batch.bases,
        lines=batch.lines[keep],
        groups=batch.groups[entries] if len(batch.groups) else batch.groups,
        tags=tuple(tag for tag, kept in zip(batch.tags, keep.tolist(), strict=True) if kept) if batch.tags else (),
    )


# Labels that are names, such as yes and no, and their codes in batches.

#: The code of a label that is none of the known names.
UNKNOWN_LABEL = -1.0
#: float64 represents every whole number up to this one.
MAX_EXACT_INTEGER = 1 << 53


class LabelNames:
    """The names of labels; code k in a batch means ``names[k]``.

    Args:
        names: different from each other, none of them empty.

    >>> labels = LabelNames(("no", "yes"))
    >>> labels.codes(["yes", None, "no", "maybe"]).tolist()
    [1.0, nan, 0.0, -1.0]
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def code(self, name: str) -> float:
        """The code of a name; :data:`UNKNOWN_LABEL` if the name is unknown."""
        return float(self._places.get(name, UNKNOWN_LABEL))

    def codes(self, names: Iterable[str | None]) -> NDArray[np.float64]:
        """The codes of names; NaN for a missing label."""
        return np.array([np.nan if name is None else self.code(name) for name in names], np.float64)


class CollectedLabels(LabelNames):
    """Label names collected while parsing: each new name gets the next code.

    Compiled loops use a fixed table of names, so in these every label is unknown.
    """

    def __init__(self) -> None:
        super().__init__(("\n",))  # matches no label

    def code(self, name: str) -> float:
        return float(self._places.setdefault(name, len(self._places)))

    def texts(self, codes: NDArray[np.float64]) -> list[str | None]:
        """The names of codes; None for a missing label, and "" for :data:`UNKNOWN_LABEL`."""
        names = ["", *self._places]
        return [None if code != code else names[int(code) + 1] for code in codes.tolist()]


def listed(names: Iterable[str]) -> str:
    """Names in a sentence.

    >>> listed(["no", "yes"]), listed(map(str, range(100)))
    ('no or yes', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 or 90 more')
    """
    names = list(names)
    if len(names) > 12:
        names = [*names[:10], f"{len(names) - 10} more"]
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def is_exact(label: str) -> bool:
    """True unless a label is a whole number beyond 2^53, which float64 may not represent.

    >>> is_exact("0.5"), is_exact("9007199254740993")
    (True, False)
    """
    digits = label.removeprefix("-").removeprefix("+")
    return not digits.isdecimal() or int(digits) <= MAX_EXACT_INTEGER
