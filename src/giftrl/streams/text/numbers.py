"""Decimal text to float64, exactly, in compiled loops.

A number is ``[+-] digits [. digits] [e [+-] digits]``, with a digit before or after the dot. Not numbers: nan, inf,
hexadecimal, underscores. The result is the nearest float64, ties to even, as ``float`` gives it. Two methods, in turn:

1. Clinger's: a mantissa up to 2^53 and a power of ten up to 10^22 are exact, so one multiplication or division rounds
   once. (W. D. Clinger, How to read floating point numbers accurately, 1990.)
2. Lemire's: 19 digits times a power of five kept to 128 bits. (D. Lemire, Number parsing at a gigabyte per second,
   2021; that it needs no fallback: N. Mushtak and D. Lemire, Fast number parsing without fallback, 2022.)

A number of more than 19 digits lies between its first 19 digits and the next larger mantissa. If these two round to
different float64 the number is HARD, as is one in two thousand random numbers of 25 digits: the loop stops,
:func:`shorten` rewrites the number with ``float`` in at most 17 digits, and the loop restarts.
"""

import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.streams.names.tables import byte, digit

NOT_A_NUMBER, TOO_LARGE, HARD = 1, 2, 3

MIN_POWER, MAX_POWER = -342, 308  # outside these powers of ten, 19 digits round to 0 or infinity

MANTISSA = np.uint64(2**53)
ZERO, ONE, THREE, TEN = map(np.uint64, (0, 1, 3, 10))
LOW = np.uint64(2**32 - 1)
HALF = np.uint64(32)
GUARD = np.uint64(2**9 - 1)  # the bits of a 64-bit product below the 55 that rounding looks at
HIDDEN = np.uint64(2**52)

TENS = 10.0 ** np.arange(23)


def _powers_of_five() -> NDArray[np.uint64]:
    """The 128 highest bits of 5^q, in two words: cut off for q >= 0, rounded up for q < 0."""
    rows = []
    for q in range(MIN_POWER, MAX_POWER + 1):
        power = 5 ** abs(q)
        if q >= 0:
            top = power << 128 >> power.bit_length()
        else:
            # 2^b / 5^-q with at least 128 bits, one more than its floor, then cut to 128 bits.
            size = (power - 1).bit_length()
            top = (1 << (size + 127 if q >= -27 else 2 * size + 128)) // power + 1
            top >>= max(0, top.bit_length() - 128)
        rows.append((top >> 64, top & (2**64 - 1)))
    return np.array(rows, dtype=np.uint64).reshape(-1)


POWERS = _powers_of_five()


@formula
def number(block: Any, at: Any) -> tuple[Any, Any, Any]:
    """Read the number at a place, which is not the end of the block.

    Returns the value, the place after it, and 0, NOT_A_NUMBER, TOO_LARGE or HARD; the caller checks what follows.
    """
    c = byte(block, at)
    negative = c == 45
    if negative | (c == 43):
        at += 1
        c = byte(block, at)
    start = at
    mantissa = ZERO
    while digit(c):
        mantissa = mantissa * TEN + np.uint64(c - 48)  # wraps around after 19 digits: read again below
        at += 1
        c = byte(block, at)
    digits = at - start
    exponent = 0
    if c == 46:
        at += 1
        dot = at
        c = byte(block, at)
        while digit(c):
            mantissa = mantissa * TEN + np.uint64(c - 48)
            at += 1
            c = byte(block, at)
        exponent = dot - at
        digits += at - dot
    end = at
    problem = 0 if digits > 0 else NOT_A_NUMBER
    if (c == 101) | (c == 69):
        at += 1
        c = byte(block, at)
        downwards = c == 45
        if downwards | (c == 43):
            at += 1
            c = byte(block, at)
        if not digit(c):
            problem = NOT_A_NUMBER
        power = 0
        while digit(c):
            if power < 10**17:  # no number of digits in memory can compensate this exponent
                power = power * 10 + (c - 48)
            at += 1
            c = byte(block, at)
        exponent += -power if downwards else power
    value = 0.0
    if (digits <= 19) & (mantissa <= MANTISSA) & (exponent >= -22) & (exponent <= 22):
        value = np.float64(np.int64(mantissa))
        value = value / TENS[np.uint64(-exponent)] if exponent < 0 else value * TENS[np.uint64(exponent)]
    elif problem == 0:
        dropped = 0
        if digits > 19:
            mantissa, dropped = first_digits(block, start, end)
        below = 0.0
        # Round both neighbours; in a loop, so that the call is compiled once.
        for more in range(2 if dropped > 0 else 1):
            below = value
            value = nearest(mantissa + np.uint64(more), exponent + dropped)
        if (dropped > 0) & (below < value):
            problem = HARD
    if (problem == 0) & (value > 1.7976931348623157e308):
        problem = TOO_LARGE
    return -value if negative else value, at, problem


