"""Rows in the bodies of requests: JSON, JSON lines, LIBSVM or VW text, or an Arrow stream.

A :class:`Body` has the rows of one request in one of these formats. Several bodies may be read together as one source.
A :class:`RowRange` is the part of one body in it, and an :class:`Answer` its result.
"""

import struct
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from giftrl.errors import BadSource, GiftrlError, Given, InvalidInput, Refused, render
from giftrl.service.request_limits import Limits
from giftrl.streams.batch import Batch, LabelNames, Rejected
from giftrl.streams.columns import Columns, Kind, Schema
from giftrl.streams.first_labels import first_labels
from giftrl.streams.line_blocks import BOM
from giftrl.streams.names.features import Hashing, News
from giftrl.streams.reader import Reader
from giftrl.streams.source import FORMATS, HEAD_BYTES, Source, detect

BODY_FORMATS = ("json", "libsvm", "vw", "arrow")
#: Formats by content type; otherwise the format is detected from the first bytes.
CONTENT_TYPES = {
    "application/json": "json",
    "application/x-ndjson": "json",
    "application/jsonl": "json",
    "text/x-libsvm": "libsvm",
    "text/x-vw": "vw",
    "application/vnd.apache.arrow.stream": "arrow",
}
#: The maximum number of rejected rows in an answer.
MAX_LISTED_ROWS = 20
#: Field numbers in the tables of Arrow's format: type and header of a message, rows of a dictionary, length and
#: compression of rows. (https://github.com/apache/arrow/blob/main/format/Message.fbs)
HEADER_TYPE, HEADER, DICTIONARY_ROWS, LENGTH, COMPRESSION = 1, 2, 1, 0, 3
#: Types of messages that hold rows.
DICTIONARY, RECORDS = 2, 3


class Body(NamedTuple):
    """Rows of one request."""

    format: str  # one of BODY_FORMATS
    data: bytes  # text ends with a newline
    skip: bool = False  # True to skip bad rows, False to refuse the request if there is one

    @property
    def lines(self) -> int:
        """Number of lines of text; 0 for an Arrow stream."""
        return 0 if self.format == "arrow" else self.data.count(b"\n")


class RowRange(NamedTuple):
    """The rows of one body among rows read together: a mask of valid rows, and the rejected rows."""

    used: NDArray[np.bool_]
    rejected: list[Rejected]


class Answer(NamedTuple):
    """The result for one body: a prediction for each row (or None), and the skipped rows."""

    predictions: list[Any]
    rejected: list[Rejected]
    examples: int = 0  # examples learned by the model, including these


class ReadBodies(NamedTuple):
    """Bodies read for a model, but not learned yet."""

    batches: list[tuple[Batch, News]]  # rows, with the new names of each batch
    ranges: list[RowRange]  # the part of each body in these rows
    rows: Sequence[Any] = ()  # single rows, one for each body, instead of batches
    names: Sequence[str] = ()  # names unknown to the model that prevented single rows

    def answers(self, outputs: Sequence[Any], examples: int, learned: bool = False) -> list[Answer]:
        """Divide the outputs of valid rows among bodies; ``learned`` counts their rows as examples."""
        answers, rest = [], iter(outputs)
        for used, rejected in self.ranges:
            mine = [next(rest) if good else None for good in used] if rejected else [*islice(rest, len(used))]
            examples += (len(used) - len(rejected)) * learned
            answers.append(Answer(mine, rejected, examples))
        return answers


#: The range of a body with one valid row.
ONE_ROW = RowRange(np.ones(1, bool), [])


def read_body(
    data: bytes, content_type: str = "", given: str | None = None, *, skip: bool = False, limits: Limits | None = None
) -> Body:
    """Return the rows of a body: one JSON object, ``{"rows": [...]}``, lines of text, or an Arrow stream.

    Args:
        data: the body.
        content_type: of the request.
        given: the format, if the request names one.
        skip: as for :class:`Body`.
        limits: of the service.

    >>> read_body(b'{"rows": [{"label": 1, "age": 33}, {"label": 0}]}').data
    b'{"label":1,"age":33}\\n{"label":0}\\n'
    >>> read_body(b"1 3:0.5").format
    'libsvm'
    """
    data = data.removeprefix(BOM)
    if not data or data.isspace():
        raise Refused(400, "the body is empty", 'send a row, such as {"label": 1, "age": 33}')
    format_ = given or CONTENT_TYPES.get(content_type) or detected_format(data, content_type)
    if format_ not in BODY_FORMATS:
        raise Refused(415, f"bodies cannot be {format_!r:.40}", f"send one of {', '.join(BODY_FORMATS)}")
    if format_ == "arrow":
        if limits is not None:
            require_small_stream(data, limits.rows, 16 * limits.body)
        return Body(format_, data, skip)
    lines = json_lines(data) if format_ == "json" else data
    body = Body(format_, lines if lines.endswith(b"\n") else lines + b"\n", skip)
    if limits is not None and body.lines > limits.rows:
        raise Refused(413, f"the body has more than {limits.rows} rows", "send fewer at a time")
    return body


