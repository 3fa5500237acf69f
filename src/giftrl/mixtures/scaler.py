"""Features on a common scale, without a learner."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled import compiler
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import as_rows, longest
from giftrl.errors import require
from giftrl.mixtures.entering import enter, entries
from giftrl.mixtures.feature_state import no_features, with_capacity
from giftrl.mixtures.features import Scaling
from giftrl.mixtures.layout import ONE_SCORE, blocks


@formula
def scale_rows(features: Any, columns: Any, x: Any, how: Any, rows: Any, count: int, row: Any, out: Any) -> None:
    """Put the rows u into a dense array."""
    for i in range(count):
        for k in range(enter(features, columns, x, how, rows, i, row)):
            out[i, row.j[k]] = row.u[k]


class FeatureScaler:
    """A scaler that centres and scales features as rows come in, for use without a learner.

    Args:
        dimension: the number of features.
        constant: which feature is always 1, and is not centred; None where there is none.
        centre: whether dense features are centred.
        scale: whether features are divided by their largest deviation so far.
        compiled: False runs the same functions as plain Python.

    >>> FeatureScaler(2, compiled=False).transform([[5.0, 0.0], [7.0, 1.0], [3.0, 0.0], [7.0, 0.0]]).tolist()
    [[0.0, 0.0], [0.5, 1.0], [-0.6666666666666666, 0.0], [0.5, 0.0]]
    """

    def __init__(
        self, dimension: int, constant: int | None = None, *, centre: bool = True, scale: bool = True,
        compiled: bool = True,
    ) -> None:  # fmt: skip
        require(dimension >= 1, "dimension", dimension, "must be at least 1", "give the number of features")
        self.dimension = dimension
        self.constant = -1 if constant is None else constant
        self.centre, self.scale, self.compiled = centre, scale, compiled
        self.features = no_features(blocks(dimension, ONE_SCORE.total, np.float64))

    def transform(self, x: Any) -> NDArray[np.float64]:
        """The rows u, each computed from that row and those before it."""
        rows, n = as_rows(x, self.dimension, compiled=self.compiled)
        self.features = with_capacity(self.features, self.dimension, int(longest(rows)))
        width = int(longest(rows)) + len(self.features.dense)
        out, row = np.zeros((n, self.dimension)), entries(width, np.float64)
        how = Scaling(self.constant, self.centre, self.scale, False)
        loop = compiler.ready(scale_rows, self.compiled)
        loop(self.features, ONE_SCORE, self.features.x, how, rows, n, row, out)
        return out
