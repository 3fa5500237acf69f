"""Arrays with a row for each feature, kept without the rows that were never written to.

Hashing offers a million features where a stream has a few thousand. Files and pickles keep what was touched.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require
from giftrl.memory import zeros


class Touched(NamedTuple):
    """The rows of an array in which a bit is set, where they are, and how many rows there are in all.

    >>> kept = Touched.of(np.array([[0.0], [2.0], [0.0], [-0.0]]))
    >>> kept.rows.tolist(), kept.where.tolist(), kept.array().tolist()
    ([[2.0], [-0.0]], [1, 3], [[0.0], [2.0], [0.0], [-0.0]])
    """

    rows: NDArray[Any]
    where: NDArray[np.int64]
    length: int

    @classmethod
    def of(cls, array: NDArray[Any]) -> "Touched":
        """Those of an array."""
        bits = np.ascontiguousarray(array).reshape(len(array), math.prod(array.shape[1:]))
        bits = bits.view(f"u{array.dtype.itemsize}")
        where = np.flatnonzero(bits.any(axis=1))
        return cls(array[where], where, len(array))

    def array(self) -> NDArray[Any]:
        """The array, made anew."""
        where, rows = self.where, self.rows
        sound = where.dtype == np.int64 and where.shape == rows.shape[:1] and rows.ndim >= 1
        inside = sound and bool((np.diff(where, prepend=-1) > 0).all()) and bool((where < self.length).all())
        require(inside, "state", "where", "must name features that are there, in order", "use another copy of the file")
        array = zeros((max(1, self.length), *rows.shape[1:]), rows.dtype)
        array[where] = rows
        return array
