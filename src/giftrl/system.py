"""What operating systems differ in: Windows has no fcntl, no O_NONBLOCK, and no way to sync or lock a folder.

Other modules ask here and have no branches of their own. ``compiled.objects`` alone locks parts of a file itself.
"""

import contextlib
import ctypes
import os
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]

#: Options of glibc's ``mallopt``: the size of an array that has memory of its own, and how much may be free at an end.
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1


def can_lock() -> bool:
    """Whether files can be locked, and whether a file that is open can be renamed: a POSIX system has both."""
    return fcntl is not None


def lock(file: int | IO[bytes]) -> bool | None:
    """Lock an open file or folder until it is closed; False where another process has locked it.

    None where the system or the disk cannot lock.

    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     lock(file) is not False
    True
    """
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
    """Open a file, or the end of a pipe without waiting for whoever is to be at the other end.

    Later reads and writes wait as usual. Windows has no such pipes among its files.
    """
    if not hasattr(os, "O_NONBLOCK"):
        return os.open(path, flags)
    handle = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    return handle


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the names in a folder survive a power cut; nothing where a folder cannot be opened, as on Windows.

    >>> sync_folder(".")
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def give_back_memory(size: int) -> None:
    """Let arrays of this many bytes go back to the system as soon as they are freed; nothing but with glibc.

    By itself, glibc raises that size up to 32 MiB as arrays are freed, and keeps those that are smaller, for each
    thread. (https://man7.org/linux/man-pages/man3/mallopt.3.html)

    >>> give_back_memory(1 << 25)
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # there is no such function, or no such library
        mallopt = ctypes.CDLL(None).mallopt
        for option in (MMAP_THRESHOLD, TRIM_THRESHOLD):
            mallopt(option, size)


def cores() -> int:
    """How many cores this process may use; all of them where the system does not say.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def physical_memory() -> int | None:
    """The bytes of memory that this machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
