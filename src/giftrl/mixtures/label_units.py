"""The scale of labels: offset, spread and range, and the scale of slope and curvature.

With labels -1 and +1, predictions start at 0 and all units are 1. In regression they start at o, the running mean
label; Y is the mean distance of labels from o, S the mean absolute slope of the loss at o, and predictions stay between
the smallest and the largest label so far. kappa = S/Y is the curvature of a parabola with slope S at distance Y.

The curvature of a piecewise linear loss is 0 almost everywhere. It is replaced by the curvature of a parabola with the
mean slope at the mean residual, or at distance 1 for labels -1 and +1.

Beyond the range of predictions, experts learn from a linear continuation of the loss (:class:`Extended`).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.registry import formula
from giftrl.mixtures.clip_limits import LARGEST_LABEL, SMALLEST_SPREAD
from giftrl.ops.loss import (
    approach_all,
    bend_at,
    curvature,
    highest,
    kinked,
    lowest,
    offset,
    prox,
    reach,
    slope,
    spread,
    value,
)
from giftrl.ops.scalar import clamp

#: The entries of ``units``: total weight and mean of labels, Y, S, the range, o, the first o; and of the combined
#: predictions the total weight, and the means of absolute residuals, of absolute slopes and of the products of both.
WEIGHT, LABEL, SPREAD, SLOPE, LOW, HIGH, OFFSET, ORIGIN, JUDGED, RESIDUAL, STEEP, PRODUCT = range(12)
UNIT_COUNT = 12
#: The units for K scores: scale 1, offset 0.
CLASS_UNITS: NDArray[np.float64] = np.ones(UNIT_COUNT)
CLASS_UNITS[[OFFSET, ORIGIN]] = 0.0
#: The minimum of the mean residual relative to Y, which bounds the curvature of the parabola.
LEAST_RESIDUAL = 1e-3


def start_units(loss: Any, margin: bool) -> NDArray[np.float64]:
    """The initial units; ``margin`` is True for labels -1 and +1."""
    units = np.zeros(UNIT_COUNT)
    units[LOW], units[HIGH] = np.inf, -np.inf
    if margin:
        units[WEIGHT] = units[SPREAD] = 1.0
        units[SLOPE] = max(1.0, abs(slope(loss, 0.0, 1.0)))
        units[LOW], units[HIGH] = -reach(loss), reach(loss)
    return units


@formula
def ready(units: Any) -> bool:
    """True once Y and S are known, after two different labels."""
    return bool(units[SPREAD] > SMALLEST_SPREAD and units[SLOPE] > SMALLEST_SPREAD)


@formula
def unit_spread(units: Any) -> float:
    """Y, or 1 before it is known."""
    return float(units[SPREAD]) if ready(units) else 1.0


@formula
def unit_slope(units: Any) -> float:
    """S, or 1 before it is known."""
    return float(units[SLOPE]) if ready(units) else 1.0


@formula
def kappa(units: Any) -> float:
    """kappa = S/Y, the unit of curvature."""
    return unit_slope(units) / unit_spread(units)


@formula
def per_norm(units: Any, norm: float) -> float:
    """Y/N, the unit of weights."""
    return unit_spread(units) / norm


@formula
def widen(loss: Any, units: Any, y: float, margin: bool) -> None:
    """Extend the range of predictions to this label."""
    if not margin:
        units[LOW] = min(units[LOW], lowest(loss, y))
        units[HIGH] = max(units[HIGH], highest(loss, y))


@formula
def update_label_means(loss: Any, units: Any, y: float, h: float, margin: bool, centre: bool) -> None:
    """Update the means by a label."""
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
    # The first nonzero distance from o is also used for all earlier labels.
    part = h / units[WEIGHT] if known else 1.0
    units[SPREAD] += part * (min(spread(loss, y, o), LARGEST_LABEL) - units[SPREAD])
    units[SLOPE] += part * (min(abs(slope(loss, o, y)), LARGEST_LABEL) - units[SLOPE])
    if centre:
        units[OFFSET] = offset(loss, units[LABEL], units[WEIGHT])


@formula
def update_residual_means(loss: Any, units: Any, p: float, y: float, h: float, g: float) -> None:
    """Add the residual and the slope g of a combined prediction to the means."""
    residual, g = min(spread(loss, y, p), LARGEST_LABEL), min(abs(g), LARGEST_LABEL)
    units[JUDGED] += h
    part = h / units[JUDGED]
    units[RESIDUAL] += part * (residual - units[RESIDUAL])
    units[STEEP] += part * (g - units[STEEP])
    units[PRODUCT] += part * (min(residual * g, LARGEST_LABEL) - units[PRODUCT])


@formula
def bend(loss: Any, units: Any, p: float, y: float, g: float, margin: bool) -> float:
    """The curvature of the loss at p, where its slope is g; for a loss with kinks, the curvature of the parabola."""
    if not kinked(loss):
        return bend_at(loss, p, y, g)
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


class Extended(NamedTuple):
    """phi in [low, high], continued by its tangents, so that far predictions have a linear loss.

    phi(p; y) for p in [low, high]; phi(high) + phi'(high) (p - high) above; the mirror image below. Its slopes are
    those of phi between phi'(low) and phi'(high), and so is its proximal step.

    Args:
        loss: a scalar loss whose minimiser lies in the range.
        low, high: the range; may be infinite.

    >>> from giftrl.losses import Squared
    >>> Extended(Squared(), 0.0, 2.0).value(5.0, 1.0), Extended(Squared(), 0.0, 2.0).slope(5.0, 1.0)
    (3.5, 1.0)
    >>> Extended(Squared(), 0.0, 2.0).prox(5.0, 1.0, 1.0)
    1.0
    """

    loss: Any
    low: float
    high: float

    def value(self, p: float, y: float) -> float:
        q = clamp(p, self.low, self.high)
        phi = value(self.loss, q, y)
        return phi if p == q else phi + slope(self.loss, q, y) * (p - q)

    def slope(self, p: float, y: float) -> float:
        return slope(self.loss, clamp(p, self.low, self.high), y)

    def curvature(self, p: float, y: float) -> float:
        return curvature(self.loss, p, y) if self.low <= p <= self.high else 0.0

    def prox(self, p: float, y: float, c: float) -> float:
        return clamp(prox(self.loss, p, y, c), slope(self.loss, self.low, y), slope(self.loss, self.high, y))

    def approach_all(self, side: Any, p: Any, y: float, c: Any, g: Any, a: Any) -> None:
        if self.low == -math.inf and self.high == math.inf:
            approach_all(self.loss, side, p, y, c, g, a)
            return
        for k in range(len(p)):
            a[k] = g[k] if self.low <= p[k] <= self.high else slope(self.loss, p[k], y)
        approach_all(self.loss, side, p, y, c, a, a)
        least, most = slope(self.loss, self.low, y), slope(self.loss, self.high, y)
        for k in range(len(p)):
            a[k] = clamp(a[k], least, most)
