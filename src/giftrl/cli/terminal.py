"""Terminal handling: streams, signals, messages, progress bars and tables."""

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

import click

from giftrl.errors import InvalidInput
from giftrl.files import EXIT_REQUESTS, UNINTERRUPTED_BLOCKS


def take_streams() -> None:
    """Make the standard streams safe to use.

    A closed descriptor is opened on the null device; otherwise the next opened file would get it, and messages would
    end up in that file. Characters that cannot be encoded are escaped.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (for as long as the process lives)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def take_signals() -> None:
    """Let SIGTERM and Ctrl-C end the command in the same way, so that unfinished files are removed. By default, click
    would turn a KeyboardInterrupt during parsing into exit status 1.
    """

    def stop(number: int, frame: Any) -> None:
        EXIT_REQUESTS.append(128 + number)
        # Suppress tracebacks from __del__ of half-constructed library objects.
        sys.unraisablehook = lambda _: None
        if not UNINTERRUPTED_BLOCKS:
            raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as for a command in the background of a script
            signal.signal(number, stop)


def standard_output() -> IO[bytes]:
    """Standard output, for the result of a command."""
    if sys.stdout is None:
        raise InvalidInput("output", "-", "standard output is closed", "leave it open, or give a file")
    sys.stdout.flush()
    return sys.stdout.buffer


def shares_terminal(output: str | None) -> bool:
    """True if an output (None: standard output) is the terminal, where a progress bar would interfere."""
    return output is None and sys.stdout is not None and sys.stdout.isatty()


def settle_output() -> None:
    """Flush standard output; raises an error on failure, for example a full disk."""
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_output() -> None:
    """Discard buffered standard output, which the interpreter would otherwise try to flush at exit."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_text(value: Any) -> str:
    """A value as JSON, with null for numbers that are not finite."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Messages on standard error, and numbers in them.


class PlainConsole:
    """Standard error if it is not a terminal: plain lines without a progress bar."""

    is_terminal = False

    def print(self, text: str) -> None:
        click.echo(text, err=True)


def standard_error(quiet: bool) -> Any:
    """Standard error for messages: a console, or plain lines if quiet or not a terminal."""
    if quiet or not sys.stderr.isatty():
        return PlainConsole()
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def decimals(number: float) -> str:
    """A number with 6 decimals, or with 6 digits if its size is 10 or more.

    >>> decimals(0.25), decimals(-1234567.25)
    ('0.250000', '-1.23457e+06')
    """
    return f"{number:.6f}" if abs(number) < 10.0 else f"{number:.6g}"


def counted(number: int, noun: str, several: str | None = None) -> str:
    """A number and a noun in the singular or plural.

    >>> counted(1, "row"), counted(20_000, "row"), counted(2, "pass", "passes")
    ('1 row', '20,000 rows', '2 passes')
    """
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


# The progress bar, shown only if standard error is a terminal.

#: The shortest time limit that is worth a bar, in seconds.
MIN_BAR_SECONDS = 0.5


class Bar:
    """A progress bar with a text and the remaining time. It is shown inside a ``with`` block, if the console is a
    terminal.

    Args:
        console: where to show it, from :func:`standard_error`.
        said: the words at the beginning.
        steps: the number of steps, for :meth:`step`; None if :meth:`move` sets the progress.
        seconds: a time limit, for a bar that moves with the clock.
        clock: the current time in seconds; tests replace it.
    """

    def __init__(
        self, console: Any, said: str = "", *, steps: int | None = None, seconds: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:  # fmt: skip
        self.shown = console.is_terminal and (seconds is None or seconds >= MIN_BAR_SECONDS)
        self._steps, self._done = steps, -1  # the first named step is not done yet
        self._progress = _progress(console, clock, said, seconds) if self.shown else None

    def __enter__(self) -> "Bar":
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *problem: Any) -> None:
        if self._progress is not None:
            self._progress.stop()

    def move(self, fraction: float | None = None, said: str | None = None) -> None:
        """Set the progress from 0 to 1, if known, and optionally the text."""
        if self._progress is None:
            return
        changes: dict[str, Any] = {} if said is None else {"said": said}
        if fraction is not None:
            changes |= {"total": 1.0, "completed": fraction, "done": f"{fraction:4.0%}"}
        self._progress.update(self._progress.task_ids[0], **changes)

    def step(self, said: str) -> None:
        """Begin a step; earlier steps are done."""
        self._done += 1
        self.move(min(1.0, self._done / self._steps) if self._steps else None, said)

    def print(self, text: str) -> None:
        """Print a line on standard output: above the bar, if both are on the terminal."""
        if self._progress is not None and sys.stdout.isatty():
            self._progress.console.print(text)
        else:
            click.echo(text)


def _progress(console: Any, clock: Callable[[], float], said: str, seconds: float | None) -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    class Clocked(Progress):
        """A bar that moves with the clock."""

        def get_renderables(self) -> Any:
            for task in self.tasks:
                task.completed = min(task.total or 0.0, task.elapsed or 0.0)
            return super().get_renderables()

    # Do not redirect standard output to this console.
    shared: dict[str, Any] = {"console": console, "transient": True, "get_time": clock, "redirect_stdout": False}
    bar, words = BarColumn(bar_width=24), TextColumn("{task.fields[said]}", markup=False)
    if seconds is not None:
        progress: Progress = Clocked(bar, words, **shared)
    else:
        progress = Progress(bar, TextColumn("{task.fields[done]}"), words, TimeRemainingColumn(), **shared)
    progress.add_task("", total=seconds, done="", said=said)
    return progress


def proving(console: Any, seconds: float) -> Bar:
    """The progress bar of a search for a certificate with a time limit."""
    return Bar(console, f"looking for a proof, {seconds:g} s at most", seconds=seconds)


# Tables on the terminal.


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print rows of text in columns, each as wide as its widest cell; the first ``left`` are aligned to the left.

    >>> print_table(("update", "loss"), [("linear", "0.5"), ("iwa", "12")])
    update  loss
    linear   0.5
    iwa       12
    """
    lines = [head, *rows]
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    for line in lines:
        cells = zip(line, widths, strict=True)
        click.echo("  ".join(c.ljust(w) if j < left else c.rjust(w) for j, (c, w) in enumerate(cells)).rstrip())


