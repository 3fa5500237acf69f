"""Parquet and Arrow IPC: one column a feature, batch by batch; and the layout that is read without any work."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from giftrl.errors import BadSource, Given
from giftrl.streams.batch import Batch, Position
from giftrl.streams.columns import Kind, Schema, decide
from giftrl.streams.infer_columns import InferredColumn, remarks, unasked
from giftrl.streams.names.interactions import no_order
from giftrl.streams.sources.source import Stream
from giftrl.streams.tables.converted import Converted, is_converted
from giftrl.streams.tables.table_rows import Column, TableRows
from giftrl.streams.tables.types import flat_arrays, flat_types, infer_column, is_text, kind_of, lengths

# Parquet and Arrow IPC files as record batches of a bounded size, from any row on.

#: The most rows, and about the most cells, of a piece.
MAX_ARROW_ROWS = 1 << 16
MAX_ARROW_CELLS = 1 << 20
READ_BUFFER_BYTES = 1 << 20
IPC_FILE = b"ARROW1\0\0"


class TablePiece(NamedTuple):
    """Some rows of a table: a ``pyarrow.RecordBatch``, the number of its first row, from 0, and its custom metadata.

    Only the first piece of a stored batch has metadata; pieces before the row where reading starts have no batch.
    """

    batch: Any
    first: int
    notes: dict[bytes, bytes]


class RecordBatches:
    """The record batches of a source whose kind is "parquet" or "arrow"."""

    def __init__(self, stream: Stream, kind: str) -> None:
        import pyarrow as pa

        self.stream = stream
        self.kind = kind
        self.name = stream.source.name
        self.fraction = 0.0  # of the source that has been read
        self._damaged = (pa.ArrowException, OSError, EOFError)
        try:
            self.schema = self._open(pa)
            flat_types(self.schema)  # decodes the names of columns
        except (*self._damaged, UnicodeDecodeError) as problem:
            raise self._bad(problem) from problem

    def _open(self, pa: Any) -> Any:
        self._file: Any = None
        self._batch = 0  # how many stored batches have been read
        source = self.stream.source
        whole = self.stream.seekable and (source.path is not None or source.opener is not None)
        if self.kind == "parquet":
            import pyarrow.parquet as pq

            if not whole:
                raise BadSource(
                    self.name, "Parquet cannot be read from a pipe or from compressed data", "give the plain file"
                )
            self._file = pq.ParquetFile(source.again, buffer_size=READ_BUFFER_BYTES, pre_buffer=False)
            return self._file.schema_arrow
        if whole and source.path is not None and self.stream.peek(8).startswith(IPC_FILE):
            self._file = pa.ipc.open_file(pa.memory_map(str(source.path)))
            return self._file.schema
        # A file is a stream behind eight bytes.
        if self.stream.peek(8).startswith(IPC_FILE):
            self.stream.read(8)
        self._stream = pa.ipc.open_stream(pa.PythonFile(_Readable(self.stream), mode="r"))
        return self._stream.schema

    def _bad(self, problem: Exception, row: int | None = None) -> BadSource:
        said = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        line = None if row is None else row + 1
        return BadSource(self.name, f"damaged or cut short ({said})", "write or copy the file again", line)

    def pieces(self, start: int, columns: Sequence[str] | None, text: Sequence[str]) -> Iterator[TablePiece]:
        """The rows from one on, counted from 0, with the columns that are needed; None for all.

        Parquet delivers the columns of text as dictionaries, with each value only once.
        """
        row = 0
        stored = self._parquet(start, columns, text) if self.kind == "parquet" else self._ipc()
        while True:
            try:
                found = next(stored, None)
            except self._damaged as problem:
                raise self._bad(problem, row) from problem
            if found is None:
                break
            batch, first, notes = found
            if batch is None:
                row = first
                continue
            require_valid(batch, self.name, first)
            row = first + batch.num_rows
            self.fraction = self._fraction(row)
            skip = min(max(0, start - first), batch.num_rows)
            if skip == batch.num_rows:
                yield TablePiece(None, row, notes)
                continue
            step = _rows_at_once(batch.num_columns)
            for at in range(skip, batch.num_rows, step):
                yield TablePiece(batch.slice(at, step), first + at, notes if at == skip else {})
        if row < start:
            rule = f"ends at row {row}, before row {start}, where reading was to continue"
            raise BadSource(self.name, rule, "give the file that was read before")

    def _fraction(self, row: int) -> float:
        if self.kind == "parquet":
            return row / max(1, int(self._file.metadata.num_rows))
        if self._file is not None:
            return self._batch / max(1, int(self._file.num_record_batches))
        return self.stream.consumed / self.stream.total if self.stream.total else 0.0

    def _parquet(self, start: int, columns: Sequence[str] | None, text: Sequence[str]) -> Iterator[TablePiece]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(
            self.stream.source.again, buffer_size=READ_BUFFER_BYTES, pre_buffer=False, read_dictionary=list(text)
        ) as file:
            row, first = 0, 0
            while first < file.num_row_groups and row + (size := file.metadata.row_group(first).num_rows) <= start:
                row, first = row + size, first + 1
            groups = list(range(first, file.num_row_groups))
            yield TablePiece(None, row, {})
            size = _rows_at_once(len(self.schema if columns is None else columns))
            for batch in file.iter_batches(size, row_groups=groups, columns=columns, use_threads=False):
                yield TablePiece(batch, row, {})
                row += batch.num_rows

    def _ipc(self) -> Iterator[TablePiece]:
        row = 0
        if self._file is not None:
            stored = map(self._file.get_batch_with_custom_metadata, range(self._file.num_record_batches))
        else:
            stored = self._stream.iter_batches_with_custom_metadata()
        for found in stored:
            self._batch += 1
            yield TablePiece(found.batch, row, dict(found.custom_metadata or {}))
            row += found.batch.num_rows
        if self._file is None:
            self.stream.check_end(row + 1)


def require_valid(batch: Any, source: str, row: int = 0) -> None:
    """Validate a record batch in full: offsets, indices of dictionaries, lengths of buffers, UTF-8.

    Arrow trusts what a file says of its buffers, so that a damaged batch would read memory of others, or crash. Nothing
    may be computed from a batch before this; not even ``nbytes``.

    Args:
        batch: a ``pyarrow.RecordBatch`` from outside.
        source: for the message.
        row: the number of its first row, from 0.
    """
    import pyarrow as pa

    try:
        batch.validate(full=True)
    except pa.ArrowException as problem:
        said = str(problem).splitlines()[0]
        raise BadSource(source, f"damaged Arrow data ({said})", "write the file again", row + 1) from None


def _rows_at_once(columns: int) -> int:
    return max(64, min(MAX_ARROW_ROWS, MAX_ARROW_CELLS // max(1, columns)))


class _Readable:
    """A stream as the Python file that PyArrow reads from, and closes; whoever opened the stream closes that."""

    closed = False

    def __init__(self, stream: Stream) -> None:
        self.read = stream.read

    def close(self) -> None:
        self.closed = True


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

    def _by_first_rows(self, piece: TablePiece, types: Sequence[tuple[str, Any]], source: str) -> Schema:
        """Decide the roles of columns by their types and first values."""
        arrays = dict(flat_arrays(piece.batch))
        looks = {
            name: infer_column(name, arrays[name], self.columns.missing)
            if name in arrays
            else InferredColumn(kind_of(type_) or "")
            for name, type_ in types
        }
        schema = decide(self.columns, list(looks), [look.kind for look in looks.values()], source)
        self.remarks += remarks(unasked(schema, looks, self.columns), source)
        return schema

    def _kinds(self, types: Sequence[tuple[str, Any]], schema: Schema, source: str) -> tuple[str, ...]:
        """The roles of the columns of a file; raises an error if a type does not fit its role."""
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
        return tuple(kind if kind == Kind.LABEL else Kind.IGNORED for kind in kinds) if self.labels_only else kinds

    def _batch(self, piece: TablePiece, source: str, names: Sequence[str], kinds: Sequence[str], number: int) -> Batch:
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
                raise BadSource(source, rule, ["cut it into several, or give ", Given("ignore", column.name)], first)
        end = first + piece.batch.num_rows

        def raw(row: int) -> bytes:
            return json.dumps(piece.batch.slice(row, 1).to_pylist()[0], default=str).encode()

        try:
            return self.batch(columns, source, np.arange(first, end), Position(number, end - 1, end), raw)
        except pa.ArrowException as problem:  # such as a time zone that nobody knows
            raise BadSource(source, f"cannot be read ({problem})", "ignore the column, or convert it", first) from None
