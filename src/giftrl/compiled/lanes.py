"""Lanes: SIMD vectors with which a loop handles several models at once.

In plain Python these are short NumPy arrays with the operators of NumPy. Compiled, they are LLVM vectors, which
:mod:`giftrl.compiled.vectors` describes to Numba. A plain loop over models would be slower, because the compiler does
not know that the loop is short and that arrays do not overlap.

Operands and function arguments must have the same number type; each can be lanes or a single number. If all are single
numbers, so is the result: a formula serves both.

The number of lanes comes from an object, ``side``, whose method ``lanes`` returns a compile-time constant. Compiled,
one lane is a plain number.
"""

import math
from collections import namedtuple
from typing import Any

import numpy as np

from giftrl.compiled.registry import operation
from giftrl.errors import Incompatible, require

ROOT_OF_HALF = math.sqrt(0.5)


@operation
def lanes(side: Any) -> int:
    """The number of lanes."""
    raise Incompatible("a side must bring lanes(self), a constant; add that method to its class")


def _class_with(count: int) -> Any:
    """Create a class whose number of lanes is a constant."""

    def lanes(self: Any) -> int:
        return count

    make: Any = namedtuple  # mypy knows it for constant names only
    cls = make(f"Lanes{count}", ())
    cls.lanes, globals()[cls.__name__] = lanes, cls  # loops are cached on disk only if their classes can be imported
    return cls


EVERY = {count: _class_with(count)() for count in (1, 4, 6, 8, 10, 12, 16)}
ONE_LANE, FOUR = EVERY[1], EVERY[4]


def side(count: int) -> Any:
    """The side with a number of lanes.

    >>> side(12)
    Lanes12()
    """
    require(count in EVERY, "count", count, f"must be one of {sorted(EVERY)}", "use four or eight experts")
    return EVERY[count]


def load(side: Any, x: Any, j: int, at: int) -> Any:
    """The numbers of row j of x from column ``at``.

    >>> load(FOUR, np.arange(10.0).reshape(2, 5), 1, 1)
    array([6., 7., 8., 9.])
    """
    return x[j, at : at + side.lanes()].copy()


def store(x: Any, j: int, at: int, v: Any) -> None:
    """Write the numbers of v to row j of x, from column ``at``."""
    x[j, at : at + len(v)] = v


def read(side: Any, x: Any) -> Any:
    """The first numbers of the vector x."""
    return x[: side.lanes()].copy()


def diagonal(side: Any, x: Any) -> Any:
    """The first numbers on the diagonal of the matrix x."""
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
    """The numbers, clipped to [-most, most]."""
    return maximum(minimum(v, most), -most)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two numbers in each lane, and b if one of them is NaN."""
    return where_less(b, a, a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two numbers in each lane, and b if one of them is NaN."""
    return where_less(a, b, a, b)


def absolute(v: Any) -> Any:
    """The numbers without their signs."""
    return abs(v)


def where_less(a: Any, b: Any, x: Any, y: Any) -> Any:
    """x in the lanes in which a < b, and y in the others.

    >>> where_less(np.array([0.0, 1.0, np.nan]), 1.0, 5.0, 6.0), where_less(0.0, 1.0, 5.0, 6.0)
    (array([5., 6., 6.]), 5.0)
    """
    less = a < b
    if isinstance(less, np.ndarray):
        return np.where(less, x, y)
    return x if less else y


def total(v: Any) -> Any:
    """The sum of the lanes, in any order."""
    return v.sum() if isinstance(v, np.ndarray) else v


def least(v: Any) -> Any:
    """The minimum of the lanes."""
    return v.min() if isinstance(v, np.ndarray) else v


def put(v: Any, k: int, number: Any) -> Any:
    """The lanes with a number in place of lane k; quick if k is a constant."""
    changed = v.copy()
    changed[k] = number
    return changed


def get(v: Any, k: int) -> Any:
    """Lane k; quick if k is a constant."""
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
    """2^k for a whole number k from -1022 to 1023, given as ``shifted`` = k + 1.5 * 2^52 in float64.

    >>> float(power_of_two(3.0 + 1.5 * 2.0**52))
    8.0
    """
    return ((np.asarray(shifted).view(np.int64) + 1023) << 52).view(np.float64)[()]


def prefetch(x: Any, j: int, at: int) -> None:
    """Prefetch the cache line of x[j, at]; no effect in plain Python."""


#: The number of rows of :func:`scratch`.
SCRATCH_ROWS = 32


def scratch(side: Any) -> Any:
    """Scratch memory: zeros, :data:`SCRATCH_ROWS` rows with a float64 for each lane. Compiled, it is on the stack, so
    the compiler knows its size and that it does not overlap other arrays.
    """
    return np.zeros((SCRATCH_ROWS, side.lanes()))
