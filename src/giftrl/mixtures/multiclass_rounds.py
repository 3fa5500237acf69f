"""The loop of a mixture for K scores: that of :mod:`giftrl.mixtures.rounds`, with vectors where it has numbers.

Features and both AdaHedges are those of the mixture for one prediction, and units are 1. What differs:

- The stack has one weight v_r for all classes: f = Z'v, Z the experts' scores, a row for each, z_m its columns. With A
  the inverse of its curvature, v -= A Z a moves f by Z'AZ a. The proximal step is taken at the length c = trace(Z'AZ),
  which is not below any eigenvalue, so that a heavy row does not throw it over. Its curvature is
  sum_m w_m (z_m - z)(z_m - z)', z the weighted mean, w half of the curvatures of the classes: to shift all scores alike
  changes nothing. For the softmax loss that serves as well as its Hessian, and every loss has it.
- A loss with kinks has no curvature; the mean absolute slope of each class takes its place.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.mixtures.ada_hedge import hedge, observe
from giftrl.mixtures.experts import LARGEST, lanes
from giftrl.mixtures.features import NORM, enter, entries
from giftrl.mixtures.full_matrix import affords, is_in
from giftrl.mixtures.layout import THETA
from giftrl.mixtures.multiclass_experts import (
    SHARPEST,
    admit,
    follow,
    measure,
    measure_others,
    settle,
    spread,
    step,
    step_matrix,
)
from giftrl.mixtures.newton_stack import bend_stack, move_stack, spread_stack
from giftrl.mixtures.rounds import (
    CANDIDATES,
    CERTIFIABLE,
    CONJUGATE,
    FAR,
    FARTHEST,
    GAP,
    HEAVIEST,
    HOPELESS,
    LAST_GAP,
    LIGHTEST,
    LOSS,
    ROUNDS,
    WEIGHT,
)
from giftrl.ops.scalar import clamp
from giftrl.ops.vector_loss import conjugate, curvature, curvatures, prox, slope, value

__all__ = ["CANDIDATES", "ClassPieces", "ClassState", "learn_classes", "make_room"]


class ClassPieces(NamedTuple):
    """What does not change: the constant feature (-1: none), and what the loss is like."""

    constant: int
    centre: bool
    kinked: bool
    reach: float  # a score this far below the best is as good as any lower one
    bold: float


class ClassState(NamedTuple):
    """What a mixture remembers besides its features."""

    offsets: NDArray[np.float64]  # of each expert and class: what centring has added to its constant
    totals: NDArray[np.float64]  # the loss of each expert
    candidates: NDArray[np.float64]  # the loss of each candidate
    stack: NDArray[np.float64]
    inverse: NDArray[np.float64]
    slopes: NDArray[np.float64]  # the mean absolute slope of each class, at the combined scores
    sums: NDArray[np.float64]


class Room(NamedTuple):
    """Where a round works.

    Scores, slopes, lengths and losses have a row for each expert (the grid, the coin, the full matrix), then one for
    each candidate, and one for what they come to.
    """

    row: Any
    scores: NDArray[np.float64]
    a: NDArray[np.float64]
    lengths: NDArray[np.float64]
    losses: NDArray[np.float64]
    weights: NDArray[np.float64]  # those of AdaHedge, of experts
    last: NDArray[np.float64]  # and of candidates
    flat: NDArray[np.float64]  # of the grid: scores and drift of the constants
    drift: NDArray[np.float64]
    classes: NDArray[np.float64]  # clipped scores, curvatures, and lengths in the full matrix
    mixed: NDArray[np.float64]  # vectors of the stack
    bets: NDArray[np.float64]
    au: NDArray[np.float64]
    steps: NDArray[Any]
    factors: NDArray[Any]
    turned: NDArray[Any]


#: The rows of ``Room.classes`` and of ``Room.mixed``.
CLIPPED, BENDS, SPREADS = range(3)
Z, AZ, CENTRE = range(3)


def make_room(width: int, lanes: int, classes: int, places: int, dtype: Any) -> Room:
    """Room for rows of this many entries."""
    experts = lanes + 2
    lines = experts + CANDIDATES + 1
    return Room(
        entries(width), np.zeros((lines, classes)), np.zeros((lines, classes)), np.zeros(lines), np.zeros(lines),
        np.zeros(experts), np.zeros(CANDIDATES), np.zeros((2, classes * lanes)), np.zeros((2, classes)),
        np.zeros((3, classes)), np.zeros((3, experts)), np.zeros((width, classes)), np.zeros((classes, places)),
        np.zeros((width, lanes), dtype), np.zeros((3, lanes), dtype), np.zeros(classes * lanes, dtype),
    )  # fmt: skip


@formula(fast=True)
def predict_row(grid: Any, places: Any, x: Any, matrix: Any, count: Any, norm: float, offsets: Any, room: Any) -> None:
    """The scores of every expert, and what the experts of the grid need to learn."""
    n, scores, flat, drift = lanes(grid), room.scores, room.flat, room.drift
    measure(grid, places, x, room.row, count, norm, flat[0], flat[1], room.lengths, room.steps, room.factors)
    measure_others(places, x, matrix, room.row, count, norm, scores[n:], drift, room.bets)
    for m in range(scores.shape[1]):
        for r in range(n):
            offsets[r, m] += flat[1, m * n + r]
            scores[r, m] = flat[0, m * n + r] + offsets[r, m]
        for r in range(n, n + 2):
            offsets[r, m] += drift[r - n, m]
            scores[r, m] += offsets[r, m]
        for r in range(n + 2):  # a score out of all bounds is as good as none, and must not spoil the sums
            scores[r, m] = scores[r, m] if abs(scores[r, m]) < HOPELESS else 0.0


@formula(fast=True)
def add_up(scores: Any, weights: Any, factor: float, out: Any) -> None:
    """Scores by their weights, times a factor."""
    for m in range(len(out)):
        out[m] = 0.0
    for r in range(len(weights)):
        if weights[r] != 0.0:
            for m in range(len(out)):
                out[m] += factor * weights[r] * scores[r, m]


@formula(fast=True)
def clip(p: Any, reach: float, out: Any) -> None:
    """The scores as they count: none further below the best than ``reach``."""
    best = -math.inf
    for m in range(len(p)):
        best = max(best, p[m])
    for m in range(len(p)):
        out[m] = max(p[m], best - reach)


@formula(fast=True)
def combine(pieces: Any, state: Any, experts: int, room: Any, out: Any) -> None:
    """The candidates, and what they come to."""
    scores, first = room.scores, len(room.weights)
    hedge(state.totals, experts, state.sums[GAP], room.weights)
    hedge(state.candidates, CANDIDATES, state.sums[LAST_GAP], room.last)
    for k in range(CANDIDATES):
        weights = room.weights if k % 2 == 0 else state.stack
        add_up(scores, weights, pieces.bold if k >= 2 else 1.0, scores[first + k])
    add_up(scores[first:], room.last, 1.0, room.classes[CLIPPED])
    clip(room.classes[CLIPPED], pieces.reach, out)
    for m in range(len(out)):
        scores[first + CANDIDATES, m] = out[m]


@formula(fast=True)
def account(loss: Any, sums: Any, record: Any, count: Any, y: int, h: float, room: Any) -> None:
    """Add a round to the certificate: its loss, phi* at the slopes g there, and theta -= h g s, s as it came.

    Where one of them is beyond float64 nothing is certified, which an infinite phi* says.
    """
    g, row = room.a[len(room.a) - 1], room.row
    sums[LOSS] += h * room.losses[len(room.losses) - 1]
    total = sums[CONJUGATE] + h * conjugate(loss, g, y)
    sums[CONJUGATE] = total if abs(total) < math.inf else math.inf
    sums[ROUNDS] += 1.0
    sums[WEIGHT] += h
    for k in range(count):
        v = h * row.v[k]
        if v != 0.0:
            own, good = record[row.j[k]][THETA : THETA + len(g)], True
            for m in range(len(g)):
                good &= abs(own[m] - g[m] * v) <= CERTIFIABLE
            if good:
                for m in range(len(g)):
                    own[m] -= g[m] * v
            else:
                sums[CONJUGATE] = math.inf


@formula(fast=True)
def find_bends(loss: Any, pieces: Any, slopes: Any, part: float, y: int, room: Any) -> tuple[float, float]:
    """The curvatures of the classes into the room; a bound of all of them, and norm2 of the slopes."""
    p, g, bends = room.scores[len(room.a) - 1], room.a[len(room.a) - 1], room.classes[BENDS]
    squares, bend = 0.0, 0.0
    for m in range(len(g)):
        steep = min(abs(g[m]), LARGEST)
        squares += steep * steep
        slopes[m] += part * (steep - slopes[m])
        bends[m] = slopes[m]
        bend += 0.5 * slopes[m]
    if not pieces.kinked:
        curvatures(loss, p, y, bends)
        bend = curvature(loss, p, y)
    return bend, math.sqrt(squares)


@formula(fast=True)
def column_of(inverse: Any, scores: Any, m: int, centre: Any, z: Any) -> None:
    """The scores of one class, less a centre; 0 for experts that are not there."""
    for r in range(len(z)):
        z[r] = scores[r, m] - centre[r] if inverse[r, r] > 0.0 else 0.0


@formula(fast=True)
def move_along(v: Any, inverse: Any, scores: Any, a: Any, mixed: Any) -> None:
    """v -= A Z a."""
    z = mixed[Z]
    for r in range(len(z)):
        z[r] = 0.0
        if inverse[r, r] > 0.0:
            for m in range(len(a)):
                z[r] += scores[r, m] * a[m]
    spread_stack(inverse, z, mixed[AZ])
    move_stack(v, mixed[AZ], 1.0)


@formula(fast=True)
def bend_all(inverse: Any, scores: Any, bends: Any, h: float, mixed: Any) -> None:
    """Add the curvature of a round to that of the stack."""
    z, centre, mass = mixed[Z], mixed[CENTRE], 0.0
    for m in range(len(bends)):
        mass += bends[m]
    for r in range(len(z)):
        total = 0.0
        for m in range(len(bends)):
            total += bends[m] * scores[r, m]
        centre[r] = total / mass if mass > 0.0 else 0.0
    for m in range(len(bends)):
        column_of(inverse, scores, m, centre, z)
        c = spread_stack(inverse, z, mixed[AZ])
        if 0.0 < c <= FARTHEST:
            bend_stack(inverse, mixed[AZ], c, min(0.5 * h * bends[m], SHARPEST / c))


@formula(fast=True)
def leave(state: Any, full: int) -> None:
    """Take the full matrix out of the mixture."""
    state.totals[full] = math.inf
    state.stack[full] = 0.0
    for r in range(len(state.stack)):
        state.inverse[full, r], state.inverse[r, full] = 0.0, 0.0


@formula(fast=True)
def choose_all(
    loss: Any, places: Any, x: Any, matrix: Any, state: Any, count: Any, norm: float, y: int, h: float, room: Any
) -> bool:
    """The proximal slopes of all that learn, times h, in place of the slopes; whether the full matrix learns.

    In one loop, whatever their lengths come from; a step of length 0, the coin's, is the slope itself.
    """
    full, scores, a, lengths = len(room.weights) - 1, room.scores, room.a, room.lengths
    stacked = full + 2
    lengths[full - 1], lengths[full], lengths[stacked] = 0.0, 0.0, 0.0
    learns = is_in(matrix) and affords(matrix, count)
    if learns:
        admit(places, x, matrix, room.row, count, norm)
        learns = is_in(matrix)
        if learns:
            lengths[full] = spread(places, x, matrix, room.row, count, a[full], room.au, room.classes[SPREADS])
        else:
            leave(state, full)
    for r in range(full + 1):
        room.mixed[CENTRE, r] = 0.0
    for m in range(scores.shape[1]):
        column_of(state.inverse, scores, m, room.mixed[CENTRE], room.mixed[Z])
        lengths[stacked] += spread_stack(state.inverse, room.mixed[Z], room.mixed[AZ])
    for r in range(stacked + 1):
        if r <= full or r == stacked:
            prox(loss, scores[r], y, min(h * lengths[r], 1e300), a[r])
            for m in range(scores.shape[1]):
                a[r, m] = clamp(h * a[r, m], -LARGEST, LARGEST)
    return learns


@formula(fast=True)
def learn_classes(
    loss: Any, grid: Any, places: Any, pieces: Any, features: Any, x: Any, matrix: Any, state: Any,
    rows: Any, labels: Any, weights: Any, predictions: Any, room: Any,
) -> int:  # fmt: skip
    """One pass over a batch of rows with weight; x is another view of ``features.record``."""
    n, row, scores, a, losses = lanes(grid), room.row, room.scores, room.a, room.losses
    full, stacked, final = n + 1, n + 3, n + 2 + CANDIDATES
    for i in range(len(labels)):
        h, y = weights[i] if len(weights) > 0 else 1.0, labels[i]
        experts = n + (2 if is_in(matrix) else 1)
        norm = features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0
        count = enter(features, rows, i, pieces.constant, pieces.centre, True, row)
        for place in range(row.many[0]):
            k = row.moved[place]
            if row.growth[k] < 1.0:
                follow(grid, places, x, matrix, np.uint64(scores.shape[1]), row.j[k], row.growth[k], norm)
        norm = features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0
        predict_row(grid, places, x, matrix, count, norm, state.offsets, room)
        combine(pieces, state, experts, room, predictions[i])

        for r in range(final + 1):
            clip(scores[r], pieces.reach, room.classes[CLIPPED])
            losses[r] = value(loss, room.classes[CLIPPED], y)
            if r in (full, final):
                slope(loss, scores[r], y, a[r])
        account(loss, state.sums, features.record, count, y, h, room)
        h = clamp(h, LIGHTEST, HEAVIEST)
        for r in range(final):
            losses[r] = h * min(losses[r], FAR)
        state.sums[GAP] = observe(state.totals, experts, state.sums[GAP], room.weights, losses[: n + 2])
        state.sums[LAST_GAP] = observe(
            state.candidates, CANDIDATES, state.sums[LAST_GAP], room.last, losses[n + 2 : final]
        )
        bend, steep = find_bends(loss, pieces, state.slopes, min(1.0, h / state.sums[WEIGHT]), y, room)

        learns = choose_all(loss, places, x, matrix, state, count, norm, y, h, room)
        if room.lengths[stacked] <= FARTHEST:
            move_along(state.stack, state.inverse, scores, a[stacked], room.mixed)
            bend_all(state.inverse, scores, room.classes[BENDS], h, room.mixed)
        if learns:
            step_matrix(matrix, room.au, room.classes[SPREADS], a[full], room.classes[BENDS], h)
        for m in range(scores.shape[1]):
            a[n, m] = clamp(a[n, m], -1.0, 1.0)
            for r in range(n):
                room.turned[m * n + r] = a[r, m]
        step(grid, places, x, row, count, room.turned, room.steps, min(h * bend, LARGEST), min(h * steep, LARGEST))
        for k in range(count):
            settle(x, row.j[k], places, a[n], row.u[k], room.bets[k], norm)
    return len(labels)
