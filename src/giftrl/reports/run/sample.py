"""Predictions that an estimator keeps for a report: all of the first rows, and then ever fewer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: How many numbers of scores are kept before rows are left out.
FIRST = 1 << 17
#: The fewest rows that are all kept.
LEAST = 1 << 10


class Sample:
    """Scores, labels and weights of rows: of all until 2^17 scores are kept, then of every second, fourth, and so on.

    The interval doubles each time the number of rows does, so what is kept grows with their logarithm. Binning every
    row would take longer than learning it with a single learner; keeping arrays that are there already takes almost no
    time.

    >>> sample = Sample()
    >>> for _ in range(100):
    ...     sample.add(np.zeros(10_000), np.zeros(10_000), None)
    >>> sample.rows, sample.first, sum(len(each[2]) for each in sample.kept)
    (1000000, 131072, 316680)
    """

    def __init__(self) -> None:
        self.rows = 0
        self.first = 0  # all rows up to here are kept
        self.kept: list[
            tuple[Array, Array, Array, Array]
        ] = []  # scores, labels, weights, how many rows a row stands for

    def add(self, scores: Array, labels: Array, weights: Array | None) -> None:
        """Add the next rows; ``weights`` None for 1 each."""
        n, columns = len(scores), int(np.prod(scores.shape[1:]))
        # A power of two, so that intervals divide the points where they change.
        self.first = self.first or max(LEAST, 1 << ((FIRST // columns).bit_length() - 1) if columns <= FIRST else LEAST)
        begin = 0
        while begin < n:
            octave = max(0, (self.rows // self.first).bit_length())
            end = min(n, begin + (self.first << octave) - self.rows)
            step = 1 << octave
            chosen = slice(begin + -self.rows % step, end, step)
            own = scores[chosen], labels[chosen], None if weights is None else weights[chosen]
            if len(own[1]):
                self._keep(*own, step)
            self.rows += end - begin
            begin = end

    def _keep(self, scores: Array, labels: Array, weights: Array | None, step: int) -> None:
        # Copies, since labels may be the user's own array, and a slice keeps the whole array alive.
        h = np.ones(len(labels)) if weights is None else np.array(weights)
        self.kept.append((np.array(scores), np.array(labels), h, np.full(len(labels), float(step))))

    def tell(self, record: Any) -> None:
        """Add what is kept to a :class:`giftrl.reports.run.record.Record`."""
        for each in self.kept:
            record.add(*each)
        record.settle()
