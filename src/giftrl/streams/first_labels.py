"""A look at the first rows: what labels there are, before a loss is chosen."""

import contextlib
import io
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol

from giftrl.errors import GiftrlError
from giftrl.files import is_stream
from giftrl.streams.columns import LABELS, Columns, Kind, Schema, decide
from giftrl.streams.formats import HEAD, TEXT, detect
from giftrl.streams.names.objects import label_text
from giftrl.streams.sources.lines import BOM
from giftrl.streams.sources.source import Source, Stream, find_sources

#: How many rows are looked at; and how many bytes, first and at most.
ROWS = 10_000
FIRST, MOST = 1 << 20, 1 << 26


class FirstLabels(NamedTuple):
    """The labels of the first rows, as they are written, and what must be kept of looking at them."""

    labels: list[str]  # of rows that have one
    opened: dict[str, Stream]  # sources that cannot be opened again, by name, of which nothing has been read
    names: tuple[str, ...] = ()  # of the columns of the first table, or of the keys of the first JSON object
    converted: bool = False  # whether there is a converted file, whose rows could all be read


class _Seen(NamedTuple):
    """The labels of the first rows of a source, None or nothing for rows without one; names; and the bytes read."""

    labels: list[str | None]
    names: tuple[str, ...] = ()
    size: int = 0
    converted: bool = False


def first_labels(
    named: Any,
    *,
    format: str | None = None,  # noqa: A002
    columns: Columns | None = None,
    schema: Schema | None = None,
) -> FirstLabels:
    """Look at the labels of the first 10,000 rows, or of those in the first 64 MiB where these are fewer.

    The arguments are those of :class:`giftrl.streams.Reader`. Rows that cannot be read are passed over, and so are
    sources after the first that cannot: reading will name them.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.csv")
    ...     _ = path.write_text("age,churn\\n33,no\\n8,yes\\n,\\n")
    ...     first_labels(path).labels
    ['no', 'yes']
    """
    labels: list[str | None] = []
    names: tuple[str, ...] = ()
    size, converted = 0, False
    opened: dict[str, Stream] = {}
    for number, source in enumerate(find_sources(named)):
        piped = source.is_input or (source.path is not None and is_stream(source.name))
        # A pipe is not waited for before its turn.
        if len(labels) >= ROWS or size >= MOST or (piped and number > 0):
            break
        try:
            stream = Stream(source)
            if piped:
                opened[source.name] = stream
            with contextlib.nullcontext() if source.name in opened else stream:
                seen = _look(stream, source, format, columns or Columns(), schema)
        except GiftrlError:
            if number == 0:
                raise
            break
        labels += seen.labels
        names = names or seen.names
        size += seen.size
        converted |= seen.converted
    return FirstLabels([label for label in labels[:ROWS] if label], opened, names, converted)


def _look(stream: Stream, source: Source, asked: str | None, columns: Columns, schema: Schema | None) -> _Seen:
    format_ = detect(stream.peek(HEAD), source.name, asked)
    if format_ == "csv":
        return _by_blocks(stream, _Csv(source.name, columns, schema))
    if format_ in TEXT:
        key = schema.label if columns.label is None and schema is not None else columns.label
        return _by_blocks(
            stream, _Json(key) if format_ == "json" else _Lines(_of_svm if format_ == "libsvm" else _of_vw)
        )
    if format_ == "npz":
        from giftrl.streams.names.hashing import Hashing
        from giftrl.streams.tables.npz import NpzMatrix, texts_of

        return _Seen(texts_of(NpzMatrix(Hashing(1)).load(stream)[1][:ROWS]))
    return _of_table(stream, source, format_, columns, schema)


class _Text(Protocol):
    """Finds the labels in blocks of text."""

    names: tuple[str, ...]

    def read(self, block: bytes, whole: bool) -> tuple[list[str | None], int]:
        """The labels of the next rows, and how many bytes of the block these are; ``whole`` if it is the last one."""


def _by_blocks(stream: Stream, text: _Text) -> _Seen:
    """Peek further and further, until there are enough rows."""
    labels: list[str | None] = []
    at, size = 0, FIRST
    while True:
        head = stream.peek(size)[:size]
        last = len(head) < size
        block = head[at:] if last else head[at : head.rfind(b"\n") + 1]
        if block:
            more, used = text.read(block, last)
            labels += more
            at += used
        if last or size >= MOST or len(labels) >= ROWS:
            return _Seen(labels, text.names, len(head))
        size = min(2 * size, MOST)


class _Lines:
    """Lines with a label each."""

    names: tuple[str, ...] = ()

    def __init__(self, label: Callable[[bytes], str | None]) -> None:
        self._label = label

    def read(self, block: bytes, whole: bool) -> tuple[list[str | None], int]:
        lines = (line for line in io.BytesIO(block.removeprefix(BOM)) if not line.isspace())
        return [self._label(line) for line in islice(lines, ROWS)], len(block)


def _of_svm(line: bytes) -> str | None:
    label = line.partition(b"#")[0].split(None, 1)
    return label[0].decode(errors="replace") if label and b":" not in label[0] else None


def _of_vw(line: bytes) -> str | None:
    before, bar, _ = line.partition(b"|")
    fields = before.split(b" ")
    there = bar and len(fields) > 1 and fields[0] and not fields[0].startswith(b"'")
    return fields[0].decode(errors="replace") if there else None


