"""A model that learns and predicts rows of requests; bit-identical to ``giftrl train``.

``giftrl train`` examines the labels of the first 10,000 rows and the keys of the first 100 lines before learning. A
service cannot wait for so many. So a model without a given loss is provisional: it is retrained on all bodies whenever
its number of rows passes a power of two, up to 10,000, or a label does not fit the current loss.

The reader of JSON lines prepares arrays and loops for many rows, which takes 0.4 ms for one row as for fifty. Since
most bodies have a single row, :class:`SingleRows` processes these with reused buffers, through the same loops and
bit-identical. Unusual rows and errors are left to the reader.
"""

import contextlib
import math
import struct
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from giftrl.config.predictor import link_of, range_of
from giftrl.errors import GiftrlError, Refused, TooFewLabels
from giftrl.kernels.base import OneRow, sparse_row
from giftrl.service.bodies import ONE_ROW, Answer, Body, ReadBodies, as_refused, read_bodies, readable_rows, sources_of
from giftrl.service.requested_settings import RequestedSettings
from giftrl.streams.batch import Batch
from giftrl.streams.first_labels import MAX_BYTES, MAX_ROWS, first_labels
from giftrl.streams.names.objects import BadValue, count_strings
from giftrl.streams.reader import Reader
from giftrl.streams.text.json import JsonLines
from giftrl.training.model import LinearModel, as_rows
from giftrl.training.settings import Target, choose_target

#: The maximum number of rows learned per lock: under a millisecond for most models.
ROWS_PER_LOCK = 256
#: The entry of ``compiled_formats`` for single rows.
SINGLE_ROWS = "single"
#: The outputs of a prediction: the predicted label, the probability of each label, and <s, x>.
LABEL, PROBA, SCORES = OUTPUTS = ("label", "proba", "scores")
#: The maximum number of entries in a single row, and of cached names.
MAX_ROW_ENTRIES, MAX_KNOWN_NAMES = 512, 100_000
NESTED_TYPES = {dict, list}
#: Names with their coordinates and signs.
Places = dict[str, tuple[int, float]]
#: A rough estimate of a model's memory besides arrays.
BYTES_BESIDE_ARRAYS = 1 << 20


class SingleRow(NamedTuple):
    """A row: its coordinates and values, the constant included, and its label (NaN if it has none)."""

    slots: list[int]
    values: list[float]
    label: float


class SingleRows:
    """A fast path for single JSON rows of one model with frozen features; not thread-safe."""

    def __init__(self, model: LinearModel, parser: JsonLines) -> None:
        self._model, self._parser, self._learner = model, parser, cast("Any", model.learner)
        self._special = parser.special
        self._known: Places = {}  # to predict for
        self._learned: Places = {}  # that the model has learned
        self._labels: dict[float, float] = {}  # labels of the loss by labels of the data
        self._clips = model.clips()
        self._constant = [model.features.constant] if model.settings.constant else []
        self._ones = [1.0] * len(self._constant)
        self._memory: OneRow = self._learner.one_row(sparse_row(MAX_ROW_ENTRIES))
        self._values, self._indices = self._memory.values, cast("Any", self._memory).rows.value.indices

    @staticmethod
    def supports(model: LinearModel) -> bool:
        """Return True for models with one score, without interactions or other preprocessing."""
        settings = model.settings
        plain = settings.normalize == "none" and not settings.interactions and not settings.ngrams
        return plain and not settings.many and hasattr(model.learner, "score_row")

    def predict(self, line: bytes) -> float | None:
        """Return the (clipped) score of a row; None to leave it to the reader."""
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
        """Read a row to learn from; if left to the reader, return its new names."""
        row = self._read(line, self._learned)
        if not isinstance(row, SingleRow):
            return row or []
        label = self._labels.get(row.label) or self._label(row.label)
        return row._replace(label=label) if label == label else []

    def learn(self, row: SingleRow) -> float:
        """Learn from a row; return the prediction made before."""
        self._write(row)
        return self._model.learn_row(self._memory, row.label)

    def _read(self, line: bytes, places: Places) -> SingleRow | list[str] | None:
        """Read a row; returns unknown names, or None to leave it to the reader."""
        try:
            top = orjson.loads(line)
            if type(top) is not dict:
                return None
            items: Iterable[tuple[str, Any]] = top.items()
            if self._special.isdisjoint(top) and NESTED_TYPES.isdisjoint(map(type, top.values())):
                strings = len(top)  # keys, and strings among the values
                given = top.pop(self._parser.label, None)
                label = math.nan if given is None else self._parser.label_of(given)
                strings += type(given) is str
            else:
                walked = self._parser.row(line)
                if walked.weight != 1.0:
                    return None
                items, label = [(each.name, each.value) for each in walked.features], walked.label
                strings = count_strings(top)
        except (orjson.JSONDecodeError, BadValue):
            return None
        slots, values, unknown = [], [], []
        for name, value in items:
            if type(value) is str:
                strings += 1
                if not value:
                    continue
                name, value = f"{name}={value}", 1.0
            elif not value:
                continue
            place = places.get(name)
            if place is None:
                unknown.append(name)
            else:
                slots.append(place[0])
                values.append(place[1] * value)
        # orjson keeps the last value of a repeated key, the reader adds them up. Keys and strings have two quotes each,
        # and more if a quote is escaped.
        if line.count(b'"') != 2 * strings:
            return None
        if unknown:
            return unknown
        slots += self._constant
        values += self._ones
        usual = len(set(slots)) == len(slots) <= MAX_ROW_ENTRIES and max(slots, default=0) < self._learner.dimension
        return SingleRow(slots, values, label) if usual and math.isfinite(sum(values)) else None

    def add_names(self, added: list[str], places: Places | None = None) -> None:
        """Look up the coordinates of names; default: all learned names."""
        places = self._learned if places is None else places
        if len(places) > MAX_KNOWN_NAMES:
            places.clear()
        with contextlib.suppress(ValueError):
            slots, signs = self._model.features.slots(added)
            # A frozen dictionary gives -1 for an unknown name, which may be added later.
            places |= {n: (k, s) for n, k, s in zip(added, slots.tolist(), signs.tolist(), strict=True) if k >= 0}

    def _label(self, given: float) -> float:
        """Convert a label of the data to a label of the loss; NaN if invalid."""
        settings, one = self._model.settings, np.array([given])
        usable = given == given and settings.accepts(one)[0]
        label = float(settings.mapped(one)[0]) if usable else math.nan
        if settings.labels is not None:  # there are few
            self._labels[given] = label
        return label

    def _write(self, row: SingleRow) -> None:
        """Write a row to memory."""
        count = len(row.slots)
        struct.pack_into(f"{count}d", self._values, 0, *row.values)  # faster than NumPy
        struct.pack_into(f"{count}i", self._indices, 0, *row.slots)
        self._memory.end(count)


