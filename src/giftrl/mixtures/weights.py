"""The mixture as one linear model: its weights on the original features, and its predictions without learning.

Every expert is linear in u_j = (v_j - mu_j)/m_j, so expert r with weights w_rj and a constant adds up to the weights
alpha_r w_rj/m_j of the original features, and the constant less the sum of weights times centres.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.mixtures.coin import bet_all
from giftrl.mixtures.experts import lanes
from giftrl.mixtures.features import CENTRE, DENSE, SCALE
from giftrl.mixtures.layout import Columns
from giftrl.mixtures.limits import LARGEST_WEIGHT
from giftrl.ops.scalar import clamp

__all__ = ["Weights", "predict_mixture", "weigh_all"]


class Weights(NamedTuple):
    """What the weights of a mixture are computed from; x is the view of ``features.record`` in their type."""

    grid: Any
    columns: Columns
    features: Any
    x: NDArray[Any]
    matrix: NDArray[np.float64]  # the weights of the full matrix, a column for each score
    shares: NDArray[np.float64]  # alpha of each expert
    unit: float  # Y/N
    buffer: NDArray[np.float64]  # for the weights of one feature, one for each score


@formula(fast=True)
def weigh(w: Any, j: int, out: Any) -> None:
    """Put the weights of feature j into ``out``, one for each score."""
    n, scale, s = np.uint64(lanes(w.grid)), w.features.record[j, SCALE], np.int64(w.x[j, w.columns.place]) - 1
    if scale == 0.0:
        out[:] = 0.0
        return
    bet_all(w.x, j, w.columns.coin, w.unit, out)
    for m in range(np.uint64(len(out))):
        total = 0.0
        for r in range(n):
            total += w.shares[r] * np.float64(w.x[j, w.columns.lanes + m * n + r])
        total += w.shares[n] * out[m]
        if s >= 0:
            total += w.shares[n + np.uint64(1)] * w.matrix[s, m]
        out[m] = clamp(total / scale, -LARGEST_WEIGHT, LARGEST_WEIGHT) if math.isfinite(total) else 0.0


@formula(fast=True)
def weigh_centres(w: Any, out: Any) -> None:
    """The sum of weights times centres over the dense features, for each score."""
    out[:] = 0.0
    for k in range(np.uint64(w.features.counts[DENSE])):
        j = w.features.dense[k]
        weigh(w, j, w.buffer)
        for m in range(len(out)):
            out[m] += w.buffer[m] * w.features.record[j, CENTRE]
    for m in range(len(out)):
        out[m] = clamp(out[m], -LARGEST_WEIGHT, LARGEST_WEIGHT)


@formula(fast=True)
def weigh_all(w: Any, centres: Any, out: Any) -> None:
    """The weights of all features, a column for each score; and the sums of weights times centres."""
    for j in range(np.uint64(len(out))):
        weigh(w, j, out[j])
    weigh_centres(w, centres)


@formula(fast=True)
def predict_mixture(w: Any, constants: Any, centres: Any, rows: Any, out: Any) -> None:
    """The scores of each row, at O(nonzeros + dense features)."""
    weigh_centres(w, centres)
    for i in range(len(out)):
        own = out[i]
        for m in range(len(own)):
            own[m] = constants[m] - centres[m]
        for k in range(begin(rows, i), end(rows, i)):
            weigh(w, column(rows, i, k), w.buffer)
            for m in range(len(own)):
                own[m] += np.float64(rows.data[k]) * w.buffer[m]
        for m in range(len(own)):
            own[m] = clamp(own[m], -LARGEST_WEIGHT, LARGEST_WEIGHT) if own[m] == own[m] else 0.0
