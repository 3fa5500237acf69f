"""scikit-learn's SGD in small batches: predict a batch, then learn from it with ``partial_fit``.

A batch is a thousandth of the rows, at least 1 and at most 32, so a prediction misses at most a thousandth of the
earlier data. Within a batch, ``partial_fit`` makes one step for each row.

A ``StandardScaler`` standardises the features. It sees each batch before the batch is predicted, which favours this
solver: no other one looks ahead. Rows of more than 1,000 features stay sparse, and are scaled but not centred.

The learning rate ``adaptive`` is left out: in ``partial_fit`` it is the same as ``constant``.

``partial_fit`` spends a millisecond on checks for every few microseconds of learning. So, after the first batch, its
compiled loop is called directly, with the same arguments. A test compares the two.
"""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from benchmarks.quality.contract import DEFAULT, Predict
from benchmarks.quality.data import Case
from benchmarks.solvers.contract import missing

LARGEST_BATCH = 32
WIDE = 1_000  # rows with more features than this stay sparse

#: The arguments of each setting: constant rates, and rates that fall like t^-power.
SETTINGS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    **{f"constant {rate:g}": {"learning_rate": "constant", "eta0": rate} for rate in (0.001, 0.01, 0.1, 1.0)},
    **{
        f"invscaling {rate:g} power {power:g}": {"learning_rate": "invscaling", "eta0": rate, "power_t": power}
        for rate, power in ((0.1, 0.25), (1.0, 0.5), (10.0, 0.5))
    },
}
LOSSES: dict[str, dict[str, Any]] = {
    "logistic": {"loss": "log_loss"},
    "log": {"loss": "log_loss"},
    "hinge": {"loss": "hinge"},
    "squared": {"loss": "squared_error"},
    "absolute": {"loss": "epsilon_insensitive", "epsilon": 0.0},
}


