"""giftrl inside River."""

import contextlib
import copy
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from river import checks, compose, datasets, evaluate, feature_extraction, metrics, multiclass, preprocessing
from scipy import sparse

from giftrl import errors, schedules
from giftrl.adapters.river import FTRLClassifier, FTRLRegressor
from giftrl.linear import FTRLClassifier as Estimator
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.feature_state import DENSE
from tests.test_estimators import BOTH, interpreted

pytestmark = pytest.mark.plain

MODELS = [
    FTRLClassifier(), FTRLRegressor(), FTRLRegressor(normalize="unit", preset="light", fit_intercept=False),
    FTRLClassifier(beta=1.0), FTRLClassifier("hinge", beta=1.0, update="iwa"), FTRLRegressor(beta=1.0),
    FTRLRegressor(beta=1.0, normalize="unit"),
]  # fmt: skip
COMPILED = ("logistic", "squared")
CHECKS = [
    pytest.param(
        model,
        check,
        id=f"{type(model).__name__}-{model.loss}-{model.beta}-{model.normalize}-{check.__name__}",
        marks=[] if i in (0, 5) and check.__name__ != "check_bounded_memory_growth" else pytest.mark.verify,
    )
    for i, model in enumerate(MODELS)
    for check in checks.yield_checks(model)
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("model", "check"), CHECKS)
def test_river_accepts(model, check):
    assert check.__name__ not in model._unit_test_skips()
    with contextlib.nullcontext() if model.loss in COMPILED and model.preset == "default" else interpreted():
        check(model.clone())


def rows_of(matrix, names):
    return [dict(zip(names, row.tolist(), strict=True)) for row in matrix]


def state(model):
    """All that is known, to the bit."""
    learner = model._model.learner
    arrays = dict(learner.state())
    if isinstance(learner, MixtureLearner):  # behind the dense features is room for more, which may come at other rows
        for name in ("features.dense", "features.stamps"):
            arrays[name] = arrays[name][: int(arrays["features.counts"][DENSE])]
    found = {name: array.tobytes() for name, array in arrays.items()}
    return found, dict(model._model.slots), model.average_loss


