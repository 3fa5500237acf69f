"""Rows of the squared loss that are gone, and of which nothing is lost: their second moments, by feature."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import store as at
from giftrl.certificates.moments import Moments
from giftrl.certificates.store import Store
from giftrl.certificates.units import EPS, Units
from giftrl.errors import require
from giftrl.losses import Squared

Array = NDArray[np.float64]
#: With more features than this, second moments would take more time than to learn.
FEW = 64
#: About how many numbers are dense at a time.
DENSE = 1 << 20
#: The arrays of moments in a state, and the numbers, which share one array.
ARRAYS, NUMBERS = (
    ("mean", "scatter", "cross", "squares"),
    ("rows", "weight", "label_mean", "label_scatter", "label_squares"),
)


class Summed(NamedTuple):
    """Second moments of rows with few features.

    Args:
        features: which they are, in order.
        moments: theirs.
    """

    features: NDArray[np.int64]
    moments: Moments

    @classmethod
    def of(cls, loss: Any, store: Store, constant: int | None, earlier: Optional["Summed"]) -> Optional["Summed"]:
        """The moments of the rows in a store and of earlier ones; None for another loss, or for many features."""
        if not isinstance(loss, Squared):
            return None
        kept = int(store.sums[at.KEPT])
        parts = [store.indices[: store.ends[kept]], [] if constant is None else [constant]]
        features = np.unique(np.concatenate([*parts, [] if earlier is None else earlier.features]).astype(np.int64))
        if len(features) > FEW:
            return None
        place = None if constant is None else int(np.searchsorted(features, constant))
        moments = Moments.empty(len(features), place) if earlier is None else earlier._among(features, place)
        step = DENSE // max(1, len(features))
        for first in range(0, kept, step):
            last = min(kept, first + step)
            dense = np.zeros((last - first, len(features)))
            entries = slice(store.ends[first], store.ends[last])
            rows = np.repeat(np.arange(last - first), np.diff(store.ends[first : last + 1]))
            dense[rows, np.searchsorted(features, store.indices[entries])] = store.data[entries]
            if place is not None and not (dense[:, place] == 1.0).all():
                return None  # moments about means take the constant for granted
            moments = moments.add(dense, store.labels[first:last], store.weights[first:last])
        return cls(features, moments)

    def _among(self, features: NDArray[np.int64], constant: int | None) -> Moments:
        """The moments with further features, which were 0 in all of these rows."""
        where, n, old = np.searchsorted(features, self.features), len(features), self.moments
        vectors: dict[str, Any] = {name: np.zeros(n) for name in ("mean", "cross", "squares")}
        for name, vector in vectors.items():
            vector[where] = getattr(old, name)
        scatter = np.zeros((n, n))
        scatter[np.ix_(where, where)] = old.scatter
        numbers: dict[str, Any] = {name: getattr(old, name) for name in NUMBERS}
        return Moments(**vectors, scatter=scatter, **numbers, constant=constant)

    def merge(self, other: "Summed", constant: int | None) -> "Summed":
        """The moments of both sets of rows."""
        features = np.union1d(self.features, other.features)
        place = None if constant is None else int(np.searchsorted(features, constant))
        return Summed(features, self._among(features, place).merge(other._among(features, place)))

    @property
    def sums(self) -> Array:
        """For each feature the sum of h s; of use where there is a constant feature."""
        moments = self.moments
        sums: Array = moments.mean * moments.weight
        if moments.constant is not None:
            sums[moments.constant] = moments.weight
        return sums

    def units(self) -> Units:
        """Units of the features in which a best model is looked for."""
        moments = self.moments
        if moments.constant is None:
            return Units.of_features(moments.squares, moments.weight)
        return Units.centred(moments.squares, self.sums, moments.weight, moments.constant)

    @np.errstate(all="ignore")
    def commit(self, store: Store) -> None:
        """Add all of the rows to the sums over committed rows, with the residuals of a nearly best model as duals."""
        moments, sums = self.moments, store.sums
        model = moments.best_model(self.units())
        duals = moments.duals_of(np.zeros(len(self.features)) if model is None else model)
        record, proved = store.record, bool(np.isfinite(duals.conjugate) and np.isfinite(duals.theta).all())
        for column, added in ((at.CURVED, moments.squares), (at.SQUARES, moments.squares), (at.SUMS, self.sums)):
            record[self.features, column] += added
        record[self.features, at.THETA] += duals.theta if proved else 0.0
        # The bound allows for (n + 4) eps sqrt(dual squares) sqrt(squares_j) in theta_j, n the committed rows; as much
        # is added as makes that no less than the errors here.
        size = np.sqrt(moments.squares)
        allowed = (moments.rows + 4.0) * EPS * size
        factor = np.max(np.divide(duals.error, allowed, where=allowed > 0.0, out=np.zeros(len(size))), initial=0.0)
        sums[at.COMMITTED] += moments.rows
        sums[at.WEIGHT] += moments.weight
        sums[at.CONJUGATE] += duals.conjugate if proved else np.inf  # infinite: nothing is proved any more
        sums[at.SIZE] += abs(duals.conjugate) if proved else 0.0
        sums[at.DUAL_SQUARES] += factor * factor if proved else 0.0

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays for :meth:`restore`."""
        arrays = {f"summed.{name}": getattr(self.moments, name) for name in ARRAYS}
        numbers = np.array([getattr(self.moments, name) for name in NUMBERS], dtype=np.float64)
        return arrays | {"summed.numbers": numbers, "summed.features": self.features}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], dimension: int, constant: int | None) -> Optional["Summed"]:
        """What a state was taken from; None if there were no moments."""
        if "summed.features" not in state:
            return None
        features = state["summed.features"]
        n = len(features)
        shapes = {"mean": (n,), "scatter": (n, n), "cross": (n,), "squares": (n,), "numbers": (len(NUMBERS),)}
        fits = features.dtype == np.int64 and features.ndim == 1 and bool((np.diff(features, prepend=-1) > 0).all())
        fits = fits and (n == 0 or features[-1] < dimension) and (constant is None or constant in features)
        for name, shape in shapes.items():
            given = state.get(f"summed.{name}")
            fits = fits and given is not None and given.dtype == np.float64 and given.shape == shape
        rows = float(state["summed.numbers"][0]) if fits else -1.0
        fits = fits and 0.0 <= rows < 2**53 and rows == int(rows) and not (state["summed.squares"] < 0.0).any()
        require(fits, "state", "summed", "must be second moments of features", "use another copy of the file")
        numbers: dict[str, Any] = dict(zip(NUMBERS, state["summed.numbers"].tolist(), strict=True))
        arrays: dict[str, Any] = {name: np.array(state[f"summed.{name}"]) for name in ARRAYS}
        place = None if constant is None else int(np.searchsorted(features, constant))
        return cls(np.array(features), Moments(**arrays, **(numbers | {"rows": int(numbers["rows"])}), constant=place))
