"""Learning from a file that grows, a folder in which files arrive, or standard input, while the service runs.

The position in each file is committed together with the rows that end there: after a crash no row is skipped, and none
is learnt twice. Standard input has no position; what a crash takes from it is gone.
"""

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import orjson

from giftrl.errors import BadSource, InvalidInput, Refused, require
from giftrl.service.bodies import Entry
from giftrl.service.folder import Folder, require_name
from giftrl.service.jobs import LEARN, NOTE, Job
from giftrl.streams.formats import detect
from giftrl.streams.sources.source import STANDARD_INPUT

log = logging.getLogger("giftrl.service")

#: Bytes that are read and learnt at a time, seconds between two looks at a source, and lines of one request.
PIECE, PAUSE, LINES = 1 << 20, 0.2, 5_000
TEXT = ("json", "libsvm", "vw")
#: What is said of rows with which nothing can be done; they are passed over.
UNUSABLE = (400, 413, 415, 422)


class Place(NamedTuple):
    """Where reading goes on in a file: its number in the file system, and the byte."""

    inode: int = 0
    offset: int = 0


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
        require(
            source == STANDARD_INPUT or bool(source), "follow", source, "names no source", "give a file or a folder"
        )
        if not folder.has(name):
            folder.create(name, {})

    def end(self) -> None:
        """Stop at the next pause."""
        self._ended.set()

    def run(self) -> None:
        """Follow the source until the service ends."""
        while not self._ended.is_set():
            try:
                kept = self._folder.get(self._model).store_fact(self._fact)
                found = orjson.loads(kept or "{}")
                self._places = {path: Place(*place) for path, place in found.items()}
                break
            except Refused:
                self._ended.wait(PAUSE)
        if self._source == STANDARD_INPUT:
            self._follow_input()
            return
        while not self._ended.is_set():
            try:
                moved = [self._read(path) for path in self._files()]
            except OSError as problem:
                log.warning("%s cannot be read (%s)", self._source, problem.strerror)
                moved = []
            if not any(moved):
                self._ended.wait(PAUSE)

    def _files(self) -> Iterator[Path]:
        path = Path(self._source)
        if not path.is_dir():
            yield from [path] if path.exists() else []
            return
        for each in sorted(path.iterdir()):
            if each.is_file() and not each.name.startswith((".", "_")):
                yield each

    def _read(self, path: Path) -> bool:
        """Learn what is new in a file, up to its last whole line; whether there was anything."""
        place = self._places.get(str(path), Place())
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_ino != place.inode or status.st_size < place.offset:  # another file has taken its name
                place = Place(status.st_ino, 0)
                self._formats.pop(str(path), None)
            file.seek(place.offset)
            data = _whole_lines(file)
        if not data:
            return False
        after = place._replace(offset=place.offset + len(data))
        return self._learn(data, str(path), after)

    def _follow_input(self) -> None:
        waiting = b""
        while not self._ended.is_set():
            piece = os.read(sys.stdin.fileno(), PIECE)
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
            except Refused as refusal:
                if refusal.status in UNUSABLE and job.kind == LEARN:
                    log.warning("%s: %s", path, refusal)
                    job = Job(NOTE, facts=facts)
                else:
                    self._ended.wait(5 * PAUSE)
                    job = Job(job.kind, job.entry, facts=facts)
        else:
            return False
        self._places = places
        return True


def _whole_lines(file: IO[bytes]) -> bytes:
    """The next lines of a file: as many as fit, or one that does not; nothing where the last one has no end yet."""
    data = file.read(PIECE)
    while data and b"\n" not in data and (more := file.read(PIECE)):
        data += more
    data = data[: data.rfind(b"\n") + 1]
    lines = data.split(b"\n", LINES)
    return data if len(lines) <= LINES else data[: len(data) - len(lines[-1])]
