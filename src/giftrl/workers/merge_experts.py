"""Merge feature statistics, and the experts of the grid and the coin, up to an interval for each weight.

Rows, counts and sums of values add up; the scale m_j is the largest one; the mean of norm2(u)^2 is weighted by rows.

With x and L the weight and the strength of an expert before the round, and x_k = x + dx_k and L_k = L + dL_k those of
worker k after it, all in the units of the merged features, the interval of a weight has the ends

    x_sum = x + sum_k L_k dx_k / (L + sum_k dL_k),        x_average = x + sum_k dL_k dx_k / sum_k dL_k.

The sum adds duals, as one learner would if the workers' updates were independent. For frequent features, all workers
correct the same error, so the sum overshoots and the average is right. For rare features, seen by few workers, the sum
is right and the average too small. :mod:`giftrl.workers.step_size` finds the best point between the two.

The coin bets (WEALTH + W) theta/(1 + G) with G added up. Its ends are this bet with theta and winnings summed over
workers, and with the averages of theta/(1 + G) and of the winnings, weighted by the workers' stakes. Both ends are
needed here too: with theta always added, 16 workers on
500,000 rows like rcv1's made the loss of the coin a third larger.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.lanes import clip, lanes, load, maximum, narrow, store, where_less, wide, zeros
from giftrl.compiled.registry import formula
from giftrl.mixtures.clip_limits import LARGEST_EXPERT_WEIGHT, LARGEST_VALUE
from giftrl.mixtures.experts import MAX_WEALTH, WEALTH, factor_table, factors, strengths
from giftrl.mixtures.feature_state import (
    CENTRE,
    COUNT,
    DENSE,
    DENSE_PLACE,
    NORM,
    RECORD_WIDTH,
    ROWS,
    SCALE,
    TOTAL,
    WIDEST,
    quick_scale,
)
from giftrl.mixtures.label_units import per_norm
from giftrl.ops.scalar import clamp
from giftrl.workers.pieces import ONE_THREAD, Piece, Share, mean, stacked

Array = NDArray[np.float64]
#: A feature becomes dense if it is in half of the rows, and stays dense down to this share.
DENSE_SHARE, STILL_DENSE_SHARE = 0.5, 0.4


class MergedFeatures(NamedTuple):
    """The features of a merged state.

    Attributes:
        counts: of the merged state.
        rows: the number of rows with each feature.
        record: record of the merged state, without places in the full matrix.
        shifts: (mu_new - mu_old)/m_new of each feature, in the state before and in each worker's: adding it times a
            weight, in the units of m_new, to the constant keeps predictions.
        norm: N, the mean of norm2(u)^2.
    """

    counts: Array
    rows: Array
    record: Array
    shifts: Array
    norm: float

    @property
    def scale(self) -> Array:
        """m_j."""
        return self.record[:, SCALE]

    @property
    def dense(self) -> NDArray[np.bool_]:
        """True for dense features."""
        return self.record[:, DENSE_PLACE] > 0.0


class FeatureRule(NamedTuple):
    """The rule of merging features."""

    centre: bool  # dense features are centred
    together: bool  # the constant is the mean label, which moves with the centres
    constant: int  # the place of the constant, or -1
    rows: float
    columns: Any  # the columns of a block


@formula
def occurs(record: Any, x: Any, columns: Any, j: int) -> float:
    """The number of rows with feature j."""
    return np.float64(record[j, COUNT] if record[j, DENSE_PLACE] > 0.0 else x[j, columns.count])


@formula
def total_of(record: Any, x: Any, columns: Any, j: int, rows: float) -> float:
    """The sum of the values of feature j over all rows."""
    if record[j, DENSE_PLACE] > 0.0:
        return clamp(record[j, CENTRE] * rows, -LARGEST_VALUE, LARGEST_VALUE)
    added = np.float64(x[j, columns.added])
    return clamp(record[j, TOTAL] + added * record[j, SCALE], -LARGEST_VALUE, LARGEST_VALUE)


@formula
def shift_of(record: Any, j: int, mu: float, m: float, still: bool) -> float:
    """(mu_new - mu_old)/m_new; 0 if no shift of the constant is needed."""
    if not m > 0.0 or (still and record[j, DENSE_PLACE] > 0.0):
        return 0.0
    return clamp((mu - record[j, CENTRE]) / m, -LARGEST_EXPERT_WEIGHT, LARGEST_EXPERT_WEIGHT)


@formula
def merge_records(
    rule: Any, records: Any, x: Any, rows: Any, out: Any, often: Any, shifts: Any, first: int, last: int
) -> None:
    """Merge the records of some features; the first of ``records``, ``x`` and ``rows`` is of the state before.

    Each dense feature gets the place 1.
    """
    columns = rule.columns
    for j in range(first, last):
        before, sum_before = occurs(records[0], x[0], columns, j), total_of(records[0], x[0], columns, j, rows[0])
        count, total, m = before, sum_before, records[0, j, SCALE]
        for k in range(1, len(records)):
            count += occurs(records[k], x[k], columns, j) - before
            total += total_of(records[k], x[k], columns, j, rows[k]) - sum_before
            m = max(m, records[k, j, SCALE])
        total = clamp(total, -LARGEST_VALUE, LARGEST_VALUE)
        part = STILL_DENSE_SHARE if records[0, j, DENSE_PLACE] > 0.0 else DENSE_SHARE
        dense = rule.centre and j != rule.constant and count >= part * rule.rows + 0.5
        mu = total / rule.rows if dense else 0.0
        often[j], out[j, SCALE], out[j, CENTRE] = count, m, mu
        out[j, COUNT], out[j, TOTAL] = (count, 0.0) if dense else (0.0, total)
        out[j, DENSE_PLACE] = 1.0 if dense else 0.0
        for k in range(len(records)):
            shifts[k, j] = shift_of(records[k], j, mu, m, rule.together and dense)


def merge_features(
    learner: Any, base: Piece, workers: list[Piece], place: int, share: Share = ONE_THREAD
) -> MergedFeatures:
    """Merge the features of all pieces; ``place`` is the constant's position, or -1."""
    pieces, columns = [base, *workers], learner.places
    rows = np.array([piece.counts[ROWS] for piece in pieces])
    counts = base.counts.copy()
    counts[ROWS] = rows[0] + (rows[1:] - rows[0]).sum()
    counts[NORM] = norm = mean([piece.counts[NORM] for piece in pieces], rows.tolist())
    counts[WIDEST] = max(piece.counts[WIDEST] for piece in pieces)
    size = len(base.features)
    out, times, shifts = np.zeros((size, RECORD_WIDTH)), np.empty(size), np.empty((len(pieces), size))
    rule = FeatureRule(
        learner.constant is not None, learner.pieces.centre_labels, place, max(float(counts[ROWS]), 1.0), columns
    )
    records, x = (stacked([getattr(piece, name) for piece in pieces]) for name in ("record", "x"))
    loop = ready(merge_records, learner.compiled, counted=False)
    share(lambda first, last: loop(rule, records, x, rows, out, times, shifts, first, last), size)
    out[:, DENSE_PLACE] *= np.cumsum(out[:, DENSE_PLACE])
    counts[DENSE] = out[:, DENSE_PLACE].max(initial=0.0)
    return MergedFeatures(counts, times, out, shifts, norm if norm > 0.0 else 1.0)


