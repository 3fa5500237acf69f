"""The line: the one-dimensional problem to which every update of a linear model reduces.

For an example s of weight h, a candidate z = h b s moves the prediction to

    pi(b) = <s, grad psi*(theta - h b s)>,

which does not increase with b. A *line* provides pi and its integral; an update provides the loss. The objective of the
paper,
divided by h and shifted so that its psi* part vanishes at b = 0, is

    H(b) = energy(b) + phi*(b),    energy(b) = [psi*(theta - h b s) - psi*(theta)] / h = - integral of pi over [0, b].

For an unconstrained quadratic psi the line is affine, pi(b) = p - b c, and everything has a closed form.
"""

import math
from typing import Any, NamedTuple

from giftrl.compiled.registry import operation
from giftrl.errors import Incompatible
from giftrl.ops.loss import conjugate, curvature, flow, land, prox, slope, value
from giftrl.ops.scalar import clamp


@operation
def at(line: Any, b: float) -> float:
    """pi(b): the prediction after the step b."""
    raise Incompatible("a line must bring at(self, b); add that method to its class")


@operation
def energy(line: Any, b: float) -> float:
    """[psi*(theta - h b s) - psi*(theta)] / h."""
    raise Incompatible("a line must bring energy(self, b); add that method to its class")


@operation
def objective(line: Any, loss: Any, y: float, b: float) -> float:
    """H(b), the objective of the paper up to a constant and divided by the weight."""
    return energy(line, b) + conjugate(loss, b, y)


@operation
def solve(line: Any, loss: Any, y: float) -> float:
    """The b with b in d phi(pi(b)): the exact minimiser of H.

    b - phi'(pi(b)) increases with b, so the root lies between 0 and phi'(pi(0)). That slope can overflow even if the
    root is small, so the bracket is found by doubling. Each step replaces pi by its chord over the bracket and calls
    the loss's proximal step, which is exact at kinks of phi, and for affine pi. If a step does not halve the bracket, a
    bisection follows.
    """
    near, at_near = 0.0, at(line, 0.0)
    g = slope(loss, at_near, y)
    if g == 0.0:
        return 0.0
    far = clamp(g, -1.0, 1.0)
    at_far = at(line, far)
    while abs(far) < abs(g) and (far - slope(loss, at_far, y)) * g < 0.0:
        near, at_near = far, at_far
        far = clamp(2.0 * far, -abs(g), abs(g))
        at_far = at(line, far)
    last = near
    bisect = False
    for _ in range(300):
        width = abs(far - near)
        if width <= 4e-16 * abs(far):
            break
        c = max(0.0, (at_near - at_far) / (far - near))
        b = clamp(prox(loss, at_near + c * near, y, c), min(near, far), max(near, far))
        if min(abs(b - near), abs(b - far)) <= 1e-9 * width or abs(b - last) <= 4e-16 * abs(b):
            # The chord gives the same point again. It is the root if b - phi'(pi(b)) changes sign there, which fails,
            # for example, on a flat piece of pi.
            below, above = b * (1.0 - 1e-15), b * (1.0 + 1e-15)
            under = (below - slope(loss, at(line, below), y)) * far
            over = (above - slope(loss, at(line, above), y)) * far
            if under <= 0.0 <= over:
                return b
            bisect = True
        last = b
        if bisect:
            b = 0.5 * (near + far)
        q = at(line, b)
        if (b - slope(loss, q, y)) * far < 0.0:
            near, at_near = b, q
        else:
            far, at_far = b, q
        bisect = abs(far - near) > 0.5 * width
    return far


@operation
def arrive(line: Any, loss: Any, y: float, near: float) -> tuple[float, float, float, float]:
    """The minimiser b of H with phi*(b), and phi and phi'' at pi(b).

    phi is also evaluated at ``near``, a point close to pi(0).
    """
    b = solve(line, loss, y)
    q = at(line, b)
    return b, conjugate(loss, b, y), value(loss, q, y), curvature(loss, q, y)


@operation
def follow(line: Any, loss: Any, y: float) -> float:
    """The b reached at tau = 1 by db/dtau = phi'(pi(b)) from b = 0: the importance-weight-aware step.

    n steps, each the loss's own flow along the chord of pi over it; n is doubled, with Richardson's extrapolation,
    until two answers agree to 1e-9 or n is 1024, which leaves an error of 1e-5 or less if pi has corners. The true
    answer lies between the minimiser of H and phi'(pi(0)); so does this one.
    """
    g = slope(loss, at(line, 0.0), y)
    if g == 0.0:
        return 0.0
    coarse, best, n = g, g, 4
    while n <= 1024:
        b = 0.0
        for _ in range(n):
            q = at(line, b)
            step = slope(loss, q, y) / n
            if step == 0.0:
                break
            c = max(0.0, (q - at(line, b + step)) / step)
            b += flow(loss, q, y, c / n) / n
        last, best, coarse = best, b + (b - coarse) / 3.0, b
        if abs(best - last) <= 1e-9 * abs(best):
            break
        n *= 2
    a = solve(line, loss, y)
    if not math.isfinite(best):  # on overflow of the slope, the flow ends at the minimiser, up to rounding
        return a
    return clamp(best, min(a, g), max(a, g))


class Affine(NamedTuple):
    """The line of an unconstrained quadratic psi: pi(b) = p - b c with c = h <s, D s>, D the Hessian of psi*.

    >>> from giftrl.losses import Squared
    >>> solve(Affine(p=1.0, c=1.0), Squared(), 0.0)
    0.5
    """

    p: float
    c: float

    def at(self, b: float) -> float:
        return self.p - b * self.c

    def energy(self, b: float) -> float:
        return b * (0.5 * b * self.c - self.p)

    def solve(self, loss: Any, y: float) -> float:
        return prox(loss, self.p, y, self.c)

    def arrive(self, loss: Any, y: float, near: float) -> tuple[float, float, float, float]:
        return land(loss, self.p, y, self.c, near)

    def follow(self, loss: Any, y: float) -> float:
        return flow(loss, self.p, y, self.c)
