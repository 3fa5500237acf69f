"""The compiled loops over blocks of CSV: records and fields; numbers; and the names of categories.

Written here since PyArrow's CSV reader fails a whole block for one bad value, does not say where it stands, and takes a
lone carriage return for the end of a line. The rules are those of Python's ``csv`` with ``strict=True`` and, unless the
delimiter is a space, ``skipinitialspace=True``: a field is quoted if it begins with a quote; a quote inside it is
written twice; it may hold newlines. Spaces around fields that are not quoted do not count.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.streams.text.numbers import HARD, TOO_LARGE, number
from giftrl.streams.text.scan import NEWLINE, RETURN, SPACE, broken_utf8

__all__ = ["ABSENT", "HUGE", "NUMERIC", "OTHER", "Names", "Problem", "Records", "Scanner"]

QUOTE = 34
#: A quoted field of more bytes is taken for one whose end is missing.
LONGEST = 1 << 24

#: What a field can be, where a number is expected.
NUMERIC, ABSENT, OTHER, HUGE = range(4)

#: What the loop over records carries from call to call, and why it stopped.
AT, LINE, ROWS, BAD = range(4)
DONE, MORE_ROWS, MORE_BAD = range(3)
#: Numbers for each bad record: its line, where it begins, where it is wrong, the problem, how many columns it has.
RECORD = 5


class Problem(IntEnum):
    """What can be wrong with a record; the first ones leave in doubt where it ends."""

    FEW = 1
    MANY = 2
    AFTER_QUOTE = 3
    OPEN_QUOTE = 4
    STRAY_RETURN = 5


class Records(NamedTuple):
    """The records of a block that have as many fields as there are columns."""

    starts: NDArray[np.int64]  # where each field begins in the block, inside the quotes if it has any
    ends: NDArray[np.int64]  # and where it ends; less than 0, for -1 - end, if quotes are written twice in it
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]  # where each record begins
    bad: NDArray[np.int64]


class Names(NamedTuple):
    """The names of categories: where each is in the text, and which column (of those asked for) and row it is of."""

    text: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    columns: NDArray[np.int64]
    rows: NDArray[np.int64]
    broken: NDArray[np.int64]  # columns and rows, in turn, of those that are not UTF-8


@formula
def split_records(block: Any, state: Any, records: Any, columns: Any, delimiter: Any, whole: bool) -> Any:
    """Find the records of a block, which ends with a newline, from where the state is; why it stopped.

    A record that may go on in the next block is left: the state then stands before the end.
    """
    starts, ends, lines, begins, bad_records = records
    at, line, rows, bad = state[AT], state[LINE], state[ROWS], state[BAD]
    size = len(block)
    trims = delimiter != SPACE
    why = DONE
    unfinished = False
    while at < size and why == DONE and not unfinished:
        begin, column, inside, problem, spot = at, 0, 0, 0, at
        if rows == len(lines):
            why = MORE_ROWS
        elif (bad + 1) * RECORD > len(bad_records):
            why = MORE_BAD
        field = rows * columns
        empty = False
        more = why == DONE
        while more:
            c = np.int64(block[np.uint64(at)])
            while trims and c == SPACE:
                at += 1
                c = np.int64(block[np.uint64(at)])
            start = spot_here = at
            doubled = False
            before = inside
            if c == QUOTE:
                start += 1
                at = start
                inner = True
                while inner and at < size:
                    c = np.int64(block[np.uint64(at)])
                    if c != QUOTE:
                        inside += c == NEWLINE
                        at += 1
                    elif np.int64(block[np.uint64(at + 1)]) == QUOTE:
                        doubled = True
                        at += 2
                    else:
                        inner = False
                end = at
                at += 1
                if inner:
                    unfinished = not whole and size - begin <= LONGEST
                    problem, spot, more = Problem.OPEN_QUOTE, spot_here, False
                    at = size - 1
                c = np.int64(block[np.uint64(at)])
            else:
                while c != delimiter and c != NEWLINE and c != RETURN:
                    at += 1
                    c = np.int64(block[np.uint64(at)])
                end = at
                while trims and end > start and block[np.uint64(end - 1)] == SPACE:
                    end -= 1
            if column < columns:
                starts[np.uint64(field + column)] = start
                ends[np.uint64(field + column)] = -1 - end if doubled else end
            elif problem == 0:
                problem, spot = Problem.MANY, spot_here
            column += 1
            if c == delimiter:
                at += 1
            elif more:
                more = False
                if c == RETURN and block[np.uint64(at + 1)] == NEWLINE:
                    at += 1
                elif c != NEWLINE:
                    problem, spot = Problem.STRAY_RETURN if c == RETURN else Problem.AFTER_QUOTE, at
                    if inside > before:  # what closed it, some lines below, was meant to open another
                        problem, spot = Problem.OPEN_QUOTE, spot_here
                empty = column == 1 and start == end and spot_here == start
        if why != DONE or unfinished:
            at = begin
        elif empty and problem == 0:
            at += 1
            line += 1
        else:
            if problem == 0 and column < columns:
                problem, spot = Problem.FEW, at
            if problem == 0:
                lines[np.uint64(rows)] = line
                begins[np.uint64(rows)] = begin
                rows += 1
                at += 1
                line += 1 + inside
            else:
                k = np.uint64(bad * RECORD)
                bad_records[k] = line
                bad_records[k + np.uint64(1)] = begin
                bad_records[k + np.uint64(2)] = spot
                bad_records[k + np.uint64(3)] = np.int64(problem)
                bad_records[k + np.uint64(4)] = column
                bad += 1
                # Where it ends is not known: only its first line is given up.
                at = begin
                while block[np.uint64(at)] != NEWLINE:
                    at += 1
                at += 1
                line += 1
    state[AT], state[LINE], state[ROWS], state[BAD] = at, line, rows, bad
    return why


@formula
def read_numbers(
    block: Any, starts: Any, ends: Any, columns: Any, which: Any, rows: Any, values: Any, kinds: Any
) -> None:
    """Read some columns as numbers: item j of ``which`` is the column that row j of the results is for."""
    for i in range(rows):
        for j in range(len(which)):
            k = np.uint64(i * columns + which[np.uint64(j)])
            start, end = starts[k], ends[k]
            doubled = end < 0
            if doubled:
                end = -1 - end
            while start < end and block[np.uint64(start)] == SPACE:
                start += 1
            while start < end and block[np.uint64(end - 1)] == SPACE:
                end -= 1
            value, kind = 0.0, ABSENT
            if start < end:
                value, after, wrong = number(block, start)
                kind = NUMERIC
                if wrong == HARD and after == end and not doubled:
                    value = np.nan  # read outside of the loop
                elif wrong or after != end or doubled:
                    value = 0.0
                    kind = HUGE if wrong == TOO_LARGE and after == end else OTHER
            values[np.uint64(j), np.uint64(i)] = value
            kinds[np.uint64(j), np.uint64(i)] = kind


@formula
def find_missing(
    block: Any, starts: Any, ends: Any, columns: Any, which: Any, rows: Any, kinds: Any, words: Any, word_ends: Any
) -> None:
    """Make OTHER into ABSENT where a field is one of some words."""
    for j in range(len(which)):
        for i in range(rows):
            if kinds[j, i] == OTHER:
                k = i * columns + which[j]
                for w in range(len(word_ends) - 1):
                    first, last = word_ends[w], word_ends[w + 1]
                    if last - first == ends[k] - starts[k]:
                        same = True
                        for b in range(last - first):
                            same &= words[first + b] == block[starts[k] + b]
                        if same:
                            kinds[j, i] = ABSENT


@formula
def write_names(
    block: Any, starts: Any, ends: Any, columns: Any, which: Any, keep: Any, prefixes: Any, prefix_ends: Any,
    names: Any, check: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Write "column=value" for fields of some columns that are not empty; how many, their bytes, how many broken."""
    text, begins, stops, name_columns, name_rows, broken = names
    count, at, wrong = 0, 0, 0
    for i in range(len(keep)):
        if keep[np.uint64(i)]:
            for j in range(len(which)):
                k = np.uint64(i * columns + which[np.uint64(j)])
                start, end = starts[k], ends[k]
                doubled = end < 0
                if doubled:
                    end = -1 - end
                if start < end:
                    n = np.uint64(count)
                    begins[n] = at
                    name_columns[n] = j
                    name_rows[n] = i
                    for b in range(prefix_ends[np.uint64(j)], prefix_ends[np.uint64(j + 1)]):
                        text[np.uint64(at)] = prefixes[np.uint64(b)]
                        at += 1
                    value = at
                    while start < end:
                        c = block[np.uint64(start)]
                        text[np.uint64(at)] = c
                        at += 1
                        start += 2 if doubled and c == QUOTE else 1
                    stops[n] = at
                    count += 1
                    if check and broken_utf8(text, value, at) >= 0:
                        broken[2 * wrong] = j
                        broken[2 * wrong + 1] = i
                        wrong += 1
    return count, at, wrong


