"""The figure: our loss, which has no learning rate, and the rivals' losses at each learning rate."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.quality.contract import DEFAULT, Rival
from benchmarks.quality.data import Task
from benchmarks.quality.table import Line
from giftrl.errors import require
from giftrl.reports import INK

#: The panels, in reading order.
SHOWN = (
    *(Task(name, "logistic", "raw") for name in ("a9a", "covtype", "rcv1_vw_small", "elec2")),
    Task("cadata", "squared", "raw"),
    Task("cpusmall", "absolute", "raw"),
    Task("abalone", "squared", "raw"),
    Task("mnist", "log", "raw"),
)
#: Colours of Okabe and Ito's palette, which colour-blind readers can tell apart; markers and dashes differ too.
LOOKS: dict[str, dict[str, Any]] = {
    "vw": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "sklearn": {"color": "#D55E00", "marker": "s", "linestyle": (0, (5, 2))},
    "river": {"color": "#009E73", "marker": "^", "linestyle": (0, (1, 1.5))},
}
NO_RATE = 4e-5  # the horizontal position of settings without a constant learning rate
LEFT, EDGE, RIGHT = 8e-6, 2e-4, 3e2
CEILING = 8.0  # the top of the panel, as a multiple of our loss; a default above it is shown with its number


def curves(line: Line, rival: Rival) -> tuple[list[tuple[float, float]], list[float], tuple[float, float] | None]:
    """A rival's losses divided by ours: (rate, ratio) by rate, the ratios of settings without a rate, and the default.

    >>> from benchmarks.quality.table import Reached
    >>> from benchmarks.quality.vowpal_wabbit import VowpalWabbit
    >>> reached = [Reached("vw", *run, 1.0) for run in (("-l 2", 3.0), ("default", 2.0), ("--coin", 4.0))]
    >>> curves(Line(Task("a9a", "hinge", "raw"), 1.0, tuple(reached)), VowpalWabbit())
    ([(0.5, 2.0), (2.0, 3.0)], [4.0], (0.5, 2.0))
    """
    swept: list[tuple[float, float]] = []
    free: list[float] = []
    default: tuple[float, float] | None = None
    for reached in line.reached:
        if reached.solver != rival.key:
            continue
        ratio = reached.loss / reached.ours if reached.ours > 0.0 else math.nan
        rate = rival.rate(reached.setting)
        if rate is not None:
            swept.append((rate, ratio))
        else:
            free.append(ratio)
        if reached.setting == DEFAULT:
            default = (NO_RATE if rate is None else rate, ratio)
    return sorted(swept), free, default


def draw(path: Path, table: Sequence[Line], rivals: Sequence[Rival]) -> None:
    """Draw one panel for each task of :data:`SHOWN` that is in the table."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    by_task = {line.task: line for line in table}
    shown = [by_task[task] for task in SHOWN if task in by_task]
    require(bool(shown), "figure", str(path), "has no panel: none of its tasks was run", f"run {SHOWN[0].dataset}")
    columns = min(4, len(shown))
    rows = math.ceil(len(shown) / columns)
    # Text is stored as text, and equal figures give equal files.
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "no-tuning", "font.size": 9, "text.color": INK}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(2.75 * columns + 0.4, 2.45 * rows + 0.75), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        # The axis, the same in all panels, goes down to the lowest ratio.
        lower = (1.0 / reached.ratio for line in shown for reached in line.reached if reached.ratio > 0.0)
        floor = 0.9 * min([1.0, *lower])
        for axes, line in zip(grid.flat, shown, strict=False):
            _panel(axes, line, rivals, floor)
        for axes in list(grid.flat)[len(shown) :]:
            axes.set_visible(False)
        figure.supxlabel("learning rate", fontsize=10)
        figure.supylabel("loss, as a multiple of giftrl's (lower is better)", fontsize=10)
        handles, _ = grid.flat[0].get_legend_handles_labels()
        ring: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": "#6b7280", "markerfacecolor": "white"}
        handles.append(Line2D([], [], **ring, markersize=6.5, markeredgewidth=1.6, label="its defaults"))
        handles.append(Line2D([], [], **ring, markersize=3.4, label="no fixed rate: a rule, or none"))
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=9)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(axes: Any, line: Line, rivals: Sequence[Rival], floor: float) -> None:
    axes.axvspan(LEFT, EDGE, color="#eef0f2", zorder=0, linewidth=0)
    axes.axhline(1.0, color=INK, linewidth=0.9, zorder=1)
    for rival in rivals:
        look = LOOKS[rival.key]
        swept, free, default = curves(line, rival)
        axes.plot(*zip(*swept, strict=True) if swept else ([], []), **look, markersize=3.4, linewidth=1.3,
                  label=rival.name, zorder=2)  # fmt: skip
        hollow = look | {"linestyle": "none", "markerfacecolor": "white"}
        axes.plot([NO_RATE] * len(free), free, **hollow, markersize=3.4, zorder=2)
        if default is not None:
            _default(axes, *default, hollow)
    axes.plot(
        NO_RATE, 1.0, marker="*", markersize=13, color=INK, linestyle="none", label="giftrl, nothing set", zorder=4
    )
    axes.set(xscale="log", yscale="log", xlim=(LEFT, RIGHT), ylim=(floor, CEILING))
    axes.set_xticks([NO_RATE, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2], ["no fixed\nrate", "0.001", "", "0.1", "", "10", ""])
    axes.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    axes.minorticks_off()
    axes.set_title(f"{line.task.dataset}, {line.task.loss}", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def _default(axes: Any, rate: float, ratio: float, look: dict[str, Any]) -> None:
    """Draw the default as a ring; if it is above the panel, at the upper edge with its number."""
    height = min(ratio, 0.93 * CEILING)
    axes.plot(rate, height, **look, markersize=6.5, markeredgewidth=1.6, zorder=3, clip_on=False)
    if ratio > height:
        axes.annotate(
            f"{ratio:.0f}x", (rate, height), (7, -1), textcoords="offset points", va="center", fontsize=8,
            color=look["color"],
        )  # fmt: skip
