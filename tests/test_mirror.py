"""The mirror: argmin over V of psi(x) - <theta, x> for every pair, against CVXPY and against what defines it."""

import re
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from giftrl import Learner, mirror
from giftrl.domains import Box, NonNegative, WholeSpace
from giftrl.errors import Incompatible
from giftrl.regularizers import Entropy
from giftrl.regularizers.contract import start
from giftrl.regularizers.potentials import Diagonal, FullQuadratic, NegativeEntropy, SquaredPNorm
from tests.members import DIMENSION, members
from tests.test_domains import constraints
from tests.test_regularizers import PAIRS, grown, has_solver

over_pairs = pytest.mark.parametrize(("regularizer", "domain"), PAIRS, ids=repr)
NO_PAIRS = [(r, d) for r in members("regularizer") for d in members("domain") if not has_solver(r, d)]

#: The tests below run once for each pair, so each run needs fewer examples than a test that runs once.
few = settings(max_examples=max(1, settings.default.max_examples // 20))
seeds = st.integers(0, 2**32 - 1)
thetas = arrays(float, DIMENSION, elements=st.floats(-10.0, 10.0))


def formula(psi: Any, x: cp.Variable) -> cp.Expression:
    """The potential as CVXPY writes it."""
    match psi:
        case Diagonal():
            square = 0.5 * psi.strength @ cp.square(x) - psi.tilt @ x + psi.offset
            return square + psi.l1 * cp.norm1(x)
        case FullQuadratic():
            return 0.5 * cp.quad_form(x, cp.psd_wrap(psi.matrix)) - psi.tilt @ x + psi.offset
        case NegativeEntropy():
            return psi.lam * (np.log(psi.dimension) - cp.sum(cp.entr(x)))
        case SquaredPNorm():
            return 0.5 * psi.lam * cp.square(cp.pnorm(x, psi.p))
    raise NotImplementedError(f"{type(psi).__name__} has no CVXPY twin: add one to formula() in {__file__}")


@over_pairs
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate:UserWarning")  # short of 1e-10 by an order or two
def test_argmin_against_cvxpy(regularizer, domain):
    rng = np.random.default_rng(1)
    psi = grown(regularizer, domain, rng)
    x, theta = cp.Variable(DIMENSION), cp.Parameter(DIMENSION)
    problem = cp.Problem(cp.Minimize(formula(psi, x) - theta @ x), constraints(domain, x))

    def objective(v: np.ndarray) -> float:
        return psi.value(v) - float(theta.value @ v)

    for size in (0.01, 1.0, 30.0):
        theta.value = size * rng.normal(size=DIMENSION)
        # exp(theta / lam) in CVXPY's exponential cone loses its digits long before float64 does.
        if isinstance(psi, NegativeEntropy) and domain.support(theta.value) == np.inf:
            theta.value *= min(1.0, 5.0 * psi.lam / np.abs(theta.value).max())
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        ours = mirror.argmin(psi, domain, theta.value)
        assert domain.contains(ours)
        scale = max(1.0, abs(problem.value), np.abs(x.value).max())
        # No worse than CVXPY's point, once that is made feasible, by more than rounding.
        assert objective(ours) <= objective(domain.project(x.value)) + 1e-12 * scale
        assert objective(ours) == pytest.approx(problem.value, abs=1e-6 * scale)
        # A gap of 1e-9 in the objective is the square of this in the point.
        np.testing.assert_allclose(ours, x.value, atol=5e-5 * scale)


def slack(*terms: float) -> float:
    """How far a comparison of values of psi and inner products may be off by rounding."""
    return 1e-11 * (1.0 + sum(map(abs, terms)))


@over_pairs
@given(seed=seeds, theta=thetas, other=thetas)
@few
def test_argmin_is_least_and_the_conjugate_is_its_value(regularizer, domain, seed, theta, other):
    """Fenchel and Young: psi(u) + psi*_V(theta) >= <theta, u> for every u in V, with equality at the argmin."""
    rng = np.random.default_rng(seed)
    psi = grown(regularizer, domain, rng)
    x, top = mirror.argmin(psi, domain, theta), mirror.conjugate(psi, domain, theta)
    assert domain.contains(x)
    assert psi.value(x) + top == pytest.approx(theta @ x, rel=1e-11, abs=slack(top, psi.value(x)))
    for u in (domain.project(other), domain.project(x + 1e-3 * rng.normal(size=DIMENSION))):
        assert psi.value(u) + top >= theta @ u - slack(top, psi.value(u), theta @ u)


@over_pairs
def test_affine_where_it_says_so(regularizer, domain):
    """is_affine promises <s, argmin(theta - b s)> = p - b c, which linear models are solved with."""
    rng = np.random.default_rng(2)
    psi = grown(regularizer, domain, rng)
    straight = True
    for size in (1.0, 100.0):
        theta, s = size * rng.normal(size=(2, DIMENSION))
        steps = np.linspace(-2.0, 2.0, 9)
        line = np.array([s @ mirror.argmin(psi, domain, theta - b * s) for b in steps])
        chord = np.linspace(line[0], line[-1], 9)
        straight &= np.allclose(line, chord, rtol=1e-10, atol=1e-10)
        if mirror.is_affine(psi, domain):
            assert line == pytest.approx(line[4] - steps * psi.inverse_form(s), rel=1e-10)
    # Only PNorm(2) is straight without saying so: a member of the p-norms, which are not.
    assert straight == (mirror.is_affine(psi, domain) or (getattr(psi, "p", None) == 2.0 and domain == WholeSpace()))


@pytest.mark.parametrize(("regularizer", "domain"), NO_PAIRS, ids=repr)
def test_a_pair_without_a_solver_says_what_works(regularizer, domain):
    psi = start(regularizer, DIMENSION, 1.0)
    with pytest.raises(Incompatible) as told:
        mirror.argmin(psi, domain, np.zeros(DIMENSION))
    message = str(told.value)
    assert f"{type(psi).__name__} over {type(domain).__name__}" in message
    if isinstance(domain, Box):
        assert repr(domain.lower) in message
    else:
        works = mirror.supported_domains(psi)
        assert works
        assert type(domain).__name__ not in works
        assert all(re.search(rf"\b{name}\b", message.split(":")[1]) for name in works)
    with pytest.raises(Incompatible, match=re.escape(message)):
        Learner(DIMENSION, regularizer, domain)


@pytest.mark.parametrize("lower", [-1.0, -np.inf, [0.0, 0.0, -1e-9, 0.0]])
def test_the_entropy_over_a_box_below_zero(lower):
    with pytest.raises(Incompatible, match=re.escape(f"NegativeEntropy over Box(lower={lower!r}): the entropy")):
        Learner(DIMENSION, Entropy(), Box(lower, 1.0))
    Learner(DIMENSION, Entropy(), Box(np.maximum(lower, 0.0), 1.0))


PATTERNS = [np.ones(4), -np.ones(4), np.eye(4)[1], -np.eye(4)[2], np.array([1.0, -1.0, 0.5, 0.25])]


@over_pairs
@pytest.mark.parametrize("lam", [1e-8, 1.0, 1e8])
def test_huge_and_tiny_theta(regularizer, domain, lam):
    psi = start(regularizer, DIMENSION, lam)
    rng = np.random.default_rng(3)
    # Overflow on the way to a finite answer is nothing to warn about; a learner does not either.
    with np.errstate(all="ignore"):
        at_zero = mirror.argmin(psi, domain, np.zeros(DIMENSION))
        for theta in [*PATTERNS, *rng.normal(size=(3, DIMENSION))]:
            tiny = mirror.argmin(psi, domain, 1e-150 * theta)
            assert domain.contains(tiny)
            np.testing.assert_allclose(tiny, at_zero, rtol=1e-12, atol=1e-100)

            for size in (1e9, 1e18, 1e150):
                huge = mirror.argmin(psi, domain, size * theta)
                # exp(theta / lam) itself is beyond float64, and then infinite: a learner says Overflowed.
                if not (isinstance(psi, NegativeEntropy) and domain.support(theta) == np.inf):
                    assert np.isfinite(huge).all()
                assert domain.contains(huge)
                # Beside 1e150 any psi is nothing: the argmin attains the support function where there is one.
                if size == 1e150 and np.isfinite(domain.support(theta)):
                    assert theta @ huge == pytest.approx(domain.support(theta), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("domain", members("domain"), ids=repr)
@given(seed=seeds, size=st.sampled_from([1e-150, 1e-3, 1.0, 1e3, 1e9]))
@settings(max_examples=max(1, settings.default.max_examples // 3))
def test_strengths_of_many_sizes(domain, seed, size):
    """16 orders of magnitude among the strengths of one psi."""
    rng = np.random.default_rng(seed)
    strength, l1 = 10.0 ** rng.uniform(-8.0, 8.0, DIMENSION), rng.choice([0.0, 0.5])
    psi = Diagonal(strength, np.zeros(DIMENSION), 0.0, l1, np.zeros(DIMENSION))
    theta = size * rng.normal(size=DIMENSION)
    x = mirror.argmin(psi, domain, theta)
    assert np.isfinite(x).all()
    assert domain.contains(x)
    # Values are right to rounding of their largest term.
    top = mirror.conjugate(psi, domain, theta)
    for u in (domain.project(rng.normal(size=DIMENSION)), domain.project(x * (1.0 + 0.1 * rng.normal(size=DIMENSION)))):
        largest = max(np.abs(theta * v).max() + psi.value(v) for v in (x, u))
        assert theta @ u - psi.value(u) <= top + 1e-12 * largest


@pytest.mark.parametrize(
    ("p", "lam", "box", "theta"),
    [
        # The norm of the answer is far below that of the free minimiser, 1e13.
        (1.5, 1e-8, Box(), [1e5, 1e-9]),
        # The largest theta points out of the box, and the powers of the others are beyond float64 beside it.
        (1.01, 6.0, Box(0.0, 70.0), [-45.0, 2e-4, 0.02, 0.002]),
        # Open sides, one held coordinate and no size in common.
        (1.1, 1.0, Box([-np.inf, 0.0, 1e-3], [np.inf, 1e-6, np.inf]), [-3.0, 1e6, 1e-3]),
    ],
)
def test_p_norms_in_boxes_of_many_sizes(p, lam, box, theta):
    """The gradient is theta inside, and points out of the box where x is held."""
    psi, target = SquaredPNorm(lam, p), np.array(theta)
    x = mirror.argmin(psi, box, target)
    low, high = (np.broadcast_to(bound, x.shape) for bound in box.bounds)
    assert box.contains(x, tolerance=0.0)
    excess = (psi.gradient(x) - target) / np.abs(target)
    assert (excess[x > low] <= 1e-9).all()
    assert (excess[x < high] >= -1e-9).all()


@pytest.mark.parametrize(
    ("domain", "dimension", "rank", "size", "lam", "theta_size"),
    [
        (Box(), 30, 30, 1.0, 1e-3, 3.0),
        (NonNegative(), 30, 30, 1.0, 1e-3, 3.0),
        (Box(0.0, 0.002), 40, 10, 1e3, 1e-3, 1e4),
        (NonNegative(), 40, 10, 1e3, 1e-3, 1e4),
    ],
)
def test_full_matrices_of_many_dimensions(domain, dimension, rank, size, lam, theta_size):
    """No coordinate alone can lower the objective by more than rounding, for ill-conditioned matrices too."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        s, theta = size * rng.normal(size=(rank, dimension)), theta_size * rng.normal(size=dimension)
        matrix = lam * np.eye(dimension) + s.T @ s
        psi = FullQuadratic(matrix, np.linalg.inv(matrix), np.zeros(dimension), 0.0, lam, 0)
        x = mirror.argmin(psi, domain, theta)
        assert domain.contains(x)
        gradient, curvature = matrix @ x - theta, np.diag(matrix)
        move = domain.project(x - gradient / curvature) - x
        drop = -(gradient * move + 0.5 * curvature * move * move).min()
        assert drop <= 1e-10 * (abs(psi.value(x)) + np.abs(theta) @ np.abs(x))
