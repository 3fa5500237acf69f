"""Model files: named arrays and a header of settings. A model file contains no code.

A model file is a safetensors file with our settings in its metadata, and a checksum over every byte.

A safetensors file is eight bytes with the length of a JSON text, that text, and the arrays. Its metadata has one entry
of ours, ``giftrl``, itself JSON: ``sha256``, the digest of the whole file with its own digits as zeros; ``format``;
``version``; and ``content``, the header of the caller. Any reader of safetensors can open a model file.
:mod:`giftrl.config.upgrade` converts files of earlier versions.

Equal contents give equal bytes: arrays are sorted by type and name, JSON keys are sorted, and there is no time stamp.
"""

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterable, Mapping
from io import FileIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from giftrl.config.upgrade import metadata_of_now
from giftrl.errors import InvalidInput, ModelFileError, require
from giftrl.files import file_errors, require_replaceable, write
from giftrl.system import open_at_once, physical_memory

__all__ = ["ModelFileError", "load", "save"]

Array = NDArray[Any]

FORMAT, VERSION = "giftrl-model", 2
#: The longest JSON text. Parsing takes up to about twenty times its length in memory.
MAX_HEADER_BYTES = 1 << 23
#: The limit of NumPy 1.
MAX_DIMENSIONS = 32
NO_DIGEST = "0" * 64
#: Array types by their names in safetensors files, in reverse order of storage.
DTYPES = {
    f"{kind.upper()}{bits}": np.dtype(f"{kind}{bits // 8}")
    for bits, kinds in ((8, "ui"), (16, "iuf"), (32, "iuf"), (64, "fiu"))
    for kind in kinds
}
TOO_LONG = f"must take at most {MAX_HEADER_BYTES} bytes"
RESTORE_OR_SAVE_AGAIN = "restore it from a copy or save the model again"


def save(path: str | os.PathLike[str], arrays: Mapping[str, Array], header: dict[str, Any]) -> None:
    """Write a model file atomically; on failure an earlier file of that name stays.

    Args:
        path: of the file; its folder must exist.
        arrays: by name; of integers or floats.
        header: JSON values, and also infinities and NaN.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/a.giftrl", {"x": np.arange(3)}, {"beta": 1.0})
    ...     os.path.getsize(f"{folder}/a.giftrl")
    272
    """
    require(isinstance(arrays, Mapping), "arrays", arrays, "must be a dict of arrays by name", "use {'x': x}")
    require(type(header) is dict, "header", header, "must be a dict", "use {} for no header")
    checked = {name: _checked(name, array) for name, array in arrays.items()}
    content = json.dumps(to_json(header), sort_keys=True, separators=(",", ":"), allow_nan=False)
    # The digest comes first, so that the caller's text cannot be mistaken for it.
    ours = f'{{"sha256":"{NO_DIGEST}","format":"{FORMAT}","version":{VERSION},"content":{content}}}'
    names = sorted(checked, key=lambda name: (-list(DTYPES.values()).index(checked[name].dtype), name.encode()))
    start = _start(ours, {name: checked[name] for name in names})
    require(len(start) <= MAX_HEADER_BYTES, "header", "...", TOO_LONG, "keep long lists as arrays")
    bodies = [checked[name].reshape(-1).view(np.uint8) for name in names if checked[name].size]
    digest = _digest(start, bodies)
    require_replaceable(path)  # a regular file
    write(path, [start.replace(NO_DIGEST.encode(), digest.encode(), 1), *bodies])


