"""Sources of rows: files, globs, directories and standard input, compressed or not."""

import glob
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from giftrl.errors import BadSource, InvalidInput, require
from giftrl.files import is_stream
from giftrl.streams.sources.decompress import PIECE_BYTES, Broken, codec_of, decompressed

STANDARD_INPUT = "-"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Source(NamedTuple):
    """A file, standard input, bytes in memory, or bytes from elsewhere."""

    name: str
    path: Path | None = None  # None for all that is no file of this machine
    data: bytes | None = None  # the bytes themselves, which are never decompressed
    opener: Callable[[], Any] | None = None  # opens bytes from elsewhere, as often as it is called

    @property
    def is_input(self) -> bool:
        """True for standard input."""
        return self.path is None and self.data is None and self.opener is None

    @property
    def size(self) -> int | None:
        """The number of bytes; None if it is not known ahead."""
        if self.data is not None:
            return len(self.data)
        return self.path.stat().st_size if self.path is not None and self.path.is_file() else None

    @property
    def again(self) -> Any:
        """A path or file object for other libraries, which read from its beginning; None for standard input."""
        return self.path if self.opener is None else self.opener()


Named = str | os.PathLike[str] | Source


def is_url(name: str | os.PathLike[str]) -> bool:
    """True if a name is a URL.

    >>> is_url("s3://bucket/a.svm"), is_url("a.svm")
    (True, False)
    """
    return _URL.match(os.fspath(name)) is not None


def find_sources(named: Named | Sequence[Named]) -> tuple[Source, ...]:
    """The sources that names stand for, in order: files, globs, directories, and "-" for standard input.

    A :class:`Source` stands for itself, and is not looked at again.

    All files in a directory and its subdirectories are read, in sorted order, except those whose names begin with "."
    or "_", which Spark and Arrow skip as well. Every file is opened once at the start, so that one that cannot be read
    is reported before any row is read.
    """
    names: list[Named] = [named] if isinstance(named, (str, os.PathLike, Source)) else list(named)
    if not names:
        raise InvalidInput("sources", named, "must name at least one source", 'give files, or "-" for standard input')
    found: list[Source] = []
    for name in names:
        sources = [name] if isinstance(name, Source) else list(_behind(os.fspath(name)))
        for source in sources if not isinstance(name, Source) else ():
            if source.path is not None:
                _check(source.name, source.path)
        found += sources
    if sum(source.is_input for source in found) > 1:
        raise InvalidInput("sources", named, "must name standard input at most once", 'leave out one "-"')
    return tuple(found)


def require_files(names: Sequence[str]) -> None:
    """Raise an error if a source can be read only once, as standard input and pipes can."""
    for name in names:
        once = name == STANDARD_INPUT or is_stream(name)
        require(not once, "data", name, "cannot be read twice", "give a file, or one pass")


def _behind(name: str) -> Iterator[Source]:
    if name == STANDARD_INPUT:
        yield Source(name, None)
        return
    if is_url(name) and not os.path.exists(name):  # noqa: PTH110
        rule = "is a URL, which only `giftrl train --cluster` reads"
        raise BadSource(name, rule, "add --cluster simulation there, or download the file")
    matches = [name]
    # "a[1].csv" can be a file and a pattern: the file comes first.
    # Path.exists would raise if a folder may not be searched; _check has the better message.
    if not os.path.exists(name) and glob.has_magic(name):  # noqa: PTH110
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (a pattern may be absolute)
        if not matches:
            raise BadSource(name, "the pattern matches no file", "check it with ls")
    for match in matches:
        yield from _walk(match, Path(match))


def _walk(name: str, path: Path) -> Iterator[Source]:
    if not os.path.isdir(path):  # noqa: PTH112 (Path.is_dir would raise as well)
        yield Source(name, path)
        return
    files: list[Path] = []
    for root, folders, members in os.walk(path, onerror=_cannot_list):
        folders[:] = sorted(folder for folder in folders if not folder.startswith((".", "_")))
        files.extend(Path(root, member) for member in members if not member.startswith((".", "_")))
    if not files:
        raise BadSource(name, "the directory holds no files", "give a file, or a directory with files in it")
    for file in sorted(files):
        yield Source(str(file), file)


def _cannot_list(problem: OSError) -> None:
    raise BadSource(str(problem.filename), f"the directory cannot be listed ({problem.strerror})", "check its mode")


def _check(name: str, path: Path) -> None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return  # opening and closing a pipe would break it for the process that writes to it
        path.open("rb").close()
    except FileNotFoundError:
        raise BadSource(name, "there is no such file", "check the name and the working directory") from None
    except PermissionError:
        raise BadSource(name, "the file may not be read", "check its owner and mode with ls -l") from None
    except OSError as problem:
        raise BadSource(name, f"the file cannot be opened ({problem.strerror})", "check it with ls -l") from None
    if status.st_size == 0:
        raise BadSource(name, "the file is empty", "leave it out")


