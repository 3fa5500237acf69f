"""Merge mixtures that started from the same state and learned different examples.

Counts and sums add up, means are weighted by rows, scales and ranges are the largest. The weights of the experts are
interpolated between the average and the sum (:mod:`giftrl.workers.merge_experts`), with steps fitted to the window
(:mod:`giftrl.workers.step_size`). The Newton stack and the full matrix have a precision P = A^-1 and weights x: P and
P x add up, which is exact for a squared loss.

:class:`MergedLearner` is the core of every run with several workers, threads or machines. A worker's result is a pure
function of its initial state and its examples.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates.reservoir import WorkerSums
from giftrl.compiled.lanes import lanes
from giftrl.compiled.rows import Rows
from giftrl.errors import Given, Incompatible, require
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.clip_limits import LARGEST_MATRIX_WEIGHT
from giftrl.mixtures.experts import CLIPPED, LINEAR, MOST_WEIGHT, WEALTH, WEIGHT, remove_expert
from giftrl.mixtures.feature_state import PLACE, ROWS, SCALE
from giftrl.mixtures.full_matrix import CREDIT, MAX_CURVATURE_GAIN, Matrix, nothing_late
from giftrl.mixtures.mixture import Mixture
from giftrl.ops.loss import offset
from giftrl.workers.merge_experts import (
    MergedFeatures,
    PartialMerge,
    blocks_of,
    merge_experts,
    merge_features,
    scale_ratios,
    unit_of,
)
from giftrl.workers.pieces import ONE_THREAD, Piece, Share, added, always, mean, put, take, touched
from giftrl.workers.step_size import FEATURE_GROUPS, Groups, Window, fit_steps, groups_of

Array = NDArray[np.float64]
T = TypeVar("T")
#: The minimum eigenvalue of a precision, relative to the largest.
MIN_EIGENVALUE_SHARE = 1e-12


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
    """The initial steps for each expert and group of features: 1, the sum."""
    if not isinstance(learner, Mixture):
        rule = "cannot be merged: only learners of beta='auto' can"
        raise Incompatible(f"{type(learner).__name__} {rule}. Use beta='auto', or one worker")
    return np.ones((lanes(learner.grid) + 1, FEATURE_GROUPS))


class SharedState(NamedTuple):
    """The state of a learner at some features, and certificate sums if it stores examples."""

    piece: Piece
    sums: WorkerSums | None

    @classmethod
    def of(cls, learner: Any, features: NDArray[np.int64]) -> "SharedState":
        """The state of a learner between rounds, as the start for workers."""
        sums = None if learner.witnesses is None else learner.witnesses.sums_at(features)
        return cls(take(learner, features), sums)

    @classmethod
    def of_worker(cls, learner: Any, features: NDArray[np.int64], first: int) -> "SharedState":
        """A worker's result; ``first`` is the number of its first example."""
        sums = None if learner.witnesses is None else learner.witnesses.reply(features, first)
        return cls(take(learner, features), sums)

    def begin(self, worker: Any, first: int, share: Share = ONE_THREAD) -> None:
        """Start a worker's round from this state; ``first`` is the number of its first example."""
        put(worker, self.piece, share)
        if worker.witnesses is not None and self.sums is not None:
            worker.witnesses.begin_round(self.sums, first)


def copy_of(learner: Any, first: int) -> Any:
    """A worker with a copy of the whole state of a learner; ``first`` is the number of its first example."""
    worker, witnesses = copy(learner), learner.witnesses
    worker.witnesses = None
    worker.restore(learner.own_state())
    worker.merges = learner.merges
    if witnesses is not None:
        worker.witnesses = witnesses.worker(first)
    return worker


class MergedLearner:
    """A mixture with the merged state between rounds; tracks steps and changed features.

    ``steps`` are those of an earlier run of this learner, or None.
    """

    def __init__(self, learner: Any, steps: Array | None = None, share: Share = ONE_THREAD) -> None:
        self.learner, self.steps, self.share = learner, steps, share
        self._first_steps = first_steps(learner)
        self._marks = np.zeros(learner.dimension, np.bool_)

    @property
    def marks(self) -> NDArray[np.bool_]:
        """Marks of features whose state has changed since the last call of :meth:`changes`; workers set them too."""
        if len(self._marks) < self.learner.dimension:
            self._marks = np.append(self._marks, np.zeros(self.learner.dimension - len(self._marks), np.bool_))
        return self._marks

    @property
    def changed(self) -> NDArray[np.int64]:
        """The features changed since the last call of :meth:`changes`."""
        self.marks[always(self.learner)] = True
        return np.flatnonzero(self._marks)

    def changes(self) -> SharedState:
        """The state at changed features, for workers; resets the marks."""
        features = self.changed
        self._marks[:] = False
        return SharedState.of(self.learner, features)

    def merge(self, base: Piece, workers: list[Piece], sums: list[WorkerSums | None], window: Window | None) -> None:
        """Merge the results of workers.

        All pieces are at the changed features; ``sums`` belong to the workers' certificates. The steps are fitted to
        the window.
        """
        steps = self.steps
        if steps is None:  # fall back to the average, which is safe
            steps = self._first_steps if window is not None else np.zeros_like(self._first_steps)
        piece, steps = merge(self.learner, base, workers, window, steps, self.share)
        if window is not None:
            self.steps = steps
        put(self.learner, piece, self.share)
        self.marks[base.features] = True
        known = [each for each in sums if each is not None]
        if known:
            self.marks[self.learner.witnesses.gather(known)] = True

    def learn(self, learn: Callable[[], T], rows: list[tuple[Rows, int]]) -> T:
        """Call ``learn``, which learns the rows of a window, and mark their features as changed."""
        changes = None if self.learner.witnesses is None else self.learner.witnesses.watch_changes()
        result = learn()
        touched(self.learner, rows, self.marks)
        if changes is not None:
            self.marks[changes()] = True
        return result


