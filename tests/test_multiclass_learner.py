"""K linear models with one loss: against a slow twin with whole matrices, and one step against CVXPY."""

from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from giftrl import errors, regularizers, schedules, updates
from giftrl.kernels.multiclass_learner import MulticlassLearner
from giftrl.losses import Logistic, MulticlassHinge, Softmax
from giftrl.ops import vector_loss
from giftrl.ops.line import solve
from giftrl.ops.loss import slope
from giftrl.regularizers.contract import accumulate, centred, known_ahead, strength, uses_curvature
from giftrl.schedules import contract
from tests.members import Thirds


class Halfway(NamedTuple):
    """An update of the user's own: half-way between the linear and the proximal choice."""

    lookahead: bool | None = None

    def pick(self, loss, y, p, line):
        return 0.5 * (slope(loss, p, y) + solve(line, loss, y))

    def pick_scores(self, loss, problem, out, work):
        vector_loss.prox(loss, problem.start, problem.y, problem.c, out)
        for k in range(len(out)):
            out[k] = 0.5 * (problem.g[k] + out[k])


class OneScoreOnly(NamedTuple):
    """An update of the user's own without a rule for K scores."""

    def pick(self, loss, y, p, line):
        return slope(loss, p, y)


LOSSES = [Softmax(), MulticlassHinge()]
REGULARIZERS = [
    regularizers.SquaredNorm(),
    regularizers.AdaGrad(0.5),
    regularizers.Centred(regularizers.AdaGrad(2.0)),
    regularizers.Centred(),
    regularizers.Curvature(),
]
UPDATES = ["linear", "proximal", "twostep", "truncated", "iwa", updates.TwoStep(None, True), Halfway()]
SCHEDULES = [
    Thirds(0.5),
    schedules.Constant(0.5),
    schedules.SquareRoot(2.0),
    schedules.TemporalVariability(2.0),
    "adagrad_norm",
]


class Twin:
    """psi_t(X) = sum_j L_j norm2(X_j)^2 / 2 - <tilt, X>, with every matrix written out."""

    def __init__(self, dimension, classes, loss, regularizer, update, schedule):
        self.loss, self.regularizer = loss, regularizer
        self.update = updates.BY_NAME.member(update, "pick")
        self.schedule = schedules.BY_NAME.member(schedule, "lam")
        self.theta, self.tilt = np.zeros((2, dimension, classes))
        self.q, self.total, self.t = np.zeros(dimension), 0.0, 1
        self.lam = contract.lam(self.schedule, 1, 0.0)
        self.strengths = self.strong(self.lam, self.q)
        self.ahead = known_ahead(regularizer) and contract.known_ahead(self.schedule)
        self.sums = np.zeros(3)

    def strong(self, lam, q):
        return np.broadcast_to(strength(self.regularizer, lam, q), q.shape).astype(float)

    def point(self, theta, strengths):
        return (theta + self.tilt) / strengths[:, None]

    def conjugate(self, theta, strengths):
        return 0.5 * float(np.sum((theta + self.tilt) ** 2 / strengths[:, None]))

    def pick(self, p, start, c, y):
        loss, a = self.loss, np.empty(len(p))
        name = type(self.update).__name__
        loss.slope(p, y, a)
        if name == "Proximal":
            loss.prox(start, y, c, a)
        elif name == "Truncated":
            a = self.truncated(p, a, start, c, y)
        elif name == "ImportanceAware":
            loss.flow(start, y, c, a)
        elif name == "TwoStep":
            loss.slope(start - c * a, y, a)
        elif name == "Halfway":
            loss.prox(start, y, c, other := np.empty(len(p)))
            a = 0.5 * (a + other)
        return a

    def truncated(self, p, g, start, c, y):
        gap = self.loss.value(p, y) + float(g @ (start - p)) - self.loss.infimum(y)
        return g * min(1.0, max(0.0, gap) / max(c * float(g @ g), 1e-300))

    def learn(self, s, y, h):
        loss = self.loss
        x = self.point(self.theta, self.strengths)
        p, g = s @ x, np.empty(x.shape[1])
        loss.slope(p, y, g)
        used = self.strengths
        if self.ahead:
            used = self.strong(contract.lam(self.schedule, self.t + 1, self.total), self.q)
        start, c = s @ self.point(self.theta, used), h * float(np.sum(s * s / used))

        def objective(a):
            z = h * np.outer(s, a)
            return self.conjugate(self.theta - z, used) - self.conjugate(self.theta, used) + h * loss.conjugate(a, y)

        a = self.pick(p, start, c, y)
        if type(self.update).__name__ == "ImportanceAware" and self.ahead and not objective(a) <= objective(g):
            a = g
        if getattr(self.update, "safeguard", False):
            other = self.truncated(p, g, start, c, y)
            a = a if objective(a) < objective(other) else other
        z = h * np.outer(s, a)
        self.sums += h * loss.value(p, y), h * loss.conjugate(a, y), objective(g) - objective(a)
        theta = self.theta - z
        led = self.point(theta, self.strengths)  # the point to which z leads under psi_t
        sigma = h * vector_loss.curvature(loss, s @ led, y) * s * s if uses_curvature(self.regularizer) else 0.0 * s
        q = np.broadcast_to(accumulate(self.regularizer, self.q, np.linalg.norm(z, axis=1), sigma), self.q.shape)

        def gamma(after):
            return h * (loss.value(p, y) - loss.value(s @ after, y)) - 0.5 * float(
                np.sum(self.strengths[:, None] * (after - x) ** 2)
            )

        total = self.total
        if not contract.known_ahead(self.schedule):
            total += contract.evidence(self.schedule, 0.0, float(np.sum(z * z)))
        lam = contract.lam(self.schedule, self.t + 1, total)
        strengths = self.strong(lam, q)
        if centred(self.regularizer):
            self.tilt = self.tilt + (strengths - self.strengths)[:, None] * led
        self.total += contract.evidence(self.schedule, gamma(self.point(theta, strengths)), float(np.sum(z * z)))
        self.theta, self.strengths, self.q, self.lam, self.t = theta, strengths, q, lam, self.t + 1
        return p


