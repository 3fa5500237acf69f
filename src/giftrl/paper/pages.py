"""The pages of a reproduction: figures and tables on ``index.html``, verdicts on claims on ``claims.html``."""

import math
from pathlib import Path
from typing import Any

from giftrl.files import file_errors, write
from giftrl.paper import temporal
from giftrl.paper.claims import MOSTLY_SHARE
from giftrl.paper.curves import BEYOND_PAPER, PREPARATION, READINGS
from giftrl.paper.experiments import Reproduction
from giftrl.paper.panels import LARGEST_DISTANCE, MEDIAN_DISTANCE, PaperPanel, points
from giftrl.reports import AXES, INK, Panel, Summary, describe, new_figure, number, side_by_side, style, svg
from giftrl.reports import page as html
from giftrl.sweeps import PREPARATIONS

Table = tuple[tuple[str, ...], list[list[str]]]

CLAIMS_FILE = "claims.html"
FIGURES = {1: "Hinge loss", 2: "Logistic loss", 3: "Absolute loss"}


def write_report(result: Reproduction, folder: Path, axis: str = "clip") -> Path:
    """Write the CSV files, the figures as SVG, and the pages; return the path of ``index.html``."""
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    title = "Generalized implicit FTRL: Figures 1 to 3, run again"
    page = html.Page(title, _introduction(result), "Made by giftrl reproduce.")
    for figure, title in FIGURES.items():
        _write_figure(result, figure, folder, axis)
        if any(panel.figure == figure for panel in result.data):
            page.section(f"Figure {figure}: {title}", figures_of(result, "found", axis, folder, figure))
    if result.distances:
        caption = (
            "Distance to the published curves, as a share of the axis. A curve counts as reproduced up to a median of "
            f"{MEDIAN_DISTANCE:.1%} and a largest distance of {LARGEST_DISTANCE:.1%}"
        )
        page.section("Against the published curves", html.table(caption, *distance_table(result), verdict=6))
    if result.ablations:
        caption = "The found setting with one part changed: distance to the published points, as a share of the axis"
        page.section("Ablations of the setting", html.table(caption, *ablation_table(result)))
    verdicts = write_verdicts(result, folder)
    text = "Each claim of the paper is measured under three readings of its settings, on a page of its own:"
    links = html.links([(verdicts.name, "the paper's claims, and the verdicts")])
    page.section("The paper's claims", html.paragraph(text), links)
    text = (
        "Without a floor, and with betas as labelled, two-step stops learning on the hinge and logistic losses for "
        "betas above about 3, and diverges on the absolute loss."
    )
    page.section("The paper as printed", html.paragraph(text), figures_of(result, "literal", axis, folder))
    for name, (_, text) in BEYOND_PAPER.items():
        if name in result.summaries:
            figures = figures_of(result, name, axis, folder)
            page.section(f"Beyond the paper: {name}", html.paragraph(f"{text}."), figures)
    _temporal(page, result, folder)
    _settings(page, result)
    path = folder / "index.html"
    page.save(path)
    return path


def _introduction(result: Reproduction) -> str:
    distances = result.distances
    if not distances:
        return (
            "The paper's experiments on data that comes with scikit-learn. Implicit updates tolerate a beta that is "
            "too large; the linear update does not. Given the paper's own data (giftrl datasets get all), the same "
            "command draws the published points over the curves."
        )
    good = sum(d.reproduced for d in distances)
    median, largest = max(d.median for d in distances), max(d.largest for d in distances)
    return (
        f"{good} of {len(distances)} published curves are reproduced. The median distance of a curve to its published "
        f"points is at most {median:.2%} of the axis; the largest distance of any point is {largest:.2%}."
    )


def _panel(panel: PaperPanel, summary: Summary, kind: str, axis: str) -> Panel:
    published = points(panel.loss, panel.dataset) if kind == "found" else {}
    limits = panel.axis if axis == "clip" and kind == "found" else None
    # As printed, two-step diverges on the absolute loss and runs out of the panel, as linear does.
    may_leave = ("linear", "twostep") if kind == "literal" and panel.loss == "absolute" else ("linear",)
    return Panel(summary, panel.title, panel.loss, axis, may_leave, limits, published)


def _write_figure(result: Reproduction, figure: int, folder: Path, axis: str) -> None:
    """Write the panels of a figure side by side: one file for each reading and for each group beyond the paper."""
    for kind, summaries in result.summaries.items():
        panels = [_panel(panel, summary, kind, axis) for panel, summary in summaries.items() if panel.figure == figure]
        if panels:
            text = svg(side_by_side(panels))
            write(folder / f"figure{figure}-{kind.replace(' ', '-')}.svg", [text.encode()])


