"""Train on many machines: from settings and sources to a model, with checkpoints."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from giftrl.distributed.driver import Crew, Driver, LocalCrew, RunProgress
from giftrl.distributed.ray_crew import SIMULATED_CLUSTER, RayCrew, connect, require_cluster
from giftrl.distributed.shards import ShardPlace, ShardReading, deal, find_files, look_at_files, source_of
from giftrl.errors import Given, require, require_whole
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.names.features import Hashing
from giftrl.streams.reader import Reader
from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings
from giftrl.training.trainer import (
    Checkpoint,
    columns_state,
    differences,
    require_place,
    require_same_run,
    unsound_checkpoint,
    without_cluster,
)
from giftrl.workers.merging import require_auto

Named = str | os.PathLike[str]
#: With fewer rows, many machines are hardly faster than one.
PAYS = 100_000_000
#: The rows between two checkpoints, if only the file is given.
CHECKPOINT_ROWS = 10_000_000


def plan(
    settings: Settings,
    sources: Named | Sequence[Named],
    workers: int,
    *,
    format: str | None = None,  # noqa: A002
    columns: Columns | None = None,
    schema: Schema | None = None,
    on_error: str = "stop",
) -> ShardReading:
    """Split the files of the sources into shards, one for each worker; arguments as for :func:`train`.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = pathlib.Path(folder, "rows.svm")
    ...     _ = data.write_text("1 1:1\\n-1 2:1\\n" * 5000)
    ...     reading = plan(Settings(loss="logistic"), data, workers=2)
    >>> reading.format, len(reading.shards)
    ('libsvm', 2)
    """
    workers = require_whole("workers", workers, 1, "try workers=16")
    require_auto(settings.auto, "workers", workers)
    remedy = ("try ", Given("bits", 18), ", which hashes names")
    require(settings.bits is not None, "bits", settings.bits, "a dictionary would differ from worker to worker", remedy)
    columns = columns or Columns()
    look = look_at_files(find_files(sources), format, columns, schema)
    schema = look.schema
    if schema is None and look.format not in ("libsvm", "vw", "npz"):
        reader = Reader(
            [source_of(look.files[0].name)], Hashing(18), format=look.format, columns=columns,
            labels=settings.label_names, on_error="skip", background=False,
        )  # fmt: skip
        next(iter(reader), None)  # the first rows show the kinds of columns
        schema = reader.schema
    return ShardReading(settings, look.files, deal(look.files, workers), look.format, columns, schema, on_error)


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
    """Train a model with many workers, whose models are merged periodically.

    The same settings, sources and number of workers give the same model, bit by bit, on any machines and after any
    failures of workers.

    Args:
        settings: of a new model, or a model to continue, which is changed. Names are hashed, so ``bits`` must be given,
            and beta must be "auto".
        sources: paths, globs and directories that every machine sees, and URLs that fsspec opens, such as ``s3://``.
        workers: their number.
        cluster: None for Ray on this machine, "auto" for the cluster that this machine belongs to,
            "ray://host:10001" for another one, or "simulation" for no Ray: workers in this process, one after the
            other.
        checkpoint: a file that is written after merges, or :class:`giftrl.training.Checkpoint` to say how often.
        resume: continue from the checkpoint.
        format, columns, schema, on_error: as for :class:`giftrl.streams.Reader`.
        after: called after each merge with the :class:`giftrl.distributed.Driver`, whose ``costs`` are the costs of the
            run so far.

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
        checkpoint = Checkpoint(Path(checkpoint), CHECKPOINT_ROWS)
    require(checkpoint is not None or not resume, "resume", resume, "needs a checkpoint", "give checkpoint")
    if checkpoint is not None:
        require_place(checkpoint.path, resume)
    model: LinearModel | None = None
    if isinstance(settings, LinearModel):
        model, settings = settings, settings.settings
        rule = "is not what the model was trained with"
        require(schema is None or model.schema in (None, schema), "schema", schema, rule, "leave it out")
        schema = model.schema or schema
    reading = plan(settings, sources, workers, format=format, columns=columns, schema=schema, on_error=on_error)
    progress: RunProgress | None = None
    if checkpoint is not None and resume:
        model, progress = read_checkpoint(checkpoint.path, reading)
    model = LinearModel(reading.settings) if model is None else model
    model.schema = reading.schema
    if cluster != SIMULATED_CLUSTER:
        connect(cluster)
    crew: Crew = (LocalCrew if cluster == SIMULATED_CLUSTER else RayCrew)(reading, len(reading.shards))
    written = model.examples

    def merged(driver: Driver) -> None:
        nonlocal written
        examples, done = driver.model.examples, all(driver.progress.done)
        if checkpoint is not None and (done or examples - written >= checkpoint.every):
            write_checkpoint(checkpoint.path, driver)
            written = examples
        if after is not None:
            after(driver)

    try:
        return Driver(model, reading, crew, progress).run(merged)
    finally:
        crew.close()


def _described(reading: ShardReading) -> dict[str, Any]:
    """The settings of reading as JSON holds them: a run can be resumed only with the same."""
    return {
        "sources": [[file.name, file.size] for file in reading.files],
        "workers": len(reading.shards),
        "format": reading.format,
        "columns": columns_state(reading.columns),
        "on_error": reading.on_error,
    }


def write_checkpoint(path: Path, driver: Driver) -> None:
    """Write the model and the progress of a run, whole or not at all, in the place of the checkpoint before."""
    now = driver.progress
    more = _described(driver.reading) | {
        "position": [list(place) for place in now.places],
        "done": list(now.done),
        "version": now.version,
    }
    steps = {} if now.steps is None else {"steps": now.steps}
    driver.model.save(path, more, steps | {"seen": np.flatnonzero(now.seen)})


def read_checkpoint(path: Path, reading: ShardReading) -> tuple[LinearModel, RunProgress]:
    """The model and the progress of a checkpoint; an error if it belongs to another run."""
    model, more = LinearModel.load(path)
    different = reading.settings.differences(model.settings) + without_cluster(more)
    for name, value in _described(reading).items():
        different += differences(name, value, more)
    require_same_run(path, different, "settings or data")
    with unsound_checkpoint(path):
        places = [ShardPlace(*map(int, place)) for place in more["position"]]
        done = [bool(done) for done in more["done"]]
        seen = np.zeros(model.learner.dimension, np.bool_)
        seen[more["extra"]["seen"]] = True
        if len(places) != len(reading.shards) or len(done) != len(reading.shards):
            raise ValueError("it has other shards")
        return model, RunProgress(places, done, int(more["version"]), more["extra"].get("steps"), seen)
