"""Match the weights of another program with the features of data, by name, number, order or VW's hash."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config.class_labels import takes_signs
from giftrl.errors import InvalidInput, require
from giftrl.losses import EVERY, MULTICLASS
from giftrl.streams.columns import Columns, Kind
from giftrl.streams.names.features import Dictionary
from giftrl.streams.names.interactions import SEPARATOR
from giftrl.streams.names.tables import Sections
from giftrl.training.certification import Rereading
from giftrl.training.settings import LabelValues, Settings, look, needs_labels
from giftrl.training.weights_file import CONSTANT_NAME, Weights, read_weights, vw_hashes

Array = NDArray[np.float64]

WHOLE_NUMBER = re.compile("[0-9]+")
#: Names of the constant feature in files, unless a feature of the data has them.
INTERCEPT_NAMES = ("intercept", "(intercept)")


class VwNames(Dictionary):
    """A dictionary whose names ``namespace^feature`` have one meaning: the first caret ends the namespace.

    Vowpal Wabbit hashes the feature ``a^b`` without a namespace, and ``b`` of the namespace ``a``, in different ways.
    In a dictionary they have one name. So a caret in a feature without a namespace, or in a namespace, is refused.

    >>> from giftrl.streams.batch import Position
    >>> from giftrl.streams.text.vw import VwText
    >>> rows = VwText(VwNames(), compiled=False)
    >>> rows.parse(b"1 |a b^c\\n", "a.vw", Position()).data.tolist()
    [1.0]
    >>> rows.parse(b"1 | a^b\\n", "a.vw", Position())
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: name='a^b': has a caret and no namespace, so it looks like a feature of a namespace;
    rename it
    """

    def name_slots(
        self,
        text: NDArray[np.uint8],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        sections: Sections,
        values: NDArray[np.float64],
    ) -> NDArray[np.int32]:
        """The coordinates of names, as of any dictionary."""
        carets = np.cumsum(np.append(0, text == ord("^")))  # the number of carets before each byte

        def refuse(wrong: NDArray[np.bool_], begin: NDArray[np.int64], end: NDArray[np.int64], rule: str) -> None:
            if wrong.any():
                k = int(np.argmax(wrong))
                name = text[begin[k] : end[k]].tobytes().decode(errors="replace")
                raise InvalidInput("name", name, rule, "rename it")

        # Sections begin behind a bar in VW text. The one section of other formats begins at 0.
        bare = (sections.end == sections.start) & (sections.start > 0)
        alone = np.repeat(bare, np.diff(sections.first, append=len(starts)))
        rule = "has a caret and no namespace, so it looks like a feature of a namespace"
        refuse(alone & (carets[ends] > carets[starts]), starts, ends, rule)
        wrong = carets[sections.end] > carets[sections.start]
        refuse(wrong, sections.start, sections.end, "is a namespace with a caret, which should end it")
        return super().name_slots(text, starts, ends, sections, values)


def rows_for_weights(
    path: str | os.PathLike[str],
    sources: Any,
    *,
    loss: str | None,
    labels: LabelValues | None = None,
    parameters: Mapping[str, float] | None = None,
    constant: bool = True,
    interactions: tuple[tuple[str, ...], ...] = (),
    first: int | None = None,
    **reading: Any,
) -> tuple[Rereading, Array, list[str]]:
    """Survey the rows of sources and match the weights of a file with them.

    Returns the rows, the weight of each coordinate, and notes about what did not match.

    Args:
        path: of weights; see :func:`giftrl.training.weights_file.read_weights`.
        sources: of rows with labels.
        loss: by name.
        labels: the labels in the data that stand for -1 and +1, or the labels of all classes; the file may have them
            too.
        parameters: of the loss.
        constant: True if models have a constant feature.
        interactions: products of features to add.
        first: as for :func:`match`.
        reading: other arguments of :class:`Rereading`.
    """
    given = read_weights(path)
    if loss is None:
        raise InvalidInput("loss", None, "must be given for weights", "write --loss logistic, or another loss")
    many = loss in MULTICLASS
    if labels is None and given.classes is not None and (many or len(given.classes) == 2):
        labels = given.classes if many or takes_signs(EVERY.member(loss, "slope"), only=True) else None
    opened: dict[str, Any] = {}
    if labels is None and needs_labels(loss):
        target, opened = look(sources, loss, None, **{"format": None, "columns": Columns(), **reading})
        labels = target.label_values
    settings = Settings(
        loss=loss, label_values=labels, parameters=dict(parameters or {}), bits=None, constant=constant,
        interactions=interactions,
    )  # fmt: skip
    rule = f"has weights of {given.scores} scores, and {loss} has {settings.classes} here"
    remedy = f"use --loss {' or '.join(MULTICLASS)}" if given.scores > 1 and not many else "give weights for each class"
    require(given.scores == settings.classes, "weights", given.path, rule, remedy)
    rows = Rereading(sources, settings, Dictionary() if given.hashed is None else VwNames(), opened=opened, **reading)
    rows.survey()
    return rows, *match(given, rows, first)


def match(given: Weights, data: Rereading, first: int | None = None) -> tuple[Array, list[str]]:
    """Return the weight of each coordinate, a column for each score, and notes about what did not match.

    Args:
        given: the weights.
        data: rows, after their survey, whose features are in a dictionary.
        first: the number of the feature of the first weight in an array: 0 or 1. None for 0 if the data has a feature
            0, and otherwise 1, as scikit-learn's ``load_svmlight_file`` has it.

    >>> import pathlib, tempfile
    >>> from giftrl.streams.names.features import Dictionary
    >>> from giftrl.training import Settings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.csv")
    ...     _ = path.write_text("age,height,label\\n3,4,1\\n8,7,-1\\n")
    ...     rows = Rereading([path], Settings(), Dictionary())
    ...     rows.survey()
    >>> match(Weights("w.npy", np.array([[0.5], [2.0]])), rows)[0].ravel().tolist()
    [0.0, 0.5, 2.0]
    >>> match(Weights("w", np.array([[0.5], [1.0]]), ["age", "size"], ["w:1", "w:2"]), rows)[1]
    ["1 of 2 weights is of a feature that no row has: 'size' (w:2)",
     "1 feature has no weight, which counts as 0: 'height'"]
    """
    weights = np.zeros((data.features.dimension, given.scores))
    notes: list[str] = []
    known = _names(data)
    same = f"its names must be those of the data, such as {', '.join(map(repr, known[:3])) or 'none'}"
    nothing = "has no weight for any feature of the data"
    if given.hashed is not None:
        rule = "has hashes in place of names, by which products of features are not found"
        require(not data.settings.interactions, "weights", given.path, rule, "write it with vw --invert_hash")
        names = [data.features.name(int(slot)) or "" for slot in data.coordinates]
        for slot, number in zip(data.coordinates, vw_hashes(names, given.bits), strict=True):
            weights[slot] = given.hashed.get(number, 0.0)
        require(bool(weights.any()), "weights", given.path, nothing, same)
        return weights, notes
    names = (
        _names_in_order(given, data, known, first) if given.names is None else _renumbered(given.names, known, notes)
    )
    places = given.places or [given.path] * len(names)
    slots = _slots(given, data, names, places)
    weights[slots[slots >= 0]] = given.values[slots >= 0]
    if given.intercept is not None:
        _require_constant(data, given.intercept, given.path)
        if data.settings.constant:
            weights[data.features.constant] = given.intercept
    require(bool(np.any((slots >= 0) & (slots != data.features.constant))), "weights", given.path, nothing, same)
    lost = np.flatnonzero((slots < 0) & given.values.any(axis=1))
    if len(lost) and given.names is not None:
        which = f"{names[lost[0]]!r} ({places[lost[0]]})"
        verb, more = ("is of a feature", "") if len(lost) == 1 else ("are of features", ", the first one")
        notes.append(f"{len(lost):,} of {len(names):,} weights {verb} that no row has{more}: {which}")
    bare = np.setdiff1d(data.coordinates, [*slots.tolist(), data.features.constant])
    if len(bare):
        verb, more = ("feature has", "") if len(bare) == 1 else ("features have", ", the first one")
        notes.append(f"{len(bare):,} {verb} no weight, which counts as 0{more}: {data.features.name(int(bare[0]))!r}")
    return weights, notes


def _slots(given: Weights, data: Rereading, names: list[str], places: Sequence[str]) -> NDArray[np.int64]:
    """The coordinate of each name; -1 if no row has it."""
    if given.products:
        product = next((k for k, name in enumerate(names) if re.search(r"[^^]\*.", name)), None)
        if product is not None and not data.settings.interactions:
            rule = f"{names[product]!r} is a product of features, and the data is read without products"
            raise InvalidInput("weights", places[product], rule, "add -q with the namespaces, as for vw")
        names = [name.replace("*", SEPARATOR) for name in names] if data.settings.interactions else names
    features = data.features
    features.freeze()
    slots = features.slots(names)[0].astype(np.int64)
    features.thaw()
    for k, name in enumerate(names):
        if name == CONSTANT_NAME or (slots[k] < 0 and name in INTERCEPT_NAMES):
            _require_constant(data, given.values[k], places[k])
            slots[k] = features.constant if data.settings.constant else -1
    return slots


def _require_constant(data: Rereading, values: Array, place: str) -> None:
    good = data.settings.constant or not values.any()
    require(good, "weights", place, "has a constant, which the data is read without", "leave out --no-constant")


def _renumbered(names: list[str], known: list[str], notes: list[str]) -> list[str]:
    """The names; numbers plus 1 if numbers of the file count from 0 and numbers of the data from 1."""
    features = [name for name in names if name != CONSTANT_NAME and name not in INTERCEPT_NAMES]
    if "0" not in features or "0" in known or not all(map(WHOLE_NUMBER.fullmatch, [*features, *known])):
        return names
    notes.append("the numbers of the weights count from 0 and those of the data from 1: 1 was added")
    return [str(int(name) + 1) if WHOLE_NUMBER.fullmatch(name) else name for name in names]


def _names(data: Rereading) -> list[str]:
    """The names of all features of the data but the constant one."""
    names = (data.features.name(int(slot)) for slot in data.coordinates)
    return [name for name in names if name is not None and name != CONSTANT_NAME]


def _names_in_order(given: Weights, data: Rereading, known: list[str], first: int | None) -> list[str]:
    """The names of the features of an array."""
    count, schema = len(given.values), data.schema
    if schema is not None:
        kinds = dict(zip(schema.names, schema.kinds, strict=True))
        single = (Kind.LABEL, Kind.WEIGHT, Kind.IGNORED, Kind.NUMBER)
        other = next((name for name, kind in kinds.items() if kind not in single), None)
        if other is not None:
            rule = f"has no names, and the column {other!r} is not a column of numbers"
            raise InvalidInput("weights", given.path, rule, f'give names, as in {{"{other}=red": 0.5}}, or --ignore it')
        columns = [name for name, kind in kinds.items() if kind == Kind.NUMBER]
        rule = f"has {count} weights, and the data has {len(columns)} columns of numbers"
        require(count == len(columns), "weights", given.path, rule, "give a weight for each, or --ignore columns")
        return columns
    strange = next((name for name in known if not WHOLE_NUMBER.fullmatch(name)), None)
    if strange is not None:
        rule = f"has no names, and the features of the data have: {strange!r}"
        raise InvalidInput("weights", given.path, rule, f'give names, as in {{"{strange}": 0.5}}')
    numbers = [int(name) for name in known]
    start = first if first is not None else int(0 not in numbers)
    low, high = min(numbers, default=start), max(numbers, default=start)
    inside = start <= low and high < start + count
    rule = f"has weights for the features {start} to {start + count - 1}, and the data has the feature"
    require(inside, "weights", given.path, f"{rule} {low if low < start else high}", "see --first-index")
    return [str(start + k) for k in range(count)]
