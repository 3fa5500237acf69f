"""Later passes of a mixture: slow twins, and what stays as the first pass left it."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.mixture import MulticlassMixture
from tests.class_mixtures import Twin as ClassTwin
from tests.class_mixtures import mixture as class_mixture
from tests.class_mixtures import stream as classes
from tests.mixture_twin import Twin, exact
from tests.mixtures import LOSSES, assert_sound, hostile, mixture, ordinary
from tests.multiclass import each_loss as each_loss_of_classes

each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
some = settings(max_examples=max(5, settings.default.max_examples // 8))


def again(learner, x, y, weights=None, passes=2):
    """The predictions of later passes."""
    learner.repeat()
    return np.concatenate([learner.learn(x, y, weights) for _ in range(passes)])


# ------------------------------------------------------------------------------------------------------ slow twins


@each_loss
@some
@given(seed=st.integers(0, 2**32), preset=st.sampled_from(["default", "light"]))
def test_a_later_pass_is_that_of_its_twin(loss, seed, preset):
    stream = ordinary(loss, 30, 4, seed)
    options = {"preset": preset}
    learner, twin = mixture(exact(loss), 5, **options), Twin(5, loss, 4, options)
    learner.learn(stream.x, stream.y)
    rows = list(zip(stream.x, stream.y, strict=True))
    for v, y in rows:
        twin.learn(v, y, 1.0)
    assume(not twin.fragile)
    found = again(learner, stream.x, stream.y)
    expected = np.array([twin.learn_again(v, y, 1.0) for v, y in 2 * rows])
    assert_allclose(found, expected, atol=1e-8 * max(1e-300, np.abs(expected).max()))
    learner.settle()
    twin.settle()
    expected = np.array([twin.predict(v) for v in stream.x])
    assert_allclose(learner.predict(stream.x), expected, atol=1e-8 * max(1e-300, np.abs(expected).max()))


@each_loss_of_classes
@pytest.mark.parametrize("weighted", [False, True])
def test_a_later_pass_over_classes_is_that_of_its_twin(loss, weighted):
    x, y = classes(rows=40, scale=3.0)
    h = np.random.default_rng(1).exponential(size=len(y)) if weighted else np.ones(len(y))
    rows = list(zip(x, y.tolist(), h.tolist(), strict=True))
    learner, twin = class_mixture(x, loss=loss), ClassTwin(x.shape[1], 3, loss)
    learner.learn(x, y, h)
    for row in rows:
        twin.learn(*row)
    found = again(learner, x, y, h)
    assert_allclose(found, [twin.learn(*row, again=True) for row in 2 * rows], rtol=1e-6, atol=1e-7)
    learner.settle()
    twin.settle()
    weights = learner.features.x[:, : int(learner.places.curve)].reshape(-1, 3, 8)  # feature, class, expert
    assert_allclose(weights.transpose(2, 0, 1), twin.x, atol=1e-7)
    assert np.ptp(found) > 0.5


# ------------------------------------------------------------------------------------------------------------ laws


def learners():
    stream, (x, y) = ordinary(LOSSES[0], 60, 4, seed=2), classes(60, 5)
    yield MixtureLearner(5, LOSSES[0], constant=4, compiled=False), stream.x, stream.y
    real = ordinary("squared", 60, 4, seed=3)
    yield MixtureLearner(5, "squared", constant=4, compiled=False), real.x, real.y
    yield MulticlassMixture(5, 3, constant=4, compiled=False), x, y


@pytest.mark.parametrize(("learner", "x", "y"), list(learners()), ids=lambda o: type(o).__name__)
def test_only_weights_change_in_later_passes(learner, x, y):
    learner = copy.deepcopy(learner)
    learner.learn(x, y)
    before = {name: array.copy() for name, array in learner.state().items()}
    experts, certificate = learner.experts, learner.certificate
    again(learner, x, y)
    learner.settle()
    after = learner.state()
    for name in before:
        if name.startswith("mixing.") or name in ("features.dense", "features.counts"):
            assert_array_equal(before[name], after[name], err_msg=name)
    for name in ("features.record", "features.theta"):
        assert_array_equal(before[name], after[name])
    assert learner.rounds == len(y) and learner.experts == experts
    assert learner.certificate.bound_sum == certificate.bound_sum
    assert not np.array_equal(before["features.x"], after["features.x"])


@pytest.mark.parametrize(("learner", "x", "y"), list(learners()), ids=lambda o: type(o).__name__)
def test_any_split_of_later_passes_gives_the_same_bits(learner, x, y):
    whole, pieces = copy.deepcopy(learner), copy.deepcopy(learner)
    for each in (whole, pieces):
        each.learn(x, y)
        each.repeat()
    whole.learn(x, y)
    for first in range(0, len(y), 7):
        pieces.repeat()  # which changes nothing any more
        pieces.learn(x[first : first + 7], y[first : first + 7])
        pieces = pickle.loads(pickle.dumps(pieces))
        other = copy.deepcopy(learner)
        other.restore(pieces.state())
        pieces = other
    for name, array in whole.state().items():
        assert_array_equal(array, pieces.state()[name], err_msg=name)
    whole.settle()
    pieces.settle()
    assert_array_equal(whole.x, pieces.x)


@each_loss
@some
@given(seed=st.integers(0, 2**32))
def test_later_passes_stay_sound_on_hostile_streams(loss, seed):
    stream, _ = hostile(loss, seed)
    learner = mixture(loss, stream.x.shape[1], dtype="float32")
    with np.errstate(all="ignore"):
        learner.learn(*stream)
        found = again(learner, *stream)
        assert learner.sound
        learner.settle()
        assert_sound(learner, stream, found)


def test_rows_learnt_by_heart_do_not_ruin_a_sparse_model():
    """Most features occur once or twice: plain passes would learn them by heart."""
    rng = np.random.default_rng(0)
    names = rng.zipf(1.3, size=(600, 4)) % 3000
    x = np.zeros((600, 3001))
    np.put_along_axis(x, names, 1.0, axis=1)
    x[:, -1] = 1.0
    y = np.where(rng.random(600) < 1.0 / (1.0 + np.exp(-x @ rng.normal(size=3001))), 1.0, -1.0)
    tests, losses = slice(400, None), {}
    learner = MixtureLearner(3001, "logistic", constant=3000, compiled=False)
    x = sparse.csr_array(x)
    learner.learn(x[:400], y[:400])
    plain = copy.deepcopy(learner)
    again(learner, x[:400], y[:400], passes=4)
    learner.settle()
    for _ in range(4):
        plain.learn(x[:400], y[:400])
    for name, each in (("later", learner), ("plain", plain)):
        losses[name] = np.logaddexp(0.0, -y[tests] * each.predict(x[tests])).mean()
    assert losses["later"] < 0.8 * losses["plain"], losses
