"""The tables of quality, for the terminal and for the page."""

from collections.abc import Sequence

from benchmarks.quality.contract import Rival
from benchmarks.quality.summary import Line, Reached, comparisons
from benchmarks.table import Grid

__all__ = ["COMMAND", "notes", "page", "summary_grid", "task_grid"]

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


def _ratio(reached: Reached | None) -> str:
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
        ratios = [_ratio(line.default(rival.key)) for rival in rivals]
        rows.append([str(line.task), *losses, winner, number(line.ours), *ratios, _ratio(best)])
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


def notes(rivals: Sequence[Rival], seeds: int) -> str:
    """A description of how the numbers were made."""
    orders = "one random order" if seeds == 1 else f"{seeds} random orders"
    return NOTES.format(orders=orders, rivals="\n\n".join(RIVAL_NOTES[rival.key] for rival in rivals)).strip()


def page(table: Sequence[Line], rivals: Sequence[Rival], seeds: int, made_with: str, skipped: Sequence[str]) -> str:
    """The text of the quality region of the page."""
    parts = [
        f"Made by `{COMMAND}`, with {made_with}.",
        *skipped,
        notes(rivals, seeds),
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
    ratios = [f"/ {rival.key} {_ratio(line.default(rival.key))}" for rival in rivals]
    return f"{line.task}: {', '.join([number(line.ours), *ratios, '/ best ' + _ratio(line.best())])}"
