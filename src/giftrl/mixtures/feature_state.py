"""What a mixture remembers of features."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.kernels.base import NonzeroRows
from giftrl.mixtures.layout import aligned, longer

#: The columns of ``FeatureState.record``: m_j, mu_j; how many rows have it, while it is dense; the sum of its values in
#: the rows until it was last dense; its place in the list of dense features and its place in the full matrix, both
#: from 1, or 0.
SCALE, CENTRE, COUNT, TOTAL, DENSE_PLACE, PLACE = range(6)
RECORD = 6
#: The entries of ``FeatureState.counts``.
ROWS, NORM, DENSE, WIDEST = range(4)


#: The arrays of the state with a row for each feature.
BY_FEATURE = ("record", "x", "theta")


class FeatureState(NamedTuple):
    """What is known of the features, and of their weights, which share blocks of memory with it."""

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
        np.zeros((d, RECORD)), np.zeros(0, np.uint64), np.zeros(0), np.zeros(4), x, np.zeros((d, scores))
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
    """N, the mean of norm2(u)^2 over the rows so far; 1 where all of them were empty."""
    return features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0
