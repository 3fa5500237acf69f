"""CSV: one row a record, one column a feature."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import Columns, Kind, Schema, group_of
from giftrl.streams.names.features import Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.merge import keep_rows, merge, overflowed
from giftrl.streams.sources.lines import as_block
from giftrl.streams.tables.assemble import assemble
from giftrl.streams.tables.csv_header import Layout, layout
from giftrl.streams.tables.csv_scan import ABSENT, HUGE, LONGEST, OTHER, Problem, Records, Scanner

__all__ = ["CsvText"]

FINITE = "a finite number"
WEIGHT = "a finite number, 0 or more"
SHOWN = 40


class CsvText:
    """Reads blocks of CSV.

    A column of numbers is the feature of its name; a column of text has the feature ``column=value``, with value 1, for
    each of its values. A column is one of numbers if nine out of ten of its fields in the first block are, missing ones
    not counted; a field of it that is none rejects its row, as does a row with too few or too many fields. Empty fields
    and zeros add nothing.

    Args:
        features: what turns names into coordinates.
        columns: what the user said of the columns.
        schema: what they are for, if that is known already; else the first file decides.
        interactions: whose groups to note for each entry.
        compiled: False to run the loops as plain Python.

    >>> from giftrl.streams.names.features import Dictionary
    >>> features = Dictionary()
    >>> text = b"label,age,city\\n1,33,Rome\\n0,,Oslo\\nx,5,Rome\\n"
    >>> table = CsvText(features)
    >>> start = table.open(text, "a.csv", True)
    >>> batch = table.parse(text[start.offset :], "a.csv", start)
    >>> batch.labels.tolist(), [features.name(slot) for slot in batch.indices], batch.data.tolist()
    ([1.0, 0.0], ['age', 'city=Rome', 'city=Oslo'], [33.0, 1.0, 1.0])
    >>> print(batch.rejected[0])
    a.csv:4:1: a label that is not a number: 'x', expected a finite number
    """

    def __init__(
        self,
        features: Features,
        columns: Columns | None = None,
        schema: Schema | None = None,
        interactions: Interactions | None = None,
        *,
        compiled: bool = True,
    ) -> None:
        self.features = features
        self.columns = columns or Columns()
        self.schema = schema
        self.interactions = interactions
        self.compiled = compiled
        self.unused = 0  # bytes at the end of the last block that belong to a record of the next

    def open(self, head: bytes, source: str, whole: bool, number: int = 0) -> Position:
        """Look at the beginning of a file, which must come before its blocks; where its first row begins.

        Args:
            head: the first bytes.
            source: the name of the file, for messages.
            whole: whether the head is the whole file.
            number: of the source, for the position.
        """
        found = self._layout = layout(head, source, self.columns, self.schema, whole, compiled=self.compiled)
        self.schema = found.schema
        self._scanner = Scanner(found.delimiter, self.columns.missing, compiled=self.compiled)
        # A table of another format may have taught that a column holds lists: text does not.
        kinds = [{Kind.NUMBERS: Kind.NUMBER, Kind.CATEGORIES: Kind.CATEGORY}.get(kind, kind) for kind in found.kinds]
        self._of_kind = {kind: np.flatnonzero(np.array(kinds) == kind) for kind in Kind.ALL}
        self._used = np.sort(np.concatenate([self._of_kind[Kind.NUMBER], self._of_kind[Kind.CATEGORY]]))
        self._prefixes = [f"{found.names[at]}=".encode() for at in self._of_kind[Kind.CATEGORY]]
        self._codes: NDArray[np.uint8] | None = None
        if self.interactions is not None:
            codes = [self.interactions.code(group_of(found.names[at])) for at in self._used]
            self._codes = np.array(codes, np.uint8)
        return Position(number, found.offset, found.line)

    def parse(self, data: Any, source: str, start: Position, whole: bool = True) -> Batch:
        """The rows of a block of whole lines.

        Args:
            data: the bytes; the last line may lack its newline.
            source: the name of the source, for messages.
            start: the position of the first byte.
            whole: whether the block ends with a record. If not, ``unused`` is set to the bytes of the one that has
                begun, and the next block must begin with them.
        """
        block = as_block(data)
        records, at, line = self._scanner.split(block, len(self._layout.names), start.line, whole)
        self.unused = len(block) - at
        rows = len(records.lines)
        bad = _Bad(block, source, records, self._layout)
        labels, weights = self._labels_and_weights(block, records, bad)
        values, slots = np.zeros((len(self._used), rows)), np.empty((len(self._used), rows), np.int32)
        self._numbers(block, records, bad, values, slots)
        self._categories(block, records, bad, values, slots)
        merged = merge(*assemble(values, slots, self._codes, compiled=self.compiled), compiled=self.compiled)
        batch = Batch(
            source=source,
            data=merged[0],
            indices=merged[1],
            indptr=merged[3],
            labels=labels,
            weights=weights,
            lines=records.lines.copy(),
            groups=merged[2],
            end=Position(start.source, start.offset + min(at, len(data)), line),
        )
        for row in overflowed(batch.data, batch.indptr).tolist():
            bad.reject(row, 0, "columns on one coordinate whose sum is too large", FINITE)
        return replace(keep_rows(batch, bad.keep), rejected=bad.rejected())

    def _labels_and_weights(
        self, block: NDArray[np.uint8], records: Records, bad: "_Bad"
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        rows = len(records.lines)
        labels, weights = np.full(rows, np.nan), np.ones(rows)
        for column in self._of_kind[Kind.LABEL].tolist():
            found, kinds = self._scanner.numbers(block, records, np.array([column]))
            labels = np.where(kinds[0] == ABSENT, np.nan, found[0])
            bad.reject_all(kinds[0] == OTHER, column, "a label that is not a number: {}", FINITE)
            bad.reject_all(kinds[0] == HUGE, column, "a label too large for float64: {}", FINITE)
        for column in self._of_kind[Kind.WEIGHT].tolist():
            found, kinds = self._scanner.numbers(block, records, np.array([column]))
            weights = found[0]
            bad.reject_all(kinds[0] == ABSENT, column, "no weight", WEIGHT)
            bad.reject_all((kinds[0] >= OTHER) | (weights < 0.0), column, "a weight that is not one: {}", WEIGHT)
        return labels, weights

    def _numbers(
        self, block: NDArray[np.uint8], records: Records, bad: "_Bad", values: NDArray[Any], slots: NDArray[Any]
    ) -> None:
        columns = self._of_kind[Kind.NUMBER]
        found, kinds = self._scanner.numbers(block, records, columns)
        places, signs = self.features.slots([self._layout.names[column] for column in columns])
        for at, (slot, sign) in enumerate(zip(places.tolist(), signs.tolist(), strict=True)):
            row = int(np.searchsorted(self._used, columns[at]))
            np.multiply(found[at], sign, out=values[row])
            slots[row] = slot
        for at in np.flatnonzero((kinds >= OTHER).any(axis=1)).tolist():
            column = int(columns[at])
            name = repr(self._layout.names[column]).replace("{", "{{").replace("}", "}}")
            expected = f"{FINITE}; if these are codes, name the column in categorical"
            bad.reject_all(kinds[at] == OTHER, column, f"{{}} in the column of numbers {name}", expected)
            bad.reject_all(kinds[at] == HUGE, column, f"{{}} in the column {name}, too large for float64", FINITE)

    def _categories(
        self, block: NDArray[np.uint8], records: Records, bad: "_Bad", values: NDArray[Any], slots: NDArray[Any]
    ) -> None:
        columns = self._of_kind[Kind.CATEGORY]
        if not len(columns):
            return
        names = self._scanner.names(block, records, columns, bad.keep, self._prefixes)
        if len(names.broken):
            for column, row in names.broken.tolist():
                name = repr(self._layout.names[columns[column]])
                bad.reject(row, columns[column], f"bytes that are not UTF-8 in the column {name}", "text in UTF-8")
            names = self._scanner.names(block, records, columns, bad.keep, self._prefixes)
        none = np.zeros(1, np.int64)
        signs = np.ones(len(names.starts))
        found = self.features.name_slots(names.text, names.starts, names.ends, Sections(none, none, none), signs)
        where = np.searchsorted(self._used, columns)[names.columns]
        slots[where, names.rows] = found
        values[where, names.rows] = signs


class _Bad:
    """The records of a block that are rejected."""

    def __init__(self, block: NDArray[np.uint8], source: str, records: Records, found: Layout) -> None:
        self.block, self.source, self.records, self.layout = block, source, records, found
        self.keep = np.ones(len(records.lines), np.bool_)
        self._bytes: bytes | None = None
        self._found: list[Rejected] = []
        for line, begin, spot, problem, count in records.bad.tolist():
            shown = self._shown(spot)
            columns = f"{len(found.names)} columns"
            what, expected = {
                int(Problem.FEW): (f"only {count} of {columns}", columns),
                int(Problem.MANY): (f"{count} columns", columns),
                int(Problem.AFTER_QUOTE): (
                    f"text after a closing quote: {shown}",
                    "the delimiter or the end of the line",
                ),
                int(Problem.OPEN_QUOTE): (f"a quote that is not closed: {shown}", f"its end within {LONGEST} bytes"),
                int(Problem.STRAY_RETURN): ("a carriage return inside a line", "one before the newline, or in quotes"),
            }[problem]
            raw = self._raw(begin, begin)
            column = spot - begin + 1 if spot - begin <= len(raw) else 1  # 1 where it is in a line below
            self._found.append(Rejected(source, line, column, what, expected, raw))

    def _raw(self, begin: int, last: int) -> bytes:
        """What is between a place and the end of the line in which another is."""
        if self._bytes is None:
            self._bytes = self.block.tobytes()
        return self._bytes[begin : self._bytes.find(b"\n", last)].removesuffix(b"\r")

    def _shown(self, spot: int) -> str:
        there = self.block[spot : spot + SHOWN + 1].tobytes().partition(b"\n")[0]
        field = there if there.startswith(b'"') else there.split(self.layout.delimiter.encode())[0]
        return repr(field[:SHOWN].decode("utf-8", "backslashreplace").rstrip("\r"))

    def reject_all(self, wrong: NDArray[np.bool_], column: int, problem: str, expected: str) -> None:
        """Reject the rows that are wrong in a column; braces in the problem stand for the field."""
        for row in np.flatnonzero(wrong & self.keep).tolist():
            field = self.records.starts[row * len(self.layout.names) + column]
            self.reject(row, column, problem.format(self._shown(int(field))), expected)

    def reject(self, row: int, column: int, problem: str, expected: str) -> None:
        """Reject a row, if it is not rejected already."""
        if not self.keep[row]:
            return
        self.keep[row] = False
        count = len(self.layout.names)
        begin, spot = int(self.records.begins[row]), int(self.records.starts[row * count + column])
        last = int(self.records.ends[(row + 1) * count - 1])
        end = -1 - last if last < 0 else last
        raw = self._raw(begin, end)
        self._found.append(
            Rejected(self.source, int(self.records.lines[row]), spot - begin + 1, problem, expected, raw)
        )

    def rejected(self) -> tuple[Rejected, ...]:
        return tuple(sorted(self._found, key=lambda each: each.line))
