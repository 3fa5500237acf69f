"""AdaHedge: weights for experts from their losses, at a learning rate that is set by the losses too."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.compiled.registry import formula
from giftrl.errors import require
from giftrl.ops.scalar import exp_minus, log

#: A smaller gap counts as 0: its inverse would leave float64.
SMALLEST_GAP = 1e-290


@formula(fast=True)
def hedge(total: Any, experts: int, gap: float, weights: Any) -> None:
    """Put exp(-eta total_k) into ``weights``, normalised, with eta = ln(experts)/gap; the leaders only if the gap is 0.

    An expert that is not in the mixture has an infinite total, so that every loop runs over the whole array.
    """
    lowest = math.inf
    for k in range(len(total)):
        lowest = min(lowest, total[k])
    if gap > SMALLEST_GAP:
        eta = log(experts) / gap
        for k in range(len(total)):
            weights[k] = exp_minus(eta * (total[k] - lowest))
    else:
        for k in range(len(total)):
            weights[k] = 1.0 if total[k] <= lowest + 1e-9 * abs(lowest) else 0.0
    mass = 0.0
    for k in range(len(total)):
        mass += weights[k]
    share = 1.0 / mass
    for k in range(len(total)):
        weights[k] *= share


@formula(fast=True)
def observe(total: Any, experts: int, gap: float, weights: Any, losses: Any) -> float:
    """Add the losses to the totals; return the new gap, which grows by the mean loss less the mix loss.

    mix = -ln(sum_k w_k exp(-eta l_k))/eta; where eta is infinite, the least loss of an expert with weight.
    """
    lowest = math.inf
    for k in range(len(total)):
        lowest = min(lowest, losses[k] if weights[k] > 0.0 else math.inf)
    mean, mass = 0.0, 0.0
    eta = log(experts) / gap if gap > SMALLEST_GAP else 0.0
    for k in range(len(total)):
        above = max(0.0, losses[k] - lowest)  # it is negative only for an expert without weight
        mean += weights[k] * above
        mass += weights[k] * exp_minus(eta * above)
        total[k] += losses[k]
    mix = -log(mass) / eta if gap > SMALLEST_GAP else 0.0
    return gap + max(0.0, mean - mix)


class AdaHedge:
    """Weights for experts from their losses so far (de Rooij, van Erven, Grünwald and Koolen, 2014), without a learner.

    The regret against the best of n experts is at most 2 sqrt(V ln n) + (4/3 ln n + 2) S, with S the largest range of
    losses in a round and V the sum over rounds of the variance of the losses under the weights. It is at most twice
    the computed ``gap`` whatever the losses are. Nothing is assumed about their range.

    Args:
        experts: how many, at least 2.

    >>> mixer = AdaHedge(2)
    >>> for losses in [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]:
    ...     mixer.observe(losses)
    >>> mixer.weights.round(3).tolist(), round(float(mixer.gap), 3)
    ([0.745, 0.255], 0.647)
    """

    def __init__(self, experts: int) -> None:
        require(experts >= 2, "experts", experts, "must be at least 2", "one expert needs no mixing")
        self.total = np.zeros(experts)
        self.gap = 0.0
        self.loss = 0.0

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights for the next round; they sum to 1."""
        weights = np.empty(len(self.total))
        hedge(self.total, len(weights), self.gap, weights)
        return weights

    def observe(self, losses: ArrayLike) -> None:
        """Update the weights by the losses of a round."""
        given = np.asarray(losses, np.float64)
        good = given.shape == self.total.shape and bool(np.isfinite(given).all())
        require(good, "losses", losses, f"must be {len(self.total)} finite numbers", "clip losses that overflow")
        weights = self.weights
        self.loss += float(weights @ given)
        self.gap = observe(self.total, len(given), self.gap, weights, given)

    @property
    def regret(self) -> float:
        """The sum of the weighted mean losses, less the total loss of the best expert."""
        return self.loss - float(self.total.min())
