"""Every member of every kind, found by discovery: a new member is tested without touching the tests."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from giftrl import domains, losses, regularizers, schedules, updates
from giftrl.ops.loss import accepts
from giftrl.regularizers import AdaGrad, Centred, Curvature, ElasticNet

#: More than the defaults: parameters away from them, and wrappers around other members.
VARIANTS: dict[str, list[Any]] = {
    "loss": [losses.Quantile(0.9), losses.Huber(0.3), losses.EpsilonInsensitive(0.0), losses.EpsilonInsensitive(2.0)],
    "regularizer": [
        regularizers.PNorm(1.1),
        regularizers.PNorm(2.0),
        AdaGrad(0.1),
        ElasticNet(0.3, 0.5),
        ElasticNet(0.3, base=Centred(AdaGrad())),
        Centred(AdaGrad()),
        Centred(ElasticNet(0.2, base=AdaGrad())),
        ElasticNet(0.1, base=Curvature()),
    ],
    "domain": [
        domains.Ball(0.3),
        domains.Box(0.0, 2.0),
        domains.Box([-1.0, 0.5, 0.0, -0.5], [0.0, 0.5, np.inf, 3.0]),
        domains.Simplex(2.0),
        domains.L1Ball(0.5),
    ],
    "update": [updates.TwoStep(safeguard=True)],
    "schedule": [schedules.TemporalVariability(beta=3.0, floor=1.0)],
}

KINDS = {
    names.kind: names
    for names in (losses.BY_NAME, regularizers.BY_NAME, domains.BY_NAME, updates.BY_NAME, schedules.BY_NAME)
}

#: The dimension in which the members are tested; the box with one bound for each coordinate fits it.
DIMENSION = 4


def members(kind: str) -> list[Any]:
    """Every member of a kind with its default parameters, and the variants."""
    return [cls() for cls in KINDS[kind].values()] + VARIANTS[kind]


def is_classification(loss: Any) -> bool:
    """Whether the labels are -1 and +1."""
    return not accepts(loss, 0.5)


def is_count(loss: Any) -> bool:
    """Whether the labels are not negative."""
    return accepts(loss, 0.5) and not accepts(loss, -0.5)


def label_strategy(loss: Any, largest: float = 1e3) -> st.SearchStrategy[float]:
    """Labels of a loss."""
    if is_classification(loss):
        return st.sampled_from([-1.0, 1.0])
    return st.floats(0.0 if is_count(loss) else -largest, largest)


def label_for(loss: Any, target: float) -> float:
    """The label of a loss that is nearest in spirit to a real target."""
    if is_classification(loss):
        return 1.0 if target >= 0.0 else -1.0
    return abs(target) if is_count(loss) else float(target)


class Thirds(NamedTuple):
    """A schedule of the user's own."""

    scale: float

    def lam(self, t: int, total: float) -> float:
        return self.scale * t ** (1.0 / 3.0)
