"""Predictors: frozen weights, clipping, the link from scores to predictions, and losses."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.compiled.compiler import ready
from giftrl.compiled.registry import formula
from giftrl.compiled.rows import CSR
from giftrl.config.recipe import Labels, Mixture
from giftrl.losses import Logistic, Poisson, Softmax
from giftrl.mixtures import MixtureLearner
from giftrl.ops.loss import accepts, value
from giftrl.ops.vector_loss import multiclass

Array = NDArray[np.float64]
#: Scores of exponential links are clipped here, so that means are finite.
LARGEST_LOG = 709.0


class Link(StrEnum):
    """The link from scores (a row per example, a column per model or class) to predictions."""

    IDENTITY = "identity"  # a score is a prediction, or its sign or the largest of a row is one
    SIGMOID = "sigmoid"  # a score is the log-odds of a class against the rest
    SOFTMAX = "softmax"  # scores are logarithms of probabilities that are yet to be scaled
    EXP = "exp"  # a score is the logarithm of the mean

    @property
    def probable(self) -> bool:
        """True if the link gives probabilities."""
        return self in (Link.SIGMOID, Link.SOFTMAX)

    def means(self, scores: Any) -> Any:
        """Mean predictions."""
        return np.exp(np.minimum(scores, LARGEST_LOG)) if self is Link.EXP else scores

    def probabilities(self, scores: Array) -> Array:
        """The probability of each class; one-vs-rest probabilities are scaled to sum to 1."""
        if self is Link.SOFTMAX:
            return softmax(scores)
        if scores.shape[1] == 1:
            return np.column_stack([sigmoid(-scores), sigmoid(scores)])
        single = sigmoid(scores)
        # If all probabilities underflow, the class with the largest score gets 1.
        total = single.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0.0, single / np.where(total > 0.0, total, 1.0), softmax(scores)))


def link_of(loss: Any) -> Link:
    """The link of a loss."""
    links = {Logistic: Link.SIGMOID, Softmax: Link.SOFTMAX, Poisson: Link.EXP}
    return next((link for kind, link in links.items() if isinstance(loss, kind)), Link.IDENTITY)


def range_of(learner: Any, clip: bool | None = True) -> tuple[float, float]:
    """The range of predictions of a learner of one score; finite for mixtures only. If ``clip`` is None, it is finite
    only if clipping clearly reduced the progressive loss.
    """
    if isinstance(learner, MixtureLearner) and (learner.clipping_pays if clip is None else clip):
        return learner.range
    return -math.inf, math.inf


class Predictor(NamedTuple):
    """A frozen linear model: small, picklable and independent of its learner.

    Scores are ``x @ weights + constants``, clipped to [low, high], with a column for each model or class.

    Args:
        weights: a row for each feature, a column for each score; dense, or a SciPy CSR array.
        constants: the intercept of each score.
        low, high: the range of each score.
        link: the link from scores to predictions.
        labels: the labels of the classes; None if predictions are numbers.

    >>> model = Predictor(np.array([[1.0], [-2.0]]), np.zeros(1), np.full(1, -3.0), np.full(1, 3.0), Link.EXP)
    >>> scores = model.scores(np.array([[1.0, 1.0], [9.0, 0.0]]))
    >>> scores.tolist(), model.link.means(scores).round(3).tolist()
    ([[-1.0], [3.0]], [[0.368], [20.086]])
    """

    weights: Any
    constants: Array
    low: Array
    high: Array
    link: Link
    labels: Labels | None = None

    def scores(self, x: Any) -> Array:
        """The scores of rows, a column per model or class.

        Args:
            x: a matrix, sparse or dense; or :class:`giftrl.compiled.rows.CSR` rows of a stream, in which features
            unknown to the model are ignored.
        """
        scores = _stream_scores(x, self.weights) if isinstance(x, CSR) else x @ self.weights
        if hasattr(scores, "toarray"):
            scores = scores.toarray()
        scores = np.asarray(scores + self.constants, dtype=np.float64)
        clipped = np.isfinite(self.low).any() or np.isfinite(self.high).any()
        return np.clip(scores, self.low, self.high) if clipped else scores


def freeze(
    learners: Sequence[Any],
    *,
    intercept: bool = False,
    clip: bool | None = True,
    labels: Labels | None = None,
    features: Any = slice(None),
) -> Predictor:
    """The predictor of what learners have learned so far.

    Args:
        learners: learners with the same loss and features; their columns of weights are concatenated.
        intercept: True if the last feature is the constant, which new rows lack.
        clip: True to clip scores to the range of the labels seen, False not to, None to clip if that reduced the
        progressive loss.
        labels: the labels of the classes.
        features: the features of new rows, by number; default: all.

    >>> learner = MixtureLearner(1, "squared", compiled=False)
    >>> _ = learner.learn([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])
    >>> freeze([learner]).scores(np.array([[100.0], [-100.0]])).tolist()
    [[3.0], [1.0]]
    """
    weights = np.column_stack([learner.weights_of(features) for learner in learners])
    columns = weights.shape[1]
    ranges = [range_of(learner, clip) for learner in learners]
    low, high = (np.broadcast_to(each, columns) for each in np.array(ranges).T)
    constants = weights[-1] if intercept else np.zeros(columns)
    return Predictor(weights[:-1] if intercept else weights, constants, low, high, link_of(learners[0].loss), labels)


def _stream_scores(rows: CSR, weights: Array) -> Array:
    known = rows.indices < len(weights)
    products = rows.data[:, None] * np.where(known[:, None], weights[np.where(known, rows.indices, 0)], 0.0)
    scores = np.zeros((len(rows.indptr) - 1, weights.shape[1]))
    filled = np.diff(rows.indptr) > 0
    if filled.any():
        scores[filled] = np.add.reduceat(products, rows.indptr[:-1][filled])
    return scores


def sigmoid(scores: Array) -> Array:
    """1 / (1 + e^-s), accurate in both tails."""
    e = np.exp(-np.abs(scores))
    return np.asarray(np.where(scores >= 0.0, 1.0, e) / (1.0 + e))


def softmax(scores: Array) -> Array:
    """e^s of each score, scaled to sum 1 in each row."""
    parts = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))


#: With fewer rows, plain Python is faster than loading the compiled loop.
MAX_PLAIN_LOSSES = 5_000


@formula
def fill_losses(loss: Any, scores: Any, labels: Any, out: Any) -> None:
    """The loss of each score, or of each row of scores."""
    for i in range(len(labels)):
        out[i] = value(loss, scores[i], labels[i])


def clip_as_in_training(learners: Sequence[Any], scores: Array) -> Array:
    """Clip class scores as mixtures do in training: a hinge loss needs a margin of 1 only.

    ``learners`` has one learner per column of the scores, or one for all. Other predictions are unchanged.
    """
    if accepts(learners[0].loss, 0.5) or not isinstance(learners[0], Mixture):
        return scores
    if len(learners) == 1:
        return np.asarray(learners[0].clip(scores))
    return np.column_stack([learner.clip(scores[:, k]) for k, learner in enumerate(learners)])


def losses_of(loss: Any, scores: Array, labels: Array) -> Array:
    """The loss of each row of scores; the mean over the columns if each score has a label of its own.

    >>> from giftrl.losses import Squared
    >>> losses_of(Squared(), np.array([[2.0, 1.0]]), np.array([[3.0, 3.0]])).tolist()
    [1.25]
    """
    fill = ready(fill_losses, len(labels) > MAX_PLAIN_LOSSES)
    out = np.empty(len(labels))
    if multiclass(loss):
        fill(loss, scores, labels.astype(np.int64), out)
        return out
    total, columns = np.zeros(len(labels)), [np.atleast_2d(each.T) for each in (scores, labels)]
    for given, own in zip(*columns, strict=True):
        fill(loss, np.ascontiguousarray(given), np.ascontiguousarray(own), out)
        total += out
    return total / len(columns[0])
