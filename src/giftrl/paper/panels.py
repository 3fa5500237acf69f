"""The panels of Figures 1 to 3 and their published curves, on the paper's data or on data of scikit-learn."""

import csv
import functools
import math
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from giftrl.errors import InvalidInput
from giftrl.paper.curves import PREPARATION
from giftrl.samples import load as load_sample
from giftrl.sweeps import Data, Summary, fingerprint, load, parse_betas, prepare, signed

CLASSIFICATION_BETAS = parse_betas("1e-3:1e3:13")
REGRESSION_BETAS = parse_betas("1e-3:1e8:23")


class PaperPanel(NamedTuple):
    """A panel of a figure: its loss, its data set, and the ends of the published vertical axis if there is one.

    >>> PAPER[0].title
    'Figure 1: a9a, hinge'
    """

    figure: int
    loss: str
    dataset: str
    axis: tuple[float, float] | None

    @property
    def title(self) -> str:
        """The title of the panel."""
        return f"Figure {self.figure}: {self.dataset}, {self.loss}"

    @property
    def name(self) -> str:
        """The name of the panel in file names."""
        return f"figure{self.figure}-{self.dataset}-{self.loss}".replace("_", "-")

    @property
    def betas(self) -> tuple[float, ...]:
        """The betas on the horizontal axis."""
        return REGRESSION_BETAS if self.loss == "absolute" else CLASSIFICATION_BETAS


#: Panels, each with a function that loads its data.
Panels = list[tuple[PaperPanel, Callable[[], Data]]]

#: The panels of the paper's figures 1 to 3.
PAPER = (
    PaperPanel(1, "hinge", "a9a", (0.3, 1.0)),
    PaperPanel(1, "hinge", "ijcnn1", (0.1, 1.0)),
    PaperPanel(1, "hinge", "phishing", (0.1, 1.1)),
    PaperPanel(2, "logistic", "a9a", (0.3, 0.8)),
    PaperPanel(2, "logistic", "ijcnn1", (0.15, 0.55)),
    PaperPanel(2, "logistic", "phishing", (0.1, 0.8)),
    PaperPanel(3, "absolute", "abalone", (0.0, 14.0)),
    PaperPanel(3, "absolute", "cpusmall", (0.0, 120.0)),
    PaperPanel(3, "absolute", "bng_stock", (0.0, 120.0)),
)

#: Panels like those of the paper, on data that comes with scikit-learn.
BUNDLED = (
    PaperPanel(1, "hinge", "breast_cancer", None),
    PaperPanel(1, "hinge", "digits", None),
    PaperPanel(2, "logistic", "breast_cancer", None),
    PaperPanel(2, "logistic", "digits", None),
    PaperPanel(3, "absolute", "diabetes", None),
)

#: The class of digits against all others.
POSITIVE_DIGIT = 8.0


def locate(folder: Path, dataset: str) -> Path | None:
    """The file of a data set in a folder, with or without a usual ending such as .gz; None if there is none."""
    paths = (folder / f"{dataset}{ending}" for ending in ("", ".gz", ".bz2", ".svm", ".libsvm"))
    return next(filter(Path.is_file, paths), None)


def available(folder: Path) -> Panels:
    """The panels whose data is in a folder, each with a function that loads it."""
    panels: Panels = [
        (panel, partial(load, path, panel.loss, PREPARATION, name=panel.dataset))
        for panel in PAPER
        if (path := locate(folder, panel.dataset))
    ]
    if not panels:
        names = ", ".join(dict.fromkeys(panel.dataset for panel in PAPER))
        remedy = "download them with 'giftrl datasets get all --to DIR', or leave out --data"
        raise InvalidInput("data", str(folder), f"must hold at least one of {names} (.gz or .bz2)", remedy)
    return panels


def bundled() -> Panels:
    """The panels on data that comes with scikit-learn, each with a function that loads it."""
    return [(panel, partial(_load_bundled, panel)) for panel in BUNDLED]


def _load_bundled(panel: PaperPanel) -> Data:
    table = load_sample(panel.dataset, scaled=True)
    x, y = (np.asarray(part, dtype=np.float64) for part in (table.data, table.target))
    prepared, how = prepare(x, PREPARATION)
    labels = signed(y, panel.loss, POSITIVE_DIGIT if panel.dataset == "digits" else None)
    return Data(panel.dataset, prepared, labels, fingerprint(x, y), how)


# The published curves as numbers, which were read from the figures with an error of about 0.5% of each axis.

#: A curve is reproduced if the median and the largest distance of its points are at most these shares of the axis.
MEDIAN_DISTANCE, LARGEST_DISTANCE = 0.006, 0.015


@functools.cache
def _all() -> dict[tuple[str, str, str], tuple[tuple[float, float], ...]]:
    curves: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    text = files("giftrl.paper").joinpath("figures.csv").read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        loss, dataset = line.pop("loss"), line.pop("dataset")
        # The betas are half decades; the file has them rounded to four digits.
        beta = 10.0 ** (round(2.0 * math.log10(float(line.pop("beta")))) / 2.0)
        for update, value in line.items():
            if value not in ("", "clipped"):
                curves.setdefault((loss, dataset, update), []).append((beta, float(value)))
    return {where: tuple(curve) for where, curve in curves.items()}


def points(loss: str, dataset: str) -> dict[str, tuple[tuple[float, float], ...]]:
    """The visible points of a panel, pairs of beta and loss, by update.

    >>> points("hinge", "a9a")["linear"][:2]
    ((1.0, 0.419), (3.1622776601683795, 0.3775))
    >>> points("hinge", "digits")
    {}
    """
    return {where[2]: curve for where, curve in _all().items() if where[:2] == (loss, dataset)}


class Distance(NamedTuple):
    """The distance of one curve to its published points: median, mean and largest, as a share of the axis.

    >>> Distance("Figure 1: a9a, hinge", "linear", 5, 0.001, 0.001, 0.004, 1.0).reproduced
    True
    """

    panel: str  # the title of the panel
    update: str  # the name of the curve
    points: int  # the number of published points
    median: float
    mean: float
    largest: float
    at: float  # the beta of the largest distance

    @property
    def reproduced(self) -> bool:
        """True if the distances are small enough to count as the published curve."""
        return self.median <= MEDIAN_DISTANCE and self.largest <= LARGEST_DISTANCE


def compare(panel: PaperPanel, summary: Summary) -> list[Distance]:
    """The distance of each published curve of the panel to the measured one.

    >>> beta, loss = zip(*points("logistic", "a9a")["twostep"])
    >>> round(compare(PAPER[3], Summary(("twostep",), beta, np.array([[loss]]) + 0.005))[0].median, 6)
    0.01
    """
    if panel.axis is None:
        return []
    span = panel.axis[1] - panel.axis[0]
    distances = []
    for update, published in points(panel.loss, panel.dataset).items():
        if update not in summary.names:
            continue
        mean = summary.mean[summary.curve(update)]
        shares = [abs(mean[np.isclose(summary.betas, beta, rtol=1e-6)][0] - loss) / span for beta, loss in published]
        worst = int(np.argmax(shares))
        median, mean, largest = float(np.median(shares)), float(np.mean(shares)), float(shares[worst])
        distances.append(Distance(panel.title, update, len(shares), median, mean, largest, published[worst][0]))
    return distances
