"""Duals for committed examples, which are not stored.

A committed example gets a dual a and is added to sums. Any a in the domain of phi* gives a valid bound
(:mod:`giftrl.certificates.bound`), and the bound is high if theta = -sum_t h_t a_t s_t is small. The slope at the
prediction would be a poor dual, since theta could become large. So duals are steered: with H_j the sum of
h_t phi''_t s_tj^2, the present example included,

    a = prox slope of phi at q + k sum_j s_j theta_j / H_j, with the step length h k sum_j s_j^2 / H_j,

with q the linear prediction, neither clipped nor boosted. This is the slope of a model that has moved by a fraction of
Newton's step towards theta = 0: theta returns to 0, at the price of slightly wrong losses.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.certificates import row_record as at
from giftrl.compiled.lanes import prefetch
from giftrl.compiled.rows import begin, column, coming, end
from giftrl.errors import Incompatible
from giftrl.ops import formula, operation
from giftrl.ops import loss as scalar
from giftrl.ops import vector_loss as vector
from giftrl.ops.loss import boost, kinked, reach

#: k; from 1 to 4 the bounds differ little.
STEERING_STRENGTH = 2.0


@operation
def bend(kind: Any, loss: Any, record: Any, given: Any, i: int, y: Any) -> float:
    """The curvature of the loss of row i."""
    raise Incompatible("a kind of duals must bring bend(self, loss, record, given, i, y); add that method to its class")


@operation
def commit(kind: Any, loss: Any, record: Any, given: Any, i: int, y: Any, h: float, bend: float) -> None:
    """Give row i of weight h a steered dual, and add it to the sums."""
    raise Incompatible("a kind of duals must bring commit(self, loss, record, given, i, y, h, bend); add that method")


class ScalarDuals(NamedTuple):
    """Duals for losses of one prediction; ``cost`` is added to the nonzeros of a stored example."""

    cost: float = 1.0

    def bend(self, loss: Any, record: Any, given: Any, i: int, y: Any) -> float:
        if not kinked(loss):
            return scalar.curvature(loss, given.scores[i, 0], y)
        # A piecewise linear loss: curvature of the parabola of equal value at the mean residual, or at margin 1.
        away = record.sums[at.RESIDUAL_SUM]
        return record.sums[at.COMMITTED_WEIGHT] / away if scalar.accepts(loss, 0.5) and away > 0.0 else 1.0

    def commit(self, loss: Any, record: Any, given: Any, i: int, y: Any, h: float, bend: float) -> None:
        by_feature, rows, k = record.by_feature, given.rows, strength(loss)
        base = given.bases[i] if len(given.bases) > 0 else 0.0
        q = given.scores[i, 0] + base
        correction, c = enter(by_feature, rows, i, h, h * bend)
        a = scalar.prox(loss, q + k * correction, y, h * k * c)
        phi_star = scalar.conjugate(loss, a, y)
        if not math.isfinite(phi_star):
            a = scalar.slope(loss, q, y)
            a = a if math.isfinite(a) else scalar.slope(loss, 0.0, y)
            phi_star = scalar.conjugate(loss, a, y)
        leave(by_feature, rows, i, h * a)
        unit = 0.0 if scalar.residual(loss) else 1.0
        size = abs(phi_star) + (unit + abs(a)) * (abs(a) + abs(y)) + 2.0 * abs(a * base)
        add_committed(record.sums, h, phi_star - a * base, size, a * a, scalar.infimum(loss, y))
        record.sums[at.RESIDUAL_SUM] += h * abs(q - y)


class VectorDuals(NamedTuple):
    """Duals for losses of K scores; ``cost`` is added to the nonzeros of a stored example."""

    cost: float

    def bend(self, loss: Any, record: Any, given: Any, i: int, y: Any) -> float:
        return 1.0 if kinked(loss) else vector.curvature(loss, given.scores[i], y)

    def commit(self, loss: Any, record: Any, given: Any, i: int, y: Any, h: float, bend: float) -> None:
        by_feature, rows, q, k = record.by_feature, given.rows, given.scores[i], strength(loss)
        p, a, c, squares = record.work[0], record.work[1], 0.0, 0.0
        for m in range(len(p)):
            p[m] = q[m]
        for e in range(begin(rows, i), end(rows, i)):
            j, s = column(rows, i, e), np.float64(rows.data[e])
            part = add_entry(by_feature, j, s, h, h * bend)
            c += part * s
            for m in range(len(p)):
                p[m] += k * (part * by_feature[j, at.THETA_COLUMN + m])
        vector.prox(loss, p, y, h * k * c, a)
        phi_star = vector.conjugate(loss, a, y)
        if not math.isfinite(phi_star):
            for m in range(len(p)):
                p[m] = q[m] if math.isfinite(q[m]) else 0.0
            vector.slope(loss, p, y, a)
            phi_star = vector.conjugate(loss, a, y)
        for m in range(len(a)):
            squares += a[m] * a[m]
        for e in range(begin(rows, i), end(rows, i)):
            j, s = column(rows, i, e), np.float64(rows.data[e])
            for m in range(len(a)):
                by_feature[j, at.THETA_COLUMN + m] -= h * a[m] * s
        length = math.sqrt(squares)
        size = abs(phi_star) + (1.0 + length) * length
        add_committed(record.sums, h, phi_star, size, squares, scalar.infimum(loss, y))


@formula
def strength(loss: Any) -> float:
    """k for a loss.

    If the loss is flat beyond a margin, as the hinge loss, weights of a mixture are boosted
    (:func:`giftrl.ops.loss.boost`), and k grows by the same factor.
    """
    return STEERING_STRENGTH * boost(loss) if reach(loss) < math.inf else STEERING_STRENGTH


@formula
def curvature(kind: Any, loss: Any, record: Any, given: Any, i: int, y: Any) -> float:
    """:func:`bend`, or 0 if it overflows float64."""
    bent = bend(kind, loss, record, given, i, y)
    return bent if math.isfinite(bent) else 0.0


@formula(fast=True)
def add_entry(by_feature: Any, j: int, s: float, h: float, bent: float) -> float:
    """Add an entry of a row to the sums of its feature, and return s/H_j, or 0 if H_j is 0."""
    square = s * s
    curved = by_feature[j, at.CURVATURE_COLUMN] + bent * square
    by_feature[j, at.CURVATURE_COLUMN] = curved
    by_feature[j, at.SQUARES_COLUMN] += h * square
    by_feature[j, at.SUMS_COLUMN] += h * s
    return s / curved if curved > 0.0 else 0.0


@formula(fast=True)
def enter(by_feature: Any, rows: Any, i: int, h: float, bent: float) -> tuple[float, float]:
    """Add row i to the sums of its features; return sum_j s_j theta_j/H_j and sum_j s_j^2/H_j."""
    correction, c = 0.0, 0.0
    for k in range(begin(rows, i), end(rows, i)):
        prefetch(by_feature, coming(rows, i, k), 0)
        j, s = column(rows, i, k), np.float64(rows.data[k])
        if s != 0.0:  # dense rows have many zeros
            part = add_entry(by_feature, j, s, h, bent)
            correction += part * by_feature[j, at.THETA_COLUMN]
            c += part * s
    return correction, c


@formula(fast=True)
def leave(by_feature: Any, rows: Any, i: int, z: float) -> None:
    """theta -= z s."""
    for k in range(begin(rows, i), end(rows, i)):
        if rows.data[k] != 0.0:
            by_feature[column(rows, i, k), at.THETA_COLUMN] -= z * np.float64(rows.data[k])


@formula
def add_committed(sums: Any, h: float, phi_star: float, size: float, squares: float, infimum: float) -> None:
    """Add an example to the sums over committed examples."""
    sums[at.COMMITTED_COUNT] += 1.0
    sums[at.COMMITTED_WEIGHT] += h
    sums[at.CONJUGATE_SUM] += h * phi_star
    sums[at.CONJUGATE_SIZE] += h * size
    sums[at.DUAL_SQUARES] += h * squares
    sums[at.INFIMUM_SUM] += h * infimum
