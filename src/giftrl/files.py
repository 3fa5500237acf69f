"""Files that are written whole or not at all."""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from giftrl import system
from giftrl.errors import InvalidInput, ModelFileError

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


# Files that grow with a run, and can be resumed after an interruption.

Named = str | os.PathLike[str]
PIECE = 1 << 20


class FileDigest:
    """The SHA-256 of the first bytes of a file that grows: only what is new is read.

    Args:
        path: of the file; a file that is not there has no bytes.

    >>> FileDigest("no such file").until(None)[0]
    0
    """

    def __init__(self, path: Named) -> None:
        self.path = Path(path)
        self._total = hashlib.sha256()
        self._size = 0

    def until(self, size: int | None) -> list[int | str]:
        """How many bytes there are up to a size, None for all, and their digest."""
        if size is None or size > self._size:
            with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
                file.seek(self._size)
                while piece := file.read(PIECE if size is None else min(PIECE, size - self._size)):
                    self._total.update(piece)
                    self._size += len(piece)
        return [self._size, self._total.hexdigest()]


def unfinished(path: Named, checkpoint: Named) -> Path:
    """Where a run that writes checkpoints keeps a file until it is finished: beside it, under a name of that run's.

    The name says where the checkpoint lies as seen from the file, so that both can be moved together.

    >>> unfinished("/tmp/rows.txt", "/tmp/a.checkpoint").name == unfinished("/tmp/rows.txt", "/tmp/b.checkpoint").name
    False
    """
    target = Path(os.path.realpath(path))
    place = os.path.relpath(os.path.realpath(checkpoint), target.parent)
    return target.with_name(f".giftrl-{target.name[:50]}-{hashlib.sha256(place.encode()).hexdigest()[:16]}.partial")


class GrowingFile(Finishing):
    """A file that takes the place of an earlier one when it is finished. Pipes and devices are written to as they are.

    :meth:`opened` is the way to make one that a signal does not leave behind.

    Args:
        argument: the name of the argument that named the file, for messages.
        path: of the file.
        checkpoint: of the run; if the run is interrupted once this is there, the file stays :func:`unfinished` for a
            run that goes on. None for a file that does not stay.
        append: whether to go on with the unfinished file; without a checkpoint, with the finished one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with GrowingFile("output", f"{folder}/a") as file:
    ...         file.write(b"one")
    ...     Path(folder, "a").read_text()
    'one'
    """

    def __init__(self, argument: str, path: Named, *, checkpoint: Named | None = None, append: bool = False) -> None:
        self.argument, self.path = argument, Path(path)
        self._checkpoint = None if checkpoint is None else Path(checkpoint)
        self._new: Path | None = None
        self._opened = contextlib.ExitStack()
        with self._errors():
            if is_stream(path):
                self._handle: Any = open(path, "wb", opener=open_stream)  # noqa: SIM115
            elif self._checkpoint is None:
                new = self._opened.enter_context(replacing(path))
                if append and self.path.exists():
                    shutil.copyfile(path, new)
                self._handle = new.open("ab")
            else:
                self._new = unfinished(path, self._checkpoint)
                self._handle = self._new.open("ab")
                self._claim()
                if not append:
                    self._handle.truncate(0)
        self._opened.push(self._end)

    @classmethod
    def opened(cls, stack: contextlib.ExitStack, argument: str, path: Named, **options: Any) -> Self:
        """A file that the stack finishes, or gives up if an error or a signal ends its block."""
        # Opening a pipe waits for whoever is at its other end, and leaves nothing behind.
        with contextlib.nullcontext() if is_stream(path) else uninterrupted():
            made = cls(argument, path, **options)
            stack.enter_context(made)
        return made

    def _claim(self) -> None:
        """Make sure that no other process is writing this file."""
        if system.lock(self._handle) is False:
            self._handle.close()
            rule = f"is being written by another run with the checkpoint {self._checkpoint}"
            raise InvalidInput(self.argument, str(self.path), rule, "wait for it, or give another file")

    def write(self, text: bytes) -> None:
        """Write, and hand what was written to the operating system."""
        with self._errors():
            self._handle.write(text)
            self._handle.flush()

    def close(self) -> None:
        with self._errors():
            self._opened.close()

    def abandon(self) -> None:
        with contextlib.suppress(_Abandoned), self._opened:
            raise _Abandoned

    def _end(self, kind: type[BaseException] | None, *problem: object) -> None:
        """Put the file in its place, or give it up."""
        if kind is None:
            try:
                self._finish()
            except BaseException:
                self._give_up()
                raise
        else:
            self._give_up()

    def _finish(self) -> None:
        self._handle.flush()
        if self._new is not None:
            os.fsync(self._handle.fileno())
            target = Path(os.path.realpath(self.path))
            if target.exists():
                shutil.copymode(target, self._new)
            leave_if_asked()
            if not system.can_lock():  # where an open file cannot be renamed; elsewhere it stays locked until it is
                self._handle.close()
            system.replace(self._new, target)
        self._handle.close()

    def _give_up(self) -> None:
        with contextlib.suppress(OSError):
            self._handle.close()
        if self._new is not None and self._checkpoint is not None and not self._checkpoint.exists():
            self._new.unlink(missing_ok=True)  # no run can go on with it

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with file_errors(self.path):
                yield
        except ModelFileError as problem:
            rule = f"cannot be written: it {problem.problem}"
            raise InvalidInput(self.argument, str(self.path), rule, problem.remedy) from None


