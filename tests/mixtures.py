"""Mixtures as tests see them: learners with their defaults, ordinary and hostile streams, and what must always hold."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.mixtures import MixtureLearner
from giftrl.ops.loss import value
from tests.members import is_classification, is_count, label_for, members

Array = NDArray[np.float64]

#: Every scalar loss, found by discovery.
LOSSES = members("loss")
#: The losses for which loops are compiled in tests: one of each kind.
COMPILED = ["logistic", "hinge", "squared", "absolute"]


class Stream(NamedTuple):
    """Rows, of which the last feature is the constant, labels, and weights or None."""

    x: Array
    y: Array
    weights: Array | None = None


def mixture(loss: Any, dimension: int, **options: Any) -> MixtureLearner:
    """A learner whose last feature is the constant; plain Python and float64 unless told."""
    options = {"constant": dimension - 1, "dtype": "float64", "compiled": False} | options
    return MixtureLearner(dimension, loss, **options)


def ordinary(loss: Any, rows: int, features: int = 3, seed: int = 0, weights: bool = False) -> Stream:
    """A noisy linear model; the second feature is sparse, the third is far from 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features + 1))
    x[:, -1] = 1.0
    x[:, 1::3] *= rng.random((rows, 1)) < 0.3
    x[:, 2::3] = 5.0 + 3.0 * x[:, 2::3]
    target = x @ rng.normal(size=features + 1) + 0.3 * rng.normal(size=rows)
    if is_count(loss):
        target = np.floor(np.exp(np.clip(0.3 * target, -3.0, 3.0)))
    y = np.array([label_for(loss, t) for t in target])
    return Stream(x, y, rng.choice([0.0, 0.5, 1.0, 1.0, 3.0], rows) if weights else None)


# ------------------------------------------------------------------------------------------------- hostile streams


def _logarithmic(rng: np.random.Generator, rows: int, low: float, high: float) -> Array:
    """Numbers of either sign, of sizes between 10^low and 10^high."""
    return rng.choice([-1.0, 1.0], rows) * 10.0 ** rng.uniform(low, high, rows)


def _outliers(rng: np.random.Generator, rows: int) -> Array:
    """Ten numbers of 1e12 first."""
    found = rng.normal(size=rows)
    found[:10] *= 1e12
    return found


def _features() -> dict[str, Any]:
    return {
        "zero": lambda rng, n: np.zeros(n),
        "constant": lambda rng, n: np.full(n, _logarithmic(rng, 1, -300, 300)[0]),
        "nearly constant": lambda rng, n: _logarithmic(rng, 1, -290, 290)[0] * (1.0 + 1e-15 * rng.normal(size=n)),
        "normal": lambda rng, n: rng.normal(size=n),
        "shifted": lambda rng, n: 1e6 + rng.normal(size=n),
        "binary": lambda rng, n: rng.integers(0, 2, n).astype(float),
        "sparse": lambda rng, n: rng.normal(size=n) * (rng.random(n) < 0.2),
        "tiny": lambda rng, n: 1e-300 * rng.normal(size=n),
        "denormal": lambda rng, n: 5e-324 * rng.integers(0, 100, n),
        "huge": lambda rng, n: 1e300 * rng.normal(size=n),
        "largest": lambda rng, n: rng.choice([-1.0, 0.0, 1.0], n) * np.finfo(float).max,
        "every size": lambda rng, n: _logarithmic(rng, n, -300, 300),
        "many sizes": lambda rng, n: _logarithmic(rng, n, -20, 20),
        "growing": lambda rng, n: 10.0 ** np.linspace(*rng.uniform(-300, 300, 2), n),
        "outliers": _outliers,
        "float32": lambda rng, n: _logarithmic(rng, n, -44, 38),
    }


def _labels() -> dict[str, Any]:
    return _features() | {
        "running mean": lambda rng, n: np.resize([87.0, 97.0, 92.0], n),
        "two": lambda rng, n: rng.choice(rng.normal(size=2), n),
        "one, then another": lambda rng, n: np.where(np.arange(n) < n - 1, 3.0, -7.0),
        "counts": lambda rng, n: rng.poisson(2.0, n).astype(float),
        "alternating": lambda rng, n: np.resize(_logarithmic(rng, 2, -300, 300), n),
    }


WEIGHTS: dict[str, Any] = {
    "none": lambda rng, n: None,
    "ones": lambda rng, n: np.ones(n),
    "some": lambda rng, n: rng.choice([0.0, 0.5, 1.0, 7.0], n),
    "zero": lambda rng, n: np.zeros(n),
    "tiny": lambda rng, n: np.full(n, 1e-300),
    "huge": lambda rng, n: np.full(n, 1e300),
    "every size": lambda rng, n: np.abs(_logarithmic(rng, n, -300, 300)),
    "many sizes": lambda rng, n: np.abs(_logarithmic(rng, n, -9, 9)),
}


def hostile(loss: Any, seed: int, rows: int | None = None) -> tuple[Stream, str]:
    """A stream of extremes, and in words what it is made of."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40)) if rows is None else rows
    columns, names = [], []
    for _ in range(int(rng.integers(0, 6))):
        kind = str(rng.choice(list(_features())))
        columns.append(_features()[kind](rng, n))
        names.append(kind)
    columns.append(np.ones(n))
    x = np.column_stack(columns)
    kind = str(rng.choice(list(_labels())))
    y = _labels()[kind](rng, n)
    if rng.random() < 0.3 and not is_classification(loss):  # a label that the features determine
        kind = "linear"
        with np.errstate(all="ignore"):
            y = np.nan_to_num(x @ rng.normal(size=x.shape[1]), nan=0.0)
    y = np.array([label_for(loss, t) for t in y])
    if is_classification(loss) and rng.random() < 0.3:
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


def assert_sound(learner: MixtureLearner, stream: Stream, predictions: Array) -> None:
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
    assert not math.isnan(certificate.regret_bound(np.zeros(learner.dimension)))
    low, high = learner.range
    assert low <= high


def total_loss(loss: Any, stream: Stream, u: Array) -> float:
    """sum_t h_t phi(<s_t, u>; y_t)."""
    h = np.ones(len(stream.y)) if stream.weights is None else stream.weights
    each = [k * value(loss, float(p), float(y)) for k, p, y in zip(h, stream.x @ u, stream.y, strict=True) if k > 0.0]
    return math.fsum(each)
