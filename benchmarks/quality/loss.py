"""The mean loss of predictions that were made before their labels were used. The same code serves every solver.

The predictions of every solver are changed in the same way first:

1. a number that is not finite becomes 0; if one of several probabilities is not finite, all become equal;
2. margins are clipped to [-50, 50] for the logistic loss and to [-1, 1], which never raises the loss, for the hinge
   loss;
3. predictions for the squared and absolute losses are clipped to the range of the labels of earlier rows;
4. probabilities are clipped to [1e-6, 1].
"""

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import UnknownName

MARGIN = 50.0
PROBABILITY = 1e-6


def seen_range(y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The smallest and the largest label before each row; infinite for the first row.

    >>> [end.tolist() for end in seen_range(np.array([3.0, 1.0, 5.0]))]
    [[-inf, 3.0, 1.0], [inf, 3.0, 3.0]]
    """
    low = np.concatenate([[-np.inf], np.minimum.accumulate(y)[:-1]])
    high = np.concatenate([[np.inf], np.maximum.accumulate(y)[:-1]])
    return low, high


def clipped(predictions: NDArray[np.float64], y: NDArray[np.float64], loss: str) -> NDArray[np.float64]:
    """The predictions, clipped as the text above says.

    >>> clipped(np.array([9.0, np.nan, 9.0]), np.array([3.0, 1.0, 5.0]), "squared").tolist()
    [9.0, 3.0, 3.0]
    """
    if loss == "log":
        finite = np.isfinite(predictions).all(axis=1, keepdims=True)
        equal = 1.0 / predictions.shape[1]
        return np.clip(np.where(finite, predictions, equal), PROBABILITY, 1.0)
    p = np.where(np.isfinite(predictions), predictions, 0.0)
    if loss in ("squared", "absolute"):
        return np.clip(p, *seen_range(y))
    bound = {"logistic": MARGIN, "hinge": 1.0}[loss]
    return np.clip(p, -bound, bound)


def progressive_loss(predictions: NDArray[np.float64], y: NDArray[np.float64], loss: str) -> float:
    """The mean loss of one pass: ``logistic``, ``hinge``, ``squared`` (half the square), ``absolute`` or ``log``.

    For the loss ``log`` labels are classes 0, ..., K - 1, and predictions a probability for each row and class.

    >>> progressive_loss(np.array([0.5, -2.0]), np.array([1.0, 1.0]), "hinge")
    1.25
    >>> round(progressive_loss(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0.0, 1.0]), "log"), 6)
    7.254329
    """
    known = ("logistic", "hinge", "squared", "absolute", "log")
    if loss not in known:
        raise UnknownName("loss", loss, known)
    p = clipped(np.asarray(predictions, np.float64), y, loss)
    if loss == "log":
        return float(-np.log(p[np.arange(len(y)), y.astype(int)]).mean())
    if loss == "logistic":
        return float(np.logaddexp(0.0, -y * p).mean())
    if loss == "hinge":
        return float(np.maximum(0.0, 1.0 - y * p).mean())
    return float(0.5 * np.square(p - y).mean() if loss == "squared" else np.abs(p - y).mean())
