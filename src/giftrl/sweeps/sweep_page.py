"""The files that a sweep writes: a CSV file, a figure as SVG and PNG, and a page."""

from pathlib import Path

import numpy as np

from giftrl.files import file_errors, write
from giftrl.reports import AXES, Panel, Summary, describe, number, save, svg
from giftrl.reports import page as html
from giftrl.sweeps.data import PREPARATIONS, Data
from giftrl.sweeps.grid import Grid

BEST_BETA_COLUMNS = (
    "update", "best beta", "loss at best", "95% interval", "betas within 5% of the best", "decades", "at 10x best",
)  # fmt: skip


def best_betas(summary: Summary) -> list[tuple[str, ...]]:
    """A row of :data:`BEST_BETA_COLUMNS` for each curve: its best beta, the loss there, and the range of good betas."""
    half = summary.half_width
    table: list[tuple[str, ...]] = []
    for k, name in enumerate(summary.names):
        best = int(np.argmin(summary.mean[k]))
        good = summary.good_range(k)
        interval = "one run" if np.isnan(half[k, best]) else f"± {number(half[k, best], 5)}"
        beta, loss = f"{summary.best_beta(k):.3g}", number(summary.best_loss(k))
        loss_at_10x = summary.at(k, 10.0 * summary.best_beta(k))
        at_10x = "beyond the grid" if np.isnan(loss_at_10x) else number(loss_at_10x)
        table.append((name, beta, loss, interval, str(good), f"{good.decades:.2f}", at_10x))
    return table


def write_sweep(data: Data, grid: Grid, summary: Summary, folder: Path, axis: str, seed: int, seconds: float) -> Path:
    """Write ``sweep.csv``, ``sweep.svg``, ``sweep.png`` and ``sweep.html``, and return the path of the last one."""
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write(folder / "sweep.csv", [summary.csv().encode()])
    loss = grid.loss if isinstance(grid.loss, str) else type(grid.loss).__name__.lower()
    figure = Panel(summary, f"{data.name}, {loss} loss", loss, axis).draw()
    image = svg(figure)
    write(folder / "sweep.svg", [image.encode()])
    save(figure, folder / "sweep.png")
    best = min(range(len(summary.names)), key=summary.best_loss)
    introduction = (
        f"{summary.names[best]} has the lowest loss, {number(summary.best_loss(best))} at beta "
        f"{summary.best_beta(best):.3g}. The last columns of the first table show how much a wrong beta costs."
    )
    footer = "Made by giftrl sweep. The numbers are in sweep.csv."
    page = html.Page(f"Sweep of {data.name}, {loss} loss", introduction, footer)
    shown = f"Mean of {summary.repetitions} orders of the data; shaded: 95% confidence interval"
    caption = f"{shown}. Vertical axis: {AXES[axis]}."
    page.section(
        "Loss against beta",
        html.figure(image, describe(summary), "sweep", caption),
        html.table("The best beta of each update, and how much it matters", BEST_BETA_COLUMNS, best_betas(summary)),
    )
    means = [[name, *map(number, row)] for name, row in zip(summary.names, summary.mean.tolist(), strict=True)]
    heads = ["update", *(f"{beta:.3g}" for beta in summary.betas)]
    page.section("Every number", html.table("Mean loss at each beta", heads, means))
    settings = [
        ("loss", repr(grid.loss)),
        ("repetitions", f"{summary.repetitions}, seeds {seed} to {seed + summary.repetitions - 1}"),
        *((f"update {c.name}", f"{c.update!r}, {c.schedule!r}, {c.regularizer!r}") for c in grid.curves),
        ("data", f"{data.name}: {data.rows} rows, {data.features} features with the constant"),
        ("preparation", f"{data.preparation}: {PREPARATIONS[data.preparation]}"),
        ("data fingerprint", f"sha256 {data.fingerprint}"),
        ("time", f"{seconds:.1f} s"),
    ]
    page.section("Settings and data", html.definitions(settings))
    path = folder / "sweep.html"
    page.save(path)
    return path
