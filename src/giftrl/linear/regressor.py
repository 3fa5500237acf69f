"""The regressor."""
# ruff: noqa: N803 (scikit-learn passes X by its name)

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from giftrl.config.predictor import link_of
from giftrl.errors import Incompatible, InvalidInput
from giftrl.linear.estimator import FTRL, Array
from giftrl.linear.estimator_model import EstimatorModel
from giftrl.linear.plain import plain_regressor


@dataclass(eq=False, repr=False)
class FTRLRegressor(RegressorMixin, FTRL):  # type: ignore[misc]
    """A linear model of numbers that learns in one pass, has nothing to tune, and proves how well it did.

    Features and labels may have any scale. Several targets are models of their own, learnt in one pass. With the
    Poisson loss the prediction is the mean exp(<s, x>); with every other it is <s, x>.

    Args:
        loss: a loss of real labels, by name or as an object: ``"squared"``, ``"absolute"``, ``"huber"``,
            ``"epsilon_insensitive"``, ``"quantile"``, ``"poisson"``.
        beta, preset, update, lookahead, regularizer, schedule, gradient_bound, normalize, fit_intercept, passes,
            validation_fraction, shuffle, dtype, random_state, n_jobs,
            witness_nonzeros: as for :class:`giftrl.linear.FTRLClassifier`.
        clip: with beta="auto", True for predictions that stay in the range of the labels seen, as predictions in the
            course of learning do, which ``average_loss_`` is about. By default they may leave it, as a trend asks for,
            unless that would have been costly in the course of learning.

    Attributes:
        coef_: the weights of the features, or a row of them for each target.
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
        """Go on learning from rows, in order.

        If a row leads to numbers beyond float64 (:class:`giftrl.errors.Overflowed`), the rows before it have been
        learnt; where it has spoilt the model, the estimator is no longer fitted. Any other error leaves it as it was.

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
        return np.asarray(y, np.float64)

    def _make(self) -> EstimatorModel:
        recipe = self._recipe()
        if recipe.many:
            raise Incompatible(f"{recipe.parts.loss!r} is a loss of classes; use FTRLClassifier, or a loss of numbers")
        return self._columns(recipe, models=self._outputs[0] if self._outputs else None)

    def _targets(self, numbers: Array) -> Array:
        return numbers

    @property
    def coef_(self) -> Any:
        """The weights of the features, or a row of them for each target."""
        weights = self._predictor.weights.T
        if self._sparse:
            return sparse.csr_array(weights)
        return weights if self._outputs else weights[0]

    @property
    def intercept_(self) -> Any:
        """The constant, or one for each target."""
        constants = self._predictor.constants
        return constants.copy() if self._outputs else float(constants[0])

    def predict(self, X: Any) -> Array:
        """A number for each row, or a row of numbers.

        That is ``X @ coef_`` plus the intercept; with the Poisson loss, exp of that. With ``clip``, or where it pays,
        the score is clipped to the range of the labels seen, before exp; a Poisson mean is positive even while they are
        all 0.
        """
        scores = self._scores(X)
        means: Array = link_of(self._model.learners[0].loss).means(scores)
        return means if self._outputs else means[:, 0]

    def to_sklearn(self, *, clip: bool = True) -> Any:
        """A fitted estimator of scikit-learn with the same weights and predictions, which knows nothing of giftrl.

        ``PoissonRegressor`` for the Poisson loss, and ``LinearRegression`` for every other. With ``normalize="unit"``
        it is in a pipeline, after a ``Normalizer``. A model whose predictions are clipped is refused.

        Args:
            clip: False for the linear model before its predictions are clipped, where they are.

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