def detected_format(data: bytes, content_type: str) -> str:
    """The format of a body, by its content type with parameters, or else by its first bytes."""
    named = CONTENT_TYPES.get(content_type.partition(";")[0].strip().lower())
    if named is not None or data.lstrip()[:1] in (b"{", b"["):
        return named or "json"
    try:
        return detect(data[:HEAD_BYTES], "the body")
    except BadSource as problem:
        raise Refused(415, str(problem.rule), "name it: ?format=json, libsvm, vw or arrow") from None


def json_lines(data: bytes) -> bytes:
    """Turn JSON into lines of one object each."""
    data = data.strip()
    one_line = b"\n" not in data
    if one_line and not data.startswith((b'{"rows"', b"[")) and b'"rows"' not in data[:64]:
        return data  # checked by the reader
    try:
        given = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        if not one_line:
            return data
        raise Refused(400, f"the body is not JSON ({problem.msg} at byte {problem.pos})", "send an object") from None
    if not isinstance(given, dict):
        raise Refused(400, "the body is no JSON object", 'send one row as an object, or {"rows": [...]}')
    if list(given) != ["rows"]:
        return orjson.dumps(given)
    rows = given["rows"]
    form = 'send {"rows": [{"label": 1, "age": 33}]}'
    if not isinstance(rows, list):
        raise Refused(400, f"rows is no list: {rows!r:.40}", f"{form}; one row may be sent as an object of its own")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise Refused(400, f"rows[{number}] is no object", form)
    return b"\n".join(map(orjson.dumps, rows))


def as_json(body: Body) -> Body:
    """Return an Arrow stream as JSON lines, with null for missing values."""
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(pa.BufferReader(body.data)) as stream:
            rows = stream.read_all().to_pylist()
        options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
        lines = b"".join(orjson.dumps(row, default=float, option=options) for row in rows)
    except (pa.ArrowException, OSError, TypeError, ValueError):
        words = "the table has a column that JSON, which this model has learned from, cannot say"
        raise Refused(422, words, "send the rows as JSON lines") from None
    return body._replace(format="json", data=lines)


def groups_of(bodies: Sequence[Body]) -> list[list[Body]]:
    """Group bodies that can be read together: neighbours of one text format."""
    groups: list[list[Body]] = []
    for body in bodies:
        if groups and body.format == groups[-1][0].format != "arrow":
            groups[-1].append(body)
        else:
            groups.append([body])
    return groups


def sources_of(bodies: Sequence[Body]) -> list[Source]:
    """Join bodies into as few sources as possible."""
    return [joined(group)[0] for group in groups_of(bodies)]


def joined(group: list[Body]) -> tuple[Source, list[int]]:
    """Join a group of bodies into one source; also the line at which each body ends."""
    data = group[0].data if len(group) == 1 else b"".join(body.data for body in group)
    # The suffix names the format, since text can be ambiguous.
    source = Source(f"request{FORMATS[group[0].format][0]}", data=data)
    return source, np.cumsum([body.lines for body in group]).tolist()


def row_ranges(batches: list[Batch], ends: Sequence[int]) -> list[RowRange]:
    """Divide the rows of a source among its bodies, by the lines at which they end."""
    rejected = [bad for batch in batches for bad in batch.rejected]
    if len(ends) == 1 and not rejected:
        return [RowRange(np.ones(sum(map(len, batches)), bool), [])]
    good = np.concatenate([np.empty(0, np.int64), *(batch.lines for batch in batches)])
    lines = np.concatenate([good, np.array([bad.line for bad in rejected], np.int64)])
    order = np.argsort(lines, kind="stable")
    used, lines = (np.arange(len(lines)) < len(good))[order], lines[order]
    ranges = []
    begin = first = 0
    for k, end in enumerate(ends):
        last = np.inf if k == len(ends) - 1 else end  # an Arrow stream has no lines
        stop = int(np.searchsorted(lines, last, side="right"))
        mine = [bad._replace(line=bad.line - first) for bad in rejected if first < bad.line <= last]
        ranges.append(RowRange(used[begin:stop], mine))
        begin, first = stop, end
    return ranges


