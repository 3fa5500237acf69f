"""The number of models or experts side by side: a class for each, since a compiler must know the lanes of a vector."""

from collections import namedtuple
from typing import Any

from giftrl.compiled.registry import operation
from giftrl.errors import Incompatible, require


@operation
def lanes(side: Any) -> int:
    """The number of lanes."""
    raise Incompatible("a side must bring lanes(self), a constant; add that method to its class")


def _class_with(count: int) -> Any:
    """A class of members without fields, whose number of lanes is a constant."""

    def lanes(self: Any) -> int:
        return count

    make: Any = namedtuple  # mypy knows it for constant names only
    cls = make(f"Lanes{count}", ())
    cls.lanes, globals()[cls.__name__] = lanes, cls  # a loop is kept on disk only if its classes can be imported
    return cls

    # placeholder
    return cls


EVERY = {count: _class_with(count)() for count in (1, 4, 6, 8, 10, 12, 16)}
ONE_LANE, FOUR = EVERY[1], EVERY[4]


def side(count: int) -> Any:
    """The side with so many lanes.

    >>> side(12)
    Lanes12()
    """
    require(count in EVERY, "count", count, f"must be one of {sorted(EVERY)}", "use four or eight experts")
    return EVERY[count]
