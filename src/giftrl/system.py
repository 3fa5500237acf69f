"""Differences between operating systems, and memory: Windows has no fcntl, no O_NONBLOCK, and no way to sync or lock a
folder; it opens files in text mode by default, and cannot replace an open file. Other modules have no platform
branches, except ``compiled.object_files``, which locks parts of a file.
"""

import contextlib
import ctypes
import errno
import math
import os
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from giftrl.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]

#: Options of glibc's ``mallopt``: the mmap threshold and the trim threshold.
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
#: Seconds of retries to replace a file on Windows.
REPLACE_SECONDS = 5.0


def can_lock() -> bool:
    """True on POSIX systems, where files can be locked and open files renamed."""
    return fcntl is not None


def lock(file: int | IO[bytes]) -> bool | None:
    """Lock an open file or folder until it is closed; False if already locked, None if not supported."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def open_at_once(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, or a pipe without waiting for the other end; later reads and writes block as usual."""
    if not hasattr(os, "O_NONBLOCK"):
        return os.open(path, flags)
    handle = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    return handle


def open_to_read(path: str | os.PathLike[str]) -> int:
    """Open a file in binary mode for reading, without following links if supported."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0))


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Rename a file or folder, replacing an existing one.

    Windows refuses that while a program has one of them open, so it is tried again for some seconds there.
    """
    end = time.monotonic() + REPLACE_SECONDS
    while True:
        try:
            Path(source).replace(target)
            return
        except PermissionError:
            if can_lock() or time.monotonic() >= end:
                raise
        time.sleep(0.02)


def nobody_reads(problem: OSError) -> bool:
    """True if writing to standard output failed because its reader has ended (on Windows, EINVAL)."""
    if isinstance(problem, BrokenPipeError):
        return True
    return not can_lock() and problem.errno == errno.EINVAL and problem.filename is None


def claim_address(found: Any) -> None:
    """Let a socket bind a recently used address. On Windows, SO_REUSEADDR would also allow an address in use."""
    import socket

    exclusive = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if exclusive is None else exclusive, 1)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Sync a folder's entries to disk; no effect if a folder cannot be opened, as on Windows."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def give_back_memory(size: int) -> None:
    """With glibc, return freed arrays of this many bytes to the system at once; it may keep up to 32 MiB."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        for option in (MMAP_THRESHOLD, TRIM_THRESHOLD):
            mallopt(option, size)


def cores() -> int:
    """The number of cores available to this process, or all cores if unknown.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def physical_memory() -> int:
    """The memory of this machine in bytes; 2^62 if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def zeros(shape: tuple[int, ...], dtype: Any = "float64", *, beside: int = 0) -> "NDArray[Any]":
    """Zeros, a row for each feature; raises an error if memory is insufficient, since systems overcommit memory and
    kill processes later.

    Args:
        shape, dtype: as for ``numpy.zeros``.
        beside: bytes per feature needed for other arrays.

    >>> zeros((2, 1)).tolist()
    [[0.0], [0.0]]
    """
    import numpy as np  # late, so that commands set the number of threads of linear algebra before

    needed = math.prod(map(int, shape)) * np.dtype(dtype).itemsize + int(shape[0]) * beside
    available = physical_memory()
    if needed > available:
        rule = f"needs {needed / 2**30:,.0f} GiB of memory, and this machine has {available / 2**30:,.0f} GiB"
        raise InvalidInput("dimension", int(shape[0]), rule, "use fewer features (--bits) or classes")
    return np.zeros(shape, dtype)


def cache_folder() -> Path:
    """The user's cache folder for giftrl; raises an error without a home folder, as in some containers."""
    try:
        if sys.platform == "win32":
            cache = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        elif sys.platform == "darwin":
            cache = Path.home() / "Library" / "Caches"
        else:
            cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise FileNotFoundError("this user has no home folder") from None
    return Path(cache, "giftrl")
