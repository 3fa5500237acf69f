"""LIBSVM text: ``label [qid:n] index:value index:value ... [# comment]``, one row a line.

For speed: on one core this reads 238 MB/s of rows like a9a's (14 features of value 1) and
535 MB/s of rows with 25 values of six digits, where scikit-learn's ``load_svmlight_file`` reads 7 and 22 MB/s. It also
reads files in blocks and reports the fault of a bad line.
"""

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.streams.batch import Position
from giftrl.streams.line_blocks import count_lines
from giftrl.streams.names.tables import byte, digit
from giftrl.streams.text.numbers import number
from giftrl.streams.text.parser import (
    COLON,
    HASH,
    NO_WORDS,
    SPACE,
    Content,
    Fault,
    TextParser,
    TextRows,
    WordTable,
    add_row,
    at_end,
    blame,
    blame_number,
    blank,
    find_word,
    make_arrays,
    note,
    scan,
    skip_blanks,
    skip_line,
)


class LibsvmText(TextParser):
    """A reader of blocks of LIBSVM text.

    Labels and values are decimal numbers, indices whole numbers from 1 on, in any order, none twice in a row. A
    ``qid:n`` after the label and everything after a ``#`` are ignored. Fields are separated by spaces and tabs. A line
    that breaks a rule is rejected whole, and reading continues with the next one.

    >>> from giftrl.streams.names.features import Hashing
    >>> batch = LibsvmText(Hashing(18)).parse(b"1 3:0.5 7:2\\n-1 5:x\\n0.5\\n", "a.svm", Position())
    >>> batch.labels.tolist(), batch.indices.tolist(), batch.data.tolist(), batch.lines.tolist()
    ([1.0, 0.5], [3, 7], [0.5, 2.0], [1, 3])
    >>> print(batch.rejected[0])
    a.svm:2:6: a value that is not a number: 'x', expected a finite number
    """

    def _read(self, block: NDArray[np.uint8], source: str, start: Position) -> Content:
        buffers = self._large_enough(make_buffers, len(block), count_lines(block))
        loop = ready(scan_libsvm, self.compiled, counted=False)
        (line, rows, entries), bad = scan(loop, block, start, buffers._replace(labels=self._label_words))
        values = buffers.values[:entries].copy()
        slots, distinct = self.features.number_slots(buffers.numbers[:entries], values)
        return Content(line, buffers.rows.first(rows), (), values, slots, distinct=distinct, bad=bad)


# The loop over the lines of LIBSVM text.

#: A random odd 64-bit multiplier, so that no crafted file can cause hash collisions.
HASH_MULTIPLIER = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)
NO_TAG = (0, 0)


class LibsvmBuffers(NamedTuple):
    """Buffers of the loop: entries, rows and rejected lines; and a hash table."""

    values: NDArray[np.float64]
    numbers: NDArray[np.uint64]
    rows: TextRows
    bad: NDArray[np.int64]  # four numbers each: the line, its beginning, the place of the mistake, and the fault
    cells: NDArray[np.uint64]  # hash table: a power of two, at least twice the entries of a row
    multiplier: np.uint64
    labels: WordTable = NO_WORDS  # the names of labels, if they have names


