"""The steps between the average of workers and their sum: the best ones for a window, and better than both ends."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from giftrl import losses
from giftrl.compiled.compiler import ready
from giftrl.compiled.rows import as_rows
from giftrl.ops.loss import value
from giftrl.workers.merging import copy_of, first_steps, merge
from giftrl.workers.pieces import put, take_all
from giftrl.workers.step_size import ClassWindow, ScalarWindow, Window, descent, find_steps
from tests.class_mixtures import mixture, stream
from tests.multiclass import each_loss

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


def fitted(loss, p, d, labels, weights, prior, stiff, repeated=1):
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
    quick, slow = (fitted(loss, p, d, labels, weights, prior, 4.0, repeated) for repeated in (1, 30))
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


def test_fitted_steps_predict_the_window_better():
    """The window is drawn from the stream; the merged learner is nearer to it than the sum or the average."""
    x, y = stream(700, features=5, classes=3, signal=2.0)
    base = mixture(x, dtype="float32")
    base.learn(x[:100], y[:100])
    workers = [copy_of(base, 0) for _ in range(8)]
    for worker, rows in zip(workers, np.split(np.arange(100, 500), 8), strict=True):
        worker.learn(x[rows], y[rows])
    window = Window(as_rows(sparse.csr_array(x[500:]), 5, compiled=False)[0], y[500:], np.empty(0))

    def loss(rows, factor):
        """Of the window, after a merge that is fitted to these rows, or with steps that are given."""
        learner = copy_of(base, 0)
        piece, *pieces = take_all([base, *workers], np.arange(5))
        put(learner, merge(base, piece, pieces, rows, factor * first_steps(base))[0])
        return sum(value(learner.loss, p, k) for p, k in zip(learner.predict(x[500:]), y[500:], strict=True))

    fit = loss(window, 1.0)
    assert fit <= min(loss(None, 1.0), loss(None, 0.0)) * 1.02
    assert fit < 0.9 * sum(value(base.loss, p, k) for p, k in zip(base.predict(x[500:]), y[500:], strict=True))
