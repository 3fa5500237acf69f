"""The multiclass learner: K linear models with one loss of K scores (:mod:`giftrl.ops.vector_loss`), and its loops.

theta is a matrix with a row for each feature and a column for each class; norms are those of its entries. The strength
L_j of a feature is the same in all columns, so that z = s a^T moves the scores by c a with one number
c = sum_j s_j^2/L_j, and the step is the loss's own K-vector problem. What is stored of a feature:

    one strength for all     theta_1..theta_K                    x = theta/L
    not centred              theta_1..theta_K, q                 x = theta/L
    centred                  x_1..x_K, theta_1..theta_K, q

q accumulates norm2(z_j) and h sigma s_j^2, shared by the K columns; sigma I is an upper bound on the Hessian of the
loss. L1 terms are not supported, since they would need a traversal of the row per score.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import begin, column, end, longest
from giftrl.errors import require_whole
from giftrl.kernels import scalar_round as by
from giftrl.kernels.base import Array, LabeledRows, loss_of_scores, weight
from giftrl.kernels.one_model import OneLearner
from giftrl.ops.vector_loss import conjugate, curvature, slope, value
from giftrl.regularizers.contract import accumulate, centred, strength, uses_curvature
from giftrl.schedules.contract import evidence, known_ahead, uses_gamma
from giftrl.system import zeros
from giftrl.updates.contract import ScoreProblem, pick_scores

#: Rows of a round's scratch array, K numbers each: scores, scores of the line, slope, choice, and two more.
P, START, SLOPE, CHOICE, WORK, SUMS, ROWS = 0, 1, 2, 3, 4, 5, 6


class ChosenScores(NamedTuple):
    """The scalars of a round's choice, per unit of weight."""

    phi: float  # phi(p)
    phi_star: float  # phi*(a)
    delta: float  # (H(g) - H(a)) / h


@formula(fast=True)
def energy(start: Any, c: float, a: Any) -> float:
    """The psi* part of H."""
    total = 0.0
    for k in range(len(a)):
        total += a[k] * (0.5 * c * a[k] - start[k])
    return total


@formula(fast=True)
def choose_scores(parts: by.Parts, y: int, h: float, c: float, r: Any) -> ChosenScores:
    """Choose a, into r, for the scores and the line in r."""
    loss, p, start, g, a = parts.loss, r[P], r[START], r[SLOPE], r[CHOICE]
    phi = value(loss, p, y)
    if h == 0.0:
        for k in range(len(p)):
            a[k] = 0.0
        return ChosenScores(phi, 0.0, 0.0)
    slope(loss, p, y, g)
    at_g = -phi  # phi*(g), since g is the slope at p
    for k in range(len(p)):
        at_g += g[k] * p[k]
    pick_scores(parts.update, loss, ScoreProblem(y, p, g, start, c), a, r[WORK])
    same = True
    for k in range(len(p)):
        same &= a[k] == g[k]
    if same:
        return ChosenScores(phi, at_g, 0.0)
    phi_star = conjugate(loss, a, y)
    return ChosenScores(phi, phi_star, energy(start, c, g) + at_g - energy(start, c, a) - phi_star)


@formula(fast=True)
def weigh(h: float, r: Any) -> tuple[float, bool]:
    """Multiply the choice by h, z = s (h a)^T; return norm2(h a)^2, and True if all of it is finite."""
    squares, finite = 0.0, True
    for k in range(r.shape[1]):
        r[CHOICE, k] *= h
        squares += r[CHOICE, k] * r[CHOICE, k]
        finite &= abs(r[CHOICE, k]) < math.inf
    return squares, finite


