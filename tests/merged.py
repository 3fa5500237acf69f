"""Runs of several workers that are merged again and again, in one process."""

import numpy as np
from scipy import sparse

from giftrl.compiled.rows import as_rows
from giftrl.workers.merging import first_steps, merge
from giftrl.workers.pieces import put, take, touched
from giftrl.workers.step_size import Window


def copied(make, learner):
    """Another learner with the same state."""
    other = make()
    other.restore(learner.state())
    return other


def every(learner):
    """The numbers of all features."""
    return np.arange(learner.dimension)


def window_of(learner, x, y, weights=None):
    """Rows as a window."""
    rows, _ = as_rows(sparse.csr_array(x), learner.dimension, compiled=False)
    return Window(rows, np.asarray(y), np.empty(0) if weights is None else np.asarray(weights, float))


def part(make, learner, x, y, parts, weights=None):
    """Workers that have begun from the state of a learner, each having learnt the rows of one part; their scores."""
    workers, scores = [], []
    for own in parts:
        worker = copied(make, learner)
        scores.append(worker.learn(x[own], y[own], None if weights is None else weights[own]))
        workers.append(worker)
    return workers, scores


def play_merged(make, x, y, seed, weights=None, merges=3, fitted=True):
    """Learn all rows, each once, in rounds of random size by a random number of workers; the scores by row."""
    rng, base, begin = np.random.default_rng(seed), make(), 0
    scores = np.full((len(y), *([] if base.classes is None else [base.classes])), np.nan)
    steps = first_steps(base)

    def own(rows):
        return None if weights is None else weights[rows]

    bounds = np.sort(rng.integers(0, len(y) + 1, 2 * merges))
    for first, last in zip(bounds[::2], bounds[1::2], strict=True):
        scores[begin:first] = base.learn(x[begin:first], y[begin:first], own(slice(begin, first)))
        end = first + (last - first) // 2 if fitted else last
        dealt = rng.integers(0, rng.integers(2, 6), end - first)
        parts = [first + np.flatnonzero(dealt == k) for k in range(5)]
        workers, played = part(make, base, x, y, parts, weights)
        marks = np.zeros(base.dimension, bool)
        for worker, rows, mine in zip(workers, parts, played, strict=True):
            scores[rows] = mine
            touched(worker, [(as_rows(sparse.csr_array(x[rows]), base.dimension, compiled=False)[0], len(rows))], marks)
        features, window = np.flatnonzero(marks), None
        if fitted:
            window = window_of(base, x[end:last], y[end:last], own(slice(end, last)))
        piece, steps = merge(base, take(base, features), [take(each, features) for each in workers], window, steps)
        put(base, piece)
        assert ((steps >= 0.0) & (steps <= 1.0)).all()
        begin = end
    scores[begin:] = base.learn(x[begin:], y[begin:], own(slice(begin, None)))
    assert not np.isnan(scores).any()
    return base, scores


def assert_same_state(one, other, tolerance=0.0):
    """The states of two learners, bit for bit or to rounding of their largest numbers."""
    left, right = one.state(), other.state()
    for state, given in ((left, right), (right, left)) if tolerance else ():
        if "ahead" in given:  # left out where it is 0
            state.setdefault("ahead", np.zeros_like(given["ahead"]))
    assert left.keys() == right.keys()
    for name in left.keys() - {"features.stamps"}:  # the last row that has had a dense feature, of use within a row
        sized = right["coordinates"] if name == "ahead" else right[name]  # ahead is a difference of coordinates
        scale = np.abs(sized[np.isfinite(sized)]).max(initial=0.0) if tolerance else 0.0
        np.testing.assert_allclose(left[name], right[name], rtol=tolerance, atol=tolerance * scale, err_msg=name)
