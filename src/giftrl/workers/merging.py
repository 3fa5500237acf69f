"""The units of labels and the sums of a mixture after a merge."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Rows, begin, column, end
from giftrl.errors import Incompatible, require
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.combination import CLIPPED, LINEAR, MOST_WEIGHT, WEIGHT, leave
from giftrl.mixtures.experts import WEALTH, lanes
from giftrl.mixtures.label_units import OFFSET
from giftrl.mixtures.mixture import Mixture
from giftrl.mixtures.scoring import UNIT
from giftrl.mixtures.state import PLACE, ROWS, SCALE
from giftrl.ops.loss_scale import offset
from giftrl.workers.merge_experts import Merger, blocks_of, factors_of, merge_experts, unit_of
from giftrl.workers.merge_features import Known, merge_features
from giftrl.workers.merge_matrices import merge_matrix, merge_stack
from giftrl.workers.pieces import Piece, Share, added, always, in_one_part, mean
from giftrl.workers.step_size import GROUPS, fit_classes, fit_mixture, groups_of

Array = NDArray[np.float64]


def merge_units(loss: Any, base: Array, workers: list[Array], margin: bool, centred: bool) -> Array:
    """The units of the labels of all rows: means by weight, and the widest range."""
    every, units = [base, *workers], base.copy()
    if not margin:
        weights = [each[unit.WEIGHT] for each in every]
        for entry in (unit.LABEL, unit.SPREAD, unit.SLOPE):
            units[entry] = mean([each[entry] for each in every], weights)
        units[unit.WEIGHT] = added(*weights)
        units[unit.LOW] = min(each[unit.LOW] for each in every)
        units[unit.HIGH] = max(each[unit.HIGH] for each in every)
        if centred:
            units[unit.OFFSET] = offset(loss, units[unit.LABEL], units[unit.WEIGHT])
            begun = [each[unit.ORIGIN] for each in every if each[unit.WEIGHT] > 0.0]
            units[unit.ORIGIN] = begun[0] if begun else 0.0
    judged = [each[unit.JUDGED] for each in every]
    for entry in (unit.RESIDUAL, unit.STEEP, unit.PRODUCT):
        units[entry] = mean([each[entry] for each in every], judged)
    units[unit.JUDGED] = added(*judged)
    return units


def merge_sums(base: Array, workers: list[Array], rows: list[float]) -> Array:
    """The sums of a mixture: they add up, but for the recent losses, which are means."""
    sums = np.array(added(base, *workers))
    sums[WEIGHT] = min(sums[WEIGHT], MOST_WEIGHT)
    total = sum(rows)
    for entry in (CLIPPED, LINEAR) if len(base) > LINEAR and total > 0.0 else ():
        sums[entry] = sum(each[entry] * part for each, part in zip(workers, rows, strict=True)) / total
    return sums


# Merging mixtures: the states of workers that began from the same one and learnt different rows become one state.


def merge_mixtures(learner: Any, base: Piece, workers: list[Piece], share: Share = in_one_part) -> Merger:
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


def blended(learner: Any, merger: Merger, steps: Array, group: NDArray[np.int64], share: Share = in_one_part) -> Piece:
    """The merged state with weights between the average (steps 0) and the sum (steps 1).

    ``steps`` has a row for each expert of the grid and one for the coin, and a column for each group of features.
    """
    return merger.piece._replace(x=blocks_of(learner, merger.known, merger.ends, steps, group, share))


# Merging learners of any kind: what a worker sends, and what becomes of the pieces of all workers.


class Window(NamedTuple):
    """Rows that nobody has learnt, to which a merge is fitted; ``weights`` is empty where all are 1."""

    rows: Rows
    labels: NDArray[Any]
    weights: Array


@formula
def mark(rows: Any, count: int, marks: Any) -> None:
    """Note the features of rows."""
    for i in range(count):
        for k in range(begin(rows, i), end(rows, i)):
            marks[column(rows, i, k)] = True


def touched(learner: Any, parts: list[tuple[Rows, int]], marks: NDArray[np.bool_]) -> None:
    """Note in ``marks`` the features that learning these rows has changed; each part is rows and how many there are."""
    loop = ready(mark, learner.compiled)
    for rows, count in parts:
        loop(rows, count, marks)
    marks[always(learner)] = True


#: So many features are counted one by one, and then every second of as many again, every fourth of twice as many...
COUNTED = 1 << 16


def known(learner: Any) -> int:
    """About how many features a learner has met; what it makes of the same rows does not depend on room for more.

    >>> from giftrl.mixtures import MixtureLearner
    >>> learner = MixtureLearner(9, "squared", compiled=False)
    >>> p = learner.learn(np.eye(9)[:3], np.ones(3))
    >>> known(learner)
    3
    """
    array = learner.features.x
    total, first, step = np.count_nonzero(array[:COUNTED].any(axis=1)), COUNTED, 2
    while first < len(array):
        total += step * np.count_nonzero(array[first : 2 * first : step].any(axis=1))
        first, step = 2 * first, 2 * step
    return int(total)


def first_steps(learner: Any) -> Array:
    """The steps before the first merge: all the way to the sum."""
    require_mixture(learner)
    return np.ones((lanes(learner.grid) + 1, GROUPS))


def require_mixture(learner: Any) -> None:
    """Refuse a learner that cannot be merged."""
    if not isinstance(learner, Mixture):
        rule = "cannot be merged: only learners of beta='auto' can"
        raise Incompatible(f"{type(learner).__name__} {rule}. Use beta='auto', or one worker")


def require_auto(auto: bool, argument: str, workers: object) -> None:
    """Refuse several workers for a model with a number for beta.

    >>> require_auto(False, "n_jobs", 2)
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: n_jobs=2: needs beta='auto': models with a number for beta cannot be merged; leave out
    one of the two
    """
    rule = "needs beta='auto': models with a number for beta cannot be merged"
    require(auto, argument, workers, rule, "leave out one of the two")


def merge(
    learner: Any, base: Any, workers: list[Any], window: Window | None, steps: Array, share: Share = in_one_part
) -> tuple[Any, Array]:
    """The merged state at the features of the pieces, and the steps that were fitted.

    Workers that have learnt nothing do not count, and the state of a single worker is what it is.

    Args:
        learner: one with the state that all workers began from.
        base: its piece.
        workers: their pieces, at the same features.
        window: rows to fit the steps to; None to take the steps as they are.
        steps: those of the merge before, or :func:`first_steps`.
        share: runs loops; with several threads the result is the same.
    """
    learnt = [worker for worker in workers if rounds_of(worker) > rounds_of(base)]
    if len(learnt) < 2:
        return (learnt[0]._replace(merges=base.merges) if learnt else base), steps
    if window is not None and len(window.labels) == 0:
        window = None
    return _merge_mixtures(learner, base, learnt, window, steps, share)


def rounds_of(piece: Any) -> float:
    """How many rows were learnt until the state of a piece."""
    return float(piece.counts[ROWS])


def _merge_mixtures(
    learner: Any, base: Any, workers: list[Any], window: Window | None, steps: Array, share: Share
) -> tuple[Any, Array]:
    merger = merge_mixtures(learner, base, workers, share)
    group = groups_of(merger, learner.constant)
    if window is not None:
        fit_steps = fit_mixture if learner.classes is None else fit_classes
        steps = fit_steps(learner, merger, group, *window, steps, share)
    piece = blended(learner, merger, steps, group, share)
    return piece._replace(merges=base.merges + 1), steps
