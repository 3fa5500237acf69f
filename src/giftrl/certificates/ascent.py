"""Coordinate ascent on the duals, for losses with kinks and many features.

The dual D(a) = -sum_i h_i phi*(a_i) - R |res|, res = theta - A'(h a), is the largest value over mu > 0 of

    -sum_i h_i phi*(a_i) - |res|^2/(2 mu) - mu R^2/2,

which is concave in a and mu together, and largest at mu = |res|/R. With mu fixed, the best a_i for a single row i is
the proximal slope of phi at <A_i, res>/mu + eps a_i with eps = h_i |A_i|^2/mu: one walk over the nonzeros of the row.
Rows take turns in random order (Shalev-Shwartz and Zhang 2013) until the gap of the problem with this mu is small, and
then mu follows. (If it followed at once, mu and res would fall to 0 together, which gives the bound for no ball.)

With A = X - 1 t', res = r + t S with r = theta - X'(h a) and S = sum_i h_i a_i, so a sparse X stays sparse.
"""

import math
import time
from typing import Any, NamedTuple

import numpy as np

from giftrl.certificates.problem import Problem
from giftrl.certificates.units import Array
from giftrl.compiled.compiler import ready
from giftrl.ops import formula
from giftrl.ops import loss as scalar

#: How many times all rows take turns before the gap is looked at, and the least first mu, in loss over radius^2.
TURNS, LEAST = 3, 1e-9
#: The problem with some mu is solved when its own gap is this share of the gap of the ball.
SOLVED = 0.2
#: A bound that can be above the floor by no more than this share of the loss of the model 0 is not worth the time.
NOTHING = 1e-7


class Ascent(NamedTuple):
    """Where coordinate ascent stopped."""

    duals: Array
    z: Array
    turns: int
    lower: float
    upper: float


def serves(problem: Problem) -> bool:
    """Whether coordinate ascent can solve this problem: one score, sparse rows, and a ball without a ridge."""
    one = problem.theta.ndim == 1 and not problem.rows.dense
    return one and problem.ridge == 0.0 and 0.0 < problem.radius < math.inf and len(problem.weights) > 0


def ascend(problem: Problem, start: Array, end: float, turns: int, gap: float) -> Ascent:
    """Raise D from the slopes at the coordinates ``start``.

    Args:
        problem: one that it serves.
        start: in the ball.
        end: the time at which to stop.
        turns: how many times at most all rows take turns.
        gap: the share of F(z) at which the gap between F(z) and D(a) is closed.
    """
    rows, radius, n = problem.rows, problem.radius, len(problem.weights)
    p = rows.scores(start)
    a, _, _ = problem.land(p, 0.0, np.zeros(n))
    shifted = rows.x @ rows.t
    tt = float(rows.t @ rows.t)
    squares = np.asarray(rows.x.multiply(rows.x).sum(axis=1)).ravel() - 2.0 * shifted + tt
    size = abs(problem.primal(np.zeros_like(start), np.zeros(n)))
    best = Ascent(a.copy(), start, 0, -math.inf, problem.primal(start, p))
    random, used, mu, earlier = np.random.default_rng(0), 0, 0.0, (0.0, 0.0)
    while True:
        lower, gathered = problem.dual(p, a)
        res = problem.theta - gathered
        norm = float(np.linalg.norm(res))
        if mu == 0.0:
            mu = max(norm / radius, LEAST * size / radius**2, 1e-300)
        z = res / mu
        length, p = norm / mu, rows.scores(z)
        inside = min(1.0, radius / length) if length > 0.0 else 1.0
        upper = problem.primal(inside * z, inside * p)
        if lower > best.lower:
            best = best._replace(duals=a.copy(), lower=lower)
        if upper < best.upper:
            best = best._replace(z=inside * z, upper=upper)
        best = best._replace(turns=used)
        enough = best.upper - best.lower <= gap * max(abs(best.upper), 1e-6 * size)
        enough = enough or best.upper <= problem.floor + NOTHING * size
        if enough or used >= turns or time.monotonic() >= end:
            return best
        # The gap of the problem with the penalty, |res|^2/mu = mu |z|^2.
        open_gap = problem.primal(z, p) - lower - radius * norm + mu * length * length
        if used > 0 and open_gap <= SOLVED * (upper - lower):
            mu, earlier = _closer(mu, length, radius, earlier), (mu, length)
        duals = problem.weighted(a)
        r = problem.theta - rows.transposed @ duals
        sums = np.array([duals.sum(), rows.t @ r, tt])
        x = rows.x
        for _ in range(TURNS):
            order = random.permutation(n)
            ready(turn)(
                problem.loss, x.data, x.indices, x.indptr, problem.labels, problem.weights, order, shifted, squares, mu,
                a, r, sums,
            )  # fmt: skip
            used += 1


def _closer(mu: float, length: float, radius: float, earlier: tuple[float, float]) -> float:
    """A mu whose z is closer to the edge of the ball: 1/|z| is nearly linear in mu.

    >>> round(_closer(1.0, 0.5, 1.0, (2.0, 0.25)), 3), round(_closer(1.0, 3.0, 1.0, (0.0, 0.0)), 3)
    (0.5, 3.0)
    """
    if length == 0.0:
        return 0.2 * mu
    wanted = mu * length / radius
    before, its = earlier
    if its > 0.0 and its != length and before != mu:
        slope = (1.0 / length - 1.0 / its) / (mu - before)
        if slope > 0.0:
            wanted = mu + (1.0 / radius - 1.0 / length) / slope
    return min(max(wanted, 0.2 * mu), 5.0 * mu)


@formula
def turn(
    loss: Any, data: Any, indices: Any, indptr: Any, y: Any, weights: Any, order: Any, shifted: Any, squares: Any,
    mu: float, a: Any, r: Any, sums: Any,
) -> None:  # fmt: skip
    """Each row in turn gets its best dual; ``sums`` are S, <t, r> and <t, t>."""
    for i in order:
        dot = sums[0] * shifted[i] - sums[1] - sums[0] * sums[2]
        for k in range(indptr[i], indptr[i + 1]):
            dot += data[k] * r[indices[k]]
        eps = weights[i] * max(squares[i], 0.0) / mu
        b = scalar.prox(loss, dot / mu + eps * a[i], y[i], eps)
        change = weights[i] * (a[i] - b)
        if change != 0.0 and math.isfinite(change):
            for k in range(indptr[i], indptr[i + 1]):
                r[indices[k]] += change * data[k]
            sums[0] -= change
            sums[1] += change * shifted[i]
            a[i] = b
