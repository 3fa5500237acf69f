"""Decimal numbers: what Python's float makes of them, to the last bit."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.streams.batch import Position
from giftrl.streams.names.features import Hashing
from giftrl.streams.text.libsvm import LibsvmText
from giftrl.streams.text.numbers import MAX_POWER, MIN_POWER, POWERS, shorten
from tests.fuzz_parsers import check_number, mutated, pieces
from tests.stream_rows import read_number

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(FLOATS, st.integers(0, 30), st.sampled_from("efg"))
def test_floats_in_many_formats(x, digits, kind):
    check_number(repr(x).encode())
    check_number(f"{x:.{digits}{kind}}".encode())


@given(st.integers(0, 10**40), st.integers(-400, 400), st.sampled_from(["", "+", "-"]))
def test_integers_times_powers_of_ten(mantissa, exponent, sign):
    check_number(f"{sign}{mantissa}e{exponent}".encode())


@given(st.integers(0, 2**63 - 2**52 - 1), st.integers(0, 1000), st.sampled_from(["", "1", "0" * 900 + "1"]))
def test_half_way_between_two_floats(bits, below, tail):
    """The longest decimals that decide a rounding, exactly half-way, a little above, and a little below."""
    low = np.array(bits, np.uint64).view(np.float64).item()
    high = math.nextafter(low, math.inf)
    with localcontext() as context:
        context.prec = 2000
        middle = (Decimal(low) + (Decimal(high) if math.isfinite(high) else Decimal(2) ** 1024)) / 2
        digits, exponent = f"{middle:e}".split("e")
        under = middle - Decimal(10) ** (middle.adjusted() - 770 - below)
    check_number(f"{digits}{'' if '.' in digits else '.'}{tail}e{exponent}".encode())
    check_number(f"{under:e}".encode())


@given(pieces(check_number))
def test_text_that_is_hardly_a_number(text):
    check_number(text)


@given(st.randoms(use_true_random=False), st.booleans())
def test_mutations_compiled_and_plain(rng, compiled):
    check_number(mutated(rng, check_number), compiled)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.0431", 0.0431),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("+1E+2", 100.0),
        ("-0", -0.0),
        ("1e-400", 0.0),
        ("0e99999999999999999999", 0.0),
        ("0." + "0" * 1000 + "1e1001", 1.0),
        ("1" + "0" * 1000 + "e-1000", 1.0),
        ("0" * 100 + "7", 7.0),
        ("9007199254740993", 9007199254740992.0),
        ("9007199254740993.00000000000000000000000001", 9007199254740994.0),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("1.7976931348623158e308", 1.7976931348623157e308),
        ("4.9e-324", 5e-324),
        ("2.4703282292062327208e-324", 0.0),
        ("2.4703282292062327209e-324", 5e-324),
    ],
)
def test_numbers(text, value, compiled):
    found = read_number(text, compiled=compiled)
    assert found == value and math.copysign(1.0, found) == math.copysign(1.0, value)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "", "+", "-", ".", "-.", "e5", ".e5", "1e", "1e+", "1e5.5", "1.2.3", "--1", "+-1", "nan", "inf", "-Infinity",
        "0x10", "1_000", "1,5", " 1", "1 ", "1\0", "\u0661", "1d5", "1f", "1e400", "-1e309", "1.7976931348623159e308",
        "9" * 400,
    ],
)  # fmt: skip
def test_not_numbers(text, compiled):
    assert read_number(text, compiled=compiled) is None


def test_a_hundred_thousand_random_numbers_in_one_block():
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2**63 - 2**52, 40_000, dtype=np.uint64) | (rng.integers(0, 2, 40_000, dtype=np.uint64) << 63)
    texts = [repr(x) for x in bits.view(np.float64).tolist()]
    texts += [f"{x:.25e}" for x in bits[:20_000].view(np.float64).tolist()]
    texts += [f"{m}e{e}" for m, e in zip(rng.integers(0, 2**63, 40_000), rng.integers(-345, 289, 40_000), strict=True)]
    block = "".join(f"0 1:{text}\n" for text in texts).encode()
    batch = LibsvmText(Hashing(4)).parse(block, "numbers", Position())
    assert not batch.rejected
    np.testing.assert_array_equal(batch.data.view(np.uint64), np.array([float(t) for t in texts]).view(np.uint64))


def test_powers_of_five():
    """The upper 128 bits of 5^q: cut off for q >= 0, and less than 1 in the last bit from it otherwise."""
    for q in range(MIN_POWER, MAX_POWER + 1):
        high, low = (int(word) for word in POWERS[2 * (q - MIN_POWER) : 2 * (q - MIN_POWER) + 2])
        top = high << 64 | low
        power = 5 ** abs(q)
        assert top >> 127 == 1
        if q >= 0:
            assert top == power << 128 >> power.bit_length()
        else:
            product = top * power  # a power of two, but for the rounding
            assert min(abs(product - (1 << product.bit_length() - k)) for k in (0, 1)) < power


@given(
    st.text("0123456789", min_size=20, max_size=60),
    st.integers(0, 60),
    st.sampled_from(["", "e-5", "E+17", "e-330", "e300", "e0000"]),
    st.sampled_from(["", "+", "-"]),
)
def test_a_shortened_number_has_its_value_and_its_length(digits, dot, exponent, sign):
    text = f"{sign}{digits[:dot]}.{digits[dot:]}{exponent}" if dot < len(digits) else f"{sign}{digits}{exponent}"
    short = shorten(text.encode(), 0).decode()
    assert len(short) == len(text) and float(short) == float(text)
    assert math.copysign(1.0, float(short)) == math.copysign(1.0, float(text))
    assert len(short.partition("e")[0].strip("+-0")) <= 17


def test_a_million_digits():
    assert read_number("0." + "3" * 1_000_000) == 1 / 3
    assert read_number("1" * 1_000_000 + "e-1000000") == 1 / 9
