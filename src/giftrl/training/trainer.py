"""Training of a model on a stream: passes, checkpoints, and resuming after an interruption."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.config.predictor import clip_as_in_training
from giftrl.errors import BadSource, GiftrlError, Given, InvalidInput, ModelFileError, between, require, require_whole
from giftrl.files import FileDigest, Output, find_written, go_back, unfinished
from giftrl.streams.batch import Batch, LabelNames, Position
from giftrl.streams.columns import Columns
from giftrl.streams.reader import Reader
from giftrl.streams.source import HEAD_BYTES, TEXT_FORMATS, Source, Stream, detect, find_sources, require_files
from giftrl.training.model import LinearModel, under
from giftrl.training.multi_pass import MultiPass
from giftrl.training.predictions import lines_of
from giftrl.workers.merging import require_auto

Named = str | os.PathLike[str]
#: Called after each piece of a batch with the trainer, the batch, the piece's first row and end in it, and predictions.
Watch = Callable[["Trainer", Batch, int, int, NDArray[np.float64]], None]


class Checkpoint(NamedTuple):
    """The file with the state of an unfinished run, and the number of examples between two writes.

    >>> Checkpoint(Path("clicks.giftrl.checkpoint"), every=1_000_000).every
    1000000
    """

    path: Path
    every: int


def require_no_checkpoint(path: Path) -> None:
    """Raise an error if a checkpoint exists: a new run would overwrite files of the unfinished run."""
    remedy = "use --resume to continue, or delete the checkpoint to start anew"
    require(not path.exists(), "checkpoint", str(path), "belongs to a run that may be unfinished", remedy)


def require_place(path: Path, resume: bool) -> None:
    """Raise an error if there is no checkpoint to resume, or if a new run would overwrite one."""
    if not resume:
        require_no_checkpoint(path)
        return
    remedy = "leave out --resume to start anew; --from MODEL continues from a finished model"
    require(path.exists(), "checkpoint", str(path), "there is no checkpoint to resume from", remedy)


def columns_state(columns: Columns) -> dict[str, Any]:
    """Column options as values for JSON."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in columns._asdict().items()}


def differences(name: str, value: Any, before: Mapping[str, Any]) -> list[str | Given]:
    """Differences from the values in a checkpoint; columns are compared one by one."""
    if name == "passes" and "done" in before:  # checkpoints of a cluster have only the latter
        return ["a run with --cluster, now without"]
    if name not in before or before[name] == value:
        return []
    if isinstance(value, dict) and isinstance(before[name], dict):
        return [part for key in value for part in differences(key, value[key], before[name])]
    if name == "sources" and any(isinstance(source, list) for source in (*before[name], *value)):
        return _other_shards(before[name], value)
    return [Given(name, before[name], value)]


def without_cluster(before: Mapping[str, Any]) -> list[str | Given]:
    """Compare a run with a cluster to a checkpoint of a run without one; empty if both have one."""
    return ["a run without --cluster, now with it"] if "passes" in before else []


def _other_shards(before: Any, now: Any) -> list[str | Given]:
    """Differences of sources and their sizes, which checkpoints of a cluster contain."""
    if not all(isinstance(source, list) for source in (*before, *now)):
        return []  # only one run had a cluster; reported elsewhere
    names = [[name for name, _ in sources] for sources in (before, now)]
    if names[0] != names[1]:
        return [Given("sources", *names)]
    sizes = zip(before, now, strict=True)
    return [f"{name} of {size:,} bytes, now of {other:,}" for (name, size), (_, other) in sizes if size != other]


def require_same_run(path: Path, different: Sequence[str | Given], what: str = "settings") -> None:
    """Raise an error if there are differences from the run that wrote a checkpoint."""
    remedy = "give the same settings and data; or delete the checkpoint to start anew"
    rule = (f"was written with other {what}: ", *between(different, "; "))
    require(not different, "checkpoint", str(path), rule, remedy)


