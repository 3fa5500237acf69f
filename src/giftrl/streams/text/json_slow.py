"""JSON lines, one at a time and in plain Python: those that the loops leave, and what is wrong with bad ones."""

import json
import math
from typing import Any

from giftrl.streams.batch import Rejected

__all__ = ["FEATURES", "FINITE", "WEIGHT", "BadLine", "SlowReader", "decode", "rejected"]

FINITE = "a finite number"
FEATURES, WEIGHT, TAG = "features", "weight", "tag"
#: Objects and lists inside each other.
DEEPEST = 100


class BadLine(Exception):
    """A line that breaks a rule: the problem, what was expected, and where: a key or word, or an offset."""

    def __init__(self, problem: str, expected: str, where: str | int = 0) -> None:
        super().__init__(problem)
        self.problem, self.expected, self.where = problem, expected, where


def _no_constant(word: str) -> Any:
    raise BadLine(f"{word}, which is no number in JSON", f"{FINITE}, or null", word)


#: Objects become tuples of pairs, so that no key is lost, and are told apart from lists.
decode = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_no_constant).decode


class SlowReader:
    """Reads a line at a time, and keeps what it finds: names, values and groups of entries; and rows.

    Args:
        label: the key of the label; None where there is none.
        weight: the key of the weight, where it is not the usual one.
        ignored: names to leave out.
        categorical: names whose numbers are categories.

    >>> reader = SlowReader("y", None, set(), set())
    >>> reader.read(1, b'{"y": 1, "user": {"age": 3}, "city": "Rome"}')
    >>> reader.names, reader.values, reader.rows
    (['user^age', 'city=Rome'], [3.0, 1.0], [(1, 1.0, 1.0, '')])
    """

    def __init__(self, label: str | None, weight: str | None, ignored: set[str], categorical: set[str]) -> None:
        self.label = label
        self._weight = weight
        self._ignored = ignored
        self._categorical = categorical
        self.names: list[str] = []
        self.values: list[float] = []
        self.groups: list[str] = []
        self.ends: list[int] = [0]  # how many entries there are up to the end of each row
        self.rows: list[tuple[int, float, float, str]] = []  # line, label, weight and tag

    def read(self, line: int, raw: bytes) -> None:
        """Add the row of a line; nothing is added if it raises :class:`BadLine`."""
        first = len(self.names)
        try:
            label, weight, tag = self._row(raw, self.names, self.values, self.groups)
        except BadLine:
            del self.names[first:], self.values[first:], self.groups[first:]
            raise
        self.ends.append(len(self.names))
        self.rows.append((line, label, weight, tag))

    def _row(self, raw: bytes, names: list[str], values: list[float], groups: list[str]) -> tuple[float, float, str]:
        """Append the features of a line; its label, weight and tag."""
        try:
            found = decode(raw.decode())
        except json.JSONDecodeError as problem:
            shown = f"not JSON ({problem.msg})"
            raise BadLine(shown, "one object a line", len(problem.doc[: problem.pos].encode())) from None
        except UnicodeDecodeError as problem:
            raise BadLine("bytes that are not UTF-8", "JSON in UTF-8", problem.start) from None
        except RecursionError:
            raise BadLine("objects or lists too deep inside each other", f"at most {DEEPEST}") from None
        except ValueError:  # Python reads no whole number of more than some thousand digits
            raise BadLine("a number too large for float64", FINITE) from None
        if type(found) is not tuple:
            raise BadLine("no object", "one object a line")
        inside = type(dict(found).get(FEATURES)) is tuple
        weight_key = self._weight or (WEIGHT if inside else None)
        label, weight, tag = math.nan, 1.0, ""
        seen = set()
        first = len(names)
        for key, value in found:
            if key == self.label or key == weight_key or (inside and key in (TAG, FEATURES)):
                if key in seen:
                    raise BadLine(f"two keys {key!r}", "one", key)
                seen.add(key)
                if key == self.label:
                    label = math.nan if value is None else self._number(value, "label", key)
                elif key == weight_key:
                    weight = self._number(value, "weight", key)
                    if weight < 0.0:
                        raise BadLine("a weight below 0", "a finite number, 0 or more", key)
                elif key == TAG:
                    tag = value if type(value) is str else json.dumps(value)
                else:
                    for name, item in value:
                        self._add(name, item, name, names, values, groups, 1)
            elif key in self._ignored:
                continue
            elif inside:
                expected = f'features inside "{FEATURES}", or the key among those to ignore'
                raise BadLine(f"the key {key!r} beside {FEATURES!r}", expected, key)
            else:
                self._add(key, value, key, names, values, groups, 1)
        if b"\\" in raw:
            _check_surrogates(names[first:])
            _check_surrogates([tag])
        return label, weight, tag

    @staticmethod
    def _number(value: Any, what: str, key: str) -> float:
        if type(value) not in (int, float, bool):
            raise BadLine(f"a {what} that is not a number: {_shown(value)}", FINITE, key)
        return _finite(value, key)

    def _add(
        self, key: str, value: Any, group: str, names: list[str], values: list[float], groups: list[str], depth: int
    ) -> None:
        """Append the features of a value."""
        kind = type(value)
        if key in self._ignored or value is None or value == "":
            return
        if kind is str:
            names.append(f"{key}={value}")
            values.append(1.0)
            groups.append(group)
        elif kind is float or kind is int or kind is bool:
            if key in self._categorical:
                names.append(f"{key}={json.dumps(value)}")
                values.append(1.0)
                groups.append(group)
            elif value:
                names.append(key)
                values.append(_finite(value, key))
                groups.append(group)
        elif depth == DEEPEST:
            raise BadLine("objects or lists too deep inside each other", f"at most {DEEPEST}", key)
        elif kind is tuple:
            for inner, item in value:
                self._add(f"{key}^{inner}", item, group, names, values, groups, depth + 1)
        else:
            self._add_list(key, value, group, names, values, groups)

    def _add_list(
        self, key: str, items: list[Any], group: str, names: list[str], values: list[float], groups: list[str]
    ) -> None:
        kinds = {type(item) for item in items if item is not None}
        if kinds <= {str} or (key in self._categorical and kinds <= {str, int, float, bool}):
            for item in items:
                if item is not None and item != "":
                    names.append(f"{key}={item if type(item) is str else json.dumps(item)}")
                    values.append(1.0)
                    groups.append(group)
        elif kinds <= {int, float, bool}:
            for at, item in enumerate(items):
                if item:
                    names.append(f"{key}^{at}")
                    values.append(_finite(item, key))
                    groups.append(group)
        else:
            raise BadLine(f"a list of several kinds of things: {_shown(items)}", "texts, or numbers", key)


def _finite(value: float, key: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise BadLine("a number too large for float64", FINITE, key)
    return number


def _check_surrogates(names: list[str]) -> None:
    """Half a pair of surrogates can be written with a backslash, and is no text."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise BadLine("half of a pair of surrogates", "text that UTF-8 can write", "\\ud") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


def rejected(source: str, line: int, raw: bytes, bad: BadLine) -> Rejected:
    """The record of a bad line.

    >>> print(rejected("a.json", 2, b'{"label": "x"}', BadLine("a label that is not a number", FINITE, "label")))
    a.json:2:2: a label that is not a number, expected a finite number
    """
    if isinstance(bad.where, int):
        at = bad.where
    else:
        # Where the last part of the key, or the word, is first written, if it is.
        word = bad.where.rpartition("^")[2].encode("utf-8", "replace")
        at = raw.find(b'"' + word + b'"')
        at = max(raw.find(word) if at < 0 else at, 0)
    return Rejected(source, line, at + 1, bad.problem, bad.expected, raw.removesuffix(b"\r"))
