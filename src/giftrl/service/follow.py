"""Learn from a file that grows, a folder in which files arrive, or standard input, while the service runs.

A followed file stays open, so that it is read to its end after log rotation.

The position in each file is committed together with its rows, so a crash neither skips nor repeats rows. Standard input
has no position; rows lost in a crash are not read again.

Failures are logged, counted and shown. Reading is retried with exponential backoff from 0.2 seconds to a minute.
"""

import contextlib
import hashlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from io import BytesIO, FileIO
from pathlib import Path
from typing import NamedTuple

import orjson

from giftrl import system
from giftrl.errors import BadSource, GiftrlError, InvalidInput, Refused, require
from giftrl.service.bodies import Body
from giftrl.service.folder import Folder, Followed, require_name
from giftrl.service.writer import LEARN, NO_ROWS, NOTE, Job
from giftrl.streams.line_blocks import MAX_LINE
from giftrl.streams.source import HEAD_BYTES, STANDARD_INPUT, detect

log = logging.getLogger("giftrl.service")

FOLLOWED_FORMATS = ("json", "libsvm", "vw")
REMEDY = f"give one of {', '.join(FOLLOWED_FORMATS)}"
#: Statuses with which a model refuses rows that it cannot learn.
UNUSABLE_ROWS = (400, 413, 415, 422)
#: Bytes, and lines, that are read at a time.
PIECE_BYTES, PIECE_LINES = 1 << 20, 5_000
#: Bytes before a position that identify a file, since the file system may reuse inode numbers.
DIGEST_BYTES = 4096
#: Seconds between polls of a source, and the maximum after an error.
PAUSE, MAX_PAUSE = 0.2, 60.0


def parse_follow(given: str) -> tuple[str, str]:
    """Parse ``NAME=SOURCE`` into the name of the model and the source; a file gives its name to its model.

    >>> parse_follow("logs/clicks.jsonl"), parse_follow("shop=logs/clicks.jsonl")
    (('clicks', 'logs/clicks.jsonl'), ('shop', 'logs/clicks.jsonl'))
    """
    name, equals, source = given.partition("=")
    if not equals:
        name, source = re.sub(r"[^A-Za-z0-9_-]", "-", Path(given).name.split(".")[0]) or "-", given
    require(bool(source), "follow", given, "names no source", "give a file, a folder, or - for standard input")
    try:
        require_name(name)
    except Refused:
        raise InvalidInput("follow", given, "has no name for its model", "write --follow NAME=SOURCE") from None
    return name, source


def followable(given: Sequence[str]) -> list[tuple[str, str]]:
    """Return models and their sources; raises an error for a source that cannot be followed or is repeated.

    >>> followable(["a.jsonl", "a=./a.jsonl"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: follow='a=./a.jsonl': is the same source as 'a.jsonl', ...
    """
    pairs: list[tuple[str, str]] = []
    for each in given:
        name, source = parse_follow(each)
        for earlier, (other, known) in zip(given, pairs, strict=False):
            if source == known == STANDARD_INPUT:
                rule = f"is standard input, as {earlier!r} is, and each row would come to one of them alone"
                raise InvalidInput("follow", each, rule, "leave one of them out")
            twice = name == other and STANDARD_INPUT not in (source, known) and is_same_source(source, known)
            rule = f"is the same source as {earlier!r}, whose rows would be learned twice"
            require(not twice, "follow", each, rule, "leave one of them out")
        if source == STANDARD_INPUT:
            remedy = "give a file or a folder, or open standard input"
            require(sys.stdin is not None, "follow", each, "is closed", remedy)
        else:
            require_followed_format(source, each)
        pairs.append((name, source))
    return pairs


def format_of(heads: Sequence[bytes], name: str) -> str:
    """Detect the format of a source from the first of its pieces that shows one."""
    problem = BadSource(name, "has no known format", REMEDY)
    for head in heads:
        try:
            format_ = detect(head[:HEAD_BYTES], name)
        except BadSource as failure:
            problem = failure
            continue
        if format_ in FOLLOWED_FORMATS:
            return format_
        problem = BadSource(name, f"is {format_}, which cannot be followed", REMEDY)
    raise problem


def is_blank(data: bytes) -> bool:
    """Return True if there are only empty lines and comments."""
    return all(not line.strip() or line.lstrip().startswith(b"#") for line in BytesIO(data))


def require_followed_format(source: str, given: str) -> None:
    """Refuse an existing file whose first lines have a format that cannot be followed."""
    path, head = Path(source), b""
    with contextlib.suppress(OSError):  # the follower reports read errors
        if path.is_file():
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES)
    if not is_blank(head[: head.rfind(b"\n") + 1]):
        try:
            format_of([head], source)
        except BadSource as problem:
            raise InvalidInput("follow", given, problem.rule, REMEDY) from None


def is_same_source(one: str, other: str) -> bool:
    """Return True if two sources are the same file or folder, or one is a file in the other."""
    first, second = (Path(os.path.realpath(each)) for each in (one, other))
    if first == second or (first.is_dir() and second.parent == first) or (second.is_dir() and first.parent == second):
        return True
    try:
        return first.samefile(second)
    except OSError:  # one does not exist yet
        return False


