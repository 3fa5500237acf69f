"""Estimators of scikit-learn that predict what ours predict: for libraries that know those and not ours.

Which one is chosen by what a score means, so that it offers what ours offers and nothing else:

- ``LogisticRegression`` for probabilities by the logistic function of one score, or by the softmax of K scores;
- ``OneVsRestClassifier`` of these for ``logistic`` and K > 2 classes, whose probabilities are scaled to sum 1;
- ``LinearSVC`` for scores of classes that are no probabilities, as of the hinge losses;
- ``PoissonRegressor`` for a score that is the logarithm of the mean, and ``LinearRegression`` for all other numbers.
  ``Ridge`` predicts by the same formula, but shows an ``alpha``, a penalty that our models were not learnt with.

Weights are those of the features as they are: what a mixture does to features and labels (scales, means, the shares of
its experts) is linear and is in ``coef_`` and ``intercept_`` already. ``normalize="unit"`` is not linear, and is the
``Normalizer`` of a pipeline. Clipped predictions are the one thing that no linear model has, and are refused.
"""

from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC

from giftrl.config import Link, Predictor
from giftrl.config.predictor import link_of
from giftrl.errors import Incompatible


def plain_classifier(model: Any) -> Any:
    """A classifier of scikit-learn with the weights of a fitted :class:`giftrl.FTRLClassifier`."""
    weights, constants, classes = _dense(model.coef_), model.intercept_, model.classes_
    link = link_of(model._model.learners[0].loss)
    if not link.probable:
        return _prepared(model, _linear(LinearSVC(), model, weights, constants, classes_=classes))
    if link is Link.SOFTMAX or len(classes) == 2:
        return _prepared(model, _linear(LogisticRegression(), model, weights, constants, classes_=classes))
    # It keeps the classes in a form that only its own ``fit`` makes. For that, features do not matter: they are zeros.
    made = OneVsRestClassifier(DummyClassifier()).fit(np.zeros((len(classes), 1)), classes)
    made.set_params(estimator=LogisticRegression())
    made.estimators_ = [
        _linear(LogisticRegression(), model, row[None], np.array([constant]), classes_=np.array([0, 1]))
        for row, constant in zip(weights, constants, strict=True)
    ]
    return _prepared(model, _names(made, model))


def plain_regressor(model: Any, predictor: Predictor) -> Any:
    """A regressor of scikit-learn with the weights of a fitted :class:`giftrl.FTRLRegressor`.

    Args:
        model: the regressor.
        predictor: what it predicts, or that without clipping.
    """
    ends = np.isfinite(predictor.low) | np.isfinite(predictor.high)
    if ends.any():
        column = int(np.argmax(ends))
        low, high = float(predictor.low[column]), float(predictor.high[column])
        raise Incompatible(
            f"predictions are clipped to the range of the labels seen, from {low:.6g} to {high:.6g}, which no linear "
            "model of scikit-learn does; to_sklearn(clip=False) gives the linear model before it is clipped"
        )
    weights, constants = _dense(model.coef_), model.intercept_
    if predictor.link is not Link.EXP:
        return _prepared(model, _linear(LinearRegression(), model, weights, constants))
    if weights.ndim == 2:
        raise Incompatible(
            f"the Poisson loss has {len(weights)} targets here, and PoissonRegressor has one; fit one model for each"
        )
    # Only its fit, here of two rows with nothing to learn, makes the link from scores to means.
    made = PoissonRegressor(solver="newton-cholesky").fit([[0.0], [1.0]], [1.0, 1.0]).set_params(solver="lbfgs")
    return _prepared(model, _linear(made, model, weights, constants))


def _linear(made: Any, model: Any, weights: Any, constants: Any, **more: Any) -> Any:
    """Set the weights of an estimator, as its fit does."""
    made.coef_, made.intercept_ = weights, constants
    for name, value in more.items():
        setattr(made, name, value)
    return _names(made, model)


def _names(made: Any, model: Any) -> Any:
    """Say which features there are."""
    made.n_features_in_ = model.n_features_in_
    if hasattr(model, "feature_names_in_"):
        made.feature_names_in_ = model.feature_names_in_
    return made


def _prepared(model: Any, made: Any) -> Any:
    """The estimator, after what is done to rows before they are multiplied by weights."""
    return make_pipeline(_names(Normalizer(), model), made) if model.normalize == "unit" else made


def _dense(weights: Any) -> Any:
    return weights.toarray() if hasattr(weights, "toarray") else np.array(weights)