@formula(fast=True)
def learn_multiclass_uniform(parts: by.Parts, batch: LabeledRows, theta: Any, state: Any) -> int:
    """Learn with one strength for all features; return the number of rows before one that overflows."""
    loss, psi, schedule = parts.loss, parts.psi, parts.schedule
    rows, labels, weights, predictions = batch
    classes = np.uint64(theta.shape[1])
    r = np.zeros((ROWS, theta.shape[1]))
    for i in range(len(labels)):
        h, y, n2 = weight(weights, i), labels[i, 0], 0.0
        for m in range(classes):
            r[SUMS, m] = 0.0
        for k in range(begin(rows, i), end(rows, i)):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            n2 += s * s
            for m in range(classes):
                r[SUMS, m] += s * np.float64(theta[j, m])
        now = strength(psi, state[0, by.LAM], 0.0)
        next_lam = by.next_lambda(schedule, state, 0.0, 0.0) if known_ahead(schedule) else state[0, by.LAM]
        used = strength(psi, next_lam, 0.0) if parts.ahead else now
        for m in range(classes):
            predictions[i, m] = r[P, m] = r[SUMS, m] / now
            r[START, m] = r[SUMS, m] / used
        chosen = choose_scores(parts, y, h, min(h * n2 / used, by.LONGEST_STEP), r)
        squares, finite = weigh(h, r)
        if not finite:
            return i
        if not known_ahead(schedule):
            next_lam = by.next_lambda(schedule, state, 0.0, squares * n2)
        after = strength(psi, next_lam, 0.0)
        along = 0.0
        for m in range(classes):
            along += r[CHOICE, m] * r[SUMS, m]
            r[WORK, m] = (r[SUMS, m] - r[CHOICE, m] * n2) / after
        gamma = 0.0
        if uses_gamma(schedule):
            # X_{t+1} - X_t = theta (1/L_{t+1} - 1/L_t) - z/L_{t+1}
            shrink = 1.0 / after - 1.0 / now
            moved2 = shrink * (shrink * state[0, by.THETA2] - 2.0 * along / after) + squares * n2 / (after * after)
            gamma = h * (chosen.phi - value(loss, r[WORK], y)) - 0.5 * now * moved2
        state[0, by.TOTAL] += evidence(schedule, gamma, squares * n2)
        state[0, by.THETA2] += squares * n2 - 2.0 * along
        by.account(state, h, chosen, state[0, by.THETA2], next_lam)
        beyond = 0.0
        for k in range(begin(rows, i), end(rows, i)):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            for m in range(classes):
                theta[j, m] = np.float64(theta[j, m]) - r[CHOICE, m] * s
                beyond += 0.0 * np.float64(theta[j, m])  # NaN if theta overflows its stored type
        if not state[0, by.ROUNDING] + beyond < math.inf:
            return i
        state[0, by.WALKED] += float(end(rows, i) - begin(rows, i))
        if by.recount_due(state[0, by.WALKED], theta.shape[0]):
            state[0, by.WALKED] = 0.0
            total = 0.0
            for j in range(theta.shape[0]):
                for k in range(theta.shape[1]):
                    total += np.float64(theta[j, k]) * np.float64(theta[j, k])
            state[0, by.THETA2] = total
    return len(labels)