@formula
def high_product(a: Any, b: Any) -> Any:
    """The upper 64 bits of a b."""
    a0, a1, b0, b1 = a & LOW, a >> HALF, b & LOW, b >> HALF
    middle = a1 * b0 + (a0 * b0 >> HALF)
    return a1 * b1 + (middle >> HALF) + ((a0 * b1 + (middle & LOW)) >> HALF)


@formula
def leading_zeros(w: Any) -> Any:
    """The number of leading zero bits of w > 0."""
    zeros = 0
    for width in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - width) == ZERO:
            w <<= np.uint64(width)
            zeros += width
    return zeros


@formula
def nearest(w: Any, q: Any) -> Any:
    """The float64 nearest to w 10^q; infinity if it is too large."""
    if w == ZERO or q < MIN_POWER:
        return 0.0
    if q > MAX_POWER:
        return np.inf
    zeros = leading_zeros(w)
    w = w << np.uint64(zeros)
    k = np.uint64(2 * (q - MIN_POWER))
    high = high_product(w, POWERS[k])
    low = w * POWERS[k]
    if high & GUARD == GUARD:  # the lower word of 5^q can carry into the bits that rounding looks at
        carry = high_product(w, POWERS[k + ONE])
        low = low + carry
        if carry > low:
            high = high + ONE
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    m = high >> shift  # 53 bits and a rounding bit
    # floor(q log2(10)) + 63, from 217706 / 2^16, and the bias of the exponent.
    e = ((217706 * q) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if e <= 0:  # subnormal: fewer bits
        if e <= -63:
            return 0.0
        m = m >> np.uint64(1 - e)
        m = (m + (m & ONE)) >> ONE
        return np.uint64(m).view(np.float64)  # a carry into the hidden bit is right: the smallest normal number
    if low <= ONE and -4 <= q <= 23 and m & THREE == ONE and m << shift == high:
        m = m & ~ONE  # exactly half-way: to even
    m = (m + (m & ONE)) >> ONE
    if m >= MANTISSA:
        m = HIDDEN
        e += 1
    if e >= 2047:
        return np.inf
    return np.uint64((m & ~HIDDEN) | (np.uint64(e) << np.uint64(52))).view(np.float64)


@formula
def first_digits(block: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """The first 19 significant digits between two places, and the number of digits after them."""
    mantissa, kept, dropped = ZERO, 0, 0
    for at in range(start, end):
        c = byte(block, at)
        if c != 46:
            if kept == 19:
                dropped += 1
            elif (kept > 0) | (c != 48):
                mantissa = mantissa * TEN + np.uint64(c - 48)
                kept += 1
    return mantissa, dropped


#: A number, and a number after a colon (the value of a feature).
_NUMBER = re.compile(rb"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?")
_LONG_VALUE = re.compile(rb"(?<=:)[+-]?[0-9.]{20,}(?:[eE][+-]?[0-9]+)?")


def shorten(line: bytes, at: int) -> bytes:
    """Rewrite a line: the number at a place, and long numbers after colons, with at most 17 digits.

    ``float`` reads them and leading zeros pad them, so that value and length stay the same.
    """
    match = _NUMBER.match(line, at)
    if match is not None:
        line = line[:at] + _short(match) + line[match.end() :]
    return _LONG_VALUE.sub(_short, line)


def _short(match: re.Match[bytes]) -> bytes:
    text = match.group()
    try:
        value = float(text)
    except ValueError:
        return text
    tail = "1e999"
    if math.isfinite(value):
        # The shortest decimal of this float64, so it is no longer than the original.
        _, digits, exponent = Decimal(repr(abs(value))).normalize().as_tuple()
        tail = "".join(map(str, digits)) + f"e{exponent}"
    sign = b"-" if text.startswith(b"-") else b""
    return sign + tail.encode().rjust(len(text) - len(sign), b"0")
