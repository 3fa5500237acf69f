"""Settings as JSON text and back, without loss.

A header holds what JSON holds: None, bool, int, float, str, lists, and dicts with str keys. JSON has no infinity and no
NaN, which are written as ``{"$float": "inf"}``; so no key of a header may begin with ``$``.
"""

import json
import math
from typing import Any

from giftrl.errors import InvalidInput, require

#: How deep lists and dicts may be nested.
DEPTH = 64
#: The longest integer in bits: Python reads and writes numbers of 640 digits under any setting.
BITS = 2048

SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_json(header: object, argument: str = "header", depth: int = 0) -> Any:
    """What json.dumps writes for a header.

    >>> to_json({"upper": float("inf"), "names": ["a", None]})
    {'upper': {'$float': 'inf'}, 'names': ['a', None]}
    """
    require(depth <= DEPTH, argument, "...", f"must not be nested deeper than {DEPTH}", "flatten the header")
    if header is None or isinstance(header, bool):
        return header
    if isinstance(header, str):
        return str(header)
    if isinstance(header, int):
        require(header.bit_length() <= BITS, argument, "...", f"must have at most {BITS} bits", "write it as a str")
        return int(header)
    if isinstance(header, float):
        return float(header) if math.isfinite(header) else {"$float": str(float(header))}
    if type(header) is list:
        return [to_json(item, f"{argument}[{i}]", depth + 1) for i, item in enumerate(header)]
    if type(header) is dict:
        for key in header:
            require(isinstance(key, str), argument, key, "must have str keys", "use str(key)")
            require(not key.startswith("$"), argument, key, "must not have keys that begin with $", "rename the key")
        return {str(key): to_json(item, f"{argument}[{key!r}]", depth + 1) for key, item in header.items()}
    raise InvalidInput(
        argument, header, "must be None, bool, int, float, str, list or dict", "convert it; arrays have their own place"
    )


def from_json(value: Any, depth: int = 0) -> Any:
    """The header that :func:`to_json` was given; ValueError where it cannot have written this.

    >>> from_json({"upper": {"$float": "inf"}})
    {'upper': inf}
    """
    if depth > DEPTH:
        raise ValueError(f"it is nested deeper than {DEPTH}")
    if isinstance(value, list):
        return [from_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"$float"} and isinstance(value["$float"], str) and value["$float"] in SPECIAL:
            return SPECIAL[value["$float"]]
        for key in value:
            if key.startswith("$"):
                raise ValueError(f"it has an unknown key {key[:80]!r}")
        return {key: from_json(item, depth + 1) for key, item in value.items()}
    return value


def parse(text: str) -> Any:
    """Parse JSON strictly: a key that appears twice, NaN or a number beyond float64 is a ValueError.

    >>> parse('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:80]} is beyond float64")
    return number
