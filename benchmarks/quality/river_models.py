"""River's default pipeline: ``StandardScaler | LogisticRegression``, ``LinearRegression`` or ``SoftmaxRegression``.

Rows of up to 1,000 features become dictionaries with all features, so that the scaler sees the zeros. Wider rows become
dictionaries of their nonzeros, which is how River's users pass text. Without the scaler, most of these tasks have a
higher loss.

River needs up to milliseconds for a row, so data sets of more than 100,000 rows, and images, are run in one order only.
"""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.contract import DEFAULT, Predict
from benchmarks.quality.data import Case
from benchmarks.solvers.contract import missing

WIDE = 1_000  # rows with more features than this stay sparse
ROWS, FEATURES = 100_000, 500  # data with more rows, or more features in full dictionaries, is run in one order


class River:
    """River, whose default optimiser is gradient descent with the rate 0.01."""

    key = "river"
    name = "River"
    package = "river"

    def unavailable(self) -> str | None:
        return missing("river")

    def settings(self, loss: str) -> list[str]:
        return [DEFAULT]

    def rate(self, setting: str) -> float | None:
        """The rate of its default optimiser."""
        return 0.01

    def covers(self, case: Case) -> bool:
        rows, features = case.x.shape
        slow = rows > ROWS or FEATURES < features <= WIDE
        return not slow or case.order in ("0", "own")

    @contextlib.contextmanager
    def prepared(self, case: Case) -> Iterator[Predict]:
        def predict(loss: str, setting: str) -> NDArray[np.float64]:
            return predictions(pipeline(loss), case.x, case.y, loss, case.classes)

        yield predict


def pipeline(loss: str) -> Any:
    """The scaler and the model."""
    from river import linear_model, optim, preprocessing

    models: dict[str, tuple[Any, Any]] = {
        "logistic": (linear_model.LogisticRegression, None),
        "hinge": (linear_model.LogisticRegression, optim.losses.Hinge()),
        "squared": (linear_model.LinearRegression, None),
        "absolute": (linear_model.LinearRegression, optim.losses.Absolute()),
        "log": (linear_model.SoftmaxRegression, None),
    }
    model, its_loss = models[loss]
    scaler: Any = preprocessing.StandardScaler
    return scaler() | model(loss=its_loss)  # None means the default loss of the model


def predictions(model: Any, x: Any, y: NDArray[np.float64], loss: str, classes: int | None) -> NDArray[np.float64]:
    """The prediction for each row before it is learnt from; NaN from the row at which a number overflows."""
    predicted = np.full((len(y), classes) if classes else len(y), math.nan)
    labels: list[Any] = (y > 0.0).tolist() if loss in ("logistic", "hinge") else y.tolist()
    scaler, last = model.steps.values()
    try:
        for i, (row, label) in enumerate(zip(dictionaries(x, x.shape[1] <= WIDE), labels, strict=True)):
            if classes:
                chances = model.predict_proba_one(row)
                # A class that was never seen gets 0; before the first class is seen, all are equal.
                predicted[i] = [chances.get(float(k), 0.0) for k in range(classes)] if chances else 1.0 / classes
            elif loss in ("squared", "absolute"):
                predicted[i] = model.predict_one(row)
            else:
                # The loss needs margins, and the pipeline returns only probabilities and classes.
                predicted[i] = last._raw_dot_one(scaler.transform_one(row))
            model.learn_one(row, label)
    except OverflowError:
        pass
    return predicted


def dictionaries(x: Any, whole: bool) -> Iterator[dict[int, float]]:
    """The rows as dictionaries, with all features or with the nonzeros only.

    >>> from scipy import sparse
    >>> x = sparse.csr_matrix([[0.0, 2.0]])
    >>> list(dictionaries(x, True)), list(dictionaries(x, False))
    ([{0: 0.0, 1: 2.0}], [{1: 2.0}])
    """
    indices, values, bounds = x.indices.tolist(), x.data.tolist(), x.indptr.tolist()
    names = range(x.shape[1])
    for i in range(x.shape[0]):
        begin, end = bounds[i], bounds[i + 1]
        row = dict.fromkeys(names, 0.0) if whole else {}
        row.update(zip(indices[begin:end], values[begin:end], strict=True))
        yield row
