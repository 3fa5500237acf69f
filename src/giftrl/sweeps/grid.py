"""A grid of models: several curves, each at several betas. All models that share a regularizer learn in one pass."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl import losses, updates
from giftrl.errors import InvalidInput, require
from giftrl.kernels import LinearLearners
from giftrl.regularizers import SquaredNorm
from giftrl.schedules import TemporalVariability

Array = NDArray[np.float64]

#: The largest number of predictions (rows times models) in memory: 32 MiB.
MAX_PREDICTIONS = 1 << 22

#: The largest number of betas of a grid.
MAX_BETAS = 10_000

#: The endings of the name of an update after a colon, with an argument and its value.
UPDATE_ENDINGS = {"ahead": ("lookahead", True), "now": ("lookahead", False), "safe": ("safeguard", True)}


@dataclass(frozen=True)
class Curve:
    """A learner whose beta is left open, to be run with each beta of a grid.

    Attributes:
        name: its name in tables and figures.
        update: a member of :mod:`giftrl.updates`.
        schedule: a member of :mod:`giftrl.schedules`; the grid replaces its beta.
        regularizer: a diagonal member of :mod:`giftrl.regularizers`.
        scale: the learner's beta is ``scale`` times the beta of the grid.

    >>> Curve("proximal", updates.Proximal(), scale=10.0).model(0.5)[1].beta
    5.0
    """

    name: str
    update: Any
    schedule: Any = field(default_factory=TemporalVariability)
    regularizer: Any = field(default_factory=SquaredNorm)
    scale: float = 1.0

    def model(self, beta: float) -> tuple[Any, Any]:
        """The update and the schedule at one beta of the grid."""
        return self.update, type(self.schedule)(**{**self.schedule._asdict(), "beta": beta * self.scale})


@dataclass(frozen=True)
class Grid:
    """Every curve at every beta, with one loss.

    >>> grid = Grid("hinge", (Curve("linear", updates.Linear()), Curve("proximal", updates.Proximal())), (0.1, 9.0))
    >>> grid.losses(np.eye(2)[[0, 0, 1, 1]], np.array([1.0, -1.0, 1.0, 1.0]), compiled=False).round(4)
    array([[1.0125, 3.    ],
           [1.0125, 1.    ]])
    """

    loss: Any
    curves: tuple[Curve, ...]
    betas: tuple[float, ...]

    def __post_init__(self) -> None:
        require(len(self.curves) > 0, "updates", self.curves, "must name at least one", "try updates=proximal")
        names = [curve.name for curve in self.curves]
        require(len(set(names)) == len(names), "updates", names, "must differ in name", "leave out the repeated one")
        losses.BY_NAME.member(self.loss, "slope")

    def losses(self, x: Any, y: Array, order: NDArray[np.int64] | None = None, *, compiled: bool = True) -> Array:
        """The average loss of one pass, for each curve (rows) and beta (columns); infinite if a model overflows.

        Args:
            x: the features, one example a row, dense or CSR.
            y: the labels.
            order: the order of the rows; None for the order of ``x``.
            compiled: False runs the same functions as plain Python.
        """
        result = np.empty((len(self.curves), len(self.betas)))
        passes: dict[str, tuple[Any, list[int]]] = {}  # each regularizer with its curves, which learn in one pass
        for k, curve in enumerate(self.curves):
            # By their repr: members without parameters are empty tuples, which are equal.
            passes.setdefault(repr(curve.regularizer), (curve.regularizer, []))[1].append(k)
        for regularizer, members in passes.values():
            settings = [self.curves[k].model(beta) for k in members for beta in self.betas]
            learners = LinearLearners(x.shape[1], settings, self.loss, regularizer, dtype="float64", compiled=compiled)
            step = max(1, MAX_PREDICTIONS // len(settings))
            for begin in range(0, len(y), step):
                batch = slice(begin, begin + step) if order is None else order[begin : begin + step]
                learners.learn(x[batch], y[batch])
            sums = np.array([certificate.loss_sum for certificate in learners.certificates])
            sums[np.isnan(sums)] = math.inf  # the model diverged
            result[members] = sums.reshape(len(members), -1) / len(y)
        return result


def parse_betas(text: str) -> tuple[float, ...]:
    """Betas from ``low:high:count``, which are evenly spaced on a logarithmic axis, or from a list such as ``1,3``.

    >>> parse_betas("1e-1:1e1:5")
    (0.1, 0.31622776601683794, 1.0, 3.1622776601683795, 10.0)
    >>> parse_betas("1, 3")
    (1.0, 3.0)
    """
    remedy = "try 1e-3:1e3:13, or a list such as 0.1,1,10"
    many = False
    try:
        if ":" in text:
            low, high, count = text.split(":")
            many = int(count) > MAX_BETAS
            betas = () if many else spaced(float(low), float(high), int(count))
        else:
            betas = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput("betas", text, "must be low:high:count, or numbers separated by commas", remedy) from None
    require(not many, "betas", text, f"must have at most {MAX_BETAS} values, a model each", remedy)
    require(all(0.0 < beta < math.inf for beta in betas), "betas", text, "must be positive and finite", remedy)
    require(all(a < b for a, b in pairwise(betas)), "betas", text, "must be in ascending order", remedy)
    return betas


def spaced(low: float, high: float, count: int) -> tuple[float, ...]:
    """Numbers evenly spaced on a logarithmic axis. Those within rounding of a power of ten are that power exactly."""
    if count < 2 or not 0.0 < low < high < math.inf:
        raise ValueError
    first, last = math.log10(low), math.log10(high)
    exponents = [first + (last - first) * k / (count - 1) for k in range(count)]
    return tuple(10.0 ** (round(e) if abs(e - round(e)) < 1e-9 else e) for e in exponents)


def parse_updates(text: str, schedule: Any, regularizer: Any) -> tuple[Curve, ...]:
    """Curves from names of updates, separated by commas.

    A name may end in ``:ahead`` (use H), ``:now`` (use H') or, for twostep, ``:safe`` (use the safeguard).

    >>> [curve.update for curve in parse_updates("truncated:now,twostep:safe", TemporalVariability(), SquaredNorm())]
    [Truncated(lookahead=False), TwoStep(lookahead=None, safeguard=True)]
    """
    curves = []
    for part in text.split(","):
        name, *modifiers = part.strip().split(":")
        parameters: dict[str, bool] = {}
        for modifier in modifiers:
            known = modifier in UPDATE_ENDINGS and (modifier != "safe" or name == "twostep")
            remedy = "use :ahead (H), :now (H') or, for twostep, :safe"
            require(known, "updates", part.strip(), f"has an unknown ending :{modifier}", remedy)
            parameters.update([UPDATE_ENDINGS[modifier]])
        curves.append(Curve(part.strip(), updates.BY_NAME.make(name, **parameters), schedule, regularizer))
    return tuple(curves)
