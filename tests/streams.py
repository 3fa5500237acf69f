"""Random streams of examples, and every learner that makes sense, for tests of whole runs."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from giftrl import Learner, updates
from giftrl.errors import Incompatible, Overflowed
from giftrl.losses.vector import Vector
from giftrl.ops.loss import value
from tests.members import DIMENSION, label_for, members


class Example(NamedTuple):
    s: Vector
    y: float
    weight: float


def stream(loss: Any, rounds: int, seed: int, scale: float = 1.0) -> list[Example]:
    """Examples of a noisy linear model; some features and some weights are 0."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=DIMENSION)
    examples = []
    for _ in range(rounds):
        s = scale * rng.normal(size=DIMENSION) * rng.integers(0, 2, size=DIMENSION)
        y = label_for(loss, float(s @ truth) + 0.3 * rng.normal())
        examples.append(Example(s, y, float(rng.choice([0.0, 0.5, 1.0, 1.0, 4.0]))))
    return examples


def total_loss(loss: Any, examples: list[Example], u: Vector) -> float:
    """sum_t l_t(u)."""
    return sum(e.weight * value(loss, float(e.s @ u), e.y) for e in examples)


def play(learner: Any, loss: Any, examples: list[Example]) -> list[Any]:
    """Show the examples to a learner; the steps.

    Explicit updates can run away (the exponential of the Poisson loss does it in a few rounds) and then say so: the
    steps end there, and the learner is as it was before that round.
    """
    steps = []
    for e in examples:
        try:
            steps.append(learner.observe(loss, e.s, e.y, weight=e.weight))
        except Overflowed:
            assert isinstance(learner.update, updates.Linear | updates.TwoStep)
            break
    return steps


@st.composite
def learners(draw: st.DrawFn) -> Learner:
    """Every update x look-ahead x regularizer x domain x schedule that makes sense together."""
    parts = [draw(st.sampled_from(members(kind))) for kind in ("regularizer", "domain", "update", "schedule")]
    parts[2] = parts[2]._replace(lookahead=draw(st.sampled_from([True, False, None])))
    try:
        return Learner(DIMENSION, *parts)
    except Incompatible:
        reject()
