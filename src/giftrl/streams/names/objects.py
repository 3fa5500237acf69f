"""Rows that are JSON objects: label, weight, tag and features."""

import json
import math
import re
from collections.abc import Iterator, Set
from typing import Any, NamedTuple

from giftrl.streams.batch import LabelNames
from giftrl.streams.names.dates import DATE_PARTS, EXPECTED_DATE, FIRST_HOUR, FIRST_MONTH, moment

FEATURES_KEY, WEIGHT_KEY, TAG_KEY = "features", "weight", "tag"
#: The maximum nesting of objects.
MAX_NESTING = 100


class NamedValue(NamedTuple):
    """A feature name and its value."""

    name: str
    value: float
    group: str  # the top-level key


class Labelled(NamedTuple):
    """The label, weight, tag and features of a JSON object."""

    label: float  # NaN if missing
    weight: float
    tag: str
    features: list[NamedValue]  # nonzero features


class BadValue(Exception):
    """A bad value: the problem, what was expected, and the name of the feature, or an offset in an unreadable text."""

    def __init__(self, problem: str, expected: str, name: str | int) -> None:
        super().__init__(f"{problem}, expected {expected}")
        self.problem, self.expected, self.name = problem, expected, name


class Keys(NamedTuple):
    """The roles of keys; all other keys are features. Label and weight are top-level keys."""

    ignored: Set[str] = frozenset()  # left out, with all nested keys
    categorical: Set[str] = frozenset()  # keys whose numbers are categories
    dates: Set[str] = frozenset()  # ISO dates and times
    texts: Set[str] = frozenset()  # keys of text whose words are features
    label: str | None = None
    weight: str | None = None  # None: "weight" beside "features"


NO_KEYS = Keys()


def walk(row: dict[str, Any], keys: Keys = NO_KEYS, skipped: Set[str | None] = frozenset()) -> Iterator[NamedValue]:
    """List the features of a row, in order.

    A number is the feature of its key; True and False are 1 and 0; text is the feature ``key=text`` with value 1; None
    and empty text are no feature. Keys of nested objects are joined: ``{"user": {"age": 3}}`` is ``user^age``. A list
    of texts is several categories; in a list of numbers, item i is ``key^i``. A date is a number of years since 2000,
    and has a weekday, a month and an hour.

    >>> [each[:2] for each in walk({"age": 33, "user": {"city": "Rome"}, "tags": ["a", "b"], "v": [0.5, 2]})]
    [('age', 33.0), ('user^city=Rome', 1.0), ('tags=a', 1.0), ('tags=b', 1.0), ('v^0', 0.5), ('v^1', 2.0)]
    >>> [each[:2] for each in walk({"day": "2024-01-01", "said": "No, no!"}, Keys(dates={"day"}, texts={"said"}))]
    [('day', 24.0), ('day^weekday=Mon', 1.0), ('day^month=1', 1.0), ('said=no', 1.0)]
    """
    for key, value in row.items():
        if key not in skipped:
            yield from _features(key, value, key, keys, 1)


def _features(name: str, value: Any, group: str, keys: Keys, depth: int) -> Iterator[NamedValue]:
    """The features of one value."""
    if name in keys.ignored:
        return
    listed = isinstance(value, list)
    if depth == MAX_NESTING and (listed or isinstance(value, dict)):
        raise BadValue("objects or lists nested too deep", f"at most {MAX_NESTING} levels", name)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _features(f"{name}^{key}", inner, group, keys, depth + 1)
        return
    if name in keys.dates:
        yield from _of_date(name, value, group)
        return
    as_text = name in keys.categorical or name in keys.texts
    if listed:
        texts = {isinstance(item, str) for item in value if item is not None}
        if (len(texts) > 1 and not as_text) or any(isinstance(item, (dict, list)) for item in value):
            raise BadValue(f"a list of several kinds of things: {_shown(value)}", "texts, or numbers", name)
    if name in keys.texts:
        items = [str(item) for item in (value if listed else [value]) if item is not None]
        for word in dict.fromkeys(words_of(" ".join(items))):
            yield NamedValue(f"{name}={word}", 1.0, group)
        return
    for at, item in enumerate(value if listed else [value]):
        if isinstance(item, str):
            if item:
                yield NamedValue(f"{name}={item}", 1.0, group)
        elif item is not None and as_text:
            yield NamedValue(f"{name}={json.dumps(item)}", 1.0, group)
        elif item is not None:
            yield NamedValue(f"{name}^{at}" if listed else name, float(item), group)


