"""The gap between a model and the best linear model of its size, on given rows."""

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import BestLoss, Evidence
from giftrl.certificates.passes import DataSample, Watch, by_passes
from giftrl.certificates.problem import loss_sum
from giftrl.certificates.row_record import Examples
from giftrl.errors import BadSource, InvalidInput, require
from giftrl.ops.loss import residual
from giftrl.streams.batch import Batch
from giftrl.streams.columns import Schema
from giftrl.streams.names.features import Features
from giftrl.streams.reader import Reader
from giftrl.streams.source import find_sources
from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings

Array = NDArray[np.float64]
#: Called after each batch with the share of the data read so far, or None if unknown.
WatchReading = Callable[[float | None], None]


class LabelledRows:
    """Labelled rows of a stream as blocks, with a number for each feature that occurs.

    :meth:`survey` reads all rows once; :meth:`blocks` reads them again.

    Args:
        sources, schema: as for :class:`giftrl.streams.Reader`.
        settings: the loss, its labels, and how rows are prepared.
        features: the mapping of names to coordinates.
        most: the maximum number of nonzeros to store; beyond it, a random sample of rows is stored.
        watch: called after each batch.
        reading: other arguments of the reader.

    Attributes:
        rows, weight, rejected: the number of rows, the sum of their weights, and the number of rows skipped.
        coordinates: the coordinate of each feature that occurs.
        squares, sums: for each feature the sums of h s_j^2 and h s_j, with weights h.
        sample: the rows that are stored.
        notes: descriptions of options that matched nothing.
    """

    def __init__(
        self, sources: Any, settings: Settings, features: Features, *, schema: Schema | None = None,
        most: int = 20_000_000, watch: WatchReading | None = None, **reading: Any,
    ) -> None:  # fmt: skip
        self.sources, self.settings, self.features, self.schema = sources, settings, features, schema
        self.reading, self.watch, self.sample = reading, watch, DataSample(most)
        self.rows, self.weight, self.rejected, self.notes = 0, 0.0, 0, list[str]()
        self.coordinates = np.empty(0, np.int64)
        self.squares, self.sums = np.empty(0), np.empty(0)
        self._columns = np.full(features.dimension, -1, np.int32)  # the number of each coordinate
        loss = settings.make_loss()
        self._no_base = None
        if settings.many or not residual(loss):
            self._no_base = f"with the {settings.loss} loss, a model with bases is not linear in its weights alone"

    @property
    def again(self) -> bool:
        """True if the sources can be read more than once."""
        paths = [source.path for source in find_sources(self.sources)]
        return all(path is not None and path.is_file() for path in paths)

    def survey(self) -> None:
        """Read all rows once: sum features and their squares, and store as many rows as fit."""
        reader = self._reader(**self.reading)
        for batch in self._batches(reader):
            block = self._block(batch, grow=True)
            h, d = np.repeat(block.weights, np.diff(block.indptr)), len(self.coordinates)
            with np.errstate(over="ignore", invalid="ignore"):
                for sums, terms in ((self.squares, h * block.data * block.data), (self.sums, h * block.data)):
                    sums.resize(d, refcheck=False)
                    sums += np.bincount(block.indices, weights=terms, minlength=d)
            self.rows += len(block.labels)
            self.weight += math.fsum(block.weights)
            self.sample.add(block)
        self.schema, self.rejected, self.notes = reader.schema, reader.rejected, reader.unmatched
        names = ", ".join(source.name for source in reader.sources)
        if self.rows == 0:
            raise BadSource(names, "has no rows with labels", "give rows to certify the model on")
        if self.weight == 0.0:
            raise BadSource(names, "has no row of positive weight", "give some rows a weight")
        if self.weight == math.inf:
            raise BadSource(names, "has weights whose sum leaves the range of float64", "scale the weights")

    def blocks(self) -> Iterator[Examples]:
        """Read all rows again."""
        reader = self._reader(**self.reading | {"rejects": None})
        rows = 0
        for batch in self._batches(reader):
            block = self._block(batch, grow=False)
            rows += len(block.labels)
            yield block
        if rows != self.rows:
            raise _changed(reader.sources[0].name)

    def empty(self) -> Evidence:
        """Evidence without rows, but with the feature sums of all rows."""
        settings, d = self.settings, len(self.coordinates)
        none = Evidence.of_rows(
            settings.make_loss(), np.empty((0, d)), [], classes=settings.classes if settings.many else None
        )
        constant = None
        if settings.constant and (place := int(self._columns[self.features.constant])) >= 0:
            constant = place
        return replace(none, squares=self.squares, sums=self.sums, weight=self.weight, constant=constant)

    def _reader(self, **reading: Any) -> Reader:
        options = self.settings.reader_options(learn=True) | {"no_base": self._no_base}
        return Reader(self.sources, self.features, schema=self.schema, **options, **reading)

    def _batches(self, reader: Reader) -> Iterator[Batch]:
        for batch in reader:
            if len(batch):
                yield batch
            if self.watch is not None:
                self.watch(reader.progress.fraction)

    def _block(self, batch: Batch, grow: bool) -> Examples:
        """The rows of a batch with feature numbers and the loss's labels."""
        if self.features.dimension > len(self._columns):
            self._columns = np.append(self._columns, np.full(self.features.dimension, -1, np.int32))
        new = np.unique(batch.indices[self._columns[batch.indices] < 0])
        if len(new) and not grow:
            raise _changed(batch.source)
        self._columns[new] = np.arange(len(self.coordinates), len(self.coordinates) + len(new))
        self.coordinates = np.append(self.coordinates, new)
        labels: NDArray[Any] = self.settings.mapped(batch.labels)
        labels = labels - batch.bases if len(batch.bases) else labels
        labels = labels.astype(np.int64) if self.settings.many else labels
        return Examples(batch.data, self._columns[batch.indices], batch.indptr, labels, batch.weights)


