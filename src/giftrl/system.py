"""Differences between operating systems, and memory: Windows has no fcntl, no O_NONBLOCK, and no way to sync or lock a
folder; it reads files as text unless it is told not to, and lets nobody replace a file that is open.

Other modules ask here and have no branches of their own. ``compiled.object_files`` alone locks parts of a file itself.
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

#: Options of glibc's ``mallopt``: the size of an array that has memory of its own, and how much may be free at an end.
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
#: For how many seconds Windows is asked again to replace a file.
REPLACE_SECONDS = 5.0


def can_lock() -> bool:
    """True on a POSIX system, where files can be locked, and a file that is open can be renamed."""
    return fcntl is not None


def lock(file: int | IO[bytes]) -> bool | None:
    """Lock an open file or folder until it is closed; False if another process has, None if nothing can be locked."""
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
    """Open a file, or an end of a pipe without waiting for the other end; later reads and writes wait as usual."""
    if not hasattr(os, "O_NONBLOCK"):
        return os.open(path, flags)
    handle = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    return handle


def open_to_read(path: str | os.PathLike[str]) -> int:
    """Open a file to read its bytes, unchanged on Windows too; no file behind a link, if the system can tell."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0))


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Rename a file or folder, and replace what has the new name.

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
    """True if writing to standard output failed since its reader has ended: on Windows, an invalid argument."""
    if isinstance(problem, BrokenPipeError):
        return True
    return not can_lock() and problem.errno == errno.EINVAL and problem.filename is None


def claim_address(found: Any) -> None:
    """Let a socket bind an address at which nobody listens, also just after somebody did.

    With the option of POSIX systems for that, Windows would give it an address at which another program listens.
    """
    import socket

    exclusive = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if exclusive is None else exclusive, 1)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the names in a folder survive a power cut; nothing if a folder cannot be opened, as on Windows."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def give_back_memory(size: int) -> None:
    """With glibc, return freed arrays of this many bytes to the system at once; it may keep up to 32 MiB."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # there is no such function, or no such library
        mallopt = ctypes.CDLL(None).mallopt
        for option in (MMAP_THRESHOLD, TRIM_THRESHOLD):
            mallopt(option, size)


def cores() -> int:
    """The number of cores that this process may use; all of them if the system does not say.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def physical_memory() -> int:
    """The bytes of memory that this machine has; 2^62 if the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def zeros(shape: tuple[int, ...], dtype: Any = "float64", *, beside: int = 0) -> "NDArray[Any]":
    """Zeros, a row for each feature; an error if this machine has less memory than they need.

    Systems promise more memory than they have, and end a process that uses what was promised.

    Args:
        shape, dtype: as for ``numpy.zeros``.
        beside: bytes for each feature that the owner of the array needs for others of the same length.

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
    """The folder of giftrl in the user's cache; an error if the user has none, as in some containers."""
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
