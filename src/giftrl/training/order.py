"""Whether rows come sorted by label, which teaches an online learner little."""

import math

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.label_names import LabelNames

#: How unlikely, in random order, the first labels must be to be pointed out.
UNLIKELY = 1e-6


class Order:
    """Counts how many of the first labels are alike, and how many of all labels are like them.

    >>> order = Order()
    >>> order.add(np.repeat([1.0, -1.0], 50))
    >>> order.note
    'the first 50 labels are all 1: if the rows are sorted, shuffle them, since order matters to an online learner'
    """

    def __init__(self) -> None:
        self._first = math.nan
        self._name = ""
        self._leading = 0
        self._alike = 0
        self._rows = 0

    def add(self, labels: NDArray[np.float64], names: LabelNames | None = None) -> None:
        """Add the labels of the next rows; with their names, where they have some."""
        if self._rows == 0 and len(labels):
            self._first = float(labels[0])
            self._name = f"{self._first:.12g}" if names is None else repr(names.names[int(self._first)])
        alike = labels == self._first
        if self._leading == self._rows:
            self._leading += len(labels) if alike.all() else int(np.argmin(alike))
        self._alike += int(np.count_nonzero(alike))
        self._rows += len(labels)

    @property
    def note(self) -> str | None:
        """What to tell the user; None where the first labels are no surprise in random order."""
        if self._alike == self._rows or self._leading * math.log(self._alike / self._rows) > math.log(UNLIKELY):
            return None
        return (
            f"the first {self._leading:,} labels are all {self._name}: if the rows are sorted, shuffle them, since "
            "order matters to an online learner"
        )
