"""Learning from rows whose predictions start from a base."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.rows import Rows
from giftrl.losses.based import Based
from giftrl.ops.loss import residual
from giftrl.recipes.learners import Learner

Array = NDArray[np.float64]


def learn_with_bases(learner: Learner, rows: Rows, labels: Array, weights: Array, bases: Array) -> Array:
    """Learn from rows whose loss is phi(<s, x> + base; y), and return the predictions <s, x_t> + base.

    Where phi depends on p - y alone, that is the loss of the label y - base. Any other loss is wrapped; then the
    learner must take no number from a label but by the loss, as a mixture of real labels does.

    Args:
        learner: of one score, or of K classes if there are no bases.
        rows, labels, weights: as for ``learner.learn_rows``.
        bases: of the rows; empty if all are 0.

    >>> from giftrl.compiled.rows import CSR
    >>> from giftrl.kernels import LinearLearner
    >>> one = CSR(np.ones(1), np.zeros(1, np.int32), np.array([0, 1]), 1)
    >>> learner = LinearLearner(1, "squared", compiled=False)
    >>> learn_with_bases(learner, one, np.array([5.0]), np.ones(1), np.array([3.0])).tolist(), learner.x.tolist()
    ([3.0], [1.0])
    """
    if not bases.any():
        return learner.learn_rows(rows, labels, weights)
    loss: Any = learner.loss
    if residual(loss):
        return np.asarray(learner.learn_rows(rows, labels - bases, weights) + bases)
    learner.loss = Based(loss, labels, bases)
    try:
        return np.asarray(learner.learn_rows(rows, np.arange(float(len(labels))), weights) + bases)
    finally:
        learner.loss = loss
