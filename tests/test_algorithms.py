"""The rows of the paper's Table 1, and the equalities between them."""

import cvxpy as cp
import numpy as np
import pytest

from giftrl import Learner, domains, losses, regularizers, schedules, updates
from giftrl.algorithms import FullFTRL, ImplicitFTRL, ImplicitMirrorDescent, MirrorDescent
from giftrl.errors import AssumptionFailed, Incompatible
from giftrl.ops.loss import slope
from tests.members import DIMENSION, members
from tests.streams import play, stream, total_loss
from tests.test_domains import constraints
from tests.test_mirror import formula

pytestmark = pytest.mark.sample(2)

ROUNDS = 25
CLASSES = [MirrorDescent, ImplicitMirrorDescent, FullFTRL, ImplicitFTRL]

#: (regularizer, domain) pairs for which the whole of Table 1 makes sense.
PAIRS = [
    (regularizers.SquaredNorm(), domains.WholeSpace()),
    (regularizers.SquaredNorm(), domains.Ball(0.5)),
    (regularizers.SquaredNorm(), domains.Box(-0.2, 0.3)),
    (regularizers.Entropy(), domains.Simplex()),
    (regularizers.PNorm(1.5), domains.WholeSpace()),
]


@pytest.mark.parametrize("loss", members("loss"), ids=repr)
@pytest.mark.parametrize(("regularizer", "domain"), PAIRS, ids=str)
def test_linear_is_linearized_ftrl(loss, regularizer, domain):
    """z = g: theta is minus the sum of subgradients at the played points, whatever the look-ahead."""
    schedule = schedules.SquareRoot(beta=0.5)
    for lookahead in (True, False):
        learner = Learner(DIMENSION, regularizer, domain, updates.Linear(lookahead), schedule)
        theta = np.zeros(DIMENSION)
        for e in stream(loss, ROUNDS, seed=0, scale=0.3):
            theta -= e.weight * slope(loss, float(e.s @ learner.x), e.y) * e.s
            step = learner.observe(loss, e.s, e.y, weight=e.weight)
            np.testing.assert_array_equal(step.z, step.g)
        np.testing.assert_allclose(learner.theta, theta, rtol=1e-12, atol=1e-12)
        assert learner.certificate.delta_sum == 0.0


@pytest.mark.parametrize("loss", members("loss"), ids=repr)
@pytest.mark.parametrize(("regularizer", "domain"), PAIRS, ids=str)
def test_proximal_with_look_ahead_is_implicit_ftrl(loss, regularizer, domain):
    """The same points for a linear model; and where its structure is hidden, to the tolerance of the inner solver."""
    schedule = schedules.SquareRoot(beta=2.0)
    learner = Learner(DIMENSION, regularizer, domain, updates.Proximal(lookahead=True), schedule)
    implicit, black_box = (ImplicitFTRL(DIMENSION, regularizer, domain, schedule, tolerance=1e-11) for _ in range(2))
    for e in stream(loss, ROUNDS, seed=1):
        learner.observe(loss, e.s, e.y, weight=e.weight)
        implicit.observe(loss, e.s, e.y, weight=e.weight)
        black_box.observe(losses.LinearModelLoss(loss, e.s, e.y), weight=e.weight)
        np.testing.assert_allclose(implicit.x, learner.x, rtol=1e-12, atol=1e-12)
        # psi is 1/beta-strongly convex at least, so a gap of 1e-11 allows points 1e-5 apart; they add up a little.
        np.testing.assert_allclose(black_box.x, learner.x, atol=1e-4)
    assert np.abs(learner.x).max() > 0.01


@pytest.mark.parametrize("loss", members("loss"), ids=repr)
@pytest.mark.parametrize("regularizer", [regularizers.SquaredNorm(), regularizers.PNorm(1.5)], ids=repr)
def test_proximal_with_constant_lambda_is_implicit_omd(loss, regularizer):
    """On the whole space with a fixed psi, grad psi(x_t) = theta_t: FTRL and mirror descent are the same."""
    schedule = schedules.Constant(beta=0.7)
    for lookahead in (True, False):
        ftrl = Learner(DIMENSION, regularizer, update=updates.Proximal(lookahead), schedule=schedule)
        omd = ImplicitMirrorDescent(DIMENSION, regularizer, schedule=schedule)
        for e in stream(loss, ROUNDS, seed=2):
            ftrl.observe(loss, e.s, e.y, weight=e.weight)
            omd.observe(loss, e.s, e.y, weight=e.weight)
            np.testing.assert_allclose(ftrl.x, omd.x, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Absolute(), losses.Squared()], ids=repr)
def test_mirror_descent_with_the_entropy_is_exponentiated_gradient(loss):
    beta = 0.4
    simplex = domains.Simplex()
    omd = MirrorDescent(DIMENSION, regularizers.Entropy(), simplex, schedules.SquareRoot(beta))
    x = np.full(DIMENSION, 1.0 / DIMENSION)
    for t, e in enumerate(stream(loss, ROUNDS, seed=4), 1):
        np.testing.assert_allclose(omd.x, x, rtol=1e-10)
        g = e.weight * slope(loss, float(e.s @ x), e.y) * e.s
        x = x * np.exp(-g * beta / np.sqrt(t))
        x /= x.sum()
        omd.observe(loss, e.s, e.y, weight=e.weight)
    assert np.ptp(omd.x) > 0.1


