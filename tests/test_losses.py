"""The laws of a loss: every member that discovery finds obeys them."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from giftrl import losses
from giftrl.errors import InvalidInput
from giftrl.ops.loss import accepts, conjugate, curvature, flow, infimum, labels, prox, slope, smoothness, value
from giftrl.ops.scalar import clamp
from tests.loss_laws import (
    LOSSES,
    clear_of_corners,
    corners,
    domain,
    domain_strategy,
    each_loss,
    extreme,
    half,
    near,
    powers,
)
from tests.members import label_for, label_strategy


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
@pytest.mark.parametrize("target", [0.0, 1.0, -1.0])
def test_slope_on_a_corner_is_the_subgradient_of_least_magnitude(loss, target):
    y = label_for(loss, target)
    for corner in corners(loss, y):
        left, right = slope(loss, math.nextafter(corner, -10.0), y), slope(loss, math.nextafter(corner, 10.0), y)
        assert slope(loss, corner, y) == pytest.approx(clamp(0.0, left, right), abs=1e-15)
        if right - left > 1e-3:  # phi itself has a kink
            assert slope(loss, corner, y) == 0.0
            assert curvature(loss, corner, y) == 0.0


@each_loss
def test_smoothness_is_the_largest_curvature(loss):
    if smoothness(loss) < math.inf:
        y = label_for(loss, 0.0)
        largest = max(curvature(loss, 0.01 * k, y) for k in range(-500, 500))
        assert smoothness(loss) == pytest.approx(largest, rel=1e-15)


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
