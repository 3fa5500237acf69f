"""Weights of linear models that other programs trained: reading them, and matching them with the features of data.

The content tells the format: NumPy's .npy and .npz, a JSON object, lines of a name and its weight (or weights, one for
each class), or the text that Vowpal Wabbit writes with ``--invert_hash`` or ``--readable_model``. Features are matched
by name, number, order or VW's hash.
"""

import io
import json
import math
import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.config.recipe import takes_signs
from giftrl.errors import InvalidInput, require
from giftrl.files import file_errors
from giftrl.losses import EVERY, MULTICLASS
from giftrl.streams.columns import Columns, Kind
from giftrl.streams.names.features import SEPARATOR, Dictionary
from giftrl.streams.names.tables import Sections, add_bytes, end_name
from giftrl.training.certification import LabelledRows
from giftrl.training.settings import LabelValues, Settings, look, needs_labels

Array = NDArray[np.float64]
#: A place in the file, a feature name, and its unchecked weight or weights.
Entry = tuple[str, str, Any]
WEIGHTS_REMEDY = "write lines of a name and a weight, a JSON object, NumPy's coef and intercept, or VW's --invert_hash"
VW_REMEDY = "write it again with vw --readable_model or --invert_hash"
#: The name of the constant feature, and its names in files unless the data has such a feature.
CONSTANT_NAME, INTERCEPT_NAMES = "(constant)", ("intercept", "(intercept)")
#: VW's hash of the constant feature, before truncation to the model's bits.
VW_CONSTANT = 11650396
#: Lines of weights in VW's text, with and without the name of the feature.
VW_NAMED = re.compile(r"(.*):([0-9]+):(\S+)(?: .*)?$")
VW_NUMBERED = re.compile(r"(([0-9]+)):(\S+)(?: .*)?$")
#: Options of VW whose models are not linear.
VW_NOT_LINEAR = ("--nn", "--lrq", "--boosting", "--csoaa", "--ect", "--cb", "--ksvm", "--lda")
WHOLE_NUMBER = re.compile("[0-9]+")


class ExternalWeights(NamedTuple):
    """Weights from a file, and their features."""

    path: str
    values: Array  # a row for each feature, a column for each score
    names: list[str] | None = None  # feature names; None for the order of the data
    places: Sequence[str] = ()  # the place of each name in the file, for messages
    intercept: Array | None = None  # the intercept of each score
    classes: tuple[Any, ...] | None = None  # the labels of classes: numbers, or names
    products: bool = False  # True if "a*b" is a product of features
    hash_bits: int | None = None  # the number of bits, if names are VW's hashes


def read_weights(path: str | os.PathLike[str]) -> ExternalWeights:
    """Read the weights of a file in any of the formats."""
    with file_errors(path):
        content = Path(path).read_bytes()
    shown = os.fspath(path)
    if content.startswith((b"\x93NUMPY", b"PK")):
        return _from_numpy(shown, content)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InvalidInput("weights", shown, "is neither text nor of NumPy", WEIGHTS_REMEDY) from None
    if text.lstrip().startswith(("{", "[")):
        return _from_json(shown, text)
    if text.startswith("Version ") and "\n:" in text:
        return read_vw(shown, text)
    return _from_lines(shown, text)


def weights_error(place: str, rule: str, remedy: str) -> InvalidInput:
    """An error about a place in a file of weights."""
    problem = InvalidInput("weights", place, rule, remedy)
    problem.args = (f"{place}: {rule}; {remedy}",)
    return problem


def _checked(path: str, entries: Iterable[Entry], **more: Any) -> ExternalWeights:
    """Validate weights: distinct names, and the same number of finite weights for each name."""
    rows: dict[str, list[float]] = {}
    places: list[str] = []
    scores = 0
    for place, name, numbers in entries:
        try:
            row = [float(number) for number in (numbers if isinstance(numbers, list) else [numbers])]
        except (TypeError, ValueError):
            text = " ".join(map(str, numbers)) if isinstance(numbers, list) else str(numbers)
            raise weights_error(place, f"the weight of {name!r} is no number: {text!r}", WEIGHTS_REMEDY) from None
        if not row or not all(map(math.isfinite, row)):
            rule = f"the weight of {name!r} is not finite"
            raise weights_error(place, rule, "give the weights of a model that converged")
        scores = scores or len(row)
        if len(row) != scores:
            rule = f"{name!r} has {len(row)} weights, and the first name has {scores}"
            raise weights_error(place, rule, "give each feature a weight for each class")
        if name in rows:
            raise weights_error(place, f"{name!r} has a weight already", "leave one of them out")
        rows[name] = row
        places.append(place)
    if not rows:
        raise InvalidInput("weights", path, "holds no weights", WEIGHTS_REMEDY)
    return ExternalWeights(path, np.array(list(rows.values())), list(rows), places, **more)


