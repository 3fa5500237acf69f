"""What the tests of losses share: every loss, numbers of all sizes, and where a loss is not smooth."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from tests.members import members
from tests.oracles import DIGITS, formulas

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
