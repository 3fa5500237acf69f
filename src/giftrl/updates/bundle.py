"""A bundle method: the proximal update of a black-box loss from its values and subgradients alone.

A subgradient g_i at x_i is a cut: l(x) >= <g_i, x> - c_i with c_i = l*(g_i) = <g_i, x_i> - l(x_i). Any mean z of cuts
has l*(z) <= the same mean of the c_i, so

    H(z) <= psi*_V(theta - z) + mean of c_i,

and the least right side over all means is a smooth problem on a simplex. Its solution leads to a point x; the cut at
x is added, and h l(x) + l*(z) - <z, x> bounds how far H(z) still is from its minimum. It works with every pair that
the mirror solves, and its first cut is g_t, so that H(z) <= H(g) from the first iteration on.

Written by hand because libraries minimise a function that is given, while here psi is known only through its mirror,
and the gap must be certified.
"""

import numpy as np

from giftrl.errors import NotConverged
from giftrl.updates.contract import Choice, VectorProblem
from giftrl.updates.simplex_newton import best_mean

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
        mean = best_mean(problem, cuts, heights, np.append(mean[keep], 0.0))
    raise NotConverged(
        f"the inner solver of Proximal reached a gap of {gap:.3g} after {MAX_CUTS} cuts and the tolerance asks for "
        f"{tolerance * max(1.0, abs(h * value)):.3g}; raise tolerance, or give {type(problem.loss).__name__} a prox"
    )
