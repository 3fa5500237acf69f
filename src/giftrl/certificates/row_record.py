"""The arrays of a run's record: stored examples, and sums over the committed ones.

An example is either stored whole, or *committed*: it gets a dual number a, is added to sums, and is gone.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: The columns of ``RowRecord.by_feature``: H, the sums of h s^2 and of h s, and theta, over committed examples.
CURVATURE_COLUMN, SQUARES_COLUMN, SUMS_COLUMN, THETA_COLUMN = range(4)
#: The entries of ``RowRecord.sums``: the numbers of all examples and of stored ones, the cost of these, the budget, the
#: largest key of a dropped example, what a loop needs to continue, and from which row of the batch. Then, over
#: committed examples: their number, weight, h phi*(a), h times the size of its terms, h a^2, h inf phi, and h times the
#: residual.
(
    EXAMPLE_COUNT, STORED_COUNT, STORED_COST, COST_BUDGET, KEY_THRESHOLD, LOOP_NEEDS, NEXT_ROW, COMMITTED_COUNT,
    COMMITTED_WEIGHT, CONJUGATE_SUM, CONJUGATE_SIZE, DUAL_SQUARES, INFIMUM_SUM, RESIDUAL_SUM, SUMS_LENGTH,
) = range(15)  # fmt: skip
#: What a loop can need: longer arrays, a larger part of the budget, or sums by feature.
NEEDS_LONGER_ARRAYS, NEEDS_BUDGET, NEEDS_FEATURE_SUMS = 1.0, 2.0, 3.0
#: Arrays with an entry for each stored example.
PER_EXAMPLE = ("labels", "weights", "scores")


class Examples(NamedTuple):
    """Consecutive examples as sparse rows: the entries of row i are ``data[indptr[i]:indptr[i + 1]]``.

    >>> examples = Examples(np.array([2.5]), np.array([1]), np.array([0, 1]), np.array([-1.0]), np.ones(1))
    >>> examples.matrix(3).toarray(), examples.only(np.array([False])).matrix(3).shape
    (array([[0. , 2.5, 0. ]]), (0, 3))
    """

    data: NDArray[np.float64]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    labels: NDArray[Any]  # numbers, or classes from 0 as integers
    weights: NDArray[np.float64]

    def matrix(self, features: int) -> Any:
        """A SciPy matrix of the rows."""
        import scipy.sparse as sp

        return sp.csr_array((self.data, self.indices, self.indptr), shape=(len(self.labels), features))

    def only(self, chosen: NDArray[np.bool_]) -> "Examples":
        """The chosen examples."""
        lengths = np.diff(self.indptr)
        entries = np.repeat(chosen, lengths)
        ends = np.concatenate([[0], np.cumsum(lengths[chosen])])
        return Examples(self.data[entries], self.indices[entries], ends, self.labels[chosen], self.weights[chosen])

    @staticmethod
    def joined(blocks: "list[Examples]") -> "Examples":
        """The examples of all blocks."""
        starts = np.cumsum([0, *(len(each.data) for each in blocks)])
        bounds = [each.indptr[1:] + start for each, start in zip(blocks, starts, strict=False)]
        data, indices, _, labels, weights = (np.concatenate(each) for each in zip(*blocks, strict=True))
        return Examples(data, indices, np.concatenate([[0], *bounds]), labels, weights)


class RowRecord(NamedTuple):
    """Stored examples, in arrays with room for more, and sums over committed examples."""

    data: NDArray[np.float64]
    indices: NDArray[np.int32]
    ends: NDArray[np.int64]  # end offset of each example; ends[0] == 0
    labels: NDArray[Any]
    weights: NDArray[np.float64]
    scores: NDArray[np.float64]  # n x K linear predictions
    keys: NDArray[np.float64]  # of the random sample; empty as long as every example is stored
    by_feature: NDArray[np.float64]  # sums with a row for each feature; no rows until an example is committed
    sums: NDArray[np.float64]
    work: NDArray[np.float64]  # scratch memory: 2 x K numbers

    @classmethod
    def empty(cls, budget: int, classes: int | None) -> "RowRecord":
        """A record without examples, for K classes or (None) one prediction."""
        scores, sums = classes or 1, np.zeros(SUMS_LENGTH)
        sums[COST_BUDGET], sums[KEY_THRESHOLD] = budget, -np.inf
        labels = np.zeros(0, np.float64 if classes is None else np.int64)
        return cls(
            np.zeros(0), np.zeros(0, np.int32), np.zeros(1, np.int64), labels, np.zeros(0), np.zeros((0, scores)),
            np.zeros(0), np.zeros((0, THETA_COLUMN + scores)), sums, np.zeros((2, scores)),
        )  # fmt: skip

    @property
    def stored(self) -> int:
        """The number of stored examples."""
        return int(self.sums[STORED_COUNT])

    @property
    def sampled(self) -> bool:
        """True once examples have been dropped, so that stored ones have keys."""
        return bool(self.sums[KEY_THRESHOLD] > -np.inf)

    @property
    def examples(self) -> Examples:
        """The stored examples."""
        stored = self.stored
        entries = int(self.ends[stored])
        return Examples(
            self.data[:entries], self.indices[:entries], self.ends[: stored + 1], self.labels[:stored],
            self.weights[:stored],
        )  # fmt: skip

    def resized(self, entries: int, examples: int, copy: bool = False) -> "RowRecord":
        """The same examples with room for this many entries and examples; ``copy`` moves all of them to new arrays."""
        stored = self.stored
        used = {"data": int(self.ends[stored]), "indices": int(self.ends[stored]), "ends": stored + 1}
        sizes = {"data": entries, "indices": entries, "ends": examples + 1} | dict.fromkeys(PER_EXAMPLE, examples)
        if self.sampled:
            sizes["keys"] = examples
        arrays: dict[str, NDArray[Any]] = {}
        for name, size in sizes.items():
            old = getattr(self, name)
            if len(old) != size or copy:
                arrays[name] = np.empty((size, *old.shape[1:]), old.dtype)  # memory is taken when it is written to
                arrays[name][: used.get(name, stored)] = old[: used.get(name, stored)]
        return self._replace(**arrays)

    def trimmed(self) -> "RowRecord":
        """The same record without room for more examples."""
        stored = self.stored
        entries = int(self.ends[stored])
        arrays = {name: getattr(self, name)[:stored] for name in (*PER_EXAMPLE, "keys")}
        return self._replace(
            data=self.data[:entries], indices=self.indices[:entries], ends=self.ends[: stored + 1], **arrays
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays as model files hold them, for :meth:`restored`."""
        arrays = self.trimmed()._asdict()
        del arrays["work"]
        return arrays | {"record": arrays.pop("by_feature")}

    def restored(self, state: Mapping[str, NDArray[Any]], example_cost: float, dimension: int) -> "RowRecord | str":
        """The record with this state, or the name of an array that is damaged; loops use its numbers as indices."""
        names = {name: "record" if name == "by_feature" else name for name in self._fields if name != "work"}
        for field, name in names.items():
            own, given = getattr(self, field), state.get(name)
            if given is None or given.dtype != own.dtype or given.shape[1:] != own.shape[1:] or given.ndim != own.ndim:
                return name
            if name not in ("sums", "record", "keys", "scores") and not np.isfinite(given).all():
                return name
        record = self._replace(**{field: np.array(state[name]) for field, name in names.items()})
        return record._damaged(self, example_cost, dimension) or record

    def _damaged(self, own: "RowRecord", example_cost: float, dimension: int) -> str | None:
        sums, ends, indices = self.sums, self.ends, self.indices
        if len(sums) != SUMS_LENGTH:
            return "sums"
        counts = sums[[EXAMPLE_COUNT, STORED_COUNT, COMMITTED_COUNT, STORED_COST]]
        if not (np.isfinite(counts).all() and (counts >= 0.0).all() and (counts == np.floor(counts)).all()):
            return "sums"
        if sums[COST_BUDGET] != own.sums[COST_BUDGET] or sums[COMMITTED_WEIGHT] < 0.0:
            return "sums"
        stored, entries = self.stored, len(self.data)
        if counts[1] + counts[2] > counts[0] or sums[STORED_COST] != entries + stored * example_cost:
            return "sums"
        if len(ends) != stored + 1 or ends[0] != 0 or ends[-1] != entries or (np.diff(ends) < 0).any():
            return "ends"
        if any(len(getattr(self, name)) != stored for name in PER_EXAMPLE):
            return "labels"
        if len(self.keys) != (stored if self.sampled else 0) or np.isnan(self.keys).any():
            return "keys"
        if len(indices) != entries or (entries and not 0 <= indices.min() <= indices.max() < dimension):
            return "indices"
        classes = own.labels.dtype.kind == "i" and stored > 0
        if classes and not 0 <= self.labels.min() <= self.labels.max() < own.scores.shape[1]:
            return "labels"
        if not (self.weights > 0.0).all():
            return "weights"
        rows = len(self.by_feature)
        return "record" if rows not in (0, dimension) or (sums[COMMITTED_COUNT] > 0.0 and rows == 0) else None


class ScoredRows(NamedTuple):
    """Rows of a batch with the linear predictions for them, neither clipped nor boosted, and their offsets."""

    rows: Any
    labels: Any
    weights: Any  # empty: all 1
    scores: Any
    bases: Any  # empty: all 0
