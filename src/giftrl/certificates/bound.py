"""Lower bounds on the loss of every linear model up to a given size, from any dual numbers.

For any a in the domain of phi*, phi(p) >= a p - phi*(a) (Fenchel and Young). Summed over examples of weight h_t,

    L(u) = sum_t h_t phi(<s_t, u>; y_t) >= -C + <-theta, u>,     C = sum_t h_t phi*(a_t),  theta = -sum_t h_t a_t s_t,

and <theta, u> is at most the dual norm of theta times the norm of u: the loss of every model in a ball is bounded,
whatever the a_t are. :class:`Units` is the norm, and :class:`BestLoss` the result.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.ops import formula
from giftrl.ops import loss as scalar
from giftrl.ops import vector_loss as vector

if TYPE_CHECKING:
    from giftrl.certificates.evidence import Evidence

Array = NDArray[np.float64]

FLOAT_EPS = float(np.finfo(float).eps)
#: An upper bound on the error of an underflow.
FLOAT_TINY = 1e-320
#: The least standard deviation of a feature, as a share of its root mean square.
MIN_DEVIATION = 1e-6
#: The ``solver`` of :class:`BestLoss` for second moments.
SECOND_MOMENTS = "second moments"
#: The bound for larger models is reported if it is lower by at most this share.
CLOSE_BOUNDS = 0.01


@dataclass(frozen=True)
class Units:
    """A norm of models u, and the dual norm of theta, invariant to the scale of features.

    The coordinates of u are scale_j u_j, and for the constant feature u_c + sum_j shift_j u_j. Those of theta are
    (theta_j - shift_j theta_c)/scale_j, and theta_c for the constant feature, so that <theta, u> is the inner product
    of the coordinates. Both norms are Euclidean in the coordinates. A bound that holds for every u can be read in any
    such units, including units computed after the run. *Scaled features*: scale_j^2 is the mean of s_j^2, and the shift
    is 0. *Standardised features*: scale_j is the standard deviation of feature j and shift_j its mean, so that the
    constant feature's coordinate is the mean prediction. A feature that was 0 in every example has the scale 0: its
    weight does not count in the norm of a model, and theta_j is 0.

    With K classes, u and theta have K columns, and the norm is Frobenius'. Softmax and the multiclass hinge loss only
    compare classes: adding a vector v to every column of u changes no loss. So the norm of a model is the least over v,
    which is the norm of u minus its mean column. Every a in the domain of phi* has the sum 0, and so have the rows of
    theta; the mean column that rounding leaves in a computed theta is subtracted, which changes no inner product with
    such a u.

    Attributes:
        name: printed in messages.
        scale: for each feature, not negative.
        shift: for each feature, 0 for the constant one.
        constant: the feature that is 1 in every example, or None.
        relative: True if only differences of columns count.

    >>> import numpy as np
    >>> units = Units.of_features(np.array([8.0, 0.0]), 2.0)
    >>> units.norm(np.array([1.5, 7.0])), units.dual_norm(np.array([1.5, 0.0]))
    (3.0, 0.75)
    >>> standardised = Units.centred(np.array([2.0, 50.0]), np.array([2.0, 8.0]), 2.0, constant=0)
    >>> standardised.norm(np.array([-4.0, 1.0])), standardised.dual_norm(np.array([4.0, 16.0]))
    (3.0, 4.0)
    """

    name: str
    scale: Array
    shift: Array
    constant: int | None
    relative: bool = False

    @classmethod
    def of_features(
        cls, squares: Array, weight: float, constant: int | None = None, relative: bool = False,
        sums: Array | None = None,
    ) -> "Units":  # fmt: skip
        """Scaled features, from the sums of weight s_j^2 and of weight; with ``sums``, those of :meth:`centred`."""
        total = weight if weight > 0.0 else math.inf
        mean_square, mean = squares / total, np.zeros(len(squares)) if sums is None else sums / total
        # Any positive scale is valid. The floor is for constant features, whose variance is rounding error.
        scale = np.sqrt(np.maximum(mean_square - mean * mean, MIN_DEVIATION**2 * mean_square))
        shift = np.where(scale > 0.0, mean, 0.0)
        if constant is not None:
            scale[constant], shift[constant] = 1.0, 0.0
        return cls("scaled features" if sums is None else "standardised features", scale, shift, constant, relative)

    @classmethod
    def centred(cls, squares: Array, sums: Array, weight: float, constant: int, relative: bool = False) -> "Units":
        """Standardised features, from the sums of weight s_j^2, of weight s_j and of weight."""
        return cls.of_features(squares, weight, constant, relative, sums)

    def norm(self, u: Array) -> float:
        """The norm of a model of d weights, or of d x K."""
        return float(np.linalg.norm(self.coordinates(self.compared(u))))

    def dual_norm(self, theta: Array, error: Array | None = None) -> float:
        """The dual norm of theta, d numbers or d x K.

        With ``error``, an upper bound for every theta whose row j differs by at most error_j.
        """
        theta = self.compared(theta)
        norm = float(np.linalg.norm(self.dual(theta)))
        if error is None:
            return norm
        size = np.linalg.norm(theta, axis=1) if theta.ndim == 2 else np.abs(theta)
        wide = error + (4 + _columns(theta)) * FLOAT_EPS * size
        if self.constant is not None:
            wide = wide + np.abs(self.shift) * wide[self.constant]
        slack = float(np.linalg.norm(_over(wide, self.scale)))
        return (norm + slack) * (1.0 + (len(size) + 4) * FLOAT_EPS)

    def compared(self, x: Array) -> Array:
        """x minus its mean column, if only differences of columns count."""
        return x - x.mean(axis=1, keepdims=True) if self.relative else x

    def coordinates(self, u: Array) -> Array:
        """The coordinates of a model."""
        out: Array = (u.T * self.scale).T
        if self.constant is not None:
            out[self.constant] = u[self.constant] + self.shift @ u
        return out

    def model(self, z: Array) -> Array:
        """The model with these coordinates, with the weight 0 if the scale is 0."""
        positive = self.scale > 0.0
        out: Array = (z.T * np.divide(1.0, self.scale, where=positive, out=np.zeros(len(z)))).T
        if self.constant is not None:
            out[self.constant] = z[self.constant] - self.shift @ out
        return out

    def dual(self, theta: Array) -> Array:
        """The coordinates of theta."""
        if self.constant is None:
            return _over(theta, self.scale)
        shifted = (theta.T - np.multiply.outer(theta[self.constant], self.shift)).T
        return _over(shifted, self.scale)


def _columns(x: Array) -> int:
    return 1 if x.ndim == 1 else int(x.shape[1])


def _lengths(x: Array) -> Array:
    """The magnitudes of numbers, or of rows of K."""
    return np.abs(x) if x.ndim == 1 else np.asarray(np.sqrt((x * x).sum(axis=1)))


def _over(x: Array, scale: Array) -> Array:
    """x_j / scale_j, with 0/0 = 0; any other number over 0 is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Array = (x.T / scale).T
    out[(x == 0.0) & (scale == 0.0 if x.ndim == 1 else (scale == 0.0)[:, None])] = 0.0
    return out


