"""One walk over a row that is a dict: a JSON object, a River example, the body of a request.

Two ways to use it:

- ``walk(row)`` yields a :class:`Named` feature (name, value, group) for each number and text in the row.
- ``NamedRows(features)`` turns rows into coordinates through a cache. ``learn(row)`` and ``look_up(row)`` return
  ``(values, slots)``, ``learn_many(rows)`` and ``look_up_many(rows)`` return ``(values, slots, indptr)``, as float64,
  int32 and int64 arrays. Learning gives new names a coordinate; looking up leaves unknown names out. Values of 0 are
  kept, so that a caller that drops them must do so itself.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, repeat
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import InvalidInput
from giftrl.streams.names.features import Features, Hashing

__all__ = ["DEEPEST", "FINITE", "BadValue", "Named", "NamedRows", "shown", "walk"]

FINITE = "a finite number"
#: How many objects may be nested in each other.
DEEPEST = 100
#: What counts as a number.
_NUMBER = (float, int, Real, np.bool_)
#: The types of numbers that a flat row may hold to be read without a walk.
_PLAIN = frozenset({float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_})
#: Stands for a name that is not in the cache.
_MISSING = 2**31 - 1
#: How many hashed names are cached before the cache is emptied.
_MOST_HASHED = 1 << 20

_Row = Mapping[Any, Any]


class Named(NamedTuple):
    """A feature of a row."""

    name: str
    value: float
    group: str  # the key at the top of the row


class BadValue(Exception):
    """A value that no feature can be made of: the problem, what was expected, and the name of the feature.

    Where a whole text cannot be read, an offset in it takes the place of the name.
    """

    def __init__(self, problem: str, expected: str, name: str | int) -> None:
        super().__init__(f"{problem}, expected {expected}")
        self.problem, self.expected, self.name = problem, expected, name


def walk(row: _Row, *, ignored: Collection[str] = (), categorical: Collection[str] = ()) -> Iterator[Named]:
    """The features of a row, in order.

    A number is the feature of its key; True and False are 1 and 0; text is the feature ``key=text`` with value 1; None
    and empty text are no feature. Keys of nested objects are joined: ``{"user": {"age": 3}}`` is ``user^age``. A list
    of texts is several categories; in a list of numbers, item i is ``key^i``.

    Args:
        row: the row.
        ignored: names to leave out, with all that is nested in them.
        categorical: names whose numbers are categories too.

    >>> [each[:2] for each in walk({"age": 33, "user": {"city": "Rome"}, "tags": ["a", "b"], "v": [0.5, 2]})]
    [('age', 33.0), ('user^city=Rome', 1.0), ('tags=a', 1.0), ('tags=b', 1.0), ('v^0', 0.5), ('v^1', 2.0)]
    """
    for key, value in row.items():
        name = key if type(key) is str else str(key)
        yield from _features(name, value, name, ignored, categorical, 1)


def _features(
    name: str, value: Any, group: str, ignored: Collection[str], categorical: Collection[str], depth: int
) -> Iterator[Named]:
    """The features of one value."""
    if value is None or name in ignored:
        return
    if isinstance(value, str):
        if value:
            yield Named(f"{name}={value}", 1.0, group)
    elif isinstance(value, _NUMBER):
        if name in categorical:
            yield Named(f"{name}={_as_category(value)}", 1.0, group)
        else:
            yield Named(name, _as_number(value, name), group)
    elif depth == DEEPEST:
        raise BadValue("objects or lists nested too deep", f"at most {DEEPEST} levels", name)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _features(f"{name}^{key}", inner, group, ignored, categorical, depth + 1)
    elif isinstance(value, (list, tuple)):
        yield from _items(name, value, group, name in categorical)
    else:
        raise BadValue(f"a value of type {type(value).__name__}", "a number, a text, a list or an object", name)


def _items(name: str, items: Sequence[Any], group: str, categorical: bool) -> Iterator[Named]:
    """The features of a list."""
    texts = [isinstance(item, str) for item in items if item is not None]
    if not all(isinstance(item, (str, *_NUMBER)) for item in items if item is not None) or (
        any(texts) and not all(texts) and not categorical
    ):
        raise BadValue(f"a list of several kinds of things: {shown(items)}", "texts, or numbers", name)
    for at, item in enumerate(items):
        if isinstance(item, str):
            if item:
                yield Named(f"{name}={item}", 1.0, group)
        elif item is not None and categorical:
            yield Named(f"{name}={_as_category(item)}", 1.0, group)
        elif item is not None:
            yield Named(f"{name}^{at}", _as_number(item, name), group)


def _as_category(value: Any) -> str:
    """A number as text: as JSON writes it."""
    return json.dumps(value if isinstance(value, (int, float)) else float(value))


def _as_number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except OverflowError:  # a whole number
        number = math.inf
    if not math.isfinite(number):
        raise BadValue("a number that is not finite, or too large for float64", FINITE, name)
    return number


def shown(value: Any) -> str:
    """The beginning of a value, for a message.

    >>> shown("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
    """
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


class NamedRows:
    """Coordinates of rows, through a cache from the names to the coordinates that :class:`Features` gave them.

    A row of nothing but numbers costs one lookup in a dict for each of them. Keys may be anything that a dict takes;
    those that are not text are named by ``str``. Equal names of a row are summed; with :class:`Hashing`, two names of a
    row can still have the same coordinate, which :func:`giftrl.streams.names.merge.merge` sums.

    Args:
        features: :class:`Hashing` or :class:`Dictionary`.
        ignored: names to leave out, with all that is nested in them.
        categorical: names whose numbers are categories too.

    >>> from giftrl.streams.names.features import Dictionary
    >>> rows = NamedRows(Dictionary())
    >>> values, slots = rows.learn({"age": 33, "city": "Rome"})
    >>> values.tolist(), slots.tolist()
    ([33.0, 1.0], [1, 2])
    >>> values, slots = rows.look_up({"city": "Oslo", "age": 8})
    >>> values.tolist(), slots.tolist()
    ([8.0], [1])
    """

    def __init__(self, features: Features, *, ignored: Collection[str] = (), categorical: Collection[str] = ()) -> None:
        self.features = features
        self.ignored = frozenset(ignored)
        self.categorical = frozenset(categorical)
        self._hashed = isinstance(features, Hashing)
        self._known: dict[Any, int] = {}

    def learn(self, row: _Row) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The values and coordinates of a row; new names get a coordinate."""
        names, values = self._entries(row)
        return self._coordinates(names, values, True)

    def look_up(self, row: _Row) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The values and coordinates of a row without the names that have no coordinate."""
        names, values = self._entries(row)
        values, slots = self._coordinates(names, values, False)
        if len(slots) == 0 or slots.min() >= 0:
            return values, slots
        return values[slots >= 0], slots[slots >= 0]

    def learn_many(self, rows: Sequence[_Row]) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]:
        """The values and coordinates of many rows, and where each row begins and ends; new names get a coordinate."""
        names, values, indptr = self._joined(rows)
        return *self._coordinates(names, values, True), indptr

    def look_up_many(self, rows: Sequence[_Row]) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]:
        """Like :meth:`learn_many`, without the names that have no coordinate."""
        names, values, indptr = self._joined(rows)
        values, slots = self._coordinates(names, values, False)
        known = slots >= 0
        return values[known], slots[known], np.concatenate([[0], np.cumsum(known)])[indptr]

    def _entries(self, row: _Row) -> tuple[Collection[Any], NDArray[np.float64]]:
        """The names and values of a row."""
        given = row.values()
        if not (self.ignored or self.categorical) and _PLAIN.issuperset(map(type, given)):
            try:
                values = np.fromiter(given, np.float64, len(row))
            except OverflowError:
                values = np.array([math.inf])
            if np.isfinite(values).all():
                return row, values
        try:
            named: dict[str, float] = {}
            for name, value, _ in walk(row, ignored=self.ignored, categorical=self.categorical):
                named[name] = _as_number(named.get(name, 0.0) + value, name)
        except BadValue as bad:
            raise InvalidInput(
                "x", row, f"must have usable values ({bad.problem} in {bad.name!r})", bad.expected
            ) from None
        return named, np.fromiter(named.values(), np.float64, len(named))

    def _joined(self, rows: Sequence[_Row]) -> tuple[Collection[Any], NDArray[np.float64], NDArray[np.int64]]:
        entries = [self._entries(row) for row in rows]
        names = list(chain.from_iterable(names for names, _ in entries))
        indptr = np.cumsum([0, *(len(values) for _, values in entries)], dtype=np.int64)
        return names, np.concatenate([np.empty(0), *(values for _, values in entries)]), indptr

    def _coordinates(
        self, names: Collection[Any], values: NDArray[np.float64], enter: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Coordinates, -1 for unknown names; and the values with the signs that hashing gives them."""
        try:
            slots = np.fromiter(map(self._known.__getitem__, names), np.int32, len(names))
        except KeyError:
            slots = np.fromiter(map(self._known.get, names, repeat(_MISSING)), np.int32, len(names))
            slots[slots == _MISSING] = self._ask([name for name in names if name not in self._known], enter)
        if self._hashed and len(slots) and slots.min() < 0:
            minus = slots < 0
            slots[minus] = ~slots[minus]
            values = np.where(minus, -values, values)
        return values, slots

    def _ask(self, names: list[Any], enter: bool) -> NDArray[np.int32]:
        """The coordinates of names that are not in the cache; the complement of one whose sign is minus."""
        frozen = self.features.frozen
        self.features.frozen = frozen or not enter
        try:
            slots, signs = self.features.slots([str(name) for name in names])
        finally:
            self.features.frozen = frozen
        if self._hashed:
            slots = np.where(signs < 0.0, ~slots, slots)
            if not enter:
                return slots  # it has not been entered, so that the report must still count it when it is
            if len(self._known) > _MOST_HASHED:
                self._known.clear()
        self._known.update(
            (name, slot) for name, slot in zip(names, slots.tolist(), strict=True) if self._hashed or slot >= 0
        )
        return slots
