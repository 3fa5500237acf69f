"""The bound on the best loss in exact arithmetic: rounding never lifts it above the loss of a model of the ball."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from giftrl import losses
from giftrl.certificates import Evidence, Moments
from giftrl.certificates.problem import Problem, ScaledRows
from giftrl.certificates.solver import solve
from tests.best_losses import EVERY, any_model, make

pytestmark = pytest.mark.plain
each_loss = pytest.mark.parametrize("loss", EVERY, ids=repr)
some = settings(max_examples=max(5, settings.default.max_examples // 5))
seeds = st.integers(0, 10**6)
exponents = st.floats(-2.0, 2.0)


def solved(case, units, radius):
    """The model that the solver reaches, which is nearly the best one."""
    rows = ScaledRows(case.evidence.rows, units, case.evidence.theta)
    problem = Problem(case.loss, rows, case.evidence.examples.labels, case.h, case.zero()[rows.features], radius)
    z = case.zero()
    z[rows.features] = solve(problem, z[rows.features]).z
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
