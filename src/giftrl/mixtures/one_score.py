"""What the loop of a mixture with one score works with."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pieces(NamedTuple):
    """What does not change: the constant feature (-1: none), and what labels and loss are like."""

    constant: int
    margin: bool  # labels are -1 and +1
    bold: float  # how much bolder the bold candidates are; 1 for none
    centre_labels: bool  # predictions start at the mean label, which is the constant
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
    experts: Any  # a side with a lane for each expert
    side: Any  # and one with lanes for the candidates too
    every: NDArray[np.float64]
    steps: NDArray[Any]  # of each entry: u/L of the grid, and what the coin bets
    factors: NDArray[Any]  # of the strengths
    gains: NDArray[Any]  # of :mod:`giftrl.mixtures.walk`
    places: NDArray[np.float64]  # the row and A u, over the places of the full matrix
    au: NDArray[np.float64]


class Round(NamedTuple):
    """A row after its prediction."""

    count: Any  # entries
    norm: float  # N
    y: float
    h: float  # the weight, clipped
    bend: float  # weight times curvature at p
    begun: bool  # whether there was a range of labels to predict in
