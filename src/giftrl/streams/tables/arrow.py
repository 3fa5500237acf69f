"""Parquet and Arrow IPC, one column a feature, and converted files, which need no parsing."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import BadSource, Given, Message, require
from giftrl.files import Output, output_errors, require_replaceable
from giftrl.streams.batch import Batch, LabelNames, Position, listed, merge, overflowed
from giftrl.streams.columns import InferredColumn, Kind, Schema, decide
from giftrl.streams.names.features import Dictionary, Features, Hashing
from giftrl.streams.names.interactions import Interactions, Ngrams, no_order
from giftrl.streams.source import Stream
from giftrl.streams.tables.table_rows import (
    Column,
    TableRows,
    as_arrow,
    as_numpy,
    flat_arrays,
    flat_types,
    infer_column,
    is_text,
    kind_of,
    lengths,
)

# Converted files: Arrow IPC with the columns label, weight, indices and values.

#: The key of the feature mapping in the file's metadata.
METADATA_KEY = b"giftrl"
#: The key of new names in a batch's metadata.
NAMES_KEY = b"names"
LAYOUT_VERSION = 1
COMPRESSIONS = (None, "lz4", "zstd")


def _layout() -> Any:
    import pyarrow as pa

    indices, values = (pa.list_(pa.field("item", type_, False)) for type_ in (pa.int32(), pa.float64()))
    types = {"label": pa.float64(), "weight": pa.float64(), "indices": indices, "values": values}
    return pa.schema([pa.field(name, type_, False) for name, type_ in types.items()])


class ConvertedWriter(Output):
    """Writes batches to a file that is read back without parsing, hashing or copying.

    A missing label is NaN. Tags and rejected rows are not stored. The file is replaced atomically when the writer is
    closed; after an error the earlier file stays.

    Args:
        path: the file.
        features: the :class:`Features` of the batches. The names of a dictionary are stored.
        interactions: the products that the batches contain, recorded for readers.
        ngrams: the n-grams that the batches contain.
        labels: the names of labels, if they are not numbers.
        compression: None (fastest to read), "lz4" or "zstd".

    >>> import tempfile
    >>> from pathlib import Path
    >>> from giftrl.streams.text.libsvm import LibsvmText
    >>> from giftrl.streams.source import Source
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "rows.arrow")
    >>> features = Hashing(10)
    >>> with ConvertedWriter(path, features) as writer:
    ...     writer.write(LibsvmText(features).parse(b"1 3:0.5 7:2\\n", "a.svm", Position()))
    >>> with Stream(Source("rows.arrow", path)) as stream:
    ...     [batch] = ArrowTable(features).read(stream, "arrow")
    >>> batch.labels.tolist(), batch.indices.tolist(), batch.data.tolist()
    ([1.0], [3, 7], [0.5, 2.0])
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        features: Features,
        *,
        interactions: Interactions | None = None,
        ngrams: Ngrams | None = None,
        labels: LabelNames | None = None,
        compression: str | None = None,
    ) -> None:
        import pyarrow as pa

        known = compression in COMPRESSIONS
        require(known, "compression", compression, 'must be None, "lz4" or "zstd"', "leave it out for the quickest")
        super().__init__(path, "path")
        self.features = features
        self._named = 1  # for a dictionary: the slots whose names have been written
        about: dict[str, Any] = {
            "version": LAYOUT_VERSION,
            "kind": "hashing" if isinstance(features, Hashing) else "dictionary",
            "bits": features.bits if isinstance(features, Hashing) else None,
            "interactions": [list(each) for each in interactions.products] if interactions else [],
            "ngrams": [list(each) for each in ngrams.sizes] if ngrams else [],
        }
        if labels is not None:
            about["labels"] = list(labels.names)
        self._schema = _layout().with_metadata({METADATA_KEY: json.dumps(about).encode()})
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self._writer: Any = None

    def open(self) -> Self:
        import pyarrow as pa

        with output_errors(self.argument, self.path):
            require_replaceable(self.path)
            try:
                super().open()
                self._writer = pa.ipc.new_file(self._file, self._schema, options=self._options)
            except BaseException:
                self.abandon()
                raise
        return self

    def write(self, batch: Batch) -> None:
        """Write a batch from a reader with ``normalize="none"`` and ``constant=False``."""
        import pyarrow as pa

        plain = not (batch.indices == self.features.constant).any()
        require(plain, "batch", batch.source, "must not have the constant yet", "read with constant=False")
        schema, offsets = self._schema, as_arrow(batch.indptr.astype(np.int32))
        lists = [
            pa.ListArray.from_arrays(offsets, as_arrow(values), type=schema.field(name).type)
            for name, values in (("indices", batch.indices), ("values", batch.data))
        ]
        record = pa.RecordBatch.from_arrays([as_arrow(batch.labels), as_arrow(batch.weights), *lists], schema=schema)
        with output_errors(self.argument, self.path):
            self._writer.write_batch(record, custom_metadata=self._new_names(batch))

    def _new_names(self, batch: Batch) -> dict[bytes, bytes]:
        if not isinstance(self.features, Dictionary):
            return {}
        # Only up to the highest slot in this batch, since another thread may add names.
        highest = int(batch.indices.max(initial=0))
        names = [self.features.name(slot) for slot in range(self._named, highest + 1)]
        self._named += len(names)
        return {NAMES_KEY: json.dumps(names).encode()} if names else {}

    def _finish(self) -> None:
        self._writer.close()
        super()._finish()


