"""Every rule on every loss of K scores: what each guarantees, its extremes, and the same compiled."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.errors import Incompatible, InvalidInput
from giftrl.kernels.base import as_classes
from giftrl.losses import Hinge, Logistic
from giftrl.losses.multiclass_hinge import MulticlassHinge
from giftrl.losses.softmax import Softmax
from giftrl.ops import loss as scalar
from giftrl.ops.vector_loss import (
    conjugate,
    curvature,
    curvatures,
    flow,
    infimum,
    multiclass,
    objective,
    prox,
    slope,
    smoothness,
    value,
)
from giftrl.updates import Truncated, TwoStep
from giftrl.updates.contract import ScoreProblem, pick_scores
from tests.multiclass import LOSSES, RULES, each_loss, examples, filled, half, lengths, moderate, pick, slopes


@each_loss
@given(example=examples(size=2.0), c=st.one_of(lengths, moderate), data=st.data())
def test_no_rule_is_worse_than_the_slope(loss, example, c, data):
    p, y = example
    g = filled(slope, loss, p, y)
    at_g, best = objective(loss, p, y, c, g), objective(loss, p, y, c, filled(prox, loss, p, y, c))
    slack = 1e-13 * (1.0 + np.abs(p).max())
    for rule in (prox, flow, RULES["truncated"]):
        a = filled(rule, loss, p, y, c)
        assert best - slack <= objective(loss, p, y, c, a) <= at_g + slack
    if c * smoothness(loss) <= 1.0:
        assert objective(loss, p, y, c, filled(RULES["two_step"], loss, p, y, c)) <= at_g + slack
    assert best <= objective(loss, p, y, c, data.draw(slopes(len(p), y))) + slack


@each_loss
@half
@given(example=examples(size=1.5), c=moderate, moved=st.floats(-3.0, 3.0))
def test_truncated_minimises_its_model(loss, example, c, moved):
    p, y = example
    start = p + moved * np.arange(len(p))
    g, at = filled(slope, loss, p, y), value(loss, p, y)
    assume(g.any())
    norm = float(g @ g)
    part = min(1.0, max(0.0, at + float(g @ (start - p))) / (norm * c))
    a = filled(pick, Truncated(), loss, p, y, start, c)
    np.testing.assert_allclose(a, part * g, atol=1e-12 * (1.0 + np.abs(p).max() / c))
    # At the new point the model is at its floor, or has been followed all the way.
    model = at + float(g @ (start - c * a - p))
    assert model == pytest.approx(0.0, abs=1e-10 * (1.0 + at + c)) or a == pytest.approx(g) or not a.any()


@given(margin=st.floats(-700.0, 700.0), shift=st.floats(-5.0, 5.0), c=lengths)
def test_two_classes_are_the_losses_of_one_score(margin, shift, c):
    # The scores of y and of the other move by -c a_y and -c a_k, which are opposite: the margin moves by 2 c s.
    p = np.array([shift, shift + margin])
    margin = float(p[1] - p[0])
    for many, one in ((Softmax(), Logistic()), (MulticlassHinge(), Hinge())):
        assert value(many, p, 1) == pytest.approx(scalar.value(one, margin, 1.0), rel=1e-12, abs=1e-300)
        pairs = [(filled(slope, many, p, 1), scalar.slope(one, margin, 1.0))]
        pairs += [(filled(prox, many, p, 1, c), scalar.prox(one, margin, 1.0, 2.0 * c))]
        pairs += [(filled(flow, many, p, 1, c), scalar.flow(one, margin, 1.0, 2.0 * c))]
        for a, b in pairs:
            assert a == pytest.approx([-b, b], rel=1e-12, abs=1e-300)
            assert conjugate(many, a, 1) == pytest.approx(scalar.conjugate(one, b, 1.0), rel=1e-12, abs=1e-12)


@each_loss
@half
@given(example=examples())
def test_steps_of_length_zero_take_the_slope_and_slopes_fill_in_place(loss, example):
    p, y = example
    g = filled(slope, loss, p, y)
    for rule in RULES.values():
        assert filled(rule, loss, p, y, 0.0) == pytest.approx(g, rel=1e-14, abs=0.0)
    q = p.copy()
    slope(loss, q, y, q)
    assert (q == g).all()


sizes = st.floats(-300.0, 300.0).map(lambda exponent: 10.0**exponent)
extremes = st.one_of(st.just(0.0), sizes, sizes.map(lambda x: -x), st.floats(-800.0, 800.0))


@each_loss
@given(p=st.lists(extremes, min_size=1, max_size=5), c=st.one_of(sizes, st.just(math.inf)), data=st.data())
def test_nothing_is_nan_and_nothing_raises(loss, p, c, data):
    p, y = np.array(p), data.draw(st.integers(0, len(p) - 1))
    numbers = [value(loss, p, y), curvature(loss, p, y), *filled(slope, loss, p, y), *filled(curvatures, loss, p, y)]
    assert not np.isnan(numbers).any()
    for rule in RULES.values():
        with np.errstate(all="ignore"):
            a = filled(rule, loss, p, y, min(c, 1.7e308) if rule is RULES["two_step"] else c)
        assert np.isfinite(a).all() and np.abs(a).max() <= 1.0 and abs(a.sum()) <= 1e-9
        assert math.isfinite(conjugate(loss, a, y))


class Everything(NamedTuple):
    """A member of this file, so that compiled loops on disk depend on its text."""


TRUNCATED, TWO_STEP = Truncated(), TwoStep()


@formula
def every_rule(members, scores, labels, lengths, out, sums):
    loss = members[0]
    for i in range(len(labels)):
        p, y, c = scores[i], labels[i], lengths[i]
        slope(loss, p, y, out[i, 0])
        prox(loss, p, y, c, out[i, 1])
        flow(loss, p, y, c, out[i, 2])
        problem = ScoreProblem(y, p, out[i, 0], p, c)
        pick_scores(TRUNCATED, loss, problem, out[i, 3], out[i, 5])
        pick_scores(TWO_STEP, loss, problem, out[i, 4], out[i, 5])
        curvatures(loss, p, y, out[i, 5])
        sums[i, 0] = value(loss, p, y)
        sums[i, 1] = conjugate(loss, out[i, 1], y)
        sums[i, 2] = objective(loss, p, y, c, out[i, 2])
        sums[i, 3] = curvature(loss, p, y) + infimum(loss, y)


@pytest.mark.sample(2)
@each_loss
def test_compiled_rules_are_the_plain_ones(loss):
    rng = np.random.default_rng(5)
    count, classes = 60, 7
    scores = rng.normal(size=(count, classes)) * 10.0 ** rng.uniform(-2.0, 2.5, (count, 1))
    scores[:10] = scores[:10].round()
    labels, lengths = rng.integers(0, classes, count), 10.0 ** rng.uniform(-8.0, 8.0, count)
    results = []
    for compiled in (False, True):
        out, sums = np.full((count, 6, classes), np.nan), np.full((count, 4), np.nan)
        call = ready(every_rule, compiled)
        call((loss, Everything()), scores, labels, lengths, out, sums)
        results.append((out, sums))
    for plain, compiled in zip(*results, strict=True):
        assert np.isfinite(plain).all()
        np.testing.assert_allclose(compiled, plain, rtol=1e-11, atol=1e-300)


def test_what_a_loss_must_bring():
    class Nothing(NamedTuple):
        pass

    p, out = np.zeros(2), np.zeros(2)
    for call in (
        lambda: value(Nothing(), p, 0),
        lambda: slope(Nothing(), p, 0, out),
        lambda: conjugate(Nothing(), p, 0),
        lambda: prox(Nothing(), p, 0, 1.0, out),
        lambda: flow(Nothing(), p, 0, 1.0, out),
    ):
        with pytest.raises(Incompatible, match="must bring"):
            call()
    assert infimum(Nothing(), 0) == -math.inf and smoothness(Nothing()) == math.inf
    assert (filled(curvatures, Nothing(), p, 0) == math.inf).all()
    assert [multiclass(loss) for loss in (*LOSSES, Logistic(), Nothing())] == [True, True, False, False]


def test_labels_are_classes():
    assert as_classes([0.0, 2.0], 2, 3).tolist() == [0, 2]
    for y in (-1.0, 0.5, 3.0, math.inf, math.nan):
        with pytest.raises(InvalidInput, match="whole numbers from 0 to 2"):
            as_classes([y], 1, 3)
