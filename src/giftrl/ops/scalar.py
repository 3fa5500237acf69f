"""Scalar functions that neither overflow nor raise, in plain Python and compiled alike.

``math.exp(1000)`` raises in Python and gives infinity once compiled; these give the same answer in both.

>>> exp(1e300), exp_minus(1e300), log(0.0), log1p_unit(0.0), log_add_exp(1e300, -1e300)
(inf, 0.0, -inf, 0.0, 1e+300)
>>> sigmoid(-1e300), sigmoid(0.0), sigmoid(1e300), softplus(-1e300), softplus(1e300)
(0.0, 0.5, 1.0, 0.0, 1e+300)
>>> decay_mean(0.0), decay_mean(1e-300), decay_mean(1e300), clamp(3.0, 0.0, 1.0), sign(-3.0), sign(0.0)
(1.0, 1.0, 1e-300, 1.0, -1.0, 0.0)
>>> share(1.0, 4.0), share(4.0, 1.0), share(0.0, 0.0), share(1e300, 1e-300)
(0.25, 1.0, 0.0, 1.0)
"""

import math

import numpy as np

from giftrl.compiled.lanes import absolute, maximum, where_less
from giftrl.compiled.registry import compiled_as, formula
from giftrl.ops import elementary

#: exp(LOG_MAX) is the largest finite power of e.
LOG_MAX = 709.782712893384
#: The smallest positive number and the largest.
TINY, LARGEST = 5e-324, 1.7976931348623157e308


@formula
def exp(x: float) -> float:
    """e^x, infinity where that leaves float64."""
    if x > LOG_MAX:
        return math.inf
    return math.exp(x)


@compiled_as(elementary.exp_minus)
def exp_minus(x: float) -> float:
    """e^-x for x >= 0, a number or lanes."""
    return math.exp(-x) if isinstance(x, float) else np.exp(-x)


@compiled_as(elementary.exp_small)
def exp_small(x: float) -> float:
    """e^x for abs(x) <= ln 2 / 2."""
    return math.exp(x)


@compiled_as(elementary.log1p_unit)
def log1p_unit(x: float) -> float:
    """log(1 + x) for -1/2 <= x <= 1, a number or lanes."""
    return math.log1p(x) if isinstance(x, float) else np.log1p(x)


@compiled_as(elementary.log)
def log(x: float) -> float:
    """The logarithm of x >= 0, a number or lanes; minus infinity at 0."""
    if isinstance(x, float):
        return math.log(x) if x > 0.0 else -math.inf
    with np.errstate(divide="ignore"):
        return np.log(x)


@compiled_as(elementary.log_quotient)
def log_quotient(x: float, y: float) -> float:
    """log(x / y) where x / y is from 1/2 to 2."""
    return math.log1p((x - y) / y)


@formula
def sigmoid(x: float) -> float:
    """1 / (1 + e^-x) of a number or lanes, accurate in both tails."""
    e = exp_minus(absolute(x))  # the exponential that softplus takes too: compiled, they share it
    return where_less(x, 0.0, e, 1.0) / (1.0 + e)  # type: ignore[no-any-return]


@formula
def softplus(x: float) -> float:
    """log(1 + e^x) of a number or lanes."""
    return maximum(x, 0.0) + log1p_unit(exp_minus(absolute(x)))  # type: ignore[no-any-return]


@formula
def log_add_exp(x: float, y: float) -> float:
    """log(e^x + e^y)."""
    if x >= y:
        return x + math.log1p(math.exp(y - x))
    return y + math.log1p(math.exp(x - y))


@formula
def decay_mean(x: float) -> float:
    """(1 - e^-x) / x for x >= 0: the mean of e^-(x tau) over tau in [0, 1]."""
    if x < 1e-300:
        return 1.0
    return -math.expm1(-x) / x


@formula
def clamp(x: float, low: float, high: float) -> float:
    """The point of [low, high] nearest to x."""
    return min(max(x, low), high)


@formula
def share(gap: float, c: float) -> float:
    """min(1, gap / c) for gap, c >= 0: which part of a step of length c it takes to close the gap."""
    gap = min(gap, LARGEST)
    return gap / max(gap, c, TINY)  # without a branch, so that a compiler can do this for several models at a time


@formula
def sign(x: float) -> float:
    """-1, 0 or 1."""
    if x > 0.0:
        return 1.0
    return -1.0 if x < 0.0 else 0.0
