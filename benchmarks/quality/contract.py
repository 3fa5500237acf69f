"""What a rival is: a small class that predicts a case in one pass, each row before its label is used."""

import contextlib
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.data import Case

__all__ = ["DEFAULT", "Predict", "Rival"]

#: The name of the setting that a user gets who sets nothing.
DEFAULT = "default"


class Predict(Protocol):
    """One pass over a case that is ready."""

    def __call__(self, loss: str, setting: str) -> NDArray[np.float64]:
        """Margins, values, or for the loss ``log`` rows of probabilities; from the row on where it fails, NaN."""


class Rival(Protocol):
    """Another library's linear learner."""

    key: str  # in the record
    name: str  # for the table
    package: str  # whose version is recorded

    def unavailable(self) -> str | None:
        """Why it cannot run here, or None."""

    def settings(self, loss: str) -> list[str]:
        """Every setting, the default first."""

    def rate(self, setting: str) -> float | None:
        """The learning rate that a setting stands for in the figure, or None."""

    def covers(self, case: Case) -> bool:
        """Whether it is run on this case at all: the slow ones skip some orders."""

    def prepared(self, case: Case) -> contextlib.AbstractContextManager[Predict]:
        """The case in the form that the rival wants."""
