"""Recipes: which learner settings mean, what a model predicts, and what labels stand for."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit, softmax

from giftrl import losses, regularizers, schedules, updates
from giftrl.compiled.rows import CSR, unit_rows
from giftrl.config import Labels, Link, Predictor, Recipe, freeze, make, make_each
from giftrl.config.recipe import Mixture
from giftrl.errors import Incompatible, InvalidInput, UnknownName
from giftrl.kernels import LinearLearner, LinearLearners, MulticlassLearner
from giftrl.kernels.one_model import Engine
from giftrl.linear import FTRLClassifier
from giftrl.mixtures import MixtureLearner
from giftrl.sweeps import prepare
from giftrl.training import Settings, train
from tests.test_estimators import interpreted

# Settings.


@pytest.mark.parametrize(
    ("given", "classes", "kind"),
    [
        (Recipe("squared"), None, MixtureLearner),
        (Recipe("hinge", beta=1.0), None, LinearLearner),
        (Recipe("softmax"), 3, Mixture),
        (Recipe("softmax", beta=1.0), 3, MulticlassLearner),
    ],
)
def test_a_recipe_says_which_learner(given, classes, kind):
    learner = make(given, 5, classes, compiled=False)
    assert isinstance(learner, kind) and learner.dimension == 5 and learner.loss == given.parts.loss
    assert learner.x.shape == ((5,) if classes is None else (5, classes))


def test_models_share_a_pass_where_they_can():
    [together] = make_each(Recipe("squared", beta=1.0), 2, 3, compiled=False)
    assert isinstance(together, LinearLearners) and together.x.shape == (2, 3)
    assert len(make_each(Recipe("squared"), 2, 3, compiled=False)) == 3


def test_settings_are_checked_without_a_learner(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a learner was built")

    for kind in (Engine, MixtureLearner, *Mixture.__args__):
        monkeypatch.setattr(kind, "__init__", refuse)
    for arguments in ({}, {"beta": 1.0}, {"loss": "softmax", "label_values": (0, 1, 2)}):
        Settings(**arguments)
    for error, arguments in [
        (UnknownName, {"preset": "lite"}),
        (InvalidInput, {"dtype": "float16"}),
        (Incompatible, {"beta": 1.0, "regularizer": "adagrad", "lookahead": True}),
        (Incompatible, {"beta": 1.0, "schedule": "ada_implicit"}),
        (InvalidInput, {"beta": 1.0, "regularizer": "entropy"}),
        (UnknownName, {"beta": 1.0, "parameters": {"tau": 0.5}}),
        (InvalidInput, {"beta": 1.0, "schedule": "sqrt", "parameters": {"gradient_bound": 2.0}}),
        (UnknownName, {"loss": losses.Hinge()}),
        (UnknownName, {"beta": 1.0, "update": updates.Linear()}),
        (Incompatible, {
            "beta": 1.0, "loss": "softmax", "label_values": (0, 1), "regularizer": "elastic_net",
            "parameters": {"l1": 0.1},
        }),
    ]:  # fmt: skip
        with pytest.raises(error):
            Settings(**arguments)


def test_names_and_objects_are_the_same_recipe():
    by_name = Recipe("hinge", update="iwa", regularizer="adagrad", beta=0.5, parameters={"gradient_bound": 2.0})
    objects = Recipe(
        losses.Hinge(), update=updates.ImportanceAware(), regularizer=regularizers.AdaGrad(2.0),
        schedule=schedules.TemporalVariability(0.5, 2.0), beta=1.0,
    )  # fmt: skip
    assert by_name.parts == objects.parts
    assert pickle.loads(pickle.dumps(by_name)) == by_name


# Labels.


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=6, unique=True), st.lists(st.integers(-9, 9), max_size=9))
def test_labels_go_to_classes_and_back(values, given):
    labels = Labels(np.array(values))
    codes = labels.codes(np.array(given, int))
    assert codes.tolist() == [values.index(each) if each in values else -1 for each in given]
    kept = codes[codes >= 0]
    signs = labels.one_against_rest(kept)
    assert signs.shape == (len(kept), len(values)) and (signs.sum(axis=1) == 2.0 - len(values)).all()
    assert_array_equal(labels.best(signs), labels.values[kept])


def test_one_score_of_two_classes_chooses_by_its_sign():
    assert Labels(np.array(["no", "yes"])).best(np.array([[-1.0], [0.0], [0.1]])).tolist() == ["no", "no", "yes"]


# Predictions.


def test_a_predictor_is_what_the_learner_predicts_and_stays_so():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(40, 3)), np.ones(40)])
    y = 5.0 + x[:, 0]
    learner = make(Recipe("squared"), 4, constant=3, compiled=False)
    learner.learn(x, y)
    frozen = freeze([learner], intercept=True)
    far = np.column_stack([10.0 * x[:, :3], np.ones(40)])
    expected = learner.clip(learner.predict(far))
    assert expected.min() == y.min() and expected.max() == y.max()
    assert_allclose(frozen.scores(far[:, :3])[:, 0], expected, rtol=1e-12)
    assert_allclose(freeze([learner], clip=False).scores(far)[:, 0], learner.predict(far), rtol=1e-12)
    before = frozen.scores(x[:, :3])
    copy = pickle.loads(pickle.dumps(frozen))
    learner.learn(x, -y)
    assert_array_equal(frozen.scores(x[:, :3]), before)
    assert_array_equal(copy.scores(x[:, :3]), before)


@given(st.integers(0, 10**6))
def test_rows_of_a_stream_and_matrices_have_the_same_scores(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(5, 2))
    unbounded = np.full(2, np.inf)
    model = Predictor(weights, np.zeros(2), -unbounded, unbounded, Link.IDENTITY)
    wide = sparse.csr_array(rng.normal(size=(6, 8)) * (rng.random((6, 8)) < 0.4))
    rows = CSR(wide.data, wide.indices, wide.indptr.astype(np.int64), 8)
    known = wide[:, :5]
    expected = known.toarray() @ weights
    for x in (rows, known, known.toarray()):
        assert_allclose(model.scores(x), expected, rtol=1e-12, atol=1e-14)
    assert_allclose(model._replace(weights=sparse.csr_array(weights)).scores(known), expected, rtol=1e-12, atol=1e-14)


def test_probabilities_are_accurate_in_both_tails():
    s = np.array([-700.0, -40.0, -20.0, -1.0, 0.0, 1.0, 40.0])[:, None]
    assert_allclose(Link.SIGMOID.probabilities(s), np.column_stack([expit(-s), expit(s)]), rtol=2e-15)
    many = np.array([[0.0, 1.0, -2.0], [1e3, 0.0, -1e3], [-1e3, -1e3, -2e3]])
    assert_allclose(Link.SOFTMAX.probabilities(many), softmax(many, axis=1), rtol=2e-15)
    assert_allclose(Link.SIGMOID.probabilities(many)[2], [0.5, 0.5, 0.0])
    assert np.isfinite(Link.EXP.means(np.array([1e300]))).all()


# Rows of norm 1.


@given(st.integers(0, 10**6), st.sampled_from([np.float32, np.float64]))
def test_unit_rows_are_the_same_dense_and_sparse(seed, dtype):
    rng = np.random.default_rng(seed)
    power = 30 if dtype is np.float32 else 200
    x = (rng.normal(size=(5, 4)) * (rng.random((5, 4)) < 0.6)).astype(dtype)
    x *= 10.0 ** rng.choice([-power, 0, power], (5, 1)).astype(dtype)
    kept = x.copy()
    for made in (unit_rows(x, compiled=False), unit_rows(sparse.csr_array(x), compiled=False).toarray()):
        norms = np.linalg.norm(made.astype(np.float64), axis=1)
        assert made.dtype == dtype
        assert_allclose(norms, (x != 0.0).any(axis=1), rtol=1e-6)
    assert_array_equal(x, kept)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_a_sweep_prepares_rows_of_any_size(scale):
    """Squares of numbers beyond 1e154 are not in float64: such rows became zeros."""
    with interpreted():
        made, _ = prepare(np.array([[3.0, 4.0], [-3.0, 4.0]]) * scale, "unit")
    assert_allclose(made.toarray(), np.sqrt(0.5) * np.array([[0.6, 0.8, 1.0], [-0.6, 0.8, 1.0]]))


# Features that were seen.


@pytest.mark.parametrize(
    "parameters", [{}, {"beta": 1.0}, {"beta": 1.0, "regularizer": "curvature"}, {"loss": "softmax"}]
)
def test_pickles_and_files_hold_the_features_that_were_seen(parameters, tmp_path):
    X = sparse.csr_array(([1.0, 2.0, 3.0], [5, 70_000, 90_000], [0, 1, 2, 3]), shape=(3, 100_000))
    with interpreted():
        model = FTRLClassifier(**parameters).fit(X, [0, 1, 0])
        text = pickle.dumps(model)
        assert len(text) < 300_000  # all features would be megabytes
        again = pickle.loads(text)
        assert_array_equal(again.coef_, model.coef_)
        assert_array_equal(again.partial_fit(X, [0, 1, 0]).coef_, model.partial_fit(X, [0, 1, 0]).coef_)
    data = tmp_path / "rows.svm"
    data.write_text("1 5:1\n-1 70000:2\n1 90000:3\n")
    parameters = parameters | ({"label_values": (-1.0, 1.0)} if "loss" in parameters else {})
    with interpreted():
        train(Settings(**parameters, bits=17), [data]).save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 300_000
