"""A model from its first row on. While it is provisional, its rows choose the loss as the first rows of a file do.

``giftrl train`` looks at the labels of the first 10,000 rows, and at the keys of the first 100 lines, before it learns
anything. A service cannot wait for so many. A model whose loss is not given is therefore learned anew from its log
whenever the number of its rows passes a power of two, up to 10,000: each time as ``giftrl train`` would learn these
rows. A label that the present loss does not accept has the same effect. From 10,000 rows on the loss is fixed.
"""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from giftrl.config import AUTO
from giftrl.errors import GiftrlError, Refused, TooFewLabels, render
from giftrl.service.bodies import (
    Answer,
    Body,
    RowRange,
    as_refused,
    groups_of,
    in_http,
    joined,
    require_usable,
    row_ranges,
)  # fmt: skip
from giftrl.service.online_model import LABEL, OnlineModel, ReadBodies
from giftrl.streams.batch import LabelNames
from giftrl.streams.columns import Columns
from giftrl.streams.first_labels import MAX_BYTES, MAX_ROWS, first_labels
from giftrl.streams.names.hashing import Hashing
from giftrl.streams.reader import Reader
from giftrl.training.model import LinearModel
from giftrl.training.settings import Settings, Target, choose_target, chosen_by_rows, placeholder_target

#: Settings about the keys of rows; the label is always under "label".
ROW_SETTINGS = ("weight", "ignore", "categorical", "date", "text")
#: Settings that are not those of :class:`giftrl.training.Settings` under the same name.
OWN_SETTINGS = ("loss", "labels", "dictionary", *ROW_SETTINGS)
#: The types of settings for which Python would take anything as true or false, or as a list.
SETTING_TYPES: dict[str, tuple[type, str]] = {
    "constant": (bool, "true or false"), "dictionary": (bool, "true or false"),
    "interactions": (list, "a list of lists of names"), "ngrams": (list, "a list of names with their sizes"),
    "dtype": (str, "float32 or float64"),
}  # fmt: skip
#: The most classes of a model: each has weights of its own for every feature.
MAX_CLASSES = 10_000
#: Memory of a model that is not in its arrays, as a rough estimate.
BYTES_BESIDE_ARRAYS = 1 << 20


class RequestedSettings(NamedTuple):
    """Settings of a model as they were requested.

    Args:
        given: from JSON: the options of ``giftrl train`` by name, such as ``{"loss": "squared"}``.

    >>> RequestedSettings({"labels": ["no", "yes"]}).target.loss
    'logistic'
    >>> RequestedSettings({}).loss_undecided, RequestedSettings({"loss": "squared"}).loss_undecided
    (True, False)
    """

    given: dict[str, Any]

    @classmethod
    def checked(cls, given: Any, max_bits: int = 30) -> "RequestedSettings":
        """Check settings from a request; refuse those of which no model can be made.

        >>> RequestedSettings.checked({"los": "squared"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        giftrl.errors.Refused: 'los' is no setting; send some of beta, bits, ...
        """
        if not isinstance(given, dict):
            raise Refused(400, "settings are no JSON object", 'send {}, or some such as {"loss": "squared"}')
        known = [*OWN_SETTINGS, *(each.name for each in fields(Settings) if each.name not in ("loss", "label_values"))]
        for name in given:
            if name not in known:
                raise Refused(422, f"{name!r:.60} is no setting", f"send some of {', '.join(sorted(known))}")
        for name, (kind, words) in SETTING_TYPES.items():
            if name in given and not isinstance(given[name], kind):
                raise Refused(422, f"{name} is {given[name]!r:.40}", f"send {words}, or leave it out")
        if given.get("dictionary") and given.get("bits") is not None:
            rule = "a model with a dictionary has as many weights as names"
            raise Refused(422, f"{rule}, so that bits and dictionary exclude each other", "leave one of them out")
        requested = cls(dict(given))
        try:
            settings = requested.settings(requested.target)
            bits = settings.bits
            if bits is not None and not (type(bits) is int and 1 <= bits <= max_bits):
                raise Refused(422, f"bits is {bits!r:.20}", f"send a number from 1 to {max_bits}")
            if settings.classes > MAX_CLASSES:
                raise Refused(422, f"there are {settings.classes} labels", f"send at most {MAX_CLASSES}")
            # Make a model of these settings, and its readers, with few weights to save memory.
            OnlineModel(LinearModel(replace(settings, bits=None if bits is None else 1)), requested.columns)
        except Refused:
            raise
        except GiftrlError as problem:
            raise Refused(422, problem.told(in_http), "change the settings") from None
        except (AttributeError, TypeError, ValueError, ArithmeticError, MemoryError) as problem:
            raise Refused(422, f"no model can have these settings ({type(problem).__name__})", "change them") from None
        return requested

    @property
    def loss(self) -> str:
        """The name of the loss, or "auto"."""
        return str(self.given.get("loss", AUTO))

    @property
    def labels(self) -> Any:
        """The labels of all classes, if they are given."""
        labels = self.given.get("labels")
        if labels is None:
            return None
        form = 'send such as {"labels": ["no", "yes"]}'
        if not isinstance(labels, list):
            raise Refused(422, "labels is no list", form)
        numbers = [float(label) for label in labels if type(label) in (int, float) and math.isfinite(label)]
        texts = [label for label in labels if isinstance(label, str)]
        if len(labels) not in (len(numbers), len(texts)):
            raise Refused(422, "labels are neither all numbers nor all texts", form)
        return tuple(numbers if len(numbers) == len(labels) else texts)

    @property
    def loss_undecided(self) -> bool:
        """True if the first rows choose the loss or its labels."""
        return bool(chosen_by_rows(self.loss, self.labels))

    @property
    def target(self) -> Target:
        """The loss and its labels; a placeholder that agrees with the settings if the first rows choose them."""
        return placeholder_target(self.loss, self.labels)

    @property
    def columns(self) -> Columns:
        """The meaning of the keys of rows."""
        named: dict[str, Any] = {}
        for name in ROW_SETTINGS:
            if name in self.given:
                value = self.given[name]
                texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
                if not (isinstance(value, str) if name == "weight" else texts):
                    raise Refused(422, f"{name} is no {'text' if name == 'weight' else 'list of texts'}", "change it")
                named[name] = value if name == "weight" else tuple(value)
        return Columns(label="label", **named)

    def settings(self, target: Target) -> Settings:
        """The settings of a model with this target."""
        given = {name: value for name, value in self.given.items() if name not in OWN_SETTINGS}
        if self.given.get("dictionary", False):
            given["bits"] = None
        usual = Settings(loss=target.loss, label_values=target.label_values).state()
        return Settings.restore(usual | given | {"loss": target.loss, "label_values": target.label_values})


