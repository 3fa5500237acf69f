"""Scores of single rows in JSON, in a tenth of the time that the readers of streams take to get ready.

A reader of JSON lines prepares arrays and loops for many rows: 0.4 ms, whether there is one or fifty. A request often
has one. It is read here as that reader reads lines that are not plain (``orjson`` and a walk over the object), and
scored in memory that is kept from row to row. Whatever is out of the ordinary is left to the readers, errors included.
"""

from typing import Any, cast

from giftrl.kernels.one_row import OneRow, sparse_row
from giftrl.recipes.predictor import range_of
from giftrl.streams.names.features import Features
from giftrl.streams.names.walk import BadValue
from giftrl.streams.text.json_lines import JsonLines
from giftrl.training.model import LinearModel

#: Names whose coordinates are known by heart, at most; and the entries of a row.
NAMES, ENTRIES = 100_000, 512


class Quick:
    """Scores of single rows; for one thread at a time.

    Args:
        model: whose features are frozen.
        parser: of JSON lines, as it is for this model.
    """

    def __init__(self, model: LinearModel, parser: JsonLines) -> None:
        self._model, self._parser = model, parser
        self._places: dict[str, tuple[int, float]] = {}
        self._learner = cast("Any", model.learner)
        self._row: OneRow = self._learner.one_row(sparse_row(ENTRIES))

    @staticmethod
    def able(model: LinearModel) -> bool:
        """Whether the rows of a model need nothing but names and values, and have one score."""
        settings = model.settings
        plain = settings.normalize == "none" and not settings.interactions and not settings.ngrams
        return plain and not settings.many and hasattr(model.learner, "score_row")

    def score(self, line: bytes) -> float | None:
        """<s, x> of a row, clipped as the model clips; None where the reader must look at it."""
        model = self._model
        try:
            found = self._parser.row(line)
        except BadValue:
            return None
        if found.label == found.label or not len(found.features) < ENTRIES:  # a label, which may be none of the model's
            return None
        places, features = self._places, model.features
        try:
            pairs = [places[each.name] for each in found.features]
        except KeyError:
            if not self._learn_names([each.name for each in found.features], features):
                return None
            pairs = [places[each.name] for each in found.features if each.name in places]
            if len(pairs) < len(found.features):
                return None
        slots = [slot for slot, _ in pairs]
        values = [sign * each.value for (_, sign), each in zip(pairs, found.features, strict=True)]
        if model.settings.constant:
            slots.append(features.constant)
            values.append(1.0)
        count = len(slots)
        dimension = model.learner.dimension
        if len(set(slots)) < count or max(slots, default=0) >= dimension:
            return None
        row: Any = self._row
        row.values[:count], row.rows.value.indices[:count] = values, slots
        row.end(count)
        low, high = range_of(model.learner, model.clips())
        return min(max(float(self._learner.score_row(row)), low), high)

    def _learn_names(self, names: list[str], features: Features) -> bool:
        if len(self._places) > NAMES:
            self._places = {}
        try:
            slots, signs = features.slots(names)
        except ValueError:
            return False
        # A frozen dictionary gives -1 to a name that it does not have, and may have it later.
        self._places |= {n: (k, s) for n, k, s in zip(names, slots.tolist(), signs.tolist(), strict=True) if k >= 0}
        return True
