"""Single rows in JSON, learnt and scored in a tenth of the time that the readers of streams take to get ready.

A reader of JSON lines prepares arrays and loops for many rows: 0.4 ms, whether there is one or fifty. A request often
has one. It is read here as that reader reads lines that are not plain (``orjson`` and a walk over the object), and is
learnt or scored in memory that is kept from row to row, by the same loops and to the same bits. Whatever is out of the
ordinary is left to the readers, errors included.
"""

import math
import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from giftrl.config.predictor import range_of
from giftrl.kernels.base import OneRow, sparse_row
from giftrl.streams.names.objects import BadValue
from giftrl.streams.text.json import JsonLines
from giftrl.training.model import LinearModel

#: Names whose coordinates are known by heart, at most; and the entries of a row.
NAMES, ENTRIES = 100_000, 512
#: Layouts of rows that are known by heart, at most.
LAYOUTS = 256
NUMBERS = {int, float}

Places = dict[str, tuple[int, float]]  # the coordinate and the sign of each name


class Row(NamedTuple):
    """A row of a request.

    Args:
        slots, values: its entries, the constant included.
        label: as the loss takes it; NaN where it is not asked for.
    """

    slots: Any
    values: list[float]
    label: float = math.nan


class Layout(NamedTuple):
    """Where the numbers of rows with the same keys go, the constant included, where none of them is 0.

    Args:
        slots: the coordinates.
        signs: by which the numbers are multiplied.
        values: the memory of the row, as far as it is used.
        pack: writes numbers into that memory.
        quotes: how many a line has.
    """

    slots: NDArray[np.int32]
    signs: NDArray[np.float64]
    values: NDArray[np.float64]
    pack: Callable[..., None]
    quotes: int


class Named(NamedTuple):
    """What a line says, in the names of features."""

    names: list[str]
    values: list[float]
    label: float