def _changed(source: str) -> BadSource:
    return BadSource(source, "changed while it was read", "use a copy that stays as it is")


def certify(
    data: LabelledRows, weights: Array, *, scale: float = 1.0, gap: float = 0.0, time_limit: float = 60.0,
    watch: Watch | None = None,
) -> BestLoss:  # fmt: skip
    """The loss of a model, and a lower bound for every linear model up to its size, on the same examples.

    If all examples are stored, the bound is nearly the minimum loss, given enough time. Otherwise they are read
    repeatedly, and the best bound of all passes is returned.

    Args:
        data: the rows, after :meth:`~LabelledRows.survey`. weights: a number or a row of K per coordinate; missing ones
        count as 0.
        scale: the maximum norm of the other models, as a multiple of this model's.
        gap: stop when the model is proved to be within this fraction of the best; 0 to get as close as possible.
        time_limit: in seconds; afterwards no new step or pass begins except the first.
        watch: called after each pass with the number of passes and the bound.

    >>> import pathlib, tempfile
    >>> from giftrl.streams.names.features import Dictionary
    >>> from giftrl.training import Settings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.svm")
    ...     _ = path.write_text("1 1:1\\n2 1:1\\n4 1:1\\n")
    ...     rows = LabelledRows([path], Settings(loss="absolute", constant=False), Dictionary())
    ...     rows.survey()
    ...     best = certify(rows, np.array([0.0, 2.5]))
    >>> print(in_words(best))
    average loss 1.167. Lower bound: no linear model with a weight norm up to this one's (scaled features) has an
    average loss below 1 on these examples. All examples were stored.
    This model is at most 17% from the best.
    """
    require(0.0 <= gap < np.inf, "gap", gap, "must be finite and not negative", "try gap=0.01")
    require(time_limit >= 0.0, "time_limit", time_limit, "must not be negative", "try time_limit=60")
    begun, known = time.monotonic(), data.coordinates < len(weights)
    empty = data.empty()
    u = np.zeros_like(empty.theta)
    u[known] = weights[data.coordinates[known]].reshape(-1, *u.shape[1:])
    if data.sample.share == 1.0:
        examples = data.sample.rows()
        p = np.asarray(examples.matrix(len(u)) @ u)
        with np.errstate(all="ignore"):
            paid = loss_sum(empty.loss, examples.labels, examples.weights, p)
        stored = replace(empty, examples=examples, loss_sum=paid)
        target = stored.least + (paid - stored.least) / (1.0 + gap) if gap > 0.0 else np.inf
        return stored.best_loss(u, scale, max(0.0, time_limit - (time.monotonic() - begun)), target)
    if not data.again:
        rule = f"has more than {data.sample.most:,} nonzeros, and cannot be read twice"
        raise InvalidInput("data", "-", rule, "give a file, or store more with --witness-nonzeros")
    sample = data.sample.rows() if data.sample.entries else None
    limit = max(0.0, time_limit - (time.monotonic() - begun))
    return by_passes(empty, data.blocks, u, scale=scale, time_limit=limit, gap=gap, sample=sample, watch=watch)


