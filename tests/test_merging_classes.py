"""Merging mixtures of K scores, and the steps that are fitted to K scores."""

import numpy as np
import pytest
from scipy.optimize import minimize

from giftrl import losses
from giftrl.compiled.compiler import ready
from giftrl.errors import Incompatible
from giftrl.mixtures import MixtureLearner
from giftrl.ops.loss import value
from giftrl.workers.merging import first_steps, merge
from giftrl.workers.pieces import put, take
from giftrl.workers.step_size import ClassWindow, ScalarWindow, descent, find_steps
from tests.class_mixtures import mixture, stream
from tests.merged import assert_same_state, copied, every, part, play_merged, window_of
from tests.multiclass import LOSSES, each_loss

#: Steps beside each other: experts, groups, rows of the window and classes.
EXPERTS, GROUPS, ROWS, CLASSES = 2, 3, 40, 3


def problem(loss, seed):
    """Scores of experts, how they move in each group, and classes."""
    rng = np.random.default_rng(seed)
    p = rng.normal(size=(EXPERTS, ROWS, CLASSES))
    d = rng.normal(size=(EXPERTS, GROUPS, ROWS, CLASSES)) * rng.choice([0.3, 3.0], (EXPERTS, GROUPS, 1, 1))
    d[:, 1, ::2] = 0.0
    return p, d, rng.integers(0, CLASSES, ROWS), rng.random(ROWS)


def objective(loss, p, d, labels, weights, prior, stiff, steps):
    """What the steps of one expert minimise."""
    scores = p + np.tensordot(steps, d, 1)
    paid = sum(h * value(loss, row, y) for h, row, y in zip(weights, scores, labels, strict=True))
    return float(paid) + 0.5 * stiff * float(np.square(steps - prior).sum())


def found(loss, p, d, labels, weights, prior, stiff, repeated=1):
    """The steps; ``repeated`` beginning where they ended."""
    steps = prior.copy()
    for _ in range(repeated):
        rows = ClassWindow(loss, labels, weights, np.empty((2, CLASSES)))
        flat = p.reshape(EXPERTS, -1).copy(), d.reshape(EXPERTS, GROUPS, -1)
        ready(find_steps, False)(rows, *flat, prior, stiff, steps, 0, len(steps))
    return steps


@pytest.mark.parametrize("seed", range(3))
@each_loss
def test_the_steps_are_the_best_ones(loss, seed):
    p, d, labels, weights = problem(loss, seed)
    prior = np.random.default_rng(seed).random((EXPERTS, GROUPS))
    quick, slow = (found(loss, p, d, labels, weights, prior, 4.0, repeated) for repeated in (1, 30))
    for r in range(EXPERTS):
        own = (loss, p[r], d[r], labels, weights, prior[r], 4.0)
        best = minimize(lambda a, own=own: objective(*own, a), prior[r], method="Powell", bounds=[(0.0, 1.0)] * GROUPS)
        start, reached, last = (objective(*own, each[r]) for each in (prior, quick, slow))
        assert last <= best.fun + 1e-3 * (start - best.fun) + 1e-6
        assert reached <= start + 1e-9
        assert start - reached >= 0.9 * (start - best.fun) - 1e-9


@each_loss
def test_the_slope_is_the_derivative(loss):
    p, d, labels, weights = problem(loss, 5)
    rows, eps = ClassWindow(loss, labels, weights, np.empty((2, CLASSES))), 1e-6
    ends = [objective(loss, p[0], d[0, :1], labels, weights, 0.0, 0.0, np.array([by])) for by in (0.3 - eps, 0.3 + eps)]
    slope = descent(rows, p[0].reshape(-1), d[0, 0].reshape(-1), 0.3)
    assert slope == pytest.approx((ends[1] - ends[0]) / (2.0 * eps), rel=1e-5)


def test_two_classes_are_one_score():
    """The softmax loss of the scores (p, 0) is the logistic loss of p."""
    rng = np.random.default_rng(2)
    p, d, y = rng.normal(size=(1, ROWS)), rng.normal(size=(1, GROUPS, ROWS)), rng.choice([-1.0, 1.0], ROWS)
    prior, weights = rng.random((1, GROUPS)), rng.random(ROWS)
    one, two = prior.copy(), prior.copy()
    ready(find_steps, False)(ScalarWindow(losses.Logistic(), y, weights), p.copy(), d, prior, 2.0, one, 0, len(one))
    both = [np.stack([each, np.zeros_like(each)], axis=-1) for each in (p, d)]
    flat = both[0].reshape(1, -1), both[1].reshape(1, GROUPS, -1)
    rows = ClassWindow(losses.Softmax(), (y < 0).astype(np.int64), weights, np.empty((2, 2)))
    ready(find_steps, False)(rows, *flat, prior, 2.0, two, 0, len(two))
    np.testing.assert_allclose(one, two, atol=1e-10)


