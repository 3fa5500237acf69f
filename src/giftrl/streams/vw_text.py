"""VW text: ``[label [importance [base]]] ['tag|tag]|namespace[:factor] feature[:value] ... |namespace ...``.

The format is that of Vowpal Wabbit's wiki, page Input format, with these differences, each of which is an error with a
message rather than a guess: a line without a bar; a tab before the first bar; a base other than 0; a negative
importance; a value that is not a number (write ``city=Paris`` for a category, not ``city:Paris``); a feature without a
name (``:3``); numbers that are not finite; text that is not UTF-8.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require
from giftrl.kernels.compiler import ready
from giftrl.ops.registry import formula
from giftrl.streams.batch import Batch, Position
from giftrl.streams.features import Dictionary, Features
from giftrl.streams.numbers import ROOMS, TOO_LARGE, byte, long_numbers, number, pin
from giftrl.streams.text_names import Sections
from giftrl.streams.text_rows import (
    AT, BAD, DONE, ENTRIES, LINE, MORE_BAD, MORE_ENTRIES, MORE_ROWS, MORE_SECTIONS, ROWS, SECTIONS, RowsFound, as_batch,
    as_block, scan, scan_start,
)  # fmt: skip
from giftrl.streams.text_scan import (
    COLON, NEWLINE, RETURN, SPACE, TAB, Problem, at_end, blame, blank, broken_utf8, note, skip_blanks, skip_line,
)  # fmt: skip

__all__ = ["VwText"]

BAR, QUOTE = 124, 39
LONGEST_NAMESPACE = 255
OTHERS = 255  # the number of all namespaces after the first 254

#: For each byte, whether a name ends before it.
STOPS = np.zeros(256, np.bool_)
STOPS[[0, TAB, NEWLINE, RETURN, SPACE, COLON, BAR]] = True


class Found(NamedTuple):
    """Room for what the loop finds in a block: each entry, each namespace, each row, each rejected line."""

    values: NDArray[np.float64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    section_firsts: NDArray[np.int64]
    section_starts: NDArray[np.int64]
    section_ends: NDArray[np.int64]
    weights: NDArray[np.float64]
    tag_starts: NDArray[np.int64]
    tag_ends: NDArray[np.int64]
    labels: NDArray[np.float64]
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]
    row_ends: NDArray[np.int64]
    bad: NDArray[np.int64]


KINDS = (MORE_ENTRIES,) * 3 + (MORE_SECTIONS,) * 3 + (MORE_ROWS,) * 7 + (MORE_BAD,)


def _room(size: int) -> Found:
    """Room for what a block of that size is likely to hold."""
    sizes = {MORE_ENTRIES: size // 8 + 64, MORE_SECTIONS: size // 64 + 16, MORE_ROWS: size // 64 + 16, MORE_BAD: 64}
    numbers = {"values", "weights", "labels"}
    return Found(
        *(
            np.empty(sizes[kind], np.float64 if name in numbers else np.int64)
            for name, kind in zip(Found._fields, KINDS, strict=True)
        )
    )


class VwText:
    """Reads blocks of VW text.

    A row without a label has the label NaN, one without an importance the weight 1, a feature without a value the
    value 1. The factor of a namespace multiplies its values. Equal features of a row are summed; zeros are left out.
    Lines of blanks are no rows. A line that breaks a rule is rejected whole, and reading goes on with the next one.

    Args:
        features: what turns a name into a coordinate.
        groups: whether to tell the namespace of each entry, as a number.
        namespaces: the first numbers' namespaces, in order from 1 on; others get theirs as they come. All that come
            after the first 254 share 255.
        compiled: False to run the loops as plain Python.

    >>> from giftrl.streams.features import Dictionary
    >>> parser = VwText(Dictionary(), groups=True)
    >>> batch = parser.parse(b"1 2.0 'first|user:0.5 age:30 |item red\\n | red:-1\\n", "a.vw", Position())
    >>> batch.labels.tolist(), batch.weights.tolist(), batch.tags
    ([1.0, nan], [2.0, 1.0], ('first', ''))
    >>> [parser.features.name(slot) for slot in batch.indices], batch.data.tolist()
    (['user^age', 'item^red', 'red'], [15.0, 1.0, -1.0])
    >>> batch.groups.tolist(), parser.namespaces
    ([1, 2, 0], ('', 'user', 'item'))
    """

    def __init__(
        self, features: Features, *, groups: bool = False, namespaces: Sequence[str] = (), compiled: bool = True
    ) -> None:
        self.features = features
        self.groups = groups
        self.compiled = compiled
        self._found = _room(0)
        self._limbs = long_numbers()
        self._namespaces = Dictionary(compiled=compiled)
        few = len(namespaces) < OTHERS and "" not in namespaces
        require(few, "namespaces", namespaces, "must be at most 254 names", "leave out the default one, which is 0")
        self._namespaces.slots(namespaces)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces by their numbers; the default one, 0, has the empty name, and 255 is not listed."""
        return ("", *(str(self._namespaces.name(k)) for k in range(1, min(OTHERS, self._namespaces.dimension))))

    def parse(self, data: Any, source: str, start: Position) -> Batch:
        """The rows of a block of whole lines.

        Args:
            data: the bytes; the last line may lack its newline.
            source: the name of the source, for messages.
            start: the position of the first byte.
        """
        block = as_block(data)
        state = scan_start(block, start)
        found = self._found if len(self._found.values) > len(block) // 8 else _room(len(block))
        loop = ready(scan_vw, (), self.compiled, ROOMS)
        found = self._found = scan(loop, block, state, found, KINDS, self._limbs)
        entries, rows, count = int(state[ENTRIES]), int(state[ROWS]), int(state[SECTIONS])
        values = found.values[:entries].copy()
        sections = Sections(*(array[:count] for array in found[3:6]))
        slots = self.features.name_slots(block, found.starts[:entries], found.ends[:entries], sections, values)
        groups = np.empty(0, np.uint8)
        if self.groups:
            numbers = self._numbers(block, sections)
            groups = np.repeat(numbers, np.diff(sections.first, append=entries))
        return as_batch(
            block, source, Position(start.source, start.offset + len(data), int(state[LINE])), state,
            RowsFound(*found[9:]), values, slots, groups, found.weights[:rows].copy(), _tags(block, found, rows),
            distinct=False, compiled=self.compiled,
        )  # fmt: skip

    def _numbers(self, block: NDArray[np.uint8], sections: Sections) -> NDArray[np.uint8]:
        """The number of the namespace of each section."""
        named = sections.end > sections.start
        none = np.zeros(1, np.int64)
        starts, ends = sections.start[named], sections.end[named]
        whole = Sections(none, none, none)
        slots = self._namespaces.name_slots(block, starts, ends, whole, np.empty(len(starts)))
        if self._namespaces.dimension > OTHERS:
            self._namespaces.freeze()
        numbers = np.zeros(len(named), np.uint8)
        numbers[named] = np.where((slots < 0) | (slots > OTHERS), OTHERS, slots)
        return numbers


