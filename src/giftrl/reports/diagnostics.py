"""Figures and tables about the predictions of a run: learning curve, ROC, calibration, residuals, confusion, weights.

Each class computes a figure's numbers from stored rows; ``draw`` returns SVG and a description.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import BestLoss, Certificate
from giftrl.reports.charts import Axis, Chart
from giftrl.reports.page import Cell, table
from giftrl.reports.record import POINT_ROWS, Record
from giftrl.reports.wording import amount, number, printable, short, signed

Array = NDArray[np.float64]
#: SVG text, and a description of the figure.
Drawing = tuple[str, str]

#: The first points of a long curve and of its recent mean, since few rows are too noisy.
MIN_CURVE_ROWS, MIN_RECENT_ROWS = 16, 128
#: The largest number of groups of rows in a figure, and the fewest rows of a group.
MAX_GROUPS, MIN_GROUP_ROWS = 12, 20.0
#: Half the width of a 95% interval of a normal distribution, in standard deviations.
NORMAL_95 = 1.96
#: The largest number of points of a ROC curve in the page.
MAX_ROC_POINTS = 400
#: The share of rows shown in figures of residuals, without outliers.
CENTRAL_SHARE = 0.99
#: The largest number of squares along an axis, and the number of bars.
MAX_SQUARES, ERROR_BARS = 36, 41
#: Sums of numbers up to this size stay within float64.
LARGEST_NUMBER = 4e307
#: The number of classes in the confusion table, base learners with a colour, and weights in the table.
SHOWN_CLASSES, NAMED_LEARNERS, SHOWN_WEIGHTS = 8, 5, 25


class LearningCurve(NamedTuple):
    """The mean loss of all rows and of the last quarter or so, at some numbers of rows."""

    rows: Array
    average: Array
    recent: Array

    @classmethod
    def of(cls, record: Record, losses: Array) -> "LearningCurve":
        """The curve of a record with at least one row, whose kept rows have these losses."""
        end = record.start + record.rows
        rows = np.append(POINT_ROWS[(record.start < POINT_ROWS) & (end > POINT_ROWS)], end)
        weights = record.weights * record.standing_for
        cuts = np.searchsorted(record.numbers, rows - 0.5)
        loss, weight = (np.append(0.0, np.cumsum(values))[cuts] for values in (losses * weights, weights))
        with np.errstate(divide="ignore", invalid="ignore"):
            average = loss / weight
            # From the point before the last on: the points are a quarter of a doubling apart.
            recent = np.divide(*(sums - np.concatenate([[0.0, 0.0], sums])[: len(sums)] for sums in (loss, weight)))
        seen = rows - record.start >= min(MIN_RECENT_ROWS, record.rows // 2)
        return cls(rows.astype(np.float64), average, np.where(seen, recent, np.nan))

    def draw(self, loss: str, best: BestLoss | None) -> Drawing:
        """Draw the curve of a loss of that name, with a lower bound on the loss of linear models if there is one."""
        rows, average, recent = self
        seen = np.isfinite(average) & (rows >= min(MIN_CURVE_ROWS, rows[-1] / 4.0))
        rows, average, recent = rows[seen], average[seen], recent[seen]
        settled = rows >= rows[-1] / 50.0  # the first losses may be outliers
        shown = np.concatenate([average[settled], recent[settled & np.isfinite(recent)]])
        proved = best is not None and best.lower_bound > best.least
        bound = best.average if best is not None and proved else np.nan
        low, high = float(np.nanmin([*shown, bound])), float(np.nanmax([*shown, bound]))
        margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
        low, high = (0.0 if 0.0 <= low <= 0.4 * high else low - (3.0 * margin if proved else margin)), high + margin
        # An axis of one point would have no length.
        x = Axis(min(rows[0], rows[-1] / 2.0), rows[-1], "examples learned", log=True)
        chart = Chart(x, Axis(low, high, f"{loss} loss"))
        if proved:
            chart.box((x.low, x.high), (low, bound), "beyond")
            chart.box((x.low, x.high), (low, bound), "hatched")
            chart.line((x.low, x.high), (bound, bound), "bound", "lower bound")
            chart.words(x.low, low, "proved out of reach", "beyond-words", lower=-8.0)
        there = np.isfinite(recent)
        if there.any():
            chart.line(rows[there], recent[there], "s2 thin", "last quarter of the examples")
        chart.line(rows, average, "s1", "average")
        notes = [f"{int(n):,} examples: average {amount(a)}" for n, a in zip(rows, average, strict=True)]
        chart.dots(rows, average, "s1", notes, 2.2)
        words = f"Average {loss} loss by the number of examples: " + ", ".join(
            f"{amount(float(average[k]))} after {int(rows[k]):,}" for k in sorted({0, len(rows) // 2, len(rows) - 1})
        )
        return chart.svg(), words + (f"; lower bound {amount(float(bound))}." if proved else ".")


def draw_shares(notes: Sequence[tuple[int, dict[str, float]]]) -> Drawing:
    """Draw the shares of base learners by the number of rows."""
    last = notes[-1][1]
    names = sorted(
        dict.fromkeys(name for _, shares in notes for name in shares), key=lambda name: -abs(last.get(name, 0.0))
    )
    rows = np.array([after for after, _ in notes], float)
    shares = {name: np.array([each.get(name, np.nan) for _, each in notes]) for name in names}
    # The first shares are noisy.
    settled = rows >= min(float(MIN_CURVE_ROWS), rows[-1])
    values = np.concatenate([each[settled] for each in shares.values()])
    low, high = min(0.0, float(np.nanmin(values))), max(0.0, float(np.nanmax(values)))
    margin = 0.05 * (high - low) or 0.5
    y = Axis(low - margin if low < 0.0 else 0.0, high + margin, "share of the prediction")
    chart = Chart(Axis(min(rows[settled][0], rows[-1] / 2.0), rows[-1], "examples learned", log=True), y)
    chart.line([chart.x.low, chart.x.high], [0.0, 0.0], "zero")
    for k, name in reversed(list(enumerate(names))):  # the largest share on top
        known = settled & np.isfinite(shares[name])
        chart.line(rows[known], shares[name][known], f"s{k + 1}" if k < NAMED_LEARNERS else "other")
    chart.legend += [(name, f"s{k + 1}") for k, name in enumerate(names[:NAMED_LEARNERS])]
    chart.legend += [("others", "other")] if len(names) > NAMED_LEARNERS else []
    largest = ", ".join(f"{name} {number(float(shares[name][-1]), 3)}" for name in names[:3])
    return chart.svg(), f"Shares of {len(names)} base learners by the number of examples. At the end: {largest}."


def group_means(weights: Array, rows: float, *values: Array) -> list[Array]:
    """Total weights and weighted means over consecutive groups of about the same weight.

    The points are in order, and the number of ``rows`` behind them limits the number of groups.

    >>> [each.tolist() for each in group_means(np.ones(4), 40.0, np.array([1.0, 2.0, 3.0, 5.0]))]
    [[2.0, 2.0], [1.5, 4.0]]
    """
    groups = int(np.clip(rows / MIN_GROUP_ROWS, 1, MAX_GROUPS))
    middle = (np.cumsum(weights) - 0.5 * weights) / weights.sum()
    group = np.minimum((middle * groups).astype(np.int64), groups - 1)
    total = np.bincount(group, weights, groups).astype(np.float64)
    kept = total > 0.0
    return [total[kept], *(np.bincount(group, weights * each, groups)[kept] / total[kept] for each in values)]


class Ranking:
    """Scores of binary outcomes: ROC curve, accuracy, and calibration of probabilities.

    Args:
        scores: of rows with positive weights.
        positive: True for the outcome of large scores.
        weights: of the rows.

    Attributes:
        effective_rows: the effective sample size: the equivalent number of rows of equal weight.
        both: True if both outcomes occurred.
        roc: the rates of false and of true positives, for each threshold from the highest to the lowest.
        share_at_ends: the share of rows with the lowest or the highest score, which is large if scores are clipped.
        at_zero: weights of true negatives, false positives, false negatives and true positives at the threshold 0.

    >>> ranking = Ranking(np.array([2.0, 1.0, -1.0, 1.5]), np.array([True, True, False, False]), np.ones(4))
    >>> ranking.auc, ranking.accuracy
    (0.75, 0.75)
    """

    def __init__(self, scores: Array, positive: NDArray[np.bool_], weights: Array) -> None:
        self.values, places = np.unique(scores, return_inverse=True)
        of_outcome = [np.where(positive, weights, 0.0), np.where(positive, 0.0, weights)]
        self.positive, self.negative = (
            np.bincount(places, each, len(self.values)).astype(np.float64) for each in of_outcome
        )
        self.weights: Array = self.negative + self.positive
        self.effective_rows = weights.sum() ** 2 / (weights * weights).sum()
        self.both = bool(self.negative.any() and self.positive.any())
        with np.errstate(invalid="ignore"):
            false, true = (np.append(0.0, np.cumsum(w[::-1])) / w.sum() for w in (self.negative, self.positive))
        self.roc = false, true
        self.auc = float(np.sum(np.diff(false) * (true[1:] + true[:-1])) / 2.0)
        self.share_at_ends = float(self.weights[np.unique([0, len(self.weights) - 1])].sum() / self.weights.sum())
        above = self.values > 0.0
        self.at_zero = [float(w[part].sum()) for w in (self.negative, self.positive) for part in (~above, above)]
        self.accuracy = (self.at_zero[0] + self.at_zero[3]) / sum(self.at_zero)

    def draw(self, name: str) -> Drawing:
        """Draw the ROC curve; ``name`` is the outcome of large scores."""
        false, true = self.roc
        if len(false) > MAX_ROC_POINTS:
            evenly = np.linspace(0.0, 2.0, MAX_ROC_POINTS)
            keep = np.unique(np.searchsorted(false + true, evenly).clip(0, len(false) - 1))
            false, true = false[keep], true[keep]
        chart = Chart(Axis(0.0, 1.0, "false positive rate"), Axis(0.0, 1.0, "true positive rate"))
        chart.box((0.0, 1.0), (0.0, 0.0), "zero")
        chart.line([0.0, 1.0], [0.0, 1.0], "even", "by chance")
        chart.line([0.0, *false, 1.0], [0.0, *true, 1.0], "s1", f"AUC {number(self.auc)}")
        right, false_alarms, missed, hit = self.at_zero
        at = false_alarms / (right + false_alarms), hit / (missed + hit)
        note = f"At the threshold 0: true positive rate {at[1]:.1%}, false positive rate {at[0]:.1%}"
        chart.dots([at[0]], [at[1]], "s2", [note], 5.0)
        chart.words(*at, "threshold 0", "", "start" if at[0] < 0.7 else "end", 20.0)
        return chart.svg(), f"ROC curve of the label {name}. The area under it is {number(self.auc)}. {note}."

    def draw_calibration(self, probabilities: Array, what: str, event: str) -> Drawing:
        """Draw the observed frequency of an event against probabilities of the values of scores, in groups of rows."""
        weights = self.weights
        total, predicted, observed = group_means(weights, self.effective_rows, probabilities, self.positive / weights)
        # The interval of Wilson (1927), which stays within 0 and 1.
        n = total * self.effective_rows / weights.sum()
        z = NORMAL_95 * NORMAL_95 / n
        centre = (observed + z / 2.0) / (1.0 + z)
        half = np.sqrt(z * observed * (1.0 - observed) + z * z / 4.0) / (1.0 + z)
        low, high = (float(pick([*predicted, *ends])) for pick, ends in ((min, centre - half), (max, centre + half)))
        low, high = (0.0 if low < 0.35 else low - 0.03), (1.0 if high > 0.7 else 1.05 * high)
        chart = Chart(Axis(low, high, what), Axis(low, high, event))
        chart.line([low, high], [low, high], "even", "as predicted")
        for p, c, h in zip(predicted, centre, half, strict=True):
            chart.line([p, p], [c - h, c + h], "s1 thin")
        groups = zip(total.tolist(), predicted.tolist(), observed.tolist(), strict=True)
        notes = [f"predicted {p:.2%}, observed {o:.2%} of {round(w):,}" for w, p, o in groups]
        chart.line(predicted, observed, "s1", "observed, with 95% intervals")
        chart.dots(predicted, observed, "s1", notes)
        return chart.svg(), f"Calibration in {len(notes)} groups of about the same size: " + "; ".join(notes) + "."


class Confusion(NamedTuple):
    """The class, the predicted class and the weight of each row.

    >>> Confusion(np.array([0, 1, 2, 2]), np.array([0, 1, 1, 2]), np.ones(4), 3).accuracy
    0.75
    """

    codes: NDArray[np.int64]
    predicted: NDArray[np.int64]
    weights: Array
    classes: int

    @property
    def accuracy(self) -> float:
        """The share of rows whose class was predicted."""
        return float(self.weights[self.codes == self.predicted].sum() / self.weights.sum())

    @property
    def most_frequent(self) -> float:
        """The accuracy of predicting the most frequent class for every row."""
        return float(np.bincount(self.codes, self.weights).max() / self.weights.sum())

    def table(self, names: Sequence[str]) -> str:
        """The most frequent classes as an HTML table."""
        true = np.bincount(self.codes, self.weights, self.classes)
        order = np.argsort(-true, kind="stable")[: SHOWN_CLASSES if self.classes > SHOWN_CLASSES + 1 else self.classes]
        order = order[true[order] > 0.0]
        order = np.sort(order) if len(order) == self.classes else order
        rest = len(order) < self.classes
        whole = bool((true == np.rint(true)).all())

        def text(weight: float) -> str:
            return f"{round(weight):,}" if whole else f"{weight:,.4g}"

        rows: list[list[str | Cell]] = []
        for k in order.tolist():
            mine = self.codes == k
            taken_for = np.bincount(self.predicted[mine], self.weights[mine], self.classes)
            shown = taken_for[order].tolist() + ([float(taken_for.sum() - taken_for[order].sum())] if rest else [])
            cells: list[str | Cell] = [names[k], text(true[k]), f"{taken_for[k] / true[k]:.1%}"]
            rows.append(cells + [Cell(text(each), shade=each / true[k]) for each in shown])
        heads = ["label", "examples", "recall", *(f"→ {names[k]}" for k in order), *(["→ others"] if rest else [])]
        count = f"The {len(order)} most frequent of {self.classes:,} classes" if rest else "All classes"
        return table(f"{count}: the number of examples, the recall, and the predictions", heads, rows)


class Residuals:
    """Labels and predictions of a regression target, of rows with positive weights.

    ``mean_error`` is the mean of label minus prediction. ``r_squared`` is one minus the mean squared residual over the
    variance of the labels; NaN if all labels are the same.

    >>> residuals = Residuals(np.array([1.0, 2.0]), np.array([1.0, 4.0]), np.ones(2))
    >>> residuals.mean_error, residuals.mean_absolute, round(residuals.r_squared, 3)
    (1.0, 1.0, 0.111)
    """

    def __init__(self, predictions: Array, labels: Array, weights: Array) -> None:
        self.predictions, self.labels = (
            np.nan_to_num(each).clip(-LARGEST_NUMBER, LARGEST_NUMBER) for each in (predictions, labels)
        )
        self.weights = weights
        self.errors = self.labels - self.predictions
        self.mean_error, self.mean_absolute = self._mean(self.errors), self._mean(np.abs(self.errors))
        self.root_mean_square = self._mean(self.errors, 2)
        centred = self.labels / 2.0 - self.labels[0] / 2.0
        deviation = 2.0 * self._mean(centred - self._mean(centred), 2)
        ratio = self.root_mean_square / deviation if deviation > 0.0 else math.nan
        self.r_squared = 1.0 - ratio * ratio

    def _mean(self, values: Array, power: int = 1) -> float:
        """The weighted mean, or the root of the mean square; in units in which squares stay within float64."""
        unit = float(np.abs(values).max()) or 1.0
        # Without BLAS, whose threads would compete with the reader.
        mean = float(((values / unit) ** power * self.weights).sum() / self.weights.sum())
        return unit * (mean if power == 1 else math.sqrt(mean))

    def quantiles(self, values: Array, levels: Sequence[float], weights: Array | None = None) -> list[float]:
        """Weighted quantiles."""
        order = np.argsort(values)
        total = np.cumsum((self.weights if weights is None else weights)[order])
        places = np.searchsorted(total, np.array(levels) * total[-1]).clip(0, len(values) - 1)
        return [float(each) for each in values[order[places]]]

    def _central(self, values: Array, weights: Array | None = None) -> tuple[float, float]:
        """The range of the central rows, slightly widened."""
        low, high = self.quantiles(values, ((1.0 - CENTRAL_SHARE) / 2.0, (1.0 + CENTRAL_SHARE) / 2.0), weights)
        wider = 0.03 * (high - low) or 0.5 * abs(high) or 1.0
        wider = max(wider, 1e-9 * max(abs(low), abs(high)))  # or else the ticks would be the same number
        return low - wider, high + wider

    def draw_pairs(self) -> Drawing:
        """Draw predictions against labels."""
        low, high = self._central(np.append(self.predictions, self.labels), np.append(self.weights, self.weights))
        squares = int(np.clip(math.sqrt(len(self.weights)), 12, MAX_SQUARES))
        edges = np.linspace(low, high, squares + 1)
        counts = np.histogram2d(self.predictions, self.labels, (edges, edges), weights=self.weights)[0]
        chart = Chart(Axis(low, high, "predicted"), Axis(low, high, "label"))
        # Quantise darkness and merge equal neighbours, for a small file.
        steps = np.ceil(7.0 * np.sqrt(counts / max(counts.max(), 1e-300)) - 1e-9) / 7.0
        for left, right, column in zip(edges, edges[1:], steps, strict=False):
            cuts = [0, *(np.flatnonzero(np.diff(column)) + 1), squares]
            for begin, end in pairwise(cuts):
                if column[begin] > 0.15:
                    chart.box((left, right), (edges[begin], edges[end]), "f1", opacity=float(column[begin]))
        chart.line([low, high], [low, high], "even", "as predicted")
        order = np.argsort(self.predictions, kind="stable")
        unit = max(abs(low), abs(high))
        points = (each[order].clip(low, high) / unit for each in (self.predictions, self.labels))
        _, predicted, label = group_means(self.weights[order], float(len(order)), *points)
        chart.line(predicted * unit, label * unit, "s2", "mean label")
        words = f"Labels against predictions, from {short(low)} to {short(high)}."
        return chart.svg(), words + ("" if math.isnan(self.r_squared) else f" R squared {number(self.r_squared)}.")

    def draw_errors(self) -> Drawing:
        """Draw the distribution of residuals."""
        low, high = self._central(self.errors)
        far = max(abs(low), abs(high))
        if far < 1.5 * min(abs(low), abs(high)):  # about symmetric: a bar in the middle is centred at 0
            low, high = -far, far
        edges = np.linspace(low, high, ERROR_BARS + 1)
        shares = np.histogram(self.errors, edges, weights=self.weights)[0] / self.weights.sum()
        top = 1.08 * float(shares.max())
        chart = Chart(Axis(low, high, "label minus prediction"), Axis(0.0, top, "share of the examples"))
        for k, share in enumerate(shares.tolist()):
            note = f"{short(edges[k])} to {short(edges[k + 1])}: {share:.2%}"
            chart.box((edges[k], edges[k + 1]), (0.0, share), "f1 bar", note)
        if low < 0.0 < high:
            chart.line([0.0, 0.0], [0.0, top], "even")
        values = self.quantiles(self.errors, (0.05, 0.25, 0.5, 0.75, 0.95))
        pairs = zip(("5%", "25%", "median", "75%", "95%"), values, strict=True)
        words = ", ".join(f"{name} {short(value)}" for name, value in pairs)
        return chart.svg(), f"Distribution of label minus prediction. {words}."


class FeatureWeight(NamedTuple):
    """A weight, the standard deviation of its feature (NaN if unknown), and the class that it counts for."""

    name: str
    weight: float
    deviation: float
    of: str = ""


def deviations(certificate: Certificate) -> Array | None:
    """The standard deviation of each feature, from the sums of a certificate; None without these sums."""
    evidence = certificate.evidence
    if evidence is None or not evidence.weight > 0.0:
        return None
    result = np.zeros(len(evidence.model))
    with np.errstate(over="ignore", invalid="ignore"):
        mean, square = evidence.sums / evidence.weight, evidence.squares / evidence.weight
        variance = square - mean * mean
    # The difference of numbers that are equal to 12 digits is rounding.
    variance = np.where(variance > 1e-12 * square, variance, 0.0)
    result[evidence.features] = np.sqrt(np.nan_to_num(variance, posinf=0.0))
    return result


def weights_table(weights: Sequence[FeatureWeight]) -> str:
    """The table of weights, in the given order."""
    known = any(not math.isnan(each.deviation) for each in weights)
    classes = any(each.of for each in weights)
    effects = [each.weight * each.deviation if known else each.weight for each in weights]
    largest = max((abs(effect) for effect in effects), default=1.0) or 1.0
    rows = []
    for each, effect in zip(weights, effects, strict=True):
        row: list[str | Cell] = [printable(each.name), *([printable(each.of, 40)] if classes else [])]
        row += [signed(each.weight), amount(each.deviation)] if known else []
        rows.append([*row, Cell(signed(effect), bar=effect / largest)])
    heads = ["feature", *(["class"] if classes else []), "weight"]
    heads += ["standard deviation", "weight times deviation"] if known else []
    what = "The largest weights by what one standard deviation of the feature adds to the score"
    return table(what if known else "The largest weights", heads, rows, text=[1] if classes else [])
