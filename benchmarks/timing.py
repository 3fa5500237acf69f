"""The clock: every solver in one process, in turn, so that noise of the machine hits all alike."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.datasets import Data
from benchmarks.objective import progressive_loss
from benchmarks.solvers import Solver, Timing

__all__ = ["Result", "measure"]


@dataclass
class Result:
    """What one solver did on one data set.

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
        """The median of the call as a user makes it."""
        return statistics.median(timing.seconds for timing in self.timings)

    @property
    def inner(self) -> float | None:
        """The median of learning alone, where it can be told apart."""
        found = [timing.inner for timing in self.timings if timing.inner is not None]
        return statistics.median(found) if len(found) == len(self.timings) else None

    @property
    def kinder(self) -> float:
        """The smaller of the two: for rivals, who are given the benefit of the doubt."""
        return self.seconds if self.inner is None else min(self.seconds, self.inner)

    @property
    def spread(self) -> float:
        """From the fastest to the slowest call, as a part of the median."""
        seconds = [timing.seconds for timing in self.timings]
        return (max(seconds) - min(seconds)) / self.seconds


def measure(
    data: Data, solvers: Iterable[Solver], repetitions: int, report: Callable[[str], None] = lambda _: None
) -> list[Result]:
    """Prepare every solver, warm each up once, then time them round-robin.

    Compilation, caches and the conversion of data all happen before the first repetition that counts. Losses are
    computed after the warm-up, outside of the clock.

    Args:
        data: the data set.
        solvers: what to run; those that cannot run here are in the result with the reason.
        repetitions: how many times each is timed.
        report: called with what is being done, for the terminal.
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
