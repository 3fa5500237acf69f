"""Mixtures as tests see them: learners with their defaults, ordinary and hostile streams, and what must always hold."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl import losses
from giftrl.mixtures import MixtureLearner, MulticlassMixture
from giftrl.mixtures.feature_state import DENSE
from giftrl.ops.loss import slope, value
from giftrl.ops.vector_loss import multiclass
from tests.members import is_classification, is_count, label_for, members

Array = NDArray[np.float64]

#: Every loss, found by discovery: of one score, and of a score for each class.
LOSSES = members("loss")
CLASS_LOSSES = [each() for each in losses.MULTICLASS.values()]
EVERY = LOSSES + CLASS_LOSSES
#: The losses for which loops are compiled in tests: one of each kind.
COMPILED = ["logistic", "hinge", "squared", "absolute"]


class Stream(NamedTuple):
    """Rows, of which the last feature is the constant, labels, and weights or None."""

    x: Array
    y: Array
    weights: Array | None = None


def mixture(loss: Any, dimension: int, **options: Any) -> Any:
    """A learner, of three classes if its loss is one of classes, whose last feature is the constant."""
    options = {"constant": dimension - 1, "dtype": "float64", "compiled": False} | options
    loss = losses.get(loss) if loss in losses.EVERY else loss
    if multiclass(loss):
        return MulticlassMixture(dimension, 3, loss, **options)
    return MixtureLearner(dimension, loss, **options)


def label(loss: Any, target: float) -> float:
    """The label of a loss that is nearest in spirit to a real target."""
    return float(np.digitize(target, [-0.5, 0.5])) if multiclass(loss) else label_for(loss, target)


def loss_at(loss: Any, p: Any, y: float) -> float:
    """The loss of a prediction, which may be a vector of scores."""
    return float(loss.value(np.asarray(p), int(y)) if multiclass(loss) else value(loss, float(p), float(y)))


def slope_at(loss: Any, p: Any, y: float) -> Array:
    """Its slope there."""
    if not multiclass(loss):
        return np.float64(slope(loss, float(p), float(y)))  # type: ignore[return-value]
    out = np.empty(len(p))
    loss.slope(np.asarray(p), int(y), out)
    return out


def ordinary(loss: Any, rows: int, features: int = 3, seed: int = 0, weights: bool = False) -> Stream:
    """A noisy linear model; the second feature is sparse, the third is far from 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features + 1))
    x[:, -1] = 1.0
    x[:, 1::3] *= rng.random((rows, 1)) < 0.3
    x[:, 2::3] = 5.0 + 3.0 * x[:, 2::3]
    target = x @ rng.normal(size=features + 1) + 0.3 * rng.normal(size=rows)
    if not multiclass(loss) and is_count(loss):
        target = np.floor(np.exp(np.clip(0.3 * target, -3.0, 3.0)))
    if multiclass(loss):
        target = (target - np.median(target)) / (target.std() or 1.0)
    y = np.array([label(loss, t) for t in target])
    return Stream(x, y, rng.choice([0.0, 0.5, 1.0, 1.0, 3.0], rows) if weights else None)


# ------------------------------------------------------------------------------------------------- hostile streams


def _logarithmic(rng: np.random.Generator, rows: int, low: float, high: float) -> Array:
    """Numbers of either sign, of sizes between 10^low and 10^high."""
    return rng.choice([-1.0, 1.0], rows) * 10.0 ** rng.uniform(low, high, rows)