def read_bodies(reader: Reader, columns: Columns, bodies: Sequence[Body]) -> ReadBodies:
    """Read bodies by the reader of a model; refuse all if one is invalid."""
    batches: list[tuple[Batch, News]] = []
    ranges: list[RowRange] = []
    try:
        for group in groups_of(bodies):
            # The schema of JSON names a few keys; a table needs the kind of every column.
            if group[0].format == "arrow" and not is_table_schema(reader.schema, columns):
                group = [as_json(group[0])]
            source, ends = joined(group)
            first = len(batches)
            batches += [(batch, reader.features.news()) for batch in reader.over(source, group[0].format)]
            ranges += row_ranges([batch for batch, _ in batches[first:]], ends)
        for body, rows in zip(bodies, ranges, strict=True):
            require_usable(body, rows)
    except (GiftrlError, MemoryError) as problem:
        raise as_refused(problem) from None
    return ReadBodies(batches, ranges)


def is_table_schema(schema: Schema | None, columns: Columns) -> bool:
    """Return True if a schema names every column; a schema of JSON names special keys only."""
    asked = {Kind.CATEGORY: columns.categorical, Kind.TEXT: columns.text, Kind.NUMBER: (), Kind.NUMBERS: (),
             Kind.CATEGORIES: ()}  # fmt: skip
    return schema is None or any(
        kind in asked and name not in asked[kind] for name, kind in zip(schema.names, schema.kinds, strict=True)
    )


def readable_rows(body: Body, columns: Columns, **more: Any) -> Answer:
    """Find the readable rows of a body, for any target; refuse an invalid body."""
    try:
        labels = first_labels(joined([body])[0], format=body.format, columns=columns).labels
    except GiftrlError as problem:
        raise as_refused(problem) from None
    names, source = LabelNames(sorted(set(labels)) or ["label"]), Source("request", data=b"")
    reader = Reader(source, Hashing(18), columns=columns, on_error="skip", labels=names, background=False, **more)
    (rows,) = read_bodies(reader, columns, [body]).ranges
    return Answer([None] * len(rows.used), rows.rejected, 0)


def require_usable(body: Body, rows: RowRange) -> None:
    """Refuse a body without rows, or with bad rows unless they are skipped."""
    if not len(rows.used):
        raise Refused(422, "the body has no row", 'send a row, such as {"label": 1, "age": 33}')
    if rows.rejected and not body.skip:
        words = f"{len(rows.rejected)} of {len(rows.used)} rows cannot be used, so none is learned or predicted"
        remedy = "mend them, or send them with ?on_error=skip"
        raise Refused(422, words, remedy, rows=describe_rejected(rows.rejected))


def describe_rejected(rejected: Sequence[Rejected]) -> list[dict[str, Any]]:
    """List rejected rows for an answer."""
    return [
        {"row": bad.line, "column": bad.column, "problem": bad.problem, "expected": bad.expected}
        for bad in rejected[:MAX_LISTED_ROWS]
    ]


def as_refused(problem: BaseException) -> Refused:
    """Turn an error into the answer to a request."""
    if isinstance(problem, Refused):
        return problem
    if isinstance(problem, MemoryError):
        return Refused(413, "the rows do not fit in memory", "send fewer at a time")
    if isinstance(problem, InvalidInput):
        return Refused(422, *(render(message, in_http) for message in problem.words))
    words = problem.told(in_http) if isinstance(problem, GiftrlError) else str(problem)
    return Refused(422, words, "change the rows or the settings")


def in_http(given: Given) -> str:
    """Format an argument for HTTP: a query for ``on_error``, else a setting's name and value."""
    if given.argument == "on_error":
        return f"?on_error={given.value}"
    name = {"label_values": "labels", "products": "interactions"}.get(given.argument, given.argument)
    values = given.value if isinstance(given.value, (list, tuple)) else [given.value]
    return name if given.value is ... else f"{name} {','.join(map(str, values))}"


def encode(answer: Answer, **more: Any) -> bytes:
    """Encode an answer as JSON."""
    parts: dict[str, Any] = {"predictions": answer.predictions, "examples": answer.examples, **more}
    if answer.rejected:
        parts["rejected"] = describe_rejected(answer.rejected)
    return orjson.dumps(parts)


def numbered_lines(body: Body) -> list[tuple[int, Any]]:
    """Return the number and the JSON value of each line that is not blank; None for a line that is no JSON."""
    values = []
    for number, line in enumerate(body.data.splitlines(), 1):
        if line.strip():
            try:
                values.append((number, orjson.loads(line)))
            except orjson.JSONDecodeError:
                values.append((number, None))
    return values


def labels_of(body: Body) -> dict[str, Any]:
    """Return the labels by id in a body of lines such as ``{"id": "...", "label": 1}``."""
    form = 'send {"id": "...", "label": 1}'
    if body.format != "json":
        raise Refused(415, "labels come in JSON", form)
    labels: dict[str, Any] = {}
    for number, given in numbered_lines(body):
        if not isinstance(given, dict) or set(given) != {"id", "label"} or not isinstance(given["id"], str):
            raise Refused(422, f"line {number} is not an id and a label", form)
        if given["label"] is None or isinstance(given["label"], (dict, list)):
            raise Refused(422, f"the label in line {number} is neither a number nor a text", form)
        if given["id"] in labels:
            raise Refused(422, "an id is there twice", "send each id once")
        labels[given["id"]] = given["label"]
    return labels


