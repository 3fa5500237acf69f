"""Linear learners at the speed of memory: :class:`giftrl.Learner` for linear models, compiled, batch by batch."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses, regularizers, schedules, updates
from giftrl.certificates import Certificate
from giftrl.errors import Incompatible, InvalidInput, Overflowed, require
from giftrl.kernels import compiler
from giftrl.kernels.choices import AnySchedule, AnyUpdate, encode_schedule, encode_update
from giftrl.kernels.coordinate import COLUMNS, THETA, learn_coordinate, learn_coordinate_many
from giftrl.kernels.rows import Rows, as_rows
from giftrl.kernels.scalars import CONJUGATE, DELTA, LAM, LOSS, ROUNDING, SIZE, TIME
from giftrl.kernels.uniform import learn_uniform, learn_uniform_many
from giftrl.ops import brings
from giftrl.ops.loss import accepts, labels
from giftrl.regularizers.contract import centred, l1_strength, require_diagonal, strength
from giftrl.regularizers.contract import known_ahead as psi_known_ahead
from giftrl.schedules.contract import known_ahead as lam_known_ahead
from giftrl.schedules.contract import lam, uses_gamma
from giftrl.updates.contract import check_loss

__all__ = ["LinearLearner", "LinearLearners"]

Array = NDArray[np.float64]


class _Engine:
    """What one model and many have in common: the loss, the regularizer, and how coordinates are stored."""

    def __init__(self, dimension: int, loss: Any, regularizer: Any, dtype: Any, compiled: bool) -> None:
        require(
            isinstance(dimension, (int, np.integer)) and dimension >= 1,
            "dimension", dimension, "must be a whole number of at least 1", "give the number of features",
        )  # fmt: skip
        self.dimension = int(dimension)
        self.loss = losses.scalar(loss)
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
        check_loss(update, self.loss, black_box=False)
        ahead = self.uniform and lam_known_ahead(schedule)
        wanted = getattr(update, "lookahead", None)
        if wanted and not ahead:
            raise Incompatible(
                f"lookahead=True uses the next regularizer, which is not known in time with {self.regularizer!r} and "
                f"{schedule!r}; use lookahead=False or None"
            )
        if uses_gamma(schedule) and not centred(self.regularizer):
            if not lam_known_ahead(schedule):
                raise Incompatible(
                    f"{schedule!r} needs the next point before the next lambda, and with {self.regularizer!r} the next "
                    "point depends on it; use Centred(...) around the regularizer, or TemporalVariability"
                )
            homogeneous = all(
                math.isclose(strength(self.regularizer, 2.0, q), 2.0 * strength(self.regularizer, 1.0, q))
                for q in (0.0, 1.0, 100.0)
            )
            if not self.uniform and not homogeneous:
                raise Incompatible(
                    f"{schedule!r} needs the distance that all coordinates move, which takes a walk over all of them "
                    f"when {self.regularizer!r} does not scale with lambda; use l2=0, Centred(...), another schedule, "
                    "or Learner"
                )
        return bool(ahead if wanted is None else wanted)

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
        found = np.ascontiguousarray(y, dtype=np.float64)
        require(found.shape == shape, "y", y, f"must have shape {shape}, a label for each row", f"it has {found.shape}")
        for label in _distinct(found) if brings(self.loss, "accepts") else found[~np.isfinite(found)][:1]:
            if not (math.isfinite(label) and accepts(self.loss, float(label))):
                rule = f"must be a label of {type(self.loss).__name__}: {labels(self.loss)}"
                raise InvalidInput("y", float(label), rule, "map your labels to these")
        return found

    def _weights(self, weights: ArrayLike | None, n: int) -> Array:
        if weights is None:
            return np.empty(0)
        found = np.ascontiguousarray(weights, dtype=np.float64)
        require(
            found.shape == (n,),
            "weights",
            weights,
            f"must have shape {(n,)}, one for each row",
            f"it has {found.shape}",
        )
        good = bool(np.isfinite(found).all() and (found >= 0.0).all())
        require(good, "weights", weights, "must be finite and not negative", "leave out rows that have none")
        return found

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


class LinearLearner(_Engine):
    """Generalized implicit FTRL for a linear model, compiled: :class:`giftrl.Learner` on batches, O(nonzeros) a row.

    The points, losses and certificate are those of ``Learner`` with the same parts on the whole space. Predictions,
    sums and all scalars are float64 whatever the coordinates are stored in.

    Args:
        dimension: the number of features.
        loss: a member of :mod:`giftrl.losses`, its name, or a NamedTuple of your own with value and slope.
        regularizer: a diagonal member of :mod:`giftrl.regularizers` or its name.
        update: a member of :mod:`giftrl.updates` or its name.
        schedule: a member of :mod:`giftrl.schedules` or its name.
        dtype: float32 or float64, how coordinates are stored.
        compiled: False runs the same functions as plain Python.

    >>> import numpy as np
    >>> learner = LinearLearner(2, "logistic", compiled=False)
    >>> learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, -1.0, 1.0]).round(6)
    array([ 0.      ,  0.      , -0.006558])
    >>> round(learner.certificate.loss_sum, 6)
    2.082726
    """

    def __init__(
        self,
        dimension: int,
        loss: Any = "logistic",
        regularizer: Any = "squared_norm",
        update: Any = "proximal",
        schedule: Any = "temporal",
        *,
        dtype: Any = "float32",
        compiled: bool = True,
    ) -> None:
        super().__init__(dimension, loss, regularizer, dtype, compiled)
        self.update = updates.BY_NAME.member(update, "pick")
        self.schedule = schedules.BY_NAME.member(schedule, "lam")
        self.lookahead = self._check(self.update, self.schedule)
        self._coordinates = self._room(1)
        self._states = self._start([self.schedule])

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Learn from a batch, row by row, and return the predictions, each made before its label was used.

        Args:
            x: a SciPy sparse matrix or array, or a matrix of numbers, one example a row.
            y: the labels.
            weights: the importance of each example, 1 where left out.
        """
        rows, n = as_rows(x, self.dimension)
        return self.learn_rows(rows, self._labels(y, (n,)), self._weights(weights, n))

    def learn_rows(self, rows: Rows, y: Array, weights: Array) -> Array:
        """:meth:`learn` without a check of its arguments, for readers that have made them.

        Args:
            rows: features below ``dimension``, none twice in a row; finite values.
            y: labels of the loss.
            weights: finite and not negative; empty for all 1.
        """
        predictions = np.empty(len(y))
        loop = compiler.ready(
            learn_uniform if self.uniform else learn_coordinate,
            (self.loss, self.regularizer, self.update, self.schedule),
            self.compiled,
        )
        learnt = loop(
            self.loss, self.regularizer, encode_update(self.update), self.lookahead, encode_schedule(self.schedule),
            rows, y, weights, self._coordinates, self._states, predictions,
        )  # fmt: skip
        if learnt < len(y):
            raise Overflowed(
                f"row {learnt} leaves the range of float64; the rows before it have been learnt. Scale the features, "
                "use a smaller beta, or an implicit update, which does not overshoot"
            )
        return predictions

    def grow(self, dimension: int) -> None:
        """Make room for more features; they have not been seen yet, and nothing else changes.

        >>> learner = LinearLearner(1, "squared", compiled=False)
        >>> _ = learner.learn([[1.0]], [1.0])
        >>> learner.grow(3)
        >>> learner.x
        array([0.5, 0. , 0. ])
        """
        if dimension > self.dimension:
            old, self.dimension = self._coordinates, dimension
            self._coordinates = self._room(1)
            self._coordinates[: len(old)] = old

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that :meth:`restore` takes up again, bit by bit."""
        return {"coordinates": self._coordinates, "scalars": self._states}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from the state of a learner with the same parts."""
        coordinates, states = state["coordinates"], state["scalars"]
        mine = self._coordinates
        fits = coordinates.dtype == mine.dtype and coordinates.shape[1:] == mine.shape[1:]
        fits = fits and len(coordinates) > 0 and states.dtype == np.float64 and states.shape == self._states.shape
        fits = fits and bool(np.isfinite(states).all()) and bool(np.isfinite(coordinates).all())
        require(fits, "state", coordinates.shape, f"must be that of {self!r}", "use the parts that it was made with")
        self.dimension = len(coordinates)
        self._coordinates, self._states = coordinates.copy(), states.copy()

    def predict(self, x: Any) -> Array:
        """<s, x_t> for each row."""
        x_t = self.x
        if hasattr(x, "tocsr"):
            return np.asarray(x @ x_t)
        return np.asarray(x, dtype=float) @ x_t

    @property
    def x(self) -> Array:
        """The point x_t."""
        return _x(self.regularizer, self.uniform, self._coordinates[:, 0], self.lam)

    @property
    def theta(self) -> Array:
        """theta_t, minus the sum of the z so far."""
        return _theta(self.regularizer, self.uniform, self._coordinates[:, 0])

    @property
    def lam(self) -> float:
        """lambda_t."""
        return float(self._states[0, LAM])

    @property
    def t(self) -> int:
        """The number of the round that comes next, from 1."""
        return int(self._states[0, TIME])

    @property
    def theta_norm(self) -> float:
        """norm2(theta_t)."""
        return float(np.linalg.norm(self.theta))

    @property
    def certificate(self) -> Certificate:
        """What the run so far proves about itself."""
        return self._certificate(self._states[0], self.theta)


