"""The loop of a mixture: row by row, predict, account, learn; one walk over the row for each."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.kernels.lanes import load, store
from giftrl.mixtures import labels as unit
from giftrl.mixtures.ada_hedge import hedge, observe
from giftrl.mixtures.coin import bet, grow_coin, settle_bet
from giftrl.mixtures.experts import grow, lanes, measure, step
from giftrl.mixtures.extension import Extended
from giftrl.mixtures.features import NORM, enter, entries, look
from giftrl.mixtures.full_matrix import (
    admit,
    affords,
    grow_matrix,
    is_in,
    measure_matrix,
    spread_matrix,
    step_matrix,
)  # fmt: skip
from giftrl.mixtures.layout import THETA
from giftrl.mixtures.newton_stack import bend_stack, move_stack, spread_stack
from giftrl.ops.loss import land_all, prox, slope, value
from giftrl.ops.registry import formula
from giftrl.ops.scalar import clamp

__all__ = ["CANDIDATES", "EXPERTS", "Pieces", "State", "learn_mixture"]

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
#: The stack does not learn from predictions that are, squared, this many times beyond the spread of labels.
FARTHEST = 1e12

#: Experts have a column each: up to eight of the grid, the coin, the full matrix; the rest is empty, and there so that
#: loops have a length that a compiler sees. The candidates for the prediction: each combination, as it is and bold.
EXPERTS, CANDIDATES = 16, 4
COIN, MATRIX = 8, 9
# The rows of the room of the grid: predictions, c, drift of the constant, label, h c, the proximal scalars, and what
# land_all gives besides and works in; and those of the room of all experts.
P, C, MOVED, Y, STEP, A, LANDED, ROOM, GRID_ROWS = 0, 1, 2, 3, 4, 5, 6, 9, 13
# Of the room of candidates: predictions, weights, losses.
ALL, Z, AZ, LOSSES, WEIGHTS, ALL_ROWS = 0, 1, 2, 3, 4, 5

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
    grid: NDArray[np.float64]
    every: NDArray[np.float64]
    last: NDArray[np.float64]
    steps: NDArray[Any]
    factors: NDArray[Any]
    bets: NDArray[np.float64]
    au: NDArray[np.float64]


def make_room(width: int, lanes: int, places: int, dtype: Any) -> Room:
    """Room for rows of this many entries."""
    return Room(
        entries(width), np.zeros((GRID_ROWS, 8)), np.zeros((ALL_ROWS, EXPERTS)), np.zeros((3, CANDIDATES)),
        np.empty((width, lanes), dtype), np.zeros((4, 8), dtype), np.empty(width), np.empty(places),
    )  # fmt: skip


@formula
def read_row(grid: Any, pieces: Any, features: Any, x: Any, matrix: Any, rows: Any, i: int, row: Any) -> Any:
    """Take in the features of row i, and let the experts follow scales that have grown; the number of entries."""
    norm = features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0
    count = enter(features, rows, i, pieces.constant, pieces.centre, pieces.scale, row)
    for k in range(count):
        if row.growth[k] < 1.0:
            grow(grid, x, row.j[k], row.growth[k], norm)
            grow_coin(x, row.j[k], row.growth[k])
            if is_in(matrix):
                grow_matrix(matrix, x, row.j[k], row.growth[k])
    return count


@formula
def predict_row(
    grid: Any, x: Any, matrix: Any, count: int, norm: float, spread: float, offsets: Any, o: float, room: Any
) -> None:
    """The prediction of every expert, and what the experts of the grid need to learn."""
    row, w, p = room.row, room.grid, room.every[ALL]
    q, c, moved = measure(grid, x, row, count, norm, room.steps, room.factors)
    store(w, P, 0, q)
    store(w, C, 0, c)
    store(w, MOVED, 0, moved)
    for r in range(lanes(grid)):
        offsets[r] = clamp(offsets[r] + w[MOVED, r], -HOPELESS, HOPELESS)
        w[P, r] += offsets[r] + o
        p[r] = w[P, r]
    total, drift = 0.0, 0.0
    for k in range(count):
        b = bet(x, row.j[k], spread / norm)
        room.bets[k] = b
        total += row.u[k] * b
        drift += row.drift[k] * b
    offsets[COIN] = clamp(offsets[COIN] + drift, -HOPELESS, HOPELESS)
    p[COIN] = total + offsets[COIN] + o
    if is_in(matrix):
        total, drift = measure_matrix(matrix, x, row, count)
        offsets[MATRIX] = clamp(offsets[MATRIX] + drift, -HOPELESS, HOPELESS)
        p[MATRIX] = total + offsets[MATRIX] + o
    for r in range(EXPERTS):  # a prediction out of all bounds is as good as none, and must not spoil the sums
        p[r] = p[r] if abs(p[r]) < HOPELESS else o


@formula
def combine(pieces: Any, state: Any, experts: int, choices: int, room: Any) -> tuple[float, float]:
    """The combined prediction, and that of the stack."""
    origin, every, last = state.units[unit.ORIGIN], room.every, room.last
    hedge(state.totals, experts, state.sums[GAP], every[WEIGHTS])
    f1, f2 = 0.0, 0.0
    for r in range(EXPERTS):
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


@formula
def account(loss: Any, sums: Any, record: Any, row: Any, count: int, p: float, y: float, h: float) -> None:
    """Add a round to the certificate: its loss, phi* at the slope g there, and theta -= h g s in the original features.

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
    for k in range(count):
        if row.v[k] != 0.0:
            j = row.j[k]
            theta = record[j, THETA] - h * g * row.v[k]
            if abs(theta) <= CERTIFIABLE:
                record[j, THETA] = theta
            else:
                sums[CONJUGATE] = math.inf


