"""Bins for numbers whose range is not known in advance: a fixed number of bins, however long the stream is."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: How many bins :func:`relative_bins` has.
RELATIVE = 1 << 16
#: A spread below this part of the numbers is next to rounding.
LEAST = 1e-12


def relative_bins(values: Array) -> NDArray[np.int64]:
    """Bins as wide as 1/128 of the numbers in them, in the order of the numbers.

    They are the sign, the exponent and seven further bits of a number in float32. Numbers that float32 does not hold
    are in the first or last bin of their sign.

    >>> relative_bins(np.array([-2.0, -1.0, 0.0, 1.0, 1.001, 1.01])).tolist()
    [16383, 16511, 32768, 49024, 49024, 49025]
    """
    with np.errstate(over="ignore"):
        bits = (values + 0.0).astype(np.float32).view(np.uint32)  # -0.0 + 0.0 is 0.0
    flipped = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))
    return (flipped >> np.uint32(16)).astype(np.int64)


class Spread(NamedTuple):
    """Bins that are even near the middle of the numbers, and ever wider far from it.

    Bin k is where asinh((v - middle)/scale) * per_unit rounds to k - reach; the first and the last bin hold what is
    beyond.

    >>> bins = Spread.of(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), per_unit=4, reach=10)
    >>> bins.of_values(np.array([2.0, 2.1, 3.0, 1e9])).tolist(), bins.bins
    ([10, 10, 14, 20], 21)
    """

    middle: float
    scale: float
    per_unit: int
    reach: int

    @classmethod
    def of(cls, values: Array, per_unit: int, reach: int, middle: float | None = None) -> "Spread":
        """Bins around the median of numbers, or another middle, in units of how far they are from it."""
        finite = values[np.isfinite(values)]
        if not len(finite):
            return cls(middle or 0.0, 1.0, per_unit, reach)
        at = float(np.quantile(finite, 0.5, method="lower")) if middle is None else middle
        away = np.abs(finite / 4.0 - at / 4.0)  # a quarter, which is in float64
        # Where more than half of them are the same number, the mean distance says more than the median.
        scale = float(np.quantile(away, 0.5, method="lower") or (away / len(away)).sum())
        scale = 4.0 * min(max(scale, LEAST * abs(at)), 2.5e299)
        return cls(at, scale if scale > 1e-300 else 1.0, per_unit, reach)

    @property
    def bins(self) -> int:
        """How many bins there are."""
        return 2 * self.reach + 1

    def of_values(self, values: Array) -> NDArray[np.int64]:
        """The bin of each number; NaN is in the middle one."""
        with np.errstate(over="ignore", invalid="ignore"):
            far = np.arcsinh((values - self.middle) / self.scale) * self.per_unit
        near = np.clip(np.nan_to_num(far, nan=0.0, posinf=self.reach, neginf=-self.reach), -self.reach, self.reach)
        return np.asarray(np.rint(near).astype(np.int64) + self.reach)

    @property
    def edges(self) -> Array:
        """Where bins begin and end: one number more than there are bins."""
        steps = (np.arange(self.bins + 1) - self.reach - 0.5) / self.per_unit
        with np.errstate(over="ignore"):
            return np.asarray(self.middle + self.scale * np.sinh(steps))

    def onto(self, edges: Array) -> Array:
        """A matrix that moves counts of these bins to other ones, as if they were evenly spread in each.

        >>> bins = Spread(0.0, 1.0, 4, 10)
        >>> moved = bins.onto(np.array([-1e9, 0.0, 1e9])) @ np.ones(bins.bins)
        >>> moved.tolist()
        [10.5, 10.5]
        """
        begin, end = self.edges[:-1, None], self.edges[1:, None]
        with np.errstate(all="ignore"):
            below = np.clip((edges - begin) / (end - begin), 0.0, 1.0)
        return np.diff(np.nan_to_num(below), axis=1).T


def quantiles(edges: Array, counts: Array, levels: tuple[float, ...]) -> list[float]:
    """Quantiles of counts in bins, as if these were evenly filled.

    >>> quantiles(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0]), (0.25, 0.5))
    [1.0, 1.3333333333333333]
    """
    total = np.concatenate([[0.0], np.cumsum(counts)])
    return [float(each) for each in np.interp(np.array(levels) * total[-1], total, edges)]


def packed(counts: Array) -> dict[str, NDArray[np.generic]]:
    """Counts without those that are 0, for a checkpoint."""
    where = np.flatnonzero(counts)
    return {"where": where, "counts": counts.reshape(-1)[where]}


def unpacked(state: dict[str, NDArray[np.generic]], shape: tuple[int, ...]) -> Array:
    """The counts that :func:`packed` was given."""
    counts = np.zeros(shape)
    counts.reshape(-1)[state["where"].astype(np.int64)] = state["counts"]
    return counts