def batch_size(rows: int) -> int:
    """A thousandth of the rows, from 1 to 32.

    >>> batch_size(252), batch_size(8192), batch_size(581012)
    (1, 8, 32)
    """
    return max(1, min(LARGEST_BATCH, rows // 1000))


def standardised(x: Any, size: int) -> Any:
    """The rows, each standardised with the means and variances of the rows up to the end of its batch.

    >>> from scipy import sparse
    >>> standardised(sparse.csr_matrix([[1.0], [3.0], [5.0]]), 2).ravel().tolist()
    [-1.0, 1.0, 1.224744871391589]
    """
    from sklearn.preprocessing import StandardScaler

    wide = x.shape[1] > WIDE
    scaler = StandardScaler(with_mean=not wide)
    rows = x if wide else x.toarray()
    parts = [scaler.partial_fit(part).transform(part) for part in _parts(rows, size)]
    return sparse.vstack(parts, "csr") if wide else np.concatenate(parts)


class ScikitLearn:
    """``SGDClassifier``, which learns each of several classes against the rest, and ``SGDRegressor``."""

    key = "sklearn"
    name = "scikit-learn"
    package = "scikit-learn"

    def unavailable(self) -> str | None:
        return missing("sklearn")

    def settings(self, loss: str) -> list[str]:
        return list(SETTINGS)

    def rate(self, setting: str) -> float | None:
        """The rate of a constant setting, or None."""
        kind, _, rate = setting.partition(" ")
        return float(rate) if kind == "constant" and " " not in rate else None

    def covers(self, case: Case) -> bool:
        return True

    @contextlib.contextmanager
    def prepared(self, case: Case) -> Iterator[Predict]:
        size = batch_size(len(case.y))
        x = standardised(case.x, size)

        def predict(loss: str, setting: str) -> NDArray[np.float64]:
            model = new_model(loss, setting)
            if case.classes:
                scores = margins(model, x, case.y, np.arange(case.classes), size)
                chances = expit(scores)
                with np.errstate(invalid="ignore"):  # if all underflow
                    return np.asarray(chances / chances.sum(axis=1, keepdims=True))  # as predict_proba does
            labels = None if case.kind == "regression" else np.array([-1.0, 1.0])
            return margins(model, x, case.y, labels, size)[:, 0]

        yield predict


def new_model(loss: str, setting: str) -> Any:
    """A classifier or a regressor with these options."""
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    kind = SGDRegressor if loss in ("squared", "absolute") else SGDClassifier
    return kind(**LOSSES[loss], **SETTINGS[setting], random_state=0)


@np.errstate(over="ignore", invalid="ignore")
def margins(model: Any, x: Any, y: NDArray[np.float64], classes: NDArray[Any] | None, size: int) -> NDArray[np.float64]:
    """The prediction for each row before its batch is learnt from, with a column for each vector of weights.

    The predictions for the first batch are 0. If the weights overflow, all later predictions are NaN.
    """
    columns = 1 if classes is None or len(classes) == 2 else len(classes)
    predicted = np.full((len(y), columns), math.nan)
    predicted[:size] = 0.0
    model.partial_fit(x[:size], y[:size], **({} if classes is None else {"classes": classes}))
    weights = np.ascontiguousarray(np.atleast_2d(model.coef_))
    intercepts = np.array(model.intercept_, np.float64)
    if classes is None:
        targets = y[:, None]
    else:
        positive = classes[1:] if columns == 1 else classes
        targets = np.where(y[:, None] == positive, 1.0, 0.0 if model.loss == "log_loss" else -1.0)
    step = _Step(model, sparse.issparse(x))
    for begin in range(size, len(y), size):
        part = x[begin : begin + size]
        end = begin + part.shape[0]
        predicted[begin:end] = part @ weights.T + intercepts
        try:
            for k in range(columns):
                intercepts[k] = step(weights[k], intercepts[k], part, targets[begin:end, k], 1.0 + begin)
        except ValueError as problem:
            if "overflow" not in str(problem):
                raise
            break
    return predicted


class _Step:
    """The compiled loop of ``partial_fit``, with the arguments that a model would give it."""

    def __init__(self, model: Any, is_sparse: bool) -> None:
        from sklearn.linear_model._base import SPARSE_INTERCEPT_DECAY
        from sklearn.linear_model._sgd_fast import _plain_sgd64
        from sklearn.utils._seq_dataset import ArrayDataset64, CSRDataset64

        self.loop = _plain_sgd64
        self.rows: Any = CSRDataset64 if is_sparse else ArrayDataset64
        self.decay = SPARSE_INTERCEPT_DECAY if is_sparse else 1.0
        self.is_sparse = is_sparse
        self.seeds = np.random.default_rng(0)
        penalty = model._get_penalty_type(model.penalty), model.alpha, model._get_l1_ratio()
        self.before = (None, 0.0, model._get_loss_function(model.loss), *penalty)
        self.rates = model._get_learning_rate_type(model.learning_rate), model.eta0, model.power_t
        self.constants = (False, None, int(model.n_iter_no_change), 1, -math.inf, 1, 0, int(model.shuffle))

    def __call__(
        self, weights: NDArray[np.float64], intercept: float, part: Any, targets: NDArray[np.float64], t: float
    ) -> float:
        """Update the weights in place, and return the intercept."""
        size = len(targets)
        arrays = (part.data, part.indptr, part.indices) if self.is_sparse else (part,)
        rows = self.rows(*arrays, np.ascontiguousarray(targets), np.ones(size), seed=1)
        mask, seed = np.zeros(size, np.uint8), int(self.seeds.integers(1 << 31))
        inputs = (weights, intercept, *self.before, rows, mask, *self.constants, seed, 1.0, 1.0)
        return float(self.loop(*inputs, *self.rates, 0, t, self.decay, 0)[1])


def _parts(x: Any, size: int) -> Iterator[Any]:
    return (x[begin : begin + size] for begin in range(0, x.shape[0], size))
