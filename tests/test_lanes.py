"""Numbers side by side: compiled, they are what they are in plain Python."""

from typing import NamedTuple

import numpy as np
import pytest

from giftrl.compiled import door
from giftrl.compiled.lanes import clip, lane, load, narrow, prefetch, put, scratch, store, wide, zeros
from giftrl.compiled.registry import formula


class Four(NamedTuple):
    one: float

    def lanes(self):
        return 4


class Eight(NamedTuple):
    one: float

    def lanes(self):
        return 8


@formula
def everything(side, x, out, sums):
    """Each operation and operator, with a number on either side."""
    real = x.dtype.type
    total = zeros(side)
    for j in range(len(x)):
        prefetch(x, j, 0)
        a, b = load(side, x, j, 0), load(side, x, j, 2)
        c = (a + b) * a - real(3.0) / (b * b + real(1.0))
        total = total + wide(c) * np.float64(j)
        store(out, j, 1, clip(c, real(2.0)))
        store(out, j, 0, narrow(x, wide(a)))
    store(sums, 0, 0, total)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", [Four(1.0), Eight(1.0)], ids=["four", "eight"])
def test_compiled_lanes_are_arrays(side, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(0.0, 3.0, (5, 10)).astype(dtype)
    found = []
    for compiled in (False, True):
        out, sums = np.zeros((5, 12), dtype), np.zeros((1, side.lanes()))
        door.ready(everything, compiled)(side, x, out, sums)
        found += [out, sums]
    assert np.abs(found[0]).max() >= 2.0 and found[0][:, side.lanes() + 1 :].any() == np.False_
    rounding = 1e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(found[2], found[0], rtol=rounding, atol=rounding)
    np.testing.assert_allclose(found[3], found[1], rtol=10 * rounding, atol=100 * rounding)


@formula
def by_lane(side, x, out):
    """Numbers taken out of a vector and put into one, and rows on the stack."""
    work = scratch(side)
    v = load(side, x, 0, 0)
    for r in range(len(work[0])):
        work[3, r] += 1.0 + r
        v = put(v, r, lane(v, r) * work[3, r])
    store(out, 0, 0, v)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_go_in_and_out_of_lanes(dtype):
    x = np.arange(1.0, 5.0).astype(dtype)[None]
    for compiled in (False, True):
        out = np.zeros((1, 4), dtype)
        for _ in range(2):  # scratch memory is zero in every call
            door.ready(by_lane, compiled, counted=False)(Four(1.0), x, out)
        assert out.tolist() == [[1.0, 4.0, 9.0, 16.0]]


@formula
def mixed(side, x):
    """A number of another type: refused, since plain Python and a compiler would disagree about the result."""
    store(x, 0, 0, load(side, x, 0, 0) * 2.0)


def test_numbers_of_another_type_are_refused():
    from numba.core.errors import TypingError

    with pytest.raises(TypingError):
        door.ready(mixed)(Four(1.0), np.zeros((1, 4), np.float32))