def stream(seed, n=25, dimension=6, classes=4):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, dimension)) * (random.random((n, dimension)) < 0.6) * 10.0 ** random.integers(-1, 2)
    y = random.integers(0, classes, n)
    return x, y, random.choice([0.5, 1.0, 3.0], n)


def compare(learner, twin, seed):
    x, y, h = stream(seed)
    scores = learner.learn(x, y, h)
    expected = np.array([twin.learn(*row) for row in zip(x, y, h, strict=True)])
    assert_allclose(scores, expected, rtol=1e-8, atol=1e-10)
    assert_allclose(learner.x, twin.point(twin.theta, twin.strengths), rtol=1e-8, atol=1e-10)
    assert_allclose(learner.theta, twin.theta, rtol=1e-8, atol=1e-10)
    found = learner.certificate
    assert_allclose([found.loss_sum, found.conjugate_sum, found.delta_sum], twin.sums, rtol=1e-8, atol=1e-8)


@settings(max_examples=60)
@given(
    st.sampled_from(LOSSES), st.sampled_from(REGULARIZERS), st.sampled_from(UPDATES), st.sampled_from(SCHEDULES),
    st.integers(0, 10**6),
)  # fmt: skip
def test_the_loop_is_its_slow_twin(loss, regularizer, update, schedule, seed):
    parts = (6, 4, loss, regularizer, update, schedule)
    compare(MulticlassLearner(*parts, dtype="float64", compiled=False), Twin(*parts), seed)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("regularizer", "update"),
    [
        (regularizers.SquaredNorm(), "proximal"),
        (regularizers.SquaredNorm(), Halfway()),
        (regularizers.Curvature(), "proximal"),
        (regularizers.Curvature(), "iwa"),
    ],
)
def test_the_compiled_loop_is_its_slow_twin(regularizer, update):
    parts = (6, 4, Softmax(), regularizer, update, "temporal")
    compare(MulticlassLearner(*parts, dtype="float64"), Twin(*parts), 1)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", [regularizers.SquaredNorm(), regularizers.Curvature()])