# Parquet and Arrow IPC files as record batches of bounded size, from any row.

#: The maximum number of rows, and the approximate maximum of cells, in a piece.
MAX_ARROW_ROWS = 1 << 16
MAX_ARROW_CELLS = 1 << 20
IPC_FILE = b"ARROW1\0\0"


class TablePiece(NamedTuple):
    """Rows of a table: a ``pyarrow.RecordBatch``, the number of its first row (from 0), and its metadata.

    Only the first piece of a stored batch has metadata. Pieces before the start row have no batch.
    """

    batch: Any
    first: int
    notes: dict[bytes, bytes]


class RecordBatches:
    """The record batches of a Parquet or Arrow source."""

    def __init__(self, stream: Stream, kind: str) -> None:
        import pyarrow as pa

        self.stream, self.kind, self.name = stream, kind, stream.source.name
        self.fraction = 0.0  # of the source that has been read
        self._damaged = (pa.ArrowException, OSError, EOFError)
        self._file: Any = None  # for an IPC file, which lists its batches
        self._batch = 0  # number of stored batches read
        try:
            self.schema = self._open(pa)
            flat_types(self.schema)  # decoding column names may fail
        except (*self._damaged, UnicodeDecodeError) as problem:
            raise self._bad(problem) from problem

    def _open(self, pa: Any) -> Any:
        source = self.stream.source
        whole = self.stream.seekable and (source.path is not None or source.opener is not None)
        if self.kind == "parquet":
            if not whole:
                rule = "Parquet cannot be read from a pipe or from compressed data"
                raise BadSource(self.name, rule, "give the plain file")
            self._file = self._parquet_file()
            return self._file.schema_arrow
        is_file = self.stream.peek(8).startswith(IPC_FILE)
        if whole and source.path is not None and is_file:
            self._file = pa.ipc.open_file(pa.memory_map(str(source.path)))
            return self._file.schema
        if is_file:  # an IPC file is a stream after eight bytes
            self.stream.read(8)
        self._stream = pa.ipc.open_stream(pa.PythonFile(_Readable(self.stream), mode="r"))
        return self._stream.schema

    def _parquet_file(self, text: Sequence[str] = ()) -> Any:
        import pyarrow.parquet as pq

        again = self.stream.source.again
        return pq.ParquetFile(again, buffer_size=1 << 20, pre_buffer=False, read_dictionary=list(text))

    def _bad(self, problem: Exception, row: int | None = None) -> BadSource:
        said = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        line = None if row is None else row + 1
        return BadSource(self.name, f"damaged or cut short ({said})", "write or copy the file again", line)

    def pieces(self, start: int, columns: Sequence[str] | None, text: Sequence[str]) -> Iterator[TablePiece]:
        """Read from a row on (from 0), with the given columns or (None) all.

        Text columns of Parquet are dictionary-encoded.
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
        with self._parquet_file(text) as file:
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
    """Validate a record batch from outside in full: offsets, indices of dictionaries, lengths of buffers, UTF-8.

    Arrow does not check buffers, so a damaged batch could cause out-of-bounds reads. Call this before any other use of
    a batch, even ``nbytes``. ``row`` is the number of its first row, from 0.
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
    """A file object for PyArrow; closing it does not close the stream."""

    closed = False

    def __init__(self, stream: Stream) -> None:
        self.read = stream.read

    def close(self) -> None:
        self.closed = True


#: The maximum length of a list of numbers.
MAX_LIST_LENGTH = 1 << 20


