"""Many linear models in one pass."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses, schedules, updates
from giftrl.certificates import Certificate, Evidence, Witnesses
from giftrl.certificates.witnesses import as_budget
from giftrl.compiled.rows import as_rows
from giftrl.errors import Incompatible, require
from giftrl.kernels.checks import as_labels, as_weights, check_parts
from giftrl.kernels.engine import Array, Engine, dual, point
from giftrl.kernels.groups import Alone, Group
from giftrl.kernels.packing import sparse_blocks
from giftrl.kernels.parts import ManyParts, Parts, Schedules
from giftrl.kernels.scalars import LAM, LOSS
from giftrl.kernels.sides import split
from giftrl.kernels.touched import Touched
from giftrl.regularizers.contract import l1_strength
from giftrl.schedules.schedule_codes import AnySchedule, encode_schedule
from giftrl.updates.update_codes import encode_update


class LinearLearners(Engine):
    """Many linear models in one pass: a grid of updates and schedules, or one model for each class.

    The models share the loss and the regularizer; up to 16 that differ in the parameters of a built-in schedule alone
    are side by side in memory, and one walk over a row serves them all. Each is the
    :class:`giftrl.kernels.LinearLearner` with the same parts.

    Args:
        dimension: the number of features.
        settings: (update, schedule) for each model, as members or names.
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
        self._make_groups()
        self._allocate()
        self.states = self._start([schedule for _, schedule in self.settings])

    def _make_groups(self) -> None:
        """Models of one kind in groups: with the same update and schedule, but for the numbers of a built-in one."""
        kinds: dict[Any, list[int]] = {}
        encoded = [(encode_update(update), encode_schedule(schedule)) for update, schedule in self.settings]
        for m, (update, schedule) in enumerate(encoded):
            kind = schedule.code if isinstance(schedule, AnySchedule) else own_key(schedule)
            ahead = check_parts(self.loss, self.regularizer, *self.settings[m])
            kinds.setdefault((own_key(update), kind, ahead), []).append(m)
        self.groups: list[Group | Alone] = []
        for (_, _, ahead), members in kinds.items():
            update, schedule = encoded[members[0]]
            if l1_strength(self.regularizer) > 0.0:
                for m in members:
                    one = Parts(self.loss, self.regularizer, update, encoded[m][1], ahead)
                    self.groups.append(Alone(m, one, self.compiled))
                continue
            for models, side in split(members):
                numbers = [encoded[m][1] for m in models]
                if isinstance(numbers[0], AnySchedule):
                    numbers += numbers[:1] * (side.lanes() - len(models))
                    schedule = Schedules(numbers[0].code, np.array([each[1:] for each in numbers]).T.copy())
                parts = ManyParts(self.loss, self.regularizer, update, schedule, ahead, side)
                self.groups.append(Group(models, parts, self.uniform, self.compiled))

    def _allocate(self) -> None:
        for group in self.groups:
            group.allocate(self.dimension, self.dtype, self._beside(len(self.settings)))

    def _stored(self, features: Any) -> NDArray[Any]:
        """What is stored of some features: a row for each, and for each model a number, or several."""
        parts = [group.read(features) for group in self.groups]
        stored = np.empty((len(parts[0]), len(self.settings), parts[0].shape[2]), self.dtype)
        for group, part in zip(self.groups, parts, strict=True):
            stored[:, group.models] = part
        return stored[:, :, 0] if self.uniform else stored

    @property
    def coordinates(self) -> NDArray[Any]:
        """A copy of what is stored, with a row for each feature."""
        return self._stored(slice(None))

    @coordinates.setter
    def coordinates(self, stored: NDArray[Any]) -> None:
        self.dimension = len(stored)
        self._make_groups()
        self._allocate()
        for group in self.groups:
            chosen = stored[:, group.models]
            group.write(chosen[:, :, None] if self.uniform else chosen)

    def grow(self, dimension: int) -> None:
        if dimension > self.dimension:
            self.dimension = dimension
            self._allocate()
            for each in self._every_witnesses():
                each.grow(dimension)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "groups"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        stored = state["coordinates"]
        self.__dict__.update({name: value for name, value in state.items() if name not in ("coordinates", "_runs")})
        self.coordinates = stored.array() if isinstance(stored, Touched) else stored  # an array before version 2

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
        for at, block in sparse_blocks(rows, n, self.compiled):
            for group in self.groups:
                group.learn(block, labels[at], weights[at], self.states, predictions[at])
        for m, each in enumerate(self._every_witnesses()):
            own = np.ascontiguousarray(labels[:, m if one_each else 0])
            each.add(rows, own, weights, np.ascontiguousarray(predictions[:, m]))
        return predictions

    def keep_witnesses(self, nonzeros: int | None, constant: int | None = None) -> None:
        """Remember rows for each model, as :meth:`LinearLearner.keep_witnesses` does, within one budget for all."""
        require(self.rounds == 0, "nonzeros", nonzeros, "can be set before the first row only", "make a new learner")
        models = len(self.settings)
        self.witnesses: list[Witnesses] = []
        each = 0 if nonzeros is None else as_budget(nonzeros) // models
        if each > 0:
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
        chosen, lams = self._stored(features), self.states[:, LAM].tolist()
        return np.column_stack([point(self.regularizer, self.uniform, chosen[:, m], lam) for m, lam in enumerate(lams)])

    @property
    def certificates(self) -> list[Certificate]:
        """What each model proves about itself."""
        evidence: list[Evidence | None] = [None] * len(self.states)
        stored = self.coordinates
        for m, each in enumerate(self._every_witnesses()):
            evidence[m] = each.evidence(float(self.states[m, LOSS]), self.x[:, m])
        return [
            self._certificate(state, dual(self.regularizer, self.uniform, stored[:, m]), given)
            for m, (state, given) in enumerate(zip(self.states, evidence, strict=True))
        ]


def own_key(part: Any) -> Any:
    """What tells an update or schedule from others: its type too, since tuples of different types can be equal."""
    try:
        hash(part)
    except TypeError:
        return id(part)  # one with an array, which is itself alone
    return type(part), part
