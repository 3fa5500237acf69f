"""The experts of the grid and the coin after a merge: between the average of the workers and their sum.

With x and L the weight and the strength of an expert before the round, and x_k = x + dx_k and L_k = L + dL_k those of
worker k after it, all in the units of the merged features,

    x_sum = x + sum_k L_k dx_k / (L + sum_k dL_k),        x_average = x + sum_k dL_k dx_k / sum_k dL_k.

The sum adds duals, as one learner of all rows would if no worker had changed what the others see. On frequent features
all workers have corrected the same error, and the sum overshoots; the average is right for these. Where several workers
have each seen a little of a rare feature, the sum is right, and the average too small. :mod:`giftrl.merging.fit` finds
where to stop between the two.

The coin has theta and G added, and its wealth has the two ends: the average of what workers have won, weighted by what
they have staked, and its sum. (The product of the factors by which each wealth has grown is what one gambler would have
who had made all these bets; sixteen workers that double it make it 65,536 times as large, and rows of a stream that is
sorted by class do not show the harm.)
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.merging.features import Known, put_feature
from giftrl.merging.pieces import Piece, stacked
from giftrl.mixtures.coin import RICHEST
from giftrl.mixtures.experts import lanes
from giftrl.mixtures.feature_state import SCALE
from giftrl.mixtures.layout import Columns
from giftrl.mixtures.limits import LARGEST_EXPERT_WEIGHT
from giftrl.ops.scalar import clamp

Array = NDArray[np.float64]


class Ends(NamedTuple):
    """What a merge has between the average and the sum.

    Attributes:
        average, total: the weights of the grid by feature, score and expert; the last column is the coin's wealth.
        sums: q and r of each feature.
        coin: its theta and G, by feature and score.
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


@formula(fast=True)
def put_strengths(by: Any, q: float, r: float, out: Any) -> None:
    """L_j of all experts."""
    root = math.sqrt(1.0 + r)
    for e in range(len(out)):
        out[e] = by.prior[e] + by.curve[e] * q + by.root[e] * root


@formula
def merge_wealth(x: Any, j: int, at: Any, scores: int, factors: Any, m: int, coin: Any) -> tuple[float, float]:
    """Both ends of W of the coin of score m, with theta and G added up into ``coin``."""
    theta, stake = factors[0] * np.float64(x[0, j, at + m]), factors[0] * np.float64(x[0, j, at + scores + m])
    before, won, stakes, total = np.float64(x[0, j, at + 2 * scores + m]), 0.0, 0.0, 0.0
    coin[j, 0, m], coin[j, 1, m] = theta, stake
    for k in range(1, len(x)):
        own = factors[k] * np.float64(x[k, j, at + scores + m]) - stake
        gain = np.float64(x[k, j, at + 2 * scores + m]) - before
        coin[j, 0, m] += factors[k] * np.float64(x[k, j, at + m]) - theta
        coin[j, 1, m] += own
        won += max(own, 0.0) * gain
        stakes += max(own, 0.0)
        total += gain
    average = before + (won / stakes if stakes > 0.0 else total / (len(x) - 1))
    return clamp(average, 0.0, RICHEST), clamp(before + total, 0.0, RICHEST)


def lines(columns: Columns) -> Lines:
    """Where the numbers are with these columns."""
    return Lines(int(columns.curve), int(columns.root), int(columns.coin))


class Work(NamedTuple):
    """Scratch memory: the scale of each state in units of the merged one; by expert L, and what x is multiplied by."""

    factors: Array
    strengths: Array
    ratios: Array
    rows: Array  # five of a number for each expert


@formula(fast=True)
def rescale(at: Any, by: Any, x: Any, scales: Any, j: int, work: Any, sums: Any) -> None:
    """Put all states of feature j into the units of the merged scale, and add up q_j and r_j.

    Duals are kept, as in :func:`giftrl.mixtures.experts.grow`: x_j becomes f x_j L_old/L_new with f = m_old/m_new.
    """
    merged, states = scales[len(x), j], len(x)
    for k in range(states):
        f = scales[k, j] / merged if merged > 0.0 else 1.0
        q, r = np.float64(x[k, j, at.curve]), np.float64(x[k, j, at.root])
        put_strengths(by, q, r, work.ratios[k])
        put_strengths(by, f * f * q, f * f * r, work.strengths[k])
        work.factors[k] = f
        for e in range(len(by.prior)):
            work.ratios[k, e] = f * work.ratios[k, e] / work.strengths[k, e]
        if k == 0:
            sums[j, 0], sums[j, 1] = (2.0 - states) * f * f * q, (2.0 - states) * f * f * r
        else:
            sums[j, 0] += f * f * q
            sums[j, 1] += f * f * r


