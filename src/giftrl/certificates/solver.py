"""The solver: duals for which the bound is nearly optimal.

:func:`solve` minimises F of a :class:`~giftrl.certificates.problem.BallProblem` by Newton's method. The slopes at its
points are duals. A loss with kinks and many features is left to coordinate ascent on the duals (:func:`ascend`).
"""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from giftrl.certificates.bound import Array, price
from giftrl.certificates.problem import BallProblem
from giftrl.compiled.compiler import ready
from giftrl.compiled.rows import CSR
from giftrl.ops import formula
from giftrl.ops import loss as scalar
from giftrl.ops.loss import kinked

#: Up to this many coordinates Newton's method uses the matrix of second derivatives, beyond it products only; and the
#: most numbers in the K x K blocks of all rows.
MAX_DIRECT_COORDINATES, MAX_BLOCK_NUMBERS = 400, 20_000_000
#: The gap between primal and dual at which the solver stops, as a share of the solution and of the loss of the model 0.
CLOSED_GAP, CLOSED_GAP_OF_ZERO = 1e-7, 1e-13
#: The factor by which smoothing falls, and the least smoothing, as a share of the one that moves predictions by as much
#: as their losses.
SMOOTHING_FACTOR, MIN_SMOOTHING = 0.3, 1e-4
#: A smoothed problem is solved when its own gap is this share of the gap that smoothing leaves.
SMOOTHED_GAP_SHARE = 0.1
#: The solver starts at the best of these multiples of the given model, or at 0.
START_FACTORS = (1.0, 0.3, 0.1, 0.03)
#: This many turns of coordinate ascent count as one step.
TURNS_PER_STEP = 30
#: The solver gives up after this many steps in a row without a smaller gap.
MAX_IDLE_STEPS = 6
#: All rows take this many turns between two computations of the gap.
TURNS_PER_CHECK = 3
#: The least first mu of coordinate ascent, in loss over radius^2.
MIN_PENALTY = 1e-9
#: The problem with one mu is solved when its own gap is this share of the gap of the ball.
PENALTY_GAP_SHARE = 0.2
#: Coordinate ascent stops if the bound can exceed the floor by at most this share of the loss of the model 0.
USELESS_SHARE = 1e-7


class Solution(NamedTuple):
    """The result of the solver; upper minus gap is the largest D."""

    duals: Array  # the best duals
    z: Array  # the last coordinates
    steps: int
    gap: float  # gap between primal and dual
    upper: float  # the smallest F at any point of the ball
    what: str = "Newton steps"  # the name of the method


def solve(
    problem: BallProblem, start: Array, time_limit: float = math.inf, steps: int = 1000, target: float = math.inf
) -> Solution:
    """Minimise F by Newton's method, smoothing a loss with kinks less and less.

    With few coordinates each step minimises the quadratic model of F over the ball exactly. With many, the ball is
    replaced by a penalty (mu/2)|z|^2, which falls or rises until the solution is at the edge of the ball, or mu does
    not matter; the steps are computed by conjugate gradients. All slopes on the way are duals, and the best are
    returned. A loss with kinks and many features is left to coordinate ascent (:func:`ascend`).

    Args:
        problem: the problem.
        start: coordinates to begin with, in the ball, if they or a multiple of them are better than 0.
        time_limit, steps, target: in seconds; the most steps; the value of the dual at which the solver stops.
    """
    newton = _Newton(problem, start, time.monotonic() + time_limit, steps, target)
    one = problem.theta.ndim == 1 and not problem.rows.dense and len(problem.weights) > 0
    ball = problem.ridge == 0.0 and 0.0 < problem.radius < math.inf
    if one and ball and not (newton.smooth or newton.direct):
        return ascend(problem, newton.z, newton.end, TURNS_PER_STEP * steps, CLOSED_GAP)
    idle = 0
    while not (newton.closed or newton.late) and idle < MAX_IDLE_STEPS and math.isfinite(newton.value):
        before, final = newton.gap, newton.eps <= newton.least
        newton.minimise()
        if final and newton.direct and newton.smooth:
            break
        idle = idle + 1 if final and not newton.gap < 0.9 * before else 0
        newton.sharpen()
    return Solution(newton.duals, newton.z, newton.used, newton.gap, newton.upper)


