"""The page of the tour, its figures and tables, and the lines that end the tour on the terminal."""

import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from giftrl.files import file_errors
from giftrl.paper.experiments import Reproduction, ReproductionPlan, reproduce
from giftrl.paper.pages import FIGURES, figures_of, write_verdicts
from giftrl.paper.panels import bundled
from giftrl.reports import INK, new_figure, svg
from giftrl.reports import page as html
from giftrl.reports.charts import require_matplotlib
from giftrl.tour.comparison import COMPARISON_STEPS, GOOD_SHARE, SGD_RATES, TOUR_NAMES, Comparison, compare, read

Table = tuple[tuple[str, ...], list[list[str]]]

#: Commands to try after the tour.
NEXT_COMMANDS = """\
giftrl demo churn  # a made-up table of customers, as CSV
giftrl train churn.csv --ignore customer_id --model churn.giftrl  # learn who leaves, in one pass
giftrl predict churn.giftrl churn.csv --proba  # the probability of each customer
giftrl inspect churn.giftrl  # the largest weights, and the certificate
giftrl demo --list  # more data sets"""
SGD_COLOUR, OUR_COLOUR = "#D55E00", "#0072B2"  # of Okabe and Ito's palette for colour-blind readers
NO_RATE = SGD_RATES[0] / 6.0  # the horizontal position of learners without a fixed learning rate
MAX_LOSS_RATIO = 12.0  # the highest loss in the figure, as a multiple of giftrl's


class Tour(NamedTuple):
    """The comparisons, and the path of the page."""

    found: list[Comparison]
    page: Path


def steps(names: Sequence[str] = TOUR_NAMES) -> int:
    """The number of steps of a tour."""
    return (
        COMPARISON_STEPS * len(names) + 3 * len(bundled()) + 2
    )  # the figures in each reading, the temporal experiment, the page


def tour(
    folder: Path,
    *,
    tell: Callable[[str], None],
    names: Sequence[str] = TOUR_NAMES,
    plan: ReproductionPlan | None = None,
) -> Tour:
    """Run everything, and write the page into a folder.

    Args:
        folder: of the page; it is made if necessary.
        tell: called with the next piece of work, before each of :func:`steps` steps.
        names: the data sets.
        plan: the part of the paper's experiments to run; None for a quick one.
    """
    require_matplotlib()
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    found = [compare(read(name), tell) for name in names]
    paper = reproduce(
        bundled(), plan or ReproductionPlan.quick(), folder=folder, tell=lambda work: tell(f"the paper: {work}")
    )
    tell("drawing the page")
    return Tour(found, write_page(found, paper, folder))


def write_page(found: Sequence[Comparison], paper: Reproduction, folder: Path) -> Path:
    """Write ``index.html`` and the page of the paper's claims into a folder; return the path of the former."""
    page = html.Page(
        "giftrl: nothing to tune, and a proof",
        "giftrl learns linear models from a stream: it sees one row at a time, predicts, is told the answer, and "
        "learns. It has no learning rate to choose, and it proves how well it did. Everything on this page was "
        f"measured just now, on {len(found)} data sets that come with scikit-learn.",
        "Made by giftrl demo.",
    )
    page.section(
        "No learning rate",
        html.paragraph(
            "The usual way to learn from a stream is stochastic gradient descent (SGD), and it needs a learning rate: "
            "the size of the change after each row. Each square is one run of scikit-learn's SGD over a data set at "
            "one learning rate. The star is giftrl, which has none, and the line is at its loss. Height is loss, as a "
            "multiple of giftrl's: a square below the line is better than giftrl."
        ),
        html.figures(*(html.figure(svg(draw(each)), describe(each), f"rates-{each.data.name}", _caption(each))
                       for each in found)),
        html.paragraph(
            "The grey strip holds the learners without a fixed learning rate: giftrl, and SGD with its defaults (the "
            "hollow square), whose rate falls by a rule. Losses above the top of the figure are drawn at the top. SGD "
            "gets standardised features, and giftrl the original ones. Every row is predicted before its label is used."
        ),
    )  # fmt: skip
    page.section(
        "The numbers",
        html.table("Average loss of one pass; in brackets, as a multiple of giftrl's", *table(found), stacked=True),
        html.paragraph(
            "For classes, a loss of L means that the right class had the probability exp(-L), in the geometric mean: "
            "0.1 is 90%, 0.7 is the toss of a coin. For numbers, the loss is half the mean squared error."
        ),
        html.paragraph(
            f"The best rate is known only after all {len(SGD_RATES)} were tried. The last column counts the rates with "
            f"a loss at most {GOOD_SHARE:.0%} above giftrl's."
        ),
    )
    page.section(
        "Certificates",
        html.paragraph(
            "At the end of a run, giftrl proves a lower bound: no linear model of the same size has a lower loss on "
            "these rows, not even one that was fitted to all of them at once. It is a proof and not an estimate (a "
            "point of the dual problem). If the bound is close to the loss, a longer search would gain little. A run "
            "starts without any knowledge, so on few rows some distance is the price of learning."
        ),
        html.definitions([(each.data.name, each.proof) for each in found]),
    )
    page.section(
        "Try it",
        html.paragraph("Type these commands into a terminal; then replace churn.csv by your own CSV file."),
        html.code(NEXT_COMMANDS),
    )
    verdicts = write_verdicts(paper, folder)
    drawn = [
        part
        for number, title in FIGURES.items()
        for part in (
            html.paragraph(f"Figure {number}: {title.lower()}"), figures_of(paper, "found", "clip", folder, number)
        )
    ]  # fmt: skip
    page.section(
        "The paper behind it",
        html.paragraph(
            "giftrl implements Generalized Implicit Follow-The-Regularized-Leader (Chen and Orabona, ICML 2023). Its "
            "figures, run again here on scikit-learn's data, compare rules for one step of a single learner. The rule "
            "called linear is the usual gradient step. The others (truncated, two-step, proximal) use the shape of "
            "the loss, and not only its slope. Their curves stay low when beta, which acts as the learning rate, is "
            "too large; the curve of linear shoots up. giftrl mixes several such learners, so nothing is left to "
            "choose."
        ),
        *drawn,
        html.links([(verdicts.name, "The claims of the paper, tested on these data")]),
    )
    path = folder / "index.html"
    page.save(path)
    return path


