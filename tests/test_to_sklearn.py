"""``to_sklearn``: estimators of scikit-learn, and ONNX, that predict what ours predict."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import is_classifier, is_regressor
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from giftrl import FTRLClassifier, FTRLRegressor, losses
from giftrl.errors import Incompatible

pytestmark = pytest.mark.plain

SETTINGS = [{}, {"beta": 1.0}, {"normalize": "unit"}, {"fit_intercept": False}]


def rows(classes=2, seed=0):
    """Rows in odd units, and their classes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, 4)) * [1.0, 10.0, 0.01, 3.0] + [0.0, 5.0, 0.0, -2.0]
    scores = (x - x.mean(0)) / x.std(0) @ rng.normal(size=(4, classes)) + rng.normal(size=(120, classes))
    return x, np.array(["ape", "bee", "cat", "dog"])[scores.argmax(axis=1)]


def numbers():
    x, _ = rows()
    return x, np.random.default_rng(1).normal(size=120) + 0.2 * x[:, 1]


def last(made):
    return made[-1] if isinstance(made, Pipeline) else made


def new_rows():
    return rows(seed=9)[0]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", ["auto", "logistic", "softmax", "hinge", "squared_hinge", "multiclass_hinge"])
def test_classifiers(loss, classes, settings):
    model = FTRLClassifier(loss=loss, **settings).fit(*rows(classes))
    made, x = model.to_sklearn(), new_rows()
    assert is_classifier(made)
    assert made.classes_.tolist() == model.classes_.tolist() and made.n_features_in_ == 4
    assert made.predict(x).tolist() == model.predict(x).tolist()
    np.testing.assert_allclose(made.decision_function(x), model.decision_function(x), rtol=1e-9, atol=1e-9)
    assert hasattr(made, "predict_proba") == hasattr(model, "predict_proba")
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(made.predict_proba(x), model.predict_proba(x), rtol=1e-7, atol=1e-12)
        single = loss == "logistic" and classes > 2
        assert isinstance(last(made), OneVsRestClassifier if single else LogisticRegression)
    else:
        assert isinstance(last(made), LinearSVC)
    assert isinstance(made, Pipeline) == (settings == {"normalize": "unit"})


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(
    "loss", sorted(set(losses.EVERY) - set(losses.MULTICLASS) - {"logistic", "hinge", "squared_hinge"})
)
def test_regressors(loss, settings):
    x, y = numbers()
    y = np.round(np.abs(y)) if loss == "poisson" else y
    model = FTRLRegressor(loss=loss, **settings).fit(x, y)
    made = model.to_sklearn(clip=False)
    assert is_regressor(made) and made.n_features_in_ == 4
    assert isinstance(last(made), PoissonRegressor if loss == "poisson" else LinearRegression)
    inside = model.predict(x)
    if np.isfinite(model._predictor.low).any():  # clipped: compared inside of the range
        low, high = np.exp([*model._predictor.low, *model._predictor.high]) if loss == "poisson" else (y.min(), y.max())
        keep = (inside > low * (1 + 1e-9)) & (inside < high * (1 - 1e-9))
        assert keep.sum() > 50
    else:
        keep = np.ones(len(x), bool)
    np.testing.assert_allclose(made.predict(x)[keep], inside[keep], rtol=1e-9, atol=1e-9)


def test_several_targets():
    x, y = numbers()
    both = np.column_stack([y, -2.0 * y + 1.0])
    model = FTRLRegressor().fit(x, both)
    np.testing.assert_allclose(
        model.to_sklearn(clip=False).predict(x), x @ model.coef_.T + model.intercept_, rtol=1e-12
    )
    counts = FTRLRegressor(loss="poisson", beta=0.1).fit(x, np.round(np.abs(both)))
    with pytest.raises(Incompatible, match="has 2 targets here, and PoissonRegressor has one; fit one model for each"):
        counts.to_sklearn()


def test_clipped_predictions_are_refused():
    model = FTRLRegressor(clip=True).fit(*numbers())
    with pytest.raises(
        Incompatible, match=r"clipped to the range of the targets seen, from -.* to .*to_sklearn\(clip=Fal"
    ):
        model.to_sklearn()
    x = 1e3 * new_rows()
    line = model.to_sklearn(clip=False).predict(x)
    np.testing.assert_allclose(np.clip(line, *(np.ravel(each) for each in model._predictor[2:4])), model.predict(x))


def test_sparse_rows_names_and_weights():
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    x, y = rows(3)
    frame = pandas.DataFrame(x, columns=["u", "v", "w", "z"])
    model = FTRLClassifier().fit(frame, y).sparsify()
    made = model.to_sklearn()
    assert made.feature_names_in_.tolist() == ["u", "v", "w", "z"]
    assert made.predict(frame).tolist() == model.predict(frame).tolist()
    sparse = FTRLClassifier().fit(csr_array(x), y)
    np.testing.assert_allclose(
        sparse.to_sklearn().predict_proba(csr_array(x)), sparse.predict_proba(csr_array(x)), rtol=1e-9
    )


def test_it_is_a_copy():
    x, y = rows()
    model = FTRLClassifier().fit(x, y)
    made = model.to_sklearn()
    before = made.coef_.copy()
    model.partial_fit(x, y)
    assert (made.coef_ == before).all() and not (model.coef_ == before).all()
    made.coef_[:] = 0.0
    assert model.coef_.all()


@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6))
def test_any_scale_of_features(seed, scale):
    x, y = rows(seed=seed)
    model = FTRLClassifier(beta=1.0, loss="logistic").fit(x / scale, y)
    made = model.to_sklearn()
    np.testing.assert_allclose(made.predict_proba(x / scale), model.predict_proba(x / scale), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (FTRLClassifier(), 2),
        (FTRLClassifier(), 3),
        (FTRLClassifier(loss="logistic"), 3),
        (FTRLClassifier(loss="hinge"), 2),
        (FTRLClassifier(normalize="unit"), 3),
        (FTRLRegressor(), None),
        (FTRLRegressor(loss="poisson", beta=0.01), None),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the converter
def test_onnx(model, classes):
    """The converted model, run by another engine in float32, gives the same answers."""
    skl2onnx = pytest.importorskip("skl2onnx", reason="pip install 'giftrl[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="pip install 'giftrl[onnx]'")
    x, y = numbers() if classes is None else rows(classes)
    x = x.astype(np.float32)
    model.fit(x, np.round(np.abs(y)) if model.loss == "poisson" else y)
    made = model.to_sklearn() if isinstance(model, FTRLClassifier) else model.to_sklearn(clip=False)
    options = {"zipmap": False} if hasattr(model, "predict_proba") else None
    written = skl2onnx.to_onnx(made, x[:1], options=options).SerializeToString()
    answers = runtime.InferenceSession(written, providers=["CPUExecutionProvider"]).run(None, {"X": x})
    if isinstance(model, FTRLRegressor):
        np.testing.assert_allclose(answers[0][:, 0], made.predict(x), rtol=1e-5, atol=1e-5)
        return
    assert np.mean(answers[0] == model.predict(x)) > 0.99
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(answers[1], model.predict_proba(x), atol=1e-5)
