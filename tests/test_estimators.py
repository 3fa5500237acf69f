"""The estimators: what they learn, what they accept, and where scikit-learn can put them."""

import contextlib
import os
import pickle
import warnings
from unittest import mock

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_linnerud, load_wine
from sklearn.ensemble import StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from giftrl import Certificate, errors, losses, regularizers, schedules, updates
from giftrl.kernels import LinearLearner
from giftrl.linear import FTRLClassifier, FTRLRegressor
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.mixture import MulticlassMixture

pytestmark = pytest.mark.plain

CANCER = load_breast_cancer(return_X_y=True)
CANCER = (scale(CANCER[0]), CANCER[1])
FEW = (CANCER[0][:120], CANCER[1][:120])
WINE = load_wine(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(WINE[1]))
WINE = (scale(WINE[0])[ORDER], WINE[1][ORDER])
#: The mixture and a single learner: what holds for every estimator holds for both.
BOTH = pytest.mark.parametrize("beta", ["auto", 1.0])
SLOW_AUTO = pytest.mark.parametrize("beta", [pytest.param("auto", marks=pytest.mark.verify), 1.0])


def interpreted():
    """Loops as plain Python: a compilation takes seconds, and laws need few rows of many losses."""
    return mock.patch.dict(os.environ, GIFTRL_PLAIN="1")


def same(one, two):
    assert_array_equal(one.coef_, two.coef_)
    assert_array_equal(one.intercept_, two.intercept_)
    assert one.average_loss_ == two.average_loss_


# What is learnt.


@pytest.mark.parametrize(
    "parameters",
    [
        {}, {"preset": "light", "dtype": "float64"}, {"fit_intercept": False}, {"loss": "softmax"},
        {"beta": 0.5, "gradient_bound": 2.0},
    ],
    ids=str,
)  # fmt: skip
def test_a_fit_is_the_learner_with_a_constant_feature(parameters):
    X, y = WINE if "loss" in parameters else FEW
    n, d = X.shape
    model = FTRLClassifier(shuffle=False, **parameters).fit(X, y)
    intercept, loss = parameters.get("fit_intercept", True), parameters.get("loss", "logistic")
    if "beta" in parameters:
        learner = LinearLearner(d + 1, loss, schedule=schedules.TemporalVariability(0.5, 2.0))
    elif loss == "softmax":
        learner = MulticlassMixture(d + 1, 3, loss, constant=d)
    else:
        own = {name: parameters[name] for name in ("preset", "dtype") if name in parameters}
        learner = MixtureLearner(d + intercept, loss, constant=d if intercept else None, **own)
    learner.learn(np.column_stack([X, np.ones(n)]) if intercept else X, y if loss == "softmax" else 2.0 * y - 1.0)
    weights = np.vstack([model.coef_.T, model.intercept_]) if loss == "softmax" else model.coef_[0]
    assert_array_equal(np.append(weights, model.intercept_) if intercept and weights.ndim == 1 else weights, learner.x)
    assert intercept or model.intercept_ == 0.0
    assert model.average_loss_ == learner.certificate.loss_sum / n and model.t_ == n + 1
    assert model.certificate_.regret_bound_ball(1.0) == learner.certificate.regret_bound_ball(1.0)
    assert "beta" in parameters or model.experts_ == learner.experts


@BOTH
def test_several_targets_are_a_model_each(beta):
    X, y = (scale(each) for each in load_linnerud(return_X_y=True))
    with interpreted():
        model = FTRLRegressor(beta=beta, passes=3, validation_fraction=0.0, clip=beta == "auto").fit(X, y)
        singles = [clone(model).fit(X, y[:, k]) for k in range(3)]
    assert model.predict(X).shape == y.shape
    for k, single in enumerate(singles):
        assert_allclose(model.coef_[k], single.coef_, rtol=1e-5, atol=1e-7)
        assert_allclose(model.predict(X)[:, k], single.predict(X), rtol=1e-5, atol=1e-6)
    if beta == "auto":
        assert [model.experts_[k] for k in range(3)] == [single.experts_ for single in singles]
        far = model.predict(1e3 * X - 1e4)
        assert (far >= y.min(axis=0)).all() and (far <= y.max(axis=0)).all()
    with pytest.raises(errors.InvalidInput, match="shape of the targets"):
        model.partial_fit(X, y[:, 0])