def figures_of(result: Reproduction, kind: str, axis: str, folder: Path, only: int | None = None) -> str:
    """Write the numbers of each panel to a CSV file, and return the panels as HTML; ``only`` chooses one figure."""
    parts = []
    for panel, summary in result.summaries[kind].items():
        if only not in (None, panel.figure):
            continue
        stem = f"{panel.name}-{kind.replace(' ', '-')}"
        write(folder / f"{stem}.csv", [summary.csv().encode()])
        image = svg(_panel(panel, summary, kind, axis).draw())
        rows, features, _ = result.data[panel]
        caption = f"{panel.dataset}: {rows} rows, {features} features; {summary.repetitions} random orders."
        if panel.loss == "logistic" and kind != "literal":
            caption += f" The true beta is {READINGS['found'].logistic_scale:g} times the label of the axis."
        parts.append(html.figure(image, f"{panel.title}. {describe(summary)}", stem, caption))
    return html.figures(*parts)


def _temporal(page: html.Page, result: Reproduction, folder: Path) -> None:
    drawn = []
    whole, all_axes = new_figure(len(temporal.SEQUENCES))
    for whole_axes, (sequence, caption) in zip(all_axes, temporal.SEQUENCES.items(), strict=True):
        paths = [path for path in result.paths if path.sequence == sequence]
        figure, (axes,) = new_figure()
        draw_temporal(whole_axes, sequence, paths)
        draw_temporal(axes, sequence, paths)
        rules = "; ".join(f"{p.rule}: {number(p.regret[-1], 2)} after {p.rounds[-1]} rounds" for p in paths)
        description = f"Regret against T. {rules}."
        drawn.append(html.figure(svg(figure), description, f"temporal-{sequence}", f"{caption}."))
    write(folder / "temporal.svg", [svg(whole).encode()])
    text = (
        "Regret against the best point on three sequences of absolute losses. With the temporal schedule, the regret "
        "of the proximal update grows with the movement of the losses, not with their number; if they move in every "
        "round, it grows like sqrt(T). The schedule alone is not enough: with the linear update and a fixed loss, "
        "lambda never grows."
    )
    caption = "Regret, the exponent of its growth, and the bound"
    table = html.table(caption, *regret_table(result), text=(1,), stacked=True)
    page.section("Temporal variability", html.paragraph(text), html.figures(*drawn), table)


def draw_temporal(axes: Any, sequence: str, paths: list[temporal.RegretPath]) -> None:
    """Draw the regret of each rule against T, with sqrt(T) and the bound of Corollary 4.3."""
    for path, look in zip(paths, style([path.rule for path in paths]).values(), strict=True):
        # A logarithmic axis cannot show a regret of 0 or less.
        shown = [(t, r) for t, r in zip(path.rounds, path.regret, strict=True) if r > 0.0]
        colour = "#1f6fb4" if path.rule.startswith("proximal") else look["color"]
        if shown:
            axes.plot(*zip(*shown, strict=True), color=colour, marker=look["marker"], markersize=3.2, label=path.rule)
        if not math.isnan(path.bound[-1]):
            axes.plot(path.rounds, path.bound, color=colour, linestyle=(0, (2, 2)), label="Corollary 4.3")
    rounds = paths[0].rounds
    axes.plot(rounds, [math.sqrt(t) for t in rounds], color=INK, linewidth=0.8, linestyle=":", label="sqrt(T)")
    axes.set(xscale="log", yscale="log", xlabel="T", ylabel="regret")
    axes.set_title(sequence, fontsize=10)
    axes.legend(frameon=False, fontsize=7, labelcolor=INK)


def _settings(page: html.Page, result: Reproduction) -> None:
    data = {panel.dataset: facts for panel, facts in result.data.items()}
    read, total = result.read
    pairs = [
        ("preparation", PREPARATIONS[PREPARATION]),
        ("rules", "linear, truncated with H', two-step with H, proximal with H; lambda_t as in Corollary 4.3, G = 1"),
        *((f"reading: {name}", reading.text) for name, reading in READINGS.items()),
        ("repetitions", f"{result.plan.repetitions} random orders, one pass each; 95% intervals by Student's t"),
        *((f"data: {name}", f"{rows} rows, {f} features; sha256 {mark}") for name, (rows, f, mark) in data.items()),
        *((f"time: {stage}", f"{seconds:.1f} s") for stage, seconds in result.seconds.items()),
        ("read from an earlier run", f"{read} of {total} repetitions"),
        ("vertical axes", "; ".join(f"{name}: {text}" for name, text in AXES.items())),
    ]
    page.section("Settings and data", html.definitions(pairs))


