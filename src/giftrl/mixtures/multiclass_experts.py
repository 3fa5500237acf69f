"""What the experts of a mixture for K scores do with a row: follow scales that have grown, predict, and learn.

The experts are those of one score: the grid (:mod:`giftrl.mixtures.experts`), the coin, which bets for each class by
itself (:mod:`giftrl.mixtures.coin`), and the full matrix (:mod:`giftrl.mixtures.full_matrix`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.lanes import load, store, wide, zeros
from giftrl.compiled.registry import formula
from giftrl.mixtures.coin import bet_all, settle_bet
from giftrl.mixtures.experts import add_products, factors, lanes, measure, move, remember
from giftrl.mixtures.full_matrix import drift_matrix, is_in, measure_matrix, of_class
from giftrl.mixtures.later import move_again
from giftrl.mixtures.limits import LARGEST_EXPERT_WEIGHT, LARGEST_PREDICTION
from giftrl.ops.scalar import clamp


class ClassBuffers(NamedTuple):
    """Scratch memory for a round.

    Scores, slopes, lengths and losses have a row for each expert (the grid, the coin, the full matrix), then one for
    each candidate, and a last one for the combined scores.
    """

    row: Any
    side: Any  # with a lane for each expert
    scores: NDArray[np.float64]
    slopes: NDArray[np.float64]
    lengths: NDArray[np.float64]
    losses: NDArray[np.float64]
    weights: NDArray[np.float64]  # AdaHedge's, of the experts
    last: NDArray[np.float64]  # and of the candidates
    products: NDArray[np.float64]  # of the grid, a row for each class: scores, and the drift of the constants
    drift: NDArray[np.float64]
    others: NDArray[np.float64]  # the drift of the constants of the coin and of the full matrix
    classes: NDArray[np.float64]  # clipped scores, curvatures, and lengths in the full matrix
    stack: NDArray[np.float64]  # vectors of the stack: z, A z, and the centre of scores
    bets: NDArray[np.float64]
    places: NDArray[np.float64]  # the row and A_m u, over the places of the full matrix
    au: NDArray[np.float64]
    steps: NDArray[Any]
    factors: NDArray[Any]
    turned: NDArray[Any]  # the slopes of the grid, a row for each class


@formula(fast=True)
def predict_entries(parts: Any, count: Any, norm: float) -> None:
    """The scores of the grid and of the coin before their constants, the drift of these, and c of the grid."""
    grid, columns, x, row = parts.grid, parts.columns, parts.x, parts.buffers.row
    products, drift = parts.buffers.products, parts.buffers.drift
    others, bets, coin = parts.buffers.others, parts.buffers.bets, parts.buffers.scores[lanes(grid)]
    for m in range(len(coin)):
        coin[m], others[0, m] = 0.0, 0.0
        store(products, m, 0, zeros(grid))
        store(drift, m, 0, zeros(grid))
    by, c = factors(grid, norm, parts.buffers.factors), zeros(grid)
    for k in range(count):
        j, u, own = row.j[k], np.float64(row.u[k]), bets[k]
        along = measure(columns, x, j, u, by)
        store(parts.buffers.steps, k, 0, along)
        c = c + wide(along) * u
        add_products(grid, columns, x, j, u, products)
        bet_all(x, j, columns.coin, 1.0 / norm, own)
        for m in range(len(coin)):
            coin[m] += u * own[m]
    store(parts.buffers.lengths, 0, 0, c)
    for listed in range(row.many[0]):
        k, moved = row.moved[listed], row.drift[listed]
        if moved != 0.0:
            add_products(grid, columns, x, row.j[k], moved, drift)
            for m in range(len(coin)):
                others[0, m] += moved * bets[k, m]


@formula(fast=True)
def predict_row(parts: Any, count: Any, norm: float) -> None:
    """The scores of every expert, and what the experts of the grid need to learn."""
    n, matrix, row = lanes(parts.grid), parts.matrix, parts.buffers.row
    scores, others, offsets = parts.buffers.scores, parts.buffers.others, parts.state.offsets
    predict_entries(parts, count, norm)
    for m in range(scores.shape[1]):
        scores[n + 1, m], others[1, m] = 0.0, 0.0
        if is_in(matrix):
            own = of_class(matrix, m)
            scores[n + 1, m] = measure_matrix(own, parts.features.record, row, count)
            others[1, m] = drift_matrix(own, parts.features.record, row)
        for r in range(n):
            scores[r, m] = parts.buffers.products[m, r]
            offsets[r, m] += parts.buffers.drift[m, r]
        for r in range(2):
            offsets[n + r, m] += others[r, m]
        for r in range(n + 2):
            offsets[r, m] = clamp(offsets[r, m], -LARGEST_PREDICTION, LARGEST_PREDICTION)
            score = scores[r, m] + offsets[r, m]
            scores[r, m] = score if abs(score) < LARGEST_PREDICTION else 0.0


@formula(fast=True)
def step_row(parts: Any, count: Any, norm: float, bend: float, steep: float) -> None:
    """A round of the grid and of the coin, from their slopes and the curvature and slope at the combined scores."""
    grid, columns, x, row = parts.grid, parts.columns, parts.x, parts.buffers.row
    slopes, turned, n = parts.buffers.slopes, parts.buffers.turned, lanes(grid)
    coin, classes = slopes[n], np.uint64(len(turned))
    for m in range(len(coin)):
        coin[m] = clamp(coin[m], -1.0, 1.0)
        for r in range(n):
            turned[m, r] = slopes[r, m]
    bend, steep = min(bend, LARGEST_EXPERT_WEIGHT), min(steep, LARGEST_EXPERT_WEIGHT)
    for k in range(count):
        j, u, along = row.j[k], np.float64(row.u[k]), load(grid, parts.buffers.steps, k, 0)
        for m in range(classes):
            at = columns.lanes + m * np.uint64(n)
            if parts.pieces.again:
                move_again(parts, j, at, load(grid, turned, m, 0), along)
            else:
                move(grid, x, j, at, load(grid, turned, m, 0), along)
        remember(columns, x, j, u, bend, steep)
        for m in range(0 if parts.pieces.again else classes):
            z = coin[m] * u
            settle_bet(x, j, columns.coin + m, classes, z, -z * parts.buffers.bets[k, m] * norm)
