"""What repetitions say together: means, confidence intervals, the best beta, and how much it matters."""

import csv
import io
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require

__all__ = ["Range", "Summary"]

Array = NDArray[np.float64]

#: A beta is as good as the best one when its loss is within this share of the best loss.
TOLERANCE = 0.05


class Range(NamedTuple):
    """Betas whose loss is within 5% of the best; an open end reaches the end of the grid.

    >>> Range(0.1, 1000.0, False, True).decades, str(Range(0.1, 1000.0, False, True))
    (4.0, '0.1 to 1e+03 or more')
    """

    low: float
    high: float
    open_low: bool
    open_high: bool

    @property
    def decades(self) -> float:
        """The width of the range in powers of ten: wide is robust, narrow is sensitive."""
        return math.log10(self.high / self.low)

    def __str__(self) -> str:
        low, high = f"{self.low:.2g}", f"{self.high:.2g}"
        return f"{low}{' or less' if self.open_low else ''} to {high}{' or more' if self.open_high else ''}"


@dataclass(frozen=True)
class Summary:
    """The average losses of repeated runs of a grid.

    Attributes:
        names: of the curves.
        betas: of the grid.
        runs: the loss of each repetition, curve and beta.

    >>> runs = np.array([[[4.0, 1.0, 2.0]], [[4.0, 3.0, 2.0]]])
    >>> summary = Summary(("proximal",), (0.1, 1.0, 10.0), runs)
    >>> summary.mean[0], summary.best_beta(0), summary.best_loss(0)
    (array([4., 2., 2.]), 1.0, 2.0)
    >>> summary.at(0, 0.1 * 10**0.5), summary.at(0, 10.0), summary.at(0, 100.0)
    (3.0, 2.0, nan)
    """

    names: tuple[str, ...]
    betas: tuple[float, ...]
    runs: Array

    def __post_init__(self) -> None:
        shape = (len(self.runs), len(self.names), len(self.betas))
        require(self.runs.shape == shape and shape[0] > 0, "runs", self.runs.shape, f"must be {shape}", "run it again")

    @property
    def repetitions(self) -> int:
        """How many runs there are of each model."""
        return len(self.runs)

    @property
    def mean(self) -> Array:
        """The mean loss of each curve (rows) at each beta."""
        return np.asarray(self.runs.mean(axis=0))

    @property
    def half_width(self) -> Array:
        """Half the width of the 95% confidence interval of the mean (Student's t); NaN where it is not defined."""
        from scipy.stats import t

        if self.repetitions < 2:
            return np.full(self.mean.shape, np.nan)
        with np.errstate(invalid="ignore"):  # infinite losses have no spread
            spread = self.runs.std(axis=0, ddof=1) / math.sqrt(self.repetitions)
        return np.asarray(t.ppf(0.975, self.repetitions - 1) * spread)

    def curve(self, name: str) -> int:
        """The row of a curve."""
        return self.names.index(name)

    def best_beta(self, k: int) -> float:
        """The beta of least mean loss."""
        return self.betas[int(np.argmin(self.mean[k]))]

    def best_loss(self, k: int) -> float:
        """The least mean loss."""
        return float(self.mean[k].min())

    def at(self, k: int, beta: float) -> float:
        """The mean loss at a beta, on a straight line between two betas of the grid; NaN outside the grid."""
        if not self.betas[0] <= beta <= self.betas[-1] * (1.0 + 1e-12):
            return math.nan
        here = max(0, min(int(np.searchsorted(self.betas, beta * (1.0 + 1e-12))) - 1, len(self.betas) - 2))
        low, high = self.mean[k, here], self.mean[k, min(here + 1, len(self.betas) - 1)]
        if len(self.betas) == 1 or low == high:
            return float(low)
        share = math.log(beta / self.betas[here]) / math.log(self.betas[here + 1] / self.betas[here])
        if share <= 1e-9 or share >= 1.0 - 1e-9:
            return float(low if share <= 1e-9 else high)
        return float(low + share * (high - low))

    def good_range(self, k: int) -> Range:
        """The betas around the best one within 5% of its loss; between two betas of the grid, on a straight line."""
        mean, at = self.mean[k], int(np.argmin(self.mean[k]))
        limit = (1.0 + TOLERANCE) * mean[at]
        log_beta = np.log10(self.betas)

        def walk(step: int) -> tuple[float, bool]:
            here = at
            while 0 <= here + step < len(mean):
                there = here + step
                if not mean[there] <= limit:
                    rise = mean[there] - mean[here]
                    share = 0.0 if math.isinf(rise) else (limit - mean[here]) / rise
                    return float(10.0 ** (log_beta[here] + share * (log_beta[there] - log_beta[here]))), False
                here = there
            return self.betas[here], True

        (low, open_low), (high, open_high) = walk(-1), walk(1)
        return Range(low, high, open_low, open_high)

    def csv(self) -> str:
        """The table of means, one line for each curve and beta."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(("curve", "beta", "mean", "half_width_95", "repetitions"))
        mean, half = self.mean, self.half_width
        for k, name in enumerate(self.names):
            for j, beta in enumerate(self.betas):
                lines.writerow(
                    (name, f"{beta:.6g}", repr(float(mean[k, j])), repr(float(half[k, j])), self.repetitions)
                )
        return text.getvalue()