def _tags(block: NDArray[np.uint8], found: Found, rows: int) -> tuple[str, ...]:
    """The tag of each row, or nothing where no row has one."""
    starts, ends = found.tag_starts[:rows], found.tag_ends[:rows]
    if not (ends > starts).any():
        return ()
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return tuple(block[start:end].tobytes().decode() if end > start else "" for start, end in pairs)


@formula
def scan_vw(block: Any, state: Any, found: Any, limbs: Any) -> Any:
    """Find the rows of a block, which ends with a newline, from where the state is; why it stopped."""
    (
        values, starts, ends, section_firsts, section_starts, section_ends, weights, tag_starts, tag_ends, labels, lines,
        begins, row_ends, bad_lines,
    ) = found  # fmt: skip
    at, line, entries, rows, bad, sections = (
        state[AT], state[LINE], state[ENTRIES], state[ROWS], state[BAD], state[SECTIONS]
    )  # fmt: skip
    size = len(block)
    why = DONE
    while at < size and why == DONE:
        begin = at
        first, first_section = entries, sections
        if rows == len(labels):
            why = MORE_ROWS
        elif 4 * bad == len(bad_lines):
            why = MORE_BAD
        spot = at = skip_blanks(block, at)
        problem = 0
        label, weight, tag_start, tag_end = np.nan, 1.0, np.int64(0), np.int64(0)
        empty = at_end(block, at)
        if not empty:
            label, weight, tag_start, tag_end, at, spot, problem = read_head(block, begin, limbs)
        factor = 1.0
        while problem == 0 and why == DONE and not at_end(block, at):
            if byte(block, at) == BAR:
                if sections == len(section_firsts):
                    why = MORE_SECTIONS
                else:
                    k = np.uint64(sections)
                    section_firsts[k] = entries
                    section_starts[k] = at + 1
                    section_ends[k], at, factor, spot, problem = read_namespace(block, at + 1, limbs)
                    sections += 1
            elif entries == len(values):
                why = MORE_ENTRIES
            else:
                k = np.uint64(entries)
                starts[k] = at
                ends[k], at, value, spot, problem = read_feature(block, at, limbs)
                values[k] = value * factor
                if problem == 0 and not np.isfinite(values[k]):
                    problem = Problem.SCALED_TOO_LARGE
                    spot = starts[k]
                entries += 1 if values[k] != 0.0 else 0
            at = skip_blanks(block, at)
        if why != DONE:
            at = begin
            entries, sections = first, first_section
        else:
            if problem:
                bad = note(bad_lines, bad, line, begin, spot, problem)
                entries, sections = first, first_section
            elif not empty:
                k = np.uint64(rows)
                labels[k] = label
                weights[k] = weight
                tag_starts[k] = tag_start
                tag_ends[k] = tag_end
                lines[k] = line
                begins[k] = begin
                row_ends[k] = entries
                rows += 1
            at = skip_line(block, at)
            line += 1
    state[AT], state[LINE], state[ENTRIES], state[ROWS], state[BAD], state[SECTIONS] = (
        at, line, entries, rows, bad, sections
    )  # fmt: skip
    return why


