"""Merging learners of any kind: what a worker sends, and what becomes of the pieces of all workers."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.door import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Rows, begin, column, end
from giftrl.merging import fit, mixture, pieces
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
    if isinstance(learner, Mixture):
        marks[pieces.always(learner)] = True


def take(learner: Any, features: NDArray[np.int64]) -> Any:
    """A copy of the state of a learner at these features, in order: what a worker sends."""
    return pieces.take(learner, features)


def take_all(learners: list[Any], features: NDArray[np.int64]) -> list[Any]:
    """:func:`take` for several learners."""
    return pieces.take_all(learners, features)


def put(learner: Any, piece: Any) -> None:
    """Write a piece of another learner's state into this one."""
    pieces.put(learner, piece)


def first_steps(learner: Any) -> Array:
    """The steps before the first merge: all the way to the sum."""
    return fit.first_steps(learner)


def merge(learner: Any, base: Any, workers: list[Any], window: Window | None, steps: Array) -> tuple[Any, Array]:
    """The merged state at the features of the pieces, and the steps that were fitted.

    Args:
        learner: one with the state that all workers began from.
        base: its piece.
        workers: their pieces, at the same features.
        window: rows to fit the steps to; None to take the steps as they are.
        steps: those of the merge before, or :func:`first_steps`.
    """
    merger = mixture.merge_mixtures(learner, base, workers)
    group = fit.groups_of(merger, learner.constant)
    if window is not None and len(window.labels) > 0:
        steps = fit.fit_mixture(learner, merger, group, *window, steps)
    return mixture.blended(learner, merger, steps, group), steps