class LinearLearners(_Engine):
    """Many linear models in one pass: a grid of updates and schedules, or one model for each class.

    The models share the loss and the regularizer; the coordinates of one feature lie together for all of them, so
    that one walk over a row serves them all. Each is the :class:`LinearLearner` with the same parts.

    Args:
        dimension: the number of features.
        settings: (update, schedule) for each model, as members or names.
        loss, regularizer, dtype, compiled: as for :class:`LinearLearner`.

    >>> from giftrl import schedules
    >>> grid = [("proximal", schedules.TemporalVariability(beta)) for beta in (0.1, 1.0, 10.0)]
    >>> learners = LinearLearners(2, grid, "logistic", compiled=False)
    >>> _ = learners.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, -1.0, 1.0])
    >>> [round(c.loss_sum, 3) for c in learners.certificates]
    [2.079, 2.083, 2.097]
    """

    def __init__(
        self,
        dimension: int,
        settings: list[tuple[Any, Any]],
        loss: Any = "logistic",
        regularizer: Any = "squared_norm",
        *,
        dtype: Any = "float32",
        compiled: bool = True,
    ) -> None:
        super().__init__(dimension, loss, regularizer, dtype, compiled)
        require(
            len(settings) > 0, "settings", settings, "must name at least one model", "give (update, schedule) pairs"
        )
        self.settings = [
            (updates.BY_NAME.member(update, "pick"), schedules.BY_NAME.member(schedule, "lam"))
            for update, schedule in settings
        ]
        if l1_strength(self.regularizer) > 0.0 and self.uniform:
            raise Incompatible(
                f"{self.regularizer!r} needs a walk over the row for each model, which many models in one pass do "
                "not share; use one LinearLearner for each, or a regularizer without an L1 term"
            )
        encoded = [(encode_update(u), encode_schedule(s)) for u, s in self.settings]
        for (update, schedule), (known_update, known_schedule) in zip(self.settings, encoded, strict=True):
            if not (isinstance(known_update, AnyUpdate) and isinstance(known_schedule, AnySchedule)):
                raise Incompatible(
                    f"many models in one pass take built-in updates and schedules, and ({update!r}, {schedule!r}) is "
                    "not; use one LinearLearner for each"
                )
        self._aheads = np.array([self._check(u, s) for u, s in self.settings])
        self._codes = np.array([u.code for u, _ in encoded], dtype=np.int64)
        self._schedules = np.array([tuple(s) for _, s in encoded], dtype=np.float64)
        self._coordinates = self._room(len(settings))
        self._states = self._start([schedule for _, schedule in self.settings])

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Learn from a batch, row by row, and return the predictions of every model, a column each.

        Args:
            x: a SciPy sparse matrix or array, or a matrix of numbers, one example a row.
            y: a label for each row, or a column of labels for each model (one class against the rest).
            weights: the importance of each example, 1 where left out.
        """
        rows, n = as_rows(x, self.dimension)
        models = len(self.settings)
        one_each = np.ndim(y) == 2
        labels_ = self._labels(y, (n, models) if one_each else (n,)).reshape(n, -1)
        predictions = np.empty((n, models))
        loop = compiler.ready(
            learn_uniform_many if self.uniform else learn_coordinate_many,
            (self.loss, self.regularizer),
            self.compiled,
        )
        loop(
            self.loss, self.regularizer, self._codes, self._aheads, self._schedules,
            rows, labels_, self._weights(weights, n), self._coordinates, self._states, predictions,
        )  # fmt: skip
        return predictions

    @property
    def x(self) -> Array:
        """The points x_t, a column for each model."""
        models = range(len(self.settings))
        lams = self._states[:, LAM]
        columns = [_x(self.regularizer, self.uniform, self._coordinates[:, m], float(lams[m])) for m in models]
        return np.column_stack(columns)

    @property
    def certificates(self) -> list[Certificate]:
        """What each model proves about itself."""
        return [
            self._certificate(state, _theta(self.regularizer, self.uniform, self._coordinates[:, m]))
            for m, state in enumerate(self._states)
        ]


def _distinct(values: Array) -> Array:
    """The different values; without sorting where there are few."""
    found: list[float] = []
    rest = values.reshape(-1)
    while rest.size and len(found) < 4:
        found.append(float(rest[0]))
        if math.isnan(found[-1]):
            break
        rest = rest[rest != found[-1]]
    return np.concatenate([found, np.unique(rest)])


def _x(psi: Any, uniform: bool, coordinates: NDArray[Any], lam_now: float) -> Array:
    """x from stored coordinates."""
    if not uniform and centred(psi):
        return coordinates[:, 0].astype(np.float64)
    u = (coordinates if uniform else coordinates[:, 0]).astype(np.float64)
    q = 0.0 if uniform else coordinates[:, 1].astype(np.float64)
    return np.asarray(np.sign(u) * np.maximum(0.0, np.abs(u) - l1_strength(psi)) / strength(psi, lam_now, q))


def _theta(psi: Any, uniform: bool, coordinates: NDArray[Any]) -> Array:
    """theta from stored coordinates."""
    if uniform:
        return coordinates.astype(np.float64)
    return coordinates[:, THETA if centred(psi) else 0].astype(np.float64)