def draw(found: Comparison) -> Any:
    """A Matplotlib figure of the losses of SGD divided by that of giftrl, against the learning rate."""
    figure, (axes,) = new_figure()
    ratios = [min(loss / found.ours, MAX_LOSS_RATIO) for loss in found.swept]
    axes.axvspan(NO_RATE / 2.5, NO_RATE * 2.5, color=INK, alpha=0.07, linewidth=0)
    axes.axhline(1.0, color=OUR_COLOUR, linewidth=1.6)
    axes.plot(
        SGD_RATES, ratios, color=SGD_COLOUR, marker="s", markersize=4, linewidth=1.5, label="SGD at each learning rate"
    )
    axes.plot(
        NO_RATE, min(found.default / found.ours, MAX_LOSS_RATIO), color=SGD_COLOUR, marker="s", markerfacecolor="none",
        linestyle="none", markersize=6.5, markeredgewidth=1.6, label="SGD, its defaults",
    )  # fmt: skip
    axes.plot(NO_RATE, 1.0, color=OUR_COLOUR, marker="*", markersize=13, linestyle="none", label="giftrl, nothing set")
    axes.set(xscale="log", yscale="log", xlim=(NO_RATE / 2.5, 1.5 * SGD_RATES[-1]), ylim=(0.75, 4.5 * MAX_LOSS_RATIO))
    axes.set_xticks([NO_RATE, 1e-3, 1e-2, 1e-1, 1e0, 1e1], ["no fixed\nrate", "0.001", "0.01", "0.1", "1", "10"])
    axes.set_yticks([1, 2, 4, 8], ["1x", "2x", "4x", "8x"])
    axes.minorticks_off()
    axes.set(xlabel="learning rate", ylabel="loss, times giftrl's")
    axes.set_title(found.data.name, fontsize=10)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="upper center")
    return figure


def describe(found: Comparison) -> str:
    """The figure in words, for screen readers."""
    swept = ", ".join(f"{loss / found.ours:.2g} at {rate:g}" for rate, loss in zip(SGD_RATES, found.swept, strict=True))
    default = f"{found.default / found.ours:.2g} by default"
    return f"Loss of SGD on {found.data.name}, times that of giftrl, by learning rate: {swept}; {default}."


def _caption(found: Comparison) -> str:
    (rows, features), question = found.data.x.shape, found.data.question
    stop = "" if question.endswith("?") else "."
    return f"{question[:1].upper()}{question[1:]}{stop} {rows:,} rows, {features} features. Loss: {found.data.loss}."


def table(found: Sequence[Comparison]) -> Table:
    """The columns of the page, and their rows; each loss of SGD also as a multiple of giftrl's."""
    head = (
        "data set", "rows", "features", "giftrl, nothing set", *SGD_HEADS, f"rates within {GOOD_SHARE:.0%} of giftrl"
    )  # fmt: skip
    sizes = [[f"{size:,}" for size in each.data.x.shape] for each in found]
    return head, [[name, *size, *rest] for size, (name, *rest) in zip(sizes, short_table(found)[1], strict=True)]


SGD_HEADS = ("SGD, its defaults", "SGD, its best rate", "that rate")


def short_table(found: Sequence[Comparison]) -> Table:
    """The columns for a terminal of 80 characters, and their rows."""
    return ("data set", "giftrl", *SGD_HEADS, "good rates"), [
        [
            each.data.name, _loss(each.ours), _beside(each.default, each.ours), _beside(each.best[1], each.ours),
            f"{each.best[0]:g}", f"{each.good} of {len(SGD_RATES)}",
        ]
        for each in found
    ]  # fmt: skip


def last_lines(found: Sequence[Comparison], page: Path) -> list[str]:
    """Five lines that end the tour on the terminal; the last is the page to open."""
    default = statistics.geometric_mean(each.ours / each.default for each in found)
    best = statistics.geometric_mean(each.ours / each.best[1] for each in found)
    rates, good = len(SGD_RATES), sum(each.good for each in found)
    runs = len(found) * rates
    proved = next((each for each in found if not math.isnan(each.bound)), None)
    proof = "Each run also looks for a lower bound on the loss of every linear model."
    if proved is not None:
        limit = f"loss {_loss(proved.ours)}, and no linear model of its size below {_loss(proved.bound)}."
        proof = f"Proved for {proved.data.name}: {limit}"
    return [
        f"giftrl learned {len(found)} data sets, one pass each, nothing set. Lower loss is better.",
        f"Its loss is {default:.2f} of SGD's by default, and {best:.2f} of SGD's at the best of {rates} rates.",
        f"That rate is known only afterwards: {runs - good} of {runs} runs of SGD were over {GOOD_SHARE:.0%} worse.",
        proof,
        f"Open {page}",
    ]


def _loss(value: float) -> str:
    return f"{value:.3f}" if value < 100.0 else f"{value:,.0f}"


def _beside(loss: float, ours: float) -> str:
    return f"{_loss(loss)} ({loss / ours:.2f}x)"