def _start(ours: str, arrays: dict[str, Array]) -> bytes:
    """The start of a file: the length of the JSON text, and the text, padded with spaces to 8 bytes."""
    end = 0
    table: dict[str, Any] = {"__metadata__": {"giftrl": ours}}
    names = {dtype: name for name, dtype in DTYPES.items()}
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        table[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Load the arrays (writable) and the header of a model file. Raises :class:`ModelFileError` for a file that is
    damaged, of a later version, or not from :func:`save`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/a.giftrl", {"x": np.arange(3)}, {"beta": 1.0})
    ...     load(f"{folder}/a.giftrl")
    ({'x': array([0, 1, 2])}, {'beta': 1.0})
    """
    # A pipe without a writer would make a plain open wait for ever.
    with file_errors(path), FileIO(os.fspath(path), opener=open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            problem = "is a folder, a device or a pipe and not a file"
            raise ModelFileError(path, problem, "give the name of a model file")
        try:
            return _read(file, status.st_size)
        except _Problem as found:
            raise ModelFileError(path, *found.args) from found.__cause__
        except MemoryError as error:
            raise ModelFileError(path, "does not fit in memory", "load it on a larger machine") from error


class _Problem(Exception):
    """A problem with a file, and the remedy; :func:`load` adds the file name."""

    def __init__(self, problem: str, remedy: str = RESTORE_OR_SAVE_AGAIN) -> None:
        super().__init__(problem, remedy)


def _checked(name: str, array: Array) -> Array:
    """Convert an array to C order and native byte order; copied only if necessary."""
    require(isinstance(name, str) and name != "__metadata__", "arrays", name, "is no name for an array", "use another")
    require(name.isprintable(), "arrays", name, "must have names of printable characters", "use another name")
    given = np.asarray(array)
    native = given.dtype.newbyteorder("=")
    where = f"arrays[{name!r}]"
    known = native in DTYPES.values()
    require(known, where, given.dtype, "must be of integers or floats of at most 64 bits", "use astype")
    rule = f"must have at most {MAX_DIMENSIONS} dimensions"
    require(given.ndim <= MAX_DIMENSIONS, where, given.shape, rule, "use reshape")
    return np.asarray(given, dtype=native, order="C")


def _digest(start: bytes, bodies: Iterable[NDArray[np.uint8]]) -> str:
    total = hashlib.sha256(start)
    for body in bodies:
        total.update(body.data)
    return total.hexdigest()


def _read(file: FileIO, size: int) -> tuple[dict[str, Array], dict[str, Any]]:
    if size < 8:
        raise _Problem(f"has {size} bytes, too few for a model file")
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if start == b"Version ":
        text = "it begins like the text of a model of Vowpal Wabbit, which giftrl certify --weights reads"
        raise _Problem("does not begin like a model file", text)
    if length > MAX_HEADER_BYTES:
        raise _Problem("does not begin like a model file", "check that it is one")
    if length > size - 8:
        raise _Problem(f"ends after {size} bytes, within its header: it was cut off, or is no model file")
    start += file.read(length)
    memory = physical_memory()
    if size > memory:
        raise _Problem(f"holds {size} bytes, and this machine has {memory} of memory", "load it on a larger machine")
    # Open by file descriptor if possible, since another process may replace the file meanwhile.
    name = f"/dev/fd/{file.fileno()}"
    try:
        with safe_open(name if os.path.exists(name) else file.name, "np", backend="pread") as opened:  # noqa: PTH110
            content, digest = _metadata(opened.metadata())
            order = opened.offset_keys()
            for each in order:
                dtype = opened.get_slice(each).get_dtype()
                if dtype not in DTYPES:
                    known = ", ".join(DTYPES)
                    raise _Problem(f"has an array {each[:80]!r} of type {dtype!r}, which is none of {known}")
            arrays = {each: np.require(opened.get_tensor(each), requirements=["A", "W"]) for each in order}
    except (SafetensorError, ValueError) as error:
        said = _short(error).removeprefix("Error while deserializing header: ")
        raise _Problem(f"cannot be read: it was cut off or damaged ({said})") from error
    zeroed = start.replace(digest.encode(), NO_DIGEST.encode(), 1)
    if _digest(zeroed, (array.reshape(-1).view(np.uint8) for array in arrays.values() if array.size)) != digest:
        raise _Problem("is damaged: its checksum is not that of its contents")
    try:
        header = from_json(content)
    except ValueError as error:
        raise _Problem(f"has settings that cannot be read ({_short(error)})") from error
    if not isinstance(header, dict):
        raise _Problem("has settings that are not a table")
    return {each: arrays[each] for each in sorted(arrays)}, header


def _metadata(metadata: dict[str, str] | None) -> tuple[Any, str]:
    """The content of our entry as JSON text, and the digest."""
    foreign = _Problem("has no giftrl header: another program wrote it", "give a file that giftrl saved")
    if metadata is None or "giftrl" not in metadata:
        raise foreign
    try:
        ours = parse(metadata["giftrl"])
    except ValueError as error:
        raise _Problem(f"has a giftrl header that cannot be read ({_short(error)})") from error
    if not isinstance(ours, dict) or ours.get("format") != FORMAT or type(ours.get("version")) is not int:
        raise foreign
    version = ours["version"]
    if version > VERSION:
        problem = f"has version {str(version)[:80]} of the format, and this giftrl reads up to {VERSION}"
        raise _Problem(problem, "install a later giftrl")
    metadata, ours = metadata_of_now(metadata, ours)
    if version < 1 or ours.keys() != {"content", "format", "version", "sha256"} or len(metadata) != 1:
        raise _Problem("has a damaged giftrl header")
    digest = ours["sha256"]
    if not isinstance(digest, str) or re.fullmatch("[0-9a-f]{64}", digest) is None:
        raise _Problem("has a damaged checksum")
    return ours["content"], digest


def _short(error: Exception) -> str:
    return str(error)[:120]


# Settings as JSON text and back, without loss.
# A header contains None, bool, int, float, str, lists, and dicts with str keys. Infinities and NaN are written as
# ``{"$float": "inf"}``, so keys must not begin with ``$``.

#: The deepest nesting of lists and dicts.
MAX_HEADER_DEPTH = 64
#: The longest integer in bits: Python reads and writes numbers of 640 digits under any setting.
MAX_INTEGER_BITS = 2048

NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_json(header: object, argument: str = "header", depth: int = 0) -> Any:
    """Convert a header for json.dumps.

    >>> to_json({"upper": float("inf"), "names": ["a", None]})
    {'upper': {'$float': 'inf'}, 'names': ['a', None]}
    """
    rule = f"must not be nested deeper than {MAX_HEADER_DEPTH}"
    require(depth <= MAX_HEADER_DEPTH, argument, "...", rule, "flatten the header")
    if header is None or isinstance(header, bool):
        return header
    if isinstance(header, str):
        return str(header)
    if isinstance(header, int):
        rule = f"must have at most {MAX_INTEGER_BITS} bits"
        require(header.bit_length() <= MAX_INTEGER_BITS, argument, "...", rule, "write it as a str")
        return int(header)
    if isinstance(header, float):
        return float(header) if math.isfinite(header) else {"$float": str(float(header))}
    if type(header) is list:
        return [to_json(item, f"{argument}[{i}]", depth + 1) for i, item in enumerate(header)]
    if type(header) is dict:
        for key in header:
            require(isinstance(key, str), argument, key, "must have str keys", "use str(key)")
            require(not key.startswith("$"), argument, key, "must not have keys that begin with $", "rename the key")
        return {str(key): to_json(item, f"{argument}[{key!r}]", depth + 1) for key, item in header.items()}
    rule = "must be None, bool, int, float, str, list or dict"
    raise InvalidInput(argument, header, rule, "convert it; arrays have their own place")


def from_json(value: Any, depth: int = 0) -> Any:
    """The inverse of :func:`to_json`; ValueError for invalid input.

    >>> from_json({"upper": {"$float": "inf"}})
    {'upper': inf}
    """
    if depth > MAX_HEADER_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_HEADER_DEPTH}")
    if isinstance(value, list):
        return [from_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"$float"} and isinstance(value["$float"], str) and value["$float"] in NOT_FINITE:
            return NOT_FINITE[value["$float"]]
        for key in value:
            if key.startswith("$"):
                raise ValueError(f"it has an unknown key {key[:80]!r}")
        return {key: from_json(item, depth + 1) for key, item in value.items()}
    return value


def parse(text: str) -> Any:
    """Parse JSON strictly: a key that appears twice, NaN or a number beyond float64 is a ValueError.

    >>> parse('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:80]} is beyond float64")
    return number