def test_softmax_is_within_its_certificate_of_the_best_model_in_hindsight():
    X, y = WINE
    model = FTRLClassifier("softmax", beta=1.0).fit(X, y)
    best = LogisticRegression(C=1.0).fit(X, y)
    u = np.vstack([best.coef_.T, best.intercept_])
    log_probabilities = best.predict_log_proba(X)[np.arange(len(y)), y]
    regret = model.average_loss_ * len(y) + log_probabilities.sum()
    assert 0.0 < regret <= model.certificate_.regret_bound(u.reshape(-1))
    assert model.score(X, y) > 0.95


def test_one_against_the_rest_is_a_model_for_each_class():
    X, y = WINE
    model = FTRLClassifier("logistic", beta=1.0).fit(X, y)
    for k in range(3):
        single = FTRLClassifier(beta=1.0).fit(X, y == k)
        assert_allclose(model.coef_[k], single.coef_[0], rtol=1e-5, atol=1e-7)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    with interpreted():
        elastic = regularizers.ElasticNet(l1=3.0)  # models cannot share a pass
        apart = FTRLClassifier("logistic", beta=1.0, regularizer=elastic).fit(X, y)
    assert apart.coef_.shape == (3, 13)
    assert len(apart.certificate_) == 3
    assert np.mean(apart.coef_ == 0.0) > 0.2


def test_the_mean_of_counts():
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 3))
    y = random.poisson(np.exp(X @ [0.5, -0.3, 0.2] + 1.0))
    with interpreted():
        model = FTRLRegressor("poisson", shuffle=False, beta=1.0).fit(X, y)
    assert abs(model.predict(X).mean() - y.mean()) < 0.3
    assert model.predict(X).min() > 0.0


def test_a_constant_target_is_fitted():
    X = np.random.default_rng(0).normal(size=(1000, 5))
    for parameters in ({}, {"update": "iwa"}, {"loss": "absolute"}, {"loss": "huber"}):
        with interpreted():
            model = FTRLRegressor(beta=1.0, **parameters).fit(X, np.full(1000, 5.0))
        assert_allclose(model.predict(X), 5.0, atol=1e-3)


# Weights.


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from(["logistic", "squared_hinge", "hinge"]))
def test_weight_k_is_k_repetitions_for_importance_aware_updates_at_a_fixed_regularizer(seed, k, loss):
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(12, 3)), random.permutation(np.arange(12) % 2)
    parameters = {"loss": loss, "beta": 1.0, "update": "iwa", "schedule": "constant", "dtype": "float64"}
    with interpreted():
        weighted = FTRLClassifier(shuffle=False, **parameters).fit(X, y, sample_weight=np.full(12, k))
        repeated = FTRLClassifier(shuffle=False, **parameters).fit(X.repeat(k, axis=0), y.repeat(k))
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-8)


def test_a_row_of_weight_0_is_no_row():
    X, y = FEW
    kept = np.random.default_rng(0).random(len(y)) < 0.5
    for parameters in ({}, {"beta": 1.0}, {"beta": 1.0, "schedule": "sqrt"}, {"beta": 1.0, "loss": "softmax"}):
        same(
            FTRLClassifier(**parameters).fit(X, y, sample_weight=kept),
            FTRLClassifier(**parameters).fit(X[kept], y[kept]),
        )


