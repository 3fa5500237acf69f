"""A file that grows: where reading goes on in it, its next lines, and whether it is the file that it was."""

import hashlib
import os
from io import FileIO
from pathlib import Path
from typing import NamedTuple

#: Bytes that are read at a time, and lines.
PIECE, LINES = 1 << 20, 5_000
#: Bytes before a place by which a file is known again; the file system may give its number to another one.
KNOWN_BY = 4096


class Place(NamedTuple):
    """Where reading goes on in a file.

    Args:
        inode: the number of the file in the file system.
        offset: the byte.
        before: a digest of the bytes before.
        passes: whether a line that is too long goes on there, of which the rest is passed over.
    """

    inode: int = 0
    offset: int = 0
    before: str = ""
    passes: bool = False


def is_same(file: FileIO, place: Place) -> bool:
    """Whether a place is one of this file."""
    same = os.fstat(file.fileno()).st_ino == place.inode
    return same and place.before in ("", before(file, place.offset))


def before(file: FileIO, offset: int) -> str:
    """A digest of the last bytes before a place in a file; of other bytes where the file ends before that place."""
    file.seek(max(0, offset - KNOWN_BY))
    data = file.read(min(offset, KNOWN_BY))
    return hashlib.sha256(data).hexdigest()[:32]


def to_line_end(file: FileIO, offset: int, most: int) -> tuple[int, bool]:
    """How many bytes there are up to the end of a line, and whether it ends; of more than ``most`` bytes, not all.

    >>> import tempfile
    >>> with tempfile.TemporaryFile(buffering=0) as file:
    ...     _ = file.write(b"one\\ntwo")
    ...     to_line_end(file, 0, 100), to_line_end(file, 4, 100)
    ((4, True), (3, False))
    """
    file.seek(offset)
    length = 0
    while length <= most and (data := file.read(PIECE)):
        end = data.find(b"\n") + 1
        length += end or len(data)
        if end:
            return length, True
    return length, False


def whole_lines(file: FileIO, offset: int, most: int) -> bytes:
    """The next lines of a file, as many as there are in so many bytes."""
    file.seek(offset)
    data = file.read(most)
    data = data[: data.rfind(b"\n") + 1]
    lines = data.split(b"\n", LINES)
    return data if len(lines) <= LINES else data[: len(data) - len(lines[-1])]


def replaced(file: FileIO, path: Path) -> bool:
    """Whether a path leads to another file than the one that is open."""
    try:
        return not os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:  # renamed, and the next one is not there yet
        return False
