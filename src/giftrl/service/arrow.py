"""Arrow streams that are no larger in memory than they look."""

import struct
from typing import Any

from giftrl.errors import BadSource, Refused

#: The field numbers, in the tables of Arrow's format, of a message's header and its type, of a dictionary's rows, and
#: of the compression of rows. (https://github.com/apache/arrow/blob/main/format/Message.fbs)
HEADER_TYPE, HEADER, DICTIONARY_ROWS, LENGTH, COMPRESSION = 1, 2, 1, 0, 3
DICTIONARY, RECORDS = 2, 3


def require_small(data: bytes, rows: int, size: int) -> None:
    """Refuse a stream that is damaged or compressed, or has too many rows; before anything of it is unpacked.

    Args:
        data: the stream.
        rows: the most rows that it may have.
        size: the most bytes that its batches may have in memory.

    >>> import pyarrow as pa
    >>> sink = pa.BufferOutputStream()
    >>> with pa.ipc.new_stream(sink, pa.schema([("a", pa.float64())])) as writer:
    ...     writer.write_table(pa.table({"a": [1.0, 2.0]}))
    >>> require_small(sink.getvalue().to_pybytes(), 1, 1000)
    Traceback (most recent call last):
    giftrl.errors.Refused: the body has more than 1 rows; send fewer at a time
    """
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
    """How many rows a message has; refused where these are compressed."""
    (root,) = struct.unpack_from("<I", message)
    kind = _field(message, root, HEADER_TYPE)
    if kind is None or message[kind] not in (DICTIONARY, RECORDS):
        return 0
    table = _table(message, root, HEADER)
    records = table if message[kind] == RECORDS else _table(message, table, DICTIONARY_ROWS)
    if _field(message, records, COMPRESSION) is not None:
        raise Refused(415, "the Arrow stream is compressed", "write it without compression")
    length = _field(message, records, LENGTH)
    count = 0 if length is None else struct.unpack_from("<q", message, length)[0]
    return abs(int(count))


def _field(message: bytes, table: int, number: int) -> int | None:
    """Where a field of a table is, as FlatBuffers store it; None where the table does not have it."""
    (back,) = struct.unpack_from("<i", message, table)
    fields = table - back
    if fields < 0:
        raise ValueError("a table before the message")
    (size,) = struct.unpack_from("<H", message, fields)
    if 4 + 2 * number >= size:
        return None
    (offset,) = struct.unpack_from("<H", message, fields + 4 + 2 * number)
    return table + offset if offset else None


def _table(message: bytes, table: int, number: int) -> int:
    """Where a table is that a field of another one leads to."""
    place = _field(message, table, number)
    if place is None:
        raise ValueError("no such table")
    (offset,) = struct.unpack_from("<I", message, place)
    return int(place + offset)
