"""What a model has on disk besides its file: the examples since then, answers by key, and predictions that wait.

One SQLite database a model, with a write-ahead log that is synced at every commit. Everything that one commit holds is
there after a crash, or nothing of it.
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
#: The version of these tables; databases of earlier ones can be read, those of later ones are refused.
VERSION = 1
#: Pages of the write-ahead log after which SQLite moves it into the database.
PAGES = 1_000
#: Bytes of the write-ahead log when it is moved, about: a page and 24 more each.
WHOLE = PAGES * 4_120


class Answered(NamedTuple):
    """An earlier request with an idempotency key: the digest of its body, and what it was answered."""

    digest: bytes
    answer: bytes


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Turn what SQLite and the system say about the disk into an answer."""
    try:
        yield
    except (sqlite3.Error, OSError):
        raise Refused(
            503, "the disk does not take anything now, and nothing was learnt", "try again later", retry_after=5
        ) from None


class Store:
    """The database of one model, for one thread at a time.

    Args:
        path: of the file, which is made if it is not there.
        sync: whether a commit waits for the disk.

    >>> store = Store(Path(":memory:"))
    >>> with store.transaction():
    ...     store.add(1, Body("vw", b"1 |a\\n"))
    >>> [(number, entry.data) for number, entry in store.entries(0)]
    [(1, b'1 |a\\n')]
    >>> store.close()
    """

    def __init__(self, path: Path, sync: bool = True) -> None:
        self.path = path
        self._open = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=5.0)
        try:
            self._begin(sync)
        except BaseException:
            self.close()
            raise

    def _begin(self, sync: bool) -> None:
        self._run = self._open.execute
        self._run("PRAGMA journal_mode=WAL").fetchall()
        self._run(f"PRAGMA synchronous={'FULL' if sync else 'OFF'}")
        self._run(f"PRAGMA wal_autocheckpoint={PAGES}").fetchall()
        version = int(self._run("PRAGMA user_version").fetchone()[0])
        if version > VERSION:
            raise ModelFileError(
                self.path, "was written by a later version of giftrl", "install that version, or a later one"
            )
        self._open.executescript(SCHEMA)
        if version < VERSION:
            self._run(f"PRAGMA user_version={VERSION}")

    def close(self) -> None:
        """Close the file."""
        self._open.close()

    def make_room(self) -> None:
        """Let the write-ahead log have its whole size at once, for a model that is busy.

        To sync a file that has grown, the file system must write its size too: in turns on one ext4 disk, 8 ms where
        writing over what is there took 4 ms, while other programs ran. SQLite writes over the log from its beginning
        whenever it has been moved, and stops reading it at the first page that does not continue it, so that zeros at
        its end are never read. (Section 4 of https://www.sqlite.org/fileformat.html)
        """
        log = Path(f"{self.path}-wal")
        with contextlib.suppress(OSError), log.open("r+b", buffering=0) as file:
            file.seek(0, os.SEEK_END)
            file.write(bytes(max(0, WHOLE - file.tell())))
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """What is written inside is on the disk at the end, all of it; or nothing, if anything fails."""
        self._run("BEGIN IMMEDIATE")
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            if self._open.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._run("ROLLBACK")
            raise

    def fact(self, name: str) -> str | None:
        """A value by its name; None where there is none."""
        found = self._run("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def set_fact(self, name: str, value: str) -> None:
        """Write a value down."""
        self._run("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def add(self, number: int, entry: Body) -> None:
        """Append an entry to the log, under a number that is larger than all before."""
        self._run("INSERT INTO entries VALUES (?, ?, ?, ?)", (number, entry.format, entry.skip, entry.data))

    def entries(self, after: int) -> Iterator[tuple[int, Body]]:
        """The log after a number."""
        every = "SELECT number, format, skip, data FROM entries WHERE number > ? ORDER BY number"
        for number, format_, skip, data in self._run(every, (after,)):
            yield number, Body(format_, data, bool(skip))

    def log_bytes(self, after: int) -> int:
        """How many bytes of rows the log has after a number."""
        total = "SELECT coalesce(sum(length(data)), 0) FROM entries WHERE number > ?"
        return int(self._run(total, (after,)).fetchone()[0])

    def cut(self, until: int, most: int = -1) -> bool:
        """Forget the log up to a number, which a model file holds; whether all of it is forgotten.

        Args:
            until: the number.
            most: how many entries to forget at most; large ones take their time. -1 for all.
        """
        first = "SELECT number FROM entries WHERE number <= ? ORDER BY number LIMIT ?"
        return self._run(f"DELETE FROM entries WHERE number IN ({first})", (until, most)).rowcount < max(most, 1)

    def answered(self, key: str) -> Answered | None:
        """What a request with a key was answered."""
        found = self._run("SELECT digest, answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if found is None else Answered(*found)

    def set_answer(self, key: str, answered: Answered, expires: float) -> None:
        """Keep the answer to a request with a key."""
        self._run("INSERT INTO answers VALUES (?, ?, ?, ?)", (key, *answered, expires))

    def remember(self, name: str, row: bytes, expires: float) -> None:
        """Keep a row until its label comes."""
        self._run("INSERT INTO remembered VALUES (?, ?, ?)", (name, row, expires))

    def remembered(self, name: str, now: float) -> bytes | None:
        """A row that waits for its label; None where there is none, or no more; empty where it has its label."""
        found = self._run("SELECT row FROM remembered WHERE id = ? AND expires > ?", (name, now)).fetchone()
        return None if found is None else bytes(found[0])

    def set_labelled(self, name: str) -> None:
        """Note that a row has its label: the row is forgotten, its name is kept until it expires."""
        self._run("UPDATE remembered SET row = x'' WHERE id = ?", (name,))

    def count_remembered(self) -> int:
        """How many rows wait for their labels."""
        return int(self._run("SELECT count(*) FROM remembered WHERE length(row) > 0").fetchone()[0])

    def forget(self, now: float) -> None:
        """Remove what has expired."""
        for table in ("answers", "remembered"):
            self._run(f"DELETE FROM {table} WHERE expires <= ?", (now,))
