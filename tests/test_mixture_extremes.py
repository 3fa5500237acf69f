"""Extremes: any finite input is learnt from, without NaN, and what comes after it is learnt too."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl import losses
from giftrl.ops.loss import value
from tests.fuzz_mixtures import assert_certified, check
from tests.members import is_classification, is_count, label_for
from tests.mixtures import LOSSES, Stream, assert_sound, mixture, ordinary

pytestmark = pytest.mark.sample(2)

DEFAULTS = [each() for each in losses.BY_NAME.values()]
each_loss = pytest.mark.parametrize("loss", DEFAULTS, ids=repr)
each_type = pytest.mark.parametrize("dtype", ["float32", "float64"])
REAL = [loss for loss in DEFAULTS if not is_classification(loss)]
some = settings(max_examples=max(5, settings.default.max_examples // 6))


def run(loss, x, y, weights=None, **options):
    """Learn a stream, labels as the loss has them, and look at everything."""
    stream = Stream(np.asarray(x, float), np.array([label_for(loss, t) for t in y]), weights)
    learner = mixture(loss, stream.x.shape[1], **options)
    predictions = learner.learn(*stream)
    assert_sound(learner, stream, predictions)
    assert_certified(learner, stream, predictions)
    return learner, predictions


def with_constant(*columns):
    return np.column_stack([*columns, np.ones(len(columns[0]))])


def normal(rows, seed=0):
    return np.random.default_rng(seed).normal(size=rows)


# ---------------------------------------------------------------------------------------------------------- features

SIZES = [5e-324, 1e-310, 1e-300, 1e-100, 1e-38, 1e38, 1e100, 1e300, np.finfo(float).max / 8.0]
FEATURES = {
    "constant": lambda n: np.full(n, 3.0),
    "zero": lambda n: np.zeros(n),
    "first row empty": lambda n: np.where(np.arange(n) > 0, normal(n), 0.0),
    "only in the last row": lambda n: np.where(np.arange(n) == n - 1, 1e100, 0.0),
    "sizes mixed": lambda n: np.resize(SIZES, n) * normal(n),
    "growing": lambda n: np.geomspace(1e-300, 1e300, n),
    "shrinking": lambda n: np.geomspace(1e300, 1e-300, n),
    "growing by 1e4": lambda n: 10.0 ** (-180.0 + 4.0 * np.arange(n)),
    "outliers first": lambda n: np.where(np.arange(n) < 10, 1e12, 1.0) * normal(n),
    "largest": lambda n: np.resize([1.0, -1.0, 0.0], n) * np.finfo(float).max,
    "nearly constant": lambda n: 1e8 + 1e-8 * np.resize([0.0, 1.0, 2.0], n),
    "duplicated": lambda n: np.repeat(normal(n)[: n // 10 + 1], 10)[:n],
} | {f"of size {size:g}": lambda n, size=size: size * normal(n) for size in SIZES}


@pytest.mark.sample(5)
@each_loss
@each_type
@pytest.mark.parametrize("kind", FEATURES)
def test_features(loss, dtype, kind):
    n = 12
    run(loss, with_constant(FEATURES[kind](n), normal(n, 1)), normal(n, 2), dtype=dtype)


@each_loss
@each_type
def test_all_kinds_of_features_at_once(loss, dtype):
    run(loss, with_constant(*(kind(12) for kind in FEATURES.values())), normal(12), dtype=dtype)


@each_type
@pytest.mark.parametrize("loss", ["logistic", "squared", "absolute"])
def test_a_thousand_rows_of_zeros(loss, dtype):
    loss = losses.get(loss)
    learner, _ = run(loss, np.zeros((1000, 3)), normal(1000), dtype=dtype)
    assert np.all(learner.features.record[:, 0] == 0.0)
    found = learner.learn(*ordinary(loss, 50, 2))
    assert np.isfinite(found).all() and np.any(learner.x != 0.0)


# ------------------------------------------------------------------------------------------------------------- labels

LABELS = {
    "one": lambda n: np.full(n, 2.5),
    "zero": lambda n: np.zeros(n),
    "one, then another": lambda n: np.where(np.arange(n) < n - 2, 2.5, -7.0),
    "the third is the running mean": lambda n: np.resize([87.0, 97.0, 92.0], n),
    "the running mean, exactly": lambda n: np.array([0.0, 2.0, 1.0, 1.0, 1.0, 3.0] + [8.0 / 6.0] * (n - 6)),
    "nearly one": lambda n: 1e8 + 1e-8 * normal(n),
    "outliers first": lambda n: np.where(np.arange(n) < 10, 1e12, 1.0) * normal(n),
    "sizes mixed": lambda n: np.resize(SIZES, n) * normal(n),
    "growing": lambda n: np.geomspace(1e-300, 1e300, n),
    "shrinking": lambda n: np.geomspace(1e300, 1e-300, n),
    "largest": lambda n: np.resize([1.0, -1.0, 0.0], n) * np.finfo(float).max,
    "zero, then largest": lambda n: np.where(np.arange(n) == 1, np.finfo(float).max, 0.0),
} | {f"of size {size:g}": lambda n, size=size: size * normal(n) for size in SIZES}


@pytest.mark.sample(5)
@pytest.mark.parametrize("loss", REAL, ids=repr)
@each_type
@pytest.mark.parametrize("kind", LABELS)
def test_labels(loss, dtype, kind):
    n = 12
    _, found = run(loss, with_constant(normal(n, 1), np.resize([0.0, 5.0], n)), LABELS[kind](n), dtype=dtype)
    if kind in ("one", "zero") and not is_count(loss):
        assert np.all(found[1:] == (2.5 if kind == "one" else 0.0))


@each_loss
@each_type
def test_one_class(loss, dtype):
    for label in (-1.0, 1.0):
        _, found = run(loss, with_constant(normal(40)), np.full(40, label), dtype=dtype)
        if is_classification(loss):
            assert np.all(label * found[5:] > 0.0)


# ------------------------------------------------------------------------------------------------------------ weights

WEIGHTS = {
    "tiny": lambda n: np.full(n, 1e-300),
    "huge": lambda n: np.full(n, 1e300),
    "mixed": lambda n: 10.0 ** (300.0 * np.sin(np.arange(n))),
    "falling": lambda n: np.geomspace(1e300, 1e-300, n),
    "rising": lambda n: np.geomspace(1e-300, 1e300, n),
    "one of many": lambda n: np.where(np.arange(n) == 7, 1e300, 1.0),
    "none": lambda n: np.zeros(n),
    "the first is 0": lambda n: np.minimum(np.arange(n), 1.0),
    "denormal": lambda n: np.full(n, 5e-324),
    "largest": lambda n: np.full(n, np.finfo(float).max),
}


@pytest.mark.sample(5)
@each_loss
@each_type
@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights(loss, dtype, kind):
    n = 12
    x = with_constant(np.where(np.arange(n) % 7 > 0, normal(n, 1), 0.0), 3.0 + normal(n, 2))
    learner, found = run(loss, x, normal(n, 3), WEIGHTS[kind](n), dtype=dtype)
    if kind == "none":
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

numbers = st.one_of(
    st.floats(-2.0, 2.0),
    st.sampled_from([0.0, 0.0, 1.0, -1.0, 1e12, 1e-12, 1e150, 1e160, -1e-160, 1e300, -1e300, 1e-300, 5e-324]),
    st.floats(allow_nan=False, allow_infinity=False),
)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@some
@given(st.data())
def test_any_finite_stream(loss, data):
    n, d = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    x = np.array(data.draw(st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=n, max_size=n)))
    y = data.draw(st.lists(numbers, min_size=n, max_size=n))
    weights = None
    if data.draw(st.booleans()):
        weights = np.abs(data.draw(st.lists(numbers, min_size=n, max_size=n)))
    run(loss, with_constant(*x.T), y, weights, dtype=data.draw(st.sampled_from(["float32", "float64"])))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
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
