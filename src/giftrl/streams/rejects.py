"""The file of rows that were skipped."""

import base64
import json
import os
from pathlib import Path
from typing import Any

from giftrl.errors import InvalidInput
from giftrl.streams.batch import Rejected

__all__ = ["RejectsFile"]


class RejectsFile:
    """A file of JSON lines with the rows that were skipped: source, line, column, problem, expected, raw.

    A row that is not UTF-8 is under ``raw_base64``, so that nothing of it is lost.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "rejects.jsonl")
    >>> with RejectsFile(path) as file:
    ...     file.write([Rejected("a.csv", 2, 1, "3 columns", "2 columns", b"1,2,3")])
    >>> json.loads(path.read_text())["raw"]
    '1,2,3'
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool = False) -> None:
        try:
            self._handle: Any = Path(path).open("a" if append else "w", encoding="utf-8")  # noqa: SIM115 (close() does)
        except OSError as problem:
            raise InvalidInput(
                "rejects", str(path), f"cannot be written ({problem.strerror})", "give a file in a folder of yours"
            ) from None

    def __enter__(self) -> "RejectsFile":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def write(self, rejected: tuple[Rejected, ...] | list[Rejected]) -> None:
        """Write rows, and hand them to the operating system."""
        for each in rejected:
            found = each._asdict()
            raw = found.pop("raw")
            try:
                found["raw"] = raw.decode()
            except UnicodeDecodeError:
                found["raw_base64"] = base64.b64encode(raw).decode()
            self._handle.write(json.dumps(found) + "\n")
        if rejected:
            self._handle.flush()

    def close(self) -> None:
        """Close the file."""
        self._handle.close()
