"""The experts of a mixture for K scores: those of :mod:`giftrl.mixtures.experts`, the coin and the full matrix.

Strengths L_j are shared by the classes and by the experts, from the curvature and the slope of the loss at the combined
scores. So c = sum_j u_j^2/L_j is one number, and a step is the proximal K-vector a of the loss: x[m, r] -= a_m u_j/L_j.
The coin bets for each class by itself. The full matrix has an inverse A_m for each class, with a quarter of its
curvature (a rate of 4, as in the grid); its step is taken at the mean of the lengths <u, A_m u>, by the squared slopes.

A feature is one piece of memory: its record and K thetas in float64, then q_j, r_j, its place in the full matrix, the
weights x[m, r] of class m and expert r, experts side by side, and theta, G and wealth of the coin for each class.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.mixtures.coin import RICHEST, WEALTH
from giftrl.mixtures.experts import ADAGRAD, CURVATURE, LARGEST, lanes
from giftrl.mixtures.full_matrix import BETA, CREDIT, Matrix, is_in
from giftrl.mixtures.layout import LINE, THETA, lines
from giftrl.ops.scalar import clamp
from giftrl.regularizers.contract import accumulate, strength

__all__ = ["Columns", "class_matrix", "columns", "feature_memory", "follow", "measure", "measure_others", "step"]

#: How many numbers the full matrices of all classes have at most: K places^2.
ENTRIES = 1 << 18
#: The rate of the full matrix.
RATE = 4.0
#: One round divides what an inverse says of a direction by this at most: of more, rounding would leave nothing.
SHARPEST = 1e6


class Columns(NamedTuple):
    """Where the numbers of a feature are, counted in the type in which weights are stored."""

    curve: Any
    root: Any
    place: Any
    lanes: Any
    coin: Any
    total: Any


def columns(classes: int, experts: int, dtype: Any) -> Columns:
    """The places for K classes and this many experts side by side.

    >>> [int(place) for place in columns(3, 4, np.float32)]
    [16, 17, 18, 32, 44, 64]
    """
    size = np.dtype(dtype).itemsize
    line = LINE // size
    curve = (THETA + classes) * 8 // size
    first = -(-(curve + 3) // line) * line  # weights begin at a cache line, and so does the next feature
    coin = first + classes * experts
    total = -(-(coin + 3 * classes) // line) * line
    return Columns(*(np.uint64(place) for place in (curve, curve + 1, curve + 2, first, coin, total)))


def feature_memory(features: int, places: Columns, dtype: Any) -> NDArray[np.float64]:
    """Zeros for this many features; the view of float64."""
    return lines(features, int(places.total) * np.dtype(dtype).itemsize)


def class_matrix(classes: int, places: int) -> Matrix:
    """An inverse for each class and a matrix of weights: for this many features, or fewer where classes are many.

    >>> class_matrix(100, 128).inverse.shape, class_matrix(3, 0).size
    ((100, 51, 51), array([-1]))
    """
    places = min(places, math.isqrt(ENTRIES // classes))
    size, credit = np.array([0 if places > 0 else -1], np.int64), np.array([CREDIT])
    return Matrix(np.zeros((classes, places, places)), np.zeros((places, classes)), np.zeros(places), size, credit)


@formula(fast=True)
def wagers(x: Any, j: int, places: Any, norm: float, out: Any) -> None:
    """The weights of the coin for feature j (:mod:`giftrl.mixtures.coin`)."""
    classes, at = np.uint64(len(out)), places.coin
    own = x[j]
    theta, slopes = own[at : at + classes], own[at + classes : at + classes + classes]
    wealth = own[at + classes + classes : at + classes + classes + classes]
    for m in range(len(out)):
        out[m] = (WEALTH + np.float64(wealth[m])) * np.float64(theta[m]) / (norm + norm * np.float64(slopes[m]))


@formula(fast=True)
def settle(x: Any, j: int, places: Any, a: Any, u: float, bets: Any, norm: float) -> None:
    """Take in the slopes a of the coin, and what its bets have won."""
    classes, at = np.uint64(len(a)), places.coin
    own = x[j]
    theta, slopes = own[at : at + classes], own[at + classes : at + classes + classes]
    wealth = own[at + classes + classes : at + classes + classes + classes]
    for m in range(len(a)):
        theta[m] = np.float64(theta[m]) - a[m] * u
    for m in range(len(a)):
        slopes[m] = np.float64(slopes[m]) + abs(a[m] * u)
    for m in range(len(a)):
        wealth[m] = clamp(np.float64(wealth[m]) - a[m] * u * bets[m] * norm, 0.0, RICHEST)


@formula(fast=True)
def follow(grid: Any, places: Any, x: Any, matrix: Any, classes: Any, j: int, factor: float, norm: float) -> None:
    """Follow a scale m_j that has grown, factor = m_old/m_new, as grow, grow_coin and grow_matrix do for one class."""
    n, own = np.uint64(lanes(grid)), x[j]
    q, z2 = np.float64(own[places.curve]), np.float64(own[places.root])
    new_q, new_z2 = factor * factor * q, factor * factor * z2
    root, new_root = strength(ADAGRAD, math.sqrt(norm), z2), strength(ADAGRAD, math.sqrt(norm), new_z2)
    for r in range(n):
        old = strength(CURVATURE, grid.prior[r] * norm, grid.curve[r] * q) + grid.root[r] * root
        new = strength(CURVATURE, grid.prior[r] * norm, grid.curve[r] * new_q) + grid.root[r] * new_root
        for m in range(classes):
            at = places.lanes + m * n + r
            own[at] = np.float64(own[at]) * (factor * (old / new))
    own[places.curve], own[places.root] = new_q, new_z2
    for m in range(classes + classes):
        own[places.coin + m] = factor * np.float64(own[places.coin + m])
    s = np.int64(own[places.place]) - 1
    if is_in(matrix) and s >= 0:
        for m in range(classes):
            grow_place(matrix.inverse[m], matrix.size[0], s, factor, matrix.prior[s], matrix.x[s], m)


@formula(fast=True)
def grow_place(a: Any, size: int, s: Any, factor: float, prior: float, x: Any, m: Any) -> None:
    """:func:`giftrl.mixtures.full_matrix.grow_matrix` for one class."""
    if not a[s, s] > 0.0:  # lost to rounding: as a new feature
        for k in range(size):
            a[s, k], a[k, s] = 0.0, 0.0
        a[s, s] = prior
    most = math.sqrt(prior / a[s, s])
    g = max(1.0, min(1.0 / factor, most) if factor > 0.0 else most)
    for k in range(size):
        a[s, k] *= g
        a[k, s] *= g
    x[m] *= factor * g * g


@formula(fast=True)
def measure(
    grid: Any, places: Any, x: Any, row: Any, count: Any, norm: float, p: Any, moved: Any, c: Any, steps: Any,
    factors: Any,
) -> None:  # fmt: skip
    """p[m, r], the drift of the constants and c_r of the grid for a row; u_j/L_j goes into ``steps``.

    p and moved are flat, since long loops are fast ones.
    """
    real = x.dtype.type
    n = np.uint64(lanes(grid))
    for r in range(n):
        factors[0, r], factors[1, r] = grid.prior[r] * norm, grid.curve[r]
        factors[2, r], c[r] = grid.root[r] * math.sqrt(norm), 0.0
    for k in range(count):
        j, u = row.j[k], real(row.u[k])
        q, root = x[j, places.curve], strength(ADAGRAD, 1.0, x[j, places.root])
        for r in range(n):
            steps[k, r] = u / (strength(CURVATURE, factors[0, r], factors[1, r] * q) + factors[2, r] * real(root))
    for k in range(count):
        for r in range(n):
            c[r] += row.u[k] * np.float64(steps[k, r])
    for e in range(len(p)):
        p[e], moved[e] = 0.0, 0.0
    for k in range(count):
        own, u, drift = x[row.j[k]][places.lanes : places.coin], row.u[k], row.drift[k]
        if drift == 0.0:
            for e in range(len(p)):
                p[e] += u * np.float64(own[e])
        else:
            for e in range(len(p)):
                p[e] += u * np.float64(own[e])
                moved[e] += drift * np.float64(own[e])


@formula(fast=True)
def measure_others(
    places: Any, x: Any, matrix: Any, row: Any, count: Any, norm: float, scores: Any, moved: Any, bets: Any
) -> None:
    """The scores of the coin and of the full matrix, before their constants, and the drift of these."""
    for m in range(len(scores[0])):
        scores[0, m], scores[1, m], moved[0, m], moved[1, m] = 0.0, 0.0, 0.0, 0.0
    for k in range(count):
        j, u, drift, bet = row.j[k], row.u[k], row.drift[k], bets[k]
        wagers(x, j, places, norm, bet)
        for m in range(len(bet)):
            scores[0, m] += u * bet[m]
            moved[0, m] += drift * bet[m]
        s = np.int64(x[j, places.place]) - 1
        if is_in(matrix) and s >= 0:
            own = matrix.x[s]
            for m in range(len(own)):
                scores[1, m] += u * own[m]
                moved[1, m] += drift * own[m]


@formula(fast=True)
def step(grid: Any, places: Any, x: Any, row: Any, count: Any, a: Any, steps: Any, bend: float, steep: float) -> None:
    """x[m, r] -= a[m, r] u_j/L_j, and what coordinates remember: the curvature and the slope."""
    n = np.uint64(lanes(grid))
    for k in range(count):
        own, mine = x[row.j[k]][places.lanes : places.coin], steps[k]
        at = np.uint64(0)
        while at < np.uint64(len(a)):
            for r in range(n):
                own[at + r] -= a[at + r] * mine[r]
            at += n
    for k in range(count):
        j, u = row.j[k], row.u[k]
        q, z2 = np.float64(x[j, places.curve]), np.float64(x[j, places.root])
        x[j, places.curve] = min(accumulate(CURVATURE, q, 0.0, bend * u * u), LARGEST)
        x[j, places.root] = min(accumulate(ADAGRAD, z2, steep * u, 0.0), LARGEST)


@formula(fast=True)
def admit(places: Any, x: Any, matrix: Any, row: Any, count: Any, norm: float) -> None:
    """Give the new features of a row their places in the full matrix; leave where there is no room."""
    for k in range(count):
        j = row.j[k]
        if row.u[k] != 0.0 and x[j, places.place] == 0.0 and is_in(matrix):
            s = matrix.size[0]
            if s == len(matrix.x):
                matrix.size[0] = -1
            else:
                matrix.size[0] = s + 1
                x[j, places.place] = s + 1
                matrix.prior[s] = BETA / norm
                for m in range(len(matrix.inverse)):
                    matrix.inverse[m, s, s] = matrix.prior[s]


@formula(fast=True)
def spread(places: Any, x: Any, matrix: Any, row: Any, count: Any, g: Any, au: Any, c: Any) -> float:
    """A_m u into ``au`` and <u, A_m u> into ``c`` for each class; the mean of these by g_m^2."""
    n, total, weight = matrix.size[0], 0.0, 0.0
    for m in range(len(c)):
        for i in range(n):
            au[m, i] = 0.0
        c[m] = 0.0
    for k in range(count):
        s, u = np.int64(x[row.j[k], places.place]) - 1, row.u[k]
        if s >= 0:
            for m in range(len(c)):
                own, sums = matrix.inverse[m, s], au[m]
                for i in range(n):
                    sums[i] += u * own[i]
    for k in range(count):
        s, u = np.int64(x[row.j[k], places.place]) - 1, row.u[k]
        if s >= 0:
            for m in range(len(c)):
                c[m] += u * au[m, s]
    for m in range(len(c)):
        c[m] = max(0.0, c[m])
        total += g[m] * g[m] * c[m]
        weight += g[m] * g[m]
    return total / weight if weight > 0.0 else 0.0


@formula(fast=True)
def step_matrix(matrix: Any, au: Any, c: Any, a: Any, bends: Any, h: float) -> None:
    """x_m -= a_m A_m u, and the curvature into A_m; ``bends`` are bounds, twice the diagonal of the Hessian."""
    n = matrix.size[0]
    for m in range(len(c)):
        bend = min(h * bends[m] / (2.0 * RATE), SHARPEST / c[m]) if c[m] > 0.0 else 0.0
        part, mine = bend / (1.0 + bend * c[m]), au[m]
        for k in range(n):
            matrix.x[k, m] -= a[m] * mine[k]
            lost, own = part * mine[k], matrix.inverse[m, k]
            for i in range(n):
                own[i] -= lost * mine[i]
