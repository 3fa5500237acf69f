"""What a run leaves for the bound on the best loss."""

import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.certificates import scaled
from giftrl.certificates.best_loss import MOMENTS, BestLoss
from giftrl.certificates.units import Array, Units, exact_sum
from giftrl.errors import require
from giftrl.losses import EVERY, MulticlassHinge, Softmax

if TYPE_CHECKING:
    from giftrl.certificates.moments import Moments


@dataclass(frozen=True)
class Kept:
    """Rows that were kept whole (witnesses), sums over the others (committed rows), and what the run achieved.

    A committed row t was given a dual a_t in the domain of phi*, by whatever rule, and summed up: theta is minus the
    sum of h_t a_t s_t, and ``conjugate`` the sum of h_t phi*(a_t). The duals of witnesses are found on request.

    Attributes:
        loss: a member of ``giftrl.losses``.
        data, indices, indptr: the witnesses as sparse rows.
        labels: theirs: floats, or classes from 0 on as integers.
        weights: theirs.
        theta: of committed rows; d numbers, or d x K for K scores.
        conjugate: the sum of h_t phi*(a_t) over committed rows.
        conjugate_size: the sum of h_t times the size of the terms of phi*(a_t), for the allowance for rounding
            (:func:`giftrl.certificates.bound.sizes`).
        dual_squares: the sum of h_t a_t^2 over committed rows (and over classes), for the same.
        infimum: the sum of h_t inf phi over committed rows.
        committed: the number of committed rows.
        squares: for each feature the sum of h_t s_tj^2 over all rows.
        sums: for each feature the sum of h_t s_tj over all rows.
        weight: the sum of h_t over all rows.
        loss_sum: what the run paid, by weight.
        constant: the feature that is 1 in every row, or None.
        moments: second moments of all rows, for the squared loss with few features.

    >>> import numpy as np
    >>> rows = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]])
    >>> kept = Kept.of_rows("squared", rows, [0.0, 1.0, 5.0], loss_sum=2.0, constant=0)
    >>> best = kept.best_loss(np.array([0.0, 1.5]))
    >>> round(best.lower_bound, 6), round(best.regret, 6), best.rows_kept
    (0.25, 1.75, 3)
    """

    loss: Any
    data: Array
    indices: NDArray[Any]
    indptr: NDArray[Any]
    labels: NDArray[Any]
    weights: Array
    theta: Array
    squares: Array
    sums: Array
    weight: float
    loss_sum: float
    conjugate: float = 0.0
    conjugate_size: float = 0.0
    dual_squares: float = 0.0
    infimum: float = 0.0
    committed: int = 0
    constant: int | None = None
    moments: "Moments | None" = field(default=None, compare=False)

    @classmethod
    def of_rows(
        cls,
        loss: Any,
        rows: Any,
        labels: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        loss_sum: float = math.nan,
        classes: int | None = None,
        constant: int | None = None,
    ) -> "Kept":
        """Keep all rows of a matrix, dense or sparse.

        Args:
            loss: a member of ``giftrl.losses`` or its name.
            rows: n x d.
            labels: n labels; classes from 0 on for a loss of K scores.
            weights: n weights, or None for 1 each.
            loss_sum: what a run paid for these rows.
            classes: K, for a loss of K scores.
            constant: the feature that is 1 in every row, or None.
        """
        import scipy.sparse as sp

        x = sp.csr_array(rows, dtype=float)
        x.sum_duplicates()
        h = np.ones(x.shape[0]) if weights is None else np.asarray(weights, dtype=float)
        return cls(
            loss=EVERY.member(loss, "slope"),
            data=x.data, indices=x.indices, indptr=x.indptr,
            labels=np.asarray(labels, dtype=float if classes is None else np.int64),
            weights=h,
            theta=np.zeros(x.shape[1] if classes is None else (x.shape[1], classes)),
            squares=(x * x).T @ h, sums=x.T @ h, weight=exact_sum(h), loss_sum=loss_sum, constant=constant,
        )  # fmt: skip

    def without_rows(self) -> "Kept":
        """The same sums over features, and no row: neither kept nor committed."""
        none = np.empty(0)
        return replace(
            self, data=none, indices=np.empty(0, np.int64), indptr=np.zeros(1, np.int64), labels=self.labels[:0],
            weights=none, theta=np.zeros_like(self.theta), conjugate=0.0, conjugate_size=0.0, dual_squares=0.0,
            infimum=0.0, committed=0, moments=None,
        )  # fmt: skip

    @cached_property
    def rows(self) -> Any:
        """The witnesses as a matrix: sparse, or dense if it is small."""
        shape = len(self.labels), len(self.squares)
        if shape[0] * shape[1] > scaled.SMALL:
            return self.sparse_rows
        dense = np.zeros(shape)  # SciPy would take longer to import than the answer takes
        dense[np.repeat(np.arange(shape[0]), np.diff(self.indptr)), self.indices] = self.data
        return dense

    @cached_property
    def sparse_rows(self) -> Any:
        """The witnesses as a sparse matrix of SciPy."""
        import scipy.sparse as sp

        return sp.csr_array((self.data, self.indices, self.indptr), shape=(len(self.labels), len(self.squares)))

    @property
    def relative(self) -> bool:
        """Whether the loss compares classes, so that only differences of columns of a model count."""
        return isinstance(self.loss, Softmax | MulticlassHinge)

    @cached_property
    def least(self) -> float:
        """The sum over all rows of h inf phi, which no model goes below."""
        from giftrl.certificates import loops
        from giftrl.compiled.compiler import ready

        inf = np.empty(len(self.labels))
        ready(loops.infima)(self.loss, self.labels, inf)
        total = exact_sum([self.infimum, *(self.weights * inf).tolist()])
        return total if math.isfinite(total) else -math.inf

    def units(self) -> list[Units]:
        """The units in which models are measured: centred ones where there is a constant feature, and feature units."""
        plain = Units.of_features(self.squares, self.weight, self.constant, self.relative)
        if self.constant is None:
            return [plain]
        return [Units.centred(self.squares, self.sums, self.weight, self.constant, self.relative), plain]

    def commit(self, which: ArrayLike, duals: ArrayLike) -> "Kept":
        """The same record after some witnesses are committed.

        Args:
            which: a mask, or numbers of witnesses.
            duals: for each of these any a in the domain of phi*; a row of K numbers for K scores.
        """
        from giftrl.certificates import loops
        from giftrl.certificates.bound import sizes
        from giftrl.compiled.compiler import ready

        gone = np.zeros(len(self.labels), bool)
        gone[np.asarray(which)] = True
        a = np.array(duals, dtype=float)
        rows, labels, h = self.sparse_rows[gone], self.labels[gone], self.weights[gone]
        phi_star, inf, checked = np.empty(len(a)), np.empty(len(a)), a.copy()
        ready(loops.conjugates if a.ndim == 1 else loops.conjugate_scores)(self.loss, a, labels, checked, phi_star)
        require(np.array_equal(a, checked), "duals", duals, "must be in the domain of the conjugate", "use slopes")
        ready(loops.infima)(self.loss, labels, inf)
        left = self.sparse_rows[~gone]
        return replace(
            self,
            data=left.data, indices=left.indices, indptr=left.indptr,
            labels=self.labels[~gone], weights=self.weights[~gone],
            theta=self.theta - rows.T @ (a.T * h).T,
            conjugate=exact_sum([self.conjugate, *(h * phi_star)]),
            conjugate_size=self.conjugate_size + float(h @ sizes(self.loss, a, labels, phi_star)),
            dual_squares=self.dual_squares + float(np.vdot((a.T * h).T, a)),
            infimum=self.infimum + float(h @ inf),
            committed=self.committed + len(a),
        )  # fmt: skip

    @np.errstate(all="ignore")
    def best_loss(
        self, model: ArrayLike, scale: float = 1.0, time_limit: float = 10.0, target: float = math.inf
    ) -> BestLoss:
        """A number that no linear model up to the size of this one goes below, in the units that give the larger.

        Args:
            model: weights, d or d x K; they also are where the solver begins.
            scale: how many times the size of ``model`` the others may have.
            time_limit: in seconds; the bound is right whenever the solver stops, and higher the longer it runs.
            target: a bound that is high enough: the solver stops when it has it.
        """
        u = np.asarray(model, dtype=float)
        require(u.shape == self.theta.shape, "model", u.shape, f"must have the shape {self.theta.shape}", "see theta")
        require(bool(np.isfinite(u).all()), "model", model, "must be finite", "it holds infinities or NaN")
        require(0.0 <= scale < math.inf, "scale", scale, "must be finite and not negative", "try scale=1.0")
        end = time.monotonic() + as_seconds(time_limit)
        found: list[BestLoss] = []
        for left, units in enumerate(reversed(self.units())):
            radius = scale * units.norm(u)
            share = (end - time.monotonic()) / (2 if left == 0 and self.constant is not None else 1)
            found.append(self.within(units, radius, start=u, time_limit=share, target=target))
            if found[-1].lower_bound >= target:
                break
        return replace(max(found, key=lambda best: best.lower_bound), scale=scale)

    @np.errstate(all="ignore")
    def ridge(self, mu: float, time_limit: float = 10.0, start: ArrayLike | None = None) -> BestLoss:
        """A number that loss plus (mu/2)|u|^2 is not below for any u; the larger one of the units is returned."""
        require(0.0 < mu < math.inf, "mu", mu, "must be positive and finite", "try mu=1.0")
        first = None if start is None else np.asarray(start, dtype=float)
        units = self.units()
        each_limit = as_seconds(time_limit) / len(units)
        found = [self.within(each, math.inf, mu, first, each_limit) for each in units]
        return max(found, key=lambda best: best.lower_bound)

    @np.errstate(all="ignore")
    def within(
        self, units: Units, radius: float, ridge: float = 0.0, start: Array | None = None, time_limit: float = 10.0,
        steps: int = 1000, target: float = math.inf,
    ) -> BestLoss:  # fmt: skip
        """A number that loss plus (ridge/2)|u|^2 is not below for any u with |u| <= radius, in given units.

        Args:
            units: one of :meth:`units`, or any other.
            radius: may be infinite where there is a ridge.
            ridge: not negative.
            start: a model to begin with, or None for the model 0.
            time_limit: in seconds.
            steps: the most steps of Newton's method.
            target: a bound that is high enough: the solver stops when it has it.
        """
        from giftrl.certificates.bound import lower_bound
        from giftrl.certificates.problem import Problem
        from giftrl.certificates.solver import solve

        if self.moments is not None:
            bound, solver = self.moments.lower_bound(units, radius, ridge), MOMENTS
        elif not math.isfinite(float(np.linalg.norm(units.scale))) or math.isnan(radius):
            bound, solver = -math.inf, "none: the features are too large"
        else:
            rows = scaled.Scaled(self.rows, units, self.theta)
            theta = units.compared(units.dual(self.theta))[rows.features]
            floor = self.least + self.conjugate
            problem = Problem(self.loss, rows, self.labels, self.weights, theta, radius, ridge, floor)
            z = np.zeros_like(theta) if start is None else units.coordinates(units.compared(start))[rows.features]
            norm = float(np.linalg.norm(z))
            z = z * (radius / norm) if norm > radius else z
            # A little more than the target, for the allowance that is subtracted.
            enough = target + self.conjugate + 1e-9 * abs(target)
            solution = solve(problem, z, time_limit, steps, enough)
            bound = lower_bound(self, solution.duals, units, radius, ridge)
            solver = f"{solution.steps} {solution.what}"
        return BestLoss(
            lower_bound=max(bound, self.least) + 0.0,
            loss_sum=self.loss_sum,
            weight=self.weight,
            rows=self.committed + len(self.labels),
            rows_kept=self.committed + len(self.labels) if self.moments is not None else len(self.labels),
            units=units.name,
            radius=radius,
            solver=solver,
            ridge=ridge,
            least=self.least,
        )


def as_seconds(limit: Any) -> float:
    """A time limit, checked.

    >>> as_seconds(2)
    2.0
    """
    good = isinstance(limit, (int, float, np.number)) and bool(limit >= 0.0)  # NaN is not
    require(good, "time_limit", limit, "must be a number of seconds that is not negative", "try time_limit=10.0")
    return float(limit)
