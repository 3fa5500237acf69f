"""Weights from a file, matched with the features of data."""

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config.class_labels import takes_signs
from giftrl.errors import InvalidInput, require
from giftrl.losses import EVERY, MULTICLASS
from giftrl.streams.columns import Columns, Kind
from giftrl.streams.names.features import Dictionary
from giftrl.streams.names.interactions import SEPARATOR
from giftrl.training.certify_rows import Rereading
from giftrl.training.choose_loss import look, needs_labels
from giftrl.training.given_weights import Given, read_weights
from giftrl.training.settings import LabelValues, Settings
from giftrl.training.vw_names import VwNames

Array = NDArray[np.float64]

NUMBER = re.compile("[0-9]+")
#: The name of the constant feature, and other names for it where no feature has them.
CONSTANT, ALSO = "(constant)", ("intercept", "(intercept)")


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
    """The rows of sources after their survey, the weights of a file for them, and what did not match, in words.

    Args:
        path: of weights; see :func:`giftrl.training.given_weights.read_weights`.
        sources: of rows with labels.
        loss: by name.
        labels: those of the data that stand for -1 and +1, or those of all classes; the file may have them too.
        parameters: of the loss.
        constant: whether models have a constant feature.
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


def match(given: Given, data: Rereading, first: int | None = None) -> tuple[Array, list[str]]:
    """The weight of each coordinate, a column for each score; and what did not match, in words.

    Args:
        given: the weights.
        data: rows, after their survey, whose features are in a dictionary.
        first: the number of the feature of the first weight in an array: 0 or 1. None for 0 where the data has a
            feature 0, and otherwise 1, as scikit-learn's ``load_svmlight_file`` has it.

    >>> import pathlib, tempfile
    >>> from giftrl.streams.names.features import Dictionary
    >>> from giftrl.training import Settings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.csv")
    ...     _ = path.write_text("age,height,label\\n3,4,1\\n8,7,-1\\n")
    ...     rows = Rereading([path], Settings(), Dictionary())
    ...     rows.survey()
    >>> match(Given("w.npy", np.array([[0.5], [2.0]])), rows)[0].ravel().tolist()
    [0.0, 0.5, 2.0]
    >>> match(Given("w", np.array([[0.5], [1.0]]), ["age", "size"], ["w:1", "w:2"]), rows)[1]
    ["1 of 2 weights is of a feature that no row has: 'size' (w:2)",
     "1 feature has no weight, which counts as 0: 'height'"]
    """
    weights = np.zeros((data.features.dimension, given.scores))
    notes: list[str] = []
    if given.hashed is not None:
        from giftrl.training.vw_weights import vw_hashes

        rule = "has hashes in place of names, by which products of features are not found"
        require(not data.settings.interactions, "weights", given.path, rule, "write it with vw --invert_hash")
        names = [data.features.name(int(slot)) or "" for slot in data.coordinates]
        for slot, number in zip(data.coordinates, vw_hashes(names, given.bits), strict=True):
            weights[slot] = given.hashed.get(number, 0.0)
        require(bool(weights.any()), "weights", given.path, "has no weight for any feature of the data", _same(data))
        return weights, notes
    names = _in_order(given, data, first) if given.names is None else _numbered(given.names, data, notes)
    places = given.places or [given.path] * len(names)
    slots = _slots(given, data, names, places)
    weights[slots[slots >= 0]] = given.values[slots >= 0]
    if given.intercept is not None:
        _require_constant(data, given.intercept, given.path)
        if data.settings.constant:
            weights[data.features.constant] = given.intercept
    features = slots[(slots >= 0) & (slots != data.features.constant)]
    require(len(features) > 0, "weights", given.path, "has no weight for any feature of the data", _same(data))
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


def _slots(given: Given, data: Rereading, names: list[str], places: Any) -> NDArray[np.int64]:
    """The coordinate of each name; -1 for one that no row has."""
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
        if name == CONSTANT or (slots[k] < 0 and name in ALSO):
            _require_constant(data, given.values[k], places[k])
            slots[k] = features.constant if data.settings.constant else -1
    return slots


def _require_constant(data: Rereading, values: Array, place: str) -> None:
    good = data.settings.constant or not values.any()
    require(good, "weights", place, "has a constant, which the data is read without", "leave out --no-constant")


def _numbered(names: list[str], data: Rereading, notes: list[str]) -> list[str]:
    """The names, or numbers that are larger by 1 where those of the file count from 0 and those of the data from 1."""
    own = [name for name in names if name != CONSTANT and name not in ALSO]
    known = _names(data)
    if "0" not in own or "0" in known or not all(map(NUMBER.fullmatch, [*own, *known])):
        return names
    notes.append("the numbers of the weights count from 0 and those of the data from 1: 1 was added")
    return [str(int(name) + 1) if NUMBER.fullmatch(name) else name for name in names]


def _names(data: Rereading) -> list[str]:
    """The names of all features of the data but the constant one."""
    found = (data.features.name(int(slot)) for slot in data.coordinates)
    return [name for name in found if name is not None and name != CONSTANT]


def _in_order(given: Given, data: Rereading, first: int | None) -> list[str]:
    """The names of the features of an array."""
    count, schema = len(given.values), data.schema
    if schema is not None:
        kinds = dict(zip(schema.names, schema.kinds, strict=True))
        single = (Kind.LABEL, Kind.WEIGHT, Kind.IGNORED, Kind.NUMBER)
        other = [name for name, kind in kinds.items() if kind not in single]
        if other:
            rule = f"has no names, and the column {other[0]!r} is not a column of numbers"
            remedy = f'give names, as in {{"{other[0]}=red": 0.5}}, or --ignore it'
            raise InvalidInput("weights", given.path, rule, remedy)
        columns = [name for name, kind in kinds.items() if kind == Kind.NUMBER]
        rule = f"has {count} weights, and the data has {len(columns)} columns of numbers"
        require(count == len(columns), "weights", given.path, rule, "give a weight for each, or --ignore columns")
        return columns
    known = _names(data)
    strange = next((name for name in known if not NUMBER.fullmatch(name)), None)
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


def _same(data: Rereading) -> str:
    return f"its names must be those of the data, such as {', '.join(map(repr, _names(data)[:3])) or 'none'}"
