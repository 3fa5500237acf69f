"""The columns of a round, and how many there are.

A mixture of one score keeps its experts in as many columns as the grid has, and four more: the coin, the full matrix,
and two that are empty, so that wide registers of four numbers are full. A round has four more columns for the
candidates, and puts the combined prediction into the first empty one. With K scores there are no empty columns.

The compiler must know the number of lanes of a vector, so there is a class for each number of columns.
"""

from typing import Any, NamedTuple

from giftrl.errors import require

#: The rows of ``Buffers.every``: predictions, those less the origin, A z of the stack, predictions as they are
#: compared, losses, slopes; then the lengths c of proximal steps and their results a.
ALL, Z, AZ, CLIPPED, LOSSES, SLOPES, C, A, ROWS = range(9)
#: Its columns, counted from the end of the grid: the coin, the full matrix, the combined prediction, one that is not
#: used, the first candidate and the second one, which is the stack.
COIN, FULL, COMBINED, UNUSED, CANDIDATE, STACK = range(6)


class Four(NamedTuple):
    """The candidates."""

    def lanes(self) -> int:
        return 4


class Six(NamedTuple):
    """Four experts on the grid, K scores."""

    def lanes(self) -> int:
        return 6


class Eight(NamedTuple):
    """Four experts on the grid, one score."""

    def lanes(self) -> int:
        return 8


class Ten(NamedTuple):
    """Eight experts on the grid, K scores."""

    def lanes(self) -> int:
        return 10


class Twelve(NamedTuple):
    """Eight experts on the grid, one score; or four and the candidates."""

    def lanes(self) -> int:
        return 12


class Sixteen(NamedTuple):
    """Eight experts on the grid, one score, and the candidates."""

    def lanes(self) -> int:
        return 16


SIDES = {side.lanes(): side for side in (Four(), Six(), Eight(), Ten(), Twelve(), Sixteen())}
#: That of the candidates.
FOUR = SIDES[4]


def side(columns: int) -> Any:
    """The side with so many lanes.

    >>> side(12)
    Twelve()
    """
    require(columns in SIDES, "columns", columns, f"must be one of {sorted(SIDES)}", "use four or eight experts")
    return SIDES[columns]