@settings(max_examples=40)
@given(
    st.sampled_from(["squared", "absolute", "huber", "quantile", "epsilon_insensitive"]),
    st.sampled_from(["proximal", "iwa", "truncated"]),
    st.sampled_from([1e-20, 1.0, 1e20]),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.integers(0, 10**6),
)
def test_no_step_goes_past_the_label(loss, update, size, weight, seed):
    random = np.random.default_rng(seed)
    row, y = size * random.normal(size=(1, 4)), random.normal() * 10.0
    for intercept in (True, False):
        model = FTRLRegressor(loss, beta=1.0, update=update, fit_intercept=intercept)
        for _ in range(3):
            with interpreted():
                model.partial_fit(row, [y], sample_weight=[weight])
            assert 0.0 <= model.predict(row)[0] / y <= 1.0 + 1e-5


@pytest.mark.parametrize("update", [None, "proximal", "iwa", "truncated"])
@pytest.mark.parametrize("normalize", [None, "unit"])
def test_rows_of_all_scales_together(update, normalize):
    random = np.random.default_rng(0)
    powers = [-20.0, 0.0, 20.0] if update else [-200.0, 0.0, 150.0]
    X = random.normal(size=(300, 4)) * 10.0 ** random.choice(powers, (300, 1))
    y, w = (random.random(300) < 0.5).astype(int), 10.0 ** random.choice([-6.0, 0.0, 6.0], 300)
    parameters = {"beta": 1.0, "update": update} if update else {}
    with interpreted():
        model = FTRLClassifier(normalize=normalize, **parameters).fit(X, y, sample_weight=w)
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(model.average_loss_) and (update is None or np.isfinite(model.certificate_.bound_sum))


@BOTH
def test_class_weights_are_weights(beta):
    X, y = FEW
    factors = len(y) / (2.0 * np.bincount(y))
    plain = FTRLClassifier(shuffle=False, beta=beta).fit(X, y, sample_weight=factors[y])
    same(plain, FTRLClassifier(shuffle=False, beta=beta, class_weight="balanced").fit(X, y))
    by_class = FTRLClassifier(beta=beta, class_weight=dict(enumerate(factors)))
    same(plain, by_class.partial_fit(X, y, classes=[0, 1]))
    with pytest.raises(errors.InvalidInput, match="needs all labels at once"):
        FTRLClassifier(shuffle=False, class_weight="balanced").partial_fit(X, y, classes=[0, 1])


# Passes and parts.


def test_partial_fit_in_pieces_is_fit():
    X, y = WINE
    for parameters in (
        {}, {"loss": "softmax"}, {"beta": 1.0}, {"beta": 1.0, "loss": "softmax"},
        {"beta": 1.0, "regularizer": "curvature", "schedule": "constant"},
    ):  # fmt: skip
        with interpreted() if "regularizer" in parameters else contextlib.nullcontext():
            whole = FTRLClassifier(shuffle=False, **parameters).fit(X, y)
            pieces = FTRLClassifier(shuffle=False, **parameters)
            for begin in range(0, len(y), 50):
                pieces.partial_fit(X[begin : begin + 50], y[begin : begin + 50], classes=[0, 1, 2])
        same(pieces, whole)


@SLOW_AUTO
def test_passes_and_shuffling(beta):
    X, y = CANCER
    in_order = FTRLClassifier(beta=beta, shuffle=False)
    twice = clone(in_order).set_params(passes=2, validation_fraction=0.0).fit(X, y)
    by_hand = clone(in_order).fit(X, y).partial_fit(X, y)
    if beta != "auto":  # which knows that the second pass is one
        assert_array_equal(twice.coef_, by_hand.coef_)
    assert twice.average_loss_ == clone(in_order).fit(X, y).average_loss_ > by_hand.average_loss_
    for seed, shuffled in ((3, FTRLClassifier(beta=beta, random_state=3)), (0, FTRLClassifier(beta=beta))):
        order = np.random.RandomState(seed).permutation(len(y))
        same(shuffled.fit(X, y), clone(in_order).fit(X[order], y[order]))
    assert twice.t_ == (1 if beta == "auto" else 2) * len(y) + 1