class _Newton:
    """The state of Newton's method, and its best bounds."""

    def __init__(self, problem: BallProblem, start: Array, end: float, steps: int, target: float) -> None:
        self.problem, self.end, self.steps, self.used, self.target = problem, end, steps, 0, target
        self.smooth = not kinked(problem.loss)
        self.z, self.p = np.zeros_like(start), np.zeros((len(problem.weights), *start.shape[1:]))
        least, scores = problem.primal(self.z, self.p), problem.rows.scores(start)
        self.size = abs(least)
        for part in START_FACTORS:  # a boosted model can have a higher loss than a multiple of it
            value = problem.primal(part * start, part * scores)
            if value < least:
                least, self.z, self.p = value, part * start, part * scores
        self.lean, self.eps, self.mu = np.zeros_like(self.p), 0.0, 0.0
        blocks = 0 if self.p.ndim == 1 else self.p.size * self.p.shape[1]
        self.direct = start.size <= MAX_DIRECT_COORDINATES and blocks <= MAX_BLOCK_NUMBERS
        self.evaluate()
        self.lower, self.upper, self.duals, self.least = -math.inf, math.inf, self.a.copy(), 0.0
        self.measure()
        if not self.smooth:
            self.eps = SMOOTHING_FACTOR * self.roughness
            self.least = MIN_SMOOTHING * self.roughness
        if not self.direct and 0.0 < problem.radius < math.inf:
            self.mu = self.size / problem.radius**2
        self.evaluate()

    def evaluate(self) -> None:
        """Slopes, curvatures and the value of the smoothed problem at z."""
        self.a, losses, self.bend = self.problem.slopes(self.p, self.eps, self.lean)
        self.value = losses + (self.problem.linear(self.z) + 0.5 * self.mu * float(np.vdot(self.z, self.z)))

    def measure(self) -> Array:
        """Update the bounds with z and its slopes, and return the gradient of F."""
        problem, z = self.problem, self.z
        norm = float(np.linalg.norm(z))
        inside = min(1.0, problem.radius / norm) if norm > 0.0 else 1.0
        upper = problem.primal(inside * z, inside * self.p)
        lower, gathered = problem.dual(self.p, self.a)
        self.upper = min(self.upper, upper)
        if lower > self.lower:
            self.lower, self.duals = lower, self.a.copy()
        # By Fenchel and Young at the slopes, the gap of the smoothed problem is the difference of these two.
        res, ridge = problem.theta - gathered, problem.ridge + self.mu
        if self.mu > 0.0:
            self.unsolved = float(np.linalg.norm(res - ridge * z)) * max(norm, problem.radius)
        else:
            most = price(float(np.linalg.norm(res)), problem.radius, ridge)
            self.unsolved = most - float(np.vdot(res - 0.5 * ridge * z, z))
        self.here = upper - lower
        return problem.ridge * z - res

    @property
    def roughness(self) -> float:
        """The smoothing that would move predictions by as much as their losses: loss over squared slopes."""
        loss = self.problem.primal(np.zeros_like(self.z), self.p)
        squares = float(np.vdot(self.problem.weighted(self.a), self.a))
        return loss / squares if squares > 0.0 and 0.0 < loss < math.inf else 1.0

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def closed(self) -> bool:
        """True if the gap is small enough."""
        if self.lower >= self.target or self.upper <= self.problem.floor + CLOSED_GAP_OF_ZERO * self.size:
            return True
        return self.gap <= max(CLOSED_GAP * min(abs(self.lower), abs(self.upper)), CLOSED_GAP_OF_ZERO * self.size)

    @property
    def late(self) -> bool:
        return self.used >= self.steps or time.monotonic() >= self.end

    def sharpen(self) -> None:
        """Reduce smoothing, centred at the last solution's slopes, and update the multiplier of the ball."""
        if not self.smooth:
            self.least = min(self.least, MIN_SMOOTHING * self.roughness)
            self.lean, self.eps = self.a, max(SMOOTHING_FACTOR * self.eps, self.least)
        norm = float(np.linalg.norm(self.z))
        if self.mu > 0.0 and norm > 0.0:
            # 1/|z| is nearly linear in mu; its derivative takes a solution w of (H + mu) w = z.
            w = conjugate_gradients(self.times, self.z.ravel(), 0.1, 50, self.end)
            lift = (norm / self.problem.radius - 1.0) * norm * norm / float(np.vdot(self.z, w))
            self.mu = min(max(self.mu + lift, 0.02 * self.mu), 100.0 * self.mu)
        self.evaluate()

    def times(self, v: Array) -> Array:
        """The Hessian times the vector v, flattened."""
        matrix = v.reshape(self.z.shape)
        product = self.problem.times(matrix, self.p, self.eps, self.lean, self.bend)
        return (product + (self.problem.ridge + self.mu) * matrix).ravel()

    def minimise(self) -> None:
        """Solve the smoothed problem."""
        first = 0.0
        while not self.late:
            g = self.measure() + self.mu * self.z
            if self.closed or ((self.eps > 0.0 or self.mu > 0.0) and self.unsolved <= SMOOTHED_GAP_SHARE * self.here):
                return
            if self.direct:
                hessian = self.problem.hessian(self.p, self.eps, self.lean, self.bend)
                if not (np.isfinite(hessian).all() and np.isfinite(g).all()):
                    return
                step = newton_step(hessian, g.ravel(), self.z.ravel(), self.problem.radius, self.problem.ridge)
            else:
                size = float(np.linalg.norm(g))
                first = max(first, size)
                share = max(1e-3, min(0.1, size / first)) if first > 0.0 else 0.1
                step = conjugate_gradients(self.times, -g.ravel(), share, 200, self.end)
            if not self.advance(step.reshape(self.z.shape), g):
                return
        self.measure()

    def advance(self, step: Array, g: Array) -> bool:
        """Take a step, shortened until F falls enough; return False if it never does."""
        slope = float(np.vdot(g, step))
        if not slope < -1e-16 * abs(self.value):
            return False
        self.used += 1
        z, p, value, moved, length = self.z, self.p, self.value, self.problem.rows.scores(step), 1.0
        for _ in range(40):
            self.z, self.p = z + length * step, p + length * moved
            self.evaluate()
            if self.value <= value + 1e-4 * length * slope + 1e-14 * abs(value):
                return True
            length *= 0.5
        self.z, self.p = z, p
        self.evaluate()
        return False


