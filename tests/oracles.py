"""Oracles: each loss written again in mpmath, where bisection solves its one-dimensional problems, and in CVXPY.

Only the parameters of a loss come from the package. The tests take the losses from ``losses.BY_NAME``, so a new loss
fails until ``FORMULAS`` describes it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
from mpmath import mp, mpf

from giftrl import losses

#: More than the 50 that the answers need: the flow takes differences of times as large as exp(100).
DIGITS = 80
SMALLEST = mpf("1e-340")  # nothing below this is a float
INF = mpf("inf")


class Formulas(NamedTuple):
    """A loss in mpmath, and once in CVXPY, as functions of the loss, p and y."""

    slope: Callable[[Any, mpf, mpf], mpf]  # a subgradient, 0 wherever 0 is one
    time: Callable[[Any, mpf, mpf], mpf]  # an antiderivative of 1/slope, on each side of the minimisers
    domain: Callable[[Any, mpf], tuple[mpf, mpf]]  # the ends of the domain of phi*
    convex: Callable[[Any, Any, Any], Any]  # phi(p; y) in CVXPY, where p is an expression
    corners: Callable[[Any, mpf], list[mpf]] = lambda loss, y: []  # where phi or phi' is not differentiable
    terms: Callable[[Any, float, float], float] = lambda loss, y, c: 0.0  # the size of terms that may cancel in a slope


def _huber_time(loss: Any, p: mpf, y: mpf) -> mpf:
    r = abs(p - y) / mpf(loss.delta)
    return mp.log(r) if r < 1 else r - 1


def _poisson_time(loss: Any, p: mpf, y: mpf) -> mpf:
    if y == 0:
        return -mp.exp(-p)
    x = y * mp.exp(-p)
    return (mp.log1p(-x) if x < 0.5 else mp.log(abs(1 - x))) / y


def _quantile_slope(loss: Any, p: mpf, y: mpf) -> mpf:
    return mpf(0) if p == y else (p > y) - mpf(loss.tau)


FORMULAS: dict[type, Formulas] = {
    losses.Absolute: Formulas(
        slope=lambda loss, p, y: mp.sign(p - y),
        time=lambda loss, p, y: abs(p - y),
        domain=lambda loss, y: (mpf(-1), mpf(1)),
        convex=lambda loss, p, y: cp.abs(p - y),
        corners=lambda loss, y: [y],
    ),
    losses.EpsilonInsensitive: Formulas(
        slope=lambda loss, p, y: mp.sign(p - y) if abs(p - y) > loss.epsilon else mpf(0),
        time=lambda loss, p, y: abs(p - y),
        domain=lambda loss, y: (mpf(-1), mpf(1)),
        convex=lambda loss, p, y: cp.pos(cp.abs(p - y) - loss.epsilon),
        corners=lambda loss, y: [y - loss.epsilon, y + loss.epsilon],
        terms=lambda loss, y, c: loss.epsilon / c,  # a = (abs(p - y) - epsilon) / c
    ),
    losses.Hinge: Formulas(
        slope=lambda loss, p, y: -y if y * p < 1 else mpf(0),
        time=lambda loss, p, y: -y * p,
        domain=lambda loss, y: (min(-y, mpf(0)), max(-y, mpf(0))),
        convex=lambda loss, p, y: cp.pos(1 - cp.multiply(y, p)),
        corners=lambda loss, y: [y],
    ),
    losses.Huber: Formulas(
        slope=lambda loss, p, y: min(max(p - y, -mpf(loss.delta)), mpf(loss.delta)),
        time=_huber_time,
        domain=lambda loss, y: (-mpf(loss.delta), mpf(loss.delta)),
        convex=lambda loss, p, y: cp.huber(p - y, loss.delta) / 2,
        corners=lambda loss, y: [y - loss.delta, y + loss.delta],
    ),
    losses.Logistic: Formulas(
        slope=lambda loss, p, y: -y / (1 + mp.exp(y * p)),
        time=lambda loss, p, y: -y * p - mp.exp(y * p),
        domain=lambda loss, y: (min(-y, mpf(0)), max(-y, mpf(0))),
        convex=lambda loss, p, y: cp.logistic(-cp.multiply(y, p)),
    ),
    losses.Poisson: Formulas(
        slope=lambda loss, p, y: mp.exp(p) - y,
        time=_poisson_time,
        domain=lambda loss, y: (-y, INF),
        convex=lambda loss, p, y: cp.exp(p) - cp.multiply(y, p),
        terms=lambda loss, y, c: y,  # a = exp(u) - y
    ),
    losses.Quantile: Formulas(
        slope=_quantile_slope,
        time=lambda loss, p, y: (p - y) / _quantile_slope(loss, p, y),
        domain=lambda loss, y: (-mpf(loss.tau), 1 - mpf(loss.tau)),
        convex=lambda loss, p, y: cp.maximum(loss.tau * (y - p), (1 - loss.tau) * (p - y)),
        corners=lambda loss, y: [y],
    ),
    losses.Squared: Formulas(
        slope=lambda loss, p, y: p - y,
        time=lambda loss, p, y: mp.log(abs(p - y)),
        domain=lambda loss, y: (-INF, INF),
        convex=lambda loss, p, y: cp.square(p - y) / 2,
    ),
    losses.SquaredHinge: Formulas(
        slope=lambda loss, p, y: -2 * y * max(mpf(0), 1 - y * p),
        time=lambda loss, p, y: mp.log(1 - y * p) / 2,
        domain=lambda loss, y: (-INF, mpf(0)) if y > 0 else (mpf(0), INF),
        convex=lambda loss, p, y: cp.square(cp.pos(1 - cp.multiply(y, p))),
        corners=lambda loss, y: [y],
    ),
}


def formulas(loss: Any) -> Formulas:
    """The formulas of a loss."""
    name = type(loss).__name__
    assert type(loss) in FORMULAS, f"{name} has no oracle: describe it in FORMULAS in tests/oracles.py"
    return FORMULAS[type(loss)]


def bisect(reached: Callable[[mpf], bool], high: mpf) -> mpf:
    """The r in (0, high] at which ``reached`` turns true, to 1e-15 of itself; 0 where that is smaller than any float.

    Geometric while the ends are orders of magnitude apart, so that 600 orders take a dozen steps.
    """
    low = SMALLEST
    if high <= low or reached(low):
        return mpf(0)
    while high - low > mpf("1e-15") * high:
        middle = mp.sqrt(low * high) if high > 2 * low else (low + high) / 2
        if reached(middle):
            high = middle
        else:
            low = middle
    return high


def exact_prox(loss: Any, p: float, y: float, c: float) -> mpf:
    """The a with a in d phi(p - a c).

    With s the sign of phi'(p), r = abs(a) solves r = s phi'(p - s r c), whose right side falls as r rises; so r is at
    most abs(phi'(p)). For any q on the way it is also at most max(s phi'(q), s (p - q) / c): either the step passes q,
    and the slope is then smaller than at q, or it stops before. With q = 0 the bracket stays within reach where the
    exponential in phi'(p) is astronomical.
    """
    with mp.workdps(DIGITS):
        slope = formulas(loss).slope
        p, y, c = mpf(p), mpf(y), mpf(c)
        g = slope(loss, p, y)
        s = mp.sign(g)
        high = abs(g)
        if s * p > 0:
            high = min(high, max(s * slope(loss, mpf(0), y), s * p / c))
        return s * bisect(lambda r: r >= s * slope(loss, p - s * r * c, y), high)


def exact_flow(loss: Any, p: float, y: float, c: float) -> mpf:
    """The mean slope along dp/dtau = -c phi'(p) for tau in [0, 1], from the time that travelling takes.

    From p to q the flow takes the time [T(p) - T(q)] / c with T' = 1/phi', and it never passes a minimiser. So the mean
    slope b is the one with T(p) - T(p - c b) = c, or the one that leads to a kink if the flow is there earlier.
    """
    with mp.workdps(DIGITS):
        slope, time = formulas(loss).slope, formulas(loss).time
        p, y, c = mpf(p), mpf(y), mpf(c)
        g = slope(loss, p, y)
        s = mp.sign(g)

        def reached(r: mpf) -> bool:
            q = p - s * r * c
            return s * slope(loss, q, y) <= 0 or time(loss, p, y) - time(loss, q, y) >= c

        return s * bisect(reached, abs(g))
