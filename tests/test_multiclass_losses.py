"""The laws of losses of K scores; their oracles are CVXPY, mpmath, fractions, an ODE solver and losses of one score."""

import math
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.integrate import solve_ivp
from scipy.special import logsumexp, wrightomega

from giftrl.losses.multiclass_hinge import MulticlassHinge
from giftrl.losses.softmax import Softmax
from giftrl.ops.scalar import NODES, WEIGHTS, mean_product, wright_omega
from giftrl.ops.vector_loss import (
    conjugate,
    curvature,
    curvatures,
    flow,
    infimum,
    mass_moved,
    prox,
    slope,
    smoothness,
    value,
)
from tests.multiclass import each_loss, examples, few, filled, half, lengths, moderate, slopes


@given(example=examples())
def test_values_are_those_of_the_formulas(example):
    p, y = example
    rest = np.delete(p, y)
    assert value(Softmax(), p, y) == pytest.approx(logsumexp(p) - p[y], rel=1e-12, abs=1e-12)
    assert value(MulticlassHinge(), p, y) == pytest.approx(max(0.0, 1.0 + rest.max() - p[y]), rel=1e-14, abs=1e-12)


@half
@given(example=examples(size=2.8))
def test_softmax_is_accurate_in_both_tails(example):
    p, y = example
    with mp.workdps(700):
        powers = [mp.exp(mpf(x)) for x in p.tolist()]
        exact = mp.log(sum(powers) / powers[y])
        q = [x / sum(powers) for x in powers]
        assert abs(value(Softmax(), p, y) - exact) <= 1e-12 * exact + mpf("1e-307")
        for k, got in enumerate(filled(slope, Softmax(), p, y).tolist()):
            want = q[k] - (k == y)
            assert abs(got - want) <= 1e-12 * abs(want) + mpf("1e-307")


@half
@given(example=examples(size=1.0))
def test_slope_of_the_hinge_is_the_subgradient_of_smallest_norm(example):
    p, y = example
    g, at = filled(slope, MulticlassHinge(), p, y), value(MulticlassHinge(), p, y)
    if at == 0.0:
        assert not g.any()
        return
    ties = int((np.delete(p, y) == np.delete(p, y).max()).sum())
    # Every subgradient is q - e_y with q on the ties: the sum of squares is least, 1/m, where they are equal.
    assert float(g @ g) == pytest.approx(1.0 + 1.0 / ties, rel=1e-14) and g[y] == -1.0


@each_loss
@half
@given(example=examples(size=1.0), data=st.data())
def test_curvature_bounds_the_hessian_in_the_sense_of_matrices(loss, example, data):
    p, y = example
    q = np.exp(p - logsumexp(p))
    hessian = np.diag(q) - np.outer(q, q) if isinstance(loss, Softmax) else np.zeros((len(p), len(p)))
    top = np.linalg.eigvalsh(hessian)[-1]
    assert top - 1e-15 <= curvature(loss, p, y) <= smoothness(loss)
    bound = np.diag(filled(curvatures, loss, p, y))
    assert np.linalg.eigvalsh(bound - hessian)[0] >= -1e-15
    if len(p) == 2:
        assert curvature(loss, p, y) == pytest.approx(top, rel=1e-12, abs=1e-300)


def test_the_smoothness_of_softmax_is_reached():
    assert curvature(Softmax(), np.array([0.0, 0.0, -800.0]), 0) == smoothness(Softmax()) == 0.5


@each_loss
@half
@given(example=examples(size=2.0), data=st.data())
def test_fenchel_young(loss, example, data):
    p, y = example
    a = data.draw(slopes(len(p), y))
    terms = value(loss, p, y), conjugate(loss, a, y), -float(a @ p)
    assert sum(terms) >= -1e-13 * (sum(map(abs, terms)) + np.abs(p).max())
    g = filled(slope, loss, p, y)
    terms = value(loss, p, y), conjugate(loss, g, y), -float(g @ p)
    assert sum(terms) == pytest.approx(0.0, abs=1e-13 * (sum(map(abs, terms)) + np.abs(p).max()))


