"""The experts of the grid and the coin after a merge: between the average of the workers and their sum.

With x and L the weight and the strength of an expert before the round, and x_k = x + dx_k and L_k = L + dL_k those of
worker k after it, all in the units of the merged features,

    x_sum = x + sum_k L_k dx_k / (L + sum_k dL_k),        x_average = x + sum_k dL_k dx_k / sum_k dL_k.

The sum adds duals, as one learner of all rows would if no worker had changed what the others see. It is right for rare
features, which one worker has met; on frequent ones all workers have corrected the same error, and the sum overshoots.
The average is right for these. :mod:`giftrl.merging.fit` finds where to stop between the two.

The coin has theta and G added, and its wealth has the two ends: the average of what workers have won, and the product
of the factors by which each wealth has grown.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.merging.features import Known
from giftrl.merging.pieces import Piece
from giftrl.merging.sums import added
from giftrl.mixtures.coin import RICHEST, WEALTH
from giftrl.mixtures.experts import lanes
from giftrl.mixtures.feature_state import CENTRE, DENSE_PLACE, SCALE
from giftrl.mixtures.limits import LARGEST_EXPERT_WEIGHT

Array = NDArray[np.float64]
#: A wealth grows at most by exp of this in a merge: beyond it is rounding.
MOST_GROWTH = 50.0


class Own(NamedTuple):
    """The experts of a piece in the units of the merged features.

    Arrays by feature; those of experts have an axis for scores and one for experts.
    """

    x: Array
    strength: Array
    q: Array
    r: Array
    offsets: Array  # of all experts, a column for each score
    coin: Array  # theta, G and W of each score
    shift: Array  # (mu_new - mu_old)/m_old: adding this times a weight to the constant keeps predictions


class Ends(NamedTuple):
    """What a merge has between the average and the sum: by feature, score and lane, the coin's wealth being the last."""

    average: Array
    total: Array
    q: Array
    r: Array
    coin: Array  # theta and G
    offsets: Array


def strengths(grid: Any, q: Array, r: Array, norm: float) -> Array:
    """L_j of all experts, as in :mod:`giftrl.mixtures.experts`."""
    root = np.sqrt(norm) * np.sqrt(1.0 + r)[:, None]
    return np.asarray(norm * grid.prior + q[:, None] * grid.curve + root * grid.root)


def shifts(piece: Piece, known: Known, together: bool) -> Array:
    """(mu_new - mu_old)/m_old of each feature; 0 where the constant, the mean of labels, moves with the centre."""
    m, mu = piece.record[:, SCALE], piece.record[:, CENTRE]
    still = together & known.dense & (piece.record[:, DENSE_PLACE] > 0.0)
    with np.errstate(over="ignore"):
        moved = np.divide(known.centre - mu, m, out=np.zeros_like(m), where=(m > 0.0) & ~still)
    return np.clip(moved, -LARGEST_EXPERT_WEIGHT, LARGEST_EXPERT_WEIGHT)


def in_units(learner: Any, piece: Piece, known: Known, place: int | None) -> Own:
    """The experts of a piece as they would be if its features had had the merged scales: duals are kept.

    ``place`` is that of the constant among the features: its weight takes up the offsets of the grid.
    """
    grid, columns, scores = learner.grid, learner.places, learner.classes or 1
    n, block = lanes(grid), piece.x.astype(np.float64)
    x = block[:, : n * scores].reshape(-1, scores, n)
    q, r = block[:, int(columns.curve)], block[:, int(columns.root)]
    coin = block[:, int(columns.coin) : int(columns.coin) + 3 * scores].reshape(-1, 3, scores).copy()
    shift = shifts(piece, known, learner.pieces.centre_labels)
    offsets = piece.mixing.offsets.reshape(-1, scores).copy()
    offsets[:n] += np.einsum("j,jmr->rm", shift, x)
    factor = np.divide(piece.record[:, SCALE], known.scale, out=np.ones(len(q)), where=known.scale > 0.0)
    new_q, new_r = factor * factor * q, factor * factor * r
    now = strengths(grid, new_q, new_r, known.norm)
    x = x * (factor[:, None] * strengths(grid, q, r, known.norm) / now)[:, None, :]
    if place is not None:
        x[place] += offsets[:n].T
        offsets[:n] = 0.0
    coin[:, :2] *= factor[:, None, None]
    return Own(x, now, new_q, new_r, offsets, coin, shift)


