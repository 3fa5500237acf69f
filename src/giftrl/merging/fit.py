"""How far to go from the average of workers to their sum: a small convex problem on rows that nobody has learnt.

Features are grouped by how often they occur, an octave or two a group. An expert has a step in [0, 1] for each group:
its prediction for a row of the window is then p + sum_g a_g d_g, and the steps minimise the loss of the window, one
after the other, each by the secant method on the slope.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Rows, begin, column, end
from giftrl.merging.mixture import Merger
from giftrl.mixtures.coin import WEALTH, bet
from giftrl.mixtures.experts import lanes
from giftrl.mixtures.extension import Extended
from giftrl.mixtures.feature_state import SCALE
from giftrl.mixtures.labels import HIGH, LOW, per_norm, temperature
from giftrl.mixtures.weights import UNIT
from giftrl.ops.loss import slope

Array = NDArray[np.float64]
#: The groups end where a feature is in one of 4, 16, ... rows; the constant has a group of its own.
OCTAVES = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
GROUPS = len(OCTAVES) + 2
#: How often the steps are gone through, and how often each is improved.
SWEEPS, SECANTS = 2, 4
#: How firmly a step is held where it was: moving it by 1 costs half of this many units of loss.
STIFFNESS = 4.0


def groups_of(merger: Merger, constant: int | None) -> NDArray[np.int64]:
    """The group of each feature."""
    share = merger.known.rows / max(merger.known.counts[0], 1.0)
    group: NDArray[np.int64] = np.digitize(-np.log2(np.maximum(share, 1e-12)), OCTAVES).astype(np.int64)
    if constant is not None:
        group[merger.piece.features == constant] = GROUPS - 1
    return group


@formula
def descent(loss: Any, p: Any, d: Any, labels: Any, weights: Any, by: float, pull: float) -> float:
    """The slope of the loss of all rows in the step of a group, ``by`` further than p, and the pull to the prior."""
    total = pull
    for i in range(len(p)):
        if d[i] != 0.0:
            total += weights[i] * slope(loss, p[i] + by * d[i], labels[i]) * d[i]
    return total


@formula
def find_step(loss: Any, p: Any, d: Any, labels: Any, weights: Any, now: float, prior: float, stiff: float) -> float:
    """The best step of a group, while the others stay."""
    low, high = -now, 1.0 - now
    at_low = descent(loss, p, d, labels, weights, low, stiff * (now + low - prior))
    at_high = descent(loss, p, d, labels, weights, high, stiff * (now + high - prior))
    if at_low >= 0.0 or not at_high > at_low:
        return 0.0
    if at_high <= 0.0:
        return 1.0
    for _ in range(SECANTS):
        by = low - at_low * (high - low) / (at_high - at_low)
        at = descent(loss, p, d, labels, weights, by, stiff * (now + by - prior))
        if at < 0.0:
            low, at_low, at_high = by, at, at_high / 2.0
        else:
            high, at_high, at_low = by, at, at_low / 2.0
    return now + low - at_low * (high - low) / (at_high - at_low)


@formula
def find_steps(loss: Any, p: Any, d: Any, labels: Any, weights: Any, prior: Any, stiff: float, steps: Any) -> None:
    """The steps of each expert and group; p and d have a row for each expert."""
    for r in range(len(p)):
        for g in range(steps.shape[1]):
            for i in range(len(labels)):
                p[r, i] += steps[r, g] * d[r, g, i]
        for _ in range(SWEEPS):
            for g in range(steps.shape[1]):
                best = find_step(loss, p[r], d[r, g], labels, weights, steps[r, g], prior[r, g], stiff)
                best = min(max(best, 0.0), 1.0)
                for i in range(len(labels)):
                    p[r, i] += (best - steps[r, g]) * d[r, g, i]
                steps[r, g] = best


def first_steps(learner: Any) -> Array:
    """The steps before the first merge: the whole way to the sum, of each lane and group."""
    return np.ones((lanes(learner.grid) + 1, GROUPS))


class Lanes(NamedTuple):
    """Weights of the experts of one score and of the coin, by feature, with the features that are merged listed.

    Attributes:
        where: the place of each feature among those that are merged, or -1.
        per: 1/m_j of those.
        average, moves: their weights at the average, and the way from there to the sum.
        group: theirs.
        other: the blocks of all features, for those that no worker has met.
        coin: the place of the coin in a block.
        unit: Y/N.
    """

    where: NDArray[np.int32]
    per: Array
    average: Array
    moves: Array
    group: NDArray[np.int64]
    other: NDArray[Any]
    scales: Array
    coin: Any
    unit: float


@formula(fast=True)
def score_window(lanes: Any, rows: Any, count: int, p: Any, d: Any) -> None:
    """Add the entries of each row: the predictions at the average to p, and what each group moves them to d."""
    experts = lanes.average.shape[1]
    for i in range(count):
        for k in range(begin(rows, i), end(rows, i)):
            j, v = column(rows, i, k), np.float64(rows.data[k])
            s = lanes.where[j]
            if s >= 0:
                u, g = v * lanes.per[s], lanes.group[s]
                for e in range(experts):
                    p[i, e] += u * lanes.average[s, e]
                    d[i, g, e] += u * lanes.moves[s, e]
            elif lanes.scales[j, SCALE] > 0.0:
                u = v / lanes.scales[j, SCALE]
                for e in range(experts - 1):
                    p[i, e] += u * np.float64(lanes.other[j, e])
                p[i, experts - 1] += u * bet(lanes.other, j, lanes.coin, np.uint64(1), lanes.unit)


def lanes_of(learner: Any, merger: Merger, where: NDArray[np.int32]) -> Lanes:
    """What the window is scored with; ``where`` is -1 everywhere, and is filled in."""
    piece, known, found = merger.piece, merger.known, merger.ends
    n, unit = lanes(learner.grid), per_norm(getattr(piece.mixing, "units", UNIT), known.norm)
    where[piece.features] = np.arange(len(piece.features), dtype=np.int32)
    scale = np.ascontiguousarray(known.scale)
    per = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
    average, moves = found.average[:, 0].copy(), found.total[:, 0] - found.average[:, 0]
    stake = unit * found.coin[:, 0, 0] / (1.0 + found.coin[:, 1, 0])  # of each unit of wealth
    average[:, n], moves[:, n] = stake * (WEALTH + average[:, n]), stake * moves[:, n]
    blocks, scales = learner.features.x, learner.features.record
    group = groups_of(merger, learner.constant)
    return Lanes(where, per, average, moves, group, blocks, scales, learner.places.coin, unit)


def fit_mixture(learner: Any, merger: Merger, rows: Rows, labels: Array, weights: Array, previous: Array) -> Array:
    """The steps of each lane and group, from rows that nobody has learnt.

    Args:
        learner: a mixture of one score that has the state before the round at features that are not merged.
        merger: the merge.
        rows, labels, weights: the window.
        previous: the steps to begin with.
    """
    known, found, n = merger.known, merger.ends, len(labels)
    given = lanes_of(learner, merger, np.full(learner.dimension, -1, np.int32))
    experts = given.average.shape[1]
    p, d = np.zeros((n, experts)), np.zeros((n, GROUPS, experts))
    p += found.offsets[:experts, 0] + merger.offset
    dense = np.flatnonzero(known.dense)
    centres = known.centre[dense] * given.per[dense]
    p -= centres @ given.average[dense]
    for j, centre in zip(dense, centres, strict=True):
        d[:, given.group[j]] -= centre * given.moves[j]
    ready(score_window, learner.compiled, counted=False)(given, rows, n, p, d)
    units = getattr(merger.piece.mixing, "units", UNIT)
    loss = Extended(learner.loss, float(units[LOW]), float(units[HIGH]))
    h = np.ones(n) if len(weights) == 0 else np.asarray(weights, np.float64)
    stiff, steps = STIFFNESS * temperature(units, learner.pieces.margin), previous.copy()
    by_expert = np.ascontiguousarray(p.T), np.ascontiguousarray(d.transpose(2, 1, 0))
    ready(find_steps, learner.compiled)(loss, *by_expert, labels, h, previous, stiff, steps)
    return steps
