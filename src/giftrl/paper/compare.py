"""The distance of measured curves to the published ones, as a share of each panel's vertical axis."""

from typing import NamedTuple

import numpy as np

from giftrl.paper.panels import PaperPanel
from giftrl.paper.published import points
from giftrl.sweeps import Summary

__all__ = ["LARGEST", "MEDIAN", "Distance", "compare"]

#: A curve is reproduced if the median and the largest distance of its points are at most these shares of the axis.
MEDIAN, LARGEST = 0.006, 0.015


class Distance(NamedTuple):
    """The distance of one curve to its published points: median, mean and largest, as a share of the axis.

    >>> Distance("Figure 1: a9a, hinge", "linear", 5, 0.001, 0.001, 0.004, 1.0).reproduced
    True
    """

    panel: str  # the title of the panel
    update: str  # the name of the curve
    points: int  # how many points were published
    median: float
    mean: float
    largest: float
    at: float  # the beta of the largest distance

    @property
    def reproduced(self) -> bool:
        """Whether the distances are small enough to count as the published curve."""
        return self.median <= MEDIAN and self.largest <= LARGEST


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