def test_a_proximal_step_is_that_of_cvxpy(loss, regularizer):
    """x_{t+1} = argmin of h phi(X^T s; y) + psi(X) - <theta, X>, psi being that of a constant schedule."""
    x, y, h = stream(3)
    parts = (6, 4, loss, regularizer, "proximal", schedules.Constant(0.5))
    learner, twin = MulticlassLearner(*parts, dtype="float64", compiled=False), Twin(*parts)
    for row in zip(x[:-1], y[:-1], h[:-1], strict=True):
        twin.learn(*row)
    learner.learn(x[:-1], y[:-1], h[:-1])
    s, label = x[-1], int(y[-1])
    point = cp.Variable((6, 4))
    scores = point.T @ s
    others = [k for k in range(4) if k != label]
    if isinstance(loss, Softmax):
        phi = cp.log_sum_exp(scores) - scores[label]
    else:
        phi = cp.pos(1 + cp.max(scores[others]) - scores[label])
    psi = cp.sum(cp.multiply(np.repeat(twin.strengths[:, None], 4, axis=1) / 2, cp.square(point)))
    linear = cp.sum(cp.multiply(twin.theta + twin.tilt, point))
    problem = cp.Problem(cp.Minimize(h[-1] * phi + psi - linear))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    learner.learn(x[-1:], y[-1:], h[-1:])
    assert_allclose(learner.x, point.value, atol=1e-5)


@settings(max_examples=30)
@given(st.sampled_from(LOSSES), st.sampled_from(REGULARIZERS), st.sampled_from(UPDATES), st.integers(0, 10**6))
def test_no_matrix_beats_the_certificate(loss, regularizer, update, seed):
    x, y, h = stream(seed)
    learner = MulticlassLearner(6, 4, loss, regularizer, update, "temporal", compiled=False)
    learner.learn(x, y, h)
    found = learner.certificate
    random = np.random.default_rng(seed)
    for u in (learner.x, np.zeros((6, 4)), random.normal(size=(6, 4))):
        losses = [weight * loss.value(s @ u, label) for s, label, weight in zip(x, y, h, strict=True)]
        regret = found.loss_sum - sum(losses)
        assert regret <= found.regret_bound(u.reshape(-1)) + 1e-6 * max(1.0, found.loss_sum)
    if not (isinstance(learner.update, updates.TwoStep) and not learner.update.safeguard):
        assert found.delta_sum >= -1e-9 * max(1.0, found.loss_sum)


def test_two_classes_of_softmax_are_logistic_regression_of_the_difference():
    """A step of length c moves both scores; logistic regression at twice the scale moves their difference as much."""
    from giftrl.kernels import LinearLearner

    x, y, h = stream(5, classes=2)
    softmax = MulticlassLearner(6, 2, Softmax(), schedule=schedules.Constant(0.5), dtype="float64", compiled=False)
    logistic = LinearLearner(6, "logistic", schedule=schedules.Constant(1.0), dtype="float64", compiled=False)
    scores = softmax.learn(x, y, h)
    assert_allclose(scores[:, 1] - scores[:, 0], logistic.learn(x, 2.0 * y - 1.0, h), rtol=1e-7, atol=1e-9)


def test_sparse_and_dense_rows_and_batches_of_any_size_are_the_same():
    x, y, h = stream(7)
    whole = MulticlassLearner(6, 4, Softmax(), "curvature", schedule="constant", compiled=False)
    scores = whole.learn(x, y, h)
    pieces = MulticlassLearner(6, 4, Softmax(), "curvature", schedule="constant", compiled=False)
    found = [pieces.learn(sparse.csr_array(x[i : i + 4]), y[i : i + 4], h[i : i + 4]) for i in range(0, len(y), 4)]
    assert_allclose(np.vstack(found), scores, rtol=1e-12)
    assert pieces.t == whole.t == len(y) + 1


def test_parts_that_do_not_go_together_say_so():
    with pytest.raises(errors.Incompatible, match="L1"):
        MulticlassLearner(2, 3, Softmax(), regularizers.ElasticNet())
    with pytest.raises(errors.Incompatible, match="loss of one prediction"):
        MulticlassLearner(2, 3, Logistic())
    with pytest.raises(errors.Incompatible, match="not known in time"):
        MulticlassLearner(2, 3, Softmax(), "curvature", updates.Proximal(True), "constant")
    with pytest.raises(errors.Incompatible, match=r"OneScoreOnly has no rule .* add pick_scores\(.*\) to OneScoreOnly"):
        MulticlassLearner(2, 3, Softmax(), update=OneScoreOnly())
    with pytest.raises(errors.InvalidInput, match="classes=1"):
        MulticlassLearner(2, 1, Softmax())
    learner = MulticlassLearner(2, 3, Softmax(), compiled=False)
    for bad in ([3], [-1], [0.5], ["a"], [float("nan")], [0, 1]):
        with pytest.raises(errors.InvalidInput, match="y="):
            learner.learn([[1.0, 2.0]], bad)
    assert learner.t == 1
