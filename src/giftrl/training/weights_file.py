"""Read the weights of a linear model that another program trained.

The content tells the format: NumPy's .npy and .npz, a JSON object, lines of a name and its weight (or weights, one for
each class), or the text that Vowpal Wabbit writes with ``--invert_hash`` or ``--readable_model``.
"""

import io
import json
import math
import os
import re
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.errors import InvalidInput, require
from giftrl.files import file_errors
from giftrl.streams.names.tables import add_bytes, end_name

Array = NDArray[np.float64]
Named = str | os.PathLike[str]
#: A place in the file, the name of a feature, and its weight or its weights, which are not checked yet.
Entry = tuple[str, str, Any]
WEIGHTS_REMEDY = "write lines of a name and a weight, a JSON object, NumPy's coef and intercept, or VW's --invert_hash"
VW_REMEDY = "write it again with vw --readable_model or --invert_hash"
#: The name of the constant feature.
CONSTANT_NAME = "(constant)"
#: VW's number of its constant feature, before it is cut to the bits of the model.
VW_CONSTANT = 11650396
#: Lines of weights in VW's text, with and without the name of the feature.
VW_NAMED = re.compile(r"(.*):([0-9]+):(\S+)(?: .*)?$")
VW_NUMBERED = re.compile(r"([0-9]+):(\S+)(?: .*)?$")
#: Options of VW whose models are not linear.
VW_NOT_LINEAR = ("--nn", "--lrq", "--boosting", "--csoaa", "--ect", "--cb", "--ksvm", "--lda")


class Weights(NamedTuple):
    """Weights of a file, and the features that they belong to.

    >>> Weights("w.txt", np.array([[0.5]]), names=["age"], places=["w.txt:1"]).scores
    1
    """

    path: str
    values: Array  # a row for each feature, a column for each score
    names: list[str] | None = None  # of features; None if they are in the order of the data
    places: Sequence[str] = ()  # of each name in the file, for messages
    intercept: Array | None = None  # for each score
    classes: tuple[Any, ...] | None = None  # the labels of classes: numbers, or names
    products: bool = False  # True if "a*b" is a product of features
    hashed: dict[int, float] | None = None  # weights by VW's hashes of names, which take the place of ``values``
    bits: int = 0  # of these hashes

    @property
    def scores(self) -> int:
        """The number of scores of a prediction."""
        return 1 if self.hashed is not None else self.values.shape[1]


def read_weights(path: Named) -> Weights:
    """Read the weights of a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "w.json")
    ...     _ = file.write_text('{"age": 0.5, "intercept": -1}')
    ...     weights = read_weights(file)
    >>> weights.names, weights.values.tolist()
    (['age', 'intercept'], [[0.5], [-1.0]])
    """
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
    """An error about a place in a file of weights.

    >>> print(weights_error("w.txt:3", "there is no weight", "give one"))
    w.txt:3: there is no weight; give one
    """
    problem = InvalidInput("weights", place, rule, remedy)
    problem.args = (f"{place}: {rule}; {remedy}",)
    return problem


def _checked(path: str, entries: Iterable[Entry], **more: Any) -> Weights:
    """Weights of entries whose names differ and whose numbers are finite and as many for each name."""
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
    return Weights(path, np.array(list(rows.values())), list(rows), places, **more)


def _from_lines(path: str, text: str) -> Weights:
    """Lines of a name and its weights, between blanks or tabs; # begins a comment."""

    def entries() -> Iterable[Entry]:
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, *numbers = line.split("\t") if "\t" in line else line.split()
            if not numbers:
                raise weights_error(f"{path}:{number}", f"there is no weight in {line!r}", WEIGHTS_REMEDY)
            yield f"{path}:{number}", name, numbers

    return _checked(path, entries())


def _from_json(path: str, text: str) -> Weights:
    try:
        pairs = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput("weights", path, f"is no JSON ({problem})", WEIGHTS_REMEDY) from None
    if not text.lstrip().startswith("{"):
        raise InvalidInput("weights", path, "must be a JSON object of names and weights", 'write {"age": 0.5}')
    return _checked(path, ((path, name, value) for name, value in pairs))


