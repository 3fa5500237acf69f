"""Signals that ask the service to end: it ends in order, and as well as if it had been told to."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from uvicorn.server import HANDLED_SIGNALS


@contextlib.contextmanager
def noted_signals() -> Iterator[list[int]]:
    """A list to which SIGTERM and Ctrl-C are added, for the block; nothing else comes of them.

    Once there was one, those that come after the block are ignored, as the process is about to end.

    >>> with noted_signals() as asked:
    ...     pass
    >>> asked
    []
    """
    asked: list[int] = []

    def note(number: int, frame: Any) -> None:
        asked.append(number)

    earlier = {each: signal.signal(each, note) for each in HANDLED_SIGNALS}
    try:
        yield asked
    finally:
        for each, handler in earlier.items():
            signal.signal(each, signal.SIG_IGN if asked else handler)
