"""The loop of a mixture with one score: row by row it predicts, accounts and learns."""

import math
from typing import Any

from giftrl.compiled.registry import formula
from giftrl.mixtures import labels as unit
from giftrl.mixtures import limits
from giftrl.mixtures.combination import (
    CANDIDATES,
    CONJUGATE,
    UNCOMPARED,
    add_round,
    compare,
    judge_clipping,
    weigh_experts,
)
from giftrl.mixtures.experts import bets, lanes
from giftrl.mixtures.extension import Extended
from giftrl.mixtures.full_matrix import admits, is_in, spread_matrix, step_matrix
from giftrl.mixtures.later import end_round
from giftrl.mixtures.newton_stack import bend_stack, move_stack, spread_stack
from giftrl.mixtures.one_score import (
    ALL,
    AZ,
    LOSSES,
    WEIGHTS,
    WORK,
    A,
    C,
    P,
    Pieces,
    Round,
    State,
    Z,
    expert_columns,
)
from giftrl.mixtures.theta import move_theta
from giftrl.mixtures.walk import predict_row, teach_entries
from giftrl.ops.loss import prox_all, slope, value
from giftrl.ops.scalar import clamp

# Earlier versions pickled Pieces and State under this module.
__all__ = ["Pieces", "State", "learn_mixture"]


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
def teach(extended: Any, parts: Any, now: Any) -> None:
    """A round of every expert and of the stack: the proximal steps of all of them side by side."""
    grid, matrix, record, state = parts.grid, parts.matrix, parts.features.record, parts.state
    row, every, au = parts.buffers.row, parts.buffers.every, parts.buffers.au
    units, h, coin, full = state.units, now.h, lanes(grid), lanes(grid) + 1
    kappa, tau, learns = unit.kappa(units), unit.temperature(units, parts.pieces.margin), unit.ready(units)
    for r in range(lanes(grid)):
        every[P, r], every[C, r] = every[ALL, r], h * every[C, r] / kappa
    for r in (coin, full):
        every[P, r], every[C, r] = 0.0, 0.0
    c_matrix, c_stack = -1.0, -1.0  # negative where they do not learn
    # The matrix first: if it leaves, it must be gone before the stack learns.
    if learns and admits(matrix, state, full, record, row, now.count, now.norm):
        c_matrix = spread_matrix(matrix, record, row, now.count, au)
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
        teach_entries(extended, parts, now)


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
        count, norm = predict_row(parts, rows, i)
        linear, f, timid = combine(parts, experts, choices)
        p = unit.within(units, linear)
        predictions[i] = p
        if len(batch.linear) > 0:
            batch.linear[i] = timid
        phi, g = value(loss, p, labels[i]), slope(loss, p, labels[i])
        if not pieces.again:
            add_round(state.sums, phi, g * p - phi, h)
        if not pieces.again and move_theta(parts.theta, rows, i, h * g, parts.buffers.row) > 0:
            state.sums[CONJUGATE] = math.inf
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
        teach(extended, parts, Round(count, norm, p, f, y, h, bend, begun))
        if pieces.again:
            end_round(parts.later, matrix)
        else:
            unit.witness(loss, units, y, h, pieces.margin, pieces.centre_labels)
