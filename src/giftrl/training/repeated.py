"""Counts of rows that are learnt more than once, or late."""

from typing import NamedTuple


class Repeated(NamedTuple):
    """What the counts of a learner have besides the first pass.

    Rows of later passes add to a learner that takes them for new ones; a mixture does not. Rows held out are learnt
    after the last pass.
    """

    examples: int = 0  # of later passes
    weight: float = 0.0
    loss: float = 0.0
    late_weight: float = 0.0  # of rows held out
    late_loss: float = 0.0
