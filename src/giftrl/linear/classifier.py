"""The scikit-learn classifier."""
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
from giftrl.config.predictor import link_of
from giftrl.config.recipe import as_signs, takes_signs
from giftrl.errors import Incompatible, InvalidInput
from giftrl.kernels.base import as_weights
from giftrl.linear.estimator import FTRL, Array, EstimatorModel
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
    """Linear classification without tuning, in one pass, with a certificate of how well it did.

    By default, a mixture combines many base learners with different update rules and learning rates into one linear
    model. Features may have any scale. With a number for ``beta``, a single learner: generalized implicit FTRL.

    Binary classification trains one model of labels -1 (``classes_[0]``) and +1. Multiclass classification uses
    ``softmax`` or ``multiclass_hinge``, one loss of all class scores; any other loss is trained one-vs-rest, all
    classes in one pass.

    Args:
        loss: a loss for labels -1 and +1 or a multiclass loss, by name or as an object. ``"auto"`` is ``"logistic"``
            for two classes and ``"softmax"`` for more.
        beta: ``"auto"`` for the mixture, which has no hyperparameters; or a number, the scale of a single learner's
            schedule: a larger beta learns faster.
        preset: the mixture for beta="auto": ``"default"``, or ``"light"`` with fewer base learners.
        update: the update rule of a single learner: ``"proximal"`` (the default), ``"linear"``, ``"twostep"``,
            ``"truncated"``, ``"iwa"``, or an object. ``update``, ``lookahead``, ``regularizer``, ``schedule`` and
            ``gradient_bound`` need a number for beta; with ``"auto"`` they must be None.
        lookahead: True for steps under the next regularizer, an error if it is not known in time; False for steps
            under the current one; None for the next if it is known.
        regularizer: ``"squared_norm"`` (the default), ``"adagrad"``, ``"elastic_net"``, ``"centred"``, ``"curvature"``,
            or an object.
        schedule: the growth of the regularizer's strength: ``"temporal"`` (the default), ``"sqrt"``, ``"constant"``,
            ``"adagrad_norm"``, ``"ada_implicit"``, or an object with its own beta.
        gradient_bound: a guess of the largest gradient, for schedules and regularizers that start from one.
        normalize: ``"unit"`` divides each example by its Euclidean norm.
        fit_intercept: add a constant feature 1.
        passes: the maximum number of passes of ``fit``.
        validation_fraction: the share of examples held out for early stopping if ``passes`` is more than 1. Training
            stops when the validation loss rises. The best model is kept and then trained on the held-out examples.
            0 disables early stopping.
        shuffle: visit examples in random order in ``fit``, anew in each pass. Sorted examples are hard to learn from
            in their order. ``partial_fit`` keeps the order.
        class_weight: a factor for the weight of each class, ``"balanced"`` (in ``fit`` only), or None.
        dtype: the type of stored weights, ``"float32"`` or ``"float64"``.
        witness_nonzeros: the maximum number of nonzeros of stored examples for ``certificate_.best_loss()``, 12 bytes
            each; 0 or None for no ``best_loss``.
        random_state: the seed of the shuffling; None for a different order in each call.
        n_jobs: the number of threads of the first pass, -1 for all cores; None is 1. A single model needs beta="auto"
            for that, and depends on the number of threads, but not on timing. One-vs-rest models are the same for any
            number.
        classes_: the class labels, sorted.
        coef_, intercept_: a row for each class, or one row in binary classification.
        average_loss_: the progressive validation loss of the first pass.
        validation_losses_: the validation loss after each pass.
        certificate_: the certificate of the run.
        experts_: with beta="auto", (name, share, loss) of each base learner.
        n_features_in_, feature_names_in_: the features of the training data.
        t_: the number of the next example, from 1.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = FTRLClassifier().fit(X, y)
    >>> round(model.average_loss_, 2), model.score(X, y) > 0.95
    (0.12, True)
    """

    loss: Any = AUTO
    class_weight: Any = field(default=None, kw_only=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more examples, in order.

        If an example leads to numbers beyond float64 (:class:`giftrl.errors.Overflowed`), the examples before it have
        been learned; if the model has become unusable, the estimator is no longer fitted. Any other error leaves the
        estimator unchanged.

        Args:
            X, y, sample_weight: as for :meth:`fit`.
            classes: all class labels that can occur; required in the first call only.
        """
        return self._teach(X, y, sample_weight, anew=False, classes=classes)

    def _read(self, y: Any, anew: bool, classes: Any = None) -> NDArray[np.int64]:
        """Return class numbers for labels."""
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
        except TypeError:  # labels of mixed types, for which the check has a message
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

    def _targets(self, codes: NDArray[np.int64], weights: Array | None) -> NDArray[Any]:
        """Labels that the model learns from, given class numbers."""
        if self._model.each:
            return Labels(self.classes_).one_against_rest(codes)
        return codes.astype(np.int64) if multiclass(self._model.learners[0].loss) else as_signs(codes == 1)

    def _reweigh(self, y: Any, labels: Any, weights: Array | None) -> Array | None:
        if self.class_weight is None:
            return weights
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            factors = self._balanced(labels, weights)
        else:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        return as_weights(factors[labels] if weights is None else factors[labels] * weights, len(labels))

    def _balanced(self, labels: Any, weights: Array | None) -> Array:
        """Return factors that give all classes the same weight without changing the total weight."""
        sums = np.bincount(labels, weights, len(self.classes_))
        if not sums.all():
            rule = f"needs rows of positive weight in each class, and {self.classes_[sums == 0.0][0]!r} has none"
            remedy = "give some of its rows a weight, or leave out its rows"
            raise InvalidInput("class_weight", self.class_weight, rule, remedy)
        return np.asarray(sums.sum() / (len(sums) * sums))

    @property
    def coef_(self) -> Any:
        """The weights of the features: a row for each class, or one row in binary classification."""
        weights = _of_two(self._predictor.weights.T)
        return sparse.csr_array(weights) if self._sparse else weights

    @property
    def intercept_(self) -> Array:
        """The intercept of each class, or one in binary classification."""
        return _of_two(self._predictor.constants).copy()

    def decision_function(self, X: Any) -> Array:
        """Return the score of each example: of ``classes_[1]`` against ``classes_[0]``, or a column for each class.

        Scores are linear in the features. They are not clipped, unlike progressive predictions of the hinge losses with
        beta="auto".
        """
        scores = _of_two(self._scores(X).T).T
        return scores if len(self.classes_) > 2 else scores[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely class of each example."""
        scores = _as_columns(self.decision_function(X))
        return Labels(self.classes_).best(scores)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities; one-vs-rest probabilities of ``logistic`` are scaled to sum to 1."""
        scores = _as_columns(self.decision_function(X))
        link = Link.SIGMOID if scores.shape[1] == 1 else link_of(self._model.learners[0].loss)
        return link.probabilities(scores)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def to_sklearn(self) -> Any:
        """Return a fitted scikit-learn estimator with the same weights and predictions, independent of giftrl.

        ``LogisticRegression`` for losses with probabilities (in a ``OneVsRestClassifier`` for multiclass
        ``logistic``), ``LinearSVC`` for the others. With ``normalize="unit"`` it is a pipeline with a ``Normalizer``.

        >>> model = FTRLClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> plain = model.to_sklearn()
        >>> plain, bool(plain.decision_function([[5.0]]) == model.decision_function([[5.0]]))
        (LogisticRegression(), True)
        """
        check_is_fitted(self)
        return plain_classifier(self)


def _of_two(rows: Array) -> Array:
    """Return a row for each class, or the difference of the two rows of a binary model."""
    return rows[1:] - rows[:1] if len(rows) == 2 else rows


def _as_columns(scores: Array) -> Array:
    return scores if scores.ndim == 2 else scores[:, None]
