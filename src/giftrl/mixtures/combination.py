"""From the predictions of experts to one: AdaHedge and a Newton stack combine them, a second AdaHedge the candidates.

AdaHedge (de Rooij, van Erven, Grünwald and Koolen, 2014) weights experts by their losses, at a learning rate that is
set by the losses too. Its regret against the best of n experts is at most 2 sqrt(V ln n) + (4/3 ln n + 2) S, with S the
largest range of losses in a round and V the sum over rounds of the variance of the losses under the weights. It is at
most twice the computed gap whatever the losses are. Nothing is assumed about their range.

The Newton stack is a linear model of the experts' predictions, f = origin + sum_k v_k z_k with z_k the k-th prediction
less the origin. v starts at 1/n and A, the inverse of the curvature seen so far, at COVARIANCE I. With c = <z, A z> a
round takes the proximal slope a of the loss in units of the temperature, v -= a A z, and then A gains the curvature h
of the loss: A -= h/(1 + h c) (A z)(A z)'.

There are four candidates: the combinations by AdaHedge and by the stack, and both multiplied by a boost
(:func:`giftrl.ops.loss_scale.bold`). With w, v and l the weights by AdaHedge, by the stack and of the candidates,
expert r has the share alpha_r = (l_1 + boost l_3) w_r + (l_2 + boost l_4) v_r in the combined prediction.
All of this is the same for one score and for K.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import get, least, load, maximum, read, store, total, where_less, write, zeros
from giftrl.compiled.registry import formula
from giftrl.kernels.lane_counts import FOUR
from giftrl.mixtures.clip_limits import LARGEST_LOSS
from giftrl.ops.scalar import exp_minus, log

#: A smaller gap counts as 0: its inverse would leave float64.
SMALLEST_GAP = 1e-290


@formula(fast=True)
def rate(log_experts: float, gap: float) -> float:
    """The learning rate eta = ln(experts)/gap, infinite if the gap is 0."""
    return log_experts / gap if gap > SMALLEST_GAP else math.inf


@formula(fast=True)
def hedge(lost: Any, eta: float) -> Any:
    """The weights exp(-eta lost_k), normalised; if eta is infinite, the leaders share all weight.

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

    mix = -ln(sum_k w_k exp(-eta l_k))/eta; if eta is infinite, the least loss of an expert with weight.
    """
    # For an expert without weight the difference can be negative.
    above = maximum(losses - least(where_less(0.0, weights, losses, math.inf)), 0.0)
    mean = total(weights * above)
    mix = -log(total(weights * exp_minus(above * eta))) / eta if eta < math.inf else 0.0
    return float(gap + max(0.0, mean - mix))


#: A before the first row, as a multiple of the identity.
COVARIANCE = 0.1


@formula(fast=True)
def spread_stack(side: Any, inverse: Any, z: Any) -> Any:
    """A z in lanes, for a vector z in memory."""
    even, odd, n = zeros(side), zeros(side), len(inverse)
    for l in range(n // 2):  # noqa: E741
        # A is symmetric: its rows are its columns. Two sums, since each waits for its last term.
        even = even + load(side, inverse, 2 * l, 0) * z[2 * l]
        odd = odd + load(side, inverse, 2 * l + 1, 0) * z[2 * l + 1]
    if n % 2 == 1:
        even = even + load(side, inverse, n - 1, 0) * z[n - 1]
    return even + odd


@formula(fast=True)
def move_stack(side: Any, v: Any, az: Any, a: float) -> None:
    """v -= a A z."""
    write(v, read(side, v) - az * a)


@formula(fast=True)
def bend_stack(side: Any, inverse: Any, az: Any, c: float, h: float) -> None:
    """Add the curvature h z z' to the inverse of A; ``az`` is in memory."""
    along = read(side, az) * (h / (1.0 + h * c))
    for l in range(len(inverse)):  # noqa: E741
        store(inverse, l, 0, load(side, inverse, l, 0) - along * az[l])


CANDIDATES = 4
#: The entries of ``sums``: loss, phi*, the gaps of the two AdaHedges, rows, their weight; and, with one score, the loss
#: of the rows before the first label, on which experts cannot be compared, and the recent mean losses of predictions
#: that are clipped to the range of labels and of those that are not.
LOSS, CONJUGATE, GAP, LAST_GAP, ROUNDS, WEIGHT, UNCOMPARED, CLIPPED, LINEAR = range(9)
#: Row t counts about t^RECENCY in a recent mean: the first predictions, which are wild, count for nothing in the end.
RECENCY = 7.0
#: The sum of weights stops here: a state must be finite to be restored.
MOST_WEIGHT = float(np.finfo(np.float64).max)


