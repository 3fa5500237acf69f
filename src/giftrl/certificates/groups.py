"""Sums over groups of committed rows, for a certificate that keeps no row.

With one theta = -sum_t h_t a_t s_t and one C = sum_t h_t phi*(a_t), nothing can be put right when the run is over. So
the rows are dealt to G groups, and each group g has its own theta_g. Afterwards its duals may be scaled by any
factor w_g from 0 to 1, because phi* is convex, phi*(0) = -inf phi, and so phi*(w a) is finite. What that costs,

    C_g(w) = sum over the rows of group g of h_t phi*(w a_t),

is summed up for a few factors w, and convexity bounds it between them (:mod:`giftrl.certificates.factors`).

Groups take turns, and rows whose dual is 0 take none. With the hinge loss, of two classes or more, rows that the model
got badly wrong are dealt to the odd groups, and the others to the even ones: what no model can explain is mostly in the
former. (That was worse for the logistic loss and for softmax.)

The groups take ``NUMBERS`` numbers at most. When a feature comes for which there is no room, groups g and g + G/2 are
added up; a single group has room for all features. Which row does that depends on the rows before it alone.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates.steering import (
    STEER,
    bend_of_score,
    bend_of_scores,
    commit_score,
    commit_scores,
    strength,
)
from giftrl.certificates.store import COMMITTED, NONE, SIZE, Store
from giftrl.compiled.rows import begin, column, end
from giftrl.errors import require
from giftrl.ops import formula
from giftrl.ops import loss as scalar
from giftrl.ops import vector_loss as vector
from giftrl.ops.loss_scale import kinked, reach
from giftrl.system import zeros

Array = NDArray[np.float64]
#: The most groups, and the most numbers in all of them, about 12 megabytes, as long as there is more than one.
GROUPS, NUMBERS = 128, 3 << 19
#: The factors for which C_g is summed up are 0, and the powers of this one from 1 on, as many as there are steps. The
#: columns of the ladder are these sums, by increasing factor; then, in rows 0 and 1, how many rows were dealt.
FACTOR, STEPS = 0.25, 6
DEALT = STEPS + 1
#: A row is hard where the loss of its prediction is more than this many times that of the prediction 0.
HARD = 1.5
#: Duals of the hinge loss are steered with a strength of this share of the rows so far. On a9a, where the best loss is
#: 0.35, a share of 0.1 proves 0.07, 0.03 0.17 and 0.01 0.25, and a strength of 20 throughout 0.20.
SHARE = 0.01


class ScoreInGroups(NamedTuple):
    """How a row of a loss of one prediction is committed to its group."""

    cost: float = 1.0

    def bend(self, loss: Any, store: Any, given: Any, i: int, y: Any) -> float:
        return bend_of_score(loss, store, given, i, y)

    def fits(self, store: Any, given: Any, i: int) -> bool:
        return has_room(store, given, i)

    def commit(self, loss: Any, store: Any, given: Any, i: int, y: Any, h: float, bend: float) -> None:
        a = commit_score(loss, store, given, i, y, h, bend, group_strength(loss, store))
        ladder, rows = store.ladder, given.rows
        base, most = given.bases[i] if len(given.bases) > 0 else 0.0, 0.0
        odd = is_odd(ladder)
        if kinked(loss) and not scalar.accepts(loss, 0.5):
            odd = scalar.value(loss, given.scores[i, 0] + base, y) > HARD * scalar.value(loss, 0.0, y)
        g = deal(ladder, odd, a != 0.0)
        for e in range(begin(rows, i), end(rows, i)):
            if rows.data[e] != 0.0:
                store.parts[column(rows, i, e), g] -= h * a * np.float64(rows.data[e])
        for step in range(STEPS, 0, -1):
            phi_star = scalar.conjugate(loss, a, y)
            ladder[g, step] += h * (phi_star - a * base)
            most, a = max(most, abs(phi_star)), FACTOR * a
        ladder[g, 0] -= h * scalar.infimum(loss, y)
        store.sums[SIZE] += h * most


class ScoresInGroups(NamedTuple):
    """How a row of a loss of K scores is committed to its group."""

    cost: float

    def bend(self, loss: Any, store: Any, given: Any, i: int, y: Any) -> float:
        return bend_of_scores(loss, given, i, y)

    def fits(self, store: Any, given: Any, i: int) -> bool:
        return has_room(store, given, i)

    def commit(self, loss: Any, store: Any, given: Any, i: int, y: Any, h: float, bend: float) -> None:
        commit_scores(loss, store, given, i, y, h, bend, group_strength(loss, store))
        zero, a, ladder, rows = store.work[0], store.work[1], store.ladder, given.rows
        odd, moved = is_odd(ladder), False
        for m in range(len(a)):
            zero[m] = 0.0
            moved = moved or a[m] != 0.0
        if kinked(loss):
            odd = scalar.value(loss, given.scores[i], y) > HARD * scalar.value(loss, zero, y)
        g = deal(ladder, odd, moved)
        first, most = g * len(a), 0.0
        for e in range(begin(rows, i), end(rows, i)):
            j, s = column(rows, i, e), np.float64(rows.data[e])
            if s != 0.0:  # there may be no room for a feature that is 0
                for m in range(len(a)):
                    store.parts[j, first + m] -= h * a[m] * s
        for step in range(STEPS, 0, -1):
            phi_star = vector.conjugate(loss, a, y)
            ladder[g, step] += h * phi_star
            most = max(most, abs(phi_star))
            for m in range(len(a)):
                a[m] *= FACTOR
        ladder[g, 0] -= h * scalar.infimum(loss, y)
        store.sums[SIZE] += h * most


@formula
def is_odd(ladder: Any) -> bool:
    """Whether an odd group has the next turn, where even and odd ones take turns."""
    return bool(len(ladder) > 1 and ladder[0, DEALT] > ladder[1, DEALT])


@formula
def deal(ladder: Any, odd: bool, moved: bool) -> int:
    """The even or odd group to which a row goes; a row whose dual is not 0 takes a turn.

    >>> ladder = np.zeros((4, DEALT + 1))
    >>> [deal(ladder, odd, True) for odd in (False, False, True, False, True)]
    [0, 2, 1, 0, 3]
    """
    if len(ladder) == 1:
        return 0
    which = 1 if odd else 0
    turn = int(ladder[which, DEALT])
    if moved:
        ladder[which, DEALT] += 1.0
    return 2 * (turn % (len(ladder) // 2)) + which


@formula
def group_strength(loss: Any, store: Any) -> float:
    """How strongly duals are steered.

    The weights of a learner of the hinge loss are large and stay so, while theta should not grow with the rows. What
    steering adds to the weights, k theta/H, falls with the rows unless k grows like them.
    """
    if kinked(loss) and reach(loss) < math.inf:
        return max(STEER, SHARE * float(store.sums[COMMITTED]))
    return strength(loss)


@formula
def has_room(store: Any, given: Any, i: int) -> bool:
    """Whether the groups have room for the features of row i."""
    for e in range(begin(given.rows, i), end(given.rows, i)):
        if column(given.rows, i, e) >= len(store.parts) and given.rows.data[e] != 0.0:
            return False
    return True


def opened(store: Store, scores: int) -> Store:
    """A store with groups, and no room in them yet."""
    return store._replace(parts=np.zeros((0, GROUPS * scores)), ladder=np.zeros((GROUPS, DEALT + 1)))


def capacity(groups: int, scores: int, dimension: int) -> int:
    """For how many features so many groups have room.

    >>> capacity(128, 1, 20_000), capacity(128, 1, 50), capacity(1, 1, 10_000_000)
    (12288, 50, 10000000)
    """
    return dimension if groups == 1 else min(dimension, NUMBERS // (groups * scores))


def with_room(store: Store, dimension: int, needed: int = 0) -> Store:
    """The same groups with as much room as they may take, and fewer of them if so many features need it."""
    scores = store.scores.shape[1]
    while len(store.ladder) > 1 and needed > capacity(len(store.ladder), scores, dimension):
        store = folded(store)
    features = capacity(len(store.ladder), scores, dimension)
    if features <= len(store.parts):
        return store
    parts = zeros((features, store.parts.shape[1]))
    parts[: len(store.parts)] = store.parts
    return store._replace(parts=parts)


def folded(store: Store) -> Store:
    """Half as many groups."""
    half, columns = len(store.ladder) // 2, store.parts.shape[1] // 2
    parts = store.parts[:, :columns] + store.parts[:, columns:]
    return store._replace(parts=parts, ladder=store.ladder[:half] + store.ladder[half:])


def state(store: Store) -> dict[str, NDArray[Any]]:
    """The arrays for :func:`restored`: features that have nothing in any group are left out."""
    if not len(store.ladder):
        return {}
    seen = np.flatnonzero(store.parts.any(axis=1))
    return {"parts": store.parts[seen], "parts.seen": seen, "ladder": store.ladder}


def restored(store: Store, given: Mapping[str, NDArray[Any]], dimension: int) -> Store:
    """A store with the groups of a state, or with none where the state has none, as those of older versions."""
    if not given.keys() & {"ladder", "parts", "parts.seen"}:
        return store._replace(parts=NONE, ladder=NONE)
    ladder, parts, seen = (given.get(name, NONE) for name in ("ladder", "parts", "parts.seen"))
    scores, count = store.scores.shape[1], len(ladder)
    fits = ladder.ndim == parts.ndim == 2 and seen.ndim == 1 and count in [1 << k for k in range(8)]
    fits = fits and ladder.dtype == parts.dtype == np.float64 and seen.dtype == np.int64
    fits = fits and ladder.shape[1] == DEALT + 1 and parts.shape == (len(seen), count * scores)
    fits = fits and bool((np.diff(seen, prepend=-1) > 0).all())
    fits = fits and bool(((ladder[:, DEALT] >= 0.0) & (ladder[:, DEALT] < 2.0**53)).all())
    features = capacity(count, scores, dimension) if fits and len(store.record) else 0
    fits = fits and (len(seen) == 0 or seen[-1] < features)
    require(fits, "state", "parts", "must be sums over groups of rows", "use another copy of the file")
    every = zeros((features, parts.shape[1]))
    every[seen] = parts
    return store._replace(parts=every, ladder=np.array(ladder))
