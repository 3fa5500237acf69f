"""The tour: compare, prove, run the paper's figures, and write the page."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from giftrl.files import file_errors
from giftrl.paper.panels import bundled
from giftrl.paper.reproduce import Plan, reproduce
from giftrl.reports.figure import require_matplotlib
from giftrl.tour.comparison import STEPS, Comparison, compare
from giftrl.tour.page import write_page
from giftrl.tour.sets import SETS, read


class Tour(NamedTuple):
    """What the tour found, and the path of its page."""

    found: list[Comparison]
    page: Path


def steps(names: tuple[str, ...] = tuple(SETS)) -> int:
    """How many steps the tour has."""
    return STEPS * len(names) + 3 * len(bundled()) + 2  # the figures in each reading, the temporal experiment, the page


def tour(
    folder: Path, *, tell: Callable[[str], None], names: tuple[str, ...] = tuple(SETS), plan: Plan | None = None
) -> Tour:
    """Run everything, and write the page into a folder.

    Args:
        folder: where the page goes; it is made if it is not there.
        tell: called with what comes next, before each of :func:`steps` steps.
        names: the data sets to compare on.
        plan: how much of the paper to run; None for a first look.
    """
    require_matplotlib()
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    found = [compare(read(name), tell) for name in names]
    paper = reproduce(bundled(), plan or Plan.quick(), folder=folder, tell=lambda work: tell(f"the paper: {work}"))
    tell("drawing the page")
    return Tour(found, write_page(found, paper, folder))
