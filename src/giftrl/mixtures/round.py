"""The round of a mixture with one score: predict, combine, compare losses, and update the experts.

The predictions of the experts, those of the candidates and the combined one are columns of one array, so that each
function of a loss is evaluated for all at once with SIMD. A mixture of one score keeps its experts in as
many columns as the grid has, and four more: the coin, the full matrix, and two that are empty, so that wide registers
of four numbers are full. A round has four more columns for the candidates, and puts the combined prediction into the
first empty one. With K scores (:mod:`giftrl.mixtures.class_round`) there are no empty columns.

With float32 weights the sums over a row are float32, too. Their errors are about 1e-7 of the largest terms, like the
rounding of the weights. The certificate does not depend on them, since theta is float64.
theta is minus the sum of slope times row in the original features: its values come from the rows themselves.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import (
    EVERY,
    FOUR,
    absolute,
    clip,
    diagonal,
    get,
    lanes,
    load,
    maximum,
    minimum,
    narrow,
    prefetch,
    put,
    read,
    store,
    total,
    where_less,
    wide,
    write,
    zeros,
)
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.mixtures import clip_limits as limits
from giftrl.mixtures import experts
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.clip_limits import FAR_PREDICTION, LARGEST_LOSS, LARGEST_THETA, LARGEST_VALUE, ORDINARY_SLOPE
from giftrl.mixtures.feature_state import (
    ONE_SCORE,
    PLACE,
    BlockColumns,
    Entries,
    FeatureState,
    Pieces,
    entries,
    mean_norm,
    scale_row,
    scale_row_again,
)
from giftrl.mixtures.full_matrix import (
    Matrix,
    admit_row,
    drift_matrix,
    follow_scale,
    is_in,
    measure_matrix,
    spread_matrix,
    step_matrix,
)
from giftrl.mixtures.label_units import Extended
from giftrl.ops.loss import approach_all, meet_all, slope, value
from giftrl.ops.scalar import clamp, log

#: The rows of ``Buffers.every``: predictions, predictions minus the origin, A z of the stack, clipped predictions,
#: losses, slopes; then the lengths c of proximal steps and their results a.
PREDICTIONS, Z, AZ, CLIPPED, LOSSES, SLOPES, LENGTHS, STEPS, ROUND_LINES = range(9)
#: Its columns, counted from the end of the grid: the coin, the full matrix, the combined prediction, one that is not
#: used, the first candidate and the second one, which is the stack.
COIN, FULL, COMBINED, UNUSED, CANDIDATE, STACK = range(6)


class MixtureParts(NamedTuple):
    """The state and buffers of a round, for one score or K; x and theta belong to the features."""

    loss: Any
    grid: Any
    columns: BlockColumns
    pieces: Pieces
    features: FeatureState
    x: NDArray[Any]
    theta: NDArray[np.float64]
    matrix: Matrix
    state: Any
    later: experts.LaterSums
    buffers: Any


class MixtureBatch(NamedTuple):
    """A :class:`giftrl.kernels.base.LabeledRows` with an array for predictions neither clipped nor boosted."""

    rows: Any
    labels: Any
    weights: Any
    predictions: Any
    linear: Any  # empty if not requested


@formula(fast=True)
def read_row(parts: MixtureParts, columns: BlockColumns, rows: Any, i: int, scores: Any) -> Any:
    """Scale row i and rescale experts whose features have grown; returns the number of entries."""
    pieces, row, x, record = parts.pieces, parts.buffers.row, parts.x, parts.features.record
    if pieces.again:
        again = scale_row_again(parts.features, rows, i, -1.0 - parts.later.rounds[0], row)
        experts.shrink_weights(parts, again, mean_norm(parts.features), scores)
        return again
    norm = mean_norm(parts.features)
    count = scale_row(parts.features, columns, x, pieces, rows, i, row)
    by = experts.factors(parts.grid, norm, parts.buffers.factors)
    for listed in range(row.many[0]):
        if row.growth[listed] < 1.0:
            j, growth = row.j[row.moved[listed]], row.growth[listed]
            experts.grow(parts.grid, columns, scores, x, j, growth, by)
            for m in range(scores + scores):  # past slopes are smaller in the new units
                x[j, columns.coin + m] = growth * np.float64(x[j, columns.coin + m])
            if is_in(parts.matrix) and record[j, PLACE] > 0.0:
                follow_scale(parts.state, parts.matrix, np.int64(record[j, PLACE]) - 1, growth)
    return count


ONE = np.uint64(1)
#: The column of ``Buffers.steps`` after the steps of the grid: the bet of the coin.
BET = np.uint64(8)


class Sums(NamedTuple):
    """Sums over the entries of a row: predictions and c of the grid, and the prediction of the coin."""

    p: Any
    c: Any
    coin: Any


@formula
def divide_once(x: Any, j: int, u: Any, strong: Any) -> tuple[Any, Any]:
    """u/L of the grid and the bet of the coin, by a single division, since divisions are slow. Not a fast formula, so
    that the order of products is fixed.
    """
    real, coin = x.dtype.type, ONE_SCORE.coin
    slopes = real(1.0) + x[j, coin + ONE]
    per = real(1.0) / (strong * slopes)
    wealth = real(experts.WEALTH) + x[j, coin + ONE + ONE]
    return per * (u * slopes), x[j, coin] * get(strong, 0) * wealth * get(per, 0)


@formula(fast=True)
def add_entry(parts: MixtureParts, by: experts.StrengthFactors, n: Any, j: int, u: Any, sums: Any) -> Any:
    """Add entry n to the sums, and store its step directions."""
    grid, x, buffers = parts.grid, parts.x, parts.buffers
    strong, coin = experts.strengths(x, x[j, ONE_SCORE.curve], x[j, ONE_SCORE.root], by), sums.coin
    if experts.bets(grid):
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
    by = experts.factors(parts.grid, norm, parts.buffers.factors)
    zero = parts.x.dtype.type(0.0)
    sums = Sums(by.curve * zero, by.curve * zero, zero)
    for k in range(count):
        prefetch(parts.theta, row.j[k], 0)
        sums = add_entry(parts, by, k, row.j[k], row.u[k], sums)
    finish_predictions(parts, count, norm, sums)
    return count, norm


@formula(fast=True)
def finish_predictions(parts: MixtureParts, count: Any, norm: float, sums: Any) -> None:
    """Compute predictions from the sums over a row: shift the constants with the centres and add them."""
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
            if experts.bets(grid):
                bet_drift += moved * np.float64(parts.buffers.steps[k, BET])
        store(every, Z, 0, wide(drift))
        drifts = put(read(side, every[Z]), n + COIN, stake * bet_drift)
        full_drift = drift_matrix(matrix, parts.features.record, row) if is_in(matrix) else 0.0
        drifts = put(put(drifts, n + FULL, full_drift), n + COMBINED, 0.0)
        write(offsets, clip(read(side, offsets) + drifts, limits.LARGEST_PREDICTION))
    p = put(p, n + UNUSED, 0.0) + read(side, offsets) + o
    write(every[PREDICTIONS], where_less(absolute(p), limits.LARGEST_PREDICTION, p, o))


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
            experts.move_later(parts, row.j[k], ONE_SCORE.lanes, a, load(grid, parts.buffers.steps, k, 0))
            experts.remember(ONE_SCORE, x, row.j[k], row.u[k], curved, relative)
        return
    # The growth of q_j, r_j, and theta_j and G_j of the coin, side by side: factors of u^2, u and abs(u).
    four, z, most = parts.buffers.gains, x.dtype.type(stake), x.dtype.type(limits.LARGEST_EXPERT_WEIGHT)
    four[0, 0], four[0, 1], four[1, 2], four[2, 3] = curved, relative * relative, -stake, abs(stake)
    squared, linear, size = load(FOUR, four, 0, 0), load(FOUR, four, 1, 0), load(FOUR, four, 2, 0)
    for k in range(now.count):
        j, u = row.j[k], row.u[k]
        experts.move(grid, x, j, ONE_SCORE.lanes, a, load(grid, parts.buffers.steps, k, 0))
        if experts.bets(grid):
            grown = load(FOUR, x, j, ONE_SCORE.curve) + squared * (u * u) + linear * u + size * abs(u)
            store(x, j, ONE_SCORE.curve, clip(grown, most))
            experts.win(x, j, ONE_SCORE.coin, ONE, -z * u * parts.buffers.steps[k, BET])
        else:
            experts.remember(ONE_SCORE, x, j, u, curved, relative)


ONLY_COLUMN = np.uint64(0)


@formula(fast=True)
def shift(theta: Any, j: int, m: Any, z: float) -> int:
    """theta_j -= z for score m; if that is out of bounds, return 1 and leave theta_j unchanged."""
    new = theta[j, m] - z
    fits = abs(new) <= LARGEST_THETA
    theta[j, m] = new if fits else theta[j, m]
    return 0 if fits else 1


@formula(fast=True)
def move_theta(theta: Any, rows: Any, i: int, slope: float, row: Entries) -> int:
    """theta -= slope s for row s; returns the number of entries out of bounds."""
    first, last, far = begin(rows, i), end(rows, i), 0
    if row.many[1] > 0 or not abs(slope) <= ORDINARY_SLOPE:  # otherwise no entry leaves the bounds
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


class State(NamedTuple):
    """State of a mixture of one score besides its features."""

    units: NDArray[np.float64]
    offsets: NDArray[np.float64]  # shift of the constant by centring, for each expert
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
    steps: NDArray[Any]  # for each entry: u/L of the grid, and the bet of the coin
    factors: NDArray[Any]  # of the strengths
    gains: NDArray[Any]  # of q_j, r_j, and the coin
    places: NDArray[np.float64]  # the row and A u, over the places of the full matrix
    au: NDArray[np.float64]


def buffers(width: int, columns: int, places: int, dtype: Any, grid: tuple[experts.Expert, ...]) -> Buffers:
    """Allocate buffers for rows of up to ``width`` entries, columns of experts, and places of the full matrix."""
    return Buffers(
        entries(width, dtype), EVERY[columns], EVERY[columns + experts.CANDIDATES],
        np.zeros((ROUND_LINES, columns + experts.CANDIDATES)), np.empty((width, 16), dtype),
        experts.factor_table(grid, dtype), np.zeros((3, 4), dtype), np.empty(places), np.empty(places),
    )  # fmt: skip


class PredictedRow(NamedTuple):
    """A row after its prediction."""

    count: Any  # entries
    norm: float  # N
    y: float
    h: float  # the weight, clipped
    bend: float  # weight times curvature at p
    begun: bool  # False before any label


@formula(fast=True)
def combine(parts: MixtureParts, log_experts: float, log_choices: float) -> tuple[float, Any]:
    """Compute candidates and the combination; returns the unclipped combination and all weights."""
    state, buffers, units, first = parts.state, parts.buffers, parts.state.units, lanes(parts.grid)
    side, every, origin, boost = buffers.experts, buffers.every, units[unit.ORIGIN], parts.pieces.boost
    by, p = experts.weigh_experts(side, state, log_experts, log_choices), read(side, every[PREDICTIONS])
    z = where_less(0.0, diagonal(side, state.inverse), p - origin, 0.0)
    hedged, stacked = total(by.experts * z), total(read(side, state.stack) * z)
    plain = put(put(zeros(FOUR), 0, hedged), 1, stacked)
    candidates = put(put(plain, 2, boost * hedged), 3, boost * stacked) + origin
    linear = total(by.candidates * candidates)
    begun = units[unit.LOW] <= units[unit.HIGH]
    within = clamp(linear, units[unit.LOW], units[unit.HIGH]) if begun else 0.0
    write(every[Z], z)
    write(every[PREDICTIONS], put(p, first + COMBINED, within))
    store(every, PREDICTIONS, first + CANDIDATE, candidates)
    return linear, by


@formula(fast=True)
def compute_losses(loss: Any, parts: MixtureParts, y: float) -> None:
    """Compute the losses (for comparison) and slopes of all predictions."""
    units, side, every = parts.state.units, parts.buffers.side, parts.buffers.every
    low, high = units[unit.LOW], units[unit.HIGH]
    if high == math.inf:
        low, high = -FAR_PREDICTION, FAR_PREDICTION
    write(every[CLIPPED], minimum(maximum(read(side, every[PREDICTIONS]), low), high))
    meet_all(loss, side, every[CLIPPED], y, every[LOSSES], every[SLOPES])


@formula(fast=True)
def find_slopes(extended: Any, parts: MixtureParts, y: float, compared: bool) -> None:
    """Compute the slopes of the extended loss, unless already known."""
    side, every = parts.buffers.side, parts.buffers.every
    nearest = minimum(maximum(read(side, every[PREDICTIONS]), extended.low), extended.high)
    if not compared or total(absolute(nearest - read(side, every[CLIPPED]))) > 0.0:
        write(every[CLIPPED], nearest)
        meet_all(extended.loss, side, every[CLIPPED], y, every[LOSSES], every[SLOPES])


@formula(fast=True)
def unboosted(parts: MixtureParts, by: experts.Weighing) -> float:
    """The combined prediction without boosted candidates, before it is clipped."""
    origin, every, first = parts.state.units[unit.ORIGIN], parts.buffers.every, lanes(parts.grid) + CANDIDATE
    hedged, stacked = every[PREDICTIONS, first] - origin, every[PREDICTIONS, first + 1] - origin
    shares = get(by.candidates, 0) + get(by.candidates, 2), get(by.candidates, 1) + get(by.candidates, 3)
    return float(origin + shares[0] * hedged + shares[1] * stacked)


@formula(fast=True)
def update_experts(extended: Any, parts: MixtureParts, now: PredictedRow) -> None:
    """Update every expert and the stack; all proximal steps are computed together."""
    matrix, record, state, pieces = parts.matrix, parts.features.record, parts.state, parts.pieces
    row, side, every, au = parts.buffers.row, parts.buffers.side, parts.buffers.every, parts.buffers.au
    units, h, n, inner = state.units, now.h, lanes(parts.grid), parts.buffers.experts
    per_kappa, per_tau = 1.0 / unit.kappa(units), 1.0 / unit.temperature(units, pieces.margin)
    learns = unit.ready(units)
    c_matrix, c_stack = -1.0, -1.0  # negative if they do not learn
    # The matrix first: if it leaves, it must be gone before the stack learns.
    if learns and admit_row(matrix, state, n + FULL, record, row, now.count, now.norm):
        c_matrix = spread_matrix(matrix, record, row, now.count, parts.buffers.places, au)
    if now.begun and not pieces.again:
        spread, az = unit.unit_spread(units), experts.spread_stack(inner, state.inverse, every[Z])
        write(every[AZ], az)
        c = max(0.0, total(read(inner, every[Z]) * az))
        c_stack = c if c <= limits.LONGEST_STACK_STEP * spread * spread else -1.0
    lengths = put(read(side, every[LENGTHS]) * (h * per_kappa), n + FULL, h * per_kappa * max(0.0, c_matrix))
    write(every[LENGTHS], put(lengths, n + STACK, h * per_tau * max(0.0, c_stack)))
    approach_all(extended, side, every[PREDICTIONS], now.y, every[LENGTHS], every[SLOPES], every[STEPS])
    if c_stack >= 0.0:
        experts.move_stack(inner, state.stack, read(inner, every[AZ]), h * every[STEPS, n + STACK] * per_tau)
        experts.bend_stack(inner, state.inverse, every[AZ], c_stack, now.bend * per_tau)
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
    others = lanes(grid) + (1 if experts.bets(grid) else 0)
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
            experts.add_round(sums, paid, steep * p - paid, h)
            if move_theta(parts.theta, rows, i, h * steep, parts.buffers.row) > 0:  # overflow: no certificate
                sums[experts.CONJUGATE] = math.inf
        h = clamp(h, limits.LIGHTEST_ROW, limits.HEAVIEST_ROW)
        if compared:
            first, side = lanes(grid) + CANDIDATE, parts.buffers.experts
            costs = minimum(load(side, every, LOSSES, 0) * h, LARGEST_LOSS)
            last_costs = minimum(load(FOUR, every, LOSSES, first) * h, LARGEST_LOSS)
            experts.update_totals(side, state, by, costs, last_costs)
            unit.update_residual_means(loss, units, p, y, h, g)
            if not pieces.margin:
                now = min(1.0, (experts.RECENCY + 1.0) / (sums[experts.ROUNDS] + experts.RECENCY))
                free = min(value(loss, linear, y), LARGEST_LOSS)
                sums[experts.CLIPPED] += now * (min(phi, LARGEST_LOSS) - sums[experts.CLIPPED])
                sums[experts.LINEAR] += now * (free - sums[experts.LINEAR])
        elif not pieces.again:
            sums[experts.UNCOMPARED] += h * phi
        span = units[unit.HIGH] - units[unit.LOW] if begun else math.inf
        if not pieces.again:
            unit.widen(loss, units, y, pieces.margin)
        # A new extreme label may be part of a trend, so predictions beyond the range may pay.
        beyond = max(0.0, units[unit.HIGH] - units[unit.LOW] - span) if span < math.inf else 0.0
        extended = Extended(loss, units[unit.LOW] - beyond, units[unit.HIGH] + beyond)
        find_slopes(extended, parts, y, compared)
        bend = h * unit.bend(loss, units, p, y, g, pieces.margin)
        update_experts(extended, parts, PredictedRow(count, norm, y, h, bend, begun))
        if pieces.again:
            experts.end_round(parts.later, parts.matrix)
        else:
            unit.update_label_means(loss, units, y, h, pieces.margin, pieces.centre_labels)
