"""The state of a mixture at some features: what a worker sends, and what is written back after a merge."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.mixtures.feature_state import BY_FEATURE, DENSE, PLACE, FeatureState

Arrays = dict[str, NDArray[Any]]


class Piece(NamedTuple):
    """What a mixture knows at some features, and all of the state that is not by feature.

    Attributes:
        features: their numbers, in order; those of :func:`always` are among them.
        record, x, theta: their rows of the arrays of :class:`giftrl.mixtures.feature_state.FeatureState`.
        dense: the list of dense features.
        counts: as there.
        matrix, mixing: copies of these parts of the state.
        merges: how often the state was merged.
    """

    features: NDArray[np.int64]
    record: NDArray[np.float64]
    x: NDArray[Any]
    theta: NDArray[np.float64]
    dense: NDArray[np.uint64]
    counts: NDArray[np.float64]
    matrix: Any
    mixing: Any
    merges: int = 0


def always(learner: Any) -> NDArray[np.int64]:
    """The features that every row may change: those that are dense now, and those of the full matrix."""
    known: FeatureState = learner.features
    dense = known.dense[: int(known.counts[DENSE])].astype(np.int64)
    if int(learner.matrix.size[0]) <= 0:
        return dense
    return np.concatenate([dense, np.flatnonzero(known.record[:, PLACE])])


def take(learner: Any, features: NDArray[np.int64]) -> Piece:
    """A copy of the state of a mixture at these features."""
    known: FeatureState = learner.features
    by_feature = {name: getattr(known, name)[features] for name in BY_FEATURE}
    matrix, mixing = (type(part)(*(np.array(each) for each in part)) for part in (learner.matrix, learner.mixing))
    dense = known.dense[: int(known.counts[DENSE])].copy()
    rest = {"counts": known.counts.copy(), "matrix": matrix, "mixing": mixing, "merges": learner.merges}
    return Piece(features, dense=dense, **by_feature, **rest)


def put(learner: Any, piece: Piece) -> None:
    """Write a piece into a mixture, whose other features stay as they are."""
    known: FeatureState = learner.features
    for name in BY_FEATURE:
        getattr(known, name)[piece.features] = getattr(piece, name)
    if len(piece.dense) > len(known.dense):
        dense, stamps = np.zeros(len(piece.dense), np.uint64), np.zeros(len(piece.dense))
        learner.features = known = known._replace(dense=dense, stamps=stamps)
    known.dense[: len(piece.dense)], known.stamps[:] = piece.dense, 0.0
    known.counts[:] = piece.counts
    learner.merges = piece.merges
    for own, given in ((learner.matrix, piece.matrix), (learner.mixing, piece.mixing)):
        for mine, new in zip(own, given, strict=True):
            mine[...] = new