def _from_numpy(path: str, content: bytes) -> Weights:
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
        if array.dtype.kind not in "biuf":
            raise InvalidInput("weights", path, f"has {name} of type {array.dtype}, which is no number", remedy)
        if not np.isfinite(array).all():
            raise InvalidInput("weights", path, f"has {name} that is not finite", "give the weights of a sound model")
        return np.asarray(array, dtype=np.float64)

    if "coef" not in arrays:
        raise InvalidInput("weights", path, f"holds {', '.join(arrays) or 'nothing'} and no coef", remedy)
    coef = np.atleast_2d(numbers("coef"))
    if coef.ndim > 2 or not coef.size:
        raise InvalidInput("weights", path, f"has coef of shape {coef.shape}", remedy)
    intercept = classes = None
    if "intercept" in arrays:
        intercept = numbers("intercept").reshape(-1)
        intercept = np.repeat(intercept, len(coef)) if len(intercept) == 1 else intercept
        if len(intercept) != len(coef):
            raise InvalidInput("weights", path, f"has {len(intercept)} intercepts for {len(coef)} scores", remedy)
    if "classes" in arrays and arrays["classes"].dtype.kind in "biufU":
        labels = arrays["classes"].reshape(-1)
        classes = tuple(map(str if labels.dtype.kind == "U" else float, labels.tolist()))
    if "feature_names_in" not in arrays:
        return Weights(path, coef.T.copy(), intercept=intercept, classes=classes)
    names = [str(name) for name in arrays["feature_names_in"].reshape(-1)]
    if len(names) != coef.shape[1]:
        raise InvalidInput("weights", path, f"has {len(names)} names for {coef.shape[1]} weights", remedy)
    entries = zip([path] * len(names), names, coef.T.tolist(), strict=True)
    return _checked(path, entries, intercept=intercept, classes=classes)


class VwHeader(NamedTuple):
    """The lines above the weights of VW's text by their names, the options of the model, and the lines of weights.

    >>> header = read_header("m.txt", "Version 9\\nMin label:-1\\nbits:18\\noptions: --quadratic ab\\n:0\\n7:0.5\\n")
    >>> header.fields["Min label"], header.options, header.body
    ('-1', ' --quadratic ab', [(6, '7:0.5')])
    """

    path: str
    fields: dict[str, str]
    options: str
    body: list[tuple[int, str]]  # with the numbers of lines

    def number(self, name: str, default: float) -> float:
        """The number of a field."""
        try:
            return float(self.fields.get(name, default))
        except ValueError:
            rule = f"has {self.fields[name][:80]!r} where a number should be, after {name!r}"
            raise InvalidInput("weights", self.path, rule, VW_REMEDY) from None

    @property
    def bits(self) -> int:
        """The bits of hashes."""
        bits = self.number("bits", 18.0)
        good = 1.0 <= bits <= 62.0 and bits.is_integer()
        require(good, "weights", self.path, f"has hashes of {bits:g} bits", VW_REMEDY)
        return int(bits)

    def require_index(self, line: int, index: str) -> None:
        """Raise an error if the index of a weight does not fit into the bits of hashes.

        >>> read_header("m.txt", "Version 9\\nbits:2\\n:0\\n4:1\\n").require_index(4, "4")
        Traceback (most recent call last):
        giftrl.errors.InvalidInput: m.txt:4: the weight 4 is beyond the 2 bits of the model; write it again with
        vw --readable_model or --invert_hash
        """
        if "bits" in self.fields and int(index) >> self.bits:
            rule = f"the weight {index[:40]} is beyond the {self.bits} bits of the model"
            raise weights_error(f"{self.path}:{line}", rule, VW_REMEDY)

    def shrunk(self, weights: Array) -> Array:
        """The weights w that VW predicts with: sign(w) max(|w| - l1_state, 0) l2_state.

        With ``--l1`` and ``--l2``, VW adds up how far weights have shrunk, and shrinks each one when it is used.

        >>> read_header("m.txt", "Version 9\\n:1\\nl1_state 0.5\\nl2_state 0.25\\n").shrunk(np.array([-2.5, 0.1]))
        array([-0.5,  0. ])
        """
        sizes = np.maximum(np.abs(weights) - self.number("l1_state", 0.0), 0.0)
        return np.copysign(sizes, weights) * self.number("l2_state", 1.0) + 0.0


