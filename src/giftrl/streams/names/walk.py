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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
        features: :class:`Hashing` or :class:`Dictionary`; or None for rows whose values are all numbers and whose keys
            stay as they are: they are numbered from 1 in the order in which they are met.
        ignored: names to leave out, with all that is nested in them.
        categorical: names whose numbers are categories too.
        constant: the coordinate of a last feature 1 that every row gets, or None.
        known: the coordinates of names that the cache begins with.

    >>> from giftrl.streams.names.features import Dictionary
    >>> rows = NamedRows(Dictionary())
    >>> values, slots = rows.learn({"age": 33, "city": "Rome"})
    >>> values.tolist(), slots.tolist()
    ([33.0, 1.0], [1, 2])
    >>> values, slots = rows.look_up({"city": "Oslo", "age": 8})
    >>> values.tolist(), slots.tolist()
    ([8.0], [1])
    """

    def __init__(
        self,
        features: Features | None = None,
        *,
        ignored: Collection[str] = (),
        categorical: Collection[str] = (),
        constant: int | None = None,
        known: Mapping[Any, int] | None = None,
    ) -> None:
        self.features = features
        self.ignored = frozenset(ignored)
        self.categorical = frozenset(categorical)
        self._hashed = isinstance(features, Hashing)
        self._known: dict[Any, int] = dict(known or {})
        self._ones = () if constant is None else (1.0,)
        self._constants = () if constant is None else (constant,)

    @property
    def known(self) -> Mapping[Any, int]:
        """The coordinate of each name in the cache."""
        return self._known

    def learn(self, row: _Row) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The values and coordinates of a row; new names get a coordinate."""
        names, values = self._entries(row)
        return self._signed(values, self._coordinates((names,), len(values), enter=True))

    def look_up(self, row: _Row, *, unknown: bool = False) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The values and coordinates of a row; names that have none are left out, or have -1 if ``unknown`` is True."""
        names, values = self._entries(row)
        values, slots = self._signed(values, self._coordinates((names,), len(values), enter=False))
        if unknown or len(slots) == 0 or slots.min() >= 0:
            return values, slots
        return values[slots >= 0], slots[slots >= 0]

    def learn_many(self, rows: Sequence[_Row]) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]:
        """The values and coordinates of many rows, and where each row begins and ends; new names get a coordinate."""
        return self._many(rows, enter=True)

    def look_up_many(self, rows: Sequence[_Row]) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]:
        """Like :meth:`learn_many`, without the names that have no coordinate."""
        values, slots, indptr = self._many(rows, enter=False)
        known = slots >= 0
        return values[known], slots[known], np.concatenate([[0], np.cumsum(known)])[indptr]

    def enter(self, names: Collection[Any]) -> NDArray[np.int32]:
        """The coordinates of names, where ``features`` is None; new ones get the next."""
        self._ask(list(dict.fromkeys(name for name in names if name not in self._known)), True)
        return np.fromiter(map(self._known.__getitem__, names), np.int32, len(names))

    def _many(self, rows: Sequence[_Row], enter: bool) -> tuple[Any, Any, NDArray[np.int64]]:
        entries = [self._entries(row) for row in rows]
        indptr = np.cumsum([0, *(len(values) for _, values in entries)], dtype=np.int64)
        values = np.concatenate([np.empty(0), *(values for _, values in entries)])
        slots = self._coordinates([names for names, _ in entries], len(values), enter=enter)
        return *self._signed(values, slots), indptr

    def _entries(self, row: _Row) -> tuple[Collection[Any], NDArray[np.float64]]:
        """The names and values of a row; the values end with that of the constant."""
        given = row.values()
        free = self.features is None
        if free or (not (self.ignored or self.categorical) and _PLAIN.issuperset(map(type, given))):
            try:
                values = self._array(given)
            except (OverflowError, TypeError, ValueError):
                values = np.array([math.inf])
            if np.isfinite(values).all():
                return row, values
        if free:
            raise InvalidInput("x", row, "must have finite numbers as values", "encode text, and remove NaN")
        try:
            named: dict[str, float] = {}
            for name, value, _ in walk(row, ignored=self.ignored, categorical=self.categorical):
                named[name] = _as_number(named.get(name, 0.0) + value, name)
        except BadValue as bad:
            raise InvalidInput(
                "x", row, f"must have usable values ({bad.problem} in {bad.name!r})", bad.expected
            ) from None
        return named, self._array(named.values())

    def _array(self, values: Collection[Any]) -> NDArray[np.float64]:
        return np.fromiter(chain(values, self._ones), np.float64, len(values) + len(self._ones))

    def _coordinates(self, rows: Sequence[Collection[Any]], total: int, *, enter: bool) -> NDArray[np.int32]:
        """The coordinates of the names of rows, each row with the constant."""
        try:
            return self._collect(rows, total, self._known.__getitem__)
        except KeyError:
            known = self._known
            if self._hashed and len(known) > _MOST_HASHED:
                known.clear()
            missing = self._ask(list(dict.fromkeys(n for names in rows for n in names if n not in known)), enter)
            return self._collect(rows, total, lambda name: missing[name] if name in missing else known[name])

    def _collect(self, rows: Sequence[Collection[Any]], total: int, slot: Callable[[Any], int]) -> NDArray[np.int32]:
        if len(rows) == 1:
            return np.fromiter(chain(map(slot, rows[0]), self._constants), np.int32, total)
        named = chain.from_iterable(chain(map(slot, names), self._constants) for names in rows)
        return np.fromiter(named, np.int32, total)

    def _signed(
        self, values: NDArray[np.float64], slots: NDArray[np.int32]
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Values with the signs that hashing gives them; a coordinate whose sign is minus is its complement."""
        if self._hashed and len(slots) and slots.min() < 0:
            minus = slots < 0
            slots[minus] = ~slots[minus]
            values = np.where(minus, -values, values)
        return values, slots

    def _ask(self, names: list[Any], enter: bool) -> dict[Any, int]:
        """The coordinates of names that are not in the cache: -1 for unknown ones, the complement for a minus."""
        if self.features is None:
            first = len(self._known) + 1
            slots = dict(zip(names, range(first, first + len(names)) if enter else repeat(-1), strict=False))
        else:
            frozen = self.features.frozen
            self.features.frozen = frozen or not enter
            try:
                found, signs = self.features.slots([str(name) for name in names])
            finally:
                self.features.frozen = frozen
            slots = dict(zip(names, np.where(signs < 0.0, ~found, found).tolist(), strict=True))
        # A hashed name that is only looked up is not kept: the report must still count it when it is entered.
        if enter or not self._hashed:
            self._known.update((name, slot) for name, slot in slots.items() if self._hashed or slot >= 0)
        return slots
