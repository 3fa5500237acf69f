"""Learning from a file that grows, a folder in which files arrive, or standard input, while the service runs.

A file stays open while it is followed, so that it is read to its end after another one has taken its name.

The position in each file is committed together with the rows that end there: after a crash no row is skipped, and none
is learnt twice. Standard input has no position; what a crash takes from it is gone.

Whatever goes wrong is logged, counted and shown, and tried again after a pause, which doubles from 0.2 seconds to a
minute as long as it goes on.
"""

import hashlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import orjson

from giftrl import system
from giftrl.errors import BadSource, GiftrlError, InvalidInput, Refused, require
from giftrl.service.bodies import Entry
from giftrl.service.folder import Folder, Followed, require_name
from giftrl.service.jobs import LEARN, NOTE, Job
from giftrl.streams.formats import detect
from giftrl.streams.sources.source import STANDARD_INPUT

log = logging.getLogger("giftrl.service")

#: Bytes that are read and learnt at a time, seconds between two looks at a source, and lines of one request.
PIECE, PAUSE, LINES = 1 << 20, 0.2, 5_000
#: The most seconds between two trials after an error.
LONGEST_PAUSE = 60.0
#: Bytes before a place by which a file is known again; the file system may give its number to another one.
KNOWN_BY = 4096
TEXT = ("json", "libsvm", "vw")
#: What is said of rows with which nothing can be done; they are passed over.
UNUSABLE = (400, 413, 415, 422)


class Place(NamedTuple):
    """Where reading goes on in a file: its number in the file system, the byte, and a digest of the bytes before."""

    inode: int = 0
    offset: int = 0
    before: str = ""


def parse(given: str) -> tuple[str, str]:
    """The name of the model and the source in ``NAME=SOURCE``; the name of a file is that of its model.

    >>> parse("logs/clicks.jsonl"), parse("shop=logs/clicks.jsonl")
    (('clicks', 'logs/clicks.jsonl'), ('shop', 'logs/clicks.jsonl'))
    """
    name, equals, source = given.partition("=")
    if not equals:
        name, source = re.sub(r"[^A-Za-z0-9_-]", "-", Path(given).name.split(".")[0]) or "-", given
    try:
        require_name(name)
    except Refused:
        rule = "has no name for its model"
        raise InvalidInput("follow", given, rule, "write --follow NAME=SOURCE") from None
    return name, source


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
        self._places: dict[str, Place] = {}
        self._formats: dict[str, str] = {}
        self._pause = PAUSE
        self._later: dict[Path, float] = {}  # when to try again what could not be read
        self._held: FileIO | None = None  # the file, where the source is one
        require(
            source == STANDARD_INPUT or bool(source), "follow", source, "names no source", "give a file or a folder"
        )
        there = source != STANDARD_INPUT or sys.stdin is not None
        require(there, "follow", source, "is closed", "give a file or a folder, or open standard input")
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
                moved = [self._tried(path) for path in self._files()]
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
        expected = isinstance(problem, (Refused, OSError))
        log.warning("%s cannot be followed now (%s)", self._source, self._state.problem, exc_info=not expected)
        pause, self._pause = self._pause, min(2.0 * self._pause, LONGEST_PAUSE)
        return pause

    def _went_on(self) -> None:
        if not self._later:
            self._pause, self._state.problem = PAUSE, None

    def _recall(self) -> None:
        """Go on where the model was left."""
        found = orjson.loads(self._folder.get(self._model).store_fact(self._fact) or "{}")
        self._places = {path: Place(*place) for path, place in found.items()}

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
        if self._held is not None:
            replaced = _replaced(self._held, path)  # before it is read: what comes later is not for this file
            if self._learn_more(self._held, path):
                return True
            if not replaced:
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
        place = self._places.get(str(path), Place())
        inode = os.fstat(file.fileno()).st_ino
        if inode != place.inode or place.before not in ("", _before(file, place.offset)):  # another file
            place = Place(inode)
            self._formats.pop(str(path), None)
        file.seek(place.offset)
        data = _whole_lines(file)
        if not data:
            return False
        offset = place.offset + len(data)
        return self._learn(data, str(path), Place(inode, offset, _before(file, offset)))

    def _follow_input(self) -> None:
        waiting = b""
        while not self._ended.is_set():
            try:
                piece = os.read(sys.stdin.fileno(), PIECE)
            except (OSError, ValueError) as problem:  # closed or broken, which does not mend
                self._noted(problem)
                return
            waiting += piece
            end = waiting.rfind(b"\n") + 1 if piece else len(waiting)
            if end:
                self._learn(waiting[:end], STANDARD_INPUT, None)
                waiting = waiting[end:]
            if not piece:
                return

    def _learn(self, data: bytes, path: str, after: Place | None) -> bool:
        """Teach the model, and note the place in the same commit; whether that was done."""
        places = dict(self._places)
        if after is not None:
            places[path] = after
        facts = {self._fact: orjson.dumps({path: list(place) for path, place in places.items()}).decode()}
        try:
            format_ = self._formats.get(path) or detect(data[: 1 << 18], path)
            require(format_ in TEXT, "follow", path, f"is {format_}", f"give one of {', '.join(TEXT)}")
            self._formats[path] = format_
            job = Job(LEARN, Entry(format_, data if data.endswith(b"\n") else data + b"\n", True), facts=facts)
        except (BadSource, InvalidInput) as problem:
            log.warning("%s", problem)
            job = Job(NOTE, facts=facts)
        while not self._ended.is_set():
            try:
                self._folder.get(self._model).submit(job).answer.result()
                break
            except Exception as problem:
                if isinstance(problem, Refused) and problem.status in UNUSABLE and job.kind == LEARN:
                    log.warning("%s: %s", path, problem)
                    job = Job(NOTE, facts=facts)
                else:
                    self._failed(problem)
                    job = Job(job.kind, job.entry, facts=facts)
        else:
            return False
        self._places = places
        self._went_on()
        return True


def _whole_lines(file: FileIO) -> bytes:
    """The next lines of a file: as many as fit, or one that does not; nothing where the last one has no end yet."""
    data = file.read(PIECE)
    while data and b"\n" not in data and (more := file.read(PIECE)):
        data += more
    data = data[: data.rfind(b"\n") + 1]
    lines = data.split(b"\n", LINES)
    return data if len(lines) <= LINES else data[: len(data) - len(lines[-1])]


def _replaced(file: FileIO, path: Path) -> bool:
    """Whether a path leads to another file than the one that is open."""
    try:
        return not os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:  # renamed, and the next one is not there yet
        return False


def _before(file: FileIO, offset: int) -> str:
    """A digest of the last bytes before a place in a file; of other bytes where the file ends before that place."""
    file.seek(max(0, offset - KNOWN_BY))
    data = file.read(min(offset, KNOWN_BY))
    return hashlib.sha256(data).hexdigest()[:32]
