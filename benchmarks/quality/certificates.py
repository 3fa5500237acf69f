"""``python -m benchmarks.quality.certificates``: how much of the best loss a run certifies.

The default learner runs once over each task, in its first order. Its certificate says what no linear model up to its
own size goes below, from the rows that it kept within its budget. The least loss of these models lies between that
number and the loss of any one of them; the best one that a solver meets with all rows in memory is in the table too.
"""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.quality.data import DATASETS, LOSSES, SCALINGS, Case, Task, cases
from benchmarks.table import PATTERNS, Grid, chosen, one_line_errors, parse, publish, replaced, wide_console
from giftrl.certificates import BestLoss, Evidence
from giftrl.certificates.reservoir import DEFAULT_BUDGET
from giftrl.certificates.solver import solve
from giftrl.errors import require
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.mixture import MulticlassMixture

#: The most seconds for a bound, and for the solver that looks for the optimum with all rows in memory.
TIME_LIMIT, LONG = 10.0, 90.0
#: A difference below this share of the loss of the model 0 counts as none: some tasks have the optimum 0.
NOTHING = 1e-6
ALL_LOSSES = [loss for losses in LOSSES.values() for loss in losses]
#: The orders of covtype, whose file is in the order of time.
ORDERS = {"shuffled": "0", "in time order": "own"}


class Line(NamedTuple):
    """One line of the table. Losses are averages over examples."""

    task: str
    rows: int
    nonzeros: int  # of all examples, with the constant feature
    loss: float  # of the run
    optimum: float  # the loss of the best model in the ball that the solver found: no less than the least loss there
    proved: float  # the lower bound of that solver, with all examples
    best: float  # the certified lower bound for models up to the size of the run's own
    wide: float  # the same for models up to ten times as large
    least: float  # a lower bound for any model
    zero: float  # the loss of the model 0
    kept: int  # the number of stored examples
    seconds: float  # for ``best``

    @property
    def missing(self) -> float:
        """How far below the optimum the bound is, as a share of the optimum.

        >>> line = Line("a", 9, 9, 0.2, 0.1, 0.1, 0.099, 0.0, 0.0, 0.7, 9, 1.0)
        >>> round(line.missing, 6), line._replace(optimum=1e-9, best=0.0).missing
        (0.01, 0.0)
        """
        gap = self.optimum - self.best
        return gap / abs(self.optimum) if gap > NOTHING * self.zero else 0.0

    def words(self, bound: float) -> str:
        """A bound; ``nothing`` if it says nothing.

        >>> line = Line("a", 9, 9, 0.2, 0.1, 0.1, 0.09, 0.0, 0.0, 0.7, 9, 1.0)
        >>> line.words(line.best), line.words(line.wide)
        ('0.09', 'nothing')
        """
        return f"{bound:.4g}" if bound > self.least else "nothing"


def learner(case: Case, loss: str) -> tuple[Any, Any]:
    """The default learner after one pass over the rows, and the rows with a constant feature."""
    width = case.x.shape[1]
    rows = sparse.csr_matrix(sparse.hstack([case.x, np.ones((len(case.y), 1))]))
    if case.classes is None:
        made: Any = MixtureLearner(width + 1, loss, constant=width)
    else:
        made = MulticlassMixture(width + 1, case.classes, "softmax", constant=width)
    made.keep_witnesses(DEFAULT_BUDGET, width)
    made.learn(rows, case.y)
    return made, rows


def optimum(run: Any, rows: Any, y: Any, best: BestLoss, time_limit: float = LONG) -> tuple[float, float, float]:
    """The loss of the best model found in the ball of a bound, a lower bound there, and the loss of the model 0.

    These are sums over all examples. The solver begins with the model of the run, a learner; the last feature of
    ``rows`` is the constant one.
    """
    every = Evidence.of_rows(run.loss, rows, y, classes=run.classes, constant=rows.shape[1] - 1)
    units = next(each for each in every.units() if each.name == best.units)
    problem = every.problem(units, best.radius)
    z = units.coordinates(units.compared(np.asarray(run.x, dtype=float)))[problem.rows.features]
    z *= min(1.0, best.radius / max(float(np.linalg.norm(z)), 1e-300))
    found = solve(problem, z, time_limit)
    nothing = np.zeros_like(problem.theta)
    return found.upper, found.upper - found.gap, problem.primal(nothing, problem.rows.scores(nothing))


