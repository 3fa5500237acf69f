"""Duals for which the bound is nearly as high as it can be."""

import math
import time
from typing import NamedTuple

import numpy as np

from giftrl.certificates.ball import newton_step, price, truncated_step
from giftrl.certificates.problem import Problem
from giftrl.certificates.units import Array

#: Up to this many coordinates Newton's method has the matrix of second derivatives, beyond it products only; and the
#: most numbers in that many K x K blocks, one for each row.
DIRECT, BLOCKS = 400, 20_000_000
#: The gap between primal and dual at which the solver stops, as a share of the solution and of the loss of the model 0.
GAP, LEAST = 1e-8, 1e-13


#: How many times smoothing less may be in vain before the solver stops.
PATIENCE = 6
import os
DEBUG=os.environ.get('DBG')
#: The least smoothing, as a share of the first.
SMOOTHEST = float(os.environ.get('SM','1e-4'))
INNER = float(os.environ.get('INN','0.1'))
FACTOR = float(os.environ.get('FAC','0.3'))


class Solution(NamedTuple):
    """Where the solver stopped: the best duals it met, the coordinates it reached, the steps it took, and the gap."""

    duals: Array
    z: Array
    steps: int
    gap: float


class _Best:
    """The best dual and the best primal value so far."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.lower, self.upper = -math.inf, math.inf
        self.duals: Array | None = None
        self.size = 0.0

    def see(self, z: Array, p: Array, a: Array) -> Array:
        """Take note of a pair of z, with its scores, and a; returns A'(h a)."""
        upper = self.problem.primal(z, p)
        if np.linalg.norm(z) <= self.problem.radius * (1.0 + 1e-9):
            self.upper = min(self.upper, upper)
        if self.size == 0.0 and math.isfinite(upper):
            self.size = abs(upper)
        lower, gathered = self.problem.dual(p, a)
        res = self.problem.theta - gathered
        self.unsolved = price(float(np.linalg.norm(res)), self.problem.radius, self.problem.ridge) - float(
            np.vdot(res - 0.5 * self.problem.ridge * z, z)
        )
        self.here = upper - lower
        if self.duals is None or lower > self.lower:
            self.lower, self.duals = lower, a.copy()
        return gathered

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def closed(self) -> bool:
        """Whether there is nothing left to gain."""
        return self.gap <= max(GAP * min(abs(self.lower), abs(self.upper)), LEAST * self.size)


def solve(problem: Problem, start: Array, time_limit: float = math.inf, steps: int = 1000) -> Solution:
    """Minimise F by Newton's method within the ball, smoothing a loss with kinks less and less.

    Args:
        problem: what to solve.
        start: coordinates to begin with, in the ball.
        time_limit: seconds. Whatever the solver has found by then is returned; so is it after so many ``steps``.
    """
    end = time.monotonic() + time_limit
    z, p = start, problem.rows.scores(start)
    best = _Best(problem)
    a = problem.land(p, 0.0, np.zeros_like(p))[0]
    best.see(z, p, a)
    lean = np.zeros_like(p)
    eps = 0.0 if problem.smooth else 0.3 * _roughness(problem, p, a)
    least, idle = SMOOTHEST * eps, 0
    used, mu = 0, max(1e-9 * best.size / max(problem.radius, 1e-300) ** 2, 1e-300)
    while not best.closed and used < steps and time.monotonic() < end:
        before = best.gap
        z, p, a, used, mu = _minimise(problem, z, p, eps, lean, best, used, steps, end, mu)
        if DEBUG: print("   eps", eps, used, best.lower, best.upper, best.gap)
        if eps == 0.0 or not np.isfinite(a).all():
            break
        idle = idle + 1 if best.gap > 0.9 * before and eps == least else 0
        if idle == PATIENCE:
            break
        least = min(least, SMOOTHEST * _roughness(problem, p, a))
        lean, eps = a, max(FACTOR * eps, least)
    assert best.duals is not None
    global LAST; LAST=best.gap
    return Solution(best.duals, z, used, best.gap)


def _roughness(problem: Problem, p: Array, a: Array) -> float:
    """A smoothing that moves predictions by as much as their losses are: mean loss over mean squared slope."""
    loss = problem.primal(np.zeros_like(problem.theta), p)
    squares = float(np.vdot(problem.weighted(a), a))
    return loss / squares if squares > 0.0 and 0.0 < loss < math.inf else 1.0


def _minimise(
    problem: Problem, z: Array, p: Array, eps: float, lean: Array, best: _Best, used: int, steps: int, end: float, mu: float
) -> tuple[Array, Array, Array, int, float]:
    """The minimum for one eps: z, its scores, slopes, the number of steps so far, and the multiplier of the ball."""
    rows, shape = problem.rows, z.shape
    floor = mu
    blocks = 0 if p.ndim == 1 else p.size * p.shape[1]
    direct = z.size <= DIRECT and blocks <= BLOCKS
    a, losses, bend = problem.land(p, eps, lean)
    value = losses + problem.linear(z)
    failures = 0
    while used < steps and time.monotonic() < end:
        g = best.see(z, p, a) - problem.theta + problem.ridge * z
        if best.closed or (eps > 0.0 and best.unsolved <= INNER * best.here):
            break
        if direct:
            hessian = problem.hessian(p, eps, lean, bend)
            step = newton_step(hessian, g.ravel(), z.ravel(), problem.radius, problem.ridge).reshape(shape)
        else:
            flat, mu = truncated_step(
                lambda v: (problem.times(v.reshape(shape), p, eps, lean, bend) + problem.ridge * v.reshape(shape)).ravel(),  # noqa: B023
                g.ravel(), z.ravel(), problem.radius, mu, floor, lambda: time.monotonic() > end,
            )
            step = flat.reshape(shape)
        slope = float(np.vdot(g, step))
        # What the step gains is half of this. Where it is little beside the gap, smooth less instead.
        if -slope <= 1e-16 * abs(value):
            if direct or failures > 3 or eps > 0.0:
                break
            failures, mu = failures + 1, 0.3 * mu
            continue
        used += 1
        moved, length = rows.scores(step), 1.0
        for _ in range(40):
            new_p = p + length * moved
            new_z = z + length * step
            new_a, losses, new_bend = problem.land(new_p, eps, lean)
            new_value = losses + problem.linear(new_z)
            if new_value <= value + 1e-4 * length * slope + 1e-14 * abs(value):
                break
            length *= 0.5
        else:
            break
        z, p, a, bend, value = new_z, new_p, new_a, new_bend, new_value
    best.see(z, p, a)
    return z, p, a, used, mu
