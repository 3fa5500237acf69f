"""The round of a mixture with one score: predict, combine, compare losses, and update the experts.

The predictions of the experts, those of the candidates and the combined one are columns of one array
(:mod:`giftrl.mixtures.row_loops`), so that each function of a loss is computed once, in wide registers, for all of
them.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import (
    absolute,
    diagonal,
    get,
    load,
    maximum,
    minimum,
    put,
    read,
    store,
    total,
    where_less,
    write,
    zeros,
)
from giftrl.compiled.registry import formula
from giftrl.kernels.lane_counts import FOUR, lanes
from giftrl.mixtures import clip_limits as limits
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.clip_limits import FAR_PREDICTION, LARGEST_LOSS
from giftrl.mixtures.combination import (
    CONJUGATE,
    UNCOMPARED,
    Weighing,
    add_round,
    bend_stack,
    move_stack,
    spread_stack,
    update_clipping_losses,
    update_totals,
    weigh_experts,
)
from giftrl.mixtures.experts import bets
from giftrl.mixtures.full_matrix import admit_row, is_in, spread_matrix, step_matrix
from giftrl.mixtures.label_units import Extended
from giftrl.mixtures.later_passes import end_round
from giftrl.mixtures.row_loops import (
    AZ,
    CANDIDATE,
    CLIPPED,
    COMBINED,
    FULL,
    LENGTHS,
    LOSSES,
    PREDICTIONS,
    SLOPES,
    STACK,
    STEPS,
    MixtureParts,
    Z,
    move_theta,
    predict_row,
    update_entries,
)
from giftrl.ops.loss import approach_all, meet_all, slope, value
from giftrl.ops.scalar import clamp, log


class State(NamedTuple):
    """State of a mixture of one score besides its features."""

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
    steps: NDArray[Any]  # of each entry: u/L of the grid, and what the coin bets
    factors: NDArray[Any]  # of the strengths
    gains: NDArray[Any]  # of :mod:`giftrl.mixtures.row_loops`
    places: NDArray[np.float64]  # the row and A u, over the places of the full matrix
    au: NDArray[np.float64]


class PredictedRow(NamedTuple):
    """A row after its prediction."""

    count: Any  # entries
    norm: float  # N
    y: float
    h: float  # the weight, clipped
    bend: float  # weight times curvature at p
    begun: bool  # there was a range of labels to predict in


@formula(fast=True)
def combine(parts: MixtureParts, log_experts: float, log_choices: float) -> tuple[float, Any]:
    """Put the candidates and the combined prediction beside the experts; return that one before it is clipped.

    The second result has the weights by both AdaHedges.
    """
    state, buffers, units, first = parts.state, parts.buffers, parts.state.units, lanes(parts.grid)
    side, every, origin, bold = buffers.experts, buffers.every, units[unit.ORIGIN], parts.pieces.boost
    by, p = weigh_experts(side, state, log_experts, log_choices), read(side, every[PREDICTIONS])
    z = where_less(0.0, diagonal(side, state.inverse), p - origin, 0.0)
    hedged, stacked = total(by.experts * z), total(read(side, state.stack) * z)
    plain = put(put(zeros(FOUR), 0, hedged), 1, stacked)
    candidates = put(put(plain, 2, bold * hedged), 3, bold * stacked) + origin
    linear = total(by.candidates * candidates)
    write(every[Z], z)
    write(every[PREDICTIONS], put(p, first + COMBINED, unit.clip_to_range(units, linear)))
    store(every, PREDICTIONS, first + CANDIDATE, candidates)
    return linear, by


@formula(fast=True)
def compute_losses(loss: Any, parts: MixtureParts, y: float) -> None:
    """Put the losses by which predictions are compared beside them, and the slopes there."""
    units, side, every = parts.state.units, parts.buffers.side, parts.buffers.every
    low, high = units[unit.LOW], units[unit.HIGH]
    if high == math.inf:
        low, high = -FAR_PREDICTION, FAR_PREDICTION
    write(every[CLIPPED], minimum(maximum(read(side, every[PREDICTIONS]), low), high))
    meet_all(loss, side, every[CLIPPED], y, every[LOSSES], every[SLOPES])


@formula(fast=True)
def find_slopes(extended: Any, parts: MixtureParts, y: float, compared: bool) -> None:
    """Put the slopes of the extended loss beside the predictions, unless they are there already."""
    side, every = parts.buffers.side, parts.buffers.every
    nearest = minimum(maximum(read(side, every[PREDICTIONS]), extended.low), extended.high)
    if not compared or total(absolute(nearest - read(side, every[CLIPPED]))) > 0.0:
        write(every[CLIPPED], nearest)
        meet_all(extended.loss, side, every[CLIPPED], y, every[LOSSES], every[SLOPES])


@formula(fast=True)
def update_hedges(parts: MixtureParts, by: Weighing, h: float) -> None:
    """Update both AdaHedges by the losses of a row."""
    experts, every, first = parts.buffers.experts, parts.buffers.every, lanes(parts.grid) + CANDIDATE
    losses = minimum(load(experts, every, LOSSES, 0) * h, LARGEST_LOSS)
    update_totals(experts, parts.state, by, losses, minimum(load(FOUR, every, LOSSES, first) * h, LARGEST_LOSS))


@formula(fast=True)
def unboosted(parts: MixtureParts, by: Weighing) -> float:
    """The combined prediction without boosted candidates, before it is clipped."""
    origin, every, first = parts.state.units[unit.ORIGIN], parts.buffers.every, lanes(parts.grid) + CANDIDATE
    hedged, stacked = every[PREDICTIONS, first] - origin, every[PREDICTIONS, first + 1] - origin
    shares = get(by.candidates, 0) + get(by.candidates, 2), get(by.candidates, 1) + get(by.candidates, 3)
    return float(origin + shares[0] * hedged + shares[1] * stacked)


@formula(fast=True)
def update_experts(extended: Any, parts: MixtureParts, now: PredictedRow) -> None:
    """Update every expert and the stack, the proximal steps of all of them side by side."""
    matrix, record, state, pieces = parts.matrix, parts.features.record, parts.state, parts.pieces
    row, side, every, au = parts.buffers.row, parts.buffers.side, parts.buffers.every, parts.buffers.au
    units, h, n, experts = state.units, now.h, lanes(parts.grid), parts.buffers.experts
    per_kappa, per_tau = 1.0 / unit.kappa(units), 1.0 / unit.temperature(units, pieces.margin)
    learns = unit.ready(units)
    c_matrix, c_stack = -1.0, -1.0  # negative if they do not learn
    # The matrix first: if it leaves, it must be gone before the stack learns.
    if learns and admit_row(matrix, state, n + FULL, record, row, now.count, now.norm):
        c_matrix = spread_matrix(matrix, record, row, now.count, parts.buffers.places, au)
    if now.begun and not pieces.again:
        spread, az = unit.unit_spread(units), spread_stack(experts, state.inverse, every[Z])
        write(every[AZ], az)
        c = max(0.0, total(read(experts, every[Z]) * az))
        c_stack = c if c <= limits.LONGEST_STACK_STEP * spread * spread else -1.0
    lengths = put(read(side, every[LENGTHS]) * (h * per_kappa), n + FULL, h * per_kappa * max(0.0, c_matrix))
    write(every[LENGTHS], put(lengths, n + STACK, h * per_tau * max(0.0, c_stack)))
    approach_all(extended, side, every[PREDICTIONS], now.y, every[LENGTHS], every[SLOPES], every[STEPS])
    if c_stack >= 0.0:
        move_stack(experts, state.stack, read(experts, every[AZ]), h * every[STEPS, n + STACK] * per_tau)
        bend_stack(experts, state.inverse, every[AZ], c_stack, now.bend * per_tau)
    if c_matrix >= 0.0:
        step_matrix(matrix, au, c_matrix, h * every[STEPS, n + FULL] * per_kappa, now.bend * per_kappa)
    if learns:
        update_entries(parts, now)


@formula(fast=True)
def learn_mixture(parts: MixtureParts, batch: Any) -> None:
    """One pass over a batch of rows with weight."""
    loss, rows, labels, weights, predictions = parts.loss, batch.rows, batch.labels, batch.weights, batch.predictions
    grid, pieces, state, every = parts.grid, parts.pieces, parts.state, parts.buffers.every
    units, sums, combined = state.units, state.sums, lanes(grid) + COMBINED
    others = lanes(grid) + (1 if bets(grid) else 0)
    log_others, log_experts = log(others), log(others + 1)
    log_choices = log(4 if pieces.boost > 1.0 else 2)
    for i in range(len(labels)):
        y = clamp(labels[i], -limits.LARGEST_LABEL, limits.LARGEST_LABEL)
        h = weights[i] if len(weights) > 0 else 1.0
        count, norm = predict_row(parts, rows, i)
        linear, by = combine(parts, log_experts if is_in(parts.matrix) else log_others, log_choices)
        p = every[PREDICTIONS, combined]
        predictions[i] = p
        if len(batch.linear) > 0:
            batch.linear[i] = unboosted(parts, by)
        begun = units[unit.LOW] <= units[unit.HIGH]
        compared = begun and not pieces.again
        if compared:
            compute_losses(loss, parts, y)
        if compared and every[CLIPPED, combined] == p:
            phi, g = every[LOSSES, combined], every[SLOPES, combined]
        else:
            phi, g = value(loss, p, y), slope(loss, p, y)
        paid, steep = (phi, g) if y == labels[i] else (value(loss, p, labels[i]), slope(loss, p, labels[i]))
        if not pieces.again:
            add_round(sums, paid, steep * p - paid, h)
            if move_theta(parts.theta, rows, i, h * steep, parts.buffers.row) > 0:  # nothing is certified any more
                sums[CONJUGATE] = math.inf
        h = clamp(h, limits.LIGHTEST_ROW, limits.HEAVIEST_ROW)
        if compared:
            update_hedges(parts, by, h)
            unit.update_residual_means(loss, units, p, y, h, g)
            if not pieces.margin:
                update_clipping_losses(sums, phi, value(loss, linear, y))
        elif not pieces.again:
            sums[UNCOMPARED] += h * phi
        span = units[unit.HIGH] - units[unit.LOW] if begun else math.inf
        if not pieces.again:
            unit.widen(loss, units, y, pieces.margin)
        # A label beyond all others may be part of a trend: predictions still further on cost something then.
        beyond = max(0.0, units[unit.HIGH] - units[unit.LOW] - span) if span < math.inf else 0.0
        extended = Extended(loss, units[unit.LOW] - beyond, units[unit.HIGH] + beyond)
        find_slopes(extended, parts, y, compared)
        bend = h * unit.bend(loss, units, p, y, g, pieces.margin)
        update_experts(extended, parts, PredictedRow(count, norm, y, h, bend, begun))
        if pieces.again:
            end_round(parts.later, parts.matrix)
        else:
            unit.update_label_means(loss, units, y, h, pieces.margin, pieces.centre_labels)
