"""The walks over the entries of a row, for one score: one takes them in and predicts, the other teaches.

With float32 weights the sums over a row are float32, too. Their errors are of the order 1e-7 of their largest terms,
which is what rounding the weights costs anyway; and nothing that is certified depends on them, since theta is float64.
"""

from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.lanes import absolute, clip, get, load, narrow, prefetch, put, read, store, where_less, wide, write
from giftrl.compiled.registry import formula
from giftrl.kernels.lane_counts import FOUR
from giftrl.mixtures import labels as unit
from giftrl.mixtures import limits
from giftrl.mixtures.coin import stakes, win, winnings
from giftrl.mixtures.columns import ALL, COIN, COMBINED, FULL, SLOPES, UNUSED, A, C, Z
from giftrl.mixtures.experts import bets, factors, lanes, move, remember, strengths
from giftrl.mixtures.feature_state import mean_norm
from giftrl.mixtures.full_matrix import drift_matrix, is_in, measure_matrix
from giftrl.mixtures.later import move_again
from giftrl.mixtures.layout import ONE_SCORE
from giftrl.mixtures.parts import read_row
from giftrl.ops.scalar import clamp

ONE = np.uint64(1)
#: The column of ``Buffers.steps`` behind the steps of the grid: what the coin bets.
BET = np.uint64(8)


class Sums(NamedTuple):
    """Sums over the entries of a row: predictions and c of the grid, and what the coin bets."""

    p: Any
    c: Any
    coin: Any


@formula(fast=True)
def no_sums(x: Any, by: Any) -> Any:
    """The sums before the first entry."""
    zero = x.dtype.type(0.0)
    return Sums(by.curve * zero, by.curve * zero, zero)


@formula(fast=True)
def meet(parts: Any, by: Any, n: Any, j: int, u: Any, sums: Any) -> Any:
    """Add entry n to the sums, and remember what learning from it will need."""
    grid, x, buffers = parts.grid, parts.x, parts.buffers
    strong, coin = strengths(x, x[j, ONE_SCORE.curve], x[j, ONE_SCORE.root], by), sums.coin
    if bets(grid):
        # One division serves the experts, u/L, and the coin, 1/(1 + G): the processor has one unit for them.
        slopes = stakes(x, j, ONE_SCORE.coin, ONE)
        per = x.dtype.type(1.0) / (strong * slopes)
        along = per * (u * slopes)
        part = winnings(x, j, ONE_SCORE.coin, ONE) * (get(per, 0) * get(strong, 0))
        buffers.steps[n, BET] = part
        coin = coin + u * part
    else:
        along = u / strong
    store(buffers.steps, n, 0, along)
    return Sums(sums.p + load(grid, x, j, ONE_SCORE.lanes) * u, sums.c + along * u, coin)


@formula(fast=True)
def predict_row(parts: Any, rows: Any, i: int) -> tuple[Any, float]:
    """Take in row i; the prediction of every expert, and kappa c of those of the grid. Return its entries, and N."""
    count = read_row(parts, ONE_SCORE, rows, i, ONE)
    norm, row = mean_norm(parts.features), parts.buffers.row
    by = factors(parts.grid, norm, parts.buffers.factors)
    sums = no_sums(parts.x, by)
    for k in range(count):
        prefetch(parts.theta, row.j[k], 0)
        sums = meet(parts, by, k, row.j[k], row.u[k], sums)
    give(parts, count, norm, sums)
    return count, norm


@formula(fast=True)
def give(parts: Any, count: Any, norm: float, sums: Any) -> None:
    """Turn the sums over a row into predictions: the constants move with the centres of features, and are added."""
    grid, x, matrix, units, offsets = parts.grid, parts.x, parts.matrix, parts.state.units, parts.state.offsets
    row, every, side, n = parts.buffers.row, parts.buffers.every, parts.buffers.experts, lanes(parts.grid)
    o, stake = units[unit.OFFSET], unit.per_norm(units, norm)
    store(every, C, 0, wide(sums.c))
    store(every, ALL, 0, wide(sums.p))
    full = measure_matrix(matrix, parts.features.record, row, count) if is_in(matrix) else 0.0
    p = put(put(read(side, every[ALL]), n + COIN, stake * np.float64(sums.coin)), n + FULL, full)
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
    write(every[ALL], where_less(absolute(p), limits.LARGEST_PREDICTION, p, o))


class Gains(NamedTuple):
    """How q_j, r_j and theta_j and G_j of the coin grow, side by side: factors of u^2, u and abs(u)."""

    squared: Any
    linear: Any
    size: Any


@formula(fast=True)
def fill_gains(parts: Any, curved: float, relative: float, stake: float) -> Any:
    """The gains of a round: those of :func:`giftrl.mixtures.experts.remember` and of the coin."""
    four = parts.buffers.gains
    four[0, 0], four[0, 1], four[1, 2], four[2, 3] = curved, relative * relative, -stake, abs(stake)
    return Gains(load(FOUR, four, 0, 0), load(FOUR, four, 1, 0), load(FOUR, four, 2, 0))


@formula(fast=True)
def add_gains(x: Any, gains: Any, j: int, u: Any) -> None:
    """Let the four numbers of feature j grow."""
    grown = load(FOUR, x, j, ONE_SCORE.curve) + gains.squared * (u * u) + gains.linear * u + gains.size * abs(u)
    store(x, j, ONE_SCORE.curve, clip(grown, x.dtype.type(limits.LARGEST_EXPERT_WEIGHT)))


@formula(fast=True)
def teach_entries(parts: Any, now: Any) -> None:
    """A round of the experts that have a weight for each feature."""
    grid, x, units, row, every = parts.grid, parts.x, parts.state.units, parts.buffers.row, parts.buffers.every
    kappa, steep, h = unit.kappa(units), unit.unit_slope(units), now.h
    a = narrow(x, clip(load(grid, every, A, 0) * (h / kappa), limits.LARGEST_EXPERT_WEIGHT))
    combined, coin = every[SLOPES, lanes(grid) + COMBINED], every[SLOPES, lanes(grid) + COIN]
    relative = clamp(h * combined / steep, -limits.LARGEST_SLOPE, limits.LARGEST_SLOPE)
    stake = clamp(h * coin / steep, -1.0, 1.0)
    curved = min(now.bend / kappa, limits.LARGEST_EXPERT_WEIGHT)
    if parts.pieces.again:
        for k in range(now.count):
            move_again(parts, row.j[k], ONE_SCORE.lanes, a, load(grid, parts.buffers.steps, k, 0))
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
