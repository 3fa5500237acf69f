"""The page of a reproduction, its figures and its tables."""

import math
from pathlib import Path
from typing import Any

from giftrl.files import file_errors, write
from giftrl.paper import beyond, temporal
from giftrl.paper.compare import LARGEST, MEDIAN
from giftrl.paper.panels import PaperPanel
from giftrl.paper.published import points
from giftrl.paper.reproduce import Reproduction
from giftrl.paper.settings import PREPARATION, READINGS
from giftrl.sweeps import PREPARATIONS, Summary
from giftrl.sweeps import page as html
from giftrl.sweeps.figure import AXES, INK, Panel, inline, new_figure, side_by_side, style, svg
from giftrl.sweeps.report import describe, number

__all__ = ["ablation_rows", "claim_rows", "distance_rows", "fair_rows", "temporal_rows", "write_report"]

FIGURES = {1: "Hinge loss", 2: "Logistic loss", 3: "Absolute loss"}


def distance_rows(result: Reproduction) -> list[list[str]]:
    """Panel, update, how many points, median and largest distance, and whether that is within reach."""
    return [
        [
            d.panel.removeprefix("Figure "), d.update, str(d.points), f"{100 * d.median:.2f}%",
            f"{100 * d.largest:.2f}%", f"{d.at:.3g}", "yes" if d.reproduced else "no",
        ]
        for d in result.distances
    ]  # fmt: skip


def claim_rows(result: Reproduction) -> list[list[str]]:
    """Claim, reading, verdict and evidence."""
    claims = dict.fromkeys(v.claim for verdicts in result.verdicts.values() for v in verdicts)
    return [
        [claim, reading, v.verdict, v.evidence]
        for claim in claims
        for reading, verdicts in result.verdicts.items()
        for v in verdicts
        if v.claim == claim
    ]


def fair_rows(result: Reproduction) -> list[list[str]]:
    """For each panel and rule: tuned loss and loss at the largest beta, without and with the floor for every rule."""
    rows = []
    for panel, fair in result.readings["fair"].items():
        found = result.readings["found"][panel]
        for k, name in enumerate(found.names):
            numbers = (found.best_loss(k), fair.best_loss(k), float(found.mean[k, -1]), float(fair.mean[k, -1]))
            rows.append([panel.title.removeprefix("Figure "), name, *(number(value) for value in numbers)])
    return rows


def temporal_rows(result: Reproduction) -> list[list[str]]:
    """For each sequence and rule: the regret, the exponent of its growth, and the bound where there is one."""
    return [
        [
            path.sequence, path.rule, str(path.rounds[-1]), number(path.regret[-1], 2),
            f"{temporal.growth(path):.2f}", "" if math.isnan(path.bound[-1]) else number(path.bound[-1], 2),
        ]
        for path in result.paths
    ]  # fmt: skip


def ablation_rows(result: Reproduction) -> list[list[str]]:
    """For each variant: mean distance of a point, the same as found, the largest, and how many curves are in reach."""
    return [
        [a.variant, _share(a.mean), _share(a.before), _share(a.largest), f"{a.reproduced} of {a.curves}"]
        for a in result.ablations
    ]


def _share(value: float) -> str:
    return f"{value:.2%}" if value <= 10.0 else "over 1000%"


def write_report(result: Reproduction, folder: Path, axis: str = "clip") -> Path:
    """Write the CSV files, the figures as SVG, and ``index.html``; the path of the page."""
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    published = bool(result.distances)
    for number_ in FIGURES:
        _print(result, number_, folder, axis)
    page = html.Page("Generalized implicit FTRL: Figures 1 to 3, run again", _lead(result), "Made by giftrl reproduce.")
    for number_, title in FIGURES.items():
        parts = [
            _drawn(result, panel, summary, "found", axis, folder)
            for panel, summary in result.readings["found"].items()
            if panel.figure == number_
        ]
        if parts:
            page.section(f"Figure {number_}: {title}", html.figures(*parts))
    if published:
        head = ("panel", "update", "points", "median distance", "largest distance", "at beta", "within reach")
        caption = f"Distance to the published curves, as a share of the axis (reach: {MEDIAN:.1%} and {LARGEST:.1%})"
        page.section("Against the published curves", html.table(caption, head, distance_rows(result), verdict=6))
    if result.ablations:
        columns = ("variant", "mean distance", "as found", "largest distance", "curves within reach")
        caption = "The found setting with one part changed: distance to the published points, as a share of the axis"
        page.section("What each part of the setting is worth", html.table(caption, columns, ablation_rows(result)))
    _claims(page, result)
    _literal(page, result, folder, axis)
    for name, summaries in result.groups.items():
        drawn = [_drawn(result, panel, summary, name, axis, folder) for panel, summary in summaries.items()]
        page.section(f"Beyond the paper: {name}", html.paragraph(beyond.GROUPS[name][1] + "."), html.figures(*drawn))
    _temporal(page, result, folder)
    _settings(page, result)
    path = folder / "index.html"
    page.save(path)
    return path


