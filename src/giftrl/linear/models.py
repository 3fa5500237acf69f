"""What an estimator learns with: one column of weights, several side by side, or the K columns of a multiclass loss."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import Certificate
from giftrl.errors import Incompatible, Overflowed
from giftrl.kernels import LinearLearner, LinearLearners, MulticlassLearner
from giftrl.linear.parts import Mixed, Parts
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.multiclass import MulticlassMixture

__all__ = ["Apart", "ByClass", "Experts", "Model", "One", "Together", "by_class", "learner", "several"]

Array = NDArray[np.float64]
#: Name, share of the prediction and progressive loss of each expert of a mixture.
Experts = list[tuple[str, float, float]]


class Model(Protocol):
    """Columns of weights that learn together."""

    def learn(self, x: Any, y: Array, weights: Array | None) -> Array:
        """Learn from rows in order; the scores before each was learnt, a column each."""

    def clip(self, scores: Array) -> Array:
        """Scores within the range of labels seen, where the model keeps one."""

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

    @property
    def experts(self) -> Experts | list[Experts]:
        """The experts of each mixture; an AttributeError where there is none."""


def learner(
    parts: Parts | Mixed, dimension: int, constant: int | None, dtype: Any, *, compiled: bool = True
) -> LinearLearner | MixtureLearner:
    """A learner of one column; the constant is the feature that is always 1, or None.

    >>> from giftrl import losses
    >>> from giftrl.linear.parts import make_parts
    >>> learner(make_parts(losses.BY_NAME, "squared"), 3, 2, "float32")
    MixtureLearner(3, Squared(), preset='default', dtype='float32')
    """
    if isinstance(parts, Mixed):
        return MixtureLearner(
            dimension, parts.loss, constant=constant, preset=parts.preset, dtype=dtype, compiled=compiled
        )
    return LinearLearner(
        dimension, parts.loss, parts.regularizer, parts.update, parts.schedule, dtype=dtype, compiled=compiled
    )


class One:
    """A single column.

    >>> import numpy as np
    >>> model = One(LinearLearner(2, "squared", compiled=False))
    >>> model.learn(np.eye(2), np.ones(2), None).tolist(), model.rounds
    ([[0.0], [0.0]], 2)
    """

    def __init__(self, learner: LinearLearner | MixtureLearner) -> None:
        self.learner = learner

    def learn(self, x: Any, y: Array, weights: Array | None) -> Array:
        return self.learner.learn(x, y, weights)[:, None]

    def clip(self, scores: Array) -> Array:
        return self.learner.clip(scores) if isinstance(self.learner, MixtureLearner) else scores

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

    @property
    def experts(self) -> Experts:
        if isinstance(self.learner, MixtureLearner):
            return self.learner.experts
        raise no_experts()


class Apart:
    """A column for each label, each with a learner of its own, one after another over the same rows.

    >>> import numpy as np
    >>> model = Apart([One(LinearLearner(2, "squared", compiled=False)) for _ in range(3)])
    >>> model.learn(np.eye(2), np.ones((2, 3)), None).shape, len(model.certificate)
    ((2, 3), 3)
    """

    def __init__(self, columns: list[One]) -> None:
        self.columns = columns

    def learn(self, x: Any, y: Array, weights: Array | None) -> Array:
        learnt = [model.learn(x, np.ascontiguousarray(y[:, k]), weights) for k, model in enumerate(self.columns)]
        return np.column_stack(learnt)

    def clip(self, scores: Array) -> Array:
        return np.column_stack([model.clip(scores[:, k]) for k, model in enumerate(self.columns)])

    @property
    def points(self) -> Array:
        return np.column_stack([model.points for model in self.columns])

    @property
    def loss_sum(self) -> float:
        return float(np.mean([model.loss_sum for model in self.columns]))

    @property
    def rounds(self) -> int:
        return min(model.rounds for model in self.columns)

    @property
    def certificate(self) -> list[Certificate]:
        return [model.certificate for model in self.columns]

    @property
    def experts(self) -> list[Experts]:
        return [model.experts for model in self.columns]


class Together:
    """A column for each label: one class against the rest, or one target of many, in a single pass.

    >>> import numpy as np
    >>> model = Together(LinearLearners(2, [("proximal", "temporal")] * 3, "squared", compiled=False))
    >>> model.learn(np.eye(2), np.ones((2, 3)), None).shape, len(model.certificate)
    ((2, 3), 3)
    """

    def __init__(self, learners: LinearLearners) -> None:
        self.learners = learners

    def learn(self, x: Any, y: Array, weights: Array | None) -> Array:
        predictions = self.learners.learn(x, y, weights)
        lost = np.flatnonzero(~np.isfinite(self.learners.loss_sums))
        if len(lost) > 0:
            raise Overflowed(
                f"the model of column {lost[0]} (one of {len(lost)}) leaves the range of float64; scale the features, "
                "use a smaller beta, or an implicit update, which does not overshoot"
            )
        return predictions

    def clip(self, scores: Array) -> Array:
        return scores

    @property
    def points(self) -> Array:
        return self.learners.x

    @property
    def loss_sum(self) -> float:
        return float(np.mean(self.learners.loss_sums))

    @property
    def rounds(self) -> int:
        return self.learners.rounds

    @property
    def certificate(self) -> list[Certificate]:
        return self.learners.certificates

    @property
    def experts(self) -> list[Experts]:
        raise no_experts()


def several(
    parts: Parts | Mixed, dimension: int, columns: int, constant: int | None, dtype: Any, *, compiled: bool = True
) -> Together | Apart:
    """A column for each label.

    In a single pass; where the parts cannot share one (a mixture, an L1 term with one strength for all, members of your
    own), one after another.

    >>> from giftrl import losses
    >>> from giftrl.linear.parts import make_parts
    >>> several(make_parts(losses.BY_NAME, "squared"), 2, 3, 1, "float32", compiled=False).points.shape
    (2, 3)
    """
    if isinstance(parts, Parts):
        settings = [(parts.update, parts.schedule)] * columns
        try:
            return Together(
                LinearLearners(dimension, settings, parts.loss, parts.regularizer, dtype=dtype, compiled=compiled)
            )
        except Incompatible:
            pass
    return Apart([One(learner(parts, dimension, constant, dtype, compiled=compiled)) for _ in range(columns)])


class ByClass:
    """A column for each class and one loss for all of them.

    >>> import numpy as np
    >>> model = ByClass(MulticlassLearner(2, 3, "softmax", compiled=False))
    >>> model.learn(np.eye(2), np.array([0.0, 2.0]), None).shape, round(model.loss_sum, 6)
    ((2, 3), 2.197225)
    """

    def __init__(self, learner: MulticlassLearner | MulticlassMixture) -> None:
        self.learner = learner

    def learn(self, x: Any, y: Array, weights: Array | None) -> Array:
        return self.learner.learn(x, y, weights)

    def clip(self, scores: Array) -> Array:
        return scores

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

    @property
    def experts(self) -> Experts:
        if isinstance(self.learner, MulticlassMixture):
            return self.learner.experts
        raise no_experts()


def by_class(
    parts: Parts | Mixed, dimension: int, classes: int, constant: int | None, dtype: Any, *, compiled: bool = True
) -> ByClass:
    """A column for each class and one loss for all of them.

    >>> from giftrl import losses
    >>> from giftrl.linear.parts import make_parts
    >>> by_class(make_parts(losses.EVERY, "softmax", beta=1.0), 2, 3, 1, "float32", compiled=False).points.shape
    (2, 3)
    """
    if isinstance(parts, Mixed):
        return ByClass(
            MulticlassMixture(
                dimension, classes, parts.loss, constant=constant, preset=parts.preset, dtype=dtype, compiled=compiled
            )
        )
    return ByClass(
        MulticlassLearner(
            dimension, classes, parts.loss, parts.regularizer, parts.update, parts.schedule,
            dtype=dtype, compiled=compiled,
        )
    )  # fmt: skip


def no_experts() -> AttributeError:
    """The error for experts of a single learner.

    >>> str(no_experts())[:49]
    'experts_ is the table of a mixture, and beta is a'
    """
    return AttributeError("experts_ is the table of a mixture, and beta is a number here; use beta='auto'")
