"""Weights of a linear model that something else has trained, from a file."""

import io
import json
import math
import os
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import InvalidInput
from giftrl.files import file_errors

Array = NDArray[np.float64]
Named = str | os.PathLike[str]
REMEDY = "write lines of a name and a weight, a JSON object, NumPy's coef and intercept, or VW's --invert_hash"


class Given(NamedTuple):
    """Weights, and what they are of.

    >>> Given("w.txt", np.array([[0.5]]), names=["age"], places=["w.txt:1"]).scores
    1
    """

    path: str
    values: Array  # a row for each feature, a column for each score
    names: list[str] | None = None  # of features; None where they are in the order of the data
    places: Sequence[str] = ()  # where each name is, for messages
    intercept: Array | None = None  # for each score
    classes: tuple[Any, ...] | None = None  # the labels of classes: numbers, or names
    products: bool = False  # whether "a*b" is a product of features
    hashed: dict[int, float] | None = None  # weights by VW's hashes of names, which take the place of ``values``
    bits: int = 0  # of these hashes

    @property
    def scores(self) -> int:
        """How many scores a prediction has."""
        return 1 if self.hashed is not None else self.values.shape[1]


def read_weights(path: Named) -> Given:
    """The weights of a file.

    The content tells what it is: NumPy's .npy and .npz, a JSON object, lines of a name and its weight (or weights, one
    for each class), or the text that Vowpal Wabbit writes with --invert_hash or --readable_model.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "w.json")
    ...     _ = file.write_text('{"age": 0.5, "intercept": -1}')
    ...     given = read_weights(file)
    >>> given.names, given.values.tolist()
    (['age', 'intercept'], [[0.5], [-1.0]])
    """
    with file_errors(path):
        content = Path(path).read_bytes()
    shown = os.fspath(path)
    if content.startswith((b"\x93NUMPY", b"PK")):
        return _numpy(shown, content)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InvalidInput("weights", shown, "is neither text nor of NumPy", REMEDY) from None
    if text.lstrip().startswith(("{", "[")):
        return _json(shown, text)
    if text.startswith("Version ") and "\n:" in text:
        from giftrl.training.vw_weights import read_vw

        return read_vw(shown, text)
    return _lines(shown, text)


def named(path: str, found: Iterable[tuple[str, str, Any]], **more: Any) -> Given:
    """Weights from places, names and numbers, checked."""
    names: list[str] = []
    places: list[str] = []
    rows: list[list[float]] = []
    seen: set[str] = set()
    for place, name, numbers in found:
        try:
            row = [float(each) for each in (numbers if isinstance(numbers, list) else [numbers])]
        except (TypeError, ValueError):
            said = " ".join(map(str, numbers)) if isinstance(numbers, list) else str(numbers)
            raise wrong(place, f"the weight of {name!r} is no number: {said!r}", REMEDY) from None
        if not row or not all(map(math.isfinite, row)):
            raise wrong(place, f"the weight of {name!r} is not finite", "give the weights of a model that converged")
        if rows and len(row) != len(rows[0]):
            rule = f"{name!r} has {len(row)} weights, and the first name has {len(rows[0])}"
            raise wrong(place, rule, "give each feature a weight for each class")
        if name in seen:
            raise wrong(place, f"{name!r} has a weight already", "leave one of them out")
        seen.add(name)
        names.append(name)
        places.append(place)
        rows.append(row)
    if not rows:
        raise InvalidInput("weights", path, "holds no weights", REMEDY)
    return Given(path, np.array(rows), names, places, **more)


def wrong(place: str, rule: str, remedy: str) -> InvalidInput:
    """An error of weights at a place in a file.

    >>> print(wrong("w.txt:3", "there is no weight", "give one"))
    w.txt:3: there is no weight; give one
    """
    problem = InvalidInput("weights", place, rule, remedy)
    problem.args = (f"{place}: {rule}; {remedy}",)
    return problem


def _lines(path: str, text: str) -> Given:
    """Lines of a name and its weights, between blanks or tabs; # begins a comment."""

    def found() -> Iterable[tuple[str, str, Any]]:
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, *numbers = line.split("\t") if "\t" in line else line.split()
            if not numbers:
                raise wrong(f"{path}:{number}", f"there is no weight in {line!r}", REMEDY)
            yield f"{path}:{number}", name, numbers

    return named(path, found())


def _json(path: str, text: str) -> Given:
    try:
        pairs = json.loads(text, object_pairs_hook=lambda each: each)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput("weights", path, f"is no JSON ({problem})", REMEDY) from None
    if not text.lstrip().startswith("{"):
        raise InvalidInput("weights", path, "must be a JSON object of names and weights", 'write {"age": 0.5}')
    return named(path, ((path, name, value) for name, value in pairs))


def _numpy(path: str, content: bytes) -> Given:
    """``coef``, ``intercept`` and ``classes`` of an estimator of scikit-learn; or an array, which is ``coef``."""
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        whole = {"coef": loaded} if isinstance(loaded, np.ndarray) else loaded
        arrays = {name.rstrip("_"): whole[name] for name in whole}
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        objects = "Python objects are not read: they could run any code"
        pickled = "allow_pickle" in str(problem)
        said, remedy = (objects, "write text as classes=model.classes_.astype(str)") if pickled else (str(problem), "")
        raise InvalidInput("weights", path, f"cannot be read ({said})", remedy or "write it with np.savez") from None
    remedy = "write np.savez(FILE, coef=model.coef_, intercept=model.intercept_, classes=model.classes_)"
    if "coef" not in arrays:
        raise InvalidInput("weights", path, f"holds {', '.join(arrays) or 'nothing'} and no coef", remedy)
    coef = _numbers(path, "coef", arrays["coef"], remedy)
    coef = coef.reshape(1, -1) if coef.ndim < 2 else coef
    if coef.ndim > 2 or not coef.size:
        raise InvalidInput("weights", path, f"has coef of shape {coef.shape}", remedy)
    intercept = None
    if "intercept" in arrays:
        intercept = _numbers(path, "intercept", arrays["intercept"], remedy).reshape(-1)
        if len(intercept) == 1:
            intercept = np.repeat(intercept, len(coef))
        if len(intercept) != len(coef):
            raise InvalidInput("weights", path, f"has {len(intercept)} intercepts for {len(coef)} scores", remedy)
    classes = None
    if "classes" in arrays and arrays["classes"].dtype.kind in "biufU":
        labels = arrays["classes"].reshape(-1)
        classes = tuple(map(str if labels.dtype.kind == "U" else float, labels.tolist()))
    if "feature_names_in" in arrays:
        names = [str(each) for each in arrays["feature_names_in"].reshape(-1)]
        if len(names) != coef.shape[1]:
            raise InvalidInput("weights", path, f"has {len(names)} names for {coef.shape[1]} weights", remedy)
        return named(path, zip([path] * len(names), names, coef.T.tolist(), strict=True))._replace(
            intercept=intercept, classes=classes
        )
    return Given(path, coef.T.copy(), intercept=intercept, classes=classes)


def _numbers(path: str, name: str, array: Any, remedy: str) -> Array:
    if array.dtype.kind not in "biuf":
        raise InvalidInput("weights", path, f"has {name} of type {array.dtype}, which is no number", remedy)
    if not np.isfinite(array).all():
        raise InvalidInput("weights", path, f"has {name} that is not finite", "give the weights of a sound model")
    return np.asarray(array, dtype=np.float64)
