"""The interface of a solver: it prepares the data without being timed, and then times one pass."""

import importlib.util
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Data


class Timing(NamedTuple):
    """Seconds of one pass over the data."""

    seconds: float  # of the whole call
    inner: float | None = None  # of learning alone, if the solver can measure it


class Solver(Protocol):
    """One way to make a pass over the data."""

    key: str  # for the command line
    name: str  # for the table

    def unavailable(self, data: Data) -> str | None:
        """The reason why it cannot run here or on this data, or None."""

    def prepare(self, data: Data) -> None:
        """Convert the data for the solver. Not timed."""

    def once(self) -> Timing:
        """Time one pass with a new model. The solver itself measures, because only it knows what is set-up."""

    def predictions(self) -> NDArray[np.float64] | None:
        """Margins that were predicted before their labels were used, or None if the solver has none. Not timed."""


def missing(module: str) -> str | None:
    """A message if an optional module is not installed, or None.

    >>> missing("no_such_module")
    'no_such_module is not installed: pip install "giftrl[bench]"'
    """
    spec = importlib.util.find_spec(module)
    return f'{module} is not installed: pip install "giftrl[bench]"' if spec is None else None