def merge(
    learner: Any, base: Piece, workers: list[Piece], window: Window | None, steps: Array, share: Share = ONE_THREAD
) -> tuple[Piece, Array]:
    """Merge pieces; returns the merged piece and the steps. Workers without rows are ignored; a single worker's state
    is the result.

    Args:
        learner: the learner with the workers' initial state.
        base, workers: the pieces before the round and of the workers, at the same features.
        window: examples to fit the steps to; None to keep the steps.
        steps: the steps of the last merge, or :func:`first_steps`.
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


def blended(learner: Any, merger: PartialMerge, steps: Array, group: Groups, share: Share = ONE_THREAD) -> Piece:
    """The merged state; steps by expert and group interpolate from the average (0) to the sum (1)."""
    return merger.piece._replace(x=blocks_of(learner, merger, steps, group, share))


def merge_mixtures(learner: Any, base: Piece, workers: list[Piece], share: Share = ONE_THREAD) -> PartialMerge:
    """Merge everything except the experts' weights; all pieces have the same features."""
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
    """The change of the coin's offset due to moved centres: the mean over workers, weighted by rows."""
    coin, scores = int(learner.places.coin), learner.classes or 1
    moved, total = np.flatnonzero(known.shifts.any(axis=0)), np.zeros(scores)
    for k, (piece, count) in enumerate(zip(workers, rows, strict=True), 1):
        block = piece.x[moved, coin : coin + 3 * scores].astype(np.float64).reshape(-1, 3, scores)
        block[:, :2] *= scale_ratios(np.stack([piece.record[moved, SCALE], known.scale[moved]]))[0][:, None, None]
        bets = unit_of(learner, piece) * (WEALTH + block[:, 2]) * block[:, 0] / (1.0 + block[:, 1])
        total += count * (known.shifts[k, moved] @ bets)
    return total / max(sum(rows), 1.0)


def _removed_matrix(base: Piece, workers: list[Piece], record: Array) -> Any:
    """A removed full matrix, with the places it had in a worker."""
    if len(base.matrix.x) == 0 or int(base.matrix.size[0]) < 0:
        return base.matrix
    for worker in workers:
        if int(worker.matrix.size[0]) < 0:
            record[:, PLACE] = worker.record[:, PLACE]
            return worker.matrix
    return base.matrix._replace(size=np.array([-1], np.int64))


def _merge_mixing(learner: Any, base: Any, workers: list[Any], rows: list[float]) -> Any:
    """Merge the state other than features: label units, losses of experts and candidates, stack and sums."""
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
    """Merge the sums of a mixture: totals are added, recent losses averaged."""
    sums = np.array(added(base, *workers))
    sums[WEIGHT] = min(sums[WEIGHT], MOST_WEIGHT)
    total = sum(rows)
    for entry in (CLIPPED, LINEAR) if len(base) > LINEAR and total > 0.0 else ():
        sums[entry] = sum(worker[entry] * count for worker, count in zip(workers, rows, strict=True)) / total
    return sums


# The parts of a mixture that have a matrix of curvature.


def inverse(a: Array) -> Array:
    """The inverse of a symmetric matrix, with eigenvalues clipped to be positive."""
    try:
        np.linalg.cholesky(a)  # fails unless positive definite; eigenvalues take ten times as long
    except np.linalg.LinAlgError:
        pass
    else:
        found = np.linalg.inv(a)
        return np.asarray((found + found.T) / 2.0)
    values, vectors = np.linalg.eigh((a + a.T) / 2.0)
    values = np.maximum(values, MIN_EIGENVALUE_SHARE * max(values.max(), np.finfo(float).tiny))
    return np.asarray((vectors / values) @ vectors.T)


def merge_stack(base: Any, workers: list[Any]) -> tuple[Array, Array]:
    """v and A of the stack, without experts that a worker has removed."""
    there = np.flatnonzero(np.all([np.diag(mixing.inverse) > 0.0 for mixing in (base, *workers)], axis=0))
    at = np.ix_(there, there)
    precisions = [inverse(mixing.inverse[at]) for mixing in (base, *workers)]
    duals = [p @ mixing.stack[there] for p, mixing in zip(precisions, (base, *workers), strict=True)]
    v, a = np.zeros_like(base.stack), np.zeros_like(base.inverse)
    if len(there):
        a[at] = inverse(added(*precisions))
        v[there] = a[at] @ added(*duals)
    return v, a