@contextlib.contextmanager
def unsound_checkpoint(path: Path) -> Iterator[None]:
    """Turn errors in restoring a checkpoint into an error that names the file."""
    try:
        yield
    except (IndexError, KeyError, TypeError, ValueError, GiftrlError) as error:
        raise ModelFileError(path, f"is not a sound checkpoint ({error})", "delete it to start anew") from None


def go_back_all(growing: Mapping[str, Any], checkpoint: Path, more: Mapping[str, Any]) -> None:
    """Truncate outputs that are written row by row to the state of the checkpoint."""
    places = []
    for name, path in growing.items():
        written = more.get(name)
        if not isinstance(written, list) or len(written) != 2:
            problem = f"does not say what was written to the file of {name}"
            raise ModelFileError(checkpoint, problem, "delete it to start anew")
        places.append((find_written(name, path, checkpoint, written), path, checkpoint, int(written[0])))
    for place in places:
        go_back(*place)


class InputDigests:
    """Digests of the bytes read of each source, so that a resumed run can check its data.

    Each file is read a second time for this, incrementally at each checkpoint. SHA-256 takes 0.7 s of CPU
    time for a gigabyte (AMD EPYC, ``hashlib`` on 256 MiB). For plain text the bytes before the position are hashed; any
    other file is hashed as a whole. The format is detected if it is None.
    """

    def __init__(self, sources: Sequence[Source], format: str | None) -> None:  # noqa: A002
        self.sources, self.format = sources, format
        self._digests = [FileDigest(source.path or "") for source in self.sources]

    def until(self, position: Position) -> list[list[int | str]]:
        """The number of bytes read of each source up to a position, and their digest."""
        known: list[list[int | str]] = []
        for at, source in enumerate(self.sources[: position.source + 1]):
            size = None if at < position.source else position.offset
            if source.path is None or not source.path.is_file():
                size = 0  # a pipe cannot be read again, and no run can resume it
            elif size is not None and not self._is_text(source):
                size = None
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

    def _is_text(self, source: Source) -> bool:
        with Stream(source) as stream:
            plain = stream.compression is None
            return plain and detect(stream.peek(HEAD_BYTES), source.name, self.format) in TEXT_FORMATS