class _Json(_Lines):
    """Objects with the label under a key; the first usual one, if none is given."""

    def __init__(self, key: str | int | None) -> None:
        super().__init__(self._of_json)
        self._key = None if key is None else str(key)

    def _of_json(self, line: bytes) -> str | None:
        import orjson  # where there is JSON

        with contextlib.suppress(orjson.JSONDecodeError):
            row = orjson.loads(line)
            if isinstance(row, dict):
                self.names = self.names or tuple(row)
                self._key = self._key or next((name for name in LABELS if name in row), None)
                given = row.get(self._key)
                return None if given is None or isinstance(given, (dict, list)) else label_text(given)
        return None


class _Csv:
    """Records with the label in a column."""

    names: tuple[str, ...] = ()

    def __init__(self, name: str, columns: Columns, schema: Schema | None) -> None:
        self._name, self._columns, self._schema = name, columns, schema
        self._blocks: Any = None
        self._line = 1

    def read(self, block: bytes, whole: bool) -> tuple[list[str | None], int]:
        begin = 0 if self._blocks is not None else self._open(block, whole)
        if Kind.CATEGORY not in self._blocks.dialect.kinds:
            return [], len(block)
        rest = block[begin:] if block.endswith(b"\n") else block[begin:] + b"\n"
        rows = self._blocks.typed(self._blocks.texts(rest, self._line, whole))
        self._line = rows.line
        texts = rows.columns[self._blocks.dialect.kinds.index(Kind.CATEGORY)].to_pylist()
        return [None if text in self._columns.missing else text for text in texts], begin + rows.size

    def _open(self, block: bytes, whole: bool) -> int:
        """Look at the header; returns where the first row begins."""
        from giftrl.streams.tables.csv import CsvBlocks, layout
        from giftrl.streams.tables.csv_fallback import Dialect

        found = layout(block, self._name, self._columns, self._schema, whole, named_labels=True)
        self.names, self._line = found.names, found.line
        kinds = tuple(Kind.CATEGORY if kind == Kind.LABEL else Kind.IGNORED for kind in found.kinds)
        self._blocks = CsvBlocks(Dialect(found.delimiter, found.names, kinds, self._columns.missing), self._name)
        return found.offset


def _of_table(stream: Stream, source: Source, kind: str, columns: Columns, schema: Schema | None) -> _Seen:
    """The labels of the first rows of Parquet and Arrow IPC."""
    import pyarrow as pa

    from giftrl.streams.tables.arrow import IPC_FILE, RecordBatches
    from giftrl.streams.tables.converted import is_converted, names_of_labels
    from giftrl.streams.tables.types import flat_arrays, flat_types, kind_of

    reader = None
    if kind == "parquet" or source.opener is not None or (stream.seekable and source.path is not None):
        stored = RecordBatches(stream, kind)
        arrow = stored.schema
    else:  # of what comes through a pipe, as much as may be read twice
        try:
            reader = pa.ipc.open_stream(pa.BufferReader(stream.peek(FIRST).removeprefix(IPC_FILE)))
        except (pa.ArrowInvalid, OSError):
            return _Seen([])
        arrow = reader.schema
    types = flat_types(arrow)
    names = tuple(name for name, _ in types)
    named, converted = None, is_converted(arrow)
    if converted:
        try:
            named = names_of_labels(arrow)
        except (ValueError, AttributeError):  # a damaged file, which reading will name
            return _Seen([])
        label: str | None = "label"
    else:
        schema = schema or decide(columns, names, [kind_of(type_) or "" for _, type_ in types], source.name)
        label = schema.label
    kind_of_label = kind_of(dict(types)[label]) if label in names else None
    if label is None or kind_of_label not in (Kind.NUMBER, Kind.CATEGORY):
        return _Seen([], names)
    used = None if any("^" in name for name in arrow.names) else [label.split("^")[0]]
    batches = _readable(reader) if reader is not None else (piece.batch for piece in stored.pieces(0, used, ()))
    labels: list[str | None] = []
    size = 0
    for batch in batches:
        if batch is not None:
            labels += _texts(dict(flat_arrays(batch))[label][:ROWS])
            size += batch.nbytes
        if len(labels) >= ROWS or size >= MOST:
            break
    if named is not None:
        by_code = {str(code): name for code, name in enumerate(named)}
        labels = [by_code.get(str(label)) for label in labels[:ROWS]]
        labels = [*(name for name in named if name not in labels), *labels]  # a label may come later
    return _Seen(labels, () if converted else names, size, converted)


def _texts(array: Any) -> list[str | None]:
    """The labels in an Arrow array as text."""
    import pyarrow as pa

    from giftrl.streams.tables.types import as_numpy

    if pa.types.is_float64(array.type) and not array.null_count:  # without pyarrow.compute, which takes long to import
        texts = [f"{label:.17g}" for label in as_numpy(array).tolist()]
    else:
        array = array.cast(pa.float64()) if pa.types.is_decimal(array.type) else array
        texts = array.cast(pa.large_string()).to_pylist()
    return [None if text == "nan" else text for text in texts]


def _readable(reader: Any) -> Iterator[Any]:
    """The record batches of the beginning of an Arrow IPC stream."""
    import pyarrow as pa

    with contextlib.suppress(pa.ArrowInvalid, StopIteration, OSError):
        while True:
            yield reader.read_next_batch()
