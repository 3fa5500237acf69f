"""The loops over the entries of a row: scale it, predict, update the experts, and move theta of the certificate.

With float32 weights the sums over a row are float32, too. Their errors are of the order 1e-7 of their largest terms,
which is what rounding the weights costs anyway; and nothing that is certified depends on them, since theta is float64.
theta is minus the sum of slope times row in the original features: its values come from the rows themselves.

A mixture of one score keeps its experts in as many columns as the grid has, and four more: the coin, the full matrix,
and two that are empty, so that wide registers of four numbers are full. A round has four more columns for the
candidates, and puts the combined prediction into the first empty one. With K scores there are no empty columns.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import absolute, clip, get, load, narrow, prefetch, put, read, store, where_less, wide, write
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.kernels.lane_counts import FOUR, lanes
from giftrl.mixtures import clip_limits as limits
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.clip_limits import LARGEST_THETA, LARGEST_VALUE, ORDINARY_SLOPE
from giftrl.mixtures.experts import (
    WEALTH,
    StrengthFactors,
    bets,
    factors,
    grow,
    grow_coin,
    move,
    remember,
    strengths,
    win,
)
from giftrl.mixtures.full_matrix import Matrix, drift_matrix, follow_scale, is_in, measure_matrix
from giftrl.mixtures.later_passes import LaterSums, move_later, shrink_weights
from giftrl.mixtures.scale_row import Entries, scale_row, scale_row_again
from giftrl.mixtures.state import ONE_SCORE, PLACE, BlockColumns, FeatureState, Pieces, mean_norm
from giftrl.ops.scalar import clamp

#: The rows of ``Buffers.every``: predictions, those less the origin, A z of the stack, predictions as they are
#: compared, losses, slopes; then the lengths c of proximal steps and their results a.
PREDICTIONS, Z, AZ, CLIPPED, LOSSES, SLOPES, LENGTHS, STEPS, ROUND_LINES = range(9)
#: Its columns, counted from the end of the grid: the coin, the full matrix, the combined prediction, one that is not
#: used, the first candidate and the second one, which is the stack.
COIN, FULL, COMBINED, UNUSED, CANDIDATE, STACK = range(6)


class MixtureParts(NamedTuple):
    """All that the rounds of a batch work with, for one score or K; x and theta are those of the features."""

    loss: Any
    grid: Any
    columns: BlockColumns
    pieces: Pieces
    features: FeatureState
    x: NDArray[Any]
    theta: NDArray[np.float64]
    matrix: Matrix
    state: Any
    later: LaterSums
    buffers: Any


class MixtureBatch(NamedTuple):
    """A :class:`giftrl.kernels.base.LabeledRows`, with an array for predictions that are neither clipped nor boosted.

    That array is empty if they are not wanted.
    """

    rows: Any
    labels: Any
    weights: Any
    predictions: Any
    linear: Any


@formula(fast=True)
def follow_growth(
    parts: MixtureParts, columns: BlockColumns, by: StrengthFactors, scores: Any, j: int, growth: float
) -> None:
    """Let the experts follow the scale of a feature that has grown by 1/growth."""
    x = parts.x
    grow(parts.grid, columns, scores, x, j, growth, by)
    grow_coin(x, j, columns.coin, scores, growth)
    if is_in(parts.matrix) and parts.features.record[j, PLACE] > 0.0:
        follow_scale(parts.state, parts.matrix, np.int64(parts.features.record[j, PLACE]) - 1, growth)


@formula(fast=True)
def read_row(parts: MixtureParts, columns: BlockColumns, rows: Any, i: int, scores: Any) -> Any:
    """Scale row i, and let the experts follow scales that have grown; return the number of entries."""
    pieces, row = parts.pieces, parts.buffers.row
    if pieces.again:
        again = scale_row_again(parts.features, rows, i, -1.0 - parts.later.rounds[0], row)
        shrink_weights(parts, again, mean_norm(parts.features), scores)
        return again
    norm = mean_norm(parts.features)
    count = scale_row(parts.features, columns, parts.x, pieces, rows, i, row)
    by = factors(parts.grid, norm, parts.buffers.factors)
    for listed in range(row.many[0]):
        if row.growth[listed] < 1.0:
            follow_growth(parts, columns, by, scores, row.j[row.moved[listed]], row.growth[listed])
    return count


ONE = np.uint64(1)
#: The column of ``Buffers.steps`` behind the steps of the grid: what the coin bets.
BET = np.uint64(8)


class Sums(NamedTuple):
    """Sums over the entries of a row: predictions and c of the grid, and what the coin bets."""

    p: Any
    c: Any
    coin: Any


@formula(fast=True)
def no_sums(x: Any, by: StrengthFactors) -> Any:
    """The sums before the first entry."""
    zero = x.dtype.type(0.0)
    return Sums(by.curve * zero, by.curve * zero, zero)


@formula
def divide_once(x: Any, j: int, u: Any, strong: Any) -> tuple[Any, Any]:
    """u/L of the grid, and what the coin bets, from one division: the processor has one unit for them.

    It is not a fast formula, so that the order of the products does not depend on the loop around them.
    """
    real, coin = x.dtype.type, ONE_SCORE.coin
    slopes = real(1.0) + x[j, coin + ONE]
    per = real(1.0) / (strong * slopes)
    wealth = real(WEALTH) + x[j, coin + ONE + ONE]
    return per * (u * slopes), x[j, coin] * get(strong, 0) * wealth * get(per, 0)


@formula(fast=True)
def add_entry(parts: MixtureParts, by: StrengthFactors, n: Any, j: int, u: Any, sums: Any) -> Any:
    """Add entry n to the sums, and keep the numbers that learning from it needs."""
    grid, x, buffers = parts.grid, parts.x, parts.buffers
    strong, coin = strengths(x, x[j, ONE_SCORE.curve], x[j, ONE_SCORE.root], by), sums.coin
    if bets(grid):
        along, bet = divide_once(x, j, u, strong)
        buffers.steps[n, BET] = bet
        coin = coin + u * bet
    else:
        along = u / strong
    store(buffers.steps, n, 0, along)
    return Sums(sums.p + load(grid, x, j, ONE_SCORE.lanes) * u, sums.c + along * u, coin)


@formula(fast=True)
def predict_row(parts: MixtureParts, rows: Any, i: int) -> tuple[Any, float]:
    """Compute the prediction of every expert for row i, and kappa c of the grid; return its entries, and N."""
    count = read_row(parts, ONE_SCORE, rows, i, ONE)
    norm, row = mean_norm(parts.features), parts.buffers.row
    by = factors(parts.grid, norm, parts.buffers.factors)
    sums = no_sums(parts.x, by)
    for k in range(count):
        prefetch(parts.theta, row.j[k], 0)
        sums = add_entry(parts, by, k, row.j[k], row.u[k], sums)
    finish_predictions(parts, count, norm, sums)
    return count, norm


@formula(fast=True)
def finish_predictions(parts: MixtureParts, count: Any, norm: float, sums: Any) -> None:
    """Turn the sums over a row into predictions: the constants move with the centres of features, and are added."""
    grid, x, matrix, units, offsets = parts.grid, parts.x, parts.matrix, parts.state.units, parts.state.offsets
    row, every, side, n = parts.buffers.row, parts.buffers.every, parts.buffers.experts, lanes(parts.grid)
    o, stake = units[unit.OFFSET], unit.per_norm(units, norm)
    store(every, LENGTHS, 0, wide(sums.c))
    store(every, PREDICTIONS, 0, wide(sums.p))
    full = measure_matrix(matrix, parts.features.record, row, count) if is_in(matrix) else 0.0
    p = put(put(read(side, every[PREDICTIONS]), n + COIN, stake * np.float64(sums.coin)), n + FULL, full)
    if row.many[0] > 0:
        drift, bet_drift = sums.p * x.dtype.type(0.0), 0.0
        for listed in range(row.many[0]):
            k, moved = row.moved[listed], row.drift[listed]
            drift = drift + load(grid, x, row.j[k], ONE_SCORE.lanes) * x.dtype.type(moved)
            if bets(grid):
                bet_drift += moved * np.float64(parts.buffers.steps[k, BET])
        store(every, Z, 0, wide(drift))
        drifts = put(read(side, every[Z]), n + COIN, stake * bet_drift)
        full_drift = drift_matrix(matrix, parts.features.record, row) if is_in(matrix) else 0.0
        drifts = put(put(drifts, n + FULL, full_drift), n + COMBINED, 0.0)
        write(offsets, clip(read(side, offsets) + drifts, limits.LARGEST_PREDICTION))
    p = put(p, n + UNUSED, 0.0) + read(side, offsets) + o
    write(every[PREDICTIONS], where_less(absolute(p), limits.LARGEST_PREDICTION, p, o))


class Gains(NamedTuple):
    """The growth of q_j, r_j and theta_j and G_j of the coin, side by side: factors of u^2, u and abs(u)."""

    squared: Any
    linear: Any
    size: Any


@formula(fast=True)
def fill_gains(parts: MixtureParts, curved: float, relative: float, stake: float) -> Any:
    """The gains of a round: those of :func:`giftrl.mixtures.experts.remember` and of the coin."""
    four = parts.buffers.gains
    four[0, 0], four[0, 1], four[1, 2], four[2, 3] = curved, relative * relative, -stake, abs(stake)
    return Gains(load(FOUR, four, 0, 0), load(FOUR, four, 1, 0), load(FOUR, four, 2, 0))


@formula(fast=True)
def add_gains(x: Any, gains: Gains, j: int, u: Any) -> None:
    """Let the four numbers of feature j grow."""
    grown = load(FOUR, x, j, ONE_SCORE.curve) + gains.squared * (u * u) + gains.linear * u + gains.size * abs(u)
    store(x, j, ONE_SCORE.curve, clip(grown, x.dtype.type(limits.LARGEST_EXPERT_WEIGHT)))


@formula(fast=True)
def update_entries(parts: MixtureParts, now: Any) -> None:
    """Update the experts that have a weight for each feature."""
    grid, x, units, row, every = parts.grid, parts.x, parts.state.units, parts.buffers.row, parts.buffers.every
    kappa, steep, h = unit.kappa(units), unit.unit_slope(units), now.h
    a = narrow(x, clip(load(grid, every, STEPS, 0) * (h / kappa), limits.LARGEST_EXPERT_WEIGHT))
    combined, coin = every[SLOPES, lanes(grid) + COMBINED], every[SLOPES, lanes(grid) + COIN]
    relative = clamp(h * combined / steep, -limits.LARGEST_SLOPE, limits.LARGEST_SLOPE)
    stake = clamp(h * coin / steep, -1.0, 1.0)
    curved = min(now.bend / kappa, limits.LARGEST_EXPERT_WEIGHT)
    if parts.pieces.again:
        for k in range(now.count):
            move_later(parts, row.j[k], ONE_SCORE.lanes, a, load(grid, parts.buffers.steps, k, 0))
            remember(ONE_SCORE, x, row.j[k], row.u[k], curved, relative)
        return
    gains, z = fill_gains(parts, curved, relative, stake), x.dtype.type(stake)
    for k in range(now.count):
        j, u = row.j[k], row.u[k]
        move(grid, x, j, ONE_SCORE.lanes, a, load(grid, parts.buffers.steps, k, 0))
        if bets(grid):
            add_gains(x, gains, j, u)
            win(x, j, ONE_SCORE.coin, ONE, -z * u * parts.buffers.steps[k, BET])
        else:
            remember(ONE_SCORE, x, j, u, curved, relative)


ONLY_COLUMN = np.uint64(0)


@formula(fast=True)
def shift(theta: Any, j: int, m: Any, z: float) -> int:
    """theta_j -= z for score m; return 1 if that is out of bounds, and then leave theta_j as it was."""
    new = theta[j, m] - z
    fits = abs(new) <= LARGEST_THETA
    theta[j, m] = new if fits else theta[j, m]
    return 0 if fits else 1


@formula(fast=True)
def move_theta(theta: Any, rows: Any, i: int, slope: float, row: Entries) -> int:
    """theta -= slope s, s row i; return how many are out of bounds.

    In a row without huge values, and with a slope of ordinary size, nothing leaves its bounds.
    """
    first, last, far = begin(rows, i), end(rows, i), 0
    if row.many[1] > 0 or not abs(slope) <= ORDINARY_SLOPE:
        for k in range(first, last):
            v = clamp(np.float64(rows.data[k]), -LARGEST_VALUE, LARGEST_VALUE)
            far += shift(theta, column(rows, i, k), ONLY_COLUMN, slope * v)
        return far
    for k in range(first, last):
        theta[column(rows, i, k), ONLY_COLUMN] -= slope * np.float64(rows.data[k])
    return far


@formula(fast=True)
def move_thetas(theta: Any, rows: Any, i: int, slopes: Any, h: float) -> int:
    """:func:`move_theta` for each of K scores, with a slope for each and weight h."""
    far = 0
    for k in range(begin(rows, i), end(rows, i)):
        j, v = column(rows, i, k), h * clamp(np.float64(rows.data[k]), -LARGEST_VALUE, LARGEST_VALUE)
        for m in range(len(slopes)):
            far += shift(theta, j, m, slopes[m] * v)
    return far