# The progress of a training run: a bar, and a table of losses.

TABLE_HEADS = ("examples", "since last", "average", "label", "prediction", "nonzeros", "lambda")
COLUMN_ENDS = (10, 22, 32, 42, 54, 64, 79)  # the last character of each column, within a terminal of 80
SHORT_NAMES = {"curvature ": "c", ", rate ": "/", "adagrad ": "ada", " betting": "", "full ": ""}


def in_columns(cells: Iterable[str]) -> str:
    """Format a line of the table. A wide cell uses blanks of the next column."""
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
    from giftrl.training.predictions import shown  # slow import

    text = shown(text)
    return text if len(text) <= 10 else f"{text[:9]}…"


def leader(experts: Iterable[tuple[str, float, float]]) -> str:
    """A short name of the expert with the largest share: c10/4 means curvature 10, rate 4.

    >>> leader([("curvature 10, rate 4", 0.2, 1.0), ("adagrad 0.3", -0.5, 2.0), ("coin betting", 0.1, 3.0)])
    'ada0.3'
    """
    name, _, _ = max(experts, key=lambda expert: abs(expert[1]))
    for long, short in SHORT_NAMES.items():
        name = name.replace(long, short)
    return name


class Progression:
    """The progress bar, and the table of progressive loss that Vowpal Wabbit also prints.

    *since last* is the mean loss since the previous line, and *average* the mean loss since the beginning. *label*,
    *prediction* and *nonzeros* are those of the last example; if labels have names, predictions do too. A mixture
    has the column *expert*, the expert with the largest share of the prediction, in the place of *lambda*.

    Args:
        console: where to print, from :func:`standard_error`; there is a bar if it is a terminal.
        quiet: print nothing.
        mixed: True if the learner is a mixture of experts.
        clock: the current time in seconds; tests replace it.
        about: given the trainer, the lines above the table, which is printed when the first rows have been learned.

    Attributes:
        learned: number of examples watched, those of each pass counted.
    """

    def __init__(
        self, console: Any, quiet: bool, mixed: bool = False, clock: Callable[[], float] = time.perf_counter,
        about: Callable[[Any], list[str]] | None = None,
    ) -> None:  # fmt: skip
        self._console, self._quiet, self._mixed, self._clock, self._about = console, quiet, mixed, clock, about
        self._loss = self._weight = 0.0  # at the last line
        self._began: float | None = None
        self._before = 0  # examples learned before the clock started
        self._bar = Bar(PlainConsole() if quiet else console, "compiling, if this is the first run", clock=clock)
        self._headed = quiet
        self.learned = 0

    def __enter__(self) -> "Progression":
        self._bar.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._bar.__exit__(*problem)

    def start(self, model: Any) -> None:
        """Start counting: earlier examples are in *average*, but not in *since last*."""
        self._loss, self._weight = model.average_loss * model.weight, model.weight

    def watch(self, trainer: Any, batch: Any, first: int, last: int, predictions: Any) -> None:
        """Update the bar, and add a line to the table when the number of examples is a power of two."""
        model = trainer.model
        self.learned += last - first
        if not self._headed:
            self._headed = True
            about = [] if self._about is None else self._about(trainer)
            heads = in_columns([*TABLE_HEADS[:-1], "expert" if self._mixed else TABLE_HEADS[-1]])
            self._console.print("\n".join([*about, *([""] if about else []), heads]))
        if self._bar.shown:
            self._move(trainer)
        # After the first pass, the training loss does not estimate the loss on new rows.
        if not self._quiet and trainer.passes_done == 0 and model.examples & (model.examples - 1) == 0:
            self.line(model, batch, last - 1, predictions[-1:])

    def passed(self, trainer: Any) -> None:
        """Print the loss on the rows held out, after a pass."""
        losses = trainer.held_out_losses
        if not self._quiet and losses:
            rows = counted(trainer.multi_pass.rows, "row")
            self._console.print(f"pass {trainer.passes_done}: held-out loss {decimals(losses[-1])} on {rows}")

    def _move(self, trainer: Any) -> None:
        examples, now = trainer.model.examples + trainer.model.repeated.examples, self._clock()
        rate = ""  # the clock starts after the first call, which includes compilation and the examples of a resumed run
        if self._began is None:
            self._began, self._before = now, examples
        else:
            rate = f"{(examples - self._before) / max(1e-9, now - self._began):,.0f}/s"
        fraction = trainer.reader.progress.fraction
        self._bar.move(None if fraction is None else (trainer.passes_done + fraction) / trainer.passes, rate)

    def line(self, model: Any, batch: Any, row: int, score: Any) -> None:
        """Print a line of the table; ``score`` has those of the last example."""
        weight, loss = model.weight, model.average_loss * model.weight
        since = (loss - self._loss) / (weight - self._weight) if weight > self._weight else 0.0
        self._loss, self._weight = loss, weight
        state = leader(model.learner.experts) if self._mixed else f"{model.learner.lam:.4g}"
        settings, label = model.settings, f"{batch.labels[row]:.7g}"
        if settings.label_values is None:
            prediction = f"{score[0]:.4f}" if abs(score[0]) < 1e4 else narrow(score[0])
        else:
            decided = model.decide(score)[0]
            prediction = cut(decided) if settings.label_names else f"{decided:.7g}"
            label = cut(settings.class_names[int(batch.labels[row])]) if settings.label_names else label
        nonzeros = f"{batch.indptr[row + 1] - batch.indptr[row]}"
        cells = f"{model.examples:,}", narrow(since), narrow(model.average_loss), label, prediction, nonzeros, state
        self._console.print(in_columns(cells))