@formula(fast=True)
def merge_weights(at: Any, by: Any, x: Any, scales: Any, offsets: Any, place: int, work: Any, out: Any) -> None:
    """Both ends of all experts.

    Args:
        at: :class:`Lines`.
        by: :class:`Factors`, of the merged norm.
        x: the blocks of the state before and of each worker.
        scales: m_j of each of them, and then the merged ones.
        offsets: of each state, score and expert of the grid: the constant takes them up.
        place: where the constant is, or -1.
        work: :class:`Work`.
        out: :class:`Ends`, to be filled.
    """
    experts, scores, states = len(by.prior), out.average.shape[1], len(x)
    strengths, ratios, more, start = work.strengths, work.ratios, work.rows[0], work.rows[1]
    top, weighted, plain = work.rows[2], work.rows[3], work.rows[4]
    for j in range(x.shape[1]):
        rescale(at, by, x, scales, j, work, out.sums)
        for e in range(experts):
            more[e] = 0.0
        for k in range(1, states):
            for e in range(experts):
                more[e] += max(strengths[k, e] - strengths[0, e], 0.0)
        for m in range(scores):
            first = m * experts
            for e in range(experts):
                start[e] = ratios[0, e] * np.float64(x[0, j, first + e])
                start[e] += offsets[0, m, e] if j == place else 0.0
                top[e], weighted[e], plain[e] = 0.0, 0.0, 0.0
            for k in range(1, states):
                for e in range(experts):
                    moved = ratios[k, e] * np.float64(x[k, j, first + e]) - start[e]
                    moved += offsets[k, m, e] if j == place else 0.0
                    top[e] += strengths[k, e] * moved
                    weighted[e] += max(strengths[k, e] - strengths[0, e], 0.0) * moved
                    plain[e] += moved / (states - 1)
            for e in range(experts):
                out.total[j, m, e] = start[e] + top[e] / (strengths[0, e] + more[e])
                out.average[j, m, e] = start[e] + (weighted[e] / more[e] if more[e] > 0.0 else plain[e])
            ends = merge_wealth(x, j, at.coin, scores, work.factors, m, out.coin)
            out.average[j, m, experts], out.total[j, m, experts] = ends


@formula
def write_blocks(at: Any, columns: Any, known: Any, ends: Any, steps: Any, group: Any, x: Any) -> None:
    """Write blocks of features, with weights ``steps`` of the way from the average to the sum, by expert and group."""
    real, scores, experts = x.dtype.type, ends.average.shape[1], ends.average.shape[2] - 1
    most = LARGEST_EXPERT_WEIGHT
    for j in range(len(x)):
        put_feature(known, columns, x, j)
        x[j, at.curve], x[j, at.root] = real(min(ends.sums[j, 0], most)), real(min(ends.sums[j, 1], most))
        for m in range(scores):
            for e in range(experts):
                way = ends.total[j, m, e] - ends.average[j, m, e]
                x[j, m * experts + e] = real(clamp(ends.average[j, m, e] + steps[e, group[j]] * way, -most, most))
            way = ends.total[j, m, experts] - ends.average[j, m, experts]
            wealth = ends.average[j, m, experts] + steps[experts, group[j]] * way
            x[j, at.coin + m], x[j, at.coin + scores + m] = real(ends.coin[j, 0, m]), real(ends.coin[j, 1, m])
            x[j, at.coin + 2 * scores + m] = real(clamp(wealth, 0.0, RICHEST))


def factors_of(scales: Array) -> Array:
    """m_old/m_new of each state, from the scales of all states and then the merged ones."""
    new = np.broadcast_to(scales[-1], scales[:-1].shape)
    return np.asarray(np.divide(scales[:-1], new, out=np.ones(new.shape), where=new > 0.0))


def rescaled(x: Array, factors: Array, by: Factors, columns: Columns, scores: int) -> Array:
    """The weights of the grid in blocks of several states, by score and expert, as :func:`rescale` has them."""
    q, r = x[..., int(columns.curve), None], x[..., int(columns.root), None]
    f, experts = factors[..., None], len(by.prior)
    old, new = (by.prior + by.curve * k * q + by.root * np.sqrt(1.0 + k * r) for k in (1.0, f * f))
    ratio = (f * old / new)[..., None, :]
    return np.asarray(x[..., : experts * scores].reshape(*x.shape[:-1], scores, experts) * ratio)


def merge_experts(learner: Any, base: Piece, workers: list[Piece], known: Known, place: int) -> Ends:
    """Both ends of the experts, and their offsets but for those of the coin; ``place`` is that of the constant."""
    pieces, grid, scores, size = [base, *workers], learner.grid, learner.classes or 1, len(base.features)
    n, columns = lanes(grid), learner.places
    x = stacked([piece.x for piece in pieces])
    offsets = np.stack([piece.mixing.offsets.reshape(-1, scores).T for piece in pieces])
    scales = np.stack([piece.record[:, SCALE] for piece in pieces] + [known.scale])
    by = Factors(known.norm * grid.prior, grid.curve, math.sqrt(known.norm) * grid.root)
    moved = np.flatnonzero(known.shifts.any(axis=0))
    weights = rescaled(x[:, moved].astype(np.float64), factors_of(scales[:, moved]), by, columns, scores)
    offsets[:, :, :n] += np.einsum("kj,kjme->kme", known.shifts[:, moved], weights)
    rows = [piece.counts[0] - base.counts[0] for piece in workers]
    left = sum(own * part for own, part in zip(offsets[1:], rows, strict=True)) / max(sum(rows), 1.0)
    if place >= 0:
        left[:, :n] = 0.0
    shape = (size, scores, n + 1)
    ends = Ends(np.empty(shape), np.empty(shape), np.empty((size, 2)), np.empty((size, 2, scores)), left.T.copy())
    at = lines(columns)
    states = len(pieces)
    work = Work(np.empty(states), np.empty((states, n)), np.empty((states, n)), np.empty((5, n)))
    loop = ready(merge_weights, learner.compiled, counted=False)
    loop(at, by, x, scales, np.ascontiguousarray(offsets[:, :, :n]), place, work, ends)
    return ends


def blocks_of(learner: Any, known: Known, ends: Ends, steps: Array, group: NDArray[np.int64]) -> NDArray[Any]:
    """The blocks of the merged features; see :func:`write_blocks`."""
    x = np.zeros((len(known.rows), int(learner.places.total)), learner.dtype)
    loop = ready(write_blocks, learner.compiled, counted=False)
    loop(lines(learner.places), learner.places, known, ends, steps, group, x)
    return x