def price(norm: float, radius: float, ridge: float = 0.0) -> float:
    """The largest value of <theta, z> - (ridge/2) |z|^2 over |z| <= radius, for |theta| = norm.

    >>> price(3.0, 2.0), price(3.0, math.inf, 0.5), price(3.0, 2.0, 1.0)
    (6.0, 9.0, 4.0)
    """
    if not norm < math.inf:
        return math.inf  # even for the radius 0: features of scale 0 do not count in the norm
    if norm == 0.0 or radius == 0.0:
        return 0.0
    if norm <= ridge * radius:
        return 0.5 * norm * norm / ridge
    return radius * norm - 0.5 * ridge * radius * radius


def exact_sum(numbers: Iterable[float]) -> float:
    """The sum of numbers, rounded once; NaN if it overflows float64."""
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):
        return math.nan


@formula
def _infima(loss: Any, y: Any, out: Any) -> None:
    for i in range(len(y)):
        out[i] = scalar.infimum(loss, y[i])


@formula
def _conjugates(loss: Any, p: Any, y: Any, a: Any, out: Any) -> None:
    for i in range(len(a)):
        out[i] = scalar.conjugate(loss, a[i], y[i])
        if not math.isfinite(out[i]):
            a[i] = scalar.slope(loss, p[i], y[i])
            out[i] = scalar.conjugate(loss, a[i], y[i])


