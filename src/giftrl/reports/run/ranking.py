"""How well scores tell two outcomes apart, and whether probabilities come true."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.reports.run.bins import RELATIVE, relative_bins
from giftrl.reports.run.svg import Axis, Chart
from giftrl.reports.words import number

Array = NDArray[np.float64]

#: How many groups of rows the figure of calibration has at most.
GROUPS = 12
#: The fewest rows of a group.
FEWEST = 20.0
#: Half the width of an interval that holds 95% of a normal distribution, in standard deviations.
SIGMAS = 1.96


class Calibration(NamedTuple):
    """Groups of rows with similar probabilities: their weight, the mean probability, how often it came true."""

    weight: Array
    predicted: Array
    observed: Array
    low: Array  # the ends of 95% intervals of ``observed``
    high: Array


class Ranking:
    """Scores of two outcomes in bins, each as wide as 1/128 of the scores in it.

    >>> ranking = Ranking()
    >>> ranking.add(np.array([2.0, 1.0, -1.0, 1.5]), np.array([True, True, False, False]), np.ones(4))
    >>> ranking.auc, ranking.accuracy
    (0.75, 0.75)
    """

    def __init__(self) -> None:
        none = np.zeros(RELATIVE)
        #: By bin: the weight of rows of each outcome, and the sum of weight times probability; then the sum of
        #: squared weights.
        self.arrays = {"no": none, "yes": none.copy(), "chance": none.copy(), "squares": np.zeros(1)}

    def add(self, scores: Array, yes: NDArray[np.bool_], weights: Array, chances: Array | None = None) -> None:
        """Add rows: their scores, whether the outcome was the one that large scores stand for, and its probability."""
        bins = relative_bins(scores)
        self.arrays["no"] += np.bincount(bins, np.where(yes, 0.0, weights), RELATIVE)
        self.arrays["yes"] += np.bincount(bins, np.where(yes, weights, 0.0), RELATIVE)
        self.arrays["squares"] += (weights * weights).sum()
        if chances is not None:
            self.arrays["chance"] += np.bincount(bins, weights * chances, RELATIVE)

    @property
    def both(self) -> bool:
        """Whether both outcomes occurred."""
        return bool(self.arrays["no"].any() and self.arrays["yes"].any())

    @property
    def roc(self) -> tuple[Array, Array]:
        """The share of false and of true alarms if rows above a score raise one, for every bin from the top."""
        shares = []
        for name in ("no", "yes"):
            above = np.concatenate([[0.0], np.cumsum(self.arrays[name][::-1])])
            shares.append(above / above[-1])
        moved = np.concatenate([[True], np.diff(shares[0] + shares[1]) > 0.0])
        return shares[0][moved], shares[1][moved]

    @property
    def auc(self) -> float:
        """The area under :attr:`roc`: how often a row of the one outcome has a larger score than one of the other."""
        false, true = self.roc
        return float(np.sum(np.diff(false) * (true[1:] + true[:-1])) / 2.0)

    @property
    def at_the_ends(self) -> float:
        """The share of rows in the first and in the last bin that has some: large where scores are clipped."""
        weight = self.arrays["no"] + self.arrays["yes"]
        there = np.flatnonzero(weight)
        return float(weight[np.unique(there[[0, -1]])].sum() / weight.sum())

    @property
    def at_zero(self) -> tuple[float, float, float, float]:
        """The weights of rows whose score is not positive and positive: of the outcome no, and then of yes."""
        cut = int(relative_bins(np.zeros(1))[0]) + 1
        return tuple(float(part.sum()) for name in ("no", "yes") for part in np.split(self.arrays[name], [cut]))  # type: ignore[return-value]

    @property
    def accuracy(self) -> float:
        """The share of rows whose score has the sign of their outcome."""
        right, wrong, missed, hit = self.at_zero
        return (right + hit) / (right + wrong + missed + hit)

    @property
    def calibration(self) -> Calibration:
        """Groups of about the same weight, from low to high probabilities."""
        weight = self.arrays["no"] + self.arrays["yes"]
        rows = weight.sum() ** 2 / self.arrays["squares"][0]  # of equal weight, which would tell as much
        groups = int(np.clip(rows / FEWEST, 1, GROUPS))
        middle = np.cumsum(weight) - 0.5 * weight
        group = np.minimum((middle / weight.sum() * groups).astype(np.int64), groups - 1)
        sums = (weight, self.arrays["chance"], self.arrays["yes"])
        of = np.array([np.bincount(group, each, groups) for each in sums], np.float64)
        total, chance, yes = of[:, of[0] > 0.0]
        observed, n = yes / total, total * rows / weight.sum()
        # The interval of Wilson (1927), which stays within 0 and 1.
        z = SIGMAS * SIGMAS / n
        centre, half = (
            (observed + z / 2.0) / (1.0 + z),
            np.sqrt(z * observed * (1.0 - observed) + z * z / 4.0) / (1.0 + z),
        )
        return Calibration(total, chance / total, observed, centre - half, centre + half)


def draw_roc(ranking: Ranking, name: str) -> tuple[str, str]:
    """The ROC curve as SVG text, and in words; ``name`` is that of the outcome of large scores."""
    false, true = ranking.roc
    if len(false) > 400:
        keep = np.unique(np.searchsorted(false + true, np.linspace(0.0, 2.0, 400)).clip(0, len(false) - 1))
        false, true = false[keep], true[keep]
    chart = Chart(Axis(0.0, 1.0, "share of the others above a score"), Axis(0.0, 1.0, "share of its rows above"))
    chart.box((0.0, 1.0), (0.0, 0.0), "zero")
    chart.line([0.0, 1.0], [0.0, 1.0], "even", "by chance")
    chart.line([0.0, *false, 1.0], [0.0, *true, 1.0], "s1", f"AUC {number(ranking.auc)}")
    right, wrong, missed, hit = ranking.at_zero
    at = wrong / (right + wrong), hit / (missed + hit)
    note = f"At the score 0: {at[1]:.1%} of its rows, and {at[0]:.1%} of the others"
    chart.dots([at[0]], [at[1]], "s2", [note], 5.0)
    chart.words(*at, "score 0", "", "start" if at[0] < 0.7 else "end", 20.0)
    words = f"ROC curve of the label {name}. The area under it is {number(ranking.auc)}. {note}."
    return chart.svg(), words


def draw_calibration(found: Calibration, what: str, event: str) -> tuple[str, str]:
    """Predicted against observed frequencies as SVG text, and in words.

    Args:
        found: groups of rows.
        what: the name of the horizontal axis.
        event: what is observed.
    """
    low = min(float(found.predicted.min()), float(found.low.min()))
    high = max(float(found.predicted.max()), float(found.high.max()))
    low, high = (0.0 if low < 0.35 else low - 0.03), (1.0 if high > 0.7 else 1.05 * high)
    chart = Chart(Axis(low, high, what), Axis(low, high, event))
    chart.line([low, high], [low, high], "even", "as predicted")
    for p, a, b in zip(found.predicted, found.low, found.high, strict=True):
        chart.line([p, p], [a, b], "s1 thin")
    notes = [
        f"predicted {p:.2%}, observed {o:.2%} of {round(w):,}"
        for w, p, o in zip(found.weight.tolist(), found.predicted.tolist(), found.observed.tolist(), strict=True)
    ]
    chart.line(found.predicted, found.observed, "s1", "observed, with 95% intervals")
    chart.dots(found.predicted, found.observed, "s1", notes)
    return chart.svg(), f"Calibration in {len(notes)} groups of about the same size: " + "; ".join(notes) + "."
