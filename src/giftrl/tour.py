"""The product on one page, on data that comes with scikit-learn: ``giftrl demo`` and ``make run``.

A :class:`Comparison` runs giftrl without settings and scikit-learn's SGD at every learning rate over one data set; the
page adds the certificates and the paper's figures. SGD gets features that were standardised with the means and
deviations of **all** rows, which a stream does not have. That is in its favour. ``partial_fit`` takes a millisecond a
call, so each call gets one in 250 of the rows, predicts them, and then learns from them one by one.
"""

import math
import statistics
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.files import file_errors
from giftrl.paper.experiments import Reproduction, ReproductionPlan, reproduce
from giftrl.paper.pages import FIGURES, figures_of, write_verdicts
from giftrl.paper.panels import bundled
from giftrl.reports import INK, new_figure, svg
from giftrl.reports import page as html
from giftrl.reports.charts import require_matplotlib
from giftrl.samples import LOADERS, SAMPLES, load
from giftrl.sweeps.data import standard

Array = NDArray[np.float64]
Table = tuple[tuple[str, ...], list[list[str]]]

#: The data sets, by the names of ``giftrl demo``.
TOUR_NAMES = tuple(LOADERS)
#: The learning rates, half a decade apart.
SGD_RATES = tuple(float(f"{10.0 ** (k / 2):.2g}") for k in range(-6, 3))
#: The number of steps of a comparison.
COMPARISON_STEPS = 3 + len(SGD_RATES)
#: The time for the certificates of one data set, in seconds.
CERTIFICATE_SECONDS = 4.0
#: A learning rate is good if its loss exceeds that of giftrl by at most this share.
GOOD_SHARE = 0.1
#: The lowest probability that counts, as wrong certainty would cost an infinite loss.
MIN_PROBABILITY = 1e-6
#: Commands to try after the tour.
NEXT_COMMANDS = """\
giftrl demo churn  # a made-up table of customers, as CSV
giftrl train churn.csv --ignore customer_id --model churn.giftrl  # learn who leaves, in one pass
giftrl predict churn.giftrl churn.csv --proba  # the probability of each customer
giftrl inspect churn.giftrl  # the largest weights, and the certificate
giftrl demo --list  # more data sets"""
SGD_HEADS = ("SGD, its defaults", "SGD, its best rate", "that rate")
SGD_COLOUR, OUR_COLOUR = "#D55E00", "#0072B2"  # of Okabe and Ito's palette for colour-blind readers
NO_RATE = SGD_RATES[0] / 6.0  # the horizontal position of learners without a fixed learning rate
MAX_LOSS_RATIO = 12.0  # the highest loss in the figure, as a multiple of giftrl's


class Task(NamedTuple):
    """A data set in memory: its name, the task in words, features, labels, and the number K of classes.

    Labels are the classes 0, ..., K - 1; or real numbers if K is 0.
    """

    name: str
    question: str
    x: Array
    y: Array
    classes: int

    def caption(self) -> str:
        """The task, its size and its loss, below a figure."""
        (rows, features), question = self.x.shape, self.question
        stop = "" if question.endswith("?") else "."
        loss = "minus the log-probability of the right class" if self.classes else "half the squared error"
        return f"{question[:1].upper()}{question[1:]}{stop} {rows:,} rows, {features} features. Loss: {loss}."


def read(name: str) -> Task:
    """A data set by its name, in a fixed random order."""
    table = load(LOADERS[name])
    order = np.random.default_rng(0).permutation(len(table.target))
    x, y = (np.asarray(part, dtype=np.float64)[order] for part in (table.data, table.target))
    return Task(name, SAMPLES[name].what, x, y, len(getattr(table, "target_names", ())))


class Comparison(NamedTuple):
    """The average losses of one pass over a data set.

    >>> one = Comparison(None, 1.0, "", 0.5, 3.0, (2.0, 0.8) + 7 * (4.0,))
    >>> one.best, one.good
    ((0.8, 0.0032), 1)
    """

    data: Task
    ours: float  # the loss of giftrl
    proof: str  # its certificate in words
    bound: float  # a lower bound on the loss of every linear model of its size; NaN if nothing was proved
    default: float  # the loss of SGD with its defaults
    swept: tuple[float, ...]  # the losses of SGD at each of the rates

    @property
    def best(self) -> tuple[float, float]:
        """The lowest loss of SGD, and its rate."""
        return min(zip(self.swept, SGD_RATES, strict=True))

    @property
    def good(self) -> int:
        """The number of good rates."""
        return sum(loss <= (1.0 + GOOD_SHARE) * self.ours for loss in self.swept)

    def describe(self) -> str:
        """The figure in words, for screen readers."""
        swept = ", ".join(
            f"{loss / self.ours:.2g} at {rate:g}" for rate, loss in zip(SGD_RATES, self.swept, strict=True)
        )
        default = f"{self.default / self.ours:.2g} by default"
        return f"Loss of SGD on {self.data.name}, times that of giftrl, by learning rate: {swept}; {default}."


