"""What units and origins of features and labels may not change, and in which order of magnitude they do not."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from giftrl import losses
from tests.mixtures import mixture, ordinary

pytestmark = pytest.mark.sample(2)

each_loss = pytest.mark.parametrize("loss", [each() for each in losses.EVERY.values()], ids=repr)
each_type = pytest.mark.parametrize("dtype", ["float32", "float64"])
SCALED = [losses.Squared(), losses.Absolute(), losses.Quantile(0.5), losses.Quantile(0.9)]
REAL = [*SCALED, losses.Huber(), losses.EpsilonInsensitive()]


def learn(loss, x, y, **options):
    return mixture(loss, x.shape[1], **options).learn(x, y)


# ---------------------------------------------------------------------------------------------------------- features


@each_loss
@each_type
def test_units_of_features_do_not_matter(loss, dtype):
    stream = ordinary(loss, 60, 4, seed=1)
    before = learn(loss, stream.x, stream.y, dtype=dtype)
    for j, power in ((0, 6), (1, -6), (2, 6), (2, -6), (3, -6)):
        x = stream.x.copy()
        x[:, j] *= 10.0**power
        found, off = learn(loss, x, stream.y, dtype=dtype), 1e-6 if dtype == "float64" else 1e-4  # v/m is rounded too
        assert_allclose(found, before, rtol=off, atol=off * np.abs(before).max())


@each_loss
@each_type
def test_powers_of_two_change_no_bit(loss, dtype):
    stream = ordinary(loss, 40, 5, seed=2)
    units = 2.0 ** np.random.default_rng(0).integers(-300, 300, 6)
    units[-1] = 1.0
    assert np.array_equal(learn(loss, stream.x * units, stream.y, dtype=dtype), learn(loss, *stream[:2], dtype=dtype))


@each_loss
def test_the_order_and_the_sign_of_features_do_not_matter(loss):
    stream = ordinary(loss, 40, 5, seed=3)
    before = learn(loss, *stream[:2])
    order = [3, 1, 4, 0, 2, 5]
    for x in (stream.x[:, order], stream.x * [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0]):
        assert_allclose(learn(loss, x, stream.y), before, rtol=1e-8, atol=1e-8 * np.abs(before).max())


def progressive(loss, x, y, **options):
    learner = mixture(loss, x.shape[1], **options)
    learner.learn(x, y)
    return float(learner.loss_sums[0])


@pytest.mark.parametrize(
    "loss", ["logistic", "hinge", "squared", "absolute", "squared_hinge", "quantile", "huber", "softmax"]
)
def test_origins_of_dense_features_hardly_matter(loss):
    """A thousand times the spread; the first row alone knows no mean."""
    loss = losses.get(loss)
    stream = ordinary(loss, 250, 3, seed=4)
    for j, sign, dtype in ((0, 1e3, "float32"), (2, -1e3, "float64")):
        x = stream.x.copy()
        x[:, j] += sign * x[:, j].std()
        before = progressive(loss, *stream[:2], dtype=dtype)
        assert progressive(loss, x, stream.y, dtype=dtype) == pytest.approx(before, rel=0.01)


# ------------------------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("loss", SCALED, ids=repr)
@each_type
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_units_of_labels_do_not_matter(loss, dtype, unit):
    stream = ordinary(loss, 60, 4, seed=5)
    before = learn(loss, *stream[:2], dtype=dtype)
    after = learn(loss, stream.x, unit * stream.y, dtype=dtype)
    assert_allclose(after, unit * before, rtol=1e-6, atol=1e-6 * unit * np.abs(before).max())


@pytest.mark.parametrize("loss", REAL, ids=repr)
@each_type
@pytest.mark.parametrize("origin", [-100.0, 1e4])
def test_origins_of_labels_do_not_matter(loss, dtype, origin):
    """The first prediction is always 0."""
    stream = ordinary(loss, 60, 4, seed=6)
    before = learn(loss, *stream[:2], dtype=dtype)
    after = learn(loss, stream.x, stream.y + origin, dtype=dtype)
    assert_allclose(after[1:], before[1:] + origin, atol=1e-6 * np.abs(before).max())


@pytest.mark.parametrize(
    "loss", [losses.Logistic(), losses.Hinge(), losses.SquaredHinge(), losses.Absolute()], ids=repr
)
def test_the_names_of_two_classes_do_not_matter(loss):
    """Labels with the other sign give predictions with the other sign."""
    stream = ordinary(loss, 60, 5, seed=7)
    assert_allclose(learn(loss, stream.x, -stream.y), -learn(loss, stream.x, stream.y), rtol=1e-12)


# ---------------------------------------------------------------------------------------------------------- real data


def read(name):
    """Features with the constant, and labels; skips where there is no data."""
    from sklearn.datasets import load_svmlight_file

    folder = os.environ.get("GIFTRL_DATA")
    if not folder or not (Path(folder) / f"{name}.gz").exists():
        pytest.skip(f"set GIFTRL_DATA to a folder with {name}.gz")
    x, y = load_svmlight_file(str(Path(folder) / f"{name}.gz"))
    order = np.random.default_rng(0).permutation(len(y))[:2000]
    return np.column_stack([x.toarray(), np.ones(len(y))])[order], y[order]


REAL_DATA = {"abalone": ["squared", "absolute"], "german.numer": ["logistic"], "australian": ["logistic", "hinge"]}


@pytest.mark.verify
@pytest.mark.parametrize(("name", "loss"), [(name, loss) for name, chosen in REAL_DATA.items() for loss in chosen])
def test_units_and_origins_of_real_features_hardly_matter(name, loss):
    """Each dense feature in turn moved by a thousand times its spread: the progressive loss changes by less than 1%.

    A feature that is 0 in a third of the rows is in all rows once it is moved, and becomes dense earlier: 2%.
    """
    x, y = read(name)
    before = progressive(loss, x, y, compiled=True)
    dense = [j for j in range(x.shape[1] - 1) if np.mean(x[:, j] != 0.0) > 0.6 and x[:, j].std() > 0.0]
    assert dense
    for j in dense:
        moved, scaled = x.copy(), x.copy()
        moved[:, j] += 1e3 * x[:, j].std()
        scaled[:, j] *= 1e6
        close = 0.01 if np.mean(x[:, j] != 0.0) > 0.9 else 0.02
        assert progressive(loss, moved, y, compiled=True) == pytest.approx(before, rel=close), f"feature {j}"
        assert progressive(loss, scaled, y, compiled=True) == pytest.approx(before, rel=1e-6), f"feature {j}"
