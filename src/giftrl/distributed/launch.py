"""Checkpoints of a run on many machines: the model, and where every shard is."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from giftrl.distributed.driver import Driver, LocalCrew, Progress
from giftrl.distributed.ray_crew import SIMULATION, RayCrew, connect, require_cluster
from giftrl.distributed.shards import Place, Reading, deal, find_files, look_at_files, source_of
from giftrl.errors import Given, require, require_whole
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.names.hashing import Hashing
from giftrl.streams.reader import Reader
from giftrl.training.checkpoint import (
    Checkpoint,
    differences,
    require_no_checkpoint,
    require_same_run,
    unsound_checkpoint,
    without_cluster,
)
from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings
from giftrl.workers.merging import require_auto


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


# Training on many machines: from settings and sources to a model.

Named = str | os.PathLike[str]
#: With fewer rows than this, many machines are hardly faster than one.
PAYS = 100_000_000
#: How many rows there are between two checkpoints, where only the file is given.
EVERY = 10_000_000


def plan(
    settings: Settings,
    sources: Named | Sequence[Named],
    workers: int,
    *,
    format: str | None = None,  # noqa: A002
    columns: Columns | None = None,
    schema: Schema | None = None,
    on_error: str = "stop",
) -> Reading:
    """What each worker reads: the files behind the sources cut into shards; arguments as for :func:`train`.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> data = pathlib.Path(folder.name, "rows.svm")
    >>> _ = data.write_text("1 1:1\\n-1 2:1\\n" * 5000)
    >>> reading = plan(Settings(loss="logistic"), data, workers=2)
    >>> reading.format, len(reading.shards)
    ('libsvm', 2)
    >>> folder.cleanup()
    """
    workers = require_whole("workers", workers, 1, "try workers=16")
    require_auto(settings.auto, "workers", workers)
    remedy = ("try ", Given("bits", 18), ", which hashes names")
    require(settings.bits is not None, "bits", settings.bits, "a dictionary would differ from worker to worker", remedy)
    columns = columns or Columns()
    found = look_at_files(find_files(sources), format, columns, schema, settings.label_names is not None)
    schema = found.schema
    if schema is None and found.format not in ("libsvm", "vw", "npz"):
        schema = _schema(settings, found.files[0].name, found.format, columns)
    return Reading(settings, found.files, deal(found.files, workers), found.format, columns, schema, on_error)


def _schema(settings: Settings, name: str, format_: str, columns: Columns) -> Schema | None:
    """What the columns of tables are for, by the first rows."""
    reader = Reader(
        [source_of(name)], Hashing(18), format=format_, columns=columns, labels=settings.label_names, on_error="skip",
        background=False,
    )  # fmt: skip
    next(iter(reader), None)
    return reader.schema


def train(
    settings: Settings | LinearModel,
    sources: Named | Sequence[Named],
    *,
    workers: int = 16,
    cluster: str | None = None,
    checkpoint: Checkpoint | Named | None = None,
    resume: bool = False,
    format: str | None = None,  # noqa: A002
    columns: Columns | None = None,
    schema: Schema | None = None,
    on_error: str = "stop",
    after: Callable[[Driver], None] | None = None,
) -> LinearModel:
    """A model trained by many workers, each of which learns its own rows between two merges.

    The same settings, sources and number of workers give the same model, bit by bit, wherever the workers run and
    whichever of them fail.

    Args:
        settings: of a new model, or a model to go on from, which is changed; names are hashed, so ``bits`` must be
            given.
        sources: paths, globs and directories that every machine sees, and URLs that fsspec opens, such as ``s3://``.
        workers: how many.
        cluster: None for Ray on this machine, "auto" for the cluster that this machine belongs to,
            "ray://host:10001" for another one, or "simulation" for no Ray: workers in this process, one after the
            other.
        checkpoint: a file that is written after merges, or :class:`giftrl.training.Checkpoint` to say how often.
        resume: go on from the checkpoint.
        format, columns, schema, on_error: as for :class:`giftrl.streams.Reader`.
        after: called after each merge with the :class:`giftrl.distributed.Driver`, whose ``costs`` tell what the run
            has cost.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> data = pathlib.Path(folder.name, "rows.svm")
    >>> _ = data.write_text("1 1:1\\n-1 2:1\\n" * 50)
    >>> model = train(Settings(loss="logistic", bits=4), data, workers=2, cluster="simulation")
    >>> model.examples, model.average_loss < 0.5
    (100, True)
    >>> folder.cleanup()
    """
    require_cluster(cluster)
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(Path(checkpoint), EVERY)
    require(checkpoint is not None or not resume, "resume", resume, "needs a checkpoint", "give checkpoint")
    if checkpoint is not None:
        require_place(checkpoint.path, resume)
    model: LinearModel | None = None
    if isinstance(settings, LinearModel):
        model, settings = settings, settings.settings
        rule = "is not what the model was trained with"
        require(schema is None or model.schema in (None, schema), "schema", schema, rule, "leave it out")
        schema = model.schema or schema
    reading = plan(
        settings, sources, workers, format=format, columns=columns, schema=schema, on_error=on_error
    )  # fmt: skip
    progress: Progress | None = None
    if checkpoint is not None and resume:
        model, progress = read(checkpoint.path, reading)
    model = LinearModel(reading.settings) if model is None else model
    model.schema = reading.schema
    driver = Driver(model, reading, _crew(cluster, reading), progress)
    written = [model.examples]

    def merged(driver: Driver) -> None:
        if checkpoint is not None:
            due = driver.model.examples - written[0] >= checkpoint.every or all(driver.progress.done)
            if due:
                write(checkpoint.path, driver)
                written[0] = driver.model.examples
        if after is not None:
            after(driver)

    try:
        return driver.run(merged)
    finally:
        driver.crew.close()


def require_place(checkpoint: Path, resume: bool) -> None:
    """Raise an error unless there is a checkpoint to go on from, or none that a new run would write over."""
    if not resume:
        require_no_checkpoint(checkpoint)
        return
    remedy = "leave out --resume to start anew; --from MODEL goes on from a finished model"
    require(checkpoint.exists(), "checkpoint", str(checkpoint), "there is none to go on from", remedy)


def _crew(cluster: str | None, reading: Reading) -> Any:
    if cluster == SIMULATION:
        return LocalCrew(reading, len(reading.shards))
    connect(cluster)
    return RayCrew(reading, len(reading.shards))
