"""The loop of a mixture: row by row, predict, account, learn; one walk over the row for each."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import between, load, narrow, nothing, store, wide
from giftrl.compiled.registry import formula
from giftrl.mixtures import labels as unit
from giftrl.mixtures.ada_hedge import hedge, observe
from giftrl.mixtures.coin import bet, grow_coin, settle_bet
from giftrl.mixtures.experts import (
    LARGEST,
    bets,
    coin,
    columns,
    drift,
    factors,
    full,
    grow,
    lanes,
    measure,
    step,
)  # fmt: skip
from giftrl.mixtures.extension import Extended
from giftrl.mixtures.features import NORM, enter, entries
from giftrl.mixtures.full_matrix import (
    admit,
    affords,
    grow_matrix,
    is_in,
    measure_matrix,
    spread_matrix,
    step_matrix,
)  # fmt: skip
from giftrl.mixtures.layout import LANES, THETA
from giftrl.mixtures.newton_stack import bend_stack, move_stack, spread_stack
from giftrl.ops.loss import prox_all, slope, value
from giftrl.ops.scalar import clamp

__all__ = ["CANDIDATES", "Pieces", "State", "learn_mixture"]

#: The most that a loss counts for where experts are compared, so that sums of losses stay in float64.
MOST = 1e290
#: How far a prediction without a range counts there: exp(-30) is as good as 0.
FAR = 30.0
#: Predictions beyond this are not made.
HOPELESS = 1e120
#: Weights of rows are clipped here for learning; the loss counts them as they are.
LIGHTEST, HEAVIEST = 1e-30, 1e15
#: theta is clipped here, and nothing is certified from then on.
CERTIFIABLE = 1e150
#: Slopes in units of S are clipped here: their squares are sums of float32.
STEEPEST = 1e15
#: The stack does not learn from predictions that are, squared, this many times beyond the spread of labels.
FARTHEST = 1e12

#: The candidates for the prediction: each combination, as it is and bold.
CANDIDATES = 4
# The rows of the room of experts: predictions, those less the origin, A z of the stack, losses, weights; where to learn
# from and how far, c, the proximal scalars and what these are computed in. There the coin, which has no proximal step,
# lends its column to the stack.
ALL, Z, AZ, LOSSES, WEIGHTS, P, C, A, ROOM, ROWS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 12

#: The entries of ``State.sums``: loss, phi*, the gaps of the two AdaHedges, rows, their weight, and the loss of rows at
#: which experts were not compared, since nothing was known of labels.
LOSS, CONJUGATE, GAP, LAST_GAP, ROUNDS, WEIGHT, ALIKE = range(7)


class Pieces(NamedTuple):
    """Which parts are on, and which feature is the constant (-1: none)."""

    constant: int
    margin: bool  # labels are -1 and +1
    bold: float  # how much bolder the bold candidates are; 1 for none
    centre: bool
    scale: bool
    centre_labels: bool
    extend: bool
    stack: bool


class State(NamedTuple):
    """What a mixture remembers besides its features."""

    units: NDArray[np.float64]
    offsets: NDArray[np.float64]  # of each expert: what centring has added to its constant
    totals: NDArray[np.float64]  # the loss of each expert
    candidates: NDArray[np.float64]  # the loss of each candidate
    stack: NDArray[np.float64]
    inverse: NDArray[np.float64]
    sums: NDArray[np.float64]


class Room(NamedTuple):
    """Where a round works."""

    row: Any
    every: NDArray[np.float64]
    last: NDArray[np.float64]  # of the candidates: predictions, weights, losses
    steps: NDArray[Any]
    factors: NDArray[Any]
    bets: NDArray[np.float64]
    au: NDArray[np.float64]


def make_room(grid: Any, width: int, places: int, dtype: Any) -> Room:
    """Room for rows of this many entries."""
    n = lanes(grid)
    return Room(
        entries(width), np.zeros((ROWS, columns(grid))), np.zeros((3, CANDIDATES)), np.empty((width, n), dtype),
        np.zeros((3, n), dtype), np.empty(width), np.empty(places),
    )  # fmt: skip


@formula(fast=True)
def read_row(grid: Any, pieces: Any, features: Any, x: Any, matrix: Any, rows: Any, i: int, room: Any) -> Any:
    """Take in the features of row i, and let the experts follow scales that have grown; the number of entries."""
    row = room.row
    norm = features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0
    count = enter(features, rows, i, pieces.constant, pieces.centre, pieces.scale, row)
    prior, curve, root = factors(grid, norm, room.factors)
    for place in range(row.many[0]):
        k = row.moved[place]
        if row.growth[k] < 1.0:
            grow(grid, x, row.j[k], row.growth[k], prior, curve, root)
            if bets(grid):
                grow_coin(x, row.j[k], row.growth[k])
            if is_in(matrix):
                grow_matrix(matrix, x, row.j[k], row.growth[k])
    return count


@formula(fast=True)
def predict_row(
    grid: Any, x: Any, matrix: Any, count: int, norm: float, stake: float, offsets: Any, o: float, room: Any
) -> None:
    """The prediction of every expert, and kappa c of those of the grid."""
    row, every = room.row, room.every
    for r in range(columns(grid)):
        every[ALL, r], every[Z, r] = 0.0, 0.0
    prior, curve, root = factors(grid, norm, room.factors)
    p, c, total = nothing(grid), nothing(grid), 0.0
    for k in range(count):
        j, u = row.j[k], row.u[k]
        along = measure(x, j, u, prior, curve, root)
        store(room.steps, k, 0, along)
        c = c + wide(along) * u
        p = p + wide(load(grid, x, j, LANES)) * u
        if bets(grid):
            room.bets[k] = bet(x, j, stake)
            total += u * room.bets[k]
    store(every, C, 0, c)
    store(every, ALL, 0, p)
    store(every, Z, 0, drift(grid, x, row))
    if bets(grid):
        every[ALL, coin(grid)] = total
        for place in range(row.many[0]):
            every[Z, coin(grid)] += row.drift[row.moved[place]] * room.bets[row.moved[place]]
    if is_in(matrix):
        every[ALL, full(grid)], every[Z, full(grid)] = measure_matrix(matrix, x, row, count)
    for r in range(columns(grid)):
        offsets[r] = clamp(offsets[r] + every[Z, r], -HOPELESS, HOPELESS)
        guess = every[ALL, r] + offsets[r] + o
        # A prediction out of all bounds is as good as none, and must not spoil the sums.
        every[ALL, r] = guess if abs(guess) < HOPELESS else o


@formula(fast=True)
def combine(grid: Any, pieces: Any, state: Any, experts: int, choices: int, room: Any) -> tuple[float, float]:
    """The combined prediction, and that of the stack."""
    origin, every, last = state.units[unit.ORIGIN], room.every, room.last
    hedge(state.totals, experts, state.sums[GAP], every[WEIGHTS])
    f1, f2 = 0.0, 0.0
    for r in range(columns(grid)):
        z = every[ALL, r] - origin if state.inverse[r, r] > 0.0 else 0.0
        every[Z, r] = z
        f1 += every[WEIGHTS, r] * z
        f2 += state.stack[r] * z
    last[ALL, 0], last[ALL, 1] = origin + f1, origin + f2
    last[ALL, 2], last[ALL, 3] = origin + pieces.bold * f1, origin + pieces.bold * f2
    hedge(state.candidates, choices, state.sums[LAST_GAP], last[1])
    p = 0.0
    for r in range(CANDIDATES):
        p += last[1, r] * last[ALL, r]
    return p, origin + f2


@formula(fast=True)
def account(loss: Any, sums: Any, p: float, y: float, h: float) -> float:
    """Add a round to the certificate: its loss, and phi* at the slope g there; h g, by which theta is to move.

    Where one of them is beyond float64 nothing is certified, which an infinite phi* says.
    """
    phi, g = value(loss, p, y), slope(loss, p, y)
    paid = sums[LOSS] + h * phi
    sums[LOSS] = paid if abs(paid) < math.inf else math.inf
    conjugate = h * (g * p - phi)
    promised = sums[CONJUGATE] + conjugate
    sums[CONJUGATE] = promised if abs(promised) < math.inf else math.inf
    sums[ROUNDS] += 1.0
    sums[WEIGHT] += h
    return h * g


@formula(fast=True)
def move_theta(record: Any, j: int, z: float) -> int:
    """theta_j -= z, in the original features; where that is out of bounds it stays, and 1 says so."""
    theta = record[j, THETA] - z
    fits = abs(theta) <= CERTIFIABLE
    record[j, THETA] = theta if fits else record[j, THETA]
    return 0 if fits else 1


@formula(fast=True)
def judge_all(loss: Any, low: float, high: float, y: float, h: float, p: Any, losses: Any) -> None:
    """The losses by which predictions are compared."""
    if high == math.inf:
        low, high = -FAR, FAR
    for r in range(len(losses)):
        losses[r] = min(h * value(loss, clamp(p[r], low, high), y), MOST)


@formula(fast=True)
def compare(loss: Any, state: Any, experts: int, choices: int, y: float, h: float, room: Any) -> None:
    """Let both AdaHedges see what predictions have cost."""
    low, high = state.units[unit.LOW], state.units[unit.HIGH]
    every, last, sums = room.every, room.last, state.sums
    judge_all(loss, low, high, y, h, every[ALL], every[LOSSES])
    sums[GAP] = observe(state.totals, experts, sums[GAP], every[WEIGHTS], every[LOSSES])
    judge_all(loss, low, high, y, h, last[ALL], last[2])
    sums[LAST_GAP] = observe(state.candidates, choices, sums[LAST_GAP], last[1], last[2])


@formula(fast=True)
def aim_stack(grid: Any, state: Any, f: float, tau: float, h: float, room: Any) -> float:
    """c of the stack, which goes with f where it learns; -1 where it does not."""
    every, spread = room.every, unit.unit_spread(state.units)
    c = spread_stack(state.inverse, every[Z], every[AZ])
    if not c <= FARTHEST * spread * spread:
        return -1.0
    every[P, coin(grid)], every[C, coin(grid)] = f, h * c / tau
    return c


@formula(fast=True)
def aim_matrix(
    grid: Any, matrix: Any, x: Any, state: Any, count: int, norm: float, kappa: float, h: float, room: Any
) -> float:
    """c of the full matrix, which goes with its prediction where it learns; -1 where it does not."""
    every = room.every
    if not (is_in(matrix) and affords(matrix, count)):
        return -1.0
    admit(matrix, x, room.row, count, norm)
    if not is_in(matrix):
        leave(state, full(grid))
        return -1.0
    c = spread_matrix(matrix, x, room.row, count, room.au)
    every[P, full(grid)], every[C, full(grid)] = every[ALL, full(grid)], h * c / kappa
    return c


@formula(fast=True)
def teach_entries(
    extended: Any, grid: Any, record: Any, x: Any, units: Any, count: int, norm: float, p: float, slant: float,
    y: float, h: float, bend: float, room: Any,
) -> int:  # fmt: skip
    """A round of the experts that have a weight of their own for each feature, and of theta; p is the combined
    prediction, and slant the h g there. How many coordinates of theta are out of bounds.
    """
    row, every = room.row, room.every
    kappa, steep = unit.kappa(units), unit.unit_slope(units)
    a = narrow(x, between(load(grid, every, A, 0) * (h / kappa), LARGEST))
    relative = clamp(h * slope(extended, p, y) / steep, -STEEPEST, STEEPEST)
    stake = clamp(h * slope(extended, every[ALL, coin(grid)], y) / steep, -1.0, 1.0)
    curved, per_stake = min(bend / kappa, LARGEST), 1.0 / unit.per_norm(units, norm)
    far = 0
    for k in range(count):
        j, u = row.j[k], row.u[k]
        far += move_theta(record, j, slant * row.v[k])
        step(grid, x, j, u, a, load(grid, room.steps, k, 0), curved, relative)
        if bets(grid):
            settle_bet(x, j, stake * u, -stake * u * room.bets[k] * per_stake)
    return far


@formula(fast=True)
def teach(
    extended: Any, grid: Any, pieces: Any, record: Any, x: Any, matrix: Any, state: Any, begun: bool, count: int,
    norm: float, p: float, f: float, slant: float, y: float, h: float, bend: float, room: Any,
) -> None:  # fmt: skip
    """A round of every expert and of the stack: the proximal steps of all of them side by side."""
    units, every, row, far = state.units, room.every, room.row, 0
    kappa, tau, learns = unit.kappa(units), unit.temperature(units, pieces.margin), unit.ready(units)
    for r in range(lanes(grid)):
        every[P, r], every[C, r] = every[ALL, r], h * every[C, r] / kappa
    for r in (coin(grid), full(grid)):
        every[P, r], every[C, r] = 0.0, 0.0
    # An expert that leaves is gone before the stack learns.
    c_matrix = aim_matrix(grid, matrix, x, state, count, norm, kappa, h, room) if learns else -1.0
    c_stack = aim_stack(grid, state, f, tau, h, room) if pieces.stack and begun else -1.0
    prox_all(extended, every[P], y, every[C], every[A], every[ROOM:])
    if c_stack >= 0.0:
        move_stack(state.stack, every[AZ], h * every[A, coin(grid)] / tau)
        bend_stack(state.inverse, every[AZ], c_stack, bend / tau)
    if c_matrix >= 0.0:
        step_matrix(matrix, room.au, c_matrix, h * every[A, full(grid)] / kappa, bend / kappa)
    if learns:
        far = teach_entries(extended, grid, record, x, units, count, norm, p, slant, y, h, bend, room)
    else:
        for k in range(count):
            far += move_theta(record, row.j[k], slant * row.v[k])
    if far > 0:
        state.sums[CONJUGATE] = math.inf


@formula(fast=True)
def leave(state: Any, expert: int) -> None:
    """Take an expert out of the mixture."""
    state.totals[expert] = math.inf
    state.stack[expert] = 0.0
    for r in range(len(state.stack)):
        state.inverse[expert, r], state.inverse[r, expert] = 0.0, 0.0


@formula(fast=True)
def learn_mixture(
    loss: Any, grid: Any, pieces: Any, features: Any, x: Any, matrix: Any, state: Any,
    rows: Any, labels: Any, weights: Any, predictions: Any, room: Any,
) -> int:  # fmt: skip
    """One pass over a batch of rows with weight; x is another view of ``features.record``."""
    units = state.units
    choices = (2 if pieces.stack else 1) * (2 if pieces.bold > 1.0 else 1)
    for i in range(len(labels)):
        y = clamp(labels[i], -unit.LARGEST, unit.LARGEST)
        h = weights[i] if len(weights) > 0 else 1.0
        experts = lanes(grid) + (1 if bets(grid) else 0) + (1 if is_in(matrix) else 0)
        count = read_row(grid, pieces, features, x, matrix, rows, i, room)
        norm = features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0
        stake, o = unit.per_norm(units, norm), units[unit.OFFSET]
        predict_row(grid, x, matrix, count, norm, stake, state.offsets, o, room)
        p, f = combine(grid, pieces, state, experts, choices, room)
        p = unit.within(units, p)
        predictions[i] = p
        slant = account(loss, state.sums, p, labels[i], h)
        h = clamp(h, LIGHTEST, HEAVIEST)
        begun = units[unit.LOW] <= units[unit.HIGH]
        if begun:
            compare(loss, state, experts, choices, y, h, room)
            unit.judge(loss, units, p, y, h)
        else:
            state.sums[ALIKE] += h * value(loss, p, y)
        unit.widen(loss, units, y, pieces.margin)
        extended = Extended(loss, -math.inf, math.inf)
        if pieces.extend:
            extended = Extended(loss, units[unit.LOW], units[unit.HIGH])
        bend = h * unit.bend(loss, units, p, y, pieces.margin)
        teach(
            extended, grid, pieces, features.record, x, matrix, state, begun, count, norm, p, f, slant, y, h, bend, room
        )  # fmt: skip
        unit.witness(loss, units, y, h, pieces.margin, pieces.centre_labels)
    return len(labels)
