"""Merge the parts of a mixture that have a matrix of curvature: the Newton stack and the full matrix.

With P = A^-1 the precision and x the weights, P and P x add up: for a squared loss that is exact.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.mixtures.clip_limits import LARGEST_MATRIX_WEIGHT
from giftrl.mixtures.full_matrix import CREDIT, MAX_CURVATURE_GAIN, Matrix, nothing_late
from giftrl.mixtures.state import PLACE, SCALE
from giftrl.workers.merge_features import MergedFeatures
from giftrl.workers.pieces import Piece, added

Array = NDArray[np.float64]
#: The eigenvalues of a precision are at least this share of the largest one.
MIN_EIGENVALUE_SHARE = 1e-12


def inverse(a: Array) -> Array:
    """The inverse of a symmetric matrix, even if rounding has left eigenvalues that are not positive."""
    try:
        np.linalg.cholesky(a)  # an error unless all are positive; eigenvalues take ten times as long
    except np.linalg.LinAlgError:
        pass
    else:
        found = np.linalg.inv(a)
        return np.asarray((found + found.T) / 2.0)
    values, vectors = np.linalg.eigh((a + a.T) / 2.0)
    values = np.maximum(values, MIN_EIGENVALUE_SHARE * max(values.max(), np.finfo(float).tiny))
    return np.asarray((vectors / values) @ vectors.T)


def merge_stack(base: Any, workers: list[Any]) -> tuple[Array, Array]:
    """v and A of the stack, without experts that a worker has removed."""
    there = np.flatnonzero(np.all([np.diag(mixing.inverse) > 0.0 for mixing in (base, *workers)], axis=0))
    at = np.ix_(there, there)
    precisions = [inverse(mixing.inverse[at]) for mixing in (base, *workers)]
    duals = [p @ mixing.stack[there] for p, mixing in zip(precisions, (base, *workers), strict=True)]
    v, a = np.zeros_like(base.stack), np.zeros_like(base.inverse)
    if len(there):
        a[at] = inverse(added(*precisions))
        v[there] = a[at] @ added(*duals)
    return v, a


def merge_matrix(
    base: Piece, workers: list[Piece], known: MergedFeatures, constant: int, row: int
) -> tuple[Matrix, Array] | None:
    """The full matrix and the place of each feature in it; None if a worker has removed it, or if it has no room.

    Args:
        base, workers: the pieces.
        known: the merged features.
        constant: the place of the constant among the features, or -1.
        row: of the full matrix among the offsets.
    """
    pieces, old = (base, *workers), base.matrix
    if len(old.x) == 0 or any(int(piece.matrix.size[0]) < 0 for piece in pieces):
        return None
    places = base.record[:, PLACE].astype(np.int64)
    for worker in workers:
        new = np.flatnonzero((worker.record[:, PLACE] > 0.0) & (places == 0))
        new = new[np.argsort(worker.record[new, PLACE])]
        places[new] = places.max() + 1 + np.arange(len(new))
    size = int(places.max(initial=0))
    if size > len(old.x):
        return None
    features = np.argsort(places)[len(places) - size :]  # by their place
    prior = np.zeros(len(old.x))
    for piece in reversed(pieces):
        own = piece.record[features, PLACE].astype(np.int64)
        prior[:size][own > 0] = piece.matrix.prior[own[own > 0] - 1]
    stacked = old.inverse.reshape(-1, *old.inverse.shape[-2:])
    scores = len(stacked)
    new_inverse, new_x = np.zeros_like(stacked), np.zeros((len(old.x), scores))
    for m in range(scores):
        precisions, duals = zip(
            *(
                _natural(piece, shift, known, features, constant, row, m)
                for piece, shift in zip(pieces, known.shifts, strict=True)
            ),
            strict=True,
        )
        precision = added(*precisions)
        # A prior is at least the one that a feature begins with: rounding may have left less of it.
        a = inverse((precision + precision.T) / 2.0 + np.diag(1.0 / prior[:size]))
        new_inverse[m, :size, :size] = a
        new_x[:size, m] = a @ added(*duals)
    credit = np.clip(added(old.credit, *(worker.matrix.credit for worker in workers)), 0.0, CREDIT)
    new_inverse, sized = new_inverse.reshape(old.inverse.shape), (np.array([size]), np.atleast_1d(credit))
    merged = Matrix(new_inverse, new_x.reshape(old.x.shape), prior, *sized, *nothing_late(new_inverse))
    return merged, places.astype(np.float64)


def _natural(
    piece: Piece, shift: Array, known: MergedFeatures, features: NDArray[np.int64], constant: int, row: int, m: int
) -> tuple[Array, Array]:
    """P without the prior and P x of score m, in the merged units and places; 0 for features without a place."""
    matrix, size = piece.matrix, len(features)
    precision, dual = np.zeros((size, size)), np.zeros(size)
    places = piece.record[features, PLACE].astype(np.int64)
    here = np.flatnonzero(places > 0)
    if len(here) == 0:
        return precision, dual
    at = places[here] - 1
    late = matrix.late.reshape(-1, *matrix.late.shape[-2:])[m][:, at]
    a = matrix.inverse.reshape(-1, *matrix.inverse.shape[-2:])[m][np.ix_(at, at)] - late.T @ late
    x = matrix.x.reshape(len(matrix.x), -1)[at, m].copy()
    scale, new = piece.record[features[here], SCALE], known.scale[features[here]]
    factor = np.divide(scale, new, out=np.ones(len(here)), where=new > 0.0)
    a, x = grown(a, x, factor, matrix.prior[at])
    if constant >= 0 and piece.record[constant, PLACE] > 0.0:
        offset = piece.mixing.offsets.reshape(len(piece.mixing.offsets), -1)[row, m]
        x[features[here] == constant] += offset + shift[features[here]] @ x
    p = inverse(a)
    precision[np.ix_(here, here)] = p - np.diag(1.0 / matrix.prior[at])
    dual[here] = p @ x
    return precision, dual


def grown(a: Array, x: Array, factor: Array, prior: Array) -> tuple[Array, Array]:
    """A and x after scales have grown by 1/factor, as :func:`giftrl.mixtures.full_matrix.grow_matrix` lets them follow.

    A worker whose rows made a scale grow has done that to the state that it began with: only then is the difference of
    the two the contribution of the worker.

    >>> grown(np.eye(1), np.ones(1), np.array([0.5]), np.array([100.0]))
    (array([[4.]]), array([2.]))
    """
    variance = np.diag(a)
    most = np.sqrt(np.divide(prior, variance, out=np.full(len(a), np.inf), where=variance > 0.0))
    g = np.minimum(np.divide(1.0, factor, out=np.full(len(a), np.inf), where=factor > 0.0), most)
    g = np.where(factor < 1.0, np.maximum(1.0, g), 1.0)
    anew = g > MAX_CURVATURE_GAIN
    g[anew] = 0.0
    larger = g[:, None] * a * g
    larger[anew, anew] = prior[anew]
    return larger, np.clip(x * factor * g * g, -LARGEST_MATRIX_WEIGHT, LARGEST_MATRIX_WEIGHT)
