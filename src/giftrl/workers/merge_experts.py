"""The experts of the grid and the coin after a merge: between the average of the workers and their sum.

With x and L the weight and the strength of an expert before the round, and x_k = x + dx_k and L_k = L + dL_k those of
worker k after it, all in the units of the merged features,

    x_sum = x + sum_k L_k dx_k / (L + sum_k dL_k),        x_average = x + sum_k dL_k dx_k / sum_k dL_k.

The sum adds duals, as one learner of all rows would if no worker had changed what the others see. On frequent features
all workers have corrected the same error, and the sum overshoots; the average is right for these. Where several workers
have each seen a little of a rare feature, the sum is right, and the average too small. :mod:`giftrl.workers.step_size`
finds where to stop between the two.

The coin bets (WEALTH + W) theta/(1 + G) with G added up. Its ends are this bet with theta added and with all that the
workers have won, and the bet of the average share theta/(1 + G) and of the average of what was won, both weighted by
what the workers have staked. The share needs both ends as the weights of other experts do: with theta always added,
16 workers on 500,000 rows like rcv1's made the loss of the coin a third larger. (The product of the factors by which
each wealth has grown is what one gambler who had made all these bets would have. Sixteen workers that double it make it
65,536 times as large. In a stream that is sorted by class, the rows that a merge is fitted to are all of one class, and
do not show that this is far too large.)
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.lanes import clip, load, maximum, narrow, read, store, where_less, wide, zeros
from giftrl.compiled.registry import formula
from giftrl.kernels.lane_counts import lanes
from giftrl.mixtures.clip_limits import LARGEST_EXPERT_WEIGHT
from giftrl.mixtures.experts import RICHEST, WEALTH, factor_table
from giftrl.mixtures.label_units import per_norm
from giftrl.mixtures.state import NORM, SCALE, BlockColumns
from giftrl.ops.scalar import clamp
from giftrl.workers.merge_features import Known, put_feature
from giftrl.workers.pieces import ALONE, Piece, Share, stacked

Array = NDArray[np.float64]


class Ends(NamedTuple):
    """What a merge has between the average and the sum.

    Attributes:
        average, total: the weights of the grid by feature, score and expert; the last column is what the coin bets.
        sums: q and r of each feature.
        coin: its G, and both ends of its wealth, by feature and score.
        offsets: of every expert, a column for each score.
    """

    average: Array
    total: Array
    sums: Array
    coin: Array
    offsets: Array


class Factors(NamedTuple):
    """The factors of the strengths L_j = prior + curve q_j + root sqrt(1 + r_j) of the experts, N included."""

    prior: Array
    curve: Array
    root: Array


class Lines(NamedTuple):
    """Where the numbers of a feature are in its block."""

    curve: int
    root: int
    coin: int


class Work(NamedTuple):
    """Scratch memory: the scale of each state in units of the merged one; by expert L, and what x is multiplied by."""

    factors: Array
    strengths: Array
    ratios: Array


@formula
def merge_coin(x: Any, j: int, size: int, at: Any, scores: int, factors: Any, m: int, coin: Any) -> Any:
    """Both ends of what the coin of score m bets, (WEALTH + W) theta/(1 + G), with G and both ends of W in ``coin``."""
    stake, before = factors[0] * np.float64(x[j, at + scores + m]), np.float64(x[j, at + 2 * scores + m])
    theta, staked = factors[0] * np.float64(x[j, at + m]), stake
    part, won, turned, own, all_won, all_turned = theta / (1.0 + stake), 0.0, 0.0, 0.0, 0.0, 0.0
    total = theta
    for k in range(1, len(factors)):
        row, f = k * size + j, factors[k]
        more = max(f * np.float64(x[row, at + scores + m]) - stake, 0.0)
        gain = np.float64(x[row, at + 2 * scores + m]) - before
        turn = f * np.float64(x[row, at + m]) / (1.0 + stake + more) - part
        total += f * np.float64(x[row, at + m]) - theta
        staked += more
        won, turned, own = won + more * gain, turned + more * turn, own + more
        all_won, all_turned = all_won + gain, all_turned + turn
    workers = len(factors) - 1.0
    won, turned = (won / own, turned / own) if own > 0.0 else (all_won / workers, all_turned / workers)
    poor, rich = clamp(before + won, 0.0, RICHEST), clamp(before + all_won, 0.0, RICHEST)
    coin[j, 0, m], coin[j, 1, m], coin[j, 2, m] = staked, poor, rich
    return (WEALTH + poor) * (part + turned), (WEALTH + rich) * total / (1.0 + staked)


def lines(columns: BlockColumns) -> Lines:
    """Where the numbers are with these columns."""
    return Lines(int(columns.curve), int(columns.root), int(columns.coin))


@formula(fast=True)
def strengths(by: Any, q: float, r: float) -> Any:
    """L_j of all experts, a lane for each."""
    return by.prior + by.curve * q + by.root * math.sqrt(1.0 + r)


@formula(fast=True)
def rescale(grid: Any, at: Any, by: Any, x: Any, scales: Any, j: int, work: Any, sums: Any) -> None:
    """Put all states of feature j into the units of the merged scale, and add up q_j and r_j.

    Duals are kept, as in :func:`giftrl.mixtures.experts.grow`: x_j becomes f x_j L_old/L_new with f = m_old/m_new.
    """
    states, size = len(scales) - 1, scales.shape[1]
    merged = scales[states, j]
    sums[j, 0], sums[j, 1] = 0.0, 0.0
    for k in range(states):
        f = scales[k, j] / merged if merged > 0.0 else 1.0
        q, r = np.float64(x[k * size + j, at.curve]), np.float64(x[k * size + j, at.root])
        new = strengths(by, f * f * q, f * f * r)
        ratio = new / new
        if f != 1.0:
            ratio = strengths(by, q, r) / new * f
        work.factors[k] = f
        store(work.strengths, k, 0, new)
        store(work.ratios, k, 0, ratio)
        part = 1.0 if k > 0 else 2.0 - states
        sums[j, 0] += part * f * f * q
        sums[j, 1] += part * f * f * r


@formula(fast=True)
def merge_weights(
    grid: Any, at: Any, factors: Any, x: Any, scales: Any, offsets: Any, place: int, work: Any, out: Any, first: int,
    last: int,
) -> None:  # fmt: skip
    """Both ends of all experts for some features.

    Args:
        grid: the experts.
        at: :class:`Lines`.
        factors: :class:`Factors`, of the merged norm.
        x: the blocks of the state before and of each worker, one behind the other.
        scales: m_j of each of them, and then the merged ones.
        offsets: of each state and score, one behind the other, and expert of the grid: the constant takes them up.
        place: where the constant is, or -1.
        work: :class:`Work`.
        out: :class:`Ends`, to be filled, in which feature and score are one index.
        first, last: which features.
    """
    experts, states, size = lanes(grid), len(scales) - 1, scales.shape[1]
    scores = len(out.average) // size
    by = Factors(read(grid, factors.prior), read(grid, factors.curve), read(grid, factors.root))
    for j in range(first, last):
        rescale(grid, at, by, x, scales, j, work, out.sums)
        before, more = load(grid, work.strengths, 0, 0), zeros(grid)
        for k in range(1, states):
            more = more + maximum(load(grid, work.strengths, k, 0) - before, 0.0)
        some = where_less(0.0, more, more, 1.0)
        for m in range(scores):
            start = load(grid, work.ratios, 0, 0) * wide(load(grid, x, j, m * experts))
            if j == place:
                start = start + load(grid, offsets, m, 0)
            top, weighted, plain = zeros(grid), zeros(grid), zeros(grid)
            for k in range(1, states):
                strong = load(grid, work.strengths, k, 0)
                moved = load(grid, work.ratios, k, 0) * wide(load(grid, x, k * size + j, m * experts)) - start
                if j == place:
                    moved = moved + load(grid, offsets, k * scores + m, 0)
                top = top + strong * moved
                weighted = weighted + maximum(strong - before, 0.0) * moved
                plain = plain + moved / (states - 1.0)
            row = j * scores + m
            store(out.total, row, 0, start + top / (before + more))
            store(out.average, row, 0, start + where_less(0.0, more, weighted / some, plain))
            ends = merge_coin(x, j, size, at.coin, scores, work.factors, m, out.coin)
            out.average[row, experts], out.total[row, experts] = ends


@formula(fast=True)
def write_blocks(
    grid: Any, at: Any, columns: Any, known: Any, ends: Any, steps: Any, group: Any, x: Any, first: int, last: int
) -> None:
    """Write blocks of features, with weights ``steps`` of the way from the average to the sum, by group and expert."""
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
            wealth = clamp(poor + step * (rich - poor), 0.0, RICHEST)
            bet = ends.average[row, experts] + step * (ends.total[row, experts] - ends.average[row, experts])
            x[j, at.coin + m] = real(clamp(bet * (1.0 + staked) / (WEALTH + wealth), -most, most))
            x[j, at.coin + scores + m], x[j, at.coin + 2 * scores + m] = real(staked), real(wealth)


def factors_of(scales: Array) -> Array:
    """m_old/m_new of each state, from the scales of all states and then the merged ones."""
    new = np.broadcast_to(scales[-1], scales[:-1].shape)
    return np.asarray(np.divide(scales[:-1], new, out=np.ones(new.shape), where=new > 0.0))


def rescaled(x: Array, factors: Array, by: Factors, columns: BlockColumns, scores: int) -> Array:
    """The weights of the grid in blocks of several states, by score and expert, as :func:`rescale` has them."""
    q, r = x[..., int(columns.curve), None], x[..., int(columns.root), None]
    f, experts = factors[..., None], len(by.prior)
    old, new = (by.prior + by.curve * k * q + by.root * np.sqrt(1.0 + k * r) for k in (1.0, f * f))
    ratio = (f * old / new)[..., None, :]
    return np.asarray(x[..., : experts * scores].reshape(*x.shape[:-1], scores, experts) * ratio)


def merge_experts(
    learner: Any, base: Piece, workers: list[Piece], known: Known, place: int, share: Share = ALONE
) -> Ends:
    """Both ends of the experts, and their offsets but for those of the coin; ``place`` is that of the constant."""
    pieces, grid, scores, size = [base, *workers], learner.grid, learner.classes or 1, len(base.features)
    n, columns = lanes(grid), learner.places
    x = stacked([piece.x for piece in pieces])
    offsets = np.stack([piece.mixing.offsets.reshape(-1, scores).T for piece in pieces])
    scales = np.stack([piece.record[:, SCALE] for piece in pieces] + [known.scale])
    prior, curve, root = factor_table(learner.grid_experts, np.float64)
    by = Factors(known.norm * prior, curve, math.sqrt(known.norm) * root)
    moved = np.flatnonzero(known.shifts.any(axis=0))
    weights = rescaled(x[:, moved].astype(np.float64), factors_of(scales[:, moved]), by, columns, scores)
    offsets[:, :, :n] += np.einsum("kj,kjme->kme", known.shifts[:, moved], weights)
    rows = [piece.counts[0] - base.counts[0] for piece in workers]
    left = sum(own * part for own, part in zip(offsets[1:], rows, strict=True)) / max(sum(rows), 1.0)
    if place >= 0:
        left[:, :n] = 0.0
    shape, states = (size, scores, n + 1), len(pieces)
    ends = Ends(np.empty(shape), np.empty(shape), np.empty((size, 2)), np.empty((size, 3, scores)), left.T.copy())
    blocks, shifts = x.reshape(states * size, -1), np.ascontiguousarray(offsets[:, :, :n]).reshape(states * scores, n)
    loop, given = ready(merge_weights, learner.compiled), (grid, lines(columns), by, blocks, scales, shifts, place)

    def task(first: int, last: int) -> None:
        loop(*given, Work(np.empty(states), *np.empty((2, states, n))), by_row(ends), first, last)

    share(task, size)
    return ends


def by_row(ends: Ends) -> Ends:
    """The ends with one index for feature and score."""
    rows = -1, ends.average.shape[2]
    return ends._replace(average=ends.average.reshape(rows), total=ends.total.reshape(rows))


def blocks_of(
    learner: Any, known: Known, ends: Ends, steps: Array, group: NDArray[np.int64], share: Share = ALONE
) -> NDArray[Any]:
    """The blocks of the merged features; see :func:`write_blocks`."""
    x, places = np.zeros((len(known.rows), int(learner.places.total)), learner.dtype), learner.places
    by_group = np.ascontiguousarray(steps.T)
    loop = ready(write_blocks, learner.compiled)
    given = learner.grid, lines(places), places, known, by_row(ends), by_group, group, x
    share(lambda first, last: loop(*given, first, last), len(x))
    return x


class Merger(NamedTuple):
    """A merge that is done but for the weights of the experts, which are between two ends.

    Attributes:
        piece: the merged state, but for its blocks of features.
        known: its features.
        ends: what the weights are between.
        offset: o, what predictions start from.
    """

    piece: Piece
    known: Known
    ends: Ends
    offset: float


def unit_of(learner: Any, piece: Piece) -> float:
    """Y/N of a piece, the unit in which its coin bets."""
    norm = piece.counts[NORM] if piece.counts[NORM] > 0.0 else 1.0
    return per_norm(piece.mixing.units, norm)
