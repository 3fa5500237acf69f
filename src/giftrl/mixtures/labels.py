"""Labels in their own units: where predictions start, how far they range, how steep and how curved the loss is.

A loss of labels -1 and +1 starts at 0, and its units are 1. For real labels the constant prediction o is the running
mean label, Y the mean distance from it, and S the mean slope of the loss there; predictions range between the smallest
and the largest label so far. kappa = S/Y is then the curvature of a parabola that has this slope at this distance.

A loss with kinks has no curvature of its own. Its parabola has the mean slope at the mean residual (mean margin: 1).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl import losses
from giftrl.compiled.registry import formula
from giftrl.errors import require
from giftrl.mixtures.limits import LARGEST_LABEL, SMALLEST_SPREAD
from giftrl.ops.loss import accepts, curvature, slope
from giftrl.ops.loss import labels as describe
from giftrl.ops.scalar import clamp
from giftrl.ops.units import highest, kinked, lowest, offset, reach, spread

__all__ = [
    "bend",
    "kappa",
    "per_norm",
    "ready",
    "start_units",
    "temperature",
    "unit_slope",
    "unit_spread",
    "widen",
    "witness",
]

#: What is kept: the weight and mean of labels, the means of their spread and of slopes at o, the range, o, the first o,
#: and, of the combined predictions: their weight, and the means of residuals, of slopes and of the products of both.
WEIGHT, LABEL, SPREAD, SLOPE, LOW, HIGH, OFFSET, ORIGIN, JUDGED, RESIDUAL, STEEP, PRODUCT = range(12)
SIZE = 12
#: Mean residuals count as at least this part of Y: where they vanish, the parabola would have no end of curvature.
LEAST_RESIDUAL = 1e-3


def start_units(loss: Any, margin: bool) -> NDArray[np.float64]:
    """Before the first label; ``margin`` for labels -1 and +1."""
    units = np.zeros(SIZE)
    units[LOW], units[HIGH] = np.inf, -np.inf
    if margin:
        units[WEIGHT] = units[SPREAD] = 1.0
        units[SLOPE] = max(1.0, abs(slope(loss, 0.0, 1.0)))
        units[LOW], units[HIGH] = -reach(loss), reach(loss)
    return units


@formula
def ready(units: Any) -> bool:
    """Whether there is something to learn: until two labels differ there is not, and no unit to measure it in."""
    return bool(units[SPREAD] > SMALLEST_SPREAD and units[SLOPE] > SMALLEST_SPREAD)


@formula
def unit_spread(units: Any) -> float:
    """Y."""
    return float(units[SPREAD]) if ready(units) else 1.0


@formula
def unit_slope(units: Any) -> float:
    """S."""
    return float(units[SLOPE]) if ready(units) else 1.0


@formula
def kappa(units: Any) -> float:
    """S/Y."""
    return unit_slope(units) / unit_spread(units)


@formula
def per_norm(units: Any, norm: float) -> float:
    """Y/N: the unit of weights."""
    return unit_spread(units) / norm


@formula
def widen(loss: Any, units: Any, y: float, margin: bool) -> None:
    """Let predictions range as far as this label."""
    if not margin:
        units[LOW] = min(units[LOW], lowest(loss, y))
        units[HIGH] = max(units[HIGH], highest(loss, y))


@formula
def witness(loss: Any, units: Any, y: float, h: float, margin: bool, centre: bool) -> None:
    """Take a label into the means, after it was learnt from."""
    if margin:
        return
    first = units[WEIGHT] == 0.0
    known = ready(units)
    o = units[OFFSET]
    units[WEIGHT] += h
    units[LABEL] += h * (y - units[LABEL]) / units[WEIGHT]
    if first:
        if centre:
            units[OFFSET] = offset(loss, y, h)
            units[ORIGIN] = units[OFFSET]
            return
        o = 0.0
    # What is first seen of the spread stands for all labels before it.
    part = h / units[WEIGHT] if known else 1.0
    units[SPREAD] += part * (min(spread(loss, y, o), LARGEST_LABEL) - units[SPREAD])
    units[SLOPE] += part * (min(abs(slope(loss, o, y)), LARGEST_LABEL) - units[SLOPE])
    if centre:
        units[OFFSET] = offset(loss, units[LABEL], units[WEIGHT])


@formula
def judge(loss: Any, units: Any, p: float, y: float, h: float) -> None:
    """Take the residual and slope of a combined prediction into the means."""
    residual, g = min(spread(loss, y, p), LARGEST_LABEL), min(abs(slope(loss, p, y)), LARGEST_LABEL)
    units[JUDGED] += h
    part = h / units[JUDGED]
    units[RESIDUAL] += part * (residual - units[RESIDUAL])
    units[STEEP] += part * (g - units[STEEP])
    units[PRODUCT] += part * (min(residual * g, LARGEST_LABEL) - units[PRODUCT])


@formula
def bend(loss: Any, units: Any, p: float, y: float, margin: bool) -> float:
    """The curvature of the loss at p; for a loss with kinks, that of its parabola."""
    if not kinked(loss):
        return curvature(loss, p, y)
    if units[JUDGED] == 0.0:
        return 0.0
    away = 1.0 if margin else max(units[RESIDUAL], LEAST_RESIDUAL * unit_spread(units))
    return float(units[STEEP] / away)


@formula
def temperature(units: Any, margin: bool) -> float:
    """The unit of losses: 1 for labels -1 and +1, the mean of residual times slope for real labels."""
    if margin or units[JUDGED] == 0.0:
        return 1.0
    least = LEAST_RESIDUAL * LEAST_RESIDUAL * unit_spread(units) * unit_slope(units)
    return float(max(units[PRODUCT], least))


@formula
def within(units: Any, p: float) -> float:
    """p clipped to the range of labels so far; the first prediction is 0."""
    if not units[LOW] <= units[HIGH]:
        return 0.0
    return clamp(p, units[LOW], units[HIGH])


class LabelUnits:
    """The units of labels, from those seen so far, for use alone.

    Args:
        loss: a loss of one prediction, or its name.
        centre: False for predictions that start at 0 whatever the labels are.

    >>> units = LabelUnits("squared")
    >>> for y in [10.0, 14.0]:
    ...     units.observe(y)
    >>> units.offset, units.spread, units.range
    (12.0, 4.0, (10.0, 14.0))
    """

    def __init__(self, loss: Any = "squared", *, centre: bool = True) -> None:
        self.loss = losses.scalar(loss)
        self.centre = centre
        self.margin = not accepts(self.loss, 0.5)
        self.units = start_units(self.loss, self.margin)

    def observe(self, y: float, weight: float = 1.0) -> None:
        """Take in a label."""
        good = accepts(self.loss, y) and 0.0 < weight < np.inf
        require(good, "y, weight", (y, weight), f"must be {describe(self.loss)}, and positive", "leave this row out")
        y = clamp(y, -LARGEST_LABEL, LARGEST_LABEL)
        widen(self.loss, self.units, y, self.margin)
        witness(self.loss, self.units, y, weight, self.margin, self.centre)

    @property
    def offset(self) -> float:
        """o, the constant prediction."""
        return float(self.units[OFFSET])

    @property
    def spread(self) -> float:
        """Y, the mean distance of a label from o as it was before; 1 until two labels differ."""
        return unit_spread(self.units)

    @property
    def slope(self) -> float:
        """S, the mean slope of the loss there; 1 until two labels differ."""
        return unit_slope(self.units)

    @property
    def range(self) -> tuple[float, float]:
        """Between which predictions are worth making."""
        return float(self.units[LOW]), float(self.units[HIGH])

    def clip(self, p: float) -> float:
        """The prediction of that range nearest to p; 0 before the first label."""
        return within(self.units, p)
