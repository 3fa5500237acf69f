"""Domains: membership, Euclidean projection and support function of every member, against the definitions."""

import math
import re
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from giftrl.domains import Ball, Box, L1Ball, NonNegative, Simplex, WholeSpace
from giftrl.errors import InvalidInput
from tests.members import DIMENSION, members

over_domains = pytest.mark.parametrize("domain", members("domain"), ids=repr)

#: The tests below run once for each member, so each run needs fewer examples than a test that runs once.
few = settings(max_examples=max(1, settings.default.max_examples // 3))


def vectors(largest: float = 10.0) -> st.SearchStrategy[np.ndarray]:
    """Points of the space in which the members are tested."""
    return arrays(float, DIMENSION, elements=st.floats(-largest, largest))


def constraints(domain: Any, x: cp.Variable) -> list[Any]:
    """The domain as CVXPY writes it."""
    match domain:
        case WholeSpace():
            return []
        case Ball():
            return [cp.norm2(x) <= domain.radius]
        case L1Ball():
            return [cp.norm1(x) <= domain.radius]
        case NonNegative():
            return [x >= 0]
        case Simplex():
            return [x >= 0, cp.sum(x) == domain.total]
        case Box():
            low, high = (np.broadcast_to(bound, x.shape) for bound in domain.bounds)
            # CVXPY wants numbers: an open side is no constraint.
            above, below = np.isfinite(low), np.isfinite(high)
            return [x[above] >= low[above], x[below] <= high[below]]
    raise NotImplementedError(f"{type(domain).__name__} has no CVXPY twin: add one to constraints() in {__file__}")


@over_domains
@given(x=vectors(), size=st.sampled_from([1e-150, 1e-8, 1.0, 1e8, 1e150]))
@few
def test_projection_is_feasible_and_idempotent(domain, x, size):
    y = domain.project(size * x)
    assert np.isfinite(y).all()
    assert domain.contains(y)
    # Projecting again moves by the rounding of the first projection at most.
    np.testing.assert_allclose(domain.project(y), y, rtol=1e-15, atol=1e-15)


@over_domains
@given(x=vectors(), other=vectors())
@few
def test_projection_is_nearest(domain, x, other):
    # y is nearest to x exactly if <x - y, u - y> <= 0 for every u in V. Inner products here are of the order 100, so
    # their rounding is of the order 1e-14.
    y, u = domain.project(x), domain.project(other)
    assert (x - y) @ (u - y) <= 1e-12
    assert np.linalg.norm(x - y) <= np.linalg.norm(x - u) + 1e-12


@over_domains
@given(x=vectors())
@few
def test_members_are_their_own_projection(domain, x):
    """A point is in V exactly if it is its own projection; near the boundary the tolerances of the two may differ."""
    distance = np.linalg.norm(x - domain.project(x))
    assume(distance == 0.0 or distance > 1e-6)
    assert domain.contains(x) == (distance == 0.0)


@over_domains
@given(theta=vectors(), x=vectors(1e3))
@few
def test_support_is_an_upper_bound(domain, theta, x):
    u = domain.project(x)
    assert domain.support(theta) >= theta @ u - 1e-12 * (np.abs(theta) @ np.abs(u))


@over_domains
@given(theta=vectors())
@few
def test_support_is_attained(domain, theta):
    """Far out along theta the projection tends to a maximiser, and where there is none <theta, u> grows for ever."""
    # With y the projection of R theta, <R theta - y, u - y> <= 0 gives <theta, u - y> <= <y, u - y> / R, at most
    # diameter^2 / R, and the bounded members have diameters below 10.
    assume((np.abs(theta)[theta != 0] > 1e-3).all())
    support = domain.support(theta)
    reach = 1e9
    y = domain.project(reach * theta)
    if math.isfinite(support):
        assert theta @ y == pytest.approx(support, rel=1e-6, abs=1e-6)
    else:
        assert theta @ y > 1e2


@pytest.mark.parametrize(
    ("make", "argument"), [(Ball, "radius"), (L1Ball, "radius"), (Simplex, "total")], ids=lambda part: str(part)
)
@pytest.mark.parametrize("size", [0.0, -1.0, math.inf, -math.inf, math.nan])
def test_sizes_are_positive_and_finite(make, argument, size):
    with pytest.raises(InvalidInput, match=re.escape(f"{argument}={size!r}: must be positive and finite")):
        make(size)


@pytest.mark.parametrize(
    ("lower", "upper", "argument", "value"),
    [
        (math.nan, 1.0, "lower", math.nan),
        (0.0, [1.0, math.nan], "upper", [1.0, math.nan]),
        (2.0, 1.0, "lower", 2.0),
        ([0.0, 3.0], [1.0, 2.0], "lower", [0.0, 3.0]),
        # No number lies in these: a box has points.
        (math.inf, math.inf, "lower", math.inf),
        (-math.inf, -math.inf, "upper", -math.inf),
        # Bounds that do not fit each other fit no space.
        ([0.0, 0.0], [1.0, 1.0, 1.0], "upper", [1.0, 1.0, 1.0]),
    ],
)
def test_box_bounds(lower, upper, argument, value):
    with pytest.raises(InvalidInput, match=re.escape(f"{argument}={value!r}: must")):
        Box(lower, upper)


@pytest.mark.parametrize("argument", ["lower", "upper"])
def test_box_of_another_dimension(argument):
    bound = [-2.0, -2.0] if argument == "lower" else [2.0, 2.0]
    box = Box(**{argument: bound})
    box.check_dimension(2)
    with pytest.raises(InvalidInput, match=re.escape(f"{argument}={bound!r}: must be a number or have one entry")):
        box.check_dimension(DIMENSION)
