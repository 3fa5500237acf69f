"""Converted files: rows as a learner takes them, in Arrow IPC with the columns label, weight, indices and values."""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import BadSource, Given, Message, require
from giftrl.files import Output, require_replaceable
from giftrl.streams.batch import Batch, Position, merge, overflowed
from giftrl.streams.label_names import LabelNames, listed
from giftrl.streams.names.features import Dictionary, Features
from giftrl.streams.names.hashing import Hashing
from giftrl.streams.names.interactions import Interactions, Ngrams
from giftrl.streams.tables.types import as_arrow, as_numpy

if TYPE_CHECKING:
    from giftrl.streams.tables.arrow import RecordBatches, TablePiece

#: The key, in the metadata of the file, of how features were mapped.
METADATA_KEY = b"giftrl"
#: The key, in the metadata of a batch, of the names that are new in it.
NAMES_KEY = b"names"
LAYOUT_VERSION = 1
COMPRESSIONS = (None, "lz4", "zstd")


def _layout() -> Any:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("label", pa.float64(), False),
            pa.field("weight", pa.float64(), False),
            pa.field("indices", pa.list_(pa.field("item", pa.int32(), False)), False),
            pa.field("values", pa.list_(pa.field("item", pa.float64(), False)), False),
        ]
    )


def is_converted(schema: Any) -> bool:
    """True for the Arrow schema of a converted file."""
    return METADATA_KEY in (schema.metadata or {})


def names_of_labels(schema: Any) -> tuple[str, ...] | None:
    """The names of the labels of a converted file; None if they are numbers."""
    names = json.loads(schema.metadata[METADATA_KEY]).get("labels")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("names of labels that are not text")
    return None if names is None else tuple(names)


def first_converted_labels(found: "RecordBatches", rows: int) -> list[str | None]:
    """The labels of the first rows of a converted file as text; before them, names of labels that come later."""
    labels: list[float] = []
    try:
        names = names_of_labels(found.schema)
        for piece in found.pieces(0, None, ()):
            labels += [] if piece.batch is None else as_numpy(piece.batch.column("label"))[:rows].tolist()
            if len(labels) >= rows:
                break
        texts = [None if label != label else _label_text(label, names) for label in labels[:rows]]
    except (ValueError, KeyError, IndexError):  # a damaged file, which the reader will name
        return []
    return [*(name for name in names or () if name not in texts), *texts]


def _label_text(label: float, names: tuple[str, ...] | None) -> str:
    return f"{label:.17g}" if names is None else names[int(label)]