@formula
def put_feature(known: Any, columns: Any, x: Any, j: int) -> None:
    """Write a feature's statistics into its block, as in :mod:`giftrl.mixtures.feature_state`."""
    real, dense = x.dtype.type, known.record[j, DENSE_PLACE] > 0.0
    x[j, columns.per_scale] = real(0.0 if dense else quick_scale(known.record[j, SCALE]))
    x[j, columns.count], x[j, columns.added] = real(known.rows[j]), real(0.0)


class MergeInterval(NamedTuple):
    """The interval of the merged weights: average and sum."""

    average: Array  # weights by feature, score and expert of the grid; the last column is the coin
    total: Array
    sums: Array  # q and r of each feature
    coin: Array  # the coin's G, and both ends of its wealth, by feature and score
    offsets: Array  # offsets of every expert, a column for each score

    def by_row(self) -> "MergeInterval":
        """The ends with one index for feature and score."""
        shape = -1, self.average.shape[2]
        return self._replace(average=self.average.reshape(shape), total=self.total.reshape(shape))


class PartialMerge(NamedTuple):
    """A merged state, with an interval instead of the experts' weights."""

    piece: Piece  # the merged state without blocks of features
    known: MergedFeatures
    ends: MergeInterval
    offset: float  # o, the start of predictions


