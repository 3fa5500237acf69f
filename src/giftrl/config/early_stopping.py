"""Several passes over the same rows: rows held out say which pass was the best.

After the first pass the loss on rows that are learnt says little about others. So some rows are held out: not learnt
until the last pass is over, and then learnt like any new rows. Training stops when the loss on them rises.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config.recipe import Mixture


def held_out(rows: int, fraction: float) -> NDArray[np.bool_]:
    """Which of so many rows are held out: of every 1/fraction rows the last.

    >>> np.flatnonzero(held_out(25, 0.1)).tolist()
    [9, 19]
    """
    counts = np.floor(np.arange(rows + 1) * fraction + 1e-9)
    return np.asarray(np.diff(counts) > 0.0)


def settled(learner: Any) -> Any:
    """A copy as it would be if the passes ended here; a single learner is what it is after each of them."""
    made = copy.deepcopy(learner)
    if isinstance(made, Mixture):
        made.settle()
    return made


class Passes:
    """The passes of learners over the same rows.

    Args:
        learners: of the columns of a model, trained by the caller.
        validate: the loss of learners on the rows held out; None where there are none.

    Attributes:
        losses: that loss after each pass.
        done: how many passes are over.
        kept: the number of the best of them, from 1.
        best: the learners after that pass, where rows are held out.

    >>> from giftrl.mixtures import MixtureLearner
    >>> made = MixtureLearner(1, "squared", compiled=False)
    >>> losses = iter([3.0, 2.0, 2.5, 1.0])
    >>> passes = Passes([made], lambda learners: next(losses))
    >>> going = True
    >>> while going:
    ...     passes.begin()
    ...     _ = made.learn([[1.0], [-1.0]], [1.0, -1.0])
    ...     going = passes.end()
    >>> passes.losses, passes.kept
    ([3.0, 2.0, 2.5], 2)
    """

    def __init__(self, learners: Sequence[Any], validate: Callable[[list[Any]], float] | None = None) -> None:
        self.learners = list(learners)
        self.validate = validate
        self.done = 0
        self.kept = 1
        self.losses: list[float] = []
        self.best: list[Any] = []

    def begin(self) -> None:
        """Begin a pass. In all but the first, a mixture knows that it has met the rows before."""
        for learner in self.learners if self.done > 0 else ():
            if isinstance(learner, Mixture):
                learner.repeat()

    def end(self) -> bool:
        """End a pass; whether another one may help."""
        self.done += 1
        if self.validate is None:
            self.kept = self.done
            return True
        made = [settled(learner) for learner in self.learners]
        self.losses.append(self.validate(made))
        if self.done > 1 and not self.losses[-1] <= self.losses[-2]:
            return False
        self.best, self.kept = made, self.done
        return True

    def result(self) -> list[Any]:
        """The learners after the best pass; after the last one, where no rows are held out."""
        if self.best:
            return self.best
        for learner in self.learners:
            if isinstance(learner, Mixture):
                learner.settle()
        return self.learners
