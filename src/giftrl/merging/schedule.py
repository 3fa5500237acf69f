"""How many rows are learnt between two merges.

One worker learns the first rows. Then a round has a tenth of the rows so far, or up to a quarter where workers are
few, and their states differ less. Its last rows are its window: nobody
learns them before the merge, which is fitted to them, and then the merged learner does. So every row is learnt once.
"""

from itertools import pairwise
from typing import NamedTuple

#: One worker learns at least this many rows, and this many for each worker; splitting fewer saves nothing that matters.
FIRST, FIRST_EACH = 8192, 100
#: The part of the rows so far that a round has with many workers, and with few; and its fewest rows for each worker.
GROWTH, MOST_GROWTH, LEAST_EACH = 0.1, 0.25, 16
#: The most rows of a window, which is at most half of a round.
WINDOW = 1024


class Round(NamedTuple):
    """The rows of a round: those that are split among the workers, and those of the window behind them."""

    parted: int
    window: int


def first_rows(workers: int) -> int:
    """How many rows one worker learns before the first round.

    >>> first_rows(2), first_rows(100)
    (8192, 10000)
    """
    return max(FIRST, FIRST_EACH * workers)


def next_round(rows: int, workers: int) -> Round:
    """The round that begins after this many rows.

    >>> next_round(8192, 2), next_round(1_000_000, 16)
    (Round(parted=1024, window=1024), Round(parted=98976, window=1024))
    """
    growth = max(GROWTH, min(MOST_GROWTH, 2.0 * MOST_GROWTH / workers))
    size = max(LEAST_EACH * workers, int(growth * rows))
    window = min(WINDOW, size // 2)
    return Round(size - window, window)


def cut(rows: int, workers: int) -> list[tuple[int, int]]:
    """Where the rows of each worker begin and end: consecutive ones, as many for each as for any other.

    >>> cut(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    edges = [rows * k // workers for k in range(workers + 1)]
    return list(pairwise(edges))
