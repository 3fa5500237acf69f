"""The progress bar of every command: a line on standard error where that is a terminal, and nothing elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import click

#: The narrowest piece of the clock that is worth a bar, in seconds.
SHORTEST = 0.5


class Bar:
    """A bar, how much is done, a few words, and the time that is left.

    It is shown in a ``with`` block and gone after it. Where the console is no terminal, nothing is shown at all.

    Args:
        console: where to show it, from :func:`giftrl.cli.progress.standard_error`.
        said: the words; what is being done.
        steps: how many steps there are, for :meth:`step`; None where :meth:`move` says how much is done.
        seconds: the time limit of what is being done, for a bar that moves with the clock.
        clock: the current time in seconds; tests replace it.

    >>> from giftrl.cli.progress import Lines
    >>> with Bar(Lines(), "counting", steps=2) as bar:
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
        self.shown = console.is_terminal and (seconds is None or seconds >= SHORTEST)
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
        """Print a line on standard output: above the bar, where both are on the terminal."""
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
