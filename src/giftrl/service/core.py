"""A model that learns and predicts in memory, request by request; bit for bit that of ``giftrl train``."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import GiftrlError, InvalidInput, Refused
from giftrl.recipes.predictor import link_of
from giftrl.service.bodies import Entry, sources
from giftrl.service.quick import Quick
from giftrl.streams.batch import Batch, Rejected
from giftrl.streams.columns import Columns
from giftrl.streams.names.base import News
from giftrl.streams.reader import Reader
from giftrl.streams.sources.source import Source
from giftrl.training.model import LinearModel

#: For how many rows learning holds the lock at most: less than a millisecond of most models.
AT_ONCE = 256
#: Up to how many rows one after the other take less time than together.
FEW = 8
#: How many rows that cannot be used an answer lists.
LISTED = 20
#: What an answer can say of a row.
LABEL, PROBA, SCORES = KINDS = ("label", "proba", "scores")


class Share(NamedTuple):
    """What one entry has of a reading: the rows in order, True for those that can be used, and why others cannot."""

    used: NDArray[np.bool_]
    rejected: list[Rejected]


class Reading(NamedTuple):
    """Entries that were read and not yet learnt."""

    batches: list[tuple[Batch, News]]
    shares: list[Share]


class Answer(NamedTuple):
    """What became of an entry: a prediction for each row, None where there is none, and the rows left out."""

    predictions: list[Any]
    rejected: list[Rejected]
    examples: int  # that the model has learnt, with these


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
        self.warm: set[tuple[str, str]] = set()  # formats and kinds of answers that no compiler delays
        self.connect()
        model.features.freeze()  # new names come by `learn` alone
        self._ask()

    def _ask(self) -> None:
        """Make a reader for rows to predict for."""
        self._asking = self._reader(self.model.features)
        self._quick: Quick | None = None
        # Where no column has a meaning yet, the first rows with labels will say.
        if Quick.able(self.model) and self.model.schema is not None:
            self._quick = Quick(self.model, self._asking.parser("json"))

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
        try:
            reading = self._read(self._reading, entries)
            for entry, share in zip(entries, reading.shares, strict=True):
                require_usable(entry, share)
        except (GiftrlError, MemoryError) as problem:
            self.connect()  # names of rows that are not learnt must not be known
            raise as_refused(problem) from None
        return reading

    def _read(self, reader: Reader, entries: list[Entry]) -> Reading:
        batches: list[tuple[Batch, News]] = []
        shares: list[Share] = []
        for source, ends in sources(entries):
            found = []
            for batch in reader.over(source, entries[len(shares)].format):
                found.append(batch)
                batches.append((batch, reader.features.news()))
            shares += shares_of(found, ends)
        return Reading(batches, shares)

    def learn(self, reading: Reading) -> list[Answer]:
        """Learn from entries; the predictions are those made before each label was used."""
        model, made, before = self.model, [], self.model.examples
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
        return self._answers(reading.shares, self._said(scores, LABEL), before, counting=True)

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
                quick = self._quickly(entries)
                if quick is not None:
                    return [Answer(self._said(quick[k : k + 1], kind), [], model.examples) for k in range(len(quick))]
                reading = self._read(self._asking, entries)
            except (GiftrlError, MemoryError) as problem:
                self._ask()
                raise as_refused(problem) from None
            scores = [model.few_scores(batch) for batch, _ in reading.batches]
            if model.schema is None and self._asking.schema is not None:  # rows without labels decide nothing
                self._ask()
        for entry, share in zip(entries, reading.shares, strict=True):
            require_usable(entry, share)
        said = self._said(np.concatenate(scores) if scores else np.empty((0, model.settings.classes)), kind)
        return self._answers(reading.shares, said, model.examples)

    def quick(self, entry: Entry) -> bool:
        """Whether an entry is one row that takes a few microseconds."""
        return self._quick is not None and entry.format == "json" and entry.lines == 1

    def _quickly(self, entries: list[Entry]) -> NDArray[np.float64] | None:
        """The scores of a few entries of one row each; None where the reader must look at them."""
        quick = self._quick
        if quick is None or len(entries) > FEW or not all(map(self.quick, entries)):
            return None
        scores = [quick.score(each.data) for each in entries]
        return None if None in scores else np.array(scores)

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


def shares_of(batches: list[Batch], ends: list[int]) -> list[Share]:
    """The part of each entry in the batches of a source, by the lines at which the entries end."""
    rejected = [each for batch in batches for each in batch.rejected]
    if len(ends) == 1 and not rejected:
        return [Share(np.ones(sum(map(len, batches)), bool), [])]
    good = np.concatenate([np.empty(0, np.int64), *(batch.lines for batch in batches)])
    lines = np.concatenate([good, np.array([each.line for each in rejected], np.int64)])
    order = np.argsort(lines, kind="stable")
    used = (np.arange(len(lines)) < len(good))[order]
    cuts = [len(lines)] if len(ends) == 1 else np.searchsorted(lines[order], ends, side="right").tolist()
    shares = []
    for k, (begin, end) in enumerate(zip([0, *cuts], cuts, strict=False)):
        first = 0 if k == 0 else ends[k - 1]
        last = ends[k] if len(ends) > 1 else None
        mine = [each for each in rejected if each.line > first and (last is None or each.line <= last)]
        shares.append(Share(used[begin:end], [each._replace(line=each.line - first) for each in mine]))
    return shares


def require_usable(entry: Entry, share: Share) -> None:
    """Refuse an entry that has rows which cannot be used, unless these are to be left out; or that has no rows."""
    if not len(share.used):
        raise Refused(422, "the body has no row", 'send a row, such as {"label": 1, "age": 33}')
    if share.rejected and not entry.skip:
        count = len(share.rejected)
        words = f"{count} of {len(share.used)} rows cannot be used, so none is learnt or predicted"
        raise Refused(422, words, "mend them, or send them with ?on_error=skip", rows=described(share.rejected))


def described(rejected: Sequence[Rejected]) -> list[dict[str, Any]]:
    """Rows that cannot be used, as answers list them."""
    return [
        {"row": each.line, "column": each.column, "problem": each.problem, "expected": plain(each.expected)}
        for each in rejected[:LISTED]
    ]


def as_refused(problem: BaseException) -> Refused:
    """An error as an answer to a request."""
    if isinstance(problem, Refused):
        return problem
    if isinstance(problem, MemoryError):
        return Refused(413, "the rows do not fit in memory", "send fewer at a time")
    if isinstance(problem, InvalidInput):
        return Refused(422, plain(f"{problem.rule}"), plain(problem.remedy))
    return Refused(422, plain(str(problem)), "change the rows or the settings")


def plain(words: str) -> str:
    """A message of the command line for those who have no command line."""
    for option, ours in (("--on-error skip", "?on_error=skip"), ("--labels", "labels"), ("--loss ", "loss ")):
        words = words.replace(option, ours)
    return words