def _from_lines(path: str, text: str) -> ExternalWeights:
    """Read lines of a name and its weights, separated by blanks or tabs; # begins a comment."""
    entries: list[Entry] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, *numbers = line.split("\t") if "\t" in line else line.split()
        if not numbers:
            raise weights_error(f"{path}:{number}", f"there is no weight in {line!r}", WEIGHTS_REMEDY)
        entries.append((f"{path}:{number}", name, numbers))
    return _checked(path, entries)


def _from_json(path: str, text: str) -> ExternalWeights:
    try:
        pairs = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput("weights", path, f"is no JSON ({problem})", WEIGHTS_REMEDY) from None
    if not text.lstrip().startswith("{"):
        raise InvalidInput("weights", path, "must be a JSON object of names and weights", 'write {"age": 0.5}')
    return _checked(path, ((path, name, value) for name, value in pairs))


def _from_numpy(path: str, content: bytes) -> ExternalWeights:
    """``coef``, ``intercept`` and ``classes`` of an estimator of scikit-learn; a single array is ``coef``."""
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        whole = {"coef": loaded} if isinstance(loaded, np.ndarray) else loaded
        arrays = {name.rstrip("_"): whole[name] for name in whole}
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        reason, remedy = str(problem), "write it with np.savez"
        if "allow_pickle" in reason:
            reason = "Python objects are not read: they could run any code"
            remedy = "write text as classes=model.classes_.astype(str)"
        raise InvalidInput("weights", path, f"cannot be read ({reason})", remedy) from None
    remedy = "write np.savez(FILE, coef=model.coef_, intercept=model.intercept_, classes=model.classes_)"

    def numbers(name: str) -> Array:
        array = arrays[name]
        of_type = f"has {name} of type {array.dtype}, which is no number"
        require(array.dtype.kind in "biuf", "weights", path, of_type, remedy)
        finite = bool(np.isfinite(array).all())
        require(finite, "weights", path, f"has {name} that is not finite", "give the weights of a sound model")
        return np.asarray(array, dtype=np.float64)

    require("coef" in arrays, "weights", path, f"holds {', '.join(arrays) or 'nothing'} and no coef", remedy)
    coef = np.atleast_2d(numbers("coef"))
    require(coef.ndim == 2 and coef.size > 0, "weights", path, f"has coef of shape {coef.shape}", remedy)
    intercept = classes = None
    if "intercept" in arrays:
        intercept = numbers("intercept").reshape(-1)
        intercept = np.repeat(intercept, len(coef)) if len(intercept) == 1 else intercept
        rule = f"has {len(intercept)} intercepts for {len(coef)} scores"
        require(len(intercept) == len(coef), "weights", path, rule, remedy)
    if "classes" in arrays and arrays["classes"].dtype.kind in "biufU":
        labels = arrays["classes"].reshape(-1)
        classes = tuple(map(str if labels.dtype.kind == "U" else float, labels.tolist()))
    if "feature_names_in" not in arrays:
        return ExternalWeights(path, coef.T.copy(), intercept=intercept, classes=classes)
    names = [str(name) for name in arrays["feature_names_in"].reshape(-1)]
    rule = f"has {len(names)} names for {coef.shape[1]} weights"
    require(len(names) == coef.shape[1], "weights", path, rule, remedy)
    entries = zip([path] * len(names), names, coef.T.tolist(), strict=True)
    return _checked(path, entries, intercept=intercept, classes=classes)


