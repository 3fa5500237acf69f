"""How a feature lies in memory: what every row needs of it in one block, which begins at a cache line.

A block is in the type in which weights are stored: the weights of the experts (side by side, a group for each score),
q_j and r_j of the strengths, the three numbers of the coin, each for all scores, and three numbers of
:mod:`giftrl.mixtures.features`. With one score it is one cache line of float32. What few rows need of a feature is in
another array, the record of :mod:`giftrl.mixtures.feature_state`, and theta_j of the certificate is in a third one, of
float64.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.kernels.base import NonzeroRows
from giftrl.system import zeros

#: The bytes of a cache line.
LINE = 64


class Columns(NamedTuple):
    """The columns of a block; unsigned, as compiled indices are."""

    lanes: Any
    curve: Any
    root: Any
    coin: Any
    per_scale: Any
    count: Any
    added: Any
    total: Any


def block_columns(experts: int, scores: int, line: int = 1) -> Columns:
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
    return Columns(*map(np.uint64, (0, curve, curve + 1, coin, behind, behind + 1, behind + 2, total)))


#: One score and up to eight experts: a cache line of float32.
ONE_SCORE = block_columns(8, 1)


def class_columns(classes: int, experts: int, dtype: Any) -> Columns:
    """The columns for K scores and this many experts side by side."""
    return block_columns(experts, classes, LINE // np.dtype(dtype).itemsize)


def blocks(features: int, columns: int, dtype: Any, scores: int = 1) -> NDArray[Any]:
    """Zeros: a block of so many columns for each feature, the first at a cache line.

    Other arrays have a row for each feature, too, and weights of float64, one for each score, are made of all of them:
    these must have space.

    >>> blocks(3, 16, np.float32).shape, blocks(3, 16, np.float32).ctypes.data % 64
    ((3, 16), 0)
    """
    kind = np.dtype(dtype)
    size = int(columns) * kind.itemsize
    raw = zeros((features + -(-LINE // size), size), np.uint8, beside=64 + 32 * scores).reshape(-1)
    begin = -raw.ctypes.data % LINE
    found: NDArray[Any] = raw[begin : begin + features * size].view(kind).reshape(features, int(columns))
    return found


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