def merge_matrix(
    base: Piece, workers: list[Piece], known: MergedFeatures, constant: int, row: int
) -> tuple[Matrix, Array] | None:
    """Merge the full matrix; also the place of each feature in it. None if a worker has removed it, or if features
    exceed the places.

    ``constant`` is the place of the constant among the features, or -1, and ``row`` that of the matrix among offsets.
    """
    pieces, old = (base, *workers), base.matrix
    if len(old.x) == 0 or any(int(piece.matrix.size[0]) < 0 for piece in pieces):
        return None
    places = base.record[:, PLACE].astype(np.int64)
    for worker in workers:
        new = np.flatnonzero((worker.record[:, PLACE] > 0.0) & (places == 0))
        new = new[np.argsort(worker.record[new, PLACE])]
        places[new] = places.max() + 1 + np.arange(len(new))
    size = int(places.max(initial=0))
    if size > len(old.x):
        return None
    features = np.argsort(places)[len(places) - size :]  # by their place
    prior = np.zeros(len(old.x))
    for piece in reversed(pieces):
        own = piece.record[features, PLACE].astype(np.int64)
        prior[:size][own > 0] = piece.matrix.prior[own[own > 0] - 1]
    stacked = old.inverse.reshape(-1, *old.inverse.shape[-2:])
    scores = len(stacked)
    new_inverse, new_x = np.zeros_like(stacked), np.zeros((len(old.x), scores))
    for m in range(scores):
        precisions, duals = zip(
            *(
                _natural(piece, shift, known, features, constant, row, m)
                for piece, shift in zip(pieces, known.shifts, strict=True)
            ),
            strict=True,
        )
        precision = added(*precisions)
        # At least the initial prior of a feature, despite rounding.
        a = inverse((precision + precision.T) / 2.0 + np.diag(1.0 / prior[:size]))
        new_inverse[m, :size, :size] = a
        new_x[:size, m] = a @ added(*duals)
    credit = np.clip(added(old.credit, *(worker.matrix.credit for worker in workers)), 0.0, CREDIT)
    new_inverse, sized = new_inverse.reshape(old.inverse.shape), (np.array([size]), np.atleast_1d(credit))
    merged = Matrix(new_inverse, new_x.reshape(old.x.shape), prior, *sized, *nothing_late(new_inverse))
    return merged, places.astype(np.float64)


def _natural(
    piece: Piece, shift: Array, known: MergedFeatures, features: NDArray[np.int64], constant: int, row: int, m: int
) -> tuple[Array, Array]:
    """P without the prior and P x of score m, in the merged units and places; 0 for features without a place."""
    matrix, size = piece.matrix, len(features)
    precision, dual = np.zeros((size, size)), np.zeros(size)
    places = piece.record[features, PLACE].astype(np.int64)
    here = np.flatnonzero(places > 0)
    if len(here) == 0:
        return precision, dual
    at = places[here] - 1
    late = matrix.late.reshape(-1, *matrix.late.shape[-2:])[m][:, at]
    a = matrix.inverse.reshape(-1, *matrix.inverse.shape[-2:])[m][np.ix_(at, at)] - late.T @ late
    x = matrix.x.reshape(len(matrix.x), -1)[at, m].copy()
    scale, new = piece.record[features[here], SCALE], known.scale[features[here]]
    factor = np.divide(scale, new, out=np.ones(len(here)), where=new > 0.0)
    a, x = grown(a, x, factor, matrix.prior[at])
    if constant >= 0 and piece.record[constant, PLACE] > 0.0:
        offset = piece.mixing.offsets.reshape(len(piece.mixing.offsets), -1)[row, m]
        x[features[here] == constant] += offset + shift[features[here]] @ x
    p = inverse(a)
    precision[np.ix_(here, here)] = p - np.diag(1.0 / matrix.prior[at])
    dual[here] = p @ x
    return precision, dual


def grown(a: Array, x: Array, factor: Array, prior: Array) -> tuple[Array, Array]:
    """Rescale A and x after scales have grown by 1/factor, like :func:`giftrl.mixtures.full_matrix.grow_matrix`. Both
    states must have the same scale before their difference is a worker's contribution.

    >>> grown(np.eye(1), np.ones(1), np.array([0.5]), np.array([100.0]))
    (array([[4.]]), array([2.]))
    """
    variance = np.diag(a)
    most = np.sqrt(np.divide(prior, variance, out=np.full(len(a), np.inf), where=variance > 0.0))
    g = np.minimum(np.divide(1.0, factor, out=np.full(len(a), np.inf), where=factor > 0.0), most)
    g = np.where(factor < 1.0, np.maximum(1.0, g), 1.0)
    anew = g > MAX_CURVATURE_GAIN
    g[anew] = 0.0
    larger = g[:, None] * a * g
    larger[anew, anew] = prior[anew]
    return larger, np.clip(x * factor * g * g, -LARGEST_MATRIX_WEIGHT, LARGEST_MATRIX_WEIGHT)
