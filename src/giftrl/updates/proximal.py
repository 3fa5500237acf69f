"""Newton's method on a simplex: the master problem of the bundle method.

    minimise F(w) = psi*_V(theta - h w G) + h <w, c>   over weights w >= 0 with sum 1,

the rows of G being cuts. General-purpose solvers stop near a gap of 1e-9 here, because cuts close to the solution are
nearly parallel; quadratic models with an exact active-set method converge to rounding.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl import mirror
from giftrl.domains import WholeSpace
from giftrl.errors import NotConverged, require
from giftrl.losses.vector import Vector
from giftrl.ops import brings, validated
from giftrl.ops.line import solve
from giftrl.ops.vector_loss import prox
from giftrl.regularizers.potentials import Diagonal
from giftrl.updates.contract import Choice, ScoreProblem, VectorProblem

Matrix = NDArray[np.float64]
Objective = Callable[[Vector], tuple[float, Vector]]


def best_mean(problem: VectorProblem, cuts: Matrix, heights: Vector, mean: Vector) -> Vector:
    """The weights of the cuts that minimise F, from initial weights."""
    h = problem.weight

    def objective(w: Vector) -> tuple[float, Vector]:
        point = problem.theta - h * (w @ cuts)
        x = mirror.argmin(problem.psi, problem.domain, point)
        value = float(point @ x) - problem.psi.value(x) + h * float(w @ heights)
        return value, h * (heights - cuts @ x)

    w = _newton(problem, cuts, objective, mean)
    value, slope = objective(w)
    if float(w @ slope) - float(slope.min()) <= 1e-9 * max(1.0, abs(value)):
        return w
    # Constraints of V make F flat in places, where Newton's method fails: start with a general solver.
    from scipy.optimize import minimize

    solution = minimize(
        objective,
        w,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(w),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 300},
    )
    better = np.maximum(0.0, np.asarray(solution.x))
    better /= better.sum()
    return _newton(problem, cuts, objective, better if objective(better)[0] <= value else w)


def _newton(problem: VectorProblem, cuts: Matrix, objective: Objective, w: Vector) -> Vector:
    """Newton steps on the simplex, halved until F does not increase."""
    h = problem.weight
    value, gradient = objective(w)
    for _ in range(30):
        move = quadratic_on_simplex(_hessian(problem, cuts, problem.theta - h * (w @ cuts)), gradient, w) - w
        # Near the solution F is flat up to rounding, but for a loss with a kink the gap is linear in the step. So
        # increases within rounding are allowed.
        slack = 1e-14 * max(1.0, abs(value))
        while np.abs(move).max() > 1e-15 and objective(w + move)[0] > value + slack:
            move = 0.5 * move
        if np.abs(move).max() <= 1e-15:
            break
        w = w + move
        value, gradient = objective(w)
    return w


def _hessian(problem: VectorProblem, cuts: Matrix, point: Vector) -> Matrix:
    """h^2 G D G^T, D the Jacobian of the mirror at the point, by central differences along the cuts."""
    h = problem.weight
    reach = 1e-5 * max(1.0, float(np.abs(point).max()))
    moves = np.empty_like(cuts)
    for i, cut in enumerate(cuts):
        size = float(np.abs(cut).max())
        e = reach / size if size > 0.0 else 1.0
        up = mirror.argmin(problem.psi, problem.domain, point + e * cut)
        moves[i] = (up - mirror.argmin(problem.psi, problem.domain, point - e * cut)) / (2.0 * e)
    hessian = np.asarray(h * h * 0.5 * (cuts @ moves.T + moves @ cuts.T))
    # At a kink of the mirror, differences can be indefinite, and the active-set method would stall.
    values, basis = np.linalg.eigh(hessian)
    if values[0] >= -1e-9 * values[-1]:
        return hessian
    return np.asarray((basis * np.maximum(values, 0.0)) @ basis.T)


def quadratic_on_simplex(hessian: Matrix, gradient: Vector, start: Vector) -> Vector:
    """The w on the simplex that minimises <gradient, w - start> + <w - start, hessian (w - start)> / 2.

    An active-set method: solve with the weights outside the set held at 0, step until a weight reaches 0 and drop it;
    if none does, add the weight with the smallest gradient; stop if no weight improves.

    >>> quadratic_on_simplex(np.eye(2), np.array([0.0, -0.5]), np.array([1.0, 0.0])).round(6)
    array([0.75, 0.25])
    """
    w = start.copy()
    active = w > 0.0
    scale = max(1e-300, float(np.abs(gradient).max()), float(np.abs(hessian).max()))
    for _ in range(20 * len(w) + 50):
        index = np.nonzero(active)[0]
        slope = gradient + hessian @ (w - start)
        # Stationarity on the active set with the sum kept: hessian d + level = -slope, sum(d) = 0. Parallel cuts make
        # the Hessian singular, and a direction without curvature can still lead down: a small ridge turns it into a
        # long step there, which ends at the first weight that reaches 0.
        k = len(index)
        system = np.ones((k + 1, k + 1))
        system[:k, :k] = hessian[np.ix_(index, index)] / scale + 1e-11 * np.eye(k)
        system[k, k] = 0.0
        d = np.linalg.solve(system, np.append(-slope[index] / scale, 0.0))[:k]
        shrinking = d < 0.0
        ratios = np.full(k, np.inf)
        ratios[shrinking] = -w[index][shrinking] / d[shrinking]
        first = int(np.argmin(ratios))
        step = min(1.0, ratios[first])
        w[index] += step * d
        if ratios[first] < 1.0:
            w[index[first]] = 0.0
            active[index[first]] = False
            continue
        slope = gradient + hessian @ (w - start)
        level = float(slope[index].max())
        entering = int(np.argmin(np.where(active, np.inf, slope)))
        if active.all() or slope[entering] >= level - 1e-15 * scale:
            break
        active[entering] = True
    w = np.maximum(w, 0.0)
    return np.asarray(w / w.sum())


# A bundle method: the proximal update of a black-box loss from values and subgradients.
#
# A subgradient g_i at x_i is a cut: l(x) >= <g_i, x> - c_i with c_i = l*(g_i) = <g_i, x_i> - l(x_i). Any mean z of cuts
# has l*(z) <= the same mean of the c_i, so
#
# H(z) <= psi*_V(theta - z) + mean of c_i,
#
# and the least right side over all means is a smooth problem on a simplex. Its solution leads to a point x; the cut at
# x is added, and h l(x) + l*(z) - <z, x> bounds how far H(z) still is from its minimum. It works with every pair that
# the mirror solves, and its first cut is g_t, so that H(z) <= H(g) from the first iteration on.
#
# No library fits, because psi is known only through its mirror and the gap must be certified.

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


# The proximal update.


@validated
class Proximal(NamedTuple):
    """The exact minimiser of H (or H'): the implicit update.

    b in d phi(pi(b)), a subgradient at the new point. With H it is implicit FTRL.

    A black-box loss uses its own ``prox`` if psi is a multiple of the squared norm on the whole space. Otherwise a
    bundle method is used, which stops when H(z) is certified to be within ``tolerance * max(1, abs(l(x)))`` of
    the minimum.

    Args:
        lookahead: H (True), H' (False), or H if possible (None).
        tolerance: tolerance of the inner solver for black-box losses; linear models are solved up to rounding.

    >>> from giftrl.losses import Squared
    >>> from giftrl.ops.line import Affine
    >>> Proximal().pick(Squared(), 0.0, 1.0, Affine(1.0, 3.0))
    0.25
    """

    lookahead: bool | None = None
    tolerance: float = 1e-8

    def validate(self) -> None:
        require(0.0 < self.tolerance < math.inf, "tolerance", self.tolerance, "must be positive", "try tolerance=1e-8")

    def pick(self, loss: Any, y: float, p: float, line: Any) -> float:
        return solve(line, loss, y)

    def minimises(self) -> bool:
        return True

    def pick_scores(self, loss: Any, problem: ScoreProblem, out: Any, work: Any) -> None:
        prox(loss, problem.start, problem.y, problem.c, out)

    def pick_vector(self, problem: VectorProblem) -> Choice:
        psi = problem.psi
        plain = isinstance(psi, Diagonal) and psi.l1 == 0.0 and np.ptp(psi.strength) == 0.0
        if not (plain and isinstance(problem.domain, WholeSpace) and brings(problem.loss, "prox")):
            return problem.sharpen(minimise(problem, self.tolerance))
        assert isinstance(psi, Diagonal)
        lam = float(psi.strength[0])
        x = np.asarray(problem.loss.prox((problem.theta + psi.tilt) / lam, problem.weight / lam))  # type: ignore[attr-defined]
        z = problem.theta - psi.gradient(x)  # the optimality condition: a subgradient of l at x
        return problem.sharpen(Choice(z, float(z @ x) - problem.weight * float(problem.loss.value(x))))
