"""Conversion to scikit-learn estimators with the same predictions, for libraries that support only those.

The link between scores and predictions decides the class:

- ``LogisticRegression`` for probabilities by the logistic function of one score or the softmax of K scores;
- ``OneVsRestClassifier`` of these for ``logistic`` with K > 2 classes, whose probabilities are scaled to sum to 1;
- ``LinearSVC`` for class scores without probabilities, as of the hinge losses;
- ``PoissonRegressor`` for a score that is the logarithm of the mean, ``LinearRegression`` for all other targets.
  ``Ridge`` has the same formula, but shows a penalty ``alpha`` that our models were not trained with.

A mixture's scaling of features and targets is linear and already included in ``coef_`` and ``intercept_``.
``normalize="unit"`` is not linear and becomes the ``Normalizer`` of a pipeline. Clipped predictions have no counterpart
in scikit-learn and are refused.
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
    """Return a scikit-learn classifier with the weights of a fitted :class:`giftrl.FTRLClassifier`."""
    weights, constants, classes = _dense(model.coef_), model.intercept_, model.classes_
    link = link_of(model._model.learners[0].loss)
    if not link.probable:
        return _prepared(model, _linear(LinearSVC(), model, weights, constants, classes_=classes))
    if link is Link.SOFTMAX or len(classes) == 2:
        return _prepared(model, _linear(LogisticRegression(), model, weights, constants, classes_=classes))
    # Only ``fit`` of OneVsRestClassifier builds its internal label encoder, so it is fitted on zeros first.
    made = OneVsRestClassifier(DummyClassifier()).fit(np.zeros((len(classes), 1)), classes)
    made.set_params(estimator=LogisticRegression())
    made.estimators_ = [
        _linear(LogisticRegression(), model, row[None], np.array([constant]), classes_=np.array([0, 1]))
        for row, constant in zip(weights, constants, strict=True)
    ]
    return _prepared(model, _names(made, model))


def plain_regressor(model: Any, predictor: Predictor) -> Any:
    """Return a scikit-learn regressor with the weights of a fitted :class:`giftrl.FTRLRegressor`.

    Args:
        model: the regressor.
        predictor: its predictor, with or without clipping.
    """
    ends = np.isfinite(predictor.low) | np.isfinite(predictor.high)
    if ends.any():
        column = int(np.argmax(ends))
        low, high = float(predictor.low[column]), float(predictor.high[column])
        raise Incompatible(
            f"predictions are clipped to the range of the targets seen, from {low:.6g} to {high:.6g}, which no linear "
            "model of scikit-learn does; to_sklearn(clip=False) converts the model without clipping"
        )
    weights, constants = _dense(model.coef_), model.intercept_
    if predictor.link is not Link.EXP:
        return _prepared(model, _linear(LinearRegression(), model, weights, constants))
    if weights.ndim == 2:
        raise Incompatible(
            f"the Poisson loss has {len(weights)} targets here, and PoissonRegressor has one; fit one model for each"
        )
    # Only ``fit`` of PoissonRegressor creates its link function, so it is fitted on two constant examples first.
    made = PoissonRegressor(solver="newton-cholesky").fit([[0.0], [1.0]], [1.0, 1.0]).set_params(solver="lbfgs")
    return _prepared(model, _linear(made, model, weights, constants))


def _linear(made: Any, model: Any, weights: Any, constants: Any, **more: Any) -> Any:
    """Set the fitted attributes of a scikit-learn estimator."""
    made.coef_, made.intercept_ = weights, constants
    for name, value in more.items():
        setattr(made, name, value)
    return _names(made, model)


def _names(made: Any, model: Any) -> Any:
    """Copy the names and the number of features."""
    made.n_features_in_ = model.n_features_in_
    if hasattr(model, "feature_names_in_"):
        made.feature_names_in_ = model.feature_names_in_
    return made


def _prepared(model: Any, made: Any) -> Any:
    """Return the estimator, in a pipeline with a ``Normalizer`` if the model normalizes examples."""
    return make_pipeline(_names(Normalizer(), model), made) if model.normalize == "unit" else made


def _dense(weights: Any) -> Any:
    return weights.toarray() if hasattr(weights, "toarray") else np.array(weights)
