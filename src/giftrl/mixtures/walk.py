"""The walks over the entries of a row, for one score: one takes them in and predicts, the other teaches.

With float32 weights the sums over a row are float32, too. Their errors are of the order 1e-7 of their largest terms,
which is what rounding the weights costs anyway; and nothing that is certified depends on them, since theta is float64.
"""

from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.lanes import clip, load, narrow, prefetch, store, wide
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, coming, end
from giftrl.mixtures import labels as unit
from giftrl.mixtures import limits
from giftrl.mixtures.coin import fraction, settle_bet
from giftrl.mixtures.experts import bets, factors, lanes, measure, move, remember
from giftrl.mixtures.feature_state import DENSE, ROWS, mean_norm
from giftrl.mixtures.features import begin_row, end_row, enter_missing, enter_value, list_moved, quick_value
from giftrl.mixtures.full_matrix import is_in, measure_matrix
from giftrl.mixtures.later import move_again
from giftrl.mixtures.layout import ONE_SCORE
from giftrl.mixtures.one_score import ALL, A, C, Z, expert_columns
from giftrl.mixtures.parts import follow_growth, move_theta, read_row, scaling
from giftrl.ops.loss import slope
from giftrl.ops.scalar import clamp

ZERO, ONE = np.uint64(0), np.uint64(1)
#: From this row on, N is that of the rows before; until then that includes the row itself, for which a row is walked
#: over twice.
STEADY = 100.0


class Sums(NamedTuple):
    """Sums over the entries of a row: predictions and c of the grid, what the coin bets, and norm2(u)^2."""

    p: Any
    c: Any
    coin: Any
    squares: Any


@formula(fast=True)
def no_sums(x: Any, by: Any) -> Any:
    """The sums before the first entry."""
    zero = x.dtype.type(0.0)
    return Sums(by.curve * zero, by.curve * zero, zero, zero)


@formula(fast=True)
def meet(parts: Any, by: Any, n: Any, j: int, u: Any, sums: Any) -> Any:
    """Add entry n to the sums, and remember what learning from it will need."""
    grid, x, buffers = parts.grid, parts.x, parts.buffers
    along = measure(ONE_SCORE, x, j, u, by)
    store(buffers.steps, n, 0, along)
    coin = sums.coin
    if bets(grid):
        part = fraction(x, j, ONE_SCORE.coin, ONE)
        buffers.bets[n] = part
        coin = coin + u * part
    return Sums(sums.p + load(grid, x, j, ONE_SCORE.lanes) * u, sums.c + along * u, coin, sums.squares + u * u)


@formula(fast=True)
def move_in(parts: Any, by: Any, n: Any, j: int, v: float, moved: Any) -> Any:
    """Put an entry that moves into the row, and let the experts follow a scale that has grown; return u."""
    u = list_moved(parts.buffers.row, n, j, v, moved)
    if moved[1] < 1.0:
        follow_growth(parts, by, ONE, j, moved[1])
    return u


@formula(fast=True)
def walk_in(parts: Any, rows: Any, i: int, by: Any) -> tuple[Any, Any]:
    """Take in row i and predict in one walk; the number of entries, and the sums over them."""
    features, x, pieces, row = parts.features, parts.x, parts.pieces, parts.buffers.row
    how = scaling(pieces, pieces.scale)
    many, n, sums = begin_row(features, how), np.uint64(0), no_sums(x, by)
    limit, t = x.dtype.type(many), features.counts[ROWS]
    row.many[0] = np.uint64(0)
    for k in range(begin(rows, i), end(rows, i)):
        prefetch(x, coming(rows, i, k), 0)
        v, j = float(rows.data[k]), column(rows, i, k)
        u = quick_value(ONE_SCORE, x, how, j, v, limit)
        if u == x.dtype.type(0.0):
            if v == 0.0:  # skipped, so that sparse and dense rows are the same
                continue
            u = move_in(parts, by, n, j, v, enter_value(features, ONE_SCORE, x, how, j, v, many))
        else:
            row.j[n], row.v[n], row.u[n] = j, v, u
        sums = meet(parts, by, n, j, u, sums)
        n += ONE
    place = np.uint64(0)
    while place < np.uint64(features.counts[DENSE]):
        j = features.dense[place]
        if features.stamps[place] != t:
            u = move_in(parts, by, n, j, 0.0, enter_missing(features, ONE_SCORE, x, how, place))
            sums = meet(parts, by, n, j, u, sums)
            n += ONE
        if features.dense[place] == j:
            place += ONE
    end_row(features, n, np.float64(sums.squares))
    return n, sums


