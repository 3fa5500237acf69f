"""A look at the first rows: what labels there are, before a loss is chosen."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any, NamedTuple

from giftrl.errors import GiftrlError
from giftrl.files import is_stream
from giftrl.streams.columns import LABELS, Columns, Kind, Schema, decide
from giftrl.streams.formats import HEAD, TEXT, detect
from giftrl.streams.names.walk import label_text
from giftrl.streams.sources.lines import BOM
from giftrl.streams.sources.source import Source, Stream, find_sources

#: How many rows are looked at, and how many bytes of each source.
ROWS, BYTES = 10_000, 1 << 20


class FirstLabels(NamedTuple):
    """The labels of the first rows, as they are written, and what must be kept of looking at them."""

    labels: list[str]  # of rows that have one
    opened: dict[str, Stream]  # sources that cannot be opened again, by name, of which nothing has been read


def first_labels(
    named: Any,
    *,
    format: str | None = None,  # noqa: A002
    columns: Columns | None = None,
    schema: Schema | None = None,
) -> FirstLabels:
    """Look at the labels of the first rows; the arguments are those of :class:`giftrl.streams.Reader`.

    Rows that cannot be read are passed over, and so are sources after the first that cannot: reading will name them.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.csv")
    ...     _ = path.write_text("age,churn\\n33,no\\n8,yes\\n,\\n")
    ...     first_labels(path).labels
    ['no', 'yes']
    """
    labels: list[str] = []
    opened: dict[str, Stream] = {}
    for number, source in enumerate(find_sources(named)):
        piped = source.path is None or is_stream(source.name)
        if len(labels) >= ROWS or (piped and number > 0):  # a pipe is not waited for before its turn
            break
        try:
            stream = Stream(source)
            if piped:
                opened[source.name] = stream
            with contextlib.nullcontext() if source.name in opened else stream:
                labels += [label for label in _labels(stream, source, format, columns or Columns(), schema) if label]
        except GiftrlError:
            if number == 0:
                raise
            break
    return FirstLabels(labels[:ROWS], opened)


def _labels(
    stream: Stream, source: Source, asked: str | None, columns: Columns, schema: Schema | None
) -> Iterator[str | None]:
    """The labels of one source; None or nothing for rows without one."""
    format_ = detect(stream.peek(HEAD), source.name, asked)
    if format_ in TEXT:
        head = stream.peek(BYTES)
        whole = len(head) < BYTES
        if not whole:
            head = head[: head.rfind(b"\n") + 1] or head
        if format_ == "csv":
            return iter(_of_csv(head, source.name, columns, schema, whole))
        lines = io.BytesIO(head.removeprefix(BOM))
        if format_ == "json":
            return _of_json(lines, None if columns.label is None else str(columns.label), schema)
        return _of_lines(lines) if format_ == "libsvm" else _of_vw(lines)
    if format_ == "npz":
        from giftrl.streams.names.features import Hashing
        from giftrl.streams.tables.npz import NpzMatrix, texts_of

        return iter(texts_of(NpzMatrix(Hashing(1)).load(stream)[1][:ROWS]))
    return iter(_of_table(stream, source, format_, columns, schema))


def _of_lines(lines: Any) -> Iterator[str]:
    for line in lines:
        label = line.partition(b"#")[0].split(None, 1)
        if label and b":" not in label[0]:
            yield label[0].decode(errors="replace")


def _of_vw(lines: Any) -> Iterator[str]:
    for line in lines:
        before, bar, _ = line.partition(b"|")
        fields = before.split(b" ")
        if bar and len(fields) > 1 and fields[0] and not fields[0].startswith(b"'"):
            yield fields[0].decode(errors="replace")


def _of_json(lines: Any, label: str | None, schema: Schema | None) -> Iterator[str | None]:
    import orjson  # where there is JSON

    if label is None and schema is not None:
        label = schema.label
    for line in lines:
        with contextlib.suppress(orjson.JSONDecodeError):
            row = orjson.loads(line)
            if isinstance(row, dict):
                label = label or next((name for name in LABELS if name in row), None)
                given = row.get(label)
                yield None if given is None or isinstance(given, (dict, list)) else label_text(given)


def _of_csv(head: bytes, name: str, columns: Columns, schema: Schema | None, whole: bool) -> list[str | None]:
    from giftrl.streams.tables.csv_blocks import CsvBlocks
    from giftrl.streams.tables.csv_header import layout
    from giftrl.streams.tables.csv_rows import Dialect

    found = layout(head, name, columns, schema, whole, named_labels=True)
    if Kind.LABEL not in found.kinds:
        return []
    kinds = tuple(Kind.CATEGORY if kind == Kind.LABEL else Kind.IGNORED for kind in found.kinds)
    blocks = CsvBlocks(Dialect(found.delimiter, found.names, kinds, columns.missing), name)
    rest = head[found.offset :]
    rows = blocks.typed(blocks.texts(rest if rest.endswith(b"\n") else rest + b"\n", found.line, whole))
    texts = rows.columns[found.kinds.index(Kind.LABEL)].to_pylist()
    return [None if text in columns.missing else text for text in texts]


def _of_table(stream: Stream, source: Source, kind: str, columns: Columns, schema: Schema | None) -> list[str | None]:
    """The labels of the first rows of Parquet and Arrow IPC."""
    import pyarrow as pa

    from giftrl.streams.tables.batches import RecordBatches
    from giftrl.streams.tables.converted import is_converted, names_of_labels
    from giftrl.streams.tables.types import flat_arrays, flat_types, kind_of

    pieces: Iterator[Any]
    if stream.seekable and source.path is not None:
        batches = RecordBatches(stream, kind)
        arrow, pieces = batches.schema, (piece.batch for piece in batches.pieces(0, None, ()))
    else:  # of what comes through a pipe, as much as may be read twice
        try:
            reader = pa.ipc.open_stream(pa.BufferReader(stream.peek(BYTES)))
            arrow, pieces = reader.schema, iter([reader.read_next_batch()])
        except (pa.ArrowInvalid, StopIteration, OSError):
            return []
    first = next((piece for piece in pieces if piece is not None and piece.num_rows), None)
    if first is None:
        return []
    if is_converted(arrow):
        names = names_of_labels(arrow)
        if names is not None:
            return list(names)
        return [None if label != label else f"{label:.17g}" for label in first.column("label")[:ROWS].to_pylist()]
    types = flat_types(arrow)
    if schema is None:
        schema = decide(
            columns, tuple(name for name, _ in types), [kind_of(type_) or "" for _, type_ in types], source.name
        )
    array = dict(flat_arrays(first)).get(schema.label or "")
    if array is None:
        return []
    texts = array[:ROWS].cast(pa.large_string()).to_pylist() if not pa.types.is_decimal(array.type) else []
    return [None if text == "nan" else text for text in texts]
