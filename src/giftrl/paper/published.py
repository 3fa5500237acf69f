"""The published curves as numbers, and the distance of measured curves to them.

The numbers were read from the figures with an error of about 0.5% of each axis.
"""

import csv
import functools
import math
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from giftrl.paper.panels import PaperPanel
from giftrl.sweeps import Summary

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
    """The distance of each published curve of the panel.

    >>> from giftrl.paper.panels import PAPER
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