class FilePosition(NamedTuple):
    """A position in a file, where reading continues."""

    inode: int = 0  # the inode number
    offset: int = 0
    digest: str = ""  # the digest of the bytes before
    in_long_line: bool = False  # True while skipping the rest of an over-long line

    def is_in(self, file: FileIO) -> bool:
        """Return True if this is a position in a file."""
        same = os.fstat(file.fileno()).st_ino == self.inode
        return same and self.digest in ("", digest_before(file, self.offset))


def digest_before(file: FileIO, offset: int) -> str:
    """Digest of the last bytes before an offset in a file, or before its end."""
    file.seek(max(0, offset - DIGEST_BYTES))
    data = file.read(min(offset, DIGEST_BYTES))
    return hashlib.sha256(data).hexdigest()[:32]


def to_line_end(file: FileIO, offset: int, most: int) -> tuple[int, bool]:
    """Count the bytes to the end of a line, at most ``most`` and a piece; also True if the line ends."""
    file.seek(offset)
    length = 0
    while length <= most and (data := file.read(PIECE_BYTES)):
        end = data.find(b"\n") + 1
        length += end or len(data)
        if end:
            return length, True
    return length, False


def whole_lines(file: FileIO, offset: int, most: int) -> bytes:
    """Read the next lines of a file, up to a number of bytes."""
    file.seek(offset)
    data = file.read(most)
    data = data[: data.rfind(b"\n") + 1]
    lines = data.split(b"\n", PIECE_LINES)
    return data if len(lines) <= PIECE_LINES else data[: len(data) - len(lines[-1])]


