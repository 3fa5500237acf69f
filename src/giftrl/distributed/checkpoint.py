"""Checkpoints of a run on many machines: the model, and where every shard is."""

from pathlib import Path
from typing import Any

import numpy as np

from giftrl.distributed.driver import Driver, Progress
from giftrl.distributed.reading import Place, Reading
from giftrl.training.checkpoint import differences, require_same_run, unsound_checkpoint, without_cluster
from giftrl.training.model import LinearModel


def described(reading: Reading) -> dict[str, Any]:
    """What decides which rows workers read, as JSON holds it: a run can go on only where this is the same."""
    columns = {
        name: list(value) if isinstance(value, tuple) else value for name, value in reading.columns._asdict().items()
    }
    return {
        "sources": [[file.name, file.size] for file in reading.files],
        "workers": len(reading.shards),
        "format": reading.format,
        "columns": columns,
        "on_error": reading.on_error,
    }


def write(path: Path, driver: Driver) -> None:
    """Write a checkpoint, whole or not at all, in the place of the one before."""
    now = driver.progress
    more = described(driver.reading) | {
        "position": [list(place) for place in now.places],
        "done": list(now.done),
        "version": now.version,
    }
    driver.model.save(path, more, {"steps": now.steps, "seen": np.flatnonzero(now.seen)})


def read(path: Path, reading: Reading) -> tuple[LinearModel, Progress]:
    """The model and the progress of a checkpoint; an error if it belongs to another run."""
    model, more = LinearModel.load(path)
    different = reading.settings.differences(model.settings) + without_cluster(more)
    different += [each for name, value in described(reading).items() for each in differences(name, value, more)]
    require_same_run(path, different, "settings or data")
    with unsound_checkpoint(path):
        places = [Place(*map(int, each)) for each in more["position"]]
        seen = np.zeros(model.learner.dimension, np.bool_)
        seen[more["extra"]["seen"]] = True
        progress = Progress(
            places, [bool(each) for each in more["done"]], int(more["version"]), np.array(more["extra"]["steps"]), seen
        )
        if len(progress.places) != len(reading.shards) or len(progress.done) != len(reading.shards):
            raise ValueError("it has other shards")
    return model, progress
