"""The learning curve: the loss of predictions made before each label was used, by the number of rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import BestLoss
from giftrl.reports.run.svg import Axis, Chart
from giftrl.reports.run.words import amount

Array = NDArray[np.float64]

#: How many points there are each time the number of rows doubles.
PER_OCTAVE = 4
#: The numbers of rows at which there is a point, from 1 to 2^50.
ENDS = np.unique(np.ceil(2.0 ** (np.arange(50 * PER_OCTAVE + 1) / PER_OCTAVE)).astype(np.int64))
#: The first point that is drawn of a long run, and the first one of the loss of the last rows: the losses of few rows
#: say little.
FIRST, FEW = 16, 128


class Points(NamedTuple):
    """A learning curve: at each number of rows the mean loss of all of them, and of the last quarter or so."""

    rows: NDArray[np.int64]
    average: Array
    recent: Array


class Curve:
    """Sums of losses and weights between points that are evenly spaced on a logarithmic axis.

    Args:
        start: how many rows were learnt before.

    >>> curve = Curve()
    >>> curve.add(np.array([3.0, 1.0, 2.0, 2.0]), np.ones(4), np.ones(4))
    >>> curve.points.rows.tolist(), curve.points.average.tolist()
    ([1, 2, 3, 4], [3.0, 2.0, 2.0, 2.0])
    """

    def __init__(self, start: int = 0) -> None:
        self.arrays = {
            "loss": np.zeros(len(ENDS)), "weight": np.zeros(len(ENDS)), "rows": np.array([start, start], np.float64),
        }  # fmt: skip

    @property
    def start(self) -> int:
        """How many rows were learnt before the first point."""
        return int(self.arrays["rows"][0])

    @property
    def rows(self) -> int:
        """How many rows were learnt in all."""
        return int(self.arrays["rows"][1])

    def add(self, losses: Array, weights: Array, standing_for: Array) -> None:
        """Add the losses of the next rows.

        Args:
            losses, weights: one for each row.
            standing_for: how many rows each row stands for, itself included.
        """
        last = self.rows + np.cumsum(standing_for)
        cuts = np.searchsorted(last, ENDS[:-1] + 0.5)  # the first row beyond each point
        for name, values in (("loss", losses * weights * standing_for), ("weight", weights * standing_for)):
            total = np.concatenate([[0.0], np.cumsum(values)])
            self.arrays[name] += np.diff(total[cuts], prepend=0.0, append=total[-1])
        self.arrays["rows"][1] = last[-1] if len(last) else self.rows

    @property
    def points(self) -> Points:
        """The curve so far."""
        loss, weight = self.arrays["loss"], self.arrays["weight"]
        done = slice(int(np.searchsorted(ENDS, self.start, side="right")), int(np.searchsorted(ENDS, self.rows)) + 1)
        if self.rows == self.start:
            done = slice(0)
        rows = np.minimum(ENDS[done], self.rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            average = (np.cumsum(loss) / np.cumsum(weight))[done]
            recent = (loss + _before(loss)) / (weight + _before(weight))
        recent = np.where(rows - self.start >= min(FEW, (self.rows - self.start) // 2), recent[done], np.nan)
        return Points(rows, average, recent)


def _before(sums: Array) -> Array:
    return np.concatenate([[0.0], sums[:-1]])


def draw(points: Points, loss: str, best: BestLoss | None) -> tuple[str, str]:
    """The learning curve as SVG text, and what it shows in words.

    Args:
        points: with at least one of them.
        loss: its name.
        best: what is proved out of reach, or None.
    """
    rows, average, recent = (np.asarray(each, float) for each in points)
    seen = np.isfinite(average) & (rows >= min(FIRST, rows[-1] / 4.0))
    rows, average, recent = rows[seen], average[seen], recent[seen]
    settled = rows >= rows[-1] / 50.0  # the first losses may be far above those that follow
    shown = np.concatenate([average[settled], recent[settled & np.isfinite(recent)]])
    proved = best is not None and best.lower_bound > best.least
    bound = best.average if best is not None and proved else np.nan
    low, high = float(np.nanmin([*shown, bound])), float(np.nanmax([*shown, bound]))
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    low, high = (0.0 if 0.0 <= low <= 0.4 * high else low - (3.0 * margin if proved else margin)), high + margin
    # An axis of one point would have no length.
    chart = Chart(
        Axis(min(rows[0], rows[-1] / 2.0), rows[-1], "rows learnt", log=True), Axis(low, high, f"{loss} loss")
    )
    if proved:
        ends = (chart.x.low, chart.x.high)
        chart.box(ends, (low, bound), "beyond")
        chart.box(ends, (low, bound), "hatched")
        chart.line(ends, (bound, bound), "bound", "certified best")
        chart.words(chart.x.low, low, "proved out of reach", "beyond-words", lower=-8.0)
    there = np.isfinite(recent)
    if there.any():
        chart.line(rows[there], recent[there], "s2 thin", "last quarter of the rows")
    chart.line(rows, average, "s1", "average")
    notes = [f"{int(n):,} rows: average {amount(a)}" for n, a in zip(rows, average, strict=True)]
    chart.dots(rows, average, "s1", notes, 2.2)
    words = f"Average {loss} loss by the number of rows: " + ", ".join(
        f"{amount(float(average[k]))} after {int(rows[k]):,}" for k in sorted({0, len(rows) // 2, len(rows) - 1})
    )
    if proved:
        words += f"; certified best {amount(float(bound))}"
    return chart.svg(), words + "."