@BOTH
def test_unit_rows(beta):
    X, y = FEW
    model = FTRLClassifier(beta=beta, normalize="unit").fit(X, y)
    by_hand = FTRLClassifier(beta=beta).fit(X / np.linalg.norm(X, axis=1, keepdims=True), y)
    assert_allclose(model.coef_, by_hand.coef_, rtol=1e-5)
    assert_allclose(
        model.decision_function(X), by_hand.decision_function(X / np.linalg.norm(X, axis=1, keepdims=True)), rtol=1e-5
    )
    assert_allclose(model.decision_function(sparse.csr_array(X)), model.decision_function(X))


def test_parts_by_name_are_the_parts_as_objects():
    X, y = CANCER
    by_name = FTRLClassifier(
        "hinge", update="iwa", regularizer="adagrad", schedule="constant", beta=0.5, gradient_bound=2.0
    )
    objects = FTRLClassifier(
        losses.Hinge(), beta=1.0, update=updates.ImportanceAware(), regularizer=regularizers.AdaGrad(2.0),
        schedule=schedules.Constant(0.5),
    )  # fmt: skip
    with interpreted():
        same(by_name.fit(X, y), objects.fit(X, y))
        same(clone(objects).fit(X, y), objects)
    assert clone(objects).get_params()["regularizer"] == regularizers.AdaGrad(2.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "logistics"}, "did you mean 'logistic'.*softmax"),
        ({"update": "prox"}, "did you mean 'proximal'"),
        ({"regularizer": "curve"}, "did you mean 'curvature'"),
        ({"schedule": "tempral"}, "did you mean 'temporal'"),
        ({"loss": "poisson"}, "Poisson.*-1 and"),
        ({"normalize": "l2"}, "normalize='l2'"),
        ({"passes": 0}, "passes=0"),
        ({"beta": -1.0}, "beta=-1.0"),
        ({"dtype": "float16"}, "dtype='float16'"),
        ({"lookahead": 1}, "lookahead=1"),
        ({"regularizer": "adagrad", "lookahead": True}, "not known in time"),
        ({"update": updates.Proximal(True), "lookahead": False}, "contradict the update"),
        ({"schedule": schedules.Constant(2.0), "beta": 3.0}, "contradict the schedule"),
        ({"schedule": "sqrt", "gradient_bound": 3.0}, "gradient_bound=3.0"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "negative"),
        ({"regularizer": "entropy"}, "diagonal"),
        ({"preset": "light"}, "preset='light'.*beta is 1.0"),
        ({"beta": "none"}, "beta='none': must be positive and finite, or 'auto'"),
        ({"beta": "auto", "preset": "lite"}, "preset='lite'.*did you mean 'light'"),
        ({"beta": "auto", "update": "iwa"}, "update='iwa': must be left out.*give a beta, such as beta=1.0"),
        ({"beta": "auto", "lookahead": False}, "lookahead=False: must be left out.*give a beta"),
        ({"beta": "auto", "regularizer": regularizers.AdaGrad()}, "AdaGrad.*must be left out.*give a beta"),
        ({"beta": "auto", "schedule": "sqrt"}, "schedule='sqrt': must be left out.*give a beta"),
        ({"beta": "auto", "gradient_bound": 1.0}, "gradient_bound=1.0: must be left out.*give a beta"),
    ],
)
def test_an_error_names_the_parameter_and_leaves_the_model(parameters, message):
    X, y = CANCER
    model = FTRLClassifier(beta=1.0).fit(X, y)
    before = model.coef_.copy()
    old = model.get_params()
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        model.set_params(**parameters).fit(X[:, :5], y)
    model.set_params(**old)
    assert_array_equal(model.coef_, before)
    assert model.n_features_in_ == 30
    model.predict(X)


