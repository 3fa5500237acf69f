"""How experts become one prediction: AdaHedge and the Newton stack combine them, a second AdaHedge the candidates.

There are four candidates: the combinations by AdaHedge and by the stack, and both multiplied by ``bold``
(:func:`giftrl.ops.loss_scale.bold`). With w the weights of AdaHedge, v those of the stack and l those of the
candidates, expert r has the share alpha_r = (l_1 + bold l_3) w_r + (l_2 + bold l_4) v_r in the combined prediction.
All of this is the same for one score and for K.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import get, read, write
from giftrl.compiled.registry import formula
from giftrl.kernels.lane_counts import FOUR
from giftrl.mixtures.ada_hedge import hedge, observe, rate
from giftrl.mixtures.limits import LARGEST_LOSS
from giftrl.mixtures.newton_stack import COVARIANCE
from giftrl.ops.scalar import log

CANDIDATES = 4
#: The entries of ``sums``: loss, phi*, the gaps of the two AdaHedges, rows, their weight; and, with one score, the loss
#: of the rows before the first label, on which experts cannot be compared, and the recent mean losses of predictions
#: that are clipped to the range of labels and of those that are not.
LOSS, CONJUGATE, GAP, LAST_GAP, ROUNDS, WEIGHT, UNCOMPARED, CLIPPED, LINEAR = range(9)
#: Row t counts about t^RECENCY in a recent mean: the first predictions, which are wild, count for nothing in the end.
RECENCY = 7.0
#: The sum of weights stops here: a state must be finite to be restored.
MOST_WEIGHT = float(np.finfo(np.float64).max)


def start(experts: list[str], candidates: list[bool]) -> dict[str, NDArray[np.float64]]:
    """Totals, candidates, stack and inverse before the first row; experts without a name are not in the mixture.

    >>> start(["a", ""], [True] * 4)["totals"]
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
    """What both AdaHedges say before a round, from the logarithms of how many experts and candidates there are."""
    eta, last_eta = rate(log_experts, state.sums[GAP]), rate(log_choices, state.sums[LAST_GAP])
    experts, candidates = hedge(read(side, state.totals), eta), hedge(read(FOUR, state.candidates), last_eta)
    return Weighing(eta, experts, last_eta, candidates)


@formula(fast=True)
def share(bold: float, side: Any, state: Any, out: Any) -> None:
    """Put the share alpha of each expert into ``out``."""
    experts, choices = 0, 0
    for r in range(len(state.totals)):
        experts += 1 if state.totals[r] < math.inf else 0
    for r in range(CANDIDATES):
        choices += 1 if state.candidates[r] < math.inf else 0
    by = weigh_experts(side, state, log(experts), log(choices))
    hedged, stacked = (
        get(by.candidates, 0) + bold * get(by.candidates, 2),
        get(by.candidates, 1) + bold * get(by.candidates, 3),
    )
    write(out, by.experts * hedged + read(side, state.stack) * stacked)


@formula(fast=True)
def compare(side: Any, state: Any, by: Any, losses: Any, last_losses: Any) -> None:
    """Let both AdaHedges see what the experts and the candidates have lost, in lanes."""
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
    """Add a row of weight h to the certificate: its loss phi, and phi* at the slope that was met.

    A sum beyond float64 becomes infinite, never NaN; with an infinite phi* nothing is certified.
    """
    paid, promised = sums[LOSS] + h * phi, sums[CONJUGATE] + h * conjugate
    sums[LOSS] = paid if abs(paid) < math.inf else math.inf
    sums[CONJUGATE] = promised if abs(promised) < math.inf else math.inf
    sums[ROUNDS] += 1.0
    sums[WEIGHT] = min(sums[WEIGHT] + h, MOST_WEIGHT)


@formula(fast=True)
def judge_clipping(sums: Any, clipped: float, linear: float) -> None:
    """Add the losses of a prediction, clipped and as it is, to the recent means."""
    part = min(1.0, (RECENCY + 1.0) / (sums[ROUNDS] + RECENCY))
    sums[CLIPPED] += part * (min(clipped, LARGEST_LOSS) - sums[CLIPPED])
    sums[LINEAR] += part * (min(linear, LARGEST_LOSS) - sums[LINEAR])


@formula(fast=True)
def leave(state: Any, expert: int) -> None:
    """Take an expert out of the mixture."""
    state.totals[expert] = math.inf
    state.stack[expert] = 0.0
    for r in range(len(state.stack)):
        state.inverse[expert, r], state.inverse[r, expert] = 0.0, 0.0
