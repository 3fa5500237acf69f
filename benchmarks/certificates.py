"""What certificates cost: learners that remember rows, over the same ones that do not.

    python -m benchmarks.certificates --out docs/performance.md

One pass in one call. Both learners take turns, and a ratio is the median over the turns of the ratio in each. The first
turn is a warm-up. Within the budget every row is copied; beyond it, rows are kept or given a dual and summed up. The
solver is asked at the end, for models up to the size of the learner's own.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.datasets import DATASETS, Data
from benchmarks.rcv1_like import rcv1_like
from benchmarks.table import Grid, parse, publish, replaced, wide_console
from giftrl.certificates.reservoir import DEFAULT_BUDGET
from giftrl.config import Recipe, make

REPETITIONS = 9
DEFAULT = "default"

#: The settings of each learner.
LEARNERS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "beta 1, squared norm, linear": {"beta": 1.0, "update": "linear"},
    "beta 1, curvature, proximal": {"beta": 1.0, "regularizer": "curvature", "schedule": "constant"},
}


def _documents(rows: int) -> Callable[[bool], Data]:
    def load(quick: bool) -> Data:
        return Data(f"rcv1_like, {rows:,} rows", "", *rcv1_like(rows // 100 if quick else rows))

    return load


#: The data sets, each with a function that loads it, or a small part of it.
DATA: dict[str, Callable[[bool], Data]] = {
    "a9a": DATASETS["a9a"].load,
    "rcv1_like, within": _documents(14_000),
    "rcv1_like, beyond": _documents(100_000),
    "covtype": DATASETS["covtype"].load,
}


class Cost(NamedTuple):
    """The times of one learner on one data set, in seconds.

    >>> round(Cost("a9a", "default", 9, 9, 99, [2.0, 3.0, 1.0], [2.2, 3.6, 1.1], 0.3).ratio, 6)
    1.1
    """

    data: str
    learner: str
    rows: int
    kept: int
    nonzeros: int
    without: list[float]
    with_rows: list[float]
    solver: float

    @property
    def ratio(self) -> float:
        """The time with certificates over the time without, in the median turn."""
        return statistics.median(a / b for a, b in zip(self.with_rows, self.without, strict=True))


def measure(data: Data, name: str, repetitions: int, budget: int = DEFAULT_BUDGET) -> Cost:
    """Time one learner on one data set.

    >>> x, y = rcv1_like(50, 100)
    >>> cost = measure(Data("tiny", "", x, y), "default", 2, budget=100)
    >>> cost.rows, 0 < cost.kept < 50, len(cost.without), len(cost.with_rows)
    (50, True, 2, 2)
    """
    times: dict[int | None, list[float]] = {None: [], budget: []}
    for _ in range(repetitions + 1):
        for nonzeros, taken in times.items():
            learner = make(Recipe("logistic", witness_nonzeros=nonzeros, **LEARNERS[name]), data.dimension)
            begin = time.perf_counter()
            learner.learn(data.x, data.y)
            taken.append(time.perf_counter() - begin)
    learner.certificate.best_loss(time_limit=0.0)  # compiles
    begin = time.perf_counter()
    best = learner.certificate.best_loss()
    solver = time.perf_counter() - begin
    without, with_rows = times[None][1:], times[budget][1:]
    return Cost(data.name, name, data.rows, best.rows_kept, data.entries, without, with_rows, solver)


def grid(costs: Sequence[Cost]) -> Grid:
    """A table of all measurements.

    >>> print(grid([Cost("a9a", "default", 9, 9, 99, [2.0], [2.2], 0.3)]).markdown())
    **What certificates cost**
    <BLANKLINE>
    | data | learner | nonzeros | rows kept | ms without | ms with | ratio | solver, s |
    |---|---:|---:|---:|---:|---:|---:|---:|
    | a9a | default | 99 | 100% | 2,000.0 | 2,200.0 | 1.10 | 0.30 |
    """
    rows = []
    for each in costs:
        off, on = (f"{1e3 * statistics.median(times):,.1f}" for times in (each.without, each.with_rows))
        kept, last = f"{100.0 * each.kept / each.rows:.3g}%", (f"{each.ratio:.2f}", f"{each.solver:.2f}")
        rows.append([each.data, each.learner, f"{each.nonzeros:,}", kept, off, on, *last])
    columns = ["data", "learner", "nonzeros", "rows kept", "ms without", "ms with", "ratio", "solver, s"]
    return Grid("What certificates cost", columns, rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write it into a page."""
    options = parse(
        argv, "benchmarks.certificates", __doc__, out=replaced("certificates"), repetitions=(REPETITIONS, "how often"),
        quick=(False, "use few rows, to see that it works, not how fast it is"),
    )  # fmt: skip
    console = wide_console()
    costs = []
    for name, load in DATA.items():
        reason = DATASETS[name].unavailable() if name in DATASETS else None
        if reason is not None:
            console.print(f"{name} skipped: {reason}", markup=False)
            continue
        with console.status(name):
            data = load(options.quick)
            budget = 10_000 if options.quick else DEFAULT_BUDGET
            costs += [measure(data, learner, options.repetitions, budget) for learner in LEARNERS]
    publish(console, [grid(costs)], options.out, "certificates")


if __name__ == "__main__":
    main()
