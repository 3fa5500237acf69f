"""The optimisation problem of the bound: stored examples, and a linear term for committed ones."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from giftrl.certificates.bound import Array, Units, conjugates, price
from giftrl.compiled.compiler import ready
from giftrl.ops import formula
from giftrl.ops import loss as scalar
from giftrl.ops import vector_loss as vector

#: The step of a difference quotient of slopes, in units of eps, or of scores if eps is 0.
DIFFERENCE_STEP = 1e-4
#: From this share of nonzeros, or up to this many entries, rows are stored as a full matrix.
MIN_DENSE_SHARE, MAX_SMALL_MATRIX = 0.15, 20_000
#: Up to this many features, a loop multiplies small matrices; BLAS would wait for its threads.
MAX_LOOP_FEATURES = 40
#: The approximate number of matrix entries multiplied at a time.
BLOCK_ENTRIES = 1 << 17


@dataclass(frozen=True)
class BallProblem:
    """Minimise F(z) = sum_i h_i phi(<A_i, z>; y_i) - <theta, z> + (ridge/2)|z|^2 over |z| <= radius.

    The dual is to maximise D(a) = -sum_i h_i phi*(a_i) - price(|theta - A' (h a)|) over slopes a. D(a) <= F(z) for
    every pair, and the solutions of a smooth problem have a_i = phi'(<A_i, z>).

    A loss with kinks is smoothed by a penalty on its dual: phi*(a) + (eps/2)(a - b)^2, with the slopes b of an earlier
    solution in ``lean``. The slope of the smoothed loss is the proximal slope of phi at p + eps b, which is in the
    domain of phi* for any eps. The penalty is 0 at a = b, so repeated solutions converge although eps stays away from
    0: this is the proximal point method for the dual (Rockafellar 1976).
    """

    loss: Any
    rows: "ScaledRows"
    labels: Any  # y
    weights: Array  # h
    theta: Array  # in the coordinates of the rows, with K columns for K scores
    radius: float  # infinity for no ball
    ridge: float = 0.0
    floor: float = -math.inf  # bounds up to this number are useless

    def slopes(self, p: Array, eps: float, lean: Array) -> tuple[Array, float, Array]:
        return slopes(self.loss, self.labels, self.weights, p, eps, lean)

    def dual(self, p: Array, a: Array) -> tuple[float, Array]:
        """D(a), and A'(h a); an a outside the domain of phi* is replaced by the slope at p."""
        phi_star = conjugates(self.loss, p, self.labels, a)
        gathered = self.rows.gather(self.weighted(a))
        norm = float(np.linalg.norm(self.theta - gathered))
        return -float(self.weights @ phi_star) - price(norm, self.radius, self.ridge), gathered

    def primal(self, z: Array, p: Array) -> float:
        """F(z)."""
        return loss_sum(self.loss, self.labels, self.weights, p) + self.linear(z)

    def linear(self, z: Array) -> float:
        """The terms of F without losses."""
        return 0.5 * self.ridge * float(np.vdot(z, z)) - float(np.vdot(self.theta, z))

    def weighted(self, a: Array) -> Array:
        """h_i a_i."""
        out: Array = (a.T * self.weights).T
        return out

    def hessian(self, p: Array, eps: float, lean: Array, bend: Array) -> Array:
        """The second derivatives of the smoothed F without its ridge, as a full matrix."""
        if p.ndim == 1:
            return self.rows.moments(self.weights * bend)
        n, k = p.shape
        block = np.empty((n, k, k))
        ready(_score_hessians)(self.loss, p, self.labels, eps, lean, np.empty((3, k)), block)
        block = 0.5 * self.weights[:, None, None] * (block + block.transpose(0, 2, 1))
        m = len(self.rows.features)
        out = np.empty((m, k, m, k))
        for i in range(k):
            for j in range(i, k):
                out[:, i, :, j] = out[:, j, :, i] = self.rows.moments(np.ascontiguousarray(block[:, i, j]))
        return out.reshape(m * k, m * k)

    def times(self, v: Array, p: Array, eps: float, lean: Array, bend: Array) -> Array:
        """The product of :meth:`hessian` and v."""
        direction = self.rows.scores(v)
        if p.ndim == 1:
            return self.rows.gather(self.weights * bend * direction)
        size = float(np.abs(direction).max(initial=0.0))
        if size == 0.0:
            return np.zeros_like(v)
        step = (DIFFERENCE_STEP * eps if eps > 0.0 else DIFFERENCE_STEP) / size
        high, low = self.slopes(p + step * direction, eps, lean)[0], self.slopes(p - step * direction, eps, lean)[0]
        return self.rows.gather(self.weighted((high - low) / (2.0 * step)))


class ScaledRows:
    """A matrix A of examples such that A z are the predictions of the model with coordinates z.

    Features that are 0 in all rows and in theta are left out. With t_j = shift_j/scale_j, A z = X z - <t, z>, with X
    the rows over scale: a sparse X stays sparse.
    """

    def __init__(self, rows: Any, units: Units, theta: Array) -> None:
        self.dense = isinstance(rows, np.ndarray)
        used = theta.any(axis=1) if theta.ndim == 2 else theta != 0.0
        used |= rows.any(axis=0) if self.dense else np.bincount(rows.indices, minlength=rows.shape[1]) > 0
        if units.constant is not None:
            used[units.constant] = True
        self.features = np.flatnonzero(used & (units.scale > 0.0))
        scale = units.scale[self.features]
        self.t: Array = units.shift[self.features] / scale
        if self.dense:
            self.x = rows[:, self.features] / scale
        else:
            import scipy.sparse as sp

            x = sp.csr_array(rows[:, self.features] if len(self.features) < rows.shape[1] else rows, copy=True)
            x.data /= scale[x.indices]
            size = x.shape[0] * x.shape[1]
            self.dense = size <= MAX_SMALL_MATRIX or x.nnz >= MIN_DENSE_SHARE * size
            x.sort_indices()
            self.x = x.toarray() if self.dense else x
        if self.dense:
            self.x -= self.t
            self.t = np.zeros(len(scale))
        else:
            self.transposed = self.x.T.tocsr()  # multiplies faster

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
        if self.dense and m <= MAX_LOOP_FEATURES:
            ready(_dense_moments)(self.x, weights, out)
            return out + np.triu(out, 1).T
        if self.dense:
            # Rows of weight 0, such as rows away from a kink, are left out, and a block stays in the cache.
            step = max(1, BLOCK_ENTRIES // max(1, m))
            for first in range(0, len(weights), step):
                h = weights[first : first + step]
                curved = np.flatnonzero(h)
                block = self.x[first : first + step]
                if 2 * len(curved) < len(h):
                    block, h = block[curved], h[curved]
                out += (block.T * h) @ block
            return out
        ready(_sparse_moments)(self.x.data, self.x.indices, self.x.indptr, weights, out)
        out += np.triu(out, 1).T
        first = np.multiply.outer(self.t, self.transposed @ weights)
        return np.asarray(out - first - first.T + weights.sum() * np.multiply.outer(self.t, self.t))


def slopes(loss: Any, labels: Any, weights: Array, p: Array, eps: float, lean: Array) -> tuple[Array, float, Array]:
    """The slopes at the scores p, the sum of losses smoothed by eps, and curvatures (empty for K scores)."""
    a, phi, bend = np.empty_like(p), np.empty(len(p)), np.empty(len(p) if p.ndim == 1 else 0)
    if p.ndim == 1:
        ready(_slopes)(loss, p, labels, eps, lean, a, phi, bend)
    else:
        ready(_score_slopes)(loss, p, labels, eps, lean, a, phi, np.empty(p.shape[1]))
    return a, float(weights @ phi), bend


def loss_sum(loss: Any, labels: Any, weights: Array, p: Array) -> float:
    """The weighted sum of the losses at the scores p."""
    phi = np.empty(len(p))
    ready(_losses)(loss, p, labels, phi)
    return float(weights @ phi)


# -- loops over rows; for K scores, a vector per row in place of a number --


@formula
def _losses(loss: Any, p: Any, y: Any, out: Any) -> None:
    for i in range(len(p)):
        out[i] = scalar.value(loss, p[i], y[i])


@formula
def _slopes(loss: Any, p: Any, y: Any, eps: float, lean: Any, a: Any, phi: Any, bend: Any) -> None:
    """For each row: the slope a of the smoothed loss at p, its value phi, and the derivative of a."""
    for i in range(len(p)):
        q = p[i] + eps * lean[i]
        b = scalar.prox(loss, q, y[i], eps)
        a[i] = b
        phi[i] = scalar.value(loss, q - eps * b, y[i]) + 0.5 * eps * b * b
        if eps > 0.0:
            step = DIFFERENCE_STEP * eps
            rise = scalar.prox(loss, q + step, y[i], eps) - scalar.prox(loss, q - step, y[i], eps)
            bend[i] = min(max(rise / (2.0 * step), 0.0), 1.0 / eps)
        else:
            bend[i] = scalar.curvature(loss, q, y[i])


@formula
def _score_slopes(loss: Any, p: Any, y: Any, eps: float, lean: Any, a: Any, phi: Any, work: Any) -> None:
    """:func:`_slopes` for K scores, without the derivatives; ``work`` is a buffer of K numbers."""
    for i in range(len(p)):
        for k in range(len(work)):
            work[k] = p[i, k] + eps * lean[i, k]
        vector.prox(loss, work, y[i], eps, a[i])
        half = 0.0
        for k in range(len(work)):
            work[k] -= eps * a[i, k]
            half += 0.5 * eps * a[i, k] * a[i, k]
        phi[i] = vector.value(loss, work, y[i]) + half


@formula
def _score_hessians(loss: Any, p: Any, y: Any, eps: float, lean: Any, work: Any, out: Any) -> None:
    """The derivatives of the K slopes of each row: out[i, k] with respect to score k.

    ``work`` is a buffer of three times K numbers.
    """
    step = DIFFERENCE_STEP * eps if eps > 0.0 else DIFFERENCE_STEP
    at, high, low = work[0], work[1], work[2]
    for i in range(len(p)):
        for k in range(len(at)):
            at[k] = p[i, k] + eps * lean[i, k]
        for k in range(len(at)):
            score = at[k]
            at[k] = score + step
            vector.prox(loss, at, y[i], eps, high)
            at[k] = score - step
            vector.prox(loss, at, y[i], eps, low)
            at[k] = score
            for j in range(len(at)):
                out[i, k, j] = (high[j] - low[j]) / (2.0 * step)


@formula
def _sparse_moments(data: Any, indices: Any, indptr: Any, weights: Any, out: Any) -> None:
    """sum_i weights_i s_i s_i' of sparse rows with sorted indices, in the upper triangle."""
    for i in range(len(weights)):
        w = weights[i]
        if w != 0.0:
            end = indptr[i + 1]
            for j in range(indptr[i], end):
                s, row = w * data[j], out[indices[j]]
                for k in range(j, end):
                    row[indices[k]] += s * data[k]


@formula
def _dense_moments(x: Any, weights: Any, out: Any) -> None:
    """sum_i weights_i s_i s_i' of the rows of a full matrix, in the upper triangle."""
    for i in range(len(weights)):
        w = weights[i]
        if w != 0.0:
            for j in range(x.shape[1]):
                s = w * x[i, j]
                for k in range(j, x.shape[1]):
                    out[j, k] += s * x[i, k]
