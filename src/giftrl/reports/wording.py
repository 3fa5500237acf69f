"""Numbers, losses and names from data as the text of a page."""

import re
from collections.abc import Sequence
from typing import Any

#: The meaning of each loss; a user's own loss is described by its docstring.
LOSS_MEANINGS = {
    "Absolute": "the absolute error",
    "EpsilonInsensitive": "the absolute error beyond a tolerated distance",
    "Hinge": "how far the score falls short of 1 on the side of the label",
    "Huber": "the squared error near the label, and the absolute error far from it",
    "Logistic": "minus the logarithm of the probability that was given to the label",
    "MulticlassHinge": "how far the score of the label falls short of 1 more than the best of the others",
    "Poisson": "minus the logarithm of the probability that a Poisson distribution gives to the count",
    "Quantile": "the absolute error, weighted differently above and below the label",
    "Softmax": "minus the logarithm of the probability that was given to the label",
    "Squared": "half the squared error",
    "SquaredHinge": "the square of how far the score falls short of 1 on the side of the label",
}

#: Losses named after people.
PROPER_NAMES = ("Huber", "Poisson")


def number(value: float, digits: int = 4) -> str:
    """A number with a few digits, in scientific notation if it is very large or very small.

    >>> number(0.123456), number(1e7), number(float("inf"))
    ('0.1235', '1e+07', 'inf')
    """
    return f"{value:.{digits}f}" if 1e-3 <= abs(value) < 1e4 or value == 0.0 else f"{value:.{digits}g}"


def amount(value: float) -> str:
    """A number for people, with about four digits.

    >>> amount(0.12345), amount(46.917), amount(31240.7), amount(2.5312e12)
    ('0.1235', '46.92', '31,241', '2.53e+12')
    """
    if 10.0 <= abs(value) < 1e8:
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.2f}"
    return number(value) if 1e-3 <= abs(value) < 10.0 or value == 0.0 else f"{value:.3g}"


def signed(value: float) -> str:
    """A number with its sign.

    >>> signed(0.5), signed(-2.0)
    ('+0.5000', '-2.0000')
    """
    return f"{'-' if value < 0.0 else '+'}{amount(abs(value))}"


def short(value: float, digits: int = 3) -> str:
    """A number in little space, for the ticks of an axis.

    >>> short(2500.0), short(1e6), short(0.125), short(-3e9), short(1e-7)
    ('2.5k', '1M', '0.125', '-3e9', '1e-7')
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if size <= abs(value) < 1e3 * size:
            return f"{value / size:.{digits}g}{letter}"
    return f"{value:.{digits}g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")


def counted(count: int, noun: str) -> str:
    """A number of things, such as 2,000 rows."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def loss_in_words(loss: Any) -> str:
    """The meaning of a loss."""
    first = (type(loss).__doc__ or repr(loss)).strip().split("\n")[0].rstrip(".")
    return LOSS_MEANINGS.get(type(loss).__name__, first)


def loss_name(loss: Any) -> str:
    """The name of a loss inside a sentence."""
    name = type(loss).__name__
    return name if name in PROPER_NAMES else re.sub("([A-Z])", r" \1", name).strip().lower()


def printable(text: object, length: int = 80) -> str:
    """A name from data without control characters, and cut to a length.

    >>> printable("a\\x1bb"), printable("x" * 30 + "y" * 30, 21)
    ('a\\ufffdb', 'xxxxxxxxxx…yyyyyyyyyy')
    """
    shown = "".join(c if c.isprintable() or c == " " else "\ufffd" for c in str(text))
    half = (length - 1) // 2
    return shown if len(shown) <= length else f"{shown[:half]}…{shown[-half:]}"


def quoted(text: object, length: int = 60) -> str:
    """A name inside a sentence, isolated so that right-to-left letters do not reorder the sentence."""
    return f"\u2068{printable(text, length)}\u2069"


def listed(names: Sequence[object], most: int = 20) -> str:
    """A list of names, cut after some of them.

    >>> listed(["a", "b"]), listed("abc", 2)
    ('\\u2068a\\u2069, \\u2068b\\u2069', '\\u2068a\\u2069, \\u2068b\\u2069 and 1 more')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(quoted(name) for name in names[:most]) + more