def _lead(result: Reproduction) -> str:
    n = len(result.distances)
    if not n:
        return (
            "The paper's experiments on data that comes with scikit-learn. Implicit updates forgive a beta that is "
            "too large; the linear update does not. With the paper's own data (giftrl datasets get all) the same "
            "command draws the published points over the curves."
        )
    good = sum(d.reproduced for d in result.distances)
    median = max(d.median for d in result.distances)
    largest = max(d.largest for d in result.distances)
    return (
        f"{good} of {n} published curves are reproduced. The median distance of a curve to its published points is at "
        f"most {median:.2%} of the axis, the largest distance of any point {largest:.2%}."
    )


def _panel(panel: PaperPanel, summary: Summary, kind: str, axis: str) -> Panel:
    over = points(panel.loss, panel.dataset) if kind == "found" else {}
    limits = panel.axis if axis == "clip" and kind == "found" else None
    # As printed, two-step leaves the panel as far as linear does, where it diverges.
    cut = ("linear", "twostep") if kind == "literal" and panel.loss == "absolute" else ("linear",)
    return Panel(summary, panel.title, panel.loss, axis, cut, limits, over)


def _print(result: Reproduction, number_: int, folder: Path, axis: str) -> None:
    """Write the panels of a figure side by side, for each thing that was run on them."""
    for kind, summaries in {**result.readings, **result.groups}.items():
        chosen = [_panel(panel, found, kind, axis) for panel, found in summaries.items() if panel.figure == number_]
        if chosen:
            text = svg(side_by_side(chosen))
            write(folder / f"figure{number_}-{kind.replace(' ', '-')}.svg", [text.encode()])


def _drawn(result: Reproduction, panel: PaperPanel, summary: Summary, kind: str, axis: str, folder: Path) -> str:
    """Write a panel's numbers and return the panel for the page."""
    stem = f"{panel.name}-{kind.replace(' ', '-')}"
    write(folder / f"{stem}.csv", [summary.csv().encode()])
    text = svg(_panel(panel, summary, kind, axis).draw())
    rows, features, _ = result.data[panel]
    caption = f"{panel.dataset}: {rows} rows, {features} features; {summary.repetitions} orders."
    if panel.loss == "logistic" and kind != "literal":
        caption += f" The true beta is {READINGS['found'].logistic_scale:g} times the label."
    return html.figure(inline(text, stem, f"{panel.title}. {describe(summary)}"), caption)


def _claims(page: html.Page, result: Reproduction) -> None:
    columns = ("claim", "reading", "verdict", "evidence")
    readings = [(name, reading.text) for name, reading in READINGS.items()]
    other = "These are other data sets than the paper's: the verdicts are about these, not about its figures."
    page.section(
        "The paper's claims",
        html.definitions(readings),
        *([] if result.distances else [html.paragraph(other)]),
        html.table("Claims and verdicts", columns, claim_rows(result), text=(1, 3), verdict=2, stacked=True),
    )
    head = ("panel", "rule", "tuned", "tuned, floor for all", "largest beta", "largest beta, floor for all")
    page.section(
        "The same floor for every rule",
        html.paragraph(
            "The published two-step curves need lambda_1 of at least 1, the largest squared norm of a row. Given to "
            "every rule, that floor makes them all flat: the flatness comes from the floor, not from the rule."
        ),
        html.table("Loss without and with the floor", head, fair_rows(result)),
    )


