"""The loop of a mixture with one score: row by row it predicts, accounts and learns."""

import math
from typing import Any

from giftrl.compiled.lanes import put, read, total, write
from giftrl.compiled.registry import formula
from giftrl.mixtures import labels as unit
from giftrl.mixtures import limits
from giftrl.mixtures.columns import ALL, AZ, CLIPPED, COMBINED, FULL, LOSSES, SLOPES, STACK, A, C, Z
from giftrl.mixtures.combination import CONJUGATE, UNCOMPARED, add_round, judge_clipping
from giftrl.mixtures.experts import bets, lanes
from giftrl.mixtures.extension import Extended
from giftrl.mixtures.full_matrix import admits, is_in, spread_matrix, step_matrix
from giftrl.mixtures.later import end_round
from giftrl.mixtures.newton_stack import bend_stack, move_stack, spread_stack
from giftrl.mixtures.one_score import Round
from giftrl.mixtures.side_by_side import account, combine, find_slopes, meet, timid
from giftrl.mixtures.theta import move_theta
from giftrl.mixtures.walk import predict_row, teach_entries
from giftrl.ops.loss import approach_all, slope, value
from giftrl.ops.scalar import clamp, log


@formula(fast=True)
def teach(extended: Any, parts: Any, now: Any) -> None:
    """A round of every expert and of the stack: the proximal steps of all of them side by side."""
    matrix, record, state, pieces = parts.matrix, parts.features.record, parts.state, parts.pieces
    row, side, every, au = parts.buffers.row, parts.buffers.side, parts.buffers.every, parts.buffers.au
    units, h, n, experts = state.units, now.h, lanes(parts.grid), parts.buffers.experts
    per_kappa, per_tau = 1.0 / unit.kappa(units), 1.0 / unit.temperature(units, pieces.margin)
    learns = unit.ready(units)
    c_matrix, c_stack = -1.0, -1.0  # negative where they do not learn
    # The matrix first: if it leaves, it must be gone before the stack learns.
    if learns and admits(matrix, state, n + FULL, record, row, now.count, now.norm):
        c_matrix = spread_matrix(matrix, record, row, now.count, parts.buffers.places, au)
    if now.begun and not pieces.again:
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
        teach_entries(parts, now)


@formula(fast=True)
def learn_mixture(parts: Any, batch: Any) -> None:
    """One pass over a batch of rows with weight."""
    loss, rows, labels, weights, predictions = parts.loss, batch.rows, batch.labels, batch.weights, batch.predictions
    grid, pieces, state, every = parts.grid, parts.pieces, parts.state, parts.buffers.every
    units, sums, combined = state.units, state.sums, lanes(grid) + COMBINED
    others = lanes(grid) + (1 if bets(grid) else 0)
    log_others, log_experts = log(others), log(others + 1)
    log_choices = log(4 if pieces.bold > 1.0 else 2)
    for i in range(len(labels)):
        y = clamp(labels[i], -limits.LARGEST_LABEL, limits.LARGEST_LABEL)
        h = weights[i] if len(weights) > 0 else 1.0
        count, norm = predict_row(parts, rows, i)
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
            if move_theta(parts.theta, rows, i, h * steep, parts.buffers.row) > 0:  # nothing is certified any more
                sums[CONJUGATE] = math.inf
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
        # A label beyond all others may be part of a trend: predictions still further on cost something then.
        beyond = max(0.0, units[unit.HIGH] - units[unit.LOW] - span) if span < math.inf else 0.0
        extended = Extended(loss, units[unit.LOW] - beyond, units[unit.HIGH] + beyond)
        find_slopes(extended, parts, y, met)
        bend = h * unit.bend(loss, units, p, y, g, pieces.margin)
        teach(extended, parts, Round(count, norm, y, h, bend, begun))
        if pieces.again:
            end_round(parts.later, parts.matrix)
        else:
            unit.witness(loss, units, y, h, pieces.margin, pieces.centre_labels)
