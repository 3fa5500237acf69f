"""A learner of K scores without parameters: the mixture of :mod:`giftrl.mixtures.learner` for classes."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from giftrl.errors import require_whole
from giftrl.kernels.base import loss_of_scores
from giftrl.kernels.lane_counts import side
from giftrl.mixtures.combination import CANDIDATES, start
from giftrl.mixtures.entering import entries
from giftrl.mixtures.experts import factor_table, lanes
from giftrl.mixtures.mixture import Array, Mixture
from giftrl.mixtures.multiclass_experts import ClassBuffers
from giftrl.mixtures.multiclass_rounds import ClassPieces, ClassState, learn_classes
from giftrl.ops.loss_scale import bold, kinked, reach


class MulticlassMixture(Mixture):
    """K linear models with one loss of their K scores that need no parameter: experts mixed as they prove themselves.

    Everything is as in :class:`giftrl.mixtures.MixtureLearner`, with a column of weights for each class.

    Args:
        dimension: the number of features.
        classes: K, at least 2.
        loss: a loss of K scores or its name: ``"softmax"``, ``"multiclass_hinge"``.
        constant: which feature is always 1, or None. Without one nothing is centred.
        preset: ``"default"``, or ``"light"`` for four experts and the coin.
        dtype: float32 or float64, how weights are stored.
        compiled: False runs the same functions as plain Python.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, size=200)
    >>> x = np.column_stack([1e6 * (y == 1) + 1e5 * rng.normal(size=200), y + rng.normal(size=200), np.ones(200)])
    >>> learner = MulticlassMixture(3, 3, constant=2, compiled=False)
    >>> p = learner.learn(x, y)
    >>> p.shape, bool((p.argmax(axis=1) == y)[100:].mean() > 0.8)
    ((200, 3), True)
    """

    classes: int
    _loop = staticmethod(learn_classes)

    def __init__(
        self, dimension: int, classes: int, loss: Any = "softmax", *, constant: int | None = None,
        preset: str = "default", dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        require_whole("classes", classes, 2, "give the number of classes")
        super().__init__(dimension, constant, preset, dtype, compiled, int(classes))
        self.loss = loss_of_scores(loss)
        self.pieces = ClassPieces(
            -1 if self.constant is None else self.constant,
            kinked(self.loss), reach(self.loss), bold(self.loss),
        )  # fmt: skip
        self.mixing = ClassState(
            offsets=np.zeros((len(self.expert_names), self.classes)),
            **start(self.expert_names, [True] * CANDIDATES),
            slopes=np.zeros(self.classes),
            sums=np.zeros(6),
        )

    def _buffers(self, width: int) -> ClassBuffers:
        n, experts, k, dtype = lanes(self.grid), len(self.mixing.totals), self.classes, self.dtype
        lines = experts + CANDIDATES + 1
        return ClassBuffers(
            entries(width, dtype), side(experts),
            np.zeros((lines, k)), np.zeros((lines, k)), np.zeros((1, lines)), np.zeros(lines),
            np.zeros(experts), np.zeros(CANDIDATES), np.zeros((k, n)), np.zeros((k, n)), np.zeros((2, k)),
            np.zeros((3, k)), np.zeros((3, experts)), np.zeros((width, k)), np.zeros(len(self.matrix.x)),
            np.zeros((k, len(self.matrix.x))),
            np.zeros((width, n), dtype), factor_table(self.grid, dtype), np.zeros((k, n), dtype),
        )  # fmt: skip

    def clip(self, scores: ArrayLike) -> Array:
        """Scores as they count: with the hinge loss none is more than 1 below the best, as lower ones cost the same."""
        given = np.asarray(scores, np.float64)
        if self.pieces.reach == math.inf:
            return given
        return np.asarray(np.maximum(given, given.max(axis=-1, keepdims=True) - self.pieces.reach))
