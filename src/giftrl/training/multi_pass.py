"""A training run of several passes: held-out rows, the loss on them after each pass, and the best learner."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config.early_stopping import EarlyStopping, held_out
from giftrl.streams.batch import Batch, Position
from giftrl.training.model import LaterPassCounts, LinearModel, pack, under, unpack
from giftrl.training.predictions import Evaluation

#: The stored arrays of held-out batches.
KEPT_ARRAYS = ("data", "indices", "indptr", "labels", "weights", "lines", "bases")


def joined(batches: list[Batch]) -> Batch:
    """Concatenate batches, with the name of the first source."""
    if len(batches) == 1:
        return batches[0]
    sizes = np.cumsum([0, *(batch.nonzeros for batch in batches)])
    parts: dict[str, Any] = {name: [getattr(batch, name) for batch in batches] for name in KEPT_ARRAYS}
    ends = [indptr[1:] + size for indptr, size in zip(parts["indptr"], sizes[:-1], strict=True)]
    parts["indptr"] = [np.zeros(1, np.int64), *ends]
    if any(len(batch.bases) for batch in batches):
        parts["bases"] = [batch.bases if len(batch.bases) else np.zeros(len(batch)) for batch in batches]
    whole: dict[str, Any] = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return Batch(source=batches[0].source, **whole, groups=np.empty(0, np.uint8), end=Position())


class MultiPass:
    """Holds out rows, evaluates each pass on them, and keeps the best learner.

    Args:
        model: the model; at the end its learner is replaced by the best one.
        interval: hold out one of this many rows; 0 for none.

    Attributes:
        rows: number of rows held out.
        passes: the passes so far, with the loss after each.
    """

    def __init__(self, model: LinearModel, interval: int) -> None:
        self.model = model
        self.fraction = 1.0 / interval if interval else 0.0
        self.rows = self._row = 0  # held-out rows, and rows read in this pass
        self.passes = EarlyStopping([model.learner], self._validate if interval else None)
        self._held: list[Batch] = []
        self._repeated: list[LaterPassCounts] = []  # after each pass

    def split(self, batch: Batch) -> tuple[Batch, Batch]:
        """Split a batch into training and held-out rows."""
        held = held_out(self._row, len(batch), self.fraction) & (batch.weights > 0.0)
        self._row += len(batch)
        held_batch = batch.only(held)
        if not held.any():
            return batch, held_batch
        if self.passes.done == 0:
            self._held.append(held_batch)
            self.rows += len(held_batch)
        return batch.only(~held), held_batch

    def end(self) -> bool:
        """End a pass; returns True if another pass may help."""
        self._row = 0
        self._repeated.append(self.model.repeated)
        if self.rows == 0:
            self.passes.validate = None
        return self.passes.end()

    def finish(self) -> None:
        """Keep the best learner, and train it on the held-out rows."""
        self.model.keep(self.passes.result()[0], self._repeated[self.passes.kept - 1])
        for batch in self._held:
            self.model.learn_late(batch)

    def _validate(self, learners: list[Any]) -> float:
        self._held = [joined(self._held)]
        evaluation = Evaluation(self.model)
        evaluation.add(self._held[0], self.model.few_scores(self._held[0], learners[0]))
        return evaluation.average_loss

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain values and arrays for a checkpoint."""
        arrays = {}
        if self._held:
            self._held = [joined(self._held)]
            arrays = {f"held.{name}": getattr(self._held[0], name) for name in KEPT_ARRAYS}
        if self.passes.best:
            best = pack(self.passes.best[0], self.model.features.dimension)
            arrays |= {f"best.{name}": array for name, array in best.items()}
        plain = {
            "row": self._row, "done": self.passes.done, "kept": self.passes.kept, "losses": self.passes.losses,
            "source": self._held[0].source if self._held else "",
            "repeated": [list(counts) for counts in self._repeated],
        }  # fmt: skip
        return plain, arrays

    def restore(self, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Resume from a state."""
        self._row, self.passes.done = int(plain["row"]), int(plain["done"])
        self.passes.kept, self.passes.losses = int(plain["kept"]), [float(loss) for loss in plain["losses"]]
        self._repeated = [LaterPassCounts(*counts) for counts in plain["repeated"]]
        held = under(arrays, "held.")
        if held:
            named: dict[str, Any] = {name: held[name] for name in KEPT_ARRAYS}
            batch = Batch(source=str(plain["source"]), **named, groups=np.empty(0, np.uint8), end=Position())
            self._held, self.rows = [batch], len(batch)
        best = under(arrays, "best.")
        if best:
            dimension, settings = self.model.features.dimension, self.model.settings
            learner = settings.make_learner(dimension, self.model.features.constant if settings.constant else None)
            learner.restore(unpack(learner, dimension, best))
            self.passes.best = [learner]
