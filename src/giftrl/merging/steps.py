"""The steps from the average of workers to their sum that a window of rows asks for: a small convex problem.

An expert has a step a_g in [0, 1] for each group of features, and its scores for the window are p + sum_g a_g d_g. The
steps minimise the loss of the window, one after the other, each by the secant method on its slope. How far a step moves
from where it was has a price too, so that a few rows do not move it far.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula, operation
from giftrl.errors import Incompatible
from giftrl.ops import loss as one
from giftrl.ops import vector_loss as many

Array = NDArray[np.float64]
#: How often the steps are gone through, and how often each is improved.
SWEEPS, SECANTS = 2, 4
#: How firmly a step is held where it was: moving it by 1 costs half of this many units of loss.
STIFFNESS = 4.0

value_slope, vector_slope = one.slope, many.slope


@operation
def descent(window: Any, p: Any, d: Any, by: float) -> float:
    """The slope of the loss of a window in a step, at scores ``by`` times d further than p."""
    raise Incompatible("a window must bring descent(self, p, d, by); add that method to its class")


class OneScore(NamedTuple):
    """A window of rows with one score each."""

    loss: Any
    labels: NDArray[Any]
    weights: Array

    def descent(self, p: Any, d: Any, by: float) -> float:
        total = 0.0
        for i in range(len(p)):
            if d[i] != 0.0:
                total += self.weights[i] * value_slope(self.loss, p[i] + by * d[i], self.labels[i]) * d[i]
        return total


class KScores(NamedTuple):
    """A window of rows with K scores each, one row behind the other; ``work`` is memory for scores and slopes."""

    loss: Any
    labels: NDArray[Any]
    weights: Array
    work: Array

    def descent(self, p: Any, d: Any, by: float) -> float:
        scores, slopes, total = self.work[0], self.work[1], 0.0
        for i in range(len(self.labels)):
            first, moves = i * len(scores), False
            for k in range(len(scores)):
                moves |= d[first + k] != 0.0
                scores[k] = p[first + k] + by * d[first + k]
            if moves:
                vector_slope(self.loss, scores, self.labels[i], slopes)
                along = 0.0
                for k in range(len(scores)):
                    along += slopes[k] * d[first + k]
                total += self.weights[i] * along
        return total


def window_of(loss: Any, labels: NDArray[Any], weights: Array, classes: int | None) -> OneScore | KScores:
    """Rows with these labels; ``weights`` is empty where all are 1."""
    h = np.ones(len(labels)) if len(weights) == 0 else np.asarray(weights, np.float64)
    return OneScore(loss, labels, h) if classes is None else KScores(loss, labels, h, np.empty((2, classes)))


@formula
def find_step(window: Any, p: Any, d: Any, now: float, prior: float, stiff: float) -> float:
    """The best step of a group, while the others stay; ``now`` is what p has of it."""
    low, high = -now, 1.0 - now
    at_low = descent(window, p, d, low) + stiff * (now + low - prior)
    at_high = descent(window, p, d, high) + stiff * (now + high - prior)
    if not at_high > at_low:  # the window says nothing
        return prior
    if at_low >= 0.0:
        return 0.0
    if at_high <= 0.0:
        return 1.0
    for _ in range(SECANTS):
        by = low - at_low * (high - low) / (at_high - at_low)
        at = descent(window, p, d, by) + stiff * (now + by - prior)
        if at < 0.0:
            low, at_low, at_high = by, at, at_high / 2.0
        else:
            high, at_high, at_low = by, at, at_low / 2.0
    return now + low - at_low * (high - low) / (at_high - at_low)


@formula
def find_steps(window: Any, p: Any, d: Any, prior: Any, stiff: float, steps: Any, first: int, last: int) -> None:
    """The steps of some experts and each group; p has a row for each expert, and d one for each expert and group."""
    for r in range(first, last):
        for g in range(steps.shape[1]):
            for i in range(p.shape[1]):
                p[r, i] += steps[r, g] * d[r, g, i]
        for _ in range(SWEEPS):
            for g in range(steps.shape[1]):
                best = find_step(window, p[r], d[r, g], steps[r, g], prior[r, g], stiff)
                best = min(max(best, 0.0), 1.0)
                for i in range(p.shape[1]):
                    p[r, i] += (best - steps[r, g]) * d[r, g, i]
                steps[r, g] = best
