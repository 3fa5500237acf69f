"""The bound on the best loss: never above the optimum, also in exact arithmetic, and equal to it with all rows."""

import math
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf
from scipy.optimize import minimize

from giftrl import losses
from giftrl.certificates import BestLoss, Evidence, Moments, Units
from giftrl.certificates.bound import price
from giftrl.certificates.solver import newton_step, solve
from tests.best_losses import EVERY, any_model, make

pytestmark = pytest.mark.plain
each_loss = pytest.mark.parametrize("loss", EVERY, ids=repr)
few = settings(max_examples=max(4, settings.default.max_examples // 10))
seeds = st.integers(0, 10**6)
radii = st.floats(-1.0, 1.0).map(lambda exponent: 10.0**exponent)


def below(bound, total):
    """Whether a bound is not above a loss that was computed in floating point."""
    return bound <= total + 1e-13 * abs(total) + 1e-300


@each_loss
@few
@given(seed=seeds, constant=st.booleans(), radius=radii, n=st.integers(1, 14), d=st.integers(1, 4))
def test_with_all_rows_the_bound_is_the_optimum(loss, seed, constant, radius, n, d):
    case = make(loss, seed, n, d, constant)
    for units in case.evidence.units():
        best = case.evidence.within(units, radius)
        optimum, _ = case.best(units, radius)
        assert below(best.lower_bound, optimum)
        assert best.lower_bound >= optimum - 1e-6 * max(abs(optimum), 1e-2 * case.total(case.zero()))


@each_loss
@few
@given(seed=seeds, share=st.floats(0.0, 1.0), steps=st.integers(0, 5), radius=radii)
def test_committed_rows_and_early_stops_only_lower_the_bound(loss, seed, share, steps, radius):
    case = make(loss, seed)
    gone = case.rng.random(len(case.y)) < share
    kept = case.evidence.commit(gone, case.slopes_at(any_model(case, case.evidence.units()[0], radius))[gone])
    assert (kept.committed, len(kept.examples.labels)) == (gone.sum(), (~gone).sum())
    for units in kept.units():
        optimum, model = case.best(units, radius)
        for limit in (steps, 1000):
            best = kept.within(units, radius, steps=limit)
            assert below(best.lower_bound, optimum)
            assert best.rows == len(case.y) and best.rows_kept == (~gone).sum()
        for u in (model, any_model(case, units, radius)):
            assert below(best.lower_bound, case.total(u))


@each_loss
@few
@given(seed=seeds, radius=radii)
def test_committing_with_the_duals_of_the_optimum_loses_nothing(loss, seed, radius):
    case = make(loss, seed)
    units = case.evidence.units()[0]
    problem = case.evidence.problem(units, radius)
    duals = solve(problem, np.zeros_like(problem.theta)).duals
    half = np.arange(len(case.y)) % 2 == 0
    best, partly = case.evidence.within(units, radius), case.evidence.commit(half, duals[half]).within(units, radius)
    scale = abs(best.lower_bound) + case.total(case.zero())
    assert partly.lower_bound == pytest.approx(best.lower_bound, rel=1e-6, abs=1e-6 * scale)


@each_loss
@few
@given(seed=seeds, mu=radii)
def test_ridge_is_a_bound_for_every_model(loss, seed, mu):
    case = make(loss, seed)
    for units in case.evidence.units():
        best = case.evidence.within(units, math.inf, mu)
        found = [any_model(case, units, radius) for radius in (0.1, 1.0, 10.0)]
        for u in [*found, case.zero()]:
            assert below(best.lower_bound, case.total(u) + 0.5 * mu * units.norm(u) ** 2)
    assert case.evidence.ridge(mu).lower_bound >= best.lower_bound - 1e-6 * abs(best.lower_bound)


@each_loss
def test_a_ridge_and_the_ball_of_its_solution_agree(loss):
    case = make(loss, 5)
    units = case.evidence.units()[0]
    ball = case.evidence.within(units, 0.1)
    # The least loss plus penalty is not above that of the best model in any ball.
    assert case.evidence.within(units, math.inf, 3.0).lower_bound <= ball.lower_bound + 1.5 * 0.1**2 + 1e-6
    both = case.evidence.within(units, 0.1, 3.0).lower_bound
    assert ball.lower_bound - 1e-6 <= both <= ball.lower_bound + 1.5 * 0.1**2 + 1e-6


@each_loss
def test_a_larger_ball_has_a_lower_bound(loss):
    case = make(loss, 1)
    model = any_model(case, case.evidence.units()[0], 0.3)
    bounds = [case.evidence.best_loss(model, scale).lower_bound for scale in (0.0, 0.5, 1.0, 10.0)]
    assert bounds[0] == pytest.approx(case.total(case.zero()), rel=1e-9)
    assert all(larger >= smaller - 1e-7 * abs(larger) for larger, smaller in pairwise(bounds))


@each_loss
def test_no_bound_is_below_the_infimum(loss):
    case = make(loss, 2)
    kept = case.evidence.commit(np.full(len(case.y), True), case.slopes_at(case.zero()))
    best = kept.within(kept.units()[0], 1e6)
    assert best.lower_bound == best.least == pytest.approx(case.evidence.least)
    assert "Too few examples were stored for a lower bound" in best.in_words()


@each_loss
def test_a_time_limit_of_nothing_still_gives_a_bound(loss):
    case = make(loss, 3)
    best = case.evidence.best_loss(any_model(case, case.evidence.units()[0], 1.0), time_limit=0.0)
    assert math.isfinite(best.lower_bound)
    assert best.lower_bound <= case.evidence.best_loss(case.zero(), 0.0).lower_bound


class Bowl(NamedTuple):
    """A loss of a user who knows its values and slopes only."""

    def value(self, p, y):
        return (p - y) ** 4 / 4.0

    def slope(self, p, y):
        return (p - y) ** 3


def test_a_loss_with_values_and_slopes_only():
    case = make(Bowl(), 6)
    for units in case.evidence.units():
        best, start = case.evidence.within(units, 0.5), case.zero()
        ball = {"type": "ineq", "fun": lambda z: 0.25 - z @ z}
        found = minimize(lambda z, units=units: case.total(units.model(z)), start, constraints=ball, method="SLSQP")
        assert best.least == -math.inf
        assert best.lower_bound == pytest.approx(found.fun, rel=1e-4)


def test_duals_outside_the_domain_are_refused():
    case = make(EVERY[0], 4)
    with pytest.raises(ValueError, match="domain of the conjugate"):
        case.evidence.commit([0], [7.0])


some = settings(max_examples=max(5, settings.default.max_examples // 5))
exponents = st.floats(-2.0, 2.0)


def solved(case, units, radius):
    """The model that the solver reaches, which is nearly the best one."""
    problem, z = case.evidence.problem(units, radius), case.zero()
    z[problem.rows.features] = solve(problem, z[problem.rows.features]).z
    return units.model(z)


@each_loss
@some
@given(seed=seeds, orders=st.sampled_from([0.0, 2.0, 8.0]), exponent=exponents, constant=st.booleans())
def test_no_rounding_lifts_the_bound_above_the_loss_of_a_model(loss, seed, orders, exponent, constant):
    case = make(loss, seed, orders=orders, constant=constant)
    for units in case.evidence.units():
        # Where labels are large, so are the models that matter.
        unit = 1.0 if case.classes else max(1e-9, float(np.abs(case.y).max()))
        radius = 10.0**exponent * unit
        if isinstance(loss, losses.Poisson):
            radius = min(radius, 30.0)
        best = case.evidence.within(units, radius, steps=50)
        for u in (solved(case, units, radius), any_model(case, units, radius)):
            assert mpf(best.lower_bound) <= case.exact(u, units, radius)


def least_squares(x, y, h):
    """The least squared loss of any model at all, and a model that has it, exactly: by elimination in fractions."""
    x, y, h = (np.vectorize(Fraction, otypes=[object])(np.asarray(each, float)) for each in (x, y, h))
    d, table, right, left = x.shape[1], (x.T * h) @ x, (x.T * h) @ y, (h * y) @ y
    for i in range(d):
        if table[i][i] == 0:
            continue  # then the rest of this row and its right side are 0 too, and the weight may be 0
        left -= right[i] ** 2 / table[i][i]
        for k in range(i + 1, d):
            factor = table[k][i] / table[i][i]
            table[k], right[k] = table[k] - factor * table[i], right[k] - factor * right[i]
    model = np.zeros(d, dtype=object)
    for i in reversed(range(d)):
        if table[i][i] != 0:
            model[i] = (right[i] - table[i] @ model) / table[i][i]
    return left / 2, model.astype(float)


@settings(max_examples=settings.default.max_examples * 2)
@given(
    seed=seeds,
    orders=st.sampled_from([0.0, 2.0, 8.0]),
    offset=st.sampled_from([0.0, 1e3, 1e8]),
    n=st.integers(1, 20),
    batches=st.integers(1, 4),
)
def test_squared_loss_against_fractions(seed, orders, offset, n, batches):
    case = make(losses.Squared(), seed, n, 3, orders=orders)
    x, y, h = case.x, case.y + offset * np.abs(case.y).max(), case.h
    kept = Evidence.of_rows("squared", x, y, h, constant=case.evidence.constant)
    moments = Moments.empty(x.shape[1], kept.constant)
    for part in np.array_split(np.arange(n), batches):
        moments = moments.add(x[part], y[part], h[part])
    optimum, model = least_squares(x, y, h)
    for units in kept.units():
        radius = 1.001 * units.norm(model)
        rows, sums = kept.within(units, radius).lower_bound, moments.lower_bound(units, radius)
        assert max(rows, sums) <= optimum
        if offset == 0.0:
            assert min(rows, sums) >= float(optimum) - 1e-6 * float(h @ (y * y))


# Units, the words of a bound, and the quadratic problems of the solver.


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


def test_words_of_a_bound():
    best = BestLoss(0.511 * 581012, 0.5142 * 581012, 581012.0, scale=1.0, **WORDS)
    assert best.in_words() == (
        "average loss 0.5142. Lower bound: no linear model with a weight norm up to this one's (scaled features) has "
        "an average loss below 0.511 on these examples. 77,000 of 581,012 examples were stored."
    )
    beaten = BestLoss(0.2145 * 581012, 0.1677 * 581012, 581012.0, scale=1.0, **WORDS)
    assert beaten.regret < 0.0 and "This run beat every fixed linear model of that size" in beaten.in_words()
    for more, words in (
        ({"scale": 10.0}, "up to 10 times this one's"),
        ({}, "with a weight norm of 9 or less"),
        ({"ridge": 3.0}, "an average loss plus 3/2 times its squared norm"),
    ):
        assert words in BestLoss(1.0, 2.0, 1.0, **more, **WORDS).in_words()
