"""What the loop of a mixture with one score works with."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.mixtures.experts import lanes

# The rows of ``Buffers.every``, which has a column for each expert: predictions, those less the origin, A z of the
# stack, losses, weights; then what the proximal steps start from, their lengths c, their results a, and four rows that
# they are computed in. Behind the columns of the grid come that of the coin and that of the full matrix. The coin makes
# no proximal step, and lends its column there to the stack.
ALL, Z, AZ, LOSSES, WEIGHTS, P, C, A, WORK, ROWS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 12


class Pieces(NamedTuple):
    """Which parts are on, and which feature is the constant (-1: none)."""

    constant: int
    margin: bool  # labels are -1 and +1
    bold: float  # how much bolder the bold candidates are; 1 for none
    centre: bool
    scale: bool
    centre_labels: bool
    extend: bool
    stack: bool
    again: bool = False  # whether rows were learnt before: see giftrl.mixtures.later


class State(NamedTuple):
    """What a mixture of one score remembers besides its features."""

    units: NDArray[np.float64]
    offsets: NDArray[np.float64]  # of each expert: what centring has added to its constant
    totals: NDArray[np.float64]  # the loss of each expert
    candidates: NDArray[np.float64]  # the loss of each candidate
    stack: NDArray[np.float64]
    inverse: NDArray[np.float64]
    sums: NDArray[np.float64]


class Buffers(NamedTuple):
    """Scratch memory for a round."""

    row: Any
    every: NDArray[np.float64]
    last: NDArray[np.float64]  # of the candidates: predictions, weights, losses
    steps: NDArray[Any]
    factors: NDArray[Any]
    gains: NDArray[Any]  # of :mod:`giftrl.mixtures.walk`
    au: NDArray[np.float64]


class Round(NamedTuple):
    """A row after its prediction."""

    count: Any  # entries
    norm: float  # N
    p: float  # the combined prediction
    f: float  # that of the stack
    y: float
    h: float  # the weight, clipped
    bend: float  # weight times curvature at p
    begun: bool  # whether there was a range of labels to predict in


@formula(fast=True)
def expert_columns(grid: Any) -> int:
    """How many columns there are; the last two are empty, so that wide registers of four numbers are full."""
    return lanes(grid) + 4
