"""LIBSVM text: ``label [qid:n] index:value index:value ... [# comment]``, one row a line."""

import secrets
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.streams.batch import Batch, Position
from giftrl.streams.names.features import Features
from giftrl.streams.names.merge import longest_row
from giftrl.streams.text.numbers import TOO_LARGE, byte, digit, long_numbers, number, pin
from giftrl.streams.text.rows import (
    AT,
    BAD,
    DONE,
    ENTRIES,
    LINE,
    MORE_BAD,
    MORE_ENTRIES,
    MORE_ROWS,
    ROWS,
    SECTIONS,
    RowsFound,
    as_batch,
    as_block,
    scan,
    scan_start,
)
from giftrl.streams.text.scan import (
    COLON,
    HASH,
    SPACE,
    Problem,
    at_end,
    blame,
    blank,
    note,
    skip_blanks,
    skip_line,
)

__all__ = ["LibsvmText"]


class Found(NamedTuple):
    """Room for what the loop finds in a block: each entry, each row, each rejected line (see RowsFound)."""

    values: NDArray[np.float64]
    numbers: NDArray[np.uint64]
    shuffled: NDArray[np.bool_]  # for each row: its indices do not ascend
    labels: NDArray[np.float64]
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    bad: NDArray[np.int64]


MULTIPLIER = np.uint64(secrets.randbits(64) | 1)
SUSPECTS = SECTIONS  # how many rows are shuffled
KINDS = (MORE_ENTRIES, MORE_ENTRIES, MORE_ROWS, MORE_ROWS, MORE_ROWS, MORE_ROWS, MORE_ROWS, MORE_BAD)


def room(size: int) -> Found:
    """Room for what a block of that size is likely to hold."""
    entries, rows = size // 8 + 64, size // 64 + 16
    return Found(
        values=np.empty(entries),
        numbers=np.empty(entries, np.uint64),
        shuffled=np.empty(rows, np.bool_),
        labels=np.empty(rows),
        lines=np.empty(rows, np.int64),
        begins=np.empty(rows, np.int64),
        ends=np.empty(rows, np.int64),
        bad=np.empty(4 * 16, np.int64),
    )


class LibsvmText:
    """Reads blocks of LIBSVM text.

    Labels and values are decimal numbers, indices whole numbers from 1 on, in any order, none twice in a row. A
    ``qid:n`` after the label and everything after a ``#`` are ignored. Fields are separated by spaces and tabs. A line
    that breaks a rule is rejected whole, and reading goes on with the next one.

    Args:
        features: what turns an index into a coordinate.
        compiled: False to run the loops as plain Python.

    >>> from giftrl.streams.names.features import Hashing
    >>> batch = LibsvmText(Hashing(18)).parse(b"1 3:0.5 7:2\\n-1 5:x\\n0.5\\n", "a.svm", Position())
    >>> batch.labels.tolist(), batch.indices.tolist(), batch.data.tolist(), batch.lines.tolist()
    ([1.0, 0.5], [3, 7], [0.5, 2.0], [1, 3])
    >>> print(batch.rejected[0])
    a.svm:2:6: a value that is not a number: 'x', expected a finite number
    """

    def __init__(self, features: Features, *, compiled: bool = True) -> None:
        self.features = features
        self.compiled = compiled
        self._found = room(0)
        self._limbs = long_numbers()

    def parse(self, data: Any, source: str, start: Position) -> Batch:
        """The rows of a block of whole lines.

        Args:
            data: the bytes; the last line may lack its newline.
            source: the name of the source, for messages.
            start: the position of the first byte.
        """
        block = as_block(data)
        state = scan_start(block, start)
        found = self._found if len(self._found.values) > len(block) // 8 else room(len(block))
        loop = ready(scan_libsvm, self.compiled)
        found = self._found = scan(loop, block, state, found, KINDS, self._limbs)
        if state[SUSPECTS]:
            found = found._replace(bad=np.concatenate([found.bad, np.empty(4 * state[SUSPECTS], np.int64)]))
            longest = longest_row(np.concatenate([[0], found.ends[: state[ROWS]]]))
            cells = np.empty(max(4, 1 << (2 * longest - 1).bit_length()), np.uint64)
            ready(drop_repeated, self.compiled)(block, state, found, cells, MULTIPLIER)
        numbers = found.numbers[: state[ENTRIES]]
        values = found.values[: state[ENTRIES]].copy()
        slots, distinct = self.features.number_slots(numbers, values)
        return as_batch(
            block, source, Position(start.source, start.offset + len(data), int(state[LINE])), state,
            RowsFound(*found[3:]), values, slots, np.empty(0, np.uint8), np.ones(state[ROWS]), (),
            distinct=distinct, compiled=self.compiled,
        )  # fmt: skip


