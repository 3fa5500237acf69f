"""Timing: the solvers take turns in one process, so that noise of the machine affects all of them alike."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Data
from benchmarks.solvers import Solver, Timing


@dataclass
class Result:
    """The times and the loss of one solver on one data set.

    >>> result = Result("floor", "floor", timings=[Timing(2.0, 1.0), Timing(4.0, 3.0), Timing(3.0, 2.0)])
    >>> result.seconds, result.inner, result.kinder, round(result.spread, 3)
    (3.0, 2.0, 2.0, 0.667)
    """

    key: str
    name: str
    skipped: str | None = None
    loss: float | None = None
    timings: list[Timing] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The median time of the whole call."""
        return statistics.median(timing.seconds for timing in self.timings)

    @property
    def inner(self) -> float | None:
        """The median time of learning alone, or None if the solver cannot measure it."""
        inner = [timing.inner for timing in self.timings if timing.inner is not None]
        return statistics.median(inner) if len(inner) == len(self.timings) else None

    @property
    def kinder(self) -> float:
        """The smaller of the two times, which is the one that is used for rivals."""
        return self.seconds if self.inner is None else min(self.seconds, self.inner)

    @property
    def spread(self) -> float:
        """The slowest time minus the fastest, divided by the median."""
        seconds = [timing.seconds for timing in self.timings]
        return (max(seconds) - min(seconds)) / self.seconds


def measure(
    data: Data, solvers: Iterable[Solver], repetitions: int, report: Callable[[str], None] = lambda _: None
) -> list[Result]:
    """Prepare every solver, run it once as a warm-up, then time the solvers in turn.

    Compilation, filling of caches and conversion of data happen before the first repetition that counts. Losses are
    computed after the warm-up, and are not timed. ``report`` is called with lines about the work in progress.
    """
    results, ready = [], []
    for solver in solvers:
        result = Result(solver.key, solver.name, solver.unavailable(data))
        results.append(result)
        if result.skipped is not None:
            continue
        report(f"{data.name}: {solver.name}, warm-up")
        solver.prepare(data)
        solver.once()
        predictions = solver.predictions()
        if predictions is not None:
            result.loss = progressive_loss(predictions, data.y[: len(predictions)])
        ready.append((solver, result))
    for repetition in range(repetitions):
        for solver, result in ready:
            report(f"{data.name}: repetition {repetition + 1} of {repetitions}, {solver.name}")
            result.timings.append(solver.once())
    return results


def progressive_loss(predictions: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The mean logistic loss of margins that were predicted before their labels were used.

    The same code serves every solver, and is not timed. If a solver trains many models, each with its own column, this
    is the loss of the best model.

    >>> round(progressive_loss(np.array([0.0, 1.0]), np.array([1.0, -1.0])), 6)
    1.003204
    >>> round(progressive_loss(np.array([[0.0, 0.0], [1.0, -1.0]]), np.array([1.0, -1.0])), 6)
    0.503204
    """
    margins = (predictions.T * y).T
    return float(np.logaddexp(0.0, -margins).mean(axis=0).min())
