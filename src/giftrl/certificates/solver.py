"""Duals for which the bound is nearly as high as it can be."""

import math
import time
from typing import NamedTuple

import numpy as np

from giftrl.certificates.ascent import ascend, serves
from giftrl.certificates.ball import conjugate_gradients, newton_step, price
from giftrl.certificates.problem import Problem
from giftrl.certificates.units import Array

#: Up to this many coordinates Newton's method has the matrix of second derivatives, beyond it products only; and the
#: most numbers in the K x K blocks of all rows.
DIRECT, BLOCKS = 400, 20_000_000
#: The gap between primal and dual at which the solver stops, as a share of the solution and of the loss of the model 0.
GAP, LEAST = 1e-7, 1e-13
#: The factor by which smoothing falls, and the least smoothing, as a share of what moves predictions by their loss.
FASTER, SHARPEST = 0.3, 1e-4
#: A smoothed problem is solved when its own gap is this share of the gap that smoothing leaves.
SOLVED = 0.1
#: The solver begins with the best of these parts of the model that it is given, or with 0.
PARTS = (1.0, 0.3, 0.1, 0.03)
#: How many turns of coordinate ascent count as one step.
CHEAP = 30
#: How many times in a row the gap may stay before the solver gives up.
PATIENCE = 6


class Solution(NamedTuple):
    """Where the solver stopped: the best duals it met, the coordinates it reached, the steps it took, and the gap.

    ``upper`` is the least F at a point of the ball that it met; upper minus gap is the largest D that it met. ``what``
    says what a step was.
    """

    duals: Array
    z: Array
    steps: int
    gap: float
    upper: float
    what: str = "Newton steps"


def solve(
    problem: Problem, start: Array, time_limit: float = math.inf, steps: int = 1000, target: float = math.inf
) -> Solution:
    """Minimise F by Newton's method, smoothing a loss with kinks less and less.

    With few coordinates each step minimises the quadratic model of F over the ball exactly. With many, the ball is
    replaced by a penalty (mu/2)|z|^2, which falls or rises until the solution is at the edge of the ball, or mu does
    not matter; the steps are those of conjugate gradients. Any slopes met on the way are duals, and the best are kept.
    A loss with kinks and many features is left to coordinate ascent (:mod:`giftrl.certificates.ascent`).

    Args:
        problem: what to solve.
        start: coordinates to begin with, in the ball, if they or a part of them are better than 0.
        time_limit: seconds. Whatever the solver has found by then is returned; so is it after so many ``steps``.
        steps: of Newton's method.
        target: a value of the dual with which the solver is content.

    >>> import numpy as np, scipy.sparse as sp
    >>> from giftrl.certificates.scaled import Scaled
    >>> from giftrl.certificates.units import Units
    >>> from giftrl.losses import Absolute
    >>> rows = Scaled(sp.csr_array(np.ones((3, 1))), Units.of_features(np.array([3.0]), 3.0), np.zeros(1))
    >>> problem = Problem(Absolute(), rows, np.array([1.0, 2.0, 4.0]), np.ones(3), np.zeros(1), 9.0)
    >>> solution = solve(problem, np.zeros(1))
    >>> solution.duals.round(6) + 0.0, solution.z.round(6), solution.gap < 1e-6
    (array([ 1.,  0., -1.]), array([2.]), True)
    """
    walk = _Walk(problem, start, time.monotonic() + time_limit, steps, target)
    if not (problem.smooth or walk.direct) and serves(problem):
        found = ascend(problem, walk.z, walk.end, CHEAP * steps, GAP)
        return Solution(found.duals, found.z, found.turns, found.upper - found.lower, found.upper, "turns of all rows")
    idle = 0
    while not (walk.closed or walk.late) and idle < PATIENCE and math.isfinite(walk.value):
        before, final = walk.gap, walk.sharp
        walk.minimise()
        if final and walk.direct and problem.smooth:
            break
        idle = idle + 1 if final and not walk.gap < 0.9 * before else 0
        walk.sharpen()
    return Solution(walk.duals, walk.z, walk.used, walk.gap, walk.upper)