class ProvisionalModel:
    """A model that learns bodies one after the other; the result depends on their order and on nothing else.

    Args:
        requested: the settings.
        model: a model to resume, which is no longer provisional; None to begin.

    >>> model = ProvisionalModel(RequestedSettings({"bits": 4}))
    >>> model.learn([Body("json", b'{"label": "no", "a": 1}\\n')])[0].predictions
    [None]
    >>> model.learn([Body("json", b'{"label": "yes", "b": 1}\\n')])[0].predictions
    ['no']
    >>> model.online.model.settings.loss, model.examples
    ('logistic', 2)
    """

    def __init__(self, requested: RequestedSettings, model: LinearModel | None = None) -> None:
        self.requested = requested
        self._columns = requested.columns
        self._bodies: list[Body] | None = None  # all that was learned, while provisional
        self._rows = self._bytes = 0  # of these; lines of text count as rows
        self._rejected = self._waiting = 0  # rows that were left out, and the others
        if model is None and not requested.loss_undecided:
            model = LinearModel(requested.settings(requested.target))
        elif model is None:
            self._bodies = []
        self.online: OnlineModel | None = None if model is None else OnlineModel(model, self._columns)

    @property
    def is_provisional(self) -> bool:
        """True while the loss may still change."""
        return self._bodies is not None

    @property
    def examples(self) -> int:
        """Number of rows learned."""
        return 0 if self.online is None else self.online.model.examples

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes."""
        return BYTES_BESIDE_ARRAYS + (0 if self.online is None else self.online.nbytes)

    @property
    def waiting(self) -> int:
        """Number of rows that wait until there are enough different labels to choose a loss."""
        return self._waiting if self.online is None else 0

    @property
    def left_out(self) -> int:
        """Number of rows that could not be used and were left out."""
        return self._rejected if self.online is None else self.online.model.rejected

    def together(self, bodies: Sequence[Body]) -> int:
        """Number of these bodies, from the first on, that :meth:`learn` accepts at once."""
        if self._bodies is None:
            return len(bodies)
        count, rows, size = 0, self._rows, self._bytes
        while self.online is not None and count < len(bodies) and not self._passes_power(bodies[count], rows, size):
            rows += bodies[count].lines
            size += len(bodies[count].data)
            count += 1
        return max(1, count)

    def learn(self, bodies: list[Body]) -> list[Answer]:
        """Learn from bodies, all or none of them; the result is the same as one after the other.

        Args:
            bodies: as many as :meth:`together` says, or fewer.

        Raises:
            Refused: if a body cannot be used; then nothing has changed.
        """
        if self._bodies is None:
            assert self.online is not None
            return self.online.learn(self.online.read(bodies))
        if self.online is not None and len(bodies) > 1:
            read = self.online.read(bodies)
            if any(rows.rejected for rows in read.ranges):
                self.online.reset_reader()
                raise Refused(409, "a row may make the model be learned anew", "learn one body after the other")
            answers = self.online.learn(read)
        else:
            answers = [self._learn_provisionally(body) for body in bodies]
        for body, answer in zip(bodies, answers, strict=True):
            self._note(body, answer)
        return answers

    def predict(self, body: Body, output: str = LABEL) -> Answer:
        """Predict as :meth:`OnlineModel.predict` does; None for each readable row while nothing has been learned.

        >>> ProvisionalModel(RequestedSettings({})).predict(Body("json", b'{"a": 1}\\n{"a": 2}\\n')).predictions
        [None, None]
        """
        if self.online is not None:
            return self.online.predict([body], output)[0]
        rows = readable_rows(body, self._columns)
        require_usable(body, rows)
        return Answer([None] * len(rows.used), rows.rejected, 0)

    def _learn_provisionally(self, body: Body) -> Answer:
        """Learn from one body, with a new model if it changes what the first rows choose."""
        online, read, refusal = self.online, None, None
        if online is not None and not self._passes_power(body, self._rows, self._bytes):
            try:
                read = online.read([body])
            except Refused as problem:
                refusal = problem
            if read is not None and not (read.ranges[0].rejected and self._changes(body)):
                return online.learn(read)[0]
        try:
            anew, all_read = self._anew(body)
        except GiftrlError as problem:
            if refusal is not None:
                raise refusal from None
            if online is None:
                return self._store(body, problem)
        else:
            if read is None or len(all_read.ranges[-1].rejected) < len(read.ranges[0].rejected):
                self.online = anew
                return anew.learn(all_read)[-1]
        assert online is not None
        return online.learn(read or online.read([body]))[0]

    def _passes_power(self, body: Body, rows: int, size: int) -> bool:
        """Return True if a model with so many rows, of so many bytes, is learned anew with this body."""
        after = rows + body.lines
        grown = after >= MAX_ROWS or size + len(body.data) >= MAX_BYTES
        return body.format == "arrow" or after.bit_length() > rows.bit_length() or grown

    def _target(self, body: Body) -> Target:
        """The target that ``giftrl train`` would choose for all bodies and this one."""
        if self.requested.labels is not None:
            return self.requested.target
        sources = [joined(group)[0] for group in groups_of([*(self._bodies or ()), body])]
        return choose_target(first_labels(sources, columns=self._columns).labels, self.requested.loss)

    def _changes(self, body: Body) -> bool:
        """Return True if this body changes the target."""
        assert self.online is not None
        settings = self.online.model.settings
        try:
            return self._target(body)[:2] != (settings.loss, settings.label_values)
        except GiftrlError:
            return False

    def _anew(self, body: Body) -> tuple[OnlineModel, ReadBodies]:
        """Make a new model, and read all bodies and this one for it; an error if it would lose one of their rows."""
        online = OnlineModel(LinearModel(self.requested.settings(self._target(body))), self._columns)
        read = online.read([*(each._replace(skip=True) for each in self._bodies or ()), body])
        if sum(len(rows.rejected) for rows in read.ranges[:-1]) != self._rejected:
            words = "these labels contradict rows that were already learned"
            raise Refused(422, words, "create a model with settings, such as labels")
        return online, read

    def _store(self, body: Body, problem: GiftrlError) -> Answer:
        """Store readable rows until a loss can be chosen; refuse them if further rows cannot help."""
        rows = readable_rows(body, self._columns, accepts=lambda labels: np.ones(len(labels), bool))
        require_usable(body, rows)
        if not isinstance(problem, TooFewLabels):
            raise as_refused(problem)
        if self._rows + body.lines >= MAX_ROWS or self._bytes + len(body.data) >= MAX_BYTES:
            raise Refused(422, render(problem.words[0], in_http), "create a model with settings, such as labels")
        return Answer([None] * len(rows.used), rows.rejected, 0)

    def _note(self, body: Body, answer: Answer) -> None:
        """Count a body that was learned while provisional."""
        assert self._bodies is not None
        self._rows += body.lines or len(answer.predictions)
        self._rejected += len(answer.rejected)
        self._waiting += len(answer.predictions) - len(answer.rejected)
        self._bytes += len(body.data)
        self._bodies.append(body)
        if self.online is not None and (self._rows >= MAX_ROWS or self._bytes >= MAX_BYTES):
            self._bodies = None


def readable_rows(body: Body, columns: Columns, **more: Any) -> RowRange:
    """Find the rows of a body that can be read, for any target; an error if the body cannot be read at all.

    Args:
        body: the rows.
        columns: the meaning of the keys of rows.
        more: as for :class:`giftrl.streams.Reader`.

    >>> body = Body("json", b'{"label": "no", "a": 1}\\n{"label": "yes", "a": {\\n')
    >>> readable_rows(body, Columns(label="label")).used
    array([ True, False])
    """
    source, ends = joined([body])
    try:
        labels = first_labels(source, format=body.format, columns=columns).labels
        names = LabelNames(sorted(set(labels)) or ["label"])
        reader = Reader(
            source, Hashing(18), format=body.format, columns=columns, on_error="skip", labels=names,
            background=False, **more,
        )  # fmt: skip
        return row_ranges(list(reader), ends)[0]
    except GiftrlError as problem:
        raise as_refused(problem) from None