def newton_step(hessian: Array, g: Array, z: Array, radius: float, ridge: float) -> Array:
    """The step s that minimises <g, s> + <s, H s>/2 over |z + s| <= radius, from the eigenvectors of H + ridge I.

    g includes the gradient of the ridge. z + s = (H + mu I)^{-1} (H z - g), with the least mu >= 0 for which it is in
    the ball. 1/norm of this point is concave in mu, so Newton's method rises to the mu at which it is 1/radius.
    """
    if radius == 0.0:
        return -z
    values, vectors = np.linalg.eigh(hessian)
    values = np.maximum(values, 0.0) + ridge
    c = values * (vectors.T @ z) - vectors.T @ g
    # |c|/(largest + mu) <= |v(mu)|: below |c|/radius - largest the point is outside. Less than 1e-14 is rounding.
    largest, far = float(values[-1]), float(np.linalg.norm(c)) / radius
    mu = max(1e-14 * max(largest, far), far - largest, 1e-300)
    for _ in range(100):
        v = c / (values + mu)
        norm = float(np.linalg.norm(v))
        if not norm > radius * (1.0 + 1e-12):
            break
        slope = float(v @ (v / (values + mu)))
        if not slope > 0.0:  # numbers too small for float64
            break
        mu += (norm / radius - 1.0) * norm * norm / slope
    # The step itself: the difference of two long vectors would lose digits.
    step: Array = vectors @ (-(vectors.T @ (g + mu * z)) / (values + mu))
    return step


def conjugate_gradients(times: Callable[[Array], Array], b: Array, share: float, most: int, end: float) -> Array:
    """An x with |b - H x| <= share |b|, or the last one after ``most`` products H v, or at the time ``end``."""
    x, r = np.zeros(len(b)), b.copy()
    p, rr = r.copy(), float(r @ r)
    goal = share * share * rr
    for k in range(most):
        if rr <= goal or (k > 0 and time.monotonic() >= end):
            break
        hp = times(p)
        bend = float(p @ hp)
        if not bend > 0.0:
            break
        x += (rr / bend) * p
        r -= (rr / bend) * hp
        new = float(r @ r)
        p = r + (new / rr) * p
        rr = new
    return x


