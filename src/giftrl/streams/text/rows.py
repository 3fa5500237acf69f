"""What the parsers of lines share: running a loop over a block, and making a batch of what it found."""

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Batch, Position
from giftrl.streams.names.merge import keep_rows, merge, overflowed
from giftrl.streams.sources.lines import BOM, as_block
from giftrl.streams.text.numbers import shorten
from giftrl.streams.text.problems import Problem, rejected

__all__ = ["Count", "RowsFound", "Stop", "as_batch", "as_block", "scan", "scan_start"]


class Count(IntEnum):
    """What a loop over lines carries from call to call: its place in the block, the line, and how much it has found."""

    AT, LINE, ENTRIES, ROWS, BAD, SECTIONS, SPOT = range(7)
    SUSPECTS = 5  # in place of SECTIONS


class Stop(IntEnum):
    """Why a loop over lines stopped: at the end, because a buffer is full, or at a hard number (at SPOT).

    In the last two cases it goes on with the line that it was in.
    """

    END, ENTRIES, ROWS, BAD, SECTIONS, HARD = range(6)


B = TypeVar("B", bound=tuple[Any, ...])


def scan_start(block: NDArray[np.uint8], start: Position) -> NDArray[np.int64]:
    """The state that a loop begins with; it skips a byte order mark at the beginning of a file.

    >>> scan_start(as_block(b"\\xef\\xbb\\xbf1 2:3"), Position()).tolist()
    [3, 1, 0, 0, 0, 0, 0]
    """
    at = 3 if start.offset == 0 and block[:3].tobytes() == BOM else 0
    return np.array([at, start.line, 0, 0, 0, 0, 0], dtype=np.int64)


def scan(
    loop: Callable[..., int], block: NDArray[np.uint8], state: NDArray[np.int64], buffers: B, kinds: tuple[Stop, ...]
) -> B:
    """Run a loop to the end of a block; returns the buffers, made larger where that was needed.

    Args:
        loop: takes the block, the state and the buffers, and returns why it stopped.
        block: lines.
        state: from :func:`scan_start`; changed to what it is at the end.
        buffers: a NamedTuple of arrays.
        kinds: for each buffer, the reason to stop that makes it larger.
    """
    text = block
    while (why := loop(text, state, buffers)) != Stop.END:
        if why == Stop.HARD:
            if text is block:
                text = block.copy()
            _shorten(text, int(state[Count.AT]), int(state[Count.SPOT]))
        else:
            buffers = type(buffers)(*(_twice(a) if kind == why else a for a, kind in zip(buffers, kinds, strict=True)))
    return buffers


def _shorten(text: NDArray[np.uint8], begin: int, spot: int) -> None:
    """Write the long numbers of the line that begins at one place shorter, at least the one at another."""
    end = spot + text[spot:].tobytes().index(b"\n")
    text.flags.writeable = True
    text[begin:end] = np.frombuffer(shorten(text[begin:end].tobytes(), spot - begin), np.uint8)
    text.flags.writeable = False


def _twice(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.empty_like(array)])


class RowsFound(NamedTuple):
    """The rows of a block, and its rejected lines."""

    labels: NDArray[np.float64]
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]  # where the line begins in the block
    ends: NDArray[np.int64]  # how many entries there are up to the end of the row
    bad: NDArray[np.int64]  # four numbers each: the line, where it begins, where it is wrong, and the problem

    def cut(self, state: NDArray[np.int64]) -> "RowsFound":
        """Copies of as much as a loop has written."""
        rows, bad = int(state[Count.ROWS]), int(state[Count.BAD])
        return RowsFound(
            labels=self.labels[:rows].copy(),
            lines=self.lines[:rows].copy(),
            begins=self.begins[:rows].copy(),
            ends=self.ends[:rows].copy(),
            bad=self.bad[: 4 * bad],
        )


def as_batch(
    block: NDArray[np.uint8],
    source: str,
    end: Position,
    rows: RowsFound,
    weights: NDArray[np.float64],
    tags: tuple[str, ...],
    data: NDArray[np.float64],
    indices: NDArray[np.int32],
    groups: NDArray[np.uint8],
    *,
    distinct: bool = False,
    compiled: bool,
) -> Batch:
    """The batch of a block, from what was found in it.

    Equal features of a row are summed, and unknown ones (-1) left out, unless all are known to be ``distinct``. A row
    in which a sum is too large is rejected.
    """
    indptr = np.concatenate([np.zeros(1, np.int64), rows.ends])
    records = rows.bad.reshape(-1, 4).tolist()
    lost = np.empty(0, np.int64)
    if not distinct:
        data, indices, groups, indptr = merge(data, indices, groups, indptr, compiled=compiled)
        lost = overflowed(data, indptr)
    batch = Batch(
        source=source,
        data=data,
        indices=indices,
        indptr=indptr,
        labels=rows.labels,
        weights=weights,
        lines=rows.lines,
        groups=groups,
        end=end,
        tags=tags,
    )
    if len(lost):
        for line, begin in zip(rows.lines[lost].tolist(), rows.begins[lost].tolist(), strict=True):
            records.append([line, begin, begin, int(Problem.SUM_TOO_LARGE)])
        batch = keep_rows(batch, ~np.isin(np.arange(len(batch)), lost))
    if records:
        records.sort()
        batch = replace(batch, rejected=tuple(rejected(block, source, *record) for record in records))
    return batch
