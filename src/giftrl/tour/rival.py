"""scikit-learn's SGD: predict a few rows, then learn from them, and so on to the end.

The features are standardised beforehand with the means and deviations of **all** rows, which SGD needs and which a
stream does not have: that is in its favour. ``partial_fit`` takes a millisecond a call, so it gets one in 250 of
the rows at a time and learns from them one by one: a prediction misses at most 0.4% of the rows.
"""

import warnings
from typing import Any

import numpy as np

from giftrl.tour.sets import Array, Set

#: The learning rates, half a decade from one to the next.
RATES = tuple(float(f"{10.0 ** (k / 2):.2g}") for k in range(-6, 3))
#: The least probability that counts: certainty that is wrong would cost an infinite loss.
LEAST = 1e-6


def standardised(x: Array) -> Array:
    """The columns with mean 0 and deviation 1; a column of equal numbers becomes 0.

    >>> standardised(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    spread = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def losses(data: Set, answers: Array, labels: Array, seen: Array) -> Array:
    """The loss of each answer: probabilities of all classes, or numbers, which are kept in the range of labels seen.

    >>> flowers = Set("", "", np.eye(2), np.array([0.0, 1.0]), 2)
    >>> losses(flowers, np.array([[0.5, 0.5], [1.0, 0.0]]), flowers.y, flowers.y[:0]).round(3).tolist()
    [0.693, 13.816]
    """
    if data.classes:
        whole = np.isfinite(answers).all(axis=1, keepdims=True)
        right = np.where(whole, answers, 1.0 / data.classes)[np.arange(len(labels)), labels.astype(int)]
        return np.asarray(-np.log(np.clip(right, LEAST, 1.0)))
    answers = np.where(np.isfinite(answers), answers, 0.0)
    kept = np.clip(answers, seen.min(), seen.max()) if len(seen) else answers
    return np.asarray(0.5 * np.square(kept - labels))


def average_loss(data: Set, rate: float | None) -> float:
    """The average loss of one pass of SGD, each row predicted before its label is used.

    Args:
        data: the rows.
        rate: the learning rate, which stays the same; None for what scikit-learn does by default.

    >>> coins = Set("", "", np.ones((40, 1)), np.arange(40.0) % 2.0, 2)
    >>> average_loss(coins, 0.1) < average_loss(coins, 10.0)
    True
    """
    from sklearn import config_context
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    options: dict[str, Any] = {} if rate is None else {"learning_rate": "constant", "eta0": rate}
    if data.classes:
        model: Any = SGDClassifier(loss="log_loss", random_state=0, **options)
        known = {"classes": np.arange(data.classes, dtype=float)}
    else:
        model, known = SGDRegressor(random_state=0, **options), {}
    x, size, paid = standardised(data.x), max(1, len(data.y) // 250), []
    first: Any = np.full((size, data.classes), 1.0 / data.classes) if data.classes else np.zeros(size)
    # Settings are right, and checking them again for every row would take longer than learning.
    with config_context(skip_parameter_validation=True), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # numbers that overflow at high rates are what is shown
        for begin in range(0, len(x), size):
            rows, labels = x[begin : begin + size], data.y[begin : begin + size]
            answers = first if begin == 0 else model.predict_proba(rows) if data.classes else model.predict(rows)
            paid.append(losses(data, np.asarray(answers), labels, data.y[:begin]))
            try:
                model.partial_fit(rows, labels, **known)
            except ValueError:  # the weights have overflown: no further answers
                rest, nothing = data.y[begin + len(labels) :], [np.nan] * max(1, data.classes)
                answers = np.array([nothing] * len(rest)) if data.classes else np.full(len(rest), np.nan)
                paid.append(losses(data, answers, rest, data.y))
                break
    return float(np.concatenate(paid).mean())
