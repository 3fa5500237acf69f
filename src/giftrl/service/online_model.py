"""Single rows in JSON, learnt and scored in a tenth of the time that the readers of streams take to get ready.

A reader of JSON lines prepares arrays and loops for many rows: 0.4 ms, whether there is one or fifty. A request often
has one. It is read here as that reader reads lines that are not plain (``orjson`` and a walk over the object), and is
learnt or scored in memory that is kept from row to row, by the same loops and to the same bits. Whatever is out of the
ordinary is left to the readers, errors included.
"""

import math
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
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
    require_usable,
    row_ranges,
    sources,
)
from giftrl.streams.batch import Batch
from giftrl.streams.columns import Columns, Kind, Schema
from giftrl.streams.names.features import News
from giftrl.streams.names.objects import BadValue
from giftrl.streams.reader import Reader
from giftrl.streams.sources.source import Source
from giftrl.streams.text.json import JsonLines
from giftrl.training.model import LinearModel, as_rows

#: Names whose coordinates are known by heart, at most; and the entries of a row.
MAX_KNOWN_NAMES, MAX_ROW_ENTRIES = 100_000, 512
#: Layouts of rows that are known by heart, at most.
MAX_LAYOUTS = 256
NUMBERS = {int, float}

Places = dict[str, tuple[int, float]]  # the coordinate and the sign of each name


class SingleRow(NamedTuple):
    """A row of a request.

    Args:
        slots, values: its entries, the constant included.
        label: as the loss takes it; NaN where it is not asked for.
    """

    slots: Any
    values: list[float]
    label: float = math.nan


class KeyLayout(NamedTuple):
    """Where the numbers of rows with the same keys go, the constant included, where none of them is 0.

    Args:
        slots: the coordinates.
        signs: by which the numbers are multiplied.
        values: the memory of the row, as far as it is used.
        pack: writes numbers into that memory.
        quotes: how many a line has.
    """

    slots: NDArray[np.int32]
    signs: NDArray[np.float64]
    values: NDArray[np.float64]
    pack: Callable[..., None]
    quotes: int


class NamedValues(NamedTuple):
    """What a line says, in the names of features."""

    names: list[str]
    values: list[float]
    label: float


