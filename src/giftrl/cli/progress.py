"""What the terminal shows while a model learns: a table that grows by powers of two, and a bar."""

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

__all__ = ["Progression"]

HEADS = ("examples", "since last", "average", "label", "prediction", "nonzeros", "lambda", "certified gap")
WIDTHS = (11, 11, 11, 9, 11, 9, 11, 14)


class Progression:
    """The table of progressive loss, as Vowpal Wabbit's users know it, with lambda and the certified gap.

    *since last* is the mean loss since the line above, *average* that since the beginning; label, prediction and
    nonzeros are those of the last example. *certified gap* bounds, with proof, how much better on average any linear
    model could have done whose norm is at most that of the present one.
    """

    def __init__(self, console: Console, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._loss = 0.0
        self._weight = 0.0
        self._began = time.perf_counter()
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(), console=console, transient=True, disable=quiet or not console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=1.0, rate="")

    def __enter__(self) -> "Progression":
        if not self._quiet:
            self._console.print("".join(f"{head:>{width}}" for head, width in zip(HEADS, WIDTHS, strict=True)))
        self._bar.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._bar.stop()

    def watch(self, trainer: Any, batch: Any, first: int, last: int, predictions: Any) -> None:
        """After a piece of a batch."""
        model = trainer.model
        if not self._bar.disable:
            fraction = trainer.reader.progress.fraction
            done = None if fraction is None else (trainer.passes_done + fraction) / trainer.passes
            rate = model.examples / max(1e-9, time.perf_counter() - self._began)
            self._bar.update(
                self._task, total=None if done is None else 1.0, completed=done or 0.0, rate=f"{rate:,.0f}/s"
            )
        if not self._quiet and model.examples & (model.examples - 1) == 0:
            self.line(model, batch, last - 1, float(predictions[-1]))

    def line(self, model: Any, batch: Any, row: int, prediction: float) -> None:
        """A line of the table."""
        certificate = model.certificate
        loss, weight = certificate.loss_sum, model.weight
        since = (loss - self._loss) / (weight - self._weight) if weight > self._weight else 0.0
        self._loss, self._weight = loss, weight
        radius = float(np.linalg.norm(model.learner.x))
        gap = certificate.regret_bound_ball(radius) / weight if weight > 0.0 else 0.0
        cells = (
            f"{model.examples:,}", f"{since:.6f}", f"{model.average_loss:.6f}", f"{batch.labels[row]:g}",
            f"{prediction:.4f}", f"{batch.indptr[row + 1] - batch.indptr[row]}", f"{model.learner.lam:.4g}",
            f"{gap:.6f}",
        )  # fmt: skip
        self._console.print("".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True)))
