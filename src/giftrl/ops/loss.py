"""The interface of losses of one prediction.

For a linear model the loss of an example (s, y) at x is phi(<s, x>; y), with phi convex in the prediction p. A loss is
a ``NamedTuple`` with :func:`value` and :func:`slope`. All other operations have fallbacks that use these two, accurate
but slower than a closed form.

An example of weight h has the loss h phi. Every rule scales: with b the slope picked for phi at step length h c, the
slope for h phi at step length c is h b. So no operation here takes a weight.

The slope at a kink is the subgradient that is smallest in magnitude, so it is 0 wherever 0 is a subgradient.
"""

import math
from typing import Any, Protocol

from giftrl.compiled.registry import operation
from giftrl.errors import Incompatible
from giftrl.ops.scalar import clamp, decay_mean, exp


class ScalarLoss(Protocol):
    """The required methods of a loss.

    >>> from typing import NamedTuple
    >>> class Cubic(NamedTuple):
    ...     def value(self, p, y):
    ...         return abs(p - y) ** 3
    ...     def slope(self, p, y):
    ...         return 3 * (p - y) * abs(p - y)
    >>> round(prox(Cubic(), 2.0, 1.0, 1.0), 6)  # computed from these two
    0.565741
    """

    def value(self, p: float, y: float) -> float: ...
    def slope(self, p: float, y: float) -> float: ...


@operation
def value(loss: Any, p: float, y: float) -> float:
    """phi(p; y)."""
    raise Incompatible("a loss must bring value(self, p, y); add that method to its class")


@operation
def slope(loss: Any, p: float, y: float) -> float:
    """The subgradient phi'(p; y) that is smallest in magnitude."""
    raise Incompatible("a loss must bring slope(self, p, y); add that method to its class")


@operation
def accepts(loss: Any, y: float) -> bool:
    """True if y is a label of this loss."""
    return math.isfinite(y)


@operation
def labels(loss: Any) -> str:
    """The labels of this loss in words, for error messages."""
    return "a finite number"


@operation
def residual(loss: Any) -> bool:
    """True if phi depends on p - y alone, so that phi(p + b; y) = phi(p; y - b); False if unknown."""
    return False


@operation
def infimum(loss: Any, y: float) -> float:
    """inf over p of phi(p; y); minus infinity if unknown."""
    return -math.inf


@operation
def smoothness(loss: Any) -> float:
    """The least L such that phi' is L-Lipschitz; infinity if there is none or it is unknown."""
    return math.inf


@operation
def curvature(loss: Any, p: float, y: float) -> float:
    """phi''(p; y), 0 on a kink. Fallback: a central difference of the slope."""
    e = 1e-5 * max(1.0, abs(p))
    return max(0.0, (slope(loss, p + e, y) - slope(loss, p - e, y)) / (2.0 * e))


@operation
def conjugate(loss: Any, a: float, y: float) -> float:
    """phi*(a; y) = sup over p of a p - phi(p; y), infinity outside its domain.

    Fallback: bracket the p at which the slope passes a by doubling, then bisect. A slope that never reaches a within
    abs(p) <= 2^60 puts a outside the domain, unless the slope has come within 1e-9 of it.
    """
    low, high = -1.0, 1.0
    while slope(loss, low, y) > a and low > -1e18:
        low *= 2.0
    while slope(loss, high, y) < a and high < 1e18:
        high *= 2.0
    if slope(loss, low, y) > a + 1e-9 * abs(a) or slope(loss, high, y) < a - 1e-9 * abs(a):
        return math.inf
    for _ in range(200):
        middle = 0.5 * (low + high)
        if slope(loss, middle, y) < a:
            low = middle
        else:
            high = middle
    return max(a * low - value(loss, low, y), a * high - value(loss, high, y))


@operation
def prox(loss: Any, p: float, y: float, c: float) -> float:
    """The a with a in d phi(p - a c): the minimiser of -a p + a^2 c / 2 + phi*(a).

    Fallback: with g = phi'(p), the map r -> r - phi'(p - r g c)/g increases, is -1 at r = 0 and not negative at r = 1.
    The root is bracketed there; false position (Illinois) if it halves the bracket, bisection if it does not,
    geometric while the ends are orders of magnitude apart.
    """
    g = slope(loss, p, y)
    if g == 0.0 or c == 0.0 or not math.isfinite(g):
        return g
    low, at_low = 0.0, -1.0
    high, at_high = 1.0, 1.0 - slope(loss, p - g * c, y) / g
    if at_high <= 0.0:
        return g
    halved = True
    for _ in range(300):
        r = (low * at_high - high * at_low) / (at_high - at_low)
        if not halved or not low < r < high:
            r = 0.5 * (low + high) if high < 1e3 * low else math.sqrt(max(low, 1e-300) * high)
        width = high - low
        at_r = r - slope(loss, p - g * r * c, y) / g
        if at_r < 0.0:
            low, at_low, at_high = r, at_r, 0.5 * at_high
        else:
            high, at_high, at_low = r, at_r, 0.5 * at_low
        if at_r == 0.0 or high - low <= 4e-16 * high:
            return g * r
        halved = high - low <= 0.5 * width
    return g * 0.5 * (low + high)


