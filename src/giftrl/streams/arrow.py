"""Parquet and Arrow IPC: one column a feature, batch by batch; and the layout that is read without any work."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.arrow_batches import Piece, RecordBatches
from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import Columns, Kind, Schema, decide, group_of
from giftrl.streams.converted import Converted, ConvertedWriter, is_converted
from giftrl.streams.features import Features
from giftrl.streams.interactions import Interactions
from giftrl.streams.merge import changed, keep_rows, merge, overflowed
from giftrl.streams.sources import BadSource, Stream
from giftrl.streams.table import assemble
from giftrl.streams.text_names import Sections

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
    >>> from giftrl.streams.features import Dictionary
    >>> from giftrl.streams.sources import Source
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
        types = _flat_types(found.schema)
        names, kinds = self._decide(types, found.name)
        used = sorted({name.split("^")[0] for name, kind in zip(names, kinds, strict=True) if kind != Kind.IGNORED})
        every = len(used) == len(found.schema.names) or any("^" in name for name in found.schema.names)
        text = [name for name, type_ in types if _is_text(type_) and name in found.schema.names]
        for piece in found.pieces(start.offset, None if every else used, text):
            if piece.batch is not None:
                yield self._batch(piece, found.name, names, kinds, start.source)

    def _decide(self, types: Sequence[tuple[str, Any]], source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        names = tuple(name for name, _ in types)
        if self.schema is None:
            self.schema = decide(self.columns, names, [_kind(type_) or "" for _, type_ in types], source)
        kinds = self.schema.kinds_of(names, source)
        for (name, type_), kind in zip(types, kinds, strict=True):
            found = _kind(type_)
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
        arrays = dict(_flat_arrays(piece.batch))
        labels, weights = np.full(rows, np.nan), np.ones(rows)
        entries: list[tuple[int, _Entries]] = []
        bad: dict[int, tuple[int, str, str]] = {}  # for each bad row: the column, the problem, what was expected

        def reject(wrong: NDArray[np.bool_], column: int, problem: str, expected: str) -> None:
            for row in np.flatnonzero(wrong).tolist():
                bad.setdefault(row, (column, problem, expected))

        for column, (name, kind) in enumerate(zip(names, kinds, strict=True)):
            if kind == Kind.IGNORED:
                continue
            array = arrays[name]
            if kind == Kind.LABEL:
                labels = _numbers(array, np.nan)
                wrong = np.isinf(labels) | (np.isnan(labels) & ~_nulls(array))
                reject(wrong, column, f"a label that is not finite in the column {name!r}", FINITE)
            elif kind == Kind.WEIGHT:
                weights = _numbers(array, np.nan)
                wrong = ~(np.isfinite(weights) & (weights >= 0.0))
                reject(wrong, column, f"no weight in the column {name!r}", "a finite number, 0 or more")
            else:
                found = self._entries(array, name, kind)
                entries.append((self._code(name), found))
                wrong = ~np.isfinite(found.values)
                if wrong.any():
                    if found.rows is not None:
                        wrong = np.isin(np.arange(rows), found.rows[wrong])
                    reject(wrong, column, f"a value that is not finite in the column {name!r}", FINITE)
        data, indices, groups, indptr = self._assemble(entries, rows)
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
        return changed(keep_rows(batch, keep), rejected=rejected)

    def _code(self, name: str) -> int:
        return 0 if self.interactions is None else self.interactions.code(group_of(name))

    def _entries(self, array: Any, name: str, kind: str) -> _Entries:
        if kind == Kind.NUMBER:
            slots, signs = self.features.slots([name])
            values = _numbers(array, 0.0)
            return _Entries(values if signs[0] == 1.0 else values * signs[0], np.full(len(values), slots[0], np.int32))
        if kind == Kind.CATEGORY:
            return _Entries(*self._categories(array, name))
        import pyarrow.compute as pc

        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        if kind == Kind.CATEGORIES:
            return _Entries(*self._categories(array.flatten(), name), rows)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        slots, signs = self.features.slots([f"{name}^{at}" for at in range(int(lengths.max(initial=0)))])
        return _Entries(_numbers(array.flatten(), 0.0) * signs[places], slots[places], rows)

    def _categories(self, array: Any, name: str) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """For each item, 1 with its sign and its slot; 0 where there is none. Each text is looked at once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not pa.types.is_dictionary(array.type):
            array = (array if _is_text(array.type) else array.cast(pa.string())).dictionary_encode()
        codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        words = array.dictionary.cast(pa.large_string())
        used = np.zeros(len(words) + 1, np.bool_)
        used[codes] = True  # -1, no text, is the last
        used[:-1] &= pc.not_equal(words, "").fill_null(False).to_numpy(zero_copy_only=False)
        used[-1] = False
        places = np.flatnonzero(used)
        named = pc.binary_join_element_wise(
            pa.scalar(f"{name}=", pa.large_string()), words.take(pa.array(places)), pa.scalar("", pa.large_string())
        )
        _, offsets, text = named.buffers()
        ends = np.frombuffer(offsets, np.int64)[named.offset : named.offset + len(named) + 1]
        raw = np.frombuffer(text, np.uint8) if text is not None else np.empty(0, np.uint8)
        none = np.zeros(1, np.int64)
        signs = np.ones(len(places))
        values, slots = np.zeros(len(words) + 1), np.full(len(words) + 1, -1, np.int32)
        slots[places] = self.features.name_slots(
            raw, ends[:-1].copy(), ends[1:].copy(), Sections(none, none, none), signs
        )
        values[places] = signs
        return values[codes], slots[codes]

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


