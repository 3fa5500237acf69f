"""The terminal of a command: its streams and signals, messages, progress bars and tables."""

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any

import click

from giftrl.errors import InvalidInput
from giftrl.files import EXIT_REQUESTS, UNINTERRUPTED_BLOCKS


def take_streams() -> None:
    """Make the standard streams safe to use.

    A descriptor that was closed is opened on the null device: otherwise the next file that is opened would get it, and
    messages would end up in that file. What an encoding cannot say is escaped.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (for as long as the process lives)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def take_signals() -> None:
    """Have SIGTERM and Ctrl-C end the command at any moment in the same way, so that unfinished files are removed.

    Left to themselves, a KeyboardInterrupt while options are parsed would be an error of click, with the exit status 1.
    """

    def stop(number: int, frame: Any) -> None:
        EXIT_REQUESTS.append(128 + number)
        # The exception may leave an object of a library half made, whose __del__ then fails on what is missing. The
        # interpreter would print that as a traceback.
        sys.unraisablehook = lambda _: None
        if not UNINTERRUPTED_BLOCKS:
            raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as for a command in the background of a script
            signal.signal(number, stop)


def standard_output() -> IO[bytes]:
    """Standard output, for what a command was called for."""
    if sys.stdout is None:
        raise InvalidInput("output", "-", "standard output is closed", "leave it open, or give a file")
    sys.stdout.flush()
    return sys.stdout.buffer


def shares_terminal(output: str | None) -> bool:
    """True if an output, None for standard output, is on the terminal: a progress bar would be in its way."""
    return output is None and sys.stdout is not None and sys.stdout.isatty()


def settle_output() -> None:
    """Write what standard output still holds, and raise an error if that fails, for instance on a full disk."""
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_output() -> None:
    """Give up what standard output still holds: the interpreter would try once more when it ends, and complain."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_text(value: Any) -> str:
    """A value as JSON, with null for numbers that are not finite, which JSON has not.

    >>> json_text({"a": float("inf")})
    '{\\n  "a": null\\n}'
    """
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Messages on standard error, and numbers in them.


class PlainConsole:
    """Standard error that is no terminal: lines of text, and no bar."""

    is_terminal = False

    def print(self, text: str) -> None:
        click.echo(text, err=True)


def standard_error(quiet: bool) -> Any:
    """Standard error, for messages: a console, or lines of text if it is no terminal or nothing is to be shown."""
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
    """A number and what it counts.

    >>> counted(1, "row"), counted(20_000, "row"), counted(2, "pass", "passes")
    ('1 row', '20,000 rows', '2 passes')
    """
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


# The progress bar of every command: a line on standard error if that is a terminal, and nothing elsewhere.

#: The shortest time limit that is worth a bar, in seconds.
MIN_BAR_SECONDS = 0.5


class Bar:
    """A bar, how much is done, a few words, and the time that is left.

    It is shown in a ``with`` block and gone after it. Where the console is no terminal, nothing is shown at all.

    Args:
        console: where to show it, from :func:`standard_error`.
        said: the words; what is being done.
        steps: how many steps there are, for :meth:`step`; None if :meth:`move` says how much is done.
        seconds: the time limit of what is being done, for a bar that moves with the clock.
        clock: the current time in seconds; tests replace it.

    >>> with Bar(PlainConsole(), "counting", steps=2) as bar:
    ...     bar.step("one")
    ...     bar.step("two")
    >>> bar.shown
    False
    """

    def __init__(
        self,
        console: Any,
        said: str = "",
        *,
        steps: int | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.shown = console.is_terminal and (seconds is None or seconds >= MIN_BAR_SECONDS)
        self._steps, self._done = steps, -1  # the first step that is named is not done yet
        self._progress = _progress(console, clock, said, seconds) if self.shown else None

    def __enter__(self) -> "Bar":
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def move(self, fraction: float | None = None, said: str | None = None) -> None:
        """Show how much is done, from 0 to 1, if that is known; and other words, if there are any."""
        if self._progress is None:
            return
        changes: dict[str, Any] = {} if said is None else {"said": said}
        if fraction is not None:
            changes |= {"total": 1.0, "completed": fraction, "done": f"{fraction:4.0%}"}
        self._progress.update(self._progress.task_ids[0], **changes)

    def step(self, said: str) -> None:
        """Begin a step, so that those before it are done."""
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
        """A bar that is moved by the thread that draws it."""

        def get_renderables(self) -> Any:
            for task in self.tasks:
                task.completed = min(task.total or 0.0, task.elapsed or 0.0)
            return super().get_renderables()

    # What is printed on standard output goes there, and not to this console.
    shared: dict[str, Any] = {"console": console, "transient": True, "get_time": clock, "redirect_stdout": False}
    bar, words = BarColumn(bar_width=24), TextColumn("{task.fields[said]}", markup=False)
    if seconds is not None:
        progress: Progress = Clocked(bar, words, **shared)
    else:
        progress = Progress(bar, TextColumn("{task.fields[done]}"), words, TimeRemainingColumn(), **shared)
    progress.add_task("", total=seconds, done="", said=said)
    return progress


def proving(console: Any, seconds: float) -> Bar:
    """The bar of a search for a certificate that has so much time at most."""
    return Bar(console, f"looking for a proof, {seconds:g} s at most", seconds=seconds)


# Tables on the terminal.


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print rows of text in columns, each as wide as its widest cell.

    Args:
        head: the names of the columns.
        rows: the cells of each row.
        left: how many columns, from the first, are aligned to the left.

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
