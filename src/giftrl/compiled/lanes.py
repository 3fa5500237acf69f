"""Numbers side by side: what a loop does for several models at once, one step of a wide register for all of them.

In plain Python these are short NumPy arrays with the operators of NumPy. Compiled, they are LLVM vectors, which
:mod:`giftrl.compiled.vectors` describes to Numba. A plain loop over the models would compute the same, but the compiler
does not know that the loop is short and that arrays do not overlap, and checking that takes longer than the step.

Both sides of an operator have the same type. How many numbers there are the class of ``side`` says, with a method
``lanes`` that returns a number whatever the object: a compiler asks it before there is one.
"""

from typing import Any

import numpy as np

__all__ = ["between", "load", "narrow", "nothing", "prefetch", "store", "wide"]


def load(side: Any, x: Any, j: int, at: int) -> Any:
    """The numbers of row j of x from column ``at``.

    >>> class Two(tuple):
    ...     def lanes(self): return 2
    >>> load(Two(), np.array([[1.0, 2.0, 3.0]]), 0, 1)
    array([2., 3.])
    """
    return x[j, at : at + side.lanes()].copy()


def store(x: Any, j: int, at: int, v: Any) -> None:
    """Put numbers there."""
    x[j, at : at + len(v)] = v


def nothing(side: Any) -> Any:
    """Zeros, of float64."""
    return np.zeros(side.lanes())


def wide(v: Any) -> Any:
    """The numbers as float64."""
    return v.astype(np.float64)


def narrow(x: Any, v: Any) -> Any:
    """The numbers in the type of x."""
    return v.astype(x.dtype)


def between(v: Any, most: Any) -> Any:
    """The numbers, clipped to [-most, most]."""
    return np.clip(v, -most, most)


def prefetch(x: Any, j: int, at: int) -> None:
    """Ask for the cache line of x[j, at], and do not wait for it; plain Python has no use for that."""
