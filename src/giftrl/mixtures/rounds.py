"""The loop of a mixture with one score: row by row it predicts, accounts and learns."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import clip, load, narrow, store, wide, zeros
from giftrl.compiled.registry import formula
from giftrl.mixtures import labels as unit
from giftrl.mixtures import limits
from giftrl.mixtures.coin import bet, settle_bet
from giftrl.mixtures.combination import (
    CANDIDATES,
    CONJUGATE,
    UNCOMPARED,
    add_round,
    compare,
    judge_clipping,
    weigh_experts,
)
from giftrl.mixtures.experts import bets, factors, lanes, measure, move, remember
from giftrl.mixtures.extension import Extended
from giftrl.mixtures.features import mean_norm
from giftrl.mixtures.full_matrix import admits, is_in, measure_matrix, spread_matrix, step_matrix
from giftrl.mixtures.later import end_round, move_again
from giftrl.mixtures.layout import ONE_SCORE, THETA
from giftrl.mixtures.newton_stack import bend_stack, move_stack, spread_stack
from giftrl.mixtures.parts import move_theta, read_row
from giftrl.ops.loss import prox_all, slope, value
from giftrl.ops.scalar import clamp

__all__ = ["ROWS", "Buffers", "Pieces", "State", "learn_mixture"]

ONE = np.uint64(1)
# The rows of ``Buffers.every``, which has a column for each expert: predictions, those less the origin, A z of the
# stack, losses, weights; then what the proximal steps start from, their lengths c, their results a, and four rows that
# they are computed in. Behind the columns of the grid come that of the coin and that of the full matrix. The coin makes
# no proximal step, and lends its column there to the stack.
ALL, Z, AZ, LOSSES, WEIGHTS, P, C, A, WORK, ROWS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 12


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
    every: NDArray[np.float64]
    last: NDArray[np.float64]  # of the candidates: predictions, weights, losses
    steps: NDArray[Any]
    factors: NDArray[Any]
    bets: NDArray[np.float64]
    au: NDArray[np.float64]


class Round(NamedTuple):
    """A row after its prediction."""

    count: Any  # entries
    norm: float  # N
    p: float  # the combined prediction
    f: float  # that of the stack
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
    p, c, total = zeros(grid), zeros(grid), 0.0
    for k in range(count):
        j, u = row.j[k], row.u[k]
        along = measure(ONE_SCORE, x, j, u, by)
        store(parts.buffers.steps, k, 0, along)
        c = c + wide(along) * u
        p = p + wide(load(grid, x, j, ONE_SCORE.lanes)) * u
        if bets(grid):
            at_stake[k] = bet(x, j, ONE_SCORE.coin, ONE, stake)
            total += u * at_stake[k]
    store(every, C, 0, c)
    store(every, ALL, 0, p)
    moved = zeros(grid)  # how far the constants move with the centres of features
    for listed in range(row.many[0]):
        k = row.moved[listed]
        moved = moved + wide(load(grid, x, row.j[k], ONE_SCORE.lanes)) * row.drift[k]
    store(every, Z, 0, moved)
    if bets(grid):
        every[ALL, lanes(grid)] = total
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
def combine(parts: Any, experts: int, choices: int) -> tuple[float, float, float]:
    """The combined prediction, that of the stack, and the combined one as it would be if nothing were bold."""
    state, every, last, bold = parts.state, parts.buffers.every, parts.buffers.last, parts.pieces.bold
    origin = state.units[unit.ORIGIN]
    weigh_experts(state, experts, choices, every[WEIGHTS], last[1])
    f1, f2 = 0.0, 0.0
    for r in range(expert_columns(parts.grid)):
        z = every[ALL, r] - origin if state.inverse[r, r] > 0.0 else 0.0
        every[Z, r] = z
        f1 += every[WEIGHTS, r] * z
        f2 += state.stack[r] * z
    last[ALL, 0], last[ALL, 1] = origin + f1, origin + f2
    last[ALL, 2], last[ALL, 3] = origin + bold * f1, origin + bold * f2
    p = 0.0
    for r in range(CANDIDATES):
        p += last[1, r] * last[ALL, r]
    return p, origin + f2, origin + (last[1, 0] + last[1, 2]) * f1 + (last[1, 1] + last[1, 3]) * f2


@formula(fast=True)
def lose(loss: Any, units: Any, y: float, h: float, p: Any, losses: Any) -> None:
    """The losses by which predictions are compared."""
    low, high = units[unit.LOW], units[unit.HIGH]
    if high == math.inf:
        low, high = -limits.FAR_PREDICTION, limits.FAR_PREDICTION
    for r in range(len(losses)):
        losses[r] = min(h * value(loss, clamp(p[r], low, high), y), limits.LARGEST_LOSS)


@formula(fast=True)
def teach_entries(extended: Any, parts: Any, now: Any) -> int:
    """A round of theta and of the experts that have a weight for each feature; how many thetas are out of bounds."""
    grid, x, units, row, every = parts.grid, parts.x, parts.state.units, parts.buffers.row, parts.buffers.every
    kappa, steep, h = unit.kappa(units), unit.unit_slope(units), now.h
    a = narrow(x, clip(load(grid, every, A, 0) * (h / kappa), limits.LARGEST_EXPERT_WEIGHT))
    relative = clamp(h * slope(extended, now.p, now.y) / steep, -limits.LARGEST_SLOPE, limits.LARGEST_SLOPE)
    stake = clamp(h * slope(extended, every[ALL, lanes(grid)], now.y) / steep, -1.0, 1.0)
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
    grid, matrix, x, state = parts.grid, parts.matrix, parts.x, parts.state
    row, every, au = parts.buffers.row, parts.buffers.every, parts.buffers.au
    units, h, coin, full, far = state.units, now.h, lanes(grid), lanes(grid) + 1, 0
    kappa, tau, learns = unit.kappa(units), unit.temperature(units, parts.pieces.margin), unit.ready(units)
    for r in range(lanes(grid)):
        every[P, r], every[C, r] = every[ALL, r], h * every[C, r] / kappa
    for r in (coin, full):
        every[P, r], every[C, r] = 0.0, 0.0
    c_matrix, c_stack = -1.0, -1.0  # negative where they do not learn
    # The matrix first: if it leaves, it must be gone before the stack learns.
    if learns and admits(matrix, state, full, x, ONE_SCORE.place, row, now.count, now.norm):
        c_matrix = spread_matrix(matrix, x, ONE_SCORE.place, row, now.count, au)
        every[P, full], every[C, full] = every[ALL, full], h * c_matrix / kappa
    if parts.pieces.stack and now.begun and not parts.pieces.again:
        spread, c = unit.unit_spread(units), spread_stack(state.inverse, every[Z], every[AZ])
        if c <= limits.LONGEST_STACK_STEP * spread * spread:
            c_stack = c
            every[P, coin], every[C, coin] = now.f, h * c / tau
    prox_all(extended, every[P], now.y, every[C], every[A], every[WORK:])
    if c_stack >= 0.0:
        move_stack(state.stack, every[AZ], h * every[A, coin] / tau)
        bend_stack(state.inverse, every[AZ], c_stack, now.bend / tau)
    if c_matrix >= 0.0:
        step_matrix(matrix, au, c_matrix, h * every[A, full] / kappa, now.bend / kappa)
    if learns:
        far = teach_entries(extended, parts, now)
    elif not parts.pieces.again:
        for k in range(now.count):
            far += move_theta(parts.features.record, row.j[k], THETA, now.slant * row.v[k])
    if far > 0:
        state.sums[CONJUGATE] = math.inf


@formula(fast=True)
def learn_mixture(parts: Any, batch: Any) -> None:
    """One pass over a batch of rows with weight."""
    loss, rows, labels, weights, predictions = parts.loss, batch.rows, batch.labels, batch.weights, batch.predictions
    grid, pieces, matrix, state = parts.grid, parts.pieces, parts.matrix, parts.state
    units, every, last = state.units, parts.buffers.every, parts.buffers.last
    choices = (2 if pieces.stack else 1) * (2 if pieces.bold > 1.0 else 1)
    for i in range(len(labels)):
        y = clamp(labels[i], -limits.LARGEST_LABEL, limits.LARGEST_LABEL)
        h = weights[i] if len(weights) > 0 else 1.0
        experts = lanes(grid) + (1 if bets(grid) else 0) + (1 if is_in(matrix) else 0)
        count = read_row(parts, rows, i, ONE, pieces.scale)
        norm = mean_norm(parts.features)
        predict_row(parts, count, norm)
        linear, f, timid = combine(parts, experts, choices)
        p = unit.within(units, linear)
        predictions[i] = p
        if len(batch.linear) > 0:
            batch.linear[i] = timid
        phi, g = value(loss, p, labels[i]), slope(loss, p, labels[i])
        if not pieces.again:
            add_round(state.sums, phi, g * p - phi, h)
        slant = h * g
        h = clamp(h, limits.LIGHTEST_ROW, limits.HEAVIEST_ROW)
        begun = units[unit.LOW] <= units[unit.HIGH]
        if pieces.again:
            pass
        elif begun:
            lose(loss, units, y, h, every[ALL], every[LOSSES])
            lose(loss, units, y, h, last[ALL], last[2])
            compare(state, experts, choices, every[WEIGHTS], every[LOSSES], last[1], last[2])
            unit.judge(loss, units, p, y, h)
            if not pieces.margin:
                judge_clipping(state.sums, value(loss, p, y), value(loss, linear, y))
        else:
            state.sums[UNCOMPARED] += h * value(loss, p, y)
        span = units[unit.HIGH] - units[unit.LOW] if begun else math.inf
        if not pieces.again:
            unit.widen(loss, units, y, pieces.margin)
        extended = Extended(loss, -math.inf, math.inf)
        if pieces.extend:
            # A label beyond all others may be part of a trend: predictions still further on cost something then.
            beyond = max(0.0, units[unit.HIGH] - units[unit.LOW] - span) if span < math.inf else 0.0
            extended = Extended(loss, units[unit.LOW] - beyond, units[unit.HIGH] + beyond)
        bend = h * unit.bend(loss, units, p, y, pieces.margin)
        teach(extended, parts, Round(count, norm, p, f, slant, y, h, bend, begun))
        if pieces.again:
            end_round(parts.later, matrix)
        else:
            unit.witness(loss, units, y, h, pieces.margin, pieces.centre_labels)
