"""Fit the steps of a merge, from the average of the workers (0) to their sum (1): a small convex problem.

Features are grouped by frequency, an octave or two a group, and each expert has a step a_g in [0, 1] for each group g.
The loss is measured on the window: examples that no worker has learned. The scores of an example are p + sum_g a_g d_g,
with
p at the average, and d_g the change by a whole step in group g; these are numbers, or vectors with a number for each
class. The steps minimise the loss of the window, one after the other, each by the secant method on its slope. Changes
of a step are penalised, so that few examples do not change it much.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.lanes import lanes, load, store, wide
from giftrl.compiled.registry import formula, operation
from giftrl.compiled.rows import Rows, begin, column, end
from giftrl.errors import Incompatible
from giftrl.mixtures.experts import bet
from giftrl.mixtures.feature_state import CENTRE, ROWS, SCALE
from giftrl.mixtures.label_units import HIGH, LOW, Extended, temperature
from giftrl.ops import loss as scalar
from giftrl.ops import vector_loss as vector
from giftrl.workers.merge_experts import MergeInterval, PartialMerge, unit_of
from giftrl.workers.pieces import ONE_THREAD, Share

Array = NDArray[np.float64]
#: The group of each feature.
Groups = NDArray[np.int64]
#: The groups end where a feature is in one of 4, 16, ... rows; the constant has a group of its own.
GROUP_OCTAVES = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
FEATURE_GROUPS = len(GROUP_OCTAVES) + 2
#: Rounds of coordinate descent over the steps, and iterations per step.
SWEEPS, SECANTS = 2, 4
#: The penalty on steps: a change by 1 costs half of this in units of loss.
STEP_STIFFNESS = 4.0
#: The steps are fitted to the first examples of the window if it has more scores.
MAX_WINDOW_SCORES = 1 << 17
#: A thread scores at least this many examples of a window.
MIN_ROWS_PER_THREAD = 64

scalar_slope, vector_slope = scalar.slope, vector.slope


class Window(NamedTuple):
    """Unlearned examples, to which a merge is fitted; ``weights`` is empty if all are 1."""

    rows: Rows
    labels: NDArray[Any]
    weights: Array


@operation
def descent(window: Any, p: Any, d: Any, by: float) -> float:
    """The derivative of a window's loss with respect to a step, at the scores p + ``by`` d."""
    raise Incompatible("a window must bring descent(self, p, d, by); add that method to its class")


class ScalarWindow(NamedTuple):
    """The labels of a window of examples with one score each."""

    loss: Any
    labels: NDArray[Any]
    weights: Array

    def descent(self, p: Any, d: Any, by: float) -> float:
        total = 0.0
        for i in range(len(p)):
            if d[i] != 0.0:
                total += self.weights[i] * scalar_slope(self.loss, p[i] + by * d[i], self.labels[i]) * d[i]
        return total


class ClassWindow(NamedTuple):
    """A window of examples with K scores each, stored consecutively; ``work`` is scratch memory."""

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


@formula
def find_step(window: Any, p: Any, d: Any, now: float, prior: float, stiff: float) -> float:
    """The best step of a group with the others fixed; p includes ``now`` times d."""
    low, high = -now, 1.0 - now
    at_low = descent(window, p, d, low) + stiff * (now + low - prior)
    at_high = descent(window, p, d, high) + stiff * (now + high - prior)
    if not at_high > at_low:  # the window gives no information
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


def groups_of(merger: PartialMerge, constant: int | None) -> Groups:
    """The group of each feature."""
    rows, total = merger.known.rows, merger.known.counts[ROWS]
    group = np.zeros(len(rows), np.int64)
    for octave in GROUP_OCTAVES:
        group += rows < total * 2.0**-octave
    if constant is not None:
        group[merger.piece.features == constant] = FEATURE_GROUPS - 1
    return group


class Scene(NamedTuple):
    """The state for scoring the window."""

    scores: int  # the number of scores of an example
    where: NDArray[np.int32]  # the place of each feature among the merged ones, or -1
    record: Array  # this and the next two: of the merged features
    ends: MergeInterval  # with one index for feature and score
    group: Groups
    others: NDArray[Any]  # blocks and records of all features, for features unseen by workers
    other_record: Array
    coin: Any  # the place of the coin in a block
    unit: float  # Y/N


