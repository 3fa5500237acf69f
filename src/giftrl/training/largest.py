"""The largest weights of a model, with the names of their features."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.training.model import LinearModel


class Weight(NamedTuple):
    """The weight of a feature, in the score of a class where there are several."""

    name: str
    weight: float
    slot: int
    column: int


def largest_weights(model: LinearModel, top: int, units: NDArray[np.float64] | None = None) -> list[Weight]:
    """The weights of largest absolute value, the largest first, without those that are 0.

    Args:
        model: whose weights they are.
        top: how many of them.
        units: what to multiply the weight of each feature by before they are compared; None for 1.

    >>> from giftrl.training import Settings
    >>> largest_weights(LinearModel(Settings(bits=4)), 5)
    []
    """
    weights, classes = model.learner.x, model.settings.classes
    sizes = np.abs(weights) if units is None else np.abs(weights) * units.reshape(-1, *[1] * (weights.ndim - 1))
    found = []
    for place in sizes.argsort(axis=None, kind="stable")[::-1][:top].tolist():
        slot, column = divmod(place, classes)
        if sizes.flat[place] > 0.0:
            name = model.features.name(slot) or f"#{slot}"
            found.append(Weight(name, float(weights.flat[place]) * model.features.sign(slot), slot, column))
    return found