@formula
def scan_libsvm(block: Any, state: Any, found: Any, limbs: Any) -> Any:
    """Find the rows of a block, which ends with a newline, from where the state is; why it stopped."""
    values, numbers, shuffled, labels, lines, begins, ends, bad_lines = found
    at, line, entries, rows, bad, suspects = (
        state[AT],
        state[LINE],
        state[ENTRIES],
        state[ROWS],
        state[BAD],
        state[SUSPECTS],
    )
    size = len(block)
    why = DONE
    while at < size and why == DONE:
        begin = at
        first = entries
        if rows == len(labels):
            why = MORE_ROWS
        elif 4 * bad == len(bad_lines):
            why = MORE_BAD
        spot = at = skip_blanks(block, at)
        problem = 0
        label = 0.0
        empty = at_end(block, at) or byte(block, at) == HASH
        if not empty:
            label, at, spot, problem = read_label(block, at, limbs)
        ascending = True
        previous = np.uint64(0)
        at = skip_blanks(block, at)
        while problem == 0 and why == DONE and not line_ends(block, at):
            if entries == len(values):
                why = MORE_ENTRIES
            else:
                k = np.uint64(entries)
                numbers[k], at, spot, problem = read_index(block, at)
                if problem == 0:
                    spot = at
                    values[k], at, wrong = number(block, at, limbs)
                    if wrong or not field_ends(block, at):
                        problem = Problem.VALUE_TOO_LARGE
                        if wrong != TOO_LARGE:
                            problem, spot = blame(block, at, spot, Problem.VALUE)
                ascending &= numbers[k] > previous
                previous = numbers[k]
                entries += 1
                at = skip_blanks(block, at)
        if why != DONE:
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
    state[AT], state[LINE], state[ENTRIES], state[ROWS], state[BAD], state[SUSPECTS] = (
        at,
        line,
        entries,
        rows,
        bad,
        suspects,
    )
    return why


@formula
def line_ends(block: Any, at: Any) -> Any:
    """Whether what counts of a line ends here."""
    c = byte(block, at)
    ends = c == HASH
    if c < SPACE:
        ends = at_end(block, at)
    return pin(block, ends)


@formula
def field_ends(block: Any, at: Any) -> Any:
    """Whether a field ends here."""
    ends = blank(byte(block, at))
    if not ends:
        ends = line_ends(block, at)
    return pin(block, ends)


@formula
def read_label(block: Any, at: Any, limbs: Any) -> tuple[Any, Any, Any, Any]:
    """Read a label, and the qid that may follow; the place after them, that of a problem, and the problem."""
    spot = at
    label, at, wrong = number(block, at, limbs)
    problem = 0
    if wrong == TOO_LARGE:
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
    return pin(limbs, pin(block, label)), at, spot, problem


@formula
def read_index(block: Any, at: Any) -> tuple[Any, Any, Any, Any]:
    """Read the index of a feature and its colon; the place after it, that of a problem, and the problem."""
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
    return pin(block, index), (at + 1 if problem == 0 else at), spot, problem


@formula
def drop_repeated(block: Any, state: Any, found: Any, cells: Any, multiplier: Any) -> None:
    """Reject the rows that use an index twice, and move the others together.

    Args:
        block: lines.
        state: what the loop over them left.
        found: what it found.
        cells: room for a set of twice as many indices as the longest row has: a power of two, of at least 4.
        multiplier: an odd number of 64 bits, drawn at random so that no file can be made to fill cells in a row.
    """
    begin, entries, rows, bad = 0, 0, 0, state[BAD]
    for row in range(state[ROWS]):
        end = found.ends[row]
        twice = first_repeated(found.numbers, begin, end, cells, multiplier) if found.shuffled[row] else -1
        if twice >= 0:
            spot = nth_feature(block, found.begins[row], twice)
            bad = note(found.bad, bad, found.lines[row], found.begins[row], spot, Problem.REPEATED)
        else:
            for k in range(begin, end):
                found.values[entries] = found.values[k]
                found.numbers[entries] = found.numbers[k]
                entries += 1
            found.labels[rows] = found.labels[row]
            found.lines[rows] = found.lines[row]
            found.begins[rows] = found.begins[row]
            found.ends[rows] = entries
            rows += 1
        begin = end
    state[ENTRIES], state[ROWS], state[BAD] = entries, rows, bad


@formula
def first_repeated(numbers: Any, begin: Any, end: Any, cells: Any, multiplier: Any) -> Any:
    """Which of some numbers, from 0 on, is the first to be one that came before; -1 where all differ."""
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
    """Where feature n (from 0) of a line begins that has been read to its end."""
    left = n + 2  # the label, and the features before it
    while True:
        at = skip_blanks(block, at)
        left -= 1 if byte(block, at) != 113 else 0
        if left == 0:
            return at
        while not blank(byte(block, at)):
            at += 1
