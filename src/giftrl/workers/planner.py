"""How many rows are learnt between two merges.

One worker learns the first rows. Then a round has a tenth of the rows so far. The states of few workers differ less, so
with few workers it has up to a quarter. The last rows of a round are its window: nobody learns them before the merge,
which is fitted to them, and then the merged learner does. So every row is learnt once.

Merging takes time for each feature, and learning for each row. So a round has at least as many rows as there are
features, and the first round begins when that is no more than a quarter of the rows so far. On 480,000 rows like
rcv1's, of 47,000 features, two workers then end at 1.007 of the loss of one learner; with more merges it was 1.009.
"""

from itertools import pairwise
from typing import NamedTuple

#: One worker learns at least this many rows, and this many for each worker; splitting fewer saves nothing that matters.
FIRST, FIRST_EACH = 8192, 100
#: The part of the rows so far that a round has with many workers, and with few or many features.
GROWTH, MOST_GROWTH = 0.1, 0.25
#: The fewest rows of a round, for each worker and for each feature.
LEAST_EACH, LEAST_FEATURE = 16, 1
#: The most rows of a window, which is at most half of a round.
WINDOW = 1024


class Round(NamedTuple):
    """The rows of a round: those that are split among the workers, and those of the window behind them."""

    parted: int
    window: int


def first_rows(workers: int, features: int = 0) -> int:
    """How many rows one worker learns before the first round, where so many features are known.

    >>> first_rows(2), first_rows(100), first_rows(2, 50_000)
    (8192, 10000, 200000)
    """
    return max(FIRST, FIRST_EACH * workers, int(LEAST_FEATURE * features / MOST_GROWTH))


def next_round(rows: int, workers: int, features: int = 0) -> Round:
    """The round that begins after this many rows, where so many features are known.

    >>> next_round(8192, 2), next_round(1_000_000, 16), next_round(200_000, 16, 50_000)
    (Round(parted=1024, window=1024), Round(parted=98976, window=1024), Round(parted=48976, window=1024))
    """
    growth = max(GROWTH, min(MOST_GROWTH, 2.0 * MOST_GROWTH / workers))
    size = max(LEAST_EACH * workers, LEAST_FEATURE * features, int(growth * rows))
    window = min(WINDOW, size // 2)
    return Round(size - window, window)


def cut(rows: int, workers: int) -> list[tuple[int, int]]:
    """Where the rows of each worker begin and end: consecutive ones, as many for each as for any other.

    >>> cut(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    edges = [rows * k // workers for k in range(workers + 1)]
    return list(pairwise(edges))
