"""The mirror map: argmin over V of psi(x) - <theta, x>, for every supported pair of potential and domain.

:func:`argmin` is grad psi*_V, :func:`conjugate` is psi*_V itself, the conjugate restricted to V. Unsupported pairs
raise an error that lists supported ones.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from giftrl.domains import Ball, Box, Domain, L1Ball, NonNegative, Simplex, WholeSpace
from giftrl.domains.contract import Vector, norm, water_fill
from giftrl.errors import Incompatible
from giftrl.ops.line import Affine
from giftrl.regularizers.potentials import Diagonal, FullQuadratic, NegativeEntropy, Potential, SquaredPNorm, power_link

Solver = Callable[[Any, Any, Vector], Vector]
SOLVERS: dict[tuple[type, type], Solver] = {}


def solves(potential: type, *domains: type) -> Callable[[Solver], Solver]:
    """Register a solver for pairs."""

    def register(solver: Solver) -> Solver:
        SOLVERS.update({(potential, domain): solver for domain in domains})
        return solver

    return register


def supported_domains(psi: Potential) -> list[str]:
    """The names of the domains over which this potential can be minimised."""
    return sorted(domain.__name__ for kind, domain in SOLVERS if kind is type(psi))


def check_pair(psi: Potential, domain: Domain) -> None:
    """Raise unless the pair has a solver."""
    if (type(psi), type(domain)) not in SOLVERS:
        works = ", ".join(supported_domains(psi)) or "none"
        raise Incompatible(
            f"no solver for {type(psi).__name__} over {type(domain).__name__}: {type(psi).__name__} can be "
            f"minimised over {works}; choose one of these domains, or another regularizer"
        )
    if isinstance(psi, NegativeEntropy) and isinstance(domain, Box) and (domain.bounds[0] < 0.0).any():
        raise Incompatible(
            f"NegativeEntropy over Box(lower={domain.lower!r}): the entropy is defined for x >= 0 only; "
            "choose a box with lower >= 0, or another regularizer"
        )


def argmin(psi: Potential, domain: Domain, theta: Vector) -> Vector:
    """The x in V that minimises psi(x) - <theta, x>.

    >>> from giftrl.regularizers import SquaredNorm
    >>> from giftrl.regularizers.contract import start
    >>> argmin(start(SquaredNorm(), 2, 1.0), Ball(1.0), np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """
    check_pair(psi, domain)
    return SOLVERS[type(psi), type(domain)](psi, domain, theta)


def conjugate(psi: Potential, domain: Domain, theta: Vector) -> float:
    """psi*_V(theta) = max over x in V of <theta, x> - psi(x)."""
    x = argmin(psi, domain, theta)
    return float(theta @ x) - psi.value(x)


def is_affine(psi: Potential, domain: Domain) -> bool:
    """True if argmin is an affine function of theta: an unconstrained quadratic without an L1 term."""
    quadratic = isinstance(psi, FullQuadratic) or (isinstance(psi, Diagonal) and psi.l1 == 0.0)
    return quadratic and isinstance(domain, WholeSpace)


class MirrorLine:
    """pi(b) = <s, grad psi*_V(theta - h b s)> for any supported pair; one solve for each b."""

    def __init__(self, psi: Potential, domain: Domain, theta: Vector, s: Vector, weight: float) -> None:
        self.psi = psi
        self.domain = domain
        self.theta = theta
        self.s = s
        self.weight = weight
        self.origin = conjugate(psi, domain, theta)

    def at(self, b: float) -> float:
        return float(self.s @ argmin(self.psi, self.domain, self.theta - (self.weight * b) * self.s))

    def energy(self, b: float) -> float:
        # If the step overflows, H is infinite, so it is never chosen.
        with np.errstate(over="ignore", invalid="ignore"):
            moved = conjugate(self.psi, self.domain, self.theta - (self.weight * b) * self.s)
        return (moved - self.origin) / self.weight


def make_line(psi: Any, domain: Domain, theta: Vector, s: Vector, weight: float) -> Affine | MirrorLine:
    """The line of an example: affine where psi*_V is quadratic, general otherwise."""
    if is_affine(psi, domain):
        # Squares of huge features overflow; clip to the largest finite number.
        c = min(weight * psi.inverse_form(s), sys.float_info.max)
        return Affine(float(s @ argmin(psi, domain, theta)), c)
    return MirrorLine(psi, domain, theta, s, weight)


def soft_threshold(t: Vector, level: float) -> Vector:
    """Soft thresholding."""
    return np.sign(t) * np.maximum(0.0, np.abs(t) - level)


# Diagonal quadratics, with t = theta + tilt.


@solves(Diagonal, WholeSpace, Box, NonNegative)
def _separable(psi: Diagonal, domain: WholeSpace | Box | NonNegative, theta: Vector) -> Vector:
    # Separable: clip the unconstrained minimiser of each coordinate.
    return domain.project(soft_threshold(theta + psi.tilt, psi.l1) / psi.strength)


@solves(Diagonal, Ball)
def _diagonal_ball(psi: Diagonal, domain: Ball, theta: Vector) -> Vector:
    # Stationarity with a multiplier mu >= 0 of the constraint: x = t / (L + mu), with mu > 0 only on the sphere.
    t = soft_threshold(theta + psi.tilt, psi.l1)
    x = t / psi.strength
    if norm(x) <= domain.radius or np.ptp(psi.strength) == 0.0:
        return domain.project(x)
    return _on_sphere(t, psi.strength, domain.radius)


def _on_sphere(t: Vector, strength: Vector, radius: float) -> Vector:
    """t / (strength + mu) with mu > 0 such that the norm is the radius (the secular equation)."""
    mu = _root(lambda mu: norm(t / (strength + mu)) / radius - 1.0, 0.0, norm(t) / radius)
    x = t / (strength + mu)
    return np.asarray(x / norm(x) * radius)


@solves(Diagonal, Simplex)
def _diagonal_simplex(psi: Diagonal, domain: Simplex, theta: Vector) -> Vector:
    # The L1 norm is constant on the simplex.
    return water_fill(theta + psi.tilt, psi.strength, domain.total)


@solves(Diagonal, L1Ball)
def _diagonal_l1_ball(psi: Diagonal, domain: L1Ball, theta: Vector) -> Vector:
    t = theta + psi.tilt
    x = soft_threshold(t, psi.l1) / psi.strength
    if np.abs(x).sum() <= domain.radius:
        return x
    return np.copysign(water_fill(np.abs(t), psi.strength, domain.radius), t)


# Full quadratics.


@solves(FullQuadratic, WholeSpace)
def _full(psi: FullQuadratic, domain: WholeSpace, theta: Vector) -> Vector:
    return psi.inverse @ (theta + psi.tilt)


@solves(FullQuadratic, Ball)
def _full_ball(psi: FullQuadratic, domain: Ball, theta: Vector) -> Vector:
    x = psi.inverse @ (theta + psi.tilt)
    if norm(x) <= domain.radius:
        return x
    strength, basis = np.linalg.eigh(psi.matrix)
    return basis @ _on_sphere(basis.T @ (theta + psi.tilt), strength, domain.radius)


def _least_squares(psi: FullQuadratic, theta: Vector) -> tuple[Vector, Vector]:
    """(R, v) with psi(x) - <theta, x> = norm2(R x - v)^2 / 2 + constant, R the Cholesky factor."""
    root = np.linalg.cholesky(psi.matrix).T
    return np.asarray(root), np.asarray(np.linalg.solve(root.T, theta + psi.tilt))


@solves(FullQuadratic, NonNegative)
def _full_non_negative(psi: FullQuadratic, domain: NonNegative, theta: Vector) -> Vector:
    from scipy.optimize import nnls  # imported here, since it is slow and few pairs need it

    return np.asarray(nnls(*_least_squares(psi, theta))[0])


@solves(FullQuadratic, Box)
def _full_box(psi: FullQuadratic, domain: Box, theta: Vector) -> Vector:
    low, high = (np.broadcast_to(bound, theta.shape) for bound in domain.bounds)
    free = low < high
    x = np.array(low)
    if free.any():
        # Bounded least squares needs a strict interior: substitute coordinates with lower = upper first.
        from scipy.optimize import lsq_linear

        root, v = _least_squares(psi, theta)
        rest = v - root[:, ~free] @ low[~free]
        x[free] = lsq_linear(root[:, free], rest, (low[free], high[free]), method="bvls", tol=1e-15, max_iter=1000).x
    return _polish(psi, domain, theta, x)


def _polish(psi: FullQuadratic, domain: Box, theta: Vector, x: Vector) -> Vector:
    """Coordinate descent until converged up to rounding. For ill-conditioned matrices the Cholesky factor is
    inaccurate; this uses the matrix itself.
    """
    low, high = (np.broadcast_to(bound, x.shape) for bound in domain.bounds)
    gradient = psi.matrix @ x - psi.tilt - theta
    for _ in range(1000):
        before = x.copy()
        for j in range(len(x)):
            new = min(max(x[j] - gradient[j] / psi.matrix[j, j], low[j]), high[j])
            if new != x[j]:
                gradient += psi.matrix[:, j] * (new - x[j])
                x[j] = new
        if np.abs(x - before).max() <= 1e-13 * np.abs(x).max():
            break
    return x


# The entropy.


@solves(NegativeEntropy, Simplex)
def _softmax(psi: NegativeEntropy, domain: Simplex, theta: Vector) -> Vector:
    weight = np.exp((theta - theta.max()) / psi.lam)
    return np.asarray(weight * (domain.total / weight.sum()))


@solves(NegativeEntropy, NonNegative, Box)
def _exponential(psi: NegativeEntropy, domain: NonNegative | Box, theta: Vector) -> Vector:
    with np.errstate(over="ignore"):
        return domain.project(np.exp(theta / psi.lam - 1.0))


# Squared p-norms.


def _free_p_norm(psi: SquaredPNorm, theta: Vector) -> Vector:
    return power_link(theta, psi.p / (psi.p - 1.0)) / psi.lam


@solves(SquaredPNorm, WholeSpace, NonNegative)
def _p_norm(psi: SquaredPNorm, domain: WholeSpace | NonNegative, theta: Vector) -> Vector:
    # If theta_j <= 0, the best x_j >= 0 is 0; the others are unconstrained.
    return _free_p_norm(psi, domain.project(theta))


@solves(SquaredPNorm, Simplex)
def _p_norm_simplex(psi: SquaredPNorm, domain: Simplex, theta: Vector) -> Vector:
    return _p_norm_fill(psi, theta, domain.total)


@solves(SquaredPNorm, L1Ball)
def _p_norm_l1_ball(psi: SquaredPNorm, domain: L1Ball, theta: Vector) -> Vector:
    x = _free_p_norm(psi, theta)
    if np.abs(x).sum() <= domain.radius:
        return x
    return np.copysign(_p_norm_fill(psi, np.abs(theta), domain.radius), theta)


def _p_norm_fill(psi: SquaredPNorm, t: Vector, total: float) -> Vector:
    """Water filling for p-norms: the minimiser from the parts of t above a level such that the coordinates sum to the
    total.

    The sum grows with the depth of the level below the top of t; at the depth lam total one coordinate alone gives the
    total. Measured from the maximum, so that a depth much smaller than t is not lost by rounding.
    """
    below = t - t.max()

    def at(depth: float) -> Vector:
        return _free_p_norm(psi, np.maximum(below + depth, 0.0))

    x = at(_root(lambda depth: total - float(at(depth).sum()), 0.0, psi.lam * total))
    return np.asarray(x * (total / x.sum()))


@solves(SquaredPNorm, Box)
def _p_norm_box(psi: SquaredPNorm, domain: Box, theta: Vector) -> Vector:
    # Given the norm r of the answer the coordinates separate: lam r^(2-p) abs(x_j)^(p-1) = abs(theta_j), then clip. The
    # norm of the clipped point falls as r rises, so r is a fixed point found by bracketing.
    def at(r: float) -> Vector:
        with np.errstate(over="ignore"):
            size = (np.abs(theta) / (psi.lam * r ** (2.0 - psi.p))) ** (1.0 / (psi.p - 1.0))
        return domain.project(np.copysign(size, theta))

    nearest = domain.project(np.zeros_like(theta))
    corner = np.maximum(*(np.abs(np.broadcast_to(bound, theta.shape)) for bound in domain.bounds))
    high = min(norm(_free_p_norm(psi, theta), psi.p) + norm(nearest, psi.p), norm(corner, psi.p))
    if high == 0.0:
        return nearest

    def excess(r: float) -> float:
        return norm(at(r), psi.p) - r

    low = 1e-3 * high
    while excess(low) < 0.0 and low > 1e-290:
        low *= 1e-3
    return at(_root(excess, low, high))


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """The root of a decreasing function between low and high, or the nearer end if rounding hides the sign change."""
    if falling(low) <= 0.0:
        return low
    if falling(high) >= 0.0:
        return high
    from scipy.optimize import brentq

    return float(brentq(falling, low, high, xtol=1e-300, rtol=1e-15, maxiter=500))
