"""Merging learners of any kind: what a worker sends, and what becomes of the pieces of all workers."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Rows, begin, column, end
from giftrl.errors import Incompatible, require
from giftrl.merging import classes, fit, mixture, pieces
from giftrl.merging.sharing import Share, alone
from giftrl.mixtures.feature_state import ROWS
from giftrl.mixtures.mixture import Mixture

Array = NDArray[np.float64]


class Window(NamedTuple):
    """Rows that nobody has learnt, to which a merge is fitted; ``weights`` is empty where all are 1."""

    rows: Rows
    labels: NDArray[Any]
    weights: Array


@formula
def mark(rows: Any, count: int, marks: Any) -> None:
    """Note the features of rows."""
    for i in range(count):
        for k in range(begin(rows, i), end(rows, i)):
            marks[column(rows, i, k)] = True


def touched(learner: Any, parts: list[tuple[Rows, int]], marks: NDArray[np.bool_]) -> None:
    """Note in ``marks`` the features that learning these rows has changed; each part is rows and how many there are."""
    loop = ready(mark, learner.compiled)
    for rows, count in parts:
        loop(rows, count, marks)
    marks[pieces.always(learner)] = True


#: So many features are counted one by one, and then every second of as many again, every fourth of twice as many...
COUNTED = 1 << 16


def known(learner: Any) -> int:
    """About how many features a learner has met; what it makes of the same rows does not depend on room for more.

    >>> from giftrl.mixtures import MixtureLearner
    >>> learner = MixtureLearner(9, "squared", compiled=False)
    >>> p = learner.learn(np.eye(9)[:3], np.ones(3))
    >>> known(learner)
    3
    """
    array = learner.features.x
    total, first, step = np.count_nonzero(array[:COUNTED].any(axis=1)), COUNTED, 2
    while first < len(array):
        total += step * np.count_nonzero(array[first : 2 * first : step].any(axis=1))
        first, step = 2 * first, 2 * step
    return int(total)


def first_steps(learner: Any) -> Array:
    """The steps before the first merge: all the way to the sum."""
    require_mixture(learner)
    return fit.first_steps(learner)


def require_mixture(learner: Any) -> None:
    """Refuse a learner that cannot be merged."""
    if not isinstance(learner, Mixture):
        rule = "cannot be merged: only learners of beta='auto' can"
        raise Incompatible(f"{type(learner).__name__} {rule}. Use beta='auto', or one worker")


def require_auto(auto: bool, argument: str, workers: object) -> None:
    """Refuse several workers for a model with a number for beta.

    >>> require_auto(False, "n_jobs", 2)
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: n_jobs=2: needs beta='auto': models with a number for beta cannot be merged; leave out
    one of the two
    """
    rule = "needs beta='auto': models with a number for beta cannot be merged"
    require(auto, argument, workers, rule, "leave out one of the two")


def merge(
    learner: Any, base: Any, workers: list[Any], window: Window | None, steps: Array, share: Share = alone
) -> tuple[Any, Array]:
    """The merged state at the features of the pieces, and the steps that were fitted.

    Workers that have learnt nothing do not count, and the state of a single worker is what it is.

    Args:
        learner: one with the state that all workers began from.
        base: its piece.
        workers: their pieces, at the same features.
        window: rows to fit the steps to; None to take the steps as they are.
        steps: those of the merge before, or :func:`first_steps`.
        share: runs loops; with several threads the result is the same.
    """
    learnt = [worker for worker in workers if rounds_of(worker) > rounds_of(base)]
    if len(learnt) < 2:
        return (learnt[0]._replace(merges=base.merges) if learnt else base), steps
    if window is not None and len(window.labels) == 0:
        window = None
    return _merge_mixtures(learner, base, learnt, window, steps, share)


def rounds_of(piece: Any) -> float:
    """How many rows were learnt until the state of a piece."""
    return float(piece.counts[ROWS])


def _merge_mixtures(
    learner: Any, base: Any, workers: list[Any], window: Window | None, steps: Array, share: Share
) -> tuple[Any, Array]:
    merger = mixture.merge_mixtures(learner, base, workers, share)
    group = fit.groups_of(merger, learner.constant)
    if window is not None:
        fit_steps = fit.fit_mixture if learner.classes is None else classes.fit_classes
        steps = fit_steps(learner, merger, group, *window, steps, share)
    piece = mixture.blended(learner, merger, steps, group, share)
    return piece._replace(merges=base.merges + 1), steps
