"""What every compiled learner of linear models shares: parts that go together, room for coordinates, checked input."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import regularizers
from giftrl.certificates import Certificate
from giftrl.errors import Overflowed, require
from giftrl.kernels.checks import as_labels, as_weights
from giftrl.kernels.compatible import check_parts
from giftrl.kernels.coordinate import COLUMNS, THETA
from giftrl.kernels.scalars import CONJUGATE, DELTA, LAM, LOSS, ROUNDING, SIZE, TIME
from giftrl.regularizers.contract import centred, l1_strength, require_diagonal, strength
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.schedules.contract import lam

__all__ = ["Array", "Engine", "dual", "overflowed", "point"]

Array = NDArray[np.float64]


def overflowed(row: int) -> Overflowed:
    """The error for a row whose slope is beyond float64.

    >>> str(overflowed(3))[:44]
    'row 3 leaves the range of float64; the rows '
    """
    return Overflowed(
        f"row {row} leaves the range of float64; the rows before it have been learnt. Scale the features, use a "
        "smaller beta, or an implicit update, which does not overshoot"
    )


class Engine:
    """What learners of one model, of many and of K classes have in common: the parts, what is stored, what is checked.

    ``coordinates`` has a row for each feature, and ``states`` one for each model (:mod:`giftrl.kernels.scalars`).
    """

    coordinates: NDArray[Any]
    states: Array

    def __init__(self, dimension: int, loss: Any, regularizer: Any, dtype: Any, compiled: bool) -> None:
        require(
            isinstance(dimension, (int, np.integer)) and dimension >= 1,
            "dimension", dimension, "must be a whole number of at least 1", "give the number of features",
        )  # fmt: skip
        self.dimension = int(dimension)
        self.loss = loss
        self.regularizer = regularizers.BY_NAME.member(regularizer, "strength", "start")
        require_diagonal("regularizer", self.regularizer)
        self.dtype = np.dtype(dtype)
        known = self.dtype in (np.float32, np.float64)
        require(known, "dtype", dtype, "must be float32 or float64", "float32 halves the memory")
        self.compiled = compiled
        #: One strength for all coordinates, and theta is all that is stored; or a strength for each.
        self.uniform = psi_known_ahead(self.regularizer)

    def _columns(self) -> int:
        """How many numbers are stored for each coordinate."""
        if self.uniform:
            return 1
        if not centred(self.regularizer):
            return COLUMNS["plain"]
        return COLUMNS["centred with l1" if l1_strength(self.regularizer) > 0.0 else "centred"]

    def _check(self, update: Any, schedule: Any) -> bool:
        """Raise unless the parts go together; whether the update uses H."""
        return check_parts(self.loss, self.regularizer, update, schedule)

    def _room(self, models: int) -> NDArray[Any]:
        """The coordinates of the models before their first round, those of one feature side by side."""
        shape = (self.dimension, models) if self.uniform else (self.dimension, models, self._columns())
        return np.zeros(shape, self.dtype)

    def _start(self, schedules: list[Any]) -> Array:
        """The scalars of the models before their first round, a row each."""
        states = np.zeros((len(schedules), SIZE))
        states[:, TIME] = 1.0
        states[:, LAM] = [lam(schedule, 1, 0.0) for schedule in schedules]
        return states

    def _labels(self, y: ArrayLike, shape: tuple[int, ...]) -> Array:
        return as_labels(self.loss, y, shape)

    def _weights(self, weights: ArrayLike | None, n: int) -> Array:
        return as_weights(weights, n)

    def grow(self, dimension: int) -> None:
        """Make room for more features; they have not been seen yet, and nothing else changes.

        >>> from giftrl.kernels import LinearLearner
        >>> learner = LinearLearner(1, "squared", compiled=False)
        >>> _ = learner.learn([[1.0]], [1.0])
        >>> learner.grow(3)
        >>> learner.x
        array([0.5, 0. , 0. ])
        """
        if dimension > self.dimension:
            old, self.dimension = self.coordinates, dimension
            self.coordinates = np.zeros((dimension, *old.shape[1:]), self.dtype)
            self.coordinates[: len(old)] = old

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that :meth:`restore` takes up again, bit by bit."""
        return {"coordinates": self.coordinates, "scalars": self.states}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from the state of a learner with the same parts."""
        coordinates, states = state["coordinates"], state["scalars"]
        mine = self.coordinates
        fits = coordinates.dtype == mine.dtype and coordinates.shape[1:] == mine.shape[1:]
        fits = fits and len(coordinates) > 0 and states.dtype == np.float64 and states.shape == self.states.shape
        fits = fits and bool(np.isfinite(states).all()) and bool(np.isfinite(coordinates).all())
        require(fits, "state", coordinates.shape, f"must be that of {self!r}", "use the parts that it was made with")
        self.dimension = len(coordinates)
        self.coordinates, self.states = coordinates.copy(), states.copy()

    @property
    def rounds(self) -> int:
        """How many rows were learnt; of the model that learnt the fewest, where one has overflowed."""
        return int(self.states[:, TIME].min()) - 1

    @property
    def loss_sums(self) -> Array:
        """The progressive loss of each model; infinite for one that has overflowed."""
        return self.states[:, LOSS].copy()

    def _certificate(self, state: Array, theta: Array) -> Certificate:
        # Storing theta in float32 changes each coordinate by at most 2^-24 of itself in each round; by Cauchy and
        # Schwarz the sum over rounds of norm2(theta) is at most sqrt(T sum of norm2(theta)^2).
        rounds = state[TIME] - 1.0
        unit = 2.0**-24 if self.dtype == np.float32 else 0.0
        return Certificate(
            loss_sum=float(state[LOSS]),
            conjugate_sum=float(state[CONJUGATE]),
            delta_sum=float(state[DELTA]),
            theta=theta,
            theta_error=unit * math.sqrt(rounds * float(state[ROUNDING])),
        )


def point(psi: Any, uniform: bool, coordinates: NDArray[Any], lam_now: float) -> Array:
    """x from the stored coordinates of a model."""
    if not uniform and centred(psi):
        return coordinates[:, 0].astype(np.float64)
    u = (coordinates if uniform else coordinates[:, 0]).astype(np.float64)
    q = 0.0 if uniform else coordinates[:, 1].astype(np.float64)
    return np.asarray(np.sign(u) * np.maximum(0.0, np.abs(u) - l1_strength(psi)) / strength(psi, lam_now, q))


def dual(psi: Any, uniform: bool, coordinates: NDArray[Any]) -> Array:
    """theta from the stored coordinates of a model."""
    if uniform:
        return coordinates.astype(np.float64)
    return coordinates[:, THETA if centred(psi) else 0].astype(np.float64)
