"""The loop over the lines of LIBSVM text; :mod:`giftrl.streams.text.libsvm` describes the format."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.text.numbers import HARD, TOO_LARGE, byte, digit, number
from giftrl.streams.text.problems import Problem
from giftrl.streams.text.rows import Count, Stop
from giftrl.streams.text.scan import COLON, HASH, SPACE, at_end, blame, blank, note, skip_blanks, skip_line

__all__ = ["KINDS", "Buffers", "drop_repeated", "make_buffers", "scan_libsvm"]


class Buffers(NamedTuple):
    """What the loop writes: entries, rows and rejected lines; the last five are :class:`RowsFound`."""

    values: NDArray[np.float64]
    numbers: NDArray[np.uint64]
    shuffled: NDArray[np.bool_]  # for each row: its indices do not ascend
    labels: NDArray[np.float64]
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    bad: NDArray[np.int64]


KINDS = (Stop.ENTRIES,) * 2 + (Stop.ROWS,) * 5 + (Stop.BAD,)


def make_buffers(size: int) -> Buffers:
    """Buffers for what a block of that size is likely to hold."""
    entries, rows = size // 8 + 64, size // 64 + 16
    return Buffers(
        values=np.empty(entries),
        numbers=np.empty(entries, np.uint64),
        shuffled=np.empty(rows, np.bool_),
        labels=np.empty(rows),
        lines=np.empty(rows, np.int64),
        begins=np.empty(rows, np.int64),
        ends=np.empty(rows, np.int64),
        bad=np.empty(4 * 16, np.int64),
    )


@formula
def scan_libsvm(block: Any, state: Any, buffers: Any) -> Any:
    """Find the rows of a block, which ends with a newline, from where the state is; returns why it stopped."""
    values, numbers, shuffled, labels, lines, begins, ends, bad_lines = buffers
    at, line, entries, rows = state[Count.AT], state[Count.LINE], state[Count.ENTRIES], state[Count.ROWS]
    bad, suspects = state[Count.BAD], state[Count.SUSPECTS]
    size = len(block)
    why = Stop.END
    while at < size and why == Stop.END:
        begin = at
        first = entries
        if rows == len(labels):
            why = Stop.ROWS
        elif 4 * bad == len(bad_lines):
            why = Stop.BAD
        spot = at = skip_blanks(block, at)
        problem = 0
        label = 0.0
        empty = at_end(block, at) or byte(block, at) == HASH
        if not empty:
            label, at, spot, problem = read_label(block, at)
        ascending = True
        previous = np.uint64(0)
        at = skip_blanks(block, at)
        while problem == 0 and why == Stop.END and not line_ends(block, at):
            if entries == len(values):
                why = Stop.ENTRIES
            else:
                k = np.uint64(entries)
                numbers[k], at, spot, problem = read_index(block, at)
                if problem == 0:
                    spot = at
                    values[k], at, wrong = number(block, at)
                    if wrong == HARD:
                        problem = Problem.HARD
                    elif wrong or not field_ends(block, at):
                        problem = Problem.VALUE_TOO_LARGE
                        if wrong != TOO_LARGE:
                            problem, spot = blame(block, at, spot, Problem.VALUE)
                ascending &= numbers[k] > previous
                previous = numbers[k]
                entries += 1
                at = skip_blanks(block, at)
        if problem == Problem.HARD and why == Stop.END:
            why = Stop.HARD
            state[Count.SPOT] = spot
        if why != Stop.END:
            at = begin
            entries = first
        else:
            if problem:
                bad = note(bad_lines, bad, line, begin, spot, problem)
                entries = first
            elif not empty:
                k = np.uint64(rows)
                labels[k] = label
                lines[k] = line
                begins[k] = begin
                ends[k] = entries
                shuffled[k] = not ascending  # and may have an index twice
                suspects += 0 if ascending else 1
                rows += 1
            at = skip_line(block, at)
            line += 1
    state[Count.AT], state[Count.LINE], state[Count.ENTRIES], state[Count.ROWS] = at, line, entries, rows
    state[Count.BAD], state[Count.SUSPECTS] = bad, suspects
    return why


@formula
def line_ends(block: Any, at: Any) -> Any:
    """Whether a line ends here, or a comment begins."""
    c = byte(block, at)
    ends = c == HASH
    if c < SPACE:
        ends = at_end(block, at)
    return ends


@formula
def field_ends(block: Any, at: Any) -> Any:
    """Whether a field ends here."""
    ends = blank(byte(block, at))
    if not ends:
        ends = line_ends(block, at)
    return ends


@formula
def read_label(block: Any, at: Any) -> tuple[Any, Any, Any, Any]:
    """Read a label and the qid that may follow: the label, the place after both, and where what is wrong."""
    spot = at
    label, at, wrong = number(block, at)
    problem = 0
    if wrong == HARD:
        problem = Problem.HARD
    elif wrong == TOO_LARGE:
        problem = Problem.LABEL_TOO_LARGE
    elif wrong or not field_ends(block, at):
        problem = Problem.NO_LABEL if not wrong and byte(block, at) == COLON else Problem.LABEL
        problem, spot = blame(block, at, spot, problem)
    else:
        here = skip_blanks(block, at)
        # Each byte is looked at only after the one before it, and the block ends with a newline.
        query = byte(block, here) == 113 and byte(block, here + 1) == 105 and byte(block, here + 2) == 100
        if query and byte(block, here + 3) == COLON:
            at = here + 4
            while digit(byte(block, at)):
                at += 1
            if at == here + 4 or not field_ends(block, at):
                problem, spot = blame(block, at, here, Problem.QUERY)
    return label, at, spot, problem


@formula
def read_index(block: Any, at: Any) -> tuple[Any, Any, Any, Any]:
    """Read the index of a feature and its colon: the index, the place after both, and where what is wrong."""
    start = at
    index = np.uint64(0)
    c = byte(block, at)
    while digit(c):
        index = index * np.uint64(10) + np.uint64(c - 48)
        at += 1
        c = byte(block, at)
    problem = 0
    spot = start
    if c != COLON or at == start:
        problem = Problem.INDEX
        if at > start and field_ends(block, at):
            problem = Problem.NO_COLON
        elif byte(block, start) == 45 and digit(byte(block, start + 1)):
            problem = Problem.INDEX_RANGE
        problem, spot = blame(block, at, start, problem)
    elif index == np.uint64(0) or at - start > 18:
        # Leading zeros are harmless; 19 digits fit into 64 bits, and more do not.
        while byte(block, start) == 48:
            start += 1
        if start == at or at - start > 19 or index >> np.uint64(63):
            problem = Problem.INDEX_RANGE
    return index, (at + 1 if problem == 0 else at), spot, problem


@formula
def drop_repeated(block: Any, state: Any, buffers: Any, cells: Any, multiplier: Any) -> None:
    """Reject the rows that use an index twice, and close the gaps that they leave.

    Args:
        block: lines.
        state: what the loop over them left.
        found: what it buffers.
        cells: a hash table of twice as many cells as the longest row has entries: a power of two, of at least 4.
        multiplier: an odd number of 64 bits, drawn at random so that no file can be made to fill cells in a row.
    """
    begin, entries, rows, bad = 0, 0, 0, state[Count.BAD]
    for row in range(state[Count.ROWS]):
        end = buffers.ends[row]
        twice = first_repeated(buffers.numbers, begin, end, cells, multiplier) if buffers.shuffled[row] else -1
        if twice >= 0:
            spot = nth_feature(block, buffers.begins[row], twice)
            bad = note(buffers.bad, bad, buffers.lines[row], buffers.begins[row], spot, Problem.REPEATED)
        else:
            for k in range(begin, end):
                buffers.values[entries] = buffers.values[k]
                buffers.numbers[entries] = buffers.numbers[k]
                entries += 1
            buffers.labels[rows] = buffers.labels[row]
            buffers.lines[rows] = buffers.lines[row]
            buffers.begins[rows] = buffers.begins[row]
            buffers.ends[rows] = entries
            rows += 1
        begin = end
    state[Count.ENTRIES], state[Count.ROWS], state[Count.BAD] = entries, rows, bad


@formula
def first_repeated(numbers: Any, begin: Any, end: Any, cells: Any, multiplier: Any) -> Any:
    """The first of some numbers that equals one before it, counted from 0; -1 where all differ."""
    bits = 2
    while 1 << bits < 2 * (end - begin):
        bits += 1
    for k in range(1 << bits):
        cells[k] = 0
    last = np.uint64((1 << bits) - 1)
    for k in range(begin, end):
        at = (numbers[k] * multiplier) >> np.uint64(64 - bits)
        while cells[at] != np.uint64(0) and cells[at] != numbers[k]:
            at = (at + np.uint64(1)) & last
        if cells[at] == numbers[k]:
            return k - begin
        cells[at] = numbers[k]
    return -1


@formula
def nth_feature(block: Any, at: Any, n: Any) -> Any:
    """Where feature n, counted from 0, of a line without mistakes begins."""
    left = n + 2  # the label, and the features before it
    while True:
        at = skip_blanks(block, at)
        left -= 1 if byte(block, at) != 113 else 0
        if left == 0:
            return at
        while not blank(byte(block, at)):
            at += 1
