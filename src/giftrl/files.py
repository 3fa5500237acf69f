"""Files that are written atomically."""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from giftrl import system
from giftrl.errors import InvalidInput, ModelFileError

Named = str | os.PathLike[str]

#: Errors for operations that a file system does not support.
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
    errno.ENXIO: ("is a pipe without a reader", "start the reader first"),
    errno.ELOOP: ("is a symbolic link that leads back to itself", "remove the link"),
}
#: Flags that create or truncate a file.
NEW_FILE = os.O_CREAT | os.O_TRUNC
NOT_A_FILE = ("is a device or a pipe and not a file", "give the name of a file")


@contextlib.contextmanager
def file_errors(path: Named) -> Iterator[None]:
    """Turn errors of the system about a file into a :class:`ModelFileError`.

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


@contextlib.contextmanager
def output_errors(argument: str | None, path: Named) -> Iterator[None]:
    """Turn errors about an output into :class:`giftrl.errors.InvalidInput` of its argument, if there is one."""
    try:
        with file_errors(path):
            yield
    except ModelFileError as problem:
        if argument is None:
            raise
        raise InvalidInput(argument, str(path), f"cannot be written: it {problem.problem}", problem.remedy) from None


#: The exit statuses that signals have asked for.
EXIT_REQUESTS: list[int] = []

#: An entry for each open block of :func:`uninterrupted`.
UNINTERRUPTED_BLOCKS: list[None] = []


def exit_if_requested() -> None:
    """End the process if a signal has requested it, because the exception may be lost in C code, as in imports."""
    if EXIT_REQUESTS:
        raise SystemExit(EXIT_REQUESTS[0])


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """A short block that signals do not interrupt, for creating a file and registering its removal."""
    UNINTERRUPTED_BLOCKS.append(None)
    try:
        yield
    finally:
        UNINTERRUPTED_BLOCKS.pop()
        if not UNINTERRUPTED_BLOCKS:
            exit_if_requested()


class Output:
    """An output file that atomically replaces an earlier one when it is complete.

    As a context manager it is committed at the end of the block, and abandoned if an error ends the block. Until then
    its content is in a locked temporary file ``.giftrl-*`` in the same folder, and the earlier file stays. A killed
    process leaves the temporary file behind; the next write to the same target removes it. Symbolic links are followed,
    and permissions are kept. Pipes and devices are written directly.

    Args:
        path: of the file.
        argument: the argument that named the file: problems are :class:`giftrl.errors.InvalidInput` of that argument,
            or :class:`giftrl.errors.ModelFileError` without one.
        checkpoint: of the run. If it exists when the output is abandoned, the content stays :func:`unfinished`, for the
            run to be resumed.
        append: continue the unfinished content; without a checkpoint, the earlier file.

    Attributes:
        place: the temporary file, for libraries that write to a path; None for a pipe or a device.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Output(f"{folder}/a") as output:
    ...         output.write(b"one")
    ...     [(each.name, each.read_bytes()) for each in Path(folder).iterdir()]
    [('a', b'one')]
    """

    def __init__(
        self, path: Named, argument: str | None = None, *, checkpoint: Named | None = None, append: bool = False
    ) -> None:
        self.path, self.argument, self.append = Path(path), argument, append
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.place: Path | None = None
        self._file: IO[bytes] | None = None

    def open(self) -> Self:
        """Open the output. A signal takes effect afterwards, and abandons it."""
        with output_errors(self.argument, self.path):
            if is_stream(self.path):
                # A plain open of a pipe without a reader would wait.
                self._file = open(  # noqa: SIM115
                    self.path, "wb", opener=lambda path, flags: system.open_at_once(path, flags & ~NEW_FILE)
                )
                return self
            require_replaceable(self.path)
            try:
                with uninterrupted():
                    self._file, self.place = self._temporary() if self.checkpoint is None else self._resumable()
            except BaseException:
                self.abandon()
                raise
        return self

    def open_in(self, stack: contextlib.ExitStack) -> Self:
        """Open the output as a context of a stack; no signal comes between the two."""
        with contextlib.nullcontext() if is_stream(self.path) else uninterrupted():
            stack.enter_context(self)
            return self

    def _temporary(self) -> tuple[IO[bytes], Path]:
        target = Path(os.path.realpath(self.path))
        _remove_leftovers(target)
        while True:
            place = target.with_name(f"{_prefix(target)}{os.urandom(8).hex()}.tmp")
            file = place.open("xb")
            # Before the file is locked, another process may remove it as a leftover.
            if system.lock(file) is not False and place.exists():
                break
            file.close()
        if self.append:
            with contextlib.suppress(FileNotFoundError), target.open("rb") as earlier:
                shutil.copyfileobj(earlier, file)
        return file, place

    def _resumable(self) -> tuple[IO[bytes], Path]:
        assert self.checkpoint is not None
        place = unfinished(self.path, self.checkpoint)
        file = place.open("ab")
        if system.lock(file) is False:
            file.close()
            rule = f"is being written by another run with the checkpoint {self.checkpoint}"
            raise InvalidInput(self.argument or "path", str(self.path), rule, "wait for it, or give another file")
        if not self.append:
            file.truncate(0)
        return file, place

    def write(self, content: Any) -> None:
        """Write bytes or a contiguous array, and hand them to the operating system."""
        assert self._file is not None
        with output_errors(self.argument, self.path):
            self._file.write(content)
            self._file.flush()

    def commit(self) -> None:
        """Sync the content to disk and replace the earlier file; abandoned on failure."""
        try:
            with output_errors(self.argument, self.path):
                self._finish()
        except BaseException:
            self.abandon()
            raise
        if self.place is None:
            return
        folder, self.place = self.place.parent, None
        try:
            system.sync_folder(folder)  # sync the folder, so that the rename survives a power failure
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                problem = f"is written, but a power cut may undo that ({error.strerror})"
                raise ModelFileError(self.path, problem, "check the disk and save again") from error

    def _finish(self) -> None:
        assert self._file is not None
        self._file.flush()
        if self.place is not None:
            target = Path(os.path.realpath(self.path))
            with contextlib.suppress(FileNotFoundError):
                self.place.chmod(stat.S_IMODE(target.stat().st_mode))
            os.fsync(self._file.fileno())
            exit_if_requested()
            if not system.can_lock():  # Windows cannot rename an open file; elsewhere it stays locked
                self._file.close()
            system.replace(self.place, target)
        self._file.close()

    def abandon(self) -> None:
        """Discard the output: the earlier file stays, and an :func:`unfinished` file if the run can be resumed."""
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()
        resumable = self.checkpoint is not None and self.checkpoint.exists()
        if self.place is not None and not resumable:
            with contextlib.suppress(OSError):
                self.place.unlink()
        self.place = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: object, *problem: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.abandon()


def write(path: Named, parts: Iterable[Any]) -> None:
    """Write bytes and contiguous arrays to a file, one after the other, as an :class:`Output`."""
    with Output(path) as output:
        for part in parts:
            output.write(part)


def _prefix(target: Path) -> str:
    """The prefix of a target's temporary files, followed by 16 random letters and ".tmp"."""
    return f".giftrl-{target.name[:50]}-"


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of killed processes, which are no longer locked."""
    prefix = _prefix(target)
    with contextlib.suppress(OSError):  # a folder that cannot be listed, say
        for path in target.parent.iterdir():
            name = path.name
            if name.startswith(prefix) and name.endswith(".tmp") and len(name) == len(prefix) + 20:
                with contextlib.suppress(OSError), path.open("r+b") as file:
                    if system.lock(file):
                        path.unlink()


def is_stream(path: Named) -> bool:
    """True for a pipe, a terminal or another device, which cannot be replaced."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def require_replaceable(path: Named) -> None:
    """Raise an error if a file cannot be replaced."""
    with file_errors(path):
        target = Path(os.path.realpath(path))
        try:
            mode = target.stat().st_mode
        except FileNotFoundError:
            mode = None
            if not target.parent.exists():
                problem = f"lies in the folder {target.parent}, which does not exist"
                raise ModelFileError(path, problem, "create it, or check the name") from None
        if mode is not None and stat.S_ISDIR(mode):
            raise ModelFileError(path, *REMEDIES[errno.EISDIR])
        if mode is not None and not stat.S_ISREG(mode):
            raise ModelFileError(path, *NOT_A_FILE)
        effective = os.access in os.supports_effective_ids
        # The system requires write access to the folder only; but read-only files must not be replaced.
        if mode is not None and not os.access(target, os.W_OK, effective_ids=effective):
            raise ModelFileError(path, "is read-only", "save under another name, or allow writing to it")
        if not os.access(target.parent, os.W_OK | os.X_OK, effective_ids=effective):
            problem = f"lies in the folder {target.parent}, which may not be written to"
            raise ModelFileError(path, problem, "give another folder, or allow writing to it")


