"""The course of a run over several passes: rows held out, the loss on them after each pass, and the best learner."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.config.early_stopping import Passes
from giftrl.errors import GiftrlError, ModelFileError
from giftrl.streams.batch import Batch, Position
from giftrl.training.model import LaterPassCounts, LinearModel, pack, under, unpack
from giftrl.training.predictions import Evaluation

#: From this row on fewer are held out, so that those kept in memory grow with the logarithm of the data.
FIRST = 1 << 16
#: What is kept of rows held out.
KEPT = ("data", "indices", "indptr", "labels", "weights", "lines", "bases")


def held_rows(first: int, rows: int, every: int) -> NDArray[np.bool_]:
    """Which rows of a pass are held out: of each ``every`` rows the last, then of twice as many, and so on.

    The interval doubles at row 65,536, at row 131,072 and at each further power of two.

    Args:
        first: the number of the first row, from 0.
        rows: how many there are.
        every: 0 for none.

    >>> np.flatnonzero(held_rows(5, 20, 10)).tolist(), int(held_rows(0, 1 << 18, 10).sum())
    ([4, 14], 13107)
    """
    if every == 0:
        return np.zeros(rows, np.bool_)
    number = np.arange(first, first + rows)
    _, exponent = np.frexp(number // FIRST)  # 0 below FIRST, and one more after each power of two
    return np.asarray((number + 1) % (every << exponent.astype(np.int64)) == 0)


def joined(batches: list[Batch]) -> Batch:
    """The rows of batches as one, under the name of the first source."""
    if len(batches) == 1:
        return batches[0]
    sizes = np.cumsum([0, *(batch.nonzeros for batch in batches)])
    parts: dict[str, Any] = {name: [getattr(batch, name) for batch in batches] for name in KEPT}
    parts["indptr"] = [
        np.zeros(1, np.int64),
        *(part[1:] + size for part, size in zip(parts["indptr"], sizes[:-1], strict=True)),
    ]
    if any(len(batch.bases) for batch in batches):
        parts["bases"] = [batch.bases if len(batch.bases) else np.zeros(len(batch)) for batch in batches]
    whole: dict[str, Any] = {name: np.concatenate(each) for name, each in parts.items()}
    return Batch(source=batches[0].source, **whole, groups=np.empty(0, np.uint8), end=Position())


class Course:
    """Says which rows are held out, judges each pass by them, and keeps the best learner.

    Args:
        model: that learns; its learner is replaced by the best when the passes are over.
        every: how many rows there are to one that is held out; 0 for none.

    Attributes:
        rows: how many rows were held out.
        passes: the passes so far, with the loss after each.
    """

    def __init__(self, model: LinearModel, every: int) -> None:
        self.model = model
        self.every = every
        self.rows = 0
        self.passes = Passes([model.learner], self._validate if every > 0 else None)
        self._held: list[Batch] = []
        self._row = 0  # of the pass
        self._repeated: list[LaterPassCounts] = []  # after each pass

    def begin(self) -> None:
        """Begin a pass, or go on with it."""
        self.passes.begin()

    def split(self, batch: Batch) -> tuple[Batch, Batch]:
        """The rows of a batch that are learnt, and those that are held out."""
        held = held_rows(self._row, len(batch), self.every) & (batch.weights > 0.0)
        self._row += len(batch)
        if not held.any():
            return batch, batch.only(held)
        apart = batch.only(held)
        if self.passes.done == 0:
            self._held.append(apart)
            self.rows += len(apart)
        return batch.only(~held), apart

    def end(self) -> bool:
        """End a pass; whether another one may help."""
        self._row = 0
        self._repeated.append(self.model.repeated)
        if self.rows == 0:
            self.passes.validate = None
        return self.passes.end()

    def finish(self) -> None:
        """Keep the best learner; it learns the rows that were held out."""
        model, passes = self.model, self.passes
        best, repeated = passes.result()[0], self._repeated[passes.kept - 1] if self._repeated else model.repeated
        model.keep(best, repeated)
        for batch in self._held:
            model.learn_late(batch)

    def _validate(self, learners: list[Any]) -> float:
        self._held = [joined(self._held)]
        judged = Evaluation(self.model)
        judged.add(self._held[0], self.model.few_scores(self._held[0], learners[0]))
        return judged.average_loss

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a checkpoint keeps of it: plain values, and arrays."""
        arrays = {}
        if self._held:
            self._held = [joined(self._held)]
            arrays = {f"held.{name}": getattr(self._held[0], name) for name in KEPT}
        if self.passes.best:
            best = pack(self.passes.best[0], self.model.features.dimension)
            arrays |= {f"best.{name}": array for name, array in best.items()}
        plain = {
            "row": self._row, "done": self.passes.done, "kept": self.passes.kept, "losses": self.passes.losses,
            "source": self._held[0].source if self._held else "", "repeated": [list(each) for each in self._repeated],
        }  # fmt: skip
        return plain, arrays

    def restore(self, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self._row, self.passes.done = int(plain["row"]), int(plain["done"])
        self.passes.kept, self.passes.losses = int(plain.get("kept", 1)), [float(x) for x in plain.get("losses", ())]
        self._repeated = [LaterPassCounts(*each) for each in plain.get("repeated", ())]
        held = under(arrays, "held.")
        if held:
            named: dict[str, Any] = {name: held[name] for name in KEPT}
            batch = Batch(source=str(plain["source"]), **named, groups=np.empty(0, np.uint8), end=Position())
            self._held, self.rows = [batch], len(batch)
        best = under(arrays, "best.")
        if best:
            dimension, settings = self.model.features.dimension, self.model.settings
            learner = settings.make_learner(dimension, self.model.features.constant if settings.constant else None)
            learner.restore(unpack(learner, dimension, best))
            self.passes.best = [learner]


def go_on(model: LinearModel, holdout: int, more: Mapping[str, Any], path: Path) -> Course:
    """The course of a checkpoint.

    Args:
        model: that of the checkpoint.
        holdout: one of so many rows is held out.
        more: what was kept with the model.
        path: of the checkpoint, for messages.
    """
    course = Course(model, holdout)
    with unsound_checkpoint(path):
        course.restore(more["course"], more["extra"])
    return course


@contextlib.contextmanager
def unsound_checkpoint(path: Path) -> Iterator[None]:
    """Turn what goes wrong in restoring parts of a checkpoint into an error that names it."""
    try:
        yield
    except (IndexError, KeyError, TypeError, ValueError, GiftrlError) as error:
        raise ModelFileError(path, f"is not a sound checkpoint ({error})", "delete it to start anew") from None
