"""What a run has read: digests that tell whether a checkpoint goes on with the same data."""

import hashlib
import os
from collections.abc import Sequence

from giftrl.errors import BadSource, InvalidInput
from giftrl.streams.batch import Position
from giftrl.streams.formats import HEAD, TEXT, detect
from giftrl.streams.sources.source import Stream, find_sources

PIECE = 1 << 20


class Consumed:
    """Digests of the bytes that were read of each source.

    For these, each file is read a second time, piece by piece as checkpoints are written. SHA-256 takes 0.7 s of CPU
    time for a gigabyte (AMD EPYC, ``hashlib`` on 256 MiB). Of a plain text file the bytes before the position count;
    any other file counts whole.

    Args:
        sources: as for :class:`giftrl.streams.Reader`.
        format: of the sources, None to find it for each.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "a.svm")
    >>> _ = path.write_text("1 1:1\\n1 2:1\\n")
    >>> [[size, digest]] = Consumed([path], None).until(Position(0, 6, 2))
    >>> size, digest == hashlib.sha256(b"1 1:1\\n").hexdigest()
    (6, True)
    >>> folder.cleanup()
    """

    def __init__(self, sources: Sequence[str | os.PathLike[str]], format: str | None) -> None:  # noqa: A002
        self.sources = find_sources(sources)
        self.format = format
        self._totals = [hashlib.sha256() for _ in self.sources]
        self._sizes = [0] * len(self.sources)

    def until(self, position: Position) -> list[list[int | str]]:
        """For each source up to a position: how many of its bytes were read, and their digest."""
        read = self.sources[: position.source + 1]
        for at, source in enumerate(read):
            if source.path is None or not source.path.is_file():
                continue  # a pipe cannot be read again, and no run can go on with it
            if at < position.source or not self._is_text(at):
                self._extend(at, None)
            else:
                self._extend(at, position.offset)
        return [[self._sizes[at], self._totals[at].hexdigest()] for at in range(len(read))]

    def require(self, known: object, position: Position) -> None:
        """Raise an error unless the bytes up to a position are those that were read before."""
        now = self.until(position)
        if not isinstance(known, list) or len(known) != len(now):
            raise InvalidInput("sources", len(now), "must be as many as before", "give the same data")
        for source, before, after in zip(self.sources, known, now, strict=False):
            if before != after:
                rule = "is not the file that was read before the checkpoint was written"
                raise BadSource(source.name, rule, "give that file, or start anew without --resume")

    def _is_text(self, at: int) -> bool:
        with Stream(self.sources[at]) as stream:
            return stream.compression is None and detect(stream.peek(HEAD), stream.source.name, self.format) in TEXT

    def _extend(self, at: int, size: int | None) -> None:
        path = self.sources[at].path
        assert path is not None
        with path.open("rb") as file:
            file.seek(self._sizes[at])
            while size is None or self._sizes[at] < size:
                piece = file.read(PIECE if size is None else min(PIECE, size - self._sizes[at]))
                if not piece:
                    break
                self._totals[at].update(piece)
                self._sizes[at] += len(piece)
