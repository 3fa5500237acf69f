"""Certificates: never wrong at the best comparator in hindsight, found by other people's solvers."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from giftrl import Certificate, Learner, domains, losses, regularizers, schedules, updates
from giftrl.errors import AssumptionFailed, InvalidInput
from tests.members import DIMENSION, members
from tests.oracles import formulas
from tests.streams import play, stream, total_loss


def best_in_hindsight(loss, examples, radius, norm):
    """The u in the ball with the least total loss, by CVXPY."""
    u = cp.Variable(DIMENSION)
    s, y, weight = (np.array([getattr(e, name) for e in examples]) for name in ("s", "y", "weight"))
    objective = cp.sum(cp.multiply(weight, formulas(loss).convex(loss, s @ u, y)))
    cp.Problem(cp.Minimize(objective), [cp.norm(u, norm) <= radius]).solve(solver="CLARABEL")
    return np.asarray(u.value)


@pytest.mark.parametrize("update", members("update"), ids=repr)
@pytest.mark.parametrize("loss", members("loss"), ids=repr)
def test_at_the_best_comparator_in_hindsight(loss, update):
    examples = stream(loss, 40, seed=11, scale=0.5)
    for regularizer, schedule in ((regularizers.SquaredNorm(), "temporal"), (regularizers.Curvature(), "constant")):
        learner = Learner(DIMENSION, regularizer, update=update, schedule=schedule)
        seen = examples[: len(play(learner, loss, examples))]
        certificate = learner.certificate
        for norm, radius in ((2, 2.0), (1, 1.0)):
            u = best_in_hindsight(loss, seen, radius, norm)
            optimum = total_loss(loss, seen, u)
            slack = 1e-6 * max(1.0, abs(optimum))  # of CVXPY, which may be outside the ball and above the optimum
            assert certificate.loss_sum - optimum <= certificate.regret_bound(u) + 1e-9 * certificate.loss_sum
            assert certificate.regret_bound(u) <= certificate.regret_bound_ball(radius, norm) + slack
            assert certificate.best_loss_lower_bound(radius, norm) <= optimum + slack


def breast_cancer():
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    x = np.hstack([x, np.ones((len(x), 1))])
    return x / np.linalg.norm(x, axis=1, keepdims=True), np.where(y == 1, 1.0, -1.0)


def certified(s, y, loss, **arguments):
    """The certificate of a readable learner."""
    learner = Learner(s.shape[1], **arguments)
    for features, label in zip(s, y, strict=True):
        learner.observe(loss, features, label)
    return learner.certificate


def test_the_lower_bound_on_real_data_is_below_scikit_learns_optimum_and_close():
    s, y = breast_cancer()
    u = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(s, y).coef_[0]
    optimum = float(np.logaddexp(0.0, -y * (s @ u)).sum())
    certificate = certified(s, y, "logistic", regularizer="curvature", schedule=schedules.Constant(beta=10.0))
    assert 0.3 * optimum < certificate.best_loss_lower_bound(float(np.linalg.norm(u))) <= optimum
    assert certificate.loss_sum - optimum <= certificate.regret_bound(u) < 0.3 * optimum

    s, y = load_diabetes(return_X_y=True)
    s, y = 10.0 * s, (y - y.mean()) / y.std()
    u = Ridge(alpha=1.0, fit_intercept=False).fit(s, y).coef_
    optimum = 0.5 * float(((s @ u - y) ** 2).sum())
    certificate = certified(s, y, "squared", regularizer=regularizers.CurvatureFull(), schedule="constant")
    assert 0.7 * optimum < certificate.best_loss_lower_bound(float(np.linalg.norm(u))) <= optimum


@given(loss=st.sampled_from(members("loss")), seed=st.integers(0, 2**32 - 1), beta=st.sampled_from([0.1, 1, 10]))
def test_lemma_4_1_and_corollary_4_3_hold_where_they_apply(loss, seed, beta):
    examples = stream(loss, 20, seed, scale=0.5)
    schedule = schedules.TemporalVariability(beta=beta, gradient_bound=5.0)
    learner = Learner(DIMENSION, update=updates.Proximal(lookahead=True), schedule=schedule)
    play(learner, loss, examples)
    certificate = learner.certificate
    rng = np.random.default_rng(seed)
    for scale in (0.0, 0.3, 3.0):
        u = scale * rng.normal(size=DIMENSION)
        regret = certificate.loss_sum - total_loss(loss, examples, u)
        slack = 1e-9 * max(1.0, certificate.loss_sum)
        assert regret <= certificate.lemma_4_1(u) + slack
        assert certificate.regret_bound(u) <= certificate.lemma_4_1(u) + slack  # what was computed is no weaker
        assert certificate.lemma_4_1(u) <= certificate.corollary_4_3(u) + slack


def test_temporal_variability_of_a_fixed_loss_is_constant():
    """l_t the same for ever: V_T = 0, and the regret stays below a constant however long the run."""
    s, y, loss = np.array([1.0, 2.0]), 3.0, losses.Absolute()
    learner = Learner(2, update=updates.Proximal(lookahead=True), schedule=schedules.TemporalVariability())
    for _ in range(300):
        learner.observe(loss, s, y)
    certificate = learner.certificate
    u = np.array([1.0, 1.0])
    assert certificate.observed_variability() == pytest.approx(0.0, abs=1e-9)
    assert certificate.loss_sum <= certificate.corollary_4_3(u, variability=0.0) < 20.0


def test_what_a_theorem_does_not_cover_is_refused():
    linear = Learner(2, update="linear")
    linear.observe("hinge", [1.0, 0.0], 1.0)
    with pytest.raises(AssumptionFailed, match=r"Lemma 4.1 is about the proximal update.*Linear"):
        linear.certificate.lemma_4_1([0.0, 0.0])
    no_temporal = Learner(2, update=updates.Proximal(True), schedule="sqrt")
    no_temporal.observe("hinge", [1.0, 0.0], 1.0)
    with pytest.raises(AssumptionFailed, match=r"Corollary 4.3 is about the squared norm with the temporal schedule"):
        no_temporal.certificate.corollary_4_3([0.0, 0.0])
    without = Certificate(1.0, 1.0, 0.0, np.zeros(2))
    with pytest.raises(AssumptionFailed, match="needs a trace of the rounds"):
        without.theorem_terms([0.0, 0.0])


def test_a_falling_psi_is_refused_by_lemma_4_1():
    """Off the simplex the entropy can be negative, and then psi falls as lambda grows."""
    learner = Learner(20, "entropy", domains.NonNegative(), updates.Proximal(True), "sqrt")
    for s in np.random.default_rng(0).normal(size=(10, 20)):
        learner.observe("absolute", s, 0.0)
    with pytest.raises(AssumptionFailed, match="psi fell"):
        learner.certificate.lemma_4_1(np.ones(20))


def test_harm_is_counted_for_the_literal_two_step_and_absent_elsewhere():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    for update, harmful in (
        (updates.TwoStep(), True),
        (updates.TwoStep(safeguard=True), False),
        (updates.Proximal(), False),
    ):
        schedule = schedules.Constant(beta=3.0)
        certificate = certified(rows, rows.sum(axis=1), "absolute", update=update, schedule=schedule)
        assert (certificate.harmful_rounds > 0) is harmful
        assert bool(certificate.deltas.min() < -1e-6) is harmful
        assert certificate.delta_sum == pytest.approx(certificate.deltas.sum())


def test_weights_count_in_the_certificate():
    """An example of weight 3 is the same certificate as a loss three times as large."""

    class Thrice(losses.Squared):
        def value(self, p, y):
            return 3.0 * super().value(p, y)

        def slope(self, p, y):
            return 3.0 * super().slope(p, y)

        def conjugate(self, a, y):
            return 3.0 * super().conjugate(a / 3.0, y)

        def prox(self, p, y, c):
            return 3.0 * super().prox(p, y, 3.0 * c)

    weighted, thrice = Learner(2), Learner(2)
    for s in np.random.default_rng(2).normal(size=(20, 2)):
        weighted.observe(losses.Squared(), s, float(s.sum()), weight=3.0)
        thrice.observe(Thrice(), s, float(s.sum()))
    for name in ("loss_sum", "conjugate_sum", "delta_sum"):
        assert getattr(weighted.certificate, name) == pytest.approx(getattr(thrice.certificate, name))
    assert weighted.certificate.loss_sum > 1.0


def test_a_bounded_domain_bounds_the_regret_against_all_of_it():
    learner = Learner(3, domain=domains.Ball(2.0))
    for s in np.random.default_rng(3).normal(size=(30, 3)):
        learner.observe("logistic", s, 1.0 if s[0] > 0 else -1.0)
    certificate = learner.certificate
    assert certificate.regret_bound_domain() == pytest.approx(certificate.regret_bound_ball(2.0))
    assert Learner(3).certificate.regret_bound_domain() == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.regret_bound([1.0]), r"u=\[1.0\]: must have the 2 coordinates"),
        (lambda c: c.regret_bound([np.nan, 0.0]), "must be finite"),
        (lambda c: c.regret_bound_ball(-1.0), r"radius=-1.0: must be finite and not negative"),
        (lambda c: c.best_loss_lower_bound(1.0, norm=3), r"norm=3: must be 1, 2 or infinity"),
    ],
)
def test_bad_questions(call, message):
    with pytest.raises(InvalidInput, match=message):
        call(Learner(2).certificate)


# Every update with a beta that is far too large: implicit ones still learn, and all are certified.

RADIUS = 15.0
BETA = 1000.0


def best_in_ball(s, y):
    """The model of norm at most RADIUS with the lowest total logistic loss."""

    def total(u):
        margin = y * (s @ u)
        return float(np.logaddexp(0.0, -margin).sum()), -s.T @ (y * 0.5 * (1.0 - np.tanh(0.5 * margin)))

    inside = {"type": "ineq", "fun": lambda u: RADIUS**2 - u @ u, "jac": lambda u: -2.0 * u}
    return minimize(total, np.zeros(s.shape[1]), jac=True, method="SLSQP", constraints=inside).x


def parts():
    """The arguments of each learner, by name."""
    temporal = schedules.TemporalVariability(beta=BETA, gradient_bound=1.0)
    every = {
        f"{name} {objective}": {"update": cls(lookahead=objective == "H"), "schedule": temporal}
        for name, cls in updates.BY_NAME.items()
        for objective in ("H", "H'")
    }
    every["twostep safe H"] = {"update": updates.TwoStep(lookahead=True, safeguard=True), "schedule": temporal}
    every["curvature"] = {"regularizer": regularizers.Curvature(), "schedule": schedules.Constant(BETA)}
    return every


def test_implicit_updates_tolerate_a_beta_that_ruins_the_linear_one():
    s, y = breast_cancer()
    order = np.random.default_rng(0).permutation(len(y))
    s, y = s[order], y[order]
    certificates = {name: certified(s, y, "logistic", **arguments) for name, arguments in parts().items()}
    average = {name: certificate.loss_sum / len(y) for name, certificate in certificates.items()}
    assert average["linear H'"] > 1.0
    for name in ("proximal H", "truncated H'", "iwa H", "twostep safe H", "curvature"):
        assert average[name] < 0.25
    u = best_in_ball(s, y)
    assert np.linalg.norm(u) <= RADIUS + 1e-6
    optimum = float(np.logaddexp(0.0, -y * (s @ u)).sum())
    for certificate in certificates.values():
        assert certificate.best_loss_lower_bound(RADIUS) <= optimum + 1e-6
        assert certificate.loss_sum - optimum <= certificate.regret_bound(u) + 1e-6
