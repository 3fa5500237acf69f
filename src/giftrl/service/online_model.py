"""A model in memory that learns and predicts body by body, with the same bits as ``giftrl train``.

An :class:`OnlineModel` reads bodies as ``giftrl train`` reads files. The reader of JSON lines prepares arrays and loops
for many rows, which takes 0.4 ms for one row as for fifty. As most bodies have a single row, :class:`SingleRows` learns
and scores these with memory that is kept from row to row, through the same loops and with the same bits. It leaves all
unusual rows, and all errors, to the reader.
"""

import contextlib
import math
import threading
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Any, NamedTuple, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from giftrl.config.predictor import link_of, range_of
from giftrl.errors import GiftrlError, Refused
from giftrl.kernels.base import OneRow, sparse_row
from giftrl.service.bodies import (
    ONE_ROW,
    Answer,
    Body,
    RowRange,
    as_json,
    as_refused,
    groups_of,
    joined,
    require_usable,
    row_ranges,
)  # fmt: skip
from giftrl.streams.batch import Batch
from giftrl.streams.columns import Columns, Kind, Schema
from giftrl.streams.names.features import News
from giftrl.streams.names.objects import BadValue, count_strings
from giftrl.streams.reader import Reader
from giftrl.streams.source import Source
from giftrl.streams.text.json import JsonLines
from giftrl.training.model import LinearModel, as_rows

#: Rows learned under one lock, at most: less than a millisecond for most models.
ROWS_PER_LOCK = 256
#: The entry of ``compiled_formats`` for single rows.
SINGLE_ROWS = "single"
#: The outputs of a prediction.
LABEL, PROBA, SCORES = OUTPUTS = ("label", "proba", "scores")
#: Entries of a single row, and names and layouts that are kept, at most.
MAX_ROW_ENTRIES, MAX_KNOWN_NAMES, MAX_LAYOUTS = 512, 100_000, 256
NESTED_TYPES = {dict, list}


class KeyLayout(NamedTuple):
    """Rows of nonzero numbers under certain keys: coordinates with the constant, signs, and the place of the label."""

    slots: NDArray[np.int32]
    signs: list[float]
    label_at: int | None


