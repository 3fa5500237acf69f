"""A model from its first row on: while it is young, its rows choose the loss as the first rows of a file do.

``giftrl train`` looks at the labels of the first 10,000 rows, and at the keys of the first 100 lines, before it learns
anything. A service cannot wait for so many. So a model whose loss is not given is learnt anew from its log whenever the
number of its rows passes a power of two, up to 10,000: each time as ``giftrl train`` would learn these rows. A label
that the loss so far does not take has the same effect. From 10,000 rows on the loss stays as it is.
"""

from collections.abc import Sequence

import numpy as np

from giftrl.errors import GiftrlError, InvalidInput, Refused
from giftrl.service.bodies import Entry, sources
from giftrl.service.core import Answer, Core, as_refused, plain, require_usable, shares_of
from giftrl.service.wanted import Wanted
from giftrl.streams.first_labels import MOST, ROWS, first_labels
from giftrl.streams.label_names import LabelNames
from giftrl.streams.names.features import Hashing
from giftrl.streams.reader import Reader
from giftrl.training.model import LinearModel
from giftrl.training.target import look


class Live:
    """A model that learns entries one after the other; what it comes to depends on their order and on nothing else.

    Args:
        wanted: the settings that were asked for.
        model: a model to go on with, which is no longer young; None to begin.

    >>> live = Live(Wanted({"bits": 4}))
    >>> live.learn([Entry("json", b'{"label": "no", "a": 1}\\n')])[0].predictions
    [None]
    >>> live.learn([Entry("json", b'{"label": "yes", "b": 1}\\n')])[0].predictions
    ['no']
    >>> live.core.model.settings.loss, live.examples
    ('logistic', 2)
    """

    def __init__(self, wanted: Wanted, model: LinearModel | None = None) -> None:
        self.wanted = wanted
        self._columns = wanted.columns
        self._entries: list[Entry] | None = None  # of a young model, all that it has learnt
        self._rows = self._bytes = 0  # of these; lines of text count as rows
        self._rejected = self._waiting = 0  # rows that were left out, and those that were not
        if model is None and not wanted.open:
            model = LinearModel(wanted.settings(wanted.target))
        elif model is None:
            self._entries = []
        self.core: Core | None = None if model is None else Core(model, self._columns)

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

    def together(self, entries: Sequence[Entry]) -> int:
        """How many of these entries, the first ones, :meth:`learn` takes at once."""
        if self._entries is None:
            return len(entries)
        count, rows, size = 0, self._rows, self._bytes
        while self.core is not None and count < len(entries) and not self._passes_power(entries[count], rows, size):
            rows += entries[count].lines
            size += len(entries[count].data)
            count += 1
        return max(1, count)

    def learn(self, entries: list[Entry]) -> list[Answer]:
        """Learn from entries, all or none of them; how they are put together makes no difference.

        Args:
            entries: as many as :meth:`together` says, or fewer.

        Raises:
            Refused: where an entry cannot be used; then nothing has changed.
        """
        if self.core is not None and (self._entries is None or len(entries) > 1):
            answers = self.core.learn(self.core.read(entries))
        else:
            answers = [self._learn_young(entry) for entry in entries]
        for entry, answer in zip(entries, answers, strict=True):
            self._note(entry, answer)
        return answers

    def _learn_young(self, entry: Entry) -> Answer:
        refusal: Refused | None = None
        if self.core is not None and not self._passes_power(entry, self._rows, self._bytes):
            try:
                return self.core.learn(self.core.read([entry]))[0]
            except Refused as problem:
                refusal = problem
        found = self._learnt_anew(entry)
        if found is not None:
            self.core, answer = found
            return answer
        if refusal is not None:
            raise refusal
        if self.core is not None:
            return self.core.learn(self.core.read([entry]))[0]
        return self._kept_waiting(entry)

    def _passes_power(self, entry: Entry, rows: int, size: int) -> bool:
        """Whether a model that has so many rows, of so many bytes, is learnt anew with this entry."""
        after = rows + entry.lines
        grown = after >= ROWS or size + len(entry.data) >= MOST
        return entry.format == "arrow" or after.bit_length() > rows.bit_length() or grown

    def _learnt_anew(self, entry: Entry) -> tuple[Core, Answer] | None:
        """What ``giftrl train`` makes of all entries and this one; None where it would stop at a row of theirs."""
        entries = [*(self._entries or ()), entry]
        found = [source for source, _ in sources(entries)]
        try:
            target, _ = look(found, self.wanted.loss, self.wanted.labels, format=None, columns=self._columns)
            core = Core(LinearModel(self.wanted.settings(target)), self._columns)
            reading = core.read(entries)
        except GiftrlError:
            return None
        if sum(len(share.rejected) for share in reading.shares[:-1]) != self._rejected:
            return None  # what was acknowledged stays learnt
        return core, core.learn(reading)[-1]

    def _kept_waiting(self, entry: Entry) -> Answer:
        """Keep rows that can be read until a loss can be chosen."""
        ((source, ends),) = sources([entry])
        try:
            labels = first_labels(source, format=entry.format, columns=self._columns).labels
            names = LabelNames(sorted(set(labels)) or ["label"])
            reader = Reader(
                source, Hashing(18), format=entry.format, columns=self._columns, on_error="skip", labels=names,
                accepts=lambda given: np.ones(len(given), bool), background=False,
            )  # fmt: skip
            (share,) = shares_of(list(reader), ends)
            require_usable(entry, share)
        except GiftrlError as problem:
            raise as_refused(problem) from None
        if self._rows + entry.lines >= ROWS or self._bytes + len(entry.data) >= MOST:
            try:
                look([source for source, _ in sources([*(self._entries or ()), entry])], self.wanted.loss,
                     self.wanted.labels, format=None, columns=self._columns)  # fmt: skip
            except InvalidInput as problem:
                raise Refused(422, plain(problem.rule), "create a model with settings, such as labels") from None
        return Answer([None] * len(share.used), share.rejected, 0)

    def _note(self, entry: Entry, answer: Answer) -> None:
        if self._entries is None:
            return
        self._rows += entry.lines or len(answer.predictions)
        self._rejected += len(answer.rejected)
        self._waiting += len(answer.predictions) - len(answer.rejected)
        self._bytes += len(entry.data)
        self._entries.append(entry)
        if self.core is not None and (self._rows >= ROWS or self._bytes >= MOST):
            self._entries = None
