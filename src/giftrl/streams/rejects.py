"""The file of rows that were skipped."""

import base64
import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from giftrl.errors import InvalidInput, ModelFileError, require
from giftrl.files import file_errors, is_stream, open_stream
from giftrl.streams.batch import Rejected

__all__ = ["RejectsFile", "partial"]


class RejectsFile:
    """A file of JSON lines with the rows that were skipped: source, line, column, problem, expected, raw.

    A row that is not UTF-8 is under ``raw_base64``, so that nothing of it is lost. The file takes the place of an
    earlier one when it is finished; until then it is called ``*.partial``. Pipes and devices are written to as they
    are.

    Args:
        path: of the file.
        append: whether to go on with an unfinished file.
        keep: whether to leave an unfinished file for a run that goes on.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "rejects.jsonl")
    >>> with RejectsFile(path) as file:
    ...     file.write([Rejected("a.csv", 2, 1, "3 columns", "2 columns", b"1,2,3")])
    >>> json.loads(path.read_text())["raw"]
    '1,2,3'
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool = False, keep: bool = False) -> None:
        self._path = Path(path)
        self._keep = keep
        stream = is_stream(path)
        if append and not stream:
            _take_up(path)
        self._new = self._path if stream else partial(path)
        with _named_errors(path):
            mode, opener = ("w", open_stream) if stream else ("a" if append else "w", None)
            self._handle: Any = open(self._new, mode, encoding="utf-8", opener=opener)  # noqa: SIM115

    def __enter__(self) -> "RejectsFile":
        return self

    def __exit__(self, kind: object, *problem: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    @staticmethod
    def size(path: str | os.PathLike[str]) -> int:
        """How many bytes of an unfinished file have been written."""
        return partial(path).stat().st_size if partial(path).exists() else 0

    @staticmethod
    def cut(path: str | os.PathLike[str], size: int) -> None:
        """Go back to the first bytes of a file that an interrupted run wrote, finished or not."""
        _take_up(path)
        short = RejectsFile.size(path) < size
        rule = f"has lost the {size} bytes of skipped rows that an interrupted run wrote to {partial(path).name}"
        require(not short, "rejects", str(path), rule, "start anew without resuming")
        with contextlib.suppress(FileNotFoundError):
            os.truncate(partial(path), size)

    def write(self, rejected: tuple[Rejected, ...] | list[Rejected]) -> None:
        """Write rows, and hand them to the operating system."""
        with _named_errors(self._path):
            for each in rejected:
                row = each._asdict()
                raw = row.pop("raw")
                try:
                    row["raw"] = raw.decode()
                except UnicodeDecodeError:
                    row["raw_base64"] = base64.b64encode(raw).decode()
                self._handle.write(json.dumps(row) + "\n")
            if rejected:
                self._handle.flush()

    def close(self) -> None:
        """Finish the file and put it in its place."""
        with _named_errors(self._path):
            self._handle.close()
            if self._new != self._path:
                self._new.replace(os.path.realpath(self._path))

    def abandon(self) -> None:
        """Leave an earlier file as it was; what was written stays beside it only if the run may go on."""
        with contextlib.suppress(OSError):
            self._handle.close()
        if self._new != self._path and not self._keep:
            self._new.unlink(missing_ok=True)


def partial(path: str | os.PathLike[str]) -> Path:
    """Where rows are written until the file is finished: beside it."""
    return Path(f"{os.path.realpath(path)}.partial")


def _take_up(path: str | os.PathLike[str]) -> None:
    """Have an unfinished file: a copy of the finished one where there is none."""
    if not partial(path).exists() and Path(path).is_file():
        shutil.copyfile(path, partial(path))


@contextlib.contextmanager
def _named_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        with file_errors(path):
            yield
    except ModelFileError as problem:
        raise InvalidInput("rejects", str(path), problem.problem, problem.remedy) from None
