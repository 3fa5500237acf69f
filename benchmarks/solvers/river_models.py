"""River's logistic regression.

River learns from one dictionary at a time. Rows are converted to dictionaries before the clock starts. A sample of the
rows is timed and extrapolated to all rows, because a whole pass would take minutes.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.datasets import Data
from benchmarks.solvers.contract import Timing, missing

__all__ = ["RiverOne"]

SAMPLE = 5_000


def _model() -> Any:
    from river import linear_model, optim

    return linear_model.LogisticRegression(optim.SGD(0.1), l2=0.0, intercept_lr=0.0)


class RiverOne:
    """``predict_proba_one`` and ``learn_one`` for each row; inner is ``learn_one`` alone."""

    key = "river"
    name = "River learn_one"

    def unavailable(self, data: Data) -> str | None:
        return missing("river")

    def prepare(self, data: Data) -> None:
        size = min(SAMPLE, data.rows)
        self.scale = data.rows / size
        rows = sparse.csr_matrix(data.x[:size])
        bounds = zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)
        indices, values = rows.indices.tolist(), rows.data.tolist()
        self.rows = [dict(zip(indices[a:b], values[a:b], strict=True)) for a, b in bounds]
        self.labels = (data.y[:size] > 0.0).tolist()

    def once(self) -> Timing:
        model = _model()
        begin = time.perf_counter()
        for row, label in zip(self.rows, self.labels, strict=True):
            model.predict_proba_one(row)
            model.learn_one(row, label)
        seconds = time.perf_counter() - begin
        model = _model()
        begin = time.perf_counter()
        for row, label in zip(self.rows, self.labels, strict=True):
            model.learn_one(row, label)
        learning = time.perf_counter() - begin
        return Timing(self.scale * seconds, self.scale * learning)

    def predictions(self) -> NDArray[np.float64]:
        """Margins for the rows of the sample, which are the first rows of the data."""
        model = _model()
        margins = []
        for row, label in zip(self.rows, self.labels, strict=True):
            p = model.predict_proba_one(row)[True]
            margins.append(np.log(p) - np.log1p(-p))
            model.learn_one(row, label)
        return np.array(margins)
