"""Black-box losses: convex functions of the whole vector, known by their values and subgradients."""

import re
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from giftrl import Learner, mirror
from giftrl.domains import Ball, Box, L1Ball, NonNegative, Simplex, WholeSpace
from giftrl.errors import Incompatible, InvalidInput, NotConverged
from giftrl.losses import Hinge, LinearModelLoss
from giftrl.regularizers import AdaGrad, Centred, Curvature, CurvatureFull, ElasticNet, Entropy, PNorm, SquaredNorm
from giftrl.schedules import Constant, SquareRoot
from giftrl.updates import ImportanceAware, Linear, Proximal, Truncated, TwoStep, proximal
from tests.members import DIMENSION, label_for, members
from tests.test_domains import constraints
from tests.test_mirror import formula

pytestmark = pytest.mark.sample(2)

# Losses: value, subgradient, and what they may bring beyond; expression(x) is the same loss for CVXPY ---------------


class MaxAffine:
    """max_i <a_i, x> + b_i. The rows a_i sum to 0, so the largest is never below the mean of the b_i."""

    def __init__(self, rng: np.random.Generator) -> None:
        rows = rng.normal(size=(6, DIMENSION))
        self.rows, self.b = rows - rows.mean(axis=0), rng.normal(size=6)

    def value(self, x):
        return np.max(self.rows @ x + self.b)

    def subgradient(self, x):
        return self.rows[np.argmax(self.rows @ x + self.b)]

    def lower_bound(self):
        return self.b.mean()

    def expression(self, x):
        return cp.max(self.rows @ x + self.b)


class LogSumExp(MaxAffine):
    """log sum_i exp(<a_i, x> + b_i), the smooth maximum; never below the maximum."""

    def value(self, x):
        return logsumexp(self.rows @ x + self.b)

    def subgradient(self, x):
        return softmax(self.rows @ x + self.b) @ self.rows

    def expression(self, x):
        return cp.log_sum_exp(self.rows @ x + self.b)


class Distance:
    """norm2(x - c); l*(z) = <c, z> for norm2(z) <= 1, and prox moves towards c by the step at most."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.c = rng.normal(size=DIMENSION)

    def value(self, x):
        return np.linalg.norm(x - self.c)

    def subgradient(self, x):
        return (x - self.c) / max(self.value(x), 1e-300)

    def lower_bound(self):
        return 0.0

    def conjugate(self, z):
        return self.c @ z if np.linalg.norm(z) <= 1.0 + 1e-12 else np.inf

    def prox(self, v, step):
        return self.c + (v - self.c) * max(0.0, 1.0 - step / max(self.value(v), 1e-300))

    def expression(self, x):
        return cp.norm2(x - self.c)


class LeastSquares:
    """norm2(A x - b)^2 / 2 with a square A; l*(A^T y) = norm2(y)^2 / 2 + <b, y>."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.a, self.b = rng.normal(size=(DIMENSION, DIMENSION)), rng.normal(size=DIMENSION)

    def value(self, x):
        return 0.5 * np.sum((self.a @ x - self.b) ** 2)

    def subgradient(self, x):
        return self.a.T @ (self.a @ x - self.b)

    def lower_bound(self):
        return 0.0

    def conjugate(self, z):
        y = np.linalg.solve(self.a.T, z)
        return 0.5 * y @ y + self.b @ y

    def prox(self, v, step):
        return np.linalg.solve(np.eye(DIMENSION) + step * self.a.T @ self.a, v + step * self.a.T @ self.b)

    def expression(self, x):
        return 0.5 * cp.sum_squares(self.a @ x - self.b)


class Bare:
    """Nothing but values and subgradients."""

    def __init__(self, loss: Any) -> None:
        self.loss = loss

    def value(self, x):
        return self.loss.value(x)

    def subgradient(self, x):
        return self.loss.subgradient(x)


LOSSES = [MaxAffine, LogSumExp, Distance, LeastSquares]
PAIRS = [
    (SquaredNorm(), WholeSpace()),
    (Centred(), WholeSpace()),
    (AdaGrad(), Box(-0.5, 0.5)),
    (ElasticNet(0.1, 0.5), Ball(1.0)),
    (Centred(AdaGrad()), NonNegative()),
    (Entropy(), Simplex()),
    (PNorm(1.5), L1Ball(1.0)),
]
UPDATES = [Linear(), TwoStep(), TwoStep(safeguard=True), Truncated(), Proximal()]

