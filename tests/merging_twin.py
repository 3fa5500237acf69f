"""A slow, obvious twin of :mod:`giftrl.workers.merge_experts`, in NumPy."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.mixtures.experts import MAX_WEALTH, WEALTH, factor_table
from giftrl.mixtures.feature_state import CENTRE, COUNT, DENSE_PLACE, NORM, ROWS, SCALE, TOTAL
from giftrl.workers.pieces import Piece, added, mean

Array = NDArray[np.float64]


class Known(NamedTuple):
    """The features of a merged state."""

    rows: Array
    scale: Array
    centre: Array
    dense: NDArray[np.bool_]
    norm: float


def occurrences(piece: Piece, columns: Any) -> Array:
    """How many rows have each feature."""
    sparse = piece.x[:, int(columns.count)].astype(np.float64)
    return np.where(piece.record[:, DENSE_PLACE] > 0.0, piece.record[:, COUNT], sparse)


def totals(piece: Piece, columns: Any) -> Array:
    """The sum of the values of each feature over all rows."""
    record = piece.record
    sparse = record[:, TOTAL] + piece.x[:, int(columns.added)].astype(np.float64) * record[:, SCALE]
    return np.where(record[:, DENSE_PLACE] > 0.0, record[:, CENTRE] * piece.counts[ROWS], sparse)


def merge_features(learner: Any, base: Piece, workers: list[Piece]) -> Known:
    """What all rows together say of the features."""
    pieces, columns = (base, *workers), learner.places
    t = added(*(piece.counts[ROWS] for piece in pieces))
    norm = mean([piece.counts[NORM] for piece in pieces], [piece.counts[ROWS] for piece in pieces])
    rows = added(*(occurrences(piece, columns) for piece in pieces))
    total = added(*(totals(piece, columns) for piece in pieces))
    scale = np.max([piece.record[:, SCALE] for piece in pieces], axis=0)
    dense = np.zeros(len(rows), np.bool_)
    if learner.constant is not None:
        before = base.record[:, DENSE_PLACE] > 0.0
        dense = (rows >= 0.5 * t + 0.5) | (before & (rows >= 0.4 * t + 0.5))
        dense &= base.features != learner.constant
    return Known(rows, scale, np.where(dense, total / max(t, 1.0), 0.0), dense, norm if norm > 0.0 else 1.0)


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
    shift: Array  # (mu_new - mu_old)/m_new: adding this times a weight to the constant keeps predictions


def strengths(experts: Any, q: Array, r: Array, norm: float) -> Array:
    """L_j of all experts, as in :mod:`giftrl.mixtures.experts`."""
    prior, curve, root = factor_table(experts, np.float64)
    return np.asarray(norm * prior + q[:, None] * curve + np.sqrt(norm) * np.sqrt(1.0 + r)[:, None] * root)


def shifts(piece: Piece, known: Known, together: bool) -> Array:
    """(mu_new - mu_old)/m_new of each feature; 0 where the constant, the mean of labels, moves with the centre."""
    m, mu = known.scale, piece.record[:, CENTRE]
    still = together & known.dense & (piece.record[:, DENSE_PLACE] > 0.0)
    return np.divide(known.centre - mu, m, out=np.zeros_like(m), where=(m > 0.0) & ~still)


def in_units(learner: Any, piece: Piece, known: Known, place: int | None) -> Own:
    """The experts of a piece as they would be if its features had had the merged scales: duals are kept.

    ``place`` is that of the constant among the features: its weight takes up the offsets of the grid.
    """
    experts, columns, scores = learner.grid_experts, learner.places, learner.classes or 1
    n, block = len(experts), piece.x.astype(np.float64)
    x = block[:, : n * scores].reshape(-1, scores, n)
    q, r = block[:, int(columns.curve)], block[:, int(columns.root)]
    coin = block[:, int(columns.coin) : int(columns.coin) + 3 * scores].reshape(-1, 3, scores).copy()
    shift = shifts(piece, known, learner.pieces.centre_labels)
    offsets = piece.mixing.offsets.reshape(-1, scores).copy()
    factor = np.divide(piece.record[:, SCALE], known.scale, out=np.ones(len(q)), where=known.scale > 0.0)
    new_q, new_r = factor * factor * q, factor * factor * r
    now = strengths(experts, new_q, new_r, known.norm)
    x = x * (factor[:, None] * strengths(experts, q, r, known.norm) / now)[:, None, :]
    offsets[:n] += np.einsum("j,jmr->rm", shift, x)
    if place is not None:
        x[place] += offsets[:n].T
        offsets[:n] = 0.0
    coin[:, :2] *= factor[:, None, None]
    return Own(x, now, new_q, new_r, offsets, coin, shift)


def ends(base: Own, workers: list[Own]) -> tuple[Array, Array]:
    """The average and the sum of the grid and of what the coin bets, by feature, score and expert."""
    moved = [own.x - base.x for own in workers]
    gained = [np.maximum(own.strength - base.strength, 0.0)[:, None, :] for own in workers]
    more = sum(gained)
    top = sum(own.strength[:, None, :] * dx for own, dx in zip(workers, moved, strict=True))
    weighted = sum(gain * dx for gain, dx in zip(gained, moved, strict=True))
    part = np.divide(weighted, more, out=sum(moved) / len(workers), where=more > 0.0)
    cautious, bold = bets(base, workers)
    average = np.concatenate([base.x + part, cautious[:, :, None]], axis=2)
    total = np.concatenate([base.x + top / (base.strength[:, None, :] + more), bold[:, :, None]], axis=2)
    return average, total


def bets(base: Own, workers: list[Own]) -> tuple[Array, Array]:
    """What the coin bets, in units of Y/N: with the average share of the average wealth, and with all added up."""
    poor, rich = wealth(base, workers)
    shares = [own.coin[:, 0] / (1.0 + own.coin[:, 1]) for own in (base, *workers)]
    turns = np.array([each - shares[0] for each in shares[1:]])
    stakes = np.array([np.maximum(own.coin[:, 1] - base.coin[:, 1], 0.0) for own in workers])
    total = stakes.sum(axis=0)
    turn = np.divide((stakes * turns).sum(axis=0), total, out=turns.mean(axis=0), where=total > 0.0)
    theta = base.coin[:, 0] + sum(own.coin[:, 0] - base.coin[:, 0] for own in workers)
    return (WEALTH + poor) * (shares[0] + turn), (WEALTH + rich) * theta / (1.0 + base.coin[:, 1] + total)


def wealth(base: Own, workers: list[Own]) -> tuple[Array, Array]:
    """W of the coin: the average of what was won, weighted by stakes, and the sum."""
    before = base.coin[:, 2]
    gains = np.array([own.coin[:, 2] - before for own in workers])
    stakes = np.array([np.maximum(own.coin[:, 1] - base.coin[:, 1], 0.0) for own in workers])
    total = stakes.sum(axis=0)
    average = np.divide((stakes * gains).sum(axis=0), total, out=gains.mean(axis=0), where=total > 0.0)
    return np.clip(before + average, 0.0, MAX_WEALTH), np.clip(before + gains.sum(axis=0), 0.0, MAX_WEALTH)