class _Walk:
    """Where Newton's method is, and the best it has seen."""

    def __init__(self, problem: Problem, start: Array, end: float, steps: int, target: float) -> None:
        self.problem, self.end, self.steps, self.used, self.target = problem, end, steps, 0, target
        self.z, self.p = np.zeros_like(start), np.zeros((len(problem.weights), *start.shape[1:]))
        least, scores = problem.primal(self.z, self.p), problem.rows.scores(start)
        self.size = abs(least)
        for part in PARTS:  # a model that was made bold is too large for its own loss
            value = problem.primal(part * start, part * scores)
            if value < least:
                least, self.z, self.p = value, part * start, part * scores
        self.lean, self.eps, self.mu = np.zeros_like(self.p), 0.0, 0.0
        blocks = 0 if self.p.ndim == 1 else self.p.size * self.p.shape[1]
        self.direct = start.size <= DIRECT and blocks <= BLOCKS
        self.land()
        self.lower, self.upper, self.duals = -math.inf, math.inf, self.a.copy()
        self.see()
        self.least = 0.0
        if not problem.smooth:
            self.eps = FASTER * self.roughness
            self.least = SHARPEST * self.roughness
        if not self.direct and 0.0 < problem.radius < math.inf:
            self.mu = self.size / problem.radius**2
        self.land()

    def land(self) -> None:
        """Slopes, curvatures and the value of the smoothed problem at z."""
        self.a, losses, self.bend = self.problem.land(self.p, self.eps, self.lean)
        self.value = losses + self.rest(self.z)

    def rest(self, z: Array) -> float:
        """The part of the value that is not the loss of a row."""
        return self.problem.linear(z) + 0.5 * self.mu * float(np.vdot(z, z))

    def see(self) -> Array:
        """Take note of z and of the slopes there; returns the gradient of F."""
        problem, z = self.problem, self.z
        norm = float(np.linalg.norm(z))
        inside = min(1.0, problem.radius / norm) if norm > 0.0 else 1.0
        upper = problem.primal(inside * z, inside * self.p)
        lower, gathered = problem.dual(self.p, self.a)
        self.upper = min(self.upper, upper)
        if lower > self.lower:
            self.lower, self.duals = lower, self.a.copy()
        # By Fenchel and Young at the slopes, the gap of the smoothed problem is what is between these two.
        res = problem.theta - gathered
        ridge = problem.ridge + self.mu
        if self.mu > 0.0:
            self.unsolved = float(np.linalg.norm(res - ridge * z)) * max(norm, problem.radius)
        else:
            most = price(float(np.linalg.norm(res)), problem.radius, ridge)
            self.unsolved = most - float(np.vdot(res - 0.5 * ridge * z, z))
        self.here = upper - lower
        return problem.ridge * z - res

    @property
    def roughness(self) -> float:
        """The smoothing that would move predictions by as much as their losses are: loss over squared slopes."""
        loss = self.problem.primal(np.zeros_like(self.z), self.p)
        squares = float(np.vdot(self.problem.weighted(self.a), self.a))
        return loss / squares if squares > 0.0 and 0.0 < loss < math.inf else 1.0

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def closed(self) -> bool:
        """Whether there is nothing left to gain."""
        if self.lower >= self.target or self.upper <= self.problem.floor + LEAST * self.size:
            return True
        return self.gap <= max(GAP * min(abs(self.lower), abs(self.upper)), LEAST * self.size)

    @property
    def late(self) -> bool:
        return self.used >= self.steps or time.monotonic() >= self.end

    @property
    def sharp(self) -> bool:
        """Whether smoothing is as small as it gets."""
        return self.eps <= self.least

    def sharpen(self) -> None:
        """Smooth less, around the slopes of the last solution, and put the multiplier of the ball right."""
        if not self.problem.smooth:
            self.least = min(self.least, SHARPEST * self.roughness)
            self.lean, self.eps = self.a, max(FASTER * self.eps, self.least)
        norm = float(np.linalg.norm(self.z))
        if self.mu > 0.0 and norm > 0.0:
            # 1/|z| is nearly linear in mu; its derivative takes a solution w of (H + mu) w = z.
            w = conjugate_gradients(self.times, self.z.ravel(), 0.1, 50, self.end)
            lift = (norm / self.problem.radius - 1.0) * norm * norm / float(np.vdot(self.z, w))
            self.mu = min(max(self.mu + lift, 0.02 * self.mu), 100.0 * self.mu)
        self.land()

    def times(self, v: Array) -> Array:
        """The product of the second derivatives and v, both flat."""
        matrix = v.reshape(self.z.shape)
        product = self.problem.times(matrix, self.p, self.eps, self.lean, self.bend)
        return (product + (self.problem.ridge + self.mu) * matrix).ravel()

    def minimise(self) -> None:
        """Solve the smoothed problem."""
        first = 0.0
        while not self.late:
            g = self.see() + self.mu * self.z
            if self.closed or ((self.eps > 0.0 or self.mu > 0.0) and self.unsolved <= SOLVED * self.here):
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
        self.see()

    def advance(self, step: Array, g: Array) -> bool:
        """Go along a step as far as that is good; whether it was."""
        slope = float(np.vdot(g, step))
        if not slope < -1e-16 * abs(self.value):
            return False
        self.used += 1
        z, p, value, moved, length = self.z, self.p, self.value, self.problem.rows.scores(step), 1.0
        for _ in range(40):
            self.z, self.p = z + length * step, p + length * moved
            self.land()
            if self.value <= value + 1e-4 * length * slope + 1e-14 * abs(value):
                return True
            length *= 0.5
        self.z, self.p = z, p
        self.land()
        return False