over_losses = pytest.mark.parametrize("make", LOSSES, ids=lambda make: make.__name__)
over_pairs = pytest.mark.parametrize(("regularizer", "domain"), PAIRS, ids=repr)
over_updates = pytest.mark.parametrize("update", UPDATES, ids=repr)


def play(learner: Learner, loss: Any, weight: float = 1.0) -> tuple[Any, Any, Any]:
    """One round: the psi that its z was chosen with, the theta before it, and the Step."""
    before, theta = learner.trace.psi, learner.theta
    step = learner.observe(loss, weight=weight)
    return learner.trace.psi if learner.lookahead else before, theta, step


@over_losses
@over_pairs
def test_linear_and_two_step_are_subgradients(make, regularizer, domain):
    rng = np.random.default_rng(1)
    linear, two_step = (Learner(DIMENSION, regularizer, domain, u, SquareRoot()) for u in (Linear(), TwoStep()))
    for weight in (1.0, 0.5, 3.0):
        loss = make(rng)
        x = linear.x
        _, theta, step = play(linear, loss, weight)
        np.testing.assert_array_equal(step.z, weight * loss.subgradient(x))
        np.testing.assert_array_equal(linear.theta, theta - step.z)
        assert step.loss == pytest.approx(weight * loss.value(x), rel=1e-15)

        x = two_step.x
        psi, theta, step = play(two_step, loss, weight)
        there = mirror.argmin(psi, domain, theta - weight * loss.subgradient(x))
        np.testing.assert_array_equal(step.z, weight * loss.subgradient(there))


@over_losses
@over_pairs
def test_truncated_stops_at_the_lower_bound(make, regularizer, domain):
    """z = h b g minimises H for the model max(l + <g, x - x_t>, floor): b < 1 only where the model meets its floor."""
    rng = np.random.default_rng(2)
    learner = Learner(DIMENSION, regularizer, domain, Truncated(), SquareRoot())
    shares = []
    for weight in (1.0, 0.5, 100.0, 1e4):
        loss = make(rng)
        x, g = learner.x, loss.subgradient(learner.x)
        psi, theta, step = play(learner, loss, weight)
        share = float(step.z @ g / (weight * g @ g))
        np.testing.assert_allclose(step.z, share * weight * g, rtol=1e-12)
        there = mirror.argmin(psi, domain, theta - step.z)
        model = loss.value(x) + g @ (there - x)
        assert 0.0 <= share <= 1.0
        assert share == 0.0 or model >= loss.lower_bound() - 1e-9
        assert share == 1.0 or model <= loss.lower_bound() + 1e-9
        shares.append(share)
    # A domain may keep the model from its floor; without one the larger weights are cut.
    if domain == WholeSpace():
        assert max(shares[2:]) < 1.0


def play_proximal(learner: Learner, loss: Any, weight: float) -> tuple[Any, Any, Any, float]:
    """One round: psi, theta, the point x that z leads to, and F(x) with F(x) = psi(x) - <theta, x> + h l(x).

    Strong duality: min over z of H(z) = -min over V of F. So H(z) + F(x) is never negative, and it bounds how far
    both are from their least; the inner solver promises 1e-8 max(1, h l(x)).
    """
    psi, theta, step = play(learner, loss, weight)
    x = mirror.argmin(psi, learner.domain, theta - step.z)
    value = psi.value(x) - theta @ x + weight * loss.value(x)
    objective = mirror.conjugate(psi, learner.domain, theta - step.z) + learner.trace.rounds[-1].conjugate
    rounding = 1e-13 * (1.0 + abs(value) + abs(learner.trace.rounds[-1].conjugate) + weight * abs(loss.value(x)))
    assert -rounding <= objective + value <= 1e-8 * max(1.0, abs(weight * loss.value(x))) + rounding
    return psi, theta, x, value


