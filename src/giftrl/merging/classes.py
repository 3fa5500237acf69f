"""The steps of a merge with K scores: :mod:`giftrl.merging.fit` with a column for each class.

An expert has one step for each group of features, for all classes alike. Its scores for a row of the window are
p + sum_g a_g d_g, vectors of K numbers, and the slope of the loss in a_g is the sum over rows of <phi'(p), d_g>.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.rows import Rows
from giftrl.merging.fit import GROUPS
from giftrl.merging.mixture import Merger, unit_of
from giftrl.merging.scores import Scorer
from giftrl.merging.sharing import Share, alone
from giftrl.merging.steps import STIFFNESS, find_steps, window_of
from giftrl.mixtures.experts import WEALTH, lanes
from giftrl.mixtures.state import SCALE

Array = NDArray[np.float64]


def fit_classes(
    learner: Any, merger: Merger, group: NDArray[np.int64], rows: Rows, labels: Any, weights: Array, previous: Array,
    share: Share = alone,
) -> Array:  # fmt: skip
    """The steps of each lane and group of a mixture with K scores, from rows that nobody has learnt.

    Args:
        learner: a mixture of K scores that has the state before the round at features that are not merged.
        merger: the merge.
        group: of each feature of the merge.
        rows, labels, weights: the window; the weights are empty where all are 1.
        previous: the steps to begin with.
        share: runs loops.
    """
    piece, known, found = merger.piece, merger.known, merger.ends
    n, lane, scores = len(labels), lanes(learner.grid), learner.classes
    scale = learner.features.record[:, SCALE].copy()
    scale[piece.features] = known.scale
    per = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)[:, None]
    score = Scorer(rows, n, piece.features, group, GROUPS, learner.dimension, learner.compiled)
    unit, own_per, other_per = unit_of(learner, piece), per[piece.features], per[score.other]
    block, coin = learner.features.x[score.other].astype(np.float64), int(learner.places.coin)
    bets = block[:, coin : coin + 3 * scores].reshape(-1, 3, scores)
    steps, loop = previous.copy(), ready(find_steps, learner.compiled)

    def fit(r: int) -> None:
        """One lane: what the window's rows move by has a number for each group, row and class."""
        average, total = found.average[:, :, r], found.total[:, :, r]
        if r < lane:
            rest = block[:, r : lane * scores : lane]
        else:
            average, total = unit * average, unit * total
            rest = unit * (WEALTH + bets[:, 2]) * bets[:, 0] / (1.0 + bets[:, 1])
        average, moves = average * own_per, (total - average) * own_per
        p, d = score(average, moves, rest * other_per)
        p += found.offsets[r] + merger.offset - known.centre @ average
        for g in np.unique(group):
            d[g] -= known.centre[group == g] @ moves[group == g]
        window, mine = window_of(learner.loss, learner._typed(labels), weights, scores), steps[r : r + 1].copy()
        loop(window, p.reshape(1, -1), d.reshape(1, GROUPS, -1), previous[r : r + 1].copy(), STIFFNESS, mine, 0, 1)
        steps[r] = mine[0]

    def task(first: int, last: int) -> None:
        for r in range(first, last):
            fit(r)

    share(task, lane + 1, few=1)
    return steps
