"""The model file: a safetensors file with a versioned header and a checksum over every byte.

A safetensors file is eight bytes with the length of a JSON text, that text, and the arrays. The text says where each
array lies, and has two entries of ours in its metadata: ``giftrl``, itself JSON, with ``format``, ``version`` and
``content`` (the header of the caller); and ``sha256``, the digest of the whole file with its own digits read as zeros.
Any reader of safetensors can open a model file. Nothing in one is ever run.

The container is read and written here and not by the safetensors package (which the tests hold it against): the package
copies every array on both ways and has no place for a digest of the file, and its order of arrays is not ours to
promise. Same contents, same bytes: arrays are in a fixed order, keys are sorted and there is no time stamp.
"""

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from io import FileIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import ModelFileError, require
from giftrl.files import file_errors, write
from giftrl.models.header import from_json, parse, to_json

__all__ = ["load", "save"]

Array = NDArray[Any]

FORMAT, VERSION = "giftrl-model", 1
#: The longest JSON text. Parsing takes up to about twenty times its length in memory.
LONGEST = 1 << 23
#: NumPy 1 has no more.
DIMENSIONS = 32
NO_DIGEST = "0" * 64

DTYPES = {
    f"{kind}{bits}": np.dtype(f"<{letter}{bits // 8}")
    for kind, letter, widths in (("F", "f", (16, 32, 64)), ("I", "i", (8, 16, 32, 64)), ("U", "u", (8, 16, 32, 64)))
    for bits in widths
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

AGAIN = "restore it from a copy or save the model again"


class Entry(NamedTuple):
    """Where an array lies, in bytes from the end of the JSON text."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def save(path: str | os.PathLike[str], arrays: Mapping[str, Array], header: dict[str, Any]) -> None:
    """Write a model file, whole or not at all; an earlier file of that name stays as it was if anything fails.

    Args:
        path: of the file; its folder must exist.
        arrays: by name; of integers or floats.
        header: anything that JSON can hold, and infinities and NaN.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/a.giftrl", {"x": np.arange(3)}, {"beta": 1.0})
    ...     os.path.getsize(f"{folder}/a.giftrl")
    264
    """
    require(isinstance(arrays, Mapping), "arrays", arrays, "must be a dict of arrays by name", "use {'x': x}")
    require(type(header) is dict, "header", header, "must be a dict", "use {} for no header")
    ordered = [(name, _little_endian(name, array)) for name, array in arrays.items()]
    # Wide numbers first, so that every array starts at a multiple of its own width.
    ordered.sort(key=lambda item: (-item[1].itemsize, item[0]))
    version = {"content": to_json(header), "format": FORMAT, "version": VERSION}
    text = json.dumps(version, sort_keys=True, separators=(",", ":"), allow_nan=False)
    start = _text(ordered, text, NO_DIGEST)
    length = len(start) - 8
    require(length <= LONGEST, "header", "...", f"must take at most {LONGEST} bytes", "keep long lists as arrays")
    total = hashlib.sha256(start)
    for _, array in ordered:
        total.update(_bytes(array))
    start = _text(ordered, text, total.hexdigest())
    write(path, [start, *(_bytes(array) for _, array in ordered)])


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the header of a model file.

    The file is read once, into memory that all arrays share; they can be written to. A file that is damaged, or was not
    made by :func:`save`, or by one of a later version, is a :class:`ModelFileError`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/a.giftrl", {"x": np.arange(3)}, {"beta": 1.0})
    ...     load(f"{folder}/a.giftrl")
    ({'x': array([0, 1, 2])}, {'beta': 1.0})
    """
    with file_errors(path), FileIO(os.fspath(path), opener=_open) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ModelFileError(
                path, "is a folder, a device or a pipe and not a file", "give the name of a model file"
            )
        try:
            return _read(file, found.st_size)
        except _Problem as problem:
            raise ModelFileError(path, *problem.args) from problem.__cause__
        except MemoryError as error:
            raise ModelFileError(path, "does not fit in memory", "load it on a larger machine") from error


class _Problem(Exception):
    """What is wrong with a file, and what to do; :func:`load` adds its name."""

    def __init__(self, problem: str, remedy: str = AGAIN) -> None:
        super().__init__(problem, remedy)


def _open(path: str, flags: int) -> int:
    # A pipe without a writer would make a plain open wait for ever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _little_endian(name: str, array: Array) -> Array:
    """An array as it is written: little-endian, in C order, without a copy where it is that already."""
    require(isinstance(name, str) and name != "__metadata__", "arrays", name, "is no name for an array", "use another")
    require(name.isprintable(), "arrays", name, "must have names of printable characters", "use another name")
    given = np.asarray(array)
    known = given.dtype.newbyteorder("<")
    where = f"arrays[{name!r}]"
    require(known in NAMES, where, given.dtype, "must be of integers or floats of at most 64 bits", "use astype")
    require(given.ndim <= DIMENSIONS, where, given.shape, f"must have at most {DIMENSIONS} dimensions", "use reshape")
    return np.asarray(given, dtype=known, order="C")


def _bytes(array: Array) -> Any:
    # A memoryview of an array without elements cannot be cast to bytes.
    return array.reshape(-1).view(np.uint8).data if array.size > 0 else b""


def _text(arrays: list[tuple[str, Array]], giftrl: str, digest: str) -> bytes:
    """The start of a file: the length of the JSON text, and the text, with spaces up to a multiple of eight bytes."""
    table: dict[str, Any] = {"__metadata__": {"giftrl": giftrl, "sha256": digest}}
    begin = 0
    for name, array in arrays:
        end = begin + array.nbytes
        table[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _read(file: FileIO, size: int) -> tuple[dict[str, Array], dict[str, Any]]:
    if size < 8:
        raise _Problem(f"has {size} bytes, too few for a model file")
    start = bytearray(8)
    _fill(file, start)
    length = int.from_bytes(start, "little")
    if length > LONGEST:
        raise _Problem("does not begin like a model file", "check that it is one")
    if length > size - 8:
        raise _Problem(f"ends after {size} bytes, within its header: it was cut off, or is no model file")
    text = bytearray(length)
    _fill(file, text)
    try:
        table = parse(text.decode())
    except ValueError as error:
        raise _Problem(f"has a header that cannot be read ({_short(error)})", f"{AGAIN}, if it was one") from error
    content, digest = _metadata(table)
    entries = _entries(table)
    total = max((entry.end for entry in entries), default=0)
    if total != size - 8 - length:
        raise _Problem(f"should hold {total} bytes of arrays and holds {size - 8 - length}: it was cut off or damaged")
    memory = _physical_memory()
    if total > memory:
        raise _Problem(f"holds {total} bytes, and this machine has {memory} of memory", "load it on a larger machine")
    data = np.empty(total, np.uint8)
    _fill(file, data.data)
    _check(bytes(start), bytes(text), data, digest)
    try:
        header = from_json(content)
    except ValueError as error:
        raise _Problem(f"has settings that cannot be read ({_short(error)})") from error
    if not isinstance(header, dict):
        raise _Problem("has settings that are not a table")
    return {entry.name: _array(data, entry) for entry in sorted(entries)}, header


def _fill(file: FileIO, room: Any) -> None:
    """Read until the room is full."""
    left = memoryview(room)
    while len(left) > 0:
        got = file.readinto(left[: 1 << 30])
        if not got:
            raise _Problem("ended early: something shortened it meanwhile")
        left = left[got:]


def _metadata(table: Any) -> tuple[Any, str]:
    """The content of our entry, still as JSON, and the digest."""
    foreign = "has no giftrl header: another program wrote it", "give a file that giftrl saved"
    metadata = table.get("__metadata__") if isinstance(table, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("giftrl"), str):
        raise _Problem(*foreign)
    try:
        ours = parse(metadata["giftrl"])
    except ValueError as error:
        raise _Problem(f"has a giftrl header that cannot be read ({_short(error)})") from error
    if not isinstance(ours, dict) or ours.get("format") != FORMAT or type(ours.get("version")) is not int:
        raise _Problem(*foreign)
    if ours["version"] > VERSION:
        problem = f"has version {str(ours['version'])[:80]} of the format, and this giftrl reads up to {VERSION}"
        raise _Problem(problem, "install a later giftrl")
    digest = metadata.get("sha256")
    if (
        ours["version"] < 1
        or ours.keys() != {"content", "format", "version"}
        or metadata.keys() != {"giftrl", "sha256"}
    ):
        raise _Problem("has a damaged giftrl header")
    if not isinstance(digest, str) or re.fullmatch("[0-9a-f]{64}", digest) is None:
        raise _Problem("has a damaged checksum")
    return ours["content"], digest


def _entries(table: dict[str, Any]) -> list[Entry]:
    """The table of arrays, which must lie one after the other without gaps."""
    entries = [_entry(name, info) for name, info in table.items() if name != "__metadata__"]
    at = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != at:
            raise _Problem(f"has arrays that overlap, or a gap between them, at {entry.name[:80]!r}")
        at = entry.end
    return entries


def _entry(name: str, info: Any) -> Entry:
    bad = f"has a damaged entry for the array {name[:80]!r}"
    if not isinstance(info, dict) or info.keys() != {"dtype", "shape", "data_offsets"}:
        raise _Problem(bad)
    shape, offsets = info["shape"], info["data_offsets"]
    if not isinstance(info["dtype"], str) or not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise _Problem(bad)
    if info["dtype"] not in DTYPES:
        raise _Problem(
            f"has an array {name[:80]!r} of type {info['dtype'][:80]!r}, which is none of {', '.join(DTYPES)}"
        )
    dtype = DTYPES[info["dtype"]]
    # NumPy refuses a shape whose other dimensions are too large even where one of them is 0.
    largest = math.prod(size for size in shape if size > 0) * dtype.itemsize if len(shape) <= DIMENSIONS else 1 << 63
    if largest >= 1 << 63 or offsets[1] - offsets[0] != (0 if 0 in shape else largest):
        raise _Problem(bad)
    return Entry(name, dtype, tuple(shape), offsets[0], offsets[1])


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int and 0 <= number < 1 << 63 for number in value)


def _check(start: bytes, text: bytes, data: Array, digest: str) -> None:
    written = digest.encode()
    total = hashlib.sha256(start + text.replace(written, NO_DIGEST.encode()))
    total.update(data.data)
    if text.count(written) != 1 or total.hexdigest() != digest:
        raise _Problem("is damaged: its checksum is not that of its contents")


def _array(data: Array, entry: Entry) -> Array:
    array = data[entry.begin : entry.end].view(entry.dtype).reshape(entry.shape)
    native = entry.dtype.newbyteorder("=")
    return np.require(array, dtype=native, requirements=["A", "W"])


def _physical_memory() -> int:
    """Bytes, as far as the system says."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def _short(error: Exception) -> str:
    return str(error)[:120]
