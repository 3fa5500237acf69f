"""Extremes: any finite input is learnt from, without NaN, and what comes after it is learnt too."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl import losses
from giftrl.mixtures import MixtureLearner
from giftrl.ops.loss import value
from giftrl.ops.vector_loss import multiclass
from tests.fuzz_mixtures import assert_certified, check
from tests.members import is_classification, is_count, label_for
from tests.mixtures import (
    EVERY,
    FEATURES,
    LABELS,
    WEIGHTS,
    Stream,
    assert_sound,
    label,
    mixture,
    ordinary,
)

pytestmark = pytest.mark.sample(2)

DEFAULTS = [each() for each in losses.EVERY.values()]
each_loss = pytest.mark.parametrize("loss", DEFAULTS, ids=repr)
each_type = pytest.mark.parametrize("dtype", ["float32", "float64"])
REAL = [loss for loss in DEFAULTS if not multiclass(loss) and not is_classification(loss)]
some = settings(max_examples=max(5, settings.default.max_examples // 6))


def run(loss, x, y, weights=None, **options):
    """Learn a stream, labels as the loss has them, and look at everything."""
    stream = Stream(np.asarray(x, float), np.array([label(loss, t) for t in y]), weights)
    learner = mixture(loss, stream.x.shape[1], **options)
    predictions = learner.learn(*stream)
    assert_sound(learner, stream, predictions)
    assert_certified(learner, stream, predictions)
    return learner, predictions


def with_constant(*columns):
    return np.column_stack([*columns, np.ones(len(columns[0]))])


def normal(rows, seed=0):
    return np.random.default_rng(seed).normal(size=rows)


# ----------------------------------------------------------------------------------- features, labels and weights


@pytest.mark.sample(5)
@each_loss
@each_type
@pytest.mark.parametrize("kind", FEATURES)
def test_features(loss, dtype, kind):
    n = 12
    column = FEATURES[kind](np.random.default_rng(0), n)
    run(loss, with_constant(column, normal(n, 1)), normal(n, 2), dtype=dtype)


@each_type
@pytest.mark.parametrize("loss", ["logistic", "squared", "absolute", "softmax"])
def test_a_thousand_rows_of_zeros(loss, dtype):
    loss = losses.get(loss)
    learner, _ = run(loss, np.zeros((1000, 3)), normal(1000), dtype=dtype)
    assert np.all(learner.features.record[:, 0] == 0.0)
    found = learner.learn(*ordinary(loss, 50, 2))
    assert np.isfinite(found).all() and np.any(learner.x != 0.0)


@pytest.mark.sample(5)
@pytest.mark.parametrize("loss", REAL, ids=repr)
@each_type
@pytest.mark.parametrize("kind", LABELS)
def test_labels(loss, dtype, kind):
    n = 12
    y = LABELS[kind](np.random.default_rng(0), n)
    _, found = run(loss, with_constant(normal(n, 1), np.resize([0.0, 5.0], n)), y, dtype=dtype)
    if kind in ("one number", "zero") and not is_count(loss):
        assert np.all(found[1:] == y[0])


@each_loss
@each_type
def test_one_class(loss, dtype):
    for y in (-1.0, 1.0):
        _, found = run(loss, with_constant(normal(40)), np.full(40, y), dtype=dtype)
        if multiclass(loss):
            assert np.all(found[5:].argmax(axis=1) == label(loss, y))
        elif is_classification(loss):
            assert np.all(y * found[5:] > 0.0)


@pytest.mark.sample(5)
@each_loss
@each_type
@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights(loss, dtype, kind):
    n = 12
    x = with_constant(np.where(np.arange(n) % 7 > 0, normal(n, 1), 0.0), 3.0 + normal(n, 2))
    learner, found = run(loss, x, normal(n, 3), WEIGHTS[kind](np.random.default_rng(0), n), dtype=dtype)
    if kind == "zero":
        assert learner.rounds == 0 and learner.loss_sums[0] == 0.0 and not np.any(found)


# ---------------------------------------------------------------------------------------------------- what comes after


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "squared", "absolute", "huber"])
@each_type
@pytest.mark.parametrize("where", ["features", "labels"])
def test_after_ten_outliers_the_rest_is_no_worse_than_a_constant(loss, dtype, where):
    """1e12 in ten rows. A feature is then in units of 1e12; labels are forgotten at the rate of their mean."""
    loss, rng = losses.get(loss), np.random.default_rng(3)
    n = 400
    x = with_constant(rng.normal(size=n), rng.normal(size=n))
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * rng.normal(size=n)
    if where == "features":
        x[:10, :2] *= 1e12
    else:
        y[:10] *= -1.0 if is_classification(loss) else 1e12
    y = np.array([label_for(loss, t) for t in y])
    p = mixture(loss, 3, dtype=dtype).learn(x, y)
    late = slice(n // 2, None)
    if where == "labels" and not is_classification(loss):
        assert np.abs(p[late] - y[late]).mean() < 0.01 * np.abs(y[:10]).mean()
        return
    paid = np.mean([value(loss, float(a), float(b)) for a, b in zip(p[late], y[late], strict=True)])
    best = min(np.mean([value(loss, c, float(b)) for b in y[late]]) for c in np.linspace(-1.0, 1.0, 21))
    assert paid < 1.2 * best


# ----------------------------------------------------------------------------------------------------------- searches


@pytest.mark.parametrize("loss", EVERY, ids=repr)
@some
@given(seed=st.integers(0, 2**32), dtype=st.sampled_from(["float32", "float64"]), light=st.booleans())
def test_hostile_streams(loss, seed, dtype, light):
    check(loss, seed, dtype=dtype, preset="light" if light else "default")


@pytest.mark.verify
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_hostile_streams_compiled(loss):
    """The loops that the tests of equality have compiled; ``python -m tests.fuzz_mixtures`` goes on."""
    for seed in range(300):
        check(losses.get(loss), seed, compiled=True)


def test_the_running_mean_of_absolute_losses():
    """87, 97, 92: the third label is the mean of the first two, so that a mean residual can be 0."""
    _, found = run(losses.Absolute(), np.ones((6, 1)), [87.0, 97.0, 92.0, 92.0, 92.0, 92.0])
    assert found[0] == 0.0 and found[1] == 87.0 and np.all((found[1:] >= 87.0) & (found[1:] <= 97.0))
    assert math.isclose(found[-1], 92.0, abs_tol=2.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_counts_that_are_wrong_do_not_lead_beyond_the_list_of_dense_features(dtype):
    rng = np.random.default_rng(2)
    x = sp.random_array((60, 300), density=5 / 300, rng=rng, format="csr")
    learner = MixtureLearner(300, "logistic", constant=299, dtype=dtype, compiled=False)
    learner.learn(x[:10], np.ones(10))
    state = {name: array.copy() for name, array in learner.state().items()}
    state["features.x"][:, int(learner.places.count)] = 1e9
    learner.restore(state)
    assert np.isfinite(learner.learn(x, np.ones(60))).all()
    assert learner.features.counts[2] <= len(learner.features.dense)
