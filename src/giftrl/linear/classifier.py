"""The classifier."""
# ruff: noqa: N803 (scikit-learn passes X by its name)

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import check_is_fitted

from giftrl import losses
from giftrl.errors import Incompatible, InvalidInput
from giftrl.linear.base import FTRL, Array
from giftrl.linear.models import ByClass, Model, One, by_class, learner, several
from giftrl.losses import Logistic, Softmax
from giftrl.ops.loss import accepts, labels
from giftrl.ops.vector_loss import multiclass

__all__ = ["FTRLClassifier"]


def _has_probabilities(estimator: "FTRLClassifier") -> bool:
    kind = losses.EVERY.get(estimator.loss) if isinstance(estimator.loss, str) else type(estimator.loss)
    if kind in (Logistic, Softmax):
        return True
    raise AttributeError(
        f"loss={estimator.loss!r} gives no probabilities; use 'logistic' or 'softmax', or CalibratedClassifierCV"
    )


class FTRLClassifier(ClassifierMixin, FTRL):  # type: ignore[misc]
    """A linear classifier that learns in one pass, has nothing to tune, and proves how well it did.

    By default a mixture of learners of many kinds and rates in one pass, combined into one linear model as they prove
    themselves; features may have any scale. Given a beta, a single learner: generalized implicit FTRL.

    Two classes are one model of labels -1 (``classes_[0]``) and +1. With more, ``softmax`` and ``multiclass_hinge`` are
    one loss of a score for each class, learnt in one step; any other loss is learnt one class against the rest, all
    classes in one pass.

    Args:
        loss: a loss for labels -1 and +1, or one of a score for each class, by name or as an object.
        beta: ``"auto"`` for the mixture, which has nothing to choose; or a number, the scale of a single learner's
            schedule: larger learns faster.
        preset: which mixture, where beta is ``"auto"``: ``"default"``, or ``"light"`` with fewer experts.
        update: how a step is chosen: ``"proximal"``, ``"linear"``, ``"twostep"``, ``"truncated"``, ``"iwa"``, or an
            object. This and the next three are for a beta that is a number. None is ``"proximal"``, ``"squared_norm"``
            and ``"temporal"`` then; with ``"auto"`` they must be None, as must gradient_bound.
        lookahead: True for steps under the next regularizer, an error where that is not known in time; False for steps
            under the present one; None for the next where it is known.
        regularizer: ``"squared_norm"``, ``"adagrad"``, ``"elastic_net"``, ``"centred"``, ``"curvature"``, or an object.
        schedule: the growth of its strength: ``"temporal"``, ``"sqrt"``, ``"constant"``, ``"adagrad_norm"``,
            ``"ada_implicit"``, or an object, which then has its own beta.
        gradient_bound: a guess of the largest gradient, for schedules and regularizers that start from one.
        normalize: ``"unit"`` divides each row by its Euclidean norm.
        fit_intercept: whether rows get a constant feature 1.
        passes: how often ``fit`` goes over the rows.
        shuffle: whether ``fit`` takes them in random order, a new one in each pass.
        class_weight: a factor for the weight of each class, ``"balanced"`` (in ``fit`` only), or None.
        dtype: ``"float32"`` or ``"float64"``, how weights are stored.
        random_state: of the shuffling.

    Attributes:
        classes_: the labels, sorted.
        coef_, intercept_: a row for each class, or one row where there are two classes.
        average_loss_: the progressive loss.
        certificate_: what the run proves about itself.
        experts_: with beta="auto", (name, share, loss) of each expert.
        n_features_in_, feature_names_in_: of the rows that it learnt from.
        t_: the number of the next row, from 1.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = FTRLClassifier().fit(X, y)
    >>> round(model.average_loss_, 2), model.score(X, y) > 0.95
    (0.11, True)
    """

    _names = losses.EVERY

    def __init__(
        self,
        loss: Any = "logistic",
        *,
        update: Any = None,
        lookahead: bool | None = None,
        regularizer: Any = None,
        schedule: Any = None,
        beta: float | str = "auto",
        preset: str = "default",
        gradient_bound: float | None = None,
        normalize: str | None = None,
        fit_intercept: bool = True,
        passes: int = 1,
        shuffle: bool = False,
        class_weight: Any = None,
        dtype: Any = "float32",
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.update = update
        self.lookahead = lookahead
        self.regularizer = regularizer
        self.schedule = schedule
        self.beta = beta
        self.preset = preset
        self.gradient_bound = gradient_bound
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.passes = passes
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.dtype = dtype
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "FTRLClassifier":
        """Learn from rows, forgetting what was learnt before.

        Args:
            X: a matrix, sparse or dense, or a table.
            y: the labels, of any kind.
            sample_weight: the importance of each row; rows of weight 0 are as if they were not there.
        """
        with self._all_or_nothing():
            x, y = self._validate(X, y, reset=True)
            check_classification_targets(y)
            weights = self._weigh(x, sample_weight)
            self.classes_, codes = np.unique(y, return_inverse=True)
            self._begin(self._make())
            weights = self._with_class_weight(y, codes, weights)
            self._learn(x, self._targets(codes), weights, passes=self.passes, shuffle=self.shuffle)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "FTRLClassifier":
        """Go on learning from rows, in order.

        Args:
            X, y, sample_weight: as for :meth:`fit`.
            classes: all labels there will ever be; needed in the first call, and may be left out later.
        """
        first = not self.__sklearn_is_fitted__()
        with self._all_or_nothing():
            x, y = self._validate(X, y, reset=first)
            check_classification_targets(y)
            weights = self._weigh(x, sample_weight)
            _check_partial_fit_first_call(self, classes)
            if isinstance(self.class_weight, str):
                remedy = "use the dict that compute_class_weight gives for a sample of the labels"
                raise InvalidInput("class_weight", self.class_weight, "needs all labels at once, as fit has", remedy)
            codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
            unknown = np.flatnonzero(self.classes_[codes] != y)
            if len(unknown) > 0:
                rule = f"must be one of the classes {self.classes_.tolist()}"
                raise InvalidInput("y", y[unknown[0]], rule, "name all classes in the first call of partial_fit")
            if first:
                self._begin(self._make())
            self._check_unchanged()
            self._learn(x, self._targets(codes), self._with_class_weight(y, codes, weights))
        return self

    def _make(self) -> Model:
        parts = self._make_parts()
        count = len(self.classes_)
        if count < 2:
            remedy = "give rows of another class as well, or name the classes to come: partial_fit(X, y, classes=...)"
            raise InvalidInput("y", self.classes_.tolist(), "has one class, and two are needed to tell apart", remedy)
        dimension, constant = self._shape()
        if multiclass(parts.loss):
            return by_class(parts, dimension, count, constant, self.dtype)
        if not (accepts(parts.loss, -1.0) and accepts(parts.loss, 1.0)):
            raise Incompatible(
                f"{parts.loss!r} takes as label {labels(parts.loss)}, and classes are the labels -1 and +1; use "
                "'logistic', 'hinge' or 'softmax', or FTRLRegressor"
            )
        if count == 2:
            return One(learner(parts, dimension, constant, self.dtype))
        return several(parts, dimension, count, constant, self.dtype)

    def _targets(self, codes: NDArray[np.int64]) -> Array:
        """What the model learns, from the numbers of the classes."""
        if isinstance(self._model, ByClass):
            return codes.astype(np.float64)
        if isinstance(self._model, One):
            return np.where(codes == 1, 1.0, -1.0)
        return np.where(codes[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)

    def _with_class_weight(self, y: Any, codes: NDArray[np.int64], weights: Array | None) -> Array | None:
        if self.class_weight is None:
            return weights
        if isinstance(self.class_weight, str):
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y, sample_weight=weights)
        else:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        return np.asarray(factors[codes] if weights is None else factors[codes] * weights)

    @property
    def coef_(self) -> Any:
        """The weights of the features, a row for each class or one row where there are two classes."""
        check_is_fitted(self)
        weights, _ = self._known.split(self.fit_intercept, False)
        if weights.shape[1] == 2:
            weights = weights[:, 1:] - weights[:, :1]
        if self._sparse:
            return sparse.csr_array(weights.T)
        return weights.T

    @property
    def intercept_(self) -> Array:
        """The constants."""
        check_is_fitted(self)
        constant = self._known.split(self.fit_intercept, False)[1]
        return constant[1:] - constant[:1] if len(constant) == 2 else constant.copy()

    def decision_function(self, X: Any) -> Array:
        """The score of each row: of ``classes_[1]`` against ``classes_[0]``, or a column for each class.

        It is linear in the features: where predictions in the course of learning are clipped, as with the hinge losses
        and beta="auto", these are not.
        """
        scores = self._scores(X)
        if len(self.classes_) > 2:
            return scores
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0.0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        found: NDArray[Any] = self.classes_[codes]
        return found

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class; with ``logistic`` and more than two classes, those of each scaled to sum 1."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        if isinstance(self._model, ByClass):
            return np.asarray(softmax(scores, axis=1))
        single = expit(scores)
        # Where every class is next to impossible, the largest score is what is left to go by.
        total = single.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0.0, single / np.where(total > 0.0, total, 1.0), softmax(scores, axis=1)))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))
