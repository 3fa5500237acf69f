"""Checkpoints of a run: where they are, whose they are, and going back to one."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from giftrl.errors import BadSource, InvalidInput, ModelFileError, require
from giftrl.files import FileDigest, find_written, go_back
from giftrl.streams.batch import Position
from giftrl.streams.formats import HEAD_BYTES, TEXT_FORMATS, detect
from giftrl.streams.sources.source import Stream, find_sources


class Checkpoint(NamedTuple):
    """Where to keep the state of an unfinished run, and after how many examples to write it.

    >>> Checkpoint(Path("clicks.giftrl.checkpoint"), every=1_000_000).every
    1000000
    """

    path: Path
    every: int


def require_no_checkpoint(path: Path) -> None:
    """Raise an error if there is a checkpoint: a new run would mix its files with those of the unfinished run."""
    remedy = "go on with --resume, or delete the checkpoint to start anew"
    require(not path.exists(), "checkpoint", str(path), "is that of a run that may not have come to its end", remedy)


def differences(name: str, value: Any, before: Mapping[str, Any]) -> list[str]:
    """What differs, in words, from what a checkpoint says under a name; each column by itself.

    >>> differences("workers", 3, {"workers": 2})
    ['workers=2, now 3']
    """
    if name == "passes" and "done" in before:  # of which checkpoints of a cluster have only the latter
        return ["a run with --cluster, now without"]
    if name not in before or before[name] == value:
        return []
    if isinstance(value, dict) and isinstance(before[name], dict):
        return [each for key in value for each in differences(key, value[key], before[name])]
    if name == "sources":
        return _other_sources(before[name], value)
    return [f"{name}={before[name]!r}, now {value!r}"]


def without_cluster(before: Mapping[str, Any]) -> list[str]:
    """The difference of a run with a cluster from the checkpoint of one without, in words; nothing if it had one.

    >>> without_cluster({"passes": 1}), without_cluster({"done": [False]})
    (['a run without --cluster, now with it'], [])
    """
    return ["a run without --cluster, now with it"] if "passes" in before else []


def _other_sources(before: Any, now: Any) -> list[str]:
    """How sources differ: their names, or the sizes that checkpoints of a cluster know."""
    sized = [all(isinstance(each, (list, tuple)) for each in sources) for sources in (before, now)]
    if sized[0] != sized[1]:  # only one run had a cluster, which is said elsewhere
        return []
    if not sized[0] or [each[0] for each in before] != [each[0] for each in now]:
        names = [[each[0] if sized[0] else each for each in sources] for sources in (before, now)]
        return [f"sources={names[0]!r}, now {names[1]!r}"]
    return [
        f"{name} of {size:,} bytes, now of {other:,}"
        for (name, size), (_, other) in zip(before, now, strict=True)
        if size != other
    ]


def go_back_all(growing: Mapping[str, Any], checkpoint: Path, more: Mapping[str, Any]) -> None:
    """Cut files that are written row by row to what they held at the checkpoint; the rest is written once more."""
    found = {}
    for name, path in growing.items():
        written = more.get(name)
        if not isinstance(written, list) or len(written) != 2:
            problem = f"does not say what was written to the file of {name}"
            raise ModelFileError(checkpoint, problem, "delete it to start anew")
        found[path] = find_written(name, path, checkpoint, written), int(written[0])
    for path, (place, size) in found.items():
        go_back(place, path, checkpoint, size)


# What a run has read: digests that tell whether a checkpoint goes on with the same data.


class InputDigests:
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
    >>> [[size, digest]] = InputDigests([path], None).until(Position(0, 6, 2))
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
            return (
                stream.compression is None
                and detect(stream.peek(HEAD_BYTES), stream.source.name, self.format) in TEXT_FORMATS
            )
