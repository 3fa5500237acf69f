"""What the terminal shows during training: a progress bar, and a table with a line for each power of two examples."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

HEADS = ("examples", "since last", "average", "label", "prediction", "nonzeros", "lambda")
LAMBDA = HEADS.index("lambda")
ENDS = (10, 22, 32, 42, 54, 64, 79)  # the last character of each column, within a terminal of 80


def in_columns(cells: Iterable[str]) -> str:
    """A line of the table. A cell that is too wide for its column uses blanks of the next column.

    >>> in_columns(["1,073,741,824", "0.250000", "0.250000", "1", "-0.4321", "7", "1.391e+04"])
    '1,073,741,824 0.250000  0.250000         1     -0.4321         7      1.391e+04'
    """
    line = ""
    for cell, end in zip(cells, ENDS, strict=True):
        blank = " " if line else ""
        line += blank + cell.rjust(end - len(line) - len(blank))
    return line


def decimals(number: float) -> str:
    """A number with 6 decimals, or with 6 digits if its size is 10 or more.

    >>> decimals(0.25), decimals(-1234567.25)
    ('0.250000', '-1.23457e+06')
    """
    return f"{number:.6f}" if abs(number) < 10.0 else f"{number:.6g}"


def counted(number: int, noun: str) -> str:
    """A number and what it counts.

    >>> counted(1, "row"), counted(20_000, "row")
    ('1 row', '20,000 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def narrow(number: float) -> str:
    """A number in at most 8 characters besides its sign.

    >>> narrow(0.25), narrow(1234.5678), narrow(12345678.9), narrow(-3.14e11)
    ('0.250000', '1234.57', '12345679', '-3.14e+11')
    """
    return decimals(number) if abs(number) < 1e6 else f"{number:.0f}" if abs(number) < 1e8 else f"{number:.2e}"


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
    """What is proved about models of a Euclidean norm: nothing, where the losses of any model are above the bound."""
    evidence, weight = model.certificate.evidence, max(model.certified_weight, 1e-300)
    least = 0.0 if evidence is None else evidence.kept.least
    if bound <= least:
        return f"certificate: nothing is proved about linear models of Euclidean norm {radius:g} or less"
    proved = f"has an average loss below {decimals(bound / weight)} on these rows"
    return f"certificate: no linear model of Euclidean norm {radius:g} or less {proved}"


def in_turn(watches: Sequence[Callable[..., None]]) -> Callable[..., None]:
    """A function that calls several with the same arguments.

    >>> seen = []
    >>> in_turn([seen.append, seen.append])("row")
    >>> seen
    ['row', 'row']
    """

    def call(*arguments: Any) -> None:
        for watch in watches:
            watch(*arguments)

    return call


class Lines:
    """Standard error where it is no terminal: lines of text, and no bar."""

    is_terminal = False

    def print(self, text: str) -> None:
        click.echo(text, err=True)


def standard_error(quiet: bool) -> Any:
    """Standard error, for messages: a console, or lines of text where it is no terminal or nothing is to be shown."""
    if quiet or not sys.stderr.isatty():
        return Lines()
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


class Progression:
    """The progress bar, and the table of progressive loss that Vowpal Wabbit also prints.

    *since last* is the mean loss since the previous line, and *average* the mean loss since the beginning. *label*,
    *prediction* and *nonzeros* are those of the last example; with several classes, the prediction is a class.
    For a mixture of experts, the column *expert*, in the place of *lambda*, names the
    expert with the largest share of the prediction.

    Args:
        console: where to print, from :func:`standard_error`; there is a bar where it is a terminal.
        quiet: print nothing.
        mixed: whether the learner is a mixture of experts.
        clock: the current time in seconds; tests replace it.
    """

    def __init__(
        self, console: Any, quiet: bool, mixed: bool = False, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._console = console
        self._quiet = quiet
        self._mixed = mixed
        self._clock = clock
        self._loss = 0.0
        self._weight = 0.0
        self._began: float | None = None
        self._before = 0  # examples learnt before the clock started
        self._bar = _bar(console, clock) if console.is_terminal and not quiet else None

    def __enter__(self) -> "Progression":
        if not self._quiet:
            heads = list(HEADS)
            heads[LAMBDA] = "expert" if self._mixed else heads[LAMBDA]
            self._console.print(in_columns(heads))
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *problem: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def watch(self, trainer: Any, batch: Any, first: int, last: int, predictions: Any) -> None:
        """Update the bar, and add a line to the table when the number of examples is a power of two."""
        model = trainer.model
        if self._bar is not None:
            self._move(trainer, self._bar)
        # After the first pass the loss of rows that are learnt says nothing about others.
        if not self._quiet and trainer.passes_done == 0 and model.examples & (model.examples - 1) == 0:
            self.line(model, batch, last - 1, float(model.decide(predictions[-1:])[0]))

    def start(self, model: Any) -> None:
        """Count from here: what a model learnt before is in its average, and not in what comes since."""
        self._loss, self._weight = model.average_loss * model.weight, model.weight

    def passed(self, trainer: Any) -> None:
        """Print the loss on the rows held out, after a pass."""
        course = trainer.course
        if not self._quiet and course.passes.losses:
            loss = decimals(course.passes.losses[-1])
            self._console.print(f"pass {course.passes.done}: held-out loss {loss} on {counted(course.rows, 'row')}")

    def _move(self, trainer: Any, bar: Any) -> None:
        examples, now = trainer.model.examples + trainer.model.repeated.examples, self._clock()
        rate = ""  # the clock starts after the first call, which includes compilation and the examples of a resumed run
        if self._began is None:
            self._began, self._before = now, examples
        else:
            rate = f"{(examples - self._before) / max(1e-9, now - self._began):,.0f}/s"
        fraction = trainer.reader.progress.fraction
        if fraction is None:
            bar.update(bar.task_ids[0], rate=rate)
            return
        done = (trainer.passes_done + fraction) / trainer.passes
        bar.update(bar.task_ids[0], total=1.0, completed=done, done=f"{done:4.0%}", rate=rate)

    def line(self, model: Any, batch: Any, row: int, prediction: float) -> None:
        """Print a line of the table."""
        weight = model.weight
        loss = model.average_loss * weight
        since = (loss - self._loss) / (weight - self._weight) if weight > self._weight else 0.0
        self._loss, self._weight = loss, weight
        state = leader(model.learner.experts) if self._mixed else f"{model.learner.lam:.4g}"
        shown = f"{prediction:.4f}" if abs(prediction) < 1e4 else narrow(prediction)
        cells = (
            f"{model.examples:,}", narrow(since), narrow(model.average_loss), f"{batch.labels[row]:.7g}",
            f"{prediction:.7g}" if model.settings.many else shown, f"{batch.indptr[row + 1] - batch.indptr[row]}",
            state,
        )  # fmt: skip
        self._console.print(in_columns(cells))


def _bar(console: Any, clock: Callable[[], float]) -> Any:
    """A progress bar on a console, which has not moved yet."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        BarColumn(bar_width=24), TextColumn("{task.fields[done]}"), TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(), console=console, transient=True, get_time=clock,
    )  # fmt: skip
    bar.add_task("", total=None, done="", rate="compiling, if this is the first run")
    return bar