def ends(learner: Any, base: Own, workers: list[Own], rows: list[float], bets: Array) -> Ends:
    """Both ends of a merge; ``rows`` are those of each worker, ``bets`` the weights of each coin before its merge."""
    top = np.zeros_like(base.x)
    weighted = np.zeros_like(base.x)
    plain = np.zeros_like(base.x)
    more = np.zeros_like(base.strength)
    for own in workers:
        moved, gained = own.x - base.x, np.maximum(own.strength - base.strength, 0.0)
        top += own.strength[:, None, :] * moved
        weighted += gained[:, None, :] * moved
        plain += moved / len(workers)
        more += gained
    total = base.x + top / (base.strength + more)[:, None, :]
    part = np.divide(weighted, more[:, None, :], out=plain, where=(more > 0.0)[:, None, :])
    q, r = added(base.q, *(own.q for own in workers)), added(base.r, *(own.r for own in workers))
    coin = added(base.coin[:, :2], *(own.coin[:, :2] for own in workers))
    rich, richer = wealth(base, workers)
    n, every = lanes(learner.grid), max(sum(rows), 1.0)
    offsets = base.offsets.copy()
    offsets[:n] = sum(own.offsets[:n] * share for own, share in zip(workers, rows, strict=True)) / every
    offsets[n] = (
        sum((own.offsets[n] + own.shift @ bet) * share for own, share, bet in zip(workers, rows, bets, strict=True))
        / every
    )
    average = np.concatenate([base.x + part, rich[:, :, None]], axis=2)
    summed = np.concatenate([total, richer[:, :, None]], axis=2)
    return Ends(average, summed, q, r, coin, offsets)


def wealth(base: Own, workers: list[Own]) -> tuple[Array, Array]:
    """W of the coin: the average of what was won, weighted by stakes, and the product of the growths."""
    before, won = base.coin[:, 2], np.zeros_like(base.coin[:, 2])
    plain, stakes, grown = won.copy(), won.copy(), won.copy()
    for own in workers:
        gain, staked = own.coin[:, 2] - before, np.maximum(own.coin[:, 1] - base.coin[:, 1], 0.0)
        won += staked * gain
        stakes += staked
        plain += gain / len(workers)
        grown += np.log((WEALTH + own.coin[:, 2]) / (WEALTH + before))
    average = before + np.divide(won, stakes, out=plain, where=stakes > 0.0)
    product = (WEALTH + before) * np.exp(np.clip(grown, -MOST_GROWTH, MOST_GROWTH)) - WEALTH
    return np.clip(average, 0.0, RICHEST), np.clip(product, 0.0, RICHEST)


def put_experts(learner: Any, at: Array, merged: Ends, x: NDArray[Any]) -> None:
    """Write weights between the ends into blocks of features; ``at`` has the lanes of :class:`Ends`."""
    columns, scores, n = learner.places, learner.classes or 1, lanes(learner.grid)
    most = LARGEST_EXPERT_WEIGHT
    x[:, : n * scores] = np.clip(at[:, :, :n], -most, most).reshape(len(x), -1)
    x[:, int(columns.curve)], x[:, int(columns.root)] = np.minimum(merged.q, most), np.minimum(merged.r, most)
    coin = np.concatenate([merged.coin, np.clip(at[:, None, :, n], 0.0, RICHEST)], axis=1)
    x[:, int(columns.coin) : int(columns.coin) + 3 * scores] = coin.reshape(len(x), -1)
