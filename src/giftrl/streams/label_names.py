"""Labels that are names, such as yes and no; a batch holds their numbers."""

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

#: Stands in a batch for a label that is none of the names.
UNKNOWN_LABEL = -1.0
#: Up to this, float64 has every whole number.
MAX_EXACT_INTEGER = 1 << 53


class LabelNames:
    """The names of labels; label number k of a batch is ``names[k]``.

    Args:
        names: different from each other, none of them empty.

    >>> labels = LabelNames(("no", "yes"))
    >>> labels.codes(["yes", None, "no", "maybe"]).tolist()
    [1.0, nan, 0.0, -1.0]
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def code(self, name: str) -> float:
        """The number of a name; :data:`UNKNOWN_LABEL` where it is not known."""
        return float(self._places.get(name, UNKNOWN_LABEL))

    def codes(self, names: Iterable[str | None]) -> NDArray[np.float64]:
        """The numbers of names; NaN for a label that is missing."""
        return np.array([np.nan if name is None else self.code(name) for name in names], np.float64)


class CollectedLabels(LabelNames):
    """Names that are not known before: each label that a parser meets gets the next number.

    Compiled loops look names up in a table that is made before: there, each label is unknown.

    >>> labels = CollectedLabels()
    >>> labels.codes(["no", None, "yes", "no"]).tolist(), labels.text(2.0), labels.text(UNKNOWN_LABEL)
    ([1.0, nan, 2.0, 1.0], 'yes', '')
    """

    def __init__(self) -> None:
        super().__init__(("\n",))  # which no label is

    def code(self, name: str) -> float:
        return float(self._places.setdefault(name, len(self._places)))

    def text(self, code: float) -> str:
        """The name with a number; "" for :data:`UNKNOWN_LABEL`."""
        return "" if code == UNKNOWN_LABEL else list(self._places)[int(code)]


def listed(names: Iterable[str]) -> str:
    """Names in a sentence.

    >>> listed(["no", "yes"]), listed(map(str, range(100)))
    ('no or yes', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 or 90 more')
    """
    names = list(names)
    if len(names) > 12:
        names = [*names[:10], f"{len(names) - 10} more"]
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def is_exact(label: str) -> bool:
    """True unless a label is a whole number beyond 2^53, which float64 may not represent.

    >>> is_exact("0.5"), is_exact("9007199254740993")
    (True, False)
    """
    digits = label.removeprefix("-").removeprefix("+")
    return not digits.isdecimal() or int(digits) <= MAX_EXACT_INTEGER
