"""giftrl without settings, beside scikit-learn's SGD at every learning rate, on one data set.

SGD gets features that were standardised with the means and deviations of **all** rows, which a stream does not have.
That is in its favour. ``partial_fit`` takes a millisecond a call, so each call gets one in 250 of the rows, predicts
them, and then learns from them one by one: a prediction misses at most 0.4% of the rows.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.samples import LOADERS, SAMPLES, load
from giftrl.sweeps.data import standard

Array = NDArray[np.float64]

#: The data sets, by the names of ``giftrl demo``.
TOUR_NAMES = tuple(LOADERS)
#: The learning rates, half a decade apart.
SGD_RATES = tuple(float(f"{10.0 ** (k / 2):.2g}") for k in range(-6, 3))
#: The number of steps of a comparison.
COMPARISON_STEPS = 3 + len(SGD_RATES)
#: The time for the certificates of one data set, in seconds.
CERTIFICATE_SECONDS = 4.0
#: A learning rate is good if its loss exceeds that of giftrl by at most this share.
GOOD_SHARE = 0.1
#: The lowest probability that counts, as wrong certainty would cost an infinite loss.
MIN_PROBABILITY = 1e-6


class Task(NamedTuple):
    """A data set in memory: its name, the task in words, features, labels, and the number K of classes.

    Labels are the classes 0, ..., K - 1; or real numbers if K is 0.
    """

    name: str
    question: str
    x: Array
    y: Array
    classes: int

    @property
    def loss(self) -> str:
        """The loss in words."""
        return "minus the log-probability of the right class" if self.classes else "half the squared error"


def read(name: str) -> Task:
    """A data set by its name, in a fixed random order.

    >>> cancer = read("cancer")
    >>> cancer.x.shape, cancer.classes
    ((569, 30), 2)
    """
    table = load(LOADERS[name])
    order = np.random.default_rng(0).permutation(len(table.target))
    x, y = (np.asarray(part, dtype=np.float64)[order] for part in (table.data, table.target))
    return Task(name, SAMPLES[name].what, x, y, len(getattr(table, "target_names", ())))


class Comparison(NamedTuple):
    """The average losses of one pass over a data set.

    >>> one = Comparison(None, 1.0, "", 0.5, 3.0, (2.0, 0.8) + 7 * (4.0,))
    >>> one.best, one.good
    ((0.0032, 0.8), 1)
    """

    data: Task
    ours: float  # the loss of giftrl
    proof: str  # its certificate in words
    bound: float  # a lower bound on the loss of every linear model of its size; NaN if nothing was proved
    default: float  # the loss of SGD with its defaults
    swept: tuple[float, ...]  # the losses of SGD at each of the rates

    @property
    def best(self) -> tuple[float, float]:
        """The best rate in hindsight, and its loss."""
        loss, rate = min(zip(self.swept, SGD_RATES, strict=True))
        return rate, loss

    @property
    def good(self) -> int:
        """The number of good rates."""
        return sum(loss <= (1.0 + GOOD_SHARE) * self.ours for loss in self.swept)


def compare(data: Task, tell: Callable[[str], None]) -> Comparison:
    """Run giftrl and SGD over a data set; ``tell`` is called before each of :data:`COMPARISON_STEPS` steps."""
    from giftrl.linear import FTRLClassifier, FTRLRegressor

    tell(f"{data.name}: giftrl, nothing set")
    model = (FTRLClassifier if data.classes else FTRLRegressor)(shuffle=False).fit(data.x, data.y)
    tell(f"{data.name}: the certificate")
    certificate: Any = model.certificate_
    best = certificate.best_loss(1.0, 0.7 * CERTIFICATE_SECONDS)
    if not best.lower_bound > best.least:  # compiling may have taken the time
        best = certificate.best_loss(1.0, 0.7 * CERTIFICATE_SECONDS)
    larger = certificate.best_loss(10.0, 0.3 * CERTIFICATE_SECONDS)
    bound = best.average if best.lower_bound > best.least else math.nan
    tell(f"{data.name}: SGD with its defaults")
    default, swept = average_loss(data, None), []
    for rate in SGD_RATES:
        tell(f"{data.name}: SGD at learning rate {rate:g}")
        swept.append(average_loss(data, rate))
    return Comparison(data, float(model.average_loss_), best.in_words(larger), bound, default, tuple(swept))


def losses(classes: int, answers: Array, labels: Array, seen: Array) -> Array:
    """The loss of each answer: probabilities of K classes; or numbers, clipped to the range of the labels seen.

    >>> losses(2, np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0.0, 1.0]), np.zeros(0)).round(3).tolist()
    [0.693, 13.816]
    """
    if classes:
        finite = np.isfinite(answers).all(axis=1, keepdims=True)
        right = np.where(finite, answers, 1.0 / classes)[np.arange(len(labels)), labels.astype(int)]
        return np.asarray(-np.log(np.clip(right, MIN_PROBABILITY, 1.0)))
    answers = np.where(np.isfinite(answers), answers, 0.0)
    clipped = np.clip(answers, seen.min(), seen.max()) if len(seen) else answers
    return np.asarray(0.5 * np.square(clipped - labels))


def average_loss(data: Task, rate: float | None) -> float:
    """The average loss of one pass of SGD, each row predicted before its label is used.

    Args:
        data: the rows.
        rate: the constant learning rate; None for scikit-learn's default schedule.

    >>> coins = Task("", "", np.ones((40, 1)), np.arange(40.0) % 2.0, 2)
    >>> average_loss(coins, 0.1) < average_loss(coins, 10.0)
    True
    """
    from sklearn import config_context
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    options: dict[str, Any] = {} if rate is None else {"learning_rate": "constant", "eta0": rate}
    classes, known = data.classes, {"classes": np.arange(data.classes, dtype=float)} if data.classes else {}
    model: Any = SGDRegressor(random_state=0, **options)
    if classes:
        model = SGDClassifier(loss="log_loss", random_state=0, **options)
    x, size, paid = standard(data.x), max(1, len(data.y) // 250), []
    answers = np.full((size, classes), 1.0 / classes) if classes else np.zeros(size)
    # The settings are valid, and checking them for every row would take longer than learning.
    with config_context(skip_parameter_validation=True), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # overflow at high rates is a result here
        for begin in range(0, len(x), size):
            rows, labels = x[begin : begin + size], data.y[begin : begin + size]
            if begin:
                answers = model.predict_proba(rows) if classes else model.predict(rows)
            paid.append(losses(classes, answers, labels, data.y[:begin]))
            try:
                model.partial_fit(rows, labels, **known)
            except ValueError:  # the weights have overflown: there are no further answers
                rest = data.y[begin + len(labels) :]
                nothing = np.full((len(rest), classes) if classes else len(rest), np.nan)
                paid.append(losses(classes, nothing, rest, data.y))
                break
    return float(np.concatenate(paid).mean())
