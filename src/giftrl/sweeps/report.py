"""What a sweep leaves behind: a CSV file, a figure as SVG and PNG, and a page."""

from pathlib import Path

import numpy as np

from giftrl.files import file_errors, write
from giftrl.sweeps import page as html
from giftrl.sweeps.data import PREPARATIONS, Data
from giftrl.sweeps.figure import AXES, Panel, inline, save, svg
from giftrl.sweeps.grid import Grid
from giftrl.sweeps.summary import Summary

__all__ = ["COLUMNS", "describe", "number", "report", "rows"]

COLUMNS = (
    "update",
    "best beta",
    "loss at best",
    "95% interval",
    "betas within 5% of the best",
    "decades",
    "at 10x best",
)


def number(value: float, digits: int = 4) -> str:
    """A number in a few digits; a large one without a tail of zeros.

    >>> number(0.123456), number(1e7), number(float("inf"))
    ('0.1235', '1e+07', 'inf')
    """
    return f"{value:.{digits}f}" if 1e-3 <= abs(value) < 1e4 or value == 0.0 else f"{value:.{digits}g}"


def rows(summary: Summary) -> list[tuple[str, ...]]:
    """A line for each curve: its best beta, the loss there, and how far beta may be off."""
    half = summary.half_width
    found: list[tuple[str, ...]] = []
    for k, name in enumerate(summary.names):
        at = int(np.argmin(summary.mean[k]))
        good = summary.good_range(k)
        interval = "one run" if np.isnan(half[k, at]) else f"± {number(half[k, at], 5)}"
        beta, loss = f"{summary.best_beta(k):.3g}", number(summary.best_loss(k))
        farther = summary.at(k, 10.0 * summary.best_beta(k))
        off = "beyond the grid" if np.isnan(farther) else number(farther)
        found.append((name, beta, loss, interval, str(good), f"{good.decades:.2f}", off))
    return found


def describe(summary: Summary) -> str:
    """A figure in words: for each curve, where it is lowest and where it ends."""
    parts = []
    for k, name in enumerate(summary.names):
        last = number(float(summary.mean[k, -1]))
        parts.append(
            f"{name}: lowest {number(summary.best_loss(k))} at beta {summary.best_beta(k):.3g}, "
            f"{last} at beta {summary.betas[-1]:.3g}"
        )
    return "Average loss against beta. " + "; ".join(parts) + "."


def report(data: Data, grid: Grid, summary: Summary, folder: Path, axis: str, seed: int, seconds: float) -> Path:
    """Write ``sweep.csv``, ``sweep.svg``, ``sweep.png`` and ``sweep.html``; the path of the page."""
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write(folder / "sweep.csv", [summary.csv().encode()])
    loss = grid.loss if isinstance(grid.loss, str) else type(grid.loss).__name__.lower()
    panel = Panel(summary, f"{data.name}, {loss} loss", loss, axis)
    drawn = panel.draw()
    text = svg(drawn)
    write(folder / "sweep.svg", [text.encode()])
    save(drawn, folder / "sweep.png")
    best = min(range(len(summary.names)), key=summary.best_loss)
    lead = (
        f"{summary.names[best]} reaches the least loss, {number(summary.best_loss(best))} at beta "
        f"{summary.best_beta(best):.3g}. How much a wrong beta costs is in the last columns of the table."
    )
    made = html.Page(f"Sweep of {data.name}, {loss} loss", lead, "Made by giftrl sweep. The numbers are in sweep.csv.")
    made.section(
        "Loss against beta",
        html.figure(
            inline(text, "sweep", describe(summary)),
            f"Mean of {summary.repetitions} orders of the data; shaded: 95% confidence interval. "
            f"Vertical axis: {AXES[axis]}.",
        ),
        html.table("The best beta of each update, and how much it matters", COLUMNS, rows(summary)),
    )
    body = [
        [name, *(number(float(value)) for value in row)]
        for name, row in zip(summary.names, summary.mean, strict=True)
    ]  # fmt: skip
    heads = ["update", *(f"{beta:.3g}" for beta in summary.betas)]
    made.section("Every number", html.table("Mean loss at each beta", heads, body))
    parts = {curve.name: f"{curve.update!r}, {curve.schedule!r}, {curve.regularizer!r}" for curve in grid.curves}
    made.section(
        "Settings and data",
        html.definitions(
            [
                ("loss", repr(grid.loss)),
                ("repetitions", f"{summary.repetitions}, seeds {seed} to {seed + summary.repetitions - 1}"),
                *((f"update {name}", text) for name, text in parts.items()),
                ("data", f"{data.name}: {data.rows} rows, {data.features} features with the constant"),
                ("preparation", f"{data.preparation}: {PREPARATIONS[data.preparation]}"),
                ("data fingerprint", f"sha256 {data.fingerprint}"),
                ("time", f"{seconds:.1f} s"),
            ]
        ),
    )
    path = folder / "sweep.html"
    made.save(path)
    return path
