"""What is known of features after a merge: how often they occur, their scales, and which are dense.

Rows, counts and sums of values add up; the scale m_j is the largest one; the mean of norm2(u)^2 is weighted by rows.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.merging.pieces import Piece
from giftrl.merging.sums import added, mean
from giftrl.mixtures.feature_state import CENTRE, COUNT, DENSE, DENSE_PLACE, NORM, ROWS, SCALE, TOTAL, WIDEST
from giftrl.mixtures.features import LARGEST_QUICK, SMALLEST_QUICK
from giftrl.mixtures.limits import LARGEST_VALUE

Array = NDArray[np.float64]
#: A feature becomes dense in half of the rows, and remains so down to this part of them.
BECOMES, REMAINS = 0.5, 0.4


class Known(NamedTuple):
    """The features of a merged state.

    Attributes:
        counts: of the merged state.
        rows: how many rows have each feature.
        scale, centre: m_j and mu_j; the centre of a feature that is not dense is 0.
        dense: which features are dense.
        norm: N, the mean of norm2(u)^2.
        record: of the merged state, without places in the full matrix.
    """

    counts: Array
    rows: Array
    scale: Array
    centre: Array
    dense: NDArray[np.bool_]
    norm: float
    record: Array


def occurrences(piece: Piece, columns: Any) -> Array:
    """How many rows have each feature."""
    sparse = piece.x[:, int(columns.count)].astype(np.float64)
    return np.where(piece.record[:, DENSE_PLACE] > 0.0, piece.record[:, COUNT], sparse)


def totals(piece: Piece, columns: Any) -> Array:
    """The sum of the values of each feature over all rows."""
    record, t = piece.record, piece.counts[ROWS]
    with np.errstate(over="ignore", invalid="ignore"):
        sparse = record[:, TOTAL] + piece.x[:, int(columns.added)].astype(np.float64) * record[:, SCALE]
        every = np.where(record[:, DENSE_PLACE] > 0.0, record[:, CENTRE] * t, sparse)
    return np.clip(np.nan_to_num(every), -LARGEST_VALUE, LARGEST_VALUE)


def merge_features(base: Piece, workers: list[Piece], columns: Any, centre: bool, constant: int | None) -> Known:
    """What all rows together say of the features."""
    counts = base.counts.copy()
    each_rows = [worker.counts[ROWS] - base.counts[ROWS] for worker in workers]
    counts[ROWS] = t = base.counts[ROWS] + sum(each_rows)
    norms = [base.counts[NORM], *(worker.counts[NORM] for worker in workers)]
    weights = [base.counts[ROWS], *(worker.counts[ROWS] for worker in workers)]
    counts[NORM] = norm = mean(norms, weights)
    counts[WIDEST] = max(worker.counts[WIDEST] for worker in workers)
    rows = added(*(occurrences(piece, columns) for piece in (base, *workers)))
    with np.errstate(over="ignore"):
        total = np.clip(added(*(totals(piece, columns) for piece in (base, *workers))), -LARGEST_VALUE, LARGEST_VALUE)
    scale = np.max([piece.record[:, SCALE] for piece in (base, *workers)], axis=0)
    dense = np.zeros(len(rows), np.bool_)
    if centre:
        before = base.record[:, DENSE_PLACE] > 0.0
        dense = (rows >= BECOMES * t + 0.5) | (before & (rows >= REMAINS * t + 0.5))
        dense &= base.features != (-1 if constant is None else constant)
    record = base.record.copy()
    record[:, SCALE], record[:, CENTRE] = scale, np.where(dense, total / max(t, 1.0), 0.0)
    record[:, COUNT], record[:, TOTAL] = np.where(dense, rows, 0.0), np.where(dense, 0.0, total)
    record[:, DENSE_PLACE] = np.where(dense, np.cumsum(dense), 0.0)
    counts[DENSE] = dense.sum()
    return Known(counts, rows, scale, record[:, CENTRE], dense, norm if norm > 0.0 else 1.0, record)


def put_features(known: Known, x: NDArray[Any], columns: Any) -> None:
    """Write what the blocks of features hold of the merged features, as :mod:`giftrl.mixtures.features` keeps it."""
    m = known.scale
    usable = ~known.dense & (m > SMALLEST_QUICK) & (m < LARGEST_QUICK)
    x[:, int(columns.per_scale)] = np.where(usable, 1.0 / np.where(usable, m, 1.0), 0.0)
    x[:, int(columns.count)], x[:, int(columns.added)] = known.rows, 0.0