@formula(fast=True)
def add_entry(grid: Any, scene: Any, s: int, u: float, p: Any, d: Any, i: int) -> None:
    """Add u of merged feature s to example i's scores p at the average, and to the changes d by its group."""
    average, total, experts, groups = scene.ends.average, scene.ends.total, lanes(grid), len(d) // len(p)
    for m in range(scene.scores):
        weights, row = s * scene.scores + m, i * scene.scores + m
        moved = row * groups + scene.group[s]
        weight = load(grid, average, weights, 0)
        store(p, row, 0, load(grid, p, row, 0) + weight * u)
        store(d, moved, 0, load(grid, d, moved, 0) + (load(grid, total, weights, 0) - weight) * u)
        p[row, experts] += u * scene.unit * average[weights, experts]
        d[moved, experts] += u * scene.unit * (total[weights, experts] - average[weights, experts])


@formula(fast=True)
def score_window(grid: Any, scene: Any, dense: Any, rows: Any, p: Any, d: Any, first: int, last: int) -> None:
    """Add examples of the window to their scores p, and to the changes d of each score by group.

    ``dense`` are the places of dense features, which every row has.
    """
    experts, scores, groups = lanes(grid), scene.scores, len(d) // len(p)
    p0, d0 = np.zeros((scores, experts + 1)), np.zeros((scores * groups, experts + 1))
    for k in range(len(dense)):
        s = dense[k]
        if scene.record[s, SCALE] > 0.0:
            add_entry(grid, scene, s, -scene.record[s, CENTRE] / scene.record[s, SCALE], p0, d0, 0)
    for i in range(first, last):
        for e in range(experts + 1):
            for m in range(scores):
                p[i * scores + m, e] += p0[m, e]
            for g in range(scores * groups):
                d[i * scores * groups + g, e] = d0[g, e]
        for k in range(begin(rows, i), end(rows, i)):
            j, v = column(rows, i, k), np.float64(rows.data[k])
            s = scene.where[j]
            if s >= 0:
                if scene.record[s, SCALE] > 0.0:
                    add_entry(grid, scene, s, v / scene.record[s, SCALE], p, d, i)
            elif scene.other_record[j, SCALE] > 0.0:
                u = v / scene.other_record[j, SCALE]
                for m in range(scores):
                    row = i * scores + m
                    store(p, row, 0, load(grid, p, row, 0) + wide(load(grid, scene.others, j, m * experts)) * u)
                    p[row, experts] += u * bet(
                        scene.others, j, scene.coin + np.uint64(m), np.uint64(scores), scene.unit
                    )


def fit_steps(
    learner: Any, merger: PartialMerge, group: Groups, window: Window, previous: Array, share: Share = ONE_THREAD
) -> Array:
    """Fit the steps of each expert and group, starting at the previous steps. Features that are not merged are read
    from the learner.
    """
    piece, known, ends, scores = merger.piece, merger.known, merger.ends, learner.classes or 1
    n = min(len(window.labels), max(1, MAX_WINDOW_SCORES // scores))
    labels = learner._typed(window.labels[:n])
    weights = np.asarray(window.weights[:n], np.float64) if len(window.weights) else np.ones(n)
    loss, stiff = learner.loss, STEP_STIFFNESS
    if learner.classes is None:
        units = piece.mixing.units
        loss = Extended(loss, float(units[LOW]), float(units[HIGH]))
        stiff *= temperature(units, learner.pieces.margin)
    where, experts = np.full(learner.dimension, -1, np.int32), ends.average.shape[2]
    where[piece.features] = np.arange(len(piece.features), dtype=np.int32)
    state, coin, unit = learner.features, learner.places.coin, unit_of(learner, piece)
    scene = Scene(scores, where, known.record, ends.by_row(), group, state.x, state.record, coin, unit)
    p, d = np.empty((n, scores, experts)), np.empty((n * scores * FEATURE_GROUPS, experts))
    p[...] = ends.offsets[:experts].T + merger.offset
    p = p.reshape(n * scores, experts)
    score, dense = ready(score_window, learner.compiled), np.flatnonzero(known.dense)
    task = partial(score, learner.grid, scene, dense, window.rows, p, d)
    share(task, n, MIN_ROWS_PER_THREAD)
    changes = d.reshape(-1, FEATURE_GROUPS, experts).transpose(2, 1, 0)
    by_expert = np.ascontiguousarray(p.T), np.ascontiguousarray(changes)
    steps, find = previous.copy(), ready(find_steps, learner.compiled)

    def fit(first: int, last: int) -> None:
        rows: Any = ScalarWindow(loss, labels, weights)
        if learner.classes is not None:
            rows = ClassWindow(loss, labels, weights, np.empty((2, scores)))
        find(rows, *by_expert, previous, stiff, steps, first, last)

    share(fit, experts, 1)
    return steps