class Trainer:
    """Trains a model on a stream, in one pass or more, and resumes from checkpoints.

    A checkpoint holds the model, the position in the stream, the settings of the reader, and digests of the bytes read
    and written. It is written atomically between two batches, and once more at the end. A resumed run gives the same
    model, byte by byte, as a run that was never interrupted. With one worker, a run that begins with the model of an
    earlier run gives the same as one run over the data of both. Delete the checkpoint once the model is saved: a new
    run does not start if there is one.

    Args:
        model: a new one, or one that has learned from other data.
        sources: files, globs, directories, or "-" for standard input.
        found: the files of the sources, if already listed.
        passes: the maximum number of passes over the data.
        holdout: with more than one pass, one of this many rows is held out for early stopping, and fewer later on
            (:func:`giftrl.config.early_stopping.held_out`). Training stops when the loss on them rises; the model of
            the best pass is kept, and also trained on the held-out rows. 0 disables early stopping.
        workers: the number of threads of the first pass. The model depends on it, but not on timing.
        format, columns, on_error, rejects: as for :class:`giftrl.streams.Reader`.
        predictions: a file for the progressive predictions of the first pass, or None.
        checkpoint: None for none.
        opened: as for :class:`giftrl.streams.Reader`.

    Attributes:
        multi_pass: held-out rows and passes; None for a run of one pass.

    >>> import pathlib, tempfile
    >>> from giftrl.training import Settings
    >>> folder = tempfile.TemporaryDirectory()
    >>> data = pathlib.Path(folder.name, "rows.svm")
    >>> _ = data.write_text("1 1:1\\n-1 2:1\\n1 1:1 2:0.5\\n")
    >>> model = LinearModel(Settings(loss="logistic", beta=1.0))
    >>> Trainer(model, data).run().examples
    3
    >>> folder.cleanup()
    """

    def __init__(
        self, model: LinearModel, sources: Named | Sequence[Named], *, found: Sequence[Source] | None = None,
        passes: int = 1, holdout: int = 10, workers: int = 1, format: str | None = None,  # noqa: A002
        columns: Columns | None = None, on_error: str = "stop", rejects: Named | None = None,
        predictions: Named | None = None, checkpoint: Checkpoint | None = None, opened: dict[str, Stream] | None = None,
    ) -> None:  # fmt: skip
        require_whole("passes", passes, 1, "try passes=1")
        good = isinstance(holdout, int) and (holdout == 0 or holdout >= 2)
        require(good, "holdout", holdout, "must be 0, or a whole number of at least 2", "try holdout=10")
        require_whole("checkpoint", 1 if checkpoint is None else checkpoint.every, 1, "try 1000000")
        self.model = model
        self.sources = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
        self.passes, self.workers = passes, require_whole("workers", workers, 1, "try workers=2")
        if workers > 1:
            require_auto(model.settings.auto, "workers", workers)
        self.holdout = holdout if passes > 1 else 0
        self.multi_pass = MultiPass(model, self.holdout) if passes > 1 else None
        self.format, self.columns, self.on_error = format, columns, on_error
        self.rejects, self.predictions, self.checkpoint = rejects, predictions, checkpoint
        self.opened = opened or {}
        self.reader: Reader | None = None
        self.seconds_learning = 0.0
        self.sorted_labels = SortedLabels()  # digests of the rows read in the first pass
        self.examples_before = model.examples  # examples learned from earlier data
        self.record: Any = None  # saved in checkpoints; has state() and restore(state, examples)
        self.passes_done = 0
        self._found = None if found is None else tuple(found)
        self._position = Position()
        self._written = model.examples  # examples at the last checkpoint
        self._resumed = self._finished = False

    def resume(self, chosen: Sequence[str] = ()) -> None:
        """Resume from the checkpoint; an error if there is none, or if it belongs to another run.

        Args:
            chosen: settings to take from the checkpoint, since the first rows chose them.
        """
        require(self.checkpoint is not None, "resume", True, "needs a checkpoint", "give checkpoint")
        assert self.checkpoint is not None
        path = self.checkpoint.path
        require_place(path, True)
        model, more = LinearModel.load(path)
        self._finished = bool(more.get("finished", False))
        wanted = replace(self.model.settings, **{name: getattr(model.settings, name) for name in chosen})
        different = wanted.differences(model.settings)
        for name, value in self._reading().items():
            different += differences(name, value, more)
        before = more.get("examples_before", self.examples_before)
        if not self._finished and before != self.examples_before:  # a finished run may have saved its model here
            different.append(f"the model to continue from has {self.examples_before:,} examples, not {before:,}")
        require_same_run(path, different)
        try:
            self.passes_done = int(more["pass"])
            self._position, digests = Position(*map(int, more["position"])), more["read"]
        except (KeyError, TypeError, ValueError):
            raise ModelFileError(path, "is a model but not a checkpoint", "give the name of another model") from None
        if not self._finished:
            self._input_digests.require(digests, self._furthest())
        if self.passes_done == 0:
            go_back_all(self._growing, path, more)
        self.model, model.steps = model, more["extra"].get("steps")
        with unsound_checkpoint(path):
            if self.multi_pass is not None:
                self.multi_pass = MultiPass(model, self.holdout)
                self.multi_pass.restore(more["course"], more["extra"])
            if self.record is not None:
                self.record.restore(under(more["extra"], "record."), model.examples)
        self._written = self.learned
        self._resumed = True

    @property
    def learned(self) -> int:
        """The number of examples learned, later passes included."""
        return self.model.examples + self.model.repeated.examples

    @property
    def held_out_losses(self) -> list[float]:
        """The held-out loss after each pass; empty for a single pass."""
        return [] if self.multi_pass is None else self.multi_pass.passes.losses

    @cached_property
    def found(self) -> tuple[Source, ...]:
        """The files of the sources, listed once, so that later passes do not read this run's outputs."""
        return find_sources(self.sources) if self._found is None else self._found

    def run(self, watch: Watch | None = None, passed: Callable[["Trainer"], None] | None = None) -> LinearModel:
        """Train to the end of the last pass; ``passed`` is called after each."""
        if self.checkpoint is not None and not self._resumed:
            require_no_checkpoint(self.checkpoint.path)
        if self._finished:
            return self.model
        if self.multi_pass is not None:
            require_files([source.name for source in self.found])
        improving = True
        while improving and self.passes_done < self.passes:
            if self.multi_pass is not None:
                self.multi_pass.passes.begin()
            self._run_pass(watch)
            improving = self.multi_pass is not None and self.multi_pass.end()
            if self.multi_pass is not None and passed is not None:
                passed(self)
        if self.multi_pass is not None:
            self.multi_pass.finish()
        self._finished = True
        self.write_checkpoint()  # a resumed run with all passes done only saves the model
        return self.model

    def _run_pass(self, watch: Watch | None) -> None:
        model, settings, checkpoint = self.model, self.model.settings, self.checkpoint and self.checkpoint.path
        self.reader = Reader(
            self.found, model.features, format=self.format, columns=self.columns, schema=model.schema,
            on_error=self.on_error, checkpoint=checkpoint, start=self._position, opened=self.opened,
            # Rejected rows are written in the first pass only, since later passes reject the same rows.
            rejects=self.rejects if self.passes_done == 0 else None,
            **settings.reader_options(learn=True, can_add=not model.examples),
        )  # fmt: skip
        with contextlib.ExitStack() as opened:
            opened.enter_context(model.together(self.workers if self.passes_done == 0 else 1))
            file = None
            if self.predictions is not None and self.passes_done == 0:
                append = self._position != Position()
                file = Output(self.predictions, "predictions", checkpoint=checkpoint, append=append).open_in(opened)
            for batch in self.reader:
                model.schema = self.reader.schema
                predictions = self._learn(batch, watch)
                if file is not None:
                    file.write(lines_of(batch, model.decide(predictions) if settings.many else predictions))
                if self.passes_done == 0:
                    model.rejected += len(batch.rejected)
                    self.sorted_labels.add(batch.labels, settings.label_names)
                self._position = batch.end
                due = self.checkpoint is not None and self.learned - self._written >= self.checkpoint.every
                if due and model.between_rounds:
                    self.write_checkpoint()
        self.passes_done += 1
        self._position = Position()

    def _learn(self, batch: Batch, watch: Watch | None) -> NDArray[np.float64]:
        """Learn from a batch and return progressive predictions; in the first pass for all rows."""
        held = None
        if self.multi_pass is not None:
            batch, held = self.multi_pass.split(batch)
        first, begun = 0, time.perf_counter()
        parts = []
        for last, predictions in self.model.learn(batch) if self.passes_done == 0 else self.model.learn_again(batch):
            self.seconds_learning += time.perf_counter() - begun
            if watch is not None:
                watch(self, batch, first, last, predictions)
            parts.append(predictions)
            first, begun = last, time.perf_counter()
        if held is not None and len(held) and self.predictions is not None and self.passes_done == 0:
            # Held-out rows are predicted too.
            parts.append(clip_as_in_training([self.model.learner], self.model.few_scores(held, clip=True)))
            order = np.argsort(np.concatenate([batch.lines, held.lines]), kind="stable")
            return np.asarray(np.concatenate(parts)[order])
        return np.concatenate(parts) if parts else np.empty((0, self.model.settings.classes))

    def write_checkpoint(self) -> None:
        """Write the checkpoint."""
        if self.checkpoint is None:
            return
        more: dict[str, Any] = {
            "pass": self.passes_done,
            "position": list(self._position),
            "finished": self._finished,
            "examples_before": self.examples_before,
            "read": [] if self._finished else self._input_digests.until(self._furthest()),
        } | {name: digest.until(None) for name, digest in self._digests.items()}
        extra: dict[str, NDArray[Any]] = {}
        if self.multi_pass is not None:
            more["course"], arrays = self.multi_pass.state()
            extra |= {} if self._finished else arrays
        if self.record is not None:
            extra |= {f"record.{name}": array for name, array in self.record.state().items()}
        team = self.model.team
        steps = self.model.steps if team is None else team.steps
        extra |= {} if steps is None else {"steps": steps}
        self.model.save(self.checkpoint.path, more | self._reading(), extra)
        self._written = self.learned

    def _reading(self) -> dict[str, Any]:
        """The reading settings for JSON, which must be the same in a resumed run."""
        folder = "." if self.checkpoint is None else self.checkpoint.path.parent
        return {
            "sources": [str(source) for source in self.sources],
            "passes": self.passes,
            "holdout": self.holdout,
            "workers": self.workers,
            "format": self.format,
            "columns": columns_state(self.columns or Columns()),
            "on_error": self.on_error,
            # Relative to the checkpoint, so that the folder can be moved.
            "outputs": {name: os.path.relpath(path, folder) for name, path in self._growing.items()},
        }

    def _furthest(self) -> Position:
        """The furthest position read in any pass."""
        return self._position if self.passes_done == 0 else Position(len(self.found))

    @property
    def _growing(self) -> dict[str, Named]:
        """Outputs that are written row by row, by argument."""
        named = ("rejects", self.rejects), ("predictions", self.predictions)
        return {name: path for name, path in named if path is not None}

    @cached_property
    def _digests(self) -> dict[str, FileDigest]:
        """Digests of unfinished outputs that are written row by row."""
        assert self.checkpoint is not None
        place = self.checkpoint.path
        return {name: FileDigest(unfinished(path, place)) for name, path in self._growing.items()}

    @cached_property
    def _input_digests(self) -> InputDigests:
        return InputDigests(self.found, self.format)