class ArrowTable(TableRows):
    """Reads Parquet, Arrow IPC files and streams, and files of :class:`ConvertedWriter`.

    Numbers, true and false are features of their column's name; text and dictionaries are ``column=value``; dates,
    timestamps and text of ISO dates are numbers of years, with weekday, month and hour as categories; the items
    of a list of numbers are ``column^0``, ``column^1`` and so on; a list of text is several categories; fields of
    structures are joined, ``column^field``. A null in place of a number or date is ``column=missing``; other nulls,
    empty text and 0 add nothing. NaN and infinities reject their row. Arrays of a converted file are views of the file,
    not to be written to. The arguments are those of :class:`TableRows`.
    """

    converted = False  # True if the last source is a converted file, with its interactions
    label_names: tuple[str, ...] | None = None  # label names of the last source, if a converted file has any
    fraction = 0.0  # of the last source that has been read

    def read(self, stream: Stream, kind: str, start: Position | None = None) -> Iterator[Batch]:
        """Read a source from a row on."""
        found = RecordBatches(stream, kind)
        self.converted, self.label_names = METADATA_KEY in (found.schema.metadata or {}), None
        for batch in (self._read_converted if self.converted else self._read_table)(found, start or Position()):
            self.fraction = found.fraction
            yield batch

    def _read_table(self, found: RecordBatches, start: Position) -> Iterator[Batch]:
        if self.ngrams is not None:
            raise no_order(found.name)
        types = flat_types(found.schema)
        names = tuple(name for name, _ in types)
        # Without a schema, types show which columns may be needed, and the first rows decide their kinds.
        schema = self.schema or self._decided(types, {}, found.name)
        kinds = self._kinds(types, schema, found.name)
        used = sorted({name.split("^")[0] for name, kind in zip(names, kinds, strict=True) if kind != Kind.IGNORED})
        every = len(used) == len(found.schema.names) or any("^" in name for name in found.schema.names)
        text = [name for name, type_ in types if is_text(type_) and name in found.schema.names]
        for piece in found.pieces(start.offset, None if every else used, text):
            if piece.batch is not None:
                arrays = dict(flat_arrays(piece.batch))
                if self.schema is None:
                    self.schema = self._decided(types, arrays, found.name)
                    kinds = self._kinds(types, self.schema, found.name)
                each = enumerate(zip(names, kinds, strict=True))
                columns = [Column(at, name, kind, arrays[name]) for at, (name, kind) in each if kind != Kind.IGNORED]
                yield self._batch(piece, found.name, columns, start.source)

    def label_at(self, line: int, raw: bytes) -> tuple[str, int]:
        if not self.converted:
            return super().label_at(line, raw)
        first, labels = self._stored_labels
        return self._label_text(float(labels[line - first])), 1

    def _decided(self, types: Sequence[tuple[str, Any]], arrays: dict[str, Any], source: str) -> Schema:
        """Decide the roles of columns from their types and, if given, their first values."""
        names, looks = [name for name, _ in types], []
        for name, type_ in types:
            if name in arrays:
                looks.append(infer_column(name, arrays[name], self.columns.missing))
            else:
                looks.append(InferredColumn(kind_of(type_) or ""))
        schema, said = decide(self.columns, names, looks, source)
        self.remarks += said
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

    def _batch(self, piece: TablePiece, source: str, columns: Sequence[Column], number: int) -> Batch:
        import pyarrow as pa

        first, end = piece.first + 1, piece.first + 1 + piece.batch.num_rows
        for column in columns:
            longest = int(lengths(column.array).max(initial=0)) if column.kind == Kind.NUMBERS else 0
            if longest > MAX_LIST_LENGTH:
                rule = f"the column {column.name!r} has a list of {longest} numbers, and at most {MAX_LIST_LENGTH} fit"
                raise BadSource(source, rule, ["cut it into several, or give ", Given("ignore", column.name)], first)

        def raw(row: int) -> bytes:
            return json.dumps(piece.batch.slice(row, 1).to_pylist()[0], default=str).encode()

        try:
            return self.batch(columns, source, np.arange(first, end), Position(number, end - 1, end), raw)
        except pa.ArrowException as problem:  # such as an unknown time zone
            raise BadSource(source, f"cannot be read ({problem})", "ignore the column, or convert it", first) from None

    # Converted files.

    def _read_converted(self, found: RecordBatches, start: Position) -> Iterator[Batch]:
        self._check(found)
        self._slots = np.zeros(1, np.int32)  # for a dictionary: maps slots of the file to slots of the features
        self._same = True
        for piece in found.pieces(start.offset, None, ()):
            if NAMES_KEY in piece.notes and not self.labels_only:
                self._learn(piece.notes[NAMES_KEY], found.name)
            if piece.batch is not None:
                yield self._converted_batch(piece, found.name, start.source)

    def _check(self, found: RecordBatches) -> None:
        """Raise an error unless a converted file has the requested feature mapping."""

        def bad(rule: Message, remedy: Message = "ask for the same, or convert the data again") -> BadSource:
            return BadSource(found.name, rule, remedy)

        try:
            about = json.loads(found.schema.metadata[METADATA_KEY])
            version, kind, bits, names = about["version"], about["kind"], about["bits"], about.get("labels")
            products = [tuple(each) for each in about["interactions"]]
            sizes = [tuple(each) for each in about.get("ngrams", [])]
            sound = names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names))
        except (ValueError, KeyError, TypeError, AttributeError):
            sound = False
        if not sound:
            raise bad("its feature metadata cannot be read", "convert the data again")
        if version != LAYOUT_VERSION or not found.schema.remove_metadata().equals(_layout()):
            raise bad(f"was written by another version ({version})", "convert the data again")
        self.label_names = None if names is None else tuple(names)
        if self.labels_only:
            return
        own = "hashing" if isinstance(self.features, Hashing) else "dictionary"
        if (kind == "hashing") != (own == "hashing"):
            raise bad(f"was converted with {kind}, and {own} is asked for", "use the same, or convert the data again")
        if isinstance(self.features, Hashing) and bits != self.features.bits:
            theirs, ours = Given("bits", bits), Given("bits", self.features.bits)
            rule: Message = ["was converted with ", theirs, ", and ", ours, " is asked for"]
            raise bad(rule, ["use ", theirs, ", or convert the data again"])
        for what, stored, asked in (
            ("interactions", products, self.interactions.products if self.interactions else ()),
            ("n-grams", sizes, self.ngrams.sizes if self.ngrams else ()),
        ):
            if stored != list(asked):
                raise bad(f"was converted with the {what} {stored}, which differ from those requested")
        if self.label_names is not None and self.labels is None:
            raise bad(f"has labels that are no numbers: {listed(self.label_names)}", "use a loss of classes")

    def _learn(self, text: bytes, source: str) -> None:
        """Add the new names of a stored batch to the dictionary."""
        try:
            slots, _ = self.features.slots(json.loads(text))
        except (ValueError, TypeError):
            raise BadSource(source, "its names of features cannot be read", "convert the data again") from None
        self._slots = np.concatenate([self._slots, slots])
        self._same = self._same and bool((self._slots == np.arange(len(self._slots))).all())

    def _label_text(self, label: float) -> str:
        return f"{label:.17g}" if self.label_names is None else self.label_names[int(label)]

    def _translated(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert the file's label codes to the requested label names."""
        if self.labels is None:
            return labels
        there = ~np.isnan(labels)
        distinct, where = np.unique(labels[there], return_inverse=True)
        made = np.full(len(labels), np.nan)
        made[there] = self.labels.codes(map(self._label_text, distinct.tolist()))[where]
        return made

    def _converted_batch(self, piece: TablePiece, source: str, number: int) -> Batch:
        record, first, end = piece.batch, piece.first, piece.first + piece.batch.num_rows
        labels, weights, *lists = record.columns
        offsets = [as_numpy(each.offsets).astype(np.int64) for each in lists]
        parts = [each.values[begins[0] : begins[-1]] for each, begins in zip(lists, offsets, strict=True)]
        sound = not any(each.null_count for each in (*record.columns, *parts))
        if sound:
            labels, weights, indices, data = map(as_numpy, (labels, weights, *parts))
            indptr, other = (begins - begins[0] for begins in offsets)
            size = self.features.dimension if isinstance(self.features, Hashing) else len(self._slots)
            # An index out of range would make a learner write out of bounds.
            inside = self.labels_only or not len(indices) or (indices.min() >= 0 and indices.max() < size)
            codes = np.arange(len(self.label_names or ()))
            known = self.label_names is None or np.isin(labels[~np.isnan(labels)], codes).all()
            finite = not np.isinf(labels).any() and np.isfinite(weights).all() and not len(overflowed(data, indptr))
            sound = bool(inside and known and finite and np.array_equal(indptr, other) and (weights >= 0.0).all())
        if not sound:
            raise BadSource(source, "is damaged: its rows make no sense", "convert the data again", first + 1)
        self._stored_labels = first + 1, labels
        lines, groups, position = np.arange(first + 1, end + 1), np.empty(0, np.uint8), Position(number, end, end + 1)
        labels = self._translated(labels)
        if self._same:
            return Batch(source, data, indices, indptr, labels, weights, lines, groups, position)
        batch = Batch(source, data, self._slots[indices], indptr, labels, weights, lines, groups, position)
        if (batch.indices < 0).any():  # a frozen dictionary may lack names
            merged = merge(data.copy(), batch.indices, groups, indptr)
            batch = replace(batch, data=merged[0], indices=merged[1], indptr=merged[3])
        return batch
