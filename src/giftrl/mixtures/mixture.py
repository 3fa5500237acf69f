"""The default learner: a mixture of linear learners in one pass, for one score or K scores."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from operator import is_not
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses
from giftrl.certificates import Certificate
from giftrl.compiled import compiler
from giftrl.compiled.compiler import Loop, PackedArgument
from giftrl.compiled.lanes import lanes, side
from giftrl.compiled.rows import Dense, Rows, as_rows, longest, slice_rows
from giftrl.errors import require, require_whole
from giftrl.kernels.base import (
    CACHE_LINE,
    Array,
    NonzeroRows,
    OneRow,
    RowLearner,
    aligned_zeros,
    loss_of_scores,
    stored_type,
)
from giftrl.mixtures import experts
from giftrl.mixtures import label_units as unit
from giftrl.mixtures.class_round import ClassBuffers, ClassState, class_buffers, learn_classes
from giftrl.mixtures.clip_limits import LARGEST_WEIGHT
from giftrl.mixtures.feature_state import (
    BY_FEATURE,
    ONE_SCORE,
    BlockColumns,
    FeatureState,
    Pieces,
    block_columns,
    grown,
    no_features,
    pickled,
    sound_dense,
    sound_record,
    unpickled,
    with_capacity,
)
from giftrl.mixtures.full_matrix import LATE_ROWS, Matrix, new_matrix
from giftrl.mixtures.round import Buffers, MixtureBatch, MixtureParts, State, buffers, learn_mixture
from giftrl.mixtures.scoring import ScoringParts, score_rows, scoring_state, weigh
from giftrl.ops.loss import accepts, boost, reach

#: Clip if unclipped predictions have a loss higher by this factor.
CLIPPING_GAIN = 0.1


class BoundLoops(NamedTuple):
    """The compiled loops of a mixture with their packed arguments."""

    made_of: tuple[Any, ...]  # valid until one of the packed arguments is replaced
    width: int  # the buffers' capacity in entries of a row
    learn: Loop
    parts: PackedArgument
    score: Loop
    weights: PackedArgument


class Mixture(RowLearner):
    """The base of mixtures; its state is ``features`` (with the experts' weights), ``matrix`` and ``mixing``."""

    places: BlockColumns  # the columns of a feature's block
    expert_names: list[str]  # names of experts by column; "" for an empty column
    pieces: Pieces
    mixing: Any
    clip: Callable[[ArrayLike], Array]  # from scores to clipped predictions
    _loop: ClassVar[Any]  # the loop that learns a batch
    _buffers: Callable[[int], Any]  # scratch memory of the loop, for rows of up to this many entries
    _loops: BoundLoops | None = None
    _row: OneRow | None = None  # buffer for single dense rows, created on first use

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
        self.grid_experts, places = experts.preset(preset)
        self.grid = side(len(self.grid_experts))
        self.places, scores = self._columns(), classes or 1
        self.features = no_features(
            aligned_zeros(self.dimension, self.places.total, self.dtype, 64 + 32 * scores), scores
        )
        self.matrix = new_matrix(places, classes)
        self._later = self._no_rounds(0)
        self._again = False
        coin = "coin betting" if classes is not None or experts.bets(self.grid) else ""
        full = "full matrix" if len(self.matrix.x) > 0 else ""
        unused = ["", ""] if classes is None else []  # to fill registers of four numbers
        self.expert_names = [*(expert.name for expert in self.grid_experts), coin, full, *unused]

    def _columns(self) -> BlockColumns:
        line = CACHE_LINE // self.dtype.itemsize
        return ONE_SCORE if self.classes is None else block_columns(lanes(self.grid), self.classes, line)

    def learn_rows(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        if len(weights) == 0 or weights.all():
            return self._learn(rows, y, weights)
        # Rows of weight 0 are predicted, but change nothing.
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
        """Learn from rows of positive weight."""
        single = self.classes is None and len(y) == 1 and len(weights) == 0
        if single and isinstance(rows, Dense) and rows.data.dtype == np.float64:
            return self._learn_dense_row(rows.data, y)
        labels, predictions = self._typed(y), np.empty((len(y), *self._scores))
        witnesses = None if self._again else self.witnesses
        linear = np.empty((0 if witnesses is None else len(y), *self._scores))
        loops = self._prepared(int(longest(rows)))
        loops.learn(loops.parts, MixtureBatch(rows, labels, weights, predictions, linear))
        if witnesses is not None:
            witnesses.add(rows, labels, weights, linear, self.loss)
        return predictions

    def _learn_dense_row(self, values: Array, y: NDArray[Any]) -> Array:
        """Learn from one row through a reused buffer, which is faster."""
        row = self._row
        if row is None or row.width != len(values):
            row = self._row = self.one_row(Dense(np.zeros(len(values)), len(values)))
        row.values[:], row.label[:] = values, y
        self.learn_row(row)
        return np.array(row.score[0])

    def one_row(self, rows: Rows) -> OneRow:
        """One row in this memory, for :meth:`learn_row` and :meth:`score_row`; for mixtures of one score."""
        row = OneRow(rows, scoring_state(self._prepared(0).weights.value))
        row.batch = PackedArgument(MixtureBatch(rows, row.label, row.weight, row.score[0], row.linear))
        return row

    def learn_row(self, row: OneRow) -> None:
        """Learn from one row of positive weight."""
        loops = self._prepared(row.width)
        if row.learns_with is not loops:
            row.learns_with, row.learn = loops, loops.learn.bind(loops.parts, row.batch)
        row.learn()
        if not self._again:
            self._remember_row(row, row.linear)

    def score_row(self, row: OneRow) -> float:
        """<s, x> of one row."""
        loops = self._prepared(0)
        if row.predicts_with is not loops:
            row.predicts_with, row.predict = loops, loops.score.bind(loops.weights, row.desk, row.rows, row.scores)
        row.predict()
        return row.score.item()

    def _prepared(self, width: int) -> BoundLoops:
        """The loops, with buffers for rows of up to this many entries; 0 for scores alone."""
        if width:
            self.features = with_capacity(self.features, self.dimension, width)
        features, matrix, mixing, later = self.features, self.matrix, self.mixing, self._later
        made_of = self.loss, features, matrix, mixing, later, self._again, self.compiled
        loops = self._loops
        if loops is None or width > loops.width or any(map(is_not, loops.made_of, made_of)):
            if loops is not None:  # spare capacity for rows that grow slowly
                width = max(width, 2 * loops.width if width > loops.width else loops.width)
            pieces, scores = self.pieces._replace(again=self._again), self.classes or 1
            parts = MixtureParts(
                loss=self.loss, grid=self.grid, columns=self.places, pieces=pieces, features=features, x=features.x,
                theta=features.theta, matrix=matrix, state=mixing, later=later,
                buffers=self._buffers(width + len(features.dense)),
            )  # fmt: skip
            weights = ScoringParts(
                self.grid, self.places, features, features.x, matrix.x.reshape(-1, scores),
                mixing.offsets.reshape(-1, scores), mixing.units, pieces.boost, mixing,
            )  # fmt: skip
            learn, score = (compiler.ready(loop, self.compiled, counted=False) for loop in (self._loop, score_rows))
            packed = PackedArgument(parts), PackedArgument(weights)
            self._loops = loops = BoundLoops(made_of, width, learn, packed[0], score, packed[1])
        return loops

    def repeat(self) -> None:
        """Begin a later pass over the same rows (:mod:`giftrl.mixtures.experts`). Repeated rows do not count as rounds
        and do not change the certificate.

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
            experts.average_weights(self._later, self.places, self.features.x, self.matrix)
            self.features.stamps[:] = 0.0
            self._later, self._again = self._no_rounds(0), False

    def _no_rounds(self, features: int) -> experts.LaterSums:
        return experts.no_later_rounds(features, self.places, self.matrix, self.dtype)

    def predict(self, x: Any) -> Array:
        """<s, x> for each row, with a column for each class if there are classes.

        :meth:`clip` makes it the prediction that :meth:`learn` would return.
        """
        rows, n = as_rows(x, self.dimension, compiled=self.compiled)
        return self.predict_rows(rows, n)

    def predict_rows(self, rows: Rows, n: int) -> Array:
        """:meth:`predict` without a check of its arguments, at O(nonzeros + dense features) a row."""
        loops, out = self._prepared(0), np.empty((n, self.classes or 1))
        loops.score(loops.weights, scoring_state(loops.weights.value), rows, out)
        return out.reshape(n, *self._scores)

    @property
    def x(self) -> Array:
        """The weights of the features, with a column for each class if multiclass."""
        return self.weights_of(slice(None))

    def weights_of(self, features: Any) -> Array:
        """Entries of x for some features, given by numbers or a slice."""
        every = isinstance(features, slice)
        which = np.arange(self.dimension)[features] if every else np.asarray(features, np.int64)
        weights = self._prepared(0).weights
        state, out = scoring_state(weights.value), np.empty((len(which), self.classes or 1))
        compiler.ready(weigh, self.compiled, counted=False)(weights, state, which, out)
        at = np.flatnonzero(which == self.constant)  # none without a constant
        out[at] = np.clip(out[at] + state.constants - state.centres, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        return out.reshape(-1, *self._scores)

    @property
    def experts(self) -> list[tuple[str, float, float]]:
        """Name, share of the prediction and progressive loss of each expert in the mixture.

        Shares are factors of a linear combination: they need not sum to 1, and can be negative.
        """
        totals = self.mixing.totals + self.mixing.sums[experts.UNCOMPARED : experts.UNCOMPARED + 1].sum()
        shares = np.empty(len(totals))
        experts.share(self.pieces.boost, side(len(totals)), self.mixing, shares)
        every = zip(self.expert_names, shares, totals, strict=True)
        return [(name, float(share), float(total)) for name, share, total in every if math.isfinite(total)]

    @property
    def theta(self) -> Array:
        """theta of the certificate: minus the sum of slope times row, with a column for each class."""
        return np.array(self.features.theta).reshape(-1, *self._scores)

    @property
    def rounds(self) -> int:
        """The number of rows learned."""
        return int(self.mixing.sums[experts.ROUNDS])

    @property
    def loss_sums(self) -> Array:
        """The progressive loss, as an array of one number."""
        return np.asarray(self.mixing.sums[[experts.LOSS]])

    @property
    def certificate(self) -> Certificate:
        """The certificate of the run so far, against any linear model of the original features.

        With K scores a comparator is a matrix like x, flattened row by row.
        """
        sums = self.mixing.sums
        return Certificate(
            loss_sum=float(sums[experts.LOSS]), conjugate_sum=float(sums[experts.CONJUGATE]), delta_sum=0.0,
            theta=self.theta.reshape(-1), evidence=self._evidence(), merged=self.merges > 0,
        )  # fmt: skip

    def grow(self, dimension: int) -> None:
        """Add features up to this number; they have not been seen yet, and nothing else changes."""
        if dimension > self.dimension:
            self._loops = self._row = None  # which would keep the old memory
            self.features = grown(self.features, dimension)
            if self._again:
                more = np.zeros((dimension - self.dimension, self._later.changes.shape[1]), self.dtype)
                self._later = self._later._replace(changes=np.concatenate([self._later.changes, more]))
            self.dimension = dimension
            if self.witnesses is not None:
                self.witnesses.grow(dimension)

    def own_state(self) -> dict[str, NDArray[Any]]:
        """The arrays of the state, without stored examples."""
        parts: dict[str, Any] = {"features": self.features, "matrix": self.matrix, "mixing": self.mixing}
        if self._again:
            parts["later"] = self._later
        return {f"{name}.{key}": array for name, part in parts.items() for key, array in part._asdict().items()}

    @property
    def sound(self) -> bool:
        """True if the state can be restored, without NaN or invalid infinities."""
        return unsound(self, self.own_state()) is None

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of a learner with the same parts."""
        bad = unsound(self, state)
        require(bad is None, "state", bad, f"must be that of {self!r}", "create the learner with the same parts")

        def part(name: str, kind: Any, *but: str) -> Any:
            given = {key: state[f"{name}.{key}"] for key in kind._fields}
            return kind(**{key: array if key in but else np.array(array) for key, array in given.items()})

        self._loops = self._row = None
        self.features, self.matrix = grown(part("features", FeatureState, *BY_FEATURE), 0), part("matrix", Matrix)
        self.mixing, self.dimension = part("mixing", type(self.mixing)), len(self.features.record)
        self._again = "later.rounds" in state
        self._later = part("later", experts.LaterSums) if self._again else self._no_rounds(0)
        self._restore_beside(state)

    def __repr__(self) -> str:
        size = ", ".join(str(each) for each in (self.dimension, *self._scores))
        return f"{type(self).__name__}({size}, {self.loss!r}, preset={self.preset!r}, dtype={self.dtype.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Pickle with seen features only."""
        changes: Any = NonzeroRows.of(self._later.changes)
        features, later = pickled(self.features), self._later._replace(changes=changes)
        return self.__dict__ | {"features": features, "_later": later, "_loops": None, "_row": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a pickle, and align arrays again."""
        self.__dict__.update(state)
        self.features = unpickled(self.features)
        changes: Any = self._later.changes
        self._later = self._later._replace(changes=changes.array()) if self._again else self._no_rounds(0)


class MixtureLearner(Mixture):
    """A linear model without hyperparameters: a mixture of base learners, weighted by their losses.

    Features are centred and scaled, labels are learned around their mean (:mod:`giftrl.mixtures.feature_state` and
    :mod:`giftrl.mixtures.label_units`); AdaHedge and a Newton stack combine the experts. All of this is linear in the
    features: the result is one weight vector, ``x``.

    Args:
        dimension: the number of features.
        loss: a loss of one prediction, its name, or a NamedTuple of your own.
        constant: which feature is always 1, or None. Without one nothing is centred.
        preset: ``"default"``, or ``"light"`` for four experts.
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

    places = ONE_SCORE
    _loop = staticmethod(learn_mixture)

    def __init__(
        self, dimension: int, loss: Any = "logistic", *, constant: int | None = None, preset: str = "default",
        dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(dimension, constant, preset, dtype, compiled)
        self.loss = losses.scalar(loss)
        margin, there = not accepts(self.loss, 0.5), self.constant is not None
        self.pieces = Pieces(
            -1 if self.constant is None else self.constant, margin, boost(self.loss) if margin else 1.0,
            there and not margin,
        )  # fmt: skip
        bolder = self.pieces.boost > 1.0
        self.mixing = State(
            units=unit.start_units(self.loss, margin),
            offsets=np.zeros(len(self.expert_names)),
            **experts.start_combination(self.expert_names, [True, True, bolder, bolder]),
            sums=np.zeros(experts.LINEAR + 1),
        )

    def _buffers(self, width: int) -> Buffers:
        return buffers(width, len(self.mixing.totals), len(self.matrix.x), self.dtype, self.grid_experts)

    def clip(self, p: ArrayLike) -> Array:
        """Predictions within :attr:`range`, as :meth:`learn` returns them."""
        low, high = self.range
        return np.clip(np.asarray(p, np.float64), low, high)

    @property
    def clipping_pays(self) -> bool:
        """True if predictions that may leave the range of the labels seen would recently have cost a tenth more.

        This happens if labels often reach a limit, and not if there is a trend. On the data set cpusmall, with labels
        up to 99, unclipped predictions have 100 times the loss.
        """
        clipped, linear = self.mixing.sums[[experts.CLIPPED, experts.LINEAR]]
        return bool(linear - clipped > CLIPPING_GAIN * abs(clipped))

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest prediction: the labels seen, or the margins beyond which the loss is 0."""
        low, high = float(self.mixing.units[unit.LOW]), float(self.mixing.units[unit.HIGH])
        return (low, high) if low <= high else (-math.inf, math.inf)


class MulticlassMixture(Mixture):
    """A multiclass linear model without hyperparameters: a mixture of base learners with one loss of K scores.

    Everything is as in :class:`giftrl.mixtures.MixtureLearner`, with a column of weights for each class.

    Args:
        dimension: the number of features.
        classes: K, at least 2.
        loss: a loss of K scores or its name: ``"softmax"``, ``"multiclass_hinge"``.
        constant: which feature is always 1, or None. Without one nothing is centred.
        preset: ``"default"``, or ``"light"`` for four experts and the coin.
        dtype: float32 or float64, how weights are stored.
        compiled: False runs the same functions as plain Python.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, size=200)
    >>> x = np.column_stack([1e6 * (y == 1) + 1e5 * rng.normal(size=200), y + rng.normal(size=200), np.ones(200)])
    >>> learner = MulticlassMixture(3, 3, constant=2, compiled=False)
    >>> p = learner.learn(x, y)
    >>> p.shape, bool((p.argmax(axis=1) == y)[100:].mean() > 0.8)
    ((200, 3), True)
    """

    classes: int
    _loop = staticmethod(learn_classes)

    def __init__(
        self, dimension: int, classes: int, loss: Any = "softmax", *, constant: int | None = None,
        preset: str = "default", dtype: Any = "float32", compiled: bool = True,
    ) -> None:  # fmt: skip
        require_whole("classes", classes, 2, "give the number of classes")
        super().__init__(dimension, constant, preset, dtype, compiled, int(classes))
        self.loss = loss_of_scores(loss)
        self.pieces = Pieces(-1 if self.constant is None else self.constant, True, boost(self.loss), False)
        self.mixing = ClassState(
            offsets=np.zeros((len(self.expert_names), self.classes)),
            **experts.start_combination(self.expert_names, [True] * experts.CANDIDATES),
            slopes=np.zeros(self.classes),
            sums=np.zeros(6),
        )

    def _buffers(self, width: int) -> ClassBuffers:
        return class_buffers(width, self.classes, len(self.matrix.x), self.dtype, self.grid_experts)

    def clip(self, scores: ArrayLike) -> Array:
        """Clip scores: with the hinge loss at 1 below the best, since lower scores have the same loss."""
        array = np.asarray(scores, np.float64)
        return np.asarray(np.maximum(array, array.max(axis=-1, keepdims=True) - reach(self.loss)))


# Validation of a stored state, since compiled loops use its numbers as indices.

Arrays = Mapping[str, NDArray[Any]]

#: Arrays whose length may differ from that of a new learner: they grow with the features.
OF_FEATURES = ("features.record", "features.x", "features.theta")
GROWING_ARRAYS = (*OF_FEATURES, "features.dense", "features.stamps")
#: Arrays that may contain infinities, with the entries that must be finite. Infinite are: an unbounded label range,
#: totals of absent experts, and sums that overflowed.
MUST_BE_FINITE: dict[str, list[int]] = {
    "mixing.units": [entry for entry in range(unit.UNIT_COUNT) if entry not in (unit.LOW, unit.HIGH)],
    "mixing.totals": [],
    "mixing.candidates": [0],
    "mixing.sums": [experts.GAP, experts.LAST_GAP, experts.ROUNDS, experts.WEIGHT],
}


def unsound(learner: Any, state: Arrays) -> str | None:
    """The name of an invalid array in a state, or None."""
    own: Arrays = learner.own_state()
    for name in own:
        if name not in state or not _fits(name, own[name], state[name]):
            return name
    if not np.isfinite(state["mixing.totals"]).any():
        return "mixing.totals"
    features = FeatureState(*(state[f"features.{name}"] for name in FeatureState._fields))
    if len({len(state[name]) for name in OF_FEATURES}) > 1:
        return "features.record"
    if not sound_record(features, learner.places, int(state["matrix.size"][0]), len(learner.matrix.x)):
        return "features.record"
    if not 0 <= state["matrix.waiting"][0] < LATE_ROWS:
        return "matrix.waiting"
    if not sound_dense(features) or len(features.record) <= (learner.constant or 0):
        return "features.dense"
    return None if _sound_later(learner, state) else "later.changes"


def _fits(name: str, mine: NDArray[Any], given: NDArray[Any]) -> bool:
    """True if an array has the type and shape as in a new learner, and valid numbers."""
    first = 1 if name in GROWING_ARRAYS else 0
    if given.dtype != mine.dtype or given.ndim != mine.ndim or given.shape[first:] != mine.shape[first:]:
        return False
    if name == "features.theta":  # infinite without a certificate
        return not np.isnan(given).any()
    if name in MUST_BE_FINITE:
        return not np.isnan(given).any() and bool(np.isfinite(given[MUST_BE_FINITE[name]]).all())
    return bool(np.isfinite(given).all())


def _sound_later(learner: Any, state: Arrays) -> bool:
    """True if the sums of later passes, if any, are finite and have the shape of the weights."""
    if not any(f"later.{name}" in state for name in experts.LaterSums._fields):
        return True
    for name, mine in learner._no_rounds(len(state["features.record"]))._asdict().items():
        given = state.get(f"later.{name}")
        if given is None or given.shape != mine.shape or given.dtype != mine.dtype or np.isnan(given).any():
            return False
    return True
