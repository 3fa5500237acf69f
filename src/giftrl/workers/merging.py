"""Merge mixtures that began from the same state and learned different examples.

Counts and sums add up, means are weighted by rows, scales and ranges are the largest. The weights of the experts are
between two ends, the average and the sum (:mod:`giftrl.workers.merge_experts`), as far as the window says
(:mod:`giftrl.workers.step_size`).

:class:`MergedLearner` is what every run with several workers has at its centre, with threads or on many machines. A
worker's part of a round is a pure function of the state that it begins with and its examples.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates.reservoir import WorkerSums
from giftrl.compiled.rows import Rows
from giftrl.errors import Given, Incompatible, require
from giftrl.kernels.lane_counts import lanes
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.combination import CLIPPED, LINEAR, MOST_WEIGHT, WEIGHT, remove_expert
from giftrl.mixtures.experts import WEALTH
from giftrl.mixtures.mixture import Mixture
from giftrl.mixtures.state import PLACE, ROWS, SCALE
from giftrl.ops.loss_scale import offset
from giftrl.workers.merge_experts import PartialMerge, blocks_of, merge_experts, scale_ratios, unit_of
from giftrl.workers.merge_features import MergedFeatures, merge_features
from giftrl.workers.merge_matrices import merge_matrix, merge_stack
from giftrl.workers.pieces import ONE_THREAD, Piece, Share, added, always, mean, put, take, touched
from giftrl.workers.step_size import FEATURE_GROUPS, Window, fit_steps, groups_of

Array = NDArray[np.float64]
T = TypeVar("T")


def require_auto(auto: bool, argument: str, workers: object) -> None:
    """Refuse several workers for a model with a number for beta.

    >>> require_auto(False, "n_jobs", 2)
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: n_jobs=2: needs beta='auto': models with a number for beta cannot be merged; leave out
    one of the two
    """
    rule = "needs ", Given("beta", "auto"), ": models with a number for beta cannot be merged"
    require(auto, argument, workers, rule, "leave out one of the two")


def first_steps(learner: Any) -> Array:
    """The steps before the first merge, for each expert and group of features: all the way to the sum."""
    if not isinstance(learner, Mixture):
        rule = "cannot be merged: only learners of beta='auto' can"
        raise Incompatible(f"{type(learner).__name__} {rule}. Use beta='auto', or one worker")
    return np.ones((lanes(learner.grid) + 1, FEATURE_GROUPS))


class SharedState(NamedTuple):
    """The state of a learner at some features, and the sums of its certificate if it stores examples."""

    piece: Piece
    sums: WorkerSums | None

    @classmethod
    def of(cls, learner: Any, features: NDArray[np.int64]) -> "SharedState":
        """The state of a learner between rounds, for workers to begin with."""
        sums = None if learner.witnesses is None else learner.witnesses.sums_at(features)
        return cls(take(learner, features), sums)

    @classmethod
    def of_worker(cls, learner: Any, features: NDArray[np.int64], first: int) -> "SharedState":
        """The reply of a worker; ``first`` is the number of its first example."""
        sums = None if learner.witnesses is None else learner.witnesses.reply(features, first)
        return cls(take(learner, features), sums)

    def begin(self, worker: Any, first: int, share: Share = ONE_THREAD) -> None:
        """Let a worker begin a round with this state; ``first`` is the number of its first example."""
        put(worker, self.piece, share)
        if worker.witnesses is not None and self.sums is not None:
            worker.witnesses.begin_round(self.sums, first)


def copy_of(learner: Any, first: int) -> Any:
    """A worker that begins with the whole state of a learner; ``first`` is the number of its first example."""
    worker, witnesses = copy(learner), learner.witnesses
    worker.witnesses = None
    worker.restore(learner.own_state())
    worker.merges = learner.merges
    if witnesses is not None:
        worker.witnesses = witnesses.worker(first)
    return worker


class MergedLearner:
    """A learner that has the merged state between rounds, and the steps and changes from round to round.

    Args:
        learner: a mixture.
        steps: fitted by an earlier run of this learner, or None.
        share: runs loops.
    """

    def __init__(self, learner: Any, steps: Array | None = None, share: Share = ONE_THREAD) -> None:
        self.learner, self.steps, self.share = learner, steps, share
        self._first_steps = first_steps(learner)
        self._changed = np.zeros(learner.dimension, np.bool_)

    def mark(self, features: NDArray[Any]) -> None:
        """Note that the state at these features has changed; by number, or as marks of all features."""
        if len(self._changed) < self.learner.dimension:
            self._changed = np.append(self._changed, np.zeros(self.learner.dimension - len(self._changed), np.bool_))
        self._changed[features] = True

    @property
    def changed(self) -> NDArray[np.int64]:
        """The features whose state has changed since :meth:`changes` was called."""
        self.mark(always(self.learner))
        return np.flatnonzero(self._changed)

    def changes(self) -> SharedState:
        """The state at the features that have changed, for workers; they count as unchanged from now on."""
        features = self.changed
        self._changed[:] = False
        return SharedState.of(self.learner, features)

    def merge(self, base: Piece, workers: list[Piece], sums: list[WorkerSums | None], window: Window | None) -> None:
        """Merge what workers have learned.

        Args:
            base, workers: the learner's piece and theirs, at the features that they have changed.
            sums: of their certificates.
            window: examples to fit the steps to.
        """
        steps = self.steps
        if steps is None:  # the average is safe, and the sum need not be
            steps = self._first_steps if window is not None else np.zeros_like(self._first_steps)
        piece, steps = merge(self.learner, base, workers, window, steps, self.share)
        if window is not None:
            self.steps = steps
        put(self.learner, piece, self.share)
        self.mark(base.features)
        known = [each for each in sums if each is not None]
        if known:
            self.mark(self.learner.witnesses.gather(known))

    def learn(self, learn: Callable[[], T], rows: list[tuple[Rows, int]]) -> T:
        """Call a function that lets the learner learn these rows of a window; each part is rows and their number."""
        changes = None if self.learner.witnesses is None else self.learner.witnesses.watch_changes()
        result = learn()
        marks = np.zeros(self.learner.dimension, np.bool_)
        touched(self.learner, rows, marks)
        self.mark(marks)
        if changes is not None:
            self.mark(changes())
        return result


def merge(
    learner: Any, base: Piece, workers: list[Piece], window: Window | None, steps: Array, share: Share = ONE_THREAD
) -> tuple[Piece, Array]:
    """The merged state at the features of the pieces, and the steps.

    Workers that have learned nothing do not count, and the state of a single worker is the result.

    Args:
        learner: one with the state that all workers began from.
        base: its piece.
        workers: their pieces, at the same features.
        window: examples to fit the steps to; None to take the steps as they are.
        steps: of the merge before, or :func:`first_steps`.
        share: runs loops.
    """
    workers = [worker for worker in workers if worker.counts[ROWS] > base.counts[ROWS]]
    if len(workers) < 2:
        return (workers[0]._replace(merges=base.merges) if workers else base), steps
    merger = merge_mixtures(learner, base, workers, share)
    group = groups_of(merger, learner.constant)
    if window is not None and len(window.labels) > 0:
        steps = fit_steps(learner, merger, group, window, steps, share)
    return blended(learner, merger, steps, group, share)._replace(merges=base.merges + 1), steps


def blended(
    learner: Any, merger: PartialMerge, steps: Array, group: NDArray[np.int64], share: Share = ONE_THREAD
) -> Piece:
    """The merged state with weights between the average (steps 0) and the sum (steps 1).

    ``steps`` has a row for each expert of the grid and one for the coin, and a column for each group of features.
    """
    return merger.piece._replace(x=blocks_of(learner, merger, steps, group, share))


def merge_mixtures(learner: Any, base: Piece, workers: list[Piece], share: Share = ONE_THREAD) -> PartialMerge:
    """Merge all but the weights of the experts; all pieces are of the same features."""
    constant, n = learner.constant, lanes(learner.grid)
    at = int(np.searchsorted(base.features, -1 if constant is None else constant))
    place = at if at < len(base.features) and base.features[at] == constant else -1
    known = merge_features(learner, base, workers, place, share)
    ends = merge_experts(learner, base, workers, known, place, share)
    rows = [float(worker.counts[ROWS] - base.counts[ROWS]) for worker in workers]
    ends.offsets[n] += _coin_shift(learner, workers, known, rows)
    mixing = _merge_mixing(learner, base.mixing, [worker.mixing for worker in workers], rows)
    record, matrix = known.record, base.matrix
    record[:, PLACE] = base.record[:, PLACE]
    merged = merge_matrix(base, workers, known, place, n + 1)
    if merged is not None:
        matrix, record[:, PLACE] = merged
        ends.offsets[n + 1] = 0.0
    else:
        matrix = _removed_matrix(base, workers, record)
        if np.isfinite(mixing.totals[n + 1]):
            remove_expert(mixing, n + 1)
    mixing.offsets[...] = ends.offsets.reshape(mixing.offsets.shape)
    theta = added(base.theta, *(worker.theta for worker in workers))
    dense = base.features[known.dense].astype(np.uint64)
    piece = Piece(base.features, record, base.x, theta, dense, known.counts, matrix, mixing)
    return PartialMerge(piece, known, ends, float(mixing.units[unit.OFFSET]))


def _coin_shift(learner: Any, workers: list[Piece], known: MergedFeatures, rows: list[float]) -> Any:
    """The change of the coin's offset by centres that move: the mean over the workers, by their rows."""
    coin, scores = int(learner.places.coin), learner.classes or 1
    moved, total = np.flatnonzero(known.shifts.any(axis=0)), np.zeros(scores)
    for k, (piece, count) in enumerate(zip(workers, rows, strict=True), 1):
        block = piece.x[moved, coin : coin + 3 * scores].astype(np.float64).reshape(-1, 3, scores)
        block[:, :2] *= scale_ratios(np.stack([piece.record[moved, SCALE], known.scale[moved]]))[0][:, None, None]
        bets = unit_of(learner, piece) * (WEALTH + block[:, 2]) * block[:, 0] / (1.0 + block[:, 1])
        total += count * (known.shifts[k, moved] @ bets)
    return total / max(sum(rows), 1.0)


