"""Loops for losses of K scores (:mod:`giftrl.ops.vector_loss`): K columns of weights, one loss, one certificate.

theta is a matrix with a row for each feature and a column for each class; norms are those of its entries. The strength
L_j of a feature is the same in all columns, so that z = a s^T moves the scores by c a with one number
c = sum_j s_j^2/L_j, and the step is the loss's own K-vector problem. What is stored of a feature:

    one strength for all     theta_1..theta_K                    x = theta/L
    not centred              theta_1..theta_K, q                 x = theta/L
    centred                  x_1..x_K, theta_1..theta_K, q

q accumulates what the K columns of a round share: norm2(z_j) and h sigma s_j^2, sigma I not below the Hessian of the
loss. An L1 term would need a walk over the row for each score, and is left out.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses, schedules, updates
from giftrl.certificates import Certificate
from giftrl.compiled import door
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Rows, as_rows, begin, column, end, longest
from giftrl.errors import Incompatible, require
from giftrl.kernels.choices import AnyUpdate, encode_schedule, encode_update
from giftrl.kernels.engine import Engine, overflowed
from giftrl.kernels.scalars import ENERGY, LAM, THETA2, TIME, TOTAL, WALKED
from giftrl.kernels.step import account
from giftrl.kernels.uniform import next_lambda
from giftrl.ops.vector_loss import (
    conjugate,
    curvature,
    flow,
    multiclass,
    objective,
    prox,
    slope,
    truncated,
    two_step,
    value,
)
from giftrl.regularizers.contract import accumulate, centred, strength, uses_curvature
from giftrl.schedules.contract import evidence, known_ahead, lam, uses_gamma

__all__ = ["MulticlassLearner", "learn_multiclass_coordinate", "learn_multiclass_uniform"]

Array = NDArray[np.float64]

#: Rows of the room in which a round works, K numbers each: scores, scores of the line, slope, choice, and two more.
P, START, SLOPE, CHOICE, WORK, SUMS, ROOM = 0, 1, 2, 3, 4, 5, 6


@formula(fast=True)
def energy(start: Any, c: float, a: Any) -> float:
    """The psi* part of H."""
    total = 0.0
    for k in range(len(a)):
        total += a[k] * (0.5 * c * a[k] - start[k])
    return total


@formula(fast=True)
def keep_better(loss: Any, start: Any, y: int, c: float, a: Any, other: Any) -> None:
    """Replace a by the other unless it has the smaller H; an infinite or undefined H loses."""
    if not objective(loss, start, y, c, a) < objective(loss, start, y, c, other):
        for k in range(len(a)):
            a[k] = other[k]


@formula(fast=True)
def choose_scores(loss: Any, code: int, y: int, h: float, c: float, r: Any) -> tuple[float, float, float]:
    """The choice a for the scores and the line in r, into r: phi(p), phi*(a) and (H(g) - H(a))/h."""
    p, start, g, a, work = r[P], r[START], r[SLOPE], r[CHOICE], r[WORK]
    phi = value(loss, p, y)
    if h == 0.0:
        for k in range(len(p)):
            a[k] = 0.0
        return phi, 0.0, 0.0
    slope(loss, p, y, g)
    at_g, away = -phi, False  # phi*(g), since g is the slope at p
    for k in range(len(p)):
        at_g += g[k] * p[k]
        away |= p[k] != start[k]
    if code == 0:
        for k in range(len(p)):
            a[k] = g[k]
    elif code == 1:
        prox(loss, start, y, c, a)
    elif code == 4:
        truncated(loss, p, y, start, c, a)
    elif code == 5:
        flow(loss, start, y, c, a)
        if away:
            keep_better(loss, start, y, c, a, g)
    else:
        two_step(loss, p, y, start, c, a)
        if code == 3:
            truncated(loss, p, y, start, c, work)
            keep_better(loss, start, y, c, a, work)
    same = True
    for k in range(len(p)):
        same &= a[k] == g[k]
    if same:
        return phi, at_g, 0.0
    phi_star = conjugate(loss, a, y)
    return phi, phi_star, energy(start, c, g) + at_g - energy(start, c, a) - phi_star


@formula(fast=True)
def weigh(h: float, r: Any) -> tuple[float, bool]:
    """Let the choice be h a, z = (h a) s^T; norm2(h a)^2, and whether all of it is finite."""
    squares, finite = 0.0, True
    for k in range(r.shape[1]):
        r[CHOICE, k] *= h
        squares += r[CHOICE, k] * r[CHOICE, k]
        finite &= abs(r[CHOICE, k]) < math.inf
    return squares, finite


@formula(fast=True)
def count_theta(theta: Any, state: Any, entries: float) -> None:
    """Count norm2(theta)^2 anew once in a while: what is stored is rounded, and what is added up drifts."""
    state[0, WALKED] += entries
    if state[0, WALKED] >= 64.0 * theta.shape[0]:
        total = 0.0
        for j in range(theta.shape[0]):
            for k in range(theta.shape[1]):
                total += np.float64(theta[j, k]) * np.float64(theta[j, k])
        state[0, THETA2] = total
        state[0, WALKED] = 0.0


@formula(fast=True)
def learn_multiclass_uniform(
    loss: Any, psi: Any, code: int, ahead: bool, schedule: Any, rows: Any, labels: Any, weights: Any,
    theta: Any, state: Any, predictions: Any,
) -> int:  # fmt: skip
    """One strength for all features: predict, account, learn, row by row; how many rows before one that overflows."""
    classes = np.uint64(theta.shape[1])
    r = np.zeros((ROOM, theta.shape[1]))
    for i in range(len(labels)):
        h, y, n2 = weights[i] if len(weights) > 0 else 1.0, labels[i], 0.0
        for m in range(classes):
            r[SUMS, m] = 0.0
        for k in range(begin(rows, i), end(rows, i)):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            n2 += s * s
            for m in range(classes):
                r[SUMS, m] += s * np.float64(theta[j, m])
        now = strength(psi, state[0, LAM], 0.0)
        next_lam = next_lambda(schedule, state, 0, 0.0) if known_ahead(schedule) else state[0, LAM]
        used = strength(psi, next_lam, 0.0) if ahead else now
        for m in range(classes):
            predictions[i, m] = r[P, m] = r[SUMS, m] / now
            r[START, m] = r[SUMS, m] / used
        phi, phi_star, delta = choose_scores(loss, code, y, h, min(h * n2 / used, 1.7e308), r)
        squares, finite = weigh(h, r)
        if not finite:
            return i
        if not known_ahead(schedule):
            next_lam = next_lambda(schedule, state, 0, squares * n2)
        after = strength(psi, next_lam, 0.0)
        along = 0.0
        for m in range(classes):
            along += r[CHOICE, m] * r[SUMS, m]
            r[WORK, m] = (r[SUMS, m] - r[CHOICE, m] * n2) / after
        gamma = 0.0
        if uses_gamma(schedule):
            # X_{t+1} - X_t = theta (1/L_{t+1} - 1/L_t) - z/L_{t+1}
            shrink = 1.0 / after - 1.0 / now
            moved2 = shrink * (shrink * state[0, THETA2] - 2.0 * along / after) + squares * n2 / (after * after)
            gamma = h * (phi - value(loss, r[WORK], y)) - 0.5 * now * moved2
        state[0, TOTAL] += evidence(schedule, gamma, squares * n2)
        state[0, THETA2] += squares * n2 - 2.0 * along
        account(state, 0, h, phi, phi_star, delta, state[0, THETA2], next_lam)
        for k in range(begin(rows, i), end(rows, i)):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            for m in range(classes):
                theta[j, m] = np.float64(theta[j, m]) - r[CHOICE, m] * s
        count_theta(theta, state, float(end(rows, i) - begin(rows, i)))
    return len(labels)


@formula(fast=True)
def learn_multiclass_coordinate(
    loss: Any, psi: Any, code: int, ahead: bool, schedule: Any, rows: Any, labels: Any, weights: Any,
    coordinates: Any, state: Any, predictions: Any,
) -> int:  # fmt: skip
    """A strength for each feature; as :func:`learn_multiclass_uniform`, and as :mod:`giftrl.kernels.coordinate`."""
    classes = np.uint64(predictions.shape[1])
    memory = np.uint64(coordinates.shape[1] - 1)
    first_theta = classes if centred(psi) else classes - classes
    r = np.zeros((ROOM, predictions.shape[1]))
    steps = np.empty(longest(rows))
    for i in range(len(labels)):
        h, y, lam_now = weights[i] if len(weights) > 0 else 1.0, labels[i], state[0, LAM]
        first, last = begin(rows, i), end(rows, i)
        n2, c = 0.0, 0.0
        for m in range(classes):
            r[SUMS, m] = 0.0
        for k in range(first, last):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            step = s / strength(psi, lam_now, np.float64(coordinates[j, memory]))
            steps[k - first] = step
            c += s * step
            n2 += s * s
            scale = s if centred(psi) else step
            for m in range(classes):
                r[SUMS, m] += scale * np.float64(coordinates[j, m])
        for m in range(classes):
            predictions[i, m] = r[P, m] = r[START, m] = r[SUMS, m]
        phi, phi_star, delta = choose_scores(loss, code, y, h, min(h * c, 1.7e308), r)
        squares, finite = weigh(h, r)
        if not finite:
            return i
        # The scores to which the choice leads under psi_t: what a centred psi keeps, and where its curvature is taken.
        for m in range(classes):
            r[WORK, m] = r[P, m] - r[CHOICE, m] * c
        bend = h * curvature(loss, r[WORK], y) if uses_curvature(psi) else 0.0
        gamma = 0.0
        if centred(psi) and uses_gamma(schedule):
            gamma = h * (phi - value(loss, r[WORK], y)) - 0.5 * squares * c
        total = state[0, TOTAL]
        if not known_ahead(schedule):
            total += evidence(schedule, gamma, squares * n2)
        next_lam = lam(schedule, int(state[0, TIME]) + 1, total)

        walk = not centred(psi) and uses_gamma(schedule)
        length, stored, moved, before2, after2 = math.sqrt(squares), 0.0, 0.0, 0.0, 0.0
        for m in range(classes):
            r[WORK, m] = 0.0
        for k in range(first, last):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            q = np.float64(coordinates[j, memory])
            coordinates[j, memory] = accumulate(psi, q, length * abs(s), bend * s * s)
            q_new = np.float64(coordinates[j, memory])
            big_l, after = strength(psi, lam_now, q), strength(psi, next_lam, q_new)
            per_before, per_after = 1.0 / strength(psi, 1.0, q), 1.0 / strength(psi, 1.0, q_new)
            for m in range(classes):
                if centred(psi):
                    coordinates[j, m] = np.float64(coordinates[j, m]) - r[CHOICE, m] * steps[k - first]
                old = np.float64(coordinates[j, first_theta + m])
                coordinates[j, first_theta + m] = old - r[CHOICE, m] * s
                new = np.float64(coordinates[j, first_theta + m])
                stored += new * new
                if walk:
                    x_new = new / after
                    move = x_new - old / big_l
                    moved += 0.5 * big_l * move * move
                    r[WORK, m] += s * x_new
                    before2 += old * old * per_before
                    after2 += new * new * per_after
        if walk:
            shrink = 1.0 - lam_now / next_lam
            moved += 0.5 * shrink * shrink * max(0.0, state[0, ENERGY] - before2) / lam_now
            gamma = h * (phi - value(loss, r[WORK], y)) - moved
            state[0, ENERGY] += after2 - before2
        state[0, TOTAL] += evidence(schedule, gamma, squares * n2)
        account(state, 0, h, phi, phi_star, delta, stored, next_lam)
    return len(labels)


class MulticlassLearner(Engine):
    """Generalized implicit FTRL for K linear models with one loss of their K scores, compiled.

    Args:
        dimension: the number of features.
        classes: K, at least 2.
        loss: a loss of K scores or its name: ``"softmax"``, ``"multiclass_hinge"``.
        regularizer: a diagonal one without an L1 term, or its name; its strengths are shared by the classes.
        update: a built-in update or its name.
        schedule: a member of :mod:`giftrl.schedules` or its name.
        dtype: float32 or float64, how coordinates are stored.
        compiled: False runs the same functions as plain Python.

    >>> learner = MulticlassLearner(2, 3, "softmax", compiled=False)
    >>> learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 2, 0]).round(4).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.1853, -0.4041, 0.2188]]
    >>> learner.certificate.theta.shape
    (6,)
    """

    def __init__(
        self,
        dimension: int,
        classes: int,
        loss: Any = "softmax",
        regularizer: Any = "squared_norm",
        update: Any = "proximal",
        schedule: Any = "temporal",
        *,
        dtype: Any = "float32",
        compiled: bool = True,
    ) -> None:
        super().__init__(dimension, losses.MULTICLASS.member(loss, "slope"), regularizer, dtype, compiled)
        require(
            isinstance(classes, (int, np.integer)) and classes >= 2,
            "classes", classes, "must be a whole number of at least 2", "give the number of classes",
        )  # fmt: skip
        self.classes = int(classes)
        if not multiclass(self.loss):
            raise Incompatible(
                f"{self.loss!r} is a loss of one prediction, and each class has a score here; use Softmax or "
                "MulticlassHinge, or LinearLearners for one class against the rest"
            )
        self.update = updates.BY_NAME.member(update, "pick")
        self.schedule = schedules.BY_NAME.member(schedule, "lam")
        encoded = encode_update(self.update)
        if not isinstance(encoded, AnyUpdate):
            raise Incompatible(f"a loss of K scores takes a built-in update, and {self.update!r} is not one")
        self._code = encoded.code
        self.lookahead = self._check(self.update, self.schedule)
        extra = 0 if self.uniform else 1 + self.classes * centred(self.regularizer)
        self.coordinates = np.zeros((self.dimension, self.classes + extra), self.dtype)
        self.states = self._start([self.schedule])

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Learn from a batch, row by row, and return the scores, each made before its label was used.

        Args:
            x: a SciPy sparse matrix or array, or a matrix of numbers, one example a row.
            y: the classes, from 0 to K - 1.
            weights: the importance of each example, 1 where left out.
        """
        rows, n = as_rows(x, self.dimension)
        found = np.asarray(y)
        require(found.shape == (n,), "y", y, f"must have shape {(n,)}, a class for each row", f"it has {found.shape}")
        labels = np.zeros(n, np.int64)
        whole = found.dtype.kind in "iuf" and bool(((found >= 0) & (found < self.classes)).all())
        if whole:
            labels[:] = found
        rule = f"must be whole numbers from 0 to {self.classes - 1}"
        require(whole and bool((labels == found).all()), "y", y, rule, "number your classes")
        return self.learn_rows(rows, labels, self._weights(weights, n))

    def learn_rows(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """:meth:`learn` without a check of its arguments, as :meth:`giftrl.kernels.LinearLearner.learn_rows`."""
        predictions = np.empty((len(y), self.classes))
        loop = door.ready(learn_multiclass_uniform if self.uniform else learn_multiclass_coordinate, self.compiled)
        learnt = loop(
            self.loss, self.regularizer, self._code, self.lookahead, encode_schedule(self.schedule),
            rows, y.astype(np.int64), weights, self.coordinates, self.states, predictions,
        )  # fmt: skip
        if learnt < len(y):
            raise overflowed(int(learnt))
        return predictions

    @property
    def x(self) -> Array:
        """The point x_t, a column for each class."""
        stored = self.coordinates[:, : self.classes].astype(np.float64)
        if not self.uniform and centred(self.regularizer):
            return stored
        q = 0.0 if self.uniform else self.coordinates[:, -1:].astype(np.float64)
        return np.asarray(stored / strength(self.regularizer, float(self.states[0, LAM]), q))

    @property
    def theta(self) -> Array:
        """theta_t, a column for each class."""
        first = self.classes if not self.uniform and centred(self.regularizer) else 0
        return self.coordinates[:, first : first + self.classes].astype(np.float64)

    @property
    def lam(self) -> float:
        """lambda_t."""
        return float(self.states[0, LAM])

    @property
    def t(self) -> int:
        """The number of the round that comes next, from 1."""
        return int(self.states[0, TIME])

    @property
    def theta_norm(self) -> float:
        """norm2(theta_t) of its entries."""
        return float(np.linalg.norm(self.theta))

    @property
    def certificate(self) -> Certificate:
        """What the run so far proves about itself; a comparator is a matrix like x, flattened row by row."""
        return self._certificate(self.states[0], self.theta.reshape(-1))
