"""The arrays of a run's record: stored examples, and sums over the committed ones.

An example is either stored, or *committed*: it gets a dual number a and is added to sums.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import require

#: The columns of ``RowRecord.by_feature``: H, the sums of h s^2 and of h s, and theta, over committed examples.
CURVATURE_COLUMN, SQUARES_COLUMN, SUMS_COLUMN, THETA_COLUMN = range(4)
#: The entries of ``RowRecord.sums``: the numbers of all examples and of stored ones, the cost of these, the budget, the
#: largest key of a dropped example, the request of a stopped loop, and the row at which to continue. Then, over
#: committed examples: their number, weight, h phi*(a), h times the size of its terms, h a^2, h inf phi, and h times the
#: residual.
(
    EXAMPLE_COUNT, STORED_COUNT, STORED_COST, COST_BUDGET, KEY_THRESHOLD, LOOP_NEEDS, NEXT_ROW, COMMITTED_COUNT,
    COMMITTED_WEIGHT, CONJUGATE_SUM, CONJUGATE_SIZE, DUAL_SQUARES, INFIMUM_SUM, RESIDUAL_SUM, SUMS_LENGTH,
) = range(15)  # fmt: skip
#: Requests of a loop: longer arrays, a larger part of the budget, or sums by feature.
NEEDS_LONGER_ARRAYS, NEEDS_BUDGET, NEEDS_FEATURE_SUMS = 1.0, 2.0, 3.0
#: Arrays with an entry for each stored example.
PER_EXAMPLE = ("labels", "weights", "scores")


class Examples(NamedTuple):
    """Consecutive examples as sparse rows: the entries of row i are ``data[indptr[i]:indptr[i + 1]]``."""

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
        """Select examples."""
        lengths = np.diff(self.indptr)
        entries = np.repeat(chosen, lengths)
        ends = np.concatenate([[0], np.cumsum(lengths[chosen])])
        return Examples(self.data[entries], self.indices[entries], ends, self.labels[chosen], self.weights[chosen])

    @staticmethod
    def joined(blocks: "list[Examples]") -> "Examples":
        """Concatenate blocks of examples."""
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
    keys: NDArray[np.float64]  # keys of the random sample; empty if every example is stored
    by_feature: NDArray[np.float64]  # sums with a row for each feature; no rows until an example is committed
    sums: NDArray[np.float64]
    work: NDArray[np.float64]  # scratch memory, 2 x K numbers; not a part of the state

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
        return Examples(*self.trimmed()[:5])

    def resized(self, entries: int, examples: int, copy: bool = False) -> "RowRecord":
        """A record with capacity for this many entries and examples; ``copy`` forces new arrays."""
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
        """The record without spare capacity."""
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

    def restored(self, state: Mapping[str, NDArray[Any]], example_cost: float, dimension: int) -> "RowRecord":
        """Restore a state; validated, since loops use its numbers as indices."""
        for name, good in self._checks(state, example_cost, dimension):
            rule = "must be of examples that this learner stored"
            require(bool(good), "state", name, rule, "use another copy of the file")
        return self._with({name: np.array(array) for name, array in state.items()})

    def _with(self, state: Mapping[str, NDArray[Any]]) -> "RowRecord":
        """The record with the arrays of a state."""
        return self._replace(**{name: state["record" if name == "by_feature" else name] for name in self._fields[:-1]})

    def _checks(
        self, state: Mapping[str, NDArray[Any]], example_cost: float, dimension: int
    ) -> Iterator[tuple[str, Any]]:
        """Names of arrays of a state, and False for one that is damaged."""
        for name, own in self.state().items():
            given = state.get(name)
            yield name, given is not None and given.dtype == own.dtype and given.shape[1:] == own.shape[1:]
            yield name, state[name].ndim == own.ndim
            yield name, name in ("sums", "record", "keys", "scores") or np.isfinite(state[name]).all()
        record = self._with(state)
        sums, ends, indices, labels = record.sums, record.ends, record.indices, record.labels
        yield "sums", len(sums) == SUMS_LENGTH
        seen, stored, committed, cost = counts = sums[[EXAMPLE_COUNT, STORED_COUNT, COMMITTED_COUNT, STORED_COST]]
        yield "sums", np.isfinite(counts).all() and (counts >= 0.0).all() and (counts == np.floor(counts)).all()
        yield "sums", sums[COST_BUDGET] == self.sums[COST_BUDGET] and not sums[COMMITTED_WEIGHT] < 0.0
        entries, rows = len(record.data), len(record.by_feature)
        yield "sums", stored + committed <= seen and cost == entries + stored * example_cost
        yield "ends", len(ends) == stored + 1 and ends[0] == 0 and ends[-1] == entries and (np.diff(ends) >= 0).all()
        yield "labels", all(len(getattr(record, name)) == stored for name in PER_EXAMPLE)
        yield "keys", len(record.keys) == (stored if record.sampled else 0) and not np.isnan(record.keys).any()
        yield "indices", len(indices) == entries and ((indices >= 0) & (indices < dimension)).all()
        classes = labels.dtype.kind == "i"
        yield "labels", not classes or ((labels >= 0) & (labels < self.scores.shape[1])).all()
        yield "weights", (record.weights > 0.0).all()
        yield "record", rows in (0, dimension) and (committed == 0.0 or rows > 0)


class ScoredRows(NamedTuple):
    """Rows of a batch with the linear predictions for them, neither clipped nor boosted, and their offsets."""

    rows: Any
    labels: Any
    weights: Any  # empty: all 1
    scores: Any
    bases: Any  # empty: all 0
