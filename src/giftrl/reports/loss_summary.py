"""The losses of repeated runs: means, confidence intervals, the best beta, and the range of good betas."""

import csv
import io
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require
from giftrl.reports.wording import number

Array = NDArray[np.float64]

#: A beta is good if its loss exceeds the lowest loss by at most this share.
GOOD_BETA_TOLERANCE = 0.05


class Range(NamedTuple):
    """The betas whose loss is within 5% of the lowest loss.

    An end is open if the range reaches the end of the grid.

    >>> Range(0.1, 1000.0, False, True).decades, str(Range(0.1, 1000.0, False, True))
    (4.0, '0.1 to 1e+03 or more')
    """

    low: float
    high: float
    open_low: bool
    open_high: bool

    @property
    def decades(self) -> float:
        """The width of the range in powers of ten. The wider the range, the less the choice of beta matters."""
        return math.log10(self.high / self.low)

    def __str__(self) -> str:
        low, high = f"{self.low:.2g}", f"{self.high:.2g}"
        return f"{low}{' or less' if self.open_low else ''} to {high}{' or more' if self.open_high else ''}"


@dataclass(frozen=True)
class Summary:
    """The average losses of several curves at several betas, in several runs.

    Attributes:
        names: the names of the curves.
        betas: the betas of the grid, in ascending order.
        runs: the losses, indexed by run, curve and beta.

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
        """The number of runs."""
        return len(self.runs)

    @property
    def mean(self) -> Array:
        """The mean loss, indexed by curve and beta."""
        return np.asarray(self.runs.mean(axis=0))

    @property
    def half_width(self) -> Array:
        """Half the width of the 95% confidence interval of the mean (Student's t), or NaN if there is only one run."""
        from scipy.stats import t

        if self.repetitions < 2:
            return np.full(self.mean.shape, np.nan)
        with np.errstate(invalid="ignore"):  # infinite losses have no standard error
            standard_error = self.runs.std(axis=0, ddof=1) / math.sqrt(self.repetitions)
        return np.asarray(t.ppf(0.975, self.repetitions - 1) * standard_error)

    def curve(self, name: str) -> int:
        """The index of the curve of this name."""
        return self.names.index(name)

    def best_beta(self, k: int) -> float:
        """The beta with the lowest mean loss of curve k."""
        return self.betas[int(np.argmin(self.mean[k]))]

    def best_loss(self, k: int) -> float:
        """The lowest mean loss of curve k."""
        return float(self.mean[k].min())

    def at(self, k: int, beta: float) -> float:
        """The mean loss of curve k at a beta, interpolated in log(beta); NaN outside the grid."""
        # Rounded, so that ten times a beta of the grid counts as a beta of the grid.
        grid, wanted = np.round(np.log10(self.betas), 12), round(math.log10(beta), 12)
        return float(np.interp(wanted, grid, self.mean[k], left=math.nan, right=math.nan))

    def good_range(self, k: int) -> Range:
        """The betas around the best one whose loss is within 5% of the lowest, with ends interpolated in log(beta)."""
        mean, at = self.mean[k], int(np.argmin(self.mean[k]))
        limit = (1.0 + GOOD_BETA_TOLERANCE) * mean[at]
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
        """The means as CSV text, one line for each curve and beta."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(("curve", "beta", "mean", "half_width_95", "repetitions"))
        for name, *curve in zip(self.names, self.mean.tolist(), self.half_width.tolist(), strict=True):
            for beta, mean, half in zip(self.betas, *curve, strict=True):
                lines.writerow((name, f"{beta:.6g}", mean, half, self.repetitions))
        return text.getvalue()


def describe(summary: Summary) -> str:
    """A figure of loss against beta in words: the lowest point and the last point of each curve."""
    curves = [
        f"{name}: lowest {number(summary.best_loss(k))} at beta {summary.best_beta(k):.3g}, "
        f"{number(float(summary.mean[k, -1]))} at beta {summary.betas[-1]:.3g}"
        for k, name in enumerate(summary.names)
    ]
    return f"Average loss against beta. {'; '.join(curves)}."
