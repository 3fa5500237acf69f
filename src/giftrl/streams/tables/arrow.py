"""Parquet and Arrow IPC: one column a feature, batch by batch; and the layout that is read without any work."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from giftrl.errors import BadSource
from giftrl.streams.batch import Batch, Position
from giftrl.streams.columns import Kind, Schema, decide
from giftrl.streams.look import Look, remarks, unasked
from giftrl.streams.names.ngrams import no_order
from giftrl.streams.sources.source import Stream
from giftrl.streams.tables.batches import Piece, RecordBatches
from giftrl.streams.tables.converted import Converted, is_converted
from giftrl.streams.tables.looks import look_at
from giftrl.streams.tables.rows import Column, TableRows
from giftrl.streams.tables.types import flat_arrays, flat_types, is_text, kind_of, lengths

#: The largest number of features that one list of numbers may become.
MAX_LIST_LENGTH = 1 << 20


class ArrowTable(TableRows):
    """Reads Parquet, Arrow IPC files and Arrow IPC streams.

    Numbers, true and false are features of their column's name; text and dictionaries are ``column=value``; dates,
    timestamps and text of ISO dates are numbers of years, with weekday, month and hour as categories; the items
    of a list of numbers are ``column^0``, ``column^1`` and so on; a list of text is several categories; fields of
    structures are joined, ``column^field``. A null in place of a number or date is ``column=missing``; other nulls,
    empty text and 0 add nothing. NaN and infinities reject their row. The arguments are those of :class:`TableRows`.
    """

    converted = False  # whether the last source is a converted one, with its interactions
    fraction = 0.0  # of the last source that has been read

    def read(self, stream: Stream, kind: str, start: Position | None = None) -> Iterator[Batch]:
        """The batches of a source, from a row on."""
        start = start or Position()
        found = RecordBatches(stream, kind)
        self.converted = is_converted(found.schema)
        if self.converted:
            self._converted = Converted(self.features, self.interactions, self.ngrams, self.labels)
            for batch in self._converted.read(found, start):
                self.fraction = found.fraction
                yield batch
            return
        if self.ngrams is not None:
            raise no_order(found.name)
        types = flat_types(found.schema)
        names = tuple(name for name, _ in types)
        # Without a schema, types say which columns are needed at most, and the first rows what these hold.
        schema = self.schema or self._by_types(types, found.name)
        kinds = self._kinds(types, schema, found.name)
        used = sorted({name.split("^")[0] for name, kind in zip(names, kinds, strict=True) if kind != Kind.IGNORED})
        every = len(used) == len(found.schema.names) or any("^" in name for name in found.schema.names)
        text = [name for name, type_ in types if is_text(type_) and name in found.schema.names]
        for piece in found.pieces(start.offset, None if every else used, text):
            self.fraction = found.fraction
            if piece.batch is not None:
                if self.schema is None:
                    self.schema = self._by_first_rows(piece, types, found.name)
                    kinds = self._kinds(types, self.schema, found.name)
                yield self._batch(piece, found.name, names, kinds, start.source)

    def label_at(self, line: int, raw: bytes) -> tuple[str, int]:
        return self._converted.label_at(line) if self.converted else super().label_at(line, raw)

    def _by_types(self, types: Sequence[tuple[str, Any]], source: str) -> Schema:
        return decide(self.columns, [name for name, _ in types], [kind_of(type_) or "" for _, type_ in types], source)

    def _by_first_rows(self, piece: Piece, types: Sequence[tuple[str, Any]], source: str) -> Schema:
        """What the columns are for, by their types and first values."""
        arrays = dict(flat_arrays(piece.batch))
        looks = {
            name: look_at(name, arrays[name], self.columns.missing) if name in arrays else Look(kind_of(type_) or "")
            for name, type_ in types
        }
        schema = decide(self.columns, list(looks), [look.kind for look in looks.values()], source)
        self.remarks += remarks(unasked(schema, looks, self.columns), source)
        return schema

    def _kinds(self, types: Sequence[tuple[str, Any]], schema: Schema, source: str) -> tuple[str, ...]:
        """What the columns of a file are for; an error where one of them cannot be read as that."""
        kinds = schema.kinds_of([name for name, _ in types], source, self.columns)
        for (name, type_), kind in zip(types, kinds, strict=True):
            found = kind_of(type_)
            allowed = {
                Kind.IGNORED: True,
                Kind.CATEGORY: found in (Kind.CATEGORY, Kind.NUMBER, Kind.DATE),
                Kind.DATE: found in (Kind.DATE, Kind.CATEGORY),
                Kind.TEXT: found == Kind.CATEGORY,
                Kind.CATEGORIES: found in (Kind.CATEGORIES, Kind.NUMBERS),
                Kind.NUMBERS: found == Kind.NUMBERS,
                Kind.LABEL: found == Kind.NUMBER or (found == Kind.CATEGORY and self.labels is not None),
            }.get(kind, found == Kind.NUMBER)
            if not allowed:
                rule = f"the column {name!r} has type {type_}, which cannot be read as {kind or 'number, date or text'}"
                raise BadSource(source, rule, "ignore the column, or convert it")
        return kinds

    def _batch(self, piece: Piece, source: str, names: Sequence[str], kinds: Sequence[str], number: int) -> Batch:
        import pyarrow as pa

        arrays = dict(flat_arrays(piece.batch))
        columns = [
            Column(at, name, kind, arrays[name])
            for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
            if kind != Kind.IGNORED
        ]
        first = piece.first + 1
        for column in columns:
            longest = int(lengths(column.array).max(initial=0)) if column.kind == Kind.NUMBERS else 0
            if longest > MAX_LIST_LENGTH:
                rule = f"the column {column.name!r} has a list of {longest} numbers, and at most {MAX_LIST_LENGTH} fit"
                raise BadSource(source, rule, f"cut it into several, or give ignore={column.name!r}", first)
        end = first + piece.batch.num_rows

        def raw(row: int) -> bytes:
            return json.dumps(piece.batch.slice(row, 1).to_pylist()[0], default=str).encode()

        try:
            return self.batch(columns, source, np.arange(first, end), Position(number, end - 1, end), raw)
        except pa.ArrowException as problem:  # such as a time zone that nobody knows
            raise BadSource(source, f"cannot be read ({problem})", "ignore the column, or convert it", first) from None
