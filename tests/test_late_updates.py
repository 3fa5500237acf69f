"""The full matrix loses vectors eight at a time: a twin that loses each at once, and states with some of them late."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from giftrl import errors
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.full_matrix import LATE_ROWS, advance, apply_late, downdate, isolate, new_matrix, rescale, variance
from giftrl.mixtures.mixture import MulticlassMixture

PLACES = 5
CLASSES = [None, 3]


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_vectors_that_are_late_are_as_good_as_lost(seed, steps):
    rng, matrix, twin = np.random.default_rng(seed), new_matrix(PLACES), np.eye(PLACES)
    matrix.size[0] = PLACES
    matrix.inverse[...] = np.eye(PLACES)
    for _ in range(steps):
        kind, s = rng.integers(0, 4), rng.integers(0, PLACES)
        if kind <= 1:
            v = twin @ rng.normal(size=PLACES)
            part = 0.5 / max(1e-3, v @ np.linalg.solve(twin, v))  # less than what makes A singular
            twin -= part * np.outer(v, v)
            downdate(matrix, v, np.sqrt(part))
            if advance(matrix):
                apply_late(matrix)
                assert not matrix.late.any()
        elif kind == 2:
            twin[s] *= 1.5
            twin[:, s] *= 1.5
            rescale(matrix, s, 1.5)
        else:
            twin[s], twin[:, s], twin[s, s] = 0.0, 0.0, 2.0
            isolate(matrix, s, 2.0)
        assert not matrix.late[matrix.waiting[0] :].any()
        assert_allclose(matrix.inverse - matrix.late.T @ matrix.late, twin, rtol=1e-9, atol=1e-9 * twin.max())
        assert_allclose([variance(matrix, k) for k in range(PLACES)], twin.diagonal(), atol=1e-9 * twin.max())


def stream(classes, rows=50):
    """Rows whose features come one after the other, the largest last, so that places are taken and scales grow."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 6)) * np.linspace(1.0, 4.0, rows)[:, None]
    x[np.arange(rows)[:, None] < 7 * np.arange(6)] = 0.0
    x[:, 0] = 1.0
    score = x @ rng.normal(size=6) + rng.logistic(size=rows)
    return x, np.digitize(score, [-1.0, 1.0]) if classes else np.sign(score)


def made(classes, **options):
    options = {"constant": 0, "compiled": False} | options
    return MixtureLearner(6, **options) if classes is None else MulticlassMixture(6, classes, **options)


def assert_same_state(one, other):
    for name, array in one.state().items():
        assert_array_equal(array, other.state()[name], err_msg=name)


def with_late(classes):
    """A learner in which 3 vectors are late, and the rows that come next."""
    learner, (x, y) = made(classes), stream(classes)
    learner.learn(x[:27], y[:27])
    assert learner.matrix.waiting[0] == 3 and learner.matrix.late.any()
    return learner, (x[27:], y[27:])


@pytest.mark.parametrize("way", ["state", "pickle"])
@pytest.mark.parametrize("classes", CLASSES)
def test_what_is_late_is_part_of_the_state(classes, way):
    learner, after = with_late(classes)
    if way == "state":
        copy = made(classes)
        copy.restore({name: array.copy() for name, array in learner.state().items()})
    else:
        copy = pickle.loads(pickle.dumps(learner))
    assert_array_equal(copy.learn(*after), learner.learn(*after))
    assert_same_state(copy, learner)


@pytest.mark.parametrize("waiting", [-1, LATE_ROWS])
@pytest.mark.parametrize("classes", CLASSES)
def test_a_row_that_is_not_there_is_refused(classes, waiting):
    learner, _ = with_late(classes)
    state = learner.state() | {"matrix.waiting": np.array([waiting])}
    with pytest.raises(errors.InvalidInput, match=r"matrix\.waiting"):
        made(classes).restore(state)
