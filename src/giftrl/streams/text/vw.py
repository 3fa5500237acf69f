"""VW text: ``[label [importance [base]]] ['tag|tag]|namespace[:factor] feature[:value] ... |namespace ...``.

The format is that of Vowpal Wabbit's wiki, page Input format, with these differences, each of which is an error with a
message rather than a guess: a line without a bar; a tab before the first bar; a negative
importance; a value that is not a number (write ``city=Paris`` for a category, not ``city:Paris``); a feature without a
name (``:3``); numbers that are not finite; text that is not UTF-8. No other library reads the format into arrays.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.streams.batch import LabelNames, Position
from giftrl.streams.line_blocks import count_lines
from giftrl.streams.names.features import Features
from giftrl.streams.names.interactions import Interactions, Ngrams
from giftrl.streams.names.tables import CARET, Sections, byte
from giftrl.streams.text.numbers import number
from giftrl.streams.text.parser import (
    COLON,
    NEWLINE,
    NO_WORDS,
    SPACE,
    TAB,
    Content,
    Fault,
    GroupCodes,
    TextEntries,
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
    mark_broken,
    note,
    scan,
    skip_blanks,
    skip_line,
)


class VwText(TextParser):
    """Reads blocks of VW text.

    A row without a label has the label NaN, one without an importance the weight 1, one without a base the base 0, a
    feature without a value the value 1. The factor of a namespace multiplies its values. Equal features of a row are
    summed; zeros are left out. Blank lines are skipped. A line that breaks a rule is rejected whole, and reading
    continues with the next one. With interactions, a group is a namespace, with its n-grams.

    >>> from giftrl.streams.names.features import Dictionary
    >>> parser = VwText(Dictionary())
    >>> batch = parser.parse(b"1 2.0 'first|user:0.5 age:30 |item red\\n | red:-1\\n", "a.vw", Position())
    >>> batch.labels.tolist(), batch.weights.tolist(), batch.tags
    ([1.0, nan], [2.0, 1.0], ('first', ''))
    >>> [parser.features.name(slot) for slot in batch.indices], batch.data.tolist()
    (['user^age', 'item^red', 'red'], [15.0, 1.0, -1.0])
    """

    def __init__(
        self, features: Features, interactions: Interactions | None = None, ngrams: Ngrams | None = None, *,
        labels: LabelNames | None = None, compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(features, interactions, labels=labels, compiled=compiled)
        self.ngrams = ngrams
        self._gram_sizes = None if ngrams is None else GroupCodes(ngrams.size, compiled)

    def _read(self, block: NDArray[np.uint8], source: str, start: Position) -> Content:
        bars = int(np.count_nonzero(block == BAR))
        buffers = self._large_enough(make_buffers, len(block), count_lines(block), bars)
        buffers = buffers._replace(labels=self._label_words)
        if self.ngrams is not None:
            buffers = buffers._replace(most_names=self.ngrams.most_names)
        loop = ready(scan_vw, self.compiled, counted=False)
        (line, count, entries, named), bad = scan(loop, mark_broken(block, BROKEN_BYTE), start, buffers)
        rows = buffers.rows.first(count)
        names = TextEntries._make(array[:entries] for array in buffers.names)
        sections = Sections._make(array[:named] for array in buffers.sections)
        found = NamedEntries(block, names.values.copy(), names.starts, names.ends, sections)
        if self._gram_sizes is not None:
            sizes = self._gram_sizes.of(block, sections.start, sections.end).astype(np.int64)
            found, row_ends = with_ngrams(found, sizes, rows.ends, compiled=self.compiled)
            rows = rows._replace(ends=row_ends)
        bases = buffers.bases[:count].copy() if buffers.bases[:count].any() else np.empty(0)
        slots = self.features.name_slots(found.text, found.starts, found.ends, found.sections, found.values)
        groups = np.empty(0, np.uint8)
        if self._codes is not None:
            codes = self._codes.of(block, sections.start, sections.end)
            groups = np.repeat(codes, np.diff(found.sections.first, append=len(found.values)))
        return Content(line, rows, rows.tags(block), found.values, slots, groups, bad=bad, bases=bases)


# The loop over the lines of VW text.

BAR, QUOTE = 124, 39
BROKEN_BYTE = 0xFF  # marks a byte that is not UTF-8; never part of valid UTF-8
LONGEST_NAMESPACE = 255  # long namespaces would slow down the hashing of every name

#: The faults of the label, the importance and the base.
HEAD_FAULTS = np.array([Fault.LABEL, Fault.IMPORTANCE, Fault.BASE])

#: Lookup table: True for bytes that end a name.
ENDS_NAME = np.zeros(256, np.bool_)
ENDS_NAME[[*b"\0\t\n\r :|", BROKEN_BYTE]] = True


class VwBuffers(NamedTuple):
    """Buffers of the loop: entries, sections (one for each namespace), rows and rejected lines."""

    names: TextEntries
    sections: Sections
    rows: TextRows
    bad: NDArray[np.int64]  # four numbers each: the line, its beginning, the place of the mistake, and the fault
    bases: NDArray[np.float64]  # of the rows
    most_names: int = 2**62  # of a row
    labels: WordTable = NO_WORDS  # the names of labels, if they have names


def make_buffers(size: int, lines: int, bars: int) -> VwBuffers:
    """Buffers for a block of a size in bytes, lines and bars; an entry takes at least two bytes."""
    names, sections = make_arrays(TextEntries, size // 2 + 1), make_arrays(Sections, bars)
    return VwBuffers(names, sections, make_arrays(TextRows, lines), np.empty(4 * lines, np.int64), np.empty(lines))


@formula
def scan_vw(block: Any, at: Any, line: Any, buffers: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Parse the rows of a block, which ends with a newline, from a place on.

    Returns the line after the last, and the numbers of rows, entries, sections and rejected lines.
    """
    names, sections, rows, bad_lines, bases, most_names, labels = buffers
    values, starts, ends, _ = names
    row, entries, section, bad = 0, 0, 0, 0
    while at < len(block):
        begin = at
        first, first_section = entries, section
        spot = at = skip_blanks(block, at)
        fault = 0
        label, weight, base, tag = np.nan, 1.0, 0.0, (np.int64(0), np.int64(0))
        empty = at_end(block, at)
        if not empty:
            label, weight, base, tag, at, spot, fault = read_head(block, begin, labels)
        factor = 1.0
        while fault == 0 and not at_end(block, at):
            if byte(block, at) == BAR:
                k = np.uint64(section)
                start = at + 1
                end, at, factor, spot, fault = read_named(block, start, True, Fault.NAMESPACE, Fault.SCALE)
                if fault == 0 and end - start > LONGEST_NAMESPACE:
                    fault = Fault.LONG_NAMESPACE
                    spot = start
                sections.first[k], sections.start[k], sections.end[k] = entries, start, end
                section += 1
            else:
                k = np.uint64(entries)
                starts[k] = at
                ends[k], at, value, spot, fault = read_named(block, at, False, Fault.NO_NAME, Fault.VALUE)
                values[k] = value * factor
                if fault == 0 and not np.isfinite(values[k]):
                    fault = Fault.SCALED_TOO_LARGE
                    spot = starts[k]
                entries += 1 if values[k] != 0.0 else 0
            at = skip_blanks(block, at)
        if fault == 0 and entries - first > most_names:
            fault = Fault.MANY_NAMES
            spot = begin
        if fault:
            bad = note(bad_lines, bad, line, begin, spot, fault)
            entries, section = first, first_section
        elif not empty:
            bases[np.uint64(row)] = base
            row = add_row(rows, row, label, weight, tag, line, begin, entries)
        at = skip_line(block, at)
        line += 1
    return line, row, entries, section, bad