def _removed_matrix(base: Piece, workers: list[Piece], record: Array) -> Any:
    """The full matrix after it was removed, with the places that it had in a worker at that moment."""
    if len(base.matrix.x) == 0 or int(base.matrix.size[0]) < 0:
        return base.matrix
    for worker in workers:
        if int(worker.matrix.size[0]) < 0:
            record[:, PLACE] = worker.record[:, PLACE]
            return worker.matrix
    return base.matrix._replace(size=np.array([-1], np.int64))


def _merge_mixing(learner: Any, base: Any, workers: list[Any], rows: list[float]) -> Any:
    """Merge the state that is not by feature: units of labels, losses of experts and candidates, stack and sums."""
    stack, inverse = merge_stack(base, workers)
    merged = {
        "totals": added(base.totals, *(worker.totals for worker in workers)),
        "candidates": added(base.candidates, *(worker.candidates for worker in workers)),
        "stack": stack, "inverse": inverse, "offsets": base.offsets.copy(),
        "sums": merge_sums(base.sums, [worker.sums for worker in workers], rows),
    }  # fmt: skip
    if learner.classes is None:
        units, pieces = [worker.units for worker in workers], learner.pieces
        merged["units"] = merge_units(learner.loss, base.units, units, pieces.margin, pieces.centre_labels)
    else:
        states = base, *workers
        merged["slopes"] = mean([state.slopes for state in states], [state.sums[WEIGHT] for state in states])
    return type(base)(**merged)


