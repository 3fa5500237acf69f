"""Which of K classes was predicted for which."""

import numpy as np
from numpy.typing import NDArray

from giftrl.reports.page import Cell, table

Array = NDArray[np.float64]

#: Up to so many classes every pair of them is counted; the table has K^2 numbers.
MOST = 512
#: How many classes are shown.
SHOWN = 8


class Confusion:
    """The weight of rows by class and by predicted class.

    Args:
        classes: how many there are.

    >>> confusion = Confusion(3)
    >>> confusion.add(np.array([0, 1, 2, 2]), np.array([0, 1, 1, 2]), np.ones(4))
    >>> confusion.accuracy, confusion.pairs[2].tolist()
    (0.75, [0.0, 1.0, 1.0])
    """

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.arrays = {name: np.zeros(classes) for name in ("true", "predicted", "right")}
        if classes <= MOST:
            self.arrays["pairs"] = np.zeros((classes, classes))

    def add(self, labels: NDArray[np.int64], predicted: NDArray[np.int64], weights: Array) -> None:
        """Add rows."""
        k = self.classes
        self.arrays["true"] += np.bincount(labels, weights, k)
        self.arrays["predicted"] += np.bincount(predicted, weights, k)
        self.arrays["right"] += np.bincount(labels, np.where(labels == predicted, weights, 0.0), k)
        if k <= MOST:
            self.arrays["pairs"] += np.bincount(labels * k + predicted, weights, k * k).reshape(k, k)

    @property
    def pairs(self) -> Array:
        """A row for each class, a column for each predicted class."""
        return self.arrays["pairs"]

    @property
    def accuracy(self) -> float:
        """The share of rows whose class was predicted."""
        return float(self.arrays["right"].sum() / self.arrays["true"].sum())

    @property
    def most_frequent(self) -> float:
        """The accuracy of predicting the most frequent class for every row."""
        return float(self.arrays["true"].max() / self.arrays["true"].sum())

    def table(self, names: tuple[str, ...]) -> str:
        """The most frequent classes as an HTML table."""
        true, right = self.arrays["true"], self.arrays["right"]
        order = np.argsort(-true, kind="stable")[: SHOWN if self.classes > SHOWN + 1 else self.classes]
        order = order[true[order] > 0.0]
        order = np.sort(order) if len(order) == self.classes else order
        rest = len(order) < self.classes
        whole = bool((true == np.rint(true)).all())  # all weights are whole numbers

        def text(weight: float) -> str:
            return f"{round(weight):,}" if whole else f"{weight:,.4g}"

        rows: list[list[str | Cell]] = []
        for k in order.tolist():
            cells: list[str | Cell] = [names[k], text(true[k]), f"{right[k] / true[k]:.1%}"]
            if "pairs" in self.arrays:
                row = self.pairs[k]
                shown = row[order].tolist() + ([float(row.sum() - row[order].sum())] if rest else [])
                cells += [Cell(text(each), shade=each / true[k]) for each in shown]
            rows.append(cells)
        heads = ["label", "rows", "found"]
        if "pairs" in self.arrays:
            heads += [f"→ {names[k]}" for k in order.tolist()] + (["→ others"] if rest else [])
        count = f"The {len(order)} most frequent of {self.classes:,} classes" if rest else "All classes"
        told = ", and what was predicted for their rows" if "pairs" in self.arrays else ""
        return table(f"{count}: how many rows, how many of them were found{told}", heads, rows)