def make_buffers(size: int, lines: int) -> LibsvmBuffers:
    """Buffers for a block of a size in bytes and lines; an entry takes at least four bytes."""
    return LibsvmBuffers(
        values=np.empty(size // 4 + 2),
        numbers=np.empty(size // 4 + 2, np.uint64),
        rows=make_arrays(TextRows, lines),
        bad=np.empty(4 * lines, np.int64),
        cells=np.empty(1 << (size // 2 + 4).bit_length(), np.uint64),
        multiplier=HASH_MULTIPLIER,
    )


@formula
def scan_libsvm(block: Any, at: Any, line: Any, buffers: Any) -> tuple[Any, Any, Any, Any]:
    """Parse the rows of a block, which ends with a newline, from a place on.

    Returns the line after the last, and the numbers of rows, entries and rejected lines.
    """
    values, numbers, rows, bad_lines, cells, multiplier, labels = buffers
    row, entries, bad = 0, 0, 0
    while at < len(block):
        begin = at
        first = entries
        spot = at = skip_blanks(block, at)
        fault = 0
        label = 0.0
        empty = at_end(block, at) or byte(block, at) == HASH
        if not empty:
            label, at, spot, fault = read_label(block, at, labels)
        ascending = True
        previous = np.uint64(0)
        at = skip_blanks(block, at)
        while fault == 0 and not line_ends(block, at):
            k = np.uint64(entries)
            numbers[k], at, spot, fault = read_index(block, at)
            if fault == 0:
                spot = at
                values[k], at, wrong = number(block, at)
                if wrong or not field_ends(block, at):
                    fault, spot = blame_number(block, at, spot, wrong, Fault.VALUE)
            ascending &= numbers[k] > previous
            previous = numbers[k]
            entries += 1
            at = skip_blanks(block, at)
        if fault == 0 and not ascending:
            twice = first_repeated(numbers, first, entries, cells, multiplier)
            if twice >= 0:
                fault = Fault.REPEATED
                spot = nth_feature(block, begin, twice)
        if fault:
            bad = note(bad_lines, bad, line, begin, spot, fault)
            entries = first
        elif not empty:
            row = add_row(rows, row, label, 1.0, NO_TAG, line, begin, entries)
        at = skip_line(block, at)
        line += 1
    return line, row, entries, bad


@formula
def line_ends(block: Any, at: Any) -> Any:
    """True if a line ends here, or a comment begins."""
    c = byte(block, at)
    ends = c == HASH
    if c < SPACE:
        ends = at_end(block, at)
    return ends


@formula
def field_ends(block: Any, at: Any) -> Any:
    """True if a field ends here."""
    ends = blank(byte(block, at))
    if not ends:
        ends = line_ends(block, at)
    return ends


@formula
def read_label(block: Any, at: Any, labels: Any) -> tuple[Any, Any, Any, Any]:
    """Read a label and an optional qid; returns the label, the place after both, and a fault with its place."""
    spot = at
    fault = 0
    if len(labels[1]) > 1:
        while not field_ends(block, at) and byte(block, at) != COLON:
            at += 1
        label, wrong = np.float64(find_word(block, spot, at, labels)), 0
    else:
        label, at, wrong = number(block, at)
    if not wrong and byte(block, at) == COLON:
        fault = Fault.NO_LABEL
    elif wrong or not field_ends(block, at):
        fault, spot = blame_number(block, at, spot, wrong, Fault.LABEL)
    else:
        here = skip_blanks(block, at)
        # Bytes are checked in order, and the block ends with a newline, so no read is out of bounds.
        query = byte(block, here) == 113 and byte(block, here + 1) == 105 and byte(block, here + 2) == 100
        if query and byte(block, here + 3) == COLON:
            at = here + 4
            while digit(byte(block, at)):
                at += 1
            if at == here + 4 or not field_ends(block, at):
                fault, spot = blame(block, at, here, Fault.QUERY)
    return label, at, spot, fault


@formula
def read_index(block: Any, at: Any) -> tuple[Any, Any, Any, Any]:
    """Read a feature index and its colon; returns the index, the place after both, and a fault with its place."""
    start = at
    index = np.uint64(0)
    c = byte(block, at)
    while digit(c):
        index = index * np.uint64(10) + np.uint64(c - 48)
        at += 1
        c = byte(block, at)
    fault = 0
    spot = start
    if c != COLON or at == start:
        fault = Fault.INDEX
        if at > start and field_ends(block, at):
            fault = Fault.NO_COLON
        elif byte(block, start) == 45 and digit(byte(block, start + 1)):
            fault = Fault.INDEX_RANGE
        fault, spot = blame(block, at, start, fault)
    elif index == np.uint64(0) or at - start > 18:
        # Leading zeros are harmless; 19 digits fit into 64 bits, and more do not.
        while byte(block, start) == 48:
            start += 1
        if start == at or at - start > 19 or index >> np.uint64(63):
            fault = Fault.INDEX_RANGE
    return index, (at + 1 if fault == 0 else at), spot, fault


@formula
def first_repeated(numbers: Any, begin: Any, end: Any, cells: Any, multiplier: Any) -> Any:
    """The position of the first duplicate; -1 if all numbers differ."""
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
    """The start of feature n (from 0) in a valid line."""
    left = n + 2  # the label, and the features before it
    while True:
        at = skip_blanks(block, at)
        left -= 1 if byte(block, at) != 113 else 0
        if left == 0:
            return at
        while not blank(byte(block, at)):
            at += 1
