"""What mixtures of one score and of K scores share: batches, the state that can be gone on from, the counts."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import Certificate
from giftrl.compiled.rows import Rows, between
from giftrl.mixtures.features import Features
from giftrl.mixtures.full_matrix import Matrix
from giftrl.mixtures.layout import aligned, lines
from giftrl.mixtures.rounds import CONJUGATE, LOSS, ROUNDS

__all__ = ["Array", "Mixture"]

Array = NDArray[np.float64]


class Mixture:
    """A learner whose memory is ``features`` (with the weights of the experts), ``matrix`` and ``mixing``.

    A kind of mixture brings ``_learn``, ``predict_rows``, ``clip``, ``check`` and ``theta``.
    """

    dimension: int
    dtype: np.dtype[Any]
    features: Features
    matrix: Matrix
    mixing: Any

    @property
    def _view(self) -> NDArray[Any]:
        return self.features.record.view(self.dtype)

    def learn_rows(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """``learn`` without a check of its arguments, as :meth:`giftrl.kernels.LinearLearner.learn_rows`.

        Rows of weight 0 are predicted, and leave everything as it is.
        """
        bounds = [0, len(y)]
        if len(weights) > 0 and not weights.all():
            bounds = [0, *(np.flatnonzero(np.diff(weights > 0.0)) + 1).tolist(), len(y)]
        found = []
        for first, last in pairwise(bounds):
            part = between(rows, first, last)
            if len(weights) > 0 and last > first and weights[first] == 0.0:
                found.append(self.clip(self.predict_rows(part, last - first)))
            else:
                found.append(self._learn(part, y[first:last], weights[first:last]))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _learn(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """Learn from rows with weight; the predictions, each made before its label was used."""
        raise NotImplementedError

    def predict_rows(self, rows: Rows, n: int) -> Array:
        """The predictions of n rows at O(nonzeros + dense features); no check of the arguments."""
        raise NotImplementedError

    def clip(self, scores: Any) -> Array:
        """Predictions as they count."""
        raise NotImplementedError

    def check(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Raise unless these are the arrays of a learner with the parts of this one."""
        raise NotImplementedError

    def grow(self, dimension: int) -> None:
        """Make room for more features; they have not been seen yet, and nothing else changes."""
        if dimension > self.dimension:
            old, self.dimension = self.features.record, dimension
            record = lines(dimension, 8 * old.shape[1])
            record[: len(old)] = old
            self.features = self.features._replace(record=record)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that :meth:`restore` takes up again, bit by bit."""
        parts: dict[str, Any] = {"features": self.features, "matrix": self.matrix, "mixing": self.mixing}
        return {f"{name}.{key}": array for name, part in parts.items() for key, array in part._asdict().items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from the state of a learner with the same parts."""
        self.check(state)

        def part(name: str, kind: Any) -> Any:
            given = {key: state[f"{name}.{key}"] for key in kind._fields}
            return kind(**{key: aligned(array) if key == "record" else np.array(array) for key, array in given.items()})

        self.features, self.matrix = part("features", Features), part("matrix", Matrix)
        self.mixing, self.dimension = part("mixing", type(self.mixing)), len(self.features.record)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A pickle keeps what arrays hold, and not where they begin in memory."""
        self.__dict__.update(state)
        self.features = self.features._replace(record=aligned(self.features.record))

    @property
    def theta(self) -> Array:
        """theta of the certificate: minus the sum of slope times row."""
        raise NotImplementedError

    @property
    def theta_norm(self) -> float:
        """norm2(theta) of its entries."""
        return float(np.linalg.norm(self.theta))

    @property
    def rounds(self) -> int:
        """How many rows were learnt."""
        return int(self.mixing.sums[ROUNDS])

    @property
    def t(self) -> int:
        """The number of the round that comes next, from 1."""
        return self.rounds + 1

    @property
    def loss_sums(self) -> Array:
        """The progressive loss, as an array of one number."""
        return np.asarray(self.mixing.sums[[LOSS]])

    @property
    def certificate(self) -> Certificate:
        """What the run so far proves about itself, against any linear model of the original features.

        With K scores a comparator is a matrix like x, flattened row by row.
        """
        sums = self.mixing.sums
        return Certificate(
            loss_sum=float(sums[LOSS]), conjugate_sum=float(sums[CONJUGATE]), delta_sum=0.0,
            theta=self.theta.reshape(-1),
        )  # fmt: skip
