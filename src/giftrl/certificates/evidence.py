"""The examples and sums of a run from which bounds on the best loss are computed."""

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.certificates.bound import (
    SECOND_MOMENTS,
    Array,
    BestLoss,
    Units,
    conjugate_sizes,
    conjugates,
    exact_sum,
    infima,
    lower_bound,
)
from giftrl.certificates.moments import Moments
from giftrl.certificates.problem import MAX_SMALL_MATRIX, BallProblem, ScaledRows
from giftrl.certificates.row_record import Examples
from giftrl.certificates.solver import solve
from giftrl.errors import require
from giftrl.losses import EVERY, MulticlassHinge, Softmax

#: The least mean square of a feature: squares of numbers below 1e-154 underflow to 0.
MIN_MEAN_SQUARE = 1e-300
#: The sums over committed examples besides theta.
COMMITTED_SUMS = ("conjugate", "conjugate_size", "dual_squares", "infimum", "committed")


@dataclass(frozen=True)
class Evidence:
    """Stored examples, sums over the committed ones, the loss of the run, and its model.

    Each committed example t has a dual a_t in the domain of phi* and is contained in the sums. Duals of stored examples
    are computed on request.

    Attributes:
        loss: a component of ``giftrl.losses``.
        examples: the stored examples; their indices are positions in ``features``.
        features: the numbers of the features that were not 0 in every example, and of the constant one.
        model: the weights of the run, d or d x K.
        theta: minus the sum of h_t a_t s_t over committed examples, with a row for each of ``features``.
        squares: for each feature the sum of h_t s_tj^2 over all examples.
        sums: for each feature the sum of h_t s_tj over all examples.
        weight: the sum of h_t over all examples.
        loss_sum: the weighted sum of the run's losses.
        conjugate: the sum of h_t phi*(a_t) over committed examples.
        conjugate_size: the sum of h_t times the size of the terms of phi*(a_t), for the allowance for rounding.
        dual_squares: the sum of h_t a_t^2 over committed examples (and over classes), for the same.
        infimum: the sum of h_t inf phi over committed examples.
        committed: the number of committed examples.
        constant: the position of the feature that is 1 in every example, or None.
        moments: second moments in place of all examples, for the squared loss with few features.

    >>> import numpy as np
    >>> rows = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]])
    >>> evidence = Evidence.of_rows("squared", rows, [0.0, 1.0, 5.0], loss_sum=2.0, constant=0)
    >>> best = evidence.best_loss(np.array([0.0, 1.5]))
    >>> round(best.lower_bound, 6), round(best.regret, 6), best.rows_kept
    (0.25, 1.75, 3)
    """

    loss: Any
    examples: Examples
    features: NDArray[np.int64]
    model: Array
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
    moments: Moments | None = None

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
    ) -> "Evidence":
        """Store all rows of a matrix, dense or sparse.

        Args:
            loss: a component of ``giftrl.losses`` or its name.
            rows, labels, weights: of n examples; labels are classes from 0 for a loss of K scores.
            loss_sum: the loss of a run over these rows.
            classes: K, for a loss of K scores.
            constant: the feature that is 1 in every row, or None.
        """
        import scipy.sparse as sp

        x = sp.csr_array(rows, dtype=float)
        x.sum_duplicates()
        h = np.ones(x.shape[0]) if weights is None else np.asarray(weights, dtype=float)
        typed = np.asarray(labels, dtype=float if classes is None else np.int64)
        theta = np.zeros(x.shape[1] if classes is None else (x.shape[1], classes))
        return cls(
            EVERY.member(loss, "slope"), Examples(x.data, x.indices, x.indptr, typed, h), np.arange(x.shape[1]),
            model=theta, theta=theta, squares=(x * x).T @ h, sums=x.T @ h, weight=exact_sum(h), loss_sum=loss_sum,
            constant=constant,
        )  # fmt: skip

    @classmethod
    def of_moments(cls, loss: Any, moments: Moments, model: Array, loss_sum: float) -> "Evidence":
        """Evidence from the second moments of all examples."""
        none = np.zeros(0)
        examples = Examples(none, np.zeros(0, np.int32), np.zeros(1, np.int64), none, none)
        return cls(
            loss, examples, moments.features, model, theta=np.zeros(len(moments.features)),
            squares=positive_squares(moments.squares, moments.weight), sums=moments.sums, weight=moments.weight,
            loss_sum=loss_sum, committed=moments.rows, constant=moments.constant, moments=moments,
        )  # fmt: skip

    def without_rows(self) -> "Evidence":
        """The same sums over features, without any examples, stored or committed."""
        none = np.zeros(len(self.examples.labels), bool)
        sums: dict[str, Any] = dict.fromkeys(COMMITTED_SUMS, 0)
        return replace(self, examples=self.examples.only(none), theta=np.zeros_like(self.theta), moments=None, **sums)

    @cached_property
    def rows(self) -> Any:
        """The stored examples as a matrix: sparse, or dense if it is small."""
        shape = len(self.examples.labels), len(self.squares)
        if shape[0] * shape[1] > MAX_SMALL_MATRIX:
            return self.examples.matrix(shape[1])
        dense = np.zeros(shape)  # importing SciPy would take longer than the solver
        dense[np.repeat(np.arange(shape[0]), np.diff(self.examples.indptr)), self.examples.indices] = self.examples.data
        return dense

    @cached_property
    def least(self) -> float:
        """The sum over all examples of h inf phi: a lower bound for any model."""
        inf = self.examples.weights * infima(self.loss, self.examples.labels)
        total = exact_sum([self.infimum, *inf.tolist()])
        return total if math.isfinite(total) else -math.inf

    def units(self) -> list[Units]:
        """The units in which models are measured: standardised if there is a constant feature, and scaled features."""
        relative = isinstance(self.loss, Softmax | MulticlassHinge)  # these compare classes
        kinds = [None] if self.constant is None else [self.sums, None]
        return [Units.of_features(self.squares, self.weight, self.constant, relative, sums) for sums in kinds]

    def commit(self, which: ArrayLike, duals: ArrayLike) -> "Evidence":
        """Commit some stored examples.

        Args:
            which: a mask, or positions of stored examples.
            duals: a dual in the domain of phi* for each; a row of K numbers for K scores.
        """
        chosen = np.zeros(len(self.examples.labels), bool)
        chosen[np.asarray(which)] = True
        a = np.array(duals, dtype=float)
        *_, labels, h = gone = self.examples.only(chosen)
        checked = a.copy()
        phi_star = conjugates(self.loss, a, labels, checked)
        require(np.array_equal(a, checked), "duals", duals, "must be in the domain of the conjugate", "use slopes")
        return replace(
            self,
            examples=self.examples.only(~chosen),
            theta=self.theta - gone.matrix(len(self.squares)).T @ (a.T * h).T,
            conjugate=exact_sum([self.conjugate, *(h * phi_star)]),
            conjugate_size=self.conjugate_size + float(h @ conjugate_sizes(self.loss, a, labels, phi_star)),
            dual_squares=self.dual_squares + float(np.vdot((a.T * h).T, a)),
            infimum=self.infimum + float(h @ infima(self.loss, labels)),
            committed=self.committed + len(a),
        )

    @np.errstate(all="ignore")
    def best_loss(
        self, model: ArrayLike | None = None, scale: float = 1.0, time_limit: float = 10.0, target: float = math.inf
    ) -> BestLoss:
        """A lower bound for every linear model up to the size of this one, in the units that give the larger bound.

        Args:
            model: weights of ``features``, at which the solver also begins; None for the model of the run.
            scale: the size of the other models as a multiple of the size of ``model``.
            time_limit: in seconds; the bound is valid whenever the solver stops, and higher the longer it runs.
            target: the solver stops when the bound has this value.
        """
        u = np.asarray(self.model[self.features] if model is None else model, dtype=float)
        require(u.shape == self.theta.shape, "model", u.shape, f"must have the shape {self.theta.shape}", "see theta")
        require(bool(np.isfinite(u).all()), "model", model, "must be finite", "it holds infinities or NaN")
        require(0.0 <= scale < math.inf, "scale", scale, "must be finite and not negative", "try scale=1.0")
        balls = [(units, scale * units.norm(u)) for units in reversed(self.units())]
        return replace(self._best(balls, time_limit, start=u, target=target), scale=scale)

    @np.errstate(all="ignore")
    def ridge(self, mu: float, time_limit: float = 10.0, start: ArrayLike | None = None) -> BestLoss:
        """A lower bound on loss plus (mu/2)|u|^2 for any u, in the units that give the larger bound."""
        require(0.0 < mu < math.inf, "mu", mu, "must be positive and finite", "try mu=1.0")
        first = None if start is None else np.asarray(start, dtype=float)
        return self._best([(units, math.inf) for units in self.units()], time_limit, ridge=mu, start=first)

    def _best(
        self, balls: list[tuple[Units, float]], time_limit: Any, target: float = math.inf, **given: Any
    ) -> BestLoss:
        """The largest bound over several balls; the time is divided among them."""
        good = isinstance(time_limit, (int, float, np.number)) and bool(time_limit >= 0.0)  # NaN is not
        rule = "must be a number of seconds that is not negative"
        require(good, "time_limit", time_limit, rule, "try time_limit=10.0")
        end, bounds = time.monotonic() + float(time_limit), list[BestLoss]()
        for number, (units, radius) in enumerate(balls):
            share = (end - time.monotonic()) / (len(balls) - number)
            bounds.append(self.within(units, radius, time_limit=share, target=target, **given))
            if bounds[-1].lower_bound >= target:
                break
        return max(bounds, key=lambda best: best.lower_bound)

    @np.errstate(all="ignore")
    def within(
        self, units: Units, radius: float, ridge: float = 0.0, start: Array | None = None, time_limit: float = 10.0,
        steps: int = 1000, target: float = math.inf,
    ) -> BestLoss:  # fmt: skip
        """A lower bound on loss plus (ridge/2)|u|^2 for any u with |u| <= radius, in given units.

        Args:
            units: one of :meth:`units`, or any other.
            radius: may be infinite with a ridge.
            ridge: not negative.
            start: a model to begin with, or None for the model 0.
            time_limit, steps, target: the solver stops after so many seconds or steps of Newton's method, or when the
                bound has this value.
        """
        stored = len(self.examples.labels)
        if self.moments is not None:
            bound, solver = self.moments.lower_bound(units, radius, ridge), SECOND_MOMENTS
        elif not math.isfinite(float(np.linalg.norm(units.scale))) or math.isnan(radius):
            bound, solver = -math.inf, "none: the features are too large"
        else:
            problem = self.problem(units, radius, ridge)
            begin = np.zeros_like(self.theta) if start is None else start
            z = units.coordinates(units.compared(begin))[problem.rows.features]
            norm = float(np.linalg.norm(z))
            z = z * (radius / norm) if norm > radius else z
            # Slightly more than the target, since the rounding allowance is subtracted.
            enough = target + self.conjugate + 1e-9 * abs(target)
            solution = solve(problem, z, time_limit, steps, enough)
            bound = lower_bound(self, solution.duals, units, radius, ridge)
            solver = f"{solution.steps} {solution.what}"
        return BestLoss(
            lower_bound=max(bound, self.least) + 0.0, loss_sum=self.loss_sum, weight=self.weight,
            rows=self.committed + stored, rows_kept=stored if self.moments is None else self.committed,
            units=units.name, radius=radius, solver=solver, ridge=ridge, least=self.least,
        )  # fmt: skip

    def problem(self, units: Units, radius: float, ridge: float = 0.0) -> BallProblem:
        """The optimization problem whose dual is the bound, in the coordinates of these units."""
        rows = ScaledRows(self.rows, units, self.theta)
        theta = units.compared(units.dual(self.theta))[rows.features]
        labels, weights = self.examples.labels, self.examples.weights
        return BallProblem(self.loss, rows, labels, weights, theta, radius, ridge, self.least + self.conjugate)

    def merge(self, other: "Evidence", model: ArrayLike | None = None) -> "Evidence":
        """The evidence of two runs over different examples with the same features.

        Args:
            other: of a run with the same loss.
            model: the weights whose size counts; None for the mean of both models, by the weight of their examples.
        """
        same = type(other.loss) is type(self.loss) and other.loss == self.loss
        require(same, "other", other.loss, f"must be of the loss {self.loss!r}", "merge runs of the same loss")
        fits = other.model.shape == self.model.shape and other._constant_feature == self._constant_feature
        rule = f"must have {len(self.model)} features and the same constant"
        require(fits, "other", len(other.model), rule, "merge runs over the same features")
        share = other.weight / max(self.weight + other.weight, 1e-300)
        mean = (1.0 - share) * self.model + share * other.model if model is None else np.asarray(model, dtype=float)
        require(mean.shape == self.model.shape, "model", mean.shape, f"must be {self.model.shape}", "see model")
        loss_sum, constant = self.loss_sum + other.loss_sum, self._constant_feature
        if self.moments is not None or other.moments is not None:
            exact, others = self._as_moments(), other._as_moments()
            if exact is not None and others is not None:
                return Evidence.of_moments(self.loss, exact.merge(others), mean, loss_sum)
        features = np.union1d(self.features, other.features)
        one, two = (run._among(features) for run in (self, other))
        names = ("theta", "squares", "sums", "weight", *COMMITTED_SUMS)
        total: dict[str, Any] = {name: getattr(one, name) + getattr(two, name) for name in names}
        return Evidence(
            self.loss, Examples.joined([one.examples, two.examples]), features, mean, loss_sum=loss_sum,
            constant=None if constant is None else int(np.searchsorted(features, constant)), **total,
        )  # fmt: skip

    @property
    def _constant_feature(self) -> int | None:
        return None if self.constant is None else int(self.features[self.constant])

    def _as_moments(self) -> Moments | None:
        """Second moments of all examples, if they exist or can be computed from stored examples."""
        if self.committed:
            return self.moments
        examples = self.examples._replace(indices=self.features[self.examples.indices])
        return Moments.of(self.loss, examples, self._constant_feature)

    def _among(self, features: NDArray[np.int64]) -> "Evidence":
        """Extend the evidence by new features, and commit its second moments."""
        where = np.searchsorted(features, self.features)
        run = self if self.moments is None else replace(self, **self.moments.committed())
        examples = self.examples._replace(indices=where[self.examples.indices].astype(np.int32))
        arrays: dict[str, Any] = {name: getattr(run, name) for name in ("theta", "squares", "sums")}
        for name, array in arrays.items():
            arrays[name] = np.zeros((len(features), *array.shape[1:]))
            arrays[name][where] = array
        return replace(run, examples=examples, features=features, **arrays)


def positive_squares(squares: Array, weight: float) -> Array:
    """Sums of squares of features, with a tiny positive number in place of those that underflowed to 0."""
    return np.maximum(squares, MIN_MEAN_SQUARE * weight)
