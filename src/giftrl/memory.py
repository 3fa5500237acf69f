"""Memory, asked for only where the machine has it."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl import system
from giftrl.errors import InvalidInput


def physical_memory() -> int:
    """The bytes of memory that this machine has, as far as the system says.

    >>> physical_memory() > 0
    True
    """
    said = system.physical_memory()
    return 1 << 62 if said is None else said


def zeros(shape: tuple[int, ...], dtype: Any = np.float64, *, beside: int = 0) -> NDArray[Any]:
    """Zeros, a row for each feature; an error where this machine has less memory than is needed.

    Systems promise more memory than they have, and end a process that uses what was promised.

    Args:
        shape, dtype: as for ``numpy.zeros``.
        beside: the bytes for each feature that the owner of the array needs for others of the same length.

    >>> zeros((2, 1)).tolist()
    [[0.0], [0.0]]
    """
    needed = math.prod(map(int, shape)) * np.dtype(dtype).itemsize + int(shape[0]) * beside
    there = physical_memory()
    if needed > there:
        rule = f"needs {needed / 2**30:,.0f} GiB of memory, and this machine has {there / 2**30:,.0f} GiB"
        raise InvalidInput("dimension", int(shape[0]), rule, "use fewer features (--bits) or classes")
    return np.zeros(shape, dtype)
