"""Loops for one model with a strength for each coordinate, centred and without an L1 term.

The rounds are those of :mod:`giftrl.kernels.coordinate`. As in :mod:`giftrl.kernels.one_uniform`, what a row adds to
the sums of the certificate is computed later. Coordinates are moved in the type in which they are stored, those of
dense rows eight at a time; so psi must be one whose formulas take numbers side by side
(:func:`giftrl.regularizers.contract.side_by_side`).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.kernels.base import Batch, weight
from giftrl.kernels.certificate_terms import PAGE, Desk, enter, settle
from giftrl.kernels.dense_simd import THETA, Q, Sums, X, dense_row, fill, measure, pour, shift
from giftrl.kernels.one_uniform import LARGE, plain
from giftrl.kernels.scalar_round import (
    LONGEST,
    Change,
    Decided,
    Parts,
    Scalars,
    changed,
    decide,
    finite,
    lambda_after,
    put_back,
    take_out,
)
from giftrl.ops.line import Affine
from giftrl.regularizers.contract import accumulate, strength
from giftrl.schedules.contract import evidence, uses_gamma

#: The model, the only one; unsigned, so that compiled code does not check its sign.
ONLY = np.uint64(0)
ONE, TWO = np.uint64(1), np.uint64(2)
#: Where lambda or norm2(s)^2 is below this, coordinates are moved in float64: in float32 they could vanish.
SMALL = 1e-30


class Measured(NamedTuple):
    """An example as a round sees it."""

    y: float
    h: float  # the weight
    p: float  # the prediction
    c: float  # sum_j s_j^2/L_j
    n2: float  # norm2(s)^2


@formula(fast=True)
def end_row(parts: Parts, seen: Measured, decided: Decided, stored: float, now: Scalars) -> Scalars:
    """The scalars after a round, but for the sums of the certificate."""
    schedule, a, gamma = parts.schedule, seen.h * decided.b, 0.0
    if uses_gamma(schedule):
        gamma = seen.h * decided.fall - 0.5 * a * a * seen.c
    z2 = a * a * seen.n2
    stored = 1.125 * stored + 81.0 * z2  # as in one_uniform, where the bound is derived
    change = Change(lambda_after(schedule, now, gamma, z2), evidence(schedule, gamma, z2), 0.0, 0.0, stored)
    return changed(now, change)


@formula(fast=True)
def short(a: float, n2: float, bend: float, lam_now: float) -> bool:
    """Whether no coordinate can go beyond float32, and none vanishes; abs(s_j/L_j) is at most norm2(s)/lambda."""
    ordinary = lam_now > SMALL and (n2 == 0.0 or n2 > SMALL)
    return ordinary and plain(a, n2) and a * a * n2 < LARGE * (lam_now * lam_now) and bend * n2 < 1e30


@formula(fast=True)
def learn_dense_coordinate(parts: Parts, batch: Batch, coordinates: Any, state: Any, desk: Desk) -> int:
    """Learn from dense rows of eight features or more, on a copy of the coordinates that is written back at the end.

    How many rows there are; or fewer where a number is near the ends of its type, and then nothing is learnt.
    """
    rows, labels, weights, predictions = batch
    x, n = rows.data[None, :], len(labels)
    page, copy, steps, mask, eight = desk
    for r in (X, Q, THETA):
        fill(copy, r, coordinates[:, 0, r])
    now, k = take_out(state, 0), 0
    for i in range(n):
        row, y, h = dense_row(i, coordinates.shape[0]), labels[i], weight(weights, i)
        p, c, n2 = measure(parts.psi, row, x, mask, copy, steps, now.lam, eight)
        line = Affine(p, min(h * c, LONGEST))
        decided = decide(parts, y, h, p, line, uses_gamma(parts.schedule))
        a = h * decided.b
        stored = shift(parts.psi, row, x, mask, copy, steps, a, h * decided.bend, eight)
        predictions[i] = p
        enter(page, k, y, h, p, line, decided)
        k += 1
        fits = short(a, n2, h * decided.bend, now.lam)
        now = end_row(parts, Measured(y, h, p, c, n2), decided, stored, now)
        if not (fits and now.rounding < math.inf):
            return i
        if k == PAGE or i + 1 == n:
            now, k = settle(parts, page, k, now), 0
    if n > 0 and not finite(now):
        return n - 1
    for r in (X, Q, THETA):
        pour(copy, r, coordinates[:, 0, r])
    put_back(state, 0, now)
    return n


@formula(fast=True)
def measure_entry(psi: Any, lam: Any, coordinates: Any, j: Any, value: Any, steps: Any, at: Any) -> Sums:
    """What an entry adds to the sums, and s_j/L_j into ``steps``."""
    s, exact = coordinates.dtype.type(value), np.float64(value)
    step = s / strength(psi, lam, coordinates[j, ONLY, Q])
    steps[at] = step
    return Sums(exact * np.float64(coordinates[j, ONLY, X]), s * step, exact * exact)


@formula(fast=True)
def measure_entries(
    psi: Any, rows: Any, i: int, coordinates: Any, steps: Any, lam_now: float
) -> tuple[float, float, float]:
    """p, c and norm2(s)^2 of a row, and s_j/L_j into ``steps``. Two sums each, so that additions need not wait."""
    first, last, kind = begin(rows, i), end(rows, i), coordinates.dtype.type
    lam, p, c, n2 = kind(lam_now), 0.0, kind(0.0), 0.0
    other_p, other_c, other_n2 = p, c, n2
    whole = first + (last - first) // TWO * TWO
    for pair in range(first, whole, TWO):
        k: Any = np.uint64(pair)
        one = measure_entry(psi, lam, coordinates, column(rows, i, k), rows.data[k], steps, k - first)
        k = k + ONE
        two = measure_entry(psi, lam, coordinates, column(rows, i, k), rows.data[k], steps, k - first)
        p, c, n2 = p + one.p, c + one.c, n2 + one.n2
        other_p, other_c, other_n2 = other_p + two.p, other_c + two.c, other_n2 + two.n2
    for entry in range(whole, last):
        k = np.uint64(entry)
        one = measure_entry(psi, lam, coordinates, column(rows, i, k), rows.data[k], steps, k - first)
        p, c, n2 = p + one.p, c + one.c, n2 + one.n2
    return p + other_p, np.float64(c + other_c), n2 + other_n2


@formula(fast=True)
def move_entry(psi: Any, coordinates: Any, j: Any, s: Any, step: Any, a: Any, bend: Any) -> float:
    """Move a coordinate; theta^2."""
    theta = coordinates[j, ONLY, THETA] - a * s
    coordinates[j, ONLY, X] -= a * step
    coordinates[j, ONLY, Q] = accumulate(psi, coordinates[j, ONLY, Q], a * s, bend * (s * s))
    coordinates[j, ONLY, THETA] = theta
    return np.float64(theta) * np.float64(theta)


@formula(fast=True)
def move_entries(psi: Any, rows: Any, i: int, coordinates: Any, steps: Any, a: float, bend: float) -> float:
    """Move the coordinates of a row in the type in which they are stored; norm2^2 of its theta."""
    first, last, kind = begin(rows, i), end(rows, i), coordinates.dtype.type
    slope, curve = kind(a), kind(bend)
    even, odd = 0.0, 0.0
    whole = first + (last - first) // TWO * TWO
    for pair in range(first, whole, TWO):
        k: Any = np.uint64(pair)
        j, s, step = column(rows, i, k), kind(rows.data[k]), steps[k - first]
        even += move_entry(psi, coordinates, j, s, step, slope, curve)
        j, s, step = column(rows, i, k + ONE), kind(rows.data[k + ONE]), steps[k + ONE - first]
        odd += move_entry(psi, coordinates, j, s, step, slope, curve)
    for entry in range(whole, last):
        k = np.uint64(entry)
        j, s, step = column(rows, i, k), kind(rows.data[k]), steps[k - first]
        even += move_entry(psi, coordinates, j, s, step, slope, curve)
    return even + odd


@formula(fast=True)
def learn_one_coordinate(parts: Parts, batch: Batch, coordinates: Any, state: Any, desk: Desk) -> int:
    """Learn from rows of any kind; how many before one that leads near the ends of a type."""
    rows, labels, weights, predictions = batch
    n, page, steps = len(labels), desk.page, desk.steps[0]
    now, k, done = take_out(state, 0), 0, n
    for i in range(n):
        y, h = labels[i], weight(weights, i)
        p, c, n2 = measure_entries(parts.psi, rows, i, coordinates, steps, now.lam)
        line = Affine(p, min(h * c, LONGEST))
        decided = decide(parts, y, h, p, line, uses_gamma(parts.schedule))
        a = h * decided.b
        if short(a, n2, h * decided.bend, now.lam) and now.rounding < math.inf:
            stored = move_entries(parts.psi, rows, i, coordinates, steps, a, h * decided.bend)
            predictions[i] = p
            enter(page, k, y, h, p, line, decided)
            k += 1
            now = end_row(parts, Measured(y, h, p, c, n2), decided, stored, now)
        else:
            done = i
        if k == PAGE or done == i or i + 1 == n:
            now, k = settle(parts, page, k, now), 0
        if done == i:
            break
    put_back(state, 0, now)
    return done
