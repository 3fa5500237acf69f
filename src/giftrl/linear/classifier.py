"""The classifier."""
# ruff: noqa: N803 (scikit-learn passes X by its name)

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import check_is_fitted

from giftrl import losses
from giftrl.config import AUTO, Labels, Link, Recipe
from giftrl.config.class_labels import as_signs, takes_signs
from giftrl.config.predictor import link_of
from giftrl.errors import Incompatible, InvalidInput
from giftrl.linear.estimator import FTRL, Array
from giftrl.linear.estimator_model import EstimatorModel
from giftrl.linear.plain import plain_classifier
from giftrl.ops.loss import labels
from giftrl.ops.vector_loss import multiclass


def _has_probabilities(estimator: "FTRLClassifier") -> bool:
    loss = "logistic" if isinstance(estimator.loss, str) and estimator.loss == AUTO else estimator.loss
    if link_of(losses.get(loss) if isinstance(loss, str) and loss in losses.EVERY else loss).probable:
        return True
    raise AttributeError(
        f"loss={estimator.loss!r} gives no probabilities; use 'logistic' or 'softmax', or CalibratedClassifierCV"
    )


@dataclass(eq=False, repr=False)
class FTRLClassifier(ClassifierMixin, FTRL):  # type: ignore[misc]
    """A linear classifier that learns in one pass, has nothing to tune, and proves how well it did.

    By default a mixture of learners of many kinds and rates in one pass, combined into one linear model as they prove
    themselves; features may have any scale. Given a beta, a single learner: generalized implicit FTRL.

    Two classes are one model of labels -1 (``classes_[0]``) and +1. With more, ``softmax`` and ``multiclass_hinge`` are
    one loss of a score for each class, learnt in one step; any other loss is learnt one class against the rest, all
    classes in one pass.

    Args:
        loss: a loss for labels -1 and +1, or one of a score for each class, by name or as an object. ``"auto"`` is
            ``"logistic"`` for two classes and ``"softmax"`` for more.
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
        passes: how often ``fit`` goes over the rows at most.
        validation_fraction: with more than one pass, this part of the rows is held out: passes end when the loss on
            them rises, the model of the best pass is kept, and then learns them too. 0 for none, and all passes.
        shuffle: whether ``fit`` takes them in random order, a new one in each pass; rows that are sorted, by label or
            by time, teach little in their order. ``partial_fit`` keeps the order.
        class_weight: a factor for the weight of each class, ``"balanced"`` (in ``fit`` only), or None.
        dtype: ``"float32"`` or ``"float64"``, how weights are stored.
        witness_nonzeros: the most nonzeros of examples to store for ``certificate_.best_loss()``, 12 bytes each; 0 or
            None for no ``best_loss``.
        random_state: the seed of the shuffling; None for an order that differs from call to call.
        n_jobs: the number of threads in the first pass, -1 for all cores; None is 1. A single model needs beta="auto"
            for that. Each number gives a model of its own, the same in every call; with -1 it depends on the number of
            cores. Models of one column each, as of one class against the rest, are the same for any number.
        classes_: the labels, sorted.
        coef_, intercept_: a row for each class, or one row where there are two classes.
        average_loss_: the progressive loss, of the first pass.
        validation_losses_: after each pass, the loss on the rows held out.
        certificate_: what the run proves about itself.
        experts_: with beta="auto", (name, share, loss) of each expert.
        n_features_in_, feature_names_in_: of the rows that it learnt from.
        t_: the number of the next row, from 1.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = FTRLClassifier().fit(X, y)
    >>> round(model.average_loss_, 2), model.score(X, y) > 0.95
    (0.12, True)
    """

    loss: Any = AUTO
    class_weight: Any = field(default=None, kw_only=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning from rows, in order.

        If a row leads to numbers beyond float64 (:class:`giftrl.errors.Overflowed`), the rows before it have been
        learnt; where it has spoilt the model, the estimator is no longer fitted. Any other error leaves it as it was.

        Args:
            X, y, sample_weight: as for :meth:`fit`.
            classes: all labels there will ever be; needed in the first call, and may be left out later.
        """
        return self._teach(X, y, sample_weight, anew=False, classes=classes)

    def _read(self, y: Any, anew: bool, classes: Any = None) -> NDArray[np.int64]:
        """The numbers of the classes."""
        if anew:
            check_classification_targets(y)
            self.classes_, codes = np.unique(y, return_inverse=True)
            return np.asarray(codes)
        if _check_partial_fit_first_call(self, classes):  # later on, labels are those classes or an error
            check_classification_targets(y)
        if isinstance(self.class_weight, str):
            remedy = "use the dict that compute_class_weight gives for a sample of the labels"
            raise InvalidInput("class_weight", self.class_weight, "needs all labels at once, as fit has", remedy)
        try:
            codes = Labels(self.classes_).codes(y)
        except TypeError:  # labels of several kinds, which the check has words for
            check_classification_targets(y)
            raise
        if (codes < 0).any():
            rule = f"must be one of the classes {self.classes_.tolist()}"
            raise InvalidInput("y", y[codes < 0][0], rule, "name all classes in the first call of partial_fit")
        return codes

    def _recipe(self, **chosen: Any) -> Recipe:
        if isinstance(self.loss, str) and self.loss == AUTO:
            chosen["loss"] = "logistic" if len(self.classes_) <= 2 else "softmax"
        return super()._recipe(**chosen)

    def _make(self) -> EstimatorModel:
        recipe = self._recipe()
        count = len(self.classes_)
        if count < 2:
            remedy = "give rows of another class as well, or name the classes to come: partial_fit(X, y, classes=...)"
            raise InvalidInput("y", self.classes_.tolist(), "has one class, and two are needed to tell apart", remedy)
        if recipe.many:
            return self._columns(recipe, classes=count)
        loss = recipe.parts.loss
        if not takes_signs(loss):
            raise Incompatible(
                f"{loss!r} takes as label {labels(loss)}, and classes are the labels -1 and +1; use 'logistic', "
                "'hinge' or 'softmax', or FTRLRegressor"
            )
        return self._columns(recipe, models=None if count == 2 else count)

    def _targets(self, codes: NDArray[np.int64]) -> Array:
        """Labels that the model learns from, given class numbers."""
        if self._model.each:
            return Labels(self.classes_).one_against_rest(codes)
        return codes.astype(np.float64) if multiclass(self._model.learners[0].loss) else as_signs(codes == 1)

    def _reweigh(self, y: Any, labels: Any, weights: Array | None) -> Array | None:
        if self.class_weight is None:
            return weights
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            factors = self._balanced(labels, weights)
        else:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        return np.asarray(factors[labels] if weights is None else factors[labels] * weights)

    def _balanced(self, labels: Any, weights: Array | None) -> Array:
        """Factors that give all classes the same weight, and leave that of all rows as it was."""
        sums = np.bincount(labels, weights, len(self.classes_))
        if not sums.all():
            rule = f"needs rows of positive weight in each class, and {self.classes_[sums == 0.0][0]!r} has none"
            remedy = "give some of its rows a weight, or leave out its rows"
            raise InvalidInput("class_weight", self.class_weight, rule, remedy)
        return np.asarray(sums.sum() / (len(sums) * sums))

    @property
    def coef_(self) -> Any:
        """The weights of the features, a row for each class or one row where there are two classes."""
        weights = _of_two(self._predictor.weights.T)
        return sparse.csr_array(weights) if self._sparse else weights

    @property
    def intercept_(self) -> Array:
        """The constants."""
        return _of_two(self._predictor.constants).copy()

    def decision_function(self, X: Any) -> Array:
        """The score of each row: of ``classes_[1]`` against ``classes_[0]``, or a column for each class.

        It is linear in the features: where predictions in the course of learning are clipped, as with the hinge losses
        and beta="auto", these are not.
        """
        scores = _of_two(self._scores(X).T).T
        return scores if len(self.classes_) > 2 else scores[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each row."""
        scores = _as_columns(self.decision_function(X))
        return Labels(self.classes_).best(scores)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class; with ``logistic`` and more than two classes, those of each scaled to sum 1."""
        scores = _as_columns(self.decision_function(X))
        link = Link.SIGMOID if scores.shape[1] == 1 else link_of(self._model.learners[0].loss)
        return link.probabilities(scores)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def to_sklearn(self) -> Any:
        """A fitted estimator of scikit-learn with the same weights and predictions, which knows nothing of giftrl.

        ``LogisticRegression`` where there are probabilities (for ``logistic`` and more than two classes, one for each
        class in a ``OneVsRestClassifier``), and ``LinearSVC`` where there are none. With ``normalize="unit"`` it is in
        a pipeline, after a ``Normalizer``.

        >>> model = FTRLClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> plain = model.to_sklearn()
        >>> plain, bool(plain.decision_function([[5.0]]) == model.decision_function([[5.0]]))
        (LogisticRegression(), True)
        """
        check_is_fitted(self)
        return plain_classifier(self)


def _of_two(rows: Array) -> Array:
    """A row for each class; of two classes the difference, which is all that counts."""
    return rows[1:] - rows[:1] if len(rows) == 2 else rows


def _as_columns(scores: Array) -> Array:
    return scores if scores.ndim == 2 else scores[:, None]
