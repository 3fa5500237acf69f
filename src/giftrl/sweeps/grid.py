"""A grid of models: curves over beta, all of one order of the data in one pass for each regularizer."""

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

__all__ = ["Curve", "Grid", "parse_betas", "parse_updates"]

Array = NDArray[np.float64]

#: Predictions of this many rounds and models are held at once (32 MiB).
MOST_PREDICTIONS = 1 << 22

#: What may follow the name of an update, and what it sets.
MODIFIERS = {"ahead": ("lookahead", True), "now": ("lookahead", False), "safe": ("safeguard", True)}


@dataclass(frozen=True)
class Curve:
    """One rule, to be run with each beta of a grid.

    Attributes:
        name: what tables and figures call it.
        update: a member of :mod:`giftrl.updates`.
        schedule: a member of :mod:`giftrl.schedules`; its beta is that of the grid.
        regularizer: a diagonal member of :mod:`giftrl.regularizers`.
        scale: the beta of the learner is this times the beta of the grid.

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
        parameters = {**self.schedule._asdict(), "beta": beta * self.scale}
        return self.update, type(self.schedule)(**parameters)


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
        """The average loss of each curve (rows) at each beta (columns) over one pass; infinite where it overflows.

        Args:
            x: one example a row, dense or CSR.
            y: the labels.
            order: in which order the rows come; None is as they are.
            compiled: False runs the same functions as plain Python.
        """
        result = np.empty((len(self.curves), len(self.betas)))
        for regularizer, members in self._passes():
            settings = [self.curves[k].model(beta) for k in members for beta in self.betas]
            learners = LinearLearners(
                x.shape[1], settings, self.loss, regularizer, dtype="float64", compiled=compiled
            )  # fmt: skip
            step = max(1, MOST_PREDICTIONS // len(settings))
            for begin in range(0, len(y), step):
                some = slice(begin, begin + step) if order is None else order[begin : begin + step]
                learners.learn(x[some], y[some])
            sums = np.array([certificate.loss_sum for certificate in learners.certificates])
            # A model that diverged so far that its sum is not a number is one whose loss is without bound.
            sums[np.isnan(sums)] = math.inf
            result[members] = sums.reshape(len(members), -1) / len(y)
        return result

    def _passes(self) -> list[tuple[Any, list[int]]]:
        """The different regularizers, and the curves of each: those share a pass."""
        found: list[tuple[Any, list[int]]] = []
        for k, curve in enumerate(self.curves):
            for regularizer, members in found:
                if type(regularizer) is type(curve.regularizer) and regularizer == curve.regularizer:
                    members.append(k)
                    break
            else:
                found.append((curve.regularizer, [k]))
        return found


def parse_betas(text: str) -> tuple[float, ...]:
    """Betas from ``low:high:count``, evenly spaced on a logarithmic axis, or from a list with commas.

    >>> parse_betas("1e-1:1e1:5")
    (0.1, 0.31622776601683794, 1.0, 3.1622776601683795, 10.0)
    >>> parse_betas("1, 3")
    (1.0, 3.0)
    """
    remedy = "try 1e-3:1e3:13, or a list such as 0.1,1,10"
    try:
        if ":" in text:
            low, high, count = text.split(":")
            found = spaced(float(low), float(high), int(count))
        else:
            found = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput("betas", text, "must be low:high:count or numbers with commas between", remedy) from None
    good = len(found) > 0 and all(0.0 < beta < math.inf for beta in found)
    require(good, "betas", text, "must be positive and finite", remedy)
    require(all(a < b for a, b in pairwise(found)), "betas", text, "must grow", remedy)
    return found


def spaced(low: float, high: float, count: int) -> tuple[float, ...]:
    """Numbers evenly spaced on a logarithmic axis; those that should be powers of ten are."""
    if count < 2 or not 0.0 < low < high < math.inf:
        raise ValueError
    first, last = math.log10(low), math.log10(high)
    exponents = [first + (last - first) * k / (count - 1) for k in range(count)]
    return tuple(10.0 ** (round(e) if abs(e - round(e)) < 1e-9 else e) for e in exponents)


def parse_updates(text: str, schedule: Any, regularizer: Any) -> tuple[Curve, ...]:
    """Curves from names with commas between; ``:ahead``, ``:now`` and ``:safe`` choose H, H' and the safeguard.

    >>> [curve.update for curve in parse_updates("truncated:now,twostep:safe", TemporalVariability(), SquaredNorm())]
    [Truncated(lookahead=False), TwoStep(lookahead=None, safeguard=True)]
    """
    found = []
    for part in text.split(","):
        name, *modifiers = part.strip().split(":")
        parameters = {}
        for modifier in modifiers:
            known = modifier in MODIFIERS and (modifier != "safe" or name == "twostep")
            remedy = "use :ahead (H), :now (H') or, for twostep, :safe"
            require(known, "updates", part.strip(), f"has an unknown ending :{modifier}", remedy)
            argument, setting = MODIFIERS[modifier]
            parameters[argument] = setting
        found.append(Curve(part.strip(), updates.BY_NAME.make(name, **parameters), schedule, regularizer))
    return tuple(found)