class ConvertedWriter(Output):
    """Writes batches to a file that is read back without parsing, hashing or copying.

    A label that is missing is NaN. Tags and rejected rows are not kept. The file appears, whole, when the writer is
    closed; until then, and after an error, what was there before stays.

    Args:
        path: the file.
        features: what numbered the features of the batches. The names of a dictionary are kept.
        interactions: the products that were added to the batches, for those who read them.
        ngrams: the n-grams that were added.
        labels: the names of labels, if they are not numbers.
        compression: None, which is the quickest to read; "lz4" or "zstd".

    >>> import tempfile
    >>> from pathlib import Path
    >>> from giftrl.streams.text.libsvm import LibsvmText
    >>> from giftrl.streams.sources.source import Source, Stream
    >>> from giftrl.streams.tables.arrow import RecordBatches
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "rows.arrow")
    >>> features = Hashing(10)
    >>> with ConvertedWriter(path, features) as writer:
    ...     writer.write(LibsvmText(features).parse(b"1 3:0.5 7:2\\n", "a.svm", Position()))
    >>> with Stream(Source("rows.arrow", path)) as stream:
    ...     [batch] = Converted(features).read(RecordBatches(stream, "arrow"), Position())
    >>> batch.labels.tolist(), batch.indices.tolist(), batch.data.tolist()
    ([1.0], [3, 7], [0.5, 2.0])
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        features: Features,
        *,
        interactions: Interactions | None = None,
        ngrams: Ngrams | None = None,
        labels: LabelNames | None = None,
        compression: str | None = None,
    ) -> None:
        import pyarrow as pa

        known = compression in COMPRESSIONS
        require(known, "compression", compression, 'must be None, "lz4" or "zstd"', "leave it out for the quickest")
        super().__init__(path, "path")
        self.features = features
        self._named = 1  # of a dictionary: the slots whose names have been written
        about: dict[str, Any] = {
            "version": LAYOUT_VERSION,
            "kind": "hashing" if isinstance(features, Hashing) else "dictionary",
            "bits": features.bits if isinstance(features, Hashing) else None,
            "interactions": [list(each) for each in interactions.products] if interactions else [],
            "ngrams": [list(each) for each in ngrams.sizes] if ngrams else [],
        }
        if labels is not None:
            about["labels"] = list(labels.names)
        self._schema = _layout().with_metadata({METADATA_KEY: json.dumps(about).encode()})
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self._writer: Any = None

    def open(self) -> Self:
        import pyarrow as pa

        with self._errors():
            require_replaceable(self.path)
            try:
                super().open()
                self._sink = pa.OSFile(str(self.place), "wb")
                self._writer = pa.ipc.new_file(self._sink, self._schema, options=self._options)
            except BaseException:
                self.abandon()
                raise
        return self

    def write(self, batch: Batch) -> None:
        """Write the rows of a batch, as a reader makes them with ``normalize="none"`` and ``constant=False``."""
        import pyarrow as pa

        plain = not (batch.indices == self.features.constant).any()
        require(plain, "batch", batch.source, "must not have the constant yet", "read with constant=False")
        schema, offsets = self._schema, as_arrow(batch.indptr.astype(np.int32))
        lists = [
            pa.ListArray.from_arrays(offsets, as_arrow(values), type=schema.field(name).type)
            for name, values in (("indices", batch.indices), ("values", batch.data))
        ]
        record = pa.RecordBatch.from_arrays([as_arrow(batch.labels), as_arrow(batch.weights), *lists], schema=schema)
        with self._errors():
            self._writer.write_batch(record, custom_metadata=self._new_names(batch))

    def _new_names(self, batch: Batch) -> dict[bytes, bytes]:
        if not isinstance(self.features, Dictionary):
            return {}
        # Up to the highest that is used here: another thread may be adding more.
        highest = int(batch.indices.max(initial=0))
        names = [self.features.name(slot) for slot in range(self._named, highest + 1)]
        self._named += len(names)
        return {NAMES_KEY: json.dumps(names).encode()} if names else {}

    def _finish(self) -> None:
        self._end()
        super()._finish()

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._end()
        super().abandon()

    def _end(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            self._sink.close()


class Converted:
    """Reads what :class:`ConvertedWriter` wrote; arrays are views of the file, not to be written to."""

    def __init__(
        self, features: Features, interactions: Interactions | None = None, ngrams: Ngrams | None = None,
        labels: LabelNames | None = None,
    ) -> None:  # fmt: skip
        self.features = features
        self.interactions = interactions
        self.ngrams = ngrams
        self.labels = labels
        self._slots = np.zeros(1, np.int32)  # of a dictionary: from the slots of the file to those of the features
        self._same = True

    def read(self, found: "RecordBatches", start: Position) -> Iterator[Batch]:
        """The batches of a file, from a row on."""
        self._check(found)
        for piece in found.pieces(start.offset, None, ()):
            self._learn(piece.notes, found.name)
            if piece.batch is not None:
                yield self._batch(piece, found.name, start.source)

    def _check(self, found: "RecordBatches") -> None:
        def bad(rule: Message, remedy: Message) -> BadSource:
            return BadSource(found.name, rule, remedy)

        try:
            about = json.loads(found.schema.metadata[METADATA_KEY])
            version, kind, bits = about["version"], about["kind"], about["bits"]
            products = [tuple(each) for each in about["interactions"]]
            sizes = [tuple(each) for each in about.get("ngrams", [])]
            self._names = names_of_labels(found.schema)
        except (ValueError, KeyError, TypeError):
            raise bad("its notes on features cannot be read", "convert the data again") from None
        if version != LAYOUT_VERSION or not found.schema.remove_metadata().equals(_layout()):
            raise bad(f"was written by another version ({version})", "convert the data again")
        hashing = isinstance(self.features, Hashing)
        if (kind == "hashing") != hashing:
            own = "hashing" if hashing else "dictionary"
            raise bad(f"was converted with {kind}, and {own} is asked for", "use the same, or convert the data again")
        if isinstance(self.features, Hashing) and bits != self.features.bits:
            rule: Message = [
                "was converted with ",
                Given("bits", bits),
                ", and ",
                Given("bits", self.features.bits),
                " is asked for",
            ]
            raise bad(rule, ["use ", Given("bits", bits), ", or convert the data again"])
        if products != list(self.interactions.products if self.interactions else []):
            rule = f"was converted with the interactions {products}, which are not those that are asked for"
            raise bad(rule, "ask for the same, or convert the data again")
        if sizes != list(self.ngrams.sizes if self.ngrams else []):
            rule = f"was converted with the n-grams {sizes}, which are not those that are asked for"
            raise bad(rule, "ask for the same, or convert the data again")
        if self._names is not None and self.labels is None:
            raise bad(f"has labels that are no numbers: {listed(self._names)}", "use a loss of classes")

    def _learn(self, notes: dict[bytes, bytes], source: str) -> None:
        """Enter the names that are new in a batch into the dictionary."""
        if NAMES_KEY not in notes:
            return
        try:
            names = json.loads(notes[NAMES_KEY])
            slots, _ = self.features.slots(names)
        except (ValueError, TypeError):
            raise BadSource(source, "its names of features cannot be read", "convert the data again") from None
        self._slots = np.concatenate([self._slots, slots])
        self._same = self._same and bool((self._slots == np.arange(len(self._slots))).all())

    def label_at(self, line: int) -> tuple[str, int]:
        """The label of a row of the last batch, and 1 for its column."""
        first, labels = self._last
        label = float(labels[line - first])
        return _label_text(label, self._names), 1

    def _translated(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Labels of the file as the names that are asked for number them."""
        if self.labels is None:
            return labels
        there = ~np.isnan(labels)
        distinct, where = np.unique(labels[there], return_inverse=True)
        names = [_label_text(label, self._names) for label in distinct]
        made = np.full(len(labels), np.nan)
        made[there] = self.labels.codes(names)[where]
        return made

    def _batch(self, piece: "TablePiece", source: str, number: int) -> Batch:
        record, first = piece.batch, piece.first
        damaged = BadSource(source, "is damaged: its rows make no sense", "convert the data again", first + 1)
        labels, weights, lists, numbers = record.columns
        offsets = [as_numpy(each.offsets).astype(np.int64) for each in (lists, numbers)]
        parts = [each.values[begins[0] : begins[-1]] for each, begins in zip((lists, numbers), offsets, strict=True)]
        if any(each.null_count for each in (*record.columns, *parts)):
            raise damaged
        labels, weights, indices, data = map(as_numpy, (labels, weights, *parts))
        indptr, other = (begins - begins[0] for begins in offsets)
        size = self.features.dimension if isinstance(self.features, Hashing) else len(self._slots)
        # A learner would write to foreign memory at an index out of range.
        inside = not len(indices) or (indices.min() >= 0 and indices.max() < size)
        sound = inside and np.array_equal(indptr, other) and not np.isinf(labels).any()
        sound = sound and np.isfinite(weights).all() and (weights >= 0.0).all()
        self._last = first + 1, labels
        known = self._names is None or np.isin(labels[~np.isnan(labels)], np.arange(len(self._names))).all()
        sound = sound and known
        if not sound or len(overflowed(data, indptr)):
            raise damaged
        if not self._same:
            indices = self._slots[indices]
        end = first + record.num_rows
        lines, groups = np.arange(first + 1, end + 1), np.empty(0, np.uint8)
        position = Position(number, end, end + 1)
        batch = Batch(source, data, indices, indptr, self._translated(labels), weights, lines, groups, position)
        if not self._same and (indices < 0).any():
            # A frozen dictionary does not have all names.
            merged = merge(data.copy(), indices, batch.groups, batch.indptr)
            batch = replace(batch, data=merged[0], indices=merged[1], indptr=merged[3])
        return batch
