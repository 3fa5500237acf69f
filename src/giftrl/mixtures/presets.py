"""Which experts are mixed, by name."""

from typing import NamedTuple

from giftrl.errors import UnknownName
from giftrl.mixtures.experts import Expert, adagrad, curvature

__all__ = ["PRESETS", "Preset", "preset"]


class Preset(NamedTuple):
    """The experts of the grid, and for how many features there is a full matrix."""

    experts: tuple[Expert, ...]
    places: int


PRESETS = {
    # The grids are coarse because nothing hangs on them: moving any beta by 3 changes the mean loss by less than 0.3%.
    "default": Preset(
        (
            *(curvature(beta, 4.0) for beta in (1.0, 10.0, 100.0, 1000.0)),
            curvature(10.0, 1.0),
            *(adagrad(beta) for beta in (0.3, 10.0, 1000.0)),
        ),
        128,
    ),
    # Half of the time: four experts, without the coin where there is one prediction a row.
    "light": Preset((curvature(1.0, 4.0), curvature(100.0, 4.0), adagrad(10.0), adagrad(1000.0)), 0),
}


def preset(name: str) -> Preset:
    """A preset by its name.

    >>> [expert.name for expert in preset("light").experts]
    ['curvature 1, rate 4', 'curvature 100, rate 4', 'adagrad 10', 'adagrad 1000']
    """
    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name]
