"""The mixture for K scores: laws, a slow twin with whole matrices, and extremes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from giftrl import errors
from giftrl.losses import Logistic, MulticlassHinge
from giftrl.mixtures.mixture import MulticlassMixture
from tests.class_mixtures import Twin, mixture, stream
from tests.multiclass import each_loss, few

some = settings(max_examples=max(5, settings.default.max_examples // 4))


def losses_of(loss, scores, y):
    return np.array([loss.value(p, int(k)) for p, k in zip(scores, y, strict=True)])


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


@each_loss
@given(seed=st.integers(0, 100), order=st.permutations(range(3)))
@few
def test_the_names_of_classes_do_not_matter(loss, seed, order):
    x, y = stream(rows=40, seed=seed)
    plain, other = mixture(x, loss=loss), mixture(x, loss=loss)
    scores = plain.learn(x, y)
    assert_allclose(other.learn(x, np.argsort(order)[y]), scores[:, order], rtol=1e-7, atol=1e-7)


@each_loss
def test_scores_of_the_hinge_loss_are_within_reach_of_the_best(loss):
    x, y = stream(rows=80, scale=10.0, signal=5.0)
    scores = mixture(x, loss=loss).learn(x, y)
    lead = scores.max(axis=1) - scores.min(axis=1)
    assert (lead.max() <= 1.0 + 1e-12) == isinstance(loss, MulticlassHinge)
    assert losses_of(loss, scores, y)[40:].mean() < 0.9 * losses_of(loss, np.zeros_like(scores), y).mean()


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


# ---------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("named", "arguments"), [("classes", (3, 1)), ("loss", (3, 3, "soft")), ("one prediction", (3, 3, Logistic()))]
)
def test_bad_parts_are_named(named, arguments):
    with pytest.raises(errors.GiftrlError, match=named):
        MulticlassMixture(*arguments)