@BOTH
def test_bad_rows_change_nothing(beta):
    X, y = FEW
    model = FTRLClassifier(beta=beta).fit(X, y)
    before = pickle.dumps(model)
    bad = X.copy()
    bad[3, 2] = np.nan
    for arguments in ((bad, y), (X[:, 1:], y), (X, y + 1), (X, y, None, -np.ones(len(y))), (X, y[:-1])):
        with pytest.raises(ValueError, match=r"NaN|features|y=|[Nn]egative|inconsistent"):
            model.partial_fit(*arguments)
    with pytest.raises(errors.InvalidInput, match="one class"):
        model.fit(X, np.zeros(len(y)))
    with pytest.raises(errors.InvalidInput, match="must not change after learning began"):
        model.set_params(beta=2.0).partial_fit(X, y)
    assert pickle.dumps(model.set_params(beta=beta)) == before
    with pytest.raises(errors.Overflowed, match="row"):
        FTRLRegressor(update="linear", beta=1e3).fit(1e3 * X, y)
    with pytest.raises(errors.Incompatible, match="multiclass loss"):
        FTRLRegressor(losses.Softmax(), beta=beta).fit(X, y)


# Where scikit-learn can put them.


@SLOW_AUTO
def test_pipelines_and_ensembles(beta):
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), FTRLClassifier(beta=beta))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.95
    calibrated = CalibratedClassifierCV(pipeline, cv=3).fit(X, y)
    assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)
    stack = StackingClassifier([("ftrl", pipeline), ("slow", clone(pipeline))], FTRLClassifier(beta=beta), cv=3)
    assert stack.fit(X, y).score(X, y) > 0.95
    assert SelectFromModel(FTRLClassifier(beta=beta)).fit(scale(X), y).transform(scale(X)).shape[1] < 30