def ascend(problem: BallProblem, start: Array, end: float, turns: int, gap: float) -> Solution:
    """Raise the dual by coordinate ascent, for a loss of one prediction, sparse rows, and a ball without a ridge.

    The dual D(a) = -sum_i h_i phi*(a_i) - R |res|, res = theta - A'(h a), is the largest value over mu > 0 of

        -sum_i h_i phi*(a_i) - |res|^2/(2 mu) - mu R^2/2,

    which is concave in a and mu together, and largest at mu = |res|/R. With mu fixed, the best a_i for a single row is
    the proximal slope of phi at <A_i, res>/mu + eps a_i with eps = h_i |A_i|^2/mu: one walk over its nonzeros. Rows
    take turns in random order (Shalev-Shwartz and Zhang 2013) until the gap of the problem with this mu is small; only
    then mu changes. (If it changed at once, mu and res would fall to 0 together: the bound without a ball.)

    With A = X - 1 t', res = r + t S with r = theta - X'(h a) and S = sum_i h_i a_i, so a sparse X stays sparse.

    The first duals are the slopes at ``start``, coordinates in the ball. The last are those at the time ``end``, after
    this many turns of all rows, or when the gap between F(z) and D(a) is this share of F(z).
    """
    rows, radius, n = problem.rows, problem.radius, len(problem.weights)
    p = rows.scores(start)
    a, _, _ = problem.slopes(p, 0.0, np.zeros(n))
    shifted, x = rows.x @ rows.t, CSR(rows.x.data, rows.x.indices, rows.x.indptr, 0)
    tt = float(rows.t @ rows.t)
    squares = np.asarray(rows.x.multiply(rows.x).sum(axis=1)).ravel() - 2.0 * shifted + tt
    size = abs(problem.primal(np.zeros_like(start), np.zeros(n)))
    best, best_lower = Solution(a.copy(), start, 0, math.inf, problem.primal(start, p), "turns of all rows"), -math.inf
    random, used, mu, earlier = np.random.default_rng(0), 0, 0.0, (0.0, 0.0)
    while True:
        lower, gathered = problem.dual(p, a)
        res = problem.theta - gathered
        norm = float(np.linalg.norm(res))
        mu = mu or max(norm / radius, MIN_PENALTY * size / radius**2, 1e-300)
        z = res / mu
        length, p = norm / mu, rows.scores(z)
        inside = min(1.0, radius / length) if length > 0.0 else 1.0
        upper = problem.primal(inside * z, inside * p)
        if lower > best_lower:
            best, best_lower = best._replace(duals=a.copy()), lower
        if upper < best.upper:
            best = best._replace(z=inside * z, upper=upper)
        best = best._replace(steps=used, gap=best.upper - best_lower)
        enough = best.gap <= gap * max(abs(best.upper), 1e-6 * size)
        enough = enough or best.upper <= problem.floor + USELESS_SHARE * size
        if enough or used >= turns or time.monotonic() >= end:
            return best
        # The gap of the problem with the penalty, |res|^2/mu = mu |z|^2.
        open_gap = problem.primal(z, p) - lower - radius * norm + mu * length * length
        if used > 0 and open_gap <= PENALTY_GAP_SHARE * (upper - lower):
            mu, earlier = _closer(mu, length, radius, earlier), (mu, length)
        duals = problem.weighted(a)
        r = problem.theta - rows.transposed @ duals
        state = _Ascent(a, r, np.array([duals.sum(), rows.t @ r, tt]), mu)
        for _ in range(TURNS_PER_CHECK):
            order = random.permutation(n)
            ready(_turn)(problem.loss, x, problem.labels, problem.weights, order, shifted, squares, state)
            used += 1


def _closer(mu: float, length: float, radius: float, earlier: tuple[float, float]) -> float:
    """The next mu, whose z is closer to the edge of the ball: 1/|z| is nearly linear in mu."""
    if length == 0.0:
        return 0.2 * mu
    wanted = mu * length / radius
    before, its = earlier
    if its > 0.0 and its != length and before != mu:
        slope = (1.0 / length - 1.0 / its) / (mu - before)
        if slope > 0.0:
            wanted = mu + (1.0 / radius - 1.0 / length) / slope
    return min(max(wanted, 0.2 * mu), 5.0 * mu)


class _Ascent(NamedTuple):
    """The duals a, r, the sums (S, <t, r>, <t, t>) and mu."""

    a: Any
    r: Any
    sums: Any
    mu: float


@formula
def _turn(loss: Any, x: Any, y: Any, weights: Any, order: Any, shifted: Any, squares: Any, state: Any) -> None:
    """Update each row's dual in turn to its optimum; ``shifted`` are <X_i, t>, and ``squares`` |A_i|^2."""
    data, indices, indptr, a, r, sums = x.data, x.indices, x.indptr, state.a, state.r, state.sums
    for i in order:
        dot = sums[0] * shifted[i] - sums[1] - sums[0] * sums[2]
        for k in range(indptr[i], indptr[i + 1]):
            dot += data[k] * r[indices[k]]
        eps = weights[i] * max(squares[i], 0.0) / state.mu
        b = scalar.prox(loss, dot / state.mu + eps * a[i], y[i], eps)
        change = weights[i] * (a[i] - b)
        if change != 0.0 and math.isfinite(change):
            for k in range(indptr[i], indptr[i + 1]):
                r[indices[k]] += change * data[k]
            sums[0] -= change
            sums[1] += change * shifted[i]
            a[i] = b