@formula(fast=True)
def walk_again(parts: Any, count: Any, by: Any) -> Any:
    """The sums over the entries of a row that was taken in."""
    row, sums = parts.buffers.row, no_sums(parts.x, by)
    for k in range(count):
        sums = meet(parts, by, k, row.j[k], row.u[k], sums)
    return sums


@formula(fast=True)
def predict_row(parts: Any, rows: Any, i: int) -> tuple[Any, float]:
    """Take in row i; the prediction of every expert, and kappa c of those of the grid. Return its entries, and N."""
    grid, features = parts.grid, parts.features
    norm = mean_norm(features)
    by = factors(grid, norm, parts.buffers.factors)
    if features.counts[ROWS] < STEADY or parts.pieces.again:
        count = read_row(parts, rows, i, ONE, parts.pieces.scale)
        norm = mean_norm(features)
        by = factors(grid, norm, parts.buffers.factors)
        sums = walk_again(parts, count, by)
    else:
        count, sums = walk_in(parts, rows, i, by)
    give(parts, count, norm, sums)
    return count, norm


@formula(fast=True)
def give(parts: Any, count: Any, norm: float, sums: Any) -> None:
    """Turn the sums over a row into predictions: the constants move with the centres of features, and are added."""
    grid, x, matrix, state = parts.grid, parts.x, parts.matrix, parts.state
    row, every = parts.buffers.row, parts.buffers.every
    o, stake, coin = state.units[unit.OFFSET], unit.per_norm(state.units, norm), lanes(grid)
    for r in range(coin, expert_columns(grid)):
        every[ALL, r], every[Z, r] = 0.0, 0.0
    store(every, C, 0, wide(sums.c))
    store(every, ALL, 0, wide(sums.p))
    moved, bet_moved = sums.p * x.dtype.type(0.0), 0.0
    for listed in range(row.many[0]):
        k, drift = row.moved[listed], row.drift[listed]
        moved = moved + load(grid, x, row.j[k], ONE_SCORE.lanes) * x.dtype.type(drift)
        if bets(grid):
            bet_moved += drift * np.float64(parts.buffers.bets[k])
    store(every, Z, 0, wide(moved))
    if bets(grid):
        every[ALL, coin], every[Z, coin] = stake * np.float64(sums.coin), stake * bet_moved
    if is_in(matrix):
        p_matrix, drift = measure_matrix(matrix, parts.features.record, row, count)
        every[ALL, coin + 1], every[Z, coin + 1] = p_matrix, drift
    for r in range(expert_columns(grid)):
        state.offsets[r] = clamp(state.offsets[r] + every[Z, r], -limits.LARGEST_PREDICTION, limits.LARGEST_PREDICTION)
        guess = every[ALL, r] + state.offsets[r] + o
        every[ALL, r] = guess if abs(guess) < limits.LARGEST_PREDICTION else o


@formula(fast=True)
def teach_entries(extended: Any, parts: Any, now: Any) -> int:
    """A round of theta and of the experts that have a weight for each feature; how many thetas are out of bounds."""
    grid, x, units, row, every = parts.grid, parts.x, parts.state.units, parts.buffers.row, parts.buffers.every
    kappa, steep, h = unit.kappa(units), unit.unit_slope(units), now.h
    a = narrow(x, clip(load(grid, every, A, 0) * (h / kappa), limits.LARGEST_EXPERT_WEIGHT))
    relative = clamp(h * slope(extended, now.p, now.y) / steep, -limits.LARGEST_SLOPE, limits.LARGEST_SLOPE)
    stake = clamp(h * slope(extended, every[ALL, lanes(grid)], now.y) / steep, -1.0, 1.0)
    curved = min(now.bend / kappa, limits.LARGEST_EXPERT_WEIGHT)
    far = 0
    if parts.pieces.again:
        for k in range(now.count):
            move_again(parts, row.j[k], ONE_SCORE.lanes, a, load(grid, parts.buffers.steps, k, 0))
            remember(ONE_SCORE, x, row.j[k], row.u[k], curved, relative)
        return far
    z = x.dtype.type(stake)
    for k in range(now.count):
        j, u = row.j[k], row.u[k]
        far += move_theta(parts.theta, j, ZERO, now.slant * row.v[k])
        move(grid, x, j, ONE_SCORE.lanes, a, load(grid, parts.buffers.steps, k, 0))
        remember(ONE_SCORE, x, j, u, curved, relative)
        if bets(grid):
            settle_bet(x, j, ONE_SCORE.coin, ONE, z * u, -z * u * parts.buffers.bets[k])
    return far


@formula(fast=True)
def move_thetas(parts: Any, now: Any) -> int:
    """A round of theta alone; how many thetas are out of bounds."""
    row, far = parts.buffers.row, 0
    for k in range(now.count):
        far += move_theta(parts.theta, row.j[k], ZERO, now.slant * row.v[k])
    return far