@formula
def _conjugates_of_scores(loss: Any, p: Any, y: Any, a: Any, out: Any) -> None:
    for i in range(len(a)):
        out[i] = vector.conjugate(loss, a[i], y[i])
        if not math.isfinite(out[i]):
            vector.slope(loss, p[i], y[i], a[i])
            out[i] = vector.conjugate(loss, a[i], y[i])


def conjugates(loss: Any, p: Array, labels: Any, a: Array) -> Array:
    """phi*(a) for each row; an entry of ``a`` that rounding put outside the domain is replaced by the slope at p."""
    out = np.empty(len(a))
    ready(_conjugates if a.ndim == 1 else _conjugates_of_scores)(loss, p, labels, a, out)
    return out


def infima(loss: Any, labels: Any) -> Array:
    """inf phi for each row."""
    out = np.empty(len(labels))
    ready(_infima)(loss, labels, out)
    return out


def conjugate_sizes(loss: Any, a: Array, labels: Any, phi_star: Array) -> Array:
    """Upper bounds on the size of the terms of phi*(a), row by row: abs(phi*(a)) + (1 + abs(a)) (abs(a) + abs(y)).

    For losses of p - y the conjugate is a y + f(a), so the 1 is dropped. Class labels contribute nothing.
    """
    if a.ndim == 2:
        return np.asarray(np.abs(phi_star) + (1.0 + _lengths(a)) * _lengths(a))
    unit = 0.0 if scalar.residual(loss) else 1.0
    return np.asarray(np.abs(phi_star) + (unit + np.abs(a)) * (np.abs(a) + np.abs(labels)))


def lower_bound(evidence: "Evidence", duals: Array, units: Units, radius: float, ridge: float = 0.0) -> float:
    """A lower bound on sum_t h_t phi(<s_t, u>; y_t) + (ridge/2)|u|^2 for all |u| <= radius in these units.

    ``duals`` belong to the stored examples, and may come from anywhere; a dual outside the domain of phi* makes the
    bound minus infinity. Committed examples got theirs before, and were added up to C and theta.

    Rounding. Each phi* is computed to a few units in the last place of its terms (:func:`conjugate_sizes`), and summed
    exactly (math.fsum). The sum C of n committed numbers is off by at most n eps times the sum of the sizes of their
    terms. Entry j of the sum of h_i a_i s_i over n_j rows is off by at most (n_j + 4) eps sum_i abs(h_i a_i s_ij), and
    theta_j, by Cauchy and Schwarz, by at most n eps sqrt(sum_t h_t a_t^2) sqrt(sum_t h_t s_tj^2). All of this is
    subtracted, and as much for numbers so small that they lose digits.
    """
    labels, weights, committed = evidence.examples.labels, evidence.examples.weights, evidence.committed
    n, a, columns = len(labels), duals.copy(), _columns(duals)
    phi_star = conjugates(evidence.loss, np.zeros_like(a), labels, a)
    if not np.array_equal(a, duals):
        return -math.inf
    terms = weights * conjugate_sizes(evidence.loss, a, labels, phi_star)
    conjugate = exact_sum([evidence.conjugate, *(weights * phi_star).tolist()])
    allowance = (16.0 + columns) * FLOAT_EPS * float(terms.sum())
    allowance += (committed + 16.0) * FLOAT_EPS * evidence.conjugate_size
    allowance += 16.0 * FLOAT_TINY * (evidence.weight + committed + n)

    rows, theta, squares = evidence.rows, evidence.theta, evidence.squares
    res = theta - rows.T @ (a.T * weights).T
    counts = np.bincount(evidence.examples.indices, minlength=rows.shape[1])
    error = (counts + 4.0 + columns) * FLOAT_EPS * (_lengths(theta) + abs(rows).T @ (weights * _lengths(a)))
    error += (committed + 4.0) * FLOAT_EPS * np.sqrt(evidence.dual_squares) * np.sqrt(squares)
    error += np.where(squares > 0.0, (committed + n) * FLOAT_TINY, 0.0)  # other features are 0 in every example
    cost = price(units.dual_norm(res, error), radius, ridge)
    bound = -conjugate - cost - allowance
    return bound - 8.0 * FLOAT_EPS * (abs(conjugate) + cost + allowance) if math.isfinite(bound) else -math.inf


