"""How a feature lies in memory: everything that a row needs of it in one block, which begins at a cache line.

A block begins with float64 numbers: the record of :mod:`giftrl.mixtures.features`, and theta_j of the certificate, one
for each score. The rest is in the type in which weights are stored, which another view of the same memory shows: q_j
and r_j of the strengths, the place in the full matrix, the weights of the experts (side by side, a group for each
score), and the three numbers of the coin, each for all scores.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.kernels.touched import Touched
from giftrl.memory import zeros

#: In the view of float64, behind the five numbers of features.py: the first theta.
THETA = 5
#: The bytes of a cache line.
LINE = 64


class Columns(NamedTuple):
    """The columns of a block, counted in the type in which weights are stored; unsigned, as compiled indices are."""

    curve: Any
    root: Any
    place: Any
    lanes: Any
    coin: Any
    total: Any


def _columns(*places: int) -> Columns:
    return Columns(*(np.uint64(place) for place in places))


#: One score and up to eight experts: two cache lines of float32. The first twelve columns hold six float64.
ONE_SCORE = _columns(12, 13, 14, 16, 24, 32)


def class_columns(classes: int, experts: int, dtype: Any) -> Columns:
    """The columns for K scores and this many experts side by side.

    >>> [int(place) for place in class_columns(3, 4, np.float32)]
    [16, 17, 18, 32, 44, 64]
    """
    size = np.dtype(dtype).itemsize
    line = LINE // size
    curve = (THETA + classes) * 8 // size
    first = -(-(curve + 3) // line) * line  # weights begin at a cache line, and so does the next feature
    coin = first + classes * experts
    total = -(-(coin + 3 * classes) // line) * line
    return _columns(curve, curve + 1, curve + 2, first, coin, total)


def blocks(features: int, columns: int, dtype: Any = np.float64, scores: int = 1) -> NDArray[np.float64]:
    """Zeros: a block of so many columns for each feature, the first at a cache line; the view of float64.

    Weights of float64, one for each score, are made of them: these and their sums must have space, too.

    >>> blocks(3, 32, np.float32).shape, blocks(3, 32, np.float32).ctypes.data % 64
    ((3, 16), 0)
    """
    size = int(columns) * np.dtype(dtype).itemsize
    raw = zeros((features + -(-LINE // size), size), np.uint8, beside=24 * scores).reshape(-1)
    begin = -raw.ctypes.data % LINE
    return raw[begin : begin + features * size].view(np.float64).reshape(features, size // 8)


def aligned(record: NDArray[np.float64], features: int = 0) -> NDArray[np.float64]:
    """A copy that begins at a cache line, as arrays from a file or a pickle may not; with space for more features.

    Rows of zeros are not written to: systems give memory to what is.
    """
    kept = Touched.of(record)
    copy = blocks(max(features, len(record)), record.shape[1])
    copy[kept.where] = kept.rows
    return copy
