"""The loss of scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.ops.loss import accepts, value
from giftrl.ops.vector_loss import multiclass
from giftrl.recipes.learners import Mixture

Array = NDArray[np.float64]
#: With fewer rows, plain Python is done before the loop would be compiled or loaded.
FEW = 5_000


@formula
def fill_losses(loss: Any, scores: Any, labels: Any, out: Any) -> None:
    """The loss of each score, or of each row of scores."""
    for i in range(len(labels)):
        out[i] = value(loss, scores[i], labels[i])


def as_they_count(learners: Sequence[Any], scores: Array) -> Array:
    """Scores as a mixture clips them in the course of learning, where that leaves what they predict the same.

    For classes, a hinge loss asks for no more than a margin of 1. Predictions of real numbers are left as they are.

    Args:
        learners: of the columns of the scores, or one for all of them.
        scores: a row for each prediction.
    """
    if accepts(learners[0].loss, 0.5) or not isinstance(learners[0], Mixture):
        return scores
    if len(learners) == 1:
        return np.asarray(learners[0].clip(scores))
    return np.column_stack([learner.clip(scores[:, k]) for k, learner in enumerate(learners)])


def losses_of(loss: Any, scores: Array, labels: Array) -> Array:
    """The loss of each row.

    Args:
        loss: of one score or of K scores.
        scores: a row for each label, with a column for each of K scores.
        labels: of the loss; as many columns as there are scores where each has a label of its own, and then the mean of
            their losses counts.

    >>> from giftrl.losses import Squared
    >>> losses_of(Squared(), np.array([[2.0, 1.0]]), np.array([[3.0, 3.0]])).tolist()
    [1.25]
    """
    fill = ready(fill_losses, len(labels) > FEW)
    out = np.empty(len(labels))
    if multiclass(loss):
        fill(loss, scores, labels.astype(np.int64), out)
        return out
    total, columns = np.zeros(len(labels)), [np.atleast_2d(each.T) for each in (scores, labels)]
    for given, own in zip(*columns, strict=True):
        fill(loss, np.ascontiguousarray(given), np.ascontiguousarray(own), out)
        total += out
    return total / len(columns[0])