#: Warn if the sequence of first labels is less likely than this in random order.
UNLIKELY_ORDER = 1e-6


class SortedLabels:
    """Detects rows sorted by label, from which an online learner learns little.

    >>> labels = SortedLabels()
    >>> labels.add(np.repeat([1.0, -1.0], 50))
    >>> labels.note
    'the first 50 labels are all 1: if the rows are sorted, shuffle them, since order matters to an online learner'
    """

    def __init__(self) -> None:
        self._first, self._name = math.nan, ""  # the first label
        self._leading = self._alike = self._rows = 0  # rows with that label at the beginning, in total, and all rows

    def add(self, labels: NDArray[np.float64], names: LabelNames | None = None) -> None:
        """Add the labels of the next rows, and label names if any."""
        if self._rows == 0 and len(labels):
            self._first = float(labels[0])
            self._name = f"{self._first:.12g}" if names is None else repr(names.names[int(self._first)])
        alike = labels == self._first
        if self._leading == self._rows:
            self._leading += len(labels) if alike.all() else int(np.argmin(alike))
        self._alike += int(np.count_nonzero(alike))
        self._rows += len(labels)

    @property
    def note(self) -> str | None:
        """A warning; None if the first labels are plausible for random order."""
        if self._alike == self._rows or self._leading * math.log(self._alike / self._rows) > math.log(UNLIKELY_ORDER):
            return None
        return (
            f"the first {self._leading:,} labels are all {self._name}: if the rows are sorted, shuffle them, since "
            "order matters to an online learner"
        )
