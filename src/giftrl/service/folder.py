"""A folder of models, each in a subfolder, opened on demand and closed when memory is short."""

import contextlib
import logging
import os
import re
import shutil
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import orjson

from giftrl import system
from giftrl.errors import GiftrlError, InvalidInput, Refused
from giftrl.service.request_limits import Limits
from giftrl.service.requested_settings import RequestedSettings
from giftrl.service.store import ModelStore, disk_errors
from giftrl.service.writer import CLOSE, LOG_NAME, Clock, Job, Writer

log = logging.getLogger("giftrl.service")

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
#: Names that Windows reserves for devices.
DEVICE_NAMES = {"con", "prn", "aux", "nul", *(f"{port}{k}" for port in ("com", "lpt") for k in range(1, 10))}
#: The prefix of folders that are being created or deleted.
UNFINISHED = ".giftrl-"
LOCK_NAME = ".lock"


def require_name(name: str) -> None:
    """Refuse a name that could escape the folder, or that is invalid on some system."""
    reserved = name.endswith(".") or name.partition(".")[0].lower() in DEVICE_NAMES
    if reserved or not MODEL_NAME.fullmatch(name):
        rule = "use up to 64 letters, digits, dots, dashes and underscores, and begin with a letter or a digit"
        raise Refused(422, f"{name!r:.80} is no name of a model", rule)


@dataclass
class Followed:
    """State of a followed source: the number of failures, and the current problem."""

    errors: int = 0
    problem: str | None = None


class Folder:
    """The models of a folder, which is created if missing; for any number of threads."""

    def __init__(self, path: Path, limits: Limits, clock: Clock | None = None) -> None:
        self.path, self.limits, self.clock = path, limits, clock or Clock()
        new = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for each in reversed(new):
            system.sync_folder(each.parent)
        self._lock_file = lock_folder(path)
        for leftover in path.glob(f"{UNFINISHED}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        self.writers: dict[str, Writer] = {}  # of open models
        self.followed: dict[str, Followed] = {}  # by names of models that follow a source
        self.deletions: Counter[str] = Counter()  # of models of each name
        self.closed = False
        self._lock = threading.Lock()  # of the table below
        self._exclusive_locks: WeakValueDictionary[str, Any] = WeakValueDictionary()  # each entry exists while in use

    @property
    def names(self) -> list[str]:
        """The names of all models."""
        return sorted(each.name for each in self.path.iterdir() if (each / LOG_NAME).exists())

    def has(self, name: str) -> bool:
        """Return True if there is a model of this name."""
        require_name(name)
        return name in self.writers or (self.path / name / LOG_NAME).exists()

    def get(self, name: str) -> Writer:
        """Return a model; opens it if it is closed, which may take a while."""
        with self._exclusive(name):
            closed = name not in self.writers
            if closed:
                if self.closed:
                    raise Refused(503, "the service is ending", "try again later", retry_after=5)
                self._require_model(name, f"create it with PUT /models/{name}")
                with readable_files(name):
                    writer = Writer(self.path / name, self.limits, self.clock)
                writer.start()
                self.writers[name] = writer
            writer = self.writers[name]
            writer.used = time.monotonic()
        if closed:
            self._make_room(name)
        return writer

    def create(self, name: str, given: Any) -> bool:
        """Create a model; return False if there is one of this name and with these settings already."""
        requested = RequestedSettings.checked(given, self.limits.bits)
        with self._exclusive(name):
            if self.has(name):
                if self._settings(name) == requested.given:
                    return False
                raise Refused(409, f"there is a model {name!r} with other settings", "choose another name")
            if len(self.names) >= self.limits.models:
                raise Refused(507, f"there are {self.limits.models} models", "delete one first")
            new = self.path / f"{UNFINISHED}{uuid.uuid4().hex}"
            with disk_errors():
                new.mkdir()
                with contextlib.closing(ModelStore(new / LOG_NAME, self.limits.sync)) as store, store.transaction():
                    store.set_fact("settings", orjson.dumps(requested.given).decode())
                system.sync_folder(new)
                system.replace(new, self.path / name)
                system.sync_folder(self.path)
        return True

    def some_settings(self, most: int) -> list[Any]:
        """The settings of some models, up to a number, with readable files."""
        settings = []
        for name in self.names[:most]:
            with contextlib.suppress(Refused):
                settings.append(self._settings(name))
        return settings

    def _settings(self, name: str) -> Any:
        with readable_files(name), contextlib.closing(ModelStore(self.path / name / LOG_NAME)) as store:
            return orjson.loads(store.fact("settings") or "{}")

    def delete(self, name: str) -> None:
        """Delete a model and everything it has learned."""
        with self._exclusive(name):
            self._require_model(name, "look at GET /models")
            self._close(name)
            gone = self.path / f"{UNFINISHED}{uuid.uuid4().hex}"
            with disk_errors():
                system.replace(self.path / name, gone)
                system.sync_folder(self.path)
            self.deletions[name] += 1  # before a model of this name can be created again
            shutil.rmtree(gone, ignore_errors=True)

    def _require_model(self, name: str, remedy: str) -> None:
        if not self.has(name):
            raise Refused(404, f"there is no model {name!r}", remedy)

    def close(self) -> None:
        """Close every model after its queued jobs."""
        self.closed = True
        for name in list(self.writers):
            with self._exclusive(name):
                self._close(name)
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _close(self, name: str) -> None:
        writer = self.writers.pop(name, None)
        if writer is not None:
            with contextlib.suppress(Refused):
                writer.submit(Job(CLOSE), always=True)
            writer.join()

    def _exclusive(self, name: str) -> Any:
        """The lock for opening, creating and deleting a model."""
        with self._lock:
            return self._exclusive_locks.setdefault(name, threading.Lock())

    def _make_room(self, kept: str) -> None:
        """Close the least recently used models until the others fit in memory; never the one just opened."""
        while True:
            writers = self.writers.copy()
            used = sum(writer.model.nbytes for writer in writers.values())
            if used <= self.limits.memory or len(writers) <= 1:
                return
            oldest = min(writers.keys() - {kept}, key=lambda name: writers[name].used)
            with self._exclusive(oldest):
                self._close(oldest)


def lock_folder(path: Path) -> int | None:
    """Keep other services out of a folder until this process ends."""
    if not system.can_lock():
        return None
    handle = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    if system.lock(handle):
        return handle
    os.close(handle)
    raise InvalidInput("folder", str(path), "is served by another process", "end that one first")


@contextlib.contextmanager
def readable_files(name: str) -> Iterator[None]:
    """Turn errors in a model's files into an HTTP answer, and log them."""
    try:
        yield
    except (GiftrlError, sqlite3.Error, OSError, ValueError) as problem:
        log.error("the files of the model %r cannot be read: %s: %s", name, type(problem).__name__, problem)
        words = f"the files of the model {name!r} cannot be read"
        raise Refused(503, words, "look at the log of the service", retry_after=5) from None
