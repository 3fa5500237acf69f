"""Early stopping for several passes over the same rows. Some rows are held out as a validation set. Training stops when
the validation loss rises; then the model also learns the held-out rows.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config.recipe import Mixture

#: From this row on, the held-out fraction shrinks, so that memory grows logarithmically with the data.
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
    """A copy of a learner, finished as after the last pass."""
    settled = copy.deepcopy(learner)
    if isinstance(settled, Mixture):
        settled.settle()
    return settled


class EarlyStopping:
    """Several passes over the same rows; keeps the learner of the best pass.

    Args:
        learners: one per column of a model, trained by the caller between :meth:`begin` and :meth:`end`.
        validate: a function from learners to their validation loss; None if no rows are held out.
    """

    def __init__(self, learners: Sequence[Any], validate: Callable[[list[Any]], float] | None = None) -> None:
        self.learners, self.validate = list(learners), validate
        self.done = 0  # passes so far
        self.kept = 1  # the number of the best pass
        self.losses: list[float] = []  # the validation loss after each pass
        self.best: list[Any] = []  # the learners after the best pass, if rows are held out

    def begin(self) -> None:
        """Begin a pass. From the second pass on, mixtures call ``repeat``."""
        for learner in self.learners if self.done > 0 else ():
            if isinstance(learner, Mixture):
                learner.repeat()

    def end(self) -> bool:
        """End a pass; returns True if another pass may help."""
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
        """The learners after the best pass, or after the last one if no rows are held out."""
        if self.best:
            return self.best
        for learner in self.learners:
            if isinstance(learner, Mixture):
                learner.settle()
        return self.learners
