"""A linear learner without parameters: many small learners in one pass, combined into one."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses
from giftrl.compiled import door
from giftrl.compiled.rows import Rows, as_rows, longest
from giftrl.errors import require
from giftrl.kernels.checks import as_labels, as_weights
from giftrl.mixtures import labels as unit
from giftrl.mixtures import rounds
from giftrl.mixtures.experts import bets, columns, grid
from giftrl.mixtures.features import no_features, room_for
from giftrl.mixtures.full_matrix import no_matrix
from giftrl.mixtures.layout import THETA, memory
from giftrl.mixtures.mixture import Array, Mixture
from giftrl.mixtures.newton_stack import COVARIANCE
from giftrl.mixtures.presets import preset
from giftrl.mixtures.restoring import check_state
from giftrl.mixtures.rounds import Pieces, State, learn_mixture, make_room
from giftrl.mixtures.weights import LARGEST, Shares, predict_mixture, shares, weigh_all
from giftrl.ops.loss import accepts
from giftrl.ops.units import bold

__all__ = ["MixtureLearner"]


class MixtureLearner(Mixture):
    """A linear model that needs no parameter: experts of many kinds and rates, mixed as they prove themselves.

    Features are centred and scaled, labels are learnt around their mean (:mod:`giftrl.mixtures.features` and
    :mod:`giftrl.mixtures.labels`); AdaHedge and a Newton stack combine the experts. All of that is linear in the
    features: what was learnt is one weight vector, ``x``.

    Args:
        dimension: the number of features.
        loss: a loss of one prediction, its name, or a NamedTuple of your own.
        constant: which feature is always 1, or None. Without one nothing is centred.
        preset: ``"default"``, or ``"light"`` for four experts.
        centre, scale, centre_labels, extend, stack: False switches off the centring of features, their scaling, the
            centring of labels, the linear extension of the loss beyond the range of labels, the Newton stack.
        dtype: float32 or float64, how weights are stored.
        compiled: False runs the same functions as plain Python.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([1e6 * rng.normal(size=300), 1e-3 * rng.normal(size=300) + 5.0, np.ones(300)])
    >>> y = 1e-6 * x[:, 0] - 2e3 * x[:, 1]
    >>> learner = MixtureLearner(3, "squared", constant=2, compiled=False)
    >>> p = learner.learn(x, y)
    >>> bool(np.mean((p - y)[150:] ** 2) < 0.01 * y.var())
    True
    """

    def __init__(
        self,
        dimension: int,
        loss: Any = "logistic",
        *,
        constant: int | None = None,
        preset: str = "default",
        centre: bool = True,
        scale: bool = True,
        centre_labels: bool = True,
        extend: bool = True,
        stack: bool = True,
        dtype: Any = "float32",
        compiled: bool = True,
    ) -> None:
        require(
            isinstance(dimension, (int, np.integer)) and dimension >= 1,
            "dimension", dimension, "must be a whole number of at least 1", "give the number of features",
        )  # fmt: skip
        self.dimension = int(dimension)
        self.loss = losses.scalar(loss)
        self.dtype = np.dtype(dtype)
        known = self.dtype in (np.float32, np.float64)
        require(known, "dtype", dtype, "must be float32 or float64", "float32 halves the memory")
        require(
            constant is None or (isinstance(constant, (int, np.integer)) and 0 <= constant < self.dimension),
            "constant", constant, f"must be a feature, a whole number from 0 to {self.dimension - 1}, or None",
            "give the place of the feature that is always 1",
        )  # fmt: skip
        self.constant = constant
        self.preset = preset
        self.compiled = compiled
        chosen = _preset(preset)
        margin = not accepts(self.loss, 0.5)
        factor = bold(self.loss) if margin else 1.0
        there = constant is not None
        self.pieces = Pieces(
            -1 if constant is None else int(constant), margin, factor, centre and there, scale, centre_labels and there,
            extend, stack,
        )  # fmt: skip
        self.grid = grid(chosen.experts)
        others = ["coin betting" if bets(self.grid) else "", "full matrix" if chosen.places > 0 else ""]
        self.expert_names = [expert.name for expert in chosen.experts] + others
        self.expert_names += [""] * (columns(self.grid) - len(self.expert_names))
        self.features = no_features(memory(self.dimension, self.dtype))
        self.matrix = no_matrix(chosen.places)
        self._start()

    def _start(self) -> None:
        present = np.array([name != "" for name in self.expert_names])
        candidates = np.array(
            [True, self.pieces.stack, self.pieces.bold > 1.0, self.pieces.stack and self.pieces.bold > 1.0]
        )
        self.mixing = State(
            units=unit.start_units(self.loss, self.pieces.margin),
            offsets=np.zeros(columns(self.grid)),
            totals=np.where(present, 0.0, math.inf),
            candidates=np.where(candidates, 0.0, math.inf),
            stack=present / present.sum(),
            inverse=COVARIANCE * np.diag(present.astype(np.float64)),
            sums=np.zeros(7),
        )

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Learn from a batch, row by row, and return the predictions, each made before its label was used.

        Predictions are those that count: real labels have a range, and no prediction leaves it; with the hinge losses
        none is beyond -1 and 1.

        Args:
            x: a SciPy sparse matrix or array, or a matrix of numbers, one example a row.
            y: the labels.
            weights: the importance of each example, 1 where left out.
        """
        rows, n = as_rows(x, self.dimension)
        return self.learn_rows(rows, as_labels(self.loss, y, (n,)), as_weights(weights, n))

    def _learn(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        self.features = room_for(self.features, self.dimension, int(longest(rows)))
        predictions = np.empty(len(y))
        width = int(longest(rows)) + len(self.features.dense)
        room = make_room(self.grid, width, len(self.matrix.x), self.dtype)
        door.ready(learn_mixture, self.compiled, counted=False)(
            self.loss, self.grid, self.pieces, self.features, self._view, self.matrix, self.mixing,
            rows, y, weights, predictions, room,
        )  # fmt: skip
        return predictions

    def check(self, state: Mapping[str, NDArray[Any]]) -> None:
        check_state(self, state)

    def _shares(self) -> Shares:
        return shares(self.pieces, self.mixing, int(np.isfinite(self.mixing.totals).sum()))

    def _call(self, loop: Any, factors: Array, *more: Any) -> Any:
        ready = door.ready(loop, self.compiled)
        return ready(self.grid, self.features, self._view, self.matrix, self.mixing.units, factors, *more)

    def predict_rows(self, rows: Rows, n: int) -> Array:
        """<s, x> for each of n rows at O(nonzeros + dense features); no check of the arguments."""
        found, out = self._shares(), np.empty(n)
        fixed = 0.0 if self.constant is None else found.constant
        self._call(predict_mixture, found.factors, fixed, rows, out)
        return out

    def predict(self, x: Any) -> Array:
        """<s, x> for each row; :meth:`clip` makes it a prediction that counts."""
        rows, n = as_rows(x, self.dimension)
        return self.predict_rows(rows, n)

    def clip(self, p: ArrayLike) -> Array:
        """Predictions within the range that :meth:`learn` gives."""
        low, high = self.range
        return np.clip(np.asarray(p, np.float64), low, high)

    @property
    def range(self) -> tuple[float, float]:
        """Between which numbers predictions stay: the labels seen, or the margins that can pay."""
        low, high = float(self.mixing.units[unit.LOW]), float(self.mixing.units[unit.HIGH])
        return (low, high) if low <= high else (-math.inf, math.inf)

    @property
    def x(self) -> Array:
        """The weights of the features; that of the constant is the intercept."""
        found, out = self._shares(), np.empty(self.dimension)
        centres = self._call(weigh_all, found.factors, out)
        if self.constant is not None:
            out[self.constant] = np.clip(out[self.constant] + found.constant - centres, -LARGEST, LARGEST)
        return out

    @property
    def theta(self) -> Array:
        """theta of the certificate: minus the sum of slope times row."""
        return self.features.record[:, THETA].copy()

    @property
    def experts(self) -> list[tuple[str, float, float]]:
        """Name, share of the prediction and progressive loss of each expert in the mixture.

        Rows before the first label of a real-valued loss count alike for all.
        Shares are factors of a linear combination: they need not sum to 1, and can be negative.
        """
        factors = self._shares().factors
        return [
            (name, float(share), float(total + self.mixing.sums[rounds.ALIKE]))
            for name, share, total in zip(self.expert_names, factors, self.mixing.totals, strict=True)
            if math.isfinite(total)
        ]

    def __repr__(self) -> str:
        return f"MixtureLearner({self.dimension}, {self.loss!r}, preset={self.preset!r}, dtype={self.dtype.name!r})"


_preset = preset  # the argument of the same name hides it
