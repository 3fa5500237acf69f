"""The arithmetic of the table: ratios of losses, geometric means, worst tasks, targets and what misses them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.quality.contract import DEFAULT
from benchmarks.quality.data import LOSSES, Task
from benchmarks.quality.record import Run

__all__ = ["GROUPS", "TARGETS", "Check", "Line", "Reached", "checks", "geometric_mean", "kind", "lines", "misses"]

#: group of tasks: the kinds of labels in it
GROUPS = {
    "all": ("binary", "regression", "multiclass"),
    "classification": ("binary",),
    "regression": ("regression",),
    "multiclass": ("multiclass",),
}


class Target(NamedTuple):
    """What is wanted of ratios of losses."""

    against: str  # "default" of every rival, or "best" of all settings of all rivals in hindsight
    group: str
    mean: float | None  # the geometric mean is to be at most this
    worst: float | None  # and so is the largest ratio


TARGETS = (
    Target("default", "all", 0.55, 1.01),
    Target("best", "all", 0.84, 1.05),
    Target("best", "classification", 0.94, None),
)


class Reached(NamedTuple):
    """What a rival reached on a task: the mean loss over its orders, and ours over the same orders."""

    solver: str
    setting: str
    loss: float
    ours: float

    @property
    def ratio(self) -> float:
        """Our loss over the rival's.

        >>> Reached("vw", "default", 2.0, 1.0).ratio
        0.5
        """
        if self.loss == 0.0:
            return 1.0 if self.ours == 0.0 else math.inf
        return self.ours / self.loss


class Line(NamedTuple):
    """A line of the table: our loss on a task, and what every rival reached with every setting."""

    task: Task
    ours: float
    reached: tuple[Reached, ...]

    def default(self, solver: str) -> Reached | None:
        """With the setting that the rival has by itself, or None where it was not run."""
        return next((r for r in self.reached if r.solver == solver and r.setting == DEFAULT), None)

    def best(self, solver: str | None = None) -> Reached | None:
        """With the setting that turned out best for this task: of this rival, or of all.

        Where a rival skipped orders, it is compared on those that it ran.
        """
        return max((r for r in self.reached if solver in (None, r.solver)), key=lambda r: r.ratio, default=None)


def lines(ours: Mapping[Task, Mapping[str, float]], runs: Mapping[Run, float]) -> list[Line]:
    """A line for each of our tasks, in our order.

    Args:
        ours: our loss by task and order.
        runs: the record of the rivals.

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
    for (task, solver, setting), found in by_setting.items():
        same = _mean(ours[task][order] for order in found)
        reached[task].append(Reached(solver, setting, _mean(found.values()), same))
    return [Line(task, _mean(by_order.values()), tuple(reached[task])) for task, by_order in ours.items()]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The exponential of the mean logarithm; NaN of nothing.

    >>> geometric_mean([0.5, 2.0, 1.0])
    1.0
    """
    if not ratios:
        return math.nan
    if min(ratios) == 0.0:
        return 0.0
    return math.exp(_mean(map(math.log, ratios)))


def kind(task: Task) -> str:
    """What the labels of a task are.

    >>> kind(Task("mnist", "log", "raw"))
    'multiclass'
    """
    return next(name for name, losses in LOSSES.items() if task.loss in losses)


class Check(NamedTuple):
    """Ratios of our losses to those of a rival in a group of tasks.

    Attributes:
        against: ``default`` or ``best``.
        solver: the rival's key, or ``all``: the best of them on each task.
        worst_task: the task with the largest ratio.
        mean_target, worst_target: what they are to be at most, where there is a target.
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
        """Whether both targets are kept; None where there is none.

        >>> task = Task("a9a", "hinge", "raw")
        >>> Check("best", "all", "all", 9, 0.8, 1.2, task, 0.84, 1.05).reached
        False
        """
        wanted = [(self.mean, self.mean_target), (self.worst, self.worst_target)]
        kept = [value <= target for value, target in wanted if target is not None]
        return all(kept) if kept else None


def checks(table: Sequence[Line], solvers: Sequence[str]) -> list[Check]:
    """Against the default of each rival, and against the best setting of each and of all of them, group by group."""
    made: list[Check] = []
    sides = [("default", solver) for solver in solvers]
    swept = {found.solver for line in table for found in line.reached if found.setting != DEFAULT}
    sides += [("best", solver) for solver in solvers if solver in swept] + [("best", "all")]
    for against, solver in sides:
        for group, kinds in GROUPS.items():
            ratios = {line.task: _ratio(line, against, solver) for line in table if kind(line.task) in kinds}
            found = {task: ratio for task, ratio in ratios.items() if ratio is not None}
            if not found:
                continue
            worst = max(found, key=lambda task: found[task])
            held = against == "default" or solver == "all"
            target = next((t for t in TARGETS if held and (t.against, t.group) == (against, group)), None)
            goals = (target.mean, target.worst) if target else (None, None)
            mean = geometric_mean(list(found.values()))
            made.append(Check(against, solver, group, len(found), mean, found[worst], worst, *goals))
    return made


def _ratio(line: Line, against: str, solver: str) -> float | None:
    found = line.default(solver) if against == "default" else line.best(None if solver == "all" else solver)
    return None if found is None else found.ratio


def misses(table: Sequence[Line], solvers: Sequence[str]) -> list[tuple[Line, str, Reached]]:
    """Every task, with the target and the rival, where the ratio is above what the worst one is to be."""
    limit = {target.against: target.worst for target in TARGETS if target.worst is not None}
    made: list[tuple[Line, str, Reached]] = []
    for line in table:
        sides = [("default", line.default(solver)) for solver in solvers] + [("best", line.best())]
        made += [(line, side, found) for side, found in sides if found is not None and found.ratio > limit[side]]
    return made
