"""The database of a model: the log of rows since the last model file, answers by idempotency key, and remembered
predictions.

Each model has one SQLite database with a write-ahead log that is synced at every commit. Commits are atomic, also after
a crash.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from giftrl.errors import ModelFileError, Refused
from giftrl.service.bodies import Body

SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY, format TEXT, skip INTEGER, data BLOB
) STRICT;
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, digest BLOB, answer BLOB, expires REAL) STRICT;
CREATE INDEX IF NOT EXISTS answers_expire ON answers (expires);
CREATE TABLE IF NOT EXISTS remembered (id TEXT PRIMARY KEY, row BLOB, expires REAL) STRICT;
CREATE INDEX IF NOT EXISTS remembered_expire ON remembered (expires);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) STRICT;
"""
#: The version of these tables; databases of earlier versions can be read, those of later versions are refused.
VERSION = 1
#: The write-ahead log is checkpointed after this many pages.
CHECKPOINT_PAGES = 1_000
#: The approximate size of the write-ahead log at a checkpoint: a page and 24 bytes each.
FULL_LOG_BYTES = CHECKPOINT_PAGES * 4_120
DISK_ERRORS = sqlite3.Error, OSError


class Answered(NamedTuple):
    """An earlier request with an idempotency key: the digest of its body, and its answer."""

    digest: bytes
    answer: bytes


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Turn errors of SQLite and the system into an HTTP answer."""
    try:
        yield
    except DISK_ERRORS:
        words = "the disk does not take anything now, and nothing was learned"
        raise Refused(503, words, "try again later", retry_after=5) from None


class ModelStore:
    """The database of one model in a file, created if missing; not thread-safe.

    >>> store = ModelStore(Path(":memory:"))
    >>> with store.transaction():
    ...     store.add(1, Body("vw", b"1 |a\\n"))
    >>> [(number, body.data) for number, body in store.bodies(0)]
    [(1, b'1 |a\\n')]
    >>> store.close()
    """

    def __init__(self, path: Path, sync: bool = True) -> None:
        self.path = path
        self._open = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=5.0)
        self._run = self._open.execute
        try:
            self._run("PRAGMA journal_mode=WAL").fetchall()
            self._run(f"PRAGMA synchronous={'FULL' if sync else 'OFF'}")
            self._run(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}").fetchall()
            version = self._number("PRAGMA user_version")
            if version > VERSION:
                rule = "was written by a later version of giftrl"
                raise ModelFileError(path, rule, "install that version, or a later one")
            self._open.executescript(SCHEMA)
            if version < VERSION:
                self._run(f"PRAGMA user_version={VERSION}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._open.close()

    def make_room(self) -> None:
        """Preallocate the write-ahead log of a busy model. The sync of a file that has grown also writes its size,
        which took 8 ms instead of 4 on one disk. SQLite ignores zeros at the end of the log. (Section 4
        of https://www.sqlite.org/fileformat.html)
        """
        log = Path(f"{self.path}-wal")
        with contextlib.suppress(OSError), log.open("r+b", buffering=0) as file:
            file.seek(0, os.SEEK_END)
            file.write(bytes(max(0, FULL_LOG_BYTES - file.tell())))
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything written in the block, or roll back on error; disk errors become HTTP answers."""
        try:
            self._run("BEGIN IMMEDIATE")
            yield
            self._run("COMMIT")
        except BaseException:
            if self._open.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._run("ROLLBACK")
            with disk_errors():
                raise

    def _number(self, query: str, *given: object) -> int:
        return int(self._run(query, given).fetchone()[0])

    def fact(self, name: str) -> str | None:
        """Return a stored value by name, if any."""
        found = self._run("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def set_fact(self, name: str, value: str) -> None:
        """Record a value."""
        self._run("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def add(self, number: int, body: Body) -> None:
        """Append a body to the log, with an increasing number."""
        self._run("INSERT INTO entries VALUES (?, ?, ?, ?)", (number, body.format, body.skip, body.data))

    def bodies(self, after: int) -> Iterator[tuple[int, Body]]:
        """Iterate over the log after a number."""
        every = "SELECT number, format, skip, data FROM entries WHERE number > ? ORDER BY number"
        for number, format_, skip, data in self._run(every, (after,)):
            yield number, Body(format_, data, bool(skip))

    def log_bytes(self, after: int) -> int:
        """Number of bytes of rows in the log after a number."""
        return self._number("SELECT coalesce(sum(length(data)), 0) FROM entries WHERE number > ?", after)

    def cut(self, until: int, most: int = -1) -> bool:
        """Delete bodies of the log up to a number, with a limit (-1: none); returns True when all are deleted."""
        first = "SELECT number FROM entries WHERE number <= ? ORDER BY number LIMIT ?"
        return self._run(f"DELETE FROM entries WHERE number IN ({first})", (until, most)).rowcount < max(most, 1)

    def answered(self, key: str) -> Answered | None:
        """Return the answer to an earlier request with a key."""
        found = self._run("SELECT digest, answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if found is None else Answered(*found)

    def set_answer(self, key: str, answered: Answered, expires: float) -> None:
        """Store the answer to a request with a key."""
        self._run("INSERT INTO answers VALUES (?, ?, ?, ?)", (key, *answered, expires))

    def remember(self, name: str, row: bytes, expires: float) -> None:
        """Store a row until its label arrives."""
        self._run("INSERT INTO remembered VALUES (?, ?, ?)", (name, row, expires))

    def remembered(self, name: str, now: float) -> bytes | None:
        """Return a row waiting for its label; None for an unknown or expired id, empty if already labelled."""
        found = self._run("SELECT row FROM remembered WHERE id = ? AND expires > ?", (name, now)).fetchone()
        return None if found is None else bytes(found[0])

    def set_labelled(self, name: str) -> None:
        """Mark a row as labelled: the content is deleted, the id stays until it expires."""
        self._run("UPDATE remembered SET row = x'' WHERE id = ?", (name,))

    def count_remembered(self) -> int:
        """Number of stored rows that have no label yet."""
        return self._number("SELECT count(*) FROM remembered WHERE length(row) > 0")

    def forget(self, now: float) -> None:
        """Delete expired answers and predictions."""
        for table in ("answers", "remembered"):
            self._run(f"DELETE FROM {table} WHERE expires <= ?", (now,))
