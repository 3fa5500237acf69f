"""Models of one kind side by side: the memory of their coordinates, and the loop that learns them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled import compiler
from giftrl.compiled.rows import Rows, longest
from giftrl.kernels.coordinate import learn_coordinate, predict_coordinate
from giftrl.kernels.local import columns
from giftrl.kernels.many_coordinate import learn_coordinate_many
from giftrl.kernels.many_uniform import learn_uniform_many
from giftrl.kernels.parts import Batch, ManyParts, Parts
from giftrl.kernels.scalars import LAM, LOSS
from giftrl.memory import zeros

Array = NDArray[np.float64]

#: Features below this number, and strengths above its inverse, leave float32 no number that it cannot hold: s_j/L_j is
#: at most 1e16, and what float32 takes for 0 moves a prediction by less than 1e-13.
ORDINARY = 1e8
#: The bytes of a cache line.
LINE = 64


class Group:
    """Models that differ in the numbers of a built-in schedule alone, a lane each.

    Lanes without a model repeat the first one.

    Args:
        models: their numbers among all models.
        parts: what they are made of.
        uniform: whether psi has one strength for all coordinates.
        compiled: False runs the loops as plain Python.
    """

    def __init__(self, models: Sequence[int], parts: ManyParts, uniform: bool, compiled: bool) -> None:
        self.models = list(models)
        self.parts = parts
        self.uniform = uniform
        self.compiled = compiled
        self.lanes = parts.side.lanes()
        self.quantities = 1 if uniform else columns(parts.psi)
        self.every = [*self.models, *[self.models[0]] * (self.lanes - len(self.models))]
        first, last = self.models[0], self.models[-1] + 1
        # As a slice, columns are written ten times faster.
        self.columns = slice(first, last) if last - first == len(self.models) else self.models

    def allocate(self, dimension: int, dtype: Any, beside: int = 0) -> None:
        """Make room for that many features, and keep what is there; the rows of features begin with a cache line."""
        width, old = self.quantities * self.lanes, getattr(self, "coordinates", None)
        spare = -(-LINE // (width * np.dtype(dtype).itemsize))
        memory = zeros((dimension + spare, width), dtype, beside=beside).reshape(-1)
        skipped = (-memory.ctypes.data % LINE) // memory.itemsize
        self.coordinates = memory[skipped : skipped + dimension * width].reshape(dimension, width)
        if old is not None:
            self.coordinates[: len(old)] = old

    def read(self, features: Any) -> NDArray[Any]:
        """What is stored of some features: their numbers, models, quantities."""
        stored = self.coordinates[features].reshape(-1, self.quantities, self.lanes)
        read: NDArray[Any] = stored.transpose(0, 2, 1)[:, : len(self.models)]
        return read

    def write(self, stored: NDArray[Any]) -> None:
        """The opposite of :meth:`read`, for all features."""
        lanes = self.coordinates.reshape(-1, self.quantities, self.lanes).transpose(0, 2, 1)
        lanes[:, : len(self.models)] = stored
        lanes[:, len(self.models) :] = stored[:, :1]

    def learn(self, rows: Rows, labels: Array, weights: Array, states: Array, predictions: Array) -> None:
        """Learn from a batch; ``labels`` has a column for all models or one for each."""
        theirs = labels if labels.shape[1] == 1 else np.take(labels, self.every, axis=1)
        alone = predictions.shape[1] == self.lanes == len(self.models)  # there is no other model, and no empty lane
        own, made = states[self.every], predictions if alone else np.empty((len(labels), self.lanes))
        batch = Batch(rows, theirs, weights, made)
        if self.uniform:
            largest = float(np.finfo(self.coordinates.dtype).max)
            loop = compiler.ready(learn_uniform_many, self.compiled, counted=False)
            loop(self.parts, batch, self.coordinates, own, min(largest * largest, np.finfo(np.float64).max))
        else:
            steps = np.empty((longest(rows), self.lanes), self._arithmetic(rows, own))
            loop = compiler.ready(learn_coordinate_many, self.compiled, counted=False)
            loop(self.parts, batch, self.coordinates, own, steps)
        states[self.models] = own[: len(self.models)]
        if not alone:
            predictions[:, self.columns] = made[:, : len(self.models)]

    def _arithmetic(self, rows: Rows, states: Array) -> Any:
        """The type in which s_j/L_j is computed: that of the coordinates, but float64 where float32 might overflow."""
        if self.coordinates.dtype == np.float64 or rows.data.size == 0:
            return self.coordinates.dtype
        ordinary = (
            rows.data.min() >= -ORDINARY and rows.data.max() <= ORDINARY and states[:, LAM].min() >= 1.0 / ORDINARY
        )
        return np.float32 if ordinary else np.float64


class Alone:
    """A model that takes walks of its own over a row, as one with an L1 term and a strength for each coordinate.

    It has the methods of :class:`Group`.
    """

    def __init__(self, model: int, parts: Parts, compiled: bool) -> None:
        self.models = [model]
        self.parts = parts
        self.compiled = compiled

    def allocate(self, dimension: int, dtype: Any, beside: int = 0) -> None:
        old = getattr(self, "coordinates", None)
        self.coordinates = zeros((dimension, 1, columns(self.parts.psi)), dtype, beside=beside)
        if old is not None:
            self.coordinates[: len(old)] = old

    def read(self, features: Any) -> NDArray[Any]:
        read: NDArray[Any] = self.coordinates[features]
        return read

    def write(self, stored: NDArray[Any]) -> None:
        self.coordinates[:] = stored

    def learn(self, rows: Rows, labels: Array, weights: Array, states: Array, predictions: Array) -> None:
        m = self.models[0]
        own, made = states[[m]], np.empty(len(labels))
        y = np.ascontiguousarray(labels[:, m if labels.shape[1] > 1 else 0])
        learnt = -1  # a model that has overflowed learns nothing
        if own[0, LOSS] < np.inf:
            loop = compiler.ready(learn_coordinate, self.compiled)
            learnt = int(loop(self.parts, Batch(rows, y, weights, made), self.coordinates, own))
        if learnt < len(y):
            own[0, LOSS] = np.inf
            rest = np.empty(len(y))
            compiler.ready(predict_coordinate, self.compiled)(self.parts.psi, own[0, LAM], rows, self.coordinates, rest)
            made[learnt + 1 :] = rest[learnt + 1 :]
        states[m], predictions[:, m] = own[0], made
