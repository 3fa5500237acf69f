"""What a run leaves behind at one moment, and what follows from it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.certificates import store as at
from giftrl.certificates.kept import Kept
from giftrl.certificates.store import Store, joined
from giftrl.certificates.summed import Summed
from giftrl.errors import require

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """Rows that were kept, sums over the others, what was paid, and the model that was learnt.

    Attributes:
        loss: of the run.
        store: the rows and sums; its arrays may have room for more, and its record has the rows of ``committed``.
        committed: the features of committed rows, in order.
        summed: second moments of rows that are not in the store, or None.
        dimension: the number of features.
        constant: the feature that is 1 in every row, or None.
        loss_sum: what the run paid.
        model: its weights, d or d x K.

    >>> import numpy as np
    >>> from giftrl import FTRLRegressor
    >>> model = FTRLRegressor().fit(np.arange(4.0)[:, None], np.array([1.0, 2.0, 3.0, 4.0]))
    >>> evidence = model.certificate_.evidence
    >>> evidence.dimension, evidence.loss_sum > 0.0
    (2, True)
    """

    loss: Any
    store: Store = field(repr=False)
    committed: NDArray[np.int64] = field(repr=False)
    summed: Summed | None = field(repr=False)
    dimension: int
    constant: int | None
    loss_sum: float
    model: Array = field(repr=False)

    @property
    def moments(self) -> Summed | None:
        """The second moments of all rows, those in the store too; None where they are not those of all rows."""
        if self.summed is None or self.store.sums[at.COMMITTED] > 0.0:
            return None
        return Summed.of(self.loss, self.store, self.constant, self.summed)

    @cached_property
    def features(self) -> NDArray[np.int64]:
        """The features that were not 0 in every row, and the constant one."""
        store, kept = self.store, int(self.store.sums[at.KEPT])
        seen = np.zeros(self.dimension, bool)
        seen[store.indices[: store.ends[kept]]] = True
        seen[self.committed] = True
        if self.summed is not None:
            seen[self.summed.features] = True
        if self.constant is not None:
            seen[self.constant] = True
        return np.flatnonzero(seen)

    @cached_property
    @np.errstate(all="ignore")
    def kept(self) -> Kept:
        """The record from which bounds are computed, over :attr:`features` alone."""
        store, features, moments = self.store, self.features, self.moments
        constant = None if self.constant is None else int(np.searchsorted(features, self.constant))
        shape = (len(features), *self.model.shape[1:])
        if moments is not None:
            exact, none = moments.moments, np.zeros(0)
            return Kept(
                loss=self.loss, data=none, indices=np.zeros(0, np.int32), indptr=np.zeros(1, np.int64), labels=none,
                weights=none, theta=np.zeros(shape), squares=_positive(exact.squares, exact.weight), sums=moments.sums,
                weight=exact.weight, loss_sum=self.loss_sum, committed=exact.rows, constant=constant, moments=exact,
            )  # fmt: skip
        record = np.zeros((len(features), store.record.shape[1]))
        record[np.searchsorted(features, self.committed)] = store.record
        store = store._replace(record=record, sums=store.sums.copy())
        if self.summed is not None:
            places = np.searchsorted(features, self.summed.features)
            self.summed._replace(features=places).commit(store)
        kept, sums = int(store.sums[at.KEPT]), store.sums
        entries = slice(0, int(store.ends[kept]))
        places = np.zeros(self.dimension, np.int32)
        places[features] = np.arange(len(features), dtype=np.int32)
        data, indices, indptr = store.data[entries], places[store.indices[entries]], store.ends[: kept + 1]
        h = np.repeat(store.weights[:kept], np.diff(indptr))
        squares: Array = np.bincount(indices, h * data * data, len(features)).astype(np.float64)
        totals: Array = np.bincount(indices, h * data, len(features)).astype(np.float64)
        weight = float(store.weights[:kept].sum() + sums[at.WEIGHT])
        return Kept(
            loss=self.loss, data=data, indices=indices, indptr=indptr, labels=store.labels[:kept],
            weights=store.weights[:kept], theta=record[:, at.THETA :].reshape(shape),
            squares=_positive(squares + record[:, at.SQUARES], weight), sums=totals + record[:, at.SUMS],
            weight=weight, loss_sum=self.loss_sum,
            conjugate=float(sums[at.CONJUGATE]), conjugate_size=float(sums[at.SIZE]),
            dual_squares=float(sums[at.DUAL_SQUARES]), infimum=float(sums[at.INFIMUM]),
            committed=int(sums[at.COMMITTED]), constant=constant,
        )  # fmt: skip

    def merge(self, other: "Evidence", model: ArrayLike | None = None) -> "Evidence":
        """What two runs over different rows with the same features leave behind.

        Args:
            other: of a run with the same loss.
            model: the weights whose size counts; None for the mean of both, by the weight of their rows.
        """
        same = type(other.loss) is type(self.loss) and other.loss == self.loss
        require(same, "other", other.loss, f"must be of the loss {self.loss!r}", "merge runs of the same loss")
        fits = (other.dimension, other.constant) == (self.dimension, self.constant)
        rule, remedy = f"must have {self.dimension} features and the same constant", "merge runs over the same features"
        require(fits, "other", other.dimension, rule, remedy)
        if model is None:
            part = other.kept.weight / max(self.kept.weight + other.kept.weight, 1e-300)
            mean = (1.0 - part) * self.model + part * other.model
        else:
            mean = np.asarray(model, dtype=float)
            require(mean.shape == self.model.shape, "model", mean.shape, f"must be {self.model.shape}", "see model")
        summed = self.summed
        if summed is None or other.summed is None:
            summed = summed or other.summed
        else:
            summed = summed.merge(other.summed, self.constant)
        committed = np.union1d(self.committed, other.committed)
        record = np.zeros((len(committed), self.store.record.shape[1]))
        for each in (self, other):
            record[np.searchsorted(committed, each.committed)] += each.store.record
        store = joined(self.store, other.store)._replace(record=record)
        paid = self.loss_sum + other.loss_sum
        return Evidence(self.loss, store, committed, summed, self.dimension, self.constant, paid, mean)


def _positive(squares: Array, weight: float) -> Array:
    """Sums of squares of features that occur, none of them 0: the squares of numbers below 1e-154 are."""
    return np.maximum(squares, 1e-300 * weight)
