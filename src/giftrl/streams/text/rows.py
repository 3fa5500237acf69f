"""From what a compiled loop finds in a block of lines to the rows of a batch: one entry for each feature of a row."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Batch, Position
from giftrl.streams.names.merge import keep_rows, merge, overflowed
from giftrl.streams.text.scan import Problem, rejected

__all__ = ["RowsFound", "as_batch", "as_block", "scan", "scan_start"]

BOM = b"\xef\xbb\xbf"

#: What a loop over lines carries from call to call: where it is in the block, the line, and how much it has found.
AT, LINE, ENTRIES, ROWS, BAD, SECTIONS = range(6)
#: Why it stopped: at the end of the block, or for lack of room for one of these. Then it goes on at the line it was in.
DONE, MORE_ENTRIES, MORE_ROWS, MORE_BAD, MORE_SECTIONS = range(5)

F = TypeVar("F", bound=tuple[Any, ...])


def as_block(data: Any) -> NDArray[np.uint8]:
    """Bytes as a read-only array that ends with a newline.

    >>> as_block(b"1 2:3").tobytes()
    b'1 2:3\\n'
    """
    block = data if isinstance(data, np.ndarray) else np.frombuffer(data, dtype=np.uint8)
    if len(block) and block[-1] != 10:
        block = np.append(block, np.uint8(10))
    block = np.ascontiguousarray(block).view()
    block.flags.writeable = False
    return block


def scan_start(block: NDArray[np.uint8], start: Position) -> NDArray[np.int64]:
    """What a loop begins with; at the beginning of a file, after the byte order mark that some editors put there.

    >>> scan_start(as_block(b"\\xef\\xbb\\xbf1 2:3"), Position()).tolist()
    [3, 1, 0, 0, 0, 0]
    """
    at = 3 if start.offset == 0 and block[:3].tobytes() == BOM else 0
    return np.array([at, start.line, 0, 0, 0, 0], dtype=np.int64)


def scan(
    loop: Callable[..., int],
    block: NDArray[np.uint8],
    state: NDArray[np.int64],
    found: F,
    kinds: tuple[int, ...],
    limbs: NDArray[np.uint64],
) -> F:
    """Run a loop to the end of a block; what it found in, made larger where that was needed.

    Args:
        loop: takes the block, the state, what to find in and the limbs, and tells why it stopped.
        block: lines.
        state: from :func:`scan_start`; changed to what it is at the end.
        found: a NamedTuple of arrays.
        kinds: for each array, which of the reasons to stop makes it larger.
        limbs: from :func:`giftrl.streams.text.numbers.long_numbers`.
    """
    while (why := int(loop(block, state, found, limbs))) != DONE:
        found = type(found)(*(_twice(a) if kind == why else a for a, kind in zip(found, kinds, strict=True)))
    return found


def _twice(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.empty_like(array)])


class RowsFound(NamedTuple):
    """What a loop finds of each row, and of each line that is rejected."""

    labels: NDArray[np.float64]
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]  # where the line begins in the block
    ends: NDArray[np.int64]  # how many entries were found up to the end of the row
    bad: NDArray[np.int64]  # four numbers each: the line, where it begins, where it is wrong, and the problem


def as_batch(
    block: NDArray[np.uint8],
    source: str,
    end: Position,
    state: NDArray[np.int64],
    rows: RowsFound,
    data: NDArray[np.float64],
    indices: NDArray[np.int32],
    groups: NDArray[np.uint8],
    weights: NDArray[np.float64],
    tags: tuple[str, ...],
    *,
    distinct: bool,
    compiled: bool,
) -> Batch:
    """The batch of a block, from what was found in it.

    Equal features of a row are summed, and unknown ones (-1) left out, unless all are known to be ``distinct``. A row
    in which a sum is too large is rejected.
    """
    count = int(state[ROWS])
    indptr = np.concatenate([np.zeros(1, np.int64), rows.ends[:count]])
    records = rows.bad[: 4 * state[BAD]].reshape(-1, 4).tolist()
    lost = np.empty(0, np.int64)
    if not distinct:
        data, indices, groups, indptr = merge(data, indices, groups, indptr, compiled=compiled)
        lost = overflowed(data, indptr)
    batch = Batch(
        source=source,
        data=data,
        indices=indices,
        indptr=indptr,
        labels=rows.labels[:count].copy(),
        weights=weights,
        lines=rows.lines[:count].copy(),
        groups=groups,
        end=end,
        tags=tags,
    )
    if len(lost):
        for row in lost.tolist():
            begin = int(rows.begins[row])
            records.append([int(rows.lines[row]), begin, begin, int(Problem.SUM_TOO_LARGE)])
        keep = np.ones(count, np.bool_)
        keep[lost] = False
        batch = keep_rows(batch, keep)
    if records:
        records.sort()
        batch = replace(batch, rejected=tuple(rejected(block, source, *record) for record in records))
    return batch
