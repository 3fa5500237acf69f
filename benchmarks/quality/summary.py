"""The numbers of the tables: ratios of losses, geometric means and worst tasks."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.quality.contract import DEFAULT
from benchmarks.quality.data import LOSSES, Task
from benchmarks.quality.record import Run
from benchmarks.quality.trends import TRENDS

__all__ = ["GROUPS", "Comparison", "Line", "Reached", "comparisons", "geometric_mean", "kind", "lines"]

#: Each group of tasks, with the kinds of labels in it.
GROUPS = {
    "all": ("binary", "regression", "multiclass"),
    "classification": ("binary",),
    "regression": ("regression",),
    "multiclass": ("multiclass",),
    "trends": ("trend",),  # not among all: defaults that diverge there would decide the mean
}


class Reached(NamedTuple):
    """A rival's mean loss on a task with one setting, over the orders that it ran, and ours over the same orders."""

    solver: str
    setting: str
    loss: float
    ours: float

    @property
    def ratio(self) -> float:
        """Our loss divided by the rival's.

        >>> Reached("vw", "default", 2.0, 1.0).ratio
        0.5
        """
        if self.loss == 0.0:
            return 1.0 if self.ours == 0.0 else math.inf
        return self.ours / self.loss


class Line(NamedTuple):
    """A line of the table: our loss on a task, and that of every rival with every setting."""

    task: Task
    ours: float
    reached: tuple[Reached, ...]

    def default(self, solver: str) -> Reached | None:
        """The rival's loss with its default setting, or None if it was not run."""
        return next((r for r in self.reached if r.solver == solver and r.setting == DEFAULT), None)

    def best(self, solver: str | None = None) -> Reached | None:
        """The loss with the best setting for this task, of one rival or of all.

        A rival that skipped orders is compared on the orders that it ran.
        """
        return max((r for r in self.reached if solver in (None, r.solver)), key=lambda r: r.ratio, default=None)


def lines(ours: Mapping[Task, Mapping[str, float]], runs: Mapping[Run, float]) -> list[Line]:
    """A line for each of our tasks, in the order of ``ours``.

    Args:
        ours: our losses, by task and order.
        runs: the losses of the rivals, by run.

    >>> task = Task("a9a", "hinge", "raw")
    >>> made = lines({task: {"0": 1.0, "1": 3.0}}, {Run(task, "0", "river", "default"): 4.0})
    >>> made[0].ours, made[0].default("river").ratio
    (2.0, 0.25)
    """
    by_setting: dict[tuple[Task, str, str], dict[str, float]] = {}
    for run, loss in runs.items():
        if run.order in ours.get(run.task, {}):
            by_setting.setdefault((run.task, run.solver, run.setting), {})[run.order] = loss
    reached: dict[Task, list[Reached]] = {task: [] for task in ours}
    for (task, solver, setting), by_order in by_setting.items():
        same = _mean(ours[task][order] for order in by_order)
        reached[task].append(Reached(solver, setting, _mean(by_order.values()), same))
    return [Line(task, _mean(by_order.values()), tuple(reached[task])) for task, by_order in ours.items()]


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return math.fsum(numbers) / len(numbers)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The exponential of the mean logarithm; NaN if there are no ratios.

    >>> geometric_mean([0.5, 2.0, 1.0])
    1.0
    """
    if not ratios:
        return math.nan
    if min(ratios) == 0.0:
        return 0.0
    return math.exp(_mean(map(math.log, ratios)))


def kind(task: Task) -> str:
    """The kind of labels of a task.

    >>> kind(Task("mnist", "log", "raw"))
    'multiclass'
    """
    if task.dataset in TRENDS:
        return "trend"
    return next(name for name, losses in LOSSES.items() if task.loss in losses)


class Comparison(NamedTuple):
    """Ratios of our losses to those of a rival in a group of tasks.

    Attributes:
        against: ``default`` or ``best``.
        solver: the rival's key, or ``all``: the best of them on each task.
        worst_task: the task with the largest ratio.
    """

    against: str
    solver: str
    group: str
    tasks: int
    mean: float
    worst: float
    worst_task: Task


def comparisons(table: Sequence[Line], solvers: Sequence[str]) -> list[Comparison]:
    """Our ratios to the default of each rival, and to the best setting of each and of all rivals, group by group."""
    made: list[Comparison] = []
    sides = [("default", solver) for solver in solvers]
    swept = {run.solver for line in table for run in line.reached if run.setting != DEFAULT}
    sides += [("best", solver) for solver in solvers if solver in swept] + [("best", "all")]
    for against, solver in sides:
        for group, kinds in GROUPS.items():
            every = {line.task: _ratio(line, against, solver) for line in table if kind(line.task) in kinds}
            ratios = {task: ratio for task, ratio in every.items() if ratio is not None}
            if not ratios:
                continue
            worst = max(ratios, key=lambda task: ratios[task])
            mean = geometric_mean(list(ratios.values()))
            made.append(Comparison(against, solver, group, len(ratios), mean, ratios[worst], worst))
    return made


def _ratio(line: Line, against: str, solver: str) -> float | None:
    reached = line.default(solver) if against == "default" else line.best(None if solver == "all" else solver)
    return None if reached is None else reached.ratio