@BOTH
@settings(max_examples=max(3, settings.default.max_examples // 33))
@given(
    st.integers(0, 10**6), st.sampled_from(["dense", "sparse", "dictionaries"]), st.sampled_from([None, "unit"]),
    st.booleans(),
)  # fmt: skip
def test_learning_many_is_learning_one_by_one_bit_for_bit(beta, seed, kind, normalize, weighted):
    """Over 600 names, so that room is made in the midst of a batch."""
    random = np.random.default_rng(seed)
    width = 30 if kind == "dense" else 700
    matrix = random.normal(size=(60, width)) * (random.random((60, width)) < (0.9 if kind == "dense" else 0.2))
    y, w = random.random(60) < 0.5, random.choice([0.0, 0.5, 3.0], 60) if weighted else np.ones(60)
    one = FTRLClassifier(beta=beta, normalize=normalize)
    many = one.clone()
    found = sparse.csr_array(matrix)
    bounds = zip(found.indptr[:-1], found.indptr[1:], strict=True)
    rows = [dict(zip(found.indices[a:b].tolist(), found.data[a:b].tolist(), strict=True)) for a, b in bounds]
    if kind == "dense":
        names = [f"f{j}" for j in range(width)]
        batches = [pd.DataFrame(matrix[i : i + 25], columns=names) for i in range(0, 60, 25)]
        rows = rows_of(matrix, names)
    else:
        batches = [rows[i : i + 25] if kind == "dictionaries" else found[i : i + 25] for i in range(0, 60, 25)]
    for i, batch in enumerate(batches):
        part = slice(25 * i, 25 * i + 25)
        many.learn_many(batch, y[part], w[part] if weighted else None)
    for row, label, weight in zip(rows, y.tolist(), w.tolist(), strict=True):
        one.learn_one(row, label, weight)
    assert state(one) == state(many)


@pytest.mark.parametrize("parameters", [{}, {"beta": 1.0, "regularizer": "curvature", "schedule": "constant"}])
def test_the_same_as_the_estimator_for_scikit_learn(parameters):
    parameters = {**parameters, "dtype": "float64"}
    random = np.random.default_rng(0)
    matrix, y = random.normal(size=(300, 5)), random.random(300) < 0.4
    names = list("abcde")
    model = FTRLClassifier(**parameters)
    for row, label in zip(rows_of(matrix, names), y.tolist(), strict=True):
        model.learn_one(row, label)
    expected = Estimator(**parameters, shuffle=False).fit(matrix, y)
    assert_allclose([model.weights[name] for name in names], expected.coef_[0], rtol=1e-9)
    assert_allclose(model.intercept, expected.intercept_[0], rtol=1e-9)
    assert_allclose(model.average_loss, expected.average_loss_, rtol=1e-9)
    frame = pd.DataFrame(matrix, columns=names)
    assert_allclose(model.predict_proba_many(frame), expected.predict_proba(matrix), rtol=1e-9)
    assert_array_equal(model.predict_many(frame), expected.predict(matrix))
    assert_allclose([model.predict_proba_one(row)[True] for row in rows_of(matrix, names)],
                    expected.predict_proba(matrix)[:, 1], rtol=1e-9)  # fmt: skip
    bound = model.certificate.regret_bound_ball(1.0)
    assert_allclose(bound, expected.certificate_.regret_bound_ball(1.0), rtol=1e-9)


@pytest.mark.verify
@pytest.mark.parametrize("beta", ["auto", 10.0])
def test_new_names_are_new_features(beta):
    model = FTRLRegressor(beta=beta)
    for t in range(2000):
        model.learn_one({"always": 1.0, f"once{t}": 1.0}, 3.0)
    assert len(model.weights) == 2001
    assert abs(model.predict_one({"always": 1.0, "never seen": 1e9}) - 3.0) < 0.5
    before = copy.deepcopy(state(model))
    model.predict_one({"never seen": 1.0})
    assert state(model) == before


@BOTH
def test_matrices_of_any_width_and_dictionaries_name_the_same_features(beta):
    wide, narrow = sparse.csr_array(np.diag([1.0, 2.0, 3.0, 4.0])), sparse.csr_array(np.eye(2))
    model, expected = FTRLRegressor(beta=beta), FTRLRegressor(beta=beta)
    model.learn_one({1: 5.0}, 1.0)
    model.learn_many(wide, [1.0, 2.0, 3.0, 4.0])
    model.learn_many(narrow, [1.0, 2.0])
    for row, target in [({1: 5.0}, 1), ({0: 1}, 1), ({1: 2}, 2), ({2: 3}, 3), ({3: 4}, 4), ({0: 1}, 1), ({1: 1}, 2)]:
        expected.learn_one(row, target)
    assert state(model) == state(expected)
    assert list(model.weights) == [1, 0, 2, 3]
    assert_allclose(model.predict_many(wide), [model.predict_one({j: j + 1.0}) for j in range(4)], rtol=1e-12)


@BOTH
def test_a_row_of_weight_0_is_no_row(beta):
    random = np.random.default_rng(0)
    matrix, y = random.normal(size=(50, 4)), random.random(50) < 0.5
    w = (random.random(50) < 0.5).astype(float)
    rows, kept = rows_of(matrix, list("abcd")), np.flatnonzero(w)
    expected, one, many, frame = (FTRLClassifier(beta=beta) for _ in range(4))
    for i in range(50):
        one.learn_one(rows[i] | ({} if w[i] else {"unheard": 1e9}), bool(y[i]), w[i])
        if w[i]:
            expected.learn_one(rows[i], bool(y[i]))
    many.learn_many(rows, y, w)
    frame.learn_many(pd.DataFrame(matrix, columns=list("abcd")), y, w)
    assert state(one) == state(many) == state(frame) == state(expected)
    assert expected.average_loss == expected.certificate.loss_sum / len(kept)


@pytest.mark.verify
@BOTH
def test_pipelines_and_progressive_validation(beta):
    model = compose.Pipeline(preprocessing.StandardScaler(), FTRLClassifier(beta=beta))
    score = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    assert score.get() > 0.88
    text = feature_extraction.BagOfWords() | FTRLClassifier(beta=beta, normalize="unit")
    for message, spam in [("win money now", True), ("see you soon", False)] * 20:
        text.learn_one(message, spam)
    assert text.predict_one("money") is True and text.predict_one("soon") is False
    many = multiclass.OneVsRestClassifier(preprocessing.StandardScaler() | FTRLClassifier(beta=beta))
    score = evaluate.progressive_val_score(datasets.ImageSegments().take(500), many, metrics.Accuracy())
    assert score.get() > 0.6


@pytest.mark.verify
def test_without_a_scaler_the_mixture_is_better_than_a_single_learner_with_one():
    """Numbers near 40, from features near 40 and one near 700,000."""
    metric = evaluate.progressive_val_score(datasets.TrumpApproval(), model := FTRLRegressor(), metrics.MAE())
    scaled = preprocessing.StandardScaler() | FTRLRegressor(beta=100.0)
    single = evaluate.progressive_val_score(datasets.TrumpApproval(), scaled, metrics.MAE())
    assert metric.get() < 0.5 * single.get()
    assert len(model.experts) == 10
    with pytest.raises(AttributeError, match="experts_ is the table of a mixture"):
        _ = FTRLRegressor(beta=100.0).experts


def test_numbers_stay_in_the_range_that_was_seen():
    model = FTRLRegressor()
    for t in range(50):
        model.learn_one({"t": float(t)}, 3.0 + t / 10.0)
    assert model.predict_one({"t": 1e6}) == 3.0 + 49 / 10.0
    assert model.predict_one({"t": -1e6}) == 3.0
    assert_allclose(model.predict_many(sparse.csr_array((2, 3))), [model.predict_one({})] * 2, rtol=1e-12)
    point = model.weights["t"] * 20.5 + model.intercept
    assert_allclose(model.predict_one({"t": 20.5}), point, rtol=1e-9)


@BOTH
def test_every_frame_of_the_same_numbers_teaches_the_same(beta):
    random = np.random.default_rng(1)
    matrix, y = random.normal(size=(40, 3)), random.normal(size=40)
    names = list("abc")
    frames = [
        (pd.DataFrame(matrix, columns=names), pd.Series(y, name="target")),
        (pl.DataFrame(matrix, names), pl.Series("target", y)),
        (pa.table(dict(zip(names, matrix.T, strict=True))), pa.chunked_array([y])),
        (pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(matrix), columns=names), y),
        (rows_of(matrix, names), y.tolist()),
    ]
    expected = FTRLRegressor(beta=beta)
    for row, target in zip(rows_of(matrix, names), y.tolist(), strict=True):
        expected.learn_one(row, target)
    scores = [expected.predict_one(row) for row in rows_of(matrix, names)]
    for frame, target in frames:
        model = FTRLRegressor(beta=beta)
        model.learn_many(frame, target)
        assert state(model) == state(expected)
        predicted = model.predict_many(frame)
        assert_allclose(np.asarray(predicted), scores, rtol=1e-9, atol=1e-12)
        if not isinstance(frame, list):
            assert type(predicted).__module__.split(".")[0] == type(frame).__module__.split(".")[0]


@BOTH
def test_bad_input_changes_nothing(beta):
    model = FTRLClassifier(beta=beta)
    model.learn_one({"a": 1.0}, True)
    before = copy.deepcopy(state(model))
    for row in ({"new": "text"}, {"new": math.nan}, {"new": math.inf}, {"new": None}):
        with pytest.raises(errors.InvalidInput, match="x="):
            model.learn_one(row, True)
    for label in ("spam", 2, None):
        with pytest.raises(errors.InvalidInput, match="y="):
            model.learn_one({"new": 1.0}, label)
    for weight in (-1.0, math.nan, math.inf):
        with pytest.raises(errors.InvalidInput, match="w="):
            model.learn_one({"new": 1.0}, True, weight)
        with pytest.raises(errors.InvalidInput, match="w="):
            model.learn_many([{"new": 1.0}], [True], weight)
    with pytest.raises(errors.InvalidInput, match="y="):
        model.learn_many([{"new": 1.0}], [True, False])
    with pytest.raises(errors.InvalidInput, match="X="):
        model.learn_many(pd.DataFrame({"new": [math.nan]}), [True])
    with pytest.raises(errors.InvalidInput, match="y="):
        FTRLRegressor(beta=beta).learn_one({}, math.nan)
    assert state(model) == before
    with pytest.raises(errors.Incompatible, match="Poisson"):
        FTRLClassifier("poisson")
    with pytest.raises(errors.UnknownName, match="did you mean 'temporal'"):
        FTRLClassifier(beta=1.0, schedule="tempral")
    with pytest.raises(errors.InvalidInput, match="schedule='sqrt': must be left out.*give a beta"):
        FTRLClassifier(schedule="sqrt")
    with pytest.raises(NotImplementedError, match="no probabilities"):
        FTRLClassifier("hinge").predict_proba_one({})
    steep = FTRLRegressor(beta=1.0, update="linear", schedule=schedules.Constant(1e200))
    with pytest.raises(errors.Overflowed, match="row"):
        steep.learn_many([{"a": 1e100}] * 9, [1e100] * 9)


@pytest.mark.parametrize("beta", ["auto", 2.0])
def test_copies_go_on_where_the_original_was(beta):
    data = list(datasets.Phishing().take(100))
    model = FTRLClassifier(beta=beta)
    for x, y in data[:50]:
        model.learn_one(x, y)
    twins = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for x, y in data[50:]:
        for twin in (model, *twins):
            twin.learn_one(x, y)
    assert state(model) == state(twins[0]) == state(twins[1])
    assert len(model.clone().weights) == 0