def rows_for_model(path: str | os.PathLike[str], sources: Any, **reading: Any) -> tuple[LabelledRows, Array]:
    """Survey sources with the settings of a saved model; returns the rows and the model's weights. Unknown features
    have the weight 0 in this model, but the models it is compared with can use them.
    ``reading`` has other arguments of :class:`LabelledRows`.
    """
    model, _ = LinearModel.load(path)
    rows = LabelledRows(sources, model.settings, model.features, schema=model.schema, **reading)
    rows.survey()
    return rows, np.asarray(model.freeze().weights, dtype=float)


def values_of(rows: LabelledRows, best: BestLoss) -> dict[str, Any]:
    """The result as values for JSON, with average losses."""
    return {
        "loss": rows.settings.loss, "average_loss": best.average_loss, "lower_bound": best.average,
        "least_possible": best.least / best.weight, "gap": gap_of(best), "scale": best.scale, "size": best.radius,
        "units": best.units, "rows": rows.rows, "features": len(rows.coordinates), "weight": rows.weight,
        "rejected": rows.rejected, "passes": best.passes, "solver": best.solver,
    }  # fmt: skip


def gap_of(best: BestLoss) -> float | None:
    """The gap relative to the best loss; None if the best loss may be the infimum.

    Losses are measured from their infimum, which is 0 except for the Poisson loss.

    >>> gap_of(BestLoss(100.0, 101.0, 10.0, 10, 10, "", 1.0, "")), gap_of(BestLoss(0.0, 1.0, 1.0, 1, 1, "", 1.0, ""))
    (0.01, None)
    """
    excess = best.lower_bound - best.least
    return max(0.0, best.loss_sum - best.lower_bound) / excess if excess > 0.0 else None


def in_words(best: BestLoss) -> str:
    """The result in a few lines.

    >>> print(in_words(BestLoss(0.0, 0.0, 5.0, 5, 5, "scaled features", 1.0, "", scale=1.0)))
    average loss 0. No model can have a smaller one.
    """
    average = f"average loss {best.average_loss:.4g}. "
    if best.loss_sum <= best.least:
        return f"{average}No model can have a smaller one."
    said = replace(best, loss_sum=float("nan")).in_words()
    below = best.loss_sum - best.lower_bound
    gap = gap_of(best)
    if gap is None:
        more = f"Its average loss is at most {below / best.weight:.4g} above the best, which may be as low as "
        return f"{average}{said}\n{more}{best.least / best.weight:.4g}."
    if below < 0.0 and best.scale < 1.0:
        return f"{average}{said}\nThis model is better than every one of that size."
    the_best = "the best" if best.scale == 1.0 else "the best of these"
    if gap >= 1.0:
        last = f"The average loss of this model is at most {1.0 + gap:.3g} times that of {the_best}."
    elif gap < 1e-6:
        last = f"This model is {the_best}, to six digits."
    else:
        last = f"This model is at most {100.0 * gap:.2g}% from {the_best}."
    if best.least != 0.0:
        last = f"{last[:-1]}, counted from {best.least / best.weight:.4g}, which no predictions at all go below."
    return f"{average}{said}\n{last}"
