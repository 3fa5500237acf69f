"""AdaHedge: weights for experts from their losses, at a learning rate that is set by the losses too.

(de Rooij, van Erven, Grünwald and Koolen, 2014.) The regret against the best of n experts is at most
2 sqrt(V ln n) + (4/3 ln n + 2) S, with S the largest range of losses in a round and V the sum over rounds of the
variance of the losses under the weights. It is at most twice the computed ``gap`` whatever the losses are. Nothing is
assumed about their range.
"""

import math
from typing import Any

from giftrl.compiled.lanes import least, maximum, total, where_less
from giftrl.compiled.registry import formula
from giftrl.ops.scalar import exp_minus, log

#: A smaller gap counts as 0: its inverse would leave float64.
SMALLEST_GAP = 1e-290


@formula(fast=True)
def rate(log_experts: float, gap: float) -> float:
    """The learning rate eta = ln(experts)/gap, infinite if the gap is 0."""
    return log_experts / gap if gap > SMALLEST_GAP else math.inf


@formula(fast=True)
def hedge(lost: Any, eta: float) -> Any:
    """The weights exp(-eta lost_k), normalised; those of the leaders only if eta is infinite.

    ``lost`` has the loss of each expert so far, in lanes. It is infinite for an expert that is not in the mixture.
    """
    lowest = least(lost)
    if eta < math.inf:
        weights = exp_minus((lost - lowest) * eta)
    else:
        weights = where_less(lowest + 1e-9 * abs(lowest), lost, 0.0, 1.0)
    return weights * (1.0 / total(weights))


@formula(fast=True)
def observe(eta: float, gap: float, weights: Any, losses: Any) -> float:
    """The gap after a round of these losses: it grows by the mean loss less the mix loss.

    mix = -ln(sum_k w_k exp(-eta l_k))/eta; where eta is infinite, the least loss of an expert with weight.
    """
    # For an expert without weight the difference can be negative.
    above = maximum(losses - least(where_less(0.0, weights, losses, math.inf)), 0.0)
    mean = total(weights * above)
    mix = -log(total(weights * exp_minus(above * eta))) / eta if eta < math.inf else 0.0
    return float(gap + max(0.0, mean - mix))
