"""The estimators with beta="auto": rows in pieces, copies and weights."""

import copy
import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from giftrl.linear import FTRLClassifier, FTRLRegressor
from tests.test_estimators import BOTH, same
from tests.test_estimators_auto import CANCER, DIABETES, WINE


@pytest.mark.parametrize("kind", [FTRLClassifier, FTRLRegressor])
def test_row_by_row_is_all_at_once_from_the_first_row_on(kind):
    X, y = CANCER if kind is FTRLClassifier else DIABETES
    X, y = X[:120], y[:120]
    stream = kind(shuffle=False)
    for i in range(120):
        more = {"classes": [0, 1]} if kind is FTRLClassifier else {}
        stream.partial_fit(X[i : i + 1], y[i : i + 1], **more)
        assert np.isfinite(stream.predict(X[i : i + 1])).all()
        assert np.isfinite(stream.coef_).all() and np.isfinite(stream.intercept_).all()
        if i < 3:
            same(stream, kind(shuffle=False).partial_fit(X[: i + 1], y[: i + 1], **more))
    whole = kind(shuffle=False).fit(X, y)
    same(stream, whole)
    assert stream.experts_ == whole.experts_
    assert_array_equal(stream.certificate_.theta, whole.certificate_.theta)


@pytest.mark.plain
@pytest.mark.parametrize("parameters", [{}, {"loss": "softmax"}])
def test_copies_go_on_by_themselves(parameters):
    X, y = WINE[0][:90], WINE[1][:90]
    model = FTRLClassifier(shuffle=False, **parameters).fit(X[:50], y[:50])
    before = pickle.dumps(model)
    whole = FTRLClassifier(shuffle=False, **parameters).fit(X, y)
    for made in (copy.deepcopy(model), pickle.loads(before), copy.deepcopy(pickle.loads(before))):
        made.partial_fit(X[50:], y[50:])
        same(made, whole)
        assert made.experts_ == whole.experts_
        assert made.t_ == len(y) + 1
    assert pickle.dumps(model) == before and model.t_ == 51
    assert not hasattr(clone(model), "classes_")


@pytest.mark.plain
def test_in_pieces_with_softmax():
    X, y = WINE
    pieces = FTRLClassifier("softmax", shuffle=False)
    for begin in range(0, len(y), 50):
        pieces.partial_fit(X[begin : begin + 50], y[begin : begin + 50], classes=[0, 1, 2])
    same(pieces, FTRLClassifier("softmax", shuffle=False).fit(X, y))


@pytest.mark.plain
@BOTH
def test_weights_that_are_all_1_are_none(beta):
    X, y = DIABETES
    same(FTRLRegressor(beta=beta).fit(X, y), FTRLRegressor(beta=beta).fit(X, y, sample_weight=np.ones(len(y))))


def test_heavier_rows_count_for_more():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 2))
    left = random.random(400) < 0.5
    y = np.where(left, X[:, 0], -X[:, 0]) + 0.1 * random.normal(size=400)
    model = FTRLRegressor().fit(X, y, sample_weight=np.where(left, 10.0, 0.1))
    assert model.coef_[0] > 0.8
    assert FTRLRegressor().fit(X, y, sample_weight=np.where(left, 0.1, 10.0)).coef_[0] < -0.8


def test_more_passes_fit_better():
    X, y = DIABETES
    losses = [np.mean((FTRLRegressor(passes=n, validation_fraction=0.0).fit(X, y).predict(X) - y) ** 2) for n in (1, 5)]
    assert losses[1] < losses[0]


@pytest.mark.plain
def test_an_empty_model_predicts_what_nothing_says():
    """All rows have weight 0: nothing was learnt, and nothing breaks."""
    X, y = CANCER
    for loss in ("logistic", "softmax"):
        model = FTRLClassifier(loss, class_weight={0: 0.0, 1: 0.0}).fit(X, y)
        assert_array_equal(model.decision_function(X), 0.0)
        assert_array_equal(model.predict_proba(X), 0.5)
        assert math.isnan(model.average_loss_) and model.t_ == 1