@formula
def read_head(block: Any, at: Any, labels: Any) -> tuple[Any, Any, Any, Any, Any, Any, Any]:
    """Read the part before the first bar: label, weight, base, tag, the bar; and a fault with its place."""
    label, weight, base, tag_start, tag_end = np.nan, 1.0, 0.0, np.int64(0), np.int64(0)
    fault = 0
    spot = at
    bar = at
    while byte(block, bar) != BAR and byte(block, bar) != NEWLINE and fault == 0:
        if byte(block, bar) == TAB:
            spot = bar
            fault = Fault.TAB_BEFORE_BAR
        bar += 1
    if fault == 0 and byte(block, bar) == NEWLINE:
        fault = Fault.NO_BAR
    count = 0
    while fault == 0 and at < bar:
        spot = at
        while byte(block, at) != SPACE and at < bar:
            at += 1
        stop = at
        while byte(block, at) == SPACE:
            at += 1
        if at == bar and stop > spot and (stop == bar or byte(block, spot) == QUOTE):
            tag_start = spot + 1 if byte(block, spot) == QUOTE else spot
            tag_end = stop
            fault, spot = check_text(block, tag_start, tag_end, spot)
        elif stop > spot and count == 0 and len(labels[1]) > 1:
            label = np.float64(find_word(block, spot, stop, labels))
            fault, spot = check_text(block, spot, stop, spot)
            count += 1
        elif stop > spot:
            value, after, wrong = number(block, spot)
            if count == 3:
                fault = Fault.MANY_NUMBERS
            elif wrong or after != stop:
                fault, spot = blame_number(block, after, spot, wrong, HEAD_FAULTS[np.uint64(count)])
            elif count == 0:
                label = value
            elif count == 1:
                weight = value
                if value < 0.0:
                    fault = Fault.NEGATIVE_IMPORTANCE
            else:
                base = value
            count += 1
    return label, weight, base, (tag_start, tag_end), bar if fault == 0 else at, spot, fault


