"""Features on a common scale: dense ones centred, all divided by their largest deviation, in one pass.

A feature that is in at least half of the rows is *dense*, until it falls below 0.4; it is centred at its running mean
mu_j, and a row without it contributes -mu_j. m_j is the largest abs(v - mu_j) so far, this row included, and a learner
sees u_j = (v - mu_j)/m_j in [-1, 1]. So rescaling a feature changes nothing, and numbers near 1e300 or 1e-300 are like
any others.

Both m_j and mu_j move, and a learner with weights w_j on the u_j has to follow them. So each entry of a row comes with

    growth   m_old/m_new where m_j has grown, 1 elsewhere,
    drift    (mu_new - mu_old)/m_j: adding w_j times this to the constant leaves the predictions as they were.

Where the constant is the running mean of the labels, both means move together, as in the intercept mean(y) - w_j mu_j
of least squares. Drift is then 0, but for a feature that becomes dense or is no longer: with it, a trend that labels
and a feature have in common would count twice, and w_j would be half of what it should be.

A row costs O(nonzeros + dense features).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled import door
from giftrl.compiled.lanes import prefetch
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import as_rows, begin, column, coming, end, longest
from giftrl.errors import require
from giftrl.mixtures.limits import LARGEST_UNSCALED, LARGEST_VALUE, SMALLEST_SCALE
from giftrl.ops.scalar import clamp

#: The columns of ``FeatureState.record``: m_j, mu_j, the mean over rows that have the feature, how many have it, and
#: its place in the list of dense features, from 1, or 0.
SCALE, CENTRE, MEAN, COUNT, DENSE_PLACE = range(5)
#: A deviation below this part of the mean is rounding.
ROUNDING = 1e-12


class FeatureState(NamedTuple):
    """What is known of the features: a record for each, which are dense, and when each of those was last seen."""

    record: NDArray[np.float64]
    dense: NDArray[np.uint64]
    stamps: NDArray[np.float64]
    counts: NDArray[np.float64]  # rows, the mean of sum_j u_j^2, how many features are dense, entries of the widest row


#: The name under which version 1 pickled it.
Features = FeatureState


class Entries(NamedTuple):
    """A row as learners see it: which features, their values, u, growth and drift.

    Few entries of a long row move: ``moved[:many[0]]`` lists those whose growth may differ from 1 or drift from 0.
    """

    j: NDArray[np.uint64]
    v: NDArray[np.float64]
    u: NDArray[np.float64]
    growth: NDArray[np.float64]
    drift: NDArray[np.float64]
    moved: NDArray[np.uint64]
    many: NDArray[np.uint64]


#: The entries of ``FeatureState.counts``.
ROWS, NORM, DENSE, WIDEST = range(4)


def no_features(record: NDArray[np.float64]) -> FeatureState:
    """The state before the first row; ``record`` is zeros, a row for each feature, with further columns for others."""
    return FeatureState(record, np.zeros(0, np.uint64), np.zeros(0), np.zeros(4))


def with_capacity(features: FeatureState, dimension: int, width: int) -> FeatureState:
    """The same state, with a list that is long enough for the dense features of rows with this many entries.

    The dense features are at most 1/0.4 times as many as the entries of an average row, plus those of one more row.
    """
    if len(features.dense) >= dimension:
        return features
    places = min(dimension, 4 * max(width, int(features.counts[WIDEST])) + 8)
    if len(features.dense) >= places:
        return features
    dense, stamps = np.zeros(places, np.uint64), np.zeros(places)
    dense[: len(features.dense)], stamps[: len(features.stamps)] = features.dense, features.stamps
    return features._replace(dense=dense, stamps=stamps)


def entries(width: int) -> Entries:
    """Memory for rows of up to this many entries."""
    return Entries(
        np.empty(width, np.uint64), np.empty(width), np.empty(width), np.ones(width), np.zeros(width),
        np.empty(width, np.uint64), np.zeros(1, np.uint64),
    )  # fmt: skip


@formula
def mean_norm(features: Any) -> float:
    """N, the mean of norm2(u)^2 over the rows so far; 1 where all of them were empty."""
    return features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0


@formula
def count_in(features: Any, rows: Any, i: int, constant: int, centre: bool, scale: bool, row: Any) -> Any:
    """Count the features of a row, and list those that have become dense; return the number of entries.

    Most entries are neither dense nor beyond their scale, and get their u here; the others are listed as moved.
    """
    record, dense = features.record, features.dense
    t = features.counts[ROWS]
    one, n, total, many = np.uint64(1), np.uint64(0), np.uint64(features.counts[DENSE]), np.uint64(0)
    squares, last = 0.0, record.shape[1] - 1
    for k in range(begin(rows, i), end(rows, i)):
        soon = coming(rows, i, k)
        prefetch(record, soon, 0)
        prefetch(record, soon, last)
        v = float(rows.data[k])
        if v == 0.0:  # skipped, so that sparse and dense rows are the same
            continue
        v = clamp(v, -LARGEST_VALUE, LARGEST_VALUE)
        j = column(rows, i, k)
        count = record[j, COUNT] + 1.0
        record[j, COUNT] = count
        place = record[j, DENSE_PLACE]
        if centre and np.int64(j) != constant:
            record[j, MEAN] += (v - record[j, MEAN]) / count
            # With the extra half, a feature of the first row is dense, and one that is new in the second row is not.
            if place == 0.0 and count >= 0.5 * t + 0.5:
                dense[total] = j
                total += one
                place = np.float64(total)
                record[j, DENSE_PLACE] = place
            if place > 0.0:
                features.stamps[np.uint64(place) - one] = t
        row.j[n] = j
        row.v[n] = v
        if scale and place == 0.0 and record[j, CENTRE] == 0.0 and abs(v) <= record[j, SCALE]:
            u = v / record[j, SCALE]
            row.u[n] = u
            squares += u * u
        else:
            row.moved[many] = n
            many += one
        n += one
    row.many[0] = many
    features.counts[DENSE] = np.float64(total)
    features.counts[WIDEST] = max(features.counts[WIDEST], np.float64(n))
    features.counts[NORM] += (squares - features.counts[NORM]) / t
    return n


@formula
def add_dense(features: Any, row: Any, n: Any) -> Any:
    """Add the dense features that a row lacks, and drop those that are no longer dense; return how many entries."""
    record, dense, stamps = features.record, features.dense, features.stamps
    t = features.counts[ROWS]
    one, total, many = np.uint64(1), np.uint64(features.counts[DENSE]), row.many[0]
    place = np.uint64(0)
    while place < total:
        j = dense[place]
        if stamps[place] != t:
            row.j[n] = j
            row.v[n] = 0.0
            row.moved[many] = n
            many += one
            n += one
        if record[j, COUNT] < 0.4 * t + 0.5:  # drop it: the last of the list takes its place
            total -= one
            record[j, DENSE_PLACE] = 0.0
            if place < total:
                dense[place] = dense[total]
                stamps[place] = stamps[total]
                record[dense[place], DENSE_PLACE] = np.float64(place + one)
        else:
            place += one
    row.many[0] = many
    features.counts[DENSE] = np.float64(total)
    return n


@formula
def rescale(features: Any, row: Any, scale: bool, together: bool) -> None:
    """Compute u, growth and drift of the entries that move, and update their m_j and mu_j."""
    record, t = features.record, features.counts[ROWS]
    squares = 0.0
    for place in range(row.many[0]):
        k = row.moved[place]
        j, v = row.j[k], row.v[k]
        m, mu = record[j, SCALE], record[j, CENTRE]
        target, away = 0.0, abs(v)
        if record[j, DENSE_PLACE] > 0.0:
            target = record[j, MEAN] * (record[j, COUNT] / t)
            reference = mu if mu != 0.0 else target
            away = abs(v - reference)
            away = away if away > ROUNDING * abs(reference) else 0.0
        if not scale:
            m = 1.0
            record[j, SCALE] = m
        elif away > m and away > SMALLEST_SCALE:
            row.growth[k] = m / away
            m = away
            record[j, SCALE] = m
        row.u[k] = clamp((v - target) / m, -LARGEST_UNSCALED, LARGEST_UNSCALED) if m > 0.0 else 0.0
        if target != mu:
            still = m == 0.0 or (together and mu != 0.0 and target != 0.0)
            row.drift[k] = 0.0 if still else clamp((target - mu) / m, -LARGEST_UNSCALED, LARGEST_UNSCALED)
            record[j, CENTRE] = target
        squares += row.u[k] * row.u[k]
    features.counts[NORM] += squares / t


@formula
def enter(features: Any, rows: Any, i: int, constant: int, centre: bool, scale: bool, together: bool, row: Any) -> Any:
    """Update what is known of the features by row i, and fill in its entries; return how many there are.

    ``together`` says that the constant is the running mean of the labels.
    """
    for place in range(row.many[0]):
        row.growth[row.moved[place]] = 1.0
        row.drift[row.moved[place]] = 0.0
    features.counts[ROWS] += 1.0
    n = add_dense(features, row, count_in(features, rows, i, constant, centre, scale, row))
    rescale(features, row, scale, together)
    return n


@formula
def enter_again(features: Any, rows: Any, i: int, stamp: float, row: Any) -> Any:
    """Fill in the entries of a row that was met before, without updating anything; return how many there are.

    ``stamp`` tells this row from every other; that of a row which is met for the first time is positive.
    """
    record, stamps, one, n = features.record, features.stamps, np.uint64(1), np.uint64(0)
    for place in range(row.many[0]):
        row.growth[row.moved[place]] = 1.0
        row.drift[row.moved[place]] = 0.0
    row.many[0] = np.uint64(0)
    for k in range(begin(rows, i), end(rows, i)):
        v = float(rows.data[k])
        if v != 0.0:
            row.j[n] = column(rows, i, k)
            row.v[n] = clamp(v, -LARGEST_VALUE, LARGEST_VALUE)
            if record[row.j[n], DENSE_PLACE] > 0.0:
                stamps[np.uint64(record[row.j[n], DENSE_PLACE]) - one] = stamp
            n += one
    for place in range(np.uint64(features.counts[DENSE])):
        if stamps[place] != stamp:
            row.j[n], row.v[n] = features.dense[place], 0.0
            n += one
    for k in range(n):
        m, away = record[row.j[k], SCALE], row.v[k] - record[row.j[k], CENTRE]
        row.u[k] = clamp(away / m, -LARGEST_UNSCALED, LARGEST_UNSCALED) if m > 0.0 else 0.0
    return n


@formula
def scale_rows(
    features: Any, rows: Any, count: int, constant: int, centre: bool, scale: bool, row: Any, out: Any
) -> None:
    """Put the rows u into a dense array."""
    for i in range(count):
        for k in range(enter(features, rows, i, constant, centre, scale, False, row)):
            out[i, row.j[k]] = row.u[k]


class FeatureScaler:
    """A scaler that centres and scales features as rows come in, for use without a learner.

    Args:
        dimension: the number of features.
        constant: which feature is always 1, and is not centred; None where there is none.
        centre: whether dense features are centred.
        scale: whether features are divided by their largest deviation so far.
        compiled: False runs the same functions as plain Python.

    >>> FeatureScaler(2, compiled=False).transform([[5.0, 0.0], [7.0, 1.0], [3.0, 0.0], [7.0, 0.0]]).tolist()
    [[0.0, 0.0], [0.5, 1.0], [-0.6666666666666666, 0.0], [0.5, 0.0]]
    """

    def __init__(
        self, dimension: int, constant: int | None = None, *, centre: bool = True, scale: bool = True,
        compiled: bool = True,
    ) -> None:  # fmt: skip
        require(dimension >= 1, "dimension", dimension, "must be at least 1", "give the number of features")
        self.dimension = dimension
        self.constant = -1 if constant is None else constant
        self.centre, self.scale, self.compiled = centre, scale, compiled
        self.features = no_features(np.zeros((dimension, 5)))

    def transform(self, x: Any) -> NDArray[np.float64]:
        """The rows u, each computed from that row and those before it."""
        rows, n = as_rows(x, self.dimension, compiled=self.compiled)
        self.features = with_capacity(self.features, self.dimension, int(longest(rows)))
        out, row = np.zeros((n, self.dimension)), entries(int(longest(rows)) + len(self.features.dense))
        door.ready(scale_rows, self.compiled)(self.features, rows, n, self.constant, self.centre, self.scale, row, out)
        return out