@formula(fast=True)
def learn_multiclass_coordinate(parts: by.Parts, batch: LabeledRows, coordinates: Any, state: Any) -> int:
    """Learn with a strength for each feature; return the number of rows before one that overflows."""
    loss, psi, schedule = parts.loss, parts.psi, parts.schedule
    rows, labels, weights, predictions = batch
    classes = np.uint64(predictions.shape[1])
    memory = np.uint64(coordinates.shape[1] - 1)
    first_theta = classes if centred(psi) else classes - classes
    r = np.zeros((ROWS, predictions.shape[1]))
    steps = np.empty(longest(rows))
    for i in range(len(labels)):
        h, y, lam_now = weight(weights, i), labels[i, 0], state[0, by.LAM]
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
        chosen = choose_scores(parts, y, h, min(h * c, by.LONGEST_STEP), r)
        squares, finite = weigh(h, r)
        if not finite:
            return i
        # The scores after the step under psi_t, where a centred psi takes its curvature.
        for m in range(classes):
            r[WORK, m] = r[P, m] - r[CHOICE, m] * c
        bend = h * curvature(loss, r[WORK], y) if uses_curvature(psi) else 0.0
        gamma = 0.0
        if centred(psi) and uses_gamma(schedule):
            gamma = h * (chosen.phi - value(loss, r[WORK], y)) - 0.5 * squares * c
        next_lam = by.next_lambda(schedule, state, gamma, squares * n2)

        walk = not centred(psi) and uses_gamma(schedule)
        length, stored, beyond, moved, before2, after2 = math.sqrt(squares), 0.0, 0.0, 0.0, 0.0, 0.0
        for m in range(classes):
            r[WORK, m] = 0.0
        for k in range(first, last):
            j, s = column(rows, i, k), np.float64(rows.data[k])
            q = np.float64(coordinates[j, memory])
            coordinates[j, memory] = accumulate(psi, q, length * abs(s), bend * s * s)
            q_new = np.float64(coordinates[j, memory])
            beyond += 0.0 * q_new  # NaN if a number overflows its stored type
            big_l, after = strength(psi, lam_now, q), strength(psi, next_lam, q_new)
            per_before, per_after = 1.0 / strength(psi, 1.0, q), 1.0 / strength(psi, 1.0, q_new)
            for m in range(classes):
                if centred(psi):
                    coordinates[j, m] = np.float64(coordinates[j, m]) - r[CHOICE, m] * steps[k - first]
                    beyond += 0.0 * np.float64(coordinates[j, m])
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
            moved += by.moved_elsewhere(lam_now, next_lam, state[0, by.ENERGY] - before2)
            gamma = h * (chosen.phi - value(loss, r[WORK], y)) - moved
            state[0, by.ENERGY] += after2 - before2
        state[0, by.TOTAL] += evidence(schedule, gamma, squares * n2)
        by.account(state, h, chosen, stored, next_lam)
        if not state[0, by.ROUNDING] + beyond < math.inf:
            return i
    return len(labels)


# The multiclass learner.


class MulticlassLearner(OneLearner):
    """Generalized implicit FTRL for K linear models with one loss of their K scores, compiled.

    Args:
        dimension: the number of features.
        classes: K, at least 2.
        loss: a loss of K scores or its name: ``"softmax"``, ``"multiclass_hinge"``.
        regularizer: a diagonal one without an L1 term, or its name; its strengths are shared by the classes.
        update: a member of :mod:`giftrl.updates` or its name, or one of your own that brings ``pick_scores``.
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
        self, dimension: int, classes: int, loss: Any = "softmax", regularizer: Any = "squared_norm",
        update: Any = "proximal", schedule: Any = "temporal", *, dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dimension, loss_of_scores(loss), regularizer, update, schedule, dtype, compiled)
        self.classes: int = require_whole("classes", classes, 2, "give the number of classes")
        extra = 0 if self.uniform else 1 + self.classes * centred(self.regularizer)
        beside = self._beside(self.classes)
        self.coordinates = zeros((self.dimension, self.classes + extra), self.dtype, beside=beside)

    def _run(self, parts: Any, batch: Any) -> int:
        loop = learn_multiclass_uniform if self.uniform else learn_multiclass_coordinate
        return int(ready(loop, self.compiled)(parts, batch, self.coordinates, self.states))

    def weights_of(self, features: Any) -> Array:
        chosen = self.coordinates[features]
        stored: Array = chosen[:, : self.classes].astype(np.float64)
        if not self.uniform and centred(self.regularizer):
            return stored
        q = 0.0 if self.uniform else chosen[:, -1:].astype(np.float64)
        return np.asarray(stored / strength(self.regularizer, self.lam, q))

    @property
    def theta(self) -> Array:
        """theta_t, a column for each class."""
        first = self.classes if not self.uniform and centred(self.regularizer) else 0
        theta: Array = self.coordinates[:, first : first + self.classes].astype(np.float64)
        return theta