@each_loss
def test_the_conjugate_is_infinite_outside_its_domain(loss):
    for a in ([0.5, 0.5, -0.9], [0.5, -0.5, 0.0], [0.7, 0.7, -1.4], [-0.1, 0.6, -0.5], [0.0, 0.0, 0.5], [np.nan] * 3):
        assert conjugate(loss, np.array(a), 2) == math.inf
        assert mass_moved(np.array(a), 2) == -1.0
    for a in ([0.0, 0.0, 0.0], [1.0, 0.0, -1.0], [0.25, 0.25, -0.5]):
        assert math.isfinite(conjugate(loss, np.array(a), 2))
    assert conjugate(loss, np.zeros(3), 2) == -infimum(loss, 2) == 0.0
    assert value(loss, np.array([0.0, 0.0, 900.0]), 2) == 0.0


CONVEX = {
    Softmax: lambda p, y: cp.log_sum_exp(p) - p[y],
    MulticlassHinge: lambda p, y: cp.pos(1 + cp.max(cp.hstack([p[k] for k in range(p.size) if k != y])) - p[y]),
}


@each_loss
@few
@given(seed=st.integers(0, 10**6))
def test_conjugate_and_prox_are_those_of_cvxpy(loss, seed):
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 7))
    y, p, h, c = (
        int(rng.integers(classes)),
        rng.normal(size=classes) * 2.0,
        rng.exponential(),
        10.0 ** rng.uniform(-1, 1),
    )
    q = rng.dirichlet(np.ones(classes))
    a = q - np.eye(classes)[y]
    a[y] = a[y] - a.sum()
    u = cp.Variable(classes)
    found = cp.Problem(cp.Maximize(a @ u - CONVEX[type(loss)](u, y)), [u[y] == 0]).solve(solver="CLARABEL")
    assert conjugate(loss, a, y) == pytest.approx(found, abs=1e-6)
    # An example of weight h: the slope of h phi at the length c is h times that of phi at the length h c.
    cp.Problem(cp.Minimize(h * CONVEX[type(loss)](u, y) + cp.sum_squares(u - p) / (2.0 * c))).solve(solver="CLARABEL")
    assert c * h * filled(prox, loss, p, y, h * c) == pytest.approx(p - u.value, abs=2e-4)


@each_loss
@given(example=examples(), c=lengths)
def test_prox_is_a_slope_at_the_point_to_which_it_leads(loss, example, c):
    p, y = example
    a = filled(prox, loss, p, y, c)
    u = p - c * a
    # Fenchel and Young hold with equality exactly where a is a subgradient at u; u is rounded.
    terms = value(loss, u, y), conjugate(loss, a, y), -float(a @ u)
    assert sum(terms) == pytest.approx(0.0, abs=1e-12 * (sum(map(abs, terms)) + np.abs(u).max()))
    assert abs(a.sum()) <= 1e-15 * len(p) and (np.delete(a, y) >= 0.0).all() and -1.0 <= a[y] <= 0.0
    if isinstance(loss, Softmax):
        g = filled(slope, loss, u, y)
        assert np.abs(g - a).max() <= 1e-12 * np.abs(g).max() * (1.0 + np.abs(u).max())


def exact_omega(x):
    """The w with w + log(w) = x: Newton from the left of a concave function."""
    w = x - mp.log(x) if x > 2 else mp.exp(x - 1)
    while True:
        new = w * (1 + x - mp.log(w)) / (1 + w)
        if abs(new - w) <= mpf("1e-40") * w:
            return new
        w = new


def exact_softmax_prox(p, y, c):
    """With v = p + c e_y and r the log of the normaliser at the new point, c q_k = omega(log(c) + v_k - r): find r."""
    with mp.workdps(70):
        c = mpf(c)
        v = [mpf(x) + (c if k == y else 0) for k, x in enumerate(p.tolist())]
        low, high = max(v) - c, max(v) + mp.log(len(v)) - c / len(v)
        while high - low > mpf("1e-38") * max(1, abs(high)):
            middle = (low + high) / 2
            if sum(exact_omega(mp.log(c) + x - middle) for x in v) > c:
                low = middle
            else:
                high = middle
        q = [exact_omega(mp.log(c) + x - low) / c for x in v]
        q[y] = -sum(x for k, x in enumerate(q) if k != y)
        return q


@few
@given(example=examples(largest=5), c=lengths)
def test_softmax_prox_is_exact(example, c):
    p, y = example
    for got, exact in zip(filled(prox, Softmax(), p, y, c).tolist(), exact_softmax_prox(p, y, c), strict=True):
        assert abs(got - exact) <= 1e-12 * abs(exact) + mpf("1e-305")


