"""The mixture for K scores: laws, a slow twin with whole matrices, and extremes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from giftrl import errors
from giftrl.losses import Logistic, MulticlassHinge
from giftrl.mixtures.mixture import MulticlassMixture
from giftrl.mixtures.state import DENSE_PLACE, PLACE, SCALE
from tests.class_mixtures import Twin, mixture, stream
from tests.multiclass import each_loss, few, filled

some = settings(max_examples=max(5, settings.default.max_examples // 4))


def losses_of(loss, scores, y):
    return np.array([loss.value(p, int(k)) for p, k in zip(scores, y, strict=True)])


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        # Room for more dense features is not part of what was learnt.
        size = min(len(array), len(other[name])) if name in ("features.dense", "features.stamps") else len(array)
        assert_array_equal(array[:size], other[name][:size], err_msg=name)


# -------------------------------------------------------------------------------------------------------------- twin


@each_loss
@pytest.mark.parametrize("weighted", [False, True])
def test_the_rounds_are_those_of_a_slow_twin(loss, weighted):
    # The twin's features enter in the same order, since places in the full matrix are given as they come.
    x, y = stream(rows=50, scale=3.0)
    x[30:, 0] *= 5.0  # a scale that grows
    h = np.random.default_rng(1).exponential(size=len(y)) if weighted else np.ones(len(y))
    learner, twin = mixture(x, loss=loss), Twin(x.shape[1], 3, loss)
    found = learner.learn(x, y, h)
    wanted = np.array([twin.learn(*row) for row in zip(x, y.tolist(), h.tolist(), strict=True)])
    assert_allclose(found, wanted, rtol=1e-7, atol=1e-8)
    assert_allclose(learner.mixing.totals, twin.experts.total, rtol=1e-8)
    assert_allclose(learner.mixing.stack, twin.v, rtol=1e-6, atol=1e-7)
    assert np.ptp(found) > 0.5


# -------------------------------------------------------------------------------------------------------------- laws


@each_loss
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("preset", ["default", "light"])
def test_what_was_learnt_is_one_matrix(loss, constant, preset):
    x, y = stream(rows=80, scale=100.0)
    learner = mixture(x, loss=loss, preset=preset, constant=x.shape[1] - 1 if constant else None)
    learner.learn(x, y)
    assert learner.x.shape == (x.shape[1], 3)
    size = np.abs(x) @ np.abs(learner.x)
    assert np.max(np.abs(learner.predict(x) - x @ learner.x) / (size + 1e-300)) <= 1e-12
    assert_array_equal(learner.predict(sparse.csr_matrix(x)), learner.predict(x))
    assert np.abs(learner.x).max() > 0.0


@each_loss
def test_the_next_scores_are_those_of_the_matrix(loss):
    """Centres move before a prediction and scales may grow, which changes nothing where neither can."""
    x, y = stream(rows=60)
    learner = mixture(x, loss=loss, preset="light", constant=None)
    learner.learn(x, y)
    row = 0.5 * np.sign(x[:1])
    before = learner.clip(learner.predict(row))
    shares = {name: share for name, share, _ in learner.experts}
    # The coin alone depends on N, which has this row in it.
    assert_allclose(learner.learn(row, [0]), before, atol=0.02 * abs(shares["coin betting"]) + 1e-12, rtol=0.02)


@given(seed=st.integers(0, 100), cuts=st.sets(st.integers(1, 39)), weighted=st.booleans())
@few
def test_a_stream_may_come_in_pieces(seed, cuts, weighted):
    x, y = stream(rows=40, seed=seed)
    h = np.random.default_rng(seed).exponential(size=len(y)) if weighted else None
    whole, pieces = mixture(x, dtype="float32"), mixture(x, dtype="float32")
    scores = whole.learn(x, y, h)
    bounds = [0, *sorted(cuts), len(y)]
    for first, last in pairwise(bounds):
        found = pieces.learn(sparse.csr_matrix(x[first:last]), y[first:last], None if h is None else h[first:last])
        assert_array_equal(found, scores[first:last])
    assert_same(pieces.state(), whole.state())
    assert_array_equal(pieces.x, whole.x)


HOSTILE = {
    "a dense feature that is not there": ("features.dense", lambda a: a.__setitem__(0, 99)),
    "more dense features than room": ("features.counts", lambda a: a.__setitem__(2, 1e6)),
    "a place beyond the list": ("features.record", lambda a: a.__setitem__((0, DENSE_PLACE), 50.0)),
    "a theta that is no number": ("features.theta", lambda a: a.__setitem__((0, 1), np.nan)),
    "a place beyond the matrix": ("features.record", lambda a: a.__setitem__((0, PLACE), 1e6)),
    "a negative scale": ("features.record", lambda a: a.__setitem__((0, SCALE), -1.0)),
    "an infinite weight": ("features.x", lambda a: a.__setitem__((0, 0), np.inf)),
    "a matrix too large": ("matrix.size", lambda a: a.__setitem__(0, 129)),
    "an infinite inverse": ("mixing.inverse", lambda a: a.__setitem__((0, 0), np.inf)),
    "a gap that is no number": ("mixing.sums", lambda a: a.__setitem__(2, np.nan)),
    "no expert": ("mixing.totals", lambda a: a.fill(np.inf)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_state_that_leads_nowhere_is_refused_and_nothing_changes(name):
    x, y = stream(rows=30)
    learner, other = mixture(x), mixture(x)
    learner.learn(x, y)
    state = {key: array.copy() for key, array in learner.state().items()}
    where, spoil = HOSTILE[name]
    spoil(state[where])
    before = {key: array.copy() for key, array in other.state().items()}
    with pytest.raises(errors.InvalidInput, match="state"):
        other.restore(state)
    assert_same(other.state(), before)


def test_a_state_of_other_parts_is_refused():
    x, y = stream(rows=30)
    learner = mixture(x)
    learner.learn(x, y)
    for other in (mixture(x, preset="light"), mixture(x, dtype="float32"), mixture(x, classes=4)):
        with pytest.raises(errors.InvalidInput, match="state"):
            other.restore(learner.state())
    with pytest.raises(errors.InvalidInput, match=r"features\.dense"):
        mixture(x).restore({key: array for key, array in learner.state().items() if key != "features.dense"})


@each_loss
@given(seed=st.integers(0, 1000), size=st.floats(-3.0, 3.0))
@few
def test_the_certificate_is_never_below_the_regret(loss, seed, size):
    x, y = stream(rows=40, seed=seed)
    h = np.random.default_rng(seed).exponential(size=len(y))
    learner = mixture(x, loss=loss)
    scores = learner.learn(x, y, h)
    paid = float(h @ losses_of(loss, scores, y))
    certificate = learner.certificate
    assert_allclose(learner.loss_sums, [paid], rtol=1e-12)
    assert certificate.theta.shape == (x.shape[1] * 3,)
    for comparator in np.random.default_rng(seed).normal(size=(10, x.shape[1], 3)) * 10.0**size:
        regret = paid - float(h @ losses_of(loss, x @ comparator, y))
        assert regret <= certificate.regret_bound(comparator.reshape(-1)) + 1e-9 * (1.0 + paid)
    slopes = np.array([filled(type(loss).slope, loss, p, int(k)) for p, k in zip(scores, y, strict=True)])
    assert_allclose(learner.theta, -(x * h[:, None]).T @ slopes, atol=1e-10)


@each_loss
@given(seed=st.integers(0, 100), factor=st.sampled_from([1e-6, 1e6, 3e-200, -1e250]))
@few
def test_the_scale_of_a_feature_does_not_matter(loss, seed, factor):
    x, y = stream(rows=50, seed=seed)
    scaled = x * np.where(np.arange(x.shape[1]) == 0, factor, 1.0)
    plain, other = mixture(x, loss=loss), mixture(x, loss=loss)
    assert_allclose(other.learn(scaled, y), plain.learn(x, y), rtol=1e-6, atol=1e-6)
    assert_allclose(other.x[0] * factor, plain.x[0], rtol=1e-6, atol=1e-6)


@each_loss
@pytest.mark.parametrize("shift", [10.0, -1e3, 1e6])
def test_where_a_dense_feature_begins_does_not_matter(loss, shift):
    x, y = stream(rows=150, features=3, seed=4)
    plain, other = mixture(x, loss=loss), mixture(x, loss=loss)
    plain.learn(x, y)
    other.learn(x + shift * (np.arange(3) == 0), y)
    assert_allclose(other.loss_sums, plain.loss_sums, rtol=0.01)
    assert plain.loss_sums[0] < 150 * np.log(3.0)


@each_loss
@given(seed=st.integers(0, 100), order=st.permutations(range(3)))
@few
def test_the_names_of_classes_do_not_matter(loss, seed, order):
    x, y = stream(rows=40, seed=seed)
    plain, other = mixture(x, loss=loss), mixture(x, loss=loss)
    scores = plain.learn(x, y)
    assert_allclose(other.learn(x, np.argsort(order)[y]), scores[:, order], rtol=1e-7, atol=1e-7)


@each_loss
def test_a_row_without_weight_is_predicted_and_leaves_everything_as_it_is(loss):
    x, y = stream(rows=60)
    learner, other = mixture(x, loss=loss), mixture(x, loss=loss)
    h = np.where(np.arange(60) % 7 == 3, 0.0, 1.0)
    scores = learner.learn(x, y, h)
    assert_array_equal(other.learn(x[h > 0.0], y[h > 0.0]), scores[h > 0.0])
    assert_same(learner.state(), other.state())
    assert_array_equal(learner.learn(x[:1], y[:1], [0.0]), learner.clip(learner.predict(x[:1])))
    assert learner.rounds == int(h.sum()) and learner.t == learner.rounds + 1


@each_loss
def test_new_features_can_come_later(loss):
    x, y = stream(rows=60, features=6)
    x = x[:, [5, 0, 1, 2, 3, 4]]  # the constant first
    x[:30, 3:] = 0.0
    whole = MulticlassMixture(6, 3, loss, constant=0, compiled=False)
    scores = whole.learn(x, y)
    grown = MulticlassMixture(3, 3, loss, constant=0, compiled=False)
    assert_array_equal(grown.learn(x[:30, :3], y[:30]), scores[:30])
    grown.grow(6)
    grown.grow(2)
    assert_array_equal(grown.learn(x[30:], y[30:]), scores[30:])
    assert_same(grown.state(), whole.state())


@each_loss
def test_scores_of_the_hinge_loss_are_within_reach_of_the_best(loss):
    x, y = stream(rows=80, scale=10.0, signal=5.0)
    scores = mixture(x, loss=loss).learn(x, y)
    lead = scores.max(axis=1) - scores.min(axis=1)
    assert (lead.max() <= 1.0 + 1e-12) == isinstance(loss, MulticlassHinge)
    assert losses_of(loss, scores, y)[40:].mean() < 0.9 * losses_of(loss, np.zeros_like(scores), y).mean()


def test_the_full_matrix_leaves_when_features_are_too_many():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 200)), rng.integers(0, 3, 12)
    learner = MulticlassMixture(200, 3, compiled=False)
    learner.learn(x[:, :] * (np.arange(200) < 100), y)
    assert "full matrix" in [name for name, *_ in learner.experts]
    learner.learn(x, y)
    names = [name for name, *_ in learner.experts]
    assert len(names) == 9 and "full matrix" not in names
    size = np.abs(x) @ np.abs(learner.x)
    assert np.max(np.abs(learner.learn(x[:1], y[:1], [0.0]) - x[:1] @ learner.x) / size[:1]) <= 1e-12


# --------------------------------------------------------------------------------------------------------- compiled


@pytest.mark.verify
@pytest.mark.parametrize(
    ("loss", "preset", "dtype", "form"),
    [("softmax", "default", "float32", sparse.csr_matrix), ("multiclass_hinge", "light", "float64", np.asarray)],
)
def test_compiled_and_plain_agree(loss, preset, dtype, form):
    x, y = stream(rows=120, features=6, classes=4, scale=50.0)
    x[60:, 2] *= 30.0
    h = np.random.default_rng(2).exponential(size=len(y)) * (np.arange(len(y)) % 9 > 0)
    plain, fast = (mixture(x, 4, loss, preset=preset, dtype=dtype, compiled=compiled) for compiled in (False, True))
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-3}
    assert_allclose(fast.learn(form(x), y, h), plain.learn(form(x), y, h), **tolerance)
    assert_allclose(fast.x, plain.x, **tolerance)
    assert_allclose(fast.predict(form(x)), plain.predict(form(x)), **tolerance)
    assert_allclose(fast.theta, plain.theta, **tolerance)
    assert_allclose([e[2] for e in fast.experts], [e[2] for e in plain.experts], **tolerance)


# ---------------------------------------------------------------------------------------------------------- extremes

SIZES = [0.0, 5e-324, 1e-300, 1e-150, 1e-38, 1.0, -1.0, 3.0, 1e38, -1e150, 1e300, 1.7e308]
WEIGHTS = [1.0, 0.0, 1e-300, 1e-30, 1e30, 1e300]


@each_loss
@given(data=st.data())
@some
def test_extremes_give_finite_scores(loss, data):
    features, rows, classes = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 25)), data.draw(st.integers(2, 4))
    numbers = st.sampled_from(SIZES)
    x = np.array(
        data.draw(st.lists(st.lists(numbers, min_size=features, max_size=features), min_size=rows, max_size=rows))
    )
    y = np.array(data.draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows)))
    h = data.draw(st.none() | st.lists(st.sampled_from(WEIGHTS), min_size=rows, max_size=rows))
    x = np.column_stack([x, np.ones(rows)])
    learner = mixture(x, classes, loss, dtype=data.draw(st.sampled_from(["float32", "float64"])))
    assert_sound(learner, x, learner.learn(x, y, h))
    assert_sound(learner, x, learner.learn(x[::-1], y))


def assert_sound(learner, x, scores):
    assert np.isfinite(scores).all()
    assert np.isfinite(learner.x).all()
    for name, array in learner.state().items():
        assert not np.isnan(array).any(), name
    assert np.isfinite(learner.features.x).all()
    certificate = learner.certificate
    assert not np.isnan(certificate.regret_bound(np.zeros(certificate.theta.shape)))
    assert certificate.loss_sum >= 0.0
    copy = mixture(x, learner.classes, learner.loss, dtype=learner.dtype)
    copy.restore(learner.state())


STREAMS = {
    "one class only": lambda x, y: (x, np.full(len(y), 2)),
    "the same row again and again": lambda x, y: (np.repeat(x[:1], len(y), axis=0), y),
    "zeros": lambda x, y: (np.zeros_like(x), y),
    "growing": lambda x, y: (x * np.geomspace(1e-300, 1e290, len(y))[:, None], y),
    "growing by 1e4": lambda x, y: (x * 10.0 ** (-180.0 + 4.0 * np.arange(len(y)))[:, None], y),
    "shrinking": lambda x, y: (x * np.geomspace(1e290, 1e-300, len(y))[:, None], y),
    "nearly constant": lambda x, y: (1e8 + 1e-7 * x, y),
}


@each_loss
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", STREAMS)
def test_odd_streams_are_learnt(loss, dtype, name):
    x, y = STREAMS[name](*stream(rows=80))
    x[:, -1] = 1.0
    learner = mixture(x, loss=loss, dtype=dtype)
    scores = learner.learn(x, y)
    assert_sound(learner, x, scores)
    # At the worst the loss of the constant scores 0, and what the first rows cost.
    assert learner.loss_sums[0] <= 1.2 * losses_of(loss, np.zeros_like(scores), y).sum() + 6.0
    if name == "one class only":
        assert losses_of(loss, scores, y)[40:].mean() < 0.1


# ---------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("named", "arguments"), [("classes", (3, 1)), ("loss", (3, 3, "soft")), ("one prediction", (3, 3, Logistic()))]
)
def test_bad_parts_are_named(named, arguments):
    with pytest.raises(errors.GiftrlError, match=named):
        MulticlassMixture(*arguments)


@pytest.mark.parametrize("y", [[0, 3], [0, 0.5], [0, -1], ["a", "b"]])
def test_bad_labels_are_named_and_nothing_is_learnt(y):
    learner = MulticlassMixture(4, 3, constant=3, compiled=False)
    before = {name: array.copy() for name, array in learner.state().items()}
    with pytest.raises(errors.InvalidInput, match="^y"):
        learner.learn(np.ones((2, 4)), y)
    assert_same(learner.state(), before)