@operation
def land(loss: Any, p: float, y: float, c: float, near: float) -> tuple[float, float, float, float]:
    """The proximal a with phi*(a), and phi and phi'' at p - a c. A loss defines this if computing them together is
    cheaper. phi is also evaluated at ``near``, a point close to p.
    """
    a = prox(loss, p, y, c)
    q = p - a * c
    return a, conjugate(loss, a, y), value(loss, q, y), curvature(loss, q, y)


@operation
def meet_all(loss: Any, side: Any, p: Any, y: float, phi: Any, g: Any) -> None:
    """:func:`value` and :func:`slope` for the array p and one label, into the arrays phi and g.

    All arrays are as long as ``side`` has lanes (:mod:`giftrl.compiled.lanes`), for losses that use them.
    """
    for k in range(len(p)):
        phi[k] = value(loss, p[k], y)
        g[k] = slope(loss, p[k], y)


@operation
def bend_at(loss: Any, p: float, y: float, g: float) -> float:
    """:func:`curvature` at p with known slope g; a loss defines this if it is cheaper."""
    return curvature(loss, p, y)


@operation
def approach_all(loss: Any, side: Any, p: Any, y: float, c: Any, g: Any, a: Any) -> None:
    """:func:`prox` for the arrays p and c and one label, into the array a; g has the slopes at p.

    The experts of a mixture learn as well from steps that are nearly proximal, which some losses find much faster. No
    certificate depends on them.
    """
    for k in range(len(p)):
        a[k] = prox(loss, p[k], y, c[k]) if c[k] > 0.0 else g[k]


@operation
def flow(loss: Any, p: float, y: float, c: float) -> float:
    """The mean slope along dp/dtau = -c phi'(p) for tau in [0, 1]: the importance-weight-aware step.

    Fallback: exponential steps, exact where the slope is affine. The error of the predicted slope at the end of a step
    is quadratic in time: a third of it corrects the mean, and it also controls the step length. The true mean slope
    lies between the proximal slope and phi'(p); so does the answer.
    """
    g = slope(loss, p, y)
    if g == 0.0 or c == 0.0 or not math.isfinite(g):
        return g
    lowest = prox(loss, p, y, c)
    q, at_q, b, left, h = p, g, 0.0, 1.0, 1.0
    for _ in range(5000):
        k = c * h * curvature(loss, q, y)
        mean = at_q * decay_mean(k)
        end = slope(loss, q - c * h * mean, y)
        miss = end - at_q * exp(-k)
        if end * g <= 0.0:
            # Past the minimum. If the slope is constant as far as the kink, the proximal step is exact.
            a = prox(loss, q, y, c * h)
            before = slope(loss, q - (1.0 - 1e-7) * c * h * a, y)
            if abs(before - at_q) <= abs(miss):
                mean, miss = a, before - at_q
        error = h * abs(miss) / (1e-7 * abs(b + h * mean) + 1e-300)
        if error <= 1.0 or h < 1e-12:
            step = h * (mean + miss / 3.0)
            q -= c * step
            at_q = slope(loss, q, y)
            b += step
            left -= h
            if not left > 0.0 or at_q * g <= 0.0:
                break
        h = min(left, h * clamp(0.9 * max(error, 1e-30) ** (-1.0 / 3.0), 0.1, 4.0))
    # If c g overflows, the flow ends at the proximal step.
    return clamp(b, min(lowest, g), max(lowest, g)) if math.isfinite(b) else lowest


# The scale of a loss, for learners without hyperparameters: the start, range and unit of predictions. Labels -1 and +1,
# and classes, have the unit 1. Real labels are learned around their running mean, in units of their mean distance from
# it. A loss whose predictions are not on the scale of its labels, such as the Poisson loss, brings these operations.


@operation
def multiclass(loss: Any) -> bool:
    """True for a loss of K scores, False for a loss of one prediction."""
    return False


@operation
def kinked(loss: Any) -> bool:
    """True if phi' has jumps, so that phi'' does not give its average change, as for piecewise linear losses."""
    return smoothness(loss) == math.inf


@operation
def reach(loss: Any) -> float:
    """The limit beyond which larger predictions never reduce the loss; may be infinite.

    For labels -1 and +1 a prediction beyond -reach or reach never costs less than one at that limit. For classes a
    score that is lower than the best by more than reach never does.
    """
    return math.inf


@operation
def boost(loss: Any) -> float:
    """The factor by which a mixture also tries larger predictions than its own, for binary labels and for classes.

    Predictions of a mixture of learners that start at 0 are too small. Measured for classes, by the progressive loss in
    three orders of the rows: 1.5 was worse than 1.25 on the data set segment in each, by 0.8% to 1.5%, and within
    about 0.5% either way on pendigits, satimage and mnist.t. If predictions beyond a reach never pay, the loss of
    clipped predictions is least at the limits, and learners of the unclipped loss stop far short of them.
    """
    if reach(loss) < math.inf:
        return 10.0
    return 1.25 if multiclass(loss) else 1.5


@operation
def lowest(loss: Any, y: float) -> float:
    """The lower limit of useful predictions after the label y."""
    return y


@operation
def highest(loss: Any, y: float) -> float:
    """The upper limit of useful predictions after the label y."""
    return y


@operation
def offset(loss: Any, mean: float, weight: float) -> float:
    """The constant prediction for labels of this mean and total weight."""
    return mean


@operation
def spread(loss: Any, y: float, o: float) -> float:
    """The distance of the label y from the constant prediction o, in units of predictions."""
    return abs(y - o)
