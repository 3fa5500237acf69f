"""How far to go from the average of workers to their sum: a small convex problem on rows that nobody has learnt.

Features are grouped by how often they occur, an octave or two a group. An expert has a step in [0, 1] for each group:
its prediction for a row of the window is then p + sum_g a_g d_g, and the steps minimise the loss of the window, one
after the other, each by the secant method on the slope.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Dense, Rows
from giftrl.merging.mixture import Merger
from giftrl.mixtures.coin import WEALTH
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
    group = np.digitize(-np.log2(np.maximum(share, 1e-12)), OCTAVES)
    if constant is not None:
        group[merger.piece.features == constant] = GROUPS - 1
    return group


@formula
def descent(loss: Any, p: Any, d: Any, labels: Any, weights: Any, by: float, pull: float) -> float:
    """The slope of the loss of all rows in the step of a group, ``by`` further than p; ``pull`` is that of the prior."""
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


def as_matrix(rows: Rows, n: int, dimension: int) -> Any:
    """Rows as a sparse matrix."""
    if isinstance(rows, Dense):
        return sparse.csr_array(rows.data.reshape(n, rows.dimension))
    first, last = rows.indptr[0], rows.indptr[n]
    return sparse.csr_array(
        (rows.data[first:last], rows.indices[first:last], rows.indptr[: n + 1] - first), shape=(n, dimension)
    )


def fit_mixture(learner: Any, merger: Merger, rows: Rows, labels: Array, weights: Array, previous: Array) -> Array:
    """The steps of each lane and group, from rows that nobody has learnt.

    Args:
        learner: a mixture of one score that has the state before the round at features that are not merged.
        merger: the merge.
        rows, labels, weights: the window.
        previous: the steps to begin with.
    """
    piece, known, found = merger.piece, merger.known, merger.ends
    n, lane = len(labels), lanes(learner.grid)
    x = as_matrix(rows, n, learner.dimension)
    scale = learner.features.record[:, SCALE].copy()
    scale[piece.features] = known.scale
    per = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
    unit = per_norm(getattr(piece.mixing, "units", UNIT), known.norm)
    factor = unit * found.coin[:, 0] / (1.0 + found.coin[:, 1])  # of WEALTH + W
    average, total = found.average[:, 0].copy(), found.total[:, 0].copy()
    average[:, lane], total[:, lane] = (factor[:, 0] * (WEALTH + w[:, 0, lane]) for w in (found.average, found.total))
    # Predictions of the average: features of the piece, and those that no worker has met.
    seen = np.unique(x.indices)
    other = np.setdiff1d(seen, piece.features, assume_unique=True)
    columns, coin = learner.places, int(learner.places.coin)
    block = learner.features.x[other].astype(np.float64)
    rest = np.column_stack([
        block[:, :lane], unit * (WEALTH + block[:, coin + 2]) * block[:, coin] / (1.0 + block[:, coin + 1]),
    ])  # fmt: skip
    p = x[:, other] @ (rest * per[other][:, None]) if len(other) else np.zeros((n, lane + 1))
    own = x[:, piece.features]
    p += own @ (average * per[piece.features][:, None]) - (known.centre * per[piece.features]) @ average
    p += found.offsets[: lane + 1, 0] + merger.offset
    moves = (total - average) * per[piece.features][:, None]
    group = groups_of(merger, learner.constant)
    d = np.zeros((lane + 1, GROUPS, n))
    for g in np.unique(group):
        at = np.flatnonzero(group == g)
        d[:, g] = (own[:, at] @ moves[at] - known.centre[at] @ moves[at]).T
    units = getattr(piece.mixing, "units", UNIT)
    loss = Extended(learner.loss, float(units[LOW]), float(units[HIGH]))
    h = np.ones(n) if len(weights) == 0 else np.asarray(weights)
    steps = previous.copy()
    ready(find_steps, learner.compiled)(
        loss,
        np.ascontiguousarray(p.T),
        d,
        labels,
        h,
        previous,
        STIFFNESS * temperature(units, learner.pieces.margin),
        steps,
    )
    return steps
