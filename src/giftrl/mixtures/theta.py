"""theta of the certificate: minus the sum of slope times row, in the original features and in float64.

Values come from the rows themselves, in a walk of its own: it needs nothing of what the experts need.
"""

from typing import Any

import numpy as np

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.mixtures.limits import LARGEST_THETA, LARGEST_VALUE, ORDINARY_SLOPE
from giftrl.ops.scalar import clamp

ONLY = np.uint64(0)


@formula(fast=True)
def shift(theta: Any, j: int, m: Any, z: float) -> int:
    """theta_j -= z for score m; return 1 if that is out of bounds, and then leave theta_j as it was."""
    new = theta[j, m] - z
    fits = abs(new) <= LARGEST_THETA
    theta[j, m] = new if fits else theta[j, m]
    return 0 if fits else 1


@formula(fast=True)
def move_theta(theta: Any, rows: Any, i: int, slope: float, row: Any) -> int:
    """theta -= slope s, s row i; return how many are out of bounds.

    In a row without huge values, and with a slope of ordinary size, nothing leaves its bounds.
    """
    first, last, far = begin(rows, i), end(rows, i), 0
    if row.many[1] > 0 or not abs(slope) <= ORDINARY_SLOPE:
        for k in range(first, last):
            v = clamp(np.float64(rows.data[k]), -LARGEST_VALUE, LARGEST_VALUE)
            far += shift(theta, column(rows, i, k), ONLY, slope * v)
        return far
    for k in range(first, last):
        theta[column(rows, i, k), ONLY] -= slope * np.float64(rows.data[k])
    return far


@formula(fast=True)
def move_thetas(theta: Any, rows: Any, i: int, slopes: Any, h: float) -> int:
    """:func:`move_theta` for each of K scores, with a slope for each and weight h."""
    far = 0
    for k in range(begin(rows, i), end(rows, i)):
        j, v = column(rows, i, k), h * clamp(np.float64(rows.data[k]), -LARGEST_VALUE, LARGEST_VALUE)
        for m in range(len(slopes)):
            far += shift(theta, j, m, slopes[m] * v)
    return far
