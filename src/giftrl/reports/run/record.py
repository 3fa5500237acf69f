"""What is kept of the predictions of a run, each made before its label was used: sums and counts in bins.

Memory does not grow with the rows.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config.predictor import link_of, losses_of
from giftrl.ops.vector_loss import multiclass
from giftrl.reports.run.bins import packed, unpacked
from giftrl.reports.run.confusion import Confusion
from giftrl.reports.run.curve import Curve
from giftrl.reports.run.ranking import Ranking
from giftrl.reports.run.residuals import Residuals
from giftrl.reports.run.shares import Shares

Array = NDArray[np.float64]

#: So many rows are added at a time.
CHUNK = 1 << 16
#: Of so many columns of real labels there are figures.
TARGETS = 3


class Record:
    """The learning curve of a run, the shares of its experts, and how its predictions compare with labels.

    Args:
        loss: of the run.
        names: those of the classes; none where labels are numbers.
        start: how many rows were learnt before.

    Attributes:
        curve, shares: by the number of rows.
        ranking: of the scores of two classes; of K classes, how often the predicted class was right.
        confusion: of K classes, or None.
        residuals: of each column of real labels.

    >>> from giftrl.losses import Logistic
    >>> record = Record(Logistic(), ("no", "yes"))
    >>> record.add(np.array([0.5, -0.5, 2.0]), np.array([1.0, -1.0, -1.0]), np.ones(3))
    >>> record.settle()
    >>> record.ranking.auc, record.curve.rows
    (0.5, 3)
    """

    def __init__(self, loss: Any, names: tuple[str, ...] = (), start: int = 0) -> None:
        self.loss = loss
        self.names = names
        self.curve = Curve(start)
        self.shares = Shares()
        self.link = link_of(loss)
        many = len(names) > 2 or multiclass(loss)
        self.ranking = Ranking() if names and (self.link.probable or not many) else None
        self.confusion = Confusion(len(names)) if many else None
        self.residuals: list[Residuals] = []
        self._waiting: list[tuple[Array, Array, Array, Array]] = []
        self._rows = 0

    @property
    def parts(self) -> dict[str, Any]:
        """Everything that has arrays, by name."""
        found: dict[str, Any] = {"curve": self.curve, "ranking": self.ranking, "confusion": self.confusion}
        found |= {f"residuals{k}": each for k, each in enumerate(self.residuals)}
        return {name: part for name, part in found.items() if part is not None}

    def add(self, scores: Array, labels: Array, weights: Array, standing_for: Array | None = None) -> None:
        """Add the next rows; the arrays must stay as they are until :meth:`settle`.

        Args:
            scores: as the learner gave them before it saw the labels; with a column for each class or target.
            labels: of the loss: numbers, -1 and +1, or the numbers of classes; columns of these where each column of
                scores has a loss of its own.
            weights: of the rows.
            standing_for: how many rows of the run each row stands for; None for 1.
        """
        self._waiting.append((scores, labels, weights, np.ones(len(weights)) if standing_for is None else standing_for))
        self._rows += len(weights)
        if self._rows >= CHUNK:
            self.settle()

    def settle(self) -> None:
        """Add to the bins what waits."""
        if not self._rows:
            return
        scores, labels, weights, standing_for = (np.concatenate(each) for each in zip(*self._waiting, strict=True))
        self._waiting, self._rows = [], 0
        self.curve.add(losses_of(self.loss, scores, labels), weights, standing_for)
        weights = weights * standing_for
        if not weights.all():
            there = weights > 0.0
            scores, labels, weights = scores[there], labels[there], weights[there]
        if not len(weights):
            return
        if self.confusion is not None:
            self._add_classes(self.confusion, scores, labels, weights)
        elif self.ranking is not None:
            scores, labels = scores.reshape(len(weights), -1)[:, 0], labels.reshape(len(weights), -1)[:, 0]
            chances = self.link.probabilities(scores[:, None])[:, 1] if self.link.probable else None
            self.ranking.add(scores, labels > 0.0, weights, chances)
        else:
            means, labels = self.link.means(scores.reshape(len(weights), -1)), labels.reshape(len(weights), -1)
            self.residuals = self.residuals or [Residuals() for _ in range(min(TARGETS, labels.shape[1]))]
            for k, each in enumerate(self.residuals):
                each.add(means[:, k], labels[:, k], weights)

    def _add_classes(self, confusion: Confusion, scores: Array, labels: Array, weights: Array) -> None:
        """Add rows of K classes, by the number of the class or with a column of -1 and +1 for each."""
        codes = labels.argmax(axis=1) if labels.ndim == 2 else labels.astype(np.int64)
        predicted = scores.argmax(axis=1)
        confusion.add(codes, predicted, weights)
        if self.ranking is not None:
            chances = self.link.probabilities(scores)[np.arange(len(scores)), predicted]
            with np.errstate(divide="ignore"):
                odds = np.log(chances) - np.log1p(-chances)
            self.ranking.add(odds, codes == predicted, weights, chances)

    def watch(self, trainer: Any, batch: Any, first: int, last: int, predictions: Array) -> None:
        """Add a piece of a batch that a :class:`giftrl.training.Trainer` has learnt; of the first pass alone."""
        if trainer.passes_done > 0:
            return
        model = trainer.model
        labels = model.settings.mapped(batch.labels[first:last])
        self.add(predictions, labels, batch.weights[first:last])
        if model.settings.auto:
            self.shares.note(model.examples, lambda: model.learner.experts)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays from which :meth:`restore` goes on, for a checkpoint."""
        self.settle()
        state: dict[str, NDArray[Any]] = {"shares": self.shares.state()}
        for name, part in self.parts.items():
            for key, array in part.arrays.items():
                state |= {f"{name}.{key}.{how}": each for how, each in packed(array).items()}
        return state

    def restore(self, state: Mapping[str, NDArray[Any]], rows: int) -> None:
        """Go on from a state of a record of the same loss and names; without one, begin after so many rows."""
        if not state:
            self.curve = Curve(rows)
            return
        self.shares.restore(state["shares"])
        while (anchors := f"residuals{len(self.residuals)}.anchors") + ".where" in state:
            self.residuals.append(Residuals())
            self.residuals[-1].shaped(_unpack(state, anchors, np.zeros(3)))
        for name, part in self.parts.items():
            for key, array in part.arrays.items():
                part.arrays[key] = _unpack(state, f"{name}.{key}", array)


def _unpack(state: Mapping[str, NDArray[Any]], name: str, like: Array) -> Array:
    return unpacked({how: state[f"{name}.{how}"] for how in ("where", "counts")}, like.shape)