def test_mirror_descent_with_the_squared_norm_is_projected_subgradient_descent():
    beta, radius, loss = 0.5, 0.3, losses.Absolute()
    omd = MirrorDescent(DIMENSION, domain=domains.Ball(radius), schedule=schedules.SquareRoot(beta))
    x = np.zeros(DIMENSION)
    for t, e in enumerate(stream(loss, ROUNDS, seed=5), 1):
        np.testing.assert_allclose(omd.x, x, rtol=1e-12, atol=1e-14)
        x = x - beta / np.sqrt(t) * e.weight * slope(loss, float(e.s @ x), e.y) * e.s
        x *= min(1.0, radius / max(np.linalg.norm(x), 1e-300))
        omd.observe(loss, e.s, e.y, weight=e.weight)


@pytest.mark.parametrize("schedule", [schedules.Constant(0.5), schedules.SquareRoot(), schedules.AdaImplicit(2.0)])
@pytest.mark.parametrize(("regularizer", "domain"), PAIRS, ids=str)
def test_implicit_omd_against_cvxpy(regularizer, domain, schedule):
    """x_{t+1} = argmin over V of lambda_t B(x; x_t) + l_t(x), for the three step sizes."""
    loss = losses.Absolute()
    omd = ImplicitMirrorDescent(DIMENSION, regularizer, domain, schedule)
    lam_expected = omd.lam
    for e in stream(loss, 6, seed=6):
        lam, psi, x = omd.lam, omd.trace.psi, cp.Variable(DIMENSION)
        assert lam == pytest.approx(lam_expected)
        bregman = formula(psi, x) - psi.gradient(omd.x) @ x
        step = omd.observe(loss, e.s, e.y, weight=e.weight)
        problem = cp.Minimize(bregman + e.weight * cp.abs(e.s @ x - e.y))
        cp.Problem(problem, constraints(domain, x)).solve(solver="CLARABEL")
        np.testing.assert_allclose(omd.x, x.value, atol=2e-4)
        assert step.gamma >= -1e-9
        if isinstance(schedule, schedules.AdaImplicit):
            lam_expected = lam + max(0.0, step.gamma) / schedule.beta**2
        else:
            lam_expected = schedule.lam(omd.t, 0.0)


@pytest.mark.parametrize("loss", members("loss"), ids=repr)
@pytest.mark.parametrize(("regularizer", "domain"), PAIRS[:4], ids=str)
def test_full_ftrl_minimises_the_regularized_sum_of_losses(loss, regularizer, domain):
    """No direction leads down from x_{t+1}: the growing problem is convex, so that is the minimum."""
    learner = FullFTRL(DIMENSION, regularizer, domain, schedules.SquareRoot(beta=2.0), tolerance=1e-9)
    examples = stream(loss, 12, seed=7)
    play(learner, loss, examples)
    psi, x = learner.trace.psi, learner.x
    rng = np.random.default_rng(0)
    best = psi.value(x) + total_loss(loss, examples, x)
    for step in (1e-3, 1e-2, 0.3):
        for _ in range(50):
            other = domain.project(x + step * rng.normal(size=DIMENSION))
            assert psi.value(other) + total_loss(loss, examples, other) >= best - 1e-7 * max(1.0, abs(best))
    # The certificate is the dual of the same problem, and there is no gap between them.
    dual = -learner.certificate.conjugate_sum - (float(learner.theta @ x) - psi.value(x))
    assert best == pytest.approx(dual, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("algorithm", CLASSES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("loss", members("loss"), ids=repr)
def test_their_certificates_hold_too(algorithm, loss):
    learner = algorithm(DIMENSION, domain=domains.Ball(1.0), schedule=schedules.SquareRoot())
    examples = stream(loss, 15, seed=8)
    play(learner, loss, examples)
    certificate = learner.certificate
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.1, 1.0, 10.0):
        u = scale * rng.normal(size=DIMENSION)
        regret = certificate.loss_sum - total_loss(loss, examples, u)
        assert regret <= certificate.regret_bound(u) + 1e-7 * max(1.0, abs(regret))
    with pytest.raises(AssumptionFailed, match=algorithm.__name__):
        certificate.theorem_terms(np.zeros(DIMENSION))


@pytest.mark.parametrize("algorithm", [FullFTRL, ImplicitFTRL], ids=lambda c: c.__name__)
def test_what_is_not_known_in_time_is_refused(algorithm):
    with pytest.raises(Incompatible, match=r"AdaGrad.*SquaredNorm"):
        algorithm(2, regularizers.AdaGrad())
    with pytest.raises(Incompatible, match=r"AdaGradNorm.*TemporalVariability"):
        algorithm(2, schedule=schedules.AdaGradNorm())


def test_mirror_descent_wants_a_differentiable_psi():
    with pytest.raises(Incompatible, match=r"ElasticNet.*not differentiable"):
        MirrorDescent(2, regularizers.ElasticNet())