@formula
def check_text(block: Any, at: Any, end: Any, spot: Any) -> tuple[Any, Any]:
    """The fault of a piece of text, and its place; ``spot`` if there is none."""
    fault = 0
    while at < end and fault == 0:
        if byte(block, at) < SPACE or byte(block, at) == BROKEN_BYTE:
            fault, spot = blame_name(block, at, spot, 0)
        at += 1
    return fault, spot


@formula
def blame_name(block: Any, at: Any, start: Any, fault: Any) -> tuple[Any, Any]:
    """The fault and its place, for a name or tag that is valid from ``start`` to ``at``."""
    fault, spot = blame(block, at, start, fault)
    if byte(block, at) == BROKEN_BYTE:
        fault = Fault.ENCODING
        spot = at
    return fault, spot


@formula
def name_ends(block: Any, at: Any) -> Any:
    """True at a blank, a bar or the end of the line."""
    c = byte(block, at)
    ends = blank(c) or c == BAR
    if not ends:
        ends = at_end(block, at)
    return ends


@formula
def read_named(
    block: Any, at: Any, may_be_empty: bool, misplaced: Any, no_number: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """Read a name and its number; returns the end of the name, the place after both, the number, and a fault."""
    spot = start = at
    while not ENDS_NAME[np.uint64(byte(block, at))]:
        at += 1
    end = at
    value = 1.0
    fault = 0
    if byte(block, at) == COLON and end > start:
        spot = at + 1
        value, at, wrong = number(block, spot)
        if wrong or not name_ends(block, at):
            fault, spot = blame_number(block, at, spot, wrong, no_number)
    elif (end == start and not may_be_empty) or not name_ends(block, at):
        fault, spot = blame_name(block, at, spot, misplaced)
    return end, at, value, spot, fault


# n-grams.


class NamedEntries(NamedTuple):
    """Entries with their values, the places of their names in a text, and their sections."""

    text: NDArray[np.uint8]
    values: NDArray[np.float64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    sections: Sections


@formula
def join_names(old: Any, sizes: Any, new: Any, written: Any) -> Any:
    """Copy entries by section, each section followed by its n-grams, whose names are appended to the text."""
    out = 0
    for section in range(len(sizes)):
        first = old.sections.first[section]
        last = old.sections.first[section + 1] if section + 1 < len(sizes) else len(old.values)
        new.sections.first[section] = out
        for k in range(first, last):
            new.values[out], new.starts[out], new.ends[out] = old.values[k], old.starts[k], old.ends[k]
            out += 1
        for size in range(2, sizes[section] + 1):
            for k in range(first, last - size + 1):
                new.values[out], new.starts[out] = 1.0, written
                for word in range(k, k + size):
                    if word > k:
                        new.text[written] = CARET
                        written += 1
                    for at in range(old.starts[word], old.ends[word]):
                        new.text[written] = old.text[at]
                        written += 1
                new.ends[out] = written
                out += 1
    return written


def with_ngrams(
    named: NamedEntries, sizes: NDArray[np.int64], row_ends: NDArray[np.int64], *, compiled: bool = True
) -> tuple[NamedEntries, NDArray[np.int64]]:
    """Add n-grams up to a size per section; returns the entries and the end offset of each row.

    >>> text = np.frombuffer(b"the cat sat", np.uint8)
    >>> at = NamedEntries(text, np.ones(3), np.array([0, 4, 8]), np.array([3, 7, 11]), Sections.none())
    >>> more, ends = with_ngrams(at, np.array([2]), np.array([3]), compiled=False)
    >>> [more.text[a:b].tobytes().decode() for a, b in zip(more.starts, more.ends)], ends.tolist()
    (['the', 'cat', 'sat', 'the^cat', 'cat^sat'], [5])
    """
    first, count = named.sections.first, len(named.values)
    words, longest = np.diff(first, append=count), int(sizes.max(initial=1))
    added, room = np.zeros(len(sizes), np.int64), 0
    for size in range(2, longest + 1):
        added += np.where(sizes >= size, np.maximum(words - size + 1, 0), 0)
        room += size * int((named.ends - named.starts + 1).sum())
    size = count + int(added.sum())
    text = np.empty(len(named.text) + room, np.uint8)
    text[: len(named.text)] = named.text
    floats, places = np.empty(size), (np.empty(size, np.int64), np.empty(size, np.int64))
    made = NamedEntries(text, floats, *places, named.sections._replace(first=np.empty(len(sizes), np.int64)))
    written = int(ready(join_names, compiled, counted=False)(named, sizes, made, len(named.text)))
    # A section belongs to a row if it begins before the row ends; an empty section does not matter.
    before = np.concatenate([[0], np.cumsum(added)])
    return made._replace(text=text[:written]), row_ends + before[np.searchsorted(first, row_ends, side="left")]