class Follower(threading.Thread):
    """A thread in which a model, created if missing, learns new rows of a file, a folder or standard input ("-")."""

    def __init__(self, folder: Folder, name: str, source: str) -> None:
        super().__init__(name=f"follows {source}", daemon=True)
        self._folder, self._model, self._source = folder, name, source
        self._fact = f"follow {source}"
        self._ended = threading.Event()
        self._positions: dict[str, FilePosition] = {}
        self._deletions = -1  # the model for which positions were restored
        self._formats: dict[str, str] = {}
        self._unended: dict[str, int] = {}  # sizes of files with an unfinished last line
        self._pause = PAUSE
        self._retry_at: dict[Path, float] = {}  # retry times of files that could not be read
        self._held: FileIO | None = None  # the open file, if the source is a file
        if not folder.has(name):
            folder.create(name, {})
        self._state = folder.followed.setdefault(name, Followed())

    def end(self) -> None:
        """Stop at the next pause."""
        self._ended.set()

    def run(self) -> None:
        """Follow the source until the service ends."""
        if self._source == STANDARD_INPUT:
            self._follow_input()
            return
        while not self._ended.is_set():
            try:
                paths = list(self._files())
                self._retry_at = {path: at for path, at in self._retry_at.items() if path in paths}
                moved = [self._try_to_read(path) for path in paths]
            except Exception as problem:
                self._ended.wait(self._report(problem))
                continue
            self._recovered()
            if not any(moved):
                self._ended.wait(PAUSE)
        self._release()

    def _files(self) -> Iterator[Path]:
        path = Path(self._source)
        if not path.is_dir():
            yield from [path] if path.exists() or self._held is not None else []
            return
        for each in sorted(path.iterdir()):
            if each.is_file() and not each.name.startswith((".", "_")):
                yield each

    def _try_to_read(self, path: Path) -> bool:
        """Learn new rows of a file; on failure, schedule a retry and continue with other files."""
        if time.monotonic() < self._retry_at.get(path, 0.0):
            return False
        try:
            moved = self._read(path)
            self._retry_at.pop(path, None)
            return moved
        except Exception as problem:
            self._release()
            self._retry_at[path] = time.monotonic() + self._report(problem)
            return False

    def _report(self, problem: Exception) -> float:
        """Report a failure; returns the seconds to wait (exponential backoff)."""
        words = getattr(problem, "strerror", None) or (str(problem) if isinstance(problem, GiftrlError) else "")
        self._state.errors += 1
        self._state.problem = f"{type(problem).__name__}: {words}".removesuffix(": ")
        expected = isinstance(problem, (GiftrlError, OSError))
        log.warning("%s cannot be followed now (%s)", self._source, self._state.problem, exc_info=not expected)
        pause, self._pause = self._pause, min(2.0 * self._pause, MAX_PAUSE)
        return pause

    def _recovered(self) -> None:
        """Clear the reported failure."""
        if not self._retry_at:
            self._pause, self._state.problem = PAUSE, None

    def _reject(self, problem: str, expected: str) -> None:
        """Show skipped lines among the rejected rows."""
        row = {"row": None, "column": None, "problem": problem, "expected": expected}
        with contextlib.suppress(Refused):  # the model is being deleted
            self._folder.get(self._model).stats.reject([row])

    def _reject_long_line(self, path: str) -> None:
        log.warning("a line of %s is longer than %s bytes, and is skipped", path, MAX_LINE)
        self._reject(f"a line of {path} is longer than {MAX_LINE} bytes", f"at most {MAX_LINE} bytes a line")

    def _read(self, path: Path) -> bool:
        """Learn new whole lines of a file; returns True if there were any."""
        deletions = self._folder.deletions[self._model]  # before the model is opened, as it may be deleted then
        if deletions != self._deletions:  # a model that was created again has no positions on record
            recorded = orjson.loads(self._folder.get(self._model).recorded(self._fact) or "{}")
            self._positions = {name: FilePosition(*position) for name, position in recorded.items()}
            self._deletions = deletions
        if self._held is not None:
            replaced = False
            with contextlib.suppress(FileNotFoundError):  # a renamed file may have no successor yet
                # Before reading, as later rows belong to the new file.
                replaced = not os.path.samestat(os.fstat(self._held.fileno()), path.stat())
            if self._learn_more(self._held, path):
                return True
            if not replaced:
                return False
            self._release()
        file = path.open("rb", buffering=0)  # unbuffered: buffered bytes could be outdated
        # Only a single followed file stays open: Windows cannot rename open files, and folders can be large.
        if system.can_lock() and str(path) == str(Path(self._source)):
            self._held = file
            return self._learn_more(file, path)
        with file:
            return self._learn_more(file, path)

    def _release(self) -> None:
        """Close the file that is held open."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _learn_more(self, file: FileIO, path: Path) -> bool:
        """Learn the next lines of a file; return True if there were any."""
        name, status = str(path), os.fstat(file.fileno())
        position = self._positions.get(name, FilePosition())
        if not position.is_in(file):
            position = FilePosition(status.st_ino)
            self._formats.pop(name, None)
        if status.st_size - position.offset > PIECE_BYTES and status.st_size == self._unended.get(name):
            return False  # an unfinished line that has not grown
        length, ended = to_line_end(file, position.offset, MAX_LINE)
        too_long = length - ended > MAX_LINE
        if not (length and (ended or too_long or position.in_long_line)):
            self._unended[name] = status.st_size
            return False
        skips = too_long or position.in_long_line
        data = b"" if skips else whole_lines(file, position.offset, max(PIECE_BYTES, length))
        if too_long and not position.in_long_line:
            self._reject_long_line(name)
        offset = position.offset + (len(data) or length)
        after = FilePosition(position.inode, offset, digest_before(file, offset), not data and not ended)
        return self._learn(data, self._format_of(name, data, file), name, after)

    def _format_of(self, path: str, data: bytes, file: FileIO | None = None) -> str | None:
        """The format of a source, from its beginning or else from new lines; None without rows."""
        if is_blank(data):
            return None
        if path not in self._formats:
            if file is not None:
                file.seek(0)
            self._formats[path] = format_of([data if file is None else file.read(HEAD_BYTES), data], path)
        return self._formats[path]

    def _follow_input(self) -> None:
        """Learn from standard input until it ends. Lines of unknown format are dropped and reported."""
        waiting, skips = bytearray(), False
        while not self._ended.is_set():
            try:
                piece = os.read(sys.stdin.fileno(), PIECE_BYTES)
            except (OSError, ValueError) as problem:  # closed or broken for good
                self._report(problem)
                return
            more = bool(piece)
            if skips and more:  # skip to the end of the line
                _, newline, piece = piece.partition(b"\n")
                skips = not newline
            waiting += piece
            end = waiting.rfind(b"\n", len(waiting) - len(piece)) + 1 if more else len(waiting)
            data = bytes(waiting[:end])
            del waiting[:end]
            try:
                format_ = self._format_of(STANDARD_INPUT, data)
                if format_ is not None:
                    self._learn(data, format_, STANDARD_INPUT, None)
            except BadSource as problem:
                self._report(problem)
                self._reject(problem.rule, problem.remedy)
            if len(waiting) > MAX_LINE:
                self._reject_long_line(STANDARD_INPUT)
                waiting, skips = bytearray(), True
            if not more:
                return

    def _learn(self, data: bytes, format_: str | None, path: str, after: FilePosition | None) -> bool:
        """Learn rows, and store the position in the same commit."""
        positions = self._positions | ({} if after is None else {path: after})
        facts = {self._fact: orjson.dumps({name: list(position) for name, position in positions.items()}).decode()}
        body = NO_ROWS
        if format_ is not None:
            body = Body(format_, data if data.endswith(b"\n") else data + b"\n", skip=True)
        while not self._ended.is_set():
            try:
                writer = self._folder.get(self._model)
                if after is not None and self._folder.deletions[self._model] != self._deletions:
                    return True  # the model was created again, and must learn from the beginning
                writer.submit(Job(NOTE if format_ is None else LEARN, body, facts=facts)).answer.result()
            except Exception as problem:
                if after is not None and isinstance(problem, Refused) and problem.status in UNUSABLE_ROWS:
                    raise  # continue with other files
                self._ended.wait(self._report(problem))
            else:
                self._positions = positions
                self._recovered()
                return True
        return False
