"""A folder of models: each in a folder of its own, opened when it is asked for, closed when memory is short."""

import contextlib
import logging
import os
import re
import shutil
import sqlite3
import threading
import uuid
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import orjson

from giftrl import system
from giftrl.errors import GiftrlError, InvalidInput, Refused
from giftrl.service.limits import Limits
from giftrl.service.provisional_model import ProvisionalModel, RequestedSettings
from giftrl.service.store import Store, disk_errors
from giftrl.service.writer import CLOSE, Clock, Job, Writer

log = logging.getLogger("giftrl.service")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
#: The names that Windows keeps for devices.
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{k}" for port in ("com", "lpt") for k in range(1, 10))}
#: How the names of folders begin that are being made or deleted.
UNFINISHED = ".giftrl-"
LOCK = ".lock"
#: Bytes of a model that are not in its arrays, as a rough guess.
BESIDE = 1 << 20


def require_name(name: str) -> None:
    """Refuse a name that could leave the folder, or that some system cannot have.

    >>> require_name("../secret")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    giftrl.errors.Refused: '../secret' is no name of a model; use up to 64 letters, digits, dots, ...
    """
    good = NAME.fullmatch(name) and not name.endswith(".") and name.partition(".")[0].lower() not in DEVICES
    if not good:
        rule = "use up to 64 letters, digits, dots, dashes and underscores, and begin with a letter or a digit"
        raise Refused(422, f"{name!r:.80} is no name of a model", rule)


@dataclass
class Followed:
    """How learning from a followed source goes: how often it failed, and why the last time; None where it goes on."""

    errors: int = 0
    problem: str | None = None