def _of_date(name: str, value: Any, group: str) -> Iterator[NamedValue]:
    """The features of a date."""
    if value is None or value == "":
        return
    found = moment(value) if isinstance(value, str) else None
    if found is None:
        raise BadValue(f"{_shown(value)} among the dates of {name!r}", EXPECTED_DATE, name)
    yield NamedValue(name, found.years, group)
    parts = [found.weekday, FIRST_MONTH + found.month, FIRST_HOUR + found.hour]
    yield from (NamedValue(name + DATE_PARTS[part], 1.0, group) for part in parts[: 2 if found.hour < 0 else 3])


class _Pairs(dict[str, Any]):
    """An object with duplicate keys: ``items`` has all pairs, a lookup returns the last value."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def items(self) -> Any:
        return self.pairs


def load_object(raw: bytes) -> Any:
    """Parse JSON with ``orjson``, but keep all values of duplicate keys.

    >>> [each[:2] for each in walk(load_object(b'{"a": 1, "b": {"c": 2, "c": 3}, "a": 4}'))]
    [('a', 1.0), ('b^c', 2.0), ('b^c', 3.0), ('a', 4.0)]
    """
    import orjson  # imported for JSON only

    top = orjson.loads(raw)
    if raw.count(b'"') == 2 * count_strings(top):
        return top
    return json.loads(
        raw,
        object_pairs_hook=lambda pairs: dict(pairs) if len(dict(pairs)) == len(pairs) else _Pairs(pairs),
        parse_int=orjson.loads,  # a float beyond 64 bits
    )


def count_strings(value: Any) -> int:
    """Count the keys and strings in a JSON value."""
    if type(value) is dict:
        return len(value) + sum(map(count_strings, value.values()))
    if type(value) is list:
        return sum(map(count_strings, value))
    return int(type(value) is str)


def labelled(given: Any, keys: Keys, labels: LabelNames | None = None) -> Labelled:
    """Read an object; raises :class:`BadValue` if it breaks a rule.

    If the key "features" exists, it holds all features, and only the label, "weight" and "tag" may stand beside it.
    Otherwise all keys except label and weight are features.
    """
    if not isinstance(given, dict):
        raise BadValue("no object", "one object a line", 0)
    inside = isinstance(given.get(FEATURES_KEY), dict)
    weight = keys.weight or (WEIGHT_KEY if inside else None)
    w, tag = 1.0, ""
    if weight in given and weight != keys.label:
        w = _number(given[weight], "weight", str(weight))
        if w < 0.0:
            raise BadValue("a weight below 0", "a finite number, 0 or more", str(weight))
    features, skipped = given, {keys.label, weight}
    if inside:
        known = {*skipped, FEATURES_KEY, TAG_KEY, *keys.ignored}
        beside = next((key for key in given if key not in known), None)
        if beside is not None:
            expected = f'features inside "{FEATURES_KEY}", or the key among those to ignore'
            raise BadValue(f"the key {beside!r} beside {FEATURES_KEY!r}", expected, beside)
        features, tag, skipped = given[FEATURES_KEY], given.get(TAG_KEY, ""), set()
    return Labelled(
        as_label(given.get(keys.label), str(keys.label), labels),
        w,
        tag if type(tag) is str else json.dumps(tag),
        [each for each in walk(features, keys, skipped) if each.value],
    )


def label_text(value: Any) -> str:
    """A label as text: true, false and numbers as JSON writes them."""
    return value if isinstance(value, str) else json.dumps(value)


def as_label(value: Any, key: str, labels: LabelNames | None) -> float:
    """Convert a value to a label: a number, or the code of its name; NaN if missing."""
    if value is None or (labels is not None and value == ""):
        return math.nan
    return _number(value, "label", key) if labels is None else labels.code(label_text(value))


def _number(value: Any, what: str, key: str) -> float:
    if type(value) not in (int, float, bool):
        raise BadValue(f"a {what} that is not a number: {_shown(value)}", "a finite number", key)
    return float(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


# Texts of many words: lower-cased, and split at everything but letters and digits.

#: The separator of words, for Arrow; a word, for Python.
WORD_SEPARATORS = r"[^\p{L}\p{N}]+"
_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The words of a text, in their order. Each letter is lower-cased by itself, as Arrow does it.

    >>> words_of("It's 5 o'clock, ÉMILE!")
    ['it', 's', '5', 'o', 'clock', 'émile']
    """
    lower = text.lower() if text.isascii() else "".join(letter.lower()[0] for letter in text)
    return _WORD.findall(lower)
