"""K linear models with one loss of their K scores: a learner of classes, compiled."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses
from giftrl.compiled.rows import Rows, as_rows
from giftrl.errors import Incompatible, require
from giftrl.kernels.checks import as_classes, as_weights
from giftrl.kernels.engine import Array, OneLearner
from giftrl.kernels.multiclass_loops import learn_multiclass_coordinate, learn_multiclass_uniform
from giftrl.ops.vector_loss import multiclass
from giftrl.regularizers.contract import centred, strength

__all__ = ["MulticlassLearner"]


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

    def __init__(
        self,
        dimension: int,
        classes: int,
        loss: Any = "softmax",
        regularizer: Any = "squared_norm",
        update: Any = "proximal",
        schedule: Any = "temporal",
        *,
        dtype: Any = "float32",
        compiled: bool = True,
    ) -> None:
        loss = losses.MULTICLASS.member(loss, "slope")
        if not multiclass(loss):
            raise Incompatible(
                f"{loss!r} is a loss of one prediction, and each class has a score here; use Softmax or "
                "MulticlassHinge, or LinearLearners for one class against the rest"
            )
        super().__init__(dimension, loss, regularizer, update, schedule, dtype, compiled)
        require(
            isinstance(classes, (int, np.integer)) and classes >= 2,
            "classes", classes, "must be a whole number of at least 2", "give the number of classes",
        )  # fmt: skip
        self.classes = int(classes)
        extra = 0 if self.uniform else 1 + self.classes * centred(self.regularizer)
        self.coordinates = np.zeros((self.dimension, self.classes + extra), self.dtype)

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Learn from a batch, row by row, and return the scores, each made before its label was used.

        Args:
            x: a SciPy sparse matrix or array, or a matrix of numbers, one example a row.
            y: the classes, from 0 to K - 1.
            weights: the importance of each example, 1 where left out.
        """
        rows, n = as_rows(x, self.dimension)
        return self.learn_rows(rows, as_classes(y, n, self.classes), as_weights(weights, n))

    def learn_rows(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """:meth:`learn` without a check of its arguments, as :meth:`giftrl.kernels.LinearLearner.learn_rows`."""
        loop = learn_multiclass_uniform if self.uniform else learn_multiclass_coordinate
        return self._run(loop, rows, y.astype(np.int64), weights, np.empty((len(y), self.classes)))

    @property
    def x(self) -> Array:
        """The point x_t, a column for each class."""
        stored = self.coordinates[:, : self.classes].astype(np.float64)
        if not self.uniform and centred(self.regularizer):
            return stored
        q = 0.0 if self.uniform else self.coordinates[:, -1:].astype(np.float64)
        return np.asarray(stored / strength(self.regularizer, self.lam, q))

    @property
    def theta(self) -> Array:
        """theta_t, a column for each class."""
        first = self.classes if not self.uniform and centred(self.regularizer) else 0
        return self.coordinates[:, first : first + self.classes].astype(np.float64)
