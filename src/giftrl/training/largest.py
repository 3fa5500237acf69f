"""The largest weights of a model, with the names of their features."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.recipes.labels import takes_signs
from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings


class Weight(NamedTuple):
    """The weight of a feature, in the score of a class where there are several."""

    name: str
    weight: float
    slot: int
    column: int


def class_names(settings: Settings) -> tuple[str, ...]:
    """The names of the classes as they are in the data, in the order of the scores; none where labels are numbers.

    >>> class_names(Settings(label_values=(0.0, 1.0))), class_names(Settings()), class_names(Settings(loss="squared"))
    (('0', '1'), ('-1', '+1'), ())
    """
    if settings.label_values is not None:
        return tuple(f"{each:g}" if isinstance(each, float) else str(each) for each in settings.label_values)
    return ("-1", "+1") if takes_signs(settings.make_loss(), only=True) else ()


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
