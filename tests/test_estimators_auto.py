"""The estimators without a parameter to choose: beta="auto", the default."""

import copy
import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

from giftrl import Certificate
from giftrl.linear import FTRLClassifier, FTRLRegressor
from giftrl.ops.loss import value
from tests.test_estimators import BOTH, interpreted, same

CANCER = load_breast_cancer(return_X_y=True)  # as they come: from 1e-3 to 4e3
DIABETES = load_diabetes(return_X_y=True)
WINE = load_wine(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(WINE[1]))
WINE = (WINE[0][ORDER], WINE[1][ORDER])


def with_constant(X):
    return np.column_stack([X, np.ones(len(X))])


def linear_data(n=100):
    """Features in units of all kinds, and a linear function of them with some noise, of size 10."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 4)) * [1.0, 10.0, 1e4, 1e-3] + [0.0, 50.0, 0.0, 3.0]
    f = X @ [1.0, 0.1, -1e-4, 1e3]
    return X, 5.0 * (f - f.mean()) + random.normal(size=n)


# What is learnt.


def test_nothing_is_given_and_nothing_is_chosen():
    for kind in (FTRLClassifier, FTRLRegressor):
        parameters = kind().get_params()
        assert (parameters["beta"], parameters["preset"]) == ("auto", "default")
        for name in ("update", "lookahead", "regularizer", "schedule", "gradient_bound"):
            assert parameters[name] is None
        assert repr(kind()) == f"{kind.__name__}()"
        assert repr(kind(beta=1.0)) == f"{kind.__name__}(beta=1.0)"


@pytest.mark.verify
def test_raw_features_do_better_than_a_single_learner_on_scaled_ones():
    X, y = CANCER
    single = FTRLClassifier(beta=1.0, shuffle=False).fit(scale(X), y)
    assert FTRLClassifier(shuffle=False).fit(X, y).average_loss_ < single.average_loss_
    X, y = DIABETES
    single = FTRLRegressor(beta=1.0, shuffle=False).fit(scale(X), scale(y))
    model = FTRLRegressor(shuffle=False).fit(X, y)
    assert model.average_loss_ < single.average_loss_ * y.var()
    assert model.score(X, y) > 0.5
    for loss in ("logistic", "softmax"):
        X, y = WINE
        single = FTRLClassifier(loss, beta=1.0, shuffle=False).fit(scale(X), y)
        model = FTRLClassifier(loss, shuffle=False).fit(X, y)
        assert model.average_loss_ < 0.9 * single.average_loss_
        assert model.score(X, y) > 0.97


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_the_units_of_features_do_not_matter(seed):
    X, y = CANCER[0][:200], CANCER[1][:200]
    units = 10.0 ** np.random.default_rng(seed).uniform(-30.0, 30.0, 30)
    model, other = FTRLClassifier().fit(X, y), FTRLClassifier().fit(units * X, y)
    assert_allclose(other.average_loss_, model.average_loss_, rtol=1e-6)
    assert_allclose(other.decision_function(units * X), model.decision_function(X), rtol=1e-4, atol=1e-5)


@settings(max_examples=20)
@given(st.floats(-12.0, 12.0), st.floats(-100.0, 100.0), st.sampled_from([-1.0, 1.0]))
def test_the_units_of_labels_do_not_matter(power, shift, sign):
    X, y = DIABETES
    y = scale(y)
    unit = sign * 10.0**power
    model, other = FTRLRegressor().fit(X, y), FTRLRegressor().fit(X, unit * (y + shift))
    assert_allclose(other.predict(X) / unit - shift, model.predict(X), rtol=1e-4, atol=1e-4)


@pytest.mark.verify
def test_ten_classes_against_the_rest_and_together():
    X, y = load_digits(return_X_y=True)
    y = np.array(list("abcdefghij"))[y]
    apart, together = FTRLClassifier("logistic").fit(X, y), FTRLClassifier("softmax").fit(X, y)
    for model in (apart, together):
        assert model.score(X, y) > 0.95
        assert model.coef_.shape == (10, 64) and model.intercept_.shape == (10,)
        assert set(model.predict(X)) == set("abcdefghij")
    assert len(apart.experts_) == len(apart.certificate_) == 10
    assert all(len(table) == len(together.experts_) == 10 for table in apart.experts_)
    assert isinstance(together.certificate_, Certificate)
    single = FTRLClassifier().fit(X, y == "c")
    assert_array_equal(apart.coef_[2], single.coef_[0])
    assert apart.experts_[2] == single.experts_


class Expectile(NamedTuple):
    """A loss of someone's own, with the least that one must bring."""

    tau: float = 0.5

    def value(self, p, y):
        return (self.tau if p < y else 1.0 - self.tau) * (p - y) ** 2 / 2.0

    def slope(self, p, y):
        return (self.tau if p < y else 1.0 - self.tau) * (p - y)


