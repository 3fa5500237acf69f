"""The proximal and the importance-weight-aware slope of every loss: exact, and where they must be."""

import itertools
import math
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from giftrl.losses import Logistic
from giftrl.mixtures.experts import LOSS
from giftrl.ops.loss import (
    approach_all,
    bend_at,
    conjugate,
    curvature,
    flow,
    land,
    meet_all,
    prox,
    slope,
    value,
)
from tests.loss_laws import clear_of_corners, each_loss, half, near, powers, quarter, wide
from tests.members import label_for, label_strategy
from tests.mixture_twin import exact
from tests.mixtures import mixture, ordinary
from tests.oracles import exact_flow, exact_prox, formulas


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


@each_loss
@given(data=st.data())
@quarter
def test_landing_is_the_proximal_step_and_what_is_known_of_its_point(loss, data):
    y = data.draw(label_strategy(loss))
    p, c = data.draw(near), data.draw(powers(-3.0, 3.0))
    a, phi_star, phi, bend = land(loss, p, y, c, p)
    assert a == pytest.approx(prox(loss, p, y, c), rel=1e-14)
    q = p - a * c
    assume(clear_of_corners(loss, q, y, 1e-9 * max(1.0, abs(p), c)))
    scale = max(1.0, abs(a * q), value(loss, q, y))
    assert phi_star == pytest.approx(conjugate(loss, a, y), abs=1e-12 * scale)
    assert phi == pytest.approx(value(loss, q, y), abs=1e-12 * scale)
    assert bend == pytest.approx(curvature(loss, q, y), rel=1e-9, abs=1e-12)


@each_loss
@given(data=st.data(), away=st.sampled_from([0.0, 1e-6, 1e-3, 0.05, 0.4, 3.0]))
@quarter
def test_landing_does_not_depend_on_the_point_nearby(loss, data, away):
    y = data.draw(label_strategy(loss))
    p, c = data.draw(near), data.draw(powers(-8.0, 3.0))
    expected = land(loss, p, y, c, p)
    for other in (p - away, p + away):
        np.testing.assert_allclose(land(loss, p, y, c, other), expected, rtol=2e-12, atol=1e-13)


class Lanes(NamedTuple):
    """So many lanes, in plain Python."""

    count: int

    def lanes(self) -> int:
        return self.count


@each_loss
def test_values_and_slopes_side_by_side_are_those_one_by_one(loss):
    rng = np.random.default_rng(1)
    y = label_for(loss, float(rng.normal()))
    p = np.concatenate([rng.normal(0.0, 4.0, 10), [0.0, 100.0, -100.0]])
    found = np.empty((2, 13))
    meet_all(loss, Lanes(13), p, y, *found)
    expected = np.array([[value(loss, at, y), slope(loss, at, y)] for at in p]).T
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    bends = [[bend_at(loss, at, y, slope(loss, at, y)), curvature(loss, at, y)] for at in p]
    np.testing.assert_allclose(*np.transpose(bends), rtol=1e-9, atol=1e-16)


@each_loss
@pytest.mark.parametrize("farthest", [-2.0, 6.0])
def test_proximal_steps_side_by_side_are_those_one_by_one(loss, farthest):
    rng = np.random.default_rng(1)
    y = label_for(loss, float(rng.normal()))
    p, c = rng.normal(0.0, 4.0, 60), 10.0 ** rng.uniform(-6, farthest, 60)
    c[::7] = 0.0
    found, g = np.empty(60), np.array([slope(loss, start, y) for start in p])
    approach_all(loss, Lanes(60), p, y, c, g, found)
    expected = [prox(loss, start, y, length) for start, length in zip(p, c, strict=True)]
    near = {"rtol": 0.01, "atol": 1e-13} if isinstance(loss, Logistic) else {"rtol": 1e-11, "atol": 1e-13}
    np.testing.assert_allclose(found, expected, **near)


def test_logistic_steps_of_experts_are_nearly_proximal():
    """Each alone, so that it ends as soon as it may; the bound is the one that is stated beside CLOSE_STEP."""
    loss, one = Logistic(), Lanes(1)
    p, c, g, a = np.empty((4, 1))
    found = []
    for p[0], c[0] in itertools.product(np.linspace(-40.0, 40.0, 81), np.logspace(-12.0, 12.0, 73)):
        g[0] = slope(loss, p[0], 1.0)
        approach_all(loss, one, p, 1.0, c, g, a)
        found.append((a[0], prox(loss, p[0], 1.0, c[0])))
    near, expected = np.transpose(found)
    np.testing.assert_allclose(near, expected, rtol=0.01)
    assert 1e-4 < np.abs(near - expected).max() < 0.0011
    p[0], c[0] = -1e120, 1e15  # too far for float64: the steps end all the same
    g[0] = slope(loss, p[0], 1.0)
    approach_all(loss, one, p, 1.0, c, g, a)
    assert a[0] == -1.0


def test_steps_that_are_nearly_proximal_teach_as_well():
    """The logistic loss with its own steps, and with exact ones."""
    stream = ordinary(Logistic(), 300, 5, seed=3)
    near, far = mixture("logistic", 6), mixture(exact(Logistic()), 6)
    found, expected = (learner.learn(stream.x, stream.y) for learner in (near, far))
    assert 0.0 < np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
    assert near.mixing.sums[LOSS] == pytest.approx(far.mixing.sums[LOSS], rel=1e-3)
