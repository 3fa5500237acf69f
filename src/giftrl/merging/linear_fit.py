"""The steps of a merge of linear learners, fitted to rows that nobody has learnt, as in :mod:`giftrl.merging.fit`.

A linear learner does not count how often a feature occurs. The share f of rows that have it is estimated by that of the
window, and, where this is less or 0, from how many workers have met it: of W workers with R rows each,
W (1 - (1 - f)^R) are expected to. Without a window, a feature that all have met counts as frequent: its workers may
have corrected the same error, and then only their average is safe.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Rows
from giftrl.kernels.scalar_round import LAM
from giftrl.merging.fit import GROUPS, OCTAVES
from giftrl.merging.linear import LinearMerger, point, read
from giftrl.merging.scores import Scorer, counts_of
from giftrl.merging.steps import STIFFNESS, find_steps, window_of
from giftrl.ops.loss import value
from giftrl.regularizers.contract import l1_strength

Array = NDArray[np.float64]


def first_steps() -> Array:
    """The steps before the first merge: the whole way to the sum."""
    return np.ones((1, GROUPS))


def shares(merger: LinearMerger, seen: NDArray[np.int64] | None, rows: int) -> Array:
    """Estimates of the share of rows that have each feature; ``seen`` is how many rows of the window have it."""
    by_workers = -np.log1p(-np.maximum(merger.met - 0.5, 0.0) / merger.workers) / max(merger.rows, 1.0)
    if seen is None:
        return np.where(merger.met == merger.workers, 1.0, by_workers)
    return np.maximum(by_workers, seen / rows)


def groups_of(merger: LinearMerger, window: Rows | None, rows: int, dimension: int) -> NDArray[np.int64]:
    """The group of each feature."""
    seen = None if window is None else counts_of(window, rows, dimension)[merger.base.features]
    share = np.maximum(shares(merger, seen, rows), 1e-12)
    return np.digitize(-np.log2(np.minimum(share, 1.0)), OCTAVES)


@formula
def total_loss(loss: Any, p: Any, labels: Any, weights: Any) -> float:
    """The loss of all rows."""
    total = 0.0
    for i in range(len(labels)):
        total += weights[i] * value(loss, p[i], labels[i])
    return total


def fit_linear(
    learner: Any,
    merger: LinearMerger,
    group: NDArray[np.int64],
    rows: Rows,
    labels: Any,
    weights: Array,
    previous: Array,
) -> Array:
    """The step of each group, from rows that nobody has learnt.

    Args:
        learner: one that has the state before the round at features that are not merged.
        merger: the merge.
        group: of each feature of the merge.
        rows, labels, weights: the window; the weights are empty where all are 1.
        previous: the steps to begin with.
    """
    n, features, l1 = len(labels), merger.base.features, l1_strength(learner.regularizer)
    average, total = (point(u, merger.strength, l1) for u in (merger.average, merger.total))
    score = Scorer(rows, n, features, group, GROUPS, learner.dimension, learner.compiled)
    p, d = score(
        average, total - average, read(learner, learner.coordinates[score.other], float(merger.states[0, LAM])).x
    )
    if learner.classes is None:
        p, d = p[:, 0].copy(), d[..., 0].copy()
    h = np.ones(n) if len(weights) == 0 else np.asarray(weights)
    y, steps = learner._typed(labels), previous.copy()
    # What a step costs that moves is measured in the loss of a row.
    unit = abs(ready(total_loss, learner.compiled)(learner.loss, p, y, h)) / max(float(h.sum()), 1e-300)
    stiff = STIFFNESS * min(unit, 1e150)
    window = window_of(learner.loss, y, h, learner.classes)
    loop = ready(find_steps, learner.compiled)
    loop(window, p.reshape(1, -1), d.reshape(1, GROUPS, -1), previous, stiff, steps, 0, 1)
    return steps