@over_losses
@over_pairs
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate:UserWarning")  # short of 1e-10 by an order or two
def test_proximal_minimises_psi_plus_the_loss(make, regularizer, domain, bare):
    rng = np.random.default_rng(3)
    learner = Learner(DIMENSION, regularizer, domain, Proximal(), SquareRoot())
    for weight in (1.0, 4.0):
        loss = make(rng)
        psi, theta, x, value = play_proximal(learner, Bare(loss) if bare else loss, weight)
        if learner.lookahead:
            np.testing.assert_array_equal(learner.x, x)
        v = cp.Variable(DIMENSION)
        twin = formula(psi, v) - theta @ v + weight * loss.expression(v)
        best = cp.Problem(cp.Minimize(twin), constraints(domain, v))
        best.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        assert value == pytest.approx(best.value, rel=1e-6, abs=1e-6)
        # lambda = 1 at least: a gap of 1e-8 allows sqrt(2e-8) = 1.4e-4 in the point, times 2 for a loss near 4.
        np.testing.assert_allclose(x, v.value, atol=3e-4)


@pytest.mark.sample(2)
@over_losses
@pytest.mark.parametrize(("regularizer", "domain"), PAIRS[:-1], ids=repr)  # the last is slow, and no other problem
def test_proximal_of_heavy_losses(make, regularizer, domain):
    """Weights that drive x far along V, where the mirror has kinks."""
    rng = np.random.default_rng(0)
    learner = Learner(DIMENSION, regularizer, domain, Proximal(), Constant(10.0))
    for _ in range(2):
        play_proximal(learner, make(rng), 1000.0)


@over_updates
def test_a_loss_of_weight_zero_changes_nothing(update):
    learner, rng = Learner(DIMENSION, AdaGrad(), Box(), update, Constant()), np.random.default_rng(5)
    learner.observe(Distance(rng), weight=2.5)
    x, bound = learner.x, learner.certificate.bound_sum
    assert learner.observe(Distance(rng), weight=0.0).loss == 0.0
    np.testing.assert_array_equal(learner.x, x)
    assert learner.certificate.bound_sum == bound


@pytest.mark.sample(2)
@pytest.mark.parametrize("loss", members("loss"), ids=repr)
@pytest.mark.parametrize("update", [Linear(), TwoStep(), Truncated(), Proximal()], ids=repr)
def test_a_linear_model_in_disguise(loss, update):
    rng = np.random.default_rng(6)
    for regularizer, domain in PAIRS:
        open_box, hidden = (Learner(DIMENSION, regularizer, domain, update, Constant(0.5)) for _ in range(2))
        for _ in range(6):
            s, y = rng.normal(size=DIMENSION), label_for(loss, rng.normal())
            one = open_box.observe(loss, s, y)
            two = hidden.observe(LinearModelLoss(loss, s, y))
            assert two.prediction is None
            assert one.loss == pytest.approx(two.loss, rel=1e-3, abs=1e-3)
            # Points of the inner solver are right to the square root of its tolerance; H itself is right to it.
            np.testing.assert_allclose(open_box.x, hidden.x, atol=3e-4 if isinstance(update, Proximal) else 1e-10)
            if not isinstance(update, (Proximal, Truncated)):
                assert one.delta == pytest.approx(two.delta, rel=1e-9, abs=1e-9)


