"""What is known of features after a merge: how often they occur, their scales, and which are dense.

Rows, counts and sums of values add up; the scale m_j is the largest one; the mean of norm2(u)^2 is weighted by rows.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.merging.pieces import Piece
from giftrl.merging.sums import mean
from giftrl.mixtures.feature_state import (
    CENTRE,
    COUNT,
    DENSE,
    DENSE_PLACE,
    NORM,
    RECORD,
    ROWS,
    SCALE,
    TOTAL,
    WIDEST,
)
from giftrl.mixtures.features import LARGEST_QUICK, SMALLEST_QUICK
from giftrl.mixtures.limits import LARGEST_EXPERT_WEIGHT, LARGEST_VALUE
from giftrl.ops.scalar import clamp

Array = NDArray[np.float64]
#: A feature becomes dense in half of the rows, and remains so down to this part of them.
BECOMES, REMAINS = 0.5, 0.4


class Known(NamedTuple):
    """The features of a merged state.

    Attributes:
        counts: of the merged state.
        rows: how many rows have each feature.
        record: of the merged state, but for places in the full matrix.
        shifts: (mu_new - mu_old)/m_old of each feature, in the state before and in each worker's: adding it times a
            weight to the constant keeps predictions.
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
        """Which features are dense."""
        return self.record[:, DENSE_PLACE] > 0.0


class Rule(NamedTuple):
    """How features are merged: whether they are centred, where the constant is (-1: nowhere), and how many rows.

    ``together`` says that the constant is the mean of the labels, which moves with the centres.
    """

    centre: bool
    together: bool
    constant: int
    rows: float


@formula
def occurs(record: Any, count: Any, j: int) -> float:
    """How many rows have feature j; ``count`` is what its block says, of use while it is not dense."""
    return float(record[j, COUNT] if record[j, DENSE_PLACE] > 0.0 else count[j])


@formula
def total_of(record: Any, added: Any, j: int, rows: float) -> float:
    """The sum of the values of feature j over all rows."""
    if record[j, DENSE_PLACE] > 0.0:
        return clamp(record[j, CENTRE] * rows, -LARGEST_VALUE, LARGEST_VALUE)
    return clamp(record[j, TOTAL] + np.float64(added[j]) * record[j, SCALE], -LARGEST_VALUE, LARGEST_VALUE)


@formula
def shift_of(record: Any, j: int, mu: float, still: bool) -> float:
    """(mu_new - mu_old)/m_old; 0 where the constant moves with a centre that stays."""
    m = record[j, SCALE]
    if not m > 0.0 or (still and record[j, DENSE_PLACE] > 0.0):
        return 0.0
    return clamp((mu - record[j, CENTRE]) / m, -LARGEST_EXPERT_WEIGHT, LARGEST_EXPERT_WEIGHT)


@formula
def merge_records(
    rule: Any, records: Any, counts: Any, added: Any, rows: Any, out: Any, times: Any, shifts: Any
) -> None:
    """Merge the records of all features; the first of ``records``, ``counts``, ``added`` and ``rows`` is the base."""
    place = 0.0
    for j in range(len(out)):
        before, sum_before = occurs(records[0], counts[0], j), total_of(records[0], added[0], j, rows[0])
        often, total, m = before, sum_before, records[0, j, SCALE]
        for k in range(1, len(records)):
            often += occurs(records[k], counts[k], j) - before
            total += total_of(records[k], added[k], j, rows[k]) - sum_before
            m = max(m, records[k, j, SCALE])
        total = clamp(total, -LARGEST_VALUE, LARGEST_VALUE)
        part = REMAINS if records[0, j, DENSE_PLACE] > 0.0 else BECOMES
        dense = rule.centre and j != rule.constant and often >= part * rule.rows + 0.5
        mu = total / rule.rows if dense else 0.0
        place += 1.0 if dense else 0.0
        times[j], out[j, SCALE], out[j, CENTRE] = often, m, mu
        out[j, COUNT], out[j, TOTAL] = (often, 0.0) if dense else (0.0, total)
        out[j, DENSE_PLACE] = place if dense else 0.0
        for k in range(len(records)):
            shifts[k, j] = shift_of(records[k], j, mu, rule.together and dense)


def merge_features(learner: Any, base: Piece, workers: list[Piece], place: int) -> Known:
    """What all rows together say of the features; ``place`` is that of the constant among them, or -1."""
    pieces, columns = [base, *workers], learner.places
    rows = np.array([piece.counts[ROWS] for piece in pieces])
    counts = base.counts.copy()
    counts[ROWS] = rows[0] + (rows[1:] - rows[0]).sum()
    counts[NORM] = norm = mean([piece.counts[NORM] for piece in pieces], rows.tolist())
    counts[WIDEST] = max(piece.counts[WIDEST] for piece in pieces)
    size = len(base.features)
    out, times, shifts = np.zeros((size, RECORD)), np.empty(size), np.empty((len(pieces), size))
    rule = Rule(learner.pieces.centre, learner.pieces.centre_labels, place, max(float(counts[ROWS]), 1.0))
    blocks = ([piece.x[:, int(column)] for piece in pieces] for column in (columns.count, columns.added))
    records = np.stack([piece.record for piece in pieces])
    loop = ready(merge_records, learner.compiled, counted=False)
    loop(rule, records, *(np.stack(each) for each in blocks), rows, out, times, shifts)
    counts[DENSE] = out[:, DENSE_PLACE].max(initial=0.0)
    return Known(counts, times, out, shifts, norm if norm > 0.0 else 1.0)


def put_features(known: Known, x: NDArray[Any], columns: Any) -> None:
    """Write what the blocks of features hold of the merged features, as :mod:`giftrl.mixtures.features` keeps it."""
    m = known.scale
    usable = ~known.dense & (m > SMALLEST_QUICK) & (m < LARGEST_QUICK)
    x[:, int(columns.per_scale)] = np.where(usable, 1.0 / np.where(usable, m, 1.0), 0.0)
    x[:, int(columns.count)], x[:, int(columns.added)] = known.rows, 0.0
