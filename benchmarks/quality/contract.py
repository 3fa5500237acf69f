"""The interface of a rival: it predicts a case in one pass, each row before its label is used."""

import contextlib
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.data import Case

#: The name of the setting of a user who sets nothing.
DEFAULT = "default"


class Predict(Protocol):
    """One pass over a prepared case."""

    def __call__(self, loss: str, setting: str) -> NDArray[np.float64]:
        """Margins, values, or for the loss ``log`` rows of probabilities; NaN from the row at which the rival fails."""


class Rival(Protocol):
    """Another library's linear learner."""

    key: str  # in the record
    name: str  # for the table
    package: str  # whose version is recorded

    def unavailable(self) -> str | None:
        """The reason why it cannot run here, or None."""

    def settings(self, loss: str) -> list[str]:
        """Every setting, the default first."""

    def rate(self, setting: str) -> float | None:
        """The learning rate of a setting in the figure, or None."""

    def covers(self, case: Case) -> bool:
        """Whether it is run on this case; slow rivals skip some orders."""

    def prepared(self, case: Case) -> contextlib.AbstractContextManager[Predict]:
        """A context in which the case is converted for the rival, and which gives the function that predicts it."""
