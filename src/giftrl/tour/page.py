"""The page of the tour: the picture, the table, what is proved, and the paper's figures."""

from pathlib import Path

from giftrl.paper.report import FIGURES, figures_of
from giftrl.paper.reproduce import Reproduction
from giftrl.paper.verdicts import write_verdicts
from giftrl.reports import page as html
from giftrl.reports import svg
from giftrl.tour import words
from giftrl.tour.comparison import GOOD, Comparison
from giftrl.tour.picture import CEILING, describe, draw
from giftrl.tour.rival import RATES

#: What to do after the tour.
NEXT = (
    "giftrl demo churn                                                 # a made-up table of customers, as CSV",
    "giftrl train churn.csv --ignore customer_id --model churn.giftrl  # learn who leaves, in one pass",
    "giftrl predict churn.giftrl churn.csv --proba                     # the probability of each customer",
    "giftrl inspect churn.giftrl                                       # the largest weights, and what is proved",
    "giftrl demo --list                                                # more data sets",
)


def write_page(found: list[Comparison], paper: Reproduction, folder: Path) -> Path:
    """Write ``index.html`` and the page of the verdicts into a folder; return the path of the former."""
    introduction = (
        "giftrl learns linear models from a stream: it sees one row at a time, predicts, is told the answer, and "
        "learns. It has no learning rate to choose, and it proves how well it did. Everything on this page was "
        f"measured just now, on {len(found)} data sets that come with scikit-learn."
    )
    page = html.Page("giftrl: nothing to tune, and a proof", introduction, "Made by giftrl demo.")
    _picture(page, found)
    _table(page, found)
    _proofs(page, found)
    page.section(
        "Try it",
        html.paragraph("Type these into a terminal; then use your own CSV in the place of churn.csv."),
        html.commands(NEXT),
    )
    _paper(page, paper, folder)
    path = folder / "index.html"
    page.save(path)
    return path


def _picture(page: html.Page, found: list[Comparison]) -> None:
    drawn = []
    for each in found:
        name, (rows, features) = f"rates-{each.data.name}", each.data.x.shape
        caption = f"{each.data.question} {rows:,} rows, {features} features. Loss: {each.data.loss}."
        drawn.append(html.figure(svg(draw(each)), name, describe(each), caption))
    page.section(
        "No learning rate",
        html.paragraph(
            "The usual way to learn from a stream is stochastic gradient descent (SGD), and it needs a learning rate: "
            "how much to change after each row. Each square is one run of scikit-learn's SGD over a data set, and the "
            "curve joins the runs by their learning rate. The star is giftrl, which has none, and the line is at its "
            "loss. Height is loss, as a multiple of giftrl's: lower is better, and a square below the "
            "line is better than giftrl."
        ),
        html.figures(*drawn),
        html.paragraph(
            "The grey strip is for what has no fixed learning rate: giftrl, and SGD with its defaults (the hollow "
            f"square), whose rate falls by a rule. What is above {CEILING:g} times giftrl's loss is drawn at "
            f"{CEILING:g}. SGD gets features that were standardised with all rows in advance, and giftrl gets them as "
            "they are. Every row is predicted before its answer is used."
        ),
    )


def _table(page: html.Page, found: list[Comparison]) -> None:
    page.section(
        "The numbers",
        html.table(
            "Average loss of one pass; in brackets, as a multiple of giftrl's", *words.table(found), stacked=True
        ),
        html.paragraph(
            "For classes, a loss of L means that the right class was given the probability exp(-L), in the geometric "
            "mean: 0.1 is 90%, 0.7 is the toss of a coin. For numbers, it is half the mean squared error."
        ),
        html.paragraph(
            f"The best rate is known only after all {len(RATES)} were tried. The last column counts the rates that "
            f"would have done, with a loss at most {GOOD:.0%} above giftrl's."
        ),
    )


def _proofs(page: html.Page, found: list[Comparison]) -> None:
    page.section(
        "What each run proves",
        html.paragraph(
            "At the end of a run, giftrl proves a limit: a loss that no linear model of the same size has on these "
            "rows, not even one that was fitted to all of them at once. It is a proof and not an estimate (a point of "
            "the dual problem). If the limit is close to the loss, a longer search would gain little. A run starts "
            "without knowing anything, so on few rows some distance is the price of learning."
        ),
        html.definitions([(each.data.name, each.proof) for each in found]),
    )


def _paper(page: html.Page, paper: Reproduction, folder: Path) -> None:
    verdicts = write_verdicts(paper, folder)
    page.section(
        "The paper behind it",
        html.paragraph(
            "giftrl implements Generalized Implicit Follow-The-Regularized-Leader (Chen and Orabona, ICML 2023). Its "
            "figures, run again here on scikit-learn's data, compare rules for one step of a single learner. The rule "
            "called linear is the usual gradient step. The others (truncated, two-step, proximal) look at the shape of "
            "the loss, and not at its slope alone. Their curves stay low when beta, which acts as the learning rate, "
            "is too large; the curve of linear shoots up. giftrl mixes several such learners, so that nothing is left "
            "to choose."
        ),
        *(
            part
            for number, title in FIGURES.items()
            for part in (
                html.paragraph(f"Figure {number}: {title.lower()}"),
                figures_of(paper, "found", "clip", folder, number),
            )
        ),
        html.links([(verdicts.name, "Which claims of the paper hold on these data")]),
    )
