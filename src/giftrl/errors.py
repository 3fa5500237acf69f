"""The exceptions of giftrl.

::

    GiftrlError
    ├── InvalidInput (ValueError)       an argument breaks a rule
    │   └── UnknownName                 no member of that name; the nearest one is suggested
    ├── Incompatible (TypeError)        two parts that do not work together
    ├── AssumptionFailed (ValueError)   a theorem was asked about a run it does not cover
    ├── NotConverged (ArithmeticError)  an inner solver stopped short of its tolerance
    └── Overflowed (ArithmeticError)    a number left the range of float64

Every message names the argument, the value, the rule, and what to do instead. An error leaves the object that raised it
as it was.
"""

import difflib
from collections.abc import Iterable

__all__ = [
    "AssumptionFailed",
    "GiftrlError",
    "Incompatible",
    "InvalidInput",
    "NotConverged",
    "Overflowed",
    "UnknownName",
    "require",
]


class GiftrlError(Exception):
    """The base of every exception that giftrl raises on purpose."""


class InvalidInput(GiftrlError, ValueError):
    """An argument breaks a rule.

    >>> str(InvalidInput("beta", -1.0, "must be positive", "try beta=1.0"))
    'beta=-1.0: must be positive; try beta=1.0'
    """

    def __init__(self, argument: str, value: object, rule: str, remedy: str) -> None:
        self.argument = argument
        self.value = value
        self.rule = rule
        self.remedy = remedy
        super().__init__(f"{argument}={value!r}: {rule}; {remedy}")


class UnknownName(InvalidInput):
    """No member has that name.

    >>> str(UnknownName("loss", "logistics", ["hinge", "logistic"]))
    "loss='logistics': is not a known name; did you mean 'logistic'? Known: hinge, logistic"
    """

    def __init__(self, argument: str, value: object, known: Iterable[str]) -> None:
        names = list(known)
        near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(argument, value, "is not a known name", f"{hint}Known: {', '.join(names)}")


class Incompatible(GiftrlError, TypeError):
    """Two parts that do not work together; the message names both and lists what works."""


class AssumptionFailed(GiftrlError, ValueError):
    """A theorem was asked about a run that it does not cover; the message names the assumption."""


class NotConverged(GiftrlError, ArithmeticError):
    """An inner solver stopped short of its tolerance; the message gives the gap it reached."""


class Overflowed(GiftrlError, ArithmeticError):
    """A number left the range of float64; the message says which."""


def require(condition: bool, argument: str, value: object, rule: str, remedy: str) -> None:
    """Raise :class:`InvalidInput` unless the condition holds.

    >>> require(1.0 > 0, "beta", 1.0, "must be positive", "try beta=1.0")
    """
    if not condition:
        raise InvalidInput(argument, value, rule, remedy)
