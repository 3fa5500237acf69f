"""The objective of all solvers: the mean logistic loss of one pass."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["progressive_loss"]


def progressive_loss(predictions: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The mean logistic loss of margins that were predicted before their labels were used.

    The same code serves every solver, and is not timed. If a solver trains many models, each with its own column, this
    is the loss of the best model.

    >>> round(progressive_loss(np.array([0.0, 1.0]), np.array([1.0, -1.0])), 6)
    1.003204
    >>> round(progressive_loss(np.array([[0.0, 0.0], [1.0, -1.0]]), np.array([1.0, -1.0])), 6)
    0.503204
    """
    margins = (predictions.T * y).T
    return float(np.logaddexp(0.0, -margins).mean(axis=0).min())
