"""Losses of K scores as tests see them: arbitrary scores and slopes, and what a rule fills in."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from giftrl.losses.multiclass_hinge import MulticlassHinge
from giftrl.losses.softmax import Softmax
from giftrl.ops.vector_loss import flow, prox, slope
from giftrl.updates import Truncated, TwoStep
from giftrl.updates.contract import ScoreProblem, pick_scores

LOSSES = [Softmax(), MulticlassHinge()]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
half = settings(max_examples=settings.default.max_examples // 2)
few = settings(max_examples=max(5, settings.default.max_examples // 10))


def filled(rule, *args):
    """What a rule fills in."""
    out = np.full(len(next(arg for arg in args if isinstance(arg, np.ndarray))), np.nan)
    rule(*args, out)
    return out


def pick(update, loss, p, y, start, c, out):
    """What an update picks for K scores."""
    g = filled(slope, loss, p, y)
    pick_scores(update, loss, ScoreProblem(y, p, g, start, c), out, np.full(len(p), np.nan))


def at_p(update):
    """Truncated and two-step start at p for H'."""
    return lambda loss, p, y, c, out: pick(update, loss, p, y, p, c, out)


RULES = {"prox": prox, "flow": flow, "truncated": at_p(Truncated()), "two_step": at_p(TwoStep())}


@st.composite
def examples(draw, largest=8, size=3.0):
    """Scores of any size up to 10^size, some of them equal or nearly so, and a class."""
    classes = draw(st.integers(2, largest))
    scale = 10.0 ** draw(st.floats(-3.0, size))
    numbers = st.one_of(st.floats(-1.0, 1.0), st.integers(-2, 2).map(lambda n: n / 2), st.floats(-1e-9, 1e-9))
    p = scale * np.array(draw(st.lists(numbers, min_size=classes, max_size=classes)))
    return p, draw(st.integers(0, classes - 1))


lengths = st.floats(-20.0, 20.0).map(lambda exponent: 10.0**exponent)
moderate = st.floats(-3.0, 3.0).map(lambda exponent: 10.0**exponent)


@st.composite
def slopes(draw, classes, y):
    """Any a = q - e_y."""
    q = np.array(draw(st.lists(st.floats(0.0, 1.0), min_size=classes, max_size=classes)))
    q = q / q.sum() if q.sum() > 0.0 else np.full(classes, 1.0 / classes)
    q[y] -= 1.0
    q[y] = -(q.sum() - q[y])
    return q