# Outputs of a run that can be resumed.

DIGEST_BYTES = 1 << 20  # read at a time


class FileDigest:
    """The incremental SHA-256 of a growing file; a missing file is empty."""

    def __init__(self, path: Named) -> None:
        self.path = Path(path)
        self._total = hashlib.sha256()
        self._size = 0

    def until(self, size: int | None) -> list[int | str]:
        """The number of bytes up to a size, None for all, and their digest."""
        if size is None or size > self._size:
            with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
                file.seek(self._size)
                while piece := file.read(DIGEST_BYTES if size is None else min(DIGEST_BYTES, size - self._size)):
                    self._total.update(piece)
                    self._size += len(piece)
        return [self._size, self._total.hexdigest()]


def unfinished(path: Named, checkpoint: Named) -> Path:
    """The temporary path of an output in a run with checkpoints: in the same folder, with a name that depends on the
    relative path of the checkpoint, so that both can be moved together.

    >>> unfinished("/tmp/rows.txt", "/tmp/a.checkpoint").name == unfinished("/tmp/rows.txt", "/tmp/b.checkpoint").name
    False
    """
    target = Path(os.path.realpath(path))
    place = os.path.relpath(os.path.realpath(checkpoint), target.parent)
    return target.with_name(f"{_prefix(target)}{hashlib.sha256(place.encode()).hexdigest()[:16]}.partial")


