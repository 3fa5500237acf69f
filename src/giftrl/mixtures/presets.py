"""Which experts are mixed, by name."""

from typing import NamedTuple

from giftrl.errors import UnknownName
from giftrl.mixtures.experts import Expert, adagrad, curvature

__all__ = ["PRESETS", "Preset", "preset"]


class Preset(NamedTuple):
    """The experts of the grid, and how many features the full matrix can hold."""

    experts: tuple[Expert, ...]
    places: int


PRESETS = {
    # The grids are coarse because little depends on them: a factor of 3 in a beta changes the mean loss by under 0.3%.
    "default": Preset(
        (
            *(curvature(beta, 4.0) for beta in (1.0, 10.0, 100.0, 1000.0)),
            curvature(10.0, 1.0),
            *(adagrad(beta) for beta in (0.3, 10.0, 1000.0)),
        ),
        128,
    ),
    # Half of the time: four experts; with one score, no coin either.
    "light": Preset((curvature(1.0, 4.0), curvature(100.0, 4.0), adagrad(10.0), adagrad(1000.0)), 0),
}


def preset(name: str) -> Preset:
    """The preset of this name.

    >>> [expert.name for expert in preset("light").experts]
    ['curvature 1, rate 4', 'curvature 100, rate 4', 'adagrad 10', 'adagrad 1000']
    """
    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name]
