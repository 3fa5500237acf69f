"""The way from a stream to a model: passes, checkpoints, and going on after an interruption."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import InvalidInput, ModelFileError, require
from giftrl.streams.batch import Batch, Position
from giftrl.streams.columns import Columns
from giftrl.streams.reader import Reader
from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings

__all__ = ["Checkpoint", "Trainer", "train"]

Named = str | os.PathLike[str]
#: Called after each piece of a batch: the trainer, the batch, where the piece begins and ends in it, its predictions.
Watch = Callable[["Trainer", Batch, int, int, NDArray[np.float64]], None]


class Checkpoint(NamedTuple):
    """Where to keep the state of an unfinished run, and after how many examples to write it."""

    path: Path
    every: int


class Trainer:
    """Trains a model on a stream, one or more passes, and can go on where a checkpoint was written.

    A checkpoint holds the model, the position in the stream and the counts; it is written atomically between two
    batches. A run that goes on from one gives the same model, byte by byte, as a run that was never interrupted.

    Args:
        model: as it is before the first row.
        sources: files, globs, directories, or "-" for standard input.
        passes: how often to go over the data.
        format, columns, on_error, rejects: as for :class:`giftrl.streams.Reader`.
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
        self.checkpoint = checkpoint
        self.reader: Reader | None = None
        self.seconds_learning = 0.0
        self._pass = 0
        self._position = Position()
        self._written = model.examples  # at the last checkpoint

    @property
    def passes_done(self) -> int:
        """How many passes are behind."""
        return self._pass

    def resume(self) -> bool:
        """Take up the checkpoint, if there is one; whether there was."""
        if self.checkpoint is None or not self.checkpoint.path.exists():
            return False
        model, more = LinearModel.load(self.checkpoint.path)
        different = self.model.settings.differences(model.settings)
        named = [str(source) for source in self.sources]
        if more.get("sources") != named:
            different.append(f"sources={named!r}, not {more.get('sources')!r}")
        if more.get("passes") != self.passes:
            different.append(f"passes={self.passes!r}, not {more.get('passes')!r}")
        if different:
            raise InvalidInput(
                "resume", str(self.checkpoint.path), f"was written with other settings: {'; '.join(different)}",
                "give the same settings and data, or start anew without resuming",
            )  # fmt: skip
        try:
            self._pass = int(more["pass"])
            self._position = Position(*(int(each) for each in more["position"]))
            kept = int(more["rejects"])
        except (KeyError, TypeError, ValueError):
            raise ModelFileError(self.checkpoint.path, "is a model but not a checkpoint", "start anew") from None
        if self.rejects is not None:
            # What was rejected after the checkpoint will be rejected once more.
            with contextlib.suppress(FileNotFoundError), Path(self.rejects).open("r+b") as file:
                file.truncate(kept)
        self.model = model
        self._written = model.examples
        return True

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
            self.sources,
            model.features,
            format=self.format,
            columns=self.columns,
            schema=model.schema,
            interactions=settings.interactions or None,
            normalize=settings.normalize,
            constant=settings.constant,
            on_error=self.on_error,
            # The side file is that of the first pass: later ones reject the same rows.
            rejects=self.rejects if self._pass == 0 else None,
            accepts=settings.accepts,
            expected=settings.expected(),
            start=self._position,
        )
        for batch in self.reader:
            model.schema = self.reader.schema
            first, begun = 0, time.perf_counter()
            for last, predictions in model.learn(batch):
                self.seconds_learning += time.perf_counter() - begun
                if watch is not None:
                    watch(self, batch, first, last, predictions)
                first, begun = last, time.perf_counter()
            if self._pass == 0:
                model.rejected += len(batch.rejected)
            self._position = batch.end
            if self.checkpoint is not None and model.examples - self._written >= self.checkpoint.every:
                self.write_checkpoint()

    def write_checkpoint(self) -> None:
        """Write down where the run is."""
        if self.checkpoint is None:
            return
        size = 0
        if self.rejects is not None:
            with contextlib.suppress(FileNotFoundError):
                size = Path(self.rejects).stat().st_size
        more: dict[str, Any] = {
            "sources": [str(source) for source in self.sources],
            "passes": self.passes,
            "pass": self._pass,
            "position": list(self._position),
            "rejects": size,
        }
        self.model.save(self.checkpoint.path, more)
        self._written = self.model.examples


def train(settings: Settings, sources: Named | Sequence[Named], **options: Any) -> LinearModel:
    """A model trained on a stream; options as for :class:`Trainer`."""
    return Trainer(LinearModel(settings), sources, **options).run()
