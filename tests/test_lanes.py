"""Numbers side by side: compiled, they are what they are in plain Python."""

import numpy as np
import pytest

from giftrl.compiled import compiler
from giftrl.compiled.lanes import (
    EVERY,
    FOUR,
    absolute,
    clip,
    diagonal,
    get,
    least,
    load,
    maximum,
    minimum,
    narrow,
    prefetch,
    put,
    read,
    scratch,
    store,
    total,
    where_less,
    wide,
    write,
    zeros,
)
from giftrl.compiled.registry import formula
from giftrl.ops.scalar import exp_minus, log1p_unit


@formula
def everything(side, x, out, sums):
    """Each operation and operator, with a number on either side."""
    real = x.dtype.type
    together = zeros(side)
    for j in range(len(x)):
        prefetch(x, j, 0)
        a, b = load(side, x, j, 0), load(side, x, j, 2)
        c = (a + b) * a - real(3.0) / (b * b + real(1.0))
        together = together + wide(c) * np.float64(j)
        store(out, j, 1, clip(c, real(2.0)))
        store(out, j, 0, narrow(x, wide(a)))
    store(sums, 0, 0, together)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", [FOUR, EVERY[8]], ids=repr)
def test_compiled_lanes_are_arrays(side, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(0.0, 3.0, (5, 10)).astype(dtype)
    found = []
    for compiled in (False, True):
        out, sums = np.zeros((5, 12), dtype), np.zeros((1, side.lanes()))
        compiler.ready(everything, compiled)(side, x, out, sums)
        found += [out, sums]
    assert np.abs(found[0]).max() >= 2.0 and found[0][:, side.lanes() + 1 :].any() == np.False_
    rounding = 1e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(found[2], found[0], rtol=rounding, atol=rounding)
    np.testing.assert_allclose(found[3], found[1], rtol=10 * rounding, atol=100 * rounding)


@formula
def functions(side, x, out, sums):
    """Each function of lanes and of numbers, with a number in place of any argument."""
    real = x.dtype.type
    for j in range(len(x)):
        a, b = load(side, x, j, 0), load(side, x, j, 1)
        between = where_less(a, b, where_less(b, real(0.0), -a, real(7.0)), where_less(real(0.0), a, b, a))
        store(out, 3 * j, 0, between)
        store(out, 3 * j + 1, 0, maximum(minimum(a, b), real(-1.0)) + minimum(real(2.0), absolute(b)))
        store(out, 3 * j + 2, 0, put(put(a, 2, real(j)), 3, get(b, 1)))
        sums[j, 0], sums[j, 1], sums[j, 2] = total(a), least(a), get(b, 2)
        sums[j, 3] = where_less(x[j, 0], x[j, 1], absolute(x[j, 2]), maximum(x[j, 3], x[j, 4]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", [FOUR, EVERY[8], EVERY[12]], ids=repr)
def test_compiled_functions_of_lanes_are_those_of_arrays(side, dtype):
    x = np.random.default_rng(1).normal(0.0, 3.0, (7, side.lanes() + 1)).astype(dtype)
    x[6, 2], x[6, 1] = np.inf, np.nan
    found = []
    for compiled in (False, True):
        out, sums = np.zeros((3 * len(x), side.lanes()), dtype), np.zeros((len(x), 4), dtype)
        compiler.ready(functions, compiled)(side, x, out, sums)
        found += [out, sums]
    np.testing.assert_array_equal(found[2], found[0])
    np.testing.assert_array_equal(found[3][:, 2:], found[1][:, 2:])
    np.testing.assert_array_equal(found[3][:6, 1], found[1][:6, 1])
    np.testing.assert_allclose(found[3][:6, 0], found[1][:6, 0], rtol=1e-4 if dtype == np.float32 else 1e-13)


@formula
def elementary(side, x, out):
    write(out[len(out) - 1], diagonal(side, x) + read(side, x[1]))
    for j in range(len(x)):
        e = exp_minus(load(side, x, j, 0))
        store(out, 2 * j, 0, e)
        store(out, 2 * j + 1, 0, log1p_unit(e))


def test_exponentials_and_logarithms_of_lanes():
    x = np.concatenate([[0.0, 1e308, np.inf, 708.0], np.logspace(-300, np.log10(707.9), 992)]).reshape(-1, 12)
    compiled, plain = np.empty((2, 2 * len(x) + 1, 12))
    compiler.ready(elementary)(EVERY[12], x, compiled)
    compiler.ready(elementary, compiled=False)(EVERY[12], x, plain)
    np.testing.assert_allclose(compiled, plain, rtol=1e-15, atol=1e-300)
    assert compiled[0, :3].tolist() == [1.0, 0.0, 0.0]


@formula
def by_lane(side, x, out):
    """Numbers taken out of a vector and put into one, and rows on the stack."""
    work = scratch(side)
    v = load(side, x, 0, 0)
    for r in range(len(work[0])):
        work[3, r] += 1.0 + r
        v = put(v, r, get(v, r) * work[3, r])
    store(out, 0, 0, v)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_go_in_and_out_of_lanes(dtype):
    x = np.arange(1.0, 5.0).astype(dtype)[None]
    for compiled in (False, True):
        out = np.zeros((1, 4), dtype)
        for _ in range(2):  # scratch memory is zero in every call
            compiler.ready(by_lane, compiled, counted=False)(FOUR, x, out)
        assert out.tolist() == [[1.0, 4.0, 9.0, 16.0]]


@formula
def mixed(side, x):
    """A number of another type: refused, since plain Python and a compiler would disagree about the result."""
    store(x, 0, 0, load(side, x, 0, 0) * 2.0)


def test_numbers_of_another_type_are_refused():
    from numba.core.errors import TypingError

    with pytest.raises(TypingError):
        compiler.ready(mixed)(FOUR, np.zeros((1, 4), np.float32))
