"""Parquet and Arrow IPC: one column a feature, batch by batch; and the layout that is read without any work."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import BadSource
from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import Columns, Kind, Schema, decide, group_of
from giftrl.streams.names.features import Features
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.names.loops import Sections
from giftrl.streams.names.merge import keep_rows, merge, overflowed
from giftrl.streams.sources.source import Stream
from giftrl.streams.tables.assemble import assemble
from giftrl.streams.tables.batches import Piece, RecordBatches
from giftrl.streams.tables.converted import Converted, ConvertedWriter, is_converted
from giftrl.streams.tables.types import Words, flat_arrays, flat_types, is_text, kind_of, lengths, nulls, numbers, words

__all__ = ["ArrowTable", "ConvertedWriter"]

FINITE = "a finite number"


class _Entries(NamedTuple):
    """The entries of a column: for each row one (``rows`` is None), or those of the rows given, in order."""

    values: NDArray[np.float64]  # 0 where there is none
    slots: NDArray[np.int32]
    rows: NDArray[np.int64] | None = None


class ArrowTable:
    """Reads Parquet, Arrow IPC files and Arrow IPC streams.

    Numbers, true and false are features of their column's name; text and dictionaries are ``column=value``; the items
    of a list of numbers are ``column^0``, ``column^1`` and so on; a list of text is several categories; fields of
    structures are joined, ``column^field``. Null, empty text and 0 add nothing. NaN and infinities reject their row.

    Args:
        features: what turns names into coordinates.
        columns: what the user said of the columns.
        schema: what they are for, if that is known already; else the first file decides.
        interactions: whose groups to note for each entry.
        compiled: False to run the loops as plain Python.

    >>> import pathlib, pyarrow, pyarrow.parquet, tempfile
    >>> from giftrl.streams.names.features import Dictionary
    >>> from giftrl.streams.sources.source import Source
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "a.parquet")
    >>> table = pyarrow.table({"age": [33, None], "city": ["Rome", "Oslo"], "y": [1.0, -1.0]})
    >>> pyarrow.parquet.write_table(table, path)
    >>> with Stream(Source("a.parquet", path)) as stream:
    ...     [batch] = ArrowTable(features := Dictionary()).read(stream, "parquet")
    >>> batch.labels.tolist(), [features.name(slot) for slot in batch.indices], batch.data.tolist()
    ([1.0, -1.0], ['age', 'city=Rome', 'city=Oslo'], [33.0, 1.0, 1.0])
    >>> folder.cleanup()
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
        self.converted = False  # whether the last source is a converted one, with its interactions
        self._found: RecordBatches | None = None

    @property
    def fraction(self) -> float:
        """How much of the last source has been read."""
        return 0.0 if self._found is None else self._found.fraction

    def read(self, stream: Stream, kind: str, start: Position | None = None) -> Iterator[Batch]:
        """The batches of a source, from a row on."""
        start = start or Position()
        found = self._found = RecordBatches(stream, kind)
        self.converted = is_converted(found.schema)
        if self.converted:
            yield from Converted(self.features, self.interactions).read(found, start)
            return
        types = flat_types(found.schema)
        names, kinds = self._decide(types, found.name)
        used = sorted({name.split("^")[0] for name, kind in zip(names, kinds, strict=True) if kind != Kind.IGNORED})
        every = len(used) == len(found.schema.names) or any("^" in name for name in found.schema.names)
        text = [name for name, type_ in types if is_text(type_) and name in found.schema.names]
        for piece in found.pieces(start.offset, None if every else used, text):
            if piece.batch is not None:
                yield self._batch(piece, found.name, names, kinds, start.source)

    def _decide(self, types: Sequence[tuple[str, Any]], source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        names = tuple(name for name, _ in types)
        if self.schema is None:
            self.schema = decide(self.columns, names, [kind_of(type_) or "" for _, type_ in types], source)
        kinds = self.schema.kinds_of(names, source)
        for (name, type_), kind in zip(types, kinds, strict=True):
            found = kind_of(type_)
            allowed = {
                Kind.IGNORED: True,
                Kind.CATEGORY: found in (Kind.CATEGORY, Kind.NUMBER),
                Kind.CATEGORIES: found in (Kind.CATEGORIES, Kind.NUMBERS),
                Kind.NUMBERS: found == Kind.NUMBERS,
            }.get(kind, found == Kind.NUMBER)
            if not allowed:
                rule = f"the column {name!r} has type {type_}, which cannot be read as {kind or 'number or text'}"
                raise BadSource(source, rule, "ignore the column, or convert it")
        return names, kinds

    def _batch(self, piece: Piece, source: str, names: Sequence[str], kinds: Sequence[str], number: int) -> Batch:
        rows = piece.batch.num_rows
        arrays = dict(flat_arrays(piece.batch))
        labels, weights = np.full(rows, np.nan), np.ones(rows)
        used: list[tuple[int, str, str, Any]] = []
        bad: dict[int, tuple[int, str, str]] = {}  # for each bad row: the column, the problem, what was expected

        def reject(wrong: NDArray[np.bool_], column: int, problem: str, expected: str) -> None:
            for row in np.flatnonzero(wrong).tolist():
                bad.setdefault(row, (column, problem, expected))

        for column, (name, kind) in enumerate(zip(names, kinds, strict=True)):
            if kind == Kind.IGNORED:
                continue
            array = arrays[name]
            if kind == Kind.LABEL:
                labels = numbers(array, np.nan)
                wrong = np.isinf(labels) | (np.isnan(labels) & ~nulls(array))
                reject(wrong, column, f"a label that is not finite in the column {name!r}", FINITE)
            elif kind == Kind.WEIGHT:
                weights = numbers(array, np.nan)
                wrong = ~(np.isfinite(weights) & (weights >= 0.0))
                reject(wrong, column, f"no weight in the column {name!r}", "a finite number, 0 or more")
            else:
                used.append((column, name, kind, array))
        entries = self._entries([each[1:] for each in used])
        for (column, name, _, _), found in zip(used, entries, strict=True):
            wrong = ~np.isfinite(found.values)
            if wrong.any():
                if found.rows is not None:
                    wrong = np.isin(np.arange(rows), found.rows[wrong])
                reject(wrong, column, f"a value that is not finite in the column {name!r}", FINITE)
        codes = [self._code(name) for _, name, _, _ in used]
        data, indices, groups, indptr = self._assemble(list(zip(codes, entries, strict=True)), rows)
        keep = np.ones(rows, np.bool_)
        keep[list(bad)] = False
        for row in overflowed(data, indptr).tolist():
            if keep[row]:
                keep[row] = False
                bad[row] = (0, "columns on one coordinate whose sum is too large", FINITE)
        first = piece.first
        batch = Batch(
            source=source,
            data=data,
            indices=indices,
            indptr=indptr,
            labels=labels,
            weights=weights,
            lines=np.arange(first + 1, first + rows + 1),
            groups=groups,
            end=Position(number, first + rows, first + rows + 1),
        )
        rejected = tuple(
            Rejected(source, first + row + 1, column + 1, problem, expected, _raw(piece.batch, row))
            for row, (column, problem, expected) in sorted(bad.items())
        )
        return replace(keep_rows(batch, keep), rejected=rejected)

    def _code(self, name: str) -> int:
        return 0 if self.interactions is None else self.interactions.code(group_of(name))

    def _entries(self, arrays: list[tuple[str, str, Any]]) -> list[_Entries]:
        """The entries of columns, given by name, kind and array; their names are looked up all at once."""
        sizes = {name: lengths(array) for name, kind, array in arrays if kind in (Kind.NUMBERS, Kind.CATEGORIES)}
        names: list[str] = []
        firsts: dict[str, int] = {}
        texts: list[tuple[str, Words]] = []
        for name, kind, array in arrays:
            if kind in (Kind.CATEGORY, Kind.CATEGORIES):
                texts.append((name, words(array if kind == Kind.CATEGORY else array.flatten())))
            else:
                firsts[name] = len(names)
                most = int(sizes[name].max(initial=0)) if kind == Kind.NUMBERS else None
                names += [name] if most is None else [f"{name}^{at}" for at in range(most)]
        slots, signs = self.features.slots(names)
        found_words = self._categories(texts)
        found: list[_Entries] = []
        for name, _, array in arrays:
            rows = np.repeat(np.arange(len(sizes[name])), sizes[name]) if name in sizes else None
            if name in found_words:
                found.append(_Entries(*found_words[name], rows))
                continue
            first = firsts[name]
            if rows is None:
                values = numbers(array, 0.0)
                found.append(_Entries(values * signs[first], np.full(len(values), slots[first], np.int32)))
            else:
                ends = np.cumsum(sizes[name])
                places = first + np.arange(len(rows)) - np.repeat(ends - sizes[name], sizes[name])
                found.append(_Entries(numbers(array.flatten(), 0.0) * signs[places], slots[places], rows))
        return found

    def _categories(self, columns: list[tuple[str, Words]]) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int32]]]:
        """For each item of each column, 1 with its sign and its slot; 0 where there is none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not columns:
            return {}
        none = pa.scalar("", pa.large_string())
        named = pa.concat_arrays(
            [
                pc.binary_join_element_wise(pa.scalar(f"{name}=", pa.large_string()), each.words, none)
                for name, each in columns
            ]
        )
        _, offsets, text = named.buffers()
        ends = np.frombuffer(offsets, np.int64)[named.offset : named.offset + len(named) + 1]
        raw = np.frombuffer(text, np.uint8) if text is not None else np.empty(0, np.uint8)
        nothing = np.zeros(1, np.int64)
        signs = np.ones(len(named))
        slots = self.features.name_slots(
            raw, ends[:-1].copy(), ends[1:].copy(), Sections(nothing, nothing, nothing), signs
        )
        found = {}
        at = 0
        for name, each in columns:
            stop = at + len(each.words)
            # Item -1, the last, is for what has no text.
            values, places = np.append(signs[at:stop], 0.0), np.append(slots[at:stop], np.int32(-1))
            found[name] = values[each.codes], places[each.codes]
            at = stop
        return found

    def _assemble(
        self, entries: list[tuple[int, _Entries]], rows: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.uint8], NDArray[np.int64]]:
        """Entries by rows in place of columns; lists come after the rest."""
        plain = [(code, found) for code, found in entries if found.rows is None]
        values, slots = np.empty((len(plain), rows)), np.empty((len(plain), rows), np.int32)
        for at, (_, found) in enumerate(plain):
            values[at], slots[at] = found.values, found.slots
        grouped = self.interactions is not None
        codes = np.array([code for code, _ in plain], np.uint8) if grouped else None
        data, indices, groups, indptr = assemble(values, slots, codes, compiled=self.compiled)
        lists = [(code, found.rows, found) for code, found in entries if found.rows is not None]
        if lists:
            where = np.concatenate([np.repeat(np.arange(rows), np.diff(indptr)), *(at for _, at, _ in lists)])
            data = np.concatenate([data, *(found.values for _, _, found in lists)])
            indices = np.concatenate([indices, *(found.slots for _, _, found in lists)])
            if grouped:
                groups = np.concatenate([groups, *(np.full(len(at), code, np.uint8) for code, at, _ in lists)])
            order = np.argsort(where, kind="stable")
            order = order[data[order] != 0.0]
            data, indices, groups = data[order], indices[order], groups[order] if grouped else groups
            indptr = np.concatenate([[0], np.cumsum(np.bincount(where[order], minlength=rows))]).astype(np.int64)
        return merge(data, indices, groups, indptr, compiled=self.compiled)


def _raw(batch: Any, row: int) -> bytes:
    return json.dumps(batch.slice(row, 1).to_pylist()[0], default=str).encode()
