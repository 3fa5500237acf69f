"""The squared loss with few features: exact from second moments, in one pass and without keeping a row."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from giftrl.certificates.ball import newton_step, price
from giftrl.certificates.units import EPS, TINY, Array, Units, exact_sum


class Duals(NamedTuple):
    """Sums over rows that were given duals."""

    conjugate: float  # sum_t h_t phi*(a_t), or a little more, which allows for rounding
    theta: Array  # -sum_t h_t a_t s_t
    error: Array  # how far each entry of theta may be off


@dataclass(frozen=True)
class Moments:
    """Weighted second moments of features and labels, about their means where there is a constant feature.

    For the squared loss, let every dual be the residual of one model: a_t = <s_t, u> - y_t. Then
    sum_t h_t phi*(a_t) = (u' C u - yy)/2 with C = sum_t h_t s_t s_t' and yy = sum_t h_t y_t^2, theta = b - C u with
    b = sum_t h_t y_t s_t, and for any such u the bound of all rows is yy/2 - u' C u/2 - price(|theta|): that of
    :func:`giftrl.certificates.bound.lower_bound`, with nothing but sums. Raw sums would cancel; here the features are
    centred. With x the weights of all features but the constant one, and beta the mean prediction, the residuals are
    <s_t - mean, x> + beta - y_t, and the sums over centred features and over constants separate.

    Attributes:
        rows: how many there were.
        weight: the sum of h.
        mean: of each feature; 0 for all where there is no constant feature, and for the constant one.
        label_mean: the mean label, or 0 in the same way.
        scatter: sum_t h_t (s_t - mean)(s_t - mean)', 0 for the constant feature.
        cross: sum_t h_t (y_t - label_mean)(s_t - mean).
        label_scatter: sum_t h_t (y_t - label_mean)^2.
        squares: sum_t h_t s_tj^2.
        label_squares: sum_t h_t y_t^2.
        constant: the feature that is 1 in every row, or None.

    >>> import numpy as np
    >>> rows = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]])
    >>> moments = Moments.empty(2, constant=0).add(rows[:2], [0.0, 1.0]).add(rows[2:], [5.0])
    >>> units = Units.centred(moments.squares, np.array([3.0, 4.0]), 3.0, constant=0)
    >>> round(moments.lower_bound(units, radius=9.0), 6)
    0.142857
    """

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
    def empty(cls, features: int, constant: int | None = None) -> "Moments":
        """The moments of no rows."""
        zeros = np.zeros(features)
        return cls(0, 0.0, zeros, 0.0, np.zeros((features, features)), zeros, 0.0, zeros, 0.0, constant)

    @np.errstate(all="ignore")
    def add(self, rows: Any, labels: ArrayLike, weights: ArrayLike | None = None) -> "Moments":
        """The moments of these rows too; rows dense, n x d."""
        s, y = np.asarray(rows, dtype=float), np.asarray(labels, dtype=float)
        h = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
        batch = float(h.sum())
        if not batch > 0.0:
            return self
        mean, label_mean = np.zeros(s.shape[1]), 0.0
        if self.constant is not None:
            mean, label_mean = h @ s / batch, float(h @ y) / batch
            mean[self.constant] = 0.0
        held, y_held = s - mean, y - label_mean
        if self.constant is not None:
            held[:, self.constant] = 0.0
        # With the roots of the weights, so that neither squares nor weights alone leave float64.
        root = np.sqrt(h)
        held, y_held, s, y = held * root[:, None], y_held * root, s * root[:, None], y * root
        return self.merge(
            Moments(
                rows=len(y), weight=batch, mean=mean, label_mean=label_mean, scatter=held.T @ held,
                cross=held.T @ y_held, label_scatter=float(y_held @ y_held), squares=(s * s).sum(axis=0),
                label_squares=float(y @ y), constant=self.constant,
            )
        )  # fmt: skip

    @np.errstate(all="ignore")
    def merge(self, other: "Moments") -> "Moments":
        """The moments of two sets of rows with the same features.

        Their scatters, and that of the two means (Chan, Golub and LeVeque 1979).
        """
        total = self.weight + other.weight
        if not total > 0.0:
            return self
        part, both = other.weight / total, self.weight * (other.weight / total)
        move, label_move = other.mean - self.mean, other.label_mean - self.label_mean
        return Moments(
            rows=self.rows + other.rows,
            weight=total,
            mean=self.mean + move * part,
            label_mean=self.label_mean + label_move * part,
            scatter=self.scatter + other.scatter + both * np.multiply.outer(move, move),
            cross=self.cross + other.cross + both * label_move * move,
            label_scatter=self.label_scatter + other.label_scatter + both * label_move * label_move,
            squares=self.squares + other.squares,
            label_squares=self.label_squares + other.label_squares,
            constant=self.constant,
        )

    def lower_bound(self, units: Units, radius: float, ridge: float = 0.0) -> float:
        """What the squared loss of all rows plus (ridge/2)|u|^2 is never below, for |u| <= radius in these units.

        Rounding. With e_j = sqrt(scatter_jj), r_j = sqrt(squares_j), and n rows, entry (i, j) of the scatter is off by
        at most n eps e_i e_j, by summing, and 8 eps (e_i r_j + r_i e_j) + 64 eps^2 r_i r_j, by centring. The means are
        off by n eps r_j/sqrt(weight). What follows for the bound is subtracted.
        """
        z = self._solve(units, radius, ridge)
        if z is None:
            return -math.inf
        duals = self.duals_of(units.model(z))
        bound = -duals.conjugate - price(units.dual_norm(duals.theta, duals.error), radius, ridge)
        return bound if math.isfinite(bound) else -math.inf

    def best_model(self, units: Units) -> Array | None:
        """A nearly best model, whatever its size; None where numbers leave float64."""
        z = self._solve(units, math.inf, 1e-9 * self.weight)
        return None if z is None else units.model(z)

    @np.errstate(all="ignore")
    def duals_of(self, model: Array) -> "Duals":
        """The sums over all rows whose duals are the residuals of one model."""
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
        drift = n * EPS * math.sqrt(w) * long if c is not None else 0.0
        error = n * EPS * e * short + 8.0 * EPS * (e * long + r * short) + (8.0 * EPS) ** 2 * r * long
        error = error + np.abs(self.mean) * drift + len(x) * EPS * (self.scatter_size(x) + np.abs(self.cross))
        error = error + np.where(self.squares > 0.0, n * n * TINY, 0.0)  # others are 0 in every row
        if c is not None:
            error[c] += drift
        slack = 0.5 * (n * EPS * short**2 + 16.0 * EPS * short * long + (8.0 * EPS * long) ** 2)
        slack += (
            n * n * TINY
            + (abs(beta) + abs(self.label_mean)) * drift
            + (len(x) + 8.0) * EPS * (self.label_scatter + float(np.abs(x) @ self.scatter_size(x)) + abs(raised))
        )
        return Duals(slack - value, theta, error)

    def scatter_size(self, x: Array) -> Array:
        """|scatter| |x|: what the terms of the product are at most."""
        out: Array = np.abs(self.scatter) @ np.abs(x)
        return out

    @np.errstate(all="ignore")
    def _solve(self, units: Units, radius: float, ridge: float) -> Array | None:
        """Coordinates of a nearly best model; None where numbers leave float64."""
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
        for _ in range(3):  # the second and third time for the digits that the first one loses
            z = z + newton_step(hessian, hessian @ z - b + ridge * z, z, radius, ridge)
        return z if bool(np.isfinite(z).all()) else None
