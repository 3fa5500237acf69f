"""JSON lines: one object a line, ``{"label": 1, "features": {"age": 33, "city": "Rome"}}`` or without "features"."""

import json
import math
from typing import Any

import numpy as np

from giftrl.streams.batch import Batch, Position, Rejected
from giftrl.streams.columns import LABELS, Columns, Kind, Schema
from giftrl.streams.features import Features
from giftrl.streams.interactions import Interactions
from giftrl.streams.merge import changed, keep_rows, merge, overflowed
from giftrl.streams.text_rows import BOM

__all__ = ["JsonLines"]

FINITE = "a finite number"
FEATURES, WEIGHT, TAG = "features", "weight", "tag"
#: Objects and lists inside each other.
DEEPEST = 100


class _Bad(Exception):
    """A line that breaks a rule: the problem, what was expected, and where: a key or word, or an offset."""

    def __init__(self, problem: str, expected: str, where: str | int = 0) -> None:
        super().__init__(problem)
        self.problem, self.expected, self.where = problem, expected, where


def _no_constant(word: str) -> Any:
    raise _Bad(f"{word}, which is no number in JSON", f"{FINITE}, or null", word)


#: Objects become tuples of pairs, so that no key is lost, and are told apart from lists.
_decode = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_no_constant).decode


