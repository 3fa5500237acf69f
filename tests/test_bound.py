"""Units, the words of a bound, and the quadratic problems of the solver."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.certificates import BestLoss, Evidence, Moments, Units
from giftrl.certificates.bound import price
from giftrl.certificates.solver import newton_step

seeds = st.integers(0, 10**6)


def any_units(rng, d, relative=False):
    """Feature units and centred ones, with a feature that was never seen."""
    x = rng.normal(size=(9, d)) * 10.0 ** rng.uniform(-3.0, 3.0, d) + rng.normal(size=d)
    x[:, 0], x[:, 1] = 1.0, 0.0
    squares, sums = (x * x).sum(axis=0), x.sum(axis=0)
    plain = Units.of_features(squares, 9.0, 0, relative)
    return x, [plain, Units.centred(squares, sums, 9.0, 0, relative), Units.of_features(squares, 9.0)]


@given(seed=seeds, d=st.integers(2, 6), classes=st.sampled_from([None, 2, 4]))
def test_coordinates_keep_inner_products_and_norms_are_dual(seed, d, classes):
    rng = np.random.default_rng(seed)
    shape = d if classes is None else (d, classes)
    for units in any_units(rng, d, classes is not None)[1]:
        u, theta = rng.normal(size=shape), rng.normal(size=shape)
        theta[1] = 0.0  # as it is where no row has the feature
        product = float(np.vdot(units.compared(theta), u)) if units.relative else float(np.vdot(theta, u))
        paired = float(np.vdot(units.dual(units.compared(theta)), units.coordinates(units.compared(u))))
        assert paired == pytest.approx(product, rel=1e-9, abs=1e-9 * units.norm(u) * units.dual_norm(theta))
        assert product <= units.norm(u) * units.dual_norm(theta) * (1.0 + 1e-9)
        back = units.model(units.coordinates(u))
        back[1] = u[1]
        np.testing.assert_allclose(back, u, rtol=1e-6, atol=1e-6)


@given(seed=seeds)
def test_only_differences_of_columns_count(seed):
    rng = np.random.default_rng(seed)
    for units in any_units(rng, 4, relative=True)[1][:2]:
        u, v = rng.normal(size=(4, 3)), rng.normal(size=(4, 1))
        assert units.norm(u + v) == pytest.approx(units.norm(u))
        assert all(units.norm(u) <= np.linalg.norm(units.coordinates(u + t * v)) for t in (-1.0, 0.0, 1.0))


@given(seed=seeds)
def test_an_error_of_theta_is_allowed_for(seed):
    rng = np.random.default_rng(seed)
    for units in any_units(rng, 5)[1]:
        theta, error = rng.normal(size=5), np.abs(rng.normal(size=5)) * 0.1
        theta[1] = error[1] = 0.0
        other = theta + error * rng.uniform(-1.0, 1.0, 5)
        assert units.dual_norm(other) <= units.dual_norm(theta, error)


def test_units_do_not_depend_on_how_features_are_measured():
    rng = np.random.default_rng(0)
    x = np.hstack([np.ones((30, 1)), rng.normal(size=(30, 2))])
    y = np.where(x @ [0.2, 1.0, -1.0] + rng.normal(size=30) > 0.0, 1.0, -1.0)
    factors, u = np.array([1.0, 1e-3, 1e4]), np.array([0.1, 0.5, -0.5])
    moved = x * factors + np.array([0.0, 7.0, 0.0])
    plain = Evidence.of_rows("logistic", x, y, constant=0)
    scaled = Evidence.of_rows("logistic", x * factors, y, constant=0)
    for a, b in zip(plain.units(), scaled.units(), strict=True):
        assert a.norm(u) == pytest.approx(b.norm(u / factors))
    assert plain.best_loss(u).lower_bound == pytest.approx(scaled.best_loss(u / factors).lower_bound)
    centred = Evidence.of_rows("logistic", moved, y, constant=0).units()[0]
    same = u / factors
    same[0] -= 7.0 * same[1]
    assert centred.norm(same) == pytest.approx(plain.units()[0].norm(u))


def test_a_feature_in_theta_that_no_row_has_proves_nothing():
    units = Units.of_features(np.array([1.0, 0.0]), 1.0)
    assert units.dual_norm(np.array([1.0, 1e-30])) == math.inf
    assert units.norm(np.array([1.0, 1e30])) == 1.0


@given(seed=seeds, radius=st.floats(0.01, 10.0), ridge=st.sampled_from([0.0, 0.5]))
def test_a_newton_step_is_the_best_within_the_ball(seed, radius, ridge):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(4, int(rng.integers(0, 6))))
    hessian, g, z = half @ half.T, rng.normal(size=4), rng.normal(size=4)
    z *= radius * rng.random() / np.linalg.norm(z)
    best = z + newton_step(hessian, g, z, radius, ridge)
    assert np.linalg.norm(best) <= radius * (1.0 + 1e-6)

    def model(v):
        return g @ (v - z) + 0.5 * (v - z) @ (hessian + ridge * np.eye(4)) @ (v - z)

    for _ in range(20):
        v = rng.normal(size=4)
        v *= radius * rng.random() / np.linalg.norm(v)
        assert model(best) <= model(v) + 1e-6 * (1.0 + abs(model(v)))


@given(norm=st.floats(0.0, 1e3), radius=st.floats(0.0, 1e3), ridge=st.floats(0.0, 1e3), share=st.floats(0.0, 1.0))
def test_price_is_the_largest_gain(norm, radius, ridge, share):
    length = share * radius
    assert norm * length - 0.5 * ridge * length**2 <= price(norm, radius, ridge) * (1.0 + 1e-12) + 1e-300


WORDS = {"rows": 581012, "rows_kept": 77000, "units": "scaled features", "radius": 9.0, "solver": ""}


def test_words_when_rows_were_dropped():
    best = BestLoss(0.511 * 581012, 0.5142 * 581012, 581012.0, scale=1.0, **WORDS)
    assert best.in_words() == (
        "average loss 0.5142. Lower bound: no linear model with a weight norm up to this one's (scaled features) has "
        "an average loss below 0.511 on these examples. 77,000 of 581,012 examples were stored."
    )
    assert "up to 10 times this one's" in BestLoss(1.0, 2.0, 1.0, scale=10.0, **WORDS).in_words()
    assert "with a weight norm of 9 or less" in BestLoss(1.0, 2.0, 1.0, **WORDS).in_words()


def test_words_when_the_run_beat_every_model():
    best = BestLoss(0.2145 * 581012, 0.1677 * 581012, 581012.0, scale=1.0, **WORDS)
    assert best.regret < 0.0
    assert "This run beat every fixed linear model of that size" in best.in_words()


def test_words_of_a_ridge_name_the_penalty():
    words = BestLoss(1.0, 2.0, 1.0, ridge=3.0, **WORDS).in_words()
    assert "an average loss plus 3/2 times its squared norm" in words


def test_moments_do_not_depend_on_batches():
    rng = np.random.default_rng(0)
    x, y, h = rng.normal(size=(40, 3)) + 1e3, rng.normal(size=40) + 1e3, rng.random(40)
    x[:, 2] = 1.0
    once, often = Moments.empty(3, 2).add(x, y, h), Moments.empty(3, 2)
    for i in range(0, 40, 7):
        often = often.add(x[i : i + 7], y[i : i + 7], h[i : i + 7])
    assert often.rows == 40
    for name in ("weight", "mean", "label_mean", "scatter", "cross", "label_scatter", "squares", "label_squares"):
        np.testing.assert_allclose(getattr(often, name), getattr(once, name), rtol=1e-9, atol=1e-9)
    assert once.add(x[:0], y[:0]) is once