@BOTH
def test_weights_find_their_way_through_a_pipeline(beta):
    X, y = FEW
    w = np.random.default_rng(0).random(len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        step = FTRLClassifier(beta=beta).set_fit_request(sample_weight=True)
        scaler = StandardScaler(with_mean=False, with_std=False).set_fit_request(sample_weight=False)
        routed = make_pipeline(scaler, step).fit(X, y, sample_weight=w)
    same(routed[-1], FTRLClassifier(beta=beta).fit(X, y, sample_weight=w))


def test_probabilities_only_where_there_are_some():
    assert hasattr(FTRLClassifier(), "predict_proba") and hasattr(FTRLClassifier(losses.Logistic()), "predict_proba")
    assert not hasattr(FTRLClassifier("hinge"), "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        _ = FTRLClassifier("hinge").predict_proba
    X, y = WINE
    for loss, beta in (("logistic", 1.0), ("softmax", 1.0), ("logistic", "auto")):
        model = FTRLClassifier(loss, beta=beta).fit(X, y)
        assert_array_equal(model.predict_proba(X).argmax(axis=1), model.predict(X))
        assert np.isfinite(model.predict_log_proba(X)).all()
        far = model.predict_proba(-1e6 * X)
        assert_allclose(far.sum(axis=1), 1.0)


def test_sparse_weights():
    X, y = CANCER
    with interpreted():
        model = FTRLClassifier(beta=1.0, regularizer=regularizers.ElasticNet(l1=20.0)).fit(X, y)
        regressor = FTRLRegressor(beta=1.0, regularizer=regularizers.ElasticNet(l1=20.0)).fit(X, y)
    expected, weights = model.decision_function(X), model.coef_
    assert sparse.issparse(model.sparsify().coef_) and model.coef_.nnz < 30
    assert_allclose(model.decision_function(X), expected)
    assert_allclose(model.decision_function(sparse.csr_array(X)), expected)
    assert_array_equal(model.densify().coef_, weights)
    assert_array_equal(regressor.coef_, regressor.sparsify().coef_.toarray()[0])


# Defaults.


def test_rows_that_are_sorted_by_label_are_learnt_as_well():
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:400]
    rows = rows[np.argsort(y[rows], kind="stable")]
    model = FTRLClassifier(beta=1.0).fit(X[rows] / 16.0, y[rows])
    assert model.score(X / 16.0, y) > 0.8
    same(model, FTRLClassifier(beta=1.0).fit(X[rows] / 16.0, y[rows]))  # the order is the same every time
    assert FTRLClassifier(beta=1.0, shuffle=False).fit(X[rows] / 16.0, y[rows]).score(X / 16.0, y) < 0.2


def test_three_classes_are_softmax_and_two_are_logistic():
    X, y = WINE[0][::4], WINE[1][::4]
    for beta in ("auto", 1.0):
        same(FTRLClassifier(beta=beta).fit(X, y), FTRLClassifier("softmax", beta=beta).fit(X, y))
        two = FTRLClassifier(beta=beta).fit(X, y == 1)
        same(two, FTRLClassifier("logistic", beta=beta).fit(X, y == 1))
    assert isinstance(FTRLClassifier().partial_fit(X, y, classes=[0, 1, 2]).certificate_, Certificate)
    assert FTRLClassifier().fit(X, y).predict_proba(X).shape == (len(y), 3)


# Rows beyond the range of float64.


def noise(n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=n)


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_message_of_fit_names_the_row_of_the_input(targets, weighted):
    x, y = noise()
    weights = np.ones(len(y))
    if weighted:
        weights[::3] = 0.0  # these rows are left out, which moves the others
    x[17] *= 1e180
    y = y if targets == 1 else np.column_stack([y, y])
    with pytest.raises(errors.Overflowed, match=r"row 17 leaves the range of float64;") as problem:
        FTRLRegressor(beta=1.0, update="linear").fit(x, y, sample_weight=weights)
    assert problem.value.row == 17


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("scale", [1e100, 1e160, 1e300])
def test_partial_fit_never_leaves_coefficients_that_are_not_numbers(scale, targets):
    """The rows before the bad one have been learnt, or the estimator must be fitted again."""
    x, y = noise()
    y = y if targets == 1 else np.column_stack([y, y])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for at in range(3):
            model = FTRLRegressor(beta=1.0, update="linear").partial_fit(x, y)
            bad = x.copy()
            bad[at] *= scale
            with contextlib.suppress(errors.Overflowed):
                model.partial_fit(bad, y)
            try:
                predicted = model.predict(x)
            except NotFittedError:
                continue
            assert np.isfinite(predicted).all() and model.t_ >= 41


def test_fit_leaves_the_model_that_was_there():
    x, y = noise()
    model = FTRLRegressor(beta=1.0, update="linear").fit(x, y)
    before = model.predict(x)
    with pytest.raises(errors.Overflowed):
        model.fit(1e200 * x, y)
    np.testing.assert_array_equal(model.predict(x), before)


def test_balanced_weights_need_no_help_and_name_a_class_without_weight():
    x, y = noise()
    labels = np.where(np.arange(len(y)) % 4 == 0, "rare", "usual")
    weights = np.linspace(0.0, 2.0, len(y))
    sums = {label: weights[labels == label].sum() for label in ("rare", "usual")}
    factors = {label: weights.sum() / (2.0 * total) for label, total in sums.items()}
    one = FTRLClassifier(class_weight="balanced").fit(x, labels, sample_weight=weights)
    other = FTRLClassifier(class_weight=factors).fit(x, labels, sample_weight=weights)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-12)
    with pytest.raises(
        errors.InvalidInput, match=r"class_weight='balanced': needs rows of positive weight .*'rare'.* has none"
    ):
        FTRLClassifier(class_weight="balanced").fit(x, labels, sample_weight=(labels == "usual") * 1.0)
