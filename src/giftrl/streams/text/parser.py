"""The base of line parsers: shared functions, buffers, faults of lines, and batches of rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import IntEnum
from operator import gt
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.batch import Batch, LabelNames, Position, Rejected, keep_rows, merge, overflowed
from giftrl.streams.line_blocks import BOM, as_block
from giftrl.streams.names.features import Dictionary, Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.tables import Sections, byte
from giftrl.streams.text.numbers import HARD, TOO_LARGE, shorten

#: The cache of group names is cleared at this size.
MAX_KNOWN_GROUPS = 1 << 16
#: Maximum bytes of a rejected line stored, and of a fault shown in a message.
MAX_RAW_BYTES, MAX_SHOWN_BYTES = 4096, 40

TAB, NEWLINE, RETURN, SPACE, HASH, COLON = 9, 10, 13, 32, 35, 58

FINITE = "a finite number"
RANGE = "at most 1.797e308 in magnitude"


class Fault(IntEnum):
    """A fault code of a line: the problem, what was expected, and whether to show the text."""

    problem: str
    expected: str
    shown: bool

    def __new__(cls, problem: str, expected: str, shown: bool = True) -> "Fault":
        fault = int.__new__(cls, len(cls.__members__) + 1)  # 0: no fault
        fault._value_, fault.problem, fault.expected, fault.shown = int(fault), problem, expected, shown
        return fault

    # Pairs: not a number, and a number beyond float64.
    LABEL = "a label that is not a number", FINITE
    LABEL_TOO_LARGE = "a label too large for float64", RANGE
    VALUE = "a value that is not a number", FINITE
    VALUE_TOO_LARGE = "a value too large for float64", RANGE
    IMPORTANCE = "an importance that is not a number", FINITE + ", or a tag that touches the bar"
    IMPORTANCE_TOO_LARGE = "an importance too large for float64", RANGE
    BASE = "a base that is not a number", FINITE + ", or a tag that touches the bar or begins with '"
    BASE_TOO_LARGE = "a base too large for float64", RANGE
    SCALE = "a factor of a namespace that is not a number", FINITE
    SCALE_TOO_LARGE = "a factor of a namespace too large for float64", RANGE

    SCALED_TOO_LARGE = "a value that is too large for float64 times the factor of its namespace", RANGE
    SUM_TOO_LARGE = "values of one feature whose sum is too large for float64", RANGE, False
    STRAY_RETURN = "a carriage return inside a line", "one only before the newline", False
    NUL = "a NUL byte", "text", False
    ENCODING = "bytes that are not UTF-8", "names and tags in UTF-8"
    HARD = "a number that the loop leaves to Python", FINITE  # not an error

    NO_LABEL = "no label before the first feature", "a label at the beginning of the line"
    QUERY = "a qid that is not a whole number", "qid:digits"
    INDEX = "an index that is not a whole number", "index:value, the index written in digits"
    INDEX_RANGE = (
        "an index out of range",
        "an index from 1 to 9223372036854775807; add 1 if a file counts from 0",
    )
    NO_COLON = "a feature without a colon", "index:value"
    REPEATED = "an index used twice in a row", "each index at most once"

    NO_BAR = "no bar", "label | features, with a bar before the features"
    TAB_BEFORE_BAR = "a tab before the first bar", "spaces there", False
    MANY_NUMBERS = "a fourth number before the first bar", "at most label, importance and base"
    NEGATIVE_IMPORTANCE = "an importance below 0", "0 or more"
    NAMESPACE = "a colon where a namespace should be", "a namespace, or a space after the bar"
    LONG_NAMESPACE = "a namespace of more than 255 bytes", "at most 255"
    NO_NAME = "a feature without a name", "feature or feature:value"
    MANY_NAMES = "more features than n-grams can be made of", "a shorter row, or shorter n-grams", False


def rejected(block: NDArray[np.uint8], source: str, line: int, begin: int, spot: int, fault: int) -> Rejected:
    """Reject a line: its start in the block and the place of its fault are given."""
    found = list(Fault)[fault - 1]
    problem = found.problem
    if found.shown:
        there = block[spot : spot + MAX_SHOWN_BYTES + 1].tobytes()
        words = there.partition(b"\n")[0].split()
        token = words[0] if words and not there[:1].isspace() else b""
        text = token[:MAX_SHOWN_BYTES].decode(errors="backslashreplace")
        problem += f": {text!r}" + ("..." if len(token) > MAX_SHOWN_BYTES else "")
    raw = block[begin : begin + MAX_RAW_BYTES].tobytes().partition(b"\n")[0].removesuffix(b"\r")
    return Rejected(source, line, spot - begin + 1, problem, found.expected, raw)


# Functions shared by the loops over lines.


@formula
def blank(c: Any) -> Any:
    """True for a space or a tab."""
    return (c == SPACE) | (c == TAB)


@formula
def skip_blanks(block: Any, at: Any) -> Any:
    """The first place from ``at`` without a space or tab."""
    while blank(byte(block, at)):
        at += 1
    return at


@formula
def skip_line(block: Any, at: Any) -> Any:
    """The start of the next line."""
    while byte(block, at) != NEWLINE:
        at += 1
    return at + 1


@formula
def at_end(block: Any, at: Any) -> Any:
    """True at a newline, or at a carriage return before one."""
    c = byte(block, at)
    ends = c == NEWLINE
    if c == RETURN:
        ends = byte(block, at + 1) == NEWLINE
    return ends


@formula
def blame(block: Any, at: Any, start: Any, fault: Any) -> tuple[Any, Any]:
    """The fault, and its place, of a field that is valid up to ``at``: this one, a NUL or a stray carriage return."""
    c = byte(block, at)
    if c == 0:
        start = at
        fault = Fault.NUL
    elif c == RETURN and not at_end(block, at):
        start = at
        fault = Fault.STRAY_RETURN
    return fault, start


@formula
def blame_number(block: Any, at: Any, start: Any, wrong: Any, fault: Any) -> tuple[Any, Any]:
    """The fault and its place, for a number that was read up to ``at``."""
    if wrong == HARD:
        fault = Fault.HARD
    elif wrong == TOO_LARGE:
        fault = fault + 1
    else:
        fault, start = blame(block, at, start, fault)
    return fault, start


@formula
def note(bad: Any, count: Any, line: Any, begin: Any, spot: Any, fault: Any) -> Any:
    """Record a rejected line; returns the new count."""
    k = np.uint64(4 * count)
    bad[k] = line
    bad[k + np.uint64(1)] = begin
    bad[k + np.uint64(2)] = spot
    bad[k + np.uint64(3)] = fault
    return count + 1


@formula
def add_row(rows: Any, k: Any, label: Any, weight: Any, tag: Any, line: Any, begin: Any, end: Any) -> Any:
    """Write row k; returns the new count."""
    at = np.uint64(k)
    rows.labels[at] = label
    rows.weights[at] = weight
    rows.tag_starts[at], rows.tag_ends[at] = tag
    rows.lines[at] = line
    rows.begins[at] = begin
    rows.ends[at] = end
    return k + 1


#: Concatenated words, and their ends, beginning with 0.
WordTable = tuple[NDArray[np.uint8], NDArray[np.int64]]


def word_table(given: Iterable[str | None]) -> WordTable:
    """Words as arrays for compiled loops; None for an absent word."""
    # Keys in the loops contain no quote, so this word never matches.
    raw = [b'"' if word is None else word.encode("utf-8", "replace") for word in given]
    return np.frombuffer(bytearray(b"".join(raw)), np.uint8), np.cumsum([0, *map(len, raw)], dtype=np.int64)


NO_WORDS = word_table(())


@formula
def find_word(text: Any, start: Any, end: Any, listed: Any) -> Any:
    """The number of the word ``text[start:end]`` in a table; -1 if it is not there."""
    letters, ends = listed
    for w in range(len(ends) - 1):
        first = ends[w]
        same = end - start == ends[w + 1] - first
        if same:
            for k in range(end - start):
                same &= text[np.uint64(start + k)] == letters[np.uint64(first + k)]
        if same:
            return w
    return -1


# Buffers of loops.


class TextRows(NamedTuple):
    """The rows of a block, in the order of their lines."""

    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    tag_starts: NDArray[np.int64]
    tag_ends: NDArray[np.int64]
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]  # start of the line in the block
    ends: NDArray[np.int64]  # end offset of the row's entries

    def first(self, count: int) -> "TextRows":
        """Copies of the first rows."""
        return TextRows._make(array[:count].copy() for array in self)

    def tags(self, block: NDArray[np.uint8]) -> tuple[str, ...]:
        """The tag of each row; empty if no row has one."""
        if not (self.tag_ends > self.tag_starts).any():
            return ()
        pairs = zip(self.tag_starts.tolist(), self.tag_ends.tolist(), strict=True)
        return tuple(block[start:end].tobytes().decode() for start, end in pairs)


class TextEntries(NamedTuple):
    """Entries: values, places of names in a text, and the length of the group in the name (JSON)."""

    values: NDArray[np.float64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    group_sizes: NDArray[np.int64]


A = TypeVar("A", bound=tuple[Any, ...])


def make_arrays(kind: Callable[..., A], size: int) -> A:
    """A NamedTuple of arrays of equal size; unused memory pages cost nothing."""
    floats = ("values", "labels", "weights")
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return kind(*(np.empty(size, np.float64 if name in floats else np.int64) for name in names))


def scan(
    loop: Callable[..., Any], block: NDArray[np.uint8], start: Position, buffers: Any
) -> tuple[list[int], list[Any]]:
    """Run a loop over the lines of a block; returns its counts but the last, and the numbers of each rejected line."""
    at = 3 if start.offset == 0 and block[:3].tobytes() == BOM else 0
    text = block
    while True:
        *counts, bad = loop(text, at, start.line, buffers)
        records = buffers.bad[: 4 * bad].reshape(-1, 4).tolist()
        hard = [(begin, spot) for _, begin, spot, fault in records if fault == Fault.HARD]
        if not hard:
            return counts, records
        # Each round shortens at least one more number, so this ends.
        text = text.copy()
        for begin, spot in hard:
            end = spot + text[spot:].tobytes().index(b"\n")
            text[begin:end] = np.frombuffer(shorten(text[begin:end].tobytes(), spot - begin), np.uint8)
        text.flags.writeable = False


def mark_broken(block: NDArray[np.uint8], mark: int) -> NDArray[np.uint8]:
    """Replace the first byte of each line that is not UTF-8 by a mark."""
    if block.max(initial=0) < 0x80:
        return block
    import pyarrow as pa  # which checks 2.4 GB/s of Chinese and 5.9 GB/s of French; Python decodes 0.6 and 2.3

    text = [None, pa.py_buffer(np.array([0, len(block)])), pa.py_buffer(block)]
    try:
        pa.Array.from_buffers(pa.large_string(), 1, text).validate(full=True)
    except pa.ArrowInvalid:
        marked, begin = block.copy(), 0
        for line in block.tobytes().split(b"\n"):
            try:
                line.decode()
            except UnicodeDecodeError as broken:
                marked[begin + broken.start] = mark
            begin += len(line) + 1
        marked.flags.writeable = False
        return marked
    return block


# Parsers.


class Content(NamedTuple):
    """The rows of a block, before equal features are summed."""

    line: int  # the one after the last
    rows: TextRows
    tags: tuple[str, ...]
    values: NDArray[np.float64]
    slots: NDArray[np.int32]
    groups: NDArray[np.uint8] = np.empty(0, np.uint8)
    distinct: bool = False  # True if no row has duplicate or unknown (-1) features
    bad: Sequence[Any] = ()  # the last arguments of :func:`rejected` for each rejected line
    rejected: Iterable[Rejected] = ()
    bases: NDArray[np.float64] = np.empty(0)  # of the rows; empty if all are 0


class GroupCodes:
    """A cache of group numbers from 0 to 255; ``code`` computes the number of a new group."""

    def __init__(self, code: Callable[[str], int], compiled: bool) -> None:
        self.code, self.compiled = code, compiled
        self._clear()

    def _clear(self) -> None:
        self._groups = Dictionary(compiled=self.compiled)
        self._known = np.zeros(1, np.uint8)

    def of(self, text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The numbers of groups, given by the places of their names in a text."""
        if self._groups.dimension > MAX_KNOWN_GROUPS:
            self._clear()
        places = self._groups.name_slots(text, starts, ends, Sections.none(), np.ones(len(starts)))
        new = [str(self._groups.name(k)) for k in range(len(self._known), self._groups.dimension)]
        self._known = np.append(self._known, np.array([self.code(name) for name in new], np.uint8))
        return np.asarray(self._known[places])


