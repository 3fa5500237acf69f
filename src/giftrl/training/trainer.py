"""The way from a stream to a model: passes, checkpoints, and going on after an interruption."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import InvalidInput, ModelFileError, require
from giftrl.growing import GrowingFile
from giftrl.streams.batch import Batch, Position
from giftrl.streams.columns import Columns
from giftrl.streams.reader import Reader
from giftrl.streams.sources.source import find_sources
from giftrl.training.consumed import Consumed
from giftrl.training.model import LinearModel
from giftrl.training.order import Order
from giftrl.training.predictions import lines_of
from giftrl.training.settings import Settings

Named = str | os.PathLike[str]
#: Called after each piece of a batch: the trainer, the batch, where the piece begins and ends in it, its predictions.
Watch = Callable[["Trainer", Batch, int, int, NDArray[np.float64]], None]


class Checkpoint(NamedTuple):
    """Where to keep the state of an unfinished run, and after how many examples to write it."""

    path: Path
    every: int


class Trainer:
    """Trains a model on a stream, one or more passes, and can go on where a checkpoint was written.

    A checkpoint holds the model, the position in the stream, how the data is read, and digests of what was read; it is
    written atomically between two batches. A run that goes on from one gives the same model, byte by byte, as a run
    that was never interrupted. So does a run that begins with the model of an earlier run: the same as one run over the
    data of both.

    Args:
        model: a new one, or one that has learnt from other data.
        sources: files, globs, directories, or "-" for standard input.
        passes: how often to go over the data.
        format, columns, on_error, rejects: as for :class:`giftrl.streams.Reader`.
        predictions: a file to write predictions to, made before each label was used, a line for each row of the first
            pass; None for none.
        checkpoint: None for none.
    """

    def __init__(
        self,
        model: LinearModel,
        sources: Named | Sequence[Named],
        *,
        passes: int = 1,
        format: str | None = None,  # noqa: A002
        columns: Columns | None = None,
        on_error: str = "stop",
        rejects: Named | None = None,
        predictions: Named | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        require(passes >= 1, "passes", passes, "must be at least 1", "try passes=1")
        every = 1 if checkpoint is None else checkpoint.every
        require(every >= 1, "checkpoint", every, "must be written after at least 1 example", "try 1000000")
        self.model = model
        self.sources = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
        self.passes = passes
        self.format = format
        self.columns = columns
        self.on_error = on_error
        self.rejects = rejects
        self.predictions = predictions
        self.checkpoint = checkpoint
        self.reader: Reader | None = None
        self.seconds_learning = 0.0
        self.order = Order()  # of the labels that this run has met in the first pass
        self.examples_before = model.examples  # learnt from other data
        self._pass = 0
        self._position = Position()
        self._written = model.examples  # at the last checkpoint

    @property
    def passes_done(self) -> int:
        """How many passes are behind."""
        return self._pass

    def resume(self) -> None:
        """Go on from the checkpoint; an error if there is none, or if it belongs to another run."""
        if self.checkpoint is None or not self.checkpoint.path.exists():
            raise InvalidInput(
                "resume", None if self.checkpoint is None else str(self.checkpoint.path),
                "there is no checkpoint to go on from",
                "leave out --resume to start anew; --from MODEL goes on from a finished model",
            )  # fmt: skip
        path = self.checkpoint.path
        model, more = LinearModel.load(path)
        different = self.model.settings.differences(model.settings)
        different += [
            f"{name}={value!r}, not {more.get(name)!r}"
            for name, value in self._reading().items()
            if name in more and more[name] != value
        ]
        if different:
            raise InvalidInput(
                "resume", str(path), f"was written with other settings: {'; '.join(different)}",
                "give the same settings and data, or start anew without resuming",
            )  # fmt: skip
        try:
            self._pass = int(more["pass"])
            self._position = Position(*(int(each) for each in more["position"]))
            sizes = {name: int(more.get(name, 0)) for name in self._growing}
        except (KeyError, TypeError, ValueError):
            raise ModelFileError(path, "is a model but not a checkpoint", "start anew") from None
        if "read" in more:  # versions before 2 wrote no digests
            self._consumed.require(more["read"], self._furthest())
        if self._pass == 0:
            for name, growing in self._growing.items():
                GrowingFile.cut(name, growing, sizes[name])  # what came after the checkpoint will be written once more
        self.model = model
        self._written = model.examples

    def run(self, watch: Watch | None = None) -> LinearModel:
        """Train to the end of the last pass."""
        while self._pass < self.passes:
            self._run_pass(watch)
            self._pass += 1
            self._position = Position()
        return self.model

    def _run_pass(self, watch: Watch | None) -> None:
        model, settings = self.model, self.model.settings
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
            keep_rejects=self.checkpoint is not None,
            accepts=settings.accepts,
            expected=settings.expected(),
            no_base=settings.no_base,
            start=self._position,
        )
        with contextlib.ExitStack() as opened:
            file = None
            if self.predictions is not None and self._pass == 0:
                append, keep = self._position != Position(), self.checkpoint is not None
                file = opened.enter_context(GrowingFile("predictions", self.predictions, append=append, keep=keep))
            for batch in self.reader:
                model.schema = self.reader.schema
                made = self._learn(batch, watch)
                if file is not None:
                    file.write(lines_of(batch, model.decide(made)))
                if self._pass == 0:
                    model.rejected += len(batch.rejected)
                    self.order.add(batch.labels)
                self._position = batch.end
                if self.checkpoint is not None and model.examples - self._written >= self.checkpoint.every:
                    self.write_checkpoint()

    def _learn(self, batch: Batch, watch: Watch | None) -> NDArray[np.float64]:
        """Learn from a batch, and return the predictions that were made on the way."""
        made = []
        first, begun = 0, time.perf_counter()
        for last, predictions in self.model.learn(batch):
            self.seconds_learning += time.perf_counter() - begun
            if watch is not None:
                watch(self, batch, first, last, predictions)
            made.append(predictions)
            first, begun = last, time.perf_counter()
        return np.concatenate(made) if made else np.empty((0, self.model.settings.classes))

    def write_checkpoint(self) -> None:
        """Write down where the run is."""
        if self.checkpoint is None:
            return
        more: dict[str, Any] = {
            "pass": self._pass,
            "position": list(self._position),
            "read": self._consumed.until(self._furthest()),
        } | {name: GrowingFile.size(path) for name, path in self._growing.items()}
        self.model.save(self.checkpoint.path, more | self._reading())
        self._written = self.model.examples

    def _reading(self) -> dict[str, Any]:
        """What decides which rows are read, as JSON holds it: a run can go on only where this is the same."""
        columns = (self.columns or Columns())._asdict()
        return {
            "sources": [str(source) for source in self.sources],
            "passes": self.passes,
            "examples_before": self.examples_before,
            "format": self.format,
            "columns": {name: list(value) if isinstance(value, tuple) else value for name, value in columns.items()},
            "on_error": self.on_error,
            "files": sorted(self._growing),
        }

    def _furthest(self) -> Position:
        """How far the data has been read, in this pass or one before."""
        return self._position if self._pass == 0 else Position(len(self._consumed.sources))

    @property
    def _growing(self) -> dict[str, Named]:
        """The files that are written row by row, by their arguments."""
        named = {"rejects": self.rejects, "predictions": self.predictions}
        return {name: path for name, path in named.items() if path is not None}

    @cached_property
    def _files(self) -> list[str]:
        """The files behind the sources, listed once: a later pass must not read what this run writes among them."""
        return [source.name for source in find_sources(self.sources)]

    @cached_property
    def _consumed(self) -> Consumed:
        return Consumed(self._files, self.format)


def train(settings: Settings, sources: Named | Sequence[Named], **options: Any) -> LinearModel:
    """A model trained on a stream; options as for :class:`Trainer`."""
    return Trainer(LinearModel(settings), sources, **options).run()