def write_verdicts(result: Reproduction, folder: Path) -> Path:
    """Write the page of the paper's claims into a folder, and return its path."""
    page = html.Page(
        "The paper's claims, measured",
        "Each claim of the paper Generalized Implicit Follow-The-Regularized-Leader (Chen and Orabona, ICML 2023) "
        "about its figures, measured on the figures as they were run again.",
        "Made by giftrl.",
    )
    page.section(
        "Three readings of the paper",
        html.paragraph(
            "The paper leaves some settings of its experiments open, and the settings as printed do not give its "
            "figures. So every claim is measured with three readings of the paper:"
        ),
        html.definitions([(name, reading.text) for name, reading in READINGS.items()]),
        html.paragraph(
            "A floor is a lower bound on the strength of the regularizer in the first round. It keeps the first steps "
            "short, however large beta is. Linear, truncated, two-step and proximal are the rules that the paper "
            "compares; beta acts as the learning rate."
        ),
    )
    words = {
        "holds": "true in every panel of the figures, or at nearly every beta, as the claim says",
        "mostly": f"true in at least {MOSTLY_SHARE:.0%} of the cases",
        "partly": "true in some cases",
        "fails": "false on these data; a statement about the paper's rules, not about giftrl with nothing set",
    }
    page.section("Verdicts", html.definitions(list(words.items())))
    other = (
        "These are not the paper's data sets: a claim that fails here may hold on the paper's data. For those, run "
        "giftrl datasets get all --to data, and then giftrl reproduce --data data."
    )
    page.section(
        "Claims",
        *([] if result.distances else [html.paragraph(other)]),
        html.table("Each claim in each reading", *claim_table(result), text=(1, 3), verdict=2, stacked=True),
    )
    text = (
        "The published two-step curves need lambda_1 >= 1, where 1 is the largest squared norm of a row. With the same "
        "floor every rule has a flat curve: the flatness comes from the floor, not from the rule."
    )
    table = html.table("Loss without and with the floor", *floor_table(result))
    page.section("The same floor for every rule", html.paragraph(text), table)
    path = folder / CLAIMS_FILE
    page.save(path)
    return path


# Tables: the names of the columns, and the rows as text.


def distance_table(result: Reproduction) -> Table:
    """A row for each published curve: its distances to the measured one, and whether it is reproduced."""
    head = ("panel", "update", "points", "median distance", "largest distance", "at beta", "reproduced")
    return head, [
        [
            d.panel.removeprefix("Figure "), d.update, str(d.points), f"{100 * d.median:.2f}%",
            f"{100 * d.largest:.2f}%", f"{d.at:.3g}", "yes" if d.reproduced else "no",
        ]
        for d in result.distances
    ]  # fmt: skip


def claim_table(result: Reproduction) -> Table:
    """A row for each claim and reading: claim, reading, verdict and evidence."""
    names = dict.fromkeys(v.claim for verdicts in result.verdicts.values() for v in verdicts)
    return ("claim", "reading", "verdict", "evidence"), [
        [claim, reading, v.verdict, v.evidence]
        for claim in names
        for reading, verdicts in result.verdicts.items()
        for v in verdicts
        if v.claim == claim
    ]


def floor_table(result: Reproduction) -> Table:
    """A row for each panel and rule: the tuned loss and the loss at the largest beta, without and with the floor."""
    head = ("panel", "rule", "tuned", "tuned, floor for all", "largest beta", "largest beta, floor for all")
    rows = []
    for panel, with_floor in result.summaries["fair"].items():
        without = result.summaries["found"][panel]
        for k, name in enumerate(without.names):
            tuned = without.best_loss(k), with_floor.best_loss(k)
            last = float(without.mean[k, -1]), float(with_floor.mean[k, -1])
            rows.append([panel.title.removeprefix("Figure "), name, *(number(loss) for loss in (*tuned, *last))])
    return head, rows


def regret_table(result: Reproduction) -> Table:
    """A row for each sequence and rule: the regret, the exponent of its growth, and the bound if there is one."""
    return ("sequence", "rule", "T", "regret", "exponent of T", "Corollary 4.3"), [
        [
            path.sequence, path.rule, str(path.rounds[-1]), number(path.regret[-1], 2),
            f"{temporal.growth(path):.2f}", "" if math.isnan(path.bound[-1]) else number(path.bound[-1], 2),
        ]
        for path in result.paths
    ]  # fmt: skip


def ablation_table(result: Reproduction) -> Table:
    """A row for each variant: mean distance of a point, the same as found, the largest, and the curves reproduced."""

    def share(value: float) -> str:
        return f"{value:.2%}" if value <= 10.0 else "over 1000%"

    return ("variant", "mean distance", "as found", "largest distance", "curves reproduced"), [
        [a.variant, share(a.mean), share(a.before), share(a.largest), f"{a.reproduced} of {a.curves}"]
        for a in result.ablations
    ]