@formula
def read_head(block: Any, at: Any, limbs: Any) -> tuple[Any, Any, Any, Any, Any, Any, Any]:
    """Read what is before the first bar: label, importance, the places of the tag, that of the bar or of a problem."""
    label, weight, tag_start, tag_end = np.nan, 1.0, np.int64(0), np.int64(0)
    problem = 0
    spot = at
    bar = at
    while byte(block, bar) != BAR and byte(block, bar) != NEWLINE and problem == 0:
        if byte(block, bar) == TAB:
            spot = bar
            problem = Problem.TAB_BEFORE_BAR
        bar += 1
    if problem == 0 and byte(block, bar) == NEWLINE:
        problem = Problem.NO_BAR
    count = 0
    while problem == 0 and at < bar:
        spot = at
        while byte(block, at) != SPACE and at < bar:
            at += 1
        stop = at
        while byte(block, at) == SPACE:
            at += 1
        if at == bar and stop > spot and (stop == bar or byte(block, spot) == QUOTE):
            tag_start = spot + 1 if byte(block, spot) == QUOTE else spot
            tag_end = stop
            problem, spot = check_text(block, tag_start, tag_end, spot)
        elif stop > spot:
            value, after, wrong = number(block, spot, limbs)
            if count == 3:
                problem = Problem.MANY_NUMBERS
            elif wrong == TOO_LARGE and after == stop:
                problem = large_number(count)
            elif wrong or after != stop:
                problem, spot = blame(block, after, spot, no_number(count))
            elif count == 0:
                label = value
            elif count == 1:
                weight = value
                if value < 0.0:
                    problem = Problem.NEGATIVE_IMPORTANCE
            elif value != 0.0:
                problem = Problem.BASE_USED
            count += 1
    return pin(limbs, pin(block, label)), weight, tag_start, tag_end, bar if problem == 0 else at, spot, problem


