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
from typing import Any

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
    """e^x, infinity if that leaves float64."""
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


@formula
def sigmoid(x: float) -> float:
    """1 / (1 + e^-x) of a number or lanes, accurate in both tails."""
    e = exp_minus(absolute(x))  # softplus uses the same exponential, which compiled code shares
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
    """min(1, gap / c) for gap, c >= 0: the fraction of a step of length c that closes the gap."""
    gap = min(gap, LARGEST)
    return gap / max(gap, c, TINY)  # branch-free, so that the compiler can vectorise it


@formula
def sign(x: float) -> float:
    """-1, 0 or 1."""
    if x > 0.0:
        return 1.0
    return -1.0 if x < 0.0 else 0.0


# Special functions, written by hand because SciPy's cannot be compiled.

#: Gauss and Legendre's rule of twelve nodes on [-1, 1]: the positive nodes, and their weights. Constants, because the
#: last bits of NumPy's values depend on its LAPACK.
POSITIVE = (
    (0.1252334085114689, 0.2491470458134027), (0.3678314989981802, 0.2334925365383546),
    (0.5873179542866175, 0.20316742672306573), (0.7699026741943047, 0.16007832854334642),
    (0.9041172563704748, 0.10693932599531907), (0.9815606342467192, 0.04717533638651141),
)  # fmt: skip
#: The rule on [0, 1], exact for polynomials of degree 23.
NODES = (*(0.5 - 0.5 * node for node, _ in POSITIVE[::-1]), *(0.5 + 0.5 * node for node, _ in POSITIVE))
WEIGHTS = (*(0.5 * weight for _, weight in POSITIVE[::-1]), *(0.5 * weight for _, weight in POSITIVE))


@formula
def wright_omega(x: float) -> float:
    """The w > 0 with w + log(w) = x.

    Below -12 a series; elsewhere two steps of fourth order (Fritsch, Shafer and Crowley) from the guesses of Lawrence,
    Corless and Jeffrey (2012), Algorithm 917. Written by hand because SciPy's cannot be compiled.

    >>> wright_omega(1.0), round(wright_omega(0.0), 9), round(wright_omega(100.0), 9)
    (1.0, 0.56714329, 95.441486646)
    """
    if x < -12.0:
        t = math.exp(x)
        return t * (1.0 - t * (1.0 - 1.5 * t))
    if x > 1e18:
        return x
    if x < 1.0:
        w = math.exp(x) if x < -2.0 else math.exp((x - 1.0) / 1.5)
    else:
        t = math.log(x)
        w = x - t + t / x
    for _ in range(2):
        r = x - w - math.log(w)
        t = 2.0 * (1.0 + w) * (1.0 + w + r / 1.5)
        w *= 1.0 + r / (1.0 + w) * (t - r) / (t - 2.0 * r)
    return w


@formula
def mean_product(beta: Any) -> float:
    """The integral over x from 0 to 1 of the product of 1 - beta_k x, for beta_k in [0, 1].

    The product falls to exp(-12) of itself no faster than by x = 1 - exp(-12/kappa), kappa the sum of beta, because
    -log(1 - beta x) <= -beta log(1 - x). Over such a panel twelve nodes leave a relative error below 1e-12. The rest
    after a panel is the same problem again; two or three panels suffice.
    """
    total, x = 0.0, 0.0
    for _ in range(50):
        kappa, ahead = 0.0, 1.0 - x
        for k in range(np.uint64(len(beta))):
            kappa += beta[k] * ahead / (1.0 - beta[k] * x)
        whole = kappa <= 12.0 or len(beta) <= 24
        width = ahead if whole else -ahead * math.expm1(-12.0 / kappa)
        for i in range(0, 12, 2):  # two independent products at a time
            one, two = x + width * NODES[i], x + width * NODES[i + 1]
            at_one, at_two = 1.0, 1.0
            for k in range(np.uint64(len(beta))):
                at_one *= 1.0 - beta[k] * one
                at_two *= 1.0 - beta[k] * two
            total += width * (WEIGHTS[i] * at_one + WEIGHTS[i + 1] * at_two)
        x += width
        rest = 1.0 - x
        for k in range(np.uint64(len(beta))):
            rest *= 1.0 - beta[k] * x
        if whole or rest <= 1e-17 * total:
            break
    return total
