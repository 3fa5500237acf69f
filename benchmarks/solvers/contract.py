"""What a solver is: a small class that gets ready outside of the clock and then times one pass."""

import importlib.util
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Data

__all__ = ["Solver", "Timing", "missing"]


class Timing(NamedTuple):
    """Seconds of one pass over the data.

    >>> Timing(0.5).inner is None
    True
    """

    seconds: float  # of the call as a user makes it
    inner: float | None = None  # of learning alone, where it can be told apart; the solver says how


class Solver(Protocol):
    """One way to make a pass over the data."""

    key: str  # for the command line
    name: str  # for the table

    def unavailable(self, data: Data) -> str | None:
        """Why it cannot run here or on this data, or None."""

    def prepare(self, data: Data) -> None:
        """Bring the data into the form that the solver wants. Not timed."""

    def once(self) -> Timing:
        """One pass with a new model. The solver holds the clock, since only it knows what is set-up."""

    def predictions(self) -> NDArray[np.float64] | None:
        """Margins, each predicted before its label was used, where the solver gives them. Not timed."""


def missing(module: str) -> str | None:
    """A line that says so where an optional module is not installed.

    >>> missing("numpy") is None
    True
    >>> missing("no_such_module")
    'no_such_module is not installed: pip install "giftrl[bench]"'
    """
    found = importlib.util.find_spec(module)
    return f'{module} is not installed: pip install "giftrl[bench]"' if found is None else None