def read_vw(path: str, text: str) -> ExternalWeights:
    """Read the text that ``vw --invert_hash FILE`` or ``vw --readable_model FILE`` wrote.

    A line of the former is ``namespace^feature:hash:weight``, a line of the latter ``hash:weight``. With ``--oaa K``,
    the names of the classes after the first end in ``[1]``, ``[2]`` and so on. With ``--l1`` and ``--l2``, VW stores
    the accumulated shrinkage, and predicts with sign(w) max(abs(w) - l1_state, 0) l2_state.

    >>> text = "Version 9.11.9\\nbits:18\\noptions:\\n:0\\na^x:123:0.5\\nConstant:116060:-1\\n"
    >>> weights = read_vw("m.txt", text)
    >>> weights.names, weights.values.tolist(), weights.places[0]
    (['a^x', '(constant)'], [[0.5], [-1.0]], 'm.txt:5')
    """
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")  # names may contain other line separators
    first = next((number for number, line in enumerate(lines, 1) if re.fullmatch(":[0-9]+", line)), None)
    if first is None:
        raise InvalidInput("weights", path, "ends before its weights begin", VW_REMEDY)
    fields = dict(line.split(":", 1) for line in lines[:first] if ":" in line)
    fields |= dict(line.split(" ") for line in lines[first:] if re.fullmatch(r"l[12]_state \S+", line))

    def number_of(name: str, default: float) -> float:
        try:
            return float(fields.get(name, default))
        except ValueError:
            rule = f"has {fields[name][:80]!r} where a number should be, after {name!r}"
            raise InvalidInput("weights", path, rule, VW_REMEDY) from None

    bits = number_of("bits", 18.0)
    good = 1.0 <= bits <= 62.0 and bits.is_integer()
    require(good, "weights", path, f"has hashes of {bits:g} bits", VW_REMEDY)
    options = fields.get("options", "")
    for option in VW_NOT_LINEAR:
        linear = not re.search(rf"{option}\w*\b", options)
        remedy = "give a linear model of one score, or of --oaa"
        require(linear, "weights", path, f"is a model of {option}, which is not linear", remedy)
    pattern = VW_NAMED if any(map(VW_NAMED.match, lines[first:])) else VW_NUMBERED
    entries: list[Entry] = []
    for place, line in enumerate(lines[first:], first + 1):
        if match := pattern.match(line):
            name, number, weight = match.groups()
            if "bits" in fields and int(number) >> int(bits):
                rule = f"the weight {number[:40]} is beyond the {bits:g} bits of the model"
                raise weights_error(f"{path}:{place}", rule, VW_REMEDY)
            entries.append((f"{path}:{place}", name, weight))
    oaa = re.search(r"--oaa ([0-9]+)", options)
    if pattern is VW_NUMBERED:
        remedy = "write it with vw --invert_hash"
        require(oaa is None, "weights", path, "has several classes and no names", remedy)
        weights = _checked(path, entries, hash_bits=int(bits))
    elif oaa is None:
        named = [(place, _vw_name(name), weight) for place, name, weight in entries]
        weights = _checked(path, named, products=True)
    else:
        classes = tuple(range(1, int(oaa[1]) + 1))
        weights = _checked(path, _by_class(entries, len(classes)), products=True, classes=classes)
    if weights.products and re.search(r"--(quadratic|cubic|interactions)\b", options):
        _require_one_order(weights)
    sizes = np.maximum(np.abs(weights.values) - number_of("l1_state", 0.0), 0.0)
    return weights._replace(values=np.copysign(sizes, weights.values) * number_of("l2_state", 1.0) + 0.0)


def _vw_name(name: str) -> str:
    return CONSTANT_NAME if name == "Constant" else name


def _by_class(entries: Iterable[Entry], classes: int) -> Iterable[Entry]:
    """Group entries by name, with the weights of all classes; missing weights are 0."""
    rows: dict[str, tuple[str, list[Any]]] = {}
    for place, name, number in entries:
        match = re.fullmatch(r"(.*)\[([0-9]+)\]", name)
        plain, column = (match[1], int(match[2])) if match and int(match[2]) < classes else (name, 0)
        rows.setdefault(_vw_name(plain), (place, [0.0] * classes))[1][column] = number
    return ((place, name, row) for name, (place, row) in rows.items())


def _require_one_order(weights: ExternalWeights) -> None:
    """Refuse weights that depend on the order of factors: in VW, ``a^x*a^y`` and ``a^y*a^x`` differ."""
    names, first = weights.names or [], dict[tuple[str, ...], int]()
    for k, name in enumerate(names):
        other = first.setdefault(tuple(sorted(name.split("*"))), k)
        if (weights.values[other] != weights.values[k]).any():
            rule = f"{name!r} and {names[other]!r} have different weights, and the order of factors does not count"
            remedy = "train vw on rows that have the features of a namespace in one order"
            raise InvalidInput("weights", weights.places[k], rule, remedy)


