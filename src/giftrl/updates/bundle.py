"""A bundle method: the proximal update of a black-box loss from its values and subgradients alone.

A subgradient g_i at x_i is a cut: l(x) >= <g_i, x> - c_i with c_i = l*(g_i) = <g_i, x_i> - l(x_i). Any mean z of cuts
has l*(z) <= the same mean of the c_i, so

    H(z) <= psi*_V(theta - z) + mean of c_i,

and the least right side over all means is a smooth problem on a simplex. Its solution leads to a point x; the cut at
x is added, and h l(x) + l*(z) - <z, x> bounds how far H(z) still is from its minimum. It works with every pair that
the mirror solves, and its first cut is g_t, so that H(z) <= H(g) from the first iteration on.

Written by hand because the libraries at hand minimise functions, and here a psi known by its mirror and a certified gap
are wanted.
"""

import numpy as np
from scipy.optimize import minimize

from giftrl import mirror
from giftrl.domains import Simplex
from giftrl.errors import NotConverged
from giftrl.losses.vector import Vector
from giftrl.updates.contract import Choice, VectorProblem

__all__ = ["minimise"]

MAX_CUTS = 500


def minimise(problem: VectorProblem, tolerance: float) -> Choice:
    """The z that minimises H to within tolerance * max(1, abs(l(x)))."""
    h = problem.weight
    cuts = problem.g[None, :]
    heights = np.array([float(problem.g @ problem.x) - problem.value])
    mean = np.ones(1)
    for _ in range(MAX_CUTS):
        z = h * (mean @ cuts)
        bound = h * float(mean @ heights)
        x = problem.after(z)
        value = float(problem.loss.value(x))
        gap = h * value + bound - float(z @ x)
        if gap <= tolerance * max(1.0, abs(h * value)):
            return Choice(z, bound)
        g = np.asarray(problem.loss.subgradient(x), dtype=float)
        keep = mean > 1e-14
        cuts = np.vstack([cuts[keep], g])
        heights = np.append(heights[keep], float(g @ x) - value)
        mean = _best_mean(problem, cuts, heights, np.append(mean[keep], 0.0))
    raise NotConverged(
        f"the inner solver of Proximal reached a gap of {gap:.3g} after {MAX_CUTS} cuts and the tolerance asks for "
        f"{tolerance * max(1.0, abs(h * value)):.3g}; raise tolerance, or give {type(problem.loss).__name__} a prox"
    )


def _best_mean(problem: VectorProblem, cuts: Vector, heights: Vector, mean: Vector) -> Vector:
    """The weights of the cuts with the least psi*_V(theta - z) + mean of c_i, no worse than those given."""
    h = problem.weight

    def bound(w: Vector) -> tuple[float, Vector]:
        point = problem.theta - h * (w @ cuts)
        x = mirror.argmin(problem.psi, problem.domain, point)
        value = float(point @ x) - problem.psi.value(x) + h * float(w @ heights)
        return value, h * (heights - cuts @ x)

    found = minimize(
        bound,
        mean,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(mean),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"ftol": 1e-16, "maxiter": 200},
    )
    better = Simplex().project(np.asarray(found.x))
    return better if bound(better)[0] <= bound(mean)[0] else mean