def merged(make, base, workers, window, steps=None):
    """A learner with the merged state of workers."""
    learner = copied(make, base)
    pieces = [take(each, every(each)) for each in workers]
    piece, steps = merge(base, take(base, every(base)), pieces, window, first_steps(base) if steps is None else steps)
    put(learner, piece)
    return learner, steps


@pytest.fixture(scope="module", params=LOSSES, ids=repr)
def begun(request):
    """A mixture that has learnt some rows, workers that have learnt more, and a window."""
    x, y = stream(140)

    def make():
        return mixture(x, loss=request.param)

    base = make()
    base.learn(x[:40], y[:40])
    parts = [np.arange(40, 60), np.arange(60, 60), np.arange(60, 90), np.arange(90, 110)]
    return make, base, part(make, base, x, y, parts)[0], window_of(base, x[110:], y[110:])


def test_one_worker_and_workers_without_rows_change_nothing(begun):
    make, base, (one, empty, two, _), window = begun
    assert_same_state(merged(make, base, [one], window)[0], one)
    assert_same_state(merged(make, base, [empty], window)[0], base)
    three, both = (merged(make, base, each, window)[0] for each in ([one, empty, two], [one, two]))
    assert_same_state(three, both, 1e-12)
    assert (one.merges, both.merges) == (0, 1)


def test_the_order_of_workers_does_not_matter(begun):
    make, base, workers, window = begun
    _, steps = merged(make, base, workers, window)
    assert ((steps >= 0.0) & (steps <= 1.0)).all() and (steps < 1.0).any()
    forth, back = (merged(make, base, each, None, steps)[0] for each in (workers, workers[::-1]))
    left, right = forth.state(), back.state()
    left["features.record"][:, -2:], right["features.record"][:, -2:] = 0.0, 0.0  # places, which are in order of entry
    for name in ("features.x", "features.theta", "mixing.offsets", "mixing.totals", "mixing.sums", "mixing.slopes"):
        np.testing.assert_allclose(left[name], right[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("seed", range(3))
@each_loss
def test_certificates_hold_and_the_state_can_be_restored(loss, seed):
    x, y = stream(60, seed=seed)

    def make():
        return mixture(x, loss=loss)

    learner, scores = play_merged(make, x, y, seed, merges=5)
    assert learner.merges > 0 and learner.sound
    assert_same_state(copied(make, learner), learner)
    certificate, rng = learner.certificate, np.random.default_rng(seed)
    paid = float(sum(value(loss, p, k) for p, k in zip(scores, y, strict=True)))
    assert certificate.loss_sum == pytest.approx(paid, rel=1e-10)
    for scale in (0.0, 0.5, 3.0):
        u = scale * rng.normal(size=(x.shape[1], 3))
        theirs = float(sum(value(loss, p, k) for p, k in zip(x @ u, y, strict=True)))
        assert paid - theirs <= certificate.regret_bound(u.reshape(-1)) + 1e-8 * (1.0 + paid + theirs)


def test_theorems_are_refused_for_merged_mixtures():
    x, y = stream(60)
    make = {
        "classes": lambda: mixture(x),
        "one score": lambda: MixtureLearner(x.shape[1], constant=x.shape[1] - 1, dtype="float64", compiled=False),
    }
    for name, each in make.items():
        labels = y if name == "classes" else np.where(y > 0, 1.0, -1.0)
        learner, _ = play_merged(each, x, labels, 1)
        assert learner.certificate.merged
        with pytest.raises(Incompatible, match=r"Theorem 3\.1 is about one sequence of rounds"):
            learner.certificate.theorem_terms(np.zeros_like(learner.certificate.theta))


def test_fitted_steps_predict_the_window_better():
    """The window is drawn from the stream; the merged learner is nearer to it than the sum or the average."""
    x, y = stream(700, features=5, classes=3, signal=2.0)

    def make():
        return mixture(x, dtype="float32")

    def loss(learner):
        return sum(value(learner.loss, p, k) for p, k in zip(learner.predict(x[500:]), y[500:], strict=True))

    base = make()
    base.learn(x[:100], y[:100])
    workers, _ = part(make, base, x, y, np.split(np.arange(100, 500), 8))
    one = first_steps(base)
    fitted, _ = merged(make, base, workers, window_of(base, x[500:], y[500:]))
    summed, averaged = (merged(make, base, workers, None, factor * one)[0] for factor in (1.0, 0.0))
    assert loss(fitted) <= min(loss(summed), loss(averaged)) * 1.02
    assert loss(fitted) < 0.9 * loss(base)
