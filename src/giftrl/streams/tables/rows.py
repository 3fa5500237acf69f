"""From the columns of a table, as Arrow arrays, to the rows of a batch."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import Kind, group_of
from giftrl.streams.names.features import Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.merge import keep_rows, merge, overflowed
from giftrl.streams.tables.assemble import assemble
from giftrl.streams.tables.types import Words, lengths, nulls, numbers, words

__all__ = ["Column", "TableRows"]

FINITE = "a finite number"


class Column(NamedTuple):
    """A column of a table: its number, its name, its :class:`Kind` and its values, a ``pyarrow.Array``."""

    number: int
    name: str
    kind: str
    array: Any


class _Entries(NamedTuple):
    """The entries of a column: one for every row (``rows`` is None), or those of the given rows, in order."""

    values: NDArray[np.float64]  # 0 where a row has no entry
    slots: NDArray[np.int32]
    rows: NDArray[np.int64] | None = None


class TableRows:
    """Turns columns into rows: looks up the coordinates of features, and rejects rows with values that are not finite.

    Args:
        features: what turns names into coordinates.
        interactions: whose groups to note for each entry.
        row_order: whether new names are entered row by row; else column by column.
        compiled: False to run the loops as plain Python.
    """

    def __init__(
        self, features: Features, interactions: Interactions | None, *, row_order: bool, compiled: bool
    ) -> None:
        self.features = features
        self.interactions = interactions
        self.row_order = row_order
        self.compiled = compiled

    def batch(
        self,
        columns: Sequence[Column],
        source: str,
        lines: NDArray[np.int64],
        end: Position,
        raw: Callable[[int], bytes],
    ) -> Batch:
        """The rows of a table.

        Args:
            columns: all of them but the ignored ones.
            source: the name of the table, for messages.
            lines: the line, or the number, of each row.
            end: the position of the next row.
            raw: what a rejected row, given by its place in ``lines``, looks like in the source.
        """
        rows = len(lines)
        labels, weights = np.full(rows, np.nan), np.ones(rows)
        bad: dict[int, tuple[int, str, str]] = {}  # for each bad row: the column, the problem, what was expected

        def reject(wrong: NDArray[np.bool_], column: int, problem: str, expected: str) -> None:
            for row in np.flatnonzero(wrong).tolist():
                bad.setdefault(row, (column, problem, expected))

        used = []
        for column in columns:
            if column.kind == Kind.LABEL:
                labels = numbers(column.array, np.nan)
                wrong = np.isinf(labels) | (np.isnan(labels) & ~nulls(column.array))
                reject(wrong, column.number, f"a label that is not finite in the column {column.name!r}", FINITE)
            elif column.kind == Kind.WEIGHT:
                weights = numbers(column.array, np.nan)
                wrong = ~(np.isfinite(weights) & (weights >= 0.0))
                reject(wrong, column.number, f"no weight in the column {column.name!r}", "a finite number, 0 or more")
            else:
                used.append(column)
        entries = self._entries(used)
        for column, found in zip(used, entries, strict=True):
            wrong = ~np.isfinite(found.values)
            if wrong.any():
                if found.rows is not None:
                    wrong = np.isin(np.arange(rows), found.rows[wrong])
                reject(wrong, column.number, f"a value that is not finite in the column {column.name!r}", FINITE)
        data, indices, groups, indptr = self._by_rows([column.name for column in used], entries, rows)
        for row in overflowed(data, indptr).tolist():
            bad.setdefault(row, (0, "columns on one coordinate whose sum is too large", FINITE))
        keep = np.ones(rows, np.bool_)
        keep[list(bad)] = False
        batch = Batch(
            source=source,
            data=data,
            indices=indices,
            indptr=indptr,
            labels=labels,
            weights=weights,
            lines=lines,
            groups=groups,
            end=end,
        )
        rejected = tuple(
            Rejected(source, int(lines[row]), column + 1, problem, expected, raw(row))
            for row, (column, problem, expected) in sorted(bad.items())
        )
        return replace(keep_rows(batch, keep), rejected=rejected)

    def _entries(self, columns: Sequence[Column]) -> list[_Entries]:
        """The entries of columns; all names of columns are looked up at once, and so are all categories."""
        names: list[str] = []
        firsts: dict[str, int] = {}  # for each column of numbers: the place of its first name
        texts: dict[str, Words] = {}
        for name, kind, array in (column[1:] for column in columns):
            if kind in (Kind.CATEGORY, Kind.CATEGORIES):
                texts[name] = words(array if kind == Kind.CATEGORY else array.flatten())
            else:
                firsts[name] = len(names)
                most = range(int(lengths(array).max(initial=0))) if kind == Kind.NUMBERS else ()
                names += [name] if kind == Kind.NUMBER else [f"{name}^{at}" for at in most]
        slots, signs = self.features.slots(names)
        categories = self._categories(texts)
        found = []
        for name, kind, array in (column[1:] for column in columns):
            rows = None
            if kind in (Kind.NUMBERS, Kind.CATEGORIES):
                sizes = lengths(array)
                rows = np.repeat(np.arange(len(sizes)), sizes)
            if name in categories:
                found.append(_Entries(*categories[name], rows))
                continue
            first = firsts[name]
            if rows is None:
                values = numbers(array, 0.0)
                found.append(_Entries(values * signs[first], np.full(len(values), slots[first], np.int32)))
            else:
                places = first + np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
                found.append(_Entries(numbers(array.flatten(), 0.0) * signs[places], slots[places], rows))
        return found

    def _categories(self, columns: dict[str, Words]) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int32]]]:
        """For each item of each column, 1 with its sign, and its slot; the value is 0 where an item has no text."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not columns:
            return {}
        none = pa.scalar("", pa.large_string())
        named = pa.concat_arrays(
            [
                pc.binary_join_element_wise(pa.scalar(f"{name}=", pa.large_string()), each.words, none)
                for name, each in columns.items()
            ]
        )
        _, offsets, text = named.buffers()
        ends = np.frombuffer(offsets, np.int64)[named.offset : named.offset + len(named) + 1]
        raw = np.frombuffer(text, np.uint8) if text is not None else np.empty(0, np.uint8)
        order = np.arange(len(named))
        if self.row_order:
            order = np.argsort(np.concatenate([_first_rows(each) for each in columns.values()]), kind="stable")
        nothing = np.zeros(1, np.int64)
        signs, slots = np.ones(len(named)), np.empty(len(named), np.int32)
        ordered = np.ones(len(named))
        slots[order] = self.features.name_slots(
            raw, ends[:-1][order], ends[1:][order], Sections(nothing, nothing, nothing), ordered
        )
        signs[order] = ordered
        found = {}
        at = 0
        for name, each in columns.items():
            stop = at + len(each.words)
            # Code -1, of an item without text, stands for the last element.
            values, places = np.append(signs[at:stop], 0.0), np.append(slots[at:stop], np.int32(-1))
            found[name] = values[each.codes], places[each.codes]
            at = stop
        return found

    def _by_rows(
        self, names: Sequence[str], entries: Sequence[_Entries], rows: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.uint8], NDArray[np.int64]]:
        """Entries by rows in place of columns; in a row, the items of lists come after the other columns."""
        grouped = self.interactions is not None
        codes = np.array([self._code(name) for name in names], np.uint8)
        plain = [at for at, found in enumerate(entries) if found.rows is None]
        values, slots = np.empty((len(plain), rows)), np.empty((len(plain), rows), np.int32)
        for row, at in enumerate(plain):
            values[row], slots[row] = entries[at].values, entries[at].slots
        data, indices, groups, indptr = assemble(
            values, slots, codes[plain] if grouped else None, compiled=self.compiled
        )
        lists = [(code, found) for code, found in zip(codes, entries, strict=True) if found.rows is not None]
        if lists:
            where = np.concatenate([np.repeat(np.arange(rows), np.diff(indptr)), *(found.rows for _, found in lists)])
            data = np.concatenate([data, *(found.values for _, found in lists)])
            indices = np.concatenate([indices, *(found.slots for _, found in lists)])
            if grouped:
                groups = np.concatenate([groups, *(np.full(len(found.values), code) for code, found in lists)])
            order = np.argsort(where, kind="stable")
            order = order[data[order] != 0.0]
            data, indices, groups = data[order], indices[order], groups[order] if grouped else groups
            indptr = np.concatenate([[0], np.cumsum(np.bincount(where[order], minlength=rows))]).astype(np.int64)
        return merge(data, indices, groups, indptr, compiled=self.compiled)

    def _code(self, name: str) -> int:
        return 0 if self.interactions is None else self.interactions.code(group_of(name))


def _first_rows(column: Words) -> NDArray[np.int64]:
    """The row in which each text of a column stands first."""
    first = np.zeros(len(column.words) + 1, np.int64)
    first[column.codes[::-1]] = np.arange(len(column.codes))[::-1]  # the last one written is the first row
    return first[:-1]
