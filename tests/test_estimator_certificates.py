"""What estimators and the command prove about the best loss, against optima that scikit-learn and SciPy find."""

import json
import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from giftrl import FTRLClassifier, FTRLRegressor
from giftrl.errors import AssumptionFailed, InvalidInput
from tests.commands import giftrl, write_rows

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def cancer():
    x, y = load_breast_cancer(return_X_y=True)
    return x[::3], y[::3]


def test_no_logistic_regression_goes_below_the_bound(cancer):
    x, y = cancer
    model = FTRLClassifier().fit(x, y)
    best = model.certificate_.best_loss()
    assert best.rows == best.rows_kept == len(y) and best.average_loss == pytest.approx(model.average_loss_)
    assert 0.03 < best.average < model.average_loss_  # of use, with features from 0.001 to 4,000
    scaled, signs = StandardScaler().fit_transform(x), 2.0 * y - 1.0
    for strength in (0.01, 1.0):
        rival = LogisticRegression(C=strength, max_iter=10_000).fit(scaled, y)
        scores = rival.decision_function(scaled)
        # In units of centred features: the weights of standardised features, and the mean prediction.
        size = np.hypot(np.linalg.norm(rival.coef_), scores.mean())
        total = np.logaddexp(0.0, -signs * scores).sum()
        assert total >= model.certificate_.best_loss(size / best.radius).lower_bound * (1.0 - 1e-9)


def test_the_bound_of_the_squared_loss_is_the_least_squares_fit():
    x, y = load_diabetes(return_X_y=True)
    ones = np.column_stack([x, np.ones(len(y))])
    optimum = 0.5 * np.linalg.lstsq(ones, y)[1].sum()
    for budget in (1_000_000, 500):
        best = FTRLRegressor(witness_nonzeros=budget).fit(x, y).certificate_.best_loss(scale=10.0)
        assert best.lower_bound == pytest.approx(optimum, rel=1e-6) and best.rows_kept == len(y)
    assert "Second moments of all examples were stored" in best.in_words()


def test_the_bound_of_softmax_is_that_of_logistic_regression():
    x, y = load_iris(return_X_y=True)
    best = FTRLClassifier(loss="softmax").fit(x, y).certificate_.best_loss(scale=100.0)

    def total(w):
        scores = x @ w.reshape(5, 3)[:4] + w.reshape(5, 3)[4]
        return (np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(y)), y]).sum()

    optimum = minimize(total, np.zeros(15), method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 10**6}).fun
    assert 0.0 < best.lower_bound <= optimum


@pytest.mark.parametrize("budget", [1, 2000, 1_000_000])
def test_parts_of_a_stream_and_copies_prove_the_same(cancer, budget):
    x, y = cancer
    whole = FTRLClassifier(witness_nonzeros=budget).partial_fit(x, y, classes=[0, 1])
    parts = FTRLClassifier(witness_nonzeros=budget)
    for first in range(0, len(y), 50):
        rows = sparse.csr_array(x[first : first + 50]) if first == 100 else x[first : first + 50]
        parts.partial_fit(rows, y[first : first + 50], classes=[0, 1])
        parts = pickle.loads(pickle.dumps(parts))
    assert parts.certificate_.best_loss() == whole.certificate_.best_loss()
    fixed = clone(whole).set_params(beta=1.0).fit(StandardScaler().fit_transform(x), y)
    assert fixed.certificate_.best_loss().rows == len(y)


def test_each_class_and_each_target_has_its_own(cancer):
    x, y = load_iris(return_X_y=True)
    for beta in ("auto", 1.0):
        model = FTRLClassifier(beta=beta, loss="squared_hinge").fit(x, y)
        assert [each.best_loss().rows for each in model.certificate_] == [150] * 3
    targets = np.column_stack([x[:, 0], x[:, 1]])
    assert len(FTRLRegressor().fit(x[:, 2:], targets).certificate_) == 2


def test_weights_of_rows_count(cancer):
    x, y = cancer
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    best = FTRLClassifier(shuffle=False).fit(x, y, weights).certificate_.best_loss(scale=0.5)
    repeated = np.repeat(np.arange(len(y)), weights.astype(int))
    assert best.weight == len(repeated) and best.rows == (weights > 0).sum()
    twin = FTRLClassifier(shuffle=False).fit(x[repeated], y[repeated]).certificate_
    kept = twin.evidence
    units = next(each for each in kept.units() if each.name == best.units)
    assert kept.within(units, best.radius).lower_bound == pytest.approx(best.lower_bound, rel=1e-5)


def test_witnesses_can_be_switched_off(cancer):
    for nonzeros in (0, None):
        model = FTRLClassifier(witness_nonzeros=nonzeros).fit(*cancer)
        with pytest.raises(AssumptionFailed, match="witness_nonzeros"):
            model.certificate_.best_loss()
    with pytest.raises(InvalidInput, match="witness_nonzeros"):
        FTRLClassifier(witness_nonzeros=-1).fit(*cancer)


@pytest.mark.parametrize(
    ("budget", "words"),
    [(1, "0 of 100 examples were stored"), (10**6, "All examples were stored"), (175, " of 100 examples were stored")],
)
def test_the_command_keeps_as_many_rows_as_it_is_told(tmp_path, budget, words):
    rows = write_rows(tmp_path / "rows.svm", n=100)
    proved = ("--certificate-seconds", 0.5)
    said = giftrl("train", rows, "--witness-nonzeros", budget, "--model", tmp_path / "m", *proved).stderr.decode()
    assert said.splitlines()[-1].startswith("certificate: average loss 0.") and words in said
    found = json.loads(giftrl("inspect", tmp_path / "m", "--json", *proved).stdout)["certificate"]["best_loss"]["1"]
    assert found["rows"] == 100 and (found["rows_kept"] == 100) == (budget == 10**6)
    assert found["lower_bound"] >= found["least"] == 0.0
    shown = " ".join(giftrl("inspect", tmp_path / "m", *proved).stdout.decode().split())
    assert words in shown
    silent = giftrl("train", rows, "--certificate-seconds", 0).stderr.decode()
    assert "certificate" not in silent


def test_a_run_that_beats_every_fixed_model_says_so(tmp_path):
    """Labels that change sides halfway: whoever follows pays less than any one model."""
    lines = [f"{1 if (i % 2) == (i < 1000) else -1} {1 + i % 2}:1\n" for i in range(2000)]
    (tmp_path / "drift.svm").write_text("".join(lines))
    learner = ("--beta", 10, "--regularizer", "adagrad", "--certificate-seconds", 5)
    said = giftrl("train", tmp_path / "drift.svm", *learner).stderr.decode()
    *_, last = said.splitlines()
    assert "This run beat every fixed linear model of that size" in last, last
