"""Early stopping of several passes over the same rows, by the loss on rows that are held out.

After the first pass the loss on rows that are learned says little about others. So some rows are held out: they are
learned after the last pass, like any new rows. Training stops when the loss on them rises.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config.recipe import Mixture

#: From this row on, fewer rows are held out, so that those kept in memory grow with the logarithm of the data.
FIRST_THINNED_ROW = 1 << 16


def held_out(first: int, rows: int, fraction: float) -> NDArray[np.bool_]:
    """True for held-out rows among ``rows`` rows of a pass from row ``first`` on: the last of each 1 / ``fraction``.

    The fraction halves at row 65,536, at row 131,072 and at each further power of two; 0 holds out none.

    >>> np.flatnonzero(held_out(5, 20, 0.1)).tolist(), int(held_out(0, 1 << 18, 0.1).sum())
    ([4, 14], 13107)
    """
    number = np.arange(first, first + rows)
    _, halvings = np.frexp(number // FIRST_THINNED_ROW)
    share = np.ldexp(fraction, -halvings)
    return np.asarray(np.floor((number + 1) * share + 1e-9) > np.floor(number * share + 1e-9))


def settled(learner: Any) -> Any:
    """A copy of a learner as it would be if the passes ended here."""
    settled = copy.deepcopy(learner)
    if isinstance(settled, Mixture):
        settled.settle()
    return settled


class EarlyStopping:
    """Several passes over the same rows, of which the best one is kept.

    Args:
        learners: of the columns of a model, trained by the caller between :meth:`begin` and :meth:`end`.
        validate: returns the loss of learners on the rows held out; None if there are none.
    """

    def __init__(self, learners: Sequence[Any], validate: Callable[[list[Any]], float] | None = None) -> None:
        self.learners, self.validate = list(learners), validate
        self.done = 0  # the number of passes so far
        self.kept = 1  # the number of the best of them
        self.losses: list[float] = []  # on the rows held out, after each pass
        self.best: list[Any] = []  # the learners after the best pass, if rows are held out

    def begin(self) -> None:
        """Begin a pass. From the second one on, mixtures are told that the rows are not new."""
        for learner in self.learners if self.done > 0 else ():
            if isinstance(learner, Mixture):
                learner.repeat()

    def end(self) -> bool:
        """End a pass, and return whether another one may help."""
        self.done += 1
        if self.validate is None:
            self.kept = self.done
            return True
        candidates = [settled(learner) for learner in self.learners]
        self.losses.append(self.validate(candidates))
        if self.done > 1 and not self.losses[-1] <= self.losses[-2]:
            return False
        self.best, self.kept = candidates, self.done
        return True

    def result(self) -> list[Any]:
        """The learners after the best pass; after the last one, if no rows are held out."""
        if self.best:
            return self.best
        for learner in self.learners:
            if isinstance(learner, Mixture):
                learner.settle()
        return self.learners