@dataclass(frozen=True)
class BestLoss:
    """A lower bound on the loss of every linear model up to a given size, on the examples of a run.

    Attributes:
        lower_bound: a lower bound on the weighted sum of losses over all examples; with a ridge, on the sum plus
            (ridge/2)|u|^2.
        loss_sum: the loss of the run.
        weight: the sum of the weights of all examples.
        rows: the number of examples.
        rows_kept: the number of stored examples. The others were summed up, which makes the bound lower.
        units: how the size of a model is measured.
        radius: the size.
        solver: how the duals were found.
        ridge: the strength of the penalty, 0 for none.
        scale: the size as a multiple of the size of the run's own model; NaN if the size was given otherwise.
        least: the sum of the infima of the losses, a lower bound for any model.
        passes: how many times the examples were read to find a dual for each of them; 0 if they were stored or summed.

    >>> best = BestLoss(1565.4, 1694.7, 11055.0, 11055, 11055, "standardised features", 5.0, "", scale=1.0)
    >>> round(best.average, 4), round(best.regret, 1)
    (0.1416, 129.3)
    >>> print(best.in_words())
    average loss 0.1533. Lower bound: no linear model with a weight norm up to this one's (standardised features) has an
    average loss below 0.1416 on these examples. All examples were stored.
    """

    lower_bound: float
    loss_sum: float
    weight: float
    rows: int
    rows_kept: int
    units: str
    radius: float
    solver: str
    ridge: float = 0.0
    scale: float = math.nan
    least: float = 0.0
    passes: int = 0

    @property
    def average(self) -> float:
        """The lower bound per unit of weight."""
        return self.lower_bound / self.weight if self.weight > 0.0 else 0.0

    @property
    def average_loss(self) -> float:
        """The loss of the run per unit of weight."""
        return self.loss_sum / self.weight if self.weight > 0.0 else 0.0

    @property
    def regret(self) -> float:
        """An upper bound on the run's regret against every model of that size, in spite of rounding."""
        return self.loss_sum + (self.rows + 16.0) * FLOAT_EPS * abs(self.loss_sum) - self.lower_bound

    def in_words(self, wide: Optional["BestLoss"] = None) -> str:
        """The result in a few sentences; with that for larger models, ``wide``, if the bound is nearly the same."""
        if self.rows == 0:
            return "No examples have been learned."
        stored = f"{self.rows_kept:,} of {self.rows:,} examples were stored."
        if self.passes:
            stored = f"All examples were read {self.passes} time{'' if self.passes == 1 else 's'}."
        elif self.rows_kept >= self.rows:
            stored = f"{'Second moments of all' if self.solver == SECOND_MOMENTS else 'All'} examples were stored."
        paid = "" if math.isnan(self.loss_sum) else f"average loss {self.average_loss:.4g}. "
        if not self.lower_bound > self.least:
            if self.rows_kept >= self.rows:
                return f"{paid}A linear model {self._size()} may have the least possible loss. {stored}"
            return f"{paid}Too few examples were stored for a lower bound for linear models {self._size()}. {stored}"
        penalty = f" plus {self.ridge:.4g}/2 times its squared norm, per example," if self.ridge > 0.0 else ""
        words = f"{paid}Lower bound: no linear model {self._size()} has an average loss{penalty} below "
        words += f"{self.average:.4g} on these examples. {stored}"
        if wide is not None and self.lower_bound - wide.lower_bound <= CLOSE_BOUNDS * abs(self.lower_bound):
            words += f" None with up to {wide.scale:.4g} times this norm has one below {wide.average:.4g}."
        if self.regret < 0.0 and f"{self.average_loss:.4g}" != f"{self.average:.4g}":
            words += (
                " This run beat every fixed linear model of that size: it kept learning, or kept its predictions within"
                " the range of the labels, which no single set of weights can do."
            )
        return words

    def _size(self) -> str:
        """A description of the models."""
        if self.ridge > 0.0:
            return f"({self.units})"
        if math.isnan(self.scale):
            return f"with a weight norm of {self.radius:.4g} or less ({self.units})"
        if self.scale == 0.0:
            return "with all weights 0"
        times = "" if self.scale == 1.0 else f"{self.scale:.4g} times "
        return f"with a weight norm up to {times}this one's ({self.units})"
