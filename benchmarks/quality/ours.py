"""giftrl without tuning."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.mixture import MulticlassMixture

__all__ = ["predictions"]


def predictions(x: Any, y: NDArray[np.float64], loss: str, classes: int | None = None) -> NDArray[np.float64]:
    """The prediction of giftrl for each row, before it learns from the row.

    Args:
        x: rows without a constant column, CSR or dense.
        y: labels, as in :class:`benchmarks.quality.data.Case`.
        loss: ``logistic``, ``hinge``, ``squared``, ``absolute``, or ``log`` for classes.
        classes: the number of classes, for the loss ``log``.

    >>> predictions(np.eye(2), np.array([1.0, -1.0]), "logistic").shape
    (2,)
    """
    width = x.shape[1]
    rows = sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(x), np.ones((len(y), 1))]))
    if classes is None:
        return MixtureLearner(width + 1, loss, constant=width).learn(rows, y)
    return np.asarray(softmax(MulticlassMixture(width + 1, classes, "softmax", constant=width).learn(rows, y), axis=1))
