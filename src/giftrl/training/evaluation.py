"""The loss of predictions on rows that have labels."""

import numpy as np
from numpy.typing import NDArray

from giftrl.recipes.evaluation import as_they_count, losses_of
from giftrl.streams.batch import Batch
from giftrl.training.model import LinearModel


class Evaluation:
    """The mean loss of a model's predictions, by weight, over the rows whose labels the loss accepts.

    Args:
        model: whose predictions they are.

    >>> from giftrl.streams.names.features import Hashing
    >>> from giftrl.streams.batch import Position
    >>> from giftrl.streams.text.libsvm import LibsvmText
    >>> from giftrl.training import Settings
    >>> evaluation = Evaluation(LinearModel(Settings(loss="squared", bits=4)))
    >>> rows = LibsvmText(Hashing(4), compiled=False).parse(b"3 1:1\\n5 2:1\\n", "a", Position())
    >>> evaluation.add(rows, np.array([2.0, 2.0]))
    >>> evaluation.rows, evaluation.average_loss
    (2, 2.5)
    """

    def __init__(self, model: LinearModel) -> None:
        self.model = model
        self.rows = 0
        self.strange = 0  # rows whose label the loss does not accept
        self.weight = 0.0
        self.loss_sum = 0.0

    def add(self, batch: Batch, scores: NDArray[np.float64]) -> None:
        """Add rows and their scores; rows without a label that the loss accepts do not count."""
        settings = self.model.settings
        there = ~np.isnan(batch.labels)
        good = there.copy()
        good[there] = settings.accepts(batch.labels[there])
        self.strange += int(np.count_nonzero(there & ~good))
        labels, weights = settings.mapped(batch.labels[good]), batch.weights[good]
        learner = self.model.learner
        losses = losses_of(learner.loss, as_they_count([learner], scores[good]), labels)
        self.rows += len(labels)
        self.weight += float(weights.sum())
        self.loss_sum += float(weights @ losses)

    @property
    def average_loss(self) -> float:
        """The mean loss; NaN where no row counted."""
        return self.loss_sum / self.weight if self.weight > 0.0 else float("nan")