def _literal(page: html.Page, result: Reproduction, folder: Path, axis: str) -> None:
    drawn = [
        _drawn(result, panel, summary, "literal", axis, folder)
        for panel, summary in result.readings["literal"].items()
    ]  # fmt: skip
    page.section(
        "The paper as printed",
        html.paragraph("No floor, and betas as labelled: two-step freezes on hinge and logistic losses from a beta of "
                       "about 3 on, and diverges on the absolute loss."),
        html.figures(*drawn),
    )  # fmt: skip


def _temporal(page: html.Page, result: Reproduction, folder: Path) -> None:
    drawn = []
    whole, places = new_figure(len(temporal.SEQUENCES))
    for place, sequence in zip(places, temporal.SEQUENCES, strict=True):
        draw_temporal(place, sequence, [path for path in result.paths if path.sequence == sequence])
    write(folder / "temporal.svg", [svg(whole).encode()])
    for sequence, text in temporal.SEQUENCES.items():
        paths = [path for path in result.paths if path.sequence == sequence]
        figure, (axes,) = new_figure()
        draw_temporal(axes, sequence, paths)
        image = svg(figure)
        said = "; ".join(f"{p.rule}: {number(p.regret[-1], 2)} after {p.rounds[-1]} rounds" for p in paths)
        drawn.append(html.figure(inline(image, f"temporal-{sequence}", f"Regret against T. {said}."), text + "."))
    head = ("sequence", "rule", "T", "regret", "exponent of T", "Corollary 4.3")
    page.section(
        "Temporal variability",
        html.paragraph(
            "Regret against the best point on three sequences of absolute losses. The proximal update with the "
            "temporal schedule pays for how far the losses move, not for how many there are; where they move in "
            "every round it falls back to sqrt(T). The schedule alone is not enough: with the linear update it never "
            "sees a reason to grow on a fixed loss."
        ),
        html.figures(*drawn),
        html.table(
            "Regret, the exponent of its growth, and the bound", head, temporal_rows(result), text=(1,), stacked=True
        ),
    )


def draw_temporal(axes: Any, sequence: str, paths: list[temporal.Path]) -> None:
    """The regret of each rule against T, beside sqrt(T) and the bound of the corollary."""
    for path, look in zip(paths, style([path.rule for path in paths]).values(), strict=True):
        # A regret of 0 or less is as good as it gets; a logarithmic axis has no place for it.
        shown = [(t, r) for t, r in zip(path.rounds, path.regret, strict=True) if r > 0.0]
        colour = "#1f6fb4" if path.rule.startswith("proximal") else look.colour
        if shown:
            axes.plot(*zip(*shown, strict=True), color=colour, marker=look.marker, markersize=3.2, label=path.rule)
        if not math.isnan(path.bound[-1]):
            axes.plot(path.rounds, path.bound, color=colour, linestyle=(0, (2, 2)), label="Corollary 4.3")
    rounds = paths[0].rounds
    axes.plot(rounds, [math.sqrt(t) for t in rounds], color=INK, linewidth=0.8, linestyle=":", label="sqrt(T)")
    axes.set(xscale="log", yscale="log", xlabel="T", ylabel="regret")
    axes.set_title(sequence, fontsize=10)
    axes.legend(frameon=False, fontsize=7, labelcolor=INK)


def _settings(page: html.Page, result: Reproduction) -> None:
    data = {panel.dataset: found for panel, found in result.data.items()}
    read, total = result.read
    pairs = [
        ("preparation", PREPARATIONS[PREPARATION]),
        ("rules", "linear, truncated with H', two-step with H, proximal with H; lambda_t from Corollary 4.3, G = 1"),
        *((f"reading: {name}", reading.text) for name, reading in READINGS.items()),
        ("repetitions", f"{result.plan.repetitions} random orders, one pass each; 95% intervals by Student's t"),
        *((f"data: {name}", f"{rows} rows, {f} features; sha256 {mark}") for name, (rows, f, mark) in data.items()),
        *((f"time: {stage}", f"{seconds:.1f} s") for stage, seconds in result.seconds.items()),
        ("kept from an earlier run", f"{read} of {total} repetitions"),
        ("vertical axes", "; ".join(f"{name}: {text}" for name, text in AXES.items())),
    ]
    page.section("Settings and data", html.definitions(pairs))
