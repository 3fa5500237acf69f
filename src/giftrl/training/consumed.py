"""What a run has read: digests that tell whether a checkpoint goes on with the same data."""

import os
from collections.abc import Sequence

from giftrl.errors import BadSource, InvalidInput
from giftrl.files import FileDigest
from giftrl.streams.batch import Position
from giftrl.streams.formats import HEAD, TEXT, detect
from giftrl.streams.sources.source import Stream, find_sources


class Consumed:
    """Digests of the bytes that were read of each source.

    For these, each file is read a second time, piece by piece as checkpoints are written. SHA-256 takes 0.7 s of CPU
    time for a gigabyte (AMD EPYC, ``hashlib`` on 256 MiB). Of a plain text file the bytes before the position count;
    any other file counts whole.

    Args:
        sources: as for :class:`giftrl.streams.Reader`.
        format: of the sources, None to find it for each.

    >>> import hashlib, tempfile
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
        self._digests = [FileDigest(source.path or "") for source in self.sources]

    def until(self, position: Position) -> list[list[int | str]]:
        """For each source up to a position: how many of its bytes were read, and their digest."""
        known: list[list[int | str]] = []
        for at, source in enumerate(self.sources[: position.source + 1]):
            whole = at < position.source
            if source.path is None or not source.path.is_file():
                size: int | None = 0  # a pipe cannot be read again, and no run can go on with it
            else:
                size = None if whole or not self._is_text(at) else position.offset
            known.append(self._digests[at].until(size))
        return known

    def require(self, known: object, position: Position) -> None:
        """Raise an error unless the bytes up to a position are those that were read before."""
        now = self.until(position)
        if not isinstance(known, list) or len(known) != len(now):
            raise InvalidInput("sources", len(now), "must be as many as before", "give the same data")
        for source, before, after in zip(self.sources, known, now, strict=False):
            if before != after:
                rule = "is not the file that was read before the checkpoint was written"
                raise BadSource(source.name, rule, "give that file; or delete the checkpoint to start anew")

    def _is_text(self, at: int) -> bool:
        with Stream(self.sources[at]) as stream:
            return stream.compression is None and detect(stream.peek(HEAD), stream.source.name, self.format) in TEXT
