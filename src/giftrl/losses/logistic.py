"""The logistic loss."""

import math
from typing import NamedTuple

from giftrl.ops.scalar import exp, sigmoid, softplus

__all__ = ["Logistic"]


class Logistic(NamedTuple):
    """The loss of logistic regression, for labels -1 and +1.

    phi(p; y) = log(1 + exp(-y p)), differentiable.
    phi*(a) = b log b + (1 - b) log(1 - b) with b = -y a in [0, 1].

    >>> round(Logistic().value(0.0, 1.0), 6)
    0.693147
    >>> round(Logistic().prox(-5.0, 1.0, 1e4), 12)
    -0.001174567963
    """

    def value(self, p: float, y: float) -> float:
        return softplus(-y * p)

    def slope(self, p: float, y: float) -> float:
        return -y * sigmoid(-y * p)

    def accepts(self, y: float) -> bool:
        return abs(y) == 1.0

    def labels(self) -> str:
        return "-1 or +1"

    def infimum(self, y: float) -> float:
        return 0.0

    def smoothness(self) -> float:
        return 0.25

    def curvature(self, p: float, y: float) -> float:
        return sigmoid(p) * sigmoid(-p)

    def conjugate(self, a: float, y: float) -> float:
        b = -y * a
        if not 0.0 <= b <= 1.0:
            return math.inf
        if b in (0.0, 1.0):
            return 0.0
        return b * math.log(b) + (1.0 - b) * math.log1p(-b)

    def prox(self, p: float, y: float, c: float) -> float:
        # The new margin u solves F(u) = u - m - c sigmoid(-u) = 0, and F increases. A Newton iteration on the slope b
        # itself cycles for large c (m = -5, c = 1e4), so iterate on u inside a bracket, and bisect when Newton would
        # leave it or does not halve the last step. The bracket: u lies in [m, m + c sigmoid(-m)]; beyond log c the
        # slope has moved u by less than 1 from m, and below -log c by less than 1 from m + c.
        m = y * p
        b = sigmoid(-m)
        log_c = math.log1p(c)
        low = max(m, min(m + c - 1.0, -log_c))
        high = min(m + c * b, max(m + 1.0, log_c))
        if not low < high:
            return -y * b
        u = m + c * b / (1.0 + c * b * (1.0 - b))
        if not low < u < high:
            u = 0.5 * (low + high)
        last = high - low
        for _ in range(100):
            b = sigmoid(-u)
            f = (u - m) - c * b
            if f > 0.0:
                high = u
            else:
                low = u
            step = f / (1.0 + c * b * (1.0 - b))
            new = u - step
            # Newton squares the error, and F'' <= F': a step below 1e-8 leaves an error below 1e-16.
            if abs(step) <= 1e-8:
                u = new
                break
            if not low < new < high or abs(step) > 0.5 * last:
                new = 0.5 * (low + high)
            last = abs(new - u)
            u = new
        return -y * sigmoid(-u)

    def flow(self, p: float, y: float, c: float) -> float:
        # m + exp(m) grows at the rate c, so the move d of the margin solves F(d) = d + exp(m) (exp(d) - 1) - c = 0.
        # F is convex and increasing: Newton from an upper bound comes down to the root and never passes it. Both
        # c sigmoid(-m), from exp(d) - 1 >= d, and log(1 + c exp(-m)) are upper bounds.
        m = y * p
        b = sigmoid(-m)
        if c * b < 1e-17:  # the slope changes by less than this share of itself on the way
            return -y * b
        grown = exp(m)
        d = min(c * b, softplus(math.log(c) - m))
        for _ in range(100):
            # exp(m) (exp(d) - 1), without the overflow of exp(d).
            rise = grown * math.expm1(d) if d < 1.0 else exp(m + d) - grown
            step = (d + rise - c) / (1.0 + grown + rise)
            if not step > 1e-16 * d:
                break
            d -= step
        return -y * min(d / c, b)
