"""Files that are written whole or not at all."""

import contextlib
import errno
import os
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from giftrl import system
from giftrl.errors import ModelFileError

#: What the system says when a file system cannot do what it is asked, as opposed to failing at it.
UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM, errno.EBADF}

REMEDIES = {
    errno.ENOENT: ("does not exist", "check the name"),
    errno.ENOTDIR: ("lies below something that is not a folder", "check the name"),
    errno.EISDIR: ("is a folder", "give the name of a file in it"),
    errno.EACCES: ("may not be opened", "check the permissions of the file and its folder"),
    errno.EPERM: ("may not be changed", "check the permissions of the file and its folder"),
    errno.EROFS: ("lies on a disk that cannot be written to", "save elsewhere"),
    errno.ENOSPC: ("does not fit: the disk is full", "free some space or save elsewhere"),
    errno.EDQUOT: ("does not fit: the quota is used up", "free some space or save elsewhere"),
    errno.EFBIG: ("is larger than this system lets a file be", "raise the limit (ulimit -f) or save elsewhere"),
    errno.ENAMETOOLONG: ("has too long a name", "choose a shorter one"),
    errno.ENXIO: ("is a pipe that nobody reads from", "start the reader first"),
    errno.ELOOP: ("is a symbolic link that leads back to itself", "remove the link"),
}


@contextlib.contextmanager
def file_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what the system says about a file into a :class:`ModelFileError`.

    >>> with file_errors("nowhere.giftrl"):
    ...     open("nowhere.giftrl")
    Traceback (most recent call last):
    giftrl.errors.ModelFileError: nowhere.giftrl: does not exist; check the name
    """
    try:
        null = b"\0" in os.fsencode(path)
    except UnicodeEncodeError:
        null = True
    if null:
        raise ModelFileError(repr(path), "is not the name of a file", "leave out the characters that no name can have")
    try:
        yield
    except OSError as error:
        unknown = f"cannot be used ({error.strerror or error})", "check the file and its disk"
        raise ModelFileError(path, *REMEDIES.get(error.errno or 0, unknown)) from error


#: The exit statuses that signals have asked for.
ASKED: list[int] = []

#: As many entries as there are blocks that no signal may end; see :func:`uninterrupted`.
HELD: list[None] = []


def leave_if_asked() -> None:
    """End the process if a signal has asked for that, before a file is put in its place.

    The exception with which a signal interrupts Python is lost where C code clears exceptions, as some imports do.
    """
    if ASKED:
        raise SystemExit(ASKED[0])


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """A short block that a signal does not end before its last line, for a file that is made and noted for removal.

    >>> with uninterrupted():
    ...     pass
    """
    HELD.append(None)
    try:
        yield
    finally:
        HELD.pop()
        if not HELD:
            leave_if_asked()


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write a file at, which then replaces the file of a name: all of it, or nothing.

    The path lies in a private folder beside the target, ``.giftrl-*.tmp``. Once the file has reached the disk it takes
    the place of an earlier one. Whatever happens before that (the disk is full, say, or Ctrl-C) leaves the earlier file
    as it was and removes the folder. A process that is killed leaves its folder behind; the next one that writes to the
    same target removes it. A symbolic link is followed, and the permissions of an earlier file are kept.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/a") as new:
    ...         _ = new.write_text("one")
    ...     [each.name for each in Path(folder).iterdir()]
    ['a']
    """
    with file_errors(path):
        target = Path(os.path.realpath(path))
        earlier = require_replaceable(path)
        _remove_leftovers(target)
        with _private_folder(target) as folder:
            new = folder / "new"
            new.touch(exist_ok=False)
            mode = stat.S_IMODE(new.stat().st_mode) if earlier is None else earlier
            yield new
            new.chmod(mode)
            handle = os.open(new, os.O_RDWR)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            leave_if_asked()
            system.replace(new, target)
    _flush_folder(path, target.parent)


def write(path: str | os.PathLike[str], parts: Iterable[Any]) -> None:
    """Write bytes and contiguous arrays to a file, one after the other, as :func:`replacing` does.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/a", [b"one ", b"two"])
    ...     Path(f"{folder}/a").read_bytes()
    b'one two'
    """
    with replacing(path) as new, new.open("wb") as file:
        for part in parts:
            file.write(part)


