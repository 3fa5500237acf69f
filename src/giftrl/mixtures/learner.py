"""A linear learner without parameters: many small learners in one pass, combined into one."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from giftrl import losses
from giftrl.kernels.lane_counts import side
from giftrl.mixtures import labels as unit
from giftrl.mixtures.columns import ROWS
from giftrl.mixtures.combination import CANDIDATES, CLIPPED, LINEAR, start
from giftrl.mixtures.entering import entries
from giftrl.mixtures.experts import factor_table
from giftrl.mixtures.layout import ONE_SCORE
from giftrl.mixtures.mixture import Array, Mixture
from giftrl.mixtures.one_score import Buffers, Pieces, State
from giftrl.mixtures.rounds import learn_mixture
from giftrl.ops.loss import accepts
from giftrl.ops.loss_scale import bold

#: By which part predictions outside the range of labels must be worse for clipping to pay.
COSTLY = 0.1
#: How many sums a mixture of one score has.
SUMS = LINEAR + 1


class MixtureLearner(Mixture):
    """A linear model that needs no parameter: experts of many kinds and rates, mixed as they prove themselves.

    Features are centred and scaled, labels are learnt around their mean (:mod:`giftrl.mixtures.features` and
    :mod:`giftrl.mixtures.labels`); AdaHedge and a Newton stack combine the experts. All of that is linear in the
    features: what was learnt is one weight vector, ``x``.

    Args:
        dimension: the number of features.
        loss: a loss of one prediction, its name, or a NamedTuple of your own.
        constant: which feature is always 1, or None. Without one nothing is centred.
        preset: ``"default"``, or ``"light"`` for four experts.
        dtype: float32 or float64, how weights are stored.
        compiled: False runs the same functions as plain Python.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([1e6 * rng.normal(size=300), 1e-3 * rng.normal(size=300) + 5.0, np.ones(300)])
    >>> y = 1e-6 * x[:, 0] - 2e3 * x[:, 1]
    >>> learner = MixtureLearner(3, "squared", constant=2, compiled=False)
    >>> p = learner.learn(x, y)
    >>> bool(np.mean((p - y)[150:] ** 2) < 0.01 * y.var())
    True
    """

    places = ONE_SCORE
    _loop = staticmethod(learn_mixture)

    def __init__(
        self, dimension: int, loss: Any = "logistic", *, constant: int | None = None, preset: str = "default",
        dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dimension, constant, preset, dtype, compiled)
        self.loss = losses.scalar(loss)
        margin, there = not accepts(self.loss, 0.5), self.constant is not None
        self.pieces = Pieces(
            -1 if self.constant is None else self.constant, margin, bold(self.loss) if margin else 1.0,
            there and not margin,
        )  # fmt: skip
        bolder = self.pieces.bold > 1.0
        self.mixing = State(
            units=unit.start_units(self.loss, margin),
            offsets=np.zeros(len(self.expert_names)),
            **start(self.expert_names, [True, True, bolder, bolder]),
            sums=np.zeros(SUMS),
        )

    def _buffers(self, width: int) -> Buffers:
        columns, places = len(self.mixing.totals), len(self.matrix.x)
        return Buffers(
            entries(width, self.dtype), side(columns), side(columns + CANDIDATES),
            np.zeros((ROWS, columns + CANDIDATES)),
            np.empty((width, 16), self.dtype), factor_table(self.grid, self.dtype), np.zeros((3, 4), self.dtype),
            np.empty(places), np.empty(places),
        )  # fmt: skip

    def clip(self, p: ArrayLike) -> Array:
        """Predictions within :attr:`range`, as :meth:`learn` returns them."""
        low, high = self.range
        return np.clip(np.asarray(p, np.float64), low, high)

    @property
    def clipping_pays(self) -> bool:
        """Whether predictions that may leave the range of the labels seen would of late have cost a tenth more.

        They do where labels have a limit that they often reach, and not where there is a trend: on the data set
        cpusmall, with labels up to 99, leaving the range costs 100 times as much.
        """
        clipped, linear = self.mixing.sums[[CLIPPED, LINEAR]]
        return bool(linear - clipped > COSTLY * abs(clipped))

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest prediction: the labels seen, or the margins beyond which the loss is 0."""
        low, high = float(self.mixing.units[unit.LOW]), float(self.mixing.units[unit.HIGH])
        return (low, high) if low <= high else (-math.inf, math.inf)
