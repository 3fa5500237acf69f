"""Witnesses of hostile numbers, and states that no run can have."""

import math
from fractions import Fraction

import numpy as np
import pytest

from giftrl import losses
from giftrl.certificates import record as at
from giftrl.certificates.moments import FeatureMoments
from giftrl.certificates.reservoir import add_moments
from giftrl.compiled.rows import as_rows
from giftrl.errors import InvalidInput
from giftrl.kernels import LinearLearner, LinearLearners
from giftrl.mixtures import MixtureLearner
from giftrl.ops.loss import conjugate, infimum
from giftrl.ops.vector_loss import multiclass
from tests.best_losses import make
from tests.test_witnesses import learn, learner_for, same

pytestmark = pytest.mark.plain

DAMAGE = {
    "indices": lambda a: a.__setitem__(0, 99),
    "ends": lambda a: a.__setitem__(1, -5),
    "weights": lambda a: a.__setitem__(0, -1.0),
    "sums": lambda a: a.__setitem__(at.STORED_COUNT, 1e9),
    "keys": lambda a: a.__setitem__(0, math.nan),
    "data": lambda a: a.__setitem__(0, math.inf),
}


@pytest.mark.parametrize("budget", [1, 60])
@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Softmax(), losses.Squared()], ids=repr)
def test_a_damaged_state_is_refused(loss, budget):
    case = make(loss, 1, n=40)
    learner = learn(learner_for(case, budget), case)
    for name in learner.state():
        if not name.startswith("witnesses."):
            continue
        state = {key: array.copy() for key, array in learner.state().items()}
        short = name.removeprefix("witnesses.")
        ways = [
            lambda state, name=name: state.pop(name),
            lambda state, name=name: state.update({name: state[name][1:]}),
        ]
        if short in DAMAGE:
            ways.append(lambda state, name=name, short=short: DAMAGE[short](state[name]))
        if short == "labels" and multiclass(loss):
            ways.append(lambda state, name=name: state[name].__setitem__(0, 17))
        for way in ways:
            bad = {key: array.copy() for key, array in state.items()}
            if len(bad[name]) == 0 or (short == "ends" and budget == 1):  # no row, no end
                continue
            way(bad)
            if name == "witnesses.summed.features" and name not in bad:
                continue
            with pytest.raises((InvalidInput, KeyError)):
                learner_for(case, budget).restore(bad)


def test_sums_beyond_float64_void_the_certificate_and_nothing_else():
    rng = np.random.default_rng(0)
    x = np.zeros((60, 80))
    x[:, :3] = rng.normal(size=(60, 3))
    learner = MixtureLearner(80, "squared", compiled=False)
    learner.keep_witnesses(100)
    learner.learn(x, rng.normal(size=60) * 1e160)
    learner.learn(rng.normal(size=(5, 80)), rng.normal(size=5) * 1e160)
    assert learner.rounds == learner.witnesses.rows == 65
    assert learner.certificate.best_loss().lower_bound == 0.0
    assert learner.certificate.best_ridge_loss(1.0).lower_bound == 0.0
    heavy = LinearLearner(1, "poisson", compiled=False, dtype="float64")
    heavy.keep_witnesses(1000)
    heavy.witnesses.add(as_rows(np.ones((30, 1)), 1)[0], np.full(30, 3.0), np.full(30, 1e308), np.zeros(30))
    assert heavy.certificate.best_loss().lower_bound == -math.inf


@pytest.mark.parametrize("budget", [20, 1000])
@pytest.mark.parametrize(("size", "weight"), [(1e-160, 1e290), (1.0, 1e-150), (1e-160, 1e-150)])
def test_numbers_that_underflow_prove_nothing_wrong(budget, size, weight):
    rng = np.random.default_rng(0)
    x, y, h = rng.normal(size=(30, 3)), rng.normal(size=30) * size, np.full(30, weight)
    x[:, 0] = 1.0
    for loss in ("squared", "absolute")[: 1 if weight > 1.0 else 2]:  # a step of the other overflows
        learner = LinearLearner(3, loss, compiled=False, dtype="float64")
        learner.keep_witnesses(budget, 0)
        learner.learn(x, y, h)
        for scale in (1.0, 1e-10):
            bound = learner.certificate.best_loss(scale).lower_bound
            of_zero = sum(Fraction(w) * (Fraction(v) ** 2 / 2 if loss == "squared" else abs(Fraction(v)))
                          for v, w in zip(y.tolist(), h.tolist(), strict=True))  # fmt: skip
            assert Fraction(bound) <= of_zero


def test_features_too_small_to_square_do_not_void_the_certificate():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=200), np.eye(200)[:, 0] * 1e-170, np.ones(200)])
    for loss, y in (("squared", rng.normal(size=200)), ("logistic", np.sign(rng.normal(size=200)))):
        for budget in (1, 100, 10_000):
            learner = MixtureLearner(3, loss, constant=2, compiled=False)
            learner.keep_witnesses(budget, 2)
            learner.learn(x, y)
            assert learner.certificate.best_loss().lower_bound > 0.0