@formula
def no_number(count: Any) -> Any:
    """What to call a field before the bar that is not a number."""
    problem = Problem.LABEL
    if count == 1:
        problem = Problem.IMPORTANCE
    elif count == 2:
        problem = Problem.BASE
    return problem


@formula
def large_number(count: Any) -> Any:
    """What to call a field before the bar that is too large."""
    problem = Problem.LABEL_TOO_LARGE
    if count == 1:
        problem = Problem.IMPORTANCE_TOO_LARGE
    elif count == 2:
        problem = Problem.BASE_TOO_LARGE
    return problem


@formula
def check_text(block: Any, start: Any, end: Any, spot: Any) -> tuple[Any, Any]:
    """What is wrong with the text between two places, and where."""
    problem = 0
    broken = broken_utf8(block, start, end)
    if broken >= 0:
        problem = Problem.ENCODING
        spot = broken
    for at in range(start, end):
        if problem == 0 and byte(block, at) < SPACE:
            problem, spot = blame(block, at, spot, 0)
    return pin(block, problem), spot


@formula
def read_name(block: Any, at: Any) -> tuple[Any, Any]:
    """Where a name ends, and whether it has bytes outside ASCII."""
    bits = 0
    c = byte(block, at)
    while not STOPS[np.uint64(c)]:
        bits |= c
        at += 1
        c = byte(block, at)
    return pin(block, at), bits > 127


@formula
def name_ends(block: Any, at: Any) -> Any:
    """Whether a blank, a bar or the end of the line is here."""
    c = byte(block, at)
    ends = blank(c) or c == BAR
    if not ends:
        ends = at_end(block, at)
    return pin(block, ends)


@formula
def read_namespace(block: Any, at: Any, limbs: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Read a namespace after its bar: where its name ends, the place after it, its factor; and what is wrong where."""
    start = at
    end, wide = read_name(block, at)
    at = end
    factor = 1.0
    problem = 0
    spot = start
    if wide:
        broken = broken_utf8(block, start, end)
        if broken >= 0:
            problem = Problem.ENCODING
            spot = broken
    if problem == 0 and end - start > LONGEST_NAMESPACE:
        problem = Problem.LONG_NAMESPACE
    elif problem == 0 and byte(block, at) == COLON:
        at += 1
        if end == start:
            problem = Problem.NAMESPACE
        else:
            spot = at
            factor, at, wrong = number(block, at, limbs)
            if wrong == TOO_LARGE:
                problem = Problem.SCALE_TOO_LARGE
            elif wrong or not name_ends(block, at):
                problem, spot = blame(block, at, spot, Problem.SCALE)
    elif problem == 0 and not name_ends(block, at):
        problem, spot = blame(block, at, spot, Problem.NAMESPACE)
    return pin(limbs, pin(block, end)), at, factor, spot, problem


@formula
def read_feature(block: Any, at: Any, limbs: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Read a feature: where its name ends, the place after it, its value; and what is wrong where."""
    start = at
    end, wide = read_name(block, at)
    at = end
    value = 1.0
    problem = 0
    spot = start
    if wide:
        broken = broken_utf8(block, start, end)
        if broken >= 0:
            problem = Problem.ENCODING
            spot = broken
    if problem == 0 and byte(block, at) == COLON and end > start:
        at += 1
        spot = at
        value, at, wrong = number(block, at, limbs)
        if wrong == TOO_LARGE:
            problem = Problem.VALUE_TOO_LARGE
        elif wrong or not name_ends(block, at):
            problem, spot = blame(block, at, spot, Problem.VALUE)
    elif problem == 0 and (end == start or not name_ends(block, at)):
        problem, spot = blame(block, at, spot, Problem.NO_NAME)
    return pin(limbs, pin(block, end)), at, value, spot, problem
