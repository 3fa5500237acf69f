"""How far to go from the average of workers to their sum: a small convex problem on rows that nobody has learnt.

Features are grouped by how often they occur, an octave or two a group, and an expert has a step for each group
(:mod:`giftrl.merging.steps`). On a row of the window, p is the prediction of an expert at the average, and d is
by how much a whole step in a group would move it. This module computes both for mixtures with one score.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.lanes import load, store, wide
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Rows, begin, column, end
from giftrl.merging.experts import Ends, by_row
from giftrl.merging.mixture import Merger
from giftrl.merging.sharing import Share, alone
from giftrl.merging.steps import STIFFNESS, find_steps, window_of
from giftrl.mixtures.experts import bet, lanes
from giftrl.mixtures.label_units import HIGH, LOW, Extended, per_norm, temperature
from giftrl.mixtures.scoring import UNIT
from giftrl.mixtures.state import CENTRE, ROWS, SCALE

Array = NDArray[np.float64]
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


def first_steps(learner: Any) -> Array:
    """The steps before the first merge: the whole way to the sum, of each lane and group."""
    return np.ones((lanes(learner.grid) + 1, GROUPS))


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
    share: Share = alone,
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
