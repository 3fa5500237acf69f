"""Temporal variability: if the losses move slowly, the regret of the proximal update stops growing.

Three sequences of absolute losses l_t(x) = abs(<s_t, x> - y_t), norm(s_t) = 1, whose best point u is known:

- *fixed*: the same loss in every round, so V_T = 0;
- *drift*: s_t turns by 1/t a round and y_t = <s_t, u>, so u has no loss and V_T grows like log T;
- *switch*: y_t is 1, -1, 1, -1, ..., so V_T grows like T. It is the worst case for a learner that starts at 0.

By Corollary 4.3 the regret is of order min(V_T, sqrt(T)), and the learner need not know which is smaller.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require
from giftrl.losses import Absolute
from giftrl.reference.learner import Learner
from giftrl.schedules import SquareRoot, TemporalVariability
from giftrl.updates import Linear, Proximal

Array = NDArray[np.float64]

SEQUENCES = {
    "fixed": "the same loss in every round: V_T = 0",
    "drift": "a loss that turns by 1/t in round t: V_T of order log T",
    "switch": "labels 1, -1, 1, -1, ...: V_T of order T",
}

TEMPORAL_RULES: dict[str, tuple[Any, Any]] = {
    "proximal, temporal schedule": (Proximal(lookahead=True), TemporalVariability(1.0)),
    "linear, sqrt schedule": (Linear(), SquareRoot(1.0)),
    "linear, temporal schedule": (Linear(), TemporalVariability(1.0)),
}


class RegretPath(NamedTuple):
    """The regret of one rule on one sequence after each of ``rounds``, and the bound of Corollary 4.3 or NaN."""

    sequence: str
    rule: str
    rounds: tuple[int, ...]
    regret: tuple[float, ...]
    bound: tuple[float, ...]


def examples(sequence: str, rounds: int) -> Iterator[tuple[Array, float]]:
    """The features and the label of each round."""
    known = ", ".join(SEQUENCES)
    require(sequence in SEQUENCES, "sequence", sequence, "must be a known sequence", f"known: {known}")
    u, angle = comparator(sequence), 0.0
    for t in range(1, rounds + 1):
        s = np.array([math.cos(angle), math.sin(angle)])
        yield s, (-1.0) ** (t - 1) if sequence == "switch" else float(s @ u)
        if sequence == "drift":
            angle += 1.0 / t


def comparator(sequence: str) -> Array:
    """The best point u of a sequence. It has no loss, except on *switch*, where no point has a smaller loss."""
    return np.zeros(2) if sequence == "switch" else np.array([0.7, 0.4])


def follow(sequence: str, rule: str, rounds: int = 4096) -> RegretPath:
    """Run one rule over one sequence, and record the regret after 1, 2, 4, ... rounds."""
    update, schedule = TEMPORAL_RULES[rule]
    learner = Learner(2, update=update, schedule=schedule)
    loss, u = Absolute(), comparator(sequence)
    total, recorded, regrets, bounds = 0.0, [], [], []
    for t, (s, y) in enumerate(examples(sequence, rounds), 1):
        total += learner.observe(loss, s, y).loss - loss.value(float(s @ u), y)
        if t & (t - 1) == 0 or t == rounds:
            recorded.append(t)
            regrets.append(total)
            covered = rule == "proximal, temporal schedule"
            bounds.append(learner.certificate.corollary_4_3(u) if covered else math.nan)
    return RegretPath(sequence, rule, tuple(recorded), tuple(regrets), tuple(bounds))


def growth(path: RegretPath) -> float:
    """The exponent of T in the regret, from T/16 to T: 0 means constant, 0.5 means sqrt(T)."""
    last = path.rounds[-1]
    first = next(i for i, t in enumerate(path.rounds) if 16 * t >= last)
    begin, end = path.regret[first], path.regret[-1]
    if not (begin > 0.0 and end > 0.0):
        return 0.0
    return math.log(end / begin) / math.log(last / path.rounds[first])


def run(rounds: int = 4096) -> list[RegretPath]:
    """Run every rule over every sequence."""
    return [follow(sequence, rule, rounds) for sequence in SEQUENCES for rule in TEMPORAL_RULES]
