"""One model: its two loops agree in every combination of parts, in any split of rows, and at the ends of float32."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from giftrl import losses, schedules, updates
from giftrl.compiled.compiler import ready
from giftrl.errors import Incompatible, Overflowed
from giftrl.kernels import LinearLearner, LinearLearners
from giftrl.kernels.loop_row_copy import learn_row_copies
from giftrl.ops import brings
from giftrl.ops.line import Affine, solve
from giftrl.ops.loss import infimum, slope, value
from giftrl.regularizers import AdaGrad, ElasticNet
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


def curved(dimension, update, schedule):
    return LinearLearner(dimension, "hinge", "curvature", update, schedule, compiled=False)


@pytest.mark.parametrize("dimension", [3, 9])
def test_a_step_is_measured_by_the_strength_with_which_it_was_made(dimension):
    """The first strength is 1e-20, the next one about 1e24."""
    learner = curved(dimension, "linear", schedules.AdaGradNorm(1.0, 1e-20))
    with pytest.raises(Overflowed):
        learner.learn(np.ones((1, dimension)), [1.0], [1e24])
    assert np.isfinite(learner.x).all() and learner.sound


@pytest.mark.parametrize("dimension", [3, 9])
def test_a_strength_below_float32(dimension):
    learner = curved(dimension, "linear", schedules.Constant(1e42))
    assert learner.learn(np.ones((3, dimension)), np.ones(3), np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert not learner.x.any()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_features_whose_squares_vanish_in_float32(kind):
    """One row: the margin becomes 1, whatever the size of the features."""
    learner = curved(9, "proximal", schedules.Constant(1e47))
    learner.learn(kind(np.full((1, 9), 1e-23)), [1.0])
    np.testing.assert_allclose(learner.x, 1e23 / 9.0, rtol=1e-5)


def test_a_model_that_has_overflowed_predicts_from_the_first_row_on():
    settings = [("linear", "constant")]
    learner = LinearLearners(3, settings, "squared", ElasticNet(0.1, 0.0, AdaGrad()), compiled=False)
    x, y = np.random.default_rng(1).normal(size=(4, 3)), np.ones(4)
    learner.learn(x, y, np.array([1.0, 1.0, 1e300, 1.0]))
    assert learner.loss_sums.tolist() == [np.inf]
    found = [learner.learn(x, y).tolist() for _ in range(2)]
    assert found[0] == found[1] == [[p] for p in (x @ learner.x[:, 0]).tolist()]


@pytest.mark.parametrize("loss", [loss for loss in members("loss") if brings(loss, "infimum")], ids=repr)
@given(data=st.data(), p=st.floats(-9.0, 9.0), away=st.floats(-1.0, 1.0), c=st.floats(0.0, 20.0))
def test_the_short_way_of_the_truncated_update_is_its_own(loss, data, p, away, c):
    y, line = data.draw(label_strategy(loss, 5.0)), Affine(p + away, c)
    model = Truncation(p, value(loss, p, y), slope(loss, p, y), infimum(loss, y))
    assert truncated_slope(loss, y, p, line) == pytest.approx(solve(line, model, y), rel=1e-9, abs=1e-9)