def start_combination(experts: list[str], candidates: list[bool]) -> dict[str, NDArray[np.float64]]:
    """Totals, candidates, stack and inverse before the first row; experts without a name are not in the mixture.

    >>> start_combination(["a", ""], [True] * 4)["totals"]
    array([ 0., inf])
    """
    present = np.array([name != "" for name in experts])
    return {
        "totals": np.where(present, 0.0, math.inf),
        "candidates": np.where(candidates, 0.0, math.inf),
        "stack": present / present.sum(),
        "inverse": COVARIANCE * np.diag(present.astype(np.float64)),
    }


class Weighing(NamedTuple):
    """The weights of the experts and of the candidates in a round, in lanes, and the rates that they come from."""

    rate: float
    experts: Any
    last_rate: float
    candidates: Any


@formula(fast=True)
def weigh_experts(side: Any, state: Any, log_experts: float, log_choices: float) -> Any:
    """The weights by both AdaHedges before a round, from the logarithms of the numbers of experts and candidates."""
    eta, last_eta = rate(log_experts, state.sums[GAP]), rate(log_choices, state.sums[LAST_GAP])
    experts, candidates = hedge(read(side, state.totals), eta), hedge(read(FOUR, state.candidates), last_eta)
    return Weighing(eta, experts, last_eta, candidates)


@formula(fast=True)
def share(boost: float, side: Any, state: Any, out: Any) -> None:
    """Put the share alpha of each expert into ``out``."""
    experts, choices = 0, 0
    for r in range(len(state.totals)):
        experts += 1 if state.totals[r] < math.inf else 0
    for r in range(CANDIDATES):
        choices += 1 if state.candidates[r] < math.inf else 0
    by = weigh_experts(side, state, log(experts), log(choices))
    hedged, stacked = (
        get(by.candidates, 0) + boost * get(by.candidates, 2),
        get(by.candidates, 1) + boost * get(by.candidates, 3),
    )
    write(out, by.experts * hedged + read(side, state.stack) * stacked)


@formula(fast=True)
def update_totals(side: Any, state: Any, by: Any, losses: Any, last_losses: Any) -> None:
    """Update both AdaHedges by the losses of the experts and of the candidates, in lanes."""
    sums = state.sums
    gap, last_gap = (
        observe(by.rate, sums[GAP], by.experts, losses),
        observe(by.last_rate, sums[LAST_GAP], by.candidates, last_losses),
    )
    write(state.totals, read(side, state.totals) + losses)
    write(state.candidates, read(FOUR, state.candidates) + last_losses)
    sums[GAP], sums[LAST_GAP] = gap, last_gap


@formula(fast=True)
def add_round(sums: Any, phi: float, conjugate: float, h: float) -> None:
    """Add a row of weight h to the certificate: its loss phi, and phi* at its slope.

    A sum beyond float64 becomes infinite, never NaN; with an infinite phi* nothing is certified.
    """
    paid, promised = sums[LOSS] + h * phi, sums[CONJUGATE] + h * conjugate
    sums[LOSS] = paid if abs(paid) < math.inf else math.inf
    sums[CONJUGATE] = promised if abs(promised) < math.inf else math.inf
    sums[ROUNDS] += 1.0
    sums[WEIGHT] = min(sums[WEIGHT] + h, MOST_WEIGHT)


@formula(fast=True)
def update_clipping_losses(sums: Any, clipped: float, linear: float) -> None:
    """Add the losses of a prediction, clipped and not clipped, to the recent means."""
    part = min(1.0, (RECENCY + 1.0) / (sums[ROUNDS] + RECENCY))
    sums[CLIPPED] += part * (min(clipped, LARGEST_LOSS) - sums[CLIPPED])
    sums[LINEAR] += part * (min(linear, LARGEST_LOSS) - sums[LINEAR])


@formula(fast=True)
def remove_expert(state: Any, expert: int) -> None:
    """Take an expert out of the mixture."""
    state.totals[expert] = math.inf
    state.stack[expert] = 0.0
    for r in range(len(state.stack)):
        state.inverse[expert, r], state.inverse[r, expert] = 0.0, 0.0