def vw_hashes(names: list[str], bits: int) -> list[int]:
    """VW's numbers of names such as ``namespace^feature``.

    MurmurHash3 of the feature, seeded with the hash of the namespace (0 without a namespace). A whole number is added
    to the seed instead of being hashed.

    >>> vw_hashes(["user^age", "user^7", "a", "7", "(constant)"], 18)
    [23567, 15636, 92594, 7, 116060]
    """
    mask = (1 << bits) - 1
    seeds: dict[str, int] = {"": 0}
    hashes = []
    for name in names:
        space, caret, feature = name.partition("^")
        if not caret:
            space, feature = "", name
        if space not in seeds:
            seeds[space] = _vw_hash(space, 0)
        hashes.append((VW_CONSTANT if name == CONSTANT_NAME else _vw_hash(feature, seeds[space])) & mask)
    return hashes


def _vw_hash(name: str, seed: int) -> int:
    if re.fullmatch("[0-9]+", name):
        return (int(name) + seed) & 0xFFFFFFFF
    text = np.frombuffer(name.encode("utf-8", "surrogateescape"), np.uint8)
    return int(ready(seeded_hash)(text, np.uint64(seed)))


@formula
def seeded_hash(text: Any, seed: Any) -> Any:
    """MurmurHash3 of bytes, with a seed."""
    return end_name(add_bytes(text, 0, len(text), (seed, np.uint64(0), 0)))


# Matching with the features of data.


class VwNames(Dictionary):
    """A dictionary of unambiguous names ``namespace^feature``: the first caret ends the namespace.

    Vowpal Wabbit hashes the feature ``a^b`` without a namespace, and ``b`` of the namespace ``a``, in different ways.
    In a dictionary they have the same name. So a caret is refused in a namespace, and in a feature without one.
    """

    def name_slots(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], sections: Sections,
        values: Array,
    ) -> NDArray[np.int32]:  # fmt: skip
        carets = np.cumsum(np.append(0, text == ord("^")))  # the number of carets before each byte

        def refuse(wrong: NDArray[np.bool_], begin: NDArray[np.int64], end: NDArray[np.int64], rule: str) -> None:
            if wrong.any():
                k = int(np.argmax(wrong))
                name = text[begin[k] : end[k]].tobytes().decode(errors="replace")
                raise InvalidInput("name", name, rule, "rename it")

        # In VW text, a section begins after a bar; other formats have one section, which begins at 0.
        bare = (sections.end == sections.start) & (sections.start > 0)
        alone = np.repeat(bare, np.diff(sections.first, append=len(starts)))
        rule = "has a caret and no namespace, so it looks like a feature of a namespace"
        refuse(alone & (carets[ends] > carets[starts]), starts, ends, rule)
        wrong = carets[sections.end] > carets[sections.start]
        refuse(wrong, sections.start, sections.end, "is a namespace with a caret, which should end it")
        return super().name_slots(text, starts, ends, sections, values)


