"""Rows in the coordinates of some units."""

from typing import Any

import numpy as np

from giftrl.certificates.loops import full_moments, second_moments
from giftrl.certificates.units import Array, Units
from giftrl.compiled.compiler import ready

#: From this share of numbers that are not 0, and up to this size, rows are held as a full matrix.
DENSE, SMALL = 0.15, 20_000
#: Up to this many features a loop has the product of small matrices; BLAS would wait for its threads.
FEW = 40
#: About how many numbers of a full matrix are used at a time.
BLOCK = 1 << 17


class Scaled:
    """A matrix A of rows such that A z are the predictions of the model with coordinates z.

    Features that no row has, and that theta does not have, are left out. With t_j = shift_j/scale_j,
    A z = X z - <t, z>, where X are the rows over scale: a sparse X stays sparse.

    >>> import numpy as np, scipy.sparse as sp
    >>> units = Units.of_features(np.array([8.0, 0.0]), 2.0)
    >>> rows = Scaled(sp.csr_array(np.array([[2.0, 0.0], [-2.0, 0.0]])), units, np.zeros(2))
    >>> rows.features, rows.scores(np.array([3.0])), rows.gather(np.array([1.0, 0.0]))
    (array([0]), array([ 3., -3.]), array([1.]))
    """

    def __init__(self, rows: Any, units: Units, theta: Array) -> None:
        full = isinstance(rows, np.ndarray)
        used = rows.any(axis=0) if full else np.zeros(rows.shape[1], bool)
        used[[] if full else rows.indices] = True
        used |= theta.any(axis=1) if theta.ndim == 2 else theta != 0.0
        if units.constant is not None:
            used[units.constant] = True
        self.features = np.flatnonzero(used & (units.scale > 0.0))
        scale = units.scale[self.features]
        self.t: Array = units.shift[self.features] / scale
        if full:
            self.dense, self.x = True, rows[:, self.features] / scale - self.t
            self.t = np.zeros(len(scale))
            return
        import scipy.sparse as sp

        x = sp.csr_array(rows[:, self.features] if len(self.features) < rows.shape[1] else rows, copy=True)
        x.data /= scale[x.indices]
        size = x.shape[0] * x.shape[1]
        self.dense = size <= SMALL or x.nnz >= DENSE * size
        if self.dense:
            self.x = x.toarray() - self.t
            self.t = np.zeros(len(scale))
        else:
            x.sort_indices()
            self.x = x
            self.transposed = x.T.tocsr()  # its product is the faster one

    def scores(self, z: Array) -> Array:
        """A z."""
        out: Array = self.x @ z
        return out if self.dense else out - self.t @ z

    def gather(self, a: Array) -> Array:
        """A' a."""
        if self.dense:
            return np.asarray(self.x.T @ a)
        gathered: Array = self.transposed @ a
        gathered -= np.multiply.outer(self.t, a.sum(axis=0))
        return gathered

    def moments(self, weights: Array) -> Array:
        """A' diag(weights) A."""
        m = len(self.features)
        out = np.zeros((m, m))
        if self.dense and m <= FEW:
            ready(full_moments)(self.x, weights, out)
            return out + np.triu(out, 1).T
        if self.dense:
            # Rows of weight 0, such as those away from a kink, are left out, and a block stays in the cache.
            step = max(1, BLOCK // max(1, m))
            for first in range(0, len(weights), step):
                h = weights[first : first + step]
                curved = np.flatnonzero(h)
                block = self.x[first : first + step]
                if 2 * len(curved) < len(h):
                    block, h = block[curved], h[curved]
                out += (block.T * h) @ block
            return out
        ready(second_moments)(self.x.data, self.x.indices, self.x.indptr, weights, out)
        out += np.triu(out, 1).T
        first = np.multiply.outer(self.t, self.transposed @ weights)
        return np.asarray(out - first - first.T + weights.sum() * np.multiply.outer(self.t, self.t))
