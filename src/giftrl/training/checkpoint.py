"""Checkpoints of a run: their file, the run and the data that they belong to, and going back to one."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from giftrl.errors import BadSource, GiftrlError, Given, InvalidInput, ModelFileError, between, require
from giftrl.files import FileDigest, find_written, go_back
from giftrl.streams.batch import Position
from giftrl.streams.source import HEAD_BYTES, TEXT_FORMATS, Source, Stream, detect


class Checkpoint(NamedTuple):
    """The file with the state of an unfinished run, and the number of examples between two writes.

    >>> Checkpoint(Path("clicks.giftrl.checkpoint"), every=1_000_000).every
    1000000
    """

    path: Path
    every: int


def require_no_checkpoint(path: Path) -> None:
    """Raise an error if there is a checkpoint: a new run would mix its files with those of the unfinished run."""
    remedy = "go on with --resume, or delete the checkpoint to start anew"
    require(not path.exists(), "checkpoint", str(path), "is that of a run that may not have come to its end", remedy)


def differences(name: str, value: Any, before: Mapping[str, Any]) -> list[str | Given]:
    """The differences from what a checkpoint says under a name; those of columns one by one.

    >>> [str(each) for each in differences("workers", 3, {"workers": 2})]
    ['workers=2, now 3']
    """
    if name == "passes" and "done" in before:  # of which checkpoints of a cluster have only the latter
        return ["a run with --cluster, now without"]
    if name not in before or before[name] == value:
        return []
    if isinstance(value, dict) and isinstance(before[name], dict):
        return [part for key in value for part in differences(key, value[key], before[name])]
    if name == "sources":
        return _other_sources(before[name], value)
    return [Given(name, before[name], value)]


def without_cluster(before: Mapping[str, Any]) -> list[str | Given]:
    """The difference of a run with a cluster from the checkpoint of one without; nothing if it had one.

    >>> without_cluster({"passes": 1}), without_cluster({"done": [False]})
    (['a run without --cluster, now with it'], [])
    """
    return ["a run without --cluster, now with it"] if "passes" in before else []


def _other_sources(before: Any, now: Any) -> list[str | Given]:
    """The differences of sources: of their names, or of the sizes that checkpoints of a cluster know."""
    sized = [all(isinstance(source, (list, tuple)) for source in sources) for sources in (before, now)]
    if sized[0] != sized[1]:  # only one run had a cluster, which another difference says
        return []
    if not sized[0] or [name for name, _ in before] != [name for name, _ in now]:
        names = [[source[0] if sized[0] else source for source in sources] for sources in (before, now)]
        return [Given("sources", *names)]
    return [
        f"{name} of {size:,} bytes, now of {other:,}"
        for (name, size), (_, other) in zip(before, now, strict=True)
        if size != other
    ]


def require_same_run(path: Path, different: Sequence[str | Given], what: str = "settings") -> None:
    """Raise an error if there are differences from the run that wrote a checkpoint."""
    remedy = "give the same settings and data; or delete the checkpoint to start anew"
    rule = (f"was written with other {what}: ", *between(different, "; "))
    require(not different, "checkpoint", str(path), rule, remedy)


@contextlib.contextmanager
def unsound_checkpoint(path: Path) -> Iterator[None]:
    """Turn an error in restoring parts of a checkpoint into one that names it."""
    try:
        yield
    except (IndexError, KeyError, TypeError, ValueError, GiftrlError) as error:
        raise ModelFileError(path, f"is not a sound checkpoint ({error})", "delete it to start anew") from None


def go_back_all(growing: Mapping[str, Any], checkpoint: Path, more: Mapping[str, Any]) -> None:
    """Cut files that are written row by row to their content at the checkpoint; the rest is written once more."""
    places = {}
    for name, path in growing.items():
        written = more.get(name)
        if not isinstance(written, list) or len(written) != 2:
            problem = f"does not say what was written to the file of {name}"
            raise ModelFileError(checkpoint, problem, "delete it to start anew")
        places[path] = find_written(name, path, checkpoint, written), int(written[0])
    for path, (place, size) in places.items():
        go_back(place, path, checkpoint, size)


class InputDigests:
    """Digests of the bytes that were read of each source, by which a resumed run knows its data.

    Each file is read a second time for them, piece by piece as checkpoints are written. SHA-256 takes 0.7 s of CPU
    time for a gigabyte (AMD EPYC, ``hashlib`` on 256 MiB). Of a plain text file the bytes before the position count;
    any other file counts whole.

    Args:
        sources: from :func:`giftrl.streams.source.find_sources`.
        format: of the sources; None to detect it.

    >>> import hashlib, tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "a.svm")
    >>> _ = path.write_text("1 1:1\\n1 2:1\\n")
    >>> [[size, digest]] = InputDigests([Source("a.svm", path)], None).until(Position(0, 6, 2))
    >>> size, digest == hashlib.sha256(b"1 1:1\\n").hexdigest()
    (6, True)
    >>> folder.cleanup()
    """

    def __init__(self, sources: Sequence[Source], format: str | None) -> None:  # noqa: A002
        self.sources = sources
        self.format = format
        self._digests = [FileDigest(source.path or "") for source in self.sources]

    def until(self, position: Position) -> list[list[int | str]]:
        """The number of bytes read of each source up to a position, and their digest."""
        known: list[list[int | str]] = []
        for at, source in enumerate(self.sources[: position.source + 1]):
            whole = at < position.source
            if source.path is None or not source.path.is_file():
                size: int | None = 0  # a pipe cannot be read again, and no run can resume it
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