class Scanner:
    """Runs the loops over blocks; the arrays that they write to are kept from block to block.

    Args:
        delimiter: one character.
        missing: spellings of a missing number.
        compiled: False to run the loops as plain Python.

    >>> scanner = Scanner(",", ("NA",))
    >>> block = np.frombuffer(b"1,a\\n\\nNA,b\\n7\\n", np.uint8)
    >>> records, at, line = scanner.split(block, 2, 1, True)
    >>> records.lines.tolist(), scanner.numbers(block, records, np.array([0]))[0].tolist(), len(records.bad)
    ([1, 3], [[1.0, 0.0]], 1)
    """

    def __init__(self, delimiter: str, missing: tuple[str, ...], *, compiled: bool = True) -> None:
        self.delimiter = delimiter
        words = [word.encode() for word in missing]
        self._words = np.frombuffer(bytearray(b"".join(words)), np.uint8)
        self._word_ends = np.cumsum([0, *map(len, words)], dtype=np.int64)
        self._compiled = compiled
        self._columns = 0
        self._records = Records(*(np.empty(0, np.int64) for _ in range(5)))

    def _loop(self, loop: Any) -> Any:
        return ready(loop, self._compiled)

    def split(self, block: NDArray[np.uint8], columns: int, line: int, whole: bool) -> tuple[Records, int, int]:
        """The records of a block that ends with a newline; how many bytes they are, and the line that follows.

        The arrays are written over by the next call.
        """
        self._columns = columns
        rows = len(block) // 64 + 16
        found = self._records
        if len(found.lines) < rows or len(found.starts) != len(found.lines) * columns:
            found = self._room(rows, 16, columns)
        state = np.array([0, line, 0, 0], np.int64)
        loop = self._loop(split_records)
        mark = ord(self.delimiter)
        while (why := int(loop(block, state, found, columns, mark, whole))) != DONE:
            rows, bad = len(found.lines), len(found.bad) // RECORD
            more = self._room(2 * rows if why == MORE_ROWS else rows, 2 * bad if why == MORE_BAD else bad, columns)
            for old, new in zip(found, more, strict=True):
                new[: len(old)] = old
            found = more
        self._records = found
        rows, bad = int(state[ROWS]), int(state[BAD])
        cells = rows * columns
        kept = Records(
            found.starts[:cells], found.ends[:cells], found.lines[:rows], found.begins[:rows],
            found.bad[: bad * RECORD].reshape(-1, RECORD),
        )  # fmt: skip
        return kept, int(state[AT]), int(state[LINE])

    @staticmethod
    def _room(rows: int, bad: int, columns: int) -> Records:
        sizes = rows * columns, rows * columns, rows, rows, bad * RECORD
        return Records(*(np.empty(size, np.int64) for size in sizes))

    def numbers(
        self, block: NDArray[np.uint8], records: Records, which: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
        """Some columns as numbers, a row for each: values (0 where there is none), and what each field is."""
        rows = len(records.lines)
        values, kinds = np.empty((len(which), rows)), np.empty((len(which), rows), np.uint8)
        self._loop(read_numbers)(block, records.starts, records.ends, self._columns, which, rows, values, kinds)
        for j, i in np.argwhere(np.isnan(values)).tolist():
            cell = i * self._columns + which[j]
            values[j, i] = float(block[records.starts[cell] : records.ends[cell]].tobytes())
            if np.isinf(values[j, i]):
                values[j, i], kinds[j, i] = 0.0, HUGE
        if len(self._words) and (kinds == OTHER).any():
            self._loop(find_missing)(
                block, records.starts, records.ends, self._columns, which, rows, kinds, self._words, self._word_ends
            )
        return values, kinds

    def names(
        self, block: NDArray[np.uint8], records: Records, which: NDArray[np.int64], keep: NDArray[np.bool_],
        prefixes: list[bytes],
    ) -> Names:  # fmt: skip
        """The names of the categories in some columns, for the rows to be kept; row by row."""
        cells = len(records.lines) * len(which)
        longest = max(map(len, prefixes), default=0)
        sizes = cells, cells, cells, cells, 2 * cells
        room = Names(np.empty(len(block) + cells * longest, np.uint8), *(np.empty(size, np.int64) for size in sizes))
        ascii_ = len(block) == 0 or int(block.max()) < 0x80
        count, size, wrong = self._loop(write_names)(
            block, records.starts, records.ends, self._columns, which, keep,
            np.frombuffer(bytearray(b"".join(prefixes)), np.uint8), np.cumsum([0, *map(len, prefixes)], dtype=np.int64),
            room, not ascii_,
        )  # fmt: skip
        kept = [each[:count] for each in room[1:5]]
        return Names(room.text[:size], kept[0], kept[1], kept[2], kept[3], room.broken[: 2 * wrong].reshape(-1, 2))
