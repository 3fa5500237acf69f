"""Numbers side by side: what a loop does for several models at once, in one step of a wide register.

In plain Python these are short NumPy arrays with the operators of NumPy. Compiled, they are LLVM vectors, which
:mod:`giftrl.compiled.vectors` and :mod:`giftrl.compiled.vector_math` describe to Numba. A plain loop over the models
would compute the same, but the compiler does not know that the loop is short and that arrays do not overlap, and
checking that takes longer than the step.

Both sides of an operator must have the same type, and so must the arguments of a function, each of them lanes or one
number for all lanes. With nothing but numbers the functions give a number: a formula can be written once for both. The
class of ``side`` gives the number of lanes: its method ``lanes`` returns a constant, which the compiler calls without
an object, before any exists. Compiled, one lane is a plain number.
"""

import math
from typing import Any

import numpy as np

ROOT_OF_HALF = math.sqrt(0.5)


def load(side: Any, x: Any, j: int, at: int) -> Any:
    """The numbers of row j of x from column ``at``.

    >>> class Two(tuple):
    ...     def lanes(self): return 2
    >>> load(Two(), np.array([[1.0, 2.0, 3.0]]), 0, 1)
    array([2., 3.])
    """
    return x[j, at : at + side.lanes()].copy()


def store(x: Any, j: int, at: int, v: Any) -> None:
    """Write the numbers of v to row j of x, from column ``at``."""
    x[j, at : at + len(v)] = v


def read(side: Any, x: Any) -> Any:
    """The first numbers of the vector x.

    >>> class Two(tuple):
    ...     def lanes(self): return 2
    >>> read(Two(), np.array([1.0, 2.0, 3.0]))
    array([1., 2.])
    """
    return x[: side.lanes()].copy()


def diagonal(side: Any, x: Any) -> Any:
    """The first numbers on the diagonal of the matrix x.

    >>> class Two(tuple):
    ...     def lanes(self): return 2
    >>> diagonal(Two(), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([1., 4.])
    """
    return x.diagonal()[: side.lanes()].copy()


def write(x: Any, v: Any) -> None:
    """Write the numbers of v to the start of the vector x."""
    x[: len(v)] = v


def zeros(side: Any) -> Any:
    """A zero in each lane, as float64."""
    return np.zeros(side.lanes())


def wide(v: Any) -> Any:
    """The numbers as float64."""
    return v.astype(np.float64)


def narrow(x: Any, v: Any) -> Any:
    """The numbers in the type of x."""
    return v.astype(x.dtype)


def clip(v: Any, most: Any) -> Any:
    """The numbers, clipped to [-most, most].

    >>> clip(np.array([-3.0, 1.0]), 2.0)
    array([-2.,  1.])
    """
    return maximum(minimum(v, most), -most)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two numbers in each lane, and b if one of them is NaN.

    >>> maximum(np.array([1.0, 3.0]), 2.0)
    array([2., 3.])
    """
    return where_less(b, a, a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two numbers in each lane, and b if one of them is NaN.

    >>> minimum(np.array([1.0, 3.0]), 2.0)
    array([1., 2.])
    """
    return where_less(a, b, a, b)


def absolute(v: Any) -> Any:
    """The numbers without their signs.

    >>> absolute(np.array([-1.0, 2.0]))
    array([1., 2.])
    """
    return abs(v)


def where_less(a: Any, b: Any, x: Any, y: Any) -> Any:
    """x in the lanes in which a < b, and y in the others.

    >>> where_less(np.array([0.0, 1.0, np.nan]), 1.0, 5.0, 6.0)
    array([5., 6., 6.])
    >>> where_less(0.0, 1.0, 5.0, 6.0)
    5.0
    """
    less = a < b
    if isinstance(less, np.ndarray):
        return np.where(less, x, y)
    return x if less else y


def total(v: Any) -> Any:
    """The sum of the lanes, in any order.

    >>> float(total(np.array([1.0, 2.0, 4.0])))
    7.0
    """
    return v.sum() if isinstance(v, np.ndarray) else v


def least(v: Any) -> Any:
    """The least of the lanes.

    >>> float(least(np.array([2.0, 1.0, 4.0])))
    1.0
    """
    return v.min() if isinstance(v, np.ndarray) else v


def put(v: Any, k: int, number: Any) -> Any:
    """The lanes with a number in place of lane k; quick if k is a constant.

    >>> put(np.array([1.0, 2.0]), 1, 5.0)
    array([1., 5.])
    """
    changed = v.copy()
    changed[k] = number
    return changed


def get(v: Any, k: int) -> Any:
    """Lane k; quick if k is a constant.

    >>> float(get(np.array([1.0, 2.0]), 1))
    2.0
    """
    return v[k]


def exponent(x: Any) -> Any:
    """The whole number k with x/2^k in [1/sqrt(2), sqrt(2)), as float64, for normal numbers x > 0.

    >>> exponent(np.array([0.75, 8.0, 12.0]))
    array([0., 3., 4.])
    """
    part, k = math.frexp(x) if isinstance(x, float) else np.frexp(x)
    return k - where_less(part, ROOT_OF_HALF, 1.0, 0.0)


def mantissa(x: Any) -> Any:
    """x/2^k, with k from :func:`exponent`.

    >>> mantissa(np.array([0.75, 8.0, 12.0]))
    array([0.75, 1.  , 0.75])
    """
    part, _ = math.frexp(x) if isinstance(x, float) else np.frexp(x)
    return where_less(part, ROOT_OF_HALF, 2.0 * part, part)


def power_of_two(shifted: Any) -> Any:
    """2^k for the whole number k from -1022 to 1023 of which ``shifted`` is the sum with 1.5 * 2^52, in float64.

    >>> float(power_of_two(3.0 + 1.5 * 2.0**52))
    8.0
    """
    return ((np.asarray(shifted).view(np.int64) + 1023) << 52).view(np.float64)[()]


def prefetch(x: Any, j: int, at: int) -> None:
    """Ask for the cache line of x[j, at] without waiting for it; in plain Python this does nothing."""


#: How many rows :func:`scratch` has.
SCRATCH_ROWS = 32


def scratch(side: Any) -> Any:
    """Zeros to work with, :data:`SCRATCH_ROWS` rows with a float64 for each lane.

    Compiled, they are on the stack: the compiler then knows how many there are, and that no other array overlaps them.
    """
    return np.zeros((SCRATCH_ROWS, side.lanes()))
