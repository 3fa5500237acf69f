"""The exceptions of giftrl.

::

    GiftrlError
    ├── InvalidInput (ValueError)       an argument breaks a rule
    │   ├── UnknownName                 no member of that name; the nearest one is suggested
    │   ├── TooFewLabels                the first rows do not say yet what is to be learned
    │   ├── BadSource                   a source of rows that cannot be read
    │   └── BadRow                      a row that cannot be used
    ├── ModelFileError                  a model file, or another file of ours, that cannot be read or written
    ├── DownloadFailed                  a data set that did not arrive as it should
    ├── Refused                         a request that the service does not carry out
    ├── Incompatible (TypeError)        two parts that do not work together
    ├── AssumptionFailed (ValueError)   a theorem was asked about a run it does not cover
    ├── NotConverged (ArithmeticError)  an inner solver stopped short of its tolerance
    └── Overflowed (ArithmeticError)    a number left the range of float64

Every message names the argument, the value, the rule, and what to do instead. Arguments in it are :class:`Given`, which
Python, the command line and the service each write in their own way: ``beta='auto'``, ``--beta auto``, ``beta auto``.

An error leaves the object that raised it as it was, with one exception: a learner that raises Overflowed has learned
the rows before the one that it names, and an estimator whose model such a row has spoilt must be fitted again.
"""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple


class Given(NamedTuple):
    """An argument that a message mentions.

    >>> str(Given("beta", "auto")), str(Given("beta")), str(Given("loss", "hinge", now="squared"))
    ("beta='auto'", 'beta', "loss='hinge', now 'squared'")
    """

    argument: str
    value: object = ...  # omitted: only the argument is mentioned
    now: object = ...  # the new value, if it has changed

    def __str__(self) -> str:
        value = "" if self.value is ... else f"={self.value!r}"
        return f"{self.argument}{value}" + ("" if self.now is ... else f", now {self.now!r}")


#: A text, or a sequence of texts and arguments.
Message = str | Sequence[str | Given]
#: Formats an argument for the readers of a message.
Speak = Callable[[Given], str]


def render(words: Message, speak: Speak = str) -> str:
    """Format a message with its arguments."""
    return words if isinstance(words, str) else "".join(speak(x) if isinstance(x, Given) else x for x in words)


def between(parts: Iterable[str | Given], separator: str) -> list[str | Given]:
    """Join parts of a message with a separator."""
    return [piece for part in parts for piece in (separator, part)][1:]


class GiftrlError(Exception):
    """The base of every exception that giftrl raises on purpose.

    >>> from giftrl import Learner
    >>> try:
    ...     Learner(0)
    ... except GiftrlError as error:
    ...     print(type(error).__name__)
    InvalidInput
    """

    def __init__(self, message: Message = "") -> None:
        super().__init__(render(message))
        self.message = message

    def told(self, speak: Speak) -> str:
        """The message, with formatted arguments."""
        return render(self.message, speak)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickling an exception uses ``args``, which differ from the arguments of this class.
        return _copied, (type(self), self.args, self.__dict__)


def _copied(kind: type[GiftrlError], args: tuple[Any, ...], attributes: dict[str, Any]) -> GiftrlError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InvalidInput(GiftrlError, ValueError):
    """An argument breaks a rule.

    >>> str(InvalidInput("beta", -1.0, "must be positive", "try beta=1.0"))
    'beta=-1.0: must be positive; try beta=1.0'
    """

    def __init__(self, argument: str, value: object, rule: Message, remedy: Message) -> None:
        self.argument, self.value = argument, value
        self.rule, self.remedy = render(rule), render(remedy)
        self.words = rule, remedy
        super().__init__(self.told(str))

    def told(self, speak: Speak) -> str:
        return f"{self.place(speak)}: {'; '.join(render(words, speak) for words in self.words)}"

    def place(self, speak: Speak) -> str:
        """The argument, or the place in a file, that the message begins with."""
        return speak(Given(self.argument, self.value))


class UnknownName(InvalidInput):
    """Unknown name of a component.

    >>> str(UnknownName("loss", "logistics", ["hinge", "logistic"]))
    "loss='logistics': is not a known name; did you mean 'logistic'? Known: hinge, logistic"
    """

    def __init__(self, argument: str, value: object, known: Iterable[str]) -> None:
        names = list(known)
        import difflib  # imported only for an unknown name

        near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(argument, value, "is not a known name", f"{hint}Known: {', '.join(names)}")


class TooFewLabels(InvalidInput):
    """The first rows do not have enough labels to choose a loss.

    >>> issubclass(TooFewLabels, ValueError)
    True
    """


class Incompatible(GiftrlError, TypeError):
    """Two parts that do not work together; the message names both and lists what works.

    >>> from giftrl import Learner
    >>> try:
    ...     Learner(2, "entropy", "whole_space")
    ... except Incompatible as error:
    ...     print(type(error).__mro__[2].__name__)
    TypeError
    """


