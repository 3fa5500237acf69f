"""Exponential and logarithm as plain arithmetic, for compiled loops.

The exponential of the C library is a function call, and a loop with a call in it handles one element at a time. These
are polynomials without a branch: for many models side by side they take a quarter of the time, and for one model no
longer. They are accurate to two units in the last place; tests compare them with mpmath. Plain Python uses
:mod:`math` instead.

The coefficients interpolate at Chebyshev points (with relative errors of 3e-18 before rounding).
"""

import math

import numpy as np

from giftrl.compiled.registry import formula

#: Adding and taking away 1.5 * 2^52 rounds to a whole number, which the low bits of the sum then hold.
ROUND = 6755399441055744.0
PER_LN2 = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
BIAS = 1023


def exp_minus(x: float) -> float:
    """exp(-x) for x >= 0; 0 from 708 on.

    -x = k ln 2 + r with abs(r) <= ln 2 / 2, and 2^k is made from the bits of k.
    """
    y = max(-x, -709.0)
    shifted = y * PER_LN2 + ROUND
    k = shifted - ROUND
    r = (y - k * LN2_HIGH) - k * LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5000000000000019 + 0.1666666666666668 * r)
    middle = (0.04166666666648795 + 0.008333333333319589 * r) + r2 * (0.0013888888952352863 + 1.9841269890076403e-4 * r)
    high = (2.4801485441561313e-5 + 2.755724088722987e-6 * r) + r2 * (2.763265472252779e-7 + 2.5110049204818658e-8 * r)
    power = np.int64((np.float64(shifted).view(np.int64) + BIAS) << 52).view(np.float64)
    return (low + r4 * (middle + r4 * high)) * power if x < 708.0 else 0.0


@formula
def twice_atanh(z: float) -> float:
    """log((1 + z)/(1 - z)) for abs(z) <= 1/3."""
    w = z * z
    w2 = w * w
    w4 = w2 * w2
    low = (0.6666666666666615 + 0.4000000000018575 * w) + w2 * (0.28571428545454114 + 0.22222224080747674 * w)
    middle = (0.18181740832504806 + 0.1538661404230401 * w) + w2 * (0.13300374032674625 + 0.12110168728069218 * w)
    high = 0.0832450651186082 + 0.17044163562781398 * w
    return 2.0 * z + z * w * (low + w4 * (middle + w4 * high))


def log1p_unit(x: float) -> float:
    """log(1 + x) for -1/2 <= x <= 1."""
    return twice_atanh(x / (2.0 + x))


def log(x: float) -> float:
    """The logarithm of x >= 1e-300; minus infinity below.

    x = 2^k m with m in [1/sqrt(2), sqrt(2)). k is found with operations that processors have for several numbers at a
    time: a shift of positive numbers, and bits that make 2^52 + 1000 + k.
    """
    bits = np.float64(max(x, 1e-300)).view(np.int64)
    shifted = bits - (0x3FE6A09E667F3BCD - 0x3E80000000000000)  # k + 1000, which is from 3 to 2024, is at its top
    high = shifted & 0x7FF0000000000000
    m = np.int64(bits - high + 0x3E80000000000000).view(np.float64)
    k = np.int64((high >> 52) | 0x4330000000000000).view(np.float64) - (4503599627370496.0 + 1000.0)
    return k * LN2_HIGH + (twice_atanh((m - 1.0) / (m + 1.0)) + k * LN2_LOW) if x >= 1e-300 else -math.inf
