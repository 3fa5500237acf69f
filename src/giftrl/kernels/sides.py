"""How many models are side by side: a constant of each class, so that loops over models have a fixed length."""

from typing import Any, NamedTuple

from giftrl.compiled.registry import operation
from giftrl.errors import Incompatible


@operation
def lanes(side: Any) -> int:
    """How many models are side by side."""
    raise Incompatible("a side must bring lanes(self), a constant; add that method to its class")


class Four(NamedTuple):
    """Four models."""

    def lanes(self) -> int:
        return 4


class Eight(NamedTuple):
    """Eight models."""

    def lanes(self) -> int:
        return 8


class Sixteen(NamedTuple):
    """Sixteen models."""

    def lanes(self) -> int:
        return 16


#: From the narrowest to the widest.
SIDES = (Four(), Eight(), Sixteen())


def split(models: list[int]) -> list[tuple[list[int], Any]]:
    """Models in groups, each with the narrowest side that has a lane for all of them.

    >>> [(len(group), side) for group, side in split(list(range(21)))]
    [(16, Sixteen()), (5, Eight())]
    """
    widest = SIDES[-1].lanes()
    groups = [models[k : k + widest] for k in range(0, len(models), widest)]
    return [(group, next(side for side in SIDES if side.lanes() >= len(group))) for group in groups]
