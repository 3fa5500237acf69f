"""The mixture as one linear model: its weights on the original features, and its predictions without learning."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end
from giftrl.mixtures import labels as unit
from giftrl.mixtures import rounds
from giftrl.mixtures.ada_hedge import hedge
from giftrl.mixtures.coin import bet
from giftrl.mixtures.experts import bets, coin, full, lanes
from giftrl.mixtures.features import CENTRE, DENSE, NORM, SCALE
from giftrl.mixtures.layout import LANES, PLACE

__all__ = ["Shares", "predict_mixture", "shares", "weigh"]

#: A weight is divided by the scale of its feature, and clipped here.
LARGEST = 1e307


class Shares(NamedTuple):
    """The factor of each expert in the combined prediction, and the constant that they add up to besides."""

    factors: NDArray[np.float64]
    constant: float


def shares(pieces: Any, state: Any, experts: int) -> Shares:
    """How the experts are combined now.

    With w the weights of AdaHedge, v those of the stack and l those of the candidates, the prediction is

        origin + sum_r alpha_r (p_r - origin),    alpha_r = (l_1 + bold l_3) w_r + (l_2 + bold l_4) v_r.
    """
    w, last = np.empty(len(state.totals)), np.empty(rounds.CANDIDATES)
    hedge(state.totals, experts, state.sums[rounds.GAP], w)
    hedge(state.candidates, int(np.isfinite(state.candidates).sum()), state.sums[rounds.LAST_GAP], last)
    alpha = (last[0] + pieces.bold * last[2]) * w + (last[1] + pieces.bold * last[3]) * state.stack
    origin = state.units[unit.ORIGIN]
    constants = state.offsets + state.units[unit.OFFSET] - origin
    return Shares(alpha, float(origin + alpha @ constants))


@formula(fast=True)
def weigh(grid: Any, features: Any, x: Any, matrix: Any, units: Any, factors: Any, j: int) -> float:
    """The weight of feature j."""
    m = features.record[j, SCALE]
    if m == 0.0:
        return 0.0
    total = 0.0
    for r in range(lanes(grid)):
        total += factors[r] * np.float64(x[j, LANES + r])
    norm = features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0
    if bets(grid):
        total += factors[coin(grid)] * bet(x, j, unit.per_norm(units, norm))
    s = np.int64(x[j, PLACE]) - 1
    if s >= 0:
        total += factors[full(grid)] * matrix.x[s]
    return max(-LARGEST, min(LARGEST, total / m)) if math.isfinite(total) else 0.0


@formula(fast=True)
def centred_part(grid: Any, features: Any, x: Any, matrix: Any, units: Any, factors: Any) -> float:
    """What the centres of dense features take from the constant."""
    total = 0.0
    for k in range(np.uint64(features.counts[DENSE])):
        j = features.dense[k]
        total += weigh(grid, features, x, matrix, units, factors, j) * features.record[j, CENTRE]
    return max(-LARGEST, min(LARGEST, total))


@formula(fast=True)
def weigh_all(grid: Any, features: Any, x: Any, matrix: Any, units: Any, factors: Any, out: Any) -> float:
    """All weights; what the centres take from the constant."""
    for j in range(len(out)):
        out[j] = weigh(grid, features, x, matrix, units, factors, j)
    return centred_part(grid, features, x, matrix, units, factors)


@formula(fast=True)
def predict_mixture(
    grid: Any, features: Any, x: Any, matrix: Any, units: Any, factors: Any, constant: float, rows: Any, out: Any
) -> None:
    """<s, x> for each row, at O(nonzeros + dense features)."""
    fixed = constant - centred_part(grid, features, x, matrix, units, factors)
    for i in range(len(out)):
        total = fixed
        for k in range(begin(rows, i), end(rows, i)):
            total += np.float64(rows.data[k]) * weigh(grid, features, x, matrix, units, factors, column(rows, i, k))
        out[i] = max(-LARGEST, min(LARGEST, total)) if total == total else 0.0