@pytest.mark.parametrize(
    "loss", ["squared", "absolute", "huber", "epsilon_insensitive", "quantile", "poisson", Expectile(0.8)]
)
def test_every_loss_of_numbers_beats_the_best_constant(loss):
    X, y = linear_data()
    if loss == "poisson":
        y = np.random.default_rng(1).poisson(np.exp(0.2 * y))
    with interpreted():
        model = FTRLRegressor(loss, clip=True).fit(X, y)
        predicted = model.predict(X)
    phi = model._model.learners[0].loss
    constants = np.linspace(-4.0, 4.0, 50) if loss == "poisson" else np.linspace(y.min(), y.max(), 50)
    best = min(np.mean([value(phi, p, float(label)) for label in y]) for p in constants)
    assert model.average_loss_ < best - 0.1 * abs(best)
    assert np.isfinite(predicted).all() and np.isfinite(model.coef_).all() and math.isfinite(model.intercept_)
    assert (predicted >= y.min()).all() and (predicted <= y.max() * (1.0 + 1e-12)).all()


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "squared", "softmax", "multiclass_hinge"])
def test_every_loss_of_classes_tells_them_apart(loss):
    X, y = linear_data()
    words = np.array(["no", "yes"])[(y > 0.0).astype(int)]
    with interpreted():
        model = FTRLClassifier(loss).fit(X, words)
        scores = model.decision_function(X)
    assert model.score(X, words) > 0.9
    assert scores.shape == (100,) and model.coef_.shape == (1, 4)
    # Never clipped, though predictions of the hinge losses are while it learns.
    assert_allclose(scores, X @ model.coef_[0] + model.intercept_, rtol=1e-9, atol=1e-9 * np.abs(scores).max())
    assert loss not in ("hinge", "squared") or np.abs(scores).max() > 1.0
    assert_array_equal(model.predict(X) == "yes", scores > 0.0)


def test_counts_that_begin_with_none():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 2)), random.poisson(2.0, 200)
    y[:5] = 0
    with interpreted():
        model = FTRLRegressor("poisson").fit(X[:5], y[:5])
        assert (model.predict(X) >= 0.0).all() and model.predict(X).max() < 1.0
        model.partial_fit(X[5:], y[5:])
        assert math.isfinite(model.average_loss_)
        assert abs(model.predict(X).mean() - y.mean()) < 0.5


def test_constant_labels():
    X = np.random.default_rng(0).normal(size=(50, 3))
    for label in (5.0, 0.0, -1e9, 1e-9):
        model = FTRLRegressor().fit(X, np.full(50, label))
        assert_array_equal(model.predict(1e3 * X), label)
        assert_allclose(X @ model.coef_ + model.intercept_, label, rtol=1e-6)
        assert math.isclose(model.average_loss_, label**2 / 2.0 / 50.0)  # the first prediction is 0


# Predictions, experts, certificates.


def test_numbers_stay_in_the_range_that_was_seen_if_they_are_clipped():
    X, y = DIABETES
    model = FTRLRegressor().fit(X, y)
    line = 100.0 * X @ model.coef_ + model.intercept_
    assert_allclose(model.predict(100.0 * X), line, rtol=1e-12)
    far = model.set_params(clip=True).predict(100.0 * X)
    assert far.min() == y.min() and far.max() == y.max()
    assert line.min() < y.min() and line.max() > y.max()
    inside = (line > y.min()) & (line < y.max())
    assert inside.any()
    assert_array_equal(far, np.clip(line, y.min(), y.max()))
    with interpreted():
        single = FTRLRegressor(beta=1.0).fit(X, y)
    assert_allclose(single.predict(100.0 * X), 100.0 * X @ single.coef_ + single.intercept_)


