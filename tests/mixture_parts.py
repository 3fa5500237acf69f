"""Parts of a mixture without a learner, from the functions of its loop: one expert, one label or one row at a time."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.compiled import compiler
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import as_rows, longest
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.combination import COVARIANCE, bend_stack, hedge, move_stack, observe, rate, spread_stack
from giftrl.mixtures.scale_row import entries, scale_row
from giftrl.mixtures.state import ONE_SCORE, Pieces, blocks, no_features, with_capacity
from giftrl.ops.loss import accepts, curvature, prox
from giftrl.ops.scalar import clamp

Array = NDArray[np.float64]


class AdaHedge:
    """Weights for experts from their losses so far."""

    def __init__(self, experts: int) -> None:
        self.total = np.zeros(experts)
        self.gap = 0.0
        self.loss = 0.0

    @property
    def weights(self) -> Array:
        """The weights for the next round."""
        weights: Array = hedge(self.total, self._rate)
        return weights

    @property
    def _rate(self) -> float:
        return rate(math.log(len(self.total)), self.gap)

    def observe(self, losses: ArrayLike) -> None:
        """Update the weights by the losses of a round."""
        given, weights = np.asarray(losses, np.float64), self.weights
        self.loss += float(weights @ given)
        self.gap = observe(self._rate, self.gap, weights, given)
        self.total += given

    @property
    def regret(self) -> float:
        """The sum of the weighted mean losses, less the total loss of the best expert."""
        return self.loss - float(self.total.min())


class Experts(NamedTuple):
    """Any number of lanes, for plain Python."""

    experts: int

    def lanes(self) -> int:
        return self.experts


class NewtonStack:
    """A linear model of experts' predictions; ``origin`` is subtracted from all of them."""

    def __init__(self, experts: int, loss: Any, origin: float = 0.0) -> None:
        self.loss, self.origin = loss, origin
        self.v: Array = np.full(experts, 1.0 / experts)
        self.inverse: Array = COVARIANCE * np.eye(experts)

    def predict(self, predictions: ArrayLike) -> float:
        """The combined prediction."""
        return self.origin + float(self.v @ (np.asarray(predictions, np.float64) - self.origin))

    def observe(self, predictions: ArrayLike, y: float, temperature: float = 1.0) -> float:
        """Return the combined prediction, then learn from the label; losses are divided by the temperature."""
        f = self.predict(predictions)
        z = np.asarray(predictions, np.float64) - self.origin
        side = Experts(len(z))
        az = spread_stack(side, self.inverse, z)
        c = max(0.0, float(z @ az))
        a = prox(self.loss, f, y, c / temperature) / temperature
        move_stack(side, self.v, az, a)
        bend_stack(side, self.inverse, az, c, curvature(self.loss, f - a * c, y) / temperature)
        return f


class LabelUnits:
    """The units of the labels seen so far."""

    def __init__(self, loss: Any, centre: bool) -> None:
        self.loss, self.centre, self.margin = loss, centre, not accepts(loss, 0.5)
        self.units = unit.start_units(loss, self.margin)

    def observe(self, y: float, weight: float) -> None:
        """Update the units by a label."""
        y = clamp(y, -unit.LARGEST_LABEL, unit.LARGEST_LABEL)
        unit.widen(self.loss, self.units, y, self.margin)
        unit.update_label_means(self.loss, self.units, y, weight, self.margin, self.centre)


@formula
def scale_rows(features: Any, columns: Any, x: Any, how: Any, rows: Any, count: int, row: Any, out: Any) -> None:
    """Put the rows u into a dense array."""
    for i in range(count):
        for k in range(scale_row(features, columns, x, how, rows, i, row)):
            out[i, row.j[k]] = row.u[k]


class FeatureScaler:
    """A scaler that centres and scales features as rows come in.

    Args:
        dimension: the number of features.
        constant: the feature that is always 1, and is not centred; None if there is none.
        centre: whether dense features are centred.
        compiled: False runs the same functions as plain Python.
    """

    def __init__(
        self, dimension: int, constant: int | None = None, *, centre: bool = True, compiled: bool = False
    ) -> None:
        self.dimension, self.compiled = dimension, compiled
        none = dimension if centre else -1  # a feature beyond the last, so that all of them are centred
        self.pieces = Pieces(none if constant is None or not centre else constant, True, 1.0, False)
        self.features = no_features(blocks(dimension, ONE_SCORE.total, np.float64))

    def transform(self, x: Any) -> Array:
        """The rows u, each computed from that row and those before it."""
        rows, n = as_rows(x, self.dimension, compiled=self.compiled)
        self.features = with_capacity(self.features, self.dimension, int(longest(rows)))
        width = int(longest(rows)) + len(self.features.dense)
        out, row = np.zeros((n, self.dimension)), entries(width, np.float64)
        loop = compiler.ready(scale_rows, self.compiled)
        loop(self.features, ONE_SCORE, self.features.x, self.pieces, rows, n, row, out)
        return out
