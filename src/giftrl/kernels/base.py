"""The base of all learners: interface, single rows, validation of arguments, and sparse storage of rows.

The mixtures of :mod:`giftrl.mixtures` and the learners with a fixed beta of this package share it.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses
from giftrl.certificates import Evidence, RowReservoir
from giftrl.certificates.reservoir import as_budget
from giftrl.compiled.compiler import PackedArgument
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import CSR, Rows, as_rows
from giftrl.errors import Incompatible, InvalidInput, require
from giftrl.ops import brings
from giftrl.ops.loss import accepts, labels
from giftrl.ops.vector_loss import multiclass
from giftrl.reference.learner import looks_ahead
from giftrl.regularizers.contract import centred, known_ahead, l1_strength, require_diagonal, strength
from giftrl.schedules.contract import uses_gamma
from giftrl.system import zeros
from giftrl.updates.contract import check_loss, check_scores

Array = NDArray[np.float64]


class LabeledRows(NamedTuple):
    """Rows of features with their labels and weights (empty for all 1), and the array for the predictions."""

    rows: Any
    labels: Any
    weights: Any
    predictions: Any


@formula(fast=True)
def weight(weights: Any, i: int) -> float:
    """The weight of row i; no weights at all mean 1."""
    return weights[i] if len(weights) > 0 else 1.0


class OneRow:
    """A reusable buffer for one row with its label, weight and score. ``rows`` has the features, and ``desk`` further
    buffers for prediction.
    """

    def __init__(self, rows: Rows, desk: Any = ()) -> None:
        self.values, self.width = rows.data, len(rows.data)
        self.label, self.weight, self.score = np.zeros(1), np.ones(1), np.zeros((1, 1))
        self.linear = np.zeros(1)  # a mixture's prediction before clipping
        self.rows, self.scores, self.prediction = map(PackedArgument, (rows, self.score, self.score[0]))
        self.desk = PackedArgument(desk)
        self.batch = PackedArgument(LabeledRows(rows, self.label.reshape(1, 1), self.weight, self.score))
        # Bound calls that learn, predict and store this row, with the object each belongs to.
        self.learn: Any = None
        self.predict: Any = None
        self.keep: Any = None
        self.learns_with: Any = None
        self.predicts_with: Any = None
        self.kept_by: Any = None

    def end(self, width: int) -> None:
        """Set the number of entries of a sparse row."""
        self.rows.value.indptr[1] = self.width = width


def sparse_row(capacity: int) -> CSR:
    """Allocate a sparse row of at most ``capacity`` entries."""
    return CSR(np.zeros(capacity), np.zeros(capacity, np.int32), np.zeros(2, np.int64), capacity)


class RowLearner:
    """The interface of learners of one score and of K scores, mixtures included."""

    loss: Any
    dimension: int
    compiled: bool
    rounds: Any
    theta: Any
    x: Any
    loss_sums: Any
    own_state: Callable[[], dict[str, NDArray[Any]]]  # state without stored examples
    classes: int | None = None  # K; None for one score
    witnesses: RowReservoir | None = None  # stored examples for the certificate
    merges: int = 0  # the number of merges of several learners

    @property
    def _scores(self) -> tuple[int, ...]:
        """The shape of the scores of a row: () or (K,)."""
        return () if self.classes is None else (self.classes,)

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Learn from a batch, row by row; returns progressive predictions.

        Args:
            x: a SciPy sparse matrix or array, or a matrix of numbers, one example a row.
            y: the labels, or the classes from 0 to K - 1.
            weights: the importance of each example, 1 by default.
        """
        rows, n = as_rows(x, self.dimension, compiled=self.compiled)
        labels = as_labels(self.loss, y, (n,)) if self.classes is None else as_classes(y, n, self.classes)
        return self.learn_rows(rows, labels, as_weights(weights, n))

    def learn_rows(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        """:meth:`learn` without validation, for trusted callers.

        Args:
            rows: features below ``dimension``, none twice in a row; finite values.
            y: labels of the loss.
            weights: finite and not negative; empty for all 1.
        """
        raise NotImplementedError

    def keep_witnesses(self, nonzeros: int | None, constant: int | None = None) -> None:
        """Store examples, from which the certificate derives a lower bound on the loss of every linear model.

        Args:
            nonzeros: the maximum number of nonzeros to store; 0 or None for no lower bound.
            constant: the feature that is 1 in every row, or None.

        >>> from giftrl.kernels import LinearLearner
        >>> learner = LinearLearner(1, "squared", compiled=False)
        >>> learner.keep_witnesses(100)
        >>> _ = learner.learn([[1.0], [1.0]], [1.0, 3.0])
        >>> round(learner.certificate.best_loss(scale=9.0).lower_bound, 6)
        1.0
        """
        rule, remedy = "can be set before the first row only", "make a new learner"
        require(self.rounds == 0, "nonzeros", nonzeros, rule, remedy)
        self.witnesses = None
        if nonzeros is not None and as_budget(nonzeros) > 0:
            self.witnesses = RowReservoir(
                self.loss, self.dimension, nonzeros, classes=self.classes, constant=constant, compiled=self.compiled
            )

    def _remember_row(self, row: OneRow, prediction: Array) -> None:
        """Store one row that was learned."""
        if self.witnesses is not None:
            if row.kept_by is not self.witnesses:
                row.kept_by = self.witnesses
                row.keep = self.witnesses.bind(row.rows.value, row.label, row.weight, prediction)
            row.keep()

    def _evidence(self) -> Evidence | None:
        if self.witnesses is None:
            return None
        return self.witnesses.evidence(float(self.loss_sums[0]), self.x, self.merges > 0)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays for ``restore``, which resumes bit for bit."""
        kept = {} if self.witnesses is None else self.witnesses.state()
        merges = {"merges": np.array([self.merges])} if self.merges else {}
        return self.own_state() | merges | {f"witnesses.{name}": array for name, array in kept.items()}

    def _restore_beside(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the arrays that are not in ``own_state``."""
        merges = state.get("merges", np.zeros(1, np.int64))
        fits = merges.dtype == np.int64 and merges.shape == (1,) and merges[0] >= 0
        require(bool(fits), "state", "merges", "must be the number of merges", "use the state of such a learner")
        self.merges = int(merges[0])
        if self.witnesses is not None:
            self.witnesses.dimension = self.dimension
            names = [name for name in state if name.startswith("witnesses.")]
            self.witnesses.restore({name.removeprefix("witnesses."): state[name] for name in names})

    def _typed(self, y: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(y, np.float64 if self.classes is None else np.int64)

    @property
    def t(self) -> int:
        """The number of the next round, from 1."""
        return int(self.rounds) + 1

    @property
    def theta_norm(self) -> float:
        """norm2 of the entries of theta."""
        return float(np.linalg.norm(self.theta))


# Validation and conversion of arguments for loops.


def as_labels(loss: Any, y: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Validate labels of this shape; an error names the first invalid label."""
    given = np.ascontiguousarray(y, dtype=np.float64)
    require(given.shape == shape, "y", y, f"must have shape {shape}, a label for each row", f"it has {given.shape}")
    if given.size == 1:
        distinct = [given.item()]
    else:
        distinct = (_distinct(given) if brings(loss, "accepts") else given[~np.isfinite(given)][:1]).tolist()
    for label in distinct:
        if not (math.isfinite(label) and accepts(loss, label)):
            rule = f"must be a label of {type(loss).__name__}: {labels(loss)}"
            raise InvalidInput("y", label, rule, "map your labels to these")
    return given


def _distinct(values: Array) -> Array:
    """The distinct values, without sorting if there are few."""
    first: list[float] = []
    rest = values.reshape(-1)
    while rest.size and len(first) < 4:
        first.append(float(rest[0]))
        if math.isnan(first[-1]):
            break
        rest = rest[rest != first[-1]]
    return np.concatenate([first, np.unique(rest)])


def as_classes(y: ArrayLike, n: int, classes: int) -> NDArray[np.int64]:
    """The classes of n rows, whole numbers from 0 to ``classes`` - 1."""
    given = np.asarray(y)
    require(given.shape == (n,), "y", y, f"must have shape {(n,)}, a class for each row", f"it has {given.shape}")
    good = given.dtype.kind in "iuf" and ((given >= 0) & (given < classes) & (given == np.floor(given))).all()
    require(bool(good), "y", y, f"must be whole numbers from 0 to {classes - 1}", "number your classes")
    return given.astype(np.int64)


def as_weights(weights: ArrayLike | None, n: int) -> Array:
    """The weights of n rows; an empty array means 1 for all."""
    if weights is None:
        return np.empty(0)
    given = np.ascontiguousarray(weights, dtype=np.float64)
    rule = f"must have shape {(n,)}, one for each row"
    require(given.shape == (n,), "weights", weights, rule, f"it has {given.shape}")
    good = bool(np.isfinite(given).all() and (given >= 0.0).all())
    require(good, "weights", weights, "must be finite and not negative", "leave out rows that have none")
    return given


def stored_type(dtype: Any) -> np.dtype[Any]:
    """The type in which weights are stored."""
    stored: np.dtype[Any] = np.dtype(dtype)
    known = stored in (np.float32, np.float64)
    require(known, "dtype", dtype, "must be float32 or float64", "float32 halves the memory")
    return stored


def loss_of_scores(given: Any) -> Any:
    """A loss of K scores, from its name or as an object."""
    loss = losses.MULTICLASS.member(given, "slope")
    if not multiclass(loss):
        raise Incompatible(
            f"{loss!r} is a loss of one prediction, and each class has a score here; use Softmax or MulticlassHinge, "
            "or LinearLearners for one class against the rest"
        )
    return loss


def check_parts(loss: Any, regularizer: Any, update: Any, schedule: Any) -> bool:
    """Refuse incompatible parts; returns True if the update uses H."""
    require_diagonal("regularizer", regularizer)
    check_loss(update, loss, black_box=False)
    if multiclass(loss):
        check_scores(update)
        if l1_strength(regularizer) > 0.0:
            raise Incompatible(
                f"{loss!r} takes all scores in one step, which {regularizer!r} with its L1 term splits; use a "
                "regularizer without L1, or one class against the rest"
            )
    ahead = looks_ahead(regularizer, update, schedule)
    if uses_gamma(schedule) and not centred(regularizer) and not known_ahead(regularizer):
        double = [strength(regularizer, 2.0, q) for q in (0.0, 1.0, 100.0)]
        if not np.allclose(double, [2.0 * strength(regularizer, 1.0, q) for q in (0.0, 1.0, 100.0)], 1e-9, 0.0):
            raise Incompatible(
                f"{schedule!r} needs the distance that all coordinates move, which takes a walk over all of them when "
                f"{regularizer!r} does not scale with lambda; use l2=0, Centred(...), another schedule, or Learner"
            )
    return ahead


class NonzeroRows(NamedTuple):
    """The nonzero rows of an array, their indices, and the array's length. Of a million hashed coordinates, a stream
    uses a few thousand; files and pickles store only these.

    >>> kept = NonzeroRows.of(np.array([[0.0], [2.0], [0.0], [-0.0]]))
    >>> kept.rows.tolist(), kept.where.tolist(), kept.array().tolist()
    ([[2.0], [-0.0]], [1, 3], [[0.0], [2.0], [0.0], [-0.0]])
    """

    rows: NDArray[Any]
    where: NDArray[np.int64]
    length: int

    @classmethod
    def of(cls, array: NDArray[Any]) -> "NonzeroRows":
        """The nonzero rows of an array."""
        bits = np.ascontiguousarray(array).reshape(len(array), math.prod(array.shape[1:]))
        bits = bits.view(f"u{array.dtype.itemsize}")
        where = np.flatnonzero(bits.any(axis=1))
        return cls(array[where], where, len(array))

    def array(self) -> NDArray[Any]:
        """A new array with these rows, and zeros elsewhere."""
        where, rows = self.where, self.rows
        sound = where.dtype == np.int64 and where.shape == rows.shape[:1] and rows.ndim >= 1
        inside = sound and bool((np.diff(where, prepend=-1) > 0).all()) and bool((where < self.length).all())
        require(inside, "state", "where", "must be valid feature numbers, in order", "use another copy of the file")
        array = zeros((max(1, self.length), *rows.shape[1:]), rows.dtype)
        array[where] = rows
        return array


#: Bytes of a cache line.
CACHE_LINE = 64


def aligned_zeros(features: int, columns: int, dtype: Any, beside: int = 96) -> NDArray[Any]:
    """Zeros in cache-aligned blocks of columns for each feature. Checks memory, including ``beside`` bytes per feature
    for other arrays.

    >>> aligned_zeros(3, 16, np.float32).shape, aligned_zeros(3, 16, np.float32).ctypes.data % 64
    ((3, 16), 0)
    """
    kind = np.dtype(dtype)
    size = int(columns) * kind.itemsize
    raw = zeros((features + -(-CACHE_LINE // size), size), np.uint8, beside=beside).reshape(-1)
    begin = -raw.ctypes.data % CACHE_LINE
    memory: NDArray[Any] = raw[begin : begin + features * size].view(kind).reshape(features, int(columns))
    return memory
