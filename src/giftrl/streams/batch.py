"""What every reader yields: consecutive rows of one source, and the rows that could not be read."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Position(NamedTuple):
    """Where a row begins, so that reading can go on from there.

    >>> Position()
    Position(source=0, offset=0, line=1)
    """

    source: int = 0  # the number of the source in the list of sources
    offset: int = 0  # bytes from its beginning, after decompression; rows, for formats without lines
    line: int = 1  # the line there, or the row, counted from 1


class Rejected(NamedTuple):
    """A row that could not be read, and why.

    >>> print(Rejected("a.svm", 3, 7, "a value that is not a number: 'x'", "a finite number", b"1 2:x"))
    a.svm:3:7: a value that is not a number: 'x', expected a finite number
    """

    source: str
    line: int
    column: int
    problem: str
    expected: str
    raw: bytes

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}: {self.problem}, expected {self.expected}"


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows of one source, sparse: the entries of row i are ``data[indptr[i]:indptr[i + 1]]``.

    No feature is named twice in a row, and all values are finite.

    >>> rows, one = (np.array([2.5]), np.array([7], np.int32), np.array([0, 1])), np.ones(1)
    >>> batch = Batch("a.svm", *rows, one, one, np.ones(1, np.int64), np.empty(0, np.uint8), Position(0, 6, 2))
    >>> len(batch), batch.nonzeros
    (1, 1)
    """

    source: str  # the name of the source
    data: NDArray[np.float64]
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]
    labels: NDArray[np.float64]  # NaN where a row has none
    weights: NDArray[np.float64]
    lines: NDArray[np.int64]  # the line (or row number, from 1) of each row in its source
    groups: NDArray[np.uint8]  # the namespace or column of each entry; empty where nothing asks for it
    end: Position  # where the next row begins
    rejected: tuple[Rejected, ...] = ()
    tags: tuple[str, ...] = ()  # one for each row, or none at all
    bases: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # added to predictions; empty if all are 0

    def __len__(self) -> int:
        return len(self.labels)

    def only(self, chosen: NDArray[np.bool_]) -> "Batch":
        """The rows where ``chosen`` is true; what was rejected is left out.

        >>> rows, two = (np.array([2.5, 1.0]), np.array([7, 8], np.int32), np.array([0, 1, 2])), np.ones(2)
        >>> batch = Batch("a.svm", *rows, two, two, np.arange(1, 3), np.empty(0, np.uint8), Position(0, 12, 3))
        >>> batch.only(np.array([False, True])).indices.tolist()
        [8]
        """
        lengths = np.diff(self.indptr)
        entries = np.repeat(chosen, lengths)
        return replace(
            self, data=self.data[entries], indices=self.indices[entries],
            indptr=np.concatenate([[0], np.cumsum(lengths[chosen])]), labels=self.labels[chosen],
            weights=self.weights[chosen], lines=self.lines[chosen],
            groups=self.groups[entries] if len(self.groups) else self.groups, rejected=(),
            tags=tuple(tag for tag, keep in zip(self.tags, chosen, strict=True) if keep) if self.tags else (),
            bases=self.bases[chosen] if len(self.bases) else self.bases,
        )  # fmt: skip

    @property
    def nonzeros(self) -> int:
        """How many entries all rows have."""
        return len(self.data)
