"""Loops for one model with one strength for all coordinates and without an L1 term.

The rounds are those of :mod:`giftrl.kernels.uniform`. A row is done as soon as b is known: what it adds to the sums of
the certificate is computed later, for several rows together (:mod:`giftrl.kernels.certificate_terms`).
"""

import math
from typing import Any

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.kernels.base import Batch, weight
from giftrl.kernels.certificate_terms import PAGE, Desk, enter, settle
from giftrl.kernels.dense_simd import dense_row, dot, fill, move, pour
from giftrl.kernels.scalar_round import (
    Decided,
    Parts,
    Scalars,
    decide,
    enough,
    finite,
    put_back,
    take_out,
    with_norm,
    with_rounding,
)
from giftrl.kernels.uniform import ONLY, Example, begin_round, finish_round, led, norm_squared
from giftrl.ops.line import Affine
from giftrl.ops.loss import drop
from giftrl.schedules.contract import uses_gamma

#: A step whose square is below this does not lead beyond float32: half of the last place of its largest number is 1e31.
LARGE = 1e60


@formula(fast=True)
def plain(a: float, n2: float) -> bool:
    """Whether a and a s can be had in float32: neither is large, and s is not so large that a tiny a counts."""
    return a * a < LARGE and n2 < 1e30 and a * a * n2 < LARGE


@formula(fast=True)
def begin_row(parts: Parts, example: Example, now: Scalars) -> tuple[float, Affine, Decided, float]:
    """The prediction, the line, what is decided, and lambda_{t+1} if it is known already."""
    p, start, step, next_lam = begin_round(parts, example, now)
    line = Affine(start, step)
    asked = uses_gamma(parts.schedule) and parts.ahead
    return p, line, decide(parts, example.y, example.h, p, line, asked), next_lam


@formula(fast=True)
def end_row(
    parts: Parts, example: Example, p: float, line: Affine, decided: Decided, next_lam: float, now: Scalars
) -> Scalars:
    """The scalars after a round, but for the sums of the certificate."""
    fall = decided.fall
    if uses_gamma(parts.schedule) and not parts.ahead:
        fall = drop(parts.loss, p, led(parts, example, line, decided.b, next_lam), example.y)
    return finish_round(parts, example, example.h * decided.b, fall, next_lam, now)


@formula(fast=True)
def fits(rows: Any, i: int, theta: Any, a: float) -> bool:
    """Whether theta - a s can be stored."""
    zero = 0.0
    for k in range(begin(rows, i), end(rows, i)):
        new = theta.dtype.type(np.float64(theta[column(rows, i, k), ONLY]) - a * np.float64(rows.data[k]))
        zero += 0.0 * np.float64(new)
    return zero == 0.0


@formula(fast=True)
def learn_one_uniform(parts: Parts, batch: Batch, theta: Any, state: Any, desk: Desk) -> int:
    """Learn from rows of any kind; how many before one that overflows."""
    rows, labels, weights, predictions = batch
    page, now, done, k = desk.page, take_out(state, 0), len(labels), 0
    for i in range(len(labels)):
        ts, n2 = 0.0, 0.0
        for at in range(begin(rows, i), end(rows, i)):
            s = np.float64(rows.data[at])
            ts += s * np.float64(theta[column(rows, i, at), ONLY])
            n2 += s * s
        example = Example(labels[i], weight(weights, i), ts, n2)
        p, line, decided, next_lam = begin_row(parts, example, now)
        a = example.h * decided.b
        predictions[i] = p
        after = end_row(parts, example, p, line, decided, next_lam, now)
        safe = a * a * n2 < LARGE
        if abs(a) < math.inf and after.rounding < math.inf and (safe or fits(rows, i, theta, a)):
            for at in range(begin(rows, i), end(rows, i)):
                j = column(rows, i, at)
                theta[j, ONLY] = np.float64(theta[j, ONLY]) - a * np.float64(rows.data[at])
            enter(page, k, example.y, example.h, p, line, decided)
            k += 1
            walked = after.walked + float(end(rows, i) - begin(rows, i))
            if enough(walked, theta.shape[0]):
                now = with_norm(after, norm_squared(theta, 0), 0.0)
            else:
                now = with_norm(after, after.theta2, walked)
        else:
            done = i
        if k == PAGE or done == i or i + 1 == len(labels):
            now, k = settle(parts, page, k, now), 0
        if done == i:
            break
    put_back(state, 0, now)
    return done


@formula(fast=True)
def learn_dense_uniform(parts: Parts, batch: Batch, theta: Any, state: Any, desk: Desk) -> int:
    """Learn from dense rows of eight features or more, on a copy of theta that is written back at the end.

    How many rows there are; or fewer where a number is near the ends of its type, and then nothing is learnt.
    """
    rows, labels, weights, predictions = batch
    x, n = rows.data[None, :], len(labels)
    page, copy, _, mask, eight = desk
    fill(copy, 0, theta[:, 0])
    now, k = take_out(state, 0), 0
    for i in range(n):
        row = dense_row(i, theta.shape[0])
        ts, n2 = dot(row, x, mask, copy, eight)
        example = Example(labels[i], weight(weights, i), ts, n2)
        p, line, decided, next_lam = begin_row(parts, example, now)
        a = example.h * decided.b
        move(row, x, mask, copy, a)
        predictions[i] = p
        enter(page, k, example.y, example.h, p, line, decided)
        k += 1
        now = end_row(parts, example, p, line, decided, next_lam, now)
        # theta - a s is computed in the type of theta. That rounds s, a and their product, too: by 3 units of 2^-24 of
        # z = a s in float32, where storing theta rounds by one of theta. (norm(theta) + 3 norm(z))^2 is at most
        # (1 + 1/8) norm(theta)^2 + (1 + 8) 9 norm(z)^2.
        now = with_rounding(now, now.rounding + 0.125 * now.theta2 + 81.0 * (a * a * n2))
        if not (plain(a, n2) and now.rounding < math.inf):
            return i
        walked = now.walked + float(theta.shape[0])
        if enough(walked, theta.shape[0]):
            now = with_norm(now, norm_squared(copy[:1].T, 0), 0.0)
        else:
            now = with_norm(now, now.theta2, walked)
        if k == PAGE or i + 1 == n:
            now, k = settle(parts, page, k, now), 0
    if n > 0 and not finite(now):
        return n - 1
    pour(copy, 0, theta[:, 0])
    put_back(state, 0, now)
    return n
