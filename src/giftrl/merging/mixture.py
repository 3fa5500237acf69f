"""Merging mixtures: the states of workers that began from the same one and learnt different rows become one state."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.merging.curved import merge_matrix, merge_stack
from giftrl.merging.experts import Ends, blocks_of, factors_of, merge_experts
from giftrl.merging.features import Known, merge_features
from giftrl.merging.pieces import Piece
from giftrl.merging.sharing import Share, alone
from giftrl.merging.sums import added, mean
from giftrl.merging.units import merge_sums, merge_units
from giftrl.mixtures.combination import WEIGHT, leave
from giftrl.mixtures.experts import WEALTH, lanes
from giftrl.mixtures.label_units import OFFSET, per_norm
from giftrl.mixtures.scoring import UNIT
from giftrl.mixtures.state import NORM, PLACE, ROWS, SCALE

Array = NDArray[np.float64]


class Merger(NamedTuple):
    """A merge that is done but for the weights of the experts, which are between two ends.

    Attributes:
        piece: the merged state, but for its blocks of features.
        known: its features.
        ends: what the weights are between.
        offset: o, what predictions start from.
    """

    piece: Piece
    known: Known
    ends: Ends
    offset: float


def unit_of(learner: Any, piece: Piece) -> float:
    """Y/N of a piece, the unit in which its coin bets."""
    norm = piece.counts[NORM] if piece.counts[NORM] > 0.0 else 1.0
    return per_norm(getattr(piece.mixing, "units", UNIT), norm)


def merge_mixtures(learner: Any, base: Piece, workers: list[Piece], share: Share = alone) -> Merger:
    """Merge what workers have learnt from the state ``base`` on; all pieces are of the same features."""
    constant, n = learner.constant, lanes(learner.grid)
    at = int(np.searchsorted(base.features, -1 if constant is None else constant))
    place = at if at < len(base.features) and base.features[at] == constant else -1
    known = merge_features(learner, base, workers, place, share)
    found = merge_experts(learner, base, workers, known, place, share)
    rows = [float(worker.counts[ROWS] - base.counts[ROWS]) for worker in workers]
    found.offsets[n] += _coin_shift(learner, workers, known, rows)
    mixing = _mixing(learner, base, workers, rows)
    record, matrix = known.record, base.matrix
    record[:, PLACE] = base.record[:, PLACE]
    merged = merge_matrix(base, workers, known, place, n + 1)
    if merged is not None:
        matrix, record[:, PLACE] = merged
        found.offsets[n + 1] = 0.0
    else:
        matrix = _gone(base, workers, record)
        if np.isfinite(mixing.totals[n + 1]):
            leave(mixing, n + 1)
    mixing.offsets[...] = found.offsets.reshape(mixing.offsets.shape)
    theta = added(base.theta, *(worker.theta for worker in workers))
    dense = base.features[known.dense].astype(np.uint64)
    piece = Piece(base.features, record, base.x, theta, dense, known.counts, matrix, mixing)
    return Merger(piece, known, found, float(getattr(mixing, "units", UNIT)[OFFSET]))


def _coin_shift(learner: Any, workers: list[Piece], known: Known, rows: list[float]) -> Any:
    """What the centres that move add to the offset of the coin: the mean over the workers, by their rows."""
    coin, scores = int(learner.places.coin), learner.classes or 1
    moved, total = np.flatnonzero(known.shifts.any(axis=0)), np.zeros(scores)
    for k, (piece, part) in enumerate(zip(workers, rows, strict=True), 1):
        block = piece.x[moved, coin : coin + 3 * scores].astype(np.float64).reshape(-1, 3, scores)
        block[:, :2] *= factors_of(np.stack([piece.record[moved, SCALE], known.scale[moved]]))[0][:, None, None]
        bets = unit_of(learner, piece) * (WEALTH + block[:, 2]) * block[:, 0] / (1.0 + block[:, 1])
        total += part * (known.shifts[k, moved] @ bets)
    return total / max(sum(rows), 1.0)


def _gone(base: Piece, workers: list[Piece], record: Array) -> Any:
    """The full matrix that has left, with the places that a worker had when it left."""
    size = np.array([-1], np.int64)
    if len(base.matrix.x) == 0 or int(base.matrix.size[0]) < 0:
        return base.matrix
    for worker in workers:
        if int(worker.matrix.size[0]) < 0:
            record[:, PLACE] = worker.record[:, PLACE]
            return worker.matrix
    return base.matrix._replace(size=size)


def _mixing(learner: Any, base: Piece, workers: list[Piece], rows: list[float]) -> Any:
    """What is not by feature: units of labels, losses of experts and candidates, the stack, and sums."""
    old, each = base.mixing, [worker.mixing for worker in workers]
    v, a = merge_stack(old, each)
    made = {
        "totals": added(old.totals, *(one.totals for one in each)),
        "candidates": added(old.candidates, *(one.candidates for one in each)),
        "stack": v, "inverse": a,
        "sums": merge_sums(old.sums, [one.sums for one in each], rows),
        "offsets": old.offsets.copy(),
    }  # fmt: skip
    if learner.classes is None:
        pieces, units = learner.pieces, [one.units for one in each]
        made["units"] = merge_units(learner.loss, old.units, units, pieces.margin, pieces.centre_labels)
    else:
        weights = [one.sums[WEIGHT] for one in (old, *each)]
        made["slopes"] = mean([one.slopes for one in (old, *each)], weights)
    return type(old)(**made)


def blended(learner: Any, merger: Merger, steps: Array, group: NDArray[np.int64], share: Share = alone) -> Piece:
    """The merged state with weights between the average (steps 0) and the sum (steps 1).

    ``steps`` has a row for each expert of the grid and one for the coin, and a column for each group of features.
    """
    return merger.piece._replace(x=blocks_of(learner, merger.known, merger.ends, steps, group, share))
