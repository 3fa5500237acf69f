"""Predictions of real labels against the labels, in bins."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.reports.run.bins import Spread, quantiles
from giftrl.reports.run.svg import Axis, Chart, short
from giftrl.reports.words import number

Array = NDArray[np.float64]

#: How fine the bins are, and how far they reach, in asinh of spreads: for pairs, and for residuals.
PAIRS, ERRORS = (16, 192), (64, 1024)
#: The squares of the figure along an axis, and the bars of the other figure.
SQUARES, BARS = 36, 41
#: How many groups of rows the curve of mean labels has at most, and the fewest rows of one.
GROUPS, FEWEST = 15, 20.0
#: The part of the rows that the figures show; the rest is far away.
CENTRAL = 0.99
#: The sums that are kept: of weights, and of weights times these. Labels are measured from their middle, and all in
#: units of their spread, so that squares stay within float64.
SUMS = ("weight", "label", "label^2", "error", "abs(error)", "error^2")


class Residuals:
    """Labels, predictions and their differences, binned around the middle of the first labels.

    >>> residuals = Residuals()
    >>> residuals.add(np.array([1.0, 2.0]), np.array([1.0, 4.0]), np.ones(2))
    >>> residuals.mean_error, residuals.mean_absolute, round(residuals.r_squared, 3)
    (1.0, 1.0, 0.111)
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}

    def prepare(self, labels: Spread, errors: Spread) -> None:
        """Make the bins."""
        self.arrays = {
            "anchors": np.array([labels.middle, labels.scale, errors.scale]),
            "pairs": np.zeros((labels.bins, labels.bins)),
            "errors": np.zeros(errors.bins),
            "sums": np.zeros(len(SUMS)),
        }

    def shaped(self, anchors: Array) -> None:
        """Make the bins of a state."""
        middle, scale, errors = anchors.tolist()
        self.prepare(Spread(middle, scale, *PAIRS), Spread(0.0, errors, *ERRORS))

    @property
    def labels(self) -> Spread:
        """The bins of labels and of predictions."""
        middle, scale, _ = self.arrays["anchors"].tolist()
        return Spread(middle, scale, *PAIRS)

    @property
    def errors(self) -> Spread:
        """The bins of residuals."""
        return Spread(0.0, float(self.arrays["anchors"][2]), *ERRORS)

    def add(self, predictions: Array, labels: Array, weights: Array) -> None:
        """Add rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            errors = labels - predictions
            if not self.arrays:
                self.prepare(Spread.of(labels, *PAIRS), Spread.of(errors, *ERRORS, middle=0.0))
            bins = self.labels
            which = bins.of_values(predictions) * bins.bins + bins.of_values(labels)
            self.arrays["pairs"] += np.bincount(which, weights, bins.bins**2).reshape(bins.bins, -1)
            self.arrays["errors"] += np.bincount(self.errors.of_values(errors), weights, self.errors.bins)
            away, errors = (labels - bins.middle) / bins.scale, errors / bins.scale
            terms = (np.ones(len(away)), away, away * away, errors, np.abs(errors), errors * errors)
            # Not by BLAS, whose threads would take the processors from the reader.
            self.arrays["sums"] += [float((weights * each).sum()) for each in terms]

    def _mean(self, name: str) -> float:
        return float(self.arrays["sums"][SUMS.index(name)] / self.arrays["sums"][0])

    @property
    def mean_error(self) -> float:
        """The mean of label minus prediction."""
        return self.labels.scale * self._mean("error")

    @property
    def mean_absolute(self) -> float:
        """The mean absolute residual."""
        return self.labels.scale * self._mean("abs(error)")

    @property
    def root_mean_square(self) -> float:
        """The root of the mean squared residual."""
        return self.labels.scale * math.sqrt(self._mean("error^2"))

    @property
    def r_squared(self) -> float:
        """One minus the mean squared residual over the variance of the labels; NaN where all labels are the same."""
        variance = self._mean("label^2") - self._mean("label") * self._mean("label")
        return 1.0 - self._mean("error^2") / variance if variance > 0.0 else math.nan


def _central(edges: Array, counts: Array) -> tuple[float, float]:
    """The range that holds most rows, a little widened."""
    low, high = quantiles(edges, counts, ((1.0 - CENTRAL) / 2.0, (1.0 + CENTRAL) / 2.0))
    wider = 0.03 * (high - low) or 0.5 * abs(high) or 1.0
    return low - wider, high + wider


def _mean_labels(residuals: Residuals) -> tuple[Array, Array]:
    """The mean prediction and the mean label in groups of rows with similar predictions, of about the same size."""
    bins, pairs = residuals.labels, residuals.arrays["pairs"]
    middle, weight = 0.5 * (bins.edges[1:] + bins.edges[:-1]), pairs.sum(axis=1)
    groups = int(np.clip(weight.sum() / FEWEST, 1, GROUPS))
    part = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    group = np.minimum((part * groups).astype(np.int64), groups - 1)
    total, predicted, label = (np.bincount(group, each, groups) for each in (weight, weight * middle, pairs @ middle))
    there = total > 0.0
    return predicted[there] / total[there], label[there] / total[there]


def draw_pairs(residuals: Residuals) -> tuple[str, str]:
    """Predictions against labels as SVG text, and in words."""
    bins, pairs = residuals.labels, residuals.arrays["pairs"]
    low, high = _central(bins.edges, pairs.sum(axis=0) + pairs.sum(axis=1))
    squares = int(np.clip(math.sqrt(residuals.arrays["sums"][0]), 12, SQUARES))
    edges = np.linspace(low, high, squares + 1)
    move = bins.onto(edges)
    counts = move @ pairs @ move.T
    chart = Chart(Axis(low, high, "predicted"), Axis(low, high, "label"))
    # Steps of darkness, with neighbours of the same step in one box: a small file.
    steps = np.ceil(7.0 * np.sqrt(counts / max(counts.max(), 1e-300)) - 1e-9) / 7.0
    for a in range(squares):
        begin = 0
        for b in range(1, squares + 1):
            if b == squares or steps[a, b] != steps[a, begin]:
                if steps[a, begin] > 0.15:
                    x, y = (edges[a], edges[a + 1]), (edges[begin], edges[b])
                    chart.box(x, y, "f1", opacity=float(steps[a, begin]))
                begin = b
    chart.line([low, high], [low, high], "even", "as predicted")
    at, mean = _mean_labels(residuals)
    chart.line(at, mean, "s2", "mean label")
    words = f"Labels against predictions, from {short(low)} to {short(high)}."
    if not math.isnan(residuals.r_squared):
        words += f" R squared {number(residuals.r_squared)}."
    return chart.svg(), words


def draw_errors(residuals: Residuals) -> tuple[str, str]:
    """The distribution of residuals as SVG text, and in words."""
    bins, counts = residuals.errors, residuals.arrays["errors"]
    low, high = _central(bins.edges, counts)
    far = max(abs(low), abs(high))
    if far < 1.5 * min(abs(low), abs(high)):  # about symmetric: a bar in the middle is centred at 0
        low, high = -far, far
    edges = np.linspace(low, high, BARS + 1)
    shares = bins.onto(edges) @ counts / counts.sum()
    chart = Chart(Axis(low, high, "label minus prediction"), Axis(0.0, 1.08 * float(shares.max()), "share of the rows"))
    for k, share in enumerate(shares.tolist()):
        note = f"{short(edges[k])} to {short(edges[k + 1])}: {share:.2%}"
        chart.box((edges[k], edges[k + 1]), (0.0, share), "f1 bar", note)
    if low < 0.0 < high:
        chart.line([0.0, 0.0], [0.0, 1.08 * float(shares.max())], "even")
    some: Any = quantiles(bins.edges, counts, (0.05, 0.25, 0.5, 0.75, 0.95))
    words = "Distribution of label minus prediction. " + ", ".join(
        f"{name} {short(value)}" for name, value in zip(("5%", "25%", "median", "75%", "95%"), some, strict=True)
    )
    return chart.svg(), words + "."
