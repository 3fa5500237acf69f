"""Files that grow with a run, and may be gone on with after an interruption."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from giftrl import system
from giftrl.errors import InvalidInput, ModelFileError
from giftrl.files import Finishing, file_errors, is_stream, leave_if_asked, open_stream, replacing, uninterrupted

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
