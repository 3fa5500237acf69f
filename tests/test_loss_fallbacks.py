"""A loss that brings its value and its slope alone has everything else from the fallbacks."""

import math
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from giftrl import losses
from giftrl.ops.loss import accepts, conjugate, curvature, flow, prox, slope, value
from tests.loss_laws import clear_of_corners, domain, each_loss, extreme, half, near, powers, quarter
from tests.members import label_for, label_strategy
from tests.oracles import exact_prox


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


@each_loss
@quarter
@given(p=extreme, target=extreme, a=extreme, c=extreme.map(abs))
def test_no_fallback_is_nan_and_none_raises(loss, p, target, a, c):
    bare, y = Bare(loss), label_for(loss, target)
    numbers = prox(bare, p, y, c), flow(bare, p, y, c), curvature(bare, p, y), conjugate(bare, a, y)
    assert not any(math.isnan(number) for number in numbers)


def test_a_loss_without_an_oracle_is_told_where_to_add_one():
    with pytest.raises(AssertionError, match="Bare has no oracle: describe it in FORMULAS"):
        exact_prox(Bare(losses.Hinge()), 0.0, 1.0, 1.0)
