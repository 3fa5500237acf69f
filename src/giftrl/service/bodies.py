"""The bodies of requests: rows in JSON, JSON lines, LIBSVM or VW text, or an Arrow stream, as the readers take them."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from giftrl.errors import BadSource, GiftrlError, Given, InvalidInput, Refused, render
from giftrl.streams.batch import Batch, Rejected
from giftrl.streams.formats import FORMATS, HEAD, detect
from giftrl.streams.sources.lines import BOM
from giftrl.streams.sources.source import Source

#: The formats of bodies.
KNOWN = ("json", "libsvm", "vw", "arrow")
#: The format of each type of content; the format of any other type is found by the first bytes.
TYPES = {
    "application/json": "json",
    "application/x-ndjson": "json",
    "application/jsonl": "json",
    "text/x-libsvm": "libsvm",
    "text/x-vw": "vw",
    "application/vnd.apache.arrow.stream": "arrow",
}
ROWS = "rows"


class Body(NamedTuple):
    """Rows of one request.

    Args:
        format: one of :data:`KNOWN`.
        data: the rows; text ends with a newline.
        skip: whether rows that cannot be used are left out; otherwise they make the service refuse all of them.
    """

    format: str
    data: bytes
    skip: bool = False

    @property
    def lines(self) -> int:
        """How many lines of text there are; an Arrow stream has none."""
        return 0 if self.format == "arrow" else self.data.count(b"\n")


def read_body(data: bytes, content_type: str = "", asked: str | None = None, *, skip: bool = False) -> Body:
    """The rows of a body.

    Args:
        data: one row as a JSON object, ``{"rows": [...]}``, lines of text, or an Arrow stream.
        content_type: as the request says.
        asked: the format, where the request names one.
        skip: as for :class:`Body`.

    >>> read_body(b'{"rows": [{"label": 1, "age": 33}, {"label": 0}]}').data
    b'{"label":1,"age":33}\\n{"label":0}\\n'
    >>> read_body(b"1 3:0.5").format
    'libsvm'
    """
    data = data.removeprefix(BOM)
    if not data or data.isspace():
        raise Refused(400, "the body is empty", 'send a row, such as {"label": 1, "age": 33}')
    format_ = asked or _format_of(content_type) or _found(data)
    if format_ not in KNOWN:
        raise Refused(415, f"bodies cannot be {format_!r:.40}", f"send one of {', '.join(KNOWN)}")
    if format_ == "arrow":
        return Body(format_, data, skip)
    lines = _json_lines(data) if format_ == "json" else data
    return Body(format_, lines if lines.endswith(b"\n") else lines + b"\n", skip)


@functools.lru_cache(64)
def _format_of(content_type: str) -> str | None:
    return TYPES.get(content_type.partition(";")[0].strip().lower())


def _found(data: bytes) -> str:
    if data.lstrip()[:1] in (b"{", b"["):
        return "json"
    try:
        return detect(data[:HEAD], "the body")
    except BadSource as problem:
        raise Refused(415, str(problem.rule), "say which by ?format=json, libsvm, vw or arrow") from None


def _json_lines(data: bytes) -> bytes:
    """JSON as lines of one object each."""
    data = data.strip()
    one_line = b"\n" not in data
    if one_line and not data.startswith((b'{"rows"', b"[")) and b'"rows"' not in data[:64]:
        return data  # which the reader will look at
    try:
        given = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        if not one_line:
            return data
        raise Refused(400, f"the body is not JSON ({problem.msg} at byte {problem.pos})", "send an object") from None
    if not isinstance(given, dict):
        raise Refused(400, "the body is no JSON object", 'send one row as an object, or {"rows": [...]}')
    rows = given.get(ROWS)
    if ROWS in given and len(given) == 1 and not isinstance(rows, list):
        words = 'send {"rows": [{"label": 1, "age": 33}]}; one row may be sent as an object of its own'
        raise Refused(400, f"rows is no list: {rows!r:.40}", words)
    if not isinstance(rows, list) or len(given) != 1:
        return orjson.dumps(given)
    return b"\n".join(_line(number, row) for number, row in enumerate(rows))


def _line(number: int, row: Any) -> bytes:
    if not isinstance(row, dict):
        raise Refused(400, f"rows[{number}] is no object", 'send {"rows": [{"label": 1, "age": 33}]}')
    return orjson.dumps(row)


def as_json(entry: Body) -> Body:
    """An Arrow stream as JSON lines, which say the same: null where nothing is.

    >>> import pyarrow as pa
    >>> sink = pa.BufferOutputStream()
    >>> with pa.ipc.new_stream(sink, pa.schema([("a", pa.float64())])) as writer:
    ...     writer.write_table(pa.table({"a": [1.0, None]}))
    >>> as_json(Body("arrow", sink.getvalue().to_pybytes())).data
    b'{"a":1.0}\\n{"a":null}\\n'
    """
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(pa.BufferReader(entry.data)) as stream:
            rows = stream.read_all().to_pylist()
        options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
        return entry._replace(
            format="json", data=b"".join(orjson.dumps(row, default=float, option=options) for row in rows)
        )
    except (pa.ArrowException, OSError, TypeError, ValueError):
        words = "the table has a column that JSON, which this model has learnt from, cannot say"
        raise Refused(422, words, "send the rows as JSON lines") from None


def sources(entries: list[Body]) -> list[tuple[Source, list[int]]]:
    """Entries as few sources, in order: text of one format is joined, with the line at which each entry ends.

    >>> [(source.name, ends) for source, ends in sources([Body("vw", b"|a\\n"), Body("vw", b"|b\\n|c\\n")])]
    [('request.vw', [1, 3])]
    """
    found = []
    for group in groups_of(entries):
        ends, line = [], 0
        for entry in group:
            line += entry.lines
            ends.append(line)
        data = group[0].data if len(group) == 1 else b"".join(entry.data for entry in group)
        # The name shows the format where the text could be of several.
        found.append((Source(f"request{FORMATS[group[0].format][0]}", data=data), ends))
    return found


def groups_of(entries: list[Body]) -> list[list[Body]]:
    """Entries in order, those of text of one format together."""
    groups: list[list[Body]] = []
    for entry in entries:
        if groups and entry.format == groups[-1][0].format != "arrow":
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


# What each request has of rows that were read together, and what becomes of it.

#: How many rows that cannot be used an answer lists.
MAX_LISTED_ROWS = 20


class RowRange(NamedTuple):
    """What one entry has of a reading: the rows in order, True for those that can be used, and why others cannot."""

    used: NDArray[np.bool_]
    rejected: list[Rejected]


#: The share of an entry of one row, which can be used.
ONE_ROW = RowRange(np.ones(1, bool), [])


class Answer(NamedTuple):
    """What became of an entry: a prediction for each row, None where there is none, and the rows left out."""

    predictions: list[Any]
    rejected: list[Rejected]
    examples: int  # that the model has learnt, with these


def row_ranges(batches: list[Batch], ends: list[int]) -> list[RowRange]:
    """The part of each entry in the batches of a source, by the lines at which the entries end."""
    rejected = [each for batch in batches for each in batch.rejected]
    if len(ends) == 1 and not rejected:
        return [RowRange(np.ones(sum(map(len, batches)), bool), [])]
    good = np.concatenate([np.empty(0, np.int64), *(batch.lines for batch in batches)])
    lines = np.concatenate([good, np.array([each.line for each in rejected], np.int64)])
    order = np.argsort(lines, kind="stable")
    used = (np.arange(len(lines)) < len(good))[order]
    cuts = [len(lines)] if len(ends) == 1 else np.searchsorted(lines[order], ends, side="right").tolist()
    shares = []
    for k, (begin, end) in enumerate(zip([0, *cuts], cuts, strict=False)):
        first = 0 if k == 0 else ends[k - 1]
        last = ends[k] if len(ends) > 1 else None
        mine = [each for each in rejected if each.line > first and (last is None or each.line <= last)]
        shares.append(RowRange(used[begin:end], [each._replace(line=each.line - first) for each in mine]))
    return shares


def require_usable(entry: Body, share: RowRange) -> None:
    """Refuse an entry that has rows which cannot be used, unless these are to be left out; or that has no rows."""
    if not len(share.used):
        raise Refused(422, "the body has no row", 'send a row, such as {"label": 1, "age": 33}')
    if share.rejected and not entry.skip:
        count = len(share.rejected)
        words = f"{count} of {len(share.used)} rows cannot be used, so none is learnt or predicted"
        raise Refused(422, words, "mend them, or send them with ?on_error=skip", rows=describe_rejected(share.rejected))


def describe_rejected(rejected: Sequence[Rejected]) -> list[dict[str, Any]]:
    """Rows that cannot be used, as answers list them."""
    return [
        {"row": each.line, "column": each.column, "problem": each.problem, "expected": each.expected}
        for each in rejected[:MAX_LISTED_ROWS]
    ]


def as_refused(problem: BaseException) -> Refused:
    """An error as an answer to a request."""
    if isinstance(problem, Refused):
        return problem
    if isinstance(problem, MemoryError):
        return Refused(413, "the rows do not fit in memory", "send fewer at a time")
    if isinstance(problem, InvalidInput):
        return Refused(422, *(render(message, in_http) for message in problem.words))
    return Refused(
        422,
        problem.told(in_http) if isinstance(problem, GiftrlError) else str(problem),
        "change the rows or the settings",
    )


def in_http(given: Given) -> str:
    """An argument as requests have it: a query for ``on_error``, and else the name of a setting and its value.

    >>> in_http(Given("on_error", "skip")), in_http(Given("label_values", ["no", "yes"])), in_http(Given("label"))
    ('?on_error=skip', 'labels no,yes', 'label')
    """
    if given.argument == "on_error":
        return f"?on_error={given.value}"
    name = "labels" if given.argument == "label_values" else given.argument
    values = given.value if isinstance(given.value, (list, tuple)) else [given.value]
    return name if given.value is ... else f"{name} {','.join(map(str, values))}"
