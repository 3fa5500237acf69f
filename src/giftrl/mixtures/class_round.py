"""The round of a mixture with K scores: :mod:`giftrl.mixtures.round` with vectors instead of scalars.

Features, both AdaHedges and the experts are as with one score; the coin bets for each class separately. Labels have the
unit 1. The differences:

- The stack has one weight v_r for all classes: f = Z'v, Z the experts' scores, a row for each, z_m its columns. With A
  the inverse of its curvature, v -= A Z a moves f by Z'AZ a. The proximal step is taken at the length c = trace(Z'AZ),
  an upper bound on all eigenvalues, so that rows of large weight do not overshoot. Its curvature is
  sum_m w_m (z_m - z)(z_m - z)', z the weighted mean, w half of the curvatures of the classes: a common shift of all
  scores changes nothing. For the softmax loss this works as well as the Hessian, and it exists for every loss.
- A loss with kinks has no curvature; the mean absolute slope of each class takes its place.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import EVERY, FOUR, lanes, load, read, store, total, wide, write, zeros
from giftrl.compiled.registry import formula
from giftrl.mixtures import clip_limits as limits
from giftrl.mixtures import experts
from giftrl.mixtures.clip_limits import LARGEST_EXPERT_WEIGHT, LARGEST_PREDICTION
from giftrl.mixtures.feature_state import entries, mean_norm
from giftrl.mixtures.full_matrix import (
    MAX_CURVATURE_GAIN_OF_CLASSES,
    admit_row,
    drift_matrix,
    grow_classes,
    is_in,
    measure_matrix,
    of_class,
    spread_classes,
    step_classes,
)
from giftrl.mixtures.label_units import CLASS_UNITS
from giftrl.mixtures.round import MixtureParts, move_thetas, read_row
from giftrl.ops.loss import kinked, reach
from giftrl.ops.scalar import clamp, log
from giftrl.ops.vector_loss import conjugate, curvature, curvatures, prox, slope, value

#: The rows of ``ClassBuffers.classes`` and of ``ClassBuffers.stack``.
CLIPPED, BENDS, SPREADS = range(3)
Z, AZ, CENTRE = range(3)
LOG_CANDIDATES = math.log(experts.CANDIDATES)


class ClassState(NamedTuple):
    """State of a mixture of K scores besides its features."""

    offsets: NDArray[np.float64]  # shift of the constant by centring, for each expert and class
    totals: NDArray[np.float64]  # the loss of each expert
    candidates: NDArray[np.float64]  # the loss of each candidate
    stack: NDArray[np.float64]
    inverse: NDArray[np.float64]
    slopes: NDArray[np.float64]  # the mean absolute slope of each class, at the combined scores
    sums: NDArray[np.float64]

    def follow_scale(self, matrix: Any, s: Any, factor: float) -> None:
        grow_classes(matrix, s, factor)

    @property
    def units(self) -> NDArray[np.float64]:
        """The units of labels, for functions shared with one score."""
        return CLASS_UNITS


class ClassBuffers(NamedTuple):
    """Scratch memory for a round."""

    row: Any
    side: Any  # with a lane for each expert
    # A row for each expert (grid, coin, full matrix), then one for each candidate, and one for the combined scores.
    scores: NDArray[np.float64]
    slopes: NDArray[np.float64]
    lengths: NDArray[np.float64]
    losses: NDArray[np.float64]
    weights: NDArray[np.float64]  # AdaHedge weights of the experts
    last: NDArray[np.float64]  # AdaHedge weights of the candidates
    products: NDArray[np.float64]  # grid, a row for each class: scores, and drift of the constants
    drift: NDArray[np.float64]
    others: NDArray[np.float64]  # drift of the constants of the coin and the full matrix
    classes: NDArray[np.float64]  # clipped scores, curvatures, and lengths in the full matrix
    stack: NDArray[np.float64]  # vectors of the stack: z, A z, and the centre of scores
    bets: NDArray[np.float64]
    places: NDArray[np.float64]  # the row and A_m u, over the places of the full matrix
    au: NDArray[np.float64]
    steps: NDArray[Any]
    factors: NDArray[Any]
    turned: NDArray[Any]  # the slopes of the grid, a row for each class


def class_buffers(width: int, k: int, places: int, dtype: Any, grid: tuple[experts.Expert, ...]) -> ClassBuffers:
    """Allocate buffers for rows of up to ``width`` entries, K scores, and places of the full matrix."""
    n, many = len(grid), len(grid) + 2
    lines = many + experts.CANDIDATES + 1
    return ClassBuffers(
        row=entries(width, dtype), side=EVERY[many], scores=np.zeros((lines, k)), slopes=np.zeros((lines, k)),
        lengths=np.zeros((1, lines)), losses=np.zeros(lines), weights=np.zeros(many), last=np.zeros(experts.CANDIDATES),
        products=np.zeros((k, n)), drift=np.zeros((k, n)), others=np.zeros((2, k)), classes=np.zeros((3, k)),
        stack=np.zeros((3, many)), bets=np.zeros((width, k)), places=np.zeros(places), au=np.zeros((k, places)),
        steps=np.zeros((width, n), dtype), factors=experts.factor_table(grid, dtype), turned=np.zeros((k, n), dtype),
    )  # fmt: skip


@formula(fast=True)
def predict_entries(parts: MixtureParts, count: Any, norm: float) -> None:
    """The scores of the grid and of the coin before their constants, the drift of these, and c of the grid."""
    grid, columns, x, row = parts.grid, parts.columns, parts.x, parts.buffers.row
    products, drift = parts.buffers.products, parts.buffers.drift
    others, bets, coin = parts.buffers.others, parts.buffers.bets, parts.buffers.scores[lanes(grid)]
    for m in range(len(coin)):
        coin[m], others[0, m] = 0.0, 0.0
        store(products, m, 0, zeros(grid))
        store(drift, m, 0, zeros(grid))
    by, c = experts.factors(grid, norm, parts.buffers.factors), zeros(grid)
    for k in range(count):
        j, u, own = row.j[k], np.float64(row.u[k]), bets[k]
        along = experts.measure(columns, x, j, u, by)
        store(parts.buffers.steps, k, 0, along)
        c = c + wide(along) * u
        experts.add_products(grid, columns, x, j, u, products)
        experts.bet_all(x, j, columns.coin, 1.0 / norm, own)
        for m in range(len(coin)):
            coin[m] += u * own[m]
    store(parts.buffers.lengths, 0, 0, c)
    for listed in range(row.many[0]):
        k, moved = row.moved[listed], row.drift[listed]
        if moved != 0.0:
            experts.add_products(grid, columns, x, row.j[k], moved, drift)
            for m in range(len(coin)):
                others[0, m] += moved * bets[k, m]


@formula(fast=True)
def predict_row(parts: MixtureParts, count: Any, norm: float) -> None:
    """Compute the scores of every expert, and step directions of the grid."""
    n, matrix, row = lanes(parts.grid), parts.matrix, parts.buffers.row
    scores, others, offsets = parts.buffers.scores, parts.buffers.others, parts.state.offsets
    predict_entries(parts, count, norm)
    for m in range(scores.shape[1]):
        scores[n + 1, m], others[1, m] = 0.0, 0.0
        if is_in(matrix):
            own = of_class(matrix, m)
            scores[n + 1, m] = measure_matrix(own, parts.features.record, row, count)
            others[1, m] = drift_matrix(own, parts.features.record, row)
        for r in range(n):
            scores[r, m] = parts.buffers.products[m, r]
            offsets[r, m] += parts.buffers.drift[m, r]
        for r in range(2):
            offsets[n + r, m] += others[r, m]
        for r in range(n + 2):
            offsets[r, m] = clamp(offsets[r, m], -LARGEST_PREDICTION, LARGEST_PREDICTION)
            score = scores[r, m] + offsets[r, m]
            scores[r, m] = score if abs(score) < LARGEST_PREDICTION else 0.0


@formula(fast=True)
def step_row(parts: MixtureParts, count: Any, norm: float, bend: float, steep: float) -> None:
    """Update the grid and the coin from their slopes, and from curvature and slope at the combined scores."""
    grid, columns, x, row = parts.grid, parts.columns, parts.x, parts.buffers.row
    slopes, turned, n = parts.buffers.slopes, parts.buffers.turned, lanes(grid)
    coin, classes = slopes[n], np.uint64(len(turned))
    for m in range(len(coin)):
        coin[m] = clamp(coin[m], -1.0, 1.0)
        for r in range(n):
            turned[m, r] = slopes[r, m]
    bend, steep = min(bend, LARGEST_EXPERT_WEIGHT), min(steep, LARGEST_EXPERT_WEIGHT)
    for k in range(count):
        j, u, along = row.j[k], np.float64(row.u[k]), load(grid, parts.buffers.steps, k, 0)
        for m in range(classes):
            at = columns.lanes + m * np.uint64(n)
            if parts.pieces.again:
                experts.move_later(parts, j, at, load(grid, turned, m, 0), along)
            else:
                experts.move(grid, x, j, at, load(grid, turned, m, 0), along)
        experts.remember(columns, x, j, u, bend, steep)
        for m in range(0 if parts.pieces.again else classes):
            z = coin[m] * u
            experts.settle_bet(x, j, columns.coin + m, classes, z, -z * parts.buffers.bets[k, m] * norm)


@formula(fast=True)
def add_up(scores: Any, weights: Any, factor: float, out: Any) -> None:
    """The weighted sum of scores, times a factor."""
    for m in range(len(out)):
        out[m] = 0.0
    for r in range(len(weights)):
        if weights[r] != 0.0:
            for m in range(len(out)):
                out[m] += factor * weights[r] * scores[r, m]


@formula(fast=True)
def clip(p: Any, reach: float, out: Any) -> None:
    """Clip scores into ``out`` at ``reach`` below the best."""
    best = -math.inf
    for m in range(len(p)):
        best = max(best, p[m])
    for m in range(len(p)):
        out[m] = max(p[m], best - reach)


@formula(fast=True)
def combine(parts: MixtureParts, log_experts: float, out: Any) -> Any:
    """Compute the candidates and the combined scores; return the weights of both AdaHedges."""
    pieces, state, buffers = parts.pieces, parts.state, parts.buffers
    scores, first = buffers.scores, len(buffers.weights)
    by = experts.weigh_experts(buffers.side, state, log_experts, LOG_CANDIDATES)
    write(buffers.weights, by.experts)
    write(buffers.last, by.candidates)
    for k in range(experts.CANDIDATES):
        weights = buffers.weights if k % 2 == 0 else state.stack
        add_up(scores, weights, pieces.boost if k >= 2 else 1.0, scores[first + k])
    add_up(scores[first:], buffers.last, 1.0, buffers.classes[CLIPPED])
    clip(buffers.classes[CLIPPED], reach(parts.loss), out)
    for m in range(len(out)):
        scores[first + experts.CANDIDATES, m] = out[m]
    return by


@formula(fast=True)
def unboosted(buffers: ClassBuffers, out: Any) -> None:
    """The combined scores without boosted candidates and clipping."""
    last, first = buffers.last, len(buffers.weights)
    for m in range(len(out)):
        hedged, stacked = buffers.scores[first, m], buffers.scores[first + 1, m]
        out[m] = (last[0] + last[2]) * hedged + (last[1] + last[3]) * stacked


@formula(fast=True)
def find_bends(loss: Any, parts: MixtureParts, p: Any, g: Any, y: int, part: float) -> tuple[float, float]:
    """Compute the curvature of each class; return an upper bound on all, and norm2 of the slopes."""
    slopes, bends = parts.state.slopes, parts.buffers.classes[BENDS]
    squares, bend = 0.0, 0.0
    for m in range(len(g)):
        steep = min(abs(g[m]), limits.LARGEST_EXPERT_WEIGHT)
        squares += steep * steep
        slopes[m] += part * (steep - slopes[m])
        bends[m] = slopes[m]
        bend += 0.5 * slopes[m]
    if not kinked(loss):
        curvatures(loss, p, y, bends)
        bend = curvature(loss, p, y)
    return bend, math.sqrt(squares)


@formula(fast=True)
def column_of(inverse: Any, scores: Any, m: int, centre: Any, z: Any) -> None:
    """The scores of one class minus a centre; 0 for absent experts."""
    for r in range(len(z)):
        z[r] = scores[r, m] - centre[r] if inverse[r, r] > 0.0 else 0.0


@formula(fast=True)
def measure_stack(side: Any, inverse: Any, scores: Any, stack: Any) -> float:
    """trace(Z'AZ)."""
    for r in range(len(inverse)):
        stack[CENTRE, r] = 0.0
    c = 0.0
    for m in range(scores.shape[1]):
        column_of(inverse, scores, m, stack[CENTRE], stack[Z])
        c += max(0.0, total(read(side, stack[Z]) * experts.spread_stack(side, inverse, stack[Z])))
    return c


@formula(fast=True)
def move_along(side: Any, v: Any, inverse: Any, scores: Any, a: Any, stack: Any) -> None:
    """v -= A Z a."""
    z = stack[Z]
    for r in range(len(z)):
        z[r] = 0.0
        if inverse[r, r] > 0.0:
            for m in range(len(a)):
                z[r] += scores[r, m] * a[m]
    experts.move_stack(side, v, experts.spread_stack(side, inverse, z), 1.0)


@formula(fast=True)
def bend_all(side: Any, inverse: Any, scores: Any, bends: Any, h: float, stack: Any) -> None:
    """Add the curvature of a round to that of the stack."""
    z, centre, mass = stack[Z], stack[CENTRE], 0.0
    for m in range(len(bends)):
        mass += bends[m]
    for r in range(len(z)):
        centre[r] = 0.0
        for m in range(len(bends)):
            centre[r] += bends[m] * scores[r, m]
        centre[r] = centre[r] / mass if mass > 0.0 else 0.0
    for m in range(len(bends)):
        column_of(inverse, scores, m, centre, z)
        az = experts.spread_stack(side, inverse, z)
        c = total(read(side, z) * az)
        write(stack[AZ], az)
        if 0.0 < c <= limits.LONGEST_STACK_STEP:
            experts.bend_stack(side, inverse, stack[AZ], c, min(0.5 * h * bends[m], MAX_CURVATURE_GAIN_OF_CLASSES / c))


@formula(fast=True)
def choose_all(loss: Any, parts: MixtureParts, count: Any, norm: float, y: int, h: float) -> bool:
    """Replace slopes of all learning experts by h times proximal slopes; True if the full matrix learns."""
    matrix, state, buffers, record = parts.matrix, parts.state, parts.buffers, parts.features.record
    scores, slopes, lengths, full = buffers.scores, buffers.slopes, buffers.lengths[0], len(buffers.weights) - 1
    stacked = full + 2
    lengths[full - 1], lengths[full] = 0.0, 0.0
    learns = admit_row(matrix, state, full, record, buffers.row, count, norm)
    if learns:
        c = buffers.classes[SPREADS]
        lengths[full] = spread_classes(matrix, record, buffers.row, count, slopes[full], buffers.places, buffers.au, c)
    lengths[stacked] = measure_stack(buffers.side, state.inverse, scores, buffers.stack)
    for r in range(stacked + 1):
        if r <= full or r == stacked:
            prox(loss, scores[r], y, min(h * lengths[r], limits.LONGEST_CLASS_STEP), slopes[r])
            for m in range(scores.shape[1]):
                slopes[r, m] = clamp(h * slopes[r, m], -limits.LARGEST_EXPERT_WEIGHT, limits.LARGEST_EXPERT_WEIGHT)
    return learns


@formula(fast=True)
def update_experts(loss: Any, parts: MixtureParts, count: Any, norm: float, y: int, h: float) -> None:
    """Update every expert and the stack."""
    state, buffers, n = parts.state, parts.buffers, lanes(parts.grid)
    scores, slopes, bends = buffers.scores, buffers.slopes, buffers.classes[BENDS]
    full, stacked, final = n + 1, n + 3, n + 2 + experts.CANDIDATES
    part = 0.0 if parts.pieces.again else min(1.0, h / state.sums[experts.WEIGHT])
    bend, steep = find_bends(loss, parts, scores[final], slopes[final], y, part)
    learns = choose_all(loss, parts, count, norm, y, h)
    if not parts.pieces.again and buffers.lengths[0, stacked] <= limits.LONGEST_STACK_STEP:
        move_along(buffers.side, state.stack, state.inverse, scores, slopes[stacked], buffers.stack)
        bend_all(buffers.side, state.inverse, scores, bends, h, buffers.stack)
    if learns:
        step_classes(parts.matrix, buffers.au, buffers.classes[SPREADS], slopes[full], bends, h)
    step_row(parts, count, norm, h * bend, h * steep)


@formula(fast=True)
def learn_classes(parts: MixtureParts, batch: Any) -> None:
    """One pass over a batch of rows with weight."""
    loss, rows, labels, weights, predictions = parts.loss, batch.rows, batch.labels, batch.weights, batch.predictions
    state, buffers, n = parts.state, parts.buffers, lanes(parts.grid)
    scores, slopes, losses = buffers.scores, buffers.slopes, buffers.losses
    full, final, side = n + 1, n + 2 + experts.CANDIDATES, buffers.side
    log_experts, log_others = log(n + 2), log(n + 1)
    for i in range(len(labels)):
        h, y = weights[i] if len(weights) > 0 else 1.0, labels[i]
        count = read_row(parts, parts.columns, rows, i, np.uint64(scores.shape[1]))
        norm = mean_norm(parts.features)
        predict_row(parts, count, norm)
        by = combine(parts, log_experts if is_in(parts.matrix) else log_others, predictions[i])
        if len(batch.linear) > 0:
            unboosted(buffers, batch.linear[i])
        for r in range(final + 1):
            clip(scores[r], reach(loss), buffers.classes[CLIPPED])
            losses[r] = value(loss, buffers.classes[CLIPPED], y)
            if r in (full, final):
                slope(loss, scores[r], y, slopes[r])
        if parts.pieces.again:
            h = clamp(h, limits.LIGHTEST_ROW, limits.HEAVIEST_ROW)
            update_experts(loss, parts, count, norm, y, h)
            experts.end_round(parts.later, parts.matrix)
            continue
        experts.add_round(state.sums, losses[final], conjugate(loss, slopes[final], y), h)
        if move_thetas(parts.theta, rows, i, slopes[final], h) > 0:  # overflow: no certificate
            state.sums[experts.CONJUGATE] = math.inf
        h = clamp(h, limits.LIGHTEST_ROW, limits.HEAVIEST_ROW)
        for r in range(final):
            losses[r] = h * min(losses[r], limits.LARGEST_CLASS_LOSS)
        experts.update_totals(side, state, by, read(side, losses), read(FOUR, losses[n + 2 :]))
        update_experts(loss, parts, count, norm, y, h)
