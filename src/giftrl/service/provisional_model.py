"""What a model is to be: the settings that its creator gave, which may be none at all."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.errors import GiftrlError, Refused, TooFewLabels, render
from giftrl.service.bodies import (
    Answer,
    Body,
    RowRange,
    as_refused,
    in_http,
    require_usable,
    row_ranges,
    sources,
)
from giftrl.service.online_model import LABEL, OnlineModel, ReadBodies
from giftrl.streams.columns import Columns
from giftrl.streams.first_labels import MAX_BYTES, MAX_ROWS, first_labels
from giftrl.streams.label_names import LabelNames
from giftrl.streams.names.hashing import Hashing
from giftrl.streams.reader import Reader
from giftrl.training.choose_loss import AUTO, Target, choose_target, chosen_by_rows, placeholder_target
from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings

#: What rows can have besides their features; the label is always under "label".
ROW_SETTINGS = ("weight", "ignore", "categorical", "date", "text")

#: What some settings must be, which Python would take for true or false, or for a list.
SETTING_TYPES: dict[str, tuple[type, str]] = {
    "constant": (bool, "true or false"), "dictionary": (bool, "true or false"),
    "interactions": (list, "a list of lists of names"), "ngrams": (list, "a list of names with their sizes"),
    "dtype": (str, "float32 or float64"),
}  # fmt: skip


class RequestedSettings(NamedTuple):
    """Settings as they were asked for.

    Args:
        given: as JSON has them: the options of ``giftrl train`` by name, such as ``{"loss": "squared"}``.

    >>> RequestedSettings({"labels": ["no", "yes"]}).target.loss
    'logistic'
    >>> RequestedSettings({}).open, RequestedSettings({"loss": "squared"}).open
    (True, False)
    """

    given: dict[str, Any]

    @classmethod
    def checked(cls, given: Any, most_bits: int = 30) -> "RequestedSettings":
        """Settings from a request; refused where no model can be made of them.

        >>> RequestedSettings.checked({"los": "squared"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        giftrl.errors.Refused: 'los' is no setting; send some of beta, bits, ...
        """
        if not isinstance(given, dict):
            raise Refused(400, "settings are no JSON object", 'send {}, or some such as {"loss": "squared"}')
        known = ["loss", "labels", "dictionary", *ROW_SETTINGS]
        known += [each.name for each in fields(Settings) if each.name not in ("loss", "label_values")]
        for name in given:
            if name not in known:
                shown = ", ".join(sorted(known))
                raise Refused(422, f"{name!r:.60} is no setting", f"send some of {shown}")
        for name, (kind, words) in SETTING_TYPES.items():
            if name in given and not isinstance(given[name], kind):
                raise Refused(422, f"{name} is {given[name]!r:.40}", f"send {words}, or leave it out")
        if given.get("dictionary") and given.get("bits") is not None:
            words = (
                "a model with a dictionary has as many weights as names, so that bits and dictionary exclude each other"
            )
            raise Refused(422, words, "leave one of them out")
        wanted = cls(dict(given))
        try:
            settings = wanted.settings(wanted.target)
            bits = settings.bits
            if bits is not None and not (type(bits) is int and 1 <= bits <= most_bits):
                raise Refused(422, f"bits is {settings.bits!r:.20}", f"send a number from 1 to {most_bits}")
            if settings.classes > MAX_CLASSES:
                raise Refused(422, f"there are {settings.classes} labels", f"send at most {MAX_CLASSES}")
            # A model of these settings, and its readers; with few weights, which need no memory.
            OnlineModel(LinearModel(replace(settings, bits=None if bits is None else 1)), wanted.columns)
        except Refused:
            raise
        except GiftrlError as problem:
            raise Refused(422, problem.told(in_http), "change the settings") from None
        except (AttributeError, TypeError, ValueError, ArithmeticError, MemoryError) as problem:
            raise Refused(422, f"no model can have these settings ({type(problem).__name__})", "change them") from None
        return wanted

    @property
    def loss(self) -> str:
        """The name of the loss, or "auto"."""
        return str(self.given.get("loss", AUTO))

    @property
    def labels(self) -> Any:
        """The labels of all classes; None where they are not given."""
        labels = self.given.get("labels")
        if labels is None:
            return None
        if not isinstance(labels, list):
            raise Refused(422, "labels is no list", 'send such as {"labels": ["no", "yes"]}')
        numbers = [float(each) for each in labels if type(each) in (int, float) and math.isfinite(each)]
        texts = [each for each in labels if isinstance(each, str)]
        if len(labels) not in (len(numbers), len(texts)):
            raise Refused(422, "labels are neither all numbers nor all texts", 'send such as {"labels": ["no", "yes"]}')
        return tuple(numbers if len(numbers) == len(labels) else texts)

    @property
    def open(self) -> bool:
        """Whether the first rows choose the loss or its labels."""
        return bool(chosen_by_rows(self.loss, self.labels))

    @property
    def target(self) -> Target:
        """The loss and its labels; any that go with what is given, where the first rows will choose them."""
        return placeholder_target(self.loss, self.labels)

    @property
    def columns(self) -> Columns:
        """What the keys of rows mean."""
        given: Mapping[str, Any] = {name: self.given[name] for name in ROW_SETTINGS if name in self.given}
        for name, value in given.items():
            texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
            if not (isinstance(value, str) if name == "weight" else texts):
                raise Refused(422, f"{name} is no {'text' if name == 'weight' else 'list of texts'}", "change it")
        named: dict[str, Any] = {k: v if k == "weight" else tuple(v) for k, v in given.items()}
        return Columns(label="label", **named)

    def settings(self, target: Target) -> Settings:
        """The settings of a model with this target."""
        others = ("loss", "labels", "dictionary", *ROW_SETTINGS)
        given = {name: value for name, value in self.given.items() if name not in others}
        if self.given.get("dictionary", False):
            given["bits"] = None
        usual = Settings(loss=target.loss, label_values=target.label_values).state()
        return Settings.restore(usual | given | {"loss": target.loss, "label_values": target.label_values})


#: The most classes of a model in the service: each has weights of its own for every feature.
MAX_CLASSES = 10_000


# A model from its first row on: while it is young, its rows choose the loss as the first rows of a file do.
#
# ``giftrl train`` looks at the labels of the first 10,000 rows, and at the keys of the first 100 lines, before it
# learns anything. A service cannot wait for so many. So a model whose loss is not given is learned anew from its log
# whenever the number of its rows passes a power of two, up to 10,000: each time as ``giftrl train`` would learn these
# rows. A label that the loss so far does not take has the same effect. From 10,000 rows on the loss stays as it is.


class ProvisionalModel:
    """A model that learns entries one after the other; what it comes to depends on their order and on nothing else.

    Args:
        wanted: the settings that were asked for.
        model: a model to go on with, which is no longer young; None to begin.

    >>> live = ProvisionalModel(RequestedSettings({"bits": 4}))
    >>> live.learn([Body("json", b'{"label": "no", "a": 1}\\n')])[0].predictions
    [None]
    >>> live.learn([Body("json", b'{"label": "yes", "b": 1}\\n')])[0].predictions
    ['no']
    >>> live.core.model.settings.loss, live.examples
    ('logistic', 2)
    """

    def __init__(self, wanted: RequestedSettings, model: LinearModel | None = None) -> None:
        self.wanted = wanted
        self._columns = wanted.columns
        self._entries: list[Body] | None = None  # of a young model, all that it has learnt
        self._rows = self._bytes = 0  # of these; lines of text count as rows
        self._rejected = self._waiting = 0  # rows that were left out, and those that were not
        if model is None and not wanted.open:
            model = LinearModel(wanted.settings(wanted.target))
        elif model is None:
            self._entries = []
        self.core: OnlineModel | None = None if model is None else OnlineModel(model, self._columns)

    @property
    def young(self) -> bool:
        """Whether the loss may still change."""
        return self._entries is not None

    @property
    def examples(self) -> int:
        """How many rows have been learnt."""
        return 0 if self.core is None else self.core.model.examples

    @property
    def waiting(self) -> int:
        """How many rows wait until there are enough different labels to choose a loss by."""
        return self._waiting if self.core is None else 0

    @property
    def left_out(self) -> int:
        """How many rows could not be used and were left out."""
        return self._rejected if self.core is None else self.core.model.rejected

    def together(self, entries: Sequence[Body]) -> int:
        """How many of these entries, the first ones, :meth:`learn` takes at once."""
        if self._entries is None:
            return len(entries)
        count, rows, size = 0, self._rows, self._bytes
        while self.core is not None and count < len(entries) and not self._passes_power(entries[count], rows, size):
            rows += entries[count].lines
            size += len(entries[count].data)
            count += 1
        return max(1, count)

    def learn(self, entries: list[Body]) -> list[Answer]:
        """Learn from entries, all or none of them; how they are put together makes no difference.

        Args:
            entries: as many as :meth:`together` says, or fewer.

        Raises:
            Refused: where an entry cannot be used; then nothing has changed.
        """
        if self.core is not None and (self._entries is None or len(entries) > 1):
            reading = self.core.read(entries)
            if self._entries is not None and any(share.rejected for share in reading.shares):
                self.core.connect()
                raise Refused(409, "a row may make the model be learnt anew", "learn one entry after the other")
            answers = self.core.learn(reading)
        else:
            answers = [self._learn_young(entry) for entry in entries]
        for entry, answer in zip(entries, answers, strict=True):
            self._note(entry, answer)
        return answers

    def predict(self, entry: Body, kind: str = LABEL) -> Answer:
        """Predict for rows, as :meth:`OnlineModel.predict`; None for each row while nothing has been learned.

        >>> ProvisionalModel(RequestedSettings({})).predict(Body("json", b'{"a": 1}\\n{"a": 2}\\n')).predictions
        [None, None]
        """
        core = self.core
        if core is not None:
            return core.predict([entry], kind)[0]
        share = unlabelled(entry, self._columns)
        require_usable(entry, share)
        return Answer([None] * len(share.used), share.rejected, 0)

    def _learn_young(self, entry: Body) -> Answer:
        core, reading, refusal = self.core, None, None
        if core is not None and not self._passes_power(entry, self._rows, self._bytes):
            try:
                reading = core.read([entry])
            except Refused as problem:
                refusal = problem
            if reading is not None and not (reading.shares[0].rejected and self._changes(entry)):
                return core.learn(reading)[0]
        try:
            anew, found = self._anew(entry)
        except GiftrlError as problem:
            if refusal is not None:
                raise refusal from None
            if core is None:
                return self._kept_waiting(entry, problem)
        else:
            if reading is None or len(found.shares[-1].rejected) < len(reading.shares[0].rejected):
                self.core = anew
                return anew.learn(found)[-1]
        assert core is not None
        return core.learn(reading or core.read([entry]))[0]

    def _passes_power(self, entry: Body, rows: int, size: int) -> bool:
        """Whether a model that has so many rows, of so many bytes, is learnt anew with this entry."""
        after = rows + entry.lines
        grown = after >= MAX_ROWS or size + len(entry.data) >= MAX_BYTES
        return entry.format == "arrow" or after.bit_length() > rows.bit_length() or grown

    def _target(self, entry: Body) -> Target:
        """What ``giftrl train`` would learn from all entries and this one."""
        if self.wanted.labels is not None:
            return self.wanted.target
        found = [source for source, _ in sources([*(self._entries or ()), entry])]
        return choose_target(first_labels(found, columns=self._columns).labels, self.wanted.loss)

    def _changes(self, entry: Body) -> bool:
        """Whether this entry changes what is to be learnt."""
        assert self.core is not None
        settings = self.core.model.settings
        try:
            return self._target(entry)[:2] != (settings.loss, settings.label_values)
        except GiftrlError:
            return False

    def _anew(self, entry: Body) -> tuple[OnlineModel, ReadBodies]:
        """A new model, and all entries and this one as it reads them; an error where it would lose a row of theirs."""
        core = OnlineModel(LinearModel(self.wanted.settings(self._target(entry))), self._columns)
        reading = core.read([*(each._replace(skip=True) for each in self._entries or ()), entry])
        if sum(len(share.rejected) for share in reading.shares[:-1]) != self._rejected:
            words = "with these labels, rows that were learnt before could not have been"
            raise Refused(422, words, "create a model with settings, such as labels")
        return core, reading

    def _kept_waiting(self, entry: Body, problem: GiftrlError) -> Answer:
        """Keep rows that can be read until a loss can be chosen; refuse them where more rows will not change that."""
        share = unlabelled(entry, self._columns, accepts=_any_label)
        require_usable(entry, share)
        if not isinstance(problem, TooFewLabels):
            raise as_refused(problem)
        if self._rows + entry.lines >= MAX_ROWS or self._bytes + len(entry.data) >= MAX_BYTES:
            raise Refused(422, render(problem.words[0], in_http), "create a model with settings, such as labels")
        return Answer([None] * len(share.used), share.rejected, 0)

    def _note(self, entry: Body, answer: Answer) -> None:
        if self._entries is None:
            return
        self._rows += entry.lines or len(answer.predictions)
        self._rejected += len(answer.rejected)
        self._waiting += len(answer.predictions) - len(answer.rejected)
        self._bytes += len(entry.data)
        self._entries.append(entry)
        if self.core is not None and (self._rows >= MAX_ROWS or self._bytes >= MAX_BYTES):
            self._entries = None


def unlabelled(entry: Body, columns: Columns, **more: Any) -> RowRange:
    """Which rows of an entry can be read, whatever is to be learnt from them; an error where it cannot be read at all.

    Args:
        entry: the rows.
        columns: what the keys of rows mean.
        more: as for :class:`giftrl.streams.Reader`.

    >>> unlabelled(Body("json", b'{"label": "no", "a": 1}\\n{"label": "yes", "a": {\\n'), Columns(label="label")).used
    array([ True, False])
    """
    ((source, ends),) = sources([entry])
    try:
        labels = first_labels(source, format=entry.format, columns=columns).labels
        names = LabelNames(sorted(set(labels)) or ["label"])
        reader = Reader(
            source, Hashing(18), format=entry.format, columns=columns, on_error="skip", labels=names,
            background=False, **more,
        )  # fmt: skip
        (share,) = row_ranges(list(reader), ends)
    except GiftrlError as problem:
        raise as_refused(problem) from None
    return share


def _any_label(given: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.ones(len(given), bool)
