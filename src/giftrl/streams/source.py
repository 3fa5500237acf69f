"""Sources of rows: files, globs, directories and standard input, compressed or not."""

import bz2
import glob
import io
import lzma
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from giftrl.errors import BadSource, Given, InvalidInput, require
from giftrl.files import is_stream

STANDARD_INPUT = "-"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Source(NamedTuple):
    """A file, standard input, bytes in memory, or bytes from elsewhere."""

    name: str
    path: Path | None = None  # None unless a local file
    data: bytes | None = None  # the bytes themselves, which are never decompressed
    opener: Callable[[], Any] | None = None  # opens the bytes of another place; can be called repeatedly

    @property
    def is_input(self) -> bool:
        """True for standard input."""
        return self.path is None and self.data is None and self.opener is None

    @property
    def size(self) -> int | None:
        """The number of bytes; None if unknown."""
        if self.data is not None:
            return len(self.data)
        return self.path.stat().st_size if self.path is not None and self.path.is_file() else None

    @property
    def again(self) -> Any:
        """A path or file object for other libraries to read from the beginning; None for standard input."""
        return self.path if self.opener is None else self.opener()


Named = str | os.PathLike[str] | Source


def is_url(name: str | os.PathLike[str]) -> bool:
    """True if a name is a URL.

    >>> is_url("s3://bucket/a.svm"), is_url("a.svm")
    (True, False)
    """
    return _URL.match(os.fspath(name)) is not None


def find_sources(named: Named | Sequence[Named]) -> tuple[Source, ...]:
    """Expand names to sources, in order: files, globs, directories, and "-" for standard input.

    A :class:`Source` is returned unchecked.

    All files in a directory and its subdirectories are read, in sorted order, except names that begin with "." or "_",
    as in Spark and Arrow. Every file is opened once at the start, so that an unreadable file is reported before any row
    is read.
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
    """Raise an error if a source can be read only once: standard input and pipes."""
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
    # "a[1].csv" can be a file or a pattern: files take precedence.
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
            return  # opening and closing a pipe would break its writer
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
    """The bytes of a source, decompressed if a compression is detected."""

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
        self._waiting = head if codec is None else b""  # decompressed and not yet read
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
        """The next piece; empty at the end or if the data is broken (see :meth:`check_end`)."""
        try:
            return self._read_raw(PIECE_BYTES) if self.compression is None else next(self._pieces, b"")
        except (Broken, OSError) as problem:
            self._broken = problem
            return b""

    def peek(self, size: int) -> bytes:
        """At least ``size`` bytes without consuming them; fewer at the end."""
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
        while size > 0:  # allocate no more than there are bytes, since a damaged file may ask for any size
            buffer = bytearray(min(size, 1 << 24))
            filled = self.readinto(memoryview(buffer))
            pieces.append(bytes(buffer[:filled]))
            size -= filled
            if filled < len(buffer):
                break
        return b"".join(pieces)

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; returns the number of bytes read, less than its size only at the end. Broken data counts as
        the end; :meth:`check_end` tells the difference.
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
        """Raise an error if reading stopped before the end of the file."""
        if isinstance(self._broken, Broken):
            raise BadSource(self.source.name, str(self._broken), "copy or compress the file again", line)
        if self._broken is not None:
            raise BadSource(self.source.name, f"reading failed ({self._broken})", "check the disk", line)

    def skip_to(self, offset: int) -> None:
        """Seek to an offset in decompressed bytes; compressed data is read and discarded."""
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
    except (OSError, AttributeError):  # not a file
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


# Decompression of gzip, zstd, xz and bz2, detected by the first bytes.
#
# The file objects of the standard library are unsuitable: ``BZ2File`` and ``LZMAFile`` silently ignore a damaged member
# after a good one. ``LZMAFile`` has no memory limit and reports zeros after the last member as truncation; ``ZstdFile``
# reports them as damage.

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: Bytes read or produced at a time. Small, since a failing call loses its output.
PIECE_BYTES = 1 << 16
#: xz files may ask for up to 4 GB before the first byte; ``xz -9`` needs 65 MB.
XZ_MEMORY = 1 << 29


class Broken(Exception):
    """Truncated or damaged compressed data; all output before it has been returned."""


class _Gzip:
    """zlib behind the interface of the other decoders."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        made = self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)
        # A full output buffer means that more output may follow, even without input.
        self.needs_input = not self._decoder.unconsumed_tail and len(made) < max_length
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)  # eof and unused_data


