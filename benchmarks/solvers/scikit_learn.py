"""scikit-learn's SGDClassifier: one epoch of ``partial_fit``.

It takes CSR and C-ordered matrices of float32 and float64 without a copy, and its weights have the type of the data. It
allocates little in each call: labels and example weights of that type.
"""

import time
from typing import Any

import numpy as np

from benchmarks.datasets import Data
from benchmarks.solvers.contract import Timing, missing

__all__ = ["ScikitLearn"]


class ScikitLearn:
    """Logistic loss, a constant learning rate and no penalty, which is the least work that it can do.

    Args:
        dtype: the type of the data.
        shuffle: whether to visit the rows in random order, which is its default.

    >>> solver = ScikitLearn("float32", False)
    >>> solver.prepare(Data("tiny", "none", np.eye(2, dtype=np.float32), np.array([1.0, -1.0])))
    >>> solver.once().seconds > 0.0
    True
    """

    def __init__(self, dtype: str, shuffle: bool) -> None:
        self.dtype = dtype
        self.shuffle = shuffle
        self.key = f"sklearn-{dtype}" + ("-shuffled" if shuffle else "")
        self.name = f"scikit-learn SGD, {dtype}" + (", shuffled" if shuffle else "")

    def unavailable(self, data: Data) -> str | None:
        return missing("sklearn")

    def prepare(self, data: Data) -> None:
        self.x = data.x.astype(self.dtype, copy=False)
        self.y = data.y

    def once(self) -> Timing:
        model = self.model()
        classes = np.array([-1.0, 1.0])
        begin = time.perf_counter()
        model.partial_fit(self.x, self.y, classes=classes)
        return Timing(time.perf_counter() - begin)

    def model(self) -> Any:
        """A new classifier."""
        from sklearn.linear_model import SGDClassifier  # type: ignore[import-untyped]

        return SGDClassifier(
            loss="log_loss",
            penalty=None,
            max_iter=1,
            tol=None,
            shuffle=self.shuffle,
            learning_rate="constant",
            eta0=0.1,
            fit_intercept=False,
            random_state=0,
        )

    def predictions(self) -> None:
        return None