class TextParser(ABC):
    """Reads blocks of lines. With interactions entries have groups; with names of labels, labels are their numbers."""

    def __init__(
        self, features: Features, interactions: Interactions | None = None, *, labels: LabelNames | None = None,
        compiled: bool = True,
    ) -> None:  # fmt: skip
        self.features, self.interactions, self.labels, self.compiled = features, interactions, labels, compiled
        self._label_words = NO_WORDS if labels is None else word_table(labels.names)
        self._codes = None if interactions is None else GroupCodes(interactions.code, compiled)
        self.labels_only = False
        self._sizes: tuple[int, ...] = ()
        self._buffers: Any = None

    @abstractmethod
    def _read(self, block: NDArray[np.uint8], source: str, start: Position) -> Content:
        """Parse a block."""

    def label_at(self, line: int, raw: bytes) -> tuple[str, int]:
        """The label of a line of the last block as text, and its first byte (from 1)."""
        first = raw.split(None, 1)[:1] or [b""]
        return first[0].decode(errors="backslashreplace"), raw.find(first[0]) + 1

    def _large_enough(self, make_buffers: Callable[..., Any], *sizes: int) -> Any:
        """Buffers of at least these sizes, reused if possible."""
        if self._buffers is None or any(map(gt, sizes, self._sizes)):
            self._sizes, self._buffers = sizes, make_buffers(*sizes)
        return self._buffers

    def parse(self, data: Any, source: str, start: Position) -> Batch:
        """Parse a block of whole lines; the last line may lack its newline.

        Duplicate features are summed, unknown ones dropped. A row with an overflowing sum is rejected.
        """
        block = as_block(data)
        content = self._read(block, source, start)
        rows, values, slots, groups = content.rows, content.values, content.slots, content.groups
        indptr = np.concatenate([np.zeros(1, np.int64), rows.ends])
        bad, too_large = content.bad, np.empty(0, np.int64)
        if not content.distinct:
            values, slots, groups, indptr = merge(values, slots, groups, indptr, compiled=self.compiled)
            too_large = overflowed(values, indptr)
        end = Position(start.source, start.offset + len(data), content.line)
        batch = Batch(
            source, values, slots, indptr, rows.labels, rows.weights, rows.lines, groups, end, tags=content.tags,
            bases=content.bases,
        )  # fmt: skip
        if len(too_large):
            places = zip(rows.lines[too_large].tolist(), rows.begins[too_large].tolist(), strict=True)
            bad = [*bad, *((line, begin, begin, Fault.SUM_TOO_LARGE) for line, begin in places)]
            batch = keep_rows(batch, ~np.isin(np.arange(len(batch)), too_large))
        records = [*content.rejected, *(rejected(block, source, *record) for record in bad)]
        return replace(batch, rejected=tuple(sorted(records, key=lambda each: each.line))) if records else batch
