"""Later passes: rows that were learned before update the weights of the experts, and nothing else.

A row that was learned before looks easier than it is, most of all to experts that know it by heart. So a later pass
leaves all that compares experts (totals, candidates, the stack, the units of labels) and all that counts (the scales
and centres of features, the coin, the certificate) as the first pass left it, and continues with the weights of the
grid and of the full matrix. Two things keep these from learning rows by heart:

- The first strength L_j(0) of an expert is that of a term L_j(0) x_j^2/2, which the first pass pays once. A later pass
  pays it in equal parts, before each of the n_j rows that have the feature: x_j <- x_j (1 - L_j(0)/(L_j n_j)).
- What counts in the end is the mean of the weights over all later rounds.

With w_t the weights after round t of T, their mean is w_T less the sum of (t - 1)(w_t - w_{t-1})/T, so that a round
touches the features of its row alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import clip, load, store
from giftrl.compiled.registry import formula
from giftrl.kernels.base import NonzeroRows
from giftrl.kernels.lane_counts import lanes
from giftrl.mixtures.clip_limits import LARGEST_EXPERT_WEIGHT
from giftrl.mixtures.experts import factors, strengths
from giftrl.mixtures.full_matrix import Matrix
from giftrl.mixtures.state import DENSE_PLACE, ROWS, BlockColumns
from giftrl.system import zeros


class LaterSums(NamedTuple):
    """Sums over later rounds: (t - 1)(w_t - w_{t-1}) of the grid, w_t of the full matrix; and T."""

    changes: NDArray[Any]
    matrix: NDArray[np.float64]
    rounds: NDArray[np.float64]


def no_later_rounds(features: int, columns: BlockColumns, matrix: Matrix, dtype: Any) -> LaterSums:
    """The sums before the first later round; without features, those of a learner in its first pass."""
    width = int(columns.curve) - int(columns.lanes)
    return LaterSums(zeros((features, width), dtype), np.zeros_like(matrix.x), np.zeros(1))


def average_weights(later: LaterSums, columns: BlockColumns, x: NDArray[Any], matrix: Matrix) -> None:
    """Replace the weights by their means over all later rounds."""
    rounds = later.rounds[0]
    if rounds == 0.0:
        return
    kept = NonzeroRows.of(later.changes)  # the others are not written to
    grid = x[kept.where, int(columns.lanes) : int(columns.curve)]
    with np.errstate(over="ignore", invalid="ignore"):
        means = grid - kept.rows / grid.dtype.type(rounds)
    means = np.where(np.isfinite(means), means, grid)  # beyond float32 only where weights are near their limit
    x[kept.where, int(columns.lanes) : int(columns.curve)] = means
    matrix.x[...] = later.matrix / rounds


@formula(fast=True)
def change_weights(grid: Any, later: LaterSums, x: Any, j: int, at: Any, first: Any, new: Any) -> None:
    """Give the experts from column ``at`` new weights of feature j; ``first`` is the column of the grid."""
    old = load(grid, x, j, at)
    t = x.dtype.type(later.rounds[0])
    store(later.changes, j, at - first, load(grid, later.changes, j, at - first) + (new - old) * t)
    store(x, j, at, new)


@formula(fast=True)
def shrink_weights(parts: Any, count: Any, norm: float, scores: Any) -> None:
    """Shrink the weights of a row's features towards 0, all but the constant's."""
    grid, columns, features, x, row = parts.grid, parts.columns, parts.features, parts.x, parts.buffers.row
    real, by = x.dtype.type, factors(grid, norm, parts.buffers.factors)
    first = strengths(x, real(0.0), real(0.0), by)
    for k in range(count):
        j = row.j[k]
        dense = features.record[j, DENSE_PLACE] > 0.0
        seen = features.counts[ROWS] if dense else np.float64(x[j, columns.count])
        if np.int64(j) != parts.pieces.constant and seen > 0.0:
            most = strengths(x, x[j, columns.curve], x[j, columns.root], by) * real(seen)
            kept = (most - first) / most
            for m in range(scores):
                at = columns.lanes + m * np.uint64(lanes(grid))
                change_weights(grid, parts.later, x, j, at, columns.lanes, load(grid, x, j, at) * kept)


@formula(fast=True)
def move_later(parts: Any, j: int, at: Any, a: Any, along: Any) -> None:
    """:func:`giftrl.mixtures.experts.move` in a later round."""
    grid, x, most = parts.grid, parts.x, parts.x.dtype.type(LARGEST_EXPERT_WEIGHT)
    change_weights(grid, parts.later, x, j, at, parts.columns.lanes, clip(load(grid, x, j, at) - a * along, most))


@formula(fast=True)
def end_round(later: LaterSums, matrix: Matrix) -> None:
    """Add the weights of the full matrix, and count the round."""
    if matrix.size[0] > 0:
        many, one = later.matrix.flat, matrix.x.flat  # a vector, or a matrix with a column for each class
        for k in range(matrix.x.size):
            many[k] += one[k]
    later.rounds[0] += 1.0
