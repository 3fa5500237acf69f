"""The loop of a mixture with one score: row by row it predicts, accounts and learns."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import clip, load, narrow, put, read, store, total, wide, write, zeros
from giftrl.compiled.registry import formula
from giftrl.mixtures import labels as unit
from giftrl.mixtures import limits
from giftrl.mixtures.coin import bet, settle_bet
from giftrl.mixtures.columns import ALL, AZ, CLIPPED, COIN, COMBINED, FULL, LOSSES, SLOPES, STACK, A, C, Z
from giftrl.mixtures.combination import CONJUGATE, UNCOMPARED, add_round, judge_clipping
from giftrl.mixtures.experts import bets, factors, lanes, measure, move, remember
from giftrl.mixtures.extension import Extended
from giftrl.mixtures.features import mean_norm
from giftrl.mixtures.full_matrix import admits, is_in, measure_matrix, spread_matrix, step_matrix
from giftrl.mixtures.later import end_round, move_again
from giftrl.mixtures.layout import ONE_SCORE, THETA
from giftrl.mixtures.newton_stack import bend_stack, move_stack, spread_stack
from giftrl.mixtures.parts import move_theta, read_row
from giftrl.mixtures.side_by_side import account, combine, find_slopes, meet, timid
from giftrl.ops.loss import approach_all, slope, value
from giftrl.ops.scalar import clamp, log

__all__ = ["Buffers", "Pieces", "State", "learn_mixture"]

ONE = np.uint64(1)


class Pieces(NamedTuple):
    """Which parts are on, and which feature is the constant (-1: none)."""

    constant: int
    margin: bool  # labels are -1 and +1
    bold: float  # how much bolder the bold candidates are; 1 for none
    centre: bool
    scale: bool
    centre_labels: bool
    extend: bool
    stack: bool
    again: bool = False  # whether rows were learnt before: see giftrl.mixtures.later


class State(NamedTuple):
    """What a mixture of one score remembers besides its features."""

    units: NDArray[np.float64]
    offsets: NDArray[np.float64]  # of each expert: what centring has added to its constant
    totals: NDArray[np.float64]  # the loss of each expert
    candidates: NDArray[np.float64]  # the loss of each candidate
    stack: NDArray[np.float64]
    inverse: NDArray[np.float64]
    sums: NDArray[np.float64]


class Buffers(NamedTuple):
    """Scratch memory for a round."""

    row: Any
    experts: Any  # a side with a lane for each expert
    side: Any  # and one with lanes for the candidates too
    every: NDArray[np.float64]
    steps: NDArray[Any]
    factors: NDArray[Any]
    bets: NDArray[np.float64]
    au: NDArray[np.float64]


class Round(NamedTuple):
    """A row after its prediction."""

    count: Any  # entries
    norm: float  # N
    slant: float  # weight times slope at p, by which theta moves
    y: float
    h: float  # the weight, clipped
    bend: float  # weight times curvature at p
    begun: bool  # whether there was a range of labels to predict in


@formula(fast=True)
def expert_columns(grid: Any) -> int:
    """How many columns there are; the last two are empty, so that wide registers of four numbers are full."""
    return lanes(grid) + 4


@formula(fast=True)
def predict_row(parts: Any, count: int, norm: float) -> None:
    """The prediction of every expert, and kappa c of those of the grid."""
    grid, x, matrix, state = parts.grid, parts.x, parts.matrix, parts.state
    row, every, at_stake = parts.buffers.row, parts.buffers.every, parts.buffers.bets
    o, stake = state.units[unit.OFFSET], unit.per_norm(state.units, norm)
    for r in range(expert_columns(grid)):
        every[ALL, r], every[Z, r] = 0.0, 0.0
    by = factors(grid, norm, parts.buffers.factors)
    p, c, won = zeros(grid), zeros(grid), 0.0
    for k in range(count):
        j, u = row.j[k], row.u[k]
        along = measure(ONE_SCORE, x, j, u, by)
        store(parts.buffers.steps, k, 0, along)
        c = c + wide(along) * u
        p = p + wide(load(grid, x, j, ONE_SCORE.lanes)) * u
        if bets(grid):
            at_stake[k] = bet(x, j, ONE_SCORE.coin, ONE, stake)
            won += u * at_stake[k]
    store(every, C, 0, c)
    store(every, ALL, 0, p)
    moved = zeros(grid)  # how far the constants move with the centres of features
    for listed in range(row.many[0]):
        k = row.moved[listed]
        moved = moved + wide(load(grid, x, row.j[k], ONE_SCORE.lanes)) * row.drift[k]
    store(every, Z, 0, moved)
    if bets(grid):
        every[ALL, lanes(grid)] = won
        for listed in range(row.many[0]):
            every[Z, lanes(grid)] += row.drift[row.moved[listed]] * at_stake[row.moved[listed]]
    if is_in(matrix):
        p_matrix, drift = measure_matrix(matrix, x, ONE_SCORE.place, row, count)
        every[ALL, lanes(grid) + 1], every[Z, lanes(grid) + 1] = p_matrix, drift
    for r in range(expert_columns(grid)):
        state.offsets[r] = clamp(state.offsets[r] + every[Z, r], -limits.LARGEST_PREDICTION, limits.LARGEST_PREDICTION)
        guess = every[ALL, r] + state.offsets[r] + o
        every[ALL, r] = guess if abs(guess) < limits.LARGEST_PREDICTION else o


@formula(fast=True)
def teach_entries(parts: Any, now: Any) -> int:
    """A round of theta and of the experts that have a weight for each feature; how many thetas are out of bounds."""
    grid, x, units, row, every = parts.grid, parts.x, parts.state.units, parts.buffers.row, parts.buffers.every
    kappa, steep, h = unit.kappa(units), unit.unit_slope(units), now.h
    a = narrow(x, clip(load(grid, every, A, 0) * (h / kappa), limits.LARGEST_EXPERT_WEIGHT))
    combined, coin = every[SLOPES, lanes(grid) + COMBINED], every[SLOPES, lanes(grid) + COIN]
    relative = clamp(h * combined / steep, -limits.LARGEST_SLOPE, limits.LARGEST_SLOPE)
    stake = clamp(h * coin / steep, -1.0, 1.0)
    curved, per_stake = min(now.bend / kappa, limits.LARGEST_EXPERT_WEIGHT), 1.0 / unit.per_norm(units, now.norm)
    far = 0
    if parts.pieces.again:
        for k in range(now.count):
            move_again(parts, row.j[k], ONE_SCORE.lanes, a, load(grid, parts.buffers.steps, k, 0))
            remember(ONE_SCORE, x, row.j[k], row.u[k], curved, relative)
        return far
    for k in range(now.count):
        j, u = row.j[k], row.u[k]
        far += move_theta(parts.features.record, j, THETA, now.slant * row.v[k])
        move(grid, x, j, ONE_SCORE.lanes, a, load(grid, parts.buffers.steps, k, 0))
        remember(ONE_SCORE, x, j, u, curved, relative)
        if bets(grid):
            won = -stake * u * parts.buffers.bets[k] * per_stake
            settle_bet(x, j, ONE_SCORE.coin, ONE, stake * u, won)
    return far


@formula(fast=True)
def teach(extended: Any, parts: Any, now: Any) -> None:
    """A round of every expert and of the stack: the proximal steps of all of them side by side."""
    matrix, x, state, pieces = parts.matrix, parts.x, parts.state, parts.pieces
    row, side, every, au = parts.buffers.row, parts.buffers.side, parts.buffers.every, parts.buffers.au
    units, h, n, far, experts = state.units, now.h, lanes(parts.grid), 0, parts.buffers.experts
    per_kappa, per_tau = 1.0 / unit.kappa(units), 1.0 / unit.temperature(units, pieces.margin)
    learns = unit.ready(units)
    c_matrix, c_stack = -1.0, -1.0  # negative where they do not learn
    # The matrix first: if it leaves, it must be gone before the stack learns.
    if learns and admits(matrix, state, n + FULL, x, ONE_SCORE.place, row, now.count, now.norm):
        c_matrix = spread_matrix(matrix, x, ONE_SCORE.place, row, now.count, au)
    if pieces.stack and now.begun and not pieces.again:
        spread, az = unit.unit_spread(units), spread_stack(experts, state.inverse, every[Z])
        write(every[AZ], az)
        c = max(0.0, total(read(experts, every[Z]) * az))
        c_stack = c if c <= limits.LONGEST_STACK_STEP * spread * spread else -1.0
    lengths = put(read(side, every[C]) * (h * per_kappa), n + FULL, h * per_kappa * max(0.0, c_matrix))
    write(every[C], put(lengths, n + STACK, h * per_tau * max(0.0, c_stack)))
    approach_all(extended, side, every[ALL], now.y, every[C], every[SLOPES], every[A])
    if c_stack >= 0.0:
        move_stack(experts, state.stack, read(experts, every[AZ]), h * every[A, n + STACK] * per_tau)
        bend_stack(experts, state.inverse, every[AZ], c_stack, now.bend * per_tau)
    if c_matrix >= 0.0:
        step_matrix(matrix, au, c_matrix, h * every[A, n + FULL] * per_kappa, now.bend * per_kappa)
    if learns:
        far = teach_entries(parts, now)
    elif not pieces.again:
        for k in range(now.count):
            far += move_theta(parts.features.record, row.j[k], THETA, now.slant * row.v[k])
    if far > 0:
        state.sums[CONJUGATE] = math.inf


@formula(fast=True)
def learn_mixture(parts: Any, batch: Any) -> None:
    """One pass over a batch of rows with weight."""
    loss, rows, labels, weights, predictions = parts.loss, batch.rows, batch.labels, batch.weights, batch.predictions
    grid, pieces, state, every = parts.grid, parts.pieces, parts.state, parts.buffers.every
    units, sums, combined = state.units, state.sums, lanes(grid) + COMBINED
    others = lanes(grid) + (1 if bets(grid) else 0)
    log_others, log_experts = log(others), log(others + 1)
    log_choices = log((2 if pieces.stack else 1) * (2 if pieces.bold > 1.0 else 1))
    for i in range(len(labels)):
        y = clamp(labels[i], -limits.LARGEST_LABEL, limits.LARGEST_LABEL)
        h = weights[i] if len(weights) > 0 else 1.0
        count = read_row(parts, rows, i, ONE, pieces.scale)
        norm = mean_norm(parts.features)
        predict_row(parts, count, norm)
        linear, by = combine(parts, log_experts if is_in(parts.matrix) else log_others, log_choices)
        p = every[ALL, combined]
        predictions[i] = p
        if len(batch.linear) > 0:
            batch.linear[i] = timid(parts, by)
        begun = units[unit.LOW] <= units[unit.HIGH]
        met = begun and not pieces.again
        if met:
            meet(loss, parts, y)
        if met and every[CLIPPED, combined] == p:
            phi, g = every[LOSSES, combined], every[SLOPES, combined]
        else:
            phi, g = value(loss, p, y), slope(loss, p, y)
        paid, steep = (phi, g) if y == labels[i] else (value(loss, p, labels[i]), slope(loss, p, labels[i]))
        if not pieces.again:
            add_round(sums, paid, steep * p - paid, h)
        slant = h * steep
        h = clamp(h, limits.LIGHTEST_ROW, limits.HEAVIEST_ROW)
        if met:
            account(parts, by, h)
            unit.judge(loss, units, p, y, h, g)
            if not pieces.margin:
                judge_clipping(sums, phi, value(loss, linear, y))
        elif not pieces.again:
            sums[UNCOMPARED] += h * phi
        span = units[unit.HIGH] - units[unit.LOW] if begun else math.inf
        if not pieces.again:
            unit.widen(loss, units, y, pieces.margin)
        extended = Extended(loss, -math.inf, math.inf)
        if pieces.extend:
            # A label beyond all others may be part of a trend: predictions still further on cost something then.
            beyond = max(0.0, units[unit.HIGH] - units[unit.LOW] - span) if span < math.inf else 0.0
            extended = Extended(loss, units[unit.LOW] - beyond, units[unit.HIGH] + beyond)
        find_slopes(extended, parts, y, met)
        bend = h * unit.bend(loss, units, p, y, g, pieces.margin)
        teach(extended, parts, Round(count, norm, slant, y, h, bend, begun))
        if pieces.again:
            end_round(parts.later, parts.matrix)
        else:
            unit.witness(loss, units, y, h, pieces.margin, pieces.centre_labels)
