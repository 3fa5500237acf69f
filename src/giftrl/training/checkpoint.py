"""Checkpoints of a run: where they are, whose they are, and going back to one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from giftrl.errors import ModelFileError, require
from giftrl.growing import find_written, go_back


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
    """What differs, in words, from what a checkpoint says under a name; each column by itself."""
    if name not in before or before[name] == value:
        return []
    if isinstance(value, dict) and isinstance(before[name], dict):
        return [each for key in value for each in differences(key, value[key], before[name])]
    return [f"{name}={value!r}, not {before[name]!r}"]


def go_back_all(growing: Mapping[str, Any], checkpoint: Path, more: Mapping[str, Any]) -> None:
    """Cut files that are written row by row to what they held at the checkpoint; the rest is written once more."""
    found = {}
    for name, path in growing.items():
        written = more.get(name)
        if not isinstance(written, list) or len(written) != 2:
            problem = f"does not say what was written to the file of {name}, as those of earlier versions do not"
            raise ModelFileError(checkpoint, problem, "delete it to start anew")
        found[path] = find_written(name, path, checkpoint, written), int(written[0])
    for path, (place, size) in found.items():
        go_back(place, path, checkpoint, size)