class KnownNames:
    """Names with their coordinates and signs, and the layouts of rows that have numbers under certain keys."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[int, float]] = {}
        self.layouts: dict[tuple[str, ...], KeyLayout] = {}


class SingleRow(NamedTuple):
    """A row: its coordinates and values, the constant included, and its label (NaN if it has none)."""

    slots: list[int] | NDArray[np.int32]
    values: list[float]
    label: float


class SingleRows:
    """Single rows of one model, in JSON, for one thread at a time.

    Args:
        model: with frozen features.
        parser: of JSON lines, for this model.
    """

    def __init__(self, model: LinearModel, parser: JsonLines) -> None:
        self._model, self._parser, self._learner = model, parser, cast("Any", model.learner)
        self._special = parser.special
        self._known = KnownNames()  # to predict for
        self._learned = KnownNames()  # that the model has learned
        self._labels: dict[float, float] = {}  # labels of the loss by labels of the data
        self._clips = model.clips()
        self._constant = [model.features.constant] if model.settings.constant else []
        self._ones = [1.0] * len(self._constant)
        self._memory: OneRow = self._learner.one_row(sparse_row(MAX_ROW_ENTRIES))
        self._values, self._indices = self._memory.values, cast("Any", self._memory).rows.value.indices

    @staticmethod
    def supports(model: LinearModel) -> bool:
        """Return True for models with one score, whose rows are names and values without further processing."""
        settings = model.settings
        plain = settings.normalize == "none" and not settings.interactions and not settings.ngrams
        return plain and not settings.many and hasattr(model.learner, "score_row")

    def predict(self, line: bytes) -> float | None:
        """Return the score of a row, clipped as the model clips; None if the reader must read it."""
        row = self._read(line, self._known)
        if isinstance(row, list):
            self.add_names(row, self._known)
            row = self._read(line, self._known)
        if not isinstance(row, SingleRow) or row.label == row.label:  # the reader checks labels
            return None
        self._write(row)
        score = float(self._learner.score_row(self._memory))
        if self._clips is False:
            return score
        low, high = range_of(self._learner, self._clips)
        return min(max(score, low), high)

    def read(self, line: bytes) -> SingleRow | list[str]:
        """Read a row to learn from.

        If the reader must read it, return the names that become known with it, for :meth:`add_names`; none if it must
        read such rows in any case.
        """
        row = self._read(line, self._learned)
        if not isinstance(row, SingleRow):
            return row or []
        label = self._labels.get(row.label) or self._label(row.label)
        return row._replace(label=label) if label == label else []

    def learn(self, row: SingleRow) -> float:
        """Learn from a row; return the prediction made before."""
        self._write(row)
        return self._model.learn_row(self._memory, row.label)

    def _read(self, line: bytes, names: KnownNames) -> SingleRow | list[str] | None:
        """Read a row; return the names that are not known, if there are any, and None if the reader must read it."""
        label_key, label = self._parser.label, math.nan
        try:
            top = orjson.loads(line)
            if type(top) is not dict:
                return None
            row = self._read_by_layout(line, top, names)
            if row is not None:
                return row
            items: Iterable[tuple[str, Any]] = top.items()
            strings = len(top)  # keys, and strings among the values
            flat = self._special.isdisjoint(top) and NESTED_TYPES.isdisjoint(map(type, top.values()))
            if not flat:
                walked = self._parser.row(line)
                if walked.weight != 1.0:
                    return None
                items, label_key, label = [(each.name, each.value) for each in walked.features], None, walked.label
                strings = count_strings(top)
            slots, values, unknown = [], [], []
            for name, value in items:
                if type(value) is str:
                    strings += 1
                if name == label_key:
                    label = self._parser.label_of(value)
                elif value:
                    name, value = (f"{name}={value}", 1.0) if type(value) is str else (name, value)
                    place = names.places.get(name)
                    if place is None:
                        unknown.append(name)
                    else:
                        slots.append(place[0])
                        values.append(place[1] * value)
        except (orjson.JSONDecodeError, BadValue):
            return None
        # orjson keeps the last value of a repeated key, the reader adds them up. Keys and strings have two quotes each,
        # and more if a quote is escaped.
        if line.count(b'"') != 2 * strings:
            return None
        if unknown:
            return unknown
        slots += self._constant
        values += self._ones
        usual = len(set(slots)) == len(slots) <= MAX_ROW_ENTRIES and max(slots, default=0) < self._learner.dimension
        if not usual or not math.isfinite(sum(values)):
            return None
        if flat:
            self._keep_layout(top, slots, names)
        return SingleRow(slots, values, label)

    def _keep_layout(self, top: dict[str, Any], slots: list[int], names: KnownNames) -> None:
        """Keep the layout of a row, if all its values are nonzero numbers."""
        keys, label_key = tuple(top), self._parser.label
        numbers = [key for key in keys if key != label_key]
        if all(type(top[key]) in (int, float) and top[key] for key in numbers):
            if len(names.layouts) >= MAX_LAYOUTS:
                names.layouts.clear()
            signs = [names.places[key][1] for key in numbers]
            label_at = keys.index(label_key) if label_key in top else None
            names.layouts[keys] = KeyLayout(np.array(slots, np.int32), signs, label_at)

    def _read_by_layout(self, line: bytes, top: dict[str, Any], names: KnownNames) -> SingleRow | None:
        """Read a row of nonzero numbers whose layout is known; return None for any other."""
        layout = names.layouts.get(tuple(top))
        if layout is None:
            return None
        numbers, label, strings = list(top.values()), math.nan, len(top)
        if layout.label_at is not None:
            given = numbers.pop(layout.label_at)
            label, strings = self._parser.label_of(given), strings + (type(given) is str)
        try:
            if not all(numbers) or line.count(b'"') != 2 * strings or not math.isfinite(sum(numbers)):
                return None
        except TypeError:  # one of them is no number
            return None
        return SingleRow(layout.slots, [*map(mul, layout.signs, numbers), *self._ones], label)

    def add_names(self, added: list[str], names: KnownNames | None = None) -> None:
        """Look up the coordinates of names, by default of those that the model has learned."""
        places = (names or self._learned).places
        if len(places) > MAX_KNOWN_NAMES:
            places.clear()
        with contextlib.suppress(ValueError):
            slots, signs = self._model.features.slots(added)
            # A frozen dictionary gives -1 to an unknown name, which may become known later.
            places |= {n: (k, s) for n, k, s in zip(added, slots.tolist(), signs.tolist(), strict=True) if k >= 0}

    def _label(self, given: float) -> float:
        """Return the label of the loss for one of the data; NaN if it cannot be used."""
        settings, one = self._model.settings, np.array([given])
        usable = given == given and settings.accepts(one)[0]
        label = float(settings.mapped(one)[0]) if usable else math.nan
        if settings.labels is not None:  # there are few
            self._labels[given] = label
        return label

    def _write(self, row: SingleRow) -> None:
        """Write a row to memory."""
        count = len(row.slots)
        self._values[:count], self._indices[:count] = row.values, row.slots
        self._memory.end(count)


class ReadBodies(NamedTuple):
    """Bodies that were read and not yet learned: batches of rows, or one single row for each body.

    Args:
        batches: rows, with the names that are new in each batch.
        ranges: the part of each body in these rows.
        rows: single rows, if there are no batches.
        names: of single rows that are in the batches because the model had not learned these names.
    """

    batches: list[tuple[Batch, News]]
    ranges: list[RowRange]
    rows: Sequence[SingleRow] = ()
    names: Sequence[str] = ()


class OnlineModel:
    """A model whose loss is known, its readers, and the lock that separates learning from predicting.

    One thread learns: :meth:`read` and :meth:`learn` are for that thread alone. Any thread may predict. The lock is
    held for a few hundred rows at a time, and never while waiting for a disk.

    Args:
        model: the model, which is changed here only.
        columns: the meaning of the keys of rows.

    >>> from giftrl.training import Settings
    >>> online = OnlineModel(LinearModel(Settings(loss="squared", bits=4)), Columns(label="label"))
    >>> online.learn(online.read([Body("json", b'{"label": 3, "a": 1}\\n')]))[0].predictions
    [0.0]
    >>> online.model.examples, online.predict([Body("json", b'{"a": 1}\\n{"a": 2}\\n')], SCORES)[0].predictions
    (1, [3.0, 3.0])
    """

    def __init__(self, model: LinearModel, columns: Columns) -> None:
        self.model, self.columns = model, columns
        self.lock = threading.Lock()
        self.compiled_formats: set[str] = set()  # with SINGLE_ROWS: formats whose predictions no compiler delays
        self._singles: SingleRows | None = None
        self.reset_reader()
        self._make_asking()

    @property
    def nbytes(self) -> int:
        """Bytes of the model's arrays."""
        return sum(array.nbytes for array in self.model.learner.own_state().values())

    def _make_asking(self) -> None:
        """Make the reader of rows to predict for."""
        self._asking = self._reader(self.model.features)
        # Before the first labelled rows, the meaning of keys is unknown.
        if self._singles is None and self.model.schema is not None and SingleRows.supports(self.model):
            self._singles = SingleRows(self.model, self._asking.parser("json"))
            # The predicted label by the sign of the score.
            self._labels = {sign: self._outputs(np.array([float(sign)]), LABEL) for sign in (-1, 0, 1)}

    def reset_reader(self) -> None:
        """Make the reader of rows to learn from anew; it knows the names and columns of the model only."""
        model = self.model
        model.features.thaw()
        ahead = model.features.ahead()
        model.features.freeze()  # new names come by `learn` alone
        self._reading = self._reader(ahead, learn=True)

    def _reader(self, features: Any, learn: bool = False) -> Reader:
        return Reader(
            Source("request", data=b""), features, columns=self.columns, schema=self.model.schema, on_error="skip",
            background=False, **self.model.settings.reader_options(learn),
        )  # fmt: skip

    def read(self, bodies: list[Body]) -> ReadBodies:
        """Read bodies without learning them; refuse all of them, and change nothing, if one cannot be used."""
        names: list[str] = []
        if all(map(self._is_single, bodies)):
            rows = []
            with self.lock:
                for body in bodies:
                    row = cast("SingleRows", self._singles).read(body.data)
                    if isinstance(row, SingleRow):
                        rows.append(row)
                    else:
                        names += row
            if len(rows) == len(bodies):
                return ReadBodies([], [ONE_ROW] * len(rows), rows)
        try:
            read = self._read(self._reading, bodies)._replace(names=names)
            for body, its_rows in zip(bodies, read.ranges, strict=True):
                require_usable(body, its_rows)
        except (GiftrlError, MemoryError) as problem:
            self.reset_reader()  # forget the names of rows that are not learned
            raise as_refused(problem) from None
        return read

    def _read(self, reader: Reader, bodies: list[Body]) -> ReadBodies:
        batches: list[tuple[Batch, News]] = []
        ranges: list[RowRange] = []
        for group in groups_of(bodies):
            # The schema of JSON names a few keys; a table needs the kind of every column.
            if group[0].format == "arrow" and not is_table_schema(reader.schema, self.columns):
                group = [as_json(group[0])]
            source, ends = joined(group)
            first = len(batches)
            batches += [(batch, reader.features.news()) for batch in reader.over(source, group[0].format)]
            ranges += row_ranges([batch for batch, _ in batches[first:]], ends)
        return ReadBodies(batches, ranges)

    def learn(self, read: ReadBodies) -> list[Answer]:
        """Learn from bodies; the predictions are those made before each label was used."""
        model, before = self.model, self.model.examples
        if read.rows:
            return [self._learn_row(row) for row in read.rows]
        predictions: list[NDArray[np.float64]] = []
        for batch, news in read.batches:
            with self.lock:
                model.schema = self._reading.schema
                model.features.thaw()
                model.features.learn(news)
                model.features.freeze()
                model.rejected += len(batch.rejected)
            steps = model.learn(batch, ROWS_PER_LOCK)
            while True:
                with self.lock:
                    step = next(steps, None)
                if step is None:
                    break
                predictions.append(step[1])
        with self.lock:
            if self._singles is None and model.schema is not None:
                self._make_asking()
            if self._singles is not None and read.names:
                self._singles.add_names(list(read.names))
        scores = np.concatenate(predictions) if predictions else np.empty((0, model.settings.classes))
        return self._answers(read.ranges, self._outputs(scores, LABEL), before, counting=True)

    def _learn_row(self, row: SingleRow) -> Answer:
        with self.lock:
            score = cast("SingleRows", self._singles).learn(row)
            return Answer(self._output(score, LABEL), [], self.model.examples)

    def predict(self, bodies: list[Body], output: str = LABEL) -> list[Answer]:
        """Predict for rows, whose labels are not used; refuse all if one body cannot be used.

        Args:
            bodies: rows.
            output: "label", the predicted label; "proba", the probability of each label; "scores", <s, x>.
        """
        model = self.model
        if output == PROBA and not link_of(model.learner.loss).probable:
            raise Refused(422, f"the {model.settings.loss} loss has no probabilities", "leave out proba")
        with self.lock:
            try:
                if model.schema is not None and self._asking.schema is None:
                    self._make_asking()
                single = [self._predict_row(body, output) for body in bodies[:1]]
                if single[0] is not None:
                    single += [self._predict_row(body, output) for body in bodies[1:]]
                    if None not in single:
                        self.compiled_formats.add(SINGLE_ROWS)
                        return cast("list[Answer]", single)
                read = self._read(self._asking, bodies)
            except (GiftrlError, MemoryError) as problem:
                self._make_asking()
                raise as_refused(problem) from None
            scores = [scores_of(model, batch) for batch, _ in read.batches] or [np.empty((0, model.settings.classes))]
            if model.schema is None and self._asking.schema is not None:  # unlabelled rows decide nothing
                self._make_asking()
        for body, rows in zip(bodies, read.ranges, strict=True):
            require_usable(body, rows)
        self.compiled_formats.update(body.format for body in bodies)
        return self._answers(read.ranges, self._outputs(np.concatenate(scores), output), model.examples)

    def predict_soon(self, body: Body, output: str = LABEL) -> Answer | None:
        """Predict for a single row if that takes microseconds now; return None otherwise."""
        if SINGLE_ROWS not in self.compiled_formats or output == PROBA or not self.lock.acquire(blocking=False):
            return None
        try:
            return self._predict_row(body, output)
        finally:
            self.lock.release()

    def _is_single(self, body: Body) -> bool:
        return self._singles is not None and body.format == "json" and body.data.count(b"\n") == 1

    def _predict_row(self, body: Body, output: str) -> Answer | None:
        """Predict for a single row; return None if the reader must read it."""
        score = cast("SingleRows", self._singles).predict(body.data) if self._is_single(body) else None
        return None if score is None else Answer(self._output(score, output), [], self.model.examples)

    def _output(self, score: float, output: str) -> list[Any]:
        """:meth:`_outputs` of one score, without an array if possible."""
        if output == LABEL and self.model.settings.class_values is not None:
            return self._labels[(score > 0.0) - (score < 0.0)]
        return [score] if output != PROBA else self._outputs(np.array([score]), output)

    def _outputs(self, scores: NDArray[np.float64], output: str) -> list[Any]:
        """Turn scores into an output for each row."""
        model, settings = self.model, self.model.settings
        if output == LABEL:
            labels = model.decide(scores).tolist()
            if settings.class_values is None:
                return cast("list[Any]", labels)
            return [int(label) if isinstance(label, float) and label.is_integer() else label for label in labels]
        if output == SCORES and not settings.many:
            return cast("list[Any]", scores.tolist())
        values = model.probabilities(scores) if output == PROBA else scores
        return [dict(zip(settings.class_names, row, strict=True)) for row in values.tolist()]

    def _answers(
        self, ranges: list[RowRange], outputs: list[Any], examples: int, counting: bool = False
    ) -> list[Answer]:
        """Divide outputs among bodies; ``counting`` adds the rows of each body to the number of examples."""
        answers, begin = [], 0
        for rows in ranges:
            end = begin + int(rows.used.sum())
            mine = outputs[begin:end]
            if rows.rejected:
                spread = np.full(len(rows.used), None, object)
                spread[rows.used] = mine
                mine = spread.tolist()
            examples += end - begin if counting else 0
            answers.append(Answer(mine, rows.rejected, examples))
            begin = end
        return answers


def is_table_schema(schema: Schema | None, columns: Columns) -> bool:
    """Return True if a schema may name the kind of every column; one of JSON names keys of a special kind only."""
    asked = {Kind.CATEGORY: columns.categorical, Kind.TEXT: columns.text, Kind.NUMBER: (), Kind.NUMBERS: (),
             Kind.CATEGORIES: ()}  # fmt: skip
    return schema is None or any(
        kind in asked and name not in asked[kind] for name, kind in zip(schema.names, schema.kinds, strict=True)
    )


def scores_of(model: LinearModel, batch: Batch) -> NDArray[np.float64]:
    """Score rows by the loop that also scores single ones, so that the bits do not depend on the number of rows."""
    learner: Any = model.learner
    if model.settings.many or not hasattr(learner, "score_row"):
        return model.few_scores(batch)
    rows = as_rows(batch)
    known = rows.indices < learner.dimension
    if not known.all():  # names that the model has not learned count nothing
        rows = rows._replace(data=np.where(known, rows.data, 0.0), indices=np.where(known, rows.indices, 0))
    scores: NDArray[np.float64] = np.clip(learner.predict_rows(rows, len(batch)), *range_of(learner, model.clips()))
    return scores + batch.bases if len(batch.bases) else scores