class Codec(NamedTuple):
    """A compression format: its name, magic bytes, decoder, and the decoder's exceptions."""

    name: str
    magic: tuple[bytes, ...]
    decoder: Callable[[], Any]
    errors: tuple[type[Exception], ...]


CODECS = (
    Codec("gzip", (b"\x1f\x8b",), _Gzip, (zlib.error,)),
    # zstd has skippable frames, with 16 magic numbers.
    Codec(
        "zstd",
        (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + low]) + b"\x2a\x4d\x18" for low in range(16))),
        zstd.ZstdDecompressor,
        (zstd.ZstdError,),
    ),
    Codec("xz", (b"\xfd7zXZ\0",), lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY), (lzma.LZMAError, MemoryError)),
    # "BZh", a digit, then a block or the end; "BZh" alone could be text.
    Codec(
        "bz2",
        tuple(b"BZh%d%b" % (level, mark) for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")),
        bz2.BZ2Decompressor,
        (OSError, ValueError),
    ),
)


def codec_of(head: bytes) -> Codec | None:
    """Detect the codec from the first bytes."""
    return next((codec for codec in CODECS if head.startswith(codec.magic)), None)


def decompressed(read: Callable[[int], bytes], head: bytes, codec: Codec) -> Iterator[bytes]:
    """Decompress in pieces; ``head`` are bytes read before.

    Concatenated members are one file, as in ``zcat``; trailing zeros are ignored.
    """
    data = head
    while True:  # once for each member
        decoder = codec.decoder()
        while not decoder.eof:
            if decoder.needs_input and not data:
                data = read(PIECE_BYTES)
                if not data:
                    raise Broken(f"the {codec.name} data ends too early")
            try:
                made = decoder.decompress(data, PIECE_BYTES)
            except codec.errors as problem:
                raise Broken(f"the {codec.name} data is damaged ({problem})") from problem
            data = b""
            if made:
                yield made
        data = decoder.unused_data.lstrip(b"\0")
        while len(data) < max(map(len, codec.magic)) and (more := read(PIECE_BYTES)):
            data = (data + more).lstrip(b"\0")
        if not data:
            return
        if not data.startswith(codec.magic):
            raise Broken(f"the {codec.name} data is followed by something else")


# The format of a source: given by the user, or detected from its first bytes or name.

