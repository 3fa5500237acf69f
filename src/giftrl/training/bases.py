"""Learning from rows whose predictions start from a base."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.rows import Rows, slice_rows
from giftrl.errors import Overflowed
from giftrl.losses.shifted import Shifted
from giftrl.mixtures import MixtureLearner
from giftrl.ops.loss import accepts
from giftrl.recipes.learners import Learner

Array = NDArray[np.float64]


def learn_with_bases(learner: Learner, rows: Rows, labels: Array, weights: Array, bases: Array) -> Array:
    """Learn from rows whose loss is phi(<s, x> + base; y), and return the predictions <s, x_t> + base.

    Rows that follow each other and have the same base are learnt from together. A mixture starts from the mean of real
    labels and stays in their range, so that it gets the labels less the bases.

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
    moved = isinstance(learner, MixtureLearner) and accepts(loss, 0.5)
    given = labels - bases if moved else labels
    edges = [0, *(np.flatnonzero(np.diff(bases)) + 1).tolist(), len(bases)]
    made = []
    try:
        for first, last in itertools.pairwise(edges):
            base = float(bases[first])
            learner.loss = Shifted(loss, base, base if moved else 0.0) if base else loss
            try:
                made.append(learner.learn_rows(slice_rows(rows, first, last), given[first:last], weights[first:last]))
            except Overflowed as problem:
                raise Overflowed(str(problem), first + (problem.row or 0)) from None
    finally:
        learner.loss = loss
    return np.concatenate(made) + bases
