"""AdaHedge: experts by their losses, at a rate that sets itself."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.compiled.registry import formula
from giftrl.errors import require
from giftrl.ops.scalar import exp_minus, log

__all__ = ["AdaHedge", "hedge", "observe"]

#: A gap below this is 0: its inverse would leave float64.
SMALLEST = 1e-290


@formula(fast=True)
def hedge(total: Any, experts: int, gap: float, weights: Any) -> None:
    """The weights, exp(-eta total_k) with eta = ln(experts)/gap; the leaders alone while the gap is 0.

    Experts that are not there have an infinite total, so that all loops have the length of the array.
    """
    lowest = math.inf
    for k in range(len(total)):
        lowest = min(lowest, total[k])
    if gap > SMALLEST:
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
    """Add the losses to the totals; the new gap, which grows by the mean loss less the mix loss.

    mix = -ln(sum_k w_k exp(-eta l_k))/eta, for eta infinite the least loss of an expert with weight.
    """
    lowest = math.inf
    for k in range(len(total)):
        lowest = min(lowest, losses[k] if weights[k] > 0.0 else math.inf)
    mean, mass = 0.0, 0.0
    eta = log(experts) / gap if gap > SMALLEST else 0.0
    for k in range(len(total)):
        above = max(0.0, losses[k] - lowest)  # negative only where there is no weight
        mean += weights[k] * above
        mass += weights[k] * exp_minus(eta * above)
        total[k] += losses[k]
    mix = -log(mass) / eta if gap > SMALLEST else 0.0
    return gap + max(0.0, mean - mix)


class AdaHedge:
    """Weights for experts from their losses so far (de Rooij, van Erven, Grünwald and Koolen, 2014), for use alone.

    The regret against the best of n experts is at most 2 sqrt(V ln n) + (4/3 ln n + 2) S with S the
    largest range of losses in a round and V the sum over rounds of the variance of the losses under the weights; it is
    at most twice the computed ``gap`` whatever the losses. Nothing is assumed of their range.

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
        found = np.empty(len(self.total))
        hedge(self.total, len(found), self.gap, found)
        return found

    def observe(self, losses: ArrayLike) -> None:
        """Take in the losses of a round."""
        found = np.asarray(losses, np.float64)
        good = found.shape == self.total.shape and bool(np.isfinite(found).all())
        require(good, "losses", losses, f"must be {len(self.total)} finite numbers", "clip losses that overflow")
        weights = self.weights
        self.loss += float(weights @ found)
        self.gap = observe(self.total, len(found), self.gap, weights, found)

    @property
    def regret(self) -> float:
        """The loss of the weighted mean of the experts' losses, less that of the best expert."""
        return self.loss - float(self.total.min())
