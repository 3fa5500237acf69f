"""What the loops for one score and for K scores share: the parts of a mixture, and reading a row."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.arguments import Held
from giftrl.compiled.compiler import Loop
from giftrl.compiled.registry import formula
from giftrl.mixtures.coin import grow_coin
from giftrl.mixtures.entering import enter, enter_again
from giftrl.mixtures.experts import factors, grow
from giftrl.mixtures.feature_state import PLACE, FeatureState, mean_norm
from giftrl.mixtures.features import Scaling
from giftrl.mixtures.full_matrix import Matrix, follow_scale, is_in
from giftrl.mixtures.later import Later, pull
from giftrl.mixtures.layout import Columns


class Parts(NamedTuple):
    """What all rounds of a batch work with, for one score or K; x and theta are those of the features."""

    loss: Any
    grid: Any
    columns: Columns
    pieces: Any
    features: FeatureState
    x: NDArray[Any]
    theta: NDArray[np.float64]
    matrix: Matrix
    state: Any
    later: Later
    buffers: Any


class MixtureBatch(NamedTuple):
    """A :class:`giftrl.kernels.base.Batch`, with an array for predictions that are neither clipped nor made bold.

    That one is empty where they are not wanted.
    """

    rows: Any
    labels: Any
    weights: Any
    predictions: Any
    linear: Any


class Calls(NamedTuple):
    """The loops of a mixture and what they work with, taken apart once; of use until something of it is replaced."""

    loss: Any
    memory: tuple[Any, ...]  # features, matrix, mixing, later
    again: bool
    compiled: bool
    width: int  # the most entries of a row that the buffers have room for
    learn: Loop
    parts: Held
    predict: Loop
    weights: Held

    def serve(self, mixture: Any, width: int) -> bool:
        """Whether a mixture still has the memory that these were made of, and rows of this width have room."""
        features, matrix, mixing, later = self.memory
        return (
            width <= self.width
            and features is mixture.features
            and mixing is mixture.mixing
            and matrix is mixture.matrix
            and later is mixture._later
            and self.loss is mixture.loss
            and self.again is mixture._again
            and self.compiled is mixture.compiled
        )


@formula(fast=True)
def scaling(pieces: Any) -> Any:
    """What is done with features."""
    return Scaling(pieces.constant, pieces.centre_labels)


@formula(fast=True)
def follow_growth(parts: Any, columns: Any, by: Any, scores: Any, j: int, growth: float) -> None:
    """Let the experts follow the scale of a feature that has grown by 1/growth."""
    x = parts.x
    grow(parts.grid, columns, scores, x, j, growth, by)
    grow_coin(x, j, columns.coin, scores, growth)
    if is_in(parts.matrix) and parts.features.record[j, PLACE] > 0.0:
        follow_scale(parts.pieces, parts.matrix, np.int64(parts.features.record[j, PLACE]) - 1, growth)


@formula(fast=True)
def read_row(parts: Any, columns: Any, rows: Any, i: int, scores: Any) -> Any:
    """Take in the features of row i, and let the experts follow scales that have grown; return how many entries."""
    pieces, row = parts.pieces, parts.buffers.row
    if pieces.again:
        again = enter_again(parts.features, rows, i, -1.0 - parts.later.rounds[0], row)
        pull(parts, again, mean_norm(parts.features), scores)
        return again
    norm = mean_norm(parts.features)
    count = enter(parts.features, columns, parts.x, scaling(pieces), rows, i, row)
    by = factors(parts.grid, norm, parts.buffers.factors)
    for listed in range(row.many[0]):
        if row.growth[listed] < 1.0:
            follow_growth(parts, columns, by, scores, row.j[row.moved[listed]], row.growth[listed])
    return count
