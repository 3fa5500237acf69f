"""What can be followed: sources as they are named on the command line, and the formats of what they bring."""

import contextlib
import hashlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import orjson

from giftrl import system
from giftrl.errors import BadSource, GiftrlError, InvalidInput, Refused, require
from giftrl.service.bodies import Body
from giftrl.service.folder import Folder, Followed, require_name
from giftrl.service.writer import LEARN, NOTE, Job
from giftrl.streams.formats import HEAD, detect
from giftrl.streams.sources.lines import MAX_LINE
from giftrl.streams.sources.source import STANDARD_INPUT

#: The formats that can be followed.
FOLLOWED_FORMATS = ("json", "libsvm", "vw")


def parse_follow(given: str) -> tuple[str, str]:
    """The name of the model and the source in ``NAME=SOURCE``; the name of a file is that of its model.

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
        rule = "has no name for its model"
        raise InvalidInput("follow", given, rule, "write --follow NAME=SOURCE") from None
    return name, source


def followable(given: Sequence[str]) -> list[tuple[str, str]]:
    """The models and sources that were named; an error where one cannot be followed, or would be learnt twice.

    >>> followable(["a.jsonl", "a=./a.jsonl"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: follow='a=./a.jsonl': is the same source as 'a.jsonl', ...
    """
    found: list[tuple[str, str]] = []
    for each in given:
        name, source = parse_follow(each)
        for earlier, (other, known) in zip(given, found, strict=False):
            if source == known == STANDARD_INPUT:
                rule = f"is standard input, as {earlier!r} is, and each row would come to one of them alone"
                raise InvalidInput("follow", each, rule, "leave one of them out")
            twice = name == other and STANDARD_INPUT not in (source, known) and _same(source, known)
            rule = f"is the same source as {earlier!r}, whose rows would be learnt twice"
            require(not twice, "follow", each, rule, "leave one of them out")
        if source == STANDARD_INPUT:
            require(
                sys.stdin is not None, "follow", each, "is closed", "give a file or a folder, or open standard input"
            )
        else:
            _require_format(source, each)
        found.append((name, source))
    return found


def format_of(heads: Sequence[bytes], name: str) -> str:
    """The format of a source, by the first of some pieces of it that shows one; an error where none can be followed.

    >>> format_of([b"1 3:0.5"], "rows.txt")
    'libsvm'
    >>> format_of([b"a,b"], "rows.csv")
    Traceback (most recent call last):
    giftrl.errors.BadSource: rows.csv: is csv, which cannot be followed; give one of json, libsvm, vw
    """
    failure: BadSource | None = None
    for head in heads:
        try:
            found = detect(head[:HEAD], name)
        except BadSource as problem:
            failure = problem
            continue
        if found in FOLLOWED_FORMATS:
            return found
        failure = BadSource(name, f"is {found}, which cannot be followed", f"give one of {', '.join(FOLLOWED_FORMATS)}")
    assert failure is not None
    raise failure


def is_blank(data: bytes) -> bool:
    """Whether there are only empty lines and comments, which show no format and are no rows.

    >>> is_blank(b"# rows of today"), is_blank(b"1 3:0.5")
    (True, False)
    """
    return all(not line.strip() or line.lstrip().startswith(b"#") for line in data.split(b"\n"))


def _require_format(source: str, given: str) -> None:
    """Refuse a file that is there, has lines, and has a format that cannot be followed."""
    path = Path(source)
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:  # which may mend; the follower says so until it does
        return
    end = head.rfind(b"\n")
    if is_blank(head[: end + 1]):
        return
    try:
        format_of([head], source)
    except BadSource as problem:
        raise InvalidInput("follow", given, problem.rule, f"give one of {', '.join(FOLLOWED_FORMATS)}") from None


def _same(one: str, other: str) -> bool:
    """Whether two sources are one file or folder, or one is a file in the folder that the other is."""
    first, second = (Path(os.path.realpath(each)) for each in (one, other))
    if first == second or (first.is_dir() and second.parent == first) or (second.is_dir() and first.parent == second):
        return True
    try:
        return first.samefile(second)
    except OSError:  # one of them is not there yet
        return False


# A file that grows: where reading goes on in it, its next lines, and whether it is the file that it was.

#: Bytes that are read at a time, and lines.
PIECE_BYTES, PIECE_LINES = 1 << 20, 5_000
#: Bytes before a place by which a file is known again; the file system may give its number to another one.
DIGEST_BYTES = 4096


class FilePosition(NamedTuple):
    """Where reading goes on in a file.

    Args:
        inode: the number of the file in the file system.
        offset: the byte.
        digest: of the bytes before.
        passes: whether a line that is too long goes on there, of which the rest is passed over.
    """

    inode: int = 0
    offset: int = 0
    digest: str = ""
    passes: bool = False


def is_same(file: FileIO, place: FilePosition) -> bool:
    """Whether a place is one of this file."""
    same = os.fstat(file.fileno()).st_ino == place.inode
    return same and place.digest in ("", digest_before(file, place.offset))


def digest_before(file: FileIO, offset: int) -> str:
    """Digest of the last bytes before a place in a file; of other bytes where the file ends before that place."""
    file.seek(max(0, offset - DIGEST_BYTES))
    data = file.read(min(offset, DIGEST_BYTES))
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
    while length <= most and (data := file.read(PIECE_BYTES)):
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
    lines = data.split(b"\n", PIECE_LINES)
    return data if len(lines) <= PIECE_LINES else data[: len(data) - len(lines[-1])]


def replaced(file: FileIO, path: Path) -> bool:
    """Whether a path leads to another file than the one that is open."""
    try:
        return not os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:  # renamed, and the next one is not there yet
        return False


# Learning from a file that grows, a folder in which files arrive, or standard input, while the service runs.
#
# A file stays open while it is followed, so that it is read to its end after another one has taken its name.
#
# The position in each file is committed together with the rows that end there: after a crash no row is skipped, and
# none is learnt twice. Standard input has no position; what a crash takes from it is gone.
#
# Whatever goes wrong is logged, counted and shown, and tried again after a pause, which doubles from 0.2 seconds to a
# minute as long as it goes on.

log = logging.getLogger("giftrl.service")

#: The status codes of HTTP with which a model refuses rows that it cannot learn.
UNUSABLE = (400, 413, 415, 422)
#: Seconds between two looks at a source.
PAUSE = 0.2
#: The most seconds between two trials after an error.
LONGEST_PAUSE = 60.0


class Follower(threading.Thread):
    """A thread that teaches a model whatever a source brings.

    Args:
        folder: of the service.
        name: of the model, which is created without settings if it is not there.
        source: a file, a folder, or "-" for standard input. It need not be there yet.
    """

    def __init__(self, folder: Folder, name: str, source: str) -> None:
        super().__init__(name=f"follows {source}", daemon=True)
        self._folder, self._model, self._source = folder, name, source
        self._fact = f"follow {source}"
        self._ended = threading.Event()
        self._places: dict[str, FilePosition] = {}
        self._formats: dict[str, str] = {}
        self._begun: dict[str, int] = {}  # bytes behind the place of a file, if many, of which none ends a line
        self._deletions = 0  # of models of this name, before the places were recalled
        self._pause = PAUSE
        self._later: dict[Path, float] = {}  # when to try again what could not be read
        self._held: FileIO | None = None  # the file, where the source is one
        if not folder.has(name):
            folder.create(name, {})
        self._state = folder.followed.setdefault(name, Followed())

    def end(self) -> None:
        """Stop at the next pause."""
        self._ended.set()

    def run(self) -> None:
        """Follow the source until the service ends."""
        while not self._ended.is_set():
            try:
                self._recall()
                break
            except Exception as problem:
                self._failed(problem)
        if self._source == STANDARD_INPUT:
            self._follow_input()
            return
        while not self._ended.is_set():
            try:
                paths = list(self._files())
                self._later = {path: at for path, at in self._later.items() if path in paths}
                moved = [self._tried(path) for path in paths]
            except Exception as problem:
                self._failed(problem)
                continue
            self._went_on()
            if not any(moved):
                self._ended.wait(PAUSE)
        self._let_go()

    def _tried(self, path: Path) -> bool:
        """Learn what is new in a file; one that cannot be read is tried again later, and the others meanwhile."""
        if time.monotonic() < self._later.get(path, 0.0):
            return False
        try:
            moved = self._read(path)
            self._later.pop(path, None)
            return moved
        except Exception as problem:
            self._let_go()
            self._later[path] = time.monotonic() + self._noted(problem)
            return False

    def _failed(self, problem: Exception) -> None:
        """Say what went wrong, and wait before the next trial."""
        self._ended.wait(self._noted(problem))

    def _noted(self, problem: Exception) -> float:
        """Say what went wrong; how long to wait then, twice as long each time, up to a minute."""
        words = getattr(problem, "strerror", None) or (str(problem) if isinstance(problem, GiftrlError) else "")
        self._state.errors += 1
        self._state.problem = f"{type(problem).__name__}: {words}".removesuffix(": ")
        expected = isinstance(problem, (GiftrlError, OSError))
        log.warning("%s cannot be followed now (%s)", self._source, self._state.problem, exc_info=not expected)
        pause, self._pause = self._pause, min(2.0 * self._pause, LONGEST_PAUSE)
        return pause

    def _went_on(self) -> None:
        if not self._later:
            self._pause, self._state.problem = PAUSE, None

    def _recall(self) -> None:
        """Go on where the model was left; one that is made again begins anew."""
        deletions = self._folder.deletions[self._model]  # before the model is opened, which may be deleted then
        found = orjson.loads(self._folder.get(self._model).store_fact(self._fact) or "{}")
        self._places = {path: FilePosition(*place) for path, place in found.items()}
        self._deletions, self._begun = deletions, {}

    def _files(self) -> Iterator[Path]:
        path = Path(self._source)
        if not path.is_dir():
            yield from [path] if path.exists() or self._held is not None else []
            return
        for each in sorted(path.iterdir()):
            if each.is_file() and not each.name.startswith((".", "_")):
                yield each

    def _read(self, path: Path) -> bool:
        """Learn what is new in a file, up to its last whole line; whether there was anything."""
        if self._folder.deletions[self._model] != self._deletions:
            self._recall()
        if self._held is not None:
            other = replaced(self._held, path)  # before it is read: what comes later is not for this file
            if self._learn_more(self._held, path):
                return True
            if not other:
                return False
            self._let_go()
        file = path.open("rb", buffering=0)  # a buffer would show bytes that are no longer there
        # Windows lets nobody rename a file that is open, and of a folder there may be too many.
        if system.can_lock() and str(path) == str(Path(self._source)):
            self._held = file
            return self._learn_more(file, path)
        with file:
            return self._learn_more(file, path)

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _learn_more(self, file: FileIO, path: Path) -> bool:
        name = str(path)
        place = self._places.get(name, FilePosition())
        if not is_same(file, place):
            place = FilePosition(os.fstat(file.fileno()).st_ino)
            self._formats.pop(name, None)
            self._begun.pop(name, None)
        begun = self._begun.pop(name, 0)
        if begun < PIECE_BYTES or os.fstat(file.fileno()).st_size < place.offset + begun:
            begun = 0  # to look again is quick, or the file was cut off
        length, ended = to_line_end(file, place.offset + begun, MAX_LINE)
        length += begun
        too_long = length - ended > MAX_LINE
        if not (length and (ended or too_long or place.passes)):
            self._begun[name] = length
            return False
        data = b"" if too_long or place.passes else whole_lines(file, place.offset, max(PIECE_BYTES, length))
        if too_long and not place.passes:
            self._pass_over(name)
        offset = place.offset + (len(data) or length)
        passes = not data and not ended
        after = FilePosition(place.inode, offset, digest_before(file, offset), passes)
        return self._learn(data, self._format_in(file, name, data), name, after)

    def _format_in(self, file: FileIO, path: str, data: bytes) -> str | None:
        """The format of a file, by its beginning or else by what is new in it; None where that has no rows."""
        if not data or (path not in self._formats and is_blank(data)):
            return None
        if path not in self._formats:
            file.seek(0)
            self._formats[path] = format_of([file.read(HEAD), data], path)
        return self._formats[path]

    def _pass_over(self, path: str) -> None:
        """Say that a line is too long."""
        problem = f"a line of {path} is longer than {MAX_LINE} bytes"
        log.warning("%s, and is passed over", problem)
        self._reject(problem, f"at most {MAX_LINE} bytes a line")

    def _reject(self, problem: str, expected: str) -> None:
        """Show lines that are passed over among the rows that could not be used."""
        row = {"row": None, "column": None, "problem": problem, "expected": expected}
        with contextlib.suppress(Refused):  # of a model that is deleted now
            self._folder.get(self._model).watch.reject([row])

    def _follow_input(self) -> None:
        waiting, passes = bytearray(), False
        while not self._ended.is_set():
            try:
                piece = os.read(sys.stdin.fileno(), PIECE_BYTES)
            except (OSError, ValueError) as problem:  # closed or broken, which does not mend
                self._noted(problem)
                return
            more = bool(piece)
            if passes and more:  # until the line has ended
                _, newline, piece = piece.partition(b"\n")
                passes = not newline
            waiting += piece
            end = waiting.rfind(b"\n", len(waiting) - len(piece)) + 1 if more else len(waiting)
            if end:
                self._learn_input(bytes(waiting[:end]))
                del waiting[:end]
            if len(waiting) > MAX_LINE:
                self._pass_over(STANDARD_INPUT)
                waiting, passes = bytearray(), True
            if not more:
                return

    def _learn_input(self, data: bytes) -> None:
        """Learn lines of standard input; of those whose format is unknown nothing is left but what is said of them."""
        try:
            blank = not self._formats and is_blank(data)
            format_ = None if blank else self._formats.get(STANDARD_INPUT) or format_of([data], STANDARD_INPUT)
        except BadSource as problem:
            self._noted(problem)
            self._reject(problem.rule, problem.remedy)
            return
        if format_ is not None:
            self._formats[STANDARD_INPUT] = format_
            self._learn(data, format_, STANDARD_INPUT, None)

    def _learn(self, data: bytes, format_: str | None, path: str, after: FilePosition | None) -> bool:
        """Teach the model, and note the place in the same commit; whether that was done.

        Raises:
            Refused: where the model cannot learn these rows of a file; then nothing is noted.
        """
        places = dict(self._places)
        if after is not None:
            places[path] = after
        facts = {self._fact: orjson.dumps({path: list(place) for path, place in places.items()}).decode()}
        job = Job(NOTE, facts=facts)
        if format_ is not None:
            job = Job(LEARN, Body(format_, data if data.endswith(b"\n") else data + b"\n", True), facts=facts)
        while not self._ended.is_set():
            try:
                writer = self._folder.get(self._model)
                if after is not None and self._folder.deletions[self._model] != self._deletions:
                    return True  # this writer is of another model, which is to learn from the beginning
                writer.submit(job).answer.result()
                break
            except Exception as problem:
                unusable = isinstance(problem, Refused) and problem.status in UNUSABLE and job.kind == LEARN
                if unusable and is_blank(data):
                    job = Job(NOTE, facts=facts)
                    continue
                if unusable and after is not None:  # other files can be learnt meanwhile
                    raise
                self._failed(problem)
                job = Job(job.kind, job.entry, facts=facts)
        else:
            return False
        self._places = places
        self._went_on()
        return True