class ExpertColumns(NamedTuple):
    """The columns of a block that experts use, as signed integers."""

    curve: int
    root: int
    coin: int


def _columns(learner: Any) -> ExpertColumns:
    return ExpertColumns(*(int(getattr(learner.places, name)) for name in ExpertColumns._fields))


class MergeScratch(NamedTuple):
    """Buffers: the relative scale of each state; L and the factor of x for each expert."""

    scales: Array
    strengths: Array
    ratios: Array


def unit_of(learner: Any, piece: Piece) -> float:
    """Y/N of a piece, the unit in which its coin bets."""
    norm = piece.counts[NORM] if piece.counts[NORM] > 0.0 else 1.0
    return per_norm(piece.mixing.units, norm)


@formula
def merge_coin(x: Any, j: int, size: int, at: Any, scores: int, scales: Any, m: int, coin: Any) -> Any:
    """Both ends of the bet of score m, (WEALTH + W) theta/(1 + G), with G and both ends of W in ``coin``."""
    stake, before = scales[0] * np.float64(x[j, at + scores + m]), np.float64(x[j, at + 2 * scores + m])
    theta, staked = scales[0] * np.float64(x[j, at + m]), stake
    part, won, turned, weight, all_won, all_turned = theta / (1.0 + stake), 0.0, 0.0, 0.0, 0.0, 0.0
    total = theta
    for k in range(1, len(scales)):
        row, f = k * size + j, scales[k]
        more = max(f * np.float64(x[row, at + scores + m]) - stake, 0.0)
        gain = np.float64(x[row, at + 2 * scores + m]) - before
        turn = f * np.float64(x[row, at + m]) / (1.0 + stake + more) - part
        total += f * np.float64(x[row, at + m]) - theta
        staked += more
        won, turned, weight = won + more * gain, turned + more * turn, weight + more
        all_won, all_turned = all_won + gain, all_turned + turn
    workers = len(scales) - 1.0
    won, turned = (won / weight, turned / weight) if weight > 0.0 else (all_won / workers, all_turned / workers)
    poor, rich = clamp(before + won, 0.0, MAX_WEALTH), clamp(before + all_won, 0.0, MAX_WEALTH)
    coin[j, 0, m], coin[j, 1, m], coin[j, 2, m] = staked, poor, rich
    return (WEALTH + poor) * (part + turned), (WEALTH + rich) * total / (1.0 + staked)


@formula(fast=True)
def rescale(grid: Any, at: Any, by: Any, x: Any, scales: Any, j: int, work: Any, sums: Any) -> None:
    """Convert all states of feature j to the merged scale, and sum q_j and r_j.

    Duals are kept, as in :func:`giftrl.mixtures.experts.grow`: x_j becomes f x_j L_old/L_new with f = m_old/m_new.
    """
    states, size = len(scales) - 1, scales.shape[1]
    merged = scales[states, j]
    sums[j, 0], sums[j, 1] = 0.0, 0.0
    for k in range(states):
        f = scales[k, j] / merged if merged > 0.0 else 1.0
        q, r = np.float64(x[k * size + j, at.curve]), np.float64(x[k * size + j, at.root])
        new = strengths(sums, f * f * q, f * f * r, by)
        ratio = new / new
        if f != 1.0:
            ratio = strengths(sums, q, r, by) / new * f
        work.scales[k] = f
        store(work.strengths, k, 0, new)
        store(work.ratios, k, 0, ratio)
        part = 1.0 if k > 0 else 2.0 - states
        sums[j, 0] += part * f * f * q
        sums[j, 1] += part * f * f * r


