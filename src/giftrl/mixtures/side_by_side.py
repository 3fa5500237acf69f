"""What a round of one score does with all predictions at once: combine them, meet the label, account for the losses.

The predictions of the experts, those of the candidates and the combined one are columns of one array
(:mod:`giftrl.mixtures.columns`), so that each function of a loss is computed once, in wide registers, for all of them.
"""

import math
from typing import Any

from giftrl.compiled.lanes import (
    absolute,
    diagonal,
    get,
    load,
    maximum,
    minimum,
    put,
    read,
    store,
    total,
    where_less,
    write,
    zeros,
)
from giftrl.compiled.registry import formula
from giftrl.kernels.lane_counts import FOUR
from giftrl.mixtures import labels as unit
from giftrl.mixtures.columns import ALL, CANDIDATE, CLIPPED, COMBINED, LOSSES, SLOPES, Z
from giftrl.mixtures.combination import compare, weigh_experts
from giftrl.mixtures.experts import lanes
from giftrl.mixtures.limits import FAR_PREDICTION, LARGEST_LOSS
from giftrl.ops.loss import meet_all


@formula(fast=True)
def combine(parts: Any, log_experts: float, log_choices: float) -> tuple[float, Any]:
    """Put the candidates and the combined prediction beside the experts; return that one before it is clipped.

    The second result is what both AdaHedges say.
    """
    state, buffers, units, first = parts.state, parts.buffers, parts.state.units, lanes(parts.grid)
    side, every, origin, bold = buffers.experts, buffers.every, units[unit.ORIGIN], parts.pieces.bold
    by, p = weigh_experts(side, state, log_experts, log_choices), read(side, every[ALL])
    z = where_less(0.0, diagonal(side, state.inverse), p - origin, 0.0)
    hedged, stacked = total(by.experts * z), total(read(side, state.stack) * z)
    plain = put(put(zeros(FOUR), 0, hedged), 1, stacked)
    candidates = put(put(plain, 2, bold * hedged), 3, bold * stacked) + origin
    linear = total(by.candidates * candidates)
    write(every[Z], z)
    write(every[ALL], put(p, first + COMBINED, unit.within(units, linear)))
    store(every, ALL, first + CANDIDATE, candidates)
    return linear, by


@formula(fast=True)
def meet(loss: Any, parts: Any, y: float) -> None:
    """Put the losses by which predictions are compared beside them, and the slopes where these losses are."""
    units, side, every = parts.state.units, parts.buffers.side, parts.buffers.every
    low, high = units[unit.LOW], units[unit.HIGH]
    if high == math.inf:
        low, high = -FAR_PREDICTION, FAR_PREDICTION
    write(every[CLIPPED], minimum(maximum(read(side, every[ALL]), low), high))
    meet_all(loss, side, every[CLIPPED], y, every[LOSSES], every[SLOPES])


@formula(fast=True)
def find_slopes(extended: Any, parts: Any, y: float, met: bool) -> None:
    """Put the slopes of the extended loss beside the predictions, unless those that were met are the same."""
    side, every = parts.buffers.side, parts.buffers.every
    nearest = minimum(maximum(read(side, every[ALL]), extended.low), extended.high)
    if not met or total(absolute(nearest - read(side, every[CLIPPED]))) > 0.0:
        write(every[CLIPPED], nearest)
        meet_all(extended.loss, side, every[CLIPPED], y, every[LOSSES], every[SLOPES])


@formula(fast=True)
def account(parts: Any, by: Any, h: float) -> None:
    """Let both AdaHedges see the losses of a row."""
    experts, every, first = parts.buffers.experts, parts.buffers.every, lanes(parts.grid) + CANDIDATE
    losses = minimum(load(experts, every, LOSSES, 0) * h, LARGEST_LOSS)
    compare(experts, parts.state, by, losses, minimum(load(FOUR, every, LOSSES, first) * h, LARGEST_LOSS))


@formula(fast=True)
def timid(parts: Any, by: Any) -> float:
    """The combined prediction as it would be if nothing were bold, before it is clipped."""
    origin, every, first = parts.state.units[unit.ORIGIN], parts.buffers.every, lanes(parts.grid) + CANDIDATE
    hedged, stacked = every[ALL, first] - origin, every[ALL, first + 1] - origin
    shares = get(by.candidates, 0) + get(by.candidates, 2), get(by.candidates, 1) + get(by.candidates, 3)
    return float(origin + shares[0] * hedged + shares[1] * stacked)
