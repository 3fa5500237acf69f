"""Regularizers: the laws of every psi_t they grow, and slow twins of the algorithms that they make up."""

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl import Learner, mirror
from giftrl.domains import NonNegative, Simplex, WholeSpace
from giftrl.errors import Incompatible, InvalidInput
from giftrl.losses import Logistic, Squared
from giftrl.regularizers import (
    AdaGrad,
    Centred,
    Curvature,
    CurvatureFull,
    ElasticNet,
    Entropy,
    Evidence,
    PNorm,
)
from giftrl.regularizers.contract import advance, centred, known_ahead, start, uses_curvature
from giftrl.regularizers.potentials import Diagonal, FullQuadratic, NegativeEntropy, Potential, SquaredPNorm
from giftrl.schedules import Constant
from giftrl.updates import Linear
from tests.members import DIMENSION, members

over_regularizers = pytest.mark.parametrize("regularizer", members("regularizer"), ids=repr)

#: The tests below run once for each member, so each run needs fewer examples than a test that runs once.
few = settings(max_examples=max(1, settings.default.max_examples // 3))
seeds = st.integers(0, 2**32 - 1)


class Growth(NamedTuple):
    """One round of growth: psi_t, psi_{t+1}, and theta_{t+1} with the point to which it leads under psi_t."""

    before: Potential
    after: Potential
    theta: np.ndarray
    x: np.ndarray
    seen: Evidence
    lam: float


def has_solver(regularizer: Any, domain: Any) -> bool:
    """Whether the mirror solves the pair."""
    try:
        mirror.check_pair(start(regularizer, DIMENSION, 1.0), domain)
    except Incompatible:
        return False
    return True


PAIRS = [(r, d) for r in members("regularizer") for d in members("domain") if has_solver(r, d)]


def home(regularizer: Any) -> Any:
    """The largest domain on which the regularizer's psi is defined."""
    return next(domain for domain in (WholeSpace(), NonNegative()) if has_solver(regularizer, domain))


def grow(regularizer: Any, domain: Any, rng: np.random.Generator, rounds: int = 4) -> Iterator[Growth]:
    """psi_1, psi_2, ... as a run grows them, from random z, s, curvatures and strengths; some rounds keep lambda."""
    lam = rng.uniform(0.5, 2.0)
    psi, theta = start(regularizer, DIMENSION, lam), np.zeros(DIMENSION)
    for _ in range(rounds):
        z, s = rng.normal(size=(2, DIMENSION))
        theta = theta - z
        x = mirror.argmin(psi, domain, theta)
        seen = Evidence(z, x, s, rng.exponential())
        lam += rng.choice([0.0, rng.exponential()])
        after = advance(regularizer, psi, lam, seen)
        yield Growth(psi, after, theta, x, seen, lam)
        psi = after


def grown(regularizer: Any, domain: Any, rng: np.random.Generator) -> Potential:
    """A psi_t with a past: its strengths differ, and its centre is not 0."""
    return list(grow(regularizer, domain, rng))[-1].after


def points(regularizer: Any, rng: np.random.Generator, count: int) -> np.ndarray:
    """Points at which psi is differentiable: probabilities for the entropy, any others for the rest."""
    if isinstance(regularizer, Entropy):
        return rng.dirichlet(np.ones(DIMENSION), count)
    return rng.normal(size=(count, DIMENSION)) * rng.choice([0.1, 1.0, 10.0])


@over_regularizers
@given(seed=seeds)
@few
def test_psi_never_falls(regularizer, seed):
    rng = np.random.default_rng(seed)
    for growth in grow(regularizer, home(regularizer), rng):
        for x in points(regularizer, rng, 3):
            # A difference of two values, each right to rounding.
            assert growth.after.value(x) >= growth.before.value(x) * (1.0 - 1e-13) - 1e-12


@pytest.mark.parametrize(("regularizer", "domain"), [pair for pair in PAIRS if centred(pair[0])], ids=repr)
def test_centred_growth_keeps_the_minimiser(regularizer, domain):
    for growth in grow(regularizer, domain, np.random.default_rng(3), rounds=20):
        np.testing.assert_allclose(mirror.argmin(growth.after, domain, growth.theta), growth.x, atol=1e-10)
        # What is gained is least there, and 0: psi_{t+1}(x_{t+1}) = psi_t(x_{t+1}).
        assert growth.after.value(growth.x) == pytest.approx(growth.before.value(growth.x), abs=1e-10)


@over_regularizers
def test_a_psi_known_ahead_does_not_look_at_the_round(regularizer):
    psi = start(regularizer, DIMENSION, 1.0)
    one, ones = np.eye(DIMENSION)[0], np.ones(DIMENSION)
    taught = advance(regularizer, psi, 1.5, Evidence(3.0 * one, 0.2 * ones, ones, 2.0))
    if known_ahead(regularizer):
        assert repr(taught) == repr(advance(regularizer, psi, 1.5, None))
    else:
        other = advance(regularizer, psi, 1.5, Evidence(-5.0 * one - ones, 0.7 * ones, 2.0 * ones, 1.0))
        assert repr(taught) != repr(other)


@over_regularizers
def test_only_those_that_say_so_use_curvature(regularizer):
    psi, x, s = start(regularizer, DIMENSION, 1.0), np.full(DIMENSION, 0.25), np.ones(DIMENSION)
    flat, curved = (advance(regularizer, psi, 1.0, Evidence(s, x, s, k)) for k in (0.0, 2.0))
    assert (repr(flat) != repr(curved)) == uses_curvature(regularizer)


def smooth(psi: Potential, x: np.ndarray) -> float:
    """The differentiable part of psi."""
    return psi.value(x) - getattr(psi, "l1", 0.0) * float(np.abs(x).sum())


@over_regularizers
@given(seed=seeds)
@few
def test_gradient_against_finite_differences(regularizer, seed):
    rng = np.random.default_rng(seed)
    psi = grown(regularizer, home(regularizer), rng)
    x = points(regularizer, rng, 1)[0]
    # Steps of a share of abs(x_j) keep inside the orthant and off the kinks of abs(x_j)^p; a central difference errs
    # by the square of the share.
    step = 1e-6 * np.abs(x)
    slope = [(smooth(psi, x + h) - smooth(psi, x - h)) / (2.0 * h.sum()) for h in np.diag(step)]
    # Rounding: values of size psi(x) known to 1e-16, divided by the step.
    rounding = 1e-15 * (abs(psi.value(x)) + np.abs(x).max() * np.abs(psi.gradient(x)).max()) / step
    assert (np.abs(psi.gradient(x) - slope) <= 1e-6 * (1.0 + np.abs(slope)) + rounding).all()


@over_regularizers
@given(seed=seeds)
@few
def test_divergence_is_what_the_tangent_leaves(regularizer, seed):
    rng = np.random.default_rng(seed)
    psi = grown(regularizer, home(regularizer), rng)
    x, y = points(regularizer, rng, 2)
    divergence = psi.divergence(x, y)
    tangent = smooth(psi, y) + psi.gradient(y) @ (x - y)
    assert divergence >= 0.0
    assert psi.divergence(x, x * (1.0 + 1e-9 * rng.normal(size=DIMENSION))) >= 0.0
    assert divergence == pytest.approx(smooth(psi, x) - tangent, rel=1e-10, abs=1e-10 * (1.0 + abs(psi.value(x))))
    # At y = x nothing is left but the rounding of values of that size.
    assert psi.divergence(x, x) == pytest.approx(0.0, abs=1e-14 * (1.0 + abs(psi.value(x))))


def strong_convexity(psi: Potential) -> tuple[float, float]:
    """(mu, p): psi is mu-strongly convex in the p-norm."""
    match psi:
        case Diagonal():
            return psi.strength.min(), 2.0
        case FullQuadratic():
            return np.linalg.eigvalsh(psi.matrix)[0], 2.0
        case NegativeEntropy():
            return psi.lam, 1.0  # Pinsker's inequality
        case SquaredPNorm():
            return psi.lam * (psi.p - 1.0), psi.p
    raise NotImplementedError(f"add {type(psi).__name__} to strong_convexity() in {__file__}")


@over_regularizers
@given(seed=seeds)
@few
def test_strong_convexity_and_the_dual_norm(regularizer, seed):
    rng = np.random.default_rng(seed)
    psi = grown(regularizer, home(regularizer), rng)
    mu, p = strong_convexity(psi)
    x, y = points(regularizer, rng, 2)
    distance = np.linalg.norm(x - y, p)
    # Values of size psi(x) + psi(y) are subtracted in the divergence of a p-norm.
    assert psi.divergence(x, y) >= 0.5 * mu * distance**2 - 1e-13 * (psi.value(x) + psi.value(y) + 1.0)

    # The dual norm is the largest <z, v> over norm_p(v) <= 1: an upper bound for any v, and attained at the v that
    # equality in Hoelder's inequality asks for.
    z, v = rng.normal(size=(2, DIMENSION))
    assert abs(z @ v) <= psi.dual_norm(z) * np.linalg.norm(v, p) * (1.0 + 1e-12)
    best = np.sign(z) * np.abs(z / np.abs(z).max()) ** (1.0 / (p - 1.0) if p > 1.0 else np.inf)
    assert z @ best == pytest.approx(psi.dual_norm(z) * np.linalg.norm(best, p), rel=1e-12)


@given(seed=seeds, growing=st.booleans())
@settings(max_examples=max(1, settings.default.max_examples // 10))
def test_curvature_is_a_sum_and_its_inverse_an_inverse(seed, growing):
    """After hundreds of rank-one updates, with and without a growing lambda; the diagonal one keeps the diagonal."""
    rng = np.random.default_rng(seed)
    lam = 0.3
    full, diagonal = (start(r, DIMENSION, lam) for r in (CurvatureFull(), Curvature()))
    gains = np.zeros((DIMENSION, DIMENSION))
    for t in range(300):
        s, x = rng.normal(size=(2, DIMENSION))
        seen = Evidence(s, x, s, rng.exponential())
        lam += 0.1 * (growing and t % 7 == 0)
        gains += seen.curvature * np.outer(s, s)
        full = advance(CurvatureFull(), full, lam, seen)
        diagonal = advance(Curvature(), diagonal, lam, seen)
        matrix = lam * np.eye(DIMENSION) + gains
        np.testing.assert_allclose(full.matrix, matrix, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(full.inverse, np.linalg.inv(matrix), atol=1e-8)
    np.testing.assert_allclose(full.inverse @ full.matrix, np.eye(DIMENSION), atol=1e-8)
    np.testing.assert_allclose(diagonal.strength, np.diag(matrix), rtol=1e-12)
    assert full.inverse_form(s) == pytest.approx(s @ np.linalg.solve(matrix, s), rel=1e-10)
    assert diagonal.inverse_form(s) == pytest.approx(s @ (s / np.diag(matrix)), rel=1e-12)


def stream(seed: int, rounds: int) -> list[tuple[np.ndarray, float]]:
    """Sparse examples with labels -1 and +1."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rounds, DIMENSION)) * rng.integers(0, 2, size=(rounds, DIMENSION))
    return [(s, 1.0 if s @ np.arange(DIMENSION) + rng.normal() > 0 else -1.0) for s in features]


@pytest.mark.parametrize("l1", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_ftrl_proximal(l1, l2):
    """The z and n recursion of McMahan et al. (2013), Algorithm 1, coordinate by coordinate.

    Their strength (beta + sqrt(n)) / alpha is sqrt(G^2 + n) / beta here. Their n has the gradient of the round itself
    in it; here it enters one round later, since psi_t must be known when x_t is played.
    """
    beta, gradient_bound = 0.7, 1.3
    regularizer = ElasticNet(l1, l2, base=Centred(AdaGrad(gradient_bound)))
    learner = Learner(DIMENSION, regularizer, update=Linear(), schedule=Constant(beta))

    def strength(n: float) -> float:
        return math.sqrt(gradient_bound**2 + n) / beta

    z, n, w, last = np.zeros((4, DIMENSION))
    zeros = 0
    for s, y in stream(4, 200):
        for j in range(DIMENSION):
            w[j] = 0.0 if abs(z[j]) <= l1 else -(z[j] - math.copysign(l1, z[j])) / (l2 + strength(n[j]))
        np.testing.assert_allclose(learner.x, w, rtol=1e-12, atol=1e-12)
        g = -y / (1.0 + math.exp(y * (s @ w))) * s
        for j in range(DIMENSION):
            sigma = strength(n[j] + last[j] ** 2) - strength(n[j])
            z[j] += g[j] - sigma * w[j]
            n[j] += last[j] ** 2
            last[j] = g[j]
        learner.observe(Logistic(), s, y)
        zeros += np.count_nonzero((learner.x == 0.0) & (learner.theta != 0.0))
    # Coordinates that were seen and are 0 all the same: they exist because of the L1 term, and only then.
    assert zeros if l1 > 0.0 else not zeros


def test_adagrad_is_dual_averaging():
    """x_j = beta theta_j / sqrt(G^2 + sum of g_j^2), with theta minus the sum of all gradients."""
    beta, gradient_bound = 0.5, 0.2
    learner = Learner(DIMENSION, AdaGrad(gradient_bound), update=Linear(), schedule=Constant(beta))
    gradients: list[np.ndarray] = []
    for s, y in stream(5, 200):
        x = np.zeros(DIMENSION)
        for j in range(DIMENSION):
            squares = sum(g[j] ** 2 for g in gradients)
            x[j] = beta * -sum(g[j] for g in gradients) / math.sqrt(gradient_bound**2 + squares)
        np.testing.assert_allclose(learner.x, x, rtol=1e-12, atol=1e-12)
        gradients.append((s @ x - y) * s)
        learner.observe(Squared(), s, y)


@pytest.mark.parametrize(
    ("make", "argument", "value", "rule"),
    [
        (lambda: ElasticNet(base=Entropy()), "base", Entropy(), "must be a diagonal regularizer"),
        (lambda: ElasticNet(base=PNorm()), "base", PNorm(), "must be a diagonal regularizer"),
        (lambda: Centred(CurvatureFull()), "base", CurvatureFull(), "must be a diagonal regularizer"),
        (lambda: Centred("adagrad"), "base", "adagrad", "must be a diagonal regularizer"),
        (lambda: ElasticNet(l1=-1.0), "l1", -1.0, "must be finite and not negative"),
        (lambda: ElasticNet(l1=math.inf), "l1", math.inf, "must be finite and not negative"),
        (lambda: ElasticNet(l2=math.nan), "l2", math.nan, "must be finite and not negative"),
        (lambda: PNorm(1.0), "p", 1.0, "must be above 1 and at most 2"),
        (lambda: PNorm(2.5), "p", 2.5, "must be above 1 and at most 2"),
        (lambda: AdaGrad(0.0), "gradient_bound", 0.0, "must be positive and finite"),
        (lambda: AdaGrad(1.0)._replace(gradient_bound=math.nan), "gradient_bound", math.nan, "must be positive"),
    ],
)
def test_parameters_are_checked(make, argument, value, rule):
    with pytest.raises(InvalidInput, match=re.escape(f"{argument}={value!r}: {rule}")):
        make()


def test_the_entropy_is_least_at_the_uniform_point():
    """0 there, and so not negative on the simplex: psi grows with lambda."""
    psi = start(Entropy(), DIMENSION, 2.0)
    uniform = np.full(DIMENSION, 1.0 / DIMENSION)
    assert psi.value(uniform) == pytest.approx(0.0, abs=1e-15)
    np.testing.assert_allclose(mirror.argmin(psi, Simplex(), np.zeros(DIMENSION)), uniform, rtol=1e-15)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ElasticNet(0.5, 0.75, AdaGrad()), ElasticNet(0.2, 0.25, ElasticNet(0.3, 0.5, AdaGrad()))),
        (Centred(ElasticNet(0.5, 0.75)), ElasticNet(0.5, 0.75, Centred())),
        (Centred(Centred(AdaGrad())), Centred(AdaGrad())),
        (Centred(Curvature()), Curvature()),
    ],
)
def test_wrappers_add_up(one, other):
    one, other = (grown(regularizer, WholeSpace(), np.random.default_rng(7)) for regularizer in (one, other))
    for x in np.random.default_rng(6).normal(size=(5, DIMENSION)):
        assert one.value(x) == pytest.approx(other.value(x), rel=1e-14)