class Folder:
    """The models of a folder, for any number of threads.

    Args:
        path: of the folder; it is made if it is not there.
        limits: of the service.
        clock: of the service.
    """

    def __init__(self, path: Path, limits: Limits, clock: Clock | None = None) -> None:
        self.path, self.limits, self.clock = path, limits, clock or Clock()
        _made(path)
        self._lock_file = _locked(path / LOCK)
        for leftover in path.glob(f"{UNFINISHED}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        self._open: OrderedDict[str, Writer] = OrderedDict()
        self._lock = threading.Lock()  # of the table of open models
        self._opening: WeakValueDictionary[str, Any] = WeakValueDictionary()  # a lock is there while it is used
        self.closed = False
        self.followed: dict[str, Followed] = {}  # by the names of models that follow a source
        self.deletions: Counter[str] = Counter()  # of models of each name

    @property
    def names(self) -> list[str]:
        """The names of all models."""
        return sorted(each.name for each in self.path.iterdir() if (each / "log.db").exists())

    @property
    def writers(self) -> dict[str, Writer]:
        """The models that are open, by name."""
        with self._lock:
            return dict(self._open)

    def has(self, name: str) -> bool:
        """Whether there is a model of a name."""
        require_name(name)
        return name in self._open or (self.path / name / "log.db").exists()

    def opened(self, name: str) -> Writer | None:
        """A model that is open; None where it is closed."""
        with self._lock:
            writer = self._open.get(name)
            if writer is not None:
                self._open.move_to_end(name)
            return writer

    def get(self, name: str) -> Writer:
        """A model, which is opened if it is closed; that may take a while."""
        require_name(name)
        found = self.opened(name)
        if found is not None:
            return found
        with self._exclusive(name):
            found = self.opened(name)
            if found is None:
                if self.closed:
                    raise Refused(503, "the service is ending", "try again later", retry_after=5)
                if not self.has(name):
                    raise Refused(404, f"there is no model {name!r}", f"create it with PUT /models/{name}")
                with _reading(name):
                    found = Writer(self.path / name, self.limits, self.clock)
                found.start()
                with self._lock:
                    self._open[name] = found
        self._make_room(name)
        return found

    def create(self, name: str, given: Any) -> bool:
        """Create a model; False where there is one of that name and of the same settings already."""
        require_name(name)
        wanted = RequestedSettings.checked(given, self.limits.bits)
        with self._exclusive(name):
            if self.has(name):
                if self._settings(name) == wanted.given:
                    return False
                raise Refused(409, f"there is a model {name!r} with other settings", "choose another name")
            if len(self.names) >= self.limits.models:
                raise Refused(507, f"there are {self.limits.models} models", "delete one first")
            new = self.path / f"{UNFINISHED}{uuid.uuid4().hex}"
            with disk_errors():
                new.mkdir()
                with contextlib.closing(Store(new / "log.db", self.limits.sync)) as store, store.transaction():
                    store.set_fact("settings", orjson.dumps(wanted.given).decode())
                system.sync_folder(new)
                system.replace(new, self.path / name)
                system.sync_folder(self.path)
        return True

    def some_settings(self, most: int) -> list[dict[str, Any]]:
        """The settings of some models; of those whose files can be read."""
        found = []
        for name in self.names[:most]:
            with contextlib.suppress(Refused):
                found.append(self._settings(name))
        return found

    def _settings(self, name: str) -> Any:
        with _reading(name), contextlib.closing(Store(self.path / name / "log.db", self.limits.sync)) as store:
            return orjson.loads(store.fact("settings") or "{}")

    def delete(self, name: str) -> None:
        """Delete a model with all that it has learnt."""
        require_name(name)
        with self._exclusive(name):
            if not self.has(name):
                raise Refused(404, f"there is no model {name!r}", "look at GET /models")
            self._close(name)
            gone = self.path / f"{UNFINISHED}{uuid.uuid4().hex}"
            with disk_errors():
                system.replace(self.path / name, gone)
                system.sync_folder(self.path)
            self.deletions[name] += 1  # before there can be another one of this name
            shutil.rmtree(gone, ignore_errors=True)

    def close(self) -> None:
        """Let every model finish what it was asked, and close it."""
        self.closed = True
        for name in self.writers:
            with self._exclusive(name):
                self._close(name)
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _close(self, name: str) -> None:
        with self._lock:
            writer = self._open.pop(name, None)
        if writer is not None:
            with contextlib.suppress(Refused):
                writer.submit(Job(CLOSE), always=True)
            writer.join()

    def _exclusive(self, name: str) -> Any:
        """The lock of opening, creating and deleting a model."""
        with self._lock:
            return self._opening.setdefault(name, threading.Lock())

    def _make_room(self, kept: str) -> None:
        """Close the models that were not used for longest, until the others fit; never the one just opened."""
        while len(self._open) > 1:
            with self._lock:
                used = sum(size_of(writer.live) for writer in self._open.values())
                oldest = next(name for name in self._open)
            if used <= self.limits.memory or oldest == kept:
                return
            with self._exclusive(oldest):
                self._close(oldest)


def _made(path: Path) -> None:
    """Make a folder, and let the disk have its name and those of the folders above it that are new."""
    new = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in reversed(new):
        system.sync_folder(each.parent)


def size_of(live: ProvisionalModel) -> int:
    """About how many bytes of memory a model takes."""
    if live.core is None:
        return BESIDE
    return BESIDE + sum(array.nbytes for array in live.core.model.learner.own_state().values())


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turn whatever is wrong with the files of a model into an answer, and log it."""
    try:
        yield
    except (GiftrlError, sqlite3.Error, OSError, ValueError) as problem:
        log.error("the files of the model %r cannot be read: %s: %s", name, type(problem).__name__, problem)
        words = f"the files of the model {name!r} cannot be read"
        raise Refused(503, words, "look at the log of the service", retry_after=5) from None


def _locked(path: Path) -> int | None:
    """Keep other services out of the folder, until this process ends."""
    if not system.can_lock():
        return None
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if system.lock(handle):
        return handle
    os.close(handle)
    raise InvalidInput("folder", str(path.parent), "is served by another process", "end that one first")