class Quick:
    """Single rows of one model; for one thread at a time.

    Args:
        model: whose features are frozen.
        parser: of JSON lines, as it is for this model.
    """

    def __init__(self, model: LinearModel, parser: JsonLines) -> None:
        self._model, self._parser = model, parser
        self._special = parser.special
        self._asked: Places = {}  # of names to predict for
        self._learnt: Places = {}  # of names that the model has learnt, so that it need not be told of them
        self._labels: dict[float, float] = {}  # the labels of the loss by those of the data
        self._clips = model.clips()
        self._constant = [model.features.constant] if model.settings.constant else []
        self._learner = cast("Any", model.learner)
        self._one = [1.0] * len(self._constant)
        self._memory: OneRow = self._learner.one_row(sparse_row(ENTRIES))
        self._values, self._indices = self._memory.values, cast("Any", self._memory).rows.value.indices
        self._layouts: dict[tuple[str, ...], Layout] = {}  # of rows to predict for, by their keys
        self._written: Layout | None = None  # whose coordinates are in the memory of the row

    @staticmethod
    def able(model: LinearModel) -> bool:
        """Whether the rows of a model need nothing but names and values, and have one score."""
        settings = model.settings
        plain = settings.normalize == "none" and not settings.interactions and not settings.ngrams
        return plain and not settings.many and hasattr(model.learner, "score_row")

    def predict(self, line: bytes) -> float | None:
        """<s, x> of a row, clipped as the model clips; None where the reader must look at it."""
        try:
            top = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        if type(top) is not dict:
            return None
        if not self._written_by_layout(line, top):
            row = self._to_predict(line, top)
            if row is None:
                return None
            self._write(row)
        score = float(self._learner.score_row(self._memory))
        if self._clips is False:
            return score
        low, high = range_of(self._learner, self._clips)
        return min(max(score, low), high)

    def _written_by_layout(self, line: bytes, top: dict[str, Any]) -> bool:
        """Whether a row of numbers has keys that are known, and has been written to the memory."""
        layout = self._layouts.get(tuple(top))
        values = top.values()
        if layout is None or not all(values) or line.count(b'"') != layout.quotes:
            return False
        try:
            if not math.isfinite(sum(values)):
                return False
            layout.pack(*values, *self._one)  # true is 1 here, too
        except (TypeError, OverflowError, struct.error):  # something is no number
            return False
        np.multiply(layout.values, layout.signs, layout.values)
        if self._written is not layout:
            self._indices[: len(layout.slots)] = layout.slots
            self._memory.end(len(layout.slots))
            self._written = layout
        return True

    def _to_predict(self, line: bytes, top: dict[str, Any]) -> Row | None:
        """A row to predict for; None where the reader must look at it."""
        named = self._named(line, top)
        if named is None or named.label == named.label:  # a label, which may be none of the model's
            return None
        row = self._placed(named, self._asked)
        if row is None and self._find(named.names, self._asked):
            row = self._placed(named, self._asked)
        if row is not None and tuple(named.names) == tuple(top) and set(map(type, top.values())) <= NUMBERS:
            self._keep_layout(tuple(top))
        return row

    def to_learn(self, line: bytes) -> Row | list[str]:
        """A row to learn from; or the names of its features that are to be :meth:`enter`-ed, and the reader must look.

        There are no such names where the reader must look for another reason.
        """
        try:
            top = orjson.loads(line)
        except orjson.JSONDecodeError:
            return []
        named = self._named(line, top)
        label = math.nan if named is None else self._label(named.label)
        if named is None or label != label:
            return []
        row = self._placed(named, self._learnt)
        return named.names if row is None else row._replace(label=label)

    def enter(self, names: Iterable[str]) -> None:
        """Take note of names that the model has learnt."""
        self._find(list(names), self._learnt)

    def learn(self, row: Row) -> float:
        """Learn from a row; the prediction that was made before."""
        self._write(row)
        return self._model.learn_row(self._memory, row.label)

    def _keep_layout(self, keys: tuple[str, ...]) -> None:
        """Keep the coordinates of rows of numbers under these keys, which are names of features as they are."""
        if len(self._layouts) >= LAYOUTS:
            self._layouts.clear()
        places = [self._asked[key] for key in keys]
        slots = np.array([slot for slot, _ in places] + self._constant, np.int32)
        signs = np.array([sign for _, sign in places] + self._one)
        values = self._values[: len(slots)]
        pack = partial(struct.Struct(f"={len(slots)}d").pack_into, values, 0)
        self._layouts[keys] = Layout(slots, signs, values, pack, 2 * len(keys))

    def _named(self, line: bytes, top: Any) -> Named | None:
        if type(top) is not dict:
            return None
        try:
            named = _flat(top, self._parser.label, self._parser.label_of) if self._special.isdisjoint(top) else None
            if named is None:
                found = self._parser.row(line)
                if found.weight != 1.0:
                    return None
                named = Named(
                    [each.name for each in found.features], [each.value for each in found.features], found.label
                )
        except BadValue:
            return None
        # Of a key that an object has twice, orjson keeps the last value. Keys and texts have two quotes each.
        if b"\\" not in line and line.count(b'"') != 2 * _texts(top):
            return None
        return named if math.isfinite(sum(named.values)) and len(named.values) < ENTRIES else None

    def _placed(self, named: Named, places: Places) -> Row | None:
        """A row of a line; None where a name is not among these places, or two have the same one."""
        try:
            pairs = [places[name] for name in named.names]
        except KeyError:
            return None
        slots = [slot for slot, _ in pairs] + self._constant
        if len(set(slots)) < len(slots) or max(slots, default=0) >= self._learner.dimension:
            return None
        values = [sign * value for (_, sign), value in zip(pairs, named.values, strict=True)]
        return Row(slots, values + self._one)

    def _write(self, row: Row) -> None:
        count = len(row.slots)
        self._values[:count], self._indices[:count] = row.values, row.slots
        self._memory.end(count)
        self._written = None

    def _find(self, names: list[str], places: Places) -> bool:
        """Look names up."""
        if len(places) > NAMES:
            places.clear()
        try:
            slots, signs = self._model.features.slots(names)
        except ValueError:
            return False
        # A frozen dictionary gives -1 to a name that it does not have, and may have it later.
        places |= {n: (k, s) for n, k, s in zip(names, slots.tolist(), signs.tolist(), strict=True) if k >= 0}
        return True

    def _label(self, given: float) -> float:
        """A label of the data as the loss takes it; NaN where it cannot be used."""
        found = self._labels.get(given)
        if found is None:
            settings, one = self._model.settings, np.array([given])
            good = given == given and settings.accepts(one)[0]
            found = float(settings.mapped(one)[0]) if good else math.nan
            if settings.labels is not None:  # of which there are few
                self._labels[given] = found
        return found


def _flat(top: dict[str, Any], label: str | None, label_of: Callable[[Any], float]) -> Named | None:
    """What an object without keys of a meaning of their own says; None where something is nested in it."""
    names, values, y = [], [], math.nan
    for name, value in top.items():
        kind = type(value)
        if name == label:
            y = label_of(value)
        elif kind is float or kind is int or kind is bool:
            if value:
                names.append(name)
                values.append(float(value))
        elif kind is str:
            if value:
                names.append(f"{name}={value}")
                values.append(1.0)
        elif value is not None:
            return None
    return Named(names, values, y)


def _texts(value: Any) -> int:
    """How many keys and texts there are in what JSON says."""
    if type(value) is dict:
        count = len(value)
        for each in value.values():
            if type(each) is not float:
                count += _texts(each)
        return count
    if type(value) is list:
        return sum(map(_texts, value))
    return int(type(value) is str)