@pytest.mark.sample(3)
@over_updates
@over_pairs
@pytest.mark.parametrize("bare", [False, True])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=max(1, settings.default.max_examples // 50))
def test_no_regret_is_above_its_bound(regularizer, domain, update, bare, seed):
    rng = np.random.default_rng(seed)
    learner = Learner(DIMENSION, regularizer, domain, update, SquareRoot(2.0))
    needs_floor = isinstance(update, Truncated) or getattr(update, "safeguard", False)
    losses, weights = [make(rng) for make in LOSSES], 2.0 * rng.exponential(size=len(LOSSES))
    for loss, weight in zip(losses, weights, strict=True):
        learner.observe(Bare(loss) if bare and not needs_floor else loss, weight=weight)
    certificate = learner.certificate  # it holds for any u, in V or not
    for u in [*rng.normal(size=(3, DIMENSION)), 10.0 * rng.normal(size=DIMENSION), np.zeros(DIMENSION), learner.x]:
        regret = certificate.loss_sum - sum(w * loss.value(u) for loss, w in zip(losses, weights, strict=True))
        bound = certificate.regret_bound(u)
        assert bound >= regret - 1e-9 * (1.0 + abs(bound))
    # Every update but the literal two-step has H(z) <= H(g) in every round.
    if update != TwoStep():
        assert certificate.harmful_rounds == 0


RNG = np.random.default_rng(7)


@pytest.mark.parametrize(
    ("parts", "loss", "error", "message"),
    [
        ({"update": Truncated()}, Bare(Distance(RNG)), Incompatible, "Truncated needs lower_bound() from the loss"),
        ({"update": TwoStep(safeguard=True)}, Bare(Distance(RNG)), Incompatible, "TwoStep needs lower_bound() from"),
        ({"update": ImportanceAware()}, Distance(RNG), Incompatible, "ImportanceAware works along the features of"),
        ({"regularizer": Curvature()}, Distance(RNG), Incompatible, "Curvature() needs the curvature of a linear"),
        ({"regularizer": CurvatureFull()}, Distance(RNG), Incompatible, "Distance is a black box; use SquaredNorm"),
        ({"regularizer": ElasticNet(base=Curvature())}, Distance(RNG), Incompatible, "needs the curvature of a"),
        ({}, Hinge(), InvalidInput, "loss=Hinge(): must bring value(x) and subgradient(x); or give s and y"),
        ({}, lambda x: 0.0, InvalidInput, "must bring value(x) and subgradient(x); or give s and y"),
        ({}, "hinge", InvalidInput, "loss='hinge': must bring value(x) and subgradient(x); or give s and y"),
    ],
)
def test_errors_say_what_to_do_and_change_nothing(parts, loss, error, message):
    learner = Learner(DIMENSION, **parts)
    learner.observe("squared", np.ones(DIMENSION), 1.0)
    x, theta, rounds = learner.x, learner.theta, learner.trace.rounds
    with pytest.raises(error, match=re.escape(message)):
        learner.observe(loss)
    np.testing.assert_array_equal(learner.x, x)
    np.testing.assert_array_equal(learner.theta, theta)
    assert (learner.trace.rounds, learner.t) == (rounds, 2)


def test_an_inner_solver_that_stops_short_says_so(monkeypatch):
    monkeypatch.setattr(proximal, "MAX_CUTS", 2)
    learner = Learner(DIMENSION, AdaGrad(), Box(), Proximal(), Constant())
    loss = LogSumExp(np.random.default_rng(8))
    with pytest.raises(NotConverged, match="after 2 cuts and .*; raise tolerance, or give LogSumExp a prox"):
        learner.observe(loss)
    assert (learner.t, learner.theta.any()) == (1, False)
    Learner(DIMENSION, AdaGrad(), Box(), Proximal(tolerance=1.0), Constant()).observe(loss)


def test_tolerances_are_kept():
    """H(z) is within the tolerance of the least, for every tolerance; delta = H(g) - H(z) shows by how much."""
    loss = LogSumExp(np.random.default_rng(9))
    tolerances = [1e-1, 1e-4, 1e-9]
    steps = [Learner(DIMENSION, AdaGrad(), Box(), Proximal(None, t), Constant()).observe(loss) for t in tolerances]
    for tolerance, step in zip(tolerances, steps, strict=True):
        missing = steps[-1].delta - step.delta
        assert 0.0 <= missing <= tolerance * max(1.0, step.loss)
    assert steps[0].delta < steps[1].delta


class Lists(Bare):
    """A loss that was not written with NumPy in mind."""

    def subgradient(self, x):
        return [float(g) for g in self.loss.subgradient(x)]

    def lower_bound(self):
        return 0


@over_updates
def test_subgradients_may_be_lists(update):
    loss = Distance(np.random.default_rng(10))
    plain, array = (Learner(DIMENSION, AdaGrad(), Box(), update, Constant()) for _ in range(2))
    plain.observe(Lists(loss), weight=2.0)
    array.observe(loss, weight=2.0)
    np.testing.assert_array_equal(plain.x, array.x)
