"""The squared loss with few features: exact bounds from second moments, in one pass and without stored examples."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.certificates.bound import FLOAT_EPS, FLOAT_TINY, Array, Units, exact_sum, price
from giftrl.certificates.row_record import Examples
from giftrl.certificates.solver import newton_step
from giftrl.errors import require
from giftrl.losses import Squared

#: With more features, second moments would take more time than learning.
MAX_FEATURES = 64
#: The approximate number of entries in a dense block.
DENSE_NUMBERS = 1 << 20
#: The arrays of moments in a state, and the numbers, which share one array.
MOMENT_ARRAYS = ("mean", "scatter", "cross", "squares")
MOMENT_NUMBERS = ("rows", "weight", "label_mean", "label_scatter", "label_squares")


@dataclass(frozen=True)
class Moments:
    """Weighted second moments of features and labels, about their means if there is a constant feature.

    For the squared loss, let every dual be the residual of one model: a_t = <s_t, u> - y_t. Then
    sum_t h_t phi*(a_t) = (u' C u - yy)/2 with C = sum_t h_t s_t s_t' and yy = sum_t h_t y_t^2, theta = b - C u with
    b = sum_t h_t y_t s_t, and for any such u the bound is yy/2 - u' C u/2 - price(|theta|). Raw sums would cancel, so
    features are centred. With x the weights of all features but the constant one, and beta the mean prediction, the
    residuals are <s_t - mean, x> + beta - y_t, and the sums over centred features and over constants separate.

    Attributes:
        features: the numbers of the features, in order.
        rows: the number of examples.
        weight: the sum of h.
        mean: of each feature; 0 for the constant feature, and for all features if there is none.
        label_mean: the mean label, or 0 without a constant feature.
        scatter: sum_t h_t (s_t - mean)(s_t - mean)', 0 for the constant feature.
        cross: sum_t h_t (y_t - label_mean)(s_t - mean).
        label_scatter: sum_t h_t (y_t - label_mean)^2.
        squares: sum_t h_t s_tj^2.
        label_squares: sum_t h_t y_t^2.
        constant: the position of the feature that is 1 in every example, or None.

    >>> import numpy as np
    >>> rows = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]])
    >>> moments = Moments.empty(2, constant=0).add(rows[:2], [0.0, 1.0]).add(rows[2:], [5.0])
    >>> units = Units.centred(moments.squares, moments.sums, 3.0, constant=0)
    >>> round(moments.lower_bound(units, radius=9.0), 6)
    0.142857
    """

    features: NDArray[np.int64]
    rows: int
    weight: float
    mean: Array
    label_mean: float
    scatter: Array
    cross: Array
    label_scatter: float
    squares: Array
    label_squares: float
    constant: int | None = None

    @classmethod
    def empty(cls, features: int | NDArray[np.int64], constant: int | None = None) -> "Moments":
        """Moments before the first example, for a number of features or for given features."""
        numbers = np.arange(features) if isinstance(features, int) else features
        arrays: dict[str, Any] = {name: np.zeros(len(numbers)) for name in ("mean", "cross", "squares")}
        sums: dict[str, Any] = dict.fromkeys(("weight", "label_mean", "label_scatter", "label_squares"), 0.0)
        scatter = np.zeros((len(numbers), len(numbers)))
        return cls(numbers, rows=0, scatter=scatter, constant=constant, **arrays, **sums)

    @classmethod
    def of(
        cls, loss: Any, examples: Examples, constant: int | None, earlier: Optional["Moments"] = None
    ) -> Optional["Moments"]:
        """Moments of these and earlier examples; None unless the loss is squared and features are few. ``constant`` is
        the number of a feature.
        """
        if not isinstance(loss, Squared):
            return None
        parts: list[Any] = [examples.indices, [] if constant is None else [constant]]
        parts += [] if earlier is None else [earlier.features]
        features = np.unique(np.concatenate(parts).astype(np.int64))
        if len(features) > MAX_FEATURES:
            return None
        place = None if constant is None else int(np.searchsorted(features, constant))
        moments = cls.empty(features, place) if earlier is None else earlier.among(features)
        count, ends, step = len(examples.labels), examples.indptr, DENSE_NUMBERS // max(1, len(features))
        for first in range(0, count, step):
            last = min(count, first + step)
            dense = np.zeros((last - first, len(features)))
            entries = slice(ends[first], ends[last])
            rows = np.repeat(np.arange(last - first), np.diff(ends[first : last + 1]))
            dense[rows, np.searchsorted(features, examples.indices[entries])] = examples.data[entries]
            if place is not None and not (dense[:, place] == 1.0).all():
                return None  # moments about means assume the constant feature
            moments = moments.add(dense, examples.labels[first:last], examples.weights[first:last])
        return moments

    @np.errstate(all="ignore")
    def add(self, rows: Any, labels: ArrayLike, weights: ArrayLike | None = None) -> "Moments":
        """Add examples, given as dense n x d rows."""
        s, y = np.asarray(rows, dtype=float), np.asarray(labels, dtype=float)
        h = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
        batch = float(h.sum())
        if not batch > 0.0:
            return self
        mean, label_mean = np.zeros(s.shape[1]), 0.0
        if self.constant is not None:
            mean, label_mean = h @ s / batch, float(h @ y) / batch
            mean[self.constant] = 0.0
        centred, y_centred = s - mean, y - label_mean
        if self.constant is not None:
            centred[:, self.constant] = 0.0
        # Multiply by the root of the weights, so that nothing overflows float64.
        root = np.sqrt(h)
        centred, y_centred, s, y = centred * root[:, None], y_centred * root, s * root[:, None], y * root
        added = replace(
            self, rows=len(y), weight=batch, mean=mean, label_mean=label_mean, scatter=centred.T @ centred,
            cross=centred.T @ y_centred, label_scatter=float(y_centred @ y_centred), squares=(s * s).sum(axis=0),
            label_squares=float(y @ y),
        )  # fmt: skip
        return self.merge(added)

    @np.errstate(all="ignore")
    def merge(self, other: "Moments") -> "Moments":
        """The moments of two sets of examples.

        The sum of their scatters and the scatter of the two means (Chan, Golub and LeVeque 1979).
        """
        if not np.array_equal(self.features, other.features):
            features = np.union1d(self.features, other.features)
            return self.among(features).merge(other.among(features))
        total = self.weight + other.weight
        if not total > 0.0:
            return self
        part, both = other.weight / total, self.weight * (other.weight / total)
        move, label_move = other.mean - self.mean, other.label_mean - self.label_mean
        added = ("rows", "scatter", "cross", "label_scatter", "squares", "label_squares")
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in added}
        sums["scatter"] += both * np.multiply.outer(move, move)
        sums["cross"] += both * label_move * move
        sums["label_scatter"] += both * label_move * label_move
        mean, label_mean = self.mean + move * part, self.label_mean + label_move * part
        return replace(self, weight=total, mean=mean, label_mean=label_mean, **sums)

    def among(self, features: NDArray[np.int64]) -> "Moments":
        """Extend the moments by features that are 0 in all examples."""
        where, n = np.searchsorted(features, self.features), len(features)
        arrays: dict[str, Any] = {name: np.zeros(n) for name in ("mean", "cross", "squares")}
        for name, values in arrays.items():
            values[where] = getattr(self, name)
        scatter = np.zeros((n, n))
        scatter[np.ix_(where, where)] = self.scatter
        constant = None if self.constant is None else int(where[self.constant])
        return replace(self, features=features, scatter=scatter, constant=constant, **arrays)

    def lower_bound(self, units: Units, radius: float, ridge: float = 0.0) -> float:
        """A lower bound on the squared loss of all examples plus (ridge/2)|u|^2, for |u| <= radius in these units.

        Rounding. With e_j = sqrt(scatter_jj), r_j = sqrt(squares_j), and n examples, entry (i, j) of the scatter is off
        by at most n eps e_i e_j, by summing, and 8 eps (e_i r_j + r_i e_j) + 64 eps^2 r_i r_j, by centring. The means
        are off by n eps r_j/sqrt(weight). Their effect on the bound is subtracted.
        """
        z = self._solve(units, radius, ridge)
        if z is None:
            return -math.inf
        conjugate, theta, error = self.duals_of(units.model(z))
        bound = -conjugate - price(units.dual_norm(theta, error), radius, ridge)
        return bound if math.isfinite(bound) else -math.inf

    def best_model(self, units: Units) -> Array | None:
        """A nearly best model of any size; None if numbers overflow float64."""
        z = self._solve(units, math.inf, 1e-9 * self.weight)
        return None if z is None else units.model(z)

    def scatter_size(self, x: Array) -> Array:
        """|scatter| |x|: upper bounds on the terms of the product."""
        return np.asarray(np.abs(self.scatter) @ np.abs(x))

    @np.errstate(all="ignore")
    def duals_of(self, model: Array) -> tuple[float, Array, Array]:
        """Sums over all examples, with the residuals of one model as duals.

        They are an upper bound on sum_t h_t phi*(a_t), in spite of rounding; theta = -sum_t h_t a_t s_t; and the
        largest error of each entry of theta.
        """
        x, c = model.copy(), self.constant
        beta, w = 0.0, self.weight
        if c is not None:
            beta = float(x[c] + self.mean @ x)
            x[c] = 0.0
        q, mass = self.scatter @ x - self.cross, w * (beta - self.label_mean) if c is not None else 0.0
        theta = -q - self.mean * mass
        if c is not None:
            theta[c] = -mass
        raised = w * (self.label_mean - beta) * (self.label_mean + beta)
        bent = float(x @ self.scatter @ x)
        value = 0.5 * exact_sum([self.label_scatter, -bent, raised])

        n, e, r = self.rows + 8.0, np.sqrt(np.diagonal(self.scatter)), np.sqrt(self.squares)
        short = float(e @ np.abs(x)) + math.sqrt(self.label_scatter)
        long = float(r @ np.abs(x)) + math.sqrt(self.label_squares)
        drift = n * FLOAT_EPS * math.sqrt(w) * long if c is not None else 0.0
        error = n * FLOAT_EPS * e * short + 8.0 * FLOAT_EPS * (e * long + r * short) + (8.0 * FLOAT_EPS) ** 2 * r * long
        terms = self.scatter_size(x)
        error = error + np.abs(self.mean) * drift + len(x) * FLOAT_EPS * (terms + np.abs(self.cross))
        error = error + np.where(self.squares > 0.0, n * n * FLOAT_TINY, 0.0)  # other features are 0 in every example
        if c is not None:
            error[c] += drift
        slack = 0.5 * (n * FLOAT_EPS * short**2 + 16.0 * FLOAT_EPS * short * long + (8.0 * FLOAT_EPS * long) ** 2)
        sizes = self.label_scatter + float(np.abs(x) @ terms) + abs(raised)
        slack += n * n * FLOAT_TINY + (abs(beta) + abs(self.label_mean)) * drift + (len(x) + 8.0) * FLOAT_EPS * sizes
        return slack - value, theta, error

    @property
    def sums(self) -> Array:
        """For each feature the sum of h s; meaningful with a constant feature."""
        sums: Array = self.mean * self.weight
        if self.constant is not None:
            sums[self.constant] = self.weight
        return sums

    @np.errstate(all="ignore")
    def committed(self) -> dict[str, Any]:
        """The sums over these examples in an :class:`~giftrl.certificates.evidence.Evidence` that has committed them.

        The duals are the residuals of a nearly best model.
        """
        sums = None if self.constant is None else self.sums
        units = Units.of_features(self.squares, self.weight, self.constant, sums=sums)
        model = self.best_model(units)
        conjugate, theta, error = self.duals_of(np.zeros(len(self.mean)) if model is None else model)
        if not (math.isfinite(conjugate) and np.isfinite(theta).all()):  # overflow: no bound
            return {"theta": np.zeros(len(theta)), "conjugate": math.inf, "conjugate_size": 0.0, "dual_squares": 0.0}
        # The bound allows for (n + 4) eps sqrt(dual_squares) sqrt(squares_j) in theta_j, for n committed examples; the
        # dual squares are chosen so that this is at least the error here.
        allowed = (self.rows + 4.0) * FLOAT_EPS * np.sqrt(self.squares)
        ratios = np.divide(error, allowed, where=allowed > 0.0, out=np.zeros(len(error)))
        squares = float(np.max(ratios, initial=0.0)) ** 2
        return {"theta": theta, "conjugate": conjugate, "conjugate_size": abs(conjugate), "dual_squares": squares}

    @np.errstate(all="ignore")
    def _solve(self, units: Units, radius: float, ridge: float) -> Array | None:
        """Coordinates of a nearly best model; None if numbers overflow float64."""
        positive = units.scale > 0.0
        inverse = np.divide(1.0, units.scale, where=positive, out=np.zeros(len(positive)))
        hessian, b = self.scatter.copy(), self.cross.copy()
        c = self.constant
        change = np.diag(inverse)
        if c is not None:
            # From coordinates to (x, beta): beta = z_c + <mean - shift, x>.
            hessian[c, c], b[c] = self.weight, self.weight * self.label_mean
            change[c] = (self.mean - units.shift) * inverse
            change[c, c] = 1.0
        hessian, b = change.T @ hessian @ change, change.T @ b
        z = np.zeros(len(b))
        if not (np.isfinite(hessian).all() and np.isfinite(b).all()):
            return None
        for _ in range(3):  # the second and third steps correct the rounding of the first
            z = z + newton_step(hessian, hessian @ z - b + ridge * z, z, radius, ridge)
        return z if bool(np.isfinite(z).all()) else None

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays for :meth:`restore`."""
        arrays = {f"summed.{name}": getattr(self, name) for name in ("features", *MOMENT_ARRAYS)}
        numbers = np.array([getattr(self, name) for name in MOMENT_NUMBERS], dtype=np.float64)
        return arrays | {"summed.numbers": numbers}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], dimension: int, constant: int | None) -> Optional["Moments"]:
        """The moments in a state, or None; ``constant`` is the number of the constant feature."""
        if "summed.features" not in state:
            return None
        features = state["summed.features"]
        n = len(features)
        shapes = {"mean": (n,), "scatter": (n, n), "cross": (n,), "squares": (n,), "numbers": (len(MOMENT_NUMBERS),)}
        fits = features.dtype == np.int64 and features.ndim == 1 and bool((np.diff(features, prepend=-1) > 0).all())
        fits = fits and (n == 0 or features[-1] < dimension) and (constant is None or constant in features)
        for name, shape in shapes.items():
            given = state.get(f"summed.{name}")
            fits = fits and given is not None and given.dtype == np.float64 and given.shape == shape
        rows = float(state["summed.numbers"][0]) if fits else -1.0
        fits = fits and 0.0 <= rows < 2**53 and rows == int(rows) and not (state["summed.squares"] < 0.0).any()
        require(fits, "state", "summed", "must be second moments of features", "use another copy of the file")
        numbers: dict[str, Any] = dict(zip(MOMENT_NUMBERS, state["summed.numbers"].tolist(), strict=True))
        arrays: dict[str, Any] = {name: np.array(state[f"summed.{name}"]) for name in ("features", *MOMENT_ARRAYS)}
        place = None if constant is None else int(np.searchsorted(features, constant))
        return cls(**arrays, **(numbers | {"rows": int(rows)}), constant=place)
