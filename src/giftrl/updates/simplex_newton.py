"""Newton's method on a simplex: the master problem of the bundle method.

    minimise F(w) = psi*_V(theta - h w G) + h <w, c>   over weights w >= 0 with sum 1,

the rows of G being cuts. General-purpose solvers stop near a gap of 1e-9 here, because cuts close to the solution are
nearly parallel; quadratic models solved by an exact active-set method go on to rounding.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from giftrl import mirror
from giftrl.losses.vector import Vector
from giftrl.updates.contract import VectorProblem

Matrix = NDArray[np.float64]
Objective = Callable[[Vector], tuple[float, Vector]]


def best_mean(problem: VectorProblem, cuts: Matrix, heights: Vector, mean: Vector) -> Vector:
    """The weights of the cuts that minimise F, from weights to start at; no worse than those but for rounding."""
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
    # Where V cuts coordinates off, F has flat pieces on which Newton's model says nothing: a general solver goes first.
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
    """Newton steps on the simplex, halved until they do not go up."""
    h = problem.weight
    value, gradient = objective(w)
    for _ in range(30):
        move = quadratic_on_simplex(_hessian(problem, cuts, problem.theta - h * (w @ cuts)), gradient, w) - w
        # Near the solution F is flat to rounding while the move still matters, because the gap of a loss with a kink is
        # linear in it; so rounding may go up.
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
    # Differences that step over a kink of the mirror can be indefinite, on which an active set stalls.
    values, basis = np.linalg.eigh(hessian)
    if values[0] >= -1e-9 * values[-1]:
        return hessian
    return np.asarray((basis * np.maximum(values, 0.0)) @ basis.T)


def quadratic_on_simplex(hessian: Matrix, gradient: Vector, start: Vector) -> Vector:
    """The w on the simplex that minimises <gradient, w - start> + <w - start, hessian (w - start)> / 2.

    An active-set method: solve with the weights outside the set held at 0, go as far as the first weight that reaches 0
    and drop it; when nothing is dropped, add the weight whose gradient is furthest below the others; stop when there is
    none.

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
