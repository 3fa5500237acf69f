"""The Poisson loss."""

import math
from typing import NamedTuple

from giftrl.ops.scalar import decay_mean, exp, log_add_exp


class Poisson(NamedTuple):
    """The negative log-likelihood of a Poisson count with mean exp(p), for labels y >= 0 (log y! left out).

    phi(p; y) = exp(p) - y p, differentiable.
    phi*(a) = w log w - w with w = a + y >= 0.

    >>> Poisson().value(0.0, 2.0)
    1.0
    >>> round(Poisson().prox(2.0, 1.0, 0.5), 9)
    1.882608661
    """

    def value(self, p: float, y: float) -> float:
        e = exp(p)
        # exp(p) overflows long before y p; avoid infinity minus infinity.
        return e if e == math.inf else e - y * p

    def slope(self, p: float, y: float) -> float:
        return exp(p) - y

    def accepts(self, y: float) -> bool:
        return 0.0 <= y < math.inf

    def labels(self) -> str:
        return "a finite number that is not negative"

    def kinked(self) -> bool:
        return False

    def lowest(self, y: float) -> float:
        return math.log(y) if y >= 1.0 else -30.0  # a count of 0 does not mean a rate of 0

    def highest(self, y: float) -> float:
        return math.log(max(y, 1.0))

    def offset(self, mean: float, weight: float) -> float:
        # Additive smoothing: half an event in half a row more, so that it is always finite.
        return math.log((mean * weight + 0.5) / (weight + 0.5))

    def spread(self, y: float, o: float) -> float:
        return 1.0  # predictions are logarithms: their unit is that of a relative change

    def infimum(self, y: float) -> float:
        return y - y * math.log(y) if y > 0.0 else 0.0

    def curvature(self, p: float, y: float) -> float:
        return exp(p)

    def conjugate(self, a: float, y: float) -> float:
        w = a + y
        if w < 0.0:
            return math.inf
        return w * (math.log(w) - 1.0) if w > 0.0 else 0.0

    def prox(self, p: float, y: float, c: float) -> float:
        # The new prediction u solves F(u) = u - p + c (exp(u) - y) = 0. F is convex and increasing, so Newton from a
        # point with F >= 0 comes down to the root and never passes it. Two such points: max(p, log y), where the terms
        # of F have one sign, and max(0, log(abs(p)/c + y)), which stays small when p is huge.
        if c == 0.0:
            return exp(p) - y
        log_c = math.log(c)
        log_y = math.log(y) if y > 0.0 else -math.inf
        u = max(p, log_y)
        if p != 0.0:
            u = min(u, max(0.0, log_add_exp(math.log(abs(p)) - log_c, log_y)))
        for _ in range(200):
            if c < 1.0:
                e = exp(u + log_c)
                step = (u - p + e - c * y) / (1.0 + e)
            else:  # the same divided by c: c y may overflow
                e = exp(u)
                step = ((u - p) / c + e - y) / (1.0 / c + e)
            u -= step
            if not step > 1e-16 * abs(u):
                break
        # Two formulas of the same number; use the one with the smaller rounding error.
        e = exp(u)
        return e - y if c * e * abs(u) <= abs(p) + abs(u) else (p - u) / c

    def flow(self, p: float, y: float, c: float) -> float:
        # exp(-p) relaxes towards 1/y: the move of p is log(1 + E (exp(p) - y)) with E = (1 - exp(-c y))/y.
        if c == 0.0 or c * (exp(p) + y) < 1e-17:  # the slope changes by less than this share of itself on the way
            return exp(p) - y
        log_e = -math.log(y) if c * y > 50.0 else math.log(c * decay_mean(c * y))
        moved = exp(log_e + p) + math.expm1(-c * y)
        mean = math.log1p(moved) / c if -0.5 < moved < 1e8 else log_add_exp(log_e + p, -c * y) / c
        return max(-y, mean)  # rounding must not leave the domain of phi*
