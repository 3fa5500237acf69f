"""The data sets of the tour, which come with scikit-learn, each in one random order."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.samples.bundled import load

Array = NDArray[np.float64]

SEED = 0  # of the order of the rows


class Set(NamedTuple):
    """A data set in memory.

    Attributes:
        name: what ``giftrl demo`` calls it.
        question: what is predicted.
        x: the features as they are, a row for each example.
        y: the classes 0, ..., K - 1, or real labels.
        classes: K, or 0 where the labels are real.
    """

    name: str
    question: str
    x: Array
    y: Array
    classes: int

    @property
    def loss(self) -> str:
        """The loss in words."""
        return "minus the log-probability of the right class" if self.classes else "half the squared error"


#: The name of each data set, that of its loader in scikit-learn, what is predicted, and options of the loader.
SETS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "cancer": ("breast_cancer", "Is a tumour malignant or benign?", {}),
    "wine": ("wine", "Which of 3 cultivars is a wine made of?", {}),
    "iris": ("iris", "Which of 3 species is a flower?", {}),
    "digits": ("digits", "Which of 10 digits is in an image?", {}),
    "diabetes": ("diabetes", "How far has a disease progressed in a year, as a number?", {"scaled": False}),
}


def read(name: str) -> Set:
    """A data set by its name.

    >>> cancer = read("cancer")
    >>> cancer.x.shape, cancer.classes
    ((569, 30), 2)
    """
    loader, question, options = SETS[name]
    table = load(loader, **options)
    x, y = np.asarray(table.data, dtype=np.float64), np.asarray(table.target, dtype=np.float64)
    order = np.random.default_rng(SEED).permutation(len(y))
    return Set(name, question, x[order], y[order], 0 if name == "diabetes" else len(table.target_names))