def test_rows_without_nonzeros_do_not_fill_the_memory():
    learner = LinearLearner(3, "squared", compiled=False)
    learner.keep_witnesses(1)
    learner.learn(np.zeros((500, 3)), np.ones(500))
    assert learner.witnesses.stored <= 1 and learner.witnesses.rows == 500
    other = LinearLearner(3, "logistic", compiled=False)
    other.keep_witnesses(100)
    other.learn(np.zeros((500, 3)), np.ones(500))
    assert other.witnesses.stored <= 100


def test_a_run_beats_nobody_by_rounding():
    learner = LinearLearner(1, "logistic", compiled=False)
    learner.keep_witnesses(10**5)
    learner.learn(np.zeros((3000, 1)), np.where(np.arange(3000) % 2, 1.0, -1.0))
    best = learner.certificate.best_loss()
    assert best.regret >= 0.0 and "beat" not in best.in_words()


def test_many_models_go_on_from_a_state():
    case = make(losses.Logistic(), 2, n=50)
    parts = case.x.shape[1], [("proximal", "temporal")] * 2, "logistic"
    whole, first, second = (LinearLearners(*parts, compiled=False) for _ in range(3))
    for each in (whole, first, second):
        each.keep_witnesses(60, case.evidence.constant)
    whole.learn(case.x, case.y)
    first.learn(case.x[:30], case.y[:30])
    second.restore(first.state())
    second.learn(case.x[30:], case.y[30:])
    assert same(second.state(), whole.state())
    with pytest.raises(InvalidInput, match="before the first row"):
        whole.keep_witnesses(10)


def test_before_the_first_row_and_with_no_weights_there_are_words():
    learner = LinearLearner(1, "squared", compiled=False)
    learner.keep_witnesses(10)
    assert learner.certificate.in_words() == "No examples have been learned."
    learner.learn([[1.0]], [2.0])
    assert "with all weights 0" in learner.certificate.best_loss(0.0).in_words()


@pytest.mark.parametrize("limit", [None, "1", -1.0, math.nan])
def test_a_time_limit_is_a_number(limit):
    learner = LinearLearner(1, "squared", compiled=False)
    learner.keep_witnesses(10)
    with pytest.raises(InvalidInput, match="time_limit"):
        learner.certificate.best_loss(time_limit=limit)


@pytest.mark.parametrize(
    ("name", "entry", "value"),
    [
        ("sums", at.COMMITTED_COUNT, 1e300),
        ("sums", at.COMMITTED_COUNT, 0.5),
        ("sums", at.COMMITTED_WEIGHT, -1.0),
        ("sums", at.EXAMPLE_COUNT, math.nan),
    ],
)
def test_sums_that_no_run_can_have_are_refused(name, entry, value):
    case = make(losses.Logistic(), 1, n=40)
    state = learn(learner_for(case, 60), case).state()
    state[f"witnesses.{name}"] = state[f"witnesses.{name}"].copy()
    state[f"witnesses.{name}"][entry] = value
    with pytest.raises(InvalidInput):
        learner_for(case, 60).restore(state)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Hinge(), losses.Squared(), losses.Poisson()], ids=repr)
def test_each_committed_row_adds_what_its_dual_says(loss):
    """The dual of a row is what theta moved by; sums follow from it by the formulas of the loss."""
    case = make(loss, 4, n=30)
    learner = learner_for(case, 1, auto=False)
    before, theta = np.zeros(at.SUMS_LENGTH), np.zeros(case.x.shape[1])
    for x, y, h in zip(case.x, case.y, case.h, strict=True):
        learner.learn(x[None], [y], [h])
        sums, record = learner.witnesses.record.sums.copy(), learner.witnesses.record.by_feature
        a = round(-(record[-1, at.THETA_COLUMN] - theta[-1]) / h, 14)  # of the constant feature, which is 1
        assert record[:, at.THETA_COLUMN] == pytest.approx(theta - h * a * x, rel=1e-9, abs=1e-12)
        with np.errstate(invalid="ignore"):  # the threshold is infinite
            added = sums - before
        assert added[at.CONJUGATE_SUM] == pytest.approx(h * conjugate(loss, a, y), rel=1e-6, abs=1e-9)
        assert added[at.DUAL_SQUARES] == pytest.approx(h * a * a, rel=1e-6, abs=1e-9)
        assert added[at.INFIMUM_SUM] == pytest.approx(h * infimum(loss, y)) and added[
            at.COMMITTED_WEIGHT
        ] == pytest.approx(h)
        before, theta = sums, record[:, at.THETA_COLUMN].copy()


def test_second_moments_are_committed_with_the_residuals_of_their_best_model():
    case = make(losses.Squared(), 6, n=60)
    learner = learn(learner_for(case, 10**6), case)
    moments = FeatureMoments.of(case.loss, learner.witnesses.record.examples, case.evidence.constant, None)
    by_feature, sums = np.zeros((case.x.shape[1], at.THETA_COLUMN + 1)), np.zeros(at.SUMS_LENGTH)
    add_moments(by_feature, sums, moments.moments, moments.features)
    residuals = case.x @ moments.moments.best_model(moments.moments.units()) - case.y
    twin = case.evidence.commit(np.arange(60), residuals)
    assert sums[at.CONJUGATE_SUM] == pytest.approx(twin.conjugate, rel=1e-9)
    assert by_feature[:, at.THETA_COLUMN] == pytest.approx(twin.theta, abs=1e-6 * case.h.sum())
    assert by_feature[:, at.SQUARES_COLUMN] == pytest.approx(case.evidence.squares)