def line(name: str, case: Case, loss: str, time_limit: float = TIME_LIMIT, long: float = LONG) -> Line:
    """Run a task."""
    run, rows = learner(case, loss)
    n = len(case.y)
    begin = time.perf_counter()
    best = run.certificate.best_loss(1.0, time_limit)
    seconds = time.perf_counter() - begin
    wide = run.certificate.best_loss(10.0, time_limit)
    least, proved, zero = (each / n for each in optimum(run, rows, case.y, best, long))
    return Line(
        name, n, int(rows.nnz), best.average_loss, least, proved, best.average, wide.average,
        best.least / n, zero, best.rows_kept, seconds,
    )  # fmt: skip


def lines(tasks: Sequence[str], losses: Sequence[str], time_limit: float, long: float) -> Iterator[Line]:
    """The lines of the tasks of some data sets with some losses, one after the other."""
    for name in tasks:
        source = DATASETS[name]
        for words, order in (ORDERS if name == "covtype" else {"": source.orders(1)[0]}).items():
            asked = source._replace(sequential=order == "own")
            for case in cases(asked, ("raw",) if words == "in time order" else SCALINGS, 1):
                few = case._replace(x=case.x[:50], y=case.y[:50])
                for loss in (each for each in LOSSES[source.kind] if each in losses):
                    task = f"{Task(name, loss, case.scaling)}{', ' if words else ''}{words}"
                    line(task, few, loss, 1.0, 1.0)  # compiles
                    yield line(task, case, loss, time_limit, long)


def grid(made: Sequence[Line]) -> Grid:
    """The table."""
    columns = [
        "task", "rows", "nonzeros", "loss of the run", "best model met", "certified", "below it by",
        "10 times the size", "rows kept", "seconds",
    ]  # fmt: skip
    rows = [
        [
            each.task, f"{each.rows:,}", f"{each.nonzeros:,}",
            f"{each.loss:.4g}", f"{each.optimum:.4g}", each.words(each.best), f"{100.0 * each.missing:.2f}%",
            each.words(each.wide), f"{each.kept:,}", f"{each.seconds:.2f}",
        ]
        for each in made
    ]  # fmt: skip
    return Grid("What a run certifies: no model of its size has an average loss below", columns, rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse(
        argv, "benchmarks.quality.certificates", __doc__, out=replaced("certificates"),
        tasks=("*", PATTERNS + ", ".join(DATASETS)), losses=("*", PATTERNS + ", ".join(ALL_LOSSES)),
        time_limit=(TIME_LIMIT, f"seconds for a bound ({TIME_LIMIT:g})"),
        long=(LONG, f"seconds for the best model ({LONG:g})"),
        json=(Path, "where to write the lines, after each task"),
        lines=([Path()], "files that --json wrote; nothing is run"),
    )  # fmt: skip
    console, saved = wide_console(), [path for path in options.lines if path != Path()]
    with one_line_errors():
        names = chosen("tasks", options.tasks, list(DATASETS))
        losses = chosen("losses", options.losses, ALL_LOSSES)
        made: list[Line] = [Line(**each) for path in saved for each in json.loads(path.read_text())]
        for name in [] if saved else names:
            reason = DATASETS[name].unavailable()
            if reason is not None:
                console.print(f"{name} skipped: {reason}", markup=False)
                continue
            for each in lines([name], losses, options.time_limit, options.long):
                made.append(each)
                console.print(*grid([each]).rows[0], markup=False, highlight=False)
                if options.json is not None:
                    options.json.parent.mkdir(parents=True, exist_ok=True)
                    options.json.write_text(json.dumps([each._asdict() for each in made], indent=1) + "\n")
        require(bool(made), "tasks", options.tasks, "leaves no task", "see --help for the names")
    publish(console, [grid(made)], options.out, "certificates")


if __name__ == "__main__":
    main()
