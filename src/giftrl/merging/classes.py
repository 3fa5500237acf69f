"""The steps of a merge with K scores: :mod:`giftrl.merging.fit` with a column for each class.

An expert has one step for each group of features, for all classes alike. Its scores for a row of the window are
p + sum_g a_g d_g, vectors of K numbers, and the slope of the loss in a_g is the sum over rows of <phi'(p), d_g>.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Rows
from giftrl.merging.fit import GROUPS, SECANTS, STIFFNESS, SWEEPS
from giftrl.merging.mixture import Merger, unit_of
from giftrl.merging.scores import Scorer
from giftrl.mixtures.coin import WEALTH
from giftrl.mixtures.experts import lanes
from giftrl.mixtures.feature_state import SCALE
from giftrl.ops.vector_loss import slope

Array = NDArray[np.float64]


@formula
def class_descent(
    loss: Any, p: Any, d: Any, labels: Any, weights: Any, by: float, pull: float, scores: Any, slopes: Any
) -> float:
    """The slope of the loss of all rows in the step of a group, ``by`` further than p; ``pull`` is that of the prior.

    ``scores`` and ``slopes`` are scratch memory for K numbers each.
    """
    total = pull
    for i in range(len(labels)):
        moves = False
        for k in range(len(scores)):
            moves |= d[i, k] != 0.0
            scores[k] = p[i, k] + by * d[i, k]
        if moves:
            slope(loss, scores, labels[i], slopes)
            along = 0.0
            for k in range(len(scores)):
                along += slopes[k] * d[i, k]
            total += weights[i] * along
    return total


@formula
def find_class_step(
    loss: Any, p: Any, d: Any, labels: Any, weights: Any, now: float, prior: float, stiff: float, work: Any
) -> float:
    """The best step of a group, while the others stay."""
    low, high = -now, 1.0 - now
    at_low = class_descent(loss, p, d, labels, weights, low, stiff * (now + low - prior), work[0], work[1])
    at_high = class_descent(loss, p, d, labels, weights, high, stiff * (now + high - prior), work[0], work[1])
    if not at_high > at_low:  # the window says nothing
        return prior
    if at_low >= 0.0:
        return 0.0
    if at_high <= 0.0:
        return 1.0
    for _ in range(SECANTS):
        by = low - at_low * (high - low) / (at_high - at_low)
        at = class_descent(loss, p, d, labels, weights, by, stiff * (now + by - prior), work[0], work[1])
        if at < 0.0:
            low, at_low, at_high = by, at, at_high / 2.0
        else:
            high, at_high, at_low = by, at, at_low / 2.0
    return now + low - at_low * (high - low) / (at_high - at_low)


@formula
def find_class_steps(
    loss: Any, p: Any, d: Any, labels: Any, weights: Any, prior: Any, stiff: float, steps: Any
) -> None:
    """The steps of each expert and group; p[r] has a row for each row of the window, d[r, g] likewise."""
    work = np.empty((2, p.shape[2]))
    for r in range(len(p)):
        for g in range(steps.shape[1]):
            for i in range(len(labels)):
                for k in range(p.shape[2]):
                    p[r, i, k] += steps[r, g] * d[r, g, i, k]
        for _ in range(SWEEPS):
            for g in range(steps.shape[1]):
                best = find_class_step(loss, p[r], d[r, g], labels, weights, steps[r, g], prior[r, g], stiff, work)
                best = min(max(best, 0.0), 1.0)
                for i in range(len(labels)):
                    for k in range(p.shape[2]):
                        p[r, i, k] += (best - steps[r, g]) * d[r, g, i, k]
                steps[r, g] = best


def fit_classes(
    learner: Any, merger: Merger, group: NDArray[np.int64], rows: Rows, labels: Any, weights: Array, previous: Array
) -> Array:
    """The steps of each lane and group of a mixture with K scores, from rows that nobody has learnt.

    Args:
        learner: a mixture of K scores that has the state before the round at features that are not merged.
        merger: the merge.
        group: of each feature of the merge.
        rows, labels, weights: the window; the weights are empty where all are 1.
        previous: the steps to begin with.
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
    h = np.ones(n) if len(weights) == 0 else np.asarray(weights)
    y, steps, loop = learner._typed(labels), previous.copy(), ready(find_class_steps, learner.compiled)
    # One lane after the other: what the window's rows move by has a number for each group, row and class.
    for r in range(lane + 1):
        average, total = found.average[:, :, r], found.total[:, :, r]
        if r < lane:
            rest = block[:, r : lane * scores : lane]
        else:
            factor = unit * found.coin[:, 0] / (1.0 + found.coin[:, 1])
            average, total = factor * (WEALTH + average), factor * (WEALTH + total)
            rest = unit * (WEALTH + bets[:, 2]) * bets[:, 0] / (1.0 + bets[:, 1])
        average, moves = average * own_per, (total - average) * own_per
        p, d = score(average, moves, rest * other_per)
        p += found.offsets[r] + merger.offset - known.centre @ average
        for g in np.unique(group):
            d[g] -= known.centre[group == g] @ moves[group == g]
        mine = steps[r : r + 1].copy()
        loop(learner.loss, p[None], d[None], y, h, previous[r : r + 1].copy(), STIFFNESS, mine)
        steps[r] = mine[0]
    return steps