def _flat_types(schema: Any) -> list[tuple[str, Any]]:
    """The names and types of columns, those of structures taken apart."""
    import pyarrow as pa

    found: list[tuple[str, Any]] = []
    waiting = [(field.name, field.type) for field in reversed(schema)]
    while waiting:
        name, type_ = waiting.pop()
        type_ = getattr(type_, "storage_type", type_)
        if pa.types.is_struct(type_):
            fields = [type_.field(at) for at in range(type_.num_fields)]
            waiting.extend((f"{name}^{field.name}", field.type) for field in reversed(fields))
        else:
            found.append((name, type_))
    return found


def _flat_arrays(batch: Any) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa

    waiting = list(zip(batch.schema.names, batch.columns, strict=True))
    while waiting:
        name, array = waiting.pop()
        array = getattr(array, "storage", array)
        if pa.types.is_struct(array.type):
            fields = [array.type.field(at).name for at in range(array.type.num_fields)]
            waiting.extend((f"{name}^{field}", part) for field, part in zip(fields, array.flatten(), strict=True))
        else:
            yield name, array


def _is_number(type_: Any) -> bool:
    import pyarrow.types as pt

    return bool(
        pt.is_integer(type_)
        or pt.is_floating(type_)
        or pt.is_boolean(type_)
        or pt.is_decimal(type_)
        or pt.is_null(type_)
    )


def _is_text(type_: Any) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_))


def _kind(type_: Any) -> str | None:
    """What a column of this type can be read as; None where it is neither numbers nor text."""
    import pyarrow.types as pt

    if pt.is_dictionary(type_):
        return Kind.CATEGORY if _is_text(type_.value_type) or _is_number(type_.value_type) else None
    if pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_):
        inner = type_.value_type
        return Kind.NUMBERS if _is_number(inner) else Kind.CATEGORIES if _is_text(inner) else None
    return Kind.NUMBER if _is_number(type_) else Kind.CATEGORY if _is_text(type_) else None


def _numbers(array: Any, missing: float) -> NDArray[np.float64]:
    """A column as float64, with something in place of nulls."""
    import pyarrow as pa

    if pa.types.is_decimal(array.type) or pa.types.is_boolean(array.type) or pa.types.is_null(array.type):
        array = array.cast(pa.float64())
    if array.null_count:
        array = array.cast(pa.float64(), safe=False).fill_null(missing)
    found: NDArray[np.float64] = array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return found


def _nulls(array: Any) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return found


def _raw(batch: Any, row: int) -> bytes:
    return json.dumps(batch.slice(row, 1).to_pylist()[0], default=str).encode()
