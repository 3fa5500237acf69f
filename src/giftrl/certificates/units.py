"""The size of a model, with each feature in its own units."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPS = float(np.finfo(float).eps)

#: What underflow can change a number by is less than this.
TINY = 1e-320

#: A feature that varies by less than this share of its size counts as varying by that much.
STILL = 1e-6


@dataclass(frozen=True)
class Units:
    """A norm of models u, and the dual norm of theta, in coordinates that do not depend on how features were measured.

    The coordinates of u are scale_j u_j, and for the constant feature u_c + sum_j shift_j u_j. Those of theta are
    (theta_j - shift_j theta_c)/scale_j, and theta_c for the constant feature; with these, <theta, u> is the inner
    product of the coordinates. Both norms are Euclidean in the coordinates. A bound that holds for every u may be read
    in any such units, also in units that were computed after the run.

    *Feature units*: scale_j^2 is the mean of s_j^2, and nothing is shifted. *Centred feature units*: scale_j is the
    standard deviation of feature j and shift_j its mean, so that the constant feature's coordinate is the mean
    prediction.

    A feature that was 0 in every row has the scale 0. Its weight changes no prediction on these rows, and does not
    count in the norm of a model; theta_j is 0 there. (Were it not, its norm would be infinite, and nothing proved.)

    For K classes u and theta have K columns, and the norm is Frobenius'. Softmax and the multiclass hinge compare
    classes: adding the same vector v to every column changes nothing, so the norm of a model is the least over v, which
    is that of u minus its mean column. phi(p + t 1) = phi(p) for all t makes <a, p> - phi(p) unbounded unless
    sum_k a_k = 0: in the domain of phi* the entries of a, and so the columns of theta, have the sum 0, and <theta, u>
    is the same for u and for u minus its mean column. Rounding leaves the columns of a computed theta with a sum that
    is not quite 0; the inner product with a u whose columns have the sum 0 does not see their mean, which is taken off.

    Attributes:
        name: in words.
        scale: for each feature, not negative.
        shift: for each feature, 0 for the constant one.
        constant: the feature that is 1 in every row, or None.
        relative: whether only differences of columns count.

    >>> import numpy as np
    >>> units = Units.of_features(np.array([8.0, 0.0]), 2.0)
    >>> units.norm(np.array([1.5, 7.0])), units.dual_norm(np.array([1.5, 0.0]))
    (3.0, 0.75)
    >>> centred = Units.centred(np.array([2.0, 50.0]), np.array([2.0, 8.0]), 2.0, constant=0)
    >>> centred.norm(np.array([-4.0, 1.0])), centred.dual_norm(np.array([4.0, 16.0]))
    (3.0, 4.0)
    """

    name: str
    scale: Array
    shift: Array
    constant: int | None
    relative: bool = False

    @classmethod
    def of_features(cls, squares: Array, weight: float, constant: int | None = None, relative: bool = False) -> "Units":
        """Feature units, from the sums of weight s_j^2 and of weight."""
        scale = np.sqrt(squares / weight) if weight > 0.0 else np.zeros(len(squares))
        if constant is not None:
            scale[constant] = 1.0
        return cls("each feature in its own units", scale, np.zeros(len(scale)), constant, relative)

    @classmethod
    def centred(cls, squares: Array, sums: Array, weight: float, constant: int, relative: bool = False) -> "Units":
        """Centred feature units, from the sums of weight s_j^2, of weight s_j and of weight."""
        mean_square = squares / weight if weight > 0.0 else np.zeros(len(squares))
        mean = sums / weight if weight > 0.0 else np.zeros(len(sums))
        # Any positive scale is right. The floor is for a feature that never moved, where the difference is rounding.
        scale = np.sqrt(np.maximum(mean_square - mean * mean, STILL**2 * mean_square))
        shift = np.where(scale > 0.0, mean, 0.0)
        scale[constant], shift[constant] = 1.0, 0.0
        return cls("each feature centred and in its own units", scale, shift, constant, relative)

    def norm(self, u: Array) -> float:
        """The norm of a model: of d weights, or of d x K."""
        return float(np.linalg.norm(self.coordinates(self.compared(u))))

    def dual_norm(self, theta: Array, error: Array | None = None) -> float:
        """The dual norm of theta.

        Args:
            theta: d numbers, or d x K.
            error: if given, the answer is an upper bound for every theta whose row j is no further than error_j away,
                in spite of the rounding in this computation.
        """
        theta = self.compared(theta)
        norm = float(np.linalg.norm(self.dual(theta)))
        if error is None:
            return norm
        size = np.linalg.norm(theta, axis=1) if theta.ndim == 2 else np.abs(theta)
        columns = theta.shape[1] if theta.ndim == 2 else 1
        wide = error + (4 + columns) * EPS * size
        if self.constant is not None:
            wide = wide + np.abs(self.shift) * wide[self.constant]
        slack = float(np.linalg.norm(_over(wide, self.scale)))
        return (norm + slack) * (1.0 + (len(size) + 4) * EPS)

    def compared(self, x: Array) -> Array:
        """x without its mean column, where only differences of columns count."""
        return x - x.mean(axis=1, keepdims=True) if self.relative else x

    def coordinates(self, u: Array) -> Array:
        """The coordinates of a model."""
        out: Array = (u.T * self.scale).T
        if self.constant is not None:
            out[self.constant] = u[self.constant] + self.shift @ u
        return out

    def model(self, z: Array) -> Array:
        """The model with these coordinates, with the weight 0 where the scale is 0."""
        positive = self.scale > 0.0
        out: Array = (z.T * np.divide(1.0, self.scale, where=positive, out=np.zeros(len(z)))).T
        if self.constant is not None:
            out[self.constant] = z[self.constant] - self.shift @ out
        return out

    def dual(self, theta: Array) -> Array:
        """The coordinates of theta."""
        if self.constant is None:
            return _over(theta, self.scale)
        held = (theta.T - np.multiply.outer(theta[self.constant], self.shift)).T
        return _over(held, self.scale)


def _over(x: Array, scale: Array) -> Array:
    """x_j / scale_j, where 0/0 is 0 and any other number over 0 is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Array = (x.T / scale).T
    out[(x == 0.0) & (scale == 0.0 if x.ndim == 1 else (scale == 0.0)[:, None])] = 0.0
    return out


def exact_sum(numbers: Iterable[float]) -> float:
    """The sum of numbers, rounded once; NaN where it leaves float64.

    >>> exact_sum([1e16, 1.0, -1e16]), exact_sum([np.inf, -np.inf])
    (1.0, nan)
    """
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):
        return math.nan
