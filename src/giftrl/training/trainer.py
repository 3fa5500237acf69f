"""The way from a stream to a model: passes, checkpoints, and going on after an interruption."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config.predictor import as_they_count
from giftrl.errors import InvalidInput, ModelFileError, require, require_whole
from giftrl.files import FileDigest, Output, unfinished
from giftrl.streams.batch import Batch, Position
from giftrl.streams.columns import Columns
from giftrl.streams.label_names import LabelNames
from giftrl.streams.reader import Reader
from giftrl.streams.sources.source import Stream, find_sources, require_files
from giftrl.training.checkpoint import Checkpoint, InputDigests, differences, go_back_all, require_no_checkpoint
from giftrl.training.model import LinearModel, under
from giftrl.training.multi_pass import Course, go_on, unsound_checkpoint
from giftrl.training.predictions import lines_of
from giftrl.workers.merging import require_auto

Named = str | os.PathLike[str]
#: Called after each piece of a batch: the trainer, the batch, where the piece begins and ends in it, its predictions.
Watch = Callable[["Trainer", Batch, int, int, NDArray[np.float64]], None]


class Trainer:
    """Trains a model on a stream, one or more passes, and can go on where a checkpoint was written.

    A checkpoint holds the model, the position in the stream, how the data is read, and digests of what was read and
    written; it is written atomically between two batches, and once more at the end. A run that goes on from one gives
    the same model, byte by byte, as a run that was never interrupted. With one worker, a run that
    begins with the model of an earlier run gives the same as one run over the data of both. Delete the checkpoint once
    the model is saved: where there is one, a new run does not start.

    Args:
        model: a new one, or one that has learnt from other data.
        sources: files, globs, directories, or "-" for standard input.
        passes: how often to go over the data at most.
        holdout: with more than one pass, one of this many rows is held out, and fewer later on
            (:func:`giftrl.training.multi_pass.held_rows`). Training stops when the loss on them rises; the model of the
            best pass is kept, and learns them too. 0 for none, and all passes.
        workers: how many threads learn in the first pass (:mod:`giftrl.workers`). The model depends on their number,
            and is the same in every run.
        format, columns, on_error, rejects: as for :class:`giftrl.streams.Reader`.
        predictions: a file to write predictions of the first pass to, each made before the label was used, or None.
        checkpoint: None for none.
        opened: as for :class:`giftrl.streams.Reader`.

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
        self, model: LinearModel, sources: Named | Sequence[Named], *, passes: int = 1, holdout: int = 10,
        workers: int = 1, format: str | None = None,  # noqa: A002
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
        require_auto(workers == 1 or model.settings.auto, "workers", workers)
        self.holdout = holdout if passes > 1 else 0
        self.course = Course(model, self.holdout)
        self.format, self.columns, self.on_error = format, columns, on_error
        self.rejects, self.predictions = rejects, predictions
        self.checkpoint = checkpoint
        self.opened = opened or {}
        self.reader: Reader | None = None
        self.seconds_learning = 0.0
        self.order = SortedLabels()  # of the labels that this run has met in the first pass
        self.examples_before = model.examples  # learnt from other data
        self.record: Any = None  # kept in checkpoints: has state() and restore(state, examples)
        self._pass = 0
        self._position = Position()
        self._written = model.examples  # at the last checkpoint
        self._resumed = False
        self._finished = False

    @property
    def passes_done(self) -> int:
        """How many passes are behind."""
        return self._pass

    def resume(self, chosen: Sequence[str] = ()) -> None:
        """Go on from the checkpoint; an error if there is none, or if it belongs to another run.

        Args:
            chosen: settings that the first rows chose, which are those of the checkpoint.
        """
        if self.checkpoint is None or not self.checkpoint.path.exists():
            raise InvalidInput(
                "checkpoint", None if self.checkpoint is None else str(self.checkpoint.path),
                "there is none to go on from",
                "leave out --resume to start anew; --from MODEL goes on from a finished model",
            )  # fmt: skip
        path = self.checkpoint.path
        model, more = LinearModel.load(path)
        self._finished = bool(more.get("finished", False))
        wanted = replace(self.model.settings, **{name: getattr(model.settings, name) for name in chosen})
        different = wanted.differences(model.settings) + [
            difference for name, value in self._reading().items() for difference in differences(name, value, more)
        ]
        before = more.get("examples_before", self.examples_before)
        if not self._finished and before != self.examples_before:  # the model of a finished run may have been saved
            different.append(f"the model to go on from has {self.examples_before:,} examples, not {before:,}")
        if different:
            raise InvalidInput(
                "checkpoint", str(path), f"was written with other settings: {'; '.join(different)}",
                "give the same settings and data; or delete the checkpoint to start anew",
            )  # fmt: skip
        try:
            self._pass = int(more["pass"])
            self._position = Position(*(int(each) for each in more["position"]))
        except (KeyError, TypeError, ValueError):
            raise ModelFileError(path, "is a model but not a checkpoint", "give the name of another model") from None
        if "read" in more and not self._finished:  # versions before 2 wrote no digests
            self._consumed.require(more["read"], self._furthest())
        if self._pass == 0:
            go_back_all(self._growing, path, more)
        self.model, model.steps = model, more["extra"].get("steps")
        self.course = go_on(model, self.holdout, more, path)
        if self.record is not None:
            with unsound_checkpoint(path):
                self.record.restore(under(more["extra"], "record."), model.examples)
        self._written = self._learnt
        self._resumed = True

    @property
    def _learnt(self) -> int:
        """How many rows were learnt, those of later passes included."""
        return self.model.examples + self.model.repeated.examples

    def run(self, watch: Watch | None = None, passed: Callable[["Trainer"], None] | None = None) -> LinearModel:
        """Train to the end of the last pass; ``passed`` is called after each."""
        if self.checkpoint is not None and not self._resumed:
            require_no_checkpoint(self.checkpoint.path)
        if self._finished:
            return self.model
        if self.passes > 1:
            require_files(self._files)
        going = True
        while going and self._pass < self.passes:
            self.course.begin()
            self._run_pass(watch)
            self._pass += 1
            self._position = Position()
            going = self.course.end()
            if passed is not None:
                passed(self)
        self.course.finish()
        self._finished = True
        self.write_checkpoint()  # a run that goes on only saves the model, which may be the one that it began with
        return self.model

    def _run_pass(self, watch: Watch | None) -> None:
        model, settings, checkpoint = self.model, self.model.settings, self.checkpoint and self.checkpoint.path
        self.reader = Reader(
            self._files,
            model.features,
            format=self.format,
            columns=self.columns,
            schema=model.schema,
            interactions=settings.interactions,
            ngrams=settings.ngrams,
            normalize=settings.normalize,
            constant=settings.constant,
            on_error=self.on_error,
            # The side file is that of the first pass: later ones reject the same rows.
            rejects=self.rejects if self._pass == 0 else None,
            checkpoint=checkpoint,
            labels=settings.label_names,
            accepts=settings.accepts,
            expected=partial(settings.expected, more=not model.examples),
            no_base=settings.no_base,
            start=self._position,
            opened=self.opened,
        )
        with contextlib.ExitStack() as opened:
            opened.enter_context(model.together(self.workers if self._pass == 0 else 1))
            file = None
            if self.predictions is not None and self._pass == 0:
                append = self._position != Position()
                file = Output(self.predictions, "predictions", checkpoint=checkpoint, append=append).open_in(opened)
            for batch in self.reader:
                model.schema = self.reader.schema
                made = self._learn(batch, watch)
                if file is not None:
                    file.write(lines_of(batch, model.decide(made) if settings.many else made))
                if self._pass == 0:
                    model.rejected += len(batch.rejected)
                    self.order.add(batch.labels, settings.label_names)
                self._position = batch.end
                due = self.checkpoint is not None and self._learnt - self._written >= self.checkpoint.every
                if due and model.between_rounds:
                    self.write_checkpoint()

    def _learn(self, whole: Batch, watch: Watch | None) -> NDArray[np.float64]:
        """Learn from a batch, and return the predictions that were made on the way; of the first pass, for all rows."""
        batch, held = self.course.split(whole)
        first, begun = 0, time.perf_counter()
        if self._pass > 0:
            predictions = self.model.learn_again(batch)
            self.seconds_learning += time.perf_counter() - begun
            if watch is not None:
                watch(self, batch, 0, len(batch), predictions)
            return predictions
        made = []
        for last, predictions in self.model.learn(batch):
            self.seconds_learning += time.perf_counter() - begun
            if watch is not None:
                watch(self, batch, first, last, predictions)
            made.append(predictions)
            first, begun = last, time.perf_counter()
        if len(held) > 0 and self.predictions is not None:  # as all predictions are: before the label is used
            made.append(as_they_count([self.model.learner], self.model.few_scores(held, clip=True)))
            order = np.argsort(np.concatenate([batch.lines, held.lines]), kind="stable")
            return np.asarray(np.concatenate(made)[order])
        return np.concatenate(made) if made else np.empty((0, self.model.settings.classes))

    def write_checkpoint(self) -> None:
        """Write down where the run is."""
        if self.checkpoint is None:
            return
        more: dict[str, Any] = {
            "pass": self._pass,
            "position": list(self._position),
            "finished": self._finished,
            "examples_before": self.examples_before,
            "read": [] if self._finished else self._consumed.until(self._furthest()),
        } | {name: digest.until(None) for name, digest in self._digests.items()}
        more["course"], extra = self.course.state()
        kept = {} if self.record is None else {f"record.{name}": each for name, each in self.record.state().items()}
        team = self.model.team
        steps = self.model.steps if team is None else team.steps
        kept |= {} if steps is None else {"steps": steps}
        self.model.save(self.checkpoint.path, more | self._reading(), kept if self._finished else extra | kept)
        self._written = self._learnt

    def _reading(self) -> dict[str, Any]:
        """What decides which rows are read, as JSON holds it: a run can go on only where this is the same."""
        columns = (self.columns or Columns())._asdict()
        folder = "." if self.checkpoint is None else self.checkpoint.path.parent
        return {
            "sources": [str(source) for source in self.sources],
            "passes": self.passes,
            "holdout": self.holdout,
            "workers": self.workers,
            "format": self.format,
            "columns": {name: list(value) if isinstance(value, tuple) else value for name, value in columns.items()},
            "on_error": self.on_error,
            # As seen from the checkpoint: a folder can be moved as a whole.
            "outputs": {name: os.path.relpath(path, folder) for name, path in self._growing.items()},
        }

    def _furthest(self) -> Position:
        """How far the data has been read, in this pass or one before."""
        return self._position if self._pass == 0 else Position(len(self._consumed.sources))

    @property
    def _growing(self) -> dict[str, Named]:
        """The files that are written row by row, by their arguments."""
        named = ("rejects", self.rejects), ("predictions", self.predictions)
        return {name: path for name, path in named if path is not None}

    @cached_property
    def _digests(self) -> dict[str, FileDigest]:
        """The digests of the files that are written row by row, while they are unfinished."""
        assert self.checkpoint is not None
        place = self.checkpoint.path
        return {name: FileDigest(unfinished(path, place)) for name, path in self._growing.items()}

    @cached_property
    def _files(self) -> list[str]:
        """The files behind the sources, listed once: a later pass must not read what this run writes among them."""
        return [source.name for source in find_sources(self.sources)]

    @cached_property
    def _consumed(self) -> InputDigests:
        return InputDigests(self._files, self.format)


# Whether rows come sorted by label, which teaches an online learner little.

#: How unlikely, in random order, the first labels must be to be pointed out.
UNLIKELY = 1e-6


class SortedLabels:
    """Counts how many of the first labels are alike, and how many of all labels are like them.

    >>> order = SortedLabels()
    >>> order.add(np.repeat([1.0, -1.0], 50))
    >>> order.note
    'the first 50 labels are all 1: if the rows are sorted, shuffle them, since order matters to an online learner'
    """

    def __init__(self) -> None:
        self._first = math.nan
        self._name = ""
        self._leading = 0
        self._alike = 0
        self._rows = 0

    def add(self, labels: NDArray[np.float64], names: LabelNames | None = None) -> None:
        """Add the labels of the next rows; with their names, where they have some."""
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
        """What to tell the user; None where the first labels are no surprise in random order."""
        if self._alike == self._rows or self._leading * math.log(self._alike / self._rows) > math.log(UNLIKELY):
            return None
        return (
            f"the first {self._leading:,} labels are all {self._name}: if the rows are sorted, shuffle them, since "
            "order matters to an online learner"
        )
