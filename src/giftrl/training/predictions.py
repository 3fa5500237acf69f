"""Predictions for a stream: text output, their loss, and audits of single rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config import Predictor
from giftrl.config.predictor import clip_as_in_training, losses_of
from giftrl.streams.batch import Batch
from giftrl.streams.names.features import Features, Hashing
from giftrl.training.model import LinearModel

#: Characters that would break lines or columns.
ESCAPED = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


def shown(answer: float | str) -> str:
    """Format a number or a label."""
    return answer.translate(ESCAPED) if isinstance(answer, str) else f"{answer:.9g}"


def lines_of(batch: Batch, answers: NDArray[Any], between: str = " ") -> bytes:
    """A line for each row of a batch: its predictions and its tag, if any; nan for a skipped row.

    Args:
        batch: the rows.
        answers: one number or label for each row, or several.
        between: the separator.

    >>> from giftrl.streams.batch import Position
    >>> from giftrl.streams.names.features import Hashing
    >>> from giftrl.streams.text.libsvm import LibsvmText
    >>> batch = LibsvmText(Hashing(4), compiled=False).parse(b"1 1:1\\n-1 x\\n1 2:1\\n", "a", Position())
    >>> lines_of(batch, np.array([0.5, 2.0]))
    b'0.5\\nnan\\n2\\n'
    """
    lines = [between.join(map(shown, row)) for row in np.atleast_2d(answers.T).T.tolist()]
    if batch.tags:
        lines = [f"{line}{between}{tag}".rstrip() for line, tag in zip(lines, batch.tags, strict=True)]
    if batch.rejected:
        bad = [each.line for each in batch.rejected]
        where = np.concatenate([batch.lines, bad]).argsort(kind="stable")
        lines = [(lines + ["nan"] * len(bad))[k] for k in where]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


class Evaluation:
    """The mean loss of a model's predictions, by weight, over the rows whose labels the loss accepts."""

    def __init__(self, model: LinearModel) -> None:
        self.model = model
        self.rows = self.strange = 0  # numbers of valid and of other labels
        self.weight = self.loss_sum = 0.0

    def add(self, batch: Batch, scores: NDArray[np.float64]) -> None:
        """Add rows and their scores; rows without a valid label are ignored."""
        settings = self.model.settings
        there = ~np.isnan(batch.labels)
        good = there.copy()
        good[there] = settings.accepts(batch.labels[there])
        self.strange += int(np.count_nonzero(there & ~good))
        labels, weights = settings.mapped(batch.labels[good]), batch.weights[good]
        learner = self.model.learner
        losses = losses_of(learner.loss, clip_as_in_training([learner], scores[good]), labels)
        self.rows += len(labels)
        self.weight += float(weights.sum())
        self.loss_sum += float(weights @ losses)

    @property
    def average_loss(self) -> float:
        """The mean loss; NaN if no row counted."""
        return self.loss_sum / self.weight if self.weight > 0.0 else float("nan")


AUDIT_COLUMNS = ("feature", "coordinate", "value", "weight", "contribution")


class Audit:
    """Blocks of text that explain predictions, one for each row, read with ``features``.

    A block has the place and the tag of its row; a line for each feature, with the columns :data:`AUDIT_COLUMNS`
    between tabs, the largest contributions first; the base of the row, if it has one; the score, which is the sum of
    all contributions; and the prediction. A contribution is the value times the weight. With several classes, weights
    and contributions are those of the predicted class. Names on one coordinate are one feature, shown by the first.
    """

    def __init__(self, model: LinearModel) -> None:
        self.model = model
        self.predictor: Predictor = model.freeze()
        known = model.features
        known.freeze()
        # For hashed names, show the row's own names if known, not colliding names of the training data.
        self.features: Features = Hashing(known.bits) if isinstance(known, Hashing) else known
        self._named: dict[int, tuple[str, float]] = {}

    def blocks(self, batch: Batch, answers: NDArray[Any]) -> Iterator[str]:
        """The block of each row of a batch with its prediction; nan for a row that was skipped."""
        skipped = [(each.line, f"{batch.source}:{each.line}\nprediction\tnan\n") for each in batch.rejected]
        for row, line in enumerate(batch.lines.tolist()):
            while skipped and skipped[0][0] < line:
                yield skipped.pop(0)[1]
            yield self._block(batch, row, np.atleast_1d(answers[row]))
        for _, block in skipped:
            yield block

    def _block(self, batch: Batch, row: int, answers: NDArray[Any]) -> str:
        entries = slice(batch.indptr[row], batch.indptr[row + 1])
        slots, values, weights = batch.indices[entries], batch.data[entries], np.asarray(self.predictor.weights)
        of = np.zeros((len(slots), weights.shape[1]))
        known = slots < len(weights)
        of[known] = weights[slots[known]]
        parts = values[:, None] * of
        best = int(parts.sum(axis=0).argmax())
        added = parts[:, best]
        lines = [f"{batch.source}:{batch.lines[row]} {batch.tags[row] if batch.tags else ''}".rstrip()]
        lines.append("\t".join(AUDIT_COLUMNS))
        for k in np.argsort(-np.abs(added), kind="stable").tolist():
            name, sign = self._name(int(slots[k]))
            numbers = (float(each) + 0.0 for each in (sign * values[k], sign * of[k, best], added[k]))  # no -0
            lines.append("\t".join([name, str(slots[k]), *(f"{each:.9g}" for each in numbers)]))
        base = float(batch.bases[row]) if len(batch.bases) else 0.0
        if base:
            lines.append(f"(base)\t\t{base:.9g}\t1\t{base:.9g}")
        lines.append(f"score\t{float(added.sum()) + base + 0.0:.9g}")
        lines.append("prediction\t" + " ".join(map(shown, answers.tolist())))
        return "\n".join(lines) + "\n"

    def _name(self, slot: int) -> tuple[str, float]:
        """The name of a coordinate, and the sign of its values."""
        if slot not in self._named:
            for features in (self.features, self.model.features):
                if (name := features.name(slot)) is not None:
                    self._named[slot] = name.translate(ESCAPED), features.sign(slot)
                    break
            else:
                self._named[slot] = f"#{slot}", 1.0
        return self._named[slot]