class AssumptionFailed(GiftrlError, ValueError):
    """A theorem was asked about a run that it does not cover; the message names the assumption.

    >>> issubclass(AssumptionFailed, ValueError)
    True
    """


class NotConverged(GiftrlError, ArithmeticError):
    """An inner solver stopped short of its tolerance; the message gives the gap it reached.

    >>> issubclass(NotConverged, ArithmeticError)
    True
    """


class Overflowed(GiftrlError, ArithmeticError):
    """A number left the range of float64; the message says which, and ``row`` which row of a batch did it, if known.

    >>> Overflowed("the score is not finite", row=7).row
    7
    """

    def __init__(self, message: Message, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class BadSource(InvalidInput):
    """A source that cannot be read, or not to its end.

    >>> print(BadSource("a.gz", "the gzip data ends too early", "copy the file again", line=7))
    a.gz:7:1: the gzip data ends too early; copy the file again
    """

    def __init__(self, source: str, rule: Message, remedy: Message, line: int | None = None) -> None:
        self.line = line
        super().__init__("sources", source, rule, remedy)

    def place(self, speak: Speak) -> str:
        return f"{self.value}" if self.line is None else f"{self.value}:{self.line}:1"


class Hint(NamedTuple):
    """An argument that would make a row valid or skip it, and its effect.

    >>> print(*Hint(Given("label_values", ("no", "yes")), "names all labels"))
    label_values=('no', 'yes') names all labels
    """

    given: Given
    effect: str


#: The hint for any bad row.
SKIP_HINT = Hint(Given("on_error", "skip"), "leaves out such rows")


class BadRow(InvalidInput):
    """The first bad row, if the reader stops at errors. All rows before it were delivered.

    ``rejected``, a :class:`giftrl.streams.Rejected`, has its position and problem. In Python, the message omits the
    hint to skip the row if it is the only one.

    >>> str(BadRow("a.svm", "a.svm:3:7: a value that is not a number: 'x', expected a finite number"))
    "a.svm:3:7: a value that is not a number: 'x', expected a finite number"
    """

    def __init__(self, source: str, message: str, rejected: Any = None, hints: Sequence[Hint] = (SKIP_HINT,)) -> None:
        self.rejected, self.hints = rejected, hints
        super().__init__("sources", source, message, "mend the row, or skip bad rows")
        if tuple(hints) == (SKIP_HINT,):
            self.args = (message,)

    def told(self, speak: Speak) -> str:
        hints = ", ".join(f"{speak(hint.given)} {hint.effect}" for hint in self.hints)
        return f"{self.rule} ({hints})" if hints else self.rule


class ModelFileError(GiftrlError):
    """A model file that cannot be read or written; the message has the problem and the remedy.

    >>> str(ModelFileError("a.giftrl", "is empty", "save it again"))
    'a.giftrl: is empty; save it again'
    """

    def __init__(self, path: str | os.PathLike[str], problem: str, remedy: str) -> None:
        self.path, self.problem, self.remedy = os.fspath(path), problem, remedy
        super().__init__(f"{self.path}: {problem}; {remedy}")


class DownloadFailed(GiftrlError):
    """A failed or incorrect download of a data set.

    >>> str(DownloadFailed("a9a", "https://example.org/a9a", "is not there", "try again"))
    'a9a: https://example.org/a9a is not there; try again'
    """

    def __init__(self, name: str, address: str, problem: str, remedy: str) -> None:
        super().__init__(f"{name}: {address} {problem}; {remedy}")


class Refused(GiftrlError):
    """A request rejected by the service. Args:
        status: the status of the answer in HTTP.
        problem: the problem, without details of the machine.
        remedy: what to do instead.
        more: further content of the answer.

    >>> str(Refused(404, "there is no model 'a'", "create it with PUT /models/a"))
    "there is no model 'a'; create it with PUT /models/a"
    """

    def __init__(self, status: int, problem: str, remedy: str, **more: Any) -> None:
        self.status, self.problem, self.remedy, self.more = status, problem, remedy, more
        super().__init__(f"{problem}; {remedy}")


def require(condition: bool, argument: str, value: object, rule: Message, remedy: Message) -> None:
    """Raise :class:`InvalidInput` unless the condition holds."""
    if not condition:
        raise InvalidInput(argument, value, rule, remedy)


def require_positive(argument: str, value: float) -> None:
    """Raise :class:`InvalidInput` unless a number is positive and finite."""
    require(0.0 < value < math.inf, argument, value, "must be positive and finite", f"try {argument}=1.0")


def require_whole(argument: str, value: Any, least: int, remedy: str) -> int:
    """Convert a whole number to int; :class:`InvalidInput` unless it is at least ``least``."""
    good = isinstance(value, Integral) and int(value) >= least
    require(good, argument, value, f"must be a whole number of at least {least}", remedy)
    return int(value)
