"""Predictions that an estimator keeps for a report: all of the first rows, and then ever fewer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.reports.run.shares import Shares

Array = NDArray[np.float64]

#: How many numbers of scores are kept before rows are left out.
FIRST = 1 << 17
#: The fewest rows that are all kept.
LEAST = 1 << 10


class Sample:
    """Scores, labels and weights of rows: of all until 2^17 scores are kept, then of every second, fourth, and so on.

    The interval doubles each time the number of rows does, so what is kept grows with their logarithm. Binning every
    row would take longer than learning it with a single learner; copying numbers that are there already takes almost no
    time.

    Attributes:
        rows: how many rows were added.
        first: so many rows are all kept.
        kept: how many rows are kept.
        shares: those of the experts.

    >>> sample = Sample()
    >>> for _ in range(100):
    ...     sample.add(np.zeros(10_000), np.zeros(10_000), None)
    >>> sample.rows, sample.first, sample.kept
    (1000000, 131072, 321608)
    """

    def __init__(self) -> None:
        self.rows = self.first = self.kept = 0
        self.shares = Shares()
        self._arrays: list[Array] = []  # scores, labels, weights, how many rows a row stands for; with room for more

    def add(self, scores: Array, labels: Array, weights: Array | None) -> None:
        """Add the next rows; ``weights`` None for 1 each."""
        if not self.first:
            # A power of two, so that intervals divide the numbers of rows at which they double.
            columns = max(1, scores.size // max(1, len(scores)))
            self.first = max(LEAST, 1 << (FIRST // columns).bit_length() - 1 if columns <= FIRST else 0)
        begin, n = 0, len(scores)
        if self.rows + n <= self.first:
            self._keep(scores, labels, 1.0 if weights is None else weights, 1.0)
            self.rows, begin = self.rows + n, n
        while begin < n:
            octave = (self.rows // self.first).bit_length()
            end, step = min(n, begin + (self.first << octave) - self.rows), 1 << octave
            chosen = slice(begin + -self.rows % step, end, step)
            self._keep(scores[chosen], labels[chosen], 1.0 if weights is None else weights[chosen], float(step))
            self.rows += end - begin
            begin = end

    def _keep(self, scores: Array, labels: Array, weights: Any, standing_for: float) -> None:
        begin, self.kept = self.kept, self.kept + len(labels)
        if not self._arrays or self.kept > len(self._arrays[0]):
            size = max(self.kept, 2 * begin)
            shapes = [scores.shape[1:], labels.shape[1:], (), ()]
            before = self._arrays or [np.empty((0, *shape)) for shape in shapes]
            self._arrays = [np.empty((size, *shape)) for shape in shapes]
            for new, old in zip(self._arrays, before, strict=True):
                new[:begin] = old[:begin]
        place, (a, b, c, d) = slice(begin, self.kept), self._arrays
        a[place], b[place], c[place], d[place] = scores, labels, weights, standing_for

    def tell(self, record: Any) -> None:
        """Add what is kept to a :class:`giftrl.reports.run.record.Record`."""
        if self.kept:
            scores, labels, weights, standing_for = (array[: self.kept] for array in self._arrays)
            record.add(scores, labels, weights, standing_for)
        record.shares.restore(self.shares.state())
        record.settle()
