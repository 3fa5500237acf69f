"""The state of each feature, its place in memory, and its scale.

The hot data of a feature is one block, aligned to a cache line, in the type of the weights: the weights of the experts
(side by side, a group for each score), q_j and r_j of the strengths, the
three numbers of the coin, each for all scores, and three numbers of its scale. With one score it is one cache line
of float32. Other data is in a second array, the record; theta_j of the certificate is in a third one, in float64.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import prefetch
from giftrl.compiled.registry import compiled_as, formula
from giftrl.compiled.rows import begin, column, coming, end
from giftrl.kernels.base import NonzeroRows, aligned_zeros
from giftrl.mixtures.clip_limits import (
    LARGEST_EXPERT_WEIGHT,
    LARGEST_UNSCALED,
    LARGEST_VALUE,
    ORDINARY_VALUE,
    SMALLEST_SCALE,
)
from giftrl.ops.scalar import clamp


class BlockColumns(NamedTuple):
    """The columns of a block; unsigned, as compiled indices are."""

    lanes: Any
    curve: Any
    root: Any
    coin: Any
    per_scale: Any
    count: Any
    added: Any
    total: Any


def block_columns(experts: int, scores: int, line: int = 1) -> BlockColumns:
    """The columns for these numbers of experts and scores; blocks are padded to cache lines.

    >>> [int(place) for place in block_columns(8, 1)]
    [0, 8, 9, 10, 13, 14, 15, 16]
    >>> [int(place) for place in block_columns(4, 3, 16)]
    [0, 12, 13, 14, 23, 24, 25, 32]
    """
    curve = experts * scores
    coin = curve + 2
    behind = coin + 3 * scores
    total = -(-(behind + 3) // line) * line
    return BlockColumns(*map(np.uint64, (0, curve, curve + 1, coin, behind, behind + 1, behind + 2, total)))


#: One score and up to eight experts: a cache line of float32.
ONE_SCORE = block_columns(8, 1)


def aligned(x: NDArray[Any], features: int = 0) -> NDArray[Any]:
    """A copy aligned to a cache line, with capacity for more features."""
    kept = NonzeroRows.of(x)
    copy = aligned_zeros(max(features, len(x)), x.shape[1], x.dtype)
    copy[kept.where] = kept.rows
    return copy


#: The columns of ``FeatureState.record``: scale m_j and centre mu_j; the number of rows with it while dense; the sum of
#: its values before it was last dense; its places in the list of dense features and in the full matrix, from 1, or 0.
SCALE, CENTRE, COUNT, TOTAL, DENSE_PLACE, PLACE = range(6)
RECORD_WIDTH = 6
#: The entries of ``FeatureState.counts``.
ROWS, NORM, DENSE, WIDEST = range(4)


#: The arrays by feature.
BY_FEATURE = ("record", "x", "theta")


class Pieces(NamedTuple):
    """Constants of a mixture and of a pass."""

    constant: int  # the constant feature; -1 for none, without centring
    margin: bool  # the units of labels are 1: labels are -1 and +1, or classes
    boost: float  # the factor of boosted candidates; 1 for no boost
    centre_labels: bool  # the mean label is the weight of the constant
    again: bool = False  # in a later pass: see giftrl.mixtures.experts


class FeatureState(NamedTuple):
    """The scales, centres and counts of the features, and their weights, in arrays that several loops share."""

    record: NDArray[np.float64]
    dense: NDArray[np.uint64]  # the dense features, and the last row with each
    stamps: NDArray[np.float64]
    counts: NDArray[np.float64]  # rows, the mean of sum_j u_j^2, how many features are dense, entries of the widest row
    x: NDArray[Any]  # the blocks
    theta: NDArray[np.float64]  # theta of the certificate, a column for each score


def no_features(x: NDArray[Any], scores: int = 1) -> FeatureState:
    """The state before the first row; ``x`` is zeros, a block for each feature."""
    d = len(x)
    return FeatureState(
        np.zeros((d, RECORD_WIDTH)), np.zeros(0, np.uint64), np.zeros(0), np.zeros(4), x, np.zeros((d, scores))
    )


def with_capacity(features: FeatureState, dimension: int, width: int) -> FeatureState:
    """Enlarge the list of dense features for rows with this many entries."""
    if len(features.dense) >= dimension:
        return features
    # There are at most 1/0.4 times the entries of an average row, plus one more row.
    places = min(dimension, 4 * max(width, int(features.counts[WIDEST])) + 8)
    if len(features.dense) >= places:
        return features
    dense, stamps = np.zeros(places, np.uint64), np.zeros(places)
    dense[: len(features.dense)], stamps[: len(features.stamps)] = features.dense, features.stamps
    return features._replace(dense=dense, stamps=stamps)


def grown(features: FeatureState, dimension: int) -> FeatureState:
    """A copy with capacity for this many features, aligned to a cache line."""
    kept = (NonzeroRows.of(array) for array in (features.record, features.theta))
    record, theta = (rows._replace(length=max(dimension, rows.length)).array() for rows in kept)
    return features._replace(record=record, theta=theta, x=aligned(features.x, dimension))


def pickled(features: FeatureState) -> FeatureState:
    """The state for a pickle, with seen features only."""
    seen: Any = {name: NonzeroRows.of(getattr(features, name)) for name in BY_FEATURE}
    return features._replace(**seen)


def unpickled(features: FeatureState) -> FeatureState:
    """The inverse of :func:`pickled`; blocks are aligned again."""
    arrays: Any = {name: getattr(features, name).array() for name in BY_FEATURE}
    return features._replace(**arrays | {"x": aligned(arrays["x"])})


def sound_dense(features: FeatureState) -> bool:
    """True if the list of dense features and the records of features agree."""
    record, dense, total = features.record, features.dense, float(features.counts[DENSE])
    if total != int(total) or not 0 <= total <= len(dense) == len(features.stamps):
        return False
    listed = dense[: int(total)]
    if len(np.flatnonzero(record[:, DENSE_PLACE])) != len(listed) or bool((listed >= len(record)).any()):
        return False
    return np.array_equal(record[listed.astype(np.int64), DENSE_PLACE], np.arange(1.0, total + 1.0))


def sound_record(features: FeatureState, columns: BlockColumns, size: int, places: int) -> bool:
    """True if scales and counts are non-negative, and places in the full matrix are valid."""
    record, count = features.record, features.x[:, int(columns.count)]
    if (record[:, [SCALE, COUNT]] < 0.0).any() or (count < 0.0).any():
        return False
    taken = record[record[:, PLACE] != 0.0, PLACE]
    inside = bool(((taken >= 1) & (taken <= places) & (taken == np.floor(taken))).all())
    whole = -1 <= size <= places and (size < 0 or size == len(taken))
    return inside and whole and bool((np.diff(np.sort(taken)) > 0.0).all())


@formula
def mean_norm(features: Any) -> float:
    """N, the mean of norm2(u)^2 over the rows so far; 1 if all of them were empty."""
    return features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0


# Feature scaling in one pass: dense features are centred, and all are divided by their largest deviation.
#
# A feature that is in at least half of the rows is *dense*, until it falls below 0.4; it is centred at its running mean
# mu_j, and a row without it contributes -mu_j. m_j is the largest abs(v - mu_j) so far, this row included, and a
# learner sees u_j = (v - mu_j)/m_j in [-1, 1]. So predictions are invariant to the scale of features, even near 1e300
# or 1e-300.
#
# When m_j and mu_j change, the weights w_j on u_j must be adjusted. So each entry of a row has
#
#     growth   m_old/m_new if m_j has grown, else 1,
#     drift    (mu_new - mu_old)/m_j: adding w_j times this to the constant leaves the predictions as they were.
#
# If the constant is the running mean of the labels, both means move together, as in the intercept mean(y) - w_j mu_j
# of least squares. Drift is then 0, but for a feature that becomes dense or is no longer: with it, a trend that labels
# and a feature have in common would count twice, and w_j would be half of what it should be.
#
# Most entries of sparse rows are neither dense nor beyond their scale. For these, the block of the feature suffices:
# 1/m_j, or 0 if an entry needs more than that; the number of rows with the feature, and the sum of its u_j, since it
# was last dense. In float32 the count stops at 2^24 rows. A row costs O(nonzeros + dense
# features).


#: A deviation below this part of the mean is rounding.
ROUNDING_PART = 1e-12
#: Limits within which 1/m_j and its inverse are safe in float32.
SMALLEST_QUICK, LARGEST_QUICK = 1.0 / ORDINARY_VALUE, ORDINARY_VALUE


ONE = np.uint64(1)


@formula
def quick_scale(m: float) -> float:
    """1/m_j for :func:`scale_quickly`, or 0 if it is out of range."""
    return 1.0 / m if SMALLEST_QUICK < m < LARGEST_QUICK else 0.0


@formula
def quick_growth(
    features: FeatureState, columns: BlockColumns, x: Any, pieces: Pieces, j: int, v: float, many: Any
) -> tuple[Any, Any]:
    """u_j and growth of an entry of a sparse feature that is new or beyond its scale; 0 for any other."""
    real, m, count = x.dtype.type, abs(v), x[j, columns.count] + x.dtype.type(1.0)
    if not (SMALLEST_QUICK < m < LARGEST_QUICK and (count < many or np.int64(j) == pieces.constant)):
        return real(0.0), real(1.0)
    beyond = x[j, columns.per_scale] * real(m)
    if not (beyond > real(1.0) or count == real(1.0)):
        return real(0.0), real(1.0)
    growth = real(1.0) / beyond if beyond > real(1.0) else real(0.0)
    u = real(1.0) if v > 0.0 else real(-1.0)
    features.record[j, SCALE] = m
    x[j, columns.per_scale], x[j, columns.count] = quick_scale(m), count
    x[j, columns.added] = growth * x[j, columns.added] + u
    return u, growth


@formula
def move_value(
    features: FeatureState, columns: BlockColumns, x: Any, pieces: Pieces, j: int, v: float, target: float, before: bool
) -> tuple[float, float, float]:
    """u, growth and drift of an entry whose mu_j becomes ``target``; ``before``: it was dense before this row."""
    record, real = features.record, x.dtype.type
    m, mu, dense = record[j, SCALE], record[j, CENTRE], record[j, DENSE_PLACE] > 0.0
    away, growth, drift = abs(v), 1.0, 0.0
    if dense:
        reference = mu if before else target
        away = abs(v - reference)
        away = away if away > ROUNDING_PART * abs(reference) else 0.0
    if away > m and away > SMALLEST_SCALE:
        growth = m / away
        m = away
    record[j, SCALE] = m
    per = 1.0 / m if m > 0.0 else 0.0
    u = clamp((v - target) * per, -LARGEST_UNSCALED, LARGEST_UNSCALED)
    if target != mu:
        still = pieces.centre_labels and before and dense
        drift = 0.0 if still else clamp((target - mu) * per, -LARGEST_UNSCALED, LARGEST_UNSCALED)
        record[j, CENTRE] = target
    if not dense:
        added = real(growth) * x[j, columns.added] + real(u)
        x[j, columns.added] = min(max(added, -real(LARGEST_EXPERT_WEIGHT)), real(LARGEST_EXPERT_WEIGHT))
        x[j, columns.per_scale] = quick_scale(m)
    return u, growth, drift


@formula
def scale_value(
    features: FeatureState, columns: BlockColumns, x: Any, pieces: Pieces, j: int, v: float, many: float, per_row: float
) -> tuple[float, float, float]:
    """Count an entry; returns u, growth and drift. ``per_row`` is 1 / number of rows."""
    quick, growth = quick_growth(features, columns, x, pieces, j, v, many)
    if quick != x.dtype.type(0.0):
        return np.float64(quick), np.float64(growth), 0.0
    record, t = features.record, features.counts[ROWS]
    v = clamp(v, -LARGEST_VALUE, LARGEST_VALUE)
    if record[j, DENSE_PLACE] > 0.0:
        record[j, COUNT] += 1.0
        features.stamps[np.uint64(record[j, DENSE_PLACE]) - ONE] = t
        mu = record[j, CENTRE]
        return move_value(features, columns, x, pieces, j, v, mu + (v - mu) * per_row, True)
    count = np.float64(x[j, columns.count]) + 1.0
    x[j, columns.count] = count
    place = np.uint64(features.counts[DENSE])
    # A valid state always has room for one more; the check protects against wrong counts.
    if count < many or np.int64(j) == pieces.constant or place >= np.uint64(len(features.dense)):
        return move_value(features, columns, x, pieces, j, v, 0.0, False)
    features.dense[place], features.stamps[place] = j, t
    features.counts[DENSE] += 1.0
    record[j, DENSE_PLACE], record[j, COUNT] = features.counts[DENSE], count
    x[j, columns.per_scale] = 0.0
    total = record[j, TOTAL] + np.float64(x[j, columns.added]) * record[j, SCALE] + v
    return move_value(features, columns, x, pieces, j, v, clamp(total, -LARGEST_VALUE, LARGEST_VALUE) * per_row, False)


@formula
def scale_missing(
    features: FeatureState, columns: BlockColumns, x: Any, pieces: Pieces, place: Any, per_row: float
) -> tuple[float, float, float]:
    """u, growth and drift of a dense feature that is missing in the row."""
    record, dense, stamps, t = features.record, features.dense, features.stamps, features.counts[ROWS]
    j = dense[place]
    mu, count = record[j, CENTRE], record[j, COUNT]
    if count >= 0.4 * t + 0.5:
        return move_value(features, columns, x, pieces, j, 0.0, mu - mu * per_row, True)
    features.counts[DENSE] -= 1.0
    last = np.uint64(features.counts[DENSE])
    record[j, DENSE_PLACE], record[j, COUNT] = 0.0, 0.0
    if place < last:
        dense[place], stamps[place] = dense[last], stamps[last]
        record[dense[place], DENSE_PLACE] = np.float64(place + ONE)
    x[j, columns.count], x[j, columns.added] = count, 0.0
    record[j, TOTAL] = clamp(mu * (t - 1.0), -LARGEST_VALUE, LARGEST_VALUE)
    return move_value(features, columns, x, pieces, j, 0.0, 0.0, True)


#: A value counts as within its scale up to this factor: 1/m_j and the product are rounded, to float32.
SCALE_TOLERANCE = np.float32(1.0000003)


class Entries(NamedTuple):
    """A scaled row: features, and u in the type of the weights.

    ``moved[:many[0]]`` lists the few entries whose growth may differ from 1 or drift from 0; ``growth`` and ``drift``
    have the same order. ``many[1]`` is the number of huge values.
    """

    j: NDArray[np.uint64]
    u: NDArray[Any]
    growth: NDArray[np.float64]
    drift: NDArray[np.float64]
    moved: NDArray[np.uint64]
    many: NDArray[np.uint64]


def entries(width: int, dtype: Any) -> Entries:
    """Allocate buffers for rows of up to this many entries."""
    return Entries(
        np.empty(width, np.uint64), np.empty(width, dtype), np.ones(width), np.zeros(width),
        np.empty(width, np.uint64), np.zeros(2, np.uint64),
    )  # fmt: skip


def round_compiled(x: Any, v: Any) -> Any:
    """:func:`rounded` in compiled loops, which do not warn."""
    return x.dtype.type(v)


@compiled_as(round_compiled)
def rounded(x: Any, v: Any) -> Any:
    """v in the type of x; infinite on overflow."""
    with np.errstate(over="ignore"):
        return x.dtype.type(v)


@formula
def scale_quickly(
    columns: BlockColumns, x: Any, pieces: Pieces, rows: Any, i: int, many: float, row: Entries
) -> tuple[Any, Any, Any]:
    """Fast path: fill in entries of row i that neither move nor are dense, list the others, and sum u^2."""
    real, n, others = x.dtype.type, np.uint64(0), np.uint64(0)
    zero, one, within, most, squares = real(0.0), real(1.0), real(SCALE_TOLERANCE), real(many), real(0.0)
    for k in range(begin(rows, i), end(rows, i)):
        prefetch(x, coming(rows, i, k), 0)
        v, j = rows.data[k], column(rows, i, k)
        u, count = rounded(x, v) * x[j, columns.per_scale], x[j, columns.count] + one
        if zero < abs(u) <= within and (count < most or np.int64(j) == pieces.constant):
            x[j, columns.count] = count
            x[j, columns.added] += u
            row.j[n], row.u[n] = j, u
            squares += u * u
            n += ONE
        elif v != 0.0:  # zeros are skipped, so that sparse and dense rows are the same
            row.moved[others] = k
            others += ONE
    return n, others, squares


@formula
def put(row: Entries, n: Any, listed: Any, j: int, moved: tuple[float, float, float]) -> Any:
    """Store an entry that moves; returns the stored u."""
    row.j[n], row.u[n], row.moved[listed] = j, moved[0], n
    row.growth[listed], row.drift[listed] = moved[1], moved[2]
    return row.u[n]


@formula
def scale_row(
    features: FeatureState, columns: BlockColumns, x: Any, pieces: Pieces, rows: Any, i: int, row: Entries
) -> Any:
    """Update the features by row i and fill in its entries; returns their number."""
    counts = features.counts
    counts[ROWS] += 1.0
    # The number of rows that makes a feature dense. With the extra half, features of the first row are dense, but not
    # those new in the second row.
    many, per_row = 0.5 * counts[ROWS] + 0.5 if pieces.constant >= 0 else np.inf, 1.0 / counts[ROWS]
    n, others, squares = scale_quickly(columns, x, pieces, rows, i, many, row)
    row.many[1] = np.uint64(0)
    for listed in range(others):
        k = row.moved[listed]
        j, v = column(rows, i, k), np.float64(rows.data[k])
        row.many[1] += ONE if abs(v) > ORDINARY_VALUE else np.uint64(0)
        u = put(row, n, listed, j, scale_value(features, columns, x, pieces, j, v, many, per_row))
        squares += u * u
        n += ONE
    own, place = n, np.uint64(0)
    while place < np.uint64(features.counts[DENSE]):
        j = features.dense[place]
        if features.stamps[place] != features.counts[ROWS]:
            u = put(row, n, others, j, scale_missing(features, columns, x, pieces, place, per_row))
            squares += u * u
            n += ONE
            others += ONE
        if features.dense[place] == j:
            place += ONE
    row.many[0] = others
    counts[WIDEST] = max(counts[WIDEST], np.float64(own))
    counts[NORM] += (np.float64(squares) - counts[NORM]) / counts[ROWS]
    return n


@formula
def value_again(record: Any, j: int, v: float) -> float:
    """u_j of a value, without updating anything."""
    m = record[j, SCALE]
    return clamp((v - record[j, CENTRE]) / m, -LARGEST_UNSCALED, LARGEST_UNSCALED) if m > 0.0 else 0.0


@formula
def scale_row_again(features: FeatureState, rows: Any, i: int, stamp: float, row: Entries) -> Any:
    """Fill in the entries of a row of a later pass, without updates; returns their number."""
    record, stamps, n = features.record, features.stamps, np.uint64(0)
    row.many[0] = np.uint64(0)
    for k in range(begin(rows, i), end(rows, i)):
        v, j = float(rows.data[k]), column(rows, i, k)
        if v != 0.0:
            row.j[n], row.u[n] = j, value_again(record, j, clamp(v, -LARGEST_VALUE, LARGEST_VALUE))
            if record[j, DENSE_PLACE] > 0.0:
                stamps[np.uint64(record[j, DENSE_PLACE]) - ONE] = stamp
            n += ONE
    for place in range(np.uint64(features.counts[DENSE])):
        if stamps[place] != stamp:
            row.j[n], row.u[n] = features.dense[place], value_again(record, features.dense[place], 0.0)
            n += ONE
    return n
