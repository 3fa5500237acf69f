"""A learner of K scores without parameters: the mixture of :mod:`giftrl.mixtures.learner` for classes."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from giftrl import losses
from giftrl.compiled import door
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import Rows, as_rows, begin, column, end, longest
from giftrl.errors import Incompatible, require
from giftrl.kernels.checks import as_weights
from giftrl.mixtures import multiclass_rounds as rounds
from giftrl.mixtures.ada_hedge import hedge
from giftrl.mixtures.experts import grid, lanes
from giftrl.mixtures.features import CENTRE, COUNT, DENSE, NORM, PLACE, SCALE, no_features, room_for
from giftrl.mixtures.layout import THETA
from giftrl.mixtures.mixture import Array, Mixture
from giftrl.mixtures.multiclass_experts import class_matrix, columns, feature_memory, wagers
from giftrl.mixtures.multiclass_rounds import ClassPieces, ClassState, learn_classes, make_room
from giftrl.mixtures.newton_stack import COVARIANCE
from giftrl.mixtures.presets import preset
from giftrl.mixtures.rounds import GAP, LAST_GAP
from giftrl.ops.scalar import clamp
from giftrl.ops.vector_loss import multiclass, smoothness

__all__ = ["MulticlassMixture"]

#: Weights, and their products with values, are clipped here, so that sums of them are in float64.
LARGEST = 1e303
#: How much bolder the bold candidates are. With a reach, the loss is least at its ends.
BOLD, BOLD_IN_REACH = 1.25, 10.0


@formula(fast=True)
def add_weights(
    grid: Any, places: Any, features: Any, x: Any, matrix: Any, factors: Any, j: int, v: float, bets: Any, out: Any
) -> None:
    """Add v times the weights of feature j, one for each class; ``bets`` is room for those of the coin."""
    n, classes, scale = np.uint64(lanes(grid)), np.uint64(len(out)), features.record[j, SCALE]
    if scale == 0.0:
        return
    norm = features.counts[NORM] if features.counts[NORM] > 0.0 else 1.0
    s = np.int64(x[j, places.place]) - 1
    wagers(x, j, places, norm, bets)
    for m in range(classes):
        total = factors[n] * bets[m]
        for r in range(n):
            total += factors[r] * np.float64(x[j, places.lanes + m * n + r])
        if s >= 0:
            total += factors[n + np.uint64(1)] * matrix.x[s, m]
        if math.isfinite(total):
            out[m] += clamp(v * clamp(total / scale, -LARGEST, LARGEST), -LARGEST, LARGEST)


@formula(fast=True)
def add_centres(grid: Any, places: Any, features: Any, x: Any, matrix: Any, factors: Any, bets: Any, out: Any) -> None:
    """Take from the constants what the centres of dense features have in them."""
    for k in range(np.uint64(features.counts[DENSE])):
        j = features.dense[k]
        add_weights(grid, places, features, x, matrix, factors, j, -features.record[j, CENTRE], bets, out)


@formula(fast=True)
def weigh_classes(
    grid: Any, places: Any, features: Any, x: Any, matrix: Any, factors: Any, bets: Any, constants: Any, out: Any
) -> None:
    """The weights of all features, and the constants."""
    for j in range(np.uint64(len(out))):
        add_weights(grid, places, features, x, matrix, factors, j, 1.0, bets, out[j])
    add_centres(grid, places, features, x, matrix, factors, bets, constants)


@formula(fast=True)
def predict_classes(
    grid: Any, places: Any, features: Any, x: Any, matrix: Any, factors: Any, bets: Any, constants: Any,
    rows: Any, out: Any,
) -> None:  # fmt: skip
    """The scores of each row, at O(nonzeros + dense features)."""
    add_centres(grid, places, features, x, matrix, factors, bets, constants)
    for i in range(len(out)):
        for m in range(len(constants)):
            out[i, m] = constants[m]
        for k in range(begin(rows, i), end(rows, i)):
            v = np.float64(rows.data[k])
            add_weights(grid, places, features, x, matrix, factors, column(rows, i, k), v, bets, out[i])


class MulticlassMixture(Mixture):
    """K linear models with one loss of their K scores that need no parameter: experts mixed as they prove themselves.

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

    def __init__(
        self,
        dimension: int,
        classes: int,
        loss: Any = "softmax",
        *,
        constant: int | None = None,
        preset: str = "default",
        dtype: Any = "float32",
        compiled: bool = True,
    ) -> None:
        require(
            isinstance(dimension, (int, np.integer)) and dimension >= 1,
            "dimension", dimension, "must be a whole number of at least 1", "give the number of features",
        )  # fmt: skip
        require(
            isinstance(classes, (int, np.integer)) and classes >= 2,
            "classes", classes, "must be a whole number of at least 2", "give the number of classes",
        )  # fmt: skip
        self.dimension, self.classes = int(dimension), int(classes)
        require(
            constant is None or (isinstance(constant, (int, np.integer)) and 0 <= constant < self.dimension),
            "constant", constant, f"must be a feature, a whole number from 0 to {self.dimension - 1}, or None",
            "give the place of the feature that is always 1",
        )  # fmt: skip
        self.loss = losses.MULTICLASS.member(loss, "slope")
        if not multiclass(self.loss):
            raise Incompatible(f"{self.loss!r} is a loss of one prediction; use Softmax or MulticlassHinge")
        self.dtype = np.dtype(dtype)
        known = self.dtype in (np.float32, np.float64)
        require(known, "dtype", dtype, "must be float32 or float64", "float32 halves the memory")
        self.constant = None if constant is None else int(constant)
        self.preset = preset
        self.compiled = compiled
        chosen = _preset(preset)
        reach = 1.0 if isinstance(self.loss, losses.MulticlassHinge) else math.inf
        self.pieces = ClassPieces(
            -1 if self.constant is None else self.constant, self.constant is not None,
            smoothness(self.loss) == math.inf, reach, BOLD if reach == math.inf else BOLD_IN_REACH,
        )  # fmt: skip
        self.expert_names = [*(expert.name for expert in chosen.experts), "coin betting", "full matrix"]
        self.grid = grid(chosen.experts)
        self.places = columns(self.classes, len(chosen.experts), self.dtype)
        self.features = no_features(feature_memory(self.dimension, self.places, self.dtype))
        self.matrix = class_matrix(self.classes, chosen.places)
        present = np.array([*[True] * (len(self.expert_names) - 1), len(self.matrix.x) > 0])
        self._kept: Array | None = None  # the shares, until something is learnt
        self.mixing = ClassState(
            offsets=np.zeros((len(present), self.classes)),
            totals=np.where(present, 0.0, math.inf),
            candidates=np.zeros(rounds.CANDIDATES),
            stack=present / present.sum(),
            inverse=COVARIANCE * np.diag(present.astype(np.float64)),
            slopes=np.zeros(self.classes),
            sums=np.zeros(6),
        )

    def learn(self, x: Any, y: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Learn from a batch, row by row, and return the scores, each made before its label was used.

        With the hinge loss no score is more than 1 below the best: such scores cost no more than lower ones.

        Args:
            x: a SciPy sparse matrix or array, or a matrix of numbers, one example a row.
            y: the classes, from 0 to K - 1.
            weights: the importance of each example, 1 where left out.
        """
        rows, n = as_rows(x, self.dimension)
        found = np.asarray(y)
        require(found.shape == (n,), "y", y, f"must have shape {(n,)}, a class for each row", f"it has {found.shape}")
        good = found.dtype.kind in "iuf" and bool(((found >= 0) & (found < self.classes)).all())
        good = good and bool((found == np.floor(found)).all())
        require(good, "y", y, f"must be whole numbers from 0 to {self.classes - 1}", "number your classes")
        return self.learn_rows(rows, found, as_weights(weights, n))

    def _learn(self, rows: Rows, y: NDArray[Any], weights: Array) -> Array:
        self.features = room_for(self.features, self.dimension, int(longest(rows)))
        self._kept = None
        scores = np.empty((len(y), self.classes))
        width = int(longest(rows)) + len(self.features.dense)
        room = make_room(width, len(self.grid.prior), self.classes, len(self.matrix.x), self.dtype)
        door.ready(learn_classes, self.compiled, counted=False)(
            self.loss, self.grid, self.places, self.pieces, self.features, self._view, self.matrix, self.mixing,
            rows, y.astype(np.int64), weights, scores, room,
        )  # fmt: skip
        return scores

    def check(self, state: Mapping[str, NDArray[Any]]) -> None:
        check_state(self, state)
        self._kept = None  # what follows is another state

    def _shares(self) -> Array:
        """The factor of each expert: with w, v and l the weights of AdaHedge, of the stack and of the candidates,
        (l_1 + bold l_3) w + (l_2 + bold l_4) v.
        """
        if self._kept is None:
            mixing, bold = self.mixing, self.pieces.bold
            w, last = np.empty(len(mixing.totals)), np.empty(rounds.CANDIDATES)
            hedge(mixing.totals, int(np.isfinite(mixing.totals).sum()), mixing.sums[GAP], w)
            hedge(mixing.candidates, rounds.CANDIDATES, mixing.sums[LAST_GAP], last)
            self._kept = (last[0] + bold * last[2]) * w + (last[1] + bold * last[3]) * mixing.stack
        return self._kept

    def _call(self, loop: Any, *more: Any) -> Array:
        """Run a loop that reads the weights; the constants."""
        factors = self._shares()
        constants, bets = np.asarray(factors @ self.mixing.offsets), np.empty(self.classes)
        ready = door.ready(loop, self.compiled, counted=False)
        ready(self.grid, self.places, self.features, self._view, self.matrix, factors, bets, constants, *more)
        return constants

    def predict_rows(self, rows: Rows, n: int) -> Array:
        """The scores of n rows at O(nonzeros + dense features); no check of the arguments."""
        out = np.empty((n, self.classes))
        self._call(predict_classes, rows, out)
        return out

    def predict(self, x: Any) -> Array:
        """The scores of each row, a column for each class; :meth:`clip` makes them those that :meth:`learn` gives."""
        rows, n = as_rows(x, self.dimension)
        return self.predict_rows(rows, n)

    def clip(self, scores: ArrayLike) -> Array:
        """Scores as they count: with the hinge loss none is more than 1 below the best."""
        found = np.asarray(scores, np.float64)
        if self.pieces.reach == math.inf:
            return found
        return np.asarray(np.maximum(found, found.max(axis=-1, keepdims=True) - self.pieces.reach))

    @property
    def x(self) -> Array:
        """The weights, a row for each feature and a column for each class; the constant's row holds the intercepts."""
        out = np.zeros((self.dimension, self.classes))
        constants = self._call(weigh_classes, out)
        if self.constant is not None:
            out[self.constant] += constants
        return out

    @property
    def theta(self) -> Array:
        """theta of the certificate, a column for each class: minus the sum of slopes times row."""
        return self.features.record[:, THETA : THETA + self.classes].copy()

    @property
    def experts(self) -> list[tuple[str, float, float]]:
        """Name, share of the scores and progressive loss of each expert in the mixture.

        Shares are factors of a linear combination: they need not sum to 1, and can be negative.
        """
        found = zip(self.expert_names, self._shares(), self.mixing.totals, strict=True)
        return [(name, float(share), float(total)) for name, share, total in found if math.isfinite(total)]

    def __repr__(self) -> str:
        return (
            f"MulticlassMixture({self.dimension}, {self.classes}, {self.loss!r}, preset={self.preset!r}, "
            f"dtype={self.dtype.name!r})"
        )


def check_state(learner: MulticlassMixture, state: Mapping[str, NDArray[Any]]) -> None:
    """Raise unless these are the arrays of a learner with the parts of this one; compiled loops believe them."""
    for name, mine in learner.state().items():
        found, good = state.get(name), False
        if found is not None:
            free = name in ("features.record", "features.dense", "features.stamps")
            good = found.dtype == mine.dtype and found.ndim == mine.ndim and found.shape[free:] == mine.shape[free:]
            inf = name in ("features.record", "mixing.totals", "mixing.sums")
            good = good and not bool((np.isnan(found) if inf else ~np.isfinite(found)).any())
        require(good, "state", name, f"must be that of {learner!r}", "use the parts that it was made with")
    sums, totals = state["mixing.sums"], state["mixing.totals"]
    good = _sound_record(learner, state) and bool(np.isfinite(sums[GAP:]).all() and np.isfinite(totals[0]))
    require(good, "state", "features.record", f"must be that of {learner!r}", "use the parts that it was made with")


def _sound_record(learner: MulticlassMixture, state: Mapping[str, NDArray[Any]]) -> bool:
    record, dense, stamps = (state[f"features.{name}"] for name in ("record", "dense", "stamps"))
    total, most, size = float(state["features.counts"][DENSE]), len(learner.matrix.x), int(state["matrix.size"][0])
    if total != int(total) or not 0 <= total <= len(dense) == len(stamps) or not -1 <= size <= most:
        return False
    n, marked = int(total), np.flatnonzero(record[:, PLACE])
    if len(record) <= (learner.constant or 0) or len(marked) != n or bool((dense[:n] >= len(record)).any()):
        return False
    good = np.array_equal(record[dense[:n].astype(np.int64), PLACE], np.arange(1.0, n + 1.0))
    good = good and bool(np.isfinite(record[:, : THETA + learner.classes]).all())
    good = good and bool((record[:, [SCALE, COUNT]] >= 0.0).all())
    weights = np.ascontiguousarray(record).view(learner.dtype)[:, int(learner.places.curve) :]
    taken = weights[:, int(learner.places.place - learner.places.curve)]
    taken = taken[taken != 0.0]
    good = good and bool(np.isfinite(weights).all()) and len(np.unique(taken)) == len(taken)
    good = good and bool(((taken >= 1) & (taken <= most) & (taken == np.floor(taken))).all())
    return good and (size < 0 or len(taken) == size)


_preset = preset  # the argument of the same name hides it
