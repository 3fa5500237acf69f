"""Duals for the rows that are not kept.

A row that is not kept is committed: it gets a dual a, is added to sums, and is gone. Any a in the domain of phi* gives
a valid bound (:mod:`giftrl.certificates.bound`), which is high where theta = -sum_t h_t a_t s_t is small. The slope at
the prediction would leave theta wherever the predictions led. So duals are steered: with H_j the sum of h_t phi''_t
s_tj^2, row t included,

    a = prox slope of phi at q + k sum_j s_j theta_j / H_j, with the step length h k sum_j s_j^2 / H_j,

where q is the linear prediction, neither clipped nor made bold. That is the slope of a model that has moved by a part
of Newton's step towards theta = 0, and theta is drawn back to 0 at the price of a few losses that are not quite theirs.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.certificates.store import (
    COMMITTED,
    CONJUGATE,
    CURVED,
    DUAL_SQUARES,
    INFIMUM,
    RESIDUAL,
    SIZE,
    SQUARES,
    SUMS,
    THETA,
    WEIGHT,
)
from giftrl.compiled.lanes import prefetch
from giftrl.compiled.rows import begin, column, coming, end
from giftrl.errors import Incompatible
from giftrl.ops import formula, operation
from giftrl.ops import loss as scalar
from giftrl.ops import vector_loss as vector
from giftrl.ops.loss_scale import bold, kinked, reach

#: k, how strongly duals are steered. From 1 to 4 the bounds differ little.
STEER = 2.0


@formula
def strength(loss: Any) -> float:
    """k for a loss.

    Where larger predictions never pay beyond a reach, as with the hinge loss, the weights of a mixture are bold times
    as large as those that its experts have (:func:`giftrl.ops.loss_scale.bold`), and so is the ball: theta must be
    drawn back as much more. Measured on covtype with the hinge loss: k = 2 is 5.5% below the best loss, k = 20 1.4%.
    """
    return STEER * bold(loss) if reach(loss) < math.inf else STEER


class Rows(NamedTuple):
    """Rows of a batch as they are remembered: with the linear predictions for them, and what these start from."""

    rows: Any
    labels: Any
    weights: Any  # empty for all 1
    scores: Any
    bases: Any  # empty for all 0


class OneScore(NamedTuple):
    """How a row of a loss of one prediction is committed."""

    cost: float = 1.0  # of its score, so that rows without nonzeros have a price too

    def bend(self, loss: Any, store: Any, given: Any, i: int, y: Any) -> float:
        return bend_of_score(loss, store, given, i, y)

    def commit(self, loss: Any, store: Any, given: Any, i: int, y: Any, h: float, bend: float) -> None:
        commit_score(loss, store, given, i, y, h, bend, strength(loss))


class Scores(NamedTuple):
    """How a row of a loss of K scores is committed."""

    cost: float  # of its K scores

    def bend(self, loss: Any, store: Any, given: Any, i: int, y: Any) -> float:
        return bend_of_scores(loss, given, i, y)

    def commit(self, loss: Any, store: Any, given: Any, i: int, y: Any, h: float, bend: float) -> None:
        commit_scores(loss, store, given, i, y, h, bend, strength(loss))


@operation
def bend(kind: Any, loss: Any, store: Any, given: Any, i: int, y: Any) -> float:
    """The curvature of the loss of row i."""
    raise Incompatible("a kind of scores must bring bend(self, loss, store, given, i, y); add that method to its class")


@operation
def commit(kind: Any, loss: Any, store: Any, given: Any, i: int, y: Any, h: float, bend: float) -> None:
    """Give row i of weight h a steered dual, and add it to the sums."""
    raise Incompatible("a kind of scores must bring commit(self, loss, store, given, i, y, h, bend); add that method")


@formula
def bend_of_score(loss: Any, store: Any, given: Any, i: int, y: Any) -> float:
    """:func:`bend` for a loss of one prediction."""
    if not kinked(loss):
        return scalar.curvature(loss, given.scores[i, 0], y)
    # A loss of straight pieces: the parabola that is as high at the mean residual, or at the margin 1.
    away = store.sums[RESIDUAL]
    return store.sums[WEIGHT] / away if scalar.accepts(loss, 0.5) and away > 0.0 else 1.0


@formula
def bend_of_scores(loss: Any, given: Any, i: int, y: Any) -> float:
    """:func:`bend` for a loss of K scores."""
    return 1.0 if kinked(loss) else vector.curvature(loss, given.scores[i], y)


@formula
def commit_score(loss: Any, store: Any, given: Any, i: int, y: Any, h: float, bend: float, k: float) -> float:
    """:func:`commit` for a loss of one prediction, steered with the strength k; returns the dual."""
    record, sums, rows = store.record, store.sums, given.rows
    base = given.bases[i] if len(given.bases) > 0 else 0.0
    q = given.scores[i, 0] + base
    corr, c = enter(record, rows, i, h, h * bend)
    a = scalar.prox(loss, q + k * corr, y, h * k * c)
    phi_star = scalar.conjugate(loss, a, y)
    if not math.isfinite(phi_star):
        a = scalar.slope(loss, q, y)
        a = a if math.isfinite(a) else scalar.slope(loss, 0.0, y)
        phi_star = scalar.conjugate(loss, a, y)
    leave(record, rows, i, h * a)
    unit = 0.0 if scalar.residual(loss) else 1.0
    size = abs(phi_star) + (unit + abs(a)) * (abs(a) + abs(y)) + 2.0 * abs(a * base)
    add_committed(sums, h, phi_star - a * base, size, a * a, scalar.infimum(loss, y))
    sums[RESIDUAL] += h * abs(q - y)
    return a


@formula
def commit_scores(loss: Any, store: Any, given: Any, i: int, y: Any, h: float, bend: float, k: float) -> None:
    """:func:`commit` for a loss of K scores, steered with the strength k; the dual is left in ``store.work[1]``."""
    record, sums, rows, q = store.record, store.sums, given.rows, given.scores[i]
    p, a, c, squares = store.work[0], store.work[1], 0.0, 0.0
    for m in range(len(p)):
        p[m] = q[m]
    for e in range(begin(rows, i), end(rows, i)):
        j, s = column(rows, i, e), np.float64(rows.data[e])
        part = add_entry(record, j, s, h, h * bend)
        c += part * s
        for m in range(len(p)):
            p[m] += k * (part * record[j, THETA + m])
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
            record[j, THETA + m] -= h * a[m] * s
    length = math.sqrt(squares)
    add_committed(sums, h, phi_star, abs(phi_star) + (1.0 + length) * length, squares, scalar.infimum(loss, y))


@formula
def curvature(kind: Any, loss: Any, store: Any, given: Any, i: int, y: Any) -> float:
    """:func:`bend`, or 0 where it is beyond float64."""
    bent = bend(kind, loss, store, given, i, y)
    return bent if math.isfinite(bent) else 0.0


@formula(fast=True)
def add_entry(record: Any, j: int, s: float, h: float, bent: float) -> float:
    """Add an entry of a row to the sums of its feature, and return s/H_j; 0 where H_j is 0."""
    square = s * s
    curved = record[j, CURVED] + bent * square
    record[j, CURVED] = curved
    record[j, SQUARES] += h * square
    record[j, SUMS] += h * s
    return s / curved if curved > 0.0 else 0.0


@formula(fast=True)
def enter(record: Any, rows: Any, i: int, h: float, bent: float) -> tuple[float, float]:
    """Add row i to the sums of its features; return sum_j s_j theta_j/H_j and sum_j s_j^2/H_j."""
    corr, c = 0.0, 0.0
    for k in range(begin(rows, i), end(rows, i)):
        prefetch(record, coming(rows, i, k), 0)
        j, s = column(rows, i, k), np.float64(rows.data[k])
        if s != 0.0:  # dense rows have many zeros
            part = add_entry(record, j, s, h, bent)
            corr += part * record[j, THETA]
            c += part * s
    return corr, c


@formula(fast=True)
def leave(record: Any, rows: Any, i: int, z: float) -> None:
    """theta -= z s."""
    for k in range(begin(rows, i), end(rows, i)):
        if rows.data[k] != 0.0:
            record[column(rows, i, k), THETA] -= z * np.float64(rows.data[k])


@formula
def add_committed(sums: Any, h: float, phi_star: float, size: float, squares: float, infimum: float) -> None:
    """Add a row to the sums over committed rows."""
    sums[COMMITTED] += 1.0
    sums[WEIGHT] += h
    sums[CONJUGATE] += h * phi_star
    sums[SIZE] += h * size
    sums[DUAL_SQUARES] += h * squares
    sums[INFIMUM] += h * infimum