class Stream:
    """The bytes of a source, decompressed if the first bytes show a known compression. A context manager."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.consumed = 0  # bytes of the file that have been read, before decompression
        try:
            self.raw: Any = _opened(source)
            self.total = len(source.data) if source.data is not None else _size_of(self.raw)
            head = self._read_raw(PIECE_BYTES)
            while head and len(head) < PIECE_BYTES and (more := self._read_raw(PIECE_BYTES - len(head))):
                head += more
        except OSError as problem:
            raise BadSource(source.name, f"cannot be read ({problem.strerror})", "check the file") from problem
        codec = codec_of(head) if source.data is None else None
        self.compression = codec.name if codec else None
        self._pieces: Iterator[bytes] = iter(()) if codec is None else decompressed(self._read_raw, head, codec)
        self._waiting = head if codec is None else b""  # made, and not yet taken
        self._broken: Exception | None = None
        self.offset = 0

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *problem: object) -> None:
        if self.source.path is not None or self.source.opener is not None:
            self.raw.close()

    @property
    def seekable(self) -> bool:
        """True if any byte can be reached without reading those before it."""
        return self.compression is None and self.raw.seekable()

    def _read_raw(self, size: int) -> bytes:
        data: bytes = self.raw.read(size) or b""
        self.consumed += len(data)
        return data

    def _next(self) -> bytes:
        """The next piece; nothing at the end, nor if the data is broken (see :meth:`check_end`)."""
        try:
            return self._read_raw(PIECE_BYTES) if self.compression is None else next(self._pieces, b"")
        except (Broken, OSError) as problem:
            self._broken = problem
            return b""

    def peek(self, size: int) -> bytes:
        """At least ``size`` bytes from here on, which the next read returns again; fewer at the end."""
        pieces = [self._waiting]
        length = len(self._waiting)
        while length < size and (piece := self._next()):
            pieces.append(piece)
            length += len(piece)
        self._waiting = b"".join(pieces)
        return self._waiting

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and fewer only at the end."""
        pieces: list[bytes] = []
        while size > 0:  # no more memory than there are bytes, whatever size a damaged file asks for
            buffer = bytearray(min(size, 1 << 24))
            filled = self.readinto(memoryview(buffer))
            pieces.append(bytes(buffer[:filled]))
            size -= filled
            if filled < len(buffer):
                break
        return b"".join(pieces)

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; returns how many bytes were read, fewer than it holds only at the end.

        Broken data counts as the end here; :meth:`check_end` tells the difference.
        """
        filled = 0
        while filled < len(buffer):
            if self._waiting:
                taken = min(len(self._waiting), len(buffer) - filled)
                buffer[filled : filled + taken] = self._waiting[:taken]
                self._waiting = self._waiting[taken:]
                filled += taken
            elif self.compression is None and self._broken is None:
                try:
                    taken = self.raw.readinto(buffer[filled:]) or 0
                except OSError as problem:
                    self._broken, taken = problem, 0
                if not taken:
                    break
                self.consumed += taken
                filled += taken
            else:
                self._waiting = self._next() if self._broken is None else b""
                if not self._waiting:
                    break
        self.offset += filled
        return filled

    @property
    def broken(self) -> bool:
        """True if reading stopped before the end of the file."""
        return self._broken is not None

    def check_end(self, line: int | None) -> None:
        """Raise if the last byte read was not the last of the file."""
        if isinstance(self._broken, Broken):
            raise BadSource(self.source.name, str(self._broken), "copy or compress the file again", line)
        if self._broken is not None:
            raise BadSource(self.source.name, f"reading failed ({self._broken})", "check the disk", line)

    def skip_to(self, offset: int) -> None:
        """Go to an offset, counted after decompression; compressed data is read and thrown away."""
        if self.offset == offset:
            return
        if self.seekable and self.total is not None and offset <= self.total:
            self.raw.seek(offset)
            self._waiting = b""
            self.consumed = self.offset = offset
            return
        thrown_away = memoryview(bytearray(1 << 20))
        while self.offset < offset:
            if not self.readinto(thrown_away[: offset - self.offset]):
                self.check_end(None)
                rule = f"ends at byte {self.offset}, before byte {offset}, where reading was to continue"
                raise BadSource(self.source.name, rule, "give the file that was read before")


def _size_of(raw: Any) -> int | None:
    try:
        status = os.fstat(raw.fileno())
    except (OSError, AttributeError):  # no file behind it
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _opened(source: Source) -> Any:
    if source.data is not None:
        return io.BytesIO(source.data)
    if source.opener is not None:
        return source.opener()
    return _standard_input() if source.path is None else io.FileIO(source.path)


def _standard_input() -> Any:
    # The descriptor rather than sys.stdin.buffer: a thread that waits inside the lock of that buffer when the
    # interpreter ends would crash it.
    if sys.stdin is None:
        raise BadSource(STANDARD_INPUT, "standard input is closed", "give a file, or leave it open")
    try:
        return io.FileIO(sys.stdin.fileno(), closefd=False)
    except (OSError, AttributeError, ValueError):
        return sys.stdin.buffer
