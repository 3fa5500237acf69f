"""Many linear models in one pass."""

from collections.abc import Mapping
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses, schedules, updates
from giftrl.certificates import Certificate, Evidence, Witnesses
from giftrl.certificates.witnesses import as_budget
from giftrl.compiled import door
from giftrl.compiled.rows import as_rows
from giftrl.errors import Incompatible, require
from giftrl.kernels.checks import as_labels, as_weights, check_parts
from giftrl.kernels.engine import Array, Engine, dual, point
from giftrl.kernels.many_coordinate import learn_coordinate_many
from giftrl.kernels.many_uniform import learn_uniform_many
from giftrl.kernels.parts import Batch, CodedSchedules, CodedUpdates, Parts
from giftrl.kernels.scalars import LAM, LOSS
from giftrl.regularizers.contract import l1_strength
from giftrl.schedules.built_in import AnySchedule, encode_schedule
from giftrl.updates.built_in import AnyUpdate, encode_update


class LinearLearners(Engine):
    """Many linear models in one pass: a grid of updates and schedules, or one model for each class.

    The models share the loss and the regularizer; the coordinates of one feature lie together for all of them, so
    that one walk over a row serves them all. Each is the :class:`giftrl.kernels.LinearLearner` with the same parts.

    Args:
        dimension: the number of features.
        settings: (update, schedule) for each model, as members or names. Neighbours with built-in updates and schedules
            share one pass over the batch; so do neighbours with the same update and schedule of your own.
        loss, regularizer, dtype, compiled: as for :class:`giftrl.kernels.LinearLearner`.

    >>> from giftrl import schedules
    >>> grid = [("proximal", schedules.TemporalVariability(beta)) for beta in (0.1, 1.0, 10.0)]
    >>> learners = LinearLearners(2, grid, "logistic", compiled=False)
    >>> _ = learners.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, -1.0, 1.0])
    >>> [round(c.loss_sum, 3) for c in learners.certificates]
    [2.079, 2.083, 2.097]
    """

    def __init__(
        self, dimension: int, settings: list[tuple[Any, Any]], loss: Any = "logistic",
        regularizer: Any = "squared_norm", *, dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dimension, losses.scalar(loss), regularizer, dtype, compiled)
        rule = "must name at least one model"
        require(len(settings) > 0, "settings", settings, rule, "give (update, schedule) pairs")
        self.settings = [
            (updates.BY_NAME.member(update, "pick"), schedules.BY_NAME.member(schedule, "lam"))
            for update, schedule in settings
        ]
        if l1_strength(self.regularizer) > 0.0 and self.uniform:
            raise Incompatible(
                f"{self.regularizer!r} needs a walk over the row for each model, which many models in one pass do "
                "not share; use one LinearLearner for each, or a regularizer without an L1 term"
            )
        for setting in self.settings:
            check_parts(self.loss, self.regularizer, *setting)
        self.coordinates = self._empty(len(settings))
        self.states = self._start([schedule for _, schedule in self.settings])

    @cached_property
    def _runs(self) -> list[tuple[slice, Parts]]:
        """Neighbouring models that one call of the loop learns, and their parts."""
        encoded = [(encode_update(update), encode_schedule(schedule)) for update, schedule in self.settings]

        def own(m: int) -> list[Any]:
            """What tells runs apart: the update and schedule of a model, where they are not built in."""
            # With the type, since named tuples of different types can be equal.
            return [(type(part), not isinstance(part, AnyUpdate | AnySchedule) and part) for part in encoded[m]]

        runs = []
        for _, group in groupby(range(len(encoded)), own):
            models = list(group)
            update, schedule = encoded[models[0]]
            if isinstance(update, AnyUpdate):
                update = CodedUpdates(np.array([encoded[m][0].code for m in models], dtype=np.int64))
            if isinstance(schedule, AnySchedule):
                schedule = CodedSchedules(np.array([tuple(encoded[m][1]) for m in models], dtype=np.float64))
            which = slice(models[0], models[-1] + 1)
            ahead = np.array([check_parts(self.loss, self.regularizer, *setting) for setting in self.settings[which]])
            runs.append((which, Parts(self.loss, self.regularizer, update, schedule, ahead)))
        return runs

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Learn from a batch, row by row, and return the predictions of every model, a column each.

        Args:
            x: a SciPy sparse matrix or array, or a matrix of numbers, one example a row.
            y: a label for each row, or a column of labels for each model (one class against the rest).
            weights: the importance of each example, 1 where left out.
        """
        rows, n = as_rows(x, self.dimension, compiled=self.compiled)
        models = len(self.settings)
        one_each = np.ndim(y) == 2
        labels = as_labels(self.loss, y, (n, models) if one_each else (n,)).reshape(n, -1)
        weights = as_weights(weights, n)
        predictions = np.empty((n, models))
        loop = door.ready(learn_uniform_many if self.uniform else learn_coordinate_many, self.compiled)
        for which, parts in self._runs:
            theirs = labels[:, which] if one_each else labels
            batch = Batch(rows, theirs, weights, predictions[:, which])
            loop(parts, batch, self.coordinates[:, which], self.states[which])
        for m, each in enumerate(self._every_witnesses()):
            own = np.ascontiguousarray(labels[:, m if one_each else 0])
            each.add(rows, own, weights, np.ascontiguousarray(predictions[:, m]))
        return predictions

    def keep_witnesses(self, nonzeros: int | None, constant: int | None = None) -> None:
        """Remember rows for each model, as :meth:`LinearLearner.keep_witnesses` does, within one budget for all."""
        require(self.rounds == 0, "nonzeros", nonzeros, "can be set before the first row only", "make a new learner")
        models = len(self.settings)
        self.witnesses: list[Witnesses] = []
        if nonzeros is not None:
            each = as_budget(nonzeros) // models
            settings = (self.loss, self.dimension, each)
            self.witnesses = [Witnesses(*settings, constant=constant, compiled=self.compiled) for _ in range(models)]

    def state(self) -> dict[str, NDArray[Any]]:
        every = enumerate(self._every_witnesses())
        kept = {f"witnesses.{m}.{name}": array for m, each in every for name, array in each.state().items()}
        return self.own_state() | kept

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        for m, each in enumerate(self._every_witnesses()):
            each.dimension, prefix = self.dimension, f"witnesses.{m}."
            each.restore({k.removeprefix(prefix): array for k, array in state.items() if k.startswith(prefix)})

    def _every_witnesses(self) -> list[Witnesses]:
        return getattr(self, "witnesses", [])  # pickles of version 1 have none

    def weights_of(self, features: Any) -> Array:
        chosen, lams = self.coordinates[features], self.states[:, LAM].tolist()
        return np.column_stack([point(self.regularizer, self.uniform, chosen[:, m], lam) for m, lam in enumerate(lams)])

    @property
    def certificates(self) -> list[Certificate]:
        """What each model proves about itself."""
        evidence: list[Evidence | None] = [None] * len(self.states)
        for m, each in enumerate(self._every_witnesses()):
            evidence[m] = each.evidence(float(self.states[m, LOSS]), self.x[:, m])
        return [
            self._certificate(state, dual(self.regularizer, self.uniform, self.coordinates[:, m]), given)
            for m, (state, given) in enumerate(zip(self.states, evidence, strict=True))
        ]
