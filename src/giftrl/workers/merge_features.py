"""Merge the facts about features: how often they occur, their scales, and which are dense.

Rows, counts and sums of values add up; the scale m_j is the largest one; the mean of norm2(u)^2 is weighted by rows.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.mixtures.clip_limits import LARGEST_EXPERT_WEIGHT, LARGEST_VALUE
from giftrl.mixtures.scale_row import quick_scale
from giftrl.mixtures.state import (
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
    BlockColumns,
)
from giftrl.ops.scalar import clamp
from giftrl.workers.pieces import ONE_THREAD, Piece, Share, mean, stacked

Array = NDArray[np.float64]
#: A feature becomes dense if it is in half of the rows, and remains so down to this share of them.
DENSE_SHARE, STILL_DENSE_SHARE = 0.5, 0.4


class MergedFeatures(NamedTuple):
    """The features of a merged state.

    Attributes:
        counts: of the merged state.
        rows: the number of rows with each feature.
        record: of the merged state, but for places in the full matrix.
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
    def centre(self) -> Array:
        """mu_j, 0 for features that are not dense."""
        return self.record[:, CENTRE]

    @property
    def dense(self) -> NDArray[np.bool_]:
        """True for dense features."""
        return self.record[:, DENSE_PLACE] > 0.0


class FeatureRule(NamedTuple):
    """The rule of merging features.

    Attributes:
        centre: True if dense features are centred.
        together: True if the constant is the mean of the labels, which moves with the centres.
        constant: its place, or -1.
        rows: the number of rows.
        columns: of a block.
    """

    centre: bool
    together: bool
    constant: int
    rows: float
    columns: BlockColumns


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
    """(mu_new - mu_old)/m_new; 0 if the constant moves with a centre that stays."""
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
    """Merge the features of all pieces; ``place`` is that of the constant among them, or -1."""
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
    """Write the facts about a feature into its block, as :mod:`giftrl.mixtures.scale_row` keeps them."""
    real, dense = x.dtype.type, known.record[j, DENSE_PLACE] > 0.0
    x[j, columns.per_scale] = real(0.0 if dense else quick_scale(known.record[j, SCALE]))
    x[j, columns.count], x[j, columns.added] = real(known.rows[j]), real(0.0)
