"""One model: its two loops agree in every combination of parts, in any split of rows, and at the ends of float32."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from giftrl import losses, schedules, updates
from giftrl.compiled.compiler import ready
from giftrl.errors import Incompatible, InvalidInput, Overflowed
from giftrl.kernels import LinearLearner
from giftrl.kernels.loop_row_copy import learn_row_copies
from giftrl.ops import brings
from giftrl.ops.line import Affine, solve
from giftrl.ops.loss import infimum, slope, value
from giftrl.updates.truncated import Truncation, truncated_slope
from tests.loss_laws import each_loss
from tests.members import label_for, label_strategy, members

REGULARIZERS = ["squared_norm", "curvature"]


def stream(loss, n=12, d=11, seed=0, dtype=np.float64):
    """Dense rows with a row of zeros, labels, and weights of which one is 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    x[3 % n] = 0.0
    weights = rng.uniform(0.2, 2.0, n)
    weights[n // 2] = 0.0
    return x.astype(dtype), np.array([label_for(loss, target) for target in rng.normal(size=n)]), weights


def shown(learner):
    """What a run shows."""
    c = learner.certificate
    return np.concatenate([learner.theta, learner.x, [learner.lam, c.loss_sum, c.conjugate_sum, c.delta_sum]])


class Exact(LinearLearner):
    """The slow twin: every row goes through the loop that finds the exact row that leaves the range."""

    def _run(self, parts, batch):
        x = self.coordinates.reshape(self.dimension, -1)
        return ready(learn_row_copies, False)(parts.value, batch, x, self.states)


@pytest.mark.parametrize("regularizer", REGULARIZERS)
@each_loss
def test_both_loops_agree_in_every_combination(loss, regularizer):
    """The result is compared with Learner elsewhere."""
    # A truncated step ends on the corner of the squared hinge, where rounding decides on its curvature.
    corner = isinstance(loss, losses.SquaredHinge) and regularizer == "curvature"
    compared = 0
    for seed, update in enumerate(members("update")):
        if corner and not isinstance(update, updates.Linear | updates.Proximal):
            continue
        for schedule in members("schedule"):
            x, y, weights = stream(loss, seed=seed)
            try:
                parts = (11, loss, regularizer, update, schedule)
                fast, exact = (kind(*parts, dtype="float64", compiled=False) for kind in (LinearLearner, Exact))
            except Incompatible:
                continue
            try:
                expected = exact.learn(x, y, weights)
            except Overflowed:
                continue
            np.testing.assert_allclose(fast.learn(sp.csr_array(x), y, weights), expected, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(shown(fast), shown(exact), rtol=1e-9, atol=1e-10)
            compared += 1
    assert compared >= (5 if corner else 15)


@pytest.mark.plain
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("d", [8, 13, 40])
def test_any_split_of_dense_rows_is_bit_identical(regularizer, d):
    x, y, weights = stream(losses.Logistic(), n=70, d=d, dtype=np.float32)
    whole = LinearLearner(d, "logistic", regularizer)
    together = whole.learn(x, y, weights)
    for cuts in ([1, 2, 3], [8, 16], [35], list(range(0, 70, 9))):
        parts = LinearLearner(d, "logistic", regularizer)
        bounds = [0, *cuts, len(y)]
        pieces = [parts.learn(x[a:b], y[a:b], weights[a:b]) for a, b in pairwise(bounds)]
        np.testing.assert_array_equal(np.concatenate(pieces), together)
        np.testing.assert_array_equal(shown(parts), shown(whole))


@pytest.mark.plain
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_a_bound_of_the_rounding_of_theta_holds(regularizer, dtype):
    """z = g of the linear update follows from the predictions, so theta is known without rounding."""
    x, y, weights = stream(losses.Logistic(), n=300, d=21, dtype=dtype)
    learner = LinearLearner(21, "logistic", regularizer, updates.Linear(), schedules.Constant(1.0))
    p = learner.learn(x, y, weights)
    g = np.array([slope(losses.Logistic(), *each) for each in zip(p, y, strict=True)])
    error = np.linalg.norm(learner.theta + (weights * g) @ x.astype(np.float64))
    assert 0.0 < error <= learner.certificate.theta_error < 0.01 * np.linalg.norm(learner.theta)


@pytest.mark.plain
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_dense_row_that_is_not_finite_changes_nothing(regularizer, bad):
    x, y, _ = stream(losses.Logistic(), n=40, d=9)
    learner = LinearLearner(9, "logistic", regularizer)
    learner.learn(x, y)
    before = shown(learner)
    x[30, 4] = bad
    with pytest.raises(InvalidInput, match="must be finite, and row 30 is not"):
        learner.learn(x, y)
    np.testing.assert_array_equal(shown(learner), before)
    assert learner.t == 41


@pytest.mark.plain
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_rows_before_one_that_overflows_are_learnt(regularizer, kind):
    x, y, _ = stream(losses.Squared(), n=30, d=9)
    x[20] *= 1e35
    learner, before = (LinearLearner(9, "squared", regularizer, "linear", schedules.Constant(0.05)) for _ in range(2))
    with pytest.raises(Overflowed, match="row 2[01] leaves") as problem:
        learner.learn(kind(x), y)
    before.learn(kind(x[: problem.value.row]), y[: problem.value.row])
    assert learner.t == before.t == problem.value.row + 1
    np.testing.assert_allclose(shown(learner), shown(before), rtol=1e-5, atol=1e-6)


@pytest.mark.plain
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize(("scale", "beta"), [(1e-16, 1e32), (1e25, 1.0), (1e32, 1.0)])
def test_features_near_the_ends_of_float32(regularizer, scale, beta):
    """The loop for ordinary rows leaves these to the exact one."""
    x, y, _ = stream(losses.Logistic(), n=25, d=9)
    schedule = schedules.TemporalVariability(beta)
    dense, sparse, precise = (
        LinearLearner(9, "logistic", regularizer, schedule=schedule, dtype=t) for t in ("f4", "f4", "f8")
    )
    expected = precise.learn(scale * x, y)
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(dense.learn(scale * x, y), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(sparse.learn(sp.csr_array(scale * x), y), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loss", [loss for loss in members("loss") if brings(loss, "infimum")], ids=repr)
@given(data=st.data(), p=st.floats(-9.0, 9.0), away=st.floats(-1.0, 1.0), c=st.floats(0.0, 20.0))
def test_the_short_way_of_the_truncated_update_is_its_own(loss, data, p, away, c):
    y, line = data.draw(label_strategy(loss, 5.0)), Affine(p + away, c)
    model = Truncation(p, value(loss, p, y), slope(loss, p, y), infimum(loss, y))
    assert truncated_slope(loss, y, p, line) == pytest.approx(solve(line, model, y), rel=1e-9, abs=1e-9)