class JsonLines:
    """Reads blocks of JSON lines.

    The object under "features" holds the features; without one, all keys but those of label and weight do. A number is
    the feature of its key, true and false are 1 and 0, text is the feature ``key=text`` with value 1; null, empty text
    and 0 add nothing. Keys of objects inside others are joined: ``{"user": {"age": 3}}`` is ``user^age``. A list of texts is
    several categories; in a list of numbers, item i is ``key^i``. Beside "features" there may be the label, "weight"
    and "tag".

    Args:
        features: what turns names into coordinates.
        columns: the keys of label and weight (at the top), what to ignore, and which numbers are categories.
        schema: where the key of the label, and of categories, is known from before.
        interactions: whose groups to note for each entry; a group is a key at the top of the features.
        compiled: False to run the loops as plain Python.

    >>> from giftrl.streams.features import Dictionary
    >>> features = Dictionary()
    >>> text = b'{"label": 1, "age": 33, "tags": ["a", "b"]}\\n{"label": -1, "age": [}\\n'
    >>> batch = JsonLines(features).parse(text, "a.json", Position())
    >>> [features.name(slot) for slot in batch.indices], batch.data.tolist(), batch.labels.tolist()
    (['age', 'tags=a', 'tags=b'], [33.0, 1.0, 1.0], [1.0])
    >>> print(batch.rejected[0])
    a.json:2:23: not JSON (Expecting value), expected one object a line
    """

    def __init__(
        self,
        features: Features,
        columns: Columns | None = None,
        schema: Schema | None = None,
        interactions: Interactions | None = None,
        *,
        compiled: bool = True,
    ) -> None:
        self.features = features
        self.columns = columns or Columns()
        self.interactions = interactions
        self.compiled = compiled
        kinds = dict(zip(schema.names, schema.kinds, strict=True)) if schema is not None else {}
        known = [name for name, kind in kinds.items() if kind == Kind.LABEL]
        said = self.columns.label
        self.label: str | None = str(said) if said is not None else known[0] if known else None
        self._weight = None if self.columns.weight is None else str(self.columns.weight)
        self._ignored = {str(name) for name in self.columns.ignore}
        self._ignored |= {name for name, kind in kinds.items() if kind == Kind.IGNORED}
        self._categorical = {str(name) for name in self.columns.categorical}
        self._categorical |= {name for name, kind in kinds.items() if kind in (Kind.CATEGORY, Kind.CATEGORIES)}

    @property
    def schema(self) -> Schema | None:
        """What was found out and must be the same for all sources: the key of the label."""
        if self.label is None:
            return None
        names = [self.label, *sorted(self._ignored), *sorted(self._categorical)]
        kinds = [Kind.LABEL, *[Kind.IGNORED] * len(self._ignored), *[Kind.CATEGORY] * len(self._categorical)]
        return Schema(tuple(names), tuple(kinds))

    def parse(self, data: Any, source: str, start: Position) -> Batch:
        """The rows of a block of whole lines.

        Args:
            data: the bytes; the last line may lack its newline.
            source: the name of the source, for messages.
            start: the position of the first byte.
        """
        whole = bytes(memoryview(data))
        names: list[str] = []
        values: list[float] = []
        groups: list[str] = []
        ends, labels, weights, lines = [0], [], [], []
        raws, tags, tagged = [], [], False
        rejected = []
        split = whole.split(b"\n")
        if not split[-1]:
            split.pop()
        for line, raw in enumerate(split, start.line):
            text = raw.removeprefix(BOM) if line == 1 and start.offset == 0 else raw
            if not text or text.isspace():
                continue
            try:
                label, weight, tag = self._row(text, names, values, groups)
            except _Bad as problem:
                del names[ends[-1] :], values[ends[-1] :], groups[ends[-1] :]
                rejected.append(_rejected(source, line, raw, problem))
                continue
            ends.append(len(names))
            labels.append(label)
            weights.append(weight)
            lines.append(line)
            raws.append(raw)
            tags.append(tag)
            tagged = tagged or bool(tag)
        slots, signs = self.features.slots(names)
        signs *= np.array(values, np.float64)
        codes = np.empty(0, np.uint8)
        if self.interactions is not None:
            code = self.interactions.code
            codes = np.array([code(group) for group in groups], np.uint8)
        merged = merge(signs, slots, codes, np.array(ends, np.int64), compiled=self.compiled)
        batch = Batch(
            source=source,
            data=merged[0],
            indices=merged[1],
            indptr=merged[3],
            labels=np.array(labels, np.float64),
            weights=np.array(weights, np.float64),
            lines=np.array(lines, np.int64),
            groups=merged[2],
            end=Position(start.source, start.offset + len(whole), start.line + len(split)),
            tags=tuple(tags) if tagged else (),
        )
        lost = overflowed(batch.data, batch.indptr)
        if len(lost):
            bad = _Bad("values of one feature whose sum is too large for float64", FINITE)
            rejected.extend(_rejected(source, lines[row], raws[row], bad) for row in lost.tolist())
            rejected.sort(key=lambda each: each.line)
            batch = keep_rows(batch, ~np.isin(np.arange(len(batch)), lost))
        return changed(batch, rejected=tuple(rejected))

    def _row(self, raw: bytes, names: list[str], values: list[float], groups: list[str]) -> tuple[float, float, str]:
        """Append the features of a line; its label, weight and tag."""
        try:
            found = _decode(raw.decode())
        except json.JSONDecodeError as problem:
            shown = f"not JSON ({problem.msg})"
            raise _Bad(shown, "one object a line", len(problem.doc[: problem.pos].encode())) from None
        except UnicodeDecodeError as problem:
            raise _Bad("bytes that are not UTF-8", "JSON in UTF-8", problem.start) from None
        except RecursionError:
            raise _Bad("objects or lists too deep inside each other", f"at most {DEEPEST}") from None
        except ValueError:  # Python reads no whole number of more than some thousand digits
            raise _Bad("a number too large for float64", FINITE) from None
        if type(found) is not tuple:
            raise _Bad("no object", "one object a line")
        top = dict(found)
        if self.label is None:
            self.label = next((name for name in LABELS if name in top), None)
        inside = type(top.get(FEATURES)) is tuple
        weight_key = self._weight or (WEIGHT if inside else None)
        label, weight, tag = math.nan, 1.0, ""
        seen = set()
        first = len(names)
        for key, value in found:
            if key == self.label or key == weight_key or (inside and key in (TAG, FEATURES)):
                if key in seen:
                    raise _Bad(f"two keys {key!r}", "one", key)
                seen.add(key)
                if key == self.label:
                    label = math.nan if value is None else self._number(value, "label", key)
                elif key == weight_key:
                    weight = self._number(value, "weight", key)
                    if weight < 0.0:
                        raise _Bad("a weight below 0", "a finite number, 0 or more", key)
                elif key == TAG:
                    tag = value if type(value) is str else json.dumps(value)
                else:
                    for name, item in value:
                        self._add(name, item, name, names, values, groups, 1)
            elif key in self._ignored:
                continue
            elif inside:
                expected = f'features inside "{FEATURES}", or the key among those to ignore'
                raise _Bad(f"the key {key!r} beside {FEATURES!r}", expected, key)
            else:
                self._add(key, value, key, names, values, groups, 1)
        if b"\\" in raw:
            _check_surrogates(names[first:])
            _check_surrogates([tag])
        return label, weight, tag

    @staticmethod
    def _number(value: Any, what: str, key: str) -> float:
        if type(value) not in (int, float, bool):
            raise _Bad(f"a {what} that is not a number: {_shown(value)}", FINITE, key)
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
            raise _Bad("objects or lists too deep inside each other", f"at most {DEEPEST}", key)
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
            raise _Bad(f"a list of several kinds of things: {_shown(items)}", "texts, or numbers", key)


def _finite(value: float, key: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise _Bad("a number too large for float64", FINITE, key)
    return number


def _check_surrogates(names: list[str]) -> None:
    """Half a pair of surrogates can be written with a backslash, and is no text."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise _Bad("half of a pair of surrogates", "text that UTF-8 can write", "\\ud") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


def _rejected(source: str, line: int, raw: bytes, bad: _Bad) -> Rejected:
    if isinstance(bad.where, int):
        at = bad.where
    else:
        # Where the last part of the key, or the word, is first written, if it is.
        word = bad.where.rpartition("^")[2].encode("utf-8", "replace")
        at = raw.find(b'"' + word + b'"')
        at = max(raw.find(word) if at < 0 else at, 0)
    return Rejected(source, line, at + 1, bad.problem, bad.expected, raw.removesuffix(b"\r"))