def rows_for_weights(
    path: str | os.PathLike[str], sources: Any, *, loss: str | None, labels: LabelValues | None,
    parameters: Mapping[str, float], constant: bool, interactions: tuple[tuple[str, ...], ...], first: int | None,
    **reading: Any,
) -> tuple[LabelledRows, Array, list[str]]:  # fmt: skip
    """Survey sources and match the weights of a file with their features. Returns the rows, the weight of each
    coordinate, and notes about mismatches. The file may contain class labels. ``first`` is as for :func:`match`;
    ``reading`` has other arguments of :class:`LabelledRows`.
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
        loss=loss, label_values=labels, parameters=parameters, bits=None, constant=constant,
        interactions=interactions,
    )  # fmt: skip
    scores = given.values.shape[1]
    rule = f"has weights of {scores} scores, and {loss} has {settings.classes} here"
    remedy = f"use --loss {' or '.join(MULTICLASS)}" if scores > 1 and not many else "give weights for each class"
    require(scores == settings.classes, "weights", given.path, rule, remedy)
    features = Dictionary() if given.hash_bits is None else VwNames()
    rows = LabelledRows(sources, settings, features, opened=opened, **reading)
    rows.survey()
    return rows, *match(given, rows, first)


def match(given: ExternalWeights, data: LabelledRows, first: int | None = None) -> tuple[Array, list[str]]:
    """Return the weight of each coordinate, a column for each score, and notes about mismatches.

    Args:
        given: the weights.
        data: the surveyed rows, with features in a dictionary.
        first: the number of the feature of the first weight in an array: 0 or 1. None for 0 if the data has a feature
            0, and otherwise 1, as scikit-learn's ``load_svmlight_file`` has it.
    """
    values, notes, constant = given.values, list[str](), data.features.constant
    weights = np.zeros((data.features.dimension, values.shape[1]))
    known = [name for name in map(data.features.name, data.coordinates.tolist()) if name not in (None, CONSTANT_NAME)]
    same = f"its names must be those of the data, such as {', '.join(map(repr, known[:3])) or 'none'}"
    nothing = "has no weight for any feature of the data"
    if given.hash_bits is not None:
        rule = "has hashes in place of names, by which products of features are not found"
        require(not data.settings.interactions, "weights", given.path, rule, "write it with vw --invert_hash")
        of_hash = dict(zip(map(int, given.names or ()), values[:, 0].tolist(), strict=True))
        names = [data.features.name(int(slot)) or "" for slot in data.coordinates]
        hashes = vw_hashes(names, given.hash_bits)
        weights[data.coordinates, 0] = [of_hash.get(number, 0.0) for number in hashes]
        require(bool(weights.any()), "weights", given.path, nothing, same)
        return weights, notes
    if given.names is None:
        names = _names_in_order(given, data, known, first)
    else:
        names = _renumbered(given.names, known, notes)
    places = [*(given.places or [given.path] * len(names))]
    if given.intercept is not None:
        names, places, values = [*names, CONSTANT_NAME], [*places, given.path], np.vstack([values, given.intercept])
    slots = _slots(given.products, data, names, places, values)
    weights[slots[slots >= 0]] = values[slots >= 0]
    require(bool(np.any((slots >= 0) & (slots != constant))), "weights", given.path, nothing, same)
    lost = np.flatnonzero((slots < 0) & values.any(axis=1))
    if len(lost) and given.names is not None:
        which = f"{names[lost[0]]!r} ({places[lost[0]]})"
        verb, more = ("is of a feature", "") if len(lost) == 1 else ("are of features", ", the first one")
        notes.append(f"{len(lost):,} of {len(given.names):,} weights {verb} that no row has{more}: {which}")
    bare = np.setdiff1d(data.coordinates, [*slots.tolist(), constant])
    if len(bare):
        verb, more = ("feature has", "") if len(bare) == 1 else ("features have", ", the first one")
        notes.append(f"{len(bare):,} {verb} no weight, which counts as 0{more}: {data.features.name(int(bare[0]))!r}")
    return weights, notes


def _slots(
    products: bool, data: LabelledRows, names: list[str], places: Sequence[str], values: Array
) -> NDArray[np.int64]:
    """The coordinate of each name; -1 if no row has it."""
    features, settings = data.features, data.settings
    if products and not settings.interactions:
        for name, place in zip(names, places, strict=True):
            rule = f"{name!r} is a product of features, and the data is read without products"
            single = not re.search(r"[^^]\*.", name)
            require(single, "weights", place, rule, "add -q with the namespaces, as for vw")
    elif products:
        names = [name.replace("*", SEPARATOR) for name in names]
    features.freeze()
    slots = features.slots(names)[0].astype(np.int64)
    features.thaw()
    for k, name in enumerate(names):
        if name == CONSTANT_NAME or (slots[k] < 0 and name in INTERCEPT_NAMES):
            good, rule = settings.constant or not values[k].any(), "has a constant, which the data is read without"
            require(good, "weights", places[k], rule, "leave out --no-constant")
            slots[k] = features.constant if settings.constant else -1
    return slots


def _renumbered(names: list[str], known: list[str], notes: list[str]) -> list[str]:
    """Shift numeric names by 1 if the file counts from 0 and the data from 1."""
    features = [name for name in names if name != CONSTANT_NAME and name not in INTERCEPT_NAMES]
    if "0" not in features or "0" in known or not all(map(WHOLE_NUMBER.fullmatch, [*features, *known])):
        return names
    notes.append("the numbers of the weights count from 0 and those of the data from 1: 1 was added")
    return [str(int(name) + 1) if WHOLE_NUMBER.fullmatch(name) else name for name in names]


def _names_in_order(given: ExternalWeights, data: LabelledRows, known: list[str], first: int | None) -> list[str]:
    """Feature names for weights in an array."""
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
