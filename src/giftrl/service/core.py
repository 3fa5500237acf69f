"""A model that learns and predicts in memory, request by request; bit for bit that of ``giftrl train``."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.config.predictor import link_of, range_of
from giftrl.errors import GiftrlError, Refused
from giftrl.service.bodies import Entry, as_json, groups_of, sources
from giftrl.service.quick import Quick, Row
from giftrl.service.shares import ONE, Answer, Share, as_refused, require_usable, shares_of
from giftrl.streams.batch import Batch
from giftrl.streams.columns import Columns, Kind, Schema
from giftrl.streams.names.features import News
from giftrl.streams.reader import Reader
from giftrl.streams.sources.source import Source
from giftrl.training.model import LinearModel, as_rows

#: For how many rows learning holds the lock at most: less than a millisecond of most models.
AT_ONCE = 256
#: Stands for single rows, which have a way of their own.
ROW = "row"
#: What an answer can say of a row.
LABEL, PROBA, SCORES = KINDS = ("label", "proba", "scores")


class Reading(NamedTuple):
    """Entries that were read and not yet learnt: batches of rows, or the single row of each entry.

    Args:
        batches: rows, and names that are new with them.
        shares: what each entry has of these rows.
        rows: single rows, where there are no batches.
        names: of single rows that are in the batches because the model had not learnt these names.
    """

    batches: list[tuple[Batch, News]]
    shares: list[Share]
    rows: Sequence[Row] = ()
    names: Sequence[str] = ()


class Core:
    """A model whose loss is known, its readers, and the lock that keeps learning and predicting apart.

    One thread learns: :meth:`read` and :meth:`learn` are for that one alone. Any thread may predict. The lock is held
    for a few hundred rows at a time, and never while a disk is waited for.

    Args:
        model: the model, to which nobody else may write.
        columns: what the keys of rows mean.

    >>> from giftrl.training import Settings
    >>> core = Core(LinearModel(Settings(loss="squared", bits=4)), Columns(label="label"))
    >>> core.learn(core.read([Entry("json", b'{"label": 3, "a": 1}\\n')]))[0].predictions
    [0.0]
    >>> core.model.examples, core.predict([Entry("json", b'{"a": 1}\\n{"a": 2}\\n')], SCORES)[0].predictions
    (1, [3.0, 3.0])
    """

    def __init__(self, model: LinearModel, columns: Columns) -> None:
        self.model, self.columns = model, columns
        self.lock = threading.Lock()
        self.warm: set[str] = set()  # formats, and ROW for single rows, whose predictions no compiler delays
        self._quick: Quick | None = None
        self.connect()
        model.features.freeze()  # new names come by `learn` alone
        self._ask()

    def _ask(self) -> None:
        """Make a reader for rows to predict for."""
        self._asking = self._reader(self.model.features)
        # Where no column has a meaning yet, the first rows with labels will say.
        if self._quick is None and self.model.schema is not None and Quick.able(self.model):
            self._quick = Quick(self.model, self._asking.parser("json"))
            # What is predicted for a score, by its sign.
            self._labels = {sign: self._said(np.array([float(sign)]), LABEL) for sign in (-1, 0, 1)}

    def connect(self) -> None:
        """Make a reader for rows to learn from, which knows the names and columns of the model and no others."""
        model, settings = self.model, self.model.settings
        model.features.thaw()
        self._ahead = model.features.ahead()
        model.features.freeze()
        self._reading = self._reader(
            self._ahead, accepts=settings.accepts, expected=partial(settings.expected, more=False)
        )

    def _reader(self, features: Any, **more: Any) -> Reader:
        settings = self.model.settings
        return Reader(
            Source("request", data=b""), features, columns=self.columns, schema=self.model.schema,
            interactions=settings.interactions, ngrams=settings.ngrams, normalize=settings.normalize,
            constant=settings.constant, on_error="skip", labels=settings.label_names, no_base=settings.no_base,
            background=False, **more,
        )  # fmt: skip

    def read(self, entries: list[Entry]) -> Reading:
        """Read entries without learning them; an error, and nothing is changed, if one cannot be used."""
        rows, names = self._to_learn(entries)
        if rows:
            return Reading([], [ONE] * len(rows), rows)
        try:
            reading = self._read(self._reading, entries)._replace(names=names)
            for entry, share in zip(entries, reading.shares, strict=True):
                require_usable(entry, share)
        except (GiftrlError, MemoryError) as problem:
            self.connect()  # names of rows that are not learnt must not be known
            raise as_refused(problem) from None
        return reading

    def _to_learn(self, entries: list[Entry]) -> tuple[list[Row], list[str]]:
        """The rows of entries of one row each, none where the reader must look; and names that it will meet then."""
        rows: list[Row] = []
        names: list[str] = []
        if self._quick is None or not all(map(self.quick, entries)):
            return rows, names
        with self.lock:
            for entry in entries:
                found = self._quick.to_learn(entry.data)
                if isinstance(found, Row):
                    rows.append(found)
                else:
                    names += found
        return (rows, []) if len(rows) == len(entries) else ([], names)

    def _read(self, reader: Reader, entries: list[Entry]) -> Reading:
        batches: list[tuple[Batch, News]] = []
        shares: list[Share] = []
        for group in groups_of(entries):
            # What JSON says of its keys is not enough for a table, whose columns must all be known.
            if group[0].format == "arrow" and not of_table(reader.schema, self.columns):
                group = [as_json(group[0])]
            ((source, ends),) = sources(group)
            found = []
            for batch in reader.over(source, group[0].format):
                found.append(batch)
                batches.append((batch, reader.features.news()))
            shares += shares_of(found, ends)
        return Reading(batches, shares)

    def learn(self, reading: Reading) -> list[Answer]:
        """Learn from entries; the predictions are those made before each label was used."""
        model, made, before = self.model, [], self.model.examples
        if reading.rows:
            return self._learn_rows(reading.rows)
        for batch, news in reading.batches:
            with self.lock:
                model.schema = self._reading.schema
                self._enter(news)
                model.rejected += len(batch.rejected)
            steps = model.learn(batch, AT_ONCE)
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

    def _learn_rows(self, rows: Sequence[Row]) -> list[Answer]:
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

    def predict(self, entries: list[Entry], kind: str = LABEL) -> list[Answer]:
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

    def predict_soon(self, entry: Entry, kind: str = LABEL) -> Answer | None:
        """Predict for one row, if that takes no more than some microseconds now; None otherwise."""
        if ROW not in self.warm or kind == PROBA or not self.lock.acquire(blocking=False):
            return None
        try:
            return self._predict_row(entry, kind)
        finally:
            self.lock.release()

    def quick(self, entry: Entry) -> bool:
        """Whether an entry is one row that takes a few microseconds."""
        return self._quick is not None and entry.format == "json" and entry.lines == 1

    def _predict_rows(self, entries: list[Entry], kind: str) -> list[Answer] | None:
        """Predict for entries of one row each; None where the reader must look at them."""
        answers = []
        for entry in entries:
            found = self._predict_row(entry, kind)
            if found is None:
                return None
            answers.append(found)
        self.warm.add(ROW)
        return answers

    def _predict_row(self, entry: Entry, kind: str) -> Answer | None:
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

    def _answers(self, shares: list[Share], said: list[Any], examples: int, counting: bool = False) -> list[Answer]:
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