def merge_units(loss: Any, base: Array, workers: list[Array], margin: bool, centred: bool) -> Array:
    """Merge the units of labels: means by weight, and the widest range."""
    states, units = [base, *workers], base.copy()

    def means(weight: int, entries: tuple[int, ...]) -> None:
        weights = [state[weight] for state in states]
        for entry in entries:
            units[entry] = mean([state[entry] for state in states], weights)
        units[weight] = added(*weights)

    if not margin:
        means(unit.WEIGHT, (unit.LABEL, unit.SPREAD, unit.SLOPE))
        units[unit.LOW] = min(state[unit.LOW] for state in states)
        units[unit.HIGH] = max(state[unit.HIGH] for state in states)
        if centred:
            units[unit.OFFSET] = offset(loss, units[unit.LABEL], units[unit.WEIGHT])
            units[unit.ORIGIN] = next((state[unit.ORIGIN] for state in states if state[unit.WEIGHT] > 0.0), 0.0)
    means(unit.JUDGED, (unit.RESIDUAL, unit.STEEP, unit.PRODUCT))
    return units


def merge_sums(base: Array, workers: list[Array], rows: list[float]) -> Array:
    """Merge the sums of a mixture: they add up, but for the recent losses, which are means."""
    sums = np.array(added(base, *workers))
    sums[WEIGHT] = min(sums[WEIGHT], MOST_WEIGHT)
    total = sum(rows)
    for entry in (CLIPPED, LINEAR) if len(base) > LINEAR and total > 0.0 else ():
        sums[entry] = sum(worker[entry] * count for worker, count in zip(workers, rows, strict=True)) / total
    return sums