def unlabelled_rows(body: Body) -> list[bytes]:
    """Return the JSON rows of a body, to be remembered."""
    if body.format != "json":
        raise Refused(415, f"rows in {body.format} cannot be remembered", "send them in JSON")
    rows = numbered_lines(body)
    for number, row in rows:
        if not isinstance(row, dict):
            raise Refused(422, f"row {number} is no JSON object", 'send one object a line, such as {"age": 33}')
        if "label" in row:
            raise Refused(422, f"row {number} has its label already", "send it to learn, or leave out the label")
    return [orjson.dumps(row) for _, row in rows]


def require_unlabelled(rows: Mapping[str, bytes | None]) -> None:
    """Refuse labels unless every row waits for one; a row is None for an unknown id, empty if labelled."""

    def named(names: list[str]) -> str:
        return f"prediction {names[0]!r:.60}" + f", and {len(names) - 1} more," * (len(names) > 1)

    unknown = [name for name, row in rows.items() if row is None]
    if unknown:
        remedy = "label a prediction within its time, by the id that it was given"
        raise Refused(404, f"no {named(unknown)} is remembered", remedy)
    labelled = [name for name, row in rows.items() if not row]
    if labelled:
        words = f"the {named(labelled)} has its label already, and no label of this request was learned"
        remedy = "send the other ids alone; to repeat a request, use its Idempotency-Key again"
        raise Refused(409, words, remedy, labelled=labelled)


def require_small_stream(data: bytes, rows: int, size: int) -> None:
    """Refuse a damaged, compressed or too large stream before it is unpacked."""
    import pyarrow as pa

    from giftrl.streams.tables.arrow import require_valid

    counted = unpacked = 0
    try:
        messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(data))
        for message in messages:
            counted += _rows(message.metadata.to_pybytes())
            if counted > rows:
                raise Refused(413, f"the body has more than {rows} rows", "send fewer at a time")
        with pa.ipc.open_stream(pa.BufferReader(data)) as batches:
            for batch in batches:
                require_valid(batch, "the body")
                unpacked += batch.nbytes + 8 * sum(map(_cells, batch.columns))
                if unpacked > size:
                    raise Refused(413, "the body is too large in memory", "send fewer rows at a time")
    except BadSource as problem:
        raise Refused(422, str(problem.rule), "write it with pyarrow.ipc.new_stream") from None
    except (pa.ArrowException, OSError, EOFError, ValueError, struct.error, IndexError):
        raise Refused(400, "the body is no sound Arrow stream", "write it with pyarrow.ipc.new_stream") from None


def _cells(array: Any) -> int:
    """The number of values in an array, items of lists included: null values need no memory before they are read."""
    import pyarrow.types as pt

    array = getattr(array, "storage", array)
    inner: list[Any] = []
    if pt.is_struct(array.type) or pt.is_map(array.type):
        inner = array.flatten() if pt.is_struct(array.type) else [array.keys, array.items]
    elif hasattr(array.type, "value_field"):
        inner = [array.flatten()]
    return len(array) + sum(map(_cells, inner))


def _rows(message: bytes) -> int:
    """Number of rows in a message; refused if they are compressed."""
    (root,) = struct.unpack_from("<I", message)
    kind = _field(message, root, HEADER_TYPE)
    if kind is None or message[kind] not in (DICTIONARY, RECORDS):
        return 0
    table = _table(message, root, HEADER)
    records = table if message[kind] == RECORDS else _table(message, table, DICTIONARY_ROWS)
    if _field(message, records, COMPRESSION) is not None:
        raise Refused(415, "the Arrow stream is compressed", "write it without compression")
    length = _field(message, records, LENGTH)
    return 0 if length is None else abs(int(struct.unpack_from("<q", message, length)[0]))


def _field(message: bytes, table: int, number: int) -> int | None:
    """Offset of a field of a FlatBuffers table; None if the table does not have it."""
    fields = table - struct.unpack_from("<i", message, table)[0]
    if fields < 0:
        raise ValueError("a table before the message")
    if 4 + 2 * number >= struct.unpack_from("<H", message, fields)[0]:
        return None
    (offset,) = struct.unpack_from("<H", message, fields + 4 + 2 * number)
    return table + offset if offset else None


def _table(message: bytes, table: int, number: int) -> int:
    """Offset of the table that a field of another one refers to."""
    place = _field(message, table, number)
    if place is None:
        raise ValueError("no such table")
    return int(place + struct.unpack_from("<I", message, place)[0])