def test_a_trend_goes_on_and_a_limit_stays_one():
    """In order and at random, with n = 400: the future of a trend is predicted, and no percentage above 100."""
    rng = np.random.default_rng(0)
    t = np.arange(800.0)[:, None]
    y = 3.0 * t[:, 0] + rng.normal(size=800)
    for shuffle in (False, True):
        model = FTRLRegressor(shuffle=shuffle).fit(t[:400], y[:400])
        assert model.score(t[400:], y[400:]) > 0.99 and not model._model.learners[0].clipping_pays
        assert abs(model.coef_[0] - 3.0) < 0.1
    x = rng.standard_t(2, size=(600, 2))
    percent = np.clip(90.0 + 40.0 * x[:, 0] + rng.normal(size=600), 0.0, 100.0)
    model = FTRLRegressor().fit(x, percent)
    assert model._model.learners[0].clipping_pays
    predicted = model.predict(x)
    assert predicted.max() == 100.0 and (x @ model.coef_ + model.intercept_).max() > 120.0


def test_experts():
    X, y = CANCER
    model = FTRLClassifier().fit(X, y)
    names, shares, totals = zip(*model.experts_, strict=True)
    assert len(set(names)) == len(names) == 10
    assert {"coin betting", "full matrix"} <= set(names)
    assert np.isfinite(shares).all() and max(shares) > 0.0
    assert model.average_loss_ * len(y) < 1.15 * min(totals)
    assert sum(total > 1.5 * min(totals) for total in totals) >= 1  # which one it is cannot be known before
    with pytest.raises(NotFittedError):
        _ = FTRLClassifier().experts_
    light = FTRLClassifier(preset="light")
    with interpreted():
        assert len(light.fit(X[:20], y[:20]).experts_) < len(names)


@pytest.mark.plain
def test_a_single_learner_has_no_experts():
    X, y = WINE
    for model in (
        FTRLClassifier(beta=1.0).fit(X, y == 1), FTRLClassifier(beta=1.0).fit(X, y),
        FTRLClassifier("softmax", beta=1.0).fit(X, y),
    ):  # fmt: skip
        assert not hasattr(model, "experts_")
        with pytest.raises(AttributeError, match="experts_ is the table of a mixture, and beta is a number here"):
            _ = model.experts_


@pytest.mark.verify
@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(-3.0, 1.0), st.sampled_from(["logistic", "softmax"]))
def test_the_certificate_holds_for_every_other_model(seed, power, loss):
    X, y = WINE
    Z = scale(X)
    if loss == "logistic":
        y = (y == 1).astype(int)
    model = FTRLClassifier(loss).fit(Z, y)
    shape = (14,) if loss == "logistic" else (14, 3)
    u = 10.0**power * np.random.default_rng(seed).normal(size=shape)
    for comparator in (u, _best(loss, Z, y)):
        regret = model.average_loss_ * len(y) - _loss_of(loss, comparator, with_constant(Z), y)
        assert regret <= model.certificate_.regret_bound(comparator.reshape(-1)) + 1e-6 * (1.0 + abs(regret))


def _best(loss, X, y):
    best = LogisticRegression(C=0.1).fit(X, y)
    u = np.vstack([best.coef_.T, best.intercept_])
    return u[:, 0] if loss == "logistic" else u


def _loss_of(loss, u, X, y):
    if loss == "logistic":
        return float(np.logaddexp(0.0, -(2.0 * y - 1.0) * (X @ u)).sum())
    scores = X @ u
    return float((np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(y)), y]).sum())


# Rows in pieces, copies and weights.


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
@pytest.mark.parametrize("parameters", [{}, {"loss": "softmax"}, {"beta": 1.0}])
def test_copies_go_on_by_themselves(parameters):
    X, y = WINE[0][:90], WINE[1][:90]
    model = FTRLClassifier(shuffle=False, **parameters).fit(X[:50], y[:50])
    before = pickle.dumps(model)
    whole = FTRLClassifier(shuffle=False, **parameters).fit(X, y)
    for made in (copy.deepcopy(model), pickle.loads(before), copy.deepcopy(pickle.loads(before))):
        made.partial_fit(X[50:], y[50:])
        same(made, whole)
        assert "beta" in parameters or made.experts_ == whole.experts_
        assert made.t_ == len(y) + 1
    assert pickle.dumps(model) == before and model.t_ == 51
    assert not hasattr(clone(model), "classes_")


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


@pytest.mark.plain
def test_an_empty_model_predicts_what_nothing_says():
    """All rows have weight 0: nothing was learnt, and nothing breaks."""
    X, y = CANCER
    for loss in ("logistic", "softmax"):
        model = FTRLClassifier(loss, class_weight={0: 0.0, 1: 0.0}).fit(X, y)
        assert_array_equal(model.decision_function(X), 0.0)
        assert_array_equal(model.predict_proba(X), 0.5)
        assert math.isnan(model.average_loss_) and model.t_ == 1