class Finishing(ABC):
    """A file in the making: as a context manager it is finished, or given up if an error ends the block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *problem: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    @abstractmethod
    def close(self) -> None:
        """Finish the file and put it in its place."""

    @abstractmethod
    def abandon(self) -> None:
        """Give up: leave what was there before, and nothing else."""


def _prefix(target: Path) -> str:
    """How the names of a target's private folders begin; a random part of 16 letters and ".tmp" follow."""
    return f".giftrl-{target.name[:50]}-"


@contextlib.contextmanager
def _private_folder(target: Path) -> Iterator[Path]:
    """A new folder beside a target, locked for as long as this process lives and removed in the end."""
    with contextlib.ExitStack() as made:
        with uninterrupted():
            for attempt in range(10):
                folder = target.parent / f"{_prefix(target)}{os.urandom(8).hex()}.tmp"
                folder.mkdir(0o700)
                lock = _lock(folder)
                # Another process may take the folder for a leftover before it is locked, and remove it. Where nothing
                # can be locked, nothing is removed either, and the last attempt will do.
                if folder.exists() and (lock is not None or not system.can_lock() or attempt == 9):
                    break
                _unlock(lock)
                with contextlib.suppress(OSError):
                    folder.rmdir()
            made.callback(_unlock, lock)
            made.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


def _remove_leftovers(target: Path) -> None:
    """Remove the private folders of processes that were killed: those that are not locked any more."""
    prefix = _prefix(target)
    with contextlib.suppress(OSError):  # a folder that cannot be listed, say
        for folder in target.parent.iterdir():
            name = folder.name
            if name.startswith(prefix) and name.endswith(".tmp") and len(name) == len(prefix) + 20:
                lock = _lock(folder)
                if lock is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    _unlock(lock)


def _lock(folder: Path) -> int | None:
    """The handle of a folder that is now locked; None where it is locked already, or cannot be."""
    if not system.can_lock():  # leftovers are not removed there
        return None
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    if system.lock(handle):
        return handle
    os.close(handle)
    return None


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a name is that of a pipe, a terminal or another device, which can be written to but not replaced.

    >>> is_stream("/dev/null"), is_stream("no such file")
    (True, False)
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_stream(path: str, flags: int) -> int:
    """Open a pipe or a device; an error if it is a pipe without a reader, for which a plain open would wait."""
    return system.open_at_once(path, flags & ~(os.O_CREAT | os.O_TRUNC))


def require_replaceable(path: str | os.PathLike[str]) -> int | None:
    """Raise an error if :func:`replacing` would; else return the permissions of an earlier file, None without one.

    >>> require_replaceable("new.giftrl") is None
    True
    """
    with file_errors(path):
        target = Path(os.path.realpath(path))
        try:
            status = target.stat()
        except FileNotFoundError:
            status = None
            if not target.parent.exists():
                problem = f"lies in the folder {target.parent}, which does not exist"
                raise ModelFileError(path, problem, "create it, or check the name") from None
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise ModelFileError(path, *REMEDIES[errno.EISDIR])
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise ModelFileError(path, "is a device or a pipe and not a file", "give the name of a file")
        effective = os.access in os.supports_effective_ids
        # To replace a file, the system asks only for write access to its folder; a file marked read-only must stay.
        if status is not None and not os.access(target, os.W_OK, effective_ids=effective):
            raise ModelFileError(path, "is read-only", "save under another name, or allow writing to it")
        if not os.access(target.parent, os.W_OK | os.X_OK, effective_ids=effective):
            problem = f"lies in the folder {target.parent}, which may not be written to"
            raise ModelFileError(path, problem, "give another folder, or allow writing to it")
        return None if status is None else stat.S_IMODE(status.st_mode)


def _flush_folder(path: str | os.PathLike[str], folder: Path) -> None:
    """Make the new name survive a power cut, where the system can do that for a folder."""
    try:
        system.sync_folder(folder)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            problem = f"is written, but a power cut may undo that ({error.strerror})"
            raise ModelFileError(path, problem, "check the disk and save again") from error
