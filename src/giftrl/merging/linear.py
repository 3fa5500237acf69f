"""Merging linear learners, of one score or of K: between the average of the workers and their sum.

Every diagonal psi has x = soft(u, l1)/L with u = L x + g, g in [-l1, l1] (:mod:`giftrl.kernels.row_copy`). With 0 for
the state before the round, k for worker k after it and L the strength that the merged sums give,

    not centred   u = theta           u_sum = theta_0 + sum_k (theta_k - theta_0)
    centred       u = theta + tilt    x_sum = x_0 + sum_k L_k (x_k - x_0)/D,  D = L_0 + sum_k (L_k - L_0),  where l1 = 0

and x_average is the mean of x_k, weighted by what each worker has added to the strength of the coordinate, or, where
none has added anything, of those workers that have met it. The merged point has u = u_average + a (u_sum - u_average),
with one step a in [0, 1] for each group of features.

Sums of the certificate add up: they and theta are exact for any points that the workers have played. Where psi is not
centred the stored theta is that of the merged point, and ``ahead`` is what theta of the certificate has more.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import Overflowed
from giftrl.kernels.scalar_round import CONJUGATE, DELTA, ENERGY, LAM, LOSS, ROUNDING, THETA2, TIME, TOTAL, WALKED
from giftrl.merging.sums import added
from giftrl.regularizers.contract import centred, l1_strength, strength
from giftrl.schedules.contract import lam, uses_gamma

Array = NDArray[np.float64]
#: The scalars that add up.
SUMS = [TIME, TOTAL, LOSS, CONJUGATE, DELTA, ROUNDING]


class LinearPiece(NamedTuple):
    """The state of a linear learner at some features.

    Attributes:
        features: their numbers, in order.
        coordinates: their rows of ``learner.coordinates``.
        states: the scalars.
        ahead: their rows of ``learner.ahead``, or None.
        merges: how often the state was merged.
    """

    features: NDArray[np.int64]
    coordinates: NDArray[Any]
    states: Array
    ahead: Array | None
    merges: int


class Own(NamedTuple):
    """Coordinates in float64, a column for each score; q and L are the same for all scores."""

    u: Array
    x: Array
    theta: Array  # as it is stored
    q: Array
    strength: Array


class LinearMerger(NamedTuple):
    """A merge that is done but for the point, which is between two ends.

    Attributes:
        base: the state before the round.
        average, total: u of the ends.
        theta: of the certificate, where psi is centred; what ``ahead`` brings it to, where it is not.
        q, strength: of the merged coordinates.
        states: the merged scalars, but for those that are sums over coordinates.
        met: how many workers have met each feature.
        workers: how many workers there are.
        rows: how many rows a worker has learnt in the round, on average.
    """

    base: LinearPiece
    average: Array
    total: Array
    theta: Array
    q: Array
    strength: Array
    states: Array
    met: Array
    workers: int
    rows: float


def take(learner: Any, features: NDArray[np.int64]) -> LinearPiece:
    """A copy of the state of a linear learner at these features."""
    ahead = None if learner.ahead is None else learner.ahead[features]
    return LinearPiece(features, learner.coordinates[features], learner.states.copy(), ahead, learner.merges)


def put(learner: Any, piece: LinearPiece) -> None:
    """Write a piece into a linear learner, whose other features stay as they are."""
    learner.coordinates[piece.features] = piece.coordinates
    learner.states[...] = piece.states
    learner.merges = piece.merges
    if piece.ahead is not None and learner.ahead is None:
        learner.ahead = np.zeros((learner.dimension, learner.classes or 1))
    if learner.ahead is not None:
        learner.ahead[piece.features] = 0.0 if piece.ahead is None else piece.ahead


def point(u: Array, big_l: Array, l1: float) -> Array:
    """x = soft(u, l1)/L."""
    return np.asarray((u - np.clip(u, -l1, l1)) / big_l)


def strengths(psi: Any, lam_now: float, q: Array) -> Array:
    """L of each coordinate."""
    return np.asarray(np.broadcast_to(strength(psi, lam_now, q), q.shape), np.float64)


def read(learner: Any, coordinates: NDArray[Any], lam_now: float) -> Own:
    """Coordinates as they are stored."""
    psi, scores = learner.regularizer, learner.classes or 1
    l1 = l1_strength(psi)
    c = coordinates.astype(np.float64).reshape(len(coordinates), math.prod(coordinates.shape[1:]))
    first = c[:, :scores]
    q = np.zeros((len(c), 1))
    if not learner.uniform:
        q = c[:, 1:2] if learner.classes is None else c[:, -1:]
    big_l = strengths(psi, lam_now, q)
    if learner.uniform or not centred(psi):
        return Own(first, point(first, big_l, l1), first, q, big_l)
    theta = c[:, 2:3] if learner.classes is None else c[:, scores : 2 * scores]
    return Own(big_l * first + (c[:, 3:4] if l1 > 0.0 else 0.0), first, theta, q, big_l)


def merge_linear(learner: Any, base: LinearPiece, workers: list[LinearPiece]) -> LinearMerger:
    """Merge what workers have learnt from the state ``base`` on; all pieces are of the same features."""
    psi, l1 = learner.regularizer, l1_strength(learner.regularizer)
    before, *owns = (read(learner, piece.coordinates, piece.states[0, LAM]) for piece in (base, *workers))
    axes = tuple(range(1, base.coordinates.ndim))
    met = [(worker.coordinates != base.coordinates).any(axis=axes)[:, None] for worker in workers]
    states = base.states.copy()
    states[0, SUMS] = added(*(piece.states[0, SUMS] for piece in (base, *workers)))
    states[0, LAM] = lam(learner.schedule, int(states[0, TIME]), float(states[0, TOTAL]))
    states[0, WALKED] = 0.0
    q = added(before.q, *(own.q for own in owns))
    now = strengths(psi, float(states[0, LAM]), q)

    # What each worker has added to L at a lambda that all have in common: nothing where L depends on lambda alone.
    common = strengths(psi, float(base.states[0, LAM]), before.q)
    gained = [np.maximum(strengths(psi, float(base.states[0, LAM]), own.q) - common, 0.0) for own in owns]
    nothing = sum(gained) <= 0.0
    parts = [np.where(nothing, own, gain) for own, gain in zip(met, gained, strict=True)]
    every = np.maximum(sum(parts), np.finfo(float).tiny)
    average = np.zeros_like(before.u)
    for own, part in zip(owns, parts, strict=True):
        average += part / every * (now * own.x + (own.u - own.strength * own.x))

    if learner.uniform or not centred(psi):
        total = added(before.theta, *(own.theta for own in owns))
        theta = total if base.ahead is None else total + base.ahead
    else:
        theta = added(before.theta, *(own.theta for own in owns))
        summed = added(before.strength, *(own.strength for own in owns))
        u = summed * before.x + (before.u - before.strength * before.x)
        for own in owns:
            u += own.u - before.u - (own.strength - before.strength) * before.x
        x = point(u, summed, l1)
        total = now * x + (u - summed * x)
    still = ~np.any(met, axis=0)
    kept = now * before.x + (before.u - before.strength * before.x) if centred(psi) else before.u
    average, total = np.where(still, kept, average), np.where(still, kept, total)
    rows = float(states[0, TIME] - base.states[0, TIME]) / len(workers)
    return LinearMerger(
        base, average, total, theta, q, now, states, np.sum(met, axis=0, dtype=float).reshape(-1), len(workers), rows
    )


def blended(learner: Any, merger: LinearMerger, steps: Array) -> LinearPiece:
    """The merged state with the point between the average (steps 0) and the sum (steps 1), a step for each feature."""
    psi, base = learner.regularizer, merger.base
    l1, states, ahead = l1_strength(psi), merger.states.copy(), None
    u = merger.average + steps[:, None] * (merger.total - merger.average)
    with np.errstate(over="ignore", invalid="ignore"):
        if learner.uniform or not centred(psi):
            columns = [u] if learner.uniform else [u, merger.q]
            stored = np.concatenate(columns, axis=1).astype(learner.dtype)
            ahead = merger.theta - stored[:, : u.shape[1]].astype(np.float64)
        else:
            x = point(u, merger.strength, l1)
            middle = [merger.q, merger.theta] if learner.classes is None else [merger.theta, merger.q]
            columns = [x, *middle, *([u - merger.strength * x] if l1 > 0.0 else [])]
            stored = np.concatenate(columns, axis=1).astype(learner.dtype)
            states[0, ROUNDING] = rounded(states[0], float(np.square(merger.theta).sum()))
    coordinates = np.where(
        (merger.met > 0.0).reshape(-1, *[1] * (base.coordinates.ndim - 1)),
        stored.reshape(base.coordinates.shape),
        base.coordinates,
    )
    states[0] = recounted(learner, base, coordinates, states[0])
    if not (np.isfinite(coordinates).all() and np.isfinite(states).all()):
        raise Overflowed(
            f"the states of these workers add up to numbers beyond {learner.dtype.name}; nothing was merged. Scale the "
            "features or the weights, or merge after fewer rows"
        )
    return LinearPiece(base.features, coordinates, states, _none_if_zero(ahead), base.merges + 1)


def rounded(state: Array, stored: float) -> float:
    """ROUNDING after theta was stored once more, ``stored`` being its norm2^2.

    The error of theta is at most 2^-24 sqrt(T R) after T rounds (:meth:`giftrl.kernels.engine.Engine._certificate`), by
    the inequality of Cauchy and Schwarz for the parts of all workers too. One more rounding adds at most
    2^-24 norm2(theta): the new R is that with sqrt(T R') = sqrt(T R) + norm2(theta).
    """
    rounds = max(float(state[TIME]) - 1.0, 1.0)
    return (math.sqrt(rounds * float(state[ROUNDING])) + math.sqrt(stored)) ** 2 / rounds


def recounted(learner: Any, base: LinearPiece, coordinates: NDArray[Any], state: Array) -> Array:
    """The scalars with THETA2 and E counted anew, where rounds need them."""
    if not learner.uniform and (centred(learner.regularizer) or not uses_gamma(learner.schedule)):
        return state
    entry = THETA2 if learner.uniform and l1_strength(learner.regularizer) == 0.0 else ENERGY
    count = [_energy(learner, each) for each in (learner.coordinates, base.coordinates, coordinates)]
    counted = state.copy()
    counted[entry] = max(0.0, count[0] - count[1] + count[2])
    return counted


def _energy(learner: Any, coordinates: NDArray[Any]) -> float:
    """The sum of soft(u)^2/w over coordinates, w = 1 where all have the same strength."""
    # Without zeros: how NumPy adds up depends on the length, and learners differ in how much they have grown.
    own = read(learner, coordinates[coordinates.any(axis=tuple(range(1, coordinates.ndim)))], 1.0)
    squares = np.square(own.strength * own.x)
    return float(squares.sum() if learner.uniform else (squares / own.strength).sum())


def _none_if_zero(ahead: Array | None) -> Array | None:
    return None if ahead is None or not ahead.any() else ahead
