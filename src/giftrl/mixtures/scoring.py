"""The mixture as one linear model: weights of the original features, and prediction without learning.

Every expert is linear in u_j = (v_j - mu_j)/m_j, so expert r with weights w_rj contributes the weights alpha_r w_rj/m_j
of the original features; the constant is reduced by the sum of weights times centres. One score is the case of one
column.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import lanes, side
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.mixtures.clip_limits import LARGEST_WEIGHT
from giftrl.mixtures.experts import bet, share
from giftrl.mixtures.feature_state import CENTRE, DENSE, PLACE, SCALE, BlockColumns, FeatureState, mean_norm
from giftrl.mixtures.label_units import OFFSET, ORIGIN, per_norm
from giftrl.ops.scalar import clamp


class ScoringParts(NamedTuple):
    """The state of a mixture on which its weights depend."""

    grid: Any
    columns: BlockColumns
    features: FeatureState
    x: NDArray[Any]
    matrix: NDArray[np.float64]  # the weights of the full matrix, a column for each score
    offsets: NDArray[np.float64]  # of the constant of each expert, a column for each score
    units: NDArray[np.float64]  # of the labels
    boost: float
    mixing: Any  # the totals, candidates, stack and sums of the experts


class ScoringState(NamedTuple):
    """Buffers of a call: the shares of the experts; the constant and the centre of each score."""

    side: Any  # with a lane for each expert
    shares: NDArray[np.float64]  # in one row
    constants: NDArray[np.float64]
    centres: NDArray[np.float64]  # the sum of weights times centres over the dense features


def scoring_state(w: ScoringParts) -> ScoringState:
    """Allocate buffers for :func:`prepare`."""
    experts, scores = w.offsets.shape
    return ScoringState(side(experts), np.empty((1, experts)), *np.empty((2, scores)))


@formula(fast=True)
def prepare(w: ScoringParts, state: ScoringState) -> None:
    """Compute shares, constants origin + sum_r alpha_r (o_r + o - origin), o the mean prediction, and centres."""
    share(w.boost, state.side, w.mixing, state.shares[0])
    origin = w.units[ORIGIN]
    shift = w.units[OFFSET] - origin
    for m in range(np.uint64(len(state.constants))):
        constant, centre = origin, 0.0
        for r in range(len(w.offsets)):
            constant += state.shares[0, r] * (w.offsets[r, m] + shift)
        for k in range(np.uint64(w.features.counts[DENSE])):
            j = w.features.dense[k]
            centre += weight(w, state, j, m) * w.features.record[j, CENTRE]
        state.constants[m], state.centres[m] = constant, clamp(centre, -LARGEST_WEIGHT, LARGEST_WEIGHT)


@formula(fast=True)
def weight(w: ScoringParts, state: ScoringState, j: int, m: Any) -> float:
    """The weight of feature j in score m."""
    scale = w.features.record[j, SCALE]
    if scale == 0.0:
        return 0.0
    n, scores, total = np.uint64(lanes(w.grid)), np.uint64(len(state.constants)), 0.0
    for r in range(n):
        total += state.shares[0, r] * np.float64(w.x[j, w.columns.lanes + m * n + r])
    total += state.shares[0, n] * bet(w.x, j, w.columns.coin + m, scores, per_norm(w.units, mean_norm(w.features)))
    s = np.int64(w.features.record[j, PLACE]) - 1
    if s >= 0:
        total += state.shares[0, n + np.uint64(1)] * w.matrix[s, m]
    return clamp(total / scale, -LARGEST_WEIGHT, LARGEST_WEIGHT) if math.isfinite(total) else 0.0


@formula(fast=True)
def weigh(w: ScoringParts, state: ScoringState, features: Any, out: Any) -> None:
    """The weights of these features, a column for each score."""
    prepare(w, state)
    for k in range(len(features)):
        j: Any = np.uint64(features[k])
        for m in range(np.uint64(len(state.constants))):
            out[k, m] = weight(w, state, j, m)


@formula(fast=True)
def score_rows(w: ScoringParts, state: ScoringState, rows: Any, out: Any) -> None:
    """The scores of each row, at O(nonzeros + dense features)."""
    prepare(w, state)
    for i in range(len(out)):
        scores = out[i]
        for m in range(np.uint64(len(scores))):
            total = state.constants[m] - state.centres[m]
            for k in range(begin(rows, i), end(rows, i)):
                total += np.float64(rows.data[k]) * weight(w, state, column(rows, i, k), m)
            scores[m] = clamp(total, -LARGEST_WEIGHT, LARGEST_WEIGHT) if total == total else 0.0
