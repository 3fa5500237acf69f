"""Numbers side by side: what a loop does for several models at once, in one step of a wide register.

In plain Python these are short NumPy arrays with the operators of NumPy. Compiled, they are LLVM vectors, which
:mod:`giftrl.compiled.vectors` describes to Numba. A plain loop over the models would compute the same, but the compiler
does not know that the loop is short and that arrays do not overlap, and checking that takes longer than the step.

Both sides of an operator must have the same type. The number of lanes is given by the class of ``side``: its method
``lanes`` returns a constant, which the compiler calls without an object, before any exists.
"""

from typing import Any

import numpy as np


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
    return np.clip(v, -most, most)


def prefetch(x: Any, j: int, at: int) -> None:
    """Ask for the cache line of x[j, at] without waiting for it; in plain Python this does nothing."""


#: How many rows :func:`scratch` has.
SCRATCH_ROWS = 32


def scratch(side: Any) -> Any:
    """Zeros to work with, :data:`SCRATCH_ROWS` rows with a float64 for each lane.

    Compiled, they are on the stack: the compiler then knows how many there are, and that no other array overlaps them.
    """
    return np.zeros((SCRATCH_ROWS, side.lanes()))


def lane(v: Any, r: int) -> Any:
    """The number in lane r."""
    return v[r]


def put(v: Any, r: int, number: Any) -> Any:
    """The vector v with this number in lane r.

    >>> put(np.array([1.0, 2.0]), 1, 3.0)
    array([1., 3.])
    """
    changed = v.copy()
    changed[r] = number
    return changed