class _Abandoned(Exception):
    """Ends the writing of a file that is not wanted any more."""


def find_written(argument: str, path: Named, checkpoint: Named, written: list[int | str]) -> Path:
    """The file that begins with what an interrupted run wrote until its checkpoint: unfinished, or finished since.

    Args:
        argument: the name of the argument that named the file, for messages.
        path: of the file.
        checkpoint: of the run.
        written: how many bytes, and their digest.
    """
    new = unfinished(path, checkpoint)
    if is_stream(path):
        return new
    size = int(written[0])
    for each in (new, Path(path)):
        if FileDigest(each).until(size) == written:
            return each
    rule = f"has lost the {size} bytes that the interrupted run wrote, which were in {new.name}"
    raise InvalidInput(argument, str(path), rule, f"put them back; or delete {checkpoint} to start anew")


def go_back(found: Path, path: Named, checkpoint: Named, size: int) -> None:
    """Make an unfinished file of the first bytes of what :func:`find_written` found."""
    new = unfinished(path, checkpoint)
    with file_errors(path), contextlib.suppress(FileNotFoundError):
        if found != new:
            shutil.copyfile(found, new)
        os.truncate(new, size)


# Outputs of a command are checked before any work is done, and written whole or not at all.

#: What tells one file from another: device and inode, or the resolved name of a file that is not there yet.
Identity = tuple[int, int] | str


@contextlib.contextmanager
def writing(path: Named) -> Iterator[IO[bytes]]:
    """Open an output: a file through a temporary one that then takes its place, a pipe or a device as it is.

    An error in the ``with`` block leaves an earlier file of that name as it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with writing(f"{folder}/a") as file:
    ...         _ = file.write(b"one")
    ...     import pathlib; pathlib.Path(folder, "a").read_text()
    'one'
    """
    if is_stream(path):
        with file_errors(path), open(path, "wb", opener=open_stream) as file:
            yield file
    else:
        with replacing(path) as new, new.open("wb") as file:
            yield file


def check_outputs(
    read: Mapping[str, Sequence[Named]],
    written: Mapping[str, Named | None],
    *,
    files_only: Collection[str] = (),
    kept: Collection[tuple[str, str]] = (),
) -> None:
    """Raise an error if an output cannot be written, or is also an input or another output.

    Links are followed, and standard output counts where it is a file. Nothing is opened or changed.

    Args:
        read: the files that are read, by the name of their argument; "-" is standard input.
        written: the files that will be written, by the name of their argument; None where there is none.
        files_only: the outputs that must be regular files, and not pipes or devices.
        kept: pairs of an input and an output that may be the same file.

    >>> check_outputs({"data": ["-"]}, {"model": "a", "summary": "./a"})
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: summary='./a': is the file of model as well; give another file
    """
    inputs: dict[Identity, list[str]] = {}
    for name, paths in read.items():
        for path in paths:
            identity = _identity(0 if path == "-" else path)
            if identity is not None:
                inputs.setdefault(identity, []).append(name)
    outputs: dict[Identity, str] = {}
    standard = _identity(1)
    if standard in inputs:
        rule = f"is a file of {inputs[standard][0]} as well, which would never end"
        raise InvalidInput("output", "-", rule, "send it to another file")
    if standard is not None:
        outputs[standard] = "standard output"
    for name, output in written.items():
        if output is None:
            continue
        _require_writable(name, output, name in files_only)
        identity = _identity(output)
        if identity is None:
            continue
        others = [other for other in inputs.get(identity, []) if (other, name) not in kept]
        if others:
            rule = f"must not be a file that is read ({others[0]}): its content would be lost"
            raise InvalidInput(name, str(output), rule, "give another file")
        if identity in outputs:
            raise InvalidInput(name, str(output), f"is the file of {outputs[identity]} as well", "give another file")
        outputs[identity] = name


def _identity(path: Named | int) -> Identity | None:
    """What tells a file from others; None for what is not a file, such as a pipe, or cannot be looked at."""
    try:
        status = os.stat(path)  # noqa: PTH116 (of a descriptor, too)
    except FileNotFoundError:
        return os.path.realpath(path) if not isinstance(path, int) else None
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _require_writable(name: str, path: Named, file_only: bool) -> None:
    try:
        with file_errors(path):
            if not is_stream(path):
                require_replaceable(path)
            elif file_only:
                raise ModelFileError(path, "is a device or a pipe and not a file", "give the name of a file")
            elif not os.access(path, os.W_OK):
                raise ModelFileError(path, *REMEDIES[errno.EACCES])
    except ModelFileError as problem:
        raise InvalidInput(name, str(path), f"cannot be written: it {problem.problem}", problem.remedy) from None
