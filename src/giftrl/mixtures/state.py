"""The state of each feature, and its place in memory.

All that every row needs of a feature is in one block, which begins at a cache line. A block is in the type in which
weights are stored: the weights of the experts (side by side, a group for each score), q_j and r_j of the strengths, the
three numbers of the coin, each for all scores, and three numbers of :mod:`giftrl.mixtures.scale_row`. With one score it
is one cache line of float32. The rest is in another array, the record, and theta_j of the certificate is in a third
one, of float64.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.kernels.base import NonzeroRows
from giftrl.system import zeros

#: Bytes of a cache line.
CACHE_LINE = 64


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
    """The columns for this many experts side by side and scores; a block fills lines of so many numbers.

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


def class_columns(classes: int, experts: int, dtype: Any) -> BlockColumns:
    """The columns for K scores and this many experts side by side."""
    return block_columns(experts, classes, CACHE_LINE // np.dtype(dtype).itemsize)


def blocks(features: int, columns: int, dtype: Any, scores: int = 1) -> NDArray[Any]:
    """Zeros: a block of so many columns for each feature, the first at a cache line.

    Other arrays have a row for each feature, too, and weights of float64, one for each score, are made of all of them:
    these must have space.

    >>> blocks(3, 16, np.float32).shape, blocks(3, 16, np.float32).ctypes.data % 64
    ((3, 16), 0)
    """
    kind = np.dtype(dtype)
    size = int(columns) * kind.itemsize
    raw = zeros((features + -(-CACHE_LINE // size), size), np.uint8, beside=64 + 32 * scores).reshape(-1)
    begin = -raw.ctypes.data % CACHE_LINE
    memory: NDArray[Any] = raw[begin : begin + features * size].view(kind).reshape(features, int(columns))
    return memory


def aligned(x: NDArray[Any], features: int = 0) -> NDArray[Any]:
    """A copy that begins at a cache line, as arrays from a file or a pickle may not; with space for more features.

    Rows of zeros are not written to: systems give memory to what is.
    """
    kept = NonzeroRows.of(x)
    copy = blocks(max(features, len(x)), x.shape[1], x.dtype)
    copy[kept.where] = kept.rows
    return copy


def longer(array: NDArray[Any], features: int) -> NDArray[Any]:
    """A copy of an array with a row for each feature, with rows of zeros for further ones."""
    kept = NonzeroRows.of(array)
    return NonzeroRows(kept.rows, kept.where, max(features, len(array))).array()


#: The columns of ``FeatureState.record``: m_j, mu_j; how many rows have it, while it is dense; the sum of its values in
#: the rows until it was last dense; its place in the list of dense features and its place in the full matrix, both
#: from 1, or 0.
SCALE, CENTRE, COUNT, TOTAL, DENSE_PLACE, PLACE = range(6)
RECORD_WIDTH = 6
#: The entries of ``FeatureState.counts``.
ROWS, NORM, DENSE, WIDEST = range(4)


#: The arrays of the state with a row for each feature.
BY_FEATURE = ("record", "x", "theta")


class Pieces(NamedTuple):
    """Constants of a mixture, and of a pass."""

    constant: int  # the feature that is always 1; -1: none, and nothing is centred
    margin: bool  # the units of labels are 1: labels are -1 and +1, or classes
    boost: float  # the factor of boosted candidates; 1 for none
    centre_labels: bool  # predictions start at the mean label, which is the weight of the constant
    again: bool = False  # in a later pass: see giftrl.mixtures.later_passes


class FeatureState(NamedTuple):
    """The scales, centres and counts of the features, and their weights, in arrays that several loops share."""

    record: NDArray[np.float64]
    dense: NDArray[np.uint64]  # which features are dense, and when each of those was last seen
    stamps: NDArray[np.float64]
    counts: NDArray[np.float64]  # rows, the mean of sum_j u_j^2, how many features are dense, entries of the widest row
    x: NDArray[Any]  # the blocks
    theta: NDArray[np.float64]  # that of the certificate, a column for each score


def no_features(x: NDArray[Any], scores: int = 1) -> FeatureState:
    """The state before the first row; ``x`` is zeros, a block for each feature."""
    d = len(x)
    return FeatureState(
        np.zeros((d, RECORD_WIDTH)), np.zeros(0, np.uint64), np.zeros(0), np.zeros(4), x, np.zeros((d, scores))
    )


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


def grown(features: FeatureState, dimension: int) -> FeatureState:
    """The same state with space for this many features, in memory of its own that begins at a cache line."""
    record, theta = longer(features.record, dimension), longer(features.theta, dimension)
    return features._replace(record=record, theta=theta, x=aligned(features.x, dimension))


def pickled(features: FeatureState) -> FeatureState:
    """The state as a pickle keeps it, with the features that were seen."""
    seen: Any = {name: NonzeroRows.of(getattr(features, name)) for name in BY_FEATURE}
    return features._replace(**seen)


def unpickled(features: FeatureState) -> FeatureState:
    """The state that :func:`pickled` was given; the blocks begin at a cache line again."""
    arrays: Any = {name: getattr(features, name).array() for name in BY_FEATURE}
    return features._replace(**arrays | {"x": aligned(arrays["x"])})


@formula
def mean_norm(features: Any) -> float:
    """N, the mean of norm2(u)^2 over the rows so far; 1 if all of them were empty."""
    return features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0