def read_header(path: str, text: str) -> VwHeader:
    """Take apart the text of a model of VW."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")  # other breaks of lines may be in names
    first = next((number for number, line in enumerate(lines) if re.fullmatch(":[0-9]+", line)), None)
    if first is None:
        raise InvalidInput("weights", path, "ends before its weights begin", VW_REMEDY)
    fields = dict(line.split(":", 1) for line in lines[:first] if ":" in line)
    fields |= dict(line.split(" ") for line in lines[first + 1 :] if re.fullmatch(r"l[12]_state \S+", line))
    return VwHeader(path, fields, fields.get("options", ""), list(enumerate(lines[first + 1 :], first + 2)))


def read_vw(path: str, text: str) -> Weights:
    """Read the text that ``vw --invert_hash FILE`` or ``vw --readable_model FILE`` wrote.

    A line of the former is ``namespace^feature:hash:weight``, a line of the latter ``hash:weight``. With ``--oaa K``,
    the names of the classes after the first end in ``[1]``, ``[2]`` and so on.

    >>> text = "Version 9.11.9\\nbits:18\\noptions:\\n:0\\na^x:123:0.5\\nConstant:116060:-1\\n"
    >>> weights = read_vw("m.txt", text)
    >>> weights.names, weights.values.tolist(), weights.places[0]
    (['a^x', '(constant)'], [[0.5], [-1.0]], 'm.txt:5')
    """
    header = read_header(path, text)
    oaa = re.search(r"--oaa ([0-9]+)", header.options)
    for option in VW_NOT_LINEAR:
        if re.search(rf"{option}\w*\b", header.options):
            remedy = "give a linear model of one score, or of --oaa"
            raise InvalidInput("weights", path, f"is a model of {option}, which is not linear", remedy)
    named = [(number, match) for number, line in header.body if (match := VW_NAMED.match(line))]
    if not named:
        return _from_hashes(header, oaa is not None)
    for number, match in named:
        header.require_index(number, match[2])
    entries: Iterable[Entry] = ((f"{path}:{number}", match[1], match[3]) for number, match in named)
    classes = None if oaa is None else tuple(range(1, int(oaa[1]) + 1))
    if classes is None:
        entries = ((place, _vw_name(name), number) for place, name, number in entries)
    else:
        entries = _by_class(entries, len(classes))
    weights = _checked(path, entries, products=True, classes=classes)
    if re.search(r"--(quadratic|cubic|interactions)\b", header.options):
        _require_one_order(weights)
    return weights._replace(values=header.shrunk(weights.values))


def _from_hashes(header: VwHeader, several: bool) -> Weights:
    """The weights of a text without names."""
    if several:
        remedy = "write it with vw --invert_hash"
        raise InvalidInput("weights", header.path, "has several classes and no names", remedy)
    numbered = [(number, match) for number, line in header.body if (match := VW_NUMBERED.match(line))]
    for number, match in numbered:
        header.require_index(number, match[1])
    weights = _checked(header.path, ((f"{header.path}:{number}", match[1], match[2]) for number, match in numbered))
    hashes = map(int, weights.names or ())
    hashed = dict(zip(hashes, header.shrunk(weights.values[:, 0]).tolist(), strict=True))
    return weights._replace(hashed=hashed, bits=header.bits, names=None)


def _vw_name(name: str) -> str:
    return CONSTANT_NAME if name == "Constant" else name


def _by_class(entries: Iterable[Entry], classes: int) -> Iterable[Entry]:
    """One entry for each name, with the weights of all classes; missing ones are 0."""
    rows: dict[str, tuple[str, list[Any]]] = {}
    for place, name, number in entries:
        match = re.fullmatch(r"(.*)\[([0-9]+)\]", name)
        plain, column = (match[1], int(match[2])) if match and int(match[2]) < classes else (name, 0)
        rows.setdefault(_vw_name(plain), (place, [0.0] * classes))[1][column] = number
    return ((place, name, row) for name, (place, row) in rows.items())


def _require_one_order(weights: Weights) -> None:
    """Refuse weights that depend on the order of factors: VW has two for ``a^x*a^y`` and ``a^y*a^x``."""
    names, first = weights.names or [], dict[tuple[str, ...], int]()
    for k, name in enumerate(names):
        other = first.setdefault(tuple(sorted(name.split("*"))), k)
        if (weights.values[other] != weights.values[k]).any():
            rule = f"{name!r} and {names[other]!r} have different weights, and the order of factors does not count"
            remedy = "train vw on rows that have the features of a namespace in one order"
            raise InvalidInput("weights", weights.places[k], rule, remedy)


def vw_hashes(names: list[str], bits: int) -> list[int]:
    """The numbers that VW gives to names such as ``namespace^feature``.

    MurmurHash3 of the feature with that of the namespace as the seed, which is 0 without a namespace; a whole number is
    added to the seed instead.

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
