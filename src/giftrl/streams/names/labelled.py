"""A dict with a label: a JSON object, or the body of a request to learn from."""

import json
import math
from collections.abc import Collection
from typing import Any, NamedTuple

from giftrl.streams.names.walk import FINITE, BadValue, Named, shown, walk

__all__ = ["FEATURES", "TAG", "WEIGHT", "Labelled", "labelled"]

FEATURES, WEIGHT, TAG = "features", "weight", "tag"


class Labelled(NamedTuple):
    """What a dict says of a row."""

    label: float  # NaN where there is none
    weight: float
    tag: str
    features: list[Named]  # without those of value 0


def labelled(
    given: Any, label: str | None, weight: str | None, *, ignored: Collection[str], categorical: Collection[str]
) -> Labelled:
    """The label, weight, tag and features of a dict; raises :class:`BadValue` where something is wrong with it.

    The dict under "features" holds the features, and beside it there may be the label, "weight" and "tag"; without it,
    all keys but those of label and weight are features.

    Args:
        given: the dict.
        label: the key of the label; None where there is none.
        weight: the key of the weight, where it is not the usual one.
        ignored: names to leave out.
        categorical: names whose numbers are categories.

    >>> row = labelled({"y": 1, "user": {"age": 3}, "city": "Rome"}, "y", None, ignored=(), categorical=())
    >>> row.label, [each.name for each in row.features]
    (1.0, ['user^age', 'city=Rome'])
    """
    if type(given) is not dict:
        raise BadValue("no object", "one object a line", 0)
    rest = dict(given)
    inside = type(rest.get(FEATURES)) is dict
    y = rest.pop(label, None)
    w, tag = 1.0, ""
    weight = weight or (WEIGHT if inside else None)
    if weight in rest:
        w = _number(rest.pop(weight), "weight", str(weight))
        if w < 0.0:
            raise BadValue("a weight below 0", "a finite number, 0 or more", str(weight))
    if inside:
        features = rest.pop(FEATURES)
        tag = rest.pop(TAG, "")
        beside = next((key for key in rest if key not in ignored), None)
        if beside is not None:
            expected = f'features inside "{FEATURES}", or the key among those to ignore'
            raise BadValue(f"the key {beside!r} beside {FEATURES!r}", expected, beside)
        rest = features
    return Labelled(
        math.nan if y is None else _number(y, "label", str(label)),
        w,
        tag if type(tag) is str else json.dumps(tag),
        [each for each in walk(rest, ignored=ignored, categorical=categorical) if each.value],
    )


def _number(value: Any, what: str, key: str) -> float:
    if type(value) not in (int, float, bool):
        raise BadValue(f"a {what} that is not a number: {shown(value)}", FINITE, key)
    return float(value)
