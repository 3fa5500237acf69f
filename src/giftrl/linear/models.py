"""What an estimator learns with: one column of weights, several side by side, or the K columns of a multiclass loss."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import Certificate
from giftrl.errors import Incompatible, Overflowed
from giftrl.kernels import LinearLearner, LinearLearners, MulticlassLearner
from giftrl.linear.parts import Parts

__all__ = ["ByClass", "Model", "One", "Several"]

Array = NDArray[np.float64]


class Model(Protocol):
    """Columns of weights that learn together."""

    def learn(self, x: Any, y: Array, weights: Array | None) -> Array:
        """Learn from rows in order; the scores before each was learnt, a column each."""

    @property
    def points(self) -> Array:
        """The weights, a column each."""

    @property
    def loss_sum(self) -> float:
        """The weighted sum of the losses met so far; the average over columns that have a loss each."""

    @property
    def rounds(self) -> int:
        """How many rows were learnt."""

    @property
    def certificate(self) -> Certificate | list[Certificate]:
        """What the run proves, for each loss of its own."""


class One:
    """A single column.

    >>> import numpy as np
    >>> from giftrl import losses
    >>> from giftrl.linear.parts import make_parts
    >>> parts = make_parts(losses.BY_NAME, "squared", "proximal", None, "squared_norm", "temporal", 1.0, None)
    >>> model = One(2, parts, "float32", compiled=False)
    >>> model.learn(np.eye(2), np.ones(2), None).tolist(), model.rounds
    ([[0.0], [0.0]], 2)
    """

    def __init__(self, dimension: int, parts: Parts, dtype: Any, *, compiled: bool = True) -> None:
        self.learner = LinearLearner(
            dimension, parts.loss, parts.regularizer, parts.update, parts.schedule, dtype=dtype, compiled=compiled
        )

    def learn(self, x: Any, y: Array, weights: Array | None) -> Array:
        return self.learner.learn(x, y, weights)[:, None]

    @property
    def points(self) -> Array:
        return self.learner.x[:, None]

    @property
    def loss_sum(self) -> float:
        return float(self.learner.loss_sums[0])

    @property
    def rounds(self) -> int:
        return self.learner.rounds

    @property
    def certificate(self) -> Certificate:
        return self.learner.certificate


class Several:
    """A column for each label: one class against the rest, or one target of many, in a single pass.

    Where the parts cannot share a pass (an L1 term with one strength for all, members of your own), one after another.

    >>> import numpy as np
    >>> from giftrl import losses
    >>> from giftrl.linear.parts import make_parts
    >>> parts = make_parts(losses.BY_NAME, "squared", "proximal", None, "squared_norm", "temporal", 1.0, None)
    >>> model = Several(2, 3, parts, "float32", compiled=False)
    >>> model.learn(np.eye(2), np.ones((2, 3)), None).shape, len(model.certificate)
    ((2, 3), 3)
    """

    def __init__(self, dimension: int, columns: int, parts: Parts, dtype: Any, *, compiled: bool = True) -> None:
        self.together: LinearLearners | None = None
        self.apart: list[One] = []
        try:
            settings = [(parts.update, parts.schedule)] * columns
            self.together = LinearLearners(
                dimension, settings, parts.loss, parts.regularizer, dtype=dtype, compiled=compiled
            )
        except Incompatible:
            self.apart = [One(dimension, parts, dtype, compiled=compiled) for _ in range(columns)]

    def learn(self, x: Any, y: Array, weights: Array | None) -> Array:
        if self.together is None:
            learnt = [model.learn(x, y[:, k], weights) for k, model in enumerate(self.apart)]
            return np.column_stack(learnt)
        predictions = self.together.learn(x, y, weights)
        lost = np.flatnonzero(~np.isfinite(self.together.loss_sums))
        if len(lost) > 0:
            raise Overflowed(
                f"the model of column {lost[0]} (one of {len(lost)}) leaves the range of float64; scale the features, "
                "use a smaller beta, or an implicit update, which does not overshoot"
            )
        return predictions

    @property
    def points(self) -> Array:
        if self.together is None:
            return np.column_stack([model.points for model in self.apart])
        return self.together.x

    @property
    def loss_sum(self) -> float:
        if self.together is None:
            return float(np.mean([model.loss_sum for model in self.apart]))
        return float(np.mean(self.together.loss_sums))

    @property
    def rounds(self) -> int:
        if self.together is None:
            return min(model.rounds for model in self.apart)
        return self.together.rounds

    @property
    def certificate(self) -> list[Certificate]:
        if self.together is None:
            return [model.certificate for model in self.apart]
        return self.together.certificates


class ByClass:
    """A column for each class and one loss for all of them.

    >>> import numpy as np
    >>> from giftrl.linear.parts import CLASSIFIER_LOSSES, make_parts
    >>> parts = make_parts(CLASSIFIER_LOSSES, "softmax", "proximal", None, "squared_norm", "temporal", 1.0, None)
    >>> model = ByClass(2, 3, parts, "float32", compiled=False)
    >>> model.learn(np.eye(2), np.array([0.0, 2.0]), None).shape, round(model.loss_sum, 6)
    ((2, 3), 2.197225)
    """

    def __init__(self, dimension: int, classes: int, parts: Parts, dtype: Any, *, compiled: bool = True) -> None:
        self.learner = MulticlassLearner(
            dimension, classes, parts.loss, parts.regularizer, parts.update, parts.schedule,
            dtype=dtype, compiled=compiled,
        )  # fmt: skip

    def learn(self, x: Any, y: Array, weights: Array | None) -> Array:
        return self.learner.learn(x, y, weights)

    @property
    def points(self) -> Array:
        return self.learner.x

    @property
    def loss_sum(self) -> float:
        return float(self.learner.loss_sums[0])

    @property
    def rounds(self) -> int:
        return self.learner.rounds

    @property
    def certificate(self) -> Certificate:
        return self.learner.certificate
