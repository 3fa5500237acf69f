"""Loops over rows for the solver: losses, their slopes and curvatures, conjugates, and second moments of sparse rows.

``eps`` smooths a loss (:mod:`giftrl.certificates.problem`); with eps = 0 the loss is taken as it is. A loop for K
scores has a matrix where one for a single prediction has a vector.
"""

import math
from typing import Any

from giftrl.ops import formula
from giftrl.ops import loss as scalar
from giftrl.ops import vector_loss as vector

#: The step of a difference quotient of slopes, in units of eps, or of scores where eps is 0.
STEP = 1e-4


@formula
def land(loss: Any, p: Any, y: Any, eps: float, lean: Any, a: Any, phi: Any, bend: Any) -> None:
    """For each row the slope a at p, the smoothed loss phi, and how fast a changes with p."""
    for i in range(len(p)):
        q = p[i] + eps * lean[i]
        b = scalar.prox(loss, q, y[i], eps)
        a[i] = b
        phi[i] = scalar.value(loss, q - eps * b, y[i]) + 0.5 * eps * b * b
        if eps > 0.0:
            step = STEP * eps
            rise = scalar.prox(loss, q + step, y[i], eps) - scalar.prox(loss, q - step, y[i], eps)
            bend[i] = min(max(rise / (2.0 * step), 0.0), 1.0 / eps)
        else:
            bend[i] = scalar.curvature(loss, q, y[i])


@formula
def conjugates(loss: Any, p: Any, y: Any, a: Any, out: Any) -> None:
    """phi*(a) for each row; an a that rounding put outside the domain is replaced by the slope at p."""
    for i in range(len(a)):
        out[i] = scalar.conjugate(loss, a[i], y[i])
        if not math.isfinite(out[i]):
            a[i] = scalar.slope(loss, p[i], y[i])
            out[i] = scalar.conjugate(loss, a[i], y[i])


@formula
def values(loss: Any, p: Any, y: Any, out: Any) -> None:
    """phi(p) for each row."""
    for i in range(len(p)):
        out[i] = scalar.value(loss, p[i], y[i])


@formula
def infima(loss: Any, y: Any, out: Any) -> None:
    """inf phi for each row."""
    for i in range(len(y)):
        out[i] = scalar.infimum(loss, y[i])


@formula
def land_scores(loss: Any, p: Any, y: Any, eps: float, lean: Any, a: Any, phi: Any, work: Any) -> None:
    """:func:`land` for K scores, without the changes of a; ``work`` is a buffer of K numbers."""
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
def blocks(loss: Any, p: Any, y: Any, eps: float, lean: Any, work: Any, out: Any) -> None:
    """How the K slopes of each row change with its K scores: out[i, k] is the change with score k.

    ``work`` is a buffer of three times K numbers.
    """
    step = STEP * eps if eps > 0.0 else STEP
    at, high, low = work[0], work[1], work[2]
    for i in range(len(p)):
        for k in range(len(at)):
            at[k] = p[i, k] + eps * lean[i, k]
        for k in range(len(at)):
            kept = at[k]
            at[k] = kept + step
            vector.prox(loss, at, y[i], eps, high)
            at[k] = kept - step
            vector.prox(loss, at, y[i], eps, low)
            at[k] = kept
            for j in range(len(at)):
                out[i, k, j] = (high[j] - low[j]) / (2.0 * step)


@formula
def conjugate_scores(loss: Any, p: Any, y: Any, a: Any, out: Any) -> None:
    """:func:`conjugates` for K scores."""
    for i in range(len(a)):
        out[i] = vector.conjugate(loss, a[i], y[i])
        if not math.isfinite(out[i]):
            vector.slope(loss, p[i], y[i], a[i])
            out[i] = vector.conjugate(loss, a[i], y[i])


@formula
def second_moments(data: Any, indices: Any, indptr: Any, weights: Any, out: Any) -> None:
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
def full_moments(x: Any, weights: Any, out: Any) -> None:
    """sum_i weights_i s_i s_i' of the rows of a full matrix, in the upper triangle."""
    for i in range(len(weights)):
        w = weights[i]
        if w != 0.0:
            for j in range(x.shape[1]):
                s = w * x[i, j]
                for k in range(j, x.shape[1]):
                    out[j, k] += s * x[i, k]