LARGEST = np.finfo(float).max
SIZES = [5e-324, 1e-310, 1e-300, 1e-100, 1e-38, 1e38, 1e100, 1e300, LARGEST / 8.0]
#: Columns of numbers, for features and for labels.
FEATURES: dict[str, Any] = {
    "zero": lambda rng, n: np.zeros(n),
    "one number": lambda rng, n: np.full(n, 2.5),
    "one number of any size": lambda rng, n: np.full(n, _logarithmic(rng, 1, -300, 300)[0]),
    "nearly one number": lambda rng, n: _logarithmic(rng, 1, -290, 290)[0] * (1.0 + 1e-15 * rng.normal(size=n)),
    "nearly 1e8": lambda rng, n: 1e8 + 1e-8 * np.resize([0.0, 1.0, 2.0], n),
    "normal": lambda rng, n: rng.normal(size=n),
    "shifted": lambda rng, n: 1e6 + rng.normal(size=n),
    "binary": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "sparse": lambda rng, n: rng.normal(size=n) * (rng.random(n) < 0.2),
    "first row empty": lambda rng, n: np.where(np.arange(n) > 0, rng.normal(size=n), 0.0),
    "only in the last row": lambda rng, n: np.where(np.arange(n) == n - 1, 1e100, 0.0),
    "duplicated": lambda rng, n: np.repeat(rng.normal(size=n)[: n // 10 + 1], 10)[:n],
    "denormal": lambda rng, n: 5e-324 * rng.integers(0, 100, n),
    "largest": lambda rng, n: rng.choice([-1.0, 0.0, 1.0], n) * LARGEST,
    "sizes mixed": lambda rng, n: np.resize(SIZES, n) * rng.normal(size=n),
    "every size": lambda rng, n: _logarithmic(rng, n, -300, 300),
    "many sizes": lambda rng, n: _logarithmic(rng, n, -20, 20),
    "growing": lambda rng, n: np.geomspace(1e-300, 1e300, n),
    "shrinking": lambda rng, n: np.geomspace(1e300, 1e-300, n),
    "growing by 1e4": lambda rng, n: 10.0 ** np.minimum(-180.0 + 4.0 * np.arange(n), 300.0),
    "growing or shrinking": lambda rng, n: 10.0 ** np.linspace(*rng.uniform(-300, 300, 2), n),
    "outliers first": lambda rng, n: np.where(np.arange(n) < 10, 1e12, 1.0) * rng.normal(size=n),
    "float32": lambda rng, n: _logarithmic(rng, n, -44, 38),
} | {f"of size {size:g}": lambda rng, n, size=size: size * rng.normal(size=n) for size in SIZES}
LABELS: dict[str, Any] = FEATURES | {
    "running mean": lambda rng, n: np.resize([87.0, 97.0, 92.0], n),
    "the running mean, exactly": lambda rng, n: np.array([0.0, 2.0, 1.0, 1.0, 1.0, 3.0] + [8.0 / 6.0] * n)[:n],
    "two": lambda rng, n: rng.choice(rng.normal(size=2), n),
    "one, then another": lambda rng, n: np.where(np.arange(n) < n - 1, 3.0, -7.0),
    "zero, then largest": lambda rng, n: np.where(np.arange(n) == 1, LARGEST, 0.0),
    "counts": lambda rng, n: rng.poisson(2.0, n).astype(float),
    "alternating": lambda rng, n: np.resize(_logarithmic(rng, 2, -300, 300), n),
}
WEIGHTS: dict[str, Any] = {
    "none": lambda rng, n: None,
    "ones": lambda rng, n: np.ones(n),
    "some": lambda rng, n: rng.choice([0.0, 0.5, 1.0, 7.0], n),
    "zero": lambda rng, n: np.zeros(n),
    "the first is 0": lambda rng, n: np.minimum(np.arange(n), 1.0),
    "denormal": lambda rng, n: np.full(n, 5e-324),
    "tiny": lambda rng, n: np.full(n, 1e-300),
    "huge": lambda rng, n: np.full(n, 1e300),
    "largest": lambda rng, n: np.full(n, LARGEST),
    "falling": lambda rng, n: np.geomspace(1e300, 1e-300, n),
    "rising": lambda rng, n: np.geomspace(1e-300, 1e300, n),
    "one of many": lambda rng, n: np.where(np.arange(n) == 7, 1e300, 1.0),
    "every size": lambda rng, n: np.abs(_logarithmic(rng, n, -300, 300)),
    "many sizes": lambda rng, n: np.abs(_logarithmic(rng, n, -9, 9)),
}


def hostile(loss: Any, seed: int, rows: int | None = None) -> tuple[Stream, str]:
    """A stream of extremes, and in words what it is made of."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40)) if rows is None else rows
    columns, names = [], []
    for _ in range(int(rng.integers(0, 6))):
        kind = str(rng.choice(list(FEATURES)))
        columns.append(FEATURES[kind](rng, n))
        names.append(kind)
    columns.append(np.ones(n))
    x = np.column_stack(columns)
    kind = str(rng.choice(list(LABELS)))
    y = LABELS[kind](rng, n)
    if rng.random() < 0.3 and (multiclass(loss) or not is_classification(loss)):  # a label that the features determine
        kind = "linear"
        with np.errstate(all="ignore"):
            y = np.nan_to_num(x @ rng.normal(size=x.shape[1]), nan=0.0)
    y = np.array([label(loss, t) for t in y])
    if not multiclass(loss) and is_classification(loss) and rng.random() < 0.3:
        y = rng.choice([-1.0, 1.0], n)
    weighing = str(rng.choice(list(WEIGHTS))) if rng.random() < 0.5 else "none"
    weights = WEIGHTS[weighing](rng, n)
    if rng.random() < 0.2:
        x[0] = 0.0
        names.append("first row empty")
    if rng.random() < 0.2:
        x[:] = x[rng.integers(0, n, n)]
        names.append("duplicated rows")
    return Stream(x, y, weights), f"features {names}, labels {kind}, weights {weighing}, {n} rows"


# ----------------------------------------------------------------------------------------- what must hold of any run


def assert_sound(learner: Any, stream: Stream, predictions: Array) -> None:
    """Nothing is NaN, and what counts is finite."""
    assert np.isfinite(predictions).all(), predictions
    for name, array in learner.state().items():
        assert not np.isnan(array).any(), f"{name} is not a number"
    for array in (learner.features.x, learner.features.record, learner.features.theta):
        assert np.isfinite(array).all(), "not finite"
    assert np.isfinite(learner.x).all(), learner.x
    found = learner.predict(stream.x)
    assert not np.isnan(found).any(), found
    assert np.isfinite(learner.clip(found)).all(), found
    assert all(math.isfinite(share) and math.isfinite(total) for _, share, total in learner.experts), learner.experts
    assert not np.isnan(learner.loss_sums).any()
    certificate = learner.certificate
    assert not math.isnan(certificate.loss_sum) and not math.isnan(certificate.bound_sum)
    assert not np.isnan(certificate.theta).any()
    assert not math.isnan(certificate.regret_bound(np.zeros(certificate.theta.shape)))
    if learner.classes is None:
        low, high = learner.range
        assert low <= high


def assert_same_state(one: Any, other: Any) -> None:
    """Bit by bit; room for dense features that are not there does not count."""
    mine, theirs, dense = one.state(), other.state(), int(one.features.counts[DENSE])
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        few = slice(dense) if name in ("features.dense", "features.stamps") else slice(None)
        np.testing.assert_array_equal(array[few], theirs[name][few], err_msg=name)


def total_loss(loss: Any, stream: Stream, u: Array) -> float:
    """sum_t h_t phi(<s_t, u>; y_t)."""
    h = np.ones(len(stream.y)) if stream.weights is None else stream.weights
    each = [k * loss_at(loss, p, y) for k, p, y in zip(h, stream.x @ u, stream.y, strict=True) if k > 0.0]
    return math.fsum(each)