class ExpertStates(NamedTuple):
    """The states of a merge, stacked: the state before the round, then the workers'."""

    x: NDArray[Any]  # the blocks
    scales: Array  # m_j of each state, then the merged m_j
    offsets: Array  # offsets by state, score and expert, which the constant absorbs
    place: int  # the place of the constant, or -1
    norm: float  # N, merged
    table: Array  # the factors of the strengths


@formula(fast=True)
def merge_weights(grid: Any, at: Any, states: Any, work: Any, out: Any, first: int, last: int) -> None:
    """Compute the intervals of all experts for some features into ``out``."""
    experts, count, size, x = lanes(grid), len(states.scales) - 1, states.scales.shape[1], states.x
    scores = len(out.average) // size
    by = factors(grid, states.norm, states.table)
    for j in range(first, last):
        rescale(grid, at, by, x, states.scales, j, work, out.sums)
        before, more = load(grid, work.strengths, 0, 0), zeros(grid)
        for k in range(1, count):
            more = more + maximum(load(grid, work.strengths, k, 0) - before, 0.0)
        some = where_less(0.0, more, more, 1.0)
        for m in range(scores):
            start = load(grid, work.ratios, 0, 0) * wide(load(grid, x, j, m * experts))
            if j == states.place:
                start = start + load(grid, states.offsets, m, 0)
            top, weighted, plain = zeros(grid), zeros(grid), zeros(grid)
            for k in range(1, count):
                strong = load(grid, work.strengths, k, 0)
                moved = load(grid, work.ratios, k, 0) * wide(load(grid, x, k * size + j, m * experts)) - start
                if j == states.place:
                    moved = moved + load(grid, states.offsets, k * scores + m, 0)
                top = top + strong * moved
                weighted = weighted + maximum(strong - before, 0.0) * moved
                plain = plain + moved / (count - 1.0)
            row = j * scores + m
            store(out.total, row, 0, start + top / (before + more))
            store(out.average, row, 0, start + where_less(0.0, more, weighted / some, plain))
            bets = merge_coin(x, j, size, at.coin, scores, work.scales, m, out.coin)
            out.average[row, experts], out.total[row, experts] = bets


@formula(fast=True)
def write_blocks(
    grid: Any, at: Any, columns: Any, known: Any, ends: Any, steps: Any, group: Any, x: Any, first: int, last: int
) -> None:
    """Write blocks of features; ``steps`` by group and expert interpolate from the average (0) to the sum (1)."""
    real, scores, experts = x.dtype.type, len(ends.average) // len(x), lanes(grid)
    most = LARGEST_EXPERT_WEIGHT
    for j in range(first, last):
        put_feature(known, columns, x, j)
        x[j, at.curve], x[j, at.root] = real(min(ends.sums[j, 0], most)), real(min(ends.sums[j, 1], most))
        way = load(grid, steps, group[j], 0)
        for m in range(scores):
            row = j * scores + m
            average = load(grid, ends.average, row, 0)
            store(x, j, m * experts, narrow(x, clip(average + way * (load(grid, ends.total, row, 0) - average), most)))
            step, staked = steps[group[j], experts], ends.coin[j, 0, m]
            poor, rich = ends.coin[j, 1, m], ends.coin[j, 2, m]
            wealth = clamp(poor + step * (rich - poor), 0.0, MAX_WEALTH)
            bet = ends.average[row, experts] + step * (ends.total[row, experts] - ends.average[row, experts])
            x[j, at.coin + m] = real(clamp(bet * (1.0 + staked) / (WEALTH + wealth), -most, most))
            x[j, at.coin + scores + m], x[j, at.coin + 2 * scores + m] = real(staked), real(wealth)


