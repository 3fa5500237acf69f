"""Many models in one pass: each is the single model with its parts, whatever is beside it."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from giftrl import losses, schedules, updates
from giftrl.errors import Incompatible, Overflowed
from giftrl.kernels import LinearLearner, LinearLearners
from giftrl.ops import brings
from giftrl.regularizers import AdaGrad, Centred, ElasticNet
from tests.members import DIMENSION, members
from tests.streams import stream

DIAGONAL = [r for r in members("regularizer") if brings(r, "strength")]
#: Without those that many models in one pass refuse.


def grid(loss, regularizer):
    """Every update and look-ahead, each with one schedule at three betas; the schedules take turns."""
    every = members("schedule")
    wanted = [(update._replace(lookahead=ahead), k) for k, update in enumerate(members("update")) for ahead in (1, 0)]
    found = []
    for update, k in wanted:
        for beta in (0.2, 1.0, 5.0):
            schedule = every[k % len(every)]._replace(beta=beta)
            try:
                LinearLearner(DIMENSION, loss, regularizer, update, schedule)
            except Incompatible:
                continue
            found.append((update, schedule))
    return found


@pytest.mark.sample(16)
@pytest.mark.parametrize("regularizer", DIAGONAL, ids=repr)
@pytest.mark.parametrize("loss", members("loss"), ids=repr)
def test_every_model_of_a_grid_is_the_single_one(loss, regularizer):
    """Plain Python, with weights of which some are 0, in two batches, with labels for all or for each."""
    settings = grid(loss, regularizer)
    examples = stream(loss, 8, seed=3, scale=0.3)
    x, y, weights = np.array([e.s for e in examples]), np.array([e.y for e in examples]), np.ones(8)
    weights[[2, 5]] = 0.0, 3.0
    options = {"dtype": "float64", "compiled": False}
    many = LinearLearners(DIMENSION, settings, loss, regularizer, **options)
    labels = np.tile(y[:, None], len(settings))
    predictions = np.vstack([many.learn(x[:3], y[:3], weights[:3]), many.learn(x[3:], labels[3:], weights[3:])])
    compared = 0
    for m, (update, schedule) in enumerate(settings):
        one = LinearLearner(DIMENSION, loss, regularizer, update, schedule, **options)
        try:
            expected = one.learn(x, y, weights)
        except Overflowed:
            assert many.loss_sums[m] == np.inf
            continue
        compared += 1
        size = 1.0 + np.abs(expected).max()
        np.testing.assert_allclose(predictions[:, m], expected, atol=1e-9 * size)
        np.testing.assert_allclose(many.x[:, m], one.x, atol=1e-9 * (1.0 + np.abs(one.x).max()))
        ours, theirs = many.certificates[m], one.certificate
        assert ours.loss_sum == pytest.approx(theirs.loss_sum, rel=1e-9)
        assert ours.bound_sum == pytest.approx(theirs.bound_sum, rel=1e-7, abs=1e-7 * (1.0 + theirs.loss_sum))
        np.testing.assert_allclose(ours.theta, theirs.theta, atol=1e-9 * (1.0 + np.abs(theirs.theta).max()))
    assert compared >= 0.8 * len(settings)


def rows(n=80, d=30, seed=0):
    rng = np.random.default_rng(seed)
    x = sp.random_array((n, d), density=0.2, rng=rng, data_sampler=rng.standard_normal, format="csr")
    return x.astype(np.float32), np.where(x @ rng.normal(size=d) > 0.0, 1.0, -1.0), rng.uniform(0.0, 2.0, n)


def betas(models):
    return [("truncated", schedules.TemporalVariability(beta)) for beta in np.logspace(-1, 1, models).tolist()]


VERIFY = pytest.mark.verify


@pytest.mark.parametrize(
    ("regularizer", "models"),
    [("curvature", 5), pytest.param("squared_norm", 5, marks=VERIFY), pytest.param("curvature", 17, marks=VERIFY)],
)
def test_compiled_float32_models_are_those_of_plain_python(regularizer, models):
    """Five models are in eight lanes, and seventeen in sixteen and four."""
    x, y, weights = rows()
    grid = betas(models)
    if regularizer == "curvature":
        grid = [(updates.Truncated(False), schedule) for _, schedule in grid]
    plain, compiled = (LinearLearners(30, grid, "logistic", regularizer, compiled=each) for each in (False, True))
    one = LinearLearner(30, "logistic", regularizer, *grid[-1], compiled=False)
    predictions = compiled.learn(x, y, weights)
    np.testing.assert_allclose(predictions, plain.learn(x, y, weights), atol=1e-5)
    np.testing.assert_allclose(predictions[:, -1], one.learn(x, y, weights), atol=1e-5)
    np.testing.assert_allclose(compiled.x, plain.x, atol=1e-5)
    np.testing.assert_allclose(compiled.states, plain.states, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("regularizer", ["squared_norm", "curvature", Centred(AdaGrad()), AdaGrad()], ids=repr)
@pytest.mark.parametrize("size", [1e-20, 1e12, 1e30])
def test_features_of_any_size(regularizer, size):
    """float32 coordinates, where s_j/L_j or a square may leave float32: one of many learns what a single model does."""
    x, y, _ = rows()
    x = x.astype(np.float64) * size
    update, beta = updates.Proximal(False), size**-2.0
    settings = [(update, schedules.Constant(beta * factor)) for factor in (0.3, 1.0)]
    many = LinearLearners(30, settings, "hinge", regularizer, compiled=False)
    predictions = many.learn(x, y)
    for m, setting in enumerate(settings):
        one = LinearLearner(30, "hinge", regularizer, *setting, compiled=False)
        try:
            np.testing.assert_allclose(predictions[:, m], one.learn(x, y), rtol=1e-3, atol=1e-4)
        except Overflowed:
            assert many.loss_sums[m] == np.inf and size > 1e20  # its square is beyond float32


@pytest.mark.parametrize("regularizer", ["squared_norm", "curvature"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_model_that_overflows_leaves_the_one_beside_it_alone(regularizer, dtype):
    x = np.array([[1e3, 0.0], [0.0, 1.0]] * 20)
    y = np.full(len(x), 50.0)
    update = updates.Linear(lookahead=False)
    wild, calm = (update, schedules.Constant(1e3)), (update, schedules.Constant(1e-9))
    options = {"dtype": dtype, "compiled": False}
    many = LinearLearners(2, [wild, calm, wild], "poisson", regularizer, **options)
    predictions = many.learn(x, y)
    one = LinearLearner(2, "poisson", regularizer, *calm, **options)
    np.testing.assert_allclose(predictions[:, 1], one.learn(x, y), rtol=1e-6)
    assert np.isfinite(predictions[:, 1]).all() and np.isfinite(many.x[:, 1]).all()
    assert many.loss_sums[[0, 2]].tolist() == [np.inf, np.inf] and np.isfinite(many.loss_sums[1])
    assert not many.sound and many.rounds < len(x)
    with pytest.raises(Overflowed):
        LinearLearner(2, "poisson", regularizer, *wild, **options).learn(x, y)


MIXED = [*betas(5), ("proximal", "sqrt"), *betas(2), ("proximal", "constant"), ("linear", "sqrt")]


@pytest.mark.parametrize(
    "regularizer", ["squared_norm", "curvature", ElasticNet(0.01, base=Centred(AdaGrad()))], ids=repr
)
def test_states_pickles_and_growth_go_on_with_the_same_bits(regularizer):
    x, y, weights = rows()
    settings = MIXED
    if regularizer != "squared_norm":
        settings = [(updates.BY_NAME.make(update, lookahead=False), schedule) for update, schedule in MIXED]
    options = {"dtype": "float32", "compiled": False}
    whole = LinearLearners(30, settings, "logistic", regularizer, **options)
    whole.learn(x[:40], y[:40], weights[:40])
    assert whole.coordinates.shape[:2] == (30, len(settings))
    restored = LinearLearners(30, settings, "logistic", regularizer, **options)
    restored.restore(whole.state())
    pickled = pickle.loads(pickle.dumps(whole))
    np.testing.assert_array_equal(whole.weights_of([3, 1]), whole.x[[3, 1]])
    grown = LinearLearners(20, settings, "logistic", regularizer, **options)
    grown.grow(30)
    grown.learn(x[:40], y[:40], weights[:40])
    expected = whole.learn(x[40:], y[40:], weights[40:])
    for other in (restored, pickled, grown):
        np.testing.assert_array_equal(other.learn(x[40:], y[40:], weights[40:]), expected)
        np.testing.assert_array_equal(other.coordinates, whole.coordinates)
        assert [c.bound_sum for c in other.certificates] == [c.bound_sum for c in whole.certificates]


def test_lanes_of_features_begin_with_cache_lines():
    """And there are no more lanes than twice the models, or four."""
    for models in (3, 5, 9, 16, 17, 40):
        many = LinearLearners(7, betas(models), losses.Logistic(), compiled=False)
        lanes = [group.coordinates.shape[1] for group in many.groups]
        assert models <= sum(lanes) <= max(4, 2 * models)
        assert all(group.coordinates.ctypes.data % 64 == 0 for group in many.groups)
