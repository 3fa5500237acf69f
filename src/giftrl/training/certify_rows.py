"""Labelled rows of a stream that may be read more than once."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giftrl.certificates import Evidence
from giftrl.certificates.passes import DataSample
from giftrl.certificates.row_record import Examples
from giftrl.errors import BadSource
from giftrl.ops.loss import residual
from giftrl.streams.batch import Batch
from giftrl.streams.columns import Schema
from giftrl.streams.names.features import Features
from giftrl.streams.reader import Reader
from giftrl.streams.sources.source import find_sources
from giftrl.training.settings import Settings

#: Called after each batch with how much has been read, between 0 and 1, or None where that is not known.
Watch = Callable[[float | None], None]


class Rereading:
    """The rows of DATA as blocks, with a number for each feature that occurs.

    :meth:`survey` reads all rows once; :meth:`blocks` reads them again.

    Args:
        sources: as for :class:`giftrl.streams.Reader`.
        settings: the loss, its labels, and how rows are prepared.
        features: how names become coordinates.
        schema: what the columns of tables are for, if that is known.
        most: how many nonzeros are kept; where there are more, they are those of a random part of the rows.
        watch: called after each batch.
        reading: other arguments of the reader.

    Attributes:
        rows, weight: how many rows there are, and the sum of their weights.
        coordinates: the coordinate of each feature that occurs.
        sample: the rows that are kept.
        rejected: how many rows were skipped.
        notes: what was asked for and matched nothing, in words.

    >>> import pathlib, tempfile
    >>> from giftrl.streams.names.features import Dictionary
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.svm")
    ...     _ = path.write_text("1 5:2\\n-1 7:1\\n")
    ...     rows = Rereading([path], Settings(), Dictionary(), most=100)
    ...     rows.survey()
    ...     rows.rows, rows.squares.tolist(), rows.sample.share, len(list(rows.blocks()))
    (2, [2.0, 4.0, 1.0], 1.0, 1)
    """

    def __init__(
        self,
        sources: Any,
        settings: Settings,
        features: Features,
        *,
        schema: Schema | None = None,
        most: int = 20_000_000,
        watch: Watch | None = None,
        **reading: Any,
    ) -> None:
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
        """Whether the sources can be read more than once."""
        paths = [source.path for source in find_sources(self.sources)]
        return all(path is not None and path.is_file() for path in paths)

    def survey(self) -> None:
        """Read all rows once: add up what the units of features need, and keep as many rows as there is memory for."""
        reader = self._reader(**self.reading)
        for batch in self._batches(reader):
            block = self._block(batch, grow=True)
            h, d = np.repeat(block.weights, np.diff(block.indptr)), len(self.coordinates)
            with np.errstate(over="ignore", invalid="ignore"):
                self.squares = _longer(self.squares, d) + _sums(block, h * block.data * block.data, d)
                self.sums = _longer(self.sums, d) + _sums(block, h * block.data, d)
            self.rows += len(block.labels)
            self.weight += math.fsum(block.weights)
            self.sample.add(block)
        self.schema, self.rejected, self.notes = reader.schema, reader.rejected, reader.unmatched
        for good, rule, remedy in (
            (self.rows > 0, "has no rows with labels", "give rows to certify the model on"),
            (self.weight > 0.0, "has no row of positive weight", "give some rows a weight"),
            (self.weight < math.inf, "has weights whose sum leaves the range of float64", "scale the weights"),
        ):
            if not good:
                raise BadSource(", ".join(source.name for source in reader.sources), rule, remedy)

    def blocks(self) -> Iterator[Examples]:
        """Read all rows once more."""
        reader = self._reader(**self.reading | {"rejects": None})
        rows = 0
        for batch in self._batches(reader):
            block = self._block(batch, grow=False)
            rows += len(block.labels)
            yield block
        if rows != self.rows:
            raise _changed(reader.sources[0].name)

    def empty(self) -> Evidence:
        """The record of no rows, with the sums over features of all of them."""
        settings, d = self.settings, len(self.coordinates)
        none = Evidence.of_rows(
            settings.make_loss(), np.empty((0, d)), [], classes=settings.classes if settings.many else None
        )
        constant = None
        if settings.constant and (place := int(self._columns[self.features.constant])) >= 0:
            constant = place
        return replace(none, squares=self.squares, sums=self.sums, weight=self.weight, constant=constant)

    def _reader(self, **reading: Any) -> Reader:
        settings = self.settings
        return Reader(
            self.sources, self.features, schema=self.schema, interactions=settings.interactions,
            ngrams=settings.ngrams, normalize=settings.normalize, constant=settings.constant,
            labels=settings.label_names, accepts=settings.accepts, expected=settings.expected, no_base=self._no_base,
            **reading,
        )  # fmt: skip

    def _batches(self, reader: Reader) -> Iterator[Batch]:
        for batch in reader:
            if len(batch):
                yield batch
            if self.watch is not None:
                self.watch(reader.progress.fraction)

    def _block(self, batch: Batch, grow: bool) -> Examples:
        """The rows of a batch, with numbered features and labels of the loss."""
        if self.features.dimension > len(self._columns):
            more = self.features.dimension + len(self._columns)
            self._columns = np.concatenate([self._columns, np.full(more - len(self._columns), -1, np.int32)])
        if (self._columns[batch.indices] < 0).any():
            if not grow:
                raise _changed(batch.source)
            new = np.unique(batch.indices[self._columns[batch.indices] < 0])
            self._columns[new] = np.arange(len(self.coordinates), len(self.coordinates) + len(new))
            self.coordinates = np.concatenate([self.coordinates, new])
        labels: NDArray[Any] = self.settings.mapped(batch.labels)
        labels = labels - batch.bases if len(batch.bases) else labels
        labels = labels.astype(np.int64) if self.settings.many else labels
        return Examples(batch.data, self._columns[batch.indices], batch.indptr, labels, batch.weights)


def _changed(source: str) -> BadSource:
    return BadSource(source, "changed while it was read", "use a copy that stays as it is")


def _longer(array: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    return np.concatenate([array, np.zeros(size - len(array))]) if size > len(array) else array


def _sums(block: Examples, terms: NDArray[np.float64], features: int) -> NDArray[np.float64]:
    """The sum of the terms of each feature."""
    return np.asarray(np.bincount(block.indices, weights=terms, minlength=features), dtype=np.float64)
