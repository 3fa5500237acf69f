"""What all solvers are asked to do, and how well they did it."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["progressive_loss"]


def progressive_loss(predictions: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The mean logistic loss of one pass, from margins that were each predicted before their label was used.

    The same code judges every solver, outside of the clock. Where a solver trains many models, a column each, this is
    the loss of the best of them.

    >>> round(progressive_loss(np.array([0.0, 1.0]), np.array([1.0, -1.0])), 6)
    1.003204
    >>> round(progressive_loss(np.array([[0.0, 0.0], [1.0, -1.0]]), np.array([1.0, -1.0])), 6)
    0.503204
    """
    margins = (predictions.T * y).T
    return float(np.logaddexp(0.0, -margins).mean(axis=0).min())
