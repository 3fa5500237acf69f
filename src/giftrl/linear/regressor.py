"""The scikit-learn regressor."""
# ruff: noqa: N803 (scikit-learn passes X by its name)

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from giftrl.config.predictor import link_of
from giftrl.errors import Incompatible, InvalidInput
from giftrl.kernels.base import as_labels
from giftrl.linear.estimator import FTRL, Array, EstimatorModel
from giftrl.linear.plain import plain_regressor


@dataclass(eq=False, repr=False)
class FTRLRegressor(RegressorMixin, FTRL):  # type: ignore[misc]
    """Linear regression without tuning, in one pass, with a certificate of how well it did.

    Features and targets may have any scale. Several targets are independent models, trained in one pass. The Poisson
    loss predicts the mean exp(<s, x>); every other loss predicts <s, x>.

    Args:
        loss: a regression loss, by name or as an object: ``"squared"``, ``"absolute"``, ``"huber"``,
            ``"epsilon_insensitive"``, ``"quantile"``, ``"poisson"``.
        beta, preset, update, lookahead, regularizer, schedule, gradient_bound, normalize, fit_intercept, passes,
            validation_fraction, shuffle, dtype, random_state, n_jobs,
            witness_nonzeros: as for :class:`giftrl.linear.FTRLClassifier`.
        clip: with beta="auto", True to clip predictions to the range of the targets seen, as in progressive validation.
            By default predictions may leave that range, to follow a trend, unless clipping was clearly better during
            training.

    Attributes:
        coef_: the weights of the features; with several targets, a row for each.
        intercept_: one number, or one for each target.
        average_loss_, validation_losses_, certificate_, experts_, n_features_in_, feature_names_in_, t_: as for the
            classifier.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = FTRLRegressor().fit(X, y)
    >>> round(model.score(X, y), 2)
    0.51
    """

    loss: Any = "squared"

    clip: bool = field(default=False, kw_only=True)

    _checks: ClassVar[dict[str, Any]] = {"multi_output": True, "y_numeric": True}

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from more examples, in order.

        If an example leads to numbers beyond float64 (:class:`giftrl.errors.Overflowed`), the examples before it have
        been learned; if the model has become unusable, the estimator is no longer fitted. Any other error leaves the
        estimator unchanged.

        Args:
            X, y, sample_weight: as for :meth:`fit`.
        """
        return self._teach(X, y, sample_weight, anew=False)

    def _read(self, y: Any, anew: bool) -> Array:
        if anew or not self.__sklearn_is_fitted__():
            self._outputs = y.shape[1:]
        elif y.shape[1:] != self._outputs:
            rule = f"must have the shape of the targets so far, {('n', *self._outputs)}"
            raise InvalidInput("y", y.shape, rule, "call fit to begin anew")
        return np.ascontiguousarray(y, np.float64)

    def _make(self) -> EstimatorModel:
        recipe = self._recipe()
        if recipe.many:
            raise Incompatible(f"{recipe.parts.loss!r} is a multiclass loss; use FTRLClassifier, or a regression loss")
        return self._columns(recipe, models=self._outputs[0] if self._outputs else None)

    def _targets(self, numbers: Array, weights: Array | None) -> Array:
        used = numbers if weights is None else numbers[weights > 0.0]
        as_labels(self._model.learners[0].loss, used, used.shape)
        return numbers

    @property
    def coef_(self) -> Any:
        """The weights of the features; with several targets, a row for each."""
        weights = self._predictor.weights.T
        if self._sparse:
            return sparse.csr_array(weights)
        return weights if self._outputs else weights[0]

    @property
    def intercept_(self) -> Any:
        """The intercept, or one for each target."""
        constants = self._predictor.constants
        return constants.copy() if self._outputs else float(constants[0])

    def predict(self, X: Any) -> Array:
        """Return a prediction for each example, or a row of predictions for several targets.

        The score is ``X @ coef_ + intercept_``; the Poisson loss predicts its exponential. With ``clip``, or if
        clipping was better during training, the score is first clipped to the range of the targets seen. A Poisson mean
        is positive even if all targets were 0.
        """
        scores = self._scores(X)
        means: Array = link_of(self._model.learners[0].loss).means(scores)
        return means if self._outputs else means[:, 0]

    def to_sklearn(self, *, clip: bool = True) -> Any:
        """Return a fitted scikit-learn estimator with the same weights and predictions, independent of giftrl.

        ``PoissonRegressor`` for the Poisson loss, ``LinearRegression`` for every other. With ``normalize="unit"`` it is
        a pipeline with a ``Normalizer``. A model with clipped predictions is refused.

        Args:
            clip: False to convert the model without its clipping.

        >>> model = FTRLRegressor().fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 2.0, 4.0, 6.0])
        >>> plain = model.to_sklearn(clip=False)
        >>> plain, bool((plain.predict([[1.5]]) == model.predict([[1.5]])).all())
        (LinearRegression(), True)
        """
        check_is_fitted(self)
        predictor = self._model.predictor(intercept=self.fit_intercept, clip=self._clip if clip else False)
        return plain_regressor(self, predictor)

    @property
    def _clip(self) -> bool | None:
        return True if self.clip else None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
