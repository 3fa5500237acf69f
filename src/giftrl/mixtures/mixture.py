"""What mixtures of one score and of K scores share: arguments, batches, growth, state, weights and the certificate."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl.certificates import Certificate
from giftrl.compiled import compiler
from giftrl.compiled.arguments import Held
from giftrl.compiled.rows import Dense, Rows, as_rows, longest, slice_rows
from giftrl.errors import require, require_whole
from giftrl.kernels.base import Array, NonzeroRows, RowLearner, stored_type
from giftrl.kernels.lane_counts import side
from giftrl.mixtures.combination import CONJUGATE, LOSS, ROUNDS, UNCOMPARED, share
from giftrl.mixtures.experts import bets, grid, lanes
from giftrl.mixtures.experts import preset as named_preset
from giftrl.mixtures.feature_state import (
    BY_FEATURE,
    FeatureState,
    grown,
    no_features,
    pickled,
    unpickled,
    with_capacity,
)
from giftrl.mixtures.full_matrix import Matrix, new_matrix
from giftrl.mixtures.later import Later, no_rounds, settle
from giftrl.mixtures.layout import ONE_SCORE, Columns, blocks, class_columns
from giftrl.mixtures.limits import LARGEST_WEIGHT
from giftrl.mixtures.parts import Calls, MixtureBatch, Parts
from giftrl.mixtures.restoring import unsound
from giftrl.mixtures.single import SingleRows
from giftrl.mixtures.weights import UNIT, Weights, desk, predict_classes, predict_mixture, weigh_some

__all__ = ["Array", "Mixture"]


class Mixture(SingleRows, RowLearner):
    """A learner whose memory is ``features`` (with the weights of the experts), ``matrix`` and ``mixing``.

    A kind of mixture brings what is declared here.
    """

    places: Columns  # where the numbers of a feature are
    expert_names: list[str]  # by column; "" for a column without an expert
    pieces: Any
    mixing: Any
    clip: Callable[[ArrayLike], Array]  # the predictions that count, from scores
    _loop: ClassVar[Any]  # the loop that learns a batch
    _buffers: Callable[[int], Any]  # scratch memory of the loop, for rows of up to this many entries
    _calls: Calls | None = None

    def __init__(
        self, dimension: int, constant: int | None, preset: str, dtype: Any, compiled: bool, classes: int | None = None
    ) -> None:
        self.dimension = require_whole("dimension", dimension, 1, "give the number of features")
        require(
            constant is None or (isinstance(constant, (int, np.integer)) and 0 <= constant < self.dimension),
            "constant", constant, f"must be a feature, a whole number from 0 to {self.dimension - 1}, or None",
            "give the index of the feature that is always 1",
        )  # fmt: skip
        self.dtype = stored_type(dtype)
        self.constant = None if constant is None else int(constant)
        self.preset = preset
        self.compiled = compiled
        self.classes = classes
        experts, places = named_preset(preset)
        self.grid = grid(experts)
        self.places, scores = self._columns(), classes or 1
        self.features = no_features(blocks(self.dimension, self.places.total, self.dtype, scores), scores)
        self.matrix = new_matrix(places, classes)
        self._later = self._no_rounds(0)
        self._again = False
        coin = "coin betting" if classes is not None or bets(self.grid) else ""
        full = "full matrix" if len(self.matrix.x) > 0 else ""
        unused = ["", ""] if classes is None else []  # so that wide registers of four numbers are full
        self.expert_names = [*(expert.name for expert in experts), coin, full, *unused]

    def _columns(self) -> Columns:
        return ONE_SCORE if self.classes is None else class_columns(self.classes, lanes(self.grid), self.dtype)

    def learn_rows(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        if len(weights) == 0 or weights.all():
            return self._learn(rows, y, weights)
        # Rows of weight 0 are predicted, and leave everything as it is.
        bounds = [0, *(np.flatnonzero(np.diff(weights > 0.0)) + 1).tolist(), len(y)]
        predictions = []
        for first, last in pairwise(bounds):
            part = slice_rows(rows, first, last)
            if weights[first] == 0.0:
                predictions.append(self.clip(self.predict_rows(part, last - first)))
            else:
                predictions.append(self._learn(part, y[first:last], weights[first:last]))
        return np.concatenate(predictions)

    def _learn(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """Learn from rows that all have weight."""
        single = self.classes is None and len(y) == 1 and len(weights) == 0
        if single and isinstance(rows, Dense) and rows.data.dtype == np.float64:
            return self._learn_dense_row(rows.data, y)
        labels, predictions = self._typed(y), np.empty((len(y), *self._scores))
        witnesses = None if self._again else self.witnesses
        linear = np.empty((0 if witnesses is None else len(y), *self._scores))
        width = int(longest(rows))
        self.features = with_capacity(self.features, self.dimension, width)
        calls = self._prepared(width)
        calls.learn(calls.parts, MixtureBatch(rows, labels, weights, predictions, linear))
        if witnesses is not None:
            witnesses.add(rows, labels, weights, linear, self.loss)
        return predictions

    def _prepared(self, width: int = 0) -> Calls:
        """The loops for rows of up to this many entries, and all that they work with but rows and labels."""
        calls = self._calls
        if calls is None or not calls.serve(self, width):
            if calls is not None:  # rows that grow bit by bit do not often find too little room
                width = max(width, 2 * calls.width if width > calls.width else calls.width)
            columns = math.prod(self._scores)
            pieces, buffers = self.pieces._replace(again=self._again), self._buffers(width + len(self.features.dense))
            memory, units = (self.features, self.matrix, self.mixing, self._later), getattr(self.mixing, "units", UNIT)
            features = self.features
            parts = Parts(
                self.loss, self.grid, self.places, pieces, features, features.x, features.theta, *memory[1:], buffers
            )  # fmt: skip
            weights = Weights(
                self.grid, self.places, self.features, self.features.x, self.matrix.x.reshape(-1, columns),
                self.mixing.offsets.reshape(-1, columns), units, self.pieces.bold, self.mixing,
            )  # fmt: skip
            loops = self._loop, predict_mixture if self.classes is None else predict_classes
            learn, predict = (compiler.ready(loop, self.compiled, counted=False) for loop in loops)
            made_of = self.loss, memory, self._again, self.compiled
            self._calls = calls = Calls(*made_of, width, learn, Held(parts), predict, Held(weights))
        return calls

    def repeat(self) -> None:
        """Say that the rows to come were learnt before, in an earlier pass: see :mod:`giftrl.mixtures.later`.

        They do not count as rounds, and the certificate remains that of the rows before.

        >>> import numpy as np
        >>> from giftrl.mixtures import MixtureLearner
        >>> x, y = np.eye(3), np.array([1.0, 2.0, 4.0])
        >>> learner = MixtureLearner(3, "squared", constant=2, compiled=False)
        >>> _ = learner.learn(x, y)
        >>> learner.repeat()
        >>> for _ in range(9):
        ...     _ = learner.learn(x, y)
        >>> learner.settle()
        >>> learner.rounds
        3
        """
        if not self._again:
            self._later, self._again = self._no_rounds(self.dimension), True

    def settle(self) -> None:
        """End the later passes: the weights of each expert become their mean over the rounds since :meth:`repeat`."""
        if self._again:
            settle(self._later, self.places, self.features.x, self.matrix)
            self.features.stamps[:] = 0.0
            self._later, self._again = self._no_rounds(0), False

    def _no_rounds(self, features: int) -> Later:
        return no_rounds(features, self.places, self.matrix, self.dtype)

    def predict(self, x: Any) -> Array:
        """<s, x> for each row, with a column for each class where there are classes.

        :meth:`clip` makes it the prediction that :meth:`learn` would return.
        """
        rows, n = as_rows(x, self.dimension, compiled=self.compiled)
        return self.predict_rows(rows, n)

    def predict_rows(self, rows: Rows, n: int) -> Array:
        """:meth:`predict` without a check of its arguments, at O(nonzeros + dense features) a row."""
        calls, out = self._prepared(), np.empty((n, math.prod(self._scores)))
        calls.predict(calls.weights, desk(calls.weights.value), rows, out)
        return out.reshape(n, *self._scores)

    @property
    def x(self) -> Array:
        """The weights of the features, with a column for each class where there are classes.

        That of the constant feature is the intercept.
        """
        return self.weights_of(slice(None))

    def weights_of(self, features: Any) -> Array:
        """The entries of x for some features, by their numbers or as a slice."""
        every = isinstance(features, slice)
        which = np.arange(self.dimension)[features] if every else np.asarray(features, np.int64)
        weights = self._prepared().weights
        on, out = desk(weights.value), np.empty((len(which), math.prod(self._scores)))
        compiler.ready(weigh_some, self.compiled, counted=False)(weights, on, which, out)
        at = np.flatnonzero(which == self.constant)  # none where there is no constant
        out[at] = np.clip(out[at] + on.constants - on.centres, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        return out.reshape(-1, *self._scores)

    @property
    def experts(self) -> list[tuple[str, float, float]]:
        """Name, share of the prediction and progressive loss of each expert in the mixture.

        Shares are factors of a linear combination: they need not sum to 1, and can be negative.
        """
        totals = self.mixing.totals + self.mixing.sums[UNCOMPARED : UNCOMPARED + 1].sum()
        shares = np.empty(len(totals))
        share(self.pieces.bold, side(len(totals)), self.mixing, shares)
        every = zip(self.expert_names, shares, totals, strict=True)
        return [(name, float(share), float(total)) for name, share, total in every if math.isfinite(total)]

    @property
    def theta(self) -> Array:
        """theta of the certificate: minus the sum of slope times row, with a column for each class."""
        return np.array(self.features.theta).reshape(-1, *self._scores)

    @property
    def rounds(self) -> int:
        """How many rows were learnt."""
        return int(self.mixing.sums[ROUNDS])

    @property
    def loss_sums(self) -> Array:
        """The progressive loss, as an array of one number."""
        return np.asarray(self.mixing.sums[[LOSS]])

    @property
    def certificate(self) -> Certificate:
        """What the run so far proves about itself, against any linear model of the original features.

        With K scores a comparator is a matrix like x, flattened row by row.
        """
        sums = self.mixing.sums
        return Certificate(
            loss_sum=float(sums[LOSS]), conjugate_sum=float(sums[CONJUGATE]), delta_sum=0.0,
            theta=self.theta.reshape(-1), evidence=self._evidence(), merged=self.merges > 0,
        )  # fmt: skip

    def grow(self, dimension: int) -> None:
        """Add features up to this number; they have not been seen yet, and nothing else changes."""
        if dimension > self.dimension:
            self._calls = self._row = None  # which would keep the old memory
            self.features = grown(self.features, dimension)
            if self._again:
                more = np.zeros((dimension - self.dimension, self._later.changes.shape[1]), self.dtype)
                self._later = self._later._replace(changes=np.concatenate([self._later.changes, more]))
            self.dimension = dimension
            if self.witnesses is not None:
                self.witnesses.grow(dimension)

    def own_state(self) -> dict[str, NDArray[Any]]:
        """The arrays of the state without those of witnesses."""
        parts: dict[str, Any] = {"features": self.features, "matrix": self.matrix, "mixing": self.mixing}
        if self._again:
            parts["later"] = self._later
        return {f"{name}.{key}": array for name, part in parts.items() for key, array in part._asdict().items()}

    @property
    def sound(self) -> bool:
        """Whether the state can be restored: no number in it is NaN, or infinite where it must not be."""
        return unsound(self, self.own_state()) is None

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from the state of a learner with the same parts."""
        bad = unsound(self, state)
        require(bad is None, "state", bad, f"must be that of {self!r}", "use the parts that it was made with")

        def part(name: str, kind: Any, *but: str) -> Any:
            given = {key: state[f"{name}.{key}"] for key in kind._fields}
            return kind(**{key: array if key in but else np.array(array) for key, array in given.items()})

        self._calls = self._row = None
        self.features, self.matrix = grown(part("features", FeatureState, *BY_FEATURE), 0), part("matrix", Matrix)
        self.mixing, self.dimension = part("mixing", type(self.mixing)), len(self.features.record)
        self._again = "later.rounds" in state
        self._later = part("later", Later) if self._again else self._no_rounds(0)
        self._restore_beside(state)

    def __repr__(self) -> str:
        size = ", ".join(str(each) for each in (self.dimension, *self._scores))
        return f"{type(self).__name__}({size}, {self.loss!r}, preset={self.preset!r}, dtype={self.dtype.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        """A pickle keeps the features that were seen."""
        changes: Any = NonzeroRows.of(self._later.changes)
        features, later = pickled(self.features), self._later._replace(changes=changes)
        return self.__dict__ | {"features": features, "_later": later, "_calls": None, "_row": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickle, in which an array need not begin at a cache line."""
        self.__dict__.update(state)
        self.features = unpickled(self.features)
        changes: Any = self._later.changes
        self._later = self._later._replace(changes=changes.array()) if self._again else self._no_rounds(0)