@formula
def judge_all(loss: Any, low: float, high: float, y: float, h: float, p: Any, losses: Any) -> None:
    """The losses by which predictions are compared."""
    if high == math.inf:
        low, high = -FAR, FAR
    for r in range(len(losses)):
        losses[r] = min(h * value(loss, clamp(p[r], low, high), y), MOST)


@formula
def compare(loss: Any, state: Any, experts: int, choices: int, y: float, h: float, room: Any) -> None:
    """Let both AdaHedges see what predictions have cost."""
    low, high = state.units[unit.LOW], state.units[unit.HIGH]
    every, last, sums = room.every, room.last, state.sums
    judge_all(loss, low, high, y, h, every[ALL], every[LOSSES])
    sums[GAP] = observe(state.totals, experts, sums[GAP], every[WEIGHTS], every[LOSSES])
    judge_all(loss, low, high, y, h, last[ALL], last[2])
    sums[LAST_GAP] = observe(state.candidates, choices, sums[LAST_GAP], last[1], last[2])


@formula
def teach_stack(extended: Any, margin: bool, state: Any, f: float, y: float, h: float, bend: float, room: Any) -> None:
    """A round of the Newton stack."""
    tau, spread = unit.temperature(state.units, margin), unit.unit_spread(state.units)
    z, az = room.every[Z], room.every[AZ]
    c = spread_stack(state.inverse, z, az)
    if c <= FARTHEST * spread * spread:
        move_stack(state.stack, az, h * prox(extended, f, y, h * c / tau) / tau)
        bend_stack(state.inverse, az, c, bend / tau)


@formula
def teach_experts(
    extended: Any, grid: Any, x: Any, matrix: Any, state: Any, count: int, norm: float,
    p: float, y: float, h: float, bend: float, room: Any,
) -> None:  # fmt: skip
    """A round of every expert; p is the combined prediction, whose slope and curvature they remember."""
    units, row, w = state.units, room.row, room.grid
    kappa, spread, steep = unit.kappa(units), unit.unit_spread(units), unit.unit_slope(units)
    for r in range(lanes(grid)):
        w[Y, r], w[STEP, r] = y, h * w[C, r] / kappa
    land_all(extended, w[P], w[Y], w[STEP], w[A], w[LANDED], w[LANDED + 1], w[LANDED + 2], w[ROOM:])
    for r in range(lanes(grid)):
        w[A, r] *= h / kappa
    relative = h * slope(extended, p, y) / steep
    step(grid, x, row, count, load(grid, w, A, 0), room.steps, bend / kappa, relative)
    stake = clamp(h * slope(extended, room.every[ALL, COIN], y) / steep, -1.0, 1.0)
    for k in range(count):
        z = stake * row.u[k]
        settle_bet(x, row.j[k], z, -z * room.bets[k] * (norm / spread))
    if is_in(matrix) and affords(matrix, count):
        admit(matrix, x, row, count, norm)
        if is_in(matrix):
            c = spread_matrix(matrix, x, row, count, room.au)
            a = h * prox(extended, room.every[ALL, MATRIX], y, h * c / kappa) / kappa
            step_matrix(matrix, room.au, c, a, bend / kappa)
        else:
            leave(state)


@formula
def leave(state: Any) -> None:
    """Take the full matrix out of the mixture."""
    state.totals[MATRIX] = math.inf
    state.stack[MATRIX] = 0.0
    for r in range(EXPERTS):
        state.inverse[MATRIX, r], state.inverse[r, MATRIX] = 0.0, 0.0


@formula
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
        if i + 1 < len(labels):
            look(features.record, rows, i + 1)
        experts = lanes(grid) + (2 if is_in(matrix) else 1)
        count = read_row(grid, pieces, features, x, matrix, rows, i, room.row)
        norm = features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0
        spread, o = unit.unit_spread(units), units[unit.OFFSET]
        predict_row(grid, x, matrix, count, norm, spread, state.offsets, o, room)
        p, f = combine(pieces, state, experts, choices, room)
        p = unit.within(units, p)
        predictions[i] = p
        account(loss, state.sums, features.record, room.row, count, p, labels[i], h)
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
        if pieces.stack and begun:
            teach_stack(extended, pieces.margin, state, f, y, h, bend, room)
        if unit.ready(units):
            teach_experts(extended, grid, x, matrix, state, count, norm, p, y, h, bend, room)
        unit.witness(loss, units, y, h, pieces.margin, pieces.centre_labels)
    return len(labels)