#: Every format with its file extensions.
FORMATS: dict[str, tuple[str, ...]] = {
    "libsvm": (".svm", ".libsvm", ".svmlight"),
    "vw": (".vw",),
    "csv": (".csv", ".tsv", ".psv"),
    "json": (".json", ".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".arrows"),
    "npz": (".npz",),
}
#: Formats of text lines.
TEXT_FORMATS = ("libsvm", "vw", "csv", "json")
#: Bytes examined to detect the format; a multiple of a decompressed piece.
HEAD_BYTES = 1 << 18

_PACKED = (".gz", ".zst", ".zstd", ".xz", ".bz2")
_NUMBER = rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_LABEL = re.compile(rb"\s*" + _NUMBER + rb"\s*\Z")
_LIBSVM = re.compile(rb"\s*[^\s:,;|\"]+(?:[ \t]+[^\s:,;\"]+:" + _NUMBER + rb")+\s*\Z")
_DELIMITERS = (b",", b"\t", b";", b"|")


class _Guess(NamedTuple):
    """The possible formats of a line."""

    formats: tuple[str, ...]
    why: str
    lines: bool = False  # True for text


def detect(head: bytes, name: str, asked: str | None = None) -> str:
    """Detect the format of a source by its first decompressed bytes, then by its name.

    Raises an error if the bytes contradict the format that the user ``asked`` for.
    """
    guess = _by_content(head)
    remedy = f"give format, one of: {', '.join(guess.formats or FORMATS)}"
    if asked is not None:
        binary = [each for each in guess.formats if each not in TEXT_FORMATS]
        if (asked in TEXT_FORMATS and binary) or (asked not in TEXT_FORMATS and asked not in guess.formats):
            raise BadSource(name, [Given("format", asked), f" was asked for, but {guess.why}"], remedy)
        return asked
    named = _by_name(name)
    if named in guess.formats:
        return named
    # If the line fits no format but a table, it may be a bad line of the format in the name.
    if named in TEXT_FORMATS and guess.lines and guess.formats in ((), ("csv",)):
        return named
    if named is not None and named not in TEXT_FORMATS and guess.formats:
        raise BadSource(name, f"the name says {named}, but {guess.why}", remedy)
    if len(guess.formats) == 1:
        return guess.formats[0]
    doubt = "is not certain" if guess.formats else "is unknown"
    raise BadSource(name, f"the format {doubt}: {guess.why}", remedy)


def _by_name(name: str) -> str | None:
    lower = name.lower()
    for ending in _PACKED:
        lower = lower.removesuffix(ending)
    for format_, endings in FORMATS.items():
        if lower.endswith(endings):
            return format_
    return None


def _by_content(head: bytes) -> _Guess:
    if head.startswith(b"PAR1"):
        return _Guess(("parquet",), "it begins like Parquet")
    # An Arrow stream begins with a marker and the length of its first message.
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return _Guess(("arrow",), "it begins like Arrow IPC")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _Guess(("npz",), "it begins like a zip file, as npz does")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _Guess((), "it begins like UTF-16, which must be converted to UTF-8 first (iconv -f UTF-16 -t UTF-8)")
    if b"\0" in head.split(b"\n", 1)[0]:  # further down, the reader reports a bad line
        return _Guess((), "it holds binary data that does not begin like Parquet, Arrow IPC or npz")
    doubtful: _Guess | None = None
    # The last line, or the last word of a single line, may be cut off.
    end = head.rfind(b"\n") if b"\n" in head else head.rfind(b" ") if len(head) >= HEAD_BYTES else -1
    whole = head if end < 0 else head[:end]
    for line in whole.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        guess = _by_line(line.rstrip(b"\r"))
        if len(guess.formats) == 1:
            return guess
        doubtful = doubtful or guess
        if not _LABEL.match(line):
            break  # a lone label is ambiguous: look at the next line
    return doubtful or _Guess((), "it holds no line of data")


def _by_line(line: bytes) -> _Guess:
    shown = f"its first line is {line[:60].decode('utf-8', 'backslashreplace')!r}"
    if line.lstrip().startswith(b"{"):
        return _Guess(("json",), shown, True)
    if line.lstrip().startswith(b"["):
        return _Guess((), "it begins like a JSON array, and must have one object in each line", True)
    before, bar, _ = line.partition(b"|")
    if bar and not any(mark in before for mark in b',\t;"'):
        # "id|age|label" can be both; a space, or nothing before the bar, makes it VW.
        sure = b" " in line or not before
        return _Guess(("vw",) if sure else ("vw", "csv"), shown, True)
    if _LIBSVM.match(line.partition(b"#")[0]):
        return _Guess(("libsvm",), shown, True)
    if _LABEL.match(line):
        return _Guess(("libsvm", "vw", "csv"), f"{shown}, a label and nothing else", True)
    if any(mark in line for mark in _DELIMITERS):
        return _Guess(("csv",), shown, True)
    return _Guess((), shown, True)
