"""The built-in updates as one type, so that one compiled loop serves them all.

Compiling a loop takes seconds, and a branch for each example costs nothing next to the loop over its features. So the
loops take a built-in update as an :class:`AnyUpdate`, which says by number which one it is. An update of your own is
passed to the loops as it is, and they are compiled for its type.
"""

from enum import IntEnum
from typing import Any, NamedTuple

from giftrl.ops.line import Affine
from giftrl.updates.contract import Lines, ScoreProblem, pick, pick_all, pick_scores
from giftrl.updates.importance_aware import ImportanceAware
from giftrl.updates.linear import Linear
from giftrl.updates.proximal import Proximal
from giftrl.updates.truncated import Truncated
from giftrl.updates.two_step import TwoStep


class UpdateCode(IntEnum):
    """The numbers of the built-in updates."""

    LINEAR = 0
    PROXIMAL = 1
    TWO_STEP = 2
    TWO_STEP_SAFE = 3
    TRUNCATED = 4
    IMPORTANCE_AWARE = 5


# Look-ahead decides which line an update gets, and the loop takes care of that.
LINEAR, PROXIMAL, TRUNCATED, IMPORTANCE_AWARE = Linear(False), Proximal(False), Truncated(False), ImportanceAware(False)
TWO_STEP, TWO_STEP_SAFE = TwoStep(False, False), TwoStep(False, True)
#: Their types, in the order of their numbers; the two-step update has a number for each value of ``safeguard``.
TYPES = (Linear, Proximal, TwoStep, TwoStep, Truncated, ImportanceAware)


class AnyUpdate(NamedTuple):
    """A built-in update by its number.

    >>> from giftrl.losses import Squared
    >>> from giftrl.ops.line import Affine
    >>> AnyUpdate(UpdateCode.PROXIMAL).pick(Squared(), 0.0, 1.0, Affine(1.0, 3.0))
    0.25
    """

    code: int

    def minimises(self) -> bool:
        return self.code == UpdateCode.PROXIMAL

    def pick(self, loss: Any, y: float, p: float, line: Any) -> float:
        if self.code == UpdateCode.LINEAR:
            return pick(LINEAR, loss, y, p, line)
        if self.code == UpdateCode.PROXIMAL:
            return pick(PROXIMAL, loss, y, p, line)
        if self.code == UpdateCode.TWO_STEP:
            return pick(TWO_STEP, loss, y, p, line)
        if self.code == UpdateCode.TWO_STEP_SAFE:
            return pick(TWO_STEP_SAFE, loss, y, p, line)
        if self.code == UpdateCode.TRUNCATED:
            return pick(TRUNCATED, loss, y, p, line)
        return pick(IMPORTANCE_AWARE, loss, y, p, line)

    def pick_all(self, loss: Any, lines: Lines, out: Any) -> None:
        # Two rules are so short that a branch outside of the loop pays: the loop then runs several models at a time.
        if self.code == UpdateCode.LINEAR:
            pick_all(LINEAR, loss, lines, out)
        elif self.code == UpdateCode.TRUNCATED:
            pick_all(TRUNCATED, loss, lines, out)
        else:
            y, p, _, _, start, c = lines
            for k in range(len(out)):
                out[k] = pick(self, loss, y[k], p[k], Affine(start[k], c[k]))

    def pick_scores(self, loss: Any, problem: ScoreProblem, out: Any, work: Any) -> None:
        if self.code == UpdateCode.LINEAR:
            pick_scores(LINEAR, loss, problem, out, work)
        elif self.code == UpdateCode.PROXIMAL:
            pick_scores(PROXIMAL, loss, problem, out, work)
        elif self.code == UpdateCode.TWO_STEP:
            pick_scores(TWO_STEP, loss, problem, out, work)
        elif self.code == UpdateCode.TWO_STEP_SAFE:
            pick_scores(TWO_STEP_SAFE, loss, problem, out, work)
        elif self.code == UpdateCode.TRUNCATED:
            pick_scores(TRUNCATED, loss, problem, out, work)
        else:
            pick_scores(IMPORTANCE_AWARE, loss, problem, out, work)


def encode_update(update: Any) -> Any:
    """A built-in update as :class:`AnyUpdate`, and any other as it is."""
    if type(update) not in TYPES:
        return update
    return AnyUpdate(TYPES.index(type(update)) + getattr(update, "safeguard", False))