class OnlineModel:
    """A model that learns bodies sequentially; the result depends only on their order.

    One thread learns. Any thread may predict. The lock is held for a few hundred rows at a time, and never during disk
    access. A model that was saved is no longer provisional.

    >>> model = OnlineModel(RequestedSettings({"bits": 4}))
    >>> model.learn([Body("json", b'{"label": "no", "a": 1}\\n')])[0].predictions
    [None]
    >>> model.learn([Body("json", b'{"label": "yes", "b": 1}\\n')])[0].predictions
    ['no']
    >>> model.linear.settings.loss, model.examples
    ('logistic', 2)
    """

    def __init__(self, requested: RequestedSettings, linear: LinearModel | None = None) -> None:
        self.requested, self._columns = requested, requested.columns
        self.lock = threading.Lock()
        self.linear: LinearModel | None = None  # None until a loss is chosen
        self.compiled_formats: set[str] = set()  # formats (or SINGLE_ROWS) whose loops are compiled
        self.waiting = 0  # rows stored until enough distinct labels determine a loss
        self._singles: SingleRows | None = None
        self._bodies: list[Body] | None = None  # all learned bodies, while provisional
        self._rows = self._bytes = self._rejected = 0  # rows in the learned bodies; lines of text count
        if linear is None and not requested.loss_undecided:
            linear = LinearModel(requested.settings(requested.target))
        if linear is None:
            self._bodies = []
        else:
            self._begin(linear, self._reader_to_learn(linear))

    @property
    def is_provisional(self) -> bool:
        """True while the loss may still change; bodies must then be learned one at a time."""
        return self._bodies is not None

    @property
    def examples(self) -> int:
        """Number of rows learned."""
        return 0 if self.linear is None else self.linear.examples

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes."""
        arrays = [] if self.linear is None else self.linear.learner.own_state().values()
        return BYTES_BESIDE_ARRAYS + sum(array.nbytes for array in arrays)

    @property
    def left_out(self) -> int:
        """Number of skipped bad rows."""
        return self._rejected if self.linear is None else self.linear.rejected

    def _begin(self, linear: LinearModel, reader: Reader) -> None:
        """Switch to another model and its reader."""
        with self.lock:
            self.linear, self._reader, self._singles = linear, reader, None
            self.compiled_formats.clear()
            self._make_query_reader(linear)

    def _make_query_reader(self, linear: LinearModel) -> None:
        """Make the reader of rows to predict for."""
        self._query_reader = self.requested.reader(linear, linear.features)
        # Before the first labelled rows, the meaning of keys is unknown.
        if self._singles is None and linear.schema is not None and SingleRows.supports(linear):
            self._singles = SingleRows(linear, self._query_reader.parser("json"))
            # The predicted label by the sign of the score.
            self._labels = {sign: outputs_of(linear, np.array([float(sign)])) for sign in (-1, 0, 1)}

    def _reader_to_learn(self, linear: LinearModel) -> Reader:
        """A reader of rows to learn from, with the names and columns of the model."""
        linear.features.thaw()
        ahead = linear.features.ahead()
        linear.features.freeze()  # only learning adds names
        return self.requested.reader(linear, ahead, learn=True)

    def learn(self, bodies: list[Body]) -> list[Answer]:
        """Learn from bodies (only one while provisional); refuse all if one is invalid."""
        if self._bodies is None:
            return self._learn(self._read(bodies))
        (body,) = bodies
        answer = self._learn_provisionally(body)
        self._rows += body.lines or len(answer.predictions)
        self._bytes += len(body.data)
        self._rejected += len(answer.rejected)
        self._bodies.append(body)
        if self.linear is None:
            self.waiting += len(answer.predictions) - len(answer.rejected)
        else:
            self.waiting = 0
            if self._rows >= MAX_ROWS or self._bytes >= MAX_BYTES:
                self._bodies = None
        return [answer]

    def _learn_provisionally(self, body: Body) -> Answer:
        """Learn from one body; retrain if it changes the choices from the first rows."""
        read, refusal = None, None
        if self.linear is not None and not self._passes_power(body):
            try:
                read = self._read([body])
            except Refused as problem:
                refusal = problem
            if read is not None and not (read.ranges[0].rejected and self._changes(body)):
                return self._learn(read)[0]
        try:
            linear, reader, all_read = self._anew(body)
        except GiftrlError as problem:
            if refusal is not None:
                raise refusal from None
            if self.linear is None:
                return self._store(body, problem)
        else:
            if read is None or len(all_read.ranges[-1].rejected) < len(read.ranges[0].rejected):
                self._begin(linear, reader)
                return self._learn(all_read)[-1]
        return self._learn(read or self._read([body]))[0]

    def _passes_power(self, body: Body) -> bool:
        """Return True if this body triggers retraining."""
        after = self._rows + body.lines
        grown = after >= MAX_ROWS or self._bytes + len(body.data) >= MAX_BYTES
        return body.format == "arrow" or after.bit_length() > self._rows.bit_length() or grown

    def _target(self, body: Body) -> Target:
        """The target that ``giftrl train`` would choose for all bodies and this one."""
        if self.requested.labels is not None:
            return self.requested.target
        sources = sources_of([*(self._bodies or ()), body])
        return choose_target(first_labels(sources, columns=self._columns).labels, self.requested.loss)

    def _changes(self, body: Body) -> bool:
        """Return True if this body changes the target."""
        settings = cast("LinearModel", self.linear).settings
        try:
            return self._target(body)[:2] != (settings.loss, settings.label_values)
        except GiftrlError:
            return False

    def _anew(self, body: Body) -> tuple[LinearModel, Reader, ReadBodies]:
        """Create a new model, and read all bodies for it; refused if it would reject a learned row."""
        linear = LinearModel(self.requested.settings(self._target(body)))
        reader = self._reader_to_learn(linear)
        bodies = [*(each._replace(skip=True) for each in self._bodies or ()), body]
        read = read_bodies(reader, self._columns, bodies)
        if sum(len(rows.rejected) for rows in read.ranges[:-1]) != self._rejected:
            words = "these labels contradict rows that were already learned"
            raise Refused(422, words, "create a model with settings, such as labels")
        return linear, reader, read

    def _store(self, body: Body, problem: GiftrlError) -> Answer:
        """Store rows until a loss can be chosen; refuse them if more rows cannot help."""
        answer = readable_rows(body, self._columns, accepts=lambda labels: np.ones(len(labels), bool))
        if not isinstance(problem, TooFewLabels):
            raise as_refused(problem)
        if self._rows + body.lines >= MAX_ROWS or self._bytes + len(body.data) >= MAX_BYTES:
            raise Refused(422, as_refused(problem).problem, "create a model with settings, such as labels")
        return answer

    def _read(self, bodies: list[Body]) -> ReadBodies:
        """Read bodies without learning; refuse all, without changes, if one is invalid."""
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
            return read_bodies(self._reader, self._columns, bodies)._replace(names=names)
        except Refused:  # forget the names of rows that are not learned
            self._reader = self._reader_to_learn(cast("LinearModel", self.linear))
            raise

    def _learn(self, read: ReadBodies) -> list[Answer]:
        """Learn from bodies; returns progressive predictions."""
        model = cast("LinearModel", self.linear)
        if read.rows:
            return [self._learn_row(model, row) for row in read.rows]
        before = model.examples
        predictions: list[NDArray[np.float64]] = []
        for batch, news in read.batches:
            with self.lock:
                model.schema = self._reader.schema
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
                self._make_query_reader(model)
            if self._singles is not None and read.names:
                self._singles.add_names(list(read.names))
        scores = np.concatenate(predictions) if predictions else np.empty((0, model.settings.classes))
        return read.answers(outputs_of(model, scores), before, learned=True)

    def _learn_row(self, model: LinearModel, row: SingleRow) -> Answer:
        with self.lock:
            score = cast("SingleRows", self._singles).learn(row)
            return Answer(self._output(model, score, LABEL), [], model.examples)

    def predict(self, bodies: list[Body], output: str = LABEL) -> list[Answer]:
        """Predict one of :data:`OUTPUTS` for each row (None before a loss is chosen), or refuse all bodies."""
        model = self.linear
        if model is None:
            return [readable_rows(body, self._columns) for body in bodies]
        if output == PROBA and not link_of(model.learner.loss).probable:
            raise Refused(422, f"the {model.settings.loss} loss has no probabilities", "leave out proba")
        with self.lock:
            model = cast("LinearModel", self.linear)
            try:
                if model.schema is not None and self._query_reader.schema is None:
                    self._make_query_reader(model)
                single = [self._predict_row(model, body, output) for body in bodies[:1]]
                if single[0] is not None:
                    single += [self._predict_row(model, body, output) for body in bodies[1:]]
                    if None not in single:
                        self.compiled_formats.add(SINGLE_ROWS)
                        return cast("list[Answer]", single)
                read = read_bodies(self._query_reader, self._columns, bodies)
            except Refused:
                self._make_query_reader(model)
                raise
            scores = [scores_of(model, batch) for batch, _ in read.batches] or [np.empty((0, model.settings.classes))]
            if model.schema is None and self._query_reader.schema is not None:  # unlabelled rows do not count
                self._make_query_reader(model)
            examples = model.examples
            self.compiled_formats.update(body.format for body in bodies)
        return read.answers(outputs_of(model, np.concatenate(scores), output), examples)

    def predict_soon(self, body: Body, output: str = LABEL) -> Answer | None:
        """Predict a single row if that takes only microseconds; else None."""
        if SINGLE_ROWS not in self.compiled_formats or output == PROBA or not self.lock.acquire(blocking=False):
            return None
        try:
            return self._predict_row(cast("LinearModel", self.linear), body, output)
        finally:
            self.lock.release()

    def _is_single(self, body: Body) -> bool:
        return self._singles is not None and body.format == "json" and body.data.count(b"\n") == 1

    def _predict_row(self, model: LinearModel, body: Body, output: str) -> Answer | None:
        """Predict a single row; None to leave it to the reader."""
        score = cast("SingleRows", self._singles).predict(body.data) if self._is_single(body) else None
        return None if score is None else Answer(self._output(model, score, output), [], model.examples)

    def _output(self, model: LinearModel, score: float, output: str) -> list[Any]:
        """:func:`outputs_of` one score, without an array if possible."""
        if output == LABEL and model.settings.class_values is not None:
            return self._labels[(score > 0.0) - (score < 0.0)]
        return [score] if output != PROBA else outputs_of(model, np.array([score]), output)


def outputs_of(model: LinearModel, scores: NDArray[np.float64], output: str = LABEL) -> list[Any]:
    """Turn scores into an output for each row."""
    settings = model.settings
    if output == LABEL:
        labels = model.decide(scores).tolist()
        if settings.class_values is None:
            return cast("list[Any]", labels)
        return [int(label) if isinstance(label, float) and label.is_integer() else label for label in labels]
    if output == SCORES and not settings.many:
        return cast("list[Any]", scores.tolist())
    values = model.probabilities(scores) if output == PROBA else scores
    return [dict(zip(settings.class_names, row, strict=True)) for row in values.tolist()]


def scores_of(model: LinearModel, batch: Batch) -> NDArray[np.float64]:
    """Score rows by the loop for single rows, so that results do not depend on batch size."""
    learner: Any = model.learner
    if model.settings.many or not hasattr(learner, "score_row"):
        return model.few_scores(batch)
    rows = as_rows(batch)
    known = rows.indices < learner.dimension
    if not known.all():  # unknown names are ignored
        rows = rows._replace(data=np.where(known, rows.data, 0.0), indices=np.where(known, rows.indices, 0))
    scores: NDArray[np.float64] = np.clip(learner.predict_rows(rows, len(batch)), *range_of(learner, model.clips()))
    return scores + batch.bases if len(batch.bases) else scores