def exact_hinge_prox(p, y, c):
    """The projection of e_y + (p + 1 - e_y)/c onto the simplex, less e_y, in fractions; its threshold by sorting."""
    c = Fraction(c)
    v = [Fraction(x) + (c if k == y else 1) for k, x in enumerate(p.tolist())]
    level, total = None, Fraction(0)
    for m, x in enumerate(sorted(v, reverse=True), start=1):
        total += x
        if x > (total - c) / m:
            level = (total - c) / m
    return [max(Fraction(0), x - level) / c - (k == y) for k, x in enumerate(v)]


@settings(max_examples=3 * settings.default.max_examples)
@given(example=examples(largest=12), c=st.one_of(lengths, moderate, st.sampled_from([0.25, 1.0, 4.0])))
def test_hinge_prox_is_exact(example, c):
    p, y = example
    a = filled(prox, MulticlassHinge(), p, y, c)
    for got, exact in zip(a.tolist(), exact_hinge_prox(p, y, c), strict=True):
        # 1 + max - p_y is rounded, and c a is that much off where the gap is closed.
        assert abs(got - exact) <= 1e-14 + 1e-15 * (1.0 + np.abs(p).max()) * min(1.0, 1.0 / c)


@each_loss
@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_many_classes(loss, classes):
    rng = np.random.default_rng(classes)
    for _ in range(20):
        p, y = rng.normal(size=classes) * 10.0 ** rng.uniform(-2.0, 2.0), int(rng.integers(classes))
        c = 10.0 ** rng.uniform(-3.0, 5.0)
        a = filled(prox, loss, p, y, c)
        g = (
            filled(slope, loss, p - c * a, y)
            if isinstance(loss, Softmax)
            else np.array(exact_hinge_prox(p, y, c), float)
        )
        assert np.abs(g - a).max() <= 1e-13 * np.abs(g).max() * (1.0 + np.abs(p).max())
        order = rng.permutation(classes)
        for rule in (prox, flow):
            moved = filled(rule, loss, p[order] + 1.0, int(np.flatnonzero(order == y)[0]), c)
            np.testing.assert_allclose(moved, filled(rule, loss, p, y, c)[order], atol=1e-11 * np.abs(a).max())


@few
@given(example=examples(largest=6, size=1.2), c=st.floats(-3.0, 2.0).map(lambda exponent: 10.0**exponent))
def test_softmax_flow_is_that_of_an_ode_solver(example, c):
    p, y = example

    def move(_, q):
        rate = np.exp(q - logsumexp(q))
        rate[y] = -np.delete(rate, y).sum()
        return -c * rate

    end = solve_ivp(move, (0.0, 1.0), p, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    np.testing.assert_allclose(filled(flow, Softmax(), p, y, c), (p - end) / c, atol=1e-8, rtol=1e-8)


@each_loss
@given(example=examples(size=1.5), c=moderate, parts=st.integers(2, 5))
def test_flow_composes(loss, example, c, parts):
    # An example of weight h is h examples of weight 1.
    p, y = example
    q = p
    for _ in range(parts):
        q = q - c / parts * filled(flow, loss, q, y, c / parts)
    whole = c * filled(flow, loss, p, y, c)
    np.testing.assert_allclose(p - q, whole, atol=1e-11 * (1.0 + np.abs(p).max() + np.abs(whole).max()))


@given(beta=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60), power=st.sampled_from([0.1, 1.0, 8.0]))
def test_mean_product_is_the_integral_of_the_polynomial(beta, power):
    beta = [x**power for x in beta]
    coefficients = [Fraction(1)]
    for x in map(Fraction, beta):
        coefficients = [a - x * b for a, b in zip([*coefficients, 0], [0, *coefficients], strict=True)]
    exact = sum(a / (i + 1) for i, a in enumerate(coefficients))
    assert mean_product(np.array(beta)) == pytest.approx(float(exact), rel=1e-12)


@given(x=st.one_of(st.floats(-700.0, 50.0), st.floats(-13.0, 3.0), st.floats(1.0, 1e300)))
def test_wright_omega(x):
    assert wright_omega(x) == pytest.approx(wrightomega(x), rel=2e-14)


def test_the_nodes_are_those_of_gauss_and_legendre():
    nodes, weights = np.polynomial.legendre.leggauss(12)
    np.testing.assert_allclose(NODES, 0.5 + 0.5 * nodes, rtol=1e-14)
    np.testing.assert_allclose(WEIGHTS, 0.5 * weights, rtol=1e-14)