def scale_ratios(scales: Array) -> Array:
    """m_old/m_new of each state, from the scales of all states and then the merged ones."""
    new = np.broadcast_to(scales[-1], scales[:-1].shape)
    return np.asarray(np.divide(scales[:-1], new, out=np.ones(new.shape), where=new > 0.0))


def rescaled_weights(learner: Any, x: Array, ratios: Array, norm: float) -> Array:
    """The rescaled weights of the grid for several states, by score and expert."""
    columns, scores, experts = learner.places, learner.classes or 1, len(learner.grid_experts)
    prior, curve, root = factor_table(learner.grid_experts, np.float64)
    q, r, f = x[..., int(columns.curve), None], x[..., int(columns.root), None], ratios[..., None]
    old, new = (norm * prior + curve * k * q + np.sqrt(norm) * root * np.sqrt(1.0 + k * r) for k in (1.0, f * f))
    shape = *x.shape[:-1], scores, experts
    return np.asarray(x[..., : scores * experts].reshape(shape) * (f * old / new)[..., None, :])


def merge_experts(
    learner: Any, base: Piece, workers: list[Piece], known: MergedFeatures, place: int, share: Share = ONE_THREAD
) -> MergeInterval:
    """Compute the intervals of the experts, and their offsets except the coin's; ``place`` is the constant's."""
    pieces, grid, scores, size = [base, *workers], learner.grid, learner.classes or 1, len(base.features)
    n, count = lanes(grid), len(pieces)
    x = stacked([piece.x for piece in pieces])
    offsets = np.stack([piece.mixing.offsets.reshape(-1, scores).T for piece in pieces])
    scales = np.stack([piece.record[:, SCALE] for piece in pieces] + [known.scale])
    moved = np.flatnonzero(known.shifts.any(axis=0))
    weights = rescaled_weights(learner, x[:, moved].astype(np.float64), scale_ratios(scales[:, moved]), known.norm)
    offsets[:, :, :n] += np.einsum("kj,kjme->kme", known.shifts[:, moved], weights)
    rows = [piece.counts[0] - base.counts[0] for piece in workers]
    mean = sum(offset * part for offset, part in zip(offsets[1:], rows, strict=True)) / max(sum(rows), 1.0)
    if place >= 0:
        mean[:, :n] = 0.0
    shape = size, scores, n + 1
    ends = MergeInterval(
        np.empty(shape), np.empty(shape), np.empty((size, 2)), np.empty((size, 3, scores)), mean.T.copy()
    )
    states = ExpertStates(
        x.reshape(count * size, -1), scales, np.ascontiguousarray(offsets[:, :, :n]).reshape(count * scores, n), place,
        float(known.norm), factor_table(learner.grid_experts, np.float64),
    )  # fmt: skip
    loop, at = ready(merge_weights, learner.compiled), _columns(learner)

    def task(first: int, last: int) -> None:
        scratch = MergeScratch(np.empty(count), *np.empty((2, count, n)))
        loop(grid, at, states, scratch, ends.by_row(), first, last)

    share(task, size)
    return ends


def blocks_of(
    learner: Any, merger: PartialMerge, steps: Array, group: NDArray[np.int64], share: Share = ONE_THREAD
) -> NDArray[Any]:
    """The blocks of the merged features; see :func:`write_blocks`."""
    known, ends, places = merger.known, merger.ends.by_row(), learner.places
    x, by_group = np.zeros((len(known.rows), int(places.total)), learner.dtype), np.ascontiguousarray(steps.T)
    loop, at = ready(write_blocks, learner.compiled), _columns(learner)
    share(lambda first, last: loop(learner.grid, at, places, known, ends, by_group, group, x, first, last), len(x))
    return x
