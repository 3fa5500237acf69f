"""The numbers of the tables: ratios of losses, geometric means, worst tasks, and which targets are missed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.quality.contract import DEFAULT
from benchmarks.quality.data import LOSSES, Task
from benchmarks.quality.record import Run
from benchmarks.quality.trends import TRENDS

__all__ = ["GROUPS", "TARGETS", "Check", "Line", "Reached", "checks", "geometric_mean", "kind", "lines", "misses"]

#: Each group of tasks, with the kinds of labels in it.
GROUPS = {
    "all": ("binary", "regression", "multiclass"),
    "classification": ("binary",),
    "regression": ("regression",),
    "multiclass": ("multiclass",),
    "trends": ("trend",),  # not among all: defaults that diverge there would decide the mean
}


class Target(NamedTuple):
    """Upper limits on the ratios of losses in a group of tasks."""

    against: str  # "default" of every rival, or "best" of all settings of all rivals in hindsight
    group: str
    mean: float | None  # the limit on the geometric mean
    worst: float | None  # the limit on the largest ratio


TARGETS = (
    Target("default", "all", 0.55, 1.01),
    Target("best", "all", 0.84, 1.05),
    Target("best", "classification", 0.94, None),
)


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


class Check(NamedTuple):
    """Ratios of our losses to those of a rival in a group of tasks.

    Attributes:
        against: ``default`` or ``best``.
        solver: the rival's key, or ``all``: the best of them on each task.
        worst_task: the task with the largest ratio.
        mean_target, worst_target: the limits on ``mean`` and ``worst``, or None.
    """

    against: str
    solver: str
    group: str
    tasks: int
    mean: float
    worst: float
    worst_task: Task
    mean_target: float | None
    worst_target: float | None

    @property
    def reached(self) -> bool | None:
        """Whether both targets are reached; None if there is no target.

        >>> task = Task("a9a", "hinge", "raw")
        >>> Check("best", "all", "all", 9, 0.8, 1.2, task, 0.84, 1.05).reached
        False
        """
        wanted = [(self.mean, self.mean_target), (self.worst, self.worst_target)]
        kept = [value <= target for value, target in wanted if target is not None]
        return all(kept) if kept else None


def checks(table: Sequence[Line], solvers: Sequence[str]) -> list[Check]:
    """Our ratios to the default of each rival, and to the best setting of each and of all rivals, group by group."""
    made: list[Check] = []
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
            held = against == "default" or solver == "all"
            target = next((t for t in TARGETS if held and (t.against, t.group) == (against, group)), None)
            goals = (target.mean, target.worst) if target else (None, None)
            mean = geometric_mean(list(ratios.values()))
            made.append(Check(against, solver, group, len(ratios), mean, ratios[worst], worst, *goals))
    return made


def _ratio(line: Line, against: str, solver: str) -> float | None:
    reached = line.default(solver) if against == "default" else line.best(None if solver == "all" else solver)
    return None if reached is None else reached.ratio


def misses(table: Sequence[Line], solvers: Sequence[str]) -> list[tuple[Line, str, Reached]]:
    """Every task whose ratio is above the limit for the worst task, with the kind of target and the rival."""
    limit = {target.against: target.worst for target in TARGETS if target.worst is not None}
    made: list[tuple[Line, str, Reached]] = []
    for line in table:
        sides = [("default", line.default(solver)) for solver in solvers] + [("best", line.best())]
        made += [(line, side, run) for side, run in sides if run is not None and run.ratio > limit[side]]
    return made
