"""The laws of a loss: every member that discovery finds obeys them, and so do the fallbacks in its place."""

import math
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from giftrl import losses
from giftrl.errors import InvalidInput, UnknownName
from giftrl.ops.loss import (
    accepts,
    conjugate,
    curvature,
    flow,
    infimum,
    labels,
    land,
    land_all,
    prox,
    slope,
    smoothness,
    value,
)
from giftrl.ops.scalar import clamp
from tests.members import label_for, label_strategy, members
from tests.oracles import DIGITS, exact_flow, exact_prox, formulas

LOSSES = members("loss")
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
half = settings(max_examples=settings.default.max_examples // 2)
quarter = settings(max_examples=settings.default.max_examples // 4)


def powers(low: float, high: float) -> st.SearchStrategy[float]:
    """Positive numbers, spread evenly over their orders of magnitude."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


def signed(sizes: st.SearchStrategy[float]) -> st.SearchStrategy[float]:
    """Numbers of these sizes and either sign, and 0."""
    return st.one_of(st.just(0.0), sizes, sizes.map(lambda size: -size))


near = st.floats(-20.0, 20.0)
wide = st.one_of(st.floats(-700.0, 700.0), signed(powers(-300.0, 300.0)))
extreme = signed(st.one_of(st.sampled_from([1e-300, 1e300]), powers(-300.0, 300.0)))


def corners(loss: Any, y: float) -> list[float]:
    """Where phi or its slope is not differentiable, as far as float64 has these points exactly."""
    with mp.workdps(DIGITS):
        return [float(corner) for corner in formulas(loss).corners(loss, mpf(y)) if float(corner) == corner]


def clear_of_corners(loss: Any, p: float, y: float, distance: float) -> bool:
    return all(abs(p - corner) > distance for corner in formulas(loss).corners(loss, mpf(y)))


def domain(loss: Any, y: float) -> tuple[float, float]:
    """The ends of the domain of phi*."""
    low, high = formulas(loss).domain(loss, mpf(y))
    return float(low), float(high)


def domain_strategy(loss: Any, y: float) -> st.SearchStrategy[float]:
    low, high = domain(loss, y)
    return st.floats(max(low, -1e3), min(high, 1e3))


# Derivatives ---------------------------------------------------------------------------------------------------------


@each_loss
@half
@given(p=near, data=st.data())
def test_slope_is_the_derivative_of_the_value(loss, p, data):
    y = data.draw(label_strategy(loss, 20.0))
    e = 1e-5
    assume(clear_of_corners(loss, p, y, 2.0 * e))
    difference = (value(loss, p + e, y) - value(loss, p - e, y)) / (2.0 * e)
    # The central difference is off by e^2 phi'''/6 <= 2e-11 phi''', its rounding by about 1e-16 phi / e.
    assert difference == pytest.approx(slope(loss, p, y), rel=1e-9, abs=1e-9 * (1.0 + abs(value(loss, p, y))))


@each_loss
@half
@given(p=near, data=st.data())
def test_curvature_is_the_derivative_of_the_slope(loss, p, data):
    y = data.draw(label_strategy(loss, 20.0))
    e = 1e-5
    assume(clear_of_corners(loss, p, y, 2.0 * e))
    difference = (slope(loss, p + e, y) - slope(loss, p - e, y)) / (2.0 * e)
    assert curvature(loss, p, y) == pytest.approx(difference, rel=1e-9, abs=1e-9 * (1.0 + abs(slope(loss, p, y))))


@each_loss
@half
@given(p=near, q=near, data=st.data())
def test_slope_is_a_subgradient(loss, p, q, data):
    y = data.draw(label_strategy(loss, 20.0))
    at_p, at_q, rise = value(loss, p, y), value(loss, q, y), slope(loss, p, y) * (q - p)
    assert at_q >= at_p + rise - 1e-14 * (abs(at_p) + abs(at_q) + abs(rise))


@each_loss
@pytest.mark.parametrize("target", [0.0, 1.0, -1.0])
def test_slope_on_a_corner_is_the_subgradient_of_least_magnitude(loss, target):
    y = label_for(loss, target)
    for corner in corners(loss, y):
        left, right = slope(loss, math.nextafter(corner, -10.0), y), slope(loss, math.nextafter(corner, 10.0), y)
        assert slope(loss, corner, y) == pytest.approx(clamp(0.0, left, right), abs=1e-15)
        if right - left > 1e-3:  # phi itself has a kink
            assert slope(loss, corner, y) == 0.0
            assert curvature(loss, corner, y) == 0.0


@pytest.mark.parametrize("loss", [losses.Absolute(), losses.Hinge(), losses.Quantile(0.9)], ids=repr)
def test_kinked_losses_have_the_corners_that_the_last_test_needs(loss):
    y = label_for(loss, 0.0)
    (corner,) = corners(loss, y)
    assert slope(loss, corner - 1.0, y) < slope(loss, corner + 1.0, y)


@each_loss
def test_smoothness_is_the_largest_curvature(loss):
    if smoothness(loss) < math.inf:
        y = label_for(loss, 0.0)
        largest = max(curvature(loss, 0.01 * k, y) for k in range(-500, 500))
        assert smoothness(loss) == pytest.approx(largest, rel=1e-15)


# The conjugate -------------------------------------------------------------------------------------------------------


@each_loss
@half
@given(p=near, data=st.data())
def test_fenchel_young(loss, p, data):
    y = data.draw(label_strategy(loss, 20.0))
    a = data.draw(domain_strategy(loss, y))
    gap = value(loss, p, y) + conjugate(loss, a, y) - a * p
    assert gap >= -1e-13 * (value(loss, p, y) + abs(conjugate(loss, a, y)) + abs(a * p))


@each_loss
@half
@given(p=near, data=st.data())
def test_fenchel_young_is_an_equality_at_the_slope(loss, p, data):
    y = data.draw(label_strategy(loss, 20.0))
    g = slope(loss, p, y)
    terms = value(loss, p, y), conjugate(loss, g, y), -g * p
    # Poisson rounds phi* by up to an ulp of y times its derivative, at most 20.
    assert sum(terms) == pytest.approx(0.0, abs=1e-13 * sum(abs(term) for term in terms) + 1e-14 * abs(y))


@each_loss
@half
@given(outside=powers(-9.0, 3.0), data=st.data())
def test_conjugate_is_finite_on_its_domain_and_infinite_outside(loss, outside, data):
    y = data.draw(label_strategy(loss, 20.0))
    low, high = domain(loss, y)
    assert conjugate(loss, low - outside, y) == math.inf or low == -math.inf
    assert conjugate(loss, high + outside, y) == math.inf or high == math.inf
    assert all(math.isfinite(conjugate(loss, end, y)) for end in (low, high) if math.isfinite(end))


@each_loss
@half
@given(data=st.data())
def test_infimum_is_minus_the_conjugate_at_zero(loss, data):
    y = data.draw(label_strategy(loss))
    assert infimum(loss, y) == pytest.approx(-conjugate(loss, 0.0, y), rel=1e-15, abs=0.0)


@each_loss
@half
@given(p=st.floats(-500.0, 500.0), data=st.data())
def test_infimum_is_never_above_the_value_and_is_approached(loss, p, data):
    y = data.draw(label_strategy(loss))
    lowest = infimum(loss, y)
    assert lowest <= value(loss, p, y) + 1e-13 * abs(lowest)
    low, high = -4e3, 4e3
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(loss, middle, y) < 0.0 else (low, middle)
    assert value(loss, high, y) == pytest.approx(lowest, rel=1e-13, abs=1e-12)


# The proximal and the importance-weight-aware slope ------------------------------------------------------------------


def tolerance(loss: Any, exact: Any, y: float, c: float) -> float:
    """1e-12 of the answer, or of larger terms whose difference it is, as in exp(u) - y; and the smallest floats."""
    return 1e-12 * max(abs(float(exact)), formulas(loss).terms(loss, y, c)) + sys.float_info.min


@each_loss
@half
@given(p=wide, c=powers(-20.0, 20.0), from_label=st.booleans(), data=st.data())
def test_prox_is_exact(loss, p, c, from_label, data):
    y = data.draw(label_strategy(loss))
    p = y + p if from_label else p
    exact = exact_prox(loss, p, y, c)
    assert abs(prox(loss, p, y, c) - exact) <= tolerance(loss, exact, y, c)


@each_loss
@quarter
@given(p=st.floats(-100.0, 100.0), c=powers(-10.0, 10.0), data=st.data())
def test_flow_is_exact(loss, p, c, data):
    y = data.draw(label_strategy(loss, 100.0))
    exact = exact_flow(loss, p, y, c)
    assert abs(flow(loss, p, y, c) - exact) <= tolerance(loss, exact, y, c)


@each_loss
@half
@given(p=wide, c=powers(-20.0, 20.0), data=st.data())
def test_flow_lies_between_prox_and_slope(loss, p, c, data):
    y = data.draw(label_strategy(loss))
    a, b, g = prox(loss, p, y, c), flow(loss, p, y, c), slope(loss, p, y)
    assume(math.isfinite(a))
    slack = tolerance(loss, b, y, c)
    assert min(a, g) - slack <= b <= max(a, g) + slack


@each_loss
@quarter
@given(seed=st.integers(0, 1000))
def test_rounding_never_leaves_the_domain_of_the_conjugate(loss, seed):
    # Outside it phi* is infinite, and so would be every certificate from then on. Random digits round in every way.
    rng = np.random.default_rng(seed)
    for p, target, magnitude in rng.uniform((-100.0, -20.0, -3.0), (20.0, 20.0, 3.0), (20, 3)).tolist():
        y, c = label_for(loss, target), 10.0**magnitude
        for a in (slope(loss, p, y), prox(loss, p, y, c), flow(loss, p, y, c)):
            assert conjugate(loss, a, y) < math.inf


@each_loss
@half
@given(p=near, c=powers(-3.0, 3.0), data=st.data())
def test_flow_composes(loss, p, c, data):
    y = data.draw(label_strategy(loss, 20.0))
    first = flow(loss, p, y, 0.5 * c)
    second = flow(loss, p - 0.5 * c * first, y, 0.5 * c)
    # The point between the halves is rounded, by 1e-16 of p or of y, and a move is c times a mean slope.
    slack = 1e-12 * abs(first) + 1e-14 * (abs(p) + abs(y)) / c
    assert 0.5 * (first + second) == pytest.approx(flow(loss, p, y, c), abs=slack)


@each_loss
@half
@given(p=near, data=st.data())
def test_a_step_of_length_zero_takes_the_slope(loss, p, data):
    y = data.draw(label_strategy(loss, 20.0))
    assert prox(loss, p, y, 0.0) == flow(loss, p, y, 0.0) == slope(loss, p, y)


# The fallbacks -------------------------------------------------------------------------------------------------------


class Bare(NamedTuple):
    """A loss that brings nothing but the value and the slope of another."""

    loss: Any

    def value(self, p: float, y: float) -> float:
        return value(self.loss, p, y)

    def slope(self, p: float, y: float) -> float:
        return slope(self.loss, p, y)

    def accepts(self, y: float) -> bool:
        return accepts(self.loss, y)


@each_loss
@half
@given(p=near, c=powers(-3.0, 3.0), data=st.data())
def test_fallback_prox(loss, p, c, data):
    y = data.draw(label_strategy(loss, 20.0))
    # Near a kink p - a c is rounded by 1e-16 p; and no search from the outside finds a kink that is 1e-100 away.
    slack = 1e-15 * (abs(p) + abs(y)) / c + 1e-100
    assert prox(Bare(loss), p, y, c) == pytest.approx(prox(loss, p, y, c), rel=1e-9, abs=slack)


@each_loss
@quarter
@given(p=near, c=powers(-3.0, 3.0), data=st.data())
def test_fallback_flow(loss, p, c, data):
    y = data.draw(label_strategy(loss, 20.0))
    assert flow(Bare(loss), p, y, c) == pytest.approx(flow(loss, p, y, c), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("beyond", [0.01, 0.5, 0.9])
def test_fallback_flow_sees_a_corner_on_the_way(beyond):
    # The residual falls with slope 1 as far as 1 + beyond; only then begins the last eighth of the time.
    step = 8.0 + beyond, 0.0, 8.0
    assert flow(Bare(losses.Huber(1.0)), *step) == pytest.approx(flow(losses.Huber(1.0), *step), rel=1e-4)


@each_loss
@half
@given(p=near, data=st.data())
def test_fallback_curvature(loss, p, data):
    y = data.draw(label_strategy(loss, 20.0))
    assume(clear_of_corners(loss, p, y, 1e-3))
    # The same errors as above, with a step of 1e-5 max(1, abs(p)).
    slack = 1e-10 * (1.0 + abs(slope(loss, p, y)))
    assert curvature(Bare(loss), p, y) == pytest.approx(curvature(loss, p, y), rel=1e-7, abs=slack)


@each_loss
@quarter
@given(p=near, share=st.floats(0.0, 1.0), data=st.data())
def test_fallback_conjugate(loss, p, share, data):
    y = data.draw(label_strategy(loss, 20.0))
    a = share * slope(loss, p, y)  # in the domain, as 0 and the slope are
    assert conjugate(Bare(loss), a, y) == pytest.approx(conjugate(loss, a, y), rel=1e-6, abs=1e-9)


@each_loss
@quarter
@given(outside=powers(-6.0, 3.0), data=st.data())
def test_fallback_conjugate_outside_its_domain(loss, outside, data):
    y = data.draw(label_strategy(loss, 20.0))
    low, high = domain(loss, y)
    assert conjugate(Bare(loss), low - outside, y) == math.inf or low == -math.inf
    assert conjugate(Bare(loss), high + outside, y) == math.inf or high == math.inf


def test_a_loss_without_an_oracle_is_told_where_to_add_one():
    with pytest.raises(AssertionError, match="Bare has no oracle: describe it in FORMULAS"):
        exact_prox(Bare(losses.Hinge()), 0.0, 1.0, 1.0)


# The ends of float64 -------------------------------------------------------------------------------------------------


@each_loss
@given(p=extreme, target=extreme, a=extreme, c=extreme.map(abs))
def test_nothing_is_nan_and_nothing_raises(loss, p, target, a, c):
    y = label_for(loss, target)
    g, proximal, aware = slope(loss, p, y), prox(loss, p, y, c), flow(loss, p, y, c)
    others = value(loss, p, y), curvature(loss, p, y), conjugate(loss, a, y), infimum(loss, y)
    assert not any(math.isnan(number) for number in (g, proximal, aware, *others))
    if math.isfinite(g):
        assert math.isfinite(proximal)
        assert math.isfinite(aware)


@each_loss
@quarter
@given(p=extreme, target=extreme, a=extreme, c=extreme.map(abs))
def test_no_fallback_is_nan_and_none_raises(loss, p, target, a, c):
    bare, y = Bare(loss), label_for(loss, target)
    numbers = prox(bare, p, y, c), flow(bare, p, y, c), curvature(bare, p, y), conjugate(bare, a, y)
    assert not any(math.isnan(number) for number in numbers)


# Construction and labels ---------------------------------------------------------------------------------------------

WRONG = [
    (losses.Quantile, "tau", 0.0),
    (losses.Quantile, "tau", 1.0),
    (losses.Quantile, "tau", -0.5),
    (losses.Huber, "delta", 0.0),
    (losses.Huber, "delta", -1.0),
    (losses.Huber, "delta", math.inf),
    (losses.EpsilonInsensitive, "epsilon", -1.0),
    (losses.EpsilonInsensitive, "epsilon", math.inf),
    # Whatever the parameter, it is a number.
    *((type(loss), field, math.nan) for loss in LOSSES for field in loss._fields),
]


@pytest.mark.parametrize(("cls", "argument", "wrong"), WRONG)
def test_a_wrong_parameter_is_named(cls, argument, wrong):
    for make in (cls, cls()._replace):
        with pytest.raises(InvalidInput) as caught:
            make(**{argument: wrong})
        assert caught.value.argument == argument
        assert caught.value.value is wrong
        assert str(caught.value).startswith(f"{argument}={wrong!r}: ")
    assert cls()._replace() == cls()


@each_loss
def test_a_label_is_finite(loss):
    assert accepts(loss, label_for(loss, 1.0))
    assert not any(accepts(loss, y) for y in (math.nan, math.inf, -math.inf))
    assert labels(loss)


def test_labels_of_classes_and_counts():
    assert not any((accepts(losses.Hinge(), 0.0), accepts(losses.Poisson(), -1.0)))


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownName, match=r"^loss='logistik': .* did you mean 'logistic'\?"):
        losses.get("logistik")


@pytest.mark.parametrize("name", losses.BY_NAME)
def test_a_known_name_makes_the_default(name):
    assert losses.get(name) == losses.BY_NAME[name]()


@each_loss
@given(data=st.data())
@quarter
def test_landing_is_the_proximal_step_and_what_is_known_of_its_point(loss, data):
    y = data.draw(label_strategy(loss))
    p, c = data.draw(near), data.draw(powers(-3.0, 3.0))
    a, phi_star, phi, bend = land(loss, p, y, c)
    assert a == pytest.approx(prox(loss, p, y, c), rel=1e-14)
    q = p - a * c
    assume(clear_of_corners(loss, q, y, 1e-9 * max(1.0, abs(p), c)))
    scale = max(1.0, abs(a * q), value(loss, q, y))
    assert phi_star == pytest.approx(conjugate(loss, a, y), abs=1e-12 * scale)
    assert phi == pytest.approx(value(loss, q, y), abs=1e-12 * scale)
    assert bend == pytest.approx(curvature(loss, q, y), rel=1e-9, abs=1e-12)


@each_loss
def test_landing_side_by_side_is_landing_one_by_one(loss):
    rng = np.random.default_rng(0)
    y = np.array([label_for(loss, target) for target in rng.normal(size=60)])
    p, c = rng.normal(0.0, 4.0, 60), 10.0 ** rng.uniform(-6, 6, 60)
    found, room = np.empty((4, 60)), np.empty((4, 60))
    land_all(loss, p, y, c, *found, room)
    expected = np.array([land(loss, *row) for row in zip(p, y, c, strict=True)]).T
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
