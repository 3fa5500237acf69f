"""A classifier and a regressor for River, which learn from dictionaries or mini-batches."""

# ruff: noqa: N803 (River passes X by its name)

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

try:
    from river import base
    from river.utils import dataframe
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("giftrl.adapters.river needs River; pip install 'giftrl[river]'") from error

from giftrl.adapters.named_rows import NamedLearner
from giftrl.certificates import Certificate
from giftrl.config import Link
from giftrl.config.predictor import link_of
from giftrl.config.recipe import Experts, Parameters, as_signs, experts_of, takes_signs
from giftrl.errors import Incompatible, InvalidInput
from giftrl.kernels.base import as_labels
from giftrl.ops.loss import accepts, labels

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class _FTRL(Parameters):
    """The base of both models. Parameters are the same as in :mod:`giftrl.linear`."""

    def __post_init__(self) -> None:
        self._model = NamedLearner(self._recipe(), self.normalize, bool(self.fit_intercept))
        self._y_name: str | None = None

    @cached_property
    def _link(self) -> Link:
        return link_of(self._model.learner.loss)

    @property
    def weights(self) -> dict[Any, float]:
        """The weight of each feature by its name."""
        point = self._model.learner.x
        return {name: float(point[slot]) for name, slot in self._model.slots.items()}

    @property
    def intercept(self) -> float:
        """The weight of the constant feature."""
        return float(self._model.learner.x[0])

    @property
    def average_loss(self) -> float:
        """Progressive validation loss: the weighted mean loss of predictions made before learning from each example."""
        weight = self._model.weight_sum
        return float(self._model.learner.loss_sums[0]) / weight if weight > 0.0 else math.nan

    @property
    def experts(self) -> Experts:
        """With beta="auto", (name, share, loss) of each base learner, as in :mod:`giftrl.linear`."""
        return experts_of(self._model.learner)

    @property
    def certificate(self) -> Certificate:
        """The certificate so far. Coordinates: first the constant, then features in order of appearance."""
        return self._model.learner.certificate

    def learn_one(self, x: Mapping[Any, float], y: Any, w: float = 1.0) -> None:
        """Learn from one example, its label (a boolean or a number) and its weight."""
        self._model.learn_one(x, self._label(y), w)

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn from examples in order; ``w`` is one weight for all or a weight for each."""
        labels = self._labels(y)
        weights = None if w is None else np.broadcast_to(np.asarray(w, np.float64), labels.shape).copy()
        if isinstance(X, Sequence):
            self._model.learn_rows(X, labels, weights)
        else:
            self._model.learn_many(*_matrix(X), labels, weights)
        self._y_name = getattr(y, "name", None)

    def _label(self, y: Any) -> float:
        """Convert one label for the loss."""
        return float(self._labels([y])[0])

    def _labels(self, y: Any) -> Array:
        """Convert labels for the loss."""
        raise NotImplementedError

    def _scores(self, X: Any, *, clip: bool = False) -> Array:
        if isinstance(X, Sequence):
            return np.array([self._model.score_one(x, clip=clip) for x in X])
        return self._model.score_many(*_matrix(X), clip=clip)

    def _like(self, X: Any, values: NDArray[Any]) -> Any:
        """Return values as a series of the same library as the frame X, or as an array."""
        if isinstance(X, Sequence) or sparse.issparse(X):
            return values
        return dataframe.to_native_series(values, name=self._y_name, like=dataframe.into_frame(X))


@dataclass(eq=False, repr=False)
class FTRLClassifier(_FTRL, base.MiniBatchClassifier):
    """A binary classifier for River.

    ``learn_many`` equals ``learn_one`` for each example, bit for bit, and is much faster. It accepts data frames, SciPy
    matrices (column numbers are the feature names) and sequences of dictionaries. For multiclass classification, wrap
    it in ``river.multiclass.OneVsRestClassifier``.

    Args:
        loss, beta, preset, update, lookahead, regularizer, schedule, gradient_bound, normalize, fit_intercept,
            dtype, witness_nonzeros:
            as for :class:`giftrl.linear.FTRLClassifier`.

    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.Phishing(), FTRLClassifier(), metrics.Accuracy())
    Accuracy: 89.36%
    """

    loss: Any = "logistic"

    def __post_init__(self) -> None:
        super().__post_init__()
        loss = self._model.learner.loss
        if not takes_signs(loss):
            raise Incompatible(
                f"{loss!r} takes as label {labels(loss)}, and classes are the labels -1 and +1; use 'logistic' or "
                "'hinge', or FTRLRegressor"
            )

    def predict_one(self, x: Mapping[Any, float], **kwargs: Any) -> bool:
        """Return the more likely label."""
        return self._model.score_one(x) > 0.0

    def predict_proba_one(self, x: Mapping[Any, float], **kwargs: Any) -> dict[bool | str | int, float]:
        """Return the probability of both labels, for the logistic loss."""
        self._require_probabilities()
        score = self._model.score_one(x)
        e = math.exp(-abs(score))
        likely, other = 1.0 / (1.0 + e), e / (1.0 + e)
        return {False: other, True: likely} if score > 0.0 else {False: likely, True: other}

    def predict_many(self, X: Any) -> Any:
        """Return the more likely label of each example."""
        return self._like(X, self._scores(X) > 0.0)

    def predict_proba_many(self, X: Any) -> Any:
        """Return the probability of both labels of each example, in two columns."""
        self._require_probabilities()
        p = self._link.probabilities(self._scores(X)[:, None])
        if isinstance(X, Sequence) or sparse.issparse(X):
            return p
        return dataframe.to_native_frame({False: p[:, 0], True: p[:, 1]}, like=dataframe.into_frame(X))

    def _label(self, y: Any) -> float:
        if isinstance(y, (bool, np.bool_)):
            return 1.0 if y else -1.0
        return super()._label(y)

    def _labels(self, y: Any) -> Array:
        """Convert True and False, or 1 and 0, to +1 and -1."""
        given = np.asarray(y)
        if given.dtype.kind not in "biuf" or not ((given == 0) | (given == 1)).all():
            remedy = "use river.multiclass.OneVsRestClassifier for labels of other kinds"
            raise InvalidInput("y", y, "must be True or False", remedy)
        return as_signs(given == 1)

    def _require_probabilities(self) -> None:
        if self._link is not Link.SIGMOID:
            raise NotImplementedError(f"loss={self.loss!r} gives no probabilities; use 'logistic'")


@dataclass(eq=False, repr=False)
class FTRLRegressor(_FTRL, base.MiniBatchRegressor):
    """A regressor for River.

    A number for ``beta`` is about the size of the weights that you expect.

    Args:
        loss, beta, preset, update, lookahead, regularizer, schedule, gradient_bound, normalize, fit_intercept,
            dtype, witness_nonzeros:
            as for :class:`giftrl.linear.FTRLRegressor`.
        clip: with beta="auto", clip predictions to the range of the targets seen. This is the default, because early
            predictions of a stream can be far off.

    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), FTRLRegressor(), metrics.MAE())
    MAE: 0.210666
    """

    loss: Any = "squared"
    clip: bool = field(default=True, kw_only=True)

    def predict_one(self, x: Mapping[Any, float]) -> float:
        """Return the predicted value; for the Poisson loss, the mean."""
        return float(self._link.means(self._model.score_one(x, clip=self.clip)))

    def predict_many(self, X: Any) -> Any:
        """Return a predicted value for each example."""
        return self._like(X, self._link.means(self._scores(X, clip=self.clip)))

    def _label(self, y: Any) -> float:
        number = isinstance(y, (int, float, np.number)) and accepts(self._model.learner.loss, float(y))
        return float(y) if number else super()._label(y)  # whose error explains the problem

    def _labels(self, y: Any) -> Array:
        numbers = np.asarray(y, dtype=np.float64)
        return as_labels(self._model.learner.loss, numbers, numbers.shape)


def _matrix(X: Any) -> tuple[Any, Sequence[Any]]:
    """Return a matrix and its column names; columns without names are numbered."""
    if sparse.issparse(X):
        return X, range(X.shape[1])
    if hasattr(X, "sparse") and all(hasattr(kind, "fill_value") for kind in X.dtypes):
        return X.sparse.to_coo().tocsr(), list(X.columns)
    frame = dataframe.into_frame(X)
    return dataframe.to_numpy(frame), list(frame.columns)
