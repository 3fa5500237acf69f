"""What a run is about, in words."""

import re
from collections.abc import Sequence
from typing import Any

from giftrl.reports.words import number

#: What each loss measures; a loss of your own is described by its docstring.
LOSSES = {
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

#: Losses that are called after people.
PEOPLE = ("Huber", "Poisson")


def loss_in_words(loss: Any) -> str:
    """What a loss measures.

    >>> from giftrl.losses import Squared
    >>> loss_in_words(Squared())
    'half the squared error'
    """
    first = (type(loss).__doc__ or repr(loss)).strip().split("\n")[0].rstrip(".")
    return LOSSES.get(type(loss).__name__, first)


def amount(value: float) -> str:
    """A number for people, with about four digits.

    >>> amount(0.12345), amount(46.917), amount(31240.7), amount(2.5312e12)
    ('0.1235', '46.92', '31,241', '2.53e+12')
    """
    if 10.0 <= abs(value) < 1e8:
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.2f}"
    return number(value) if 1e-3 <= abs(value) < 10.0 or value == 0.0 else f"{value:.3g}"


def loss_name(loss: Any) -> str:
    """The name of a loss, as it is written in a sentence.

    >>> from giftrl.losses import Poisson, SquaredHinge
    >>> loss_name(SquaredHinge()), loss_name(Poisson())
    ('squared hinge', 'Poisson')
    """
    name = type(loss).__name__
    return name if name in PEOPLE else re.sub("([A-Z])", r" \1", name).strip().lower()


def plain(text: object, most: int = 80) -> str:
    """A name from data as text that a page can show: no control characters, and not longer than some letters.

    >>> plain("a\\x1bb"), plain("x" * 30 + "y" * 30, 21)
    ('a\\ufffdb', 'xxxxxxxxxx…yyyyyyyyyy')
    """
    shown = "".join(c if c.isprintable() or c == " " else "\ufffd" for c in str(text))
    half = (most - 1) // 2
    return shown if len(shown) <= most else f"{shown[:half]}…{shown[-half:]}"


def quoted(text: object, most: int = 60) -> str:
    """A name inside a sentence: letters that are written from right to left do not turn the rest around."""
    return f"\u2068{plain(text, most)}\u2069"


def listed(names: Sequence[object], most: int = 20) -> str:
    """Names in a row, the first of them where there are many.

    >>> listed(["a", "b"]), listed("abc", 2)
    ('\\u2068a\\u2069, \\u2068b\\u2069', '\\u2068a\\u2069, \\u2068b\\u2069 and 1 more')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(quoted(name) for name in names[:most]) + more
