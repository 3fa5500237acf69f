"""Exponential and logarithm by hand, against mpmath."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from giftrl.compiled import compiler
from giftrl.compiled.registry import TWINS, formula
from giftrl.mixtures.feature_state import round_compiled, rounded
from giftrl.ops import elementary, scalar

ULP = 2.0**-52


def relative_error(found: float, exact: mpf) -> float:
    return float(abs(mpf(float(found)) - exact) / abs(exact)) if exact else abs(found)


@pytest.mark.parametrize(
    ("function", "exact", "units", "numbers"),
    [
        (elementary.exp_minus, lambda x: mp.exp(-x), 2, st.floats(0.0, 707.9)),
        (elementary.exp_small, mp.exp, 2, st.floats(-0.5 * math.log(2.0), 0.5 * math.log(2.0))),
        (elementary.log1p_unit, mp.log1p, 3, st.floats(-0.5, 1.0) | st.floats(-300.0, 0.0).map(lambda e: 10.0**e)),
    ],
)
@given(data=st.data())
def test_functions_are_right_to_two_or_three_units_in_the_last_place(function, exact, units, numbers, data):
    x = data.draw(numbers)
    with mp.workdps(400):
        assert relative_error(function(x), exact(mpf(x))) <= units * ULP


@given(st.one_of(st.floats(0.5, 2.0), st.floats(-299.0, 308.2).map(lambda e: 10.0**e)))
def test_log(x):
    with mp.workdps(40):
        exact = mp.log(mpf(x))
        assert abs(float(mpf(float(elementary.log(x))) - exact)) <= 3 * ULP * max(abs(float(exact)), abs(x - 1.0))


@given(st.one_of(st.floats(0.5, 2.0), st.floats(-299.0, 300.0).map(lambda e: 10.0**e)))
def test_rough_log(x):
    assert abs(elementary.rough_log(x) - math.log(x)) <= 6e-4


def test_ends():
    assert elementary.exp_minus(0.0) == 1.0
    assert elementary.exp_minus(1e308) == 0.0 == elementary.exp_minus(math.inf)
    assert elementary.log(0.0) == -math.inf
    assert elementary.log(1e-300) == pytest.approx(math.log(1e-300), rel=1e-15)  # conjugates take 0 log 1e-300 for 0
    assert elementary.log(1.0) == 0.0
    assert math.isnan(elementary.exp_minus(math.nan)) or elementary.exp_minus(math.nan) == 0.0


@formula
def run_all(x, out):
    for i in range(len(x)):
        out[0, i] = scalar.exp_minus(x[i])
        out[1, i] = scalar.log1p_unit(min(1.0, x[i]))
        out[2, i] = scalar.log(x[i])
        out[3, i] = scalar.exp_small(min(0.3, x[i]))
    return 0


def test_compiled_code_takes_the_twin_and_plain_python_the_library():
    x = np.concatenate([[0.0], np.logspace(-12, 2.8, 500)])
    compiled, plain = np.empty((4, len(x))), np.empty((4, len(x)))
    compiler.ready(run_all)(x, compiled)
    compiler.ready(run_all, compiled=False)(x, plain)
    np.testing.assert_allclose(compiled, plain, rtol=5e-16, atol=1e-300)
    twin = np.array(
        [[TWINS[scalar.exp_minus](v), TWINS[scalar.log1p_unit](min(1.0, v)), TWINS[scalar.log](v)] for v in x]
    )
    np.testing.assert_allclose(compiled[:3], twin.T, rtol=3e-16)
    assert (compiled != plain).any()


@pytest.mark.parametrize("function", TWINS, ids=lambda f: f.__name__)
def test_every_twin_is_tested_here(function):
    tested = scalar.exp_minus, scalar.exp_small, scalar.log1p_unit, scalar.log, rounded
    assert function in tested


@pytest.mark.parametrize("v", [0.1, -3e38, 3.5e38, -1e300, 1e-50, math.inf])
def test_rounded_numbers_may_be_infinite_and_nobody_warns(v):
    x = np.zeros(1, np.float32)
    with np.errstate(all="ignore"):
        expected = np.float32(v)
        assert round_compiled(x, v) == expected
    assert rounded(x, v) == expected and rounded(np.zeros(1), v) == v
