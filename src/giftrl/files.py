"""Files that are written whole or not at all."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from giftrl.errors import ModelFileError

__all__ = ["file_errors", "write"]

#: The most bytes in one call; some systems take no more than 2^31.
CHUNK = 1 << 26

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


def write(path: str | os.PathLike[str], parts: Iterable[Any]) -> None:
    """Write bytes and contiguous arrays to a file, one after the other: all of them, or none.

    They go to a temporary file in the same folder, which takes the place of an earlier file of that name when all of it
    has reached the disk. Whatever happens before that (the disk is full, say, or Ctrl-C) leaves the earlier file as it
    was and removes the temporary one; only a process that is killed can leave a ``.giftrl-*.tmp`` behind. A symbolic
    link is followed, and the permissions of an earlier file are kept.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/a", [b"one ", b"two"])
    ...     Path(f"{folder}/a").read_bytes()
    b'one two'
    """
    with file_errors(path):
        target = Path(os.path.realpath(path))
        mode = _mode_of(path, target)
        temporary = target.parent / f".giftrl-{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(temporary, flags, 0o666)
        try:
            try:
                for part in parts:
                    _write_all(handle, part)
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(handle, mode)
                os.fsync(handle)
            finally:
                os.close(handle)
            temporary.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    _flush_folder(path, target.parent)


def _mode_of(path: str | os.PathLike[str], target: Path) -> int | None:
    """The permissions of an earlier file, None where there is none; an error where it may not be replaced."""
    try:
        found = target.stat()
    except FileNotFoundError:
        if not target.parent.exists():
            problem = f"lies in the folder {target.parent}, which does not exist"
            raise ModelFileError(path, problem, "create it, or check the name") from None
        return None
    if stat.S_ISDIR(found.st_mode):
        raise ModelFileError(path, *REMEDIES[errno.EISDIR])
    if not stat.S_ISREG(found.st_mode):
        raise ModelFileError(path, "is a device or a pipe and not a file", "give the name of a file")
    # Taking the place of a file needs leave to write to its folder alone; a file that is marked read-only is kept.
    if not os.access(target, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise ModelFileError(path, "is read-only", "save under another name, or allow writing to it")
    return stat.S_IMODE(found.st_mode)


def _write_all(handle: int, part: Any) -> None:
    left = memoryview(part).cast("B")
    while len(left) > 0:
        left = left[os.write(handle, left[:CHUNK]) :]


def _flush_folder(path: str | os.PathLike[str], folder: Path) -> None:
    """Make the new name survive a power cut, where the system can do that for a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            problem = f"is written, but a power cut may undo that ({error.strerror})"
            raise ModelFileError(path, problem, "check the disk and save again") from error