class SingleRows:
    """Single rows of one model; for one thread at a time.

    Args:
        model: whose features are frozen.
        parser: of JSON lines, as it is for this model.
    """

    def __init__(self, model: LinearModel, parser: JsonLines) -> None:
        self._model, self._parser = model, parser
        self._special = parser.special
        self._asked: Places = {}  # of names to predict for
        self._learnt: Places = {}  # of names that the model has learnt, so that it need not be told of them
        self._labels: dict[float, float] = {}  # the labels of the loss by those of the data
        self._clips = model.clips()
        self._constant = [model.features.constant] if model.settings.constant else []
        self._learner = cast("Any", model.learner)
        self._one = [1.0] * len(self._constant)
        self._memory: OneRow = self._learner.one_row(sparse_row(MAX_ROW_ENTRIES))
        self._values, self._indices = self._memory.values, cast("Any", self._memory).rows.value.indices
        self._layouts: dict[tuple[str, ...], KeyLayout] = {}  # of rows to predict for, by their keys
        self._written: KeyLayout | None = None  # whose coordinates are in the memory of the row

    @staticmethod
    def able(model: LinearModel) -> bool:
        """Whether the rows of a model need nothing but names and values, and have one score."""
        settings = model.settings
        plain = settings.normalize == "none" and not settings.interactions and not settings.ngrams
        return plain and not settings.many and hasattr(model.learner, "score_row")

    def predict(self, line: bytes) -> float | None:
        """<s, x> of a row, clipped as the model clips; None where the reader must look at it."""
        try:
            top = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        if type(top) is not dict:
            return None
        if not self._written_by_layout(line, top):
            row = self._to_predict(line, top)
            if row is None:
                return None
            self._write(row)
        score = float(self._learner.score_row(self._memory))
        if self._clips is False:
            return score
        low, high = range_of(self._learner, self._clips)
        return min(max(score, low), high)

    def _written_by_layout(self, line: bytes, top: dict[str, Any]) -> bool:
        """Whether a row of numbers has keys that are known, and has been written to the memory."""
        layout = self._layouts.get(tuple(top))
        values = top.values()
        if layout is None or not all(values) or line.count(b'"') != layout.quotes:
            return False
        try:
            if not math.isfinite(sum(values)):
                return False
            layout.pack(*values, *self._one)  # true is 1 here, too
        except (TypeError, OverflowError, struct.error):  # something is no number
            return False
        np.multiply(layout.values, layout.signs, layout.values)
        if self._written is not layout:
            self._indices[: len(layout.slots)] = layout.slots
            self._memory.end(len(layout.slots))
            self._written = layout
        return True

    def _to_predict(self, line: bytes, top: dict[str, Any]) -> SingleRow | None:
        """A row to predict for; None where the reader must look at it."""
        named = self._named(line, top)
        if named is None or named.label == named.label:  # a label, which may be none of the model's
            return None
        row = self._placed(named, self._asked)
        if row is None and self._find(named.names, self._asked):
            row = self._placed(named, self._asked)
        if row is not None and tuple(named.names) == tuple(top) and set(map(type, top.values())) <= NUMBERS:
            self._keep_layout(tuple(top))
        return row

    def to_learn(self, line: bytes) -> SingleRow | list[str]:
        """A row to learn from; or the names of its features that are to be :meth:`enter`-ed, and the reader must look.

        There are no such names where the reader must look for another reason.
        """
        try:
            top = orjson.loads(line)
        except orjson.JSONDecodeError:
            return []
        named = self._named(line, top)
        label = math.nan if named is None else self._label(named.label)
        if named is None or label != label:
            return []
        row = self._placed(named, self._learnt)
        return named.names if row is None else row._replace(label=label)

    def enter(self, names: Iterable[str]) -> None:
        """Take note of names that the model has learnt."""
        self._find(list(names), self._learnt)

    def learn(self, row: SingleRow) -> float:
        """Learn from a row; the prediction that was made before."""
        self._write(row)
        return self._model.learn_row(self._memory, row.label)

    def _keep_layout(self, keys: tuple[str, ...]) -> None:
        """Keep the coordinates of rows of numbers under these keys, which are names of features as they are."""
        if len(self._layouts) >= MAX_LAYOUTS:
            self._layouts.clear()
        places = [self._asked[key] for key in keys]
        slots = np.array([slot for slot, _ in places] + self._constant, np.int32)
        signs = np.array([sign for _, sign in places] + self._one)
        values = self._values[: len(slots)]
        pack = partial(struct.Struct(f"={len(slots)}d").pack_into, values, 0)
        self._layouts[keys] = KeyLayout(slots, signs, values, pack, 2 * len(keys))

    def _named(self, line: bytes, top: Any) -> NamedValues | None:
        if type(top) is not dict:
            return None
        try:
            named = _flat(top, self._parser.label, self._parser.label_of) if self._special.isdisjoint(top) else None
            if named is None:
                found = self._parser.row(line)
                if found.weight != 1.0:
                    return None
                named = NamedValues(
                    [each.name for each in found.features], [each.value for each in found.features], found.label
                )
        except BadValue:
            return None
        # Of a key that an object has twice, orjson keeps the last value. Keys and texts have two quotes each.
        if b"\\" not in line and line.count(b'"') != 2 * _texts(top):
            return None
        return named if math.isfinite(sum(named.values)) and len(named.values) < MAX_ROW_ENTRIES else None

    def _placed(self, named: NamedValues, places: Places) -> SingleRow | None:
        """A row of a line; None where a name is not among these places, or two have the same one."""
        try:
            pairs = [places[name] for name in named.names]
        except KeyError:
            return None
        slots = [slot for slot, _ in pairs] + self._constant
        if len(set(slots)) < len(slots) or max(slots, default=0) >= self._learner.dimension:
            return None
        values = [sign * value for (_, sign), value in zip(pairs, named.values, strict=True)]
        return SingleRow(slots, values + self._one)

    def _write(self, row: SingleRow) -> None:
        count = len(row.slots)
        self._values[:count], self._indices[:count] = row.values, row.slots
        self._memory.end(count)
        self._written = None

    def _find(self, names: list[str], places: Places) -> bool:
        """Look names up."""
        if len(places) > MAX_KNOWN_NAMES:
            places.clear()
        try:
            slots, signs = self._model.features.slots(names)
        except ValueError:
            return False
        # A frozen dictionary gives -1 to a name that it does not have, and may have it later.
        places |= {n: (k, s) for n, k, s in zip(names, slots.tolist(), signs.tolist(), strict=True) if k >= 0}
        return True

    def _label(self, given: float) -> float:
        """A label of the data as the loss takes it; NaN where it cannot be used."""
        found = self._labels.get(given)
        if found is None:
            settings, one = self._model.settings, np.array([given])
            good = given == given and settings.accepts(one)[0]
            found = float(settings.mapped(one)[0]) if good else math.nan
            if settings.labels is not None:  # of which there are few
                self._labels[given] = found
        return found


