"""Messages during training: a progress bar, a table with a line for each power of two examples, and columns of data."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from giftrl.cli.terminal import Bar, PlainConsole, counted, decimals
from giftrl.errors import Message, render
from giftrl.streams.columns import Kind, Schema

TABLE_HEADS = ("examples", "since last", "average", "label", "prediction", "nonzeros", "lambda")
STATE_COLUMN = TABLE_HEADS.index("lambda")
COLUMN_ENDS = (10, 22, 32, 42, 54, 64, 79)  # the last character of each column, within a terminal of 80


def in_columns(cells: Iterable[str]) -> str:
    """A line of the table. A cell that is too wide for its column uses blanks of the next column.

    >>> in_columns(["1,073,741,824", "0.250000", "0.250000", "1", "-0.4321", "7", "1.391e+04"])
    '1,073,741,824 0.250000  0.250000         1     -0.4321         7      1.391e+04'
    """
    line = ""
    for cell, end in zip(cells, COLUMN_ENDS, strict=True):
        blank = " " if line else ""
        line += blank + cell.rjust(end - len(line) - len(blank))
    return line


def narrow(number: float) -> str:
    """A number in at most 8 characters besides its sign.

    >>> narrow(0.25), narrow(1234.5678), narrow(12345678.9), narrow(-3.14e11)
    ('0.250000', '1234.57', '12345679', '-3.14e+11')
    """
    return decimals(number) if abs(number) < 1e6 else f"{number:.0f}" if abs(number) < 1e8 else f"{number:.2e}"


def cut(text: str) -> str:
    """A text on one line, in at most 10 characters.

    >>> cut("no"), cut("extraordinary"), cut("one\\ntwo")
    ('no', 'extraordi…', 'one\\\\ntwo')
    """
    from giftrl.training.predictions import shown

    text = shown(text)
    return text if len(text) <= 10 else f"{text[:9]}…"


def leader(experts: Iterable[tuple[str, float, float]]) -> str:
    """A short name of the expert with the largest share: c10/4 means curvature 10, rate 4.

    >>> leader([("curvature 10, rate 4", 0.2, 1.0), ("adagrad 0.3", -0.5, 2.0), ("coin betting", 0.1, 3.0)])
    'ada0.3'
    """
    name, _, _ = max(experts, key=lambda each: abs(each[1]))
    for long, short in (("curvature ", "c"), (", rate ", "/"), ("adagrad ", "ada"), (" betting", ""), ("full ", "")):
        name = name.replace(long, short)
    return name


def within_norm(radius: float, bound: float, model: Any) -> str:
    """The certificate against models of a Euclidean norm in words; nothing is proved if any loss is above the bound."""
    evidence, weight = model.certificate.evidence, max(model.certified_weight, 1e-300)
    least = 0.0 if evidence is None else evidence.least
    if bound <= least:
        return f"certificate: nothing is proved about linear models of Euclidean norm {radius:g} or less"
    proved = f"has an average loss below {decimals(bound / weight)} on these rows"
    return f"certificate: no linear model of Euclidean norm {radius:g} or less {proved}"


class Progression:
    """The progress bar, and the table of progressive loss that Vowpal Wabbit also prints.

    *since last* is the mean loss since the previous line, and *average* the mean loss since the beginning. *label*,
    *prediction* and *nonzeros* are those of the last example; where labels have names, so has the prediction.
    For a mixture of experts, the column *expert*, in the place of *lambda*, names the
    expert with the largest share of the prediction.

    Args:
        console: where to print, from :func:`giftrl.cli.terminal.standard_error`; there is a bar where it is a terminal.
        quiet: print nothing.
        mixed: whether the learner is a mixture of experts.
        clock: the current time in seconds; tests replace it.
        about: what to print before the table, when the first rows have been learnt; it is given the trainer.

    Attributes:
        learned: number of examples watched, those of each pass counted.
    """

    def __init__(
        self, console: Any, quiet: bool, mixed: bool = False, clock: Callable[[], float] = time.perf_counter,
        about: Callable[[Any], list[str]] | None = None,
    ) -> None:  # fmt: skip
        self._console = console
        self._quiet = quiet
        self._mixed = mixed
        self._clock = clock
        self._loss = 0.0
        self._weight = 0.0
        self._began: float | None = None
        self._before = 0  # examples learnt before the clock started
        self._bar = Bar(PlainConsole() if quiet else console, "compiling, if this is the first run", clock=clock)
        self._about = about
        self._headed = quiet
        self.learned = 0

    def __enter__(self) -> "Progression":
        self._bar.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._bar.__exit__(*problem)

    def watch(self, trainer: Any, batch: Any, first: int, last: int, predictions: Any) -> None:
        """Update the bar, and add a line to the table when the number of examples is a power of two."""
        model = trainer.model
        self.learned += last - first
        if not self._headed:
            self._head(trainer)
        if self._bar.shown:
            self._move(trainer)
        # After the first pass the loss of rows that are learnt says nothing about others.
        if not self._quiet and trainer.passes_done == 0 and model.examples & (model.examples - 1) == 0:
            self.line(model, batch, last - 1, predictions[-1:])

    def start(self, model: Any) -> None:
        """Count from here: what a model learnt before is in its average, and not in what comes since."""
        self._loss, self._weight = model.average_loss * model.weight, model.weight

    def _head(self, trainer: Any) -> None:
        """Print what there is to say at the beginning, and the heads of the table."""
        self._headed = True
        heads = list(TABLE_HEADS)
        heads[STATE_COLUMN] = "expert" if self._mixed else heads[STATE_COLUMN]
        about = [] if self._about is None else self._about(trainer)
        self._console.print("\n".join([*about, *([""] if about else []), in_columns(heads)]))

    def passed(self, trainer: Any) -> None:
        """Print the loss on the rows held out, after a pass."""
        losses, held = trainer.held_out_losses, trainer.multi_pass
        if not self._quiet and losses:
            rows = counted(held.rows, "row")
            self._console.print(f"pass {trainer.passes_done}: held-out loss {decimals(losses[-1])} on {rows}")

    def _move(self, trainer: Any) -> None:
        examples, now = trainer.model.examples + trainer.model.repeated.examples, self._clock()
        rate = ""  # the clock starts after the first call, which includes compilation and the examples of a resumed run
        if self._began is None:
            self._began, self._before = now, examples
        else:
            rate = f"{(examples - self._before) / max(1e-9, now - self._began):,.0f}/s"
        fraction = trainer.reader.progress.fraction
        done = None if fraction is None else (trainer.passes_done + fraction) / trainer.passes
        self._bar.move(done, rate)

    def line(self, model: Any, batch: Any, row: int, score: Any) -> None:
        """Print a line of the table; ``score`` has those of the last example."""
        weight = model.weight
        loss = model.average_loss * weight
        since = (loss - self._loss) / (weight - self._weight) if weight > self._weight else 0.0
        self._loss, self._weight = loss, weight
        state = leader(model.learner.experts) if self._mixed else f"{model.learner.lam:.4g}"
        settings, label = model.settings, f"{batch.labels[row]:.7g}"
        if settings.label_values is None:
            shown = f"{score[0]:.4f}" if abs(score[0]) < 1e4 else narrow(score[0])
        else:
            predicted = model.decide(score)[0]
            shown = cut(predicted) if settings.label_names else f"{predicted:.7g}"
            label = cut(settings.class_names[int(batch.labels[row])]) if settings.label_names else label
        cells = (
            f"{model.examples:,}", narrow(since), narrow(model.average_loss), label, shown,
            f"{batch.indptr[row + 1] - batch.indptr[row]}", state,
        )  # fmt: skip
        self._console.print(in_columns(cells))


#: The kinds of columns, in the order in which they are shown, and what people call them.
KIND_NAMES = {
    Kind.NUMBER: "numbers", Kind.CATEGORY: "categories", Kind.NUMBERS: "lists of numbers",
    Kind.CATEGORIES: "lists of categories", Kind.DATE: "dates", Kind.TEXT: "text", Kind.IGNORED: "ignored",
    Kind.LABEL: "label", Kind.WEIGHT: "weight",
}  # fmt: skip
#: The features of a kind, if its name does not tell.
KIND_FEATURES = {Kind.DATE: " (years since 2000; weekday, month, hour if given)", Kind.TEXT: " (its words)"}
MAX_NAMES_WIDTH = 96
MISSING_VALUES = "Where a {} is missing, the category column=missing is added; a missing category adds nothing."
#: JSON has no list of its keys: each value is what its type says.
OTHER_KEYS = ("other keys", "numbers are numbers, texts are categories")
NO_FEATURES = (
    "the table has no column to learn from besides the label, so that every row has the same prediction; columns of "
    "CSV are looked for between tabs, semicolons, commas or bars"
)


def in_rows(schema: Schema) -> list[tuple[str, str]]:
    """A row for each kind of columns that there is: what it is called, and its columns.

    >>> in_rows(Schema(("age", "when", "y"), ("number", "date", "label")))
    [('numbers', 'age'), ('dates', 'when (years since 2000; weekday, month, hour if given)'), ('label', 'y')]
    """
    rows = []
    for kind, head in KIND_NAMES.items():
        names = [name for name, each in zip(schema.names, schema.kinds, strict=True) if each == kind]
        if names:
            rows.append((head, shortened(names) + KIND_FEATURES.get(kind, "")))
    return rows


def shortened(names: Sequence[str]) -> str:
    """Names between commas, as many as go on a line.

    >>> shortened(["a", "b"]), shortened(["x" * 50, "y" * 40, "z" * 40])[-15:]
    ('a, b', 'yyy, and 1 more')
    """
    shown, size = 0, 0
    while shown < len(names) and (shown == 0 or size + len(names[shown]) + 2 <= MAX_NAMES_WIDTH):
        size += len(names[shown]) + 2
        shown += 1
    more = [f"and {len(names) - shown} more"] if shown < len(names) else []
    return ", ".join([*names[:shown], *more])


def in_lines(schema: Schema | None, json: bool = False) -> list[str]:
    """The columns of a table, a line for each kind; none where there is only a label.

    Args:
        schema: of the table, or None.
        json: whether it has those keys of JSON alone that have a meaning of their own.

    >>> print(*in_lines(Schema(("when", "y"), ("date", "label")), json=True), sep="\\n")
    dates       when (years since 2000; weekday, month, hour if given)
    label       y
    other keys  numbers are numbers, texts are categories
    """
    if schema is None or set(schema.kinds) <= {Kind.LABEL}:
        return []
    rows = [*in_rows(schema), *([OTHER_KEYS] if json else [])]
    width = max(len(head) for head, _ in rows)
    lines = [f"{head.ljust(width)}  {names}" for head, names in rows]
    absent = [] if json else [kind for kind in (Kind.NUMBER, Kind.DATE) if kind in schema.kinds]
    return [*lines, *([MISSING_VALUES.format(" or ".join(absent))] if absent else [])]


def notes(remarks: Iterable[Message]) -> list[str]:
    """Remarks of a reader, with the options of the command that runs."""
    from giftrl.cli.messages import OptionNames

    speak = OptionNames(click.get_current_context().command)
    return [render(remark, speak) for remark in remarks]


def about(trainer: Any) -> list[str]:
    """The meaning of the columns of the data, and remarks about them."""
    schema, json = trainer.model.schema, set(trainer.reader.formats.values()) == {"json"}
    remarks = notes(trainer.reader.remarks)
    if schema is not None and not json and set(schema.kinds) <= {Kind.LABEL, Kind.WEIGHT, Kind.IGNORED}:
        remarks.append(NO_FEATURES)
    return [*in_lines(schema, json), *(f"note: {each}" for each in remarks)]