def compare(data: Task, tell: Callable[[str], None]) -> Comparison:
    """Run giftrl and SGD over a data set; ``tell`` is called before each of :data:`COMPARISON_STEPS` steps."""
    from giftrl.linear import FTRLClassifier, FTRLRegressor

    tell(f"{data.name}: giftrl, nothing set")
    model = (FTRLClassifier if data.classes else FTRLRegressor)(shuffle=False).fit(data.x, data.y)
    tell(f"{data.name}: the certificate")
    certificate: Any = model.certificate_
    best = certificate.best_loss(1.0, 0.7 * CERTIFICATE_SECONDS)
    if not best.lower_bound > best.least:  # compiling may have taken the time
        best = certificate.best_loss(1.0, 0.7 * CERTIFICATE_SECONDS)
    larger = certificate.best_loss(10.0, 0.3 * CERTIFICATE_SECONDS)
    bound = best.average if best.lower_bound > best.least else math.nan
    tell(f"{data.name}: SGD with its defaults")
    default, swept = average_loss(data, None), []
    for rate in SGD_RATES:
        tell(f"{data.name}: SGD at learning rate {rate:g}")
        swept.append(average_loss(data, rate))
    return Comparison(data, float(model.average_loss_), best.in_words(larger), bound, default, tuple(swept))


def losses(classes: int, answers: Array, labels: Array, seen: Array) -> Array:
    """The loss of each answer: probabilities of K classes; or numbers, clipped to the range of the labels seen."""
    if classes:
        finite = np.isfinite(answers).all(axis=1, keepdims=True)
        right = np.where(finite, answers, 1.0 / classes)[np.arange(len(labels)), labels.astype(int)]
        return np.asarray(-np.log(np.clip(right, MIN_PROBABILITY, 1.0)))
    answers = np.where(np.isfinite(answers), answers, 0.0)
    clipped = np.clip(answers, seen.min(), seen.max()) if len(seen) else answers
    return np.asarray(0.5 * np.square(clipped - labels))


def average_loss(data: Task, rate: float | None) -> float:
    """The average loss of one pass of SGD at a constant rate or by default, each row predicted before it is learned."""
    from sklearn import config_context
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    options: dict[str, Any] = {} if rate is None else {"learning_rate": "constant", "eta0": rate}
    classes, known = data.classes, {"classes": np.arange(data.classes, dtype=float)} if data.classes else {}
    kind: Any = partial(SGDClassifier, loss="log_loss") if classes else SGDRegressor
    model = kind(random_state=0, **options)
    x, size, paid = standard(data.x), max(1, len(data.y) // 250), []
    answers = np.full((size, classes), 1.0 / classes) if classes else np.zeros(size)
    # The settings are valid, and checking them for every row would take longer than learning.
    with config_context(skip_parameter_validation=True), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # overflow at high rates is a result here
        for begin in range(0, len(x), size):
            rows, labels = x[begin : begin + size], data.y[begin : begin + size]
            if begin:
                answers = model.predict_proba(rows) if classes else model.predict(rows)
            paid.append(losses(classes, answers, labels, data.y[:begin]))
            try:
                model.partial_fit(rows, labels, **known)
            except ValueError:  # the weights have overflown: there are no further answers
                rest = data.y[begin + len(labels) :]
                nothing = np.full((len(rest), classes) if classes else len(rest), np.nan)
                paid.append(losses(classes, nothing, rest, data.y))
                break
    return float(np.concatenate(paid).mean())


def steps(names: Sequence[str] = TOUR_NAMES) -> int:
    """The number of steps of a tour."""
    # After the comparisons: the figures in each reading, the temporal experiment, and the page.
    return COMPARISON_STEPS * len(names) + 3 * len(bundled()) + 2


def tour(
    folder: Path,
    *,
    tell: Callable[[str], None],
    names: Sequence[str] = TOUR_NAMES,
    plan: ReproductionPlan | None = None,
) -> tuple[list[Comparison], Path]:
    """Run the comparisons and the paper's experiments, and write a page into a folder; return the former and its path.

    ``tell`` is called with the next piece of work, before each of :func:`steps` steps. Without a plan for the paper's
    experiments they are quick ones.
    """
    require_matplotlib()
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    found = [compare(read(name), tell) for name in names]
    paper = reproduce(
        bundled(), plan or ReproductionPlan.quick(), folder=folder, tell=lambda work: tell(f"the paper: {work}")
    )
    tell("drawing the page")
    return found, write_page(found, paper, folder)


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
        html.figures(
            *(html.figure(svg(draw(c)), c.describe(), f"rates-{c.data.name}", c.data.caption()) for c in found)
        ),
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
    drawn = []
    for number, title in FIGURES.items():
        panels = figures_of(paper, "found", "clip", folder, number)
        drawn += [html.paragraph(f"Figure {number}: {title.lower()}"), panels]
    page.section(
        "The paper",
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


def table(found: Sequence[Comparison]) -> Table:
    """The columns of the page, and their rows; each loss of SGD also as a multiple of giftrl's."""
    within = f"rates within {GOOD_SHARE:.0%} of giftrl"
    head = ("data set", "rows", "features", "giftrl, nothing set", *SGD_HEADS, within)
    sizes = [[f"{size:,}" for size in each.data.x.shape] for each in found]
    return head, [[name, *size, *rest] for size, (name, *rest) in zip(sizes, short_table(found)[1], strict=True)]


def short_table(found: Sequence[Comparison]) -> Table:
    """The columns for a terminal of 80 characters, and their rows."""
    return ("data set", "giftrl", *SGD_HEADS, "good rates"), [
        [
            c.data.name, _loss(c.ours), _beside(c.default, c.ours), _beside(c.best[0], c.ours), f"{c.best[1]:g}",
            f"{c.good} of {len(SGD_RATES)}",
        ]
        for c in found
    ]  # fmt: skip


def last_lines(found: Sequence[Comparison], page: Path) -> list[str]:
    """Five lines that end the tour on the terminal; the last is the page to open."""
    default = statistics.geometric_mean(each.ours / each.default for each in found)
    best = statistics.geometric_mean(each.ours / each.best[0] for each in found)
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
