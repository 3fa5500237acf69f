"""Files that grow with a run, and may be gone on with after an interruption."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from giftrl.errors import InvalidInput, ModelFileError, require
from giftrl.files import Finishing, file_errors, is_stream, open_stream

Named = str | os.PathLike[str]


def partial(path: Named) -> Path:
    """Where a file is written until it is finished: beside it.

    >>> partial("/tmp/rows.txt").name
    'rows.txt.partial'
    """
    return Path(f"{os.path.realpath(path)}.partial")


class GrowingFile(Finishing):
    """A file that takes the place of an earlier one when it is finished; until then it is called ``*.partial``.

    Pipes and devices are written to as they are.

    Args:
        argument: the name of the argument that named the file, for messages.
        path: of the file.
        append: whether to go on with an unfinished file.
        keep: whether a file that is given up stays, as ``*.partial``, for a run that goes on.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with GrowingFile("output", f"{folder}/a") as file:
    ...         file.write(b"one")
    ...     Path(folder, "a").read_text()
    'one'
    """

    def __init__(self, argument: str, path: Named, *, append: bool = False, keep: bool = False) -> None:
        self.argument, self.path, self.keep = argument, Path(path), keep
        stream = is_stream(path)
        if append and not stream:
            _take_up(path)
        self._new = self.path if stream else partial(path)
        with self._errors():
            mode, opener = ("wb", open_stream) if stream else ("ab" if append else "wb", None)
            self._handle: Any = open(self._new, mode, opener=opener)  # noqa: SIM115

    def write(self, text: bytes) -> None:
        """Write, and hand what was written to the operating system."""
        with self._errors():
            self._handle.write(text)
            self._handle.flush()

    def close(self) -> None:
        with self._errors():
            self._handle.flush()
            target = Path(os.path.realpath(self.path))
            if self._new != self.path:
                os.fsync(self._handle.fileno())
                if target.exists():
                    shutil.copymode(target, self._new)
            self._handle.close()
            if self._new != self.path:
                self._new.replace(target)

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._handle.close()
        if self._new != self.path and not self.keep:
            self._new.unlink(missing_ok=True)

    @staticmethod
    def size(path: Named) -> int:
        """How many bytes of an unfinished file have been written."""
        return partial(path).stat().st_size if partial(path).exists() else 0

    @staticmethod
    def cut(argument: str, path: Named, size: int) -> None:
        """Go back to the first bytes of a file that an interrupted run wrote, finished or not."""
        _take_up(path)
        rule = f"has lost the {size} bytes that an interrupted run wrote to {partial(path).name}"
        require(GrowingFile.size(path) >= size, argument, str(path), rule, "start anew without resuming")
        with contextlib.suppress(FileNotFoundError):
            os.truncate(partial(path), size)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with file_errors(self.path):
                yield
        except ModelFileError as problem:
            rule = f"cannot be written: it {problem.problem}"
            raise InvalidInput(self.argument, str(self.path), rule, problem.remedy) from None


def _take_up(path: Named) -> None:
    """Make sure that there is an unfinished file: without one, a copy of the finished file is one."""
    if not partial(path).exists() and Path(path).is_file():
        shutil.copyfile(path, partial(path))
