"""Exponential and logarithm as plain arithmetic, for compiled loops.

The exponential of the C library is a function call, and a loop with a call in it handles one element at a time. These
are polynomials without a branch: for many models side by side they take a quarter of the time, and for one model no
longer. They are accurate to two units in the last place; tests compare them with mpmath. Plain Python uses
:mod:`math` and NumPy instead. They take lanes (:mod:`giftrl.compiled.lanes`) as well as numbers.

The coefficients interpolate at Chebyshev points (with relative errors of 3e-18 before rounding).
"""

import math
from typing import Any

from giftrl.compiled.lanes import exponent, mantissa, maximum, power_of_two, where_less
from giftrl.compiled.registry import formula

#: Adding and subtracting 1.5 * 2^52 rounds to a whole number, held in the low bits of the sum.
ROUND = 6755399441055744.0
PER_LN2 = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@formula
def exp_small(x: Any) -> Any:
    """exp(x) for abs(x) <= ln 2 / 2."""
    x2 = x * x
    x4 = x2 * x2
    low = (1.0 + x) + x2 * (0.5000000000000019 + 0.1666666666666668 * x)
    middle = (0.04166666666648795 + 0.008333333333319589 * x) + x2 * (0.0013888888952352863 + 1.9841269890076403e-4 * x)
    high = (2.4801485441561313e-5 + 2.755724088722987e-6 * x) + x2 * (2.763265472252779e-7 + 2.5110049204818658e-8 * x)
    return low + x4 * (middle + x4 * high)


def exp_minus(x: Any) -> Any:
    """exp(-x) for x >= 0; 0 from 709 on.

    -x = k ln 2 + r with abs(r) <= ln 2 / 2, and 2^k is made from the bits of k. There is no condition at the end,
    because a compiler would turn it into a branch and duplicate the exponential.
    """
    y = maximum(-x, -709.0)
    shifted = y * PER_LN2 + ROUND
    k = shifted - ROUND
    r = (y - k * LN2_HIGH) - k * LN2_LOW
    return exp_small(r) * power_of_two(shifted)


@formula
def twice_atanh(z: Any) -> Any:
    """log((1 + z)/(1 - z)) for abs(z) <= 1/3."""
    w = z * z
    w2 = w * w
    w4 = w2 * w2
    low = (0.6666666666666615 + 0.4000000000018575 * w) + w2 * (0.28571428545454114 + 0.22222224080747674 * w)
    middle = (0.18181740832504806 + 0.1538661404230401 * w) + w2 * (0.13300374032674625 + 0.12110168728069218 * w)
    high = 0.0832450651186082 + 0.17044163562781398 * w
    return 2.0 * z + z * w * (low + w4 * (middle + w4 * high))


def log1p_unit(x: Any) -> Any:
    """log(1 + x) for -1/2 <= x <= 1."""
    return twice_atanh(x / (2.0 + x))


def log(x: Any) -> Any:
    """The logarithm of x >= 1e-300; minus infinity below.

    x = 2^k m with m in [1/sqrt(2), sqrt(2)).
    """
    normal = maximum(x, 1e-300)
    k, m = exponent(normal), mantissa(normal)
    found = k * LN2_HIGH + (twice_atanh((m - 1.0) / (m + 1.0)) + k * LN2_LOW)
    return where_less(x, 1e-300, -math.inf, found)


@formula
def rough_log(x: Any) -> Any:
    """The logarithm of a normal number x > 0, to 6e-4: a start for an iteration, in plain Python too."""
    t = mantissa(x) - 1.0
    return exponent(x) * LN2_HIGH + t * (1.00170312 + t * (0.30849874 * t - 0.52268935))