def find_written(argument: str, path: Named, checkpoint: Named, written: list[int | str]) -> Path:
    """The file with the bytes that a run wrote until its checkpoint, found by their number and digest: the unfinished
    file, or the final one.
    """
    new = unfinished(path, checkpoint)
    if is_stream(path):
        return new
    size = int(written[0])
    for candidate in (new, Path(path)):
        if FileDigest(candidate).until(size) == written:
            return candidate
    rule = f"has lost the {size} bytes that the interrupted run wrote, which were in {new.name}"
    raise InvalidInput(argument, str(path), rule, f"put them back; or delete {checkpoint} to start anew")


def go_back(written: Path, path: Named, checkpoint: Named, size: int) -> None:
    """Truncate the file from :func:`find_written` to its first bytes, as an unfinished file."""
    new = unfinished(path, checkpoint)
    with file_errors(path), contextlib.suppress(FileNotFoundError):
        if written != new:
            shutil.copyfile(written, new)
        os.truncate(new, size)


#: Device and inode of a file, or the resolved path of a missing file.
Identity = tuple[int, int] | str


def check_outputs(
    read: Mapping[str, Sequence[Named]],
    written: Mapping[str, Named | None],
    *,
    files_only: Collection[str] = (),
    kept: Collection[tuple[str, str]] = (),
) -> None:
    """Raise an error if an output cannot be written, or is also an input or another output.

    Links are followed, and standard output is checked if it is a file. No file is opened or changed.

    Args:
        read: the files that are read, by the name of their argument; "-" is standard input.
        written: the files that will be written, by the name of their argument; None for no file.
        files_only: the outputs that must be regular files, and not pipes or devices.
        kept: pairs of an input and an output that may be the same file.
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
        with output_errors(name, output):
            if not is_stream(output):
                require_replaceable(output)
            elif name in files_only:
                raise ModelFileError(output, *NOT_A_FILE)
            elif not os.access(output, os.W_OK):
                raise ModelFileError(output, *REMEDIES[errno.EACCES])
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
    """The identity of a file; None for a pipe, a device, or an inaccessible file."""
    try:
        status = os.stat(path)  # noqa: PTH116 (of a descriptor, too)
    except FileNotFoundError:
        return os.path.realpath(path) if not isinstance(path, int) else None
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
