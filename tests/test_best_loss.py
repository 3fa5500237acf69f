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
from giftrl.certificates import Evidence, Moments
from giftrl.certificates.solver import solve
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
    x = [[Fraction(float(v)) for v in row] for row in x]
    y, h = [Fraction(float(v)) for v in y], [Fraction(float(v)) for v in h]
    d, n = len(x[0]), len(x)
    table = [[sum(h[t] * x[t][i] * x[t][j] for t in range(n)) for j in range(d)] for i in range(d)]
    right = [sum(h[t] * x[t][i] * y[t] for t in range(n)) for i in range(d)]
    left = sum(h[t] * y[t] ** 2 for t in range(n))
    for i in range(d):
        if table[i][i] == 0:
            continue  # then the rest of this row and its right side are 0 too, and the weight may be 0
        left -= right[i] ** 2 / table[i][i]
        for k in range(i + 1, d):
            factor = table[k][i] / table[i][i]
            table[k] = [a - factor * b for a, b in zip(table[k], table[i], strict=True)]
            right[k] -= factor * right[i]
    model = [Fraction(0)] * d
    for i in reversed(range(d)):
        if table[i][i] != 0:
            model[i] = (right[i] - sum(table[i][j] * model[j] for j in range(i + 1, d))) / table[i][i]
    return left / 2, np.array([float(v) for v in model])


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
