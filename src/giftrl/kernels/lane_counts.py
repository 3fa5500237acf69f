"""How many numbers are side by side: a class for each number, since a compiler must know the lanes of a vector."""

from typing import Any, NamedTuple

from giftrl.compiled.registry import operation
from giftrl.errors import Incompatible, require


@operation
def lanes(side: Any) -> int:
    """How many numbers are side by side."""
    raise Incompatible("a side must bring lanes(self), a constant; add that method to its class")


class Four(NamedTuple):
    """Four numbers."""

    def lanes(self) -> int:
        return 4


class Six(NamedTuple):
    """Six numbers."""

    def lanes(self) -> int:
        return 6


class Eight(NamedTuple):
    """Eight numbers."""

    def lanes(self) -> int:
        return 8


class Ten(NamedTuple):
    """Ten numbers."""

    def lanes(self) -> int:
        return 10


class Twelve(NamedTuple):
    """Twelve numbers."""

    def lanes(self) -> int:
        return 12


class Sixteen(NamedTuple):
    """Sixteen numbers."""

    def lanes(self) -> int:
        return 16


FOUR = Four()
EVERY = {side.lanes(): side for side in (FOUR, Six(), Eight(), Ten(), Twelve(), Sixteen())}
#: Those for models in one pass, from the narrowest to the widest.
OF_MODELS = (EVERY[4], EVERY[8], EVERY[16])


def side(count: int) -> Any:
    """The side with so many lanes.

    >>> side(12)
    Twelve()
    """
    require(count in EVERY, "count", count, f"must be one of {sorted(EVERY)}", "use four or eight experts")
    return EVERY[count]


def split(models: list[int]) -> list[tuple[list[int], Any]]:
    """Models in groups, each with the narrowest side that has a lane for all of them.

    >>> [(len(group), side) for group, side in split(list(range(21)))]
    [(16, Sixteen()), (5, Eight())]
    """
    widest = OF_MODELS[-1].lanes()
    groups = [models[k : k + widest] for k in range(0, len(models), widest)]
    return [(group, next(side for side in OF_MODELS if side.lanes() >= len(group))) for group in groups]