def _flat(top: dict[str, Any], label: str | None, label_of: Callable[[Any], float]) -> NamedValues | None:
    """What an object without keys of a meaning of their own says; None where something is nested in it."""
    names, values, y = [], [], math.nan
    for name, value in top.items():
        kind = type(value)
        if name == label:
            y = label_of(value)
        elif kind is float or kind is int or kind is bool:
            if value:
                names.append(name)
                values.append(float(value))
        elif kind is str:
            if value:
                names.append(f"{name}={value}")
                values.append(1.0)
        elif value is not None:
            return None
    return NamedValues(names, values, y)


def _texts(value: Any) -> int:
    """How many keys and texts there are in what JSON says."""
    if type(value) is dict:
        count = len(value)
        for each in value.values():
            if type(each) is not float:
                count += _texts(each)
        return count
    if type(value) is list:
        return sum(map(_texts, value))
    return int(type(value) is str)


# A model that learns and predicts in memory, request by request; bit for bit that of ``giftrl train``.

#: For how many rows learning holds the lock at most: less than a millisecond of most models.
ROWS_PER_LOCK = 256
#: Stands for single rows, which have a way of their own.
ROW = "row"
#: What an answer can say of a row.
LABEL, PROBA, SCORES = KINDS = ("label", "proba", "scores")


class ReadBodies(NamedTuple):
    """Entries that were read and not yet learnt: batches of rows, or the single row of each entry.

    Args:
        batches: rows, and names that are new with them.
        shares: what each entry has of these rows.
        rows: single rows, where there are no batches.
        names: of single rows that are in the batches because the model had not learnt these names.
    """

    batches: list[tuple[Batch, News]]
    shares: list[RowRange]
    rows: Sequence[SingleRow] = ()
    names: Sequence[str] = ()


