"""The tables of quality: ratios of losses, geometric means and worst tasks, for the terminal and for the page."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.quality.contract import DEFAULT, Rival
from benchmarks.quality.data import LOSSES, Task
from benchmarks.quality.record import Run
from benchmarks.quality.trends import TRENDS
from benchmarks.table import Grid

COMMAND = "python -m benchmarks.quality --out docs/no-tuning.md --figure docs/figures/no-tuning.svg"

NOTES = """\
The numbers are the mean loss of one pass in which each row is predicted before its label is used. They are means over
{orders}; elec2 is a stream and keeps its order. Lower is better. A ratio is our loss divided by the rival's.

- raw: features as they are. unit: rows scaled to norm 1.
- default: what a user gets without choosing any setting.
- best: the best setting for the task, chosen in hindsight from the losses in this table.

The same code turns the predictions of every solver into losses. A prediction that is not finite counts as 0, and so
does every prediction after a solver gave up. Margins are clipped to [-50, 50] for the logistic loss and to [-1, 1] for
the hinge loss; predictions are clipped to the range of the labels seen before for the squared loss (half the square)
and the absolute loss; probabilities of classes are at least 1e-6.

{rivals}
"""

RIVAL_NOTES = {
    "vw": """\
Vowpal Wabbit has 15 settings: the default, `-l` of 0.01, 0.03, 0.1, 0.3, 1, 2, 5, 10, 30 and 100, `--coin`,
`--ftrl`, `--pistol` and `--freegrad`. Several classes use `--oaa K --probabilities --loss_function logistic`. The
absolute loss uses `--loss_function quantile`, whose default is half the absolute loss.""",
    "sklearn": """\
scikit-learn's `SGDClassifier` and `SGDRegressor` have 8 settings: the default; constant rates of 0.001, 0.01, 0.1
and 1; and `invscaling` from 0.1 with the power 0.25, and from 1 and from 10 with the power 0.5. A `StandardScaler`,
which sees each batch before it is predicted, standardises the features. A batch is a thousandth of the rows,
between 1 and 32 rows.""",
    "river": """\
River runs `StandardScaler | LogisticRegression`, `LinearRegression` or `SoftmaxRegression` with default settings and
the loss of the task. It runs mnist and covtype in the first order only, and is compared with our loss there.""",
}

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
    """A line for each of our tasks, whose losses are by task and order.

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
    """Ratios of our losses to those of a rival in a group of tasks."""

    against: str  # ``default`` or ``best``
    solver: str  # the rival's key, or ``all``: the best of them on each task
    group: str
    tasks: int
    mean: float
    worst: float
    worst_task: Task  # the task with the largest ratio


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


def number(value: float) -> str:
    """A number with four significant digits.

    >>> number(0.012344), number(2.36e9), number(59923.4)
    ('0.01234', '2.36e+09', '59923')
    """
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e6 else f"{value:.4g}"


def _loss(reached: Reached | None, setting: bool = False) -> str:
    if reached is None:
        return "-"
    return f"{number(reached.loss)} ({reached.setting})" if setting else number(reached.loss)


def _shown(reached: Reached | None) -> str:
    return "-" if reached is None else f"{reached.ratio:.3f}"


def task_grid(table: Sequence[Line], rivals: Sequence[Rival]) -> Grid:
    """A table with a row for each task: every loss, and our loss divided by it."""
    swept = [rival for rival in rivals if len(rival.settings("logistic")) > 1]
    rows = []
    for line in table:
        best = line.best()
        losses = []
        for rival in rivals:
            losses.append(_loss(line.default(rival.key)))
            if rival in swept:
                losses.append(_loss(line.best(rival.key), setting=True))
        winner = "-" if best is None else f"{number(best.loss)} ({best.solver})"
        ratios = [_shown(line.default(rival.key)) for rival in rivals]
        rows.append([str(line.task), *losses, winner, number(line.ours), *ratios, _shown(best)])
    columns = ["task"]
    for rival in rivals:
        columns += [f"{rival.name} default", *([f"{rival.name} best"] if rival in swept else [])]
    columns += ["best of all", "giftrl", *(f"/ {rival.key} default" for rival in rivals), "/ best of all"]
    return Grid("Progressive loss, one pass", columns, rows)


def summary_grid(table: Sequence[Line], rivals: Sequence[Rival]) -> Grid:
    """A table of geometric means and worst tasks."""
    names = {rival.key: rival.name for rival in rivals} | {"all": "all rivals"}
    rows = [
        [f"{names[c.solver]}, {c.against}", c.group, str(c.tasks), f"{c.mean:.3f}", f"{c.worst:.3f} ({c.worst_task})"]
        for c in comparisons(table, [rival.key for rival in rivals])
    ]
    columns = ["our loss over that of", "tasks", "count", "geometric mean", "worst"]
    return Grid("Geometric means and worst tasks", columns, rows)


def page(table: Sequence[Line], rivals: Sequence[Rival], seeds: int, made_with: str, skipped: Sequence[str]) -> str:
    """The text of the quality region of the page, with notes on how the numbers were made."""
    orders = "one random order" if seeds == 1 else f"{seeds} random orders"
    parts = [
        f"Made by `{COMMAND}`, with {made_with}.",
        *skipped,
        NOTES.format(orders=orders, rivals="\n\n".join(RIVAL_NOTES[rival.key] for rival in rivals)).strip(),
        summary_grid(table, rivals).markdown(),
        task_grid(table, rivals).markdown(),
    ]
    return "\n\n".join(parts)


def progress(line: Line, rivals: Sequence[Rival]) -> str:
    """One task in one line, for the terminal.

    >>> from benchmarks.quality.data import Task
    >>> progress(Line(Task("a9a", "hinge", "raw"), 0.5, ()), [])
    'a9a hinge raw: 0.5, / best -'
    """
    ratios = [f"/ {rival.key} {_shown(line.default(rival.key))}" for rival in rivals]
    return f"{line.task}: {', '.join([number(line.ours), *ratios, '/ best ' + _shown(line.best())])}"
