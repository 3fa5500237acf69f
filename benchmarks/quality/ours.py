"""giftrl with nothing tuned."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

__all__ = ["predictions"]


def predictions(x: Any, y: NDArray[np.float64], loss: str, classes: int | None = None) -> NDArray[np.float64]:
    """What giftrl predicts for each row before it learns from it.

    Args:
        x: rows without a constant column, CSR or dense.
        y: labels, as in :class:`benchmarks.quality.data.Case`.
        loss: ``logistic``, ``hinge``, ``squared``, ``absolute``, or ``log`` for classes.
        classes: how many, for the loss ``log``.

    >>> predictions(np.eye(2), np.array([1.0, -1.0]), "logistic").shape
    (2,)
    """
    # ADAPT HERE: the only place that names the learner.
    from giftrl.kernels import LinearLearner

    rows = sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(x), np.ones((len(y), 1))]))
    if classes is None:
        return np.asarray(LinearLearner(rows.shape[1], loss, "curvature", dtype="float64").learn(rows, y))
    margins = [
        LinearLearner(rows.shape[1], "logistic", "curvature", dtype="float64").learn(rows, np.where(y == k, 1.0, -1.0))
        for k in range(classes)
    ]
    return np.asarray(softmax(np.stack(margins, axis=1), axis=1))