class OnlineModel:
    """A model whose loss is known, its readers, and the lock that keeps learning and predicting apart.

    One thread learns: :meth:`read` and :meth:`learn` are for that one alone. Any thread may predict. The lock is held
    for a few hundred rows at a time, and never while a disk is waited for.

    Args:
        model: the model, to which nobody else may write.
        columns: what the keys of rows mean.

    >>> from giftrl.training import Settings
    >>> core = OnlineModel(LinearModel(Settings(loss="squared", bits=4)), Columns(label="label"))
    >>> core.learn(core.read([Body("json", b'{"label": 3, "a": 1}\\n')]))[0].predictions
    [0.0]
    >>> core.model.examples, core.predict([Body("json", b'{"a": 1}\\n{"a": 2}\\n')], SCORES)[0].predictions
    (1, [3.0, 3.0])
    """

    def __init__(self, model: LinearModel, columns: Columns) -> None:
        self.model, self.columns = model, columns
        self.lock = threading.Lock()
        self.warm: set[str] = set()  # formats, and ROW for single rows, whose predictions no compiler delays
        self._quick: SingleRows | None = None
        self.connect()
        model.features.freeze()  # new names come by `learn` alone
        self._ask()

    def _ask(self) -> None:
        """Make a reader for rows to predict for."""
        self._asking = self._reader(self.model.features)
        # Where no column has a meaning yet, the first rows with labels will say.
        if self._quick is None and self.model.schema is not None and SingleRows.able(self.model):
            self._quick = SingleRows(self.model, self._asking.parser("json"))
            # What is predicted for a score, by its sign.
            self._labels = {sign: self._said(np.array([float(sign)]), LABEL) for sign in (-1, 0, 1)}

    def connect(self) -> None:
        """Make a reader for rows to learn from, which knows the names and columns of the model and no others."""
        model, settings = self.model, self.model.settings
        model.features.thaw()
        self._ahead = model.features.ahead()
        model.features.freeze()
        self._reading = self._reader(self._ahead, accepts=settings.accepts, expected=settings.expected)

    def _reader(self, features: Any, **more: Any) -> Reader:
        settings = self.model.settings
        return Reader(
            Source("request", data=b""), features, columns=self.columns, schema=self.model.schema,
            interactions=settings.interactions, ngrams=settings.ngrams, normalize=settings.normalize,
            constant=settings.constant, on_error="skip", labels=settings.label_names, no_base=settings.no_base,
            background=False, **more,
        )  # fmt: skip

    def read(self, entries: list[Body]) -> ReadBodies:
        """Read entries without learning them; an error, and nothing is changed, if one cannot be used."""
        rows, names = self._to_learn(entries)
        if rows:
            return ReadBodies([], [ONE_ROW] * len(rows), rows)
        try:
            reading = self._read(self._reading, entries)._replace(names=names)
            for entry, share in zip(entries, reading.shares, strict=True):
                require_usable(entry, share)
        except (GiftrlError, MemoryError) as problem:
            self.connect()  # names of rows that are not learnt must not be known
            raise as_refused(problem) from None
        return reading

    def _to_learn(self, entries: list[Body]) -> tuple[list[SingleRow], list[str]]:
        """The rows of entries of one row each, none where the reader must look; and names that it will meet then."""
        rows: list[SingleRow] = []
        names: list[str] = []
        if self._quick is None or not all(map(self.quick, entries)):
            return rows, names
        with self.lock:
            for entry in entries:
                found = self._quick.to_learn(entry.data)
                if isinstance(found, SingleRow):
                    rows.append(found)
                else:
                    names += found
        return (rows, []) if len(rows) == len(entries) else ([], names)

    def _read(self, reader: Reader, entries: list[Body]) -> ReadBodies:
        batches: list[tuple[Batch, News]] = []
        shares: list[RowRange] = []
        for group in groups_of(entries):
            # What JSON says of its keys is not enough for a table, whose columns must all be known.
            if group[0].format == "arrow" and not of_table(reader.schema, self.columns):
                group = [as_json(group[0])]
            ((source, ends),) = sources(group)
            found = []
            for batch in reader.over(source, group[0].format):
                found.append(batch)
                batches.append((batch, reader.features.news()))
            shares += row_ranges(found, ends)
        return ReadBodies(batches, shares)

    def learn(self, reading: ReadBodies) -> list[Answer]:
        """Learn from entries; the predictions are those made before each label was used."""
        model, made, before = self.model, [], self.model.examples
        if reading.rows:
            return self._learn_rows(reading.rows)
        for batch, news in reading.batches:
            with self.lock:
                model.schema = self._reading.schema
                self._enter(news)
                model.rejected += len(batch.rejected)
            steps = model.learn(batch, ROWS_PER_LOCK)
            while True:
                with self.lock:
                    step = next(steps, None)
                if step is None:
                    break
                made.append(step[1])
        scores = np.concatenate(made) if made else np.empty((0, model.settings.classes))
        with self.lock:
            if self._quick is None and model.schema is not None:
                self._ask()
            if self._quick is not None and reading.names:
                self._quick.enter(reading.names)
        return self._answers(reading.shares, self._said(scores, LABEL), before, counting=True)

    def _learn_rows(self, rows: Sequence[SingleRow]) -> list[Answer]:
        """Learn single rows."""
        answers = []
        for row in rows:
            with self.lock:
                assert self._quick is not None
                score = self._quick.learn(row)
                answers.append(Answer(self._said_of(score, LABEL), [], self.model.examples))
        return answers

    def _enter(self, news: News) -> None:
        features = self.model.features
        features.thaw()
        features.learn(news)
        features.freeze()

    def predict(self, entries: list[Body], kind: str = LABEL) -> list[Answer]:
        """Predict for rows, of which labels are not used; an error if an entry cannot be used.

        Args:
            entries: rows.
            kind: "label", what is predicted; "proba", the probability of each label; "scores", <s, x>.
        """
        model = self.model
        probable = kind != PROBA or link_of(model.learner.loss).probable
        if not probable:
            raise Refused(422, f"the {model.settings.loss} loss has no probabilities", "leave out proba")
        with self.lock:
            try:
                if model.schema is not None and self._asking.schema is None:
                    self._ask()
                single = self._predict_rows(entries, kind)
                if single is not None:
                    return single
                reading = self._read(self._asking, entries)
            except (GiftrlError, MemoryError) as problem:
                self._ask()
                raise as_refused(problem) from None
            scores = [scores_of(model, batch) for batch, _ in reading.batches]
            if model.schema is None and self._asking.schema is not None:  # rows without labels decide nothing
                self._ask()
        for entry, share in zip(entries, reading.shares, strict=True):
            require_usable(entry, share)
        self.warm.update(entry.format for entry in entries)
        said = self._said(np.concatenate(scores) if scores else np.empty((0, model.settings.classes)), kind)
        return self._answers(reading.shares, said, model.examples)

    def predict_soon(self, entry: Body, kind: str = LABEL) -> Answer | None:
        """Predict for one row, if that takes no more than some microseconds now; None otherwise."""
        if ROW not in self.warm or kind == PROBA or not self.lock.acquire(blocking=False):
            return None
        try:
            return self._predict_row(entry, kind)
        finally:
            self.lock.release()

    def quick(self, entry: Body) -> bool:
        """Whether an entry is one row that takes a few microseconds."""
        return self._quick is not None and entry.format == "json" and entry.lines == 1

    def _predict_rows(self, entries: list[Body], kind: str) -> list[Answer] | None:
        """Predict for entries of one row each; None where the reader must look at them."""
        answers = []
        for entry in entries:
            found = self._predict_row(entry, kind)
            if found is None:
                return None
            answers.append(found)
        self.warm.add(ROW)
        return answers

    def _predict_row(self, entry: Body, kind: str) -> Answer | None:
        """Predict for an entry of one row; None where the reader must look at it."""
        score = self._quick.predict(entry.data) if self._quick is not None and self.quick(entry) else None
        return None if score is None else Answer(self._said_of(score, kind), [], self.model.examples)

    def _said_of(self, score: float, kind: str) -> list[Any]:
        """:meth:`_said` of one score, without an array where none is needed."""
        if kind == LABEL and self.model.settings.class_values is not None:
            return self._labels[(score > 0.0) - (score < 0.0)]
        return [score] if kind != PROBA else self._said(np.array([score]), kind)

    def _said(self, scores: NDArray[np.float64], kind: str) -> list[Any]:
        """What answers say where these are the scores."""
        model, settings = self.model, self.model.settings
        if kind == PROBA:
            names = settings.class_names
            return [dict(zip(names, row, strict=True)) for row in model.probabilities(scores).tolist()]
        if kind == SCORES and settings.many:
            return [dict(zip(settings.class_names, row, strict=True)) for row in scores.tolist()]
        said: list[Any] = (model.decide(scores) if kind == LABEL else scores).tolist()
        if kind == LABEL and settings.class_values is not None:
            return [int(each) if isinstance(each, float) and each.is_integer() else each for each in said]
        return said

    def _answers(self, shares: list[RowRange], said: list[Any], examples: int, counting: bool = False) -> list[Answer]:
        answers, at = [], 0
        for share in shares:
            count = int(share.used.sum())
            mine = said[at : at + count]
            if share.rejected:
                spread = np.full(len(share.used), None, object)
                spread[share.used] = mine
                mine = spread.tolist()
            at += count
            examples += count if counting else 0
            answers.append(Answer(mine, share.rejected, examples))
        return answers


def of_table(schema: Schema | None, columns: Columns) -> bool:
    """Whether a schema may say what every column is for; one of JSON names those with a meaning of their own alone."""
    asked = {Kind.CATEGORY: columns.categorical, Kind.TEXT: columns.text, Kind.NUMBER: (), Kind.NUMBERS: (),
             Kind.CATEGORIES: ()}  # fmt: skip
    return schema is None or any(
        kind in asked and name not in asked[kind] for name, kind in zip(schema.names, schema.kinds, strict=True)
    )


def scores_of(model: LinearModel, batch: Batch) -> NDArray[np.float64]:
    """The scores of rows, by the loop that also scores single ones: the same bits, however many are asked for."""
    learner: Any = model.learner
    if model.settings.many or not hasattr(learner, "score_row"):
        return model.few_scores(batch)
    rows = as_rows(batch)
    known = rows.indices < learner.dimension
    if not known.all():  # names that the model has not learnt count nothing
        rows = rows._replace(data=np.where(known, rows.data, 0.0), indices=np.where(known, rows.indices, 0))
    scores: NDArray[np.float64] = np.clip(learner.predict_rows(rows, len(batch)), *range_of(learner, model.clips()))
    return scores + batch.bases if len(batch.bases) else scores
