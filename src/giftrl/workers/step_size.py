"""The steps from the average of workers to their sum that a window of rows asks for: a small convex problem.

An expert has a step a_g in [0, 1] for each group of features, and its scores for the window are p + sum_g a_g d_g. The
steps minimise the loss of the window, one after the other, each by the secant method on its slope. How far a step moves
from where it was has a price too, so that a few rows do not move it far.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.lanes import load, store, wide
from giftrl.compiled.registry import formula, operation
from giftrl.compiled.rows import Dense, Rows, begin, column, end
from giftrl.errors import Incompatible
from giftrl.mixtures.experts import WEALTH, bet, lanes
from giftrl.mixtures.label_units import HIGH, LOW, Extended, per_norm, temperature
from giftrl.mixtures.scoring import UNIT
from giftrl.mixtures.state import CENTRE, ROWS, SCALE
from giftrl.ops import loss as one
from giftrl.ops import vector_loss as many
from giftrl.workers.merge_experts import Ends, Merger, by_row, unit_of
from giftrl.workers.pieces import Share, in_one_part

Array = NDArray[np.float64]
#: How often the steps are gone through, and how often each is improved.
SWEEPS, SECANTS = 2, 4
#: How firmly a step is held where it was: moving it by 1 costs half of this many units of loss.
STIFFNESS = 4.0

value_slope, vector_slope = one.slope, many.slope


@operation
def descent(window: Any, p: Any, d: Any, by: float) -> float:
    """The slope of the loss of a window in a step, at scores ``by`` times d further than p."""
    raise Incompatible("a window must bring descent(self, p, d, by); add that method to its class")


class OneScore(NamedTuple):
    """A window of rows with one score each."""

    loss: Any
    labels: NDArray[Any]
    weights: Array

    def descent(self, p: Any, d: Any, by: float) -> float:
        total = 0.0
        for i in range(len(p)):
            if d[i] != 0.0:
                total += self.weights[i] * value_slope(self.loss, p[i] + by * d[i], self.labels[i]) * d[i]
        return total


class KScores(NamedTuple):
    """A window of rows with K scores each, one row behind the other; ``work`` is memory for scores and slopes."""

    loss: Any
    labels: NDArray[Any]
    weights: Array
    work: Array

    def descent(self, p: Any, d: Any, by: float) -> float:
        scores, slopes, total = self.work[0], self.work[1], 0.0
        for i in range(len(self.labels)):
            first, moves = i * len(scores), False
            for k in range(len(scores)):
                moves |= d[first + k] != 0.0
                scores[k] = p[first + k] + by * d[first + k]
            if moves:
                vector_slope(self.loss, scores, self.labels[i], slopes)
                along = 0.0
                for k in range(len(scores)):
                    along += slopes[k] * d[first + k]
                total += self.weights[i] * along
        return total


def window_of(loss: Any, labels: NDArray[Any], weights: Array, classes: int | None) -> OneScore | KScores:
    """Rows with these labels; ``weights`` is empty where all are 1."""
    h = np.ones(len(labels)) if len(weights) == 0 else np.asarray(weights, np.float64)
    return OneScore(loss, labels, h) if classes is None else KScores(loss, labels, h, np.empty((2, classes)))


@formula
def find_step(window: Any, p: Any, d: Any, now: float, prior: float, stiff: float) -> float:
    """The best step of a group, while the others stay; ``now`` is what p has of it."""
    low, high = -now, 1.0 - now
    at_low = descent(window, p, d, low) + stiff * (now + low - prior)
    at_high = descent(window, p, d, high) + stiff * (now + high - prior)
    if not at_high > at_low:  # the window says nothing
        return prior
    if at_low >= 0.0:
        return 0.0
    if at_high <= 0.0:
        return 1.0
    for _ in range(SECANTS):
        by = low - at_low * (high - low) / (at_high - at_low)
        at = descent(window, p, d, by) + stiff * (now + by - prior)
        if at < 0.0:
            low, at_low, at_high = by, at, at_high / 2.0
        else:
            high, at_high, at_low = by, at, at_low / 2.0
    return now + low - at_low * (high - low) / (at_high - at_low)


@formula
def find_steps(window: Any, p: Any, d: Any, prior: Any, stiff: float, steps: Any, first: int, last: int) -> None:
    """The steps of some experts and each group; p has a row for each expert, and d one for each expert and group."""
    for r in range(first, last):
        for g in range(steps.shape[1]):
            for i in range(p.shape[1]):
                p[r, i] += steps[r, g] * d[r, g, i]
        for _ in range(SWEEPS):
            for g in range(steps.shape[1]):
                best = find_step(window, p[r], d[r, g], steps[r, g], prior[r, g], stiff)
                best = min(max(best, 0.0), 1.0)
                for i in range(p.shape[1]):
                    p[r, i] += (best - steps[r, g]) * d[r, g, i]
                steps[r, g] = best


# The scores of a window: at the average of workers, and how each group of features moves them towards the sum.


def counts_of(rows: Rows, n: int, dimension: int) -> NDArray[np.int64]:
    """In how many of n rows each feature is not 0.

    >>> counts_of(Dense(np.array([1.0, 0.0, 2.0, 3.0]), 2), 2, 2).tolist()
    [2, 1]
    """
    if isinstance(rows, Dense):
        return np.asarray(np.count_nonzero(rows.data[: n * dimension].reshape(n, dimension), axis=0), np.int64)
    entries = slice(rows.indptr[0], rows.indptr[n])
    present = rows.indices[entries][rows.data[entries] != 0.0]
    return np.bincount(present, minlength=dimension).astype(np.int64)


@formula(fast=True)
def add_scores(rows: Any, where: Any, group: Any, average: Any, moves: Any, p: Any, d: Any) -> None:
    """Add <s, average> of each row to p, and <s, moves> to d, a line for each group, a column for each score."""
    for i in range(len(p)):
        for k in range(begin(rows, i), end(rows, i)):
            s, v = where[column(rows, i, k)], np.float64(rows.data[k])
            if s >= 0:
                for m in range(p.shape[1]):
                    p[i, m] += v * average[s, m]
                    d[group[s], i, m] += v * moves[s, m]


class Scorer:
    """The scores of a window for features that are merged, and for others that its rows have.

    Args:
        rows, n: the window, and how many rows it has.
        features: those that are merged, in order.
        group: of each of these.
        groups: how many groups there are.
        dimension: the number of all features.
        compiled: False runs the loop as plain Python.

    >>> scorer = Scorer(Dense(np.array([1.0, 2.0]), 2), 1, np.array([1]), np.array([0]), 1, 2, False)
    >>> scorer.other.tolist()
    [0]
    >>> p, d = scorer(np.array([[5.0]]), np.array([[1.0]]), np.array([[7.0]]))
    >>> p.tolist(), d.tolist()
    ([[17.0]], [[[2.0]]])
    """

    def __init__(
        self, rows: Rows, n: int, features: NDArray[np.int64], group: NDArray[np.int64], groups: int, dimension: int,
        compiled: bool,
    ) -> None:  # fmt: skip
        self.rows, self.n, self.groups, self.compiled = rows, n, groups, compiled
        #: The features of the window that are not merged.
        self.other = np.setdiff1d(np.flatnonzero(counts_of(rows, n, dimension)), features, assume_unique=True)
        self._where = np.full(dimension, -1, np.int64)
        self._where[np.concatenate([features, self.other])] = np.arange(len(features) + len(self.other))
        self._group = np.concatenate([group, np.zeros(len(self.other), np.int64)])

    def __call__(self, average: Array, moves: Array, rest: Array) -> tuple[Array, Array]:
        """Scores at weights of merged features and of the others, and what the moves of each group add to them."""
        p, d = np.zeros((self.n, average.shape[1])), np.zeros((self.groups, self.n, average.shape[1]))
        both = np.concatenate([average, rest]), np.concatenate([moves, np.zeros_like(rest)])
        ready(add_scores, self.compiled)(self.rows, self._where, self._group, *both, p, d)
        return p, d


# How far to go from the average of workers to their sum: a small convex problem on rows that nobody has learnt.
#
# Features are grouped by how often they occur, an octave or two a group, and an expert has a step for each
# group. On a row of the window, p is the prediction of an expert at the average, and d is by how much a whole step
# in a group would move it.

#: The groups end where a feature is in one of 4, 16, ... rows; the constant has a group of its own.
OCTAVES = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
GROUPS = len(OCTAVES) + 2


def groups_of(merger: Merger, constant: int | None) -> NDArray[np.int64]:
    """The group of each feature."""
    rows, total = merger.known.rows, merger.known.counts[ROWS]
    group = np.zeros(len(rows), np.int64)
    for octave in OCTAVES:
        group += rows < total * 2.0**-octave
    if constant is not None:
        group[merger.piece.features == constant] = GROUPS - 1
    return group


class Scene(NamedTuple):
    """What predictions for the window are made of.

    Attributes:
        where: the place of each feature among those that are merged, or -1.
        merged: the record of these.
        ends: theirs, with one index for feature and score.
        group: theirs.
        other, record: the blocks and records of all features, for those that no worker has met.
        coin: the place of the coin in a block.
        unit: Y/N.
    """

    where: NDArray[np.int32]
    merged: Array
    ends: Ends
    group: NDArray[np.int64]
    other: NDArray[Any]
    record: Array
    coin: Any
    unit: float


@formula(fast=True)
def add_entry(grid: Any, scene: Any, s: int, u: float, p: Any, i: int, d: Any, at: int) -> None:
    """Add u of a merged feature to the predictions p[i] at the average, and to what its group moves them by, d.

    The groups of d begin at row ``at``.
    """
    average, total, experts, row = scene.ends.average, scene.ends.total, lanes(grid), at + scene.group[s]
    weight = load(grid, average, s, 0)
    store(p, i, 0, load(grid, p, i, 0) + weight * u)
    store(d, row, 0, load(grid, d, row, 0) + (load(grid, total, s, 0) - weight) * u)
    p[i, experts] += u * scene.unit * average[s, experts]
    d[row, experts] += u * scene.unit * (total[s, experts] - average[s, experts])


@formula(fast=True)
def score_window(grid: Any, scene: Any, dense: Any, rows: Any, p: Any, d: Any, first: int, last: int) -> None:
    """Add some rows of the window to p and d; ``dense`` are the places of dense features, which every row has.

    The groups of a row are one behind the other in d.
    """
    experts, groups = lanes(grid), len(d) // len(p)
    p0, d0 = np.zeros((1, experts + 1)), np.zeros((groups, experts + 1))
    for k in range(len(dense)):
        s = dense[k]
        if scene.merged[s, SCALE] > 0.0:
            add_entry(grid, scene, s, -scene.merged[s, CENTRE] / scene.merged[s, SCALE], p0, 0, d0, 0)
    for i in range(first, last):
        at = i * groups
        for e in range(experts + 1):
            p[i, e] += p0[0, e]
            for g in range(groups):
                d[at + g, e] = d0[g, e]
        for k in range(begin(rows, i), end(rows, i)):
            j, v = column(rows, i, k), np.float64(rows.data[k])
            s = scene.where[j]
            if s >= 0:
                if scene.merged[s, SCALE] > 0.0:
                    add_entry(grid, scene, s, v / scene.merged[s, SCALE], p, i, d, at)
            elif scene.record[j, SCALE] > 0.0:
                u = v / scene.record[j, SCALE]
                store(p, i, 0, load(grid, p, i, 0) + wide(load(grid, scene.other, j, 0)) * u)
                p[i, experts] += u * bet(scene.other, j, scene.coin, np.uint64(1), scene.unit)


def fit_mixture(
    learner: Any, merger: Merger, group: NDArray[np.int64], rows: Rows, labels: Array, weights: Array, previous: Array,
    share: Share = in_one_part,
) -> Array:  # fmt: skip
    """The steps of each lane and group, from rows that nobody has learnt.

    Args:
        learner: a mixture of one score that has the state before the round at features that are not merged.
        merger: the merge.
        group: that of each feature.
        rows, labels, weights: the window.
        previous: the steps to begin with.
        share: runs loops.
    """
    piece, known, found, n = merger.piece, merger.known, merger.ends, len(labels)
    where, experts = np.full(learner.dimension, -1, np.int32), found.average.shape[2]
    where[piece.features] = np.arange(len(piece.features), dtype=np.int32)
    unit, own = per_norm(getattr(piece.mixing, "units", UNIT), known.norm), learner.features
    scene = Scene(where, known.record, by_row(found), group, own.x, own.record, learner.places.coin, unit)
    p, d = np.zeros((n, experts)), np.empty((n * GROUPS, experts))
    p += found.offsets[:experts, 0] + merger.offset
    score, dense = ready(score_window, learner.compiled), np.flatnonzero(known.dense)
    share(lambda first, last: score(learner.grid, scene, dense, rows, p, d, first, last), n, few=64)
    units = getattr(merger.piece.mixing, "units", UNIT)
    loss = Extended(learner.loss, float(units[LOW]), float(units[HIGH]))
    stiff, steps = STIFFNESS * temperature(units, learner.pieces.margin), previous.copy()
    by_expert = np.ascontiguousarray(p.T), np.ascontiguousarray(d.reshape(n, GROUPS, experts).transpose(2, 1, 0))
    window = window_of(loss, labels, weights, None)
    find = ready(find_steps, learner.compiled)
    share(lambda first, last: find(window, *by_expert, previous, stiff, steps, first, last), experts, few=1)
    return steps


# The steps of a merge with K scores: :mod:`giftrl.workers.step_size` with a column for each class.
#
# An expert has one step for each group of features, for all classes alike. Its scores for a row of the window are p +
# sum_g a_g d_g, vectors of K numbers, and the slope of the loss in a_g is the sum over rows of <phi'(p), d_g>.


def fit_classes(
    learner: Any, merger: Merger, group: NDArray[np.int64], rows: Rows, labels: Any, weights: Array, previous: Array,
    share: Share = in_one_part,
) -> Array:  # fmt: skip
    """The steps of each lane and group of a mixture with K scores, from rows that nobody has learnt.

    Args:
        learner: a mixture of K scores that has the state before the round at features that are not merged.
        merger: the merge.
        group: of each feature of the merge.
        rows, labels, weights: the window; the weights are empty where all are 1.
        previous: the steps to begin with.
        share: runs loops.
    """
    piece, known, found = merger.piece, merger.known, merger.ends
    n, lane, scores = len(labels), lanes(learner.grid), learner.classes
    scale = learner.features.record[:, SCALE].copy()
    scale[piece.features] = known.scale
    per = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)[:, None]
    score = Scorer(rows, n, piece.features, group, GROUPS, learner.dimension, learner.compiled)
    unit, own_per, other_per = unit_of(learner, piece), per[piece.features], per[score.other]
    block, coin = learner.features.x[score.other].astype(np.float64), int(learner.places.coin)
    bets = block[:, coin : coin + 3 * scores].reshape(-1, 3, scores)
    steps, loop = previous.copy(), ready(find_steps, learner.compiled)

    def fit(r: int) -> None:
        """One lane: what the window's rows move by has a number for each group, row and class."""
        average, total = found.average[:, :, r], found.total[:, :, r]
        if r < lane:
            rest = block[:, r : lane * scores : lane]
        else:
            average, total = unit * average, unit * total
            rest = unit * (WEALTH + bets[:, 2]) * bets[:, 0] / (1.0 + bets[:, 1])
        average, moves = average * own_per, (total - average) * own_per
        p, d = score(average, moves, rest * other_per)
        p += found.offsets[r] + merger.offset - known.centre @ average
        for g in np.unique(group):
            d[g] -= known.centre[group == g] @ moves[group == g]
        window, mine = window_of(learner.loss, learner._typed(labels), weights, scores), steps[r : r + 1].copy()
        loop(window, p.reshape(1, -1), d.reshape(1, GROUPS, -1), previous[r : r + 1].copy(), STIFFNESS, mine, 0, 1)
        steps[r] = mine[0]

    def task(first: int, last: int) -> None:
        for r in range(first, last):
            fit(r)

    share(task, lane + 1, few=1)
    return steps
