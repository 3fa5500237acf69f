"""What the compiled learners are given, checked, as their loops take it."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses
from giftrl.errors import Incompatible, InvalidInput, require
from giftrl.ops import brings
from giftrl.ops.loss import accepts, labels
from giftrl.ops.vector_loss import multiclass
from giftrl.reference.learner import looks_ahead
from giftrl.regularizers.contract import centred, known_ahead, l1_strength, require_diagonal, strength
from giftrl.schedules.contract import uses_gamma
from giftrl.updates.contract import check_loss, check_scores

Array = NDArray[np.float64]


def as_labels(loss: Any, y: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Labels of this shape that the loss accepts; an error names the first that it does not accept."""
    given = np.ascontiguousarray(y, dtype=np.float64)
    require(given.shape == shape, "y", y, f"must have shape {shape}, a label for each row", f"it has {given.shape}")
    if given.size == 1:
        distinct = [given.item()]
    else:
        distinct = (_distinct(given) if brings(loss, "accepts") else given[~np.isfinite(given)][:1]).tolist()
    for label in distinct:
        if not (math.isfinite(label) and accepts(loss, label)):
            rule = f"must be a label of {type(loss).__name__}: {labels(loss)}"
            raise InvalidInput("y", label, rule, "map your labels to these")
    return given


def as_classes(y: ArrayLike, n: int, classes: int) -> NDArray[np.int64]:
    """The classes of n rows, whole numbers from 0 to ``classes`` - 1."""
    given = np.asarray(y)
    require(given.shape == (n,), "y", y, f"must have shape {(n,)}, a class for each row", f"it has {given.shape}")
    good = given.dtype.kind in "iuf" and ((given >= 0) & (given < classes) & (given == np.floor(given))).all()
    require(bool(good), "y", y, f"must be whole numbers from 0 to {classes - 1}", "number your classes")
    return given.astype(np.int64)


def as_weights(weights: ArrayLike | None, n: int) -> Array:
    """The weights of n rows; an empty array where all are 1."""
    if weights is None:
        return np.empty(0)
    given = np.ascontiguousarray(weights, dtype=np.float64)
    rule = f"must have shape {(n,)}, one for each row"
    require(given.shape == (n,), "weights", weights, rule, f"it has {given.shape}")
    good = bool(np.isfinite(given).all() and (given >= 0.0).all())
    require(good, "weights", weights, "must be finite and not negative", "leave out rows that have none")
    return given


def stored_type(dtype: Any) -> np.dtype[Any]:
    """The type in which weights are stored."""
    stored: np.dtype[Any] = np.dtype(dtype)
    known = stored in (np.float32, np.float64)
    require(known, "dtype", dtype, "must be float32 or float64", "float32 halves the memory")
    return stored


def loss_of_scores(given: Any) -> Any:
    """A loss of K scores, by its name or as it is."""
    loss = losses.MULTICLASS.member(given, "slope")
    if not multiclass(loss):
        raise Incompatible(
            f"{loss!r} is a loss of one prediction, and each class has a score here; use Softmax or MulticlassHinge, "
            "or LinearLearners for one class against the rest"
        )
    return loss


def check_parts(loss: Any, regularizer: Any, update: Any, schedule: Any) -> bool:
    """Whether the update of a learner made of these parts uses H; raise where they do not go together."""
    require_diagonal("regularizer", regularizer)
    check_loss(update, loss, black_box=False)
    if multiclass(loss):
        check_scores(update)
        if l1_strength(regularizer) > 0.0:
            raise Incompatible(
                f"{loss!r} takes all scores in one step, which {regularizer!r} with its L1 term splits; use a "
                "regularizer without L1, or one class against the rest"
            )
    ahead = looks_ahead(regularizer, update, schedule)
    if uses_gamma(schedule) and not centred(regularizer) and not known_ahead(regularizer):
        double = [strength(regularizer, 2.0, q) for q in (0.0, 1.0, 100.0)]
        if not np.allclose(double, [2.0 * strength(regularizer, 1.0, q) for q in (0.0, 1.0, 100.0)], 1e-9, 0.0):
            raise Incompatible(
                f"{schedule!r} needs the distance that all coordinates move, which takes a walk over all of them when "
                f"{regularizer!r} does not scale with lambda; use l2=0, Centred(...), another schedule, or Learner"
            )
    return ahead


def _distinct(values: Array) -> Array:
    """The different values; labels mostly have few, which are found without sorting."""
    first: list[float] = []
    rest = values.reshape(-1)
    while rest.size and len(first) < 4:
        first.append(float(rest[0]))
        if math.isnan(first[-1]):
            break
        rest = rest[rest != first[-1]]
    return np.concatenate([first, np.unique(rest)])
