"""How a coordinate lies in memory: everything that a row needs of a feature in one piece, two cache lines of it.

Thirty-two columns of the type in which weights are stored. The first twelve are the place of six float64, which another
view of the same memory shows: what :mod:`giftrl.mixtures.features` records, and theta_j of the certificate.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["COIN", "CURVE", "LANES", "PLACE", "ROOT", "THETA", "aligned", "lines", "memory"]

#: In the view of float64, behind the five numbers of features.py: theta.
THETA = 5
#: q_j, r_j, the place in the full matrix, the first of up to eight experts side by side, the coin.
CURVE, ROOT, PLACE, LANES, COIN = 12, 13, 14, 16, 24
COLUMNS = 32
LINE = 64


def lines(features: int, size: int) -> NDArray[np.float64]:
    """Zeros: so many bytes for each feature, the first at the beginning of a cache line; as float64.

    >>> lines(3, 128).shape, lines(3, 128).ctypes.data % 64
    ((3, 16), 0)
    """
    raw = np.zeros(features * size + LINE, np.uint8)
    begin = -raw.ctypes.data % LINE
    return raw[begin : begin + features * size].view(np.float64).reshape(features, size // 8)


def memory(features: int, dtype: Any) -> NDArray[np.float64]:
    """Zeros for this many features, each at the beginning of a cache line; the view of float64.

    >>> memory(3, np.float32).shape, memory(3, np.float32).view(np.float32).shape
    ((3, 16), (3, 32))
    """
    return lines(features, COLUMNS * np.dtype(dtype).itemsize)


def aligned(record: NDArray[np.float64]) -> NDArray[np.float64]:
    """A copy that begins at a cache line, as one from a file or a pickle may not."""
    copy = lines(len(record), 8 * record.shape[1])
    copy[:] = record
    return copy
