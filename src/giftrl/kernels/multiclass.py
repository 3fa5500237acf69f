"""K linear models with one loss of their K scores: a learner of classes, compiled."""

from typing import Any

import numpy as np

from giftrl.errors import require_whole
from giftrl.kernels.checks import loss_of_scores
from giftrl.kernels.engine import Array, OneLearner
from giftrl.kernels.multiclass_loops import learn_multiclass_coordinate, learn_multiclass_uniform
from giftrl.memory import zeros
from giftrl.regularizers.contract import centred, strength


class MulticlassLearner(OneLearner):
    """Generalized implicit FTRL for K linear models with one loss of their K scores, compiled.

    Args:
        dimension: the number of features.
        classes: K, at least 2.
        loss: a loss of K scores or its name: ``"softmax"``, ``"multiclass_hinge"``.
        regularizer: a diagonal one without an L1 term, or its name; its strengths are shared by the classes.
        update: a member of :mod:`giftrl.updates` or its name, or one of your own that brings ``pick_scores``.
        schedule: a member of :mod:`giftrl.schedules` or its name.
        dtype: float32 or float64, how coordinates are stored.
        compiled: False runs the same functions as plain Python.

    >>> learner = MulticlassLearner(2, 3, "softmax", compiled=False)
    >>> learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 2, 0]).round(4).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.1853, -0.4041, 0.2188]]
    >>> learner.certificate.theta.shape
    (6,)
    """

    _loops = (learn_multiclass_uniform, learn_multiclass_coordinate)

    def __init__(
        self, dimension: int, classes: int, loss: Any = "softmax", regularizer: Any = "squared_norm",
        update: Any = "proximal", schedule: Any = "temporal", *, dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dimension, loss_of_scores(loss), regularizer, update, schedule, dtype, compiled)
        self.classes: int = require_whole("classes", classes, 2, "give the number of classes")
        extra = 0 if self.uniform else 1 + self.classes * centred(self.regularizer)
        beside = self._beside(self.classes)
        self.coordinates = zeros((self.dimension, self.classes + extra), self.dtype, beside=beside)

    def weights_of(self, features: Any) -> Array:
        chosen = self.coordinates[features]
        stored: Array = chosen[:, : self.classes].astype(np.float64)
        if not self.uniform and centred(self.regularizer):
            return stored
        q = 0.0 if self.uniform else chosen[:, -1:].astype(np.float64)
        return np.asarray(stored / strength(self.regularizer, self.lam, q))

    @property
    def theta(self) -> Array:
        """theta_t, a column for each class."""
        first = self.classes if not self.uniform and centred(self.regularizer) else 0
        theta: Array = self.coordinates[:, first : first + self.classes].astype(np.float64)
        return theta if self.ahead is None else theta + self.ahead
