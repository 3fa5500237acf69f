"""The predictions of a run, stored for a report: all of the first rows, then a thinning sample."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: The name, the share and the loss of each base learner of a mixture.
BaseLearners = Iterable[tuple[str, float, float]]

#: All rows are stored up to this number of rows, or of scores if multiclass; and the minimum number of rows.
MAX_ROWS, MAX_SCORES, MIN_ROWS = 1 << 17, 1 << 20, 1 << 10
#: The number of points of a curve for each doubling of the number of rows.
POINTS_PER_OCTAVE = 4
#: The numbers of rows with a point, from 1 to 2^50.
POINT_ROWS = np.unique(np.ceil(2.0 ** (np.arange(50 * POINTS_PER_OCTAVE + 1) / POINTS_PER_OCTAVE)).astype(np.int64))


class Record:
    """Scores, labels and weights of rows, with scores made before the labels were used; and shares of base learners.

    All rows are kept until 2^17 rows or 2^20 scores. Of the rows up to the double of that number, one in two is kept,
    then one in four, and so on: memory grows with the logarithm of the number of rows.

    Args:
        start: the number of rows learned before.

    Attributes:
        rows: the number of rows added. All of the first ``capacity`` rows are kept, and ``kept`` rows in all.
        shares: the shares of base learners by the number of rows.

    >>> record = Record()
    >>> for _ in range(100):
    ...     record.add(np.zeros(10_000), np.zeros(10_000), None)
    >>> record.rows, record.capacity, record.kept, int(record.standing_for.sum())
    (1000000, 131072, 321608, 1000000)
    """

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.rows = self.capacity = self.kept = 0
        self.shares: list[tuple[int, dict[str, float]]] = []
        self._next_note = 1
        self._arrays: list[Array] = []  # scores, labels, weights and row numbers, with spare capacity

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without spare capacity."""
        return self.__dict__ | {"_arrays": [array[: self.kept].copy() for array in self._arrays]}

    @property
    def scores(self) -> Array:
        """The scores of the kept rows, with a column for each class or target if there are several."""
        return self._arrays[0][: self.kept]

    @property
    def labels(self) -> Array:
        """The labels of the kept rows, as the loss takes them: numbers, -1 and +1, or class numbers; or columns."""
        return self._arrays[1][: self.kept]

    @property
    def weights(self) -> Array:
        """The weights of the kept rows."""
        return self._arrays[2][: self.kept]

    @property
    def numbers(self) -> Array:
        """The number of each kept row in the run, from 0; rows before :attr:`start` count too."""
        return self.start + self._arrays[3][: self.kept]

    @property
    def standing_for(self) -> Array:
        """The number of rows that each kept row stands for, itself included."""
        octave = np.frexp(np.floor(self._arrays[3][: self.kept] / self.capacity))[1]  # 0 below capacity
        return np.asarray(2.0**octave)

    @property
    def step(self) -> int:
        """The largest number of rows that a kept row stands for."""
        return 1 << ((self.rows - 1) // self.capacity).bit_length() if self.rows else 1

    def add(self, scores: Array, labels: Array, weights: Array | None) -> None:
        """Add the next rows; ``weights`` None for 1 each."""
        if not self.capacity:
            columns = max(1, scores.size // max(1, len(scores)))
            # A power of two, so that steps divide the numbers of rows at which they double.
            self.capacity = max(MIN_ROWS, 1 << min(MAX_ROWS, MAX_SCORES // columns).bit_length() - 1)
        begin, n = 0, len(scores)
        while begin < n:
            first = self.rows
            step = 1 << (first // self.capacity).bit_length()
            end = min(n, begin + self.capacity * step - first)
            # One row of each block of ``step`` rows, at a pseudorandom place: data can have a period.
            numbers = np.arange(first // step, (first + end - begin - 1) // step + 1) * step
            numbers += (numbers * 0x9E3779B97F4A7C1 >> 33) % step
            numbers = numbers[(numbers >= first) & (numbers < first + end - begin)]
            chosen = begin + numbers - first
            self._keep(scores[chosen], labels[chosen], 1.0 if weights is None else weights[chosen], numbers)
            self.rows += end - begin
            begin = end

    def _keep(self, scores: Array, labels: Array, weights: Any, numbers: NDArray[np.int64]) -> None:
        begin, self.kept = self.kept, self.kept + len(labels)
        if not self._arrays or self.kept > len(self._arrays[0]):
            size = max(self.kept, 2 * begin)
            shapes = [scores.shape[1:], labels.shape[1:], (), ()]
            before = self._arrays or [np.empty((0, *shape)) for shape in shapes]
            self._arrays = [np.empty((size, *shape)) for shape in shapes]
            for new, old in zip(self._arrays, before, strict=True):
                new[:begin] = old[:begin]
        for array, values in zip(self._arrays, (scores, labels, weights, numbers), strict=True):
            array[begin : self.kept] = values

    def note_shares(self, learners: Callable[[], BaseLearners], last: bool = False) -> None:
        """Note the shares of base learners at each point of the curve, and at the ``last`` row in any case."""
        rows = self.start + self.rows
        if rows < self._next_note and not (last and (not self.shares or rows > self.shares[-1][0])):
            return
        self._next_note = int(POINT_ROWS[np.searchsorted(POINT_ROWS, rows, side="right")])
        self.shares.append((rows, {name: share for name, share, _ in learners()}))

    def watch(self, trainer: Any, batch: Any, first: int, last: int, predictions: Array) -> None:
        """Add the part of a batch that a :class:`giftrl.training.Trainer` has just learned, in its first pass."""
        if trainer.passes_done > 0:
            return
        model = trainer.model
        self.add(predictions, model.settings.mapped(batch.labels[first:last]), batch.weights[first:last])
        if model.settings.auto:
            self.note_shares(lambda: model.learner.experts)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays for a checkpoint."""
        counts = json.dumps([self.start, self.rows, self.capacity, self.shares])
        arrays = {f"rows{k}": array[: self.kept] for k, array in enumerate(self._arrays)}
        return arrays | {"counts": np.frombuffer(counts.encode(), np.uint8)}

    def restore(self, state: Mapping[str, NDArray[Any]], rows: int) -> None:
        """Resume from a state, or begin after a number of rows."""
        if not state:
            self.start = rows
            return
        self.start, self.rows, self.capacity, shares = json.loads(state["counts"].tobytes())
        self.shares = [(after, share) for after, share in shares]
        self._arrays = [np.array(state[f"rows{k}"]) for k in range(len(state) - 1)]
        self.kept = len(self._arrays[0]) if self._arrays else 0
        if any(len(array) != self.kept for array in self._arrays) or (self.kept and self.capacity < MIN_ROWS):
            raise ValueError("the arrays of the record differ in length")
        self._next_note = self.shares[-1][0] + 1 if self.shares else 1


def mean_base_learners(mixtures: Sequence[BaseLearners]) -> list[tuple[str, float, float]]:
    """The mean share and loss of each base learner over mixtures that each learn a column of labels."""
    values: dict[str, list[tuple[float, float]]] = {}
    for mixture in mixtures:
        for name, share, loss in mixture:
            values.setdefault(name, []).append((share, loss))
    means = {name: np.mean(pairs, axis=0).tolist() for name, pairs in values.items()}
    return [(name, share, loss) for name, (share, loss) in means.items()]
