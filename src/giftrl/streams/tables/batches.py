"""Parquet and Arrow IPC files as record batches of a bounded size, from any row on."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from giftrl.errors import BadSource
from giftrl.streams.sources.source import Stream
from giftrl.streams.tables.types import flat_types

#: The most rows, and about the most cells, of a piece.
ROWS = 1 << 16
CELLS = 1 << 20
BUFFER = 1 << 20
IPC_FILE = b"ARROW1\0\0"


class Piece(NamedTuple):
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
            self._file = pq.ParquetFile(source.again, buffer_size=BUFFER, pre_buffer=False)
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

    def pieces(self, start: int, columns: Sequence[str] | None, text: Sequence[str]) -> Iterator[Piece]:
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
                yield Piece(None, row, notes)
                continue
            step = _rows_at_once(batch.num_columns)
            for at in range(skip, batch.num_rows, step):
                yield Piece(batch.slice(at, step), first + at, notes if at == skip else {})
        if row < start:
            rule = f"ends at row {row}, before row {start}, where reading was to go on"
            raise BadSource(self.name, rule, "give the file that was read before")

    def _fraction(self, row: int) -> float:
        if self.kind == "parquet":
            return row / max(1, int(self._file.metadata.num_rows))
        if self._file is not None:
            return self._batch / max(1, int(self._file.num_record_batches))
        return self.stream.consumed / self.stream.total if self.stream.total else 0.0

    def _parquet(self, start: int, columns: Sequence[str] | None, text: Sequence[str]) -> Iterator[Piece]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(
            self.stream.source.again, buffer_size=BUFFER, pre_buffer=False, read_dictionary=list(text)
        ) as file:
            row, first = 0, 0
            while first < file.num_row_groups and row + (size := file.metadata.row_group(first).num_rows) <= start:
                row, first = row + size, first + 1
            groups = list(range(first, file.num_row_groups))
            yield Piece(None, row, {})
            size = _rows_at_once(len(self.schema if columns is None else columns))
            for batch in file.iter_batches(size, row_groups=groups, columns=columns, use_threads=False):
                yield Piece(batch, row, {})
                row += batch.num_rows

    def _ipc(self) -> Iterator[Piece]:
        row = 0
        if self._file is not None:
            stored = map(self._file.get_batch_with_custom_metadata, range(self._file.num_record_batches))
        else:
            stored = self._stream.iter_batches_with_custom_metadata()
        for found in stored:
            self._batch += 1
            yield Piece(found.batch, row, dict(found.custom_metadata or {}))
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
    return max(64, min(ROWS, CELLS // max(1, columns)))


class _Readable:
    """A stream as the Python file that PyArrow reads from, and closes; whoever opened the stream closes that."""

    closed = False

    def __init__(self, stream: Stream) -> None:
        self.read = stream.read

    def close(self) -> None:
        self.closed = True
