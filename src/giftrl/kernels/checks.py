"""Labels and weights as the compiled loops take them."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.errors import InvalidInput, require
from giftrl.ops import brings
from giftrl.ops.loss import accepts, labels

__all__ = ["as_labels", "as_weights"]

Array = NDArray[np.float64]


def as_labels(loss: Any, y: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Labels of this shape that the loss accepts; an error names the first that it does not.

    >>> from giftrl.losses import Hinge
    >>> as_labels(Hinge(), [1, -1], (2,))
    array([ 1., -1.])
    """
    found = np.ascontiguousarray(y, dtype=np.float64)
    require(found.shape == shape, "y", y, f"must have shape {shape}, a label for each row", f"it has {found.shape}")
    for label in _distinct(found) if brings(loss, "accepts") else found[~np.isfinite(found)][:1]:
        if not (math.isfinite(label) and accepts(loss, float(label))):
            rule = f"must be a label of {type(loss).__name__}: {labels(loss)}"
            raise InvalidInput("y", float(label), rule, "map your labels to these")
    return found


def as_weights(weights: ArrayLike | None, n: int) -> Array:
    """The weights of n rows; empty where all are 1.

    >>> as_weights([1, 2], 2), as_weights(None, 2)
    (array([1., 2.]), array([], dtype=float64))
    """
    if weights is None:
        return np.empty(0)
    found = np.ascontiguousarray(weights, dtype=np.float64)
    rule = f"must have shape {(n,)}, one for each row"
    require(found.shape == (n,), "weights", weights, rule, f"it has {found.shape}")
    good = bool(np.isfinite(found).all() and (found >= 0.0).all())
    require(good, "weights", weights, "must be finite and not negative", "leave out rows that have none")
    return found


def _distinct(values: Array) -> Array:
    """The different values; without sorting where there are few."""
    found: list[float] = []
    rest = values.reshape(-1)
    while rest.size and len(found) < 4:
        found.append(float(rest[0]))
        if math.isnan(found[-1]):
            break
        rest = rest[rest != found[-1]]
    return np.concatenate([found, np.unique(rest)])
